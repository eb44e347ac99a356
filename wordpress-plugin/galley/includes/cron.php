<?php
/**
 * Leaves the scheduled tasks to the server, as long as it says that it runs them.
 *
 * `Galley-Cron` comes with everything that Galley passes on while its own runs of wp-cron.php go well, and is taken from
 * strangers. The constant applies to the current request only: without Galley in front, visits start the tasks as usual.
 *
 * Posts are published at a second that WordPress's table of tasks names. The plugin announces it, so that the server runs the tasks
 * then and not up to a minute later.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Moments that are announced: more are announced after the first of them. */
const MOST_APPOINTMENTS = 8;

/** Blogs of a network that one run looks at; their schedules are one query each. */
const MOST_BLOGS = 500;

if ( server_runs_tasks() && ! defined( 'DISABLE_WP_CRON' ) ) {
	// WordPress looks at it when everything is loaded, or when the request ends (since 6.9).
	define( 'DISABLE_WP_CRON', true );
}
add_action( 'update_option_cron', __NAMESPACE__ . '\\on_rescheduled' );
add_action( 'add_option_cron', __NAMESPACE__ . '\\on_rescheduled' );
add_action( 'shutdown', __NAMESPACE__ . '\\announce_rest', PHP_INT_MAX );
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
 * answers before the tasks begin, so their purges go over the admin interface or wait for the next page.
 */
function tasks_are_acknowledged(): bool {
	return ! server_runs_tasks() || connection() || ! function_exists( 'fastcgi_finish_request' );
}

/**
 * Milliseconds from now to what WordPress's scheduler has to do at its second: to publish posts.
 *
 * @return int[]
 */
function appointments(): array {
	/**
	 * The tasks that are run at their second. Others wait for the server's next run, a minute at most.
	 */
	$names = (array) apply_filters( 'galley_punctual_tasks', array( 'publish_future_post' ) );
	$crons = _get_cron_array();
	return due_in( is_array( $crons ) ? $crons : array(), $names, microtime( true ) );
}

/**
 * The same of WordPress's table of tasks. Pure.
 *
 * What should have been done is left to the next run: it may be such as cannot be done.
 *
 * @param array    $crons Of WordPress: time to name to tasks.
 * @param string[] $names Of tasks.
 * @param float    $now   Unix time.
 * @return int[]
 */
function due_in( array $crons, array $names, float $now ): array {
	$names = array_fill_keys( $names, true );
	$due   = array();
	foreach ( $crons as $time => $tasks ) {
		if ( (int) $time > $now && is_array( $tasks ) && array_intersect_key( $tasks, $names ) ) {
			$due[] = (int) ceil( ( (int) $time - $now ) * 1000 );
		}
	}
	sort( $due );
	return array_slice( $due, 0, MOST_APPOINTMENTS );
}

/**
 * Announces them in the head that is leaving. Only the main blog of a network has a run of the server's own.
 */
function announce_appointments(): void {
	if ( headers_sent() || ! did_action( 'wp_loaded' ) || ! is_main_site() ) {
		return;
	}
	$due = appointments();
	if ( $due || isset( $GLOBALS['galley_rescheduled'] ) ) {
		header( 'Galley-Cron: ' . ( $due ? implode( ',', $due ) : 'none' ) );
	}
	$GLOBALS['galley_announced'] = true;
}

/**
 * Announces them over the admin interface, where no head carried them: at the end of the server's own run, and of a command line that
 * scheduled something.
 */
function announce_rest(): void {
	$is_news = isset( $GLOBALS['galley_rescheduled'] ) && empty( $GLOBALS['galley_announced'] );
	if ( ( ! $is_news && 'run' !== cron_word() ) || ! connection() || ! is_main_site() ) {
		return;
	}
	$due = appointments();
	if ( ! $due && ! $is_news ) {
		return;
	}
	$body = array(
		'site'   => own_site_host(),
		'due_ms' => $due,
	);
	call_for_site( '/cron', $body, 1.0 );
}

/**
 * WordPress has written its table of tasks.
 */
function on_rescheduled(): void {
	$GLOBALS['galley_rescheduled'] = true;
	unset( $GLOBALS['galley_announced'] );
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
			// The request that runs the tasks takes the lock; nobody waits for its response.
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
