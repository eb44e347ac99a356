<?php
/**
 * The end of a session. Whatever ends it also ends the private parts that Galley has of its user.
 *
 * WordPress announces only some of these changes: `wp_set_password()` has no action before version 6.2 and may be replaced, and plugins
 * delete session tokens with SQL. Therefore this file reads the statements that write to the tables of users. New salts end all sessions
 * without a statement, so requests compare the salts with those of the previous request. No request runs at the time at which a cookie
 * expires, and a plugin can store sessions outside of these tables. Galley keeps no private parts of such sessions.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Seconds for which Galley uses a private part. */
const PRIVATE_LIFETIME = 300;

/** Tag of the private parts of all members. */
const ALL_MEMBERS = 'mba';

/** IDs of users whose private parts are to be purged, null for all users. */
$GLOBALS['galley_ended_sessions'] = array();

add_filter( 'query', __NAMESPACE__ . '\\on_statement', PHP_INT_MAX );
add_action( 'updated_option', __NAMESPACE__ . '\\on_roles' );

/**
 * Purges the private parts of users whose rows a statement changes.
 *
 * Queuing a purge runs a statement inside of this one. `wpdb` then has another insert ID, and checks the characters of the outer statement
 * although its caller has done that. Therefore users of a statement with other characters than ASCII wait until the purges are sent.
 *
 * @param mixed $sql The statement, which WordPress runs after this filter.
 */
function on_statement( $sql ) {
	global $wpdb;
	$ids = is_string( $sql ) && isset( $wpdb->users, $wpdb->usermeta ) ? users_changed( $sql, $wpdb->users, $wpdb->usermeta ) : array();
	if ( array() === $ids ) {
		return $sql;
	}
	$GLOBALS['galley_ended_sessions'] = array_merge( $GLOBALS['galley_ended_sessions'], $ids ?? array( null ) );
	if ( ! preg_match( '/[^\x00-\x7f]/', $sql ) ) {
		$insert_id = $wpdb->insert_id;
		queue_ended_sessions();
		$wpdb->insert_id = $insert_id;
	}
	return $sql;
}

function queue_ended_sessions(): void {
	$ids                              = $GLOBALS['galley_ended_sessions'];
	$GLOBALS['galley_ended_sessions'] = array();
	foreach ( $ids as $id ) {
		on_member( $id );
	}
}

/**
 * Returns the IDs of users whose rows or sessions a statement changes, or null if they may be any users. Pure.
 *
 * @param string $users Table of users.
 * @param string $meta  Table of user meta.
 * @return int[]|null
 */
function users_changed( string $sql, string $users, string $meta ): ?array {
	// The fast path: almost all statements only read. A new row ends no session.
	if ( preg_match( '/^[\s(]*+(?:SELECT|SHOW|SET|INSERT(?!.*\bON\s+DUPLICATE\s+KEY\b))\b/is', $sql ) ) {
		return array();
	}
	$names = static function ( string $table ) use ( $sql ): bool {
		return false !== stripos( $sql, $table ) && preg_match( '/(?<![\w$])' . preg_quote( $table, '/' ) . '(?![\w$])/i', $sql );
	};
	// WordPress deletes rows of user meta by their IDs, and announces these with their keys.
	$is_about_members = $names( $users ) || ( $names( $meta ) && preg_match( '/session_tokens|capabilities|user_level|^(?!.*\bu?meta_(?:key|id)\b)/is', $sql ) );
	if ( ! $is_about_members || ! preg_match( '/\b(?:UPDATE|DELETE|REPLACE|INSERT|TRUNCATE|DROP|RENAME)\b/i', $sql ) ) {
		return array();
	}
	// A text in the statement may look like a condition. Other conditions than an ID, and other tables, may select any users.
	$plain = (string) preg_replace( '/\'(?!\d+\')(?:[^\'\\\\]|\\\\.|\'\')*+\'|"(?:[^"\\\\]|\\\\.|"")*+"/s', "''", $sql );
	$parts = explode( ' where ', strtolower( (string) preg_replace( '/\s+/', ' ', $plain ) ) );
	if ( 2 !== count( $parts ) || preg_match( '/\b(?:or|xor|not|join|select|using)\b|\|\|/', "$parts[0] $parts[1]" ) || ! preg_match_all( '/(?<![.\w])(?<!\.`)`?(?:user_)?id\b`?\s?=\s?\'?(\d+)\b/', $parts[1], $found ) ) {
		return null;
	}
	return array_map( 'intval', $found[1] );
}

/**
 * Purges the private parts of all members when the capabilities of a role change.
 */
function on_roles( $option ): void {
	if ( '_user_roles' === substr( (string) $option, -11 ) ) {
		on_member( null );
	}
}

/**
 * Records that members get stored pages, and purges the private parts of all members if the salts have changed.
 */
function remember_members(): void {
	// Another plugin may end the request before WordPress has loaded all of its functions.
	$salts = function_exists( 'wp_hash' ) ? wp_hash( MEMBERS_OPTION, 'logged_in' ) : null;
	if ( null !== $salts && get_option( MEMBERS_OPTION ) !== $salts ) {
		update_option( MEMBERS_OPTION, $salts, true );
		on_member( null );
	}
}

/**
 * Returns whether this file would notice the end of the current session, and the session does not expire while Galley has its parts.
 */
function is_session_observed(): bool {
	$tokens  = \WP_Session_Tokens::get_instance( get_current_user_id() );
	$cookie  = wp_parse_auth_cookie( '', 'logged_in' );
	$session = is_array( $cookie ) && 'WP_User_Meta_Session_Tokens' === get_class( $tokens ) ? $tokens->get( (string) ( $cookie['token'] ?? '' ) ) : null;
	$until   = is_array( $session ) ? min( (int) ( $session['expiration'] ?? 0 ), (int) ( $cookie['expiration'] ?? 0 ) ) : 0;
	return $until > time() + PRIVATE_LIFETIME;
}
