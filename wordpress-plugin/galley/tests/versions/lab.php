<?php
/**
 * Must-use plugin for the tests with other versions. Records every notice that the plugin causes, whichever code raises it, and logs
 * in an administrator by a request header field.
 *
 * @package Galley
 */

const LAB_NOTES = WP_CONTENT_DIR . '/lab-notes.txt';

function lab_note( string $kind, string $text, string $file = '', int $line = 0 ): void {
	file_put_contents( LAB_NOTES, "$kind: $text in " . basename( dirname( $file ) ) . '/' . basename( $file ) . ":$line\n", FILE_APPEND );
}

function lab_is_ours( string $file ): bool {
	return false !== strpos( $file, '/plugins/galley/' );
}

/**
 * Records notices of PHP in a file of the plugin, or in a function that it called directly.
 */
set_error_handler(
	static function ( int $level, string $text, string $file = '', int $line = 0 ): bool {
		$by = debug_backtrace( DEBUG_BACKTRACE_IGNORE_ARGS, 3 );
		if ( ! ( error_reporting() & $level ) ) {
			return false;
		}
		foreach ( array_merge( array( array( 'file' => $file, 'line' => $line ) ), array_slice( $by, 1 ) ) as $frame ) {
			if ( lab_is_ours( $frame['file'] ?? '' ) ) {
				lab_note( "PHP $level", $text, $frame['file'], $frame['line'] ?? 0 );
				break;
			}
		}
		return true;
	}
);

/**
 * Records notices of WordPress about deprecated or incorrect calls.
 */
foreach ( array( 'deprecated_function_run', 'deprecated_argument_run', 'deprecated_hook_run', 'doing_it_wrong_run' ) as $lab_action ) {
	add_action(
		$lab_action,
		static function ( $name ) use ( $lab_action ): void {
			foreach ( debug_backtrace( DEBUG_BACKTRACE_IGNORE_ARGS ) as $frame ) {
				if ( ( $frame['function'] ?? '' ) === $name && lab_is_ours( $frame['file'] ?? '' ) ) {
					lab_note( $lab_action, (string) $name, $frame['file'], $frame['line'] ?? 0 );
				}
			}
		}
	);
}

register_shutdown_function(
	static function (): void {
		$error = error_get_last();
		if ( $error && ( $error['type'] & ( E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_RECOVERABLE_ERROR ) ) ) {
			lab_note( 'PHP ended', $error['message'], $error['file'], $error['line'] );
		}
	}
);

function lab_user(): int {
	return 'admin' === ( $_SERVER['HTTP_LAB_USER'] ?? '' ) ? 1 : 0;
}

add_filter(
	'determine_current_user',
	static function ( $user ) {
		return lab_user() ? lab_user() : $user;
	},
	100
);
// A user logged in by header field has no nonce.
add_filter(
	'rest_authentication_errors',
	static function ( $result ) {
		return lab_user() ? true : $result;
	},
	1000
);

if ( ! function_exists( 'auth_redirect' ) ) {
	function auth_redirect(): void {
		if ( ! is_user_logged_in() ) {
			wp_die( 'not logged in' );
		}
	}
}
