<?php
/**
 * A must-use plugin of the exactness runs whose edits are PHP scripts: runs a script of EXACTNESS_SCRIPTS inside the request that a
 * program or a person would send. The site answers on this machine only and lives for one run.
 *
 * It also loads the generated plugin, if there is one, and lets a page wait while it is generated.
 */

declare(strict_types=1);

namespace Galley\Exactness\Scripts;

const DONE = 'the script has ended';

add_action( 'wp_ajax_exact_script', __NAMESPACE__ . '\\answer' );
add_action( 'wp_ajax_nopriv_exact_script', __NAMESPACE__ . '\\answer' );
add_action( 'admin_post_exact_script', __NAMESPACE__ . '\\redirect' );
add_action( 'rest_api_init', __NAMESPACE__ . '\\route' );
add_action( 'template_redirect', __NAMESPACE__ . '\\answer_link', 0 );
add_filter( 'pre_get_ready_cron_jobs', __NAMESPACE__ . '\\due_script' );
add_action( 'exact_script_task', __NAMESPACE__ . '\\run' );
load_generated();

/** Runs a script. It has no variables but `$wpdb`. */
function run( string $name ): void {
	( static function () use ( $name ): void {
		global $wpdb;
		require EXACTNESS_SCRIPTS . '/' . basename( $name ) . '.php';
	} )();
}

/** The script that the request names. */
function wanted(): string {
	return sanitize_file_name( (string) wp_unslash( $_REQUEST['exact_script'] ?? '' ) );
}

function answer(): void {
	run( wanted() );
	wp_die( esc_html( DONE ), '', array( 'response' => 200 ) );
}

function redirect(): void {
	run( wanted() );
	wp_safe_redirect( home_url( '/' ) );
	exit;
}

function route(): void {
	register_rest_route(
		'exact/v1',
		'/script',
		array(
			'methods'             => 'POST',
			'permission_callback' => static function (): bool {
				return current_user_can( 'manage_options' );
			},
			'callback'            => static function (): string {
				run( wanted() );
				return DONE;
			},
		)
	);
}

/** A link that changes something: its response is not stored. */
function answer_link(): void {
	if ( '' !== wanted() ) {
		nocache_headers();
		run( wanted() );
		exit( esc_html( DONE ) );
	}
}

/** A task of wp-cron.php that is due at once, so that nothing need be written to plan it. */
function due_script( $jobs ) {
	$name = wp_doing_cron() ? wanted() : '';
	if ( '' === $name ) {
		return $jobs;
	}
	$task = array( 'schedule' => false, 'args' => array( $name ) );
	return array( time() - 60 => array( 'exact_script_task' => array( md5( $name ) => $task ) ) );
}

/** The file EXACTNESS_NOTES/generated has two lines: the folder of the plugin, and `early` or `late`. */
function load_generated(): void {
	$file = EXACTNESS_NOTES . '/generated';
	if ( ! is_file( $file ) ) {
		return;
	}
	list( $folder, $when ) = explode( "\n", (string) file_get_contents( $file ) );
	if ( 'early' === $when ) {
		require "$folder/plugin.php";
		return;
	}
	add_action(
		'plugins_loaded',
		static function () use ( $folder ): void {
			require "$folder/plugin.php";
		},
		0
	);
}

/** Waits if the run wants an edit to happen now, while this page is being generated. */
function wait_for_edit(): void {
	$file = EXACTNESS_NOTES . '/hold';
	if ( 'shared' !== ( $_SERVER['HTTP_GALLEY_REQUEST'] ?? '' ) || ! is_file( $file ) ) {
		return;
	}
	if ( file_get_contents( $file ) !== $_SERVER['REQUEST_URI'] ) {
		return;
	}
	touch( EXACTNESS_NOTES . '/held' );
	for ( $wait = 0; $wait < 4000 && is_file( $file ); $wait++ ) {
		usleep( 5000 );
		clearstatcache();
	}
}

/** Ends this process as a crash or the kernel does. */
function kill(): void {
	posix_kill( getmypid(), SIGKILL_NUMBER );
	sleep( 10 );
}

const SIGKILL_NUMBER = 9;
