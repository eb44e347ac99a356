<?php
/**
 * Handles nonces in pages that are stored for all visitors.
 *
 * A nonce without a user is the same for all visitors, so the server can store a page that contains it. But a nonce expires. The lifetime of a
 * page therefore does not exceed the lifetime of its nonces. A visitor may leave a page open for a day, or receive it from a cache that the site
 * does not control. The REST API accepts requests of such a visitor despite the expired nonce. Without a login, the nonce never proved anything.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Nonces created for the current page, with the number of seconds for which each is valid. 0 if the nonce belongs to one visitor. */
$GLOBALS['galley_nonces'] = array();

/** Level of output buffering when the plugin started. Buffers above this level hide the beginning of the page. */
$GLOBALS['galley_buffers'] = ob_get_level();

/** Maximum number of nonces that are recorded for a page. If a page creates more, the recorded ones limit its lifetime. */
const MAX_NONCES = 100;

if ( is_shared() ) {
	add_filter( 'nonce_user_logged_out', __NAMESPACE__ . '\\note_nonce', PHP_INT_MAX, 2 );
}
add_filter( 'rest_authentication_errors', __NAMESPACE__ . '\\forgive_stale_nonce', 101 );

/**
 * Records a nonce that WordPress creates for an anonymous visitor.
 *
 * Many nonces are never printed. For example, WordPress creates some for scripts that are only registered. The plugin therefore records each
 * nonce and searches for it in the complete page.
 *
 * @param int|string $uid    0, or the ID that a plugin sets instead, such as the customer ID of a shop.
 * @param int|string $action Action of the nonce.
 * @return int|string
 */
function note_nonce( $uid, $action = -1 ) {
	static $is_inner = false;
	if ( $is_inner || count( $GLOBALS['galley_nonces'] ) >= MAX_NONCES ) {
		return $uid;
	}
	$is_inner = true;
	$nonce    = wp_create_nonce( $action );
	$is_inner = false;
	/** This filter is documented in wp-includes/pluggable.php */
	$life = (int) apply_filters( 'nonce_life', DAY_IN_SECONDS, $action );

	$GLOBALS['galley_nonces'][ "n$nonce" ] = 0 === (int) $uid ? nonce_good_for( time(), $life ) : 0;
	return $uid;
}

/**
 * Returns the number of seconds for which a nonce created now is valid, minus some time for reading the page. Pure.
 *
 * WordPress divides time into halves of a nonce's lifetime, and accepts nonces of the current half and of the previous half.
 *
 * @param int $now  Unix time.
 * @param int $life Lifetime of a nonce, as returned by the filter `nonce_life`.
 */
function nonce_good_for( int $now, int $life ): int {
	$half = $life / 2;
	if ( $half < 1 ) {
		return 0;
	}
	$ends = ( (int) ceil( $now / $half ) + 1 ) * $half;
	return max( 0, (int) floor( $ends - $now - $life / 24 ) );
}

/**
 * Notes that the current page is wrong when the first of its nonces expires. Returns the seconds until then, 0 if a nonce belongs to one
 * visitor.
 */
function note_printed_nonces(): int {
	$page = ob_get_level() === $GLOBALS['galley_buffers'] ? (string) ob_get_contents() : null;
	$good = cut_to( PHP_INT_MAX, $GLOBALS['galley_nonces'], $page );
	if ( $good < PHP_INT_MAX ) {
		at_most( $good );
	}
	return $good;
}

/**
 * Limits a lifetime to that of the first nonce in the page to expire. Pure.
 *
 * @param int                $seconds Lifetime without nonces.
 * @param array<string, int> $nonces  Number of seconds by nonce. Each key is the letter n followed by the nonce.
 * @param string|null        $page    Content of the page. Null if it is not available. In this case the page may contain every nonce.
 */
function cut_to( int $seconds, array $nonces, ?string $page ): int {
	foreach ( $nonces as $nonce => $good ) {
		if ( null === $page || false !== strpos( $page, substr( $nonce, 1 ) ) ) {
			$seconds = min( $seconds, $good );
		}
	}
	return $seconds;
}

/**
 * Treats an expired REST nonce of an anonymous visitor as a missing nonce. Runs after the check of WordPress, which has priority 100.
 *
 * @param mixed $result Result of the previous checks.
 * @return mixed
 */
function forgive_stale_nonce( $result ) {
	$is_refused = is_wp_error( $result ) && 'rest_cookie_invalid_nonce' === $result->get_error_code();
	if ( ! $is_refused || has_login( array_keys( $_COOKIE ), login_cookies() ) ) {
		return $result;
	}
	wp_set_current_user( 0 );
	return true;
}

/**
 * Returns the names of the login cookies of this WordPress site.
 *
 * @return string[]
 */
function login_cookies(): array {
	$names = array();
	foreach ( array( 'LOGGED_IN_COOKIE', 'AUTH_COOKIE', 'SECURE_AUTH_COOKIE' ) as $constant ) {
		if ( defined( $constant ) ) {
			$names[] = (string) constant( $constant );
		}
	}
	return $names;
}

/**
 * Checks whether one of these cookies is a login cookie, valid or not. Pure.
 *
 * @param array    $sent  Names of the cookies that the client sent.
 * @param string[] $login Names of the login cookies.
 */
function has_login( array $sent, array $login ): bool {
	foreach ( $sent as $name ) {
		if ( in_array( (string) $name, $login, true ) || preg_match( '/^wordpress_(logged_in|sec)_/', (string) $name ) ) {
			return true;
		}
	}
	return false;
}
