<?php
/**
 * Nonces in pages that are kept for everybody.
 *
 * A nonce of nobody in particular is the same for all visitors, so a page may be kept with it; but it ends. A page
 * that holds one lives no longer than it. And a visitor who has left a page open for a day, or got it from a cache that
 * nobody controls, is not refused for the REST nonce in it: without a login it never proved anything.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** The nonces made for the page at hand: each with the seconds for which it is good. 0: it belongs to one visitor. */
$GLOBALS['galley_nonces'] = array();

/** How deep output was buffered when the plugin began; what is above hides the page's beginning. */
$GLOBALS['galley_buffers'] = ob_get_level();

/** A page that makes more of them is cut by those. */
const MOST_NONCES = 100;

if ( is_shared() ) {
	add_filter( 'nonce_user_logged_out', __NAMESPACE__ . '\\note_nonce', PHP_INT_MAX, 2 );
	add_filter( 'galley_lifetime', __NAMESPACE__ . '\\cut_to_nonces' );
}
add_filter( 'rest_authentication_errors', __NAMESPACE__ . '\\forgive_stale_nonce', 101 );

/**
 * A nonce for somebody who is not logged in is being made.
 *
 * Many are made and never printed: WordPress makes some for scripts that are only registered. So each is kept in mind, and looked for in
 * the page when that is complete.
 *
 * @param int|string $uid    0, or what a plugin says instead: the customer of a shop.
 * @param int|string $action What it is for.
 * @return int|string
 */
function note_nonce( $uid, $action = -1 ) {
	static $is_inner = false;
	if ( $is_inner || count( $GLOBALS['galley_nonces'] ) >= MOST_NONCES ) {
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
 * Seconds for which a nonce that is made now can be used, less some time to read the page in. Pure.
 *
 * WordPress counts in halves of a nonce's life and takes the nonces of this half and of the one before.
 *
 * @param int $now  Seconds since the epoch.
 * @param int $life As `nonce_life` says.
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
 * Lives no longer than the nonces of the page at hand.
 *
 * @param int $seconds What it would live otherwise.
 */
function cut_to_nonces( $seconds ): int {
	$page = ob_get_level() === $GLOBALS['galley_buffers'] ? (string) ob_get_contents() : null;
	return cut_to( (int) $seconds, $GLOBALS['galley_nonces'], $page );
}

/**
 * A lifetime, or that of the first nonce in a page that ends. Pure.
 *
 * @param int                $seconds Without nonces.
 * @param array<string, int> $nonces  Each behind the letter n, with its seconds.
 * @param string|null        $page    Its bytes; null where they cannot be seen: then every nonce may be in it.
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
 * An ended REST nonce of somebody who is not logged in counts as none. Behind WordPress's own check, which is at 100.
 *
 * @param mixed $result What was found so far.
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
 * The names of cookies that log somebody in, as this WordPress calls them.
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
 * Whether one of these cookies logs somebody in, whatever it is worth. Pure.
 *
 * @param array    $sent  Names of the cookies that were sent.
 * @param string[] $login Names of those that log in.
 */
function has_login( array $sent, array $login ): bool {
	foreach ( $sent as $name ) {
		if ( in_array( (string) $name, $login, true ) || preg_match( '/^wordpress_(logged_in|sec)_/', (string) $name ) ) {
			return true;
		}
	}
	return false;
}
