<?php
/**
 * Shows what reached PHP, counts the runs of each path, and stops where files beside WordPress say so.
 *
 * Notes lie in `notes/` beside the folder of WordPress. Their names end with the path that is asked for, `/` written
 * as `_`: `runs` counts; `head` holds field lines to be sent; `hold` waits when the content has been read and nothing is
 * sent, `pause` before the end of the page, when the rest has left, `linger` when all has; `crash` and `break` end PHP by an
 * error at the first two of these points; `session` starts a PHP session and counts in it.
 */

declare(strict_types=1);

namespace Galley\Lab;

if ( PHP_SAPI === 'cli' ) {
	return;
}

function note( string $kind ): string {
	$path = explode( '?', $_SERVER['REQUEST_URI'] )[0];
	$kind = isset( $_SERVER['HTTP_GALLEY_FRAGMENT'] ) ? "fragment-$kind" : $kind;
	return dirname( ABSPATH ) . "/notes/$kind" . strtr( $path, '/', '_' );
}

function count_run(): int {
	$file = fopen( note( 'runs' ), 'c+' );
	flock( $file, LOCK_EX );
	$run = (int) stream_get_contents( $file ) + 1;
	rewind( $file );
	fwrite( $file, (string) $run );
	fclose( $file );
	return $run;
}

/** Says that it is here by one file and waits for another, if a third one wants that. */
function stop( string $wish, string $here, string $further ): void {
	if ( ! file_exists( note( $wish ) ) ) {
		return;
	}
	while ( 'pause' === $wish && ob_get_level() > 0 ) {
		ob_end_flush();
	}
	flush();
	touch( note( $here ) );
	for ( $tries = 0; $tries < 10000; $tries++ ) {
		clearstatcache();
		if ( file_exists( note( $further ) ) ) {
			return;
		}
		usleep( 2000 );
	}
	exit( 'nobody came' );
}

/** Calls what is not there, if a file wants that. */
function fall( string $wish ): void {
	if ( file_exists( note( $wish ) ) ) {
		a_function_that_a_plugin_took_away();
	}
}

/** Works on when the client has everything, as the scheduler does. */
function linger(): void {
	if ( file_exists( note( 'linger' ) ) ) {
		ignore_user_abort( true );
		fastcgi_finish_request();
		stop( 'linger', 'lingering', 'leave' );
	}
}

/** What the page shows of its request, in a comment that no value can end. */
function show(): void {
	$lines = array( 'query' => $_SERVER['QUERY_STRING'] ?? '', 'uri' => $_SERVER['REQUEST_URI'], 'method' => $_SERVER['REQUEST_METHOD'] );
	$lines += array( 'mobile' => wp_is_mobile() ? 'yes' : 'no', 'visits' => $_SESSION['visits'] ?? 'none' );
	foreach ( $_SERVER + $_COOKIE as $name => $value ) {
		if ( is_string( $value ) && ( isset( $_COOKIE[ $name ] ) || 0 === strpos( $name, 'HTTP_' ) ) ) {
			$lines[ $name ] = $value;
		}
	}
	echo "\n<!-- lab\n";
	foreach ( $lines as $name => $value ) {
		echo esc_html( "$name=$value" ), "\n";
	}
	echo "-->\n";
}

header( 'X-Lab-Run: ' . count_run() );
header( 'X-Lab-Query: ' . ( $_SERVER['QUERY_STRING'] ?? '' ) );
header( 'X-Lab-Cookie: ' . ( $_SERVER['HTTP_COOKIE'] ?? '' ) );
foreach ( file_exists( note( 'head' ) ) ? file( note( 'head' ), FILE_IGNORE_NEW_LINES ) : array() as $line ) {
	header( $line, false );
}
if ( file_exists( note( 'session' ) ) ) {
	session_start();
	$_SESSION['visits'] = ( $_SESSION['visits'] ?? 0 ) + 1;
}
add_action( 'template_redirect', fn() => stop( 'hold', 'held', 'go' ), 9 );
add_action( 'shutdown', __NAMESPACE__ . '\linger', 999 );
add_action( 'template_redirect', fn() => fall( 'crash' ), 8 );
add_action( 'wp_footer', fn() => fall( 'break' ), 997 );
add_action( 'wp_footer', fn() => stop( 'pause', 'paused', 'resume' ), 998 );
add_action( 'wp_footer', __NAMESPACE__ . '\show', 999 );
// All comments of the tests come from one address.
add_filter( 'comment_flood_filter', '__return_false', 99 );
// WordPress wants https for these.
add_filter( 'wp_is_application_passwords_available', '__return_true' );
