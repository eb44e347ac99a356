<?php
/**
 * The object cache in Site Health, on the settings page and in `wp galley object-cache`.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

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
	$each  = array();
	foreach ( array( 'round_trips', 'queries', 'saved_queries' ) as $name ) {
		$each[] = number_format_i18n( ( $figures[ $name ] ?? 0 ) / $figures['requests'], 1 );
	}
	/* translators: 1: a number, 2: a number, 3: a number, 4: a number, 5: a percentage, 6: a number, 7: a size */
	return sprintf( __( '%1$s requests with on average %2$s round trips, %3$s database queries and %4$s saved ones. %5$s of the values found, %6$s values in %7$s.', 'galley' ), number_format_i18n( $figures['requests'] ), $each[0], $each[1], $each[2], percent( $found / max( 1, $found + $figures['misses'] ) ), number_format_i18n( $figures['entries'] ), size_format( $figures['bytes'] ) );
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
	return health_result( 'galley_object_cache', 'good', __( 'WordPress uses no object cache', 'galley' ), object_cache_state_words( $state ) );
}
