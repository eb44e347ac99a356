<?php
/**
 * Members: the class of a member, the tags of a member's private parts, and the changes that purge these tags.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Option that records that members get stored pages, with a hash of the salts. Requests that do not come through Galley read it. */
const MEMBERS_OPTION = 'galley_members';

/** Pattern of the user meta keys that affect private parts of the user's pages. */
const MEMBER_FIELDS = '/^(session_tokens|show_admin_bar_front|admin_color|locale|first_name|last_name|nickname|rich_editing|.*(capabilities|user_level))$/D';

if ( has_members() ) {
	add_action( 'shutdown', __NAMESPACE__ . '\\remember_members', 0 );
}
add_action( 'profile_update', __NAMESPACE__ . '\\on_member' );
add_action( 'deleted_user', __NAMESPACE__ . '\\on_member' );
add_action( 'granted_super_admin', __NAMESPACE__ . '\\on_member' );
add_action( 'revoked_super_admin', __NAMESPACE__ . '\\on_member' );
foreach ( array( 'updated_user_meta', 'added_user_meta', 'deleted_user_meta' ) as $galley_action ) {
	add_action( $galley_action, __NAMESPACE__ . '\\on_member_field', 10, 3 );
}
unset( $galley_action );

/**
 * Purges the private parts of a user, or of all members if the ID is 0 or null.
 */
function on_member( $user_id ): void {
	// No statement may run here: this may be inside of one. Without the options, nobody knows whether there are members.
	$options = wp_cache_get( 'alloptions', 'options' );
	if ( has_members() || ! is_array( $options ) || ! empty( $options[ MEMBERS_OPTION ] ) ) {
		queue_network_purge( (int) $user_id > 0 ? 'mb' . (int) $user_id : ALL_MEMBERS );
	}
}

function on_member_field( $meta_id, $user_id = 0, $key = '' ): void {
	if ( preg_match( MEMBER_FIELDS, (string) $key ) ) {
		on_member( $user_id );
	}
}

/**
 * Returns the tags of all private parts of the current visitor.
 *
 * @return array<string, true>
 */
function tags_of_member(): array {
	$tags = array( blog_prefix() . 'b' => true );
	if ( is_user_logged_in() ) {
		$tags[ 'mb' . get_current_user_id() ] = true;
		$tags[ ALL_MEMBERS ]                  = true;
	}
	return $tags;
}

/**
 * Returns the class of the visitor. The class of a member consists of the roles and a hash of all capabilities. The class of an anonymous
 * visitor with a cart is `visitor`. The function returns null for an anonymous visitor without a cart, for a session whose end could
 * remain unnoticed, and for a member who has an unapproved comment on the current post, which other visitors do not see.
 */
function member_class(): ?string {
	if ( ! is_user_logged_in() ) {
		return has_cart( array_keys( $_COOKIE ) ) ? 'visitor' : null;
	}
	$user = wp_get_current_user();
	if ( ! is_session_observed() || ( is_singular() && awaits_approval( (int) get_queried_object_id(), (int) $user->ID ) ) ) {
		return null;
	}
	$able = array_keys( array_filter( (array) $user->allcaps ) );
	sort( $able );
	$roles = word( implode( '.', (array) $user->roles ) );
	return $roles . '-' . substr( md5( implode( ',', $able ) . ( is_super_admin() ? '!' : '' ) ), 0, 8 );
}

/**
 * Returns whether a member has an unapproved comment on a post.
 */
function awaits_approval( int $post, int $user ): bool {
	return 0 < (int) get_comments(
		array(
			'post_id' => $post,
			'user_id' => $user,
			'status'  => 'hold',
			'count'   => true,
		)
	);
}

/**
 * Returns whether one of the cookies indicates a cart. Pure.
 *
 * @param array $names Names of cookies.
 */
function has_cart( array $names ): bool {
	return (bool) preg_grep( '/^(woocommerce_items_in_cart|woocommerce_cart_hash|edd_items_in_cart|wp_woocommerce_session_.*)$/D', array_map( 'strval', $names ) );
}

/**
 * Sends the headers of a page for a member: the class for which the page is valid, and the private parts.
 */
function describe_member_page(): void {
	static $done = false;
	if ( $done || empty( $GLOBALS['galley_is_complete'] ) ) {
		return;
	}
	$done  = true;
	$class = did_action( 'wp' ) ? member_class() : null;
	if ( null === $class ) {
		return;
	}
	header( "Galley-Member: $class" );
	if ( 200 === http_response_code() && in_array( forbidden(), array( null, 'logged-in', 'nocache-headers' ), true ) ) {
		foreach ( fields_in_order( array(), $GLOBALS['galley_private_fields'] ) as $field ) {
			header( "Galley-Fragment: $field", false );
		}
	}
}
