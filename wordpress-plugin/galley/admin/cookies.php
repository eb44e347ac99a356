<?php
/**
 * Cookies on pages that Galley could otherwise store. The plugin records them when a response sets them, and shows them to administrators.
 *
 * A response without cookies costs nothing. For a response with a cookie, the plugin writes one option, at most once every six hours for
 * each cookie.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

const MAX_COOKIES    = 8;
const COOKIE_SECONDS = 21600;
const COOKIE_DAYS    = 7;

if ( is_shared() ) {
	add_action( 'shutdown', __NAMESPACE__ . '\\note_cookies' );
}

/**
 * Records the cookies of the current response.
 */
function note_cookies(): void {
	$names = cookies_set( headers_list() );
	if ( array() === $names ) {
		return;
	}
	// phpcs:ignore WordPress.Security.ValidatedSanitizedInput -- cleaned below.
	$path   = sanitize_text_field( (string) strtok( wp_unslash( $_SERVER['REQUEST_URI'] ?? '/' ), '?' ) );
	$before = (array) get_option( 'galley_cookies', array() );
	$after  = with_cookies( $before, $names, substr( $path, 0, 200 ), time() );
	if ( $after !== $before ) {
		update_option( 'galley_cookies', $after, false );
	}
}

/**
 * Returns the names of the cookies that a response sets, without cookies of WordPress and of shops. Pure.
 *
 * @param string[] $fields Headers from `headers_list()`.
 * @return string[]
 */
function cookies_set( array $fields ): array {
	$names = array();
	foreach ( $fields as $field ) {
		if ( preg_match( '/^set-cookie:\s*([^=;\s]{1,100})\s*=/i', $field, $match ) && ! preg_match( '/^(wordpress_|wp-|comment_author_|wp_woocommerce_session_|woocommerce_|edd_)/', $match[1] ) ) {
			$names[] = $match[1];
		}
	}
	return array_values( array_unique( $names ) );
}

/**
 * Adds the cookies of a response to the recorded cookies. Pure.
 *
 * @param array    $known Name => path and time.
 * @param string[] $names Names of the cookies in the response.
 * @param string   $path  Path of the page.
 * @param int      $now   Seconds since the epoch.
 */
function with_cookies( array $known, array $names, string $path, int $now ): array {
	foreach ( $names as $name ) {
		$is_recent = isset( $known[ $name ]['time'] ) && $now - (int) $known[ $name ]['time'] < COOKIE_SECONDS;
		if ( $is_recent || ( ! isset( $known[ $name ] ) && count( $known ) >= MAX_COOKIES ) ) {
			continue;
		}
		$known[ $name ] = array_merge(
			(array) ( $known[ $name ] ?? array() ),
			array(
				'path' => $path,
				'time' => $now,
			)
		);
	}
	return $known;
}

/**
 * Returns the cookies of the last `COOKIE_DAYS` days, each with the plugin that probably sets it. The function searches the plugins once
 * for each cookie.
 *
 * @return array<string, array>
 */
function seen_cookies(): array {
	$all   = array_filter( (array) get_option( 'galley_cookies', array() ), 'is_array' );
	$fresh = array();
	foreach ( $all as $name => $seen ) {
		if ( time() - (int) ( $seen['time'] ?? 0 ) > COOKIE_DAYS * DAY_IN_SECONDS ) {
			continue;
		}
		if ( ! isset( $seen['by'] ) && is_admin() ) {
			$culprit    = culprit_of( (string) $name );
			$seen['by'] = $culprit['by'] ?? '';
			$seen['at'] = $culprit['at'] ?? '';
		}
		$fresh[ $name ] = $seen;
	}
	if ( $fresh !== $all ) {
		update_option( 'galley_cookies', $fresh, false );
	}
	return $fresh;
}
