<?php
/**
 * Loads the plugin without WordPress. Functions called while it is loaded are empty stubs. Functions called by pure functions behave
 * as in WordPress.
 *
 * @package Galley
 */

define( 'ABSPATH', __DIR__ . '/' );
define( 'WP_CONTENT_DIR', __DIR__ . '/nowhere' );
define( 'WPINC', 'wp-includes' );
define( 'HOUR_IN_SECONDS', 3600 );
define( 'DAY_IN_SECONDS', 86400 );

function add_action(): void {}

/** Returns what a test has set. */
function apply_filters( string $filter, $value ) {
	return $GLOBALS['filtered_of_test'][ $filter ] ?? $value;
}

function has_filter( string $filter ): bool {
	return isset( $GLOBALS['filtered_of_test'][ $filter ] );
}

/** Keeps the callbacks of the filter `query`. */
function add_filter( string $filter = '', $callback = null ): void {
	if ( 'query' === $filter ) {
		$GLOBALS['statement_filters_of_test'][] = $callback;
	}
}

function remove_action(): void {}
function remove_filter(): void {}
function register_activation_hook(): void {}
function register_deactivation_hook(): void {}

function wp_using_ext_object_cache(): bool {
	return false;
}

function is_multisite(): bool {
	return false;
}

function taxonomy_exists( string $name ): bool {
	return in_array( $name, array( 'category', 'product_cat' ), true );
}

function is_admin(): bool {
	return false;
}

/** Returns the number that a test has set. */
function did_action( string $name = '' ): int {
	return $GLOBALS['actions_of_test'][ $name ] ?? 1;
}

function doing_filter(): bool {
	return false;
}

function get_queried_object_id(): int {
	return 0;
}

function get_queried_object() {
	return null;
}

function is_date(): bool {
	return false;
}

function is_feed(): bool {
	return false;
}

function wp_is_json_request(): bool {
	return false;
}

/** Returns the values that a test has set. Sends a statement for others, as WordPress does for an option that it has not loaded. */
function get_option( string $name, $missing = false ) {
	if ( isset( $GLOBALS['options_of_test'] ) ) {
		return $GLOBALS['options_of_test'][ $name ] ?? $missing;
	}
	foreach ( $GLOBALS['statement_filters_of_test'] ?? array() as $callback ) {
		$callback( "SELECT option_value FROM wp_options WHERE option_name = '$name' LIMIT 1" );
	}
	return $missing;
}

/** Keeps a value among the options that WordPress loads at once. */
function update_option( string $name, $value ): void {
	$GLOBALS['loaded_of_test'][ $name ] = $value;
}

function get_site_option( string $name ) {
	return $GLOBALS['options_of_test'][ $name ] ?? false;
}

/** Returns the values that a test has set. */
function get_post_meta( int $id, string $key = '' ): array {
	return $GLOBALS['fields_of_test'][ $id ][ $key ] ?? array();
}

function get_metadata( string $type, int $id, string $key ): array {
	return get_post_meta( $id, $key );
}

function wp_cache_get() {
	return false;
}

function maybe_unserialize( $value ) {
	return $value;
}

function is_serialized( string $text ): bool {
	return false !== @unserialize( $text );
}

function __( string $text ): string {
	return $text;
}

function wp_json_encode( $value ) {
	return json_encode( $value );
}

function get_current_blog_id(): int {
	return 1;
}

function wp_hash( string $data ): string {
	return hash_hmac( 'md5', $data, 'salt of this site' );
}

function wp_strip_all_tags( string $text ): string {
	return trim( strip_tags( preg_replace( '@<(script|style)[^>]*?>.*?</\\1>@si', '', $text ) ) );
}

require dirname( __DIR__ ) . '/galley.php';
