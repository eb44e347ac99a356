<?php
/**
 * Leaves the scheduled tasks to the server, as long as it says that it runs them.
 *
 * `Galley-Cron` comes with everything that Galley passes on while its own runs of wp-cron.php go well, and is taken from
 * strangers. The constant holds for the request at hand only: without Galley in front, visits start the tasks as ever.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Blogs of a network that one run looks at; their schedules are one query each. */
const MOST_BLOGS = 500;

if ( server_runs_tasks() && ! defined( 'DISABLE_WP_CRON' ) ) {
	// WordPress looks at it when everything is loaded, or when the request ends (since 6.9).
	define( 'DISABLE_WP_CRON', true );
}
if ( 'run' === cron_word() && is_multisite() && is_main_site() ) {
	// wp-cron.php may end before any other action where the main blog has nothing to do.
	add_action( 'shutdown', __NAMESPACE__ . '\\wake_blogs', 0 );
}

/**
 * What the server says of scheduled tasks: `kept`, `run` in its own runs, or nothing.
 */
function cron_word(): string {
	return passes_through() ? (string) ( $_SERVER['HTTP_GALLEY_CRON'] ?? '' ) : ''; // phpcs:ignore WordPress.Security -- compared only.
}

/**
 * Whether the server runs the tasks, so that visits need not.
 */
function server_runs_tasks(): bool {
	return in_array( cron_word(), array( 'kept', 'run' ), true );
}

/**
 * Whether the pages that a task changes are purged at once: who runs the tasks says so, and what they change has a way to the server. PHP-FPM
 * answers before the tasks begin, so their orders go over the admin interface or wait for the next page.
 */
function tasks_are_heard(): bool {
	return ! server_runs_tasks() || connection() || ! function_exists( 'fastcgi_finish_request' );
}

/**
 * The server knows the main blog's address: the others of the network are called from here, as WordPress calls itself.
 */
function wake_blogs(): void {
	$blogs = get_sites(
		array(
			'fields'       => 'ids',
			'number'       => MOST_BLOGS,
			'network_id'   => get_current_network_id(),
			'site__not_in' => array( get_main_site_id() ),
			'archived'     => 0,
			'spam'         => 0,
			'deleted'      => 0,
		)
	);
	foreach ( $blogs as $blog ) {
		switch_to_blog( (int) $blog );
		if ( wp_get_ready_cron_jobs() ) {
			// The lock is taken by whoever runs; nobody waits for the answer.
			wp_remote_post(
				site_url( 'wp-cron.php?doing_wp_cron' ),
				array(
					'timeout'   => 0.01,
					'blocking'  => false,
					'sslverify' => apply_filters( 'https_local_ssl_verify', false ), // phpcs:ignore WordPress.NamingConventions -- WordPress's own.
				)
			);
		}
		restore_current_blog();
	}
}
