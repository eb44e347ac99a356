<?php
/**
 * Site Health: an object cache, if a Redis or Valkey server on this machine can store it.
 *
 * WordPress recommends an object cache for large sites. The test finds the address of the engine for the site owner.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Sockets of the engine in packages and hosting panels, and its usual port. `galley doctor` checks the same addresses. */
const ENGINE_ADDRESSES = array(
	'/run/redis/redis-server.sock',
	'/run/redis/redis.sock',
	'/run/redis.sock',
	'/run/valkey/valkey-server.sock',
	'/run/valkey/valkey.sock',
	'/run/valkey.sock',
	'127.0.0.1:6379',
);

/** Timeout for an answer, in seconds. */
const ENGINE_TIMEOUT = 0.2;

/**
 * Returns the first address at which an engine answers, or an empty string. The user of PHP opens the connection, as for an object cache.
 *
 * @param string[] $addresses Paths of sockets, or hosts with ports.
 */
function object_engine( array $addresses ): string {
	foreach ( $addresses as $address ) {
		if ( engine_answers( $address ) ) {
			return $address;
		}
	}
	return '';
}

function engine_answers( string $address ): bool {
	$scheme = is_socket_path( $address ) ? 'unix' : 'tcp';
	// phpcs:ignore WordPress.PHP.NoSilencedErrors.Discouraged -- that nothing listens is an answer.
	$stream = @stream_socket_client( "$scheme://$address", $code, $message, ENGINE_TIMEOUT );
	if ( false === $stream ) {
		return false;
	}
	stream_set_timeout( $stream, 0, (int) ( ENGINE_TIMEOUT * 1000000 ) );
	fwrite( $stream, "PING\r\n" ); // phpcs:ignore WordPress.WP.AlternativeFunctions -- a socket, not a file.
	$reply = (string) fread( $stream, 16 ); // phpcs:ignore WordPress.WP.AlternativeFunctions -- a socket, not a file.
	fclose( $stream ); // phpcs:ignore WordPress.WP.AlternativeFunctions -- a socket, not a file.
	// An engine with a password answers that authentication is required.
	return 0 === strpos( $reply, '+PONG' ) || 0 === strpos( $reply, '-NOAUTH' );
}

function is_socket_path( string $address ): bool {
	return 0 === strpos( $address, '/' );
}

/**
 * Returns the lines of wp-config.php that make the plugin Redis Object Cache use an engine. Pure.
 */
function engine_settings( string $address ): string {
	if ( is_socket_path( $address ) ) {
		return sprintf( "define( 'WP_REDIS_SCHEME', 'unix' ); define( 'WP_REDIS_PATH', '%s' );", $address );
	}
	$place = explode( ':', $address );
	return sprintf( "define( 'WP_REDIS_HOST', '%s' ); define( 'WP_REDIS_PORT', %d );", $place[0], (int) end( $place ) );
}

function health_object_cache(): array {
	if ( wp_using_ext_object_cache() ) {
		return health_result( 'galley_object_cache', 'good', __( 'WordPress uses an object cache', 'galley' ), __( 'PHP keeps results of database queries between requests.', 'galley' ) );
	}
	$engine = object_engine( ENGINE_ADDRESSES );
	if ( '' === $engine ) {
		return health_result( 'galley_object_cache', 'good', __( 'WordPress uses no object cache', 'galley' ), __( 'PHP can connect to no Redis or Valkey of this server, which would hold one. A small site does not need it.', 'galley' ) );
	}
	return health_result(
		'galley_object_cache',
		'recommended',
		__( 'An object cache would save database queries', 'galley' ),
		/* translators: 1: an address, 2: lines of PHP */
		sprintf( __( 'A Redis or Valkey answers at %1$s. Add to wp-config.php: %2$s Then install the plugin Redis Object Cache and switch its object cache on.', 'galley' ), $engine, engine_settings( $engine ) )
	);
}
