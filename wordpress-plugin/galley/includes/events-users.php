<?php
/**
 * Detects changes of user data that pages show: names, descriptions, addresses, pictures.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

add_action( 'profile_update', __NAMESPACE__ . '\\on_profile', 10, 2 );
add_action( 'user_register', __NAMESPACE__ . '\\on_user_list' );
add_action( 'delete_user', __NAMESPACE__ . '\\on_user_deleted', 10, 2 );
add_action( 'wpmu_delete_user', __NAMESPACE__ . '\\on_user_deleted' );
add_action( 'remove_user_from_blog', __NAMESPACE__ . '\\on_user_leaves', 10, 3 );
add_action( 'add_user_to_blog', __NAMESPACE__ . '\\on_user_list' );
foreach ( array( 'updated_user_meta', 'added_user_meta', 'deleted_user_meta' ) as $galley_action ) {
	add_action( $galley_action, __NAMESPACE__ . '\\on_user_field', 10, 3 );
}
unset( $galley_action );

function on_profile( $user_id, $old = null ): void {
	$new = get_userdata( (int) $user_id );
	if ( ! $new || ! $old instanceof \WP_User ) {
		queue_network_purge( array( 'u' . (int) $user_id, 'uf' . (int) $user_id ) );
		return;
	}
	foreach ( array( 'display_name', 'user_nicename', 'user_url', 'user_email' ) as $field ) {
		if ( $old->data->$field !== $new->data->$field ) {
			queue_network_purge( array( "u$new->ID", 'lu' ) );
			if ( 'user_nicename' === $field ) {
				queue_network_purge( 'sm.users' );
			}
		}
	}
}

/**
 * Handles a user whom WordPress is about to delete. WordPress may assign the posts to another user.
 */
function on_user_deleted( $user_id, $heir = null ): void {
	queue_network_purge( array( 'u' . (int) $user_id, 'uf' . (int) $user_id ) );
	queue_purge( array( 'lu', 'sm.users' ) );
	if ( (int) $heir > 0 ) {
		queue_inheritance( (int) $user_id, (int) $heir );
	}
}

/**
 * Handles the removal of a user from a blog of a network. Other blogs are not affected. On this blog, an author archive without posts no
 * longer exists.
 */
function on_user_leaves( $user_id, $blog = 0, $heir = null ): void {
	queue_purge( array( 'lu', 'sm.users' ) );
	foreach ( get_post_types( array( 'public' => true ) ) as $type ) {
		queue_purge( author_list( (string) $type, (int) $user_id ) );
	}
	if ( (int) $heir > 0 ) {
		queue_inheritance( (int) $user_id, (int) $heir );
	}
}

/**
 * Returns the tags of an author's lists of one post type. Pure.
 *
 * @return string[]
 */
function author_list( string $type, int $user ): array {
	$key = 'l.' . word( $type ) . ".a$user";
	return array( $key, "$key.q", "$key.n" );
}

/**
 * Queues purges for posts that WordPress assigns to another user all at once: for pages that name their author, and for the lists of the new
 * author. WordPress does not announce these changes.
 */
function queue_inheritance( int $user, int $heir ): void {
	global $wpdb;
	// phpcs:ignore WordPress.DB -- must be current.
	$posts = $wpdb->get_results( $wpdb->prepare( "SELECT ID, post_type FROM $wpdb->posts WHERE post_author = %d AND post_status IN ('publish', 'inherit') AND post_type <> 'revision' LIMIT %d", $user, MAX_PURGES ) );
	if ( count( $posts ) >= MAX_PURGES ) {
		queue_purge( 'b' );
		return;
	}
	foreach ( $posts as $post ) {
		queue_purge( array_merge( array( "pa$post->ID" ), author_list( (string) $post->post_type, $heir ) ) );
	}
}

function on_user_list(): void {
	queue_purge( 'lu' );
}

function on_user_field( $meta_id, $user_id = 0, $key = '' ): void {
	global $wpdb;
	if ( ! is_visit_field( 'user', (int) $user_id, (string) $key ) ) {
		queue_network_purge( user_field_tags( (int) $user_id, (string) $key, $wpdb->base_prefix ) );
	}
}

/**
 * Returns the tags of a changed user meta field. Pages do not show sessions and screen settings. A page may show any other field, and roles. Pure.
 *
 * @return string[]
 */
function user_field_tags( int $user_id, string $key, string $prefix ): array {
	if ( preg_match( '/^' . preg_quote( $prefix, '/' ) . '(?:\d+_)?capabilities$/D', $key ) ) {
		return array( "ur$user_id", 'lur' );
	}
	return is_private_user_field( $key, $prefix ) ? array() : array( "uf$user_id", field_tag( 'uf', $user_id, $key ), 'o.user.' . word( "m_$key" ), 'o.user.m_' );
}

/**
 * Checks whether pages never show a user meta field. Pure.
 */
function is_private_user_field( string $key, string $prefix ): bool {
	// Plugins show hidden fields and those with the prefix of the blog, such as a picture. WordPress keeps roles and its own settings there.
	if ( preg_match( '/^' . preg_quote( $prefix, '/' ) . '(?:\d+_)?(?:capabilities|user_level|user-settings(?:-time)?|dashboard_quick_press_last_post_id|persisted_preferences)$/D', $key ) ) {
		return true;
	}
	$known = '/^(session_tokens|_woocommerce_(?:persistent_cart|load_saved_cart)|primary_blog$|source_domain$|admin_color|comment_shortcuts|rich_editing|syntax_highlighting|show_admin_bar_front|use_ssl|locale|dismissed_wp_pointers|show_welcome_panel|default_password_nag|managenav|closedpostboxes|metaboxhidden|meta-box-order|screen_layout|edit_.*_per_page|nav_menu_recently_edited|community-events|wp_media_library_mode|wc_last_active|last_update|.*_columnshidden$|.*columnshidden$)/';
	return (bool) preg_match( $known, $key );
}
