<?php
/**
 * Changes of users that pages show: names, descriptions, addresses, pictures.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

add_action( 'profile_update', __NAMESPACE__ . '\\on_profile', 10, 2 );
add_action( 'user_register', __NAMESPACE__ . '\\on_user_list' );
add_action( 'delete_user', __NAMESPACE__ . '\\on_user_gone' );
add_action( 'remove_user_from_blog', __NAMESPACE__ . '\\on_user_gone' );
add_action( 'add_user_to_blog', __NAMESPACE__ . '\\on_user_list' );
foreach ( array( 'updated_user_meta', 'added_user_meta', 'deleted_user_meta' ) as $galley_action ) {
	add_action( $galley_action, __NAMESPACE__ . '\\on_user_field', 10, 3 );
}
unset( $galley_action );

function on_profile( $user_id, $old = null ): void {
	$new = get_userdata( (int) $user_id );
	if ( ! $new || ! $old instanceof \WP_User ) {
		order( 'u' . (int) $user_id );
		return;
	}
	foreach ( array( 'display_name', 'user_nicename', 'user_url', 'user_email' ) as $field ) {
		if ( $old->data->$field !== $new->data->$field ) {
			order( array( "u$new->ID", 'lu' ) );
			if ( 'user_nicename' === $field ) {
				order( 'sm.users' );
			}
		}
	}
}

function on_user_gone( $user_id ): void {
	order( array( 'u' . (int) $user_id, 'lu', 'sm.users' ) );
}

function on_user_list(): void {
	order( 'lu' );
}

/**
 * Sessions, screen settings and capabilities are nobody's business; of other fields a page may show any.
 */
function on_user_field( $meta_id, $user_id = 0, $key = '' ): void {
	global $wpdb;
	if ( is_shared() || is_private_user_field( (string) $key, $wpdb->base_prefix ) ) {
		return;
	}
	order( 'u' . (int) $user_id );
}

/**
 * Pure.
 */
function is_private_user_field( string $key, string $prefix ): bool {
	if ( 0 === strpos( $key, $prefix ) || '_' === ( $key[0] ?? '' ) ) {
		return true;
	}
	$known = '/^(session_tokens|admin_color|comment_shortcuts|rich_editing|syntax_highlighting|show_admin_bar_front|use_ssl|locale|dismissed_wp_pointers|show_welcome_panel|default_password_nag|managenav|closedpostboxes|metaboxhidden|meta-box-order|screen_layout|edit_.*_per_page|nav_menu_recently_edited|community-events|wp_media_library_mode|wc_last_active|last_update|.*_columnshidden$|.*columnshidden$)/';
	return (bool) preg_match( $known, $key );
}
