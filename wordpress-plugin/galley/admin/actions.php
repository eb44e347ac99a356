<?php
/**
 * Handlers of the buttons and forms. Each action checks the user's capability and the nonce.
 *
 * The purge functions only queue a purge. The plugin sends it with the redirect that answers the request, and Galley applies it before
 * the browser gets the redirect.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

add_action( 'admin_post_galley_purge_page', __NAMESPACE__ . '\\on_purge_page' );
add_action( 'admin_post_galley_purge_all', __NAMESPACE__ . '\\on_purge_all' );
add_action( 'admin_post_galley_purge_url', __NAMESPACE__ . '\\on_purge_url' );
add_action( 'admin_post_galley_preload', __NAMESPACE__ . '\\on_preload' );
add_action( 'admin_post_galley_preload_off', __NAMESPACE__ . '\\on_preload_off' );
add_action( 'admin_post_galley_development', __NAMESPACE__ . '\\on_development' );
add_action( 'admin_post_galley_development_off', __NAMESPACE__ . '\\on_development_off' );
add_action( 'admin_post_galley_choose', __NAMESPACE__ . '\\on_choose' );
add_action( 'admin_post_galley_save', __NAMESPACE__ . '\\on_save' );
add_action( 'admin_post_galley_object_cache', __NAMESPACE__ . '\\on_object_cache' );
add_action( 'admin_post_galley_object_cache_off', __NAMESPACE__ . '\\on_object_cache_off' );
add_action( 'admin_post_galley_dismiss', __NAMESPACE__ . '\\on_dismiss' );
add_action( 'wp_ajax_galley_page_state', __NAMESPACE__ . '\\on_page_state' );

/**
 * Ends the request with status 403 because the user lacks the permission.
 */
function refuse(): void {
	wp_die( esc_html__( 'You are not allowed to do that.', 'galley' ), '', array( 'response' => 403 ) );
}

/**
 * Redirects to the page on which the user clicked, or to the fallback. If that is an admin page, the address contains the result.
 */
function back( string $fallback, string $done = '' ): void {
	$to = wp_get_referer();
	$to = wp_validate_redirect( $to ? $to : $fallback, $fallback );
	// The referer field of a form contains neither scheme nor host.
	$path = (string) wp_parse_url( $to, PHP_URL_PATH );
	if ( '' !== $done && 0 === strpos( $path, (string) wp_parse_url( admin_url(), PHP_URL_PATH ) ) ) {
		$to = add_query_arg( 'galley', $done, remove_query_arg( 'galley', $to ) );
	}
	wp_safe_redirect( $to );
	exit;
}

/**
 * Purges the page of a link. Administrators may purge any page; users with permission to edit a post may purge the page of that post.
 */
function on_purge_page(): void {
	check_admin_referer( 'galley_purge_page' );
	// phpcs:ignore WordPress.Security.ValidatedSanitizedInput -- own_address() cleans it.
	$url  = isset( $_GET['url'] ) ? own_address( wp_unslash( $_GET['url'] ) ) : null;
	$post = null === $url || may_manage() ? 0 : url_to_postid( $url );
	if ( null === $url || ! may_purge( $post ) ) {
		refuse();
	}
	note_cause( 'button-page', path_of( $url ) );
	do_action( 'galley_purge_url', $url );
	back( (string) $url, 'purged-page' );
}

/**
 * Purges the page at the address that the user entered as a complete address or as a path.
 */
function on_purge_url(): void {
	manage_or_refuse( 'galley_purge_url' );
	// phpcs:ignore WordPress.Security -- checked above; own_address() cleans it.
	$typed = isset( $_POST['url'] ) ? trim( (string) wp_unslash( $_POST['url'] ) ) : '';
	$url   = own_address( '' !== $typed && '/' === $typed[0] ? site_origin() . $typed : $typed );
	if ( null === $url ) {
		back( settings_url(), 'not-own' );
		return;
	}
	note_cause( 'button-page', path_of( $url ) );
	do_action( 'galley_purge_url', $url );
	back( settings_url(), 'purged-page' );
}

/**
 * Returns the path of an address for the purge log.
 */
function path_of( string $url ): string {
	$path = (string) wp_parse_url( $url, PHP_URL_PATH );
	return '' === $path ? '/' : $path;
}

/**
 * Ends the request if the nonce is invalid or if the user is not allowed to perform the action.
 */
function manage_or_refuse( string $action ): void {
	check_admin_referer( $action );
	if ( ! may_manage() ) {
		refuse();
	}
}

function on_preload(): void {
	manage_or_refuse( 'galley_preload' );
	start_preload();
	back( settings_url(), 'preloading' );
}

function on_preload_off(): void {
	manage_or_refuse( 'galley_preload_off' );
	stop_preload();
	back( settings_url(), 'preload-off' );
}

function on_development(): void {
	manage_or_refuse( 'galley_development' );
	set_development( true );
	delete_transient( 'galley_state' );
	back( settings_url(), 'development' );
}

function on_development_off(): void {
	manage_or_refuse( 'galley_development_off' );
	set_development( false );
	delete_transient( 'galley_state' );
	back( settings_url(), 'development-off' );
}

/**
 * Saves the settings and purges all pages, because Galley stored them with the old settings.
 */
function on_choose(): void {
	manage_or_refuse( 'galley_choose' );
	// phpcs:ignore WordPress.Security -- checked above; clean_choices() keeps what is known and bounded.
	update_option( 'galley_choices', clean_choices( wp_unslash( $_POST ) ), true );
	note_cause( 'choices' );
	queue_purge_with_markers();
	back( settings_url(), 'chosen' );
}

/**
 * Purges all pages.
 */
function on_purge_all(): void {
	check_admin_referer( 'galley_purge_all' );
	if ( ! may_manage() ) {
		refuse();
	}
	note_cause( 'button-all' );
	do_action( 'galley_purge_all' );
	preload_after_purge();
	back( settings_url(), 'purged-all' );
}

/**
 * Saves the connection from the settings page.
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
	back( settings_url(), '' === $address || null !== $clean ? 'saved' : 'not-saved' );
}

/**
 * Dismisses a notice for the current user.
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
 * Sends the state of a page to the script of the admin bar.
 */
function on_page_state(): void {
	check_ajax_referer( 'galley_page_state' );
	// phpcs:ignore WordPress.Security.ValidatedSanitizedInput -- own_address() cleans it.
	$url = isset( $_POST['url'] ) ? own_address( wp_unslash( $_POST['url'] ) ) : null;
	if ( ! may_look() || null === $url ) {
		wp_send_json_error( null, 403 );
	}
	wp_send_json_success( page_state( $url ) );
}
