<?php
/**
 * Cookies on pages that were to be kept for everybody: noted where they are set, shown where people look.
 *
 * Costs nothing where no cookie is set, and one option where one is, at most once in some hours.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

const MOST_COOKIES   = 8;
const COOKIE_SECONDS = 21600;
const COOKIE_DAYS    = 7;

if ( is_shared() ) {
	add_action( 'shutdown', __NAMESPACE__ . '\\note_cookies' );
}

/**
 * Notes the cookies of the answer at hand.
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
 * The names of cookies that fields of an answer set, less those that mean nothing here. Pure.
 *
 * @param string[] $fields As `headers_list()` gives them.
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
 * What is known of cookies, with those that were just seen. Pure.
 *
 * @param array    $known Name => where and when.
 * @param string[] $names Just seen.
 * @param string   $path  Where.
 * @param int      $now   Seconds since the epoch.
 */
function with_cookies( array $known, array $names, string $path, int $now ): array {
	foreach ( $names as $name ) {
		$is_recent = isset( $known[ $name ]['time'] ) && $now - (int) $known[ $name ]['time'] < COOKIE_SECONDS;
		if ( $is_recent || ( ! isset( $known[ $name ] ) && count( $known ) >= MOST_COOKIES ) ) {
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
 * The cookies of the last days, each with the plugin that probably sets it. Looks into the plugins once for each cookie.
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
