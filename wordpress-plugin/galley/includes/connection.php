<?php
/**
 * Finds the server's admin interface and sends requests to it.
 *
 * The requests use plain HTTP/1.1 over a Unix socket or a loopback port, with short timeouts and a limit on the size of the response. The
 * functions never throw and never print. The caller receives a status or an error and decides what to show.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

const MAX_RESPONSE_BYTES = 1048576;

/**
 * Returns the address and the token of the server's admin interface, or null if it is not configured.
 *
 * The sources are, in this order: constants, the file that `galley plugin install` writes, and the option of the settings page.
 *
 * @return array{address: string, token: string}|null
 */
function connection(): ?array {
	static $found = false;
	if ( false !== $found ) {
		return $found;
	}
	$found = null;
	if ( defined( 'GALLEY_ADMIN' ) ) {
		$found = clean_connection(
			array(
				'address' => GALLEY_ADMIN,
				'token'   => defined( 'GALLEY_TOKEN' ) ? GALLEY_TOKEN : '',
			)
		);
		return $found;
	}
	$file = WP_CONTENT_DIR . '/galley-connection.php';
	if ( is_readable( $file ) ) {
		$found = clean_connection( include $file );
	}
	if ( null === $found ) {
		$found = clean_connection( get_option( 'galley_connection' ) );
	}
	return $found;
}

/**
 * Validates the configured connection. Pure.
 *
 * @param mixed $raw Connection as read from the configuration.
 * @return array{address: string, token: string}|null
 */
function clean_connection( $raw ): ?array {
	if ( ! is_array( $raw ) || ! is_string( $raw['address'] ?? null ) ) {
		return null;
	}
	$address = trim( $raw['address'] );
	$token   = is_string( $raw['token'] ?? null ) ? trim( $raw['token'] ) : '';
	if ( null === socket_address( $address ) || preg_match( '/[\x00-\x20\x7f]/', $token ) ) {
		return null;
	}
	return array(
		'address' => $address,
		'token'   => $token,
	);
}

/**
 * Converts an address to the format of `stream_socket_client()`. Pure.
 *
 * @param string $address `unix:/path` or `http://host:port`.
 */
function socket_address( string $address ): ?string {
	if ( preg_match( '~^unix:(/[^\x00-\x1f]+)$~D', $address, $found ) ) {
		return 'unix://' . $found[1];
	}
	if ( preg_match( '~^http://([A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})/?$~D', $address, $found ) ) {
		return 'tcp://' . $found[1] . ':' . $found[2];
	}
	return null;
}

/**
 * Sends one request to the admin interface.
 *
 * @param string     $method  `GET` or `POST`.
 * @param string     $path    Path with the query string.
 * @param array|null $body    Body, sent as JSON.
 * @param float      $timeout Timeout in seconds for the whole request.
 * @return array{status: int, body: ?array, error: ?string} The status is 0 if there was no response.
 */
function call( string $method, string $path, ?array $body = null, float $timeout = 2.0 ): array {
	$connection = connection();
	if ( null === $connection ) {
		return failed_call( __( 'the connection to Galley is not set up', 'galley' ) );
	}
	$address = (string) socket_address( $connection['address'] );
	$until   = microtime( true ) + $timeout;
	// phpcs:ignore WordPress.PHP.NoSilencedErrors.Discouraged -- the error is returned.
	$stream = @stream_socket_client( $address, $number, $error, $timeout );
	if ( false === $stream ) {
		/* translators: %s: what the operating system says */
		return failed_call( sprintf( __( 'Galley cannot be reached: %s', 'galley' ), $error ) );
	}
	$json = null === $body ? '' : (string) wp_json_encode( $body );
	$sent = send_all( $stream, request_text( $method, $path, $json, $connection['token'] ), $until );
	$text = $sent ? read_response( $stream, $until ) : '';
	// phpcs:ignore WordPress.WP.AlternativeFunctions.file_system_operations_fclose -- a socket.
	fclose( $stream );
	return parse_response( $text );
}

/**
 * Returns the text of a request. Pure.
 */
function request_text( string $method, string $path, string $json, string $token ): string {
	$path  = preg_match( '~^/[\x21-\x7e]*$~D', $path ) ? $path : '/';
	$head  = ( 'POST' === $method ? 'POST' : 'GET' ) . " $path HTTP/1.1\r\nHost: galley\r\nConnection: close\r\nAccept: application/json\r\n";
	$head .= '' === $token ? '' : "Authorization: Bearer $token\r\n";
	$head .= '' === $json ? '' : "Content-Type: application/json\r\nContent-Length: " . strlen( $json ) . "\r\n";
	return "$head\r\n$json";
}

