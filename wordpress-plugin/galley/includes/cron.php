<?php
/**
 * Leaves the scheduled tasks to the server, as long as the server announces that it runs them.
 *
 * Galley adds `Galley-Cron` to every request that it forwards, while its runs of wp-cron.php succeed, and removes this header from requests
 * of clients. The constant applies only to the current request. Without Galley in front of the site, visits start the tasks as usual.
 *
 * WordPress schedules the publication of a post for a specific second. The plugin announces this time, so that the server runs the tasks then
 * and not up to a minute later.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Maximum number of times that are announced at once. The plugin announces further times after the first of them. */
const MAX_APPOINTMENTS = 8;

/** Schedules before the first change of this request, by blog. */
$GLOBALS['galley_tasks'] = array();

/** Maximum number of blogs of a network that one run checks. The schedule of each blog requires one query. */
const MAX_BLOGS = 500;

if ( server_runs_tasks() && ! defined( 'DISABLE_WP_CRON' ) ) {
	// WordPress reads the constant when everything is loaded, or when the request ends (since 6.9).
	define( 'DISABLE_WP_CRON', true );
}
add_action( 'update_option_cron', __NAMESPACE__ . '\\on_rescheduled' );
add_action( 'add_option_cron', __NAMESPACE__ . '\\on_rescheduled' );
add_action( 'update_option_cron', __NAMESPACE__ . '\\note_tasks', 10, 2 );
add_action( 'shutdown', __NAMESPACE__ . '\\announce_rest', PHP_INT_MAX );
if ( is_described() ) {
	add_filter( 'pre_get_scheduled_event', __NAMESPACE__ . '\\note_task_read', PHP_INT_MAX, 3 );
}
if ( 'run' === cron_word() && is_multisite() && is_main_site() ) {
	// If the main blog has no due tasks, wp-cron.php may end before any other action runs.
	add_action( 'shutdown', __NAMESPACE__ . '\\wake_blogs', 0 );
}

/**
 * Returns the server's announcement about scheduled tasks: `kept`, `run` during the server's runs, or an empty string.
 */
function cron_word(): string {
	return passes_through() ? (string) ( $_SERVER['HTTP_GALLEY_CRON'] ?? '' ) : ''; // phpcs:ignore WordPress.Security -- compared only.
}

/**
 * Checks whether the server runs the tasks, so that visits do not need to start them.
 */
function server_runs_tasks(): bool {
	return in_array( cron_word(), array( 'kept', 'run' ), true );
}

/**
 * Checks whether the purges of scheduled tasks reach the server immediately.
 *
 * If the server runs the tasks, PHP-FPM sends the response before the tasks start. Their purges therefore need the admin interface. Without it,
 * they wait for the next page.
 */
function tasks_are_acknowledged(): bool {
	return ! server_runs_tasks() || connection() || ! function_exists( 'fastcgi_finish_request' );
}

/**
 * Returns the milliseconds from now until the tasks that must run at their exact second, such as the publication of posts.
 *
 * @return int[]
 */
function appointments(): array {
	/**
	 * Filters the tasks that run at their exact second. Other tasks wait for the next run of the server, at most one minute.
	 */
	$names = (array) apply_filters( 'galley_punctual_tasks', array( 'publish_future_post' ) );
	$crons = _get_cron_array();
	return due_in( is_array( $crons ) ? $crons : array(), $names, microtime( true ) );
}

/**
 * Returns the same milliseconds for a given schedule of WordPress. Pure.
 *
 * The function ignores overdue tasks and leaves them to the next run, because some of them may never succeed.
 *
 * @param array    $crons Schedule of WordPress: tasks by time and name.
 * @param string[] $names Names of the tasks.
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
	return array_slice( $due, 0, MAX_APPOINTMENTS );
}

/**
 * Announces these times in the response headers, before the headers are sent. The server runs the tasks only of the main blog of a network.
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
 * Announces these times over the admin interface if no response header contained them: at the end of the server's run, and at the end of a
 * command that has scheduled a task.
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
 * Adds the tag of a task that code asks for while it renders a page or answers at an address of its own, as REST does, and another one if the task is
 * not scheduled. Before that, plugins ask for their tasks on each page, to schedule what is missing.
 */
