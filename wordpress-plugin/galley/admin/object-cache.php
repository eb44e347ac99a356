<?php
/**
 * The object cache in Site Health, on the settings page and in `wp galley object-cache`.
 *
 * WordPress recommends an object cache for large sites. Galley has one; a Redis or Valkey server on this machine could store another.
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

/**
 * Returns what the object cache has done, in words; empty if Galley does not say. Pure except for translations.
 *
 * @param mixed $figures `object_cache` of a site in `GET /status`.
 */
function object_cache_words( $figures ): string {
	if ( ! is_array( $figures ) || ( $figures['requests'] ?? 0 ) < 1 ) {
		return '';
	}
	$found = $figures['hits'] + $figures['sent_ahead'];
	/* translators: 1: a number, 2: a number, 3: a percentage, 4: a number, 5: a size */
	return sprintf( __( '%1$s requests, %2$s round trips each, %3$s of the values found, %4$s values in %5$s.', 'galley' ), number_format_i18n( $figures['requests'] ), number_format_i18n( $figures['round_trips'] / $figures['requests'], 1 ), percent( $found / max( 1, $found + $figures['misses'] ) ), number_format_i18n( $figures['entries'] ), size_format( $figures['bytes'] ) );
}

/**
 * Returns the state of the object cache in words. Pure except for translations.
 *
 * @param string $state From `object_cache_state()`.
 */
function object_cache_state_words( string $state ): string {
	switch ( $state ) {
		case 'connected':
			return __( 'The object cache of Galley is in use.', 'galley' );
		case 'away':
			return __( 'The drop-in is installed, but this request could not use the object cache: Galley is not reached, does not know the token, or has `object_cache = "off"`. WordPress works without it.', 'galley' );
		case 'other':
			return __( 'Another plugin provides the object cache (wp-content/object-cache.php). Galley does not touch it.', 'galley' );
		default:
			return __( 'WordPress reads everything from the database. Galley can keep what it has read, for pages that are not stored, for members and for the administration.', 'galley' );
	}
}

/**
 * Prints the section of the settings page.
 *
 * @param array|null $site The site in `GET /status`.
 */
function settings_object_cache( ?array $site ): void {
	$state = object_cache_state();
	printf( '<h2>%s</h2><p>%s %s</p>', esc_html__( 'Object cache', 'galley' ), esc_html( object_cache_state_words( $state ) ), esc_html( object_cache_words( $site['object_cache'] ?? null ) ) );
	if ( 'none' === $state && is_array( $site['object_cache'] ?? null ) ) {
		button_form( 'galley_object_cache', 'galley-object-cache', __( 'Switch the object cache on', 'galley' ), __( 'Install wp-content/object-cache.php? Transients that are stored in the database are deleted; plugins create them again.', 'galley' ) );
	} elseif ( 'connected' === $state || 'away' === $state ) {
		button_form( 'galley_object_cache_off', 'galley-object-cache-off', __( 'Switch the object cache off', 'galley' ) );
	}
}

function on_object_cache(): void {
	manage_or_refuse( 'galley_object_cache' );
	back( settings_url(), '' === install_drop_in() ? 'object-cache' : 'no-object-cache' );
}

function on_object_cache_off(): void {
	manage_or_refuse( 'galley_object_cache_off' );
	remove_drop_in();
	back( settings_url(), 'object-cache-off' );
}

function health_object_cache(): array {
	$state = object_cache_state();
	if ( 'connected' === $state || 'away' === $state ) {
		$status = call( 'GET', '/status' );
		$site   = own_site( $status['body']['sites'] ?? null, own_site_host() );
		$words  = object_cache_state_words( $state ) . ' ' . object_cache_words( $site['object_cache'] ?? null );
		return health_result( 'galley_object_cache', 'connected' === $state ? 'good' : 'recommended', __( 'Object cache of Galley', 'galley' ), $words );
	}
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