/**
 * Parses the text of a response. Pure.
 *
 * @return array{status: int, body: ?array, error: ?string}
 */
function parse_response( string $text ): array {
	$parts = explode( "\r\n\r\n", $text, 2 );
	if ( ! isset( $parts[1] ) || ! preg_match( '~^HTTP/1\.[01] (\d{3})~', $parts[0], $found ) ) {
		return failed_call( __( 'Galley did not respond in time', 'galley' ) );
	}
	$content = preg_match( '/^transfer-encoding:\s*chunked\s*$/mi', $parts[0] ) ? unchunked( $parts[1] ) : $parts[1];
	$body    = json_decode( $content, true );
	$status  = (int) $found[1];
	$error   = null;
	if ( 200 !== $status ) {
		/* translators: %d: HTTP status */
		$error = is_string( $body['error'] ?? null ) ? $body['error'] : sprintf( __( 'Galley responded with status %d', 'galley' ), $status );
	}
	return array(
		'status' => $status,
		'body'   => is_array( $body ) ? $body : null,
		'error'  => $error,
	);
}

/**
 * Decodes a chunked body. A truncated body ends where the data ends. Pure.
 */
function unchunked( string $body ): string {
	$plain = '';
	while ( preg_match( '/^([0-9a-fA-F]{1,7})[^\r\n]*\r\n/', $body, $found ) && 0 !== hexdec( $found[1] ) ) {
		$size   = (int) hexdec( $found[1] );
		$plain .= substr( $body, strlen( $found[0] ), $size );
		$body   = (string) substr( $body, strlen( $found[0] ) + $size + 2 );
	}
	return $plain;
}

/**
 * Returns the result of a failed call.
 *
 * @return array{status: int, body: ?array, error: ?string}
 */
function failed_call( string $error ): array {
	return array(
		'status' => 0,
		'body'   => null,
		'error'  => $error,
	);
}

/**
 * Writes the whole text, or gives up at the deadline.
 *
 * @param resource $stream An open socket.
 */
function send_all( $stream, string $text, float $until ): bool {
	stream_set_blocking( $stream, false );
	while ( '' !== $text ) {
		$left = $until - microtime( true );
		if ( $left <= 0 || ! wait_for_stream( $stream, 'write', $left ) ) {
			return false;
		}
		// phpcs:ignore WordPress.PHP.NoSilencedErrors.Discouraged,WordPress.WP.AlternativeFunctions.file_system_operations_fwrite -- the peer may disconnect.
		$written = @fwrite( $stream, $text );
		if ( false === $written || 0 === $written ) {
			return false;
		}
		$text = (string) substr( $text, $written );
	}
	return true;
}

/**
 * Reads a response to its end, within the limits of time and length.
 *
 * @param resource $stream An open socket.
 */
function read_response( $stream, float $until ): string {
	$text = '';
	while ( strlen( $text ) < MAX_RESPONSE_BYTES && ! feof( $stream ) ) {
		$left = $until - microtime( true );
		if ( $left <= 0 || ! wait_for_stream( $stream, 'read', $left ) ) {
			break;
		}
		// phpcs:ignore WordPress.WP.AlternativeFunctions.file_system_operations_fread -- a socket.
		$piece = fread( $stream, 65536 );
		if ( false === $piece ) {
			break;
		}
		$text .= $piece;
		if ( is_whole( $text ) ) {
			break;
		}
	}
	return $text;
}

/**
 * Checks whether a response contains the whole body that its headers announce. Pure.
 */
function is_whole( string $text ): bool {
	$end = strpos( $text, "\r\n\r\n" );
	if ( false === $end || ! preg_match( '/^content-length:\s*(\d{1,9})\s*$/mi', substr( $text, 0, $end + 2 ), $found ) ) {
		return false;
	}
	return strlen( $text ) >= $end + 4 + (int) $found[1];
}

/**
 * Waits until a stream is ready for reading or writing, or until the timeout.
 *
 * @param resource $stream An open socket.
 */
function wait_for_stream( $stream, string $what, float $seconds ): bool {
	$read   = 'read' === $what ? array( $stream ) : null;
	$write  = 'write' === $what ? array( $stream ) : null;
	$except = null;
	// phpcs:ignore WordPress.PHP.NoSilencedErrors.Discouraged -- a signal may interrupt the call.
	return (bool) @stream_select( $read, $write, $except, (int) $seconds, (int) ( fmod( $seconds, 1 ) * 1000000 ) );
}