function note_task_read( $event, $hook = '', $arguments = array() ) {
	// An answer that comes from elsewhere depends on no schedule of WordPress, and WordPress does not read its arguments then.
	if ( null === $event && ( did_action( 'template_redirect' ) || doing_action( 'parse_request' ) ) ) {
		$key = md5( serialize( $arguments ) ); // phpcs:ignore WordPress.PHP.DiscouragedPHPFunctions -- as in WordPress.
		tag( 'cr.' . word( (string) $hook ) );
		foreach ( (array) _get_cron_array() as $tasks ) {
			if ( isset( $tasks[ $hook ][ $key ] ) ) {
				return $event;
			}
		}
		tag( 'cm.' . word( (string) $hook ) );
	}
	return $event;
}

/**
 * Records the schedule before the first change of this request, and queues purges of the pages that asked for tasks that differ at its end.
 */
function note_tasks( $old, $new = null ): void {
	$blog  = get_current_blog_id();
	$until = wp_doing_cron() ? time() : 0;
	if ( ! isset( $GLOBALS['galley_tasks'][ $blog ] ) && ! array_filter( changed_tasks( (array) $old, (array) $new, $until ) ) ) {
		return;
	}
	$GLOBALS['galley_tasks'][ $blog ] = $GLOBALS['galley_tasks'][ $blog ] ?? (array) $old;
	later(
		'tasks',
		static function () use ( $blog, $until ): void {
			list( $changed, $new ) = changed_tasks( $GLOBALS['galley_tasks'][ $blog ], (array) get_option( 'cron' ), $until );
			unset( $GLOBALS['galley_tasks'][ $blog ] );
			$tags = array();
			foreach ( array_merge( $changed, $new ) as $hook ) {
				// A page that schedules what is missing changes only pages that found it missing.
				$tags[] = blog_prefix() . ( is_shared() && ! in_array( $hook, $changed, true ) ? 'cm.' : 'cr.' ) . word( $hook );
			}
			queue_observed( without_busy( $tags ) );
		}
	);
}

/**
 * Returns the names of tasks that were changed, and of those that are only new. A task that was due has run. Pure.
 *
 * @param array $old   Schedule of WordPress: tasks by time, name and hash of their arguments.
 * @param array $new   The same now.
 * @param int   $until Tasks up to this time have run.
 * @return array{string[], string[]}
 */
function changed_tasks( array $old, array $new, int $until ): array {
	$times = array();
	foreach ( array( $old, $new ) as $at => $schedule ) {
		foreach ( array_filter( $schedule, 'is_array' ) as $time => $names ) {
			foreach ( array_filter( $names, 'is_array' ) as $name => $tasks ) {
				foreach ( array_keys( $tasks ) as $key ) {
					$times[ $name ][ $key ][ $at ][] = (int) $time;
				}
			}
		}
	}
	$found = array( array(), array() );
	foreach ( $times as $name => $tasks ) {
		foreach ( $tasks as $both ) {
			$was = $both[0] ?? array();
			if ( ( $was ? min( $was ) : PHP_INT_MAX ) > $until && $was !== ( $both[1] ?? array() ) ) {
				$found[ $was ? 0 : 1 ][] = (string) $name;
			}
		}
	}
	return array_map( 'array_values', array_map( 'array_unique', $found ) );
}

/**
 * Notes that WordPress has written its schedule.
 */
function on_rescheduled(): void {
	$GLOBALS['galley_rescheduled'] = true;
	unset( $GLOBALS['galley_announced'] );
}

/**
 * Starts the due tasks of the other blogs of a network. The server knows only the address of the main blog. The plugin therefore requests
 * wp-cron.php of the other blogs in the same way as WordPress does.
 */
function wake_blogs(): void {
	$blogs = get_sites(
		array(
			'fields'       => 'ids',
			'number'       => MAX_BLOGS,
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
			// The request that runs the tasks acquires the lock. The plugin does not wait for its response.
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
