<?php
/**
 * The purge buttons. Each action checks the user's capability and the nonce.
 *
 * The purge functions only queue a purge. It is sent with the redirect after the click, and Galley applies it before the browser gets
 * the redirect.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

add_action( 'admin_post_galley_purge_page', __NAMESPACE__ . '\\on_purge_page' );
add_action( 'admin_post_galley_purge_all', __NAMESPACE__ . '\\on_purge_all' );
add_action( 'admin_post_galley_save', __NAMESPACE__ . '\\on_save' );
add_action( 'admin_post_galley_dismiss', __NAMESPACE__ . '\\on_dismiss' );
add_action( 'wp_ajax_galley_page_state', __NAMESPACE__ . '\\on_page_state' );

/**
 * Ends an action that its user may not do.
 */
function refuse(): void {
	wp_die( esc_html__( 'You are not allowed to do that.', 'galley' ), '', array( 'response' => 403 ) );
}

/**
 * Back to where the click was, or to the settings page, with a word of what happened there.
 */
function back( string $fallback, string $done = '' ): void {
	$to = wp_get_referer();
	$to = wp_validate_redirect( $to ? $to : $fallback, $fallback );
	// What a form says of its page is without scheme and host.
	$path = (string) wp_parse_url( $to, PHP_URL_PATH );
	if ( '' !== $done && 0 === strpos( $path, (string) wp_parse_url( admin_url(), PHP_URL_PATH ) ) ) {
		$to = add_query_arg( 'galley', $done, remove_query_arg( 'galley', $to ) );
	}
	wp_safe_redirect( $to );
	exit;
}

/**
 * Purge the page of a link: any page for those who may purge all, the page of a post for those who may edit that post.
 */
function on_purge_page(): void {
	check_admin_referer( 'galley_purge_page' );
	// phpcs:ignore WordPress.Security.ValidatedSanitizedInput -- own_url() cleans it.
	$url  = isset( $_GET['url'] ) ? own_url( wp_unslash( $_GET['url'] ) ) : null;
	$post = null === $url || may_manage() ? 0 : url_to_postid( $url );
	if ( null === $url || ! may_purge( $post ) ) {
		refuse();
	}
	do_action( 'galley_purge_url', $url );
	back( (string) $url, 'purged-page' );
}

/**
 * Purge everything.
 */
function on_purge_all(): void {
	check_admin_referer( 'galley_purge_all' );
	if ( ! may_manage() ) {
		refuse();
	}
	do_action( 'galley_purge_all' );
	back( admin_url( 'options-general.php?page=galley' ), 'purged-all' );
}

/**
 * Keep the connection of the settings page.
 */
function on_save(): void {
	check_admin_referer( 'galley_save' );
	if ( ! may_connect() ) {
		refuse();
	}
	$address = isset( $_POST['address'] ) ? sanitize_text_field( wp_unslash( $_POST['address'] ) ) : '';
	$token   = isset( $_POST['token'] ) ? sanitize_text_field( wp_unslash( $_POST['token'] ) ) : '';
	$before  = get_option( 'galley_connection' );
	if ( '' === $token && is_array( $before ) ) {
		$token = (string) ( $before['token'] ?? '' );
	}
	$clean = clean_connection( compact( 'address', 'token' ) );
	if ( '' === $address ) {
		delete_option( 'galley_connection' );
	} elseif ( null !== $clean ) {
		update_option( 'galley_connection', $clean, false );
	}
	back( admin_url( 'options-general.php?page=galley' ), '' === $address || null !== $clean ? 'saved' : 'not-saved' );
}

/**
 * Show a notice to this user no more.
 */
function on_dismiss(): void {
	check_admin_referer( 'galley_dismiss' );
	if ( ! may_manage() ) {
		refuse();
	}
	$notice = isset( $_GET['notice'] ) ? sanitize_key( wp_unslash( $_GET['notice'] ) ) : '';
	$all    = array_filter( (array) get_user_meta( get_current_user_id(), 'galley_dismissed', true ), 'is_string' );
	if ( '' !== $notice ) {
		$all[] = $notice;
		update_user_meta( get_current_user_id(), 'galley_dismissed', array_slice( array_unique( $all ), -50 ) );
	}
	back( admin_url() );
}

/**
 * How a page is cached, for the admin bar's script.
 */
function on_page_state(): void {
	check_ajax_referer( 'galley_page_state' );
	// phpcs:ignore WordPress.Security.ValidatedSanitizedInput -- own_url() cleans it.
	$url = isset( $_POST['url'] ) ? own_url( wp_unslash( $_POST['url'] ) ) : null;
	if ( ! may_look() || null === $url ) {
		wp_send_json_error( null, 403 );
	}
	wp_send_json_success( page_state( $url ) );
}
