<?php
/**
 * Prints the request as PHP received it, counts the PHP runs per path, and lets tests control PHP through files.
 *
 * These notes are files in `notes/`, next to the directory of WordPress. Their names end with the requested path, in which `_`
 * replaces `/`. `runs` contains the count. `head` contains header lines to send. `hold` makes PHP wait after it has read the
 * content and before it sends anything, `pause` before the end of the page, after it has sent the rest, and `linger` after it has
 * sent everything. `crash` and `break` make PHP fail at the first two of these points. `session` starts a PHP session that
 * counts visits.
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

/** If the note `$request` exists, creates the note `$reached` and waits for the note `$resume`. */
function wait_at( string $request, string $reached, string $resume ): void {
	if ( ! file_exists( note( $request ) ) ) {
		return;
	}
	while ( 'pause' === $request && ob_get_level() > 0 ) {
		ob_end_flush();
	}
	flush();
	touch( note( $reached ) );
	for ( $tries = 0; $tries < 10000; $tries++ ) {
		clearstatcache();
		if ( file_exists( note( $resume ) ) ) {
			return;
		}
		usleep( 2000 );
	}
	exit( 'no test resumed this request' );
}

/** If the note `$request` exists, ends PHP with a fatal error. */
function fail_at( string $request ): void {
	if ( file_exists( note( $request ) ) ) {
		an_undefined_function();
	}
}

/** Keeps the worker busy after the response is complete, as wp-cron.php does. */
function linger(): void {
	if ( file_exists( note( 'linger' ) ) ) {
		ignore_user_abort( true );
		fastcgi_finish_request();
		wait_at( 'linger', 'lingering', 'leave' );
	}
}

/** Prints the request in an HTML comment, with escaped values. */
function print_request(): void {
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
add_action( 'template_redirect', fn() => wait_at( 'hold', 'held', 'go' ), 9 );
add_action( 'shutdown', __NAMESPACE__ . '\linger', 999 );
add_action( 'template_redirect', fn() => fail_at( 'crash' ), 8 );
add_action( 'wp_footer', fn() => fail_at( 'break' ), 997 );
add_action( 'wp_footer', fn() => wait_at( 'pause', 'paused', 'resume' ), 998 );
add_action( 'wp_footer', __NAMESPACE__ . '\print_request', 999 );
// All comments in the tests come from one IP address.
add_filter( 'comment_flood_filter', '__return_false', 99 );
// By default WordPress offers application passwords only over HTTPS.
add_filter( 'wp_is_application_passwords_available', '__return_true' );
