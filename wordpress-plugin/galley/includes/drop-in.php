<?php
/**
 * Installs and removes the drop-in `wp-content/object-cache.php`, and says what is there. Never touches the drop-in of another plugin.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/**
 * Returns whether the drop-in is `none`, `own` or that of `other` code.
 */
function drop_in_owner(): string {
	$file = WP_CONTENT_DIR . '/object-cache.php';
	if ( ! file_exists( $file ) && ! is_link( $file ) ) {
		return 'none';
	}
	$head = is_readable( $file ) ? (string) file_get_contents( $file, false, null, 0, 200 ) : ''; // phpcs:ignore WordPress.WP.AlternativeFunctions -- a file of this site.
	return false !== strpos( $head, 'Plugin Name: Galley Object Cache' ) ? 'own' : 'other';
}

/**
 * Installs the drop-in. Returns why that is not possible, or an empty string.
 */
function install_drop_in(): string {
	if ( 'other' === drop_in_owner() ) {
		return __( 'wp-content/object-cache.php belongs to another plugin. Switch its object cache off first.', 'galley' );
	}
	$file    = WP_CONTENT_DIR . '/object-cache.php';
	$part    = $file . '.galley-' . getmypid();
	$is_done = @copy( dirname( __DIR__ ) . '/object-cache/drop-in.php', $part ) && @rename( $part, $file ); // phpcs:ignore WordPress.WP.AlternativeFunctions, WordPress.PHP.NoSilencedErrors.Discouraged -- in one step, so that no request sees half of it.
	if ( ! $is_done ) {
		@unlink( $part ); // phpcs:ignore WordPress.WP.AlternativeFunctions, WordPress.PHP.NoSilencedErrors.Discouraged -- in one step, so that no request sees half of it.
		/* translators: %s: a folder */
		return sprintf( __( 'PHP cannot write to %s. Use `galley plugin install --object-cache`, or permit it.', 'galley' ), WP_CONTENT_DIR );
	}
	return '';
}

/**
 * Removes the drop-in if it is that of this plugin. What it wrote is in the database, except for transients.
 */
function remove_drop_in(): void {
	if ( 'own' === drop_in_owner() ) {
		wp_delete_file( WP_CONTENT_DIR . '/object-cache.php' );
	}
}

/**
 * Returns the state of the object cache: `none`, `other`, `connected` or `away`.
 */
function object_cache_state(): string {
	$owner = drop_in_owner();
	if ( 'own' !== $owner ) {
		return $owner;
	}
	$cache = $GLOBALS['wp_object_cache'] ?? null;
	$known = $cache instanceof Object_Cache || $cache instanceof Described_Cache;
	return $known && $cache->is_connected() ? 'connected' : 'away';
}

/**
 * Returns whether other plugins keep values between requests in the object cache. In a cluster WordPress keeps transients in the database all the
 * same, so `wp_using_ext_object_cache()` does not say it.
 */
function keeps_values(): bool {
	static $is_connected = null;
	$is_connected        = $is_connected ?? 'connected' === object_cache_state();
	return $is_connected || wp_using_ext_object_cache();
}
