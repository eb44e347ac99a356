<?php
/**
 * HTML that WordPress, themes and plugins keep between requests: in the object cache, in transients, in options.
 *
 * Such HTML must contain no markers, because other requests print it to members and carts. And a page that prints it without rendering it
 * would lack the tags of what it shows. Therefore, while the plugin describes a page:
 *
 * - No marker is written: each is removed from what goes to the object cache, and overwritten in statements of the database.
 * - Kept HTML counts as missing, so that the page renders and describes it. The plugin learns which keys a page does not fill itself, for
 *   example because a scheduled task does. It then shows what is kept, in a page that lives for a minute.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Option with what is known of kept HTML by the shape of its key: `page` if pages render it, `other` if something else does. */
const KEPT_OPTION = 'galley_kept_html';

/** Maximum number of shapes of keys. Pages that show kept HTML of further ones live for a minute. */
const MAX_KEPT = 200;

/** Lifetime in seconds of a page with HTML of which nobody knows what it shows. */
const KEPT_LIFETIME = 60;

/** Lifetime in seconds of a page that lacks kept HTML, because it does not fill the cache itself. */
const LACKING_LIFETIME = 10;

/** Groups of the object cache in which WordPress keeps its own data, as keys. */
const CORE_GROUPS = array( '' => true, 'default' => true, 'options' => true, 'site-options' => true, 'notoptions' => true, 'posts' => true, 'post_meta' => true, 'post-queries' => true, 'terms' => true, 'term_meta' => true, 'term-queries' => true, 'users' => true, 'user_meta' => true, 'userlogins' => true, 'useremail' => true, 'userslugs' => true, 'comment' => true, 'comment_meta' => true, 'comment-queries' => true, 'counts' => true, 'plugins' => true, 'themes' => true, 'theme_json' => true, 'calendar' => true, 'site-transient' => true, 'blog-details' => true, 'blog_meta' => true, 'sites' => true, 'networks' => true, 'translation_files' => true );

/** Pattern of keys in which WordPress keeps what other servers answered. */
const OWN_CACHES = '/^transient:(?:feed_|oembed_)/';

/** Keys that this request has written. */
$GLOBALS['galley_kept_written'] = array();

/** Keys whose HTML the page renders itself. */
$GLOBALS['galley_kept_rendered'] = array();

/** Keys whose HTML counted as missing, and that the request has not written yet. */
$GLOBALS['galley_kept_missed'] = array();

if ( is_described() ) {
	add_filter( 'query', __NAMESPACE__ . '\\overwrite_marks', PHP_INT_MAX );
	add_filter( 'pre_http_request', __NAMESPACE__ . '\\note_http', 10, 2 );
	if ( keeps_values() ) {
		// Widgets keep their HTML in this group.
		wp_cache_add_non_persistent_groups( array( 'widget' ) );
	}
	if ( ! wp_using_ext_object_cache() ) {
		add_filter( 'pre_option', __NAMESPACE__ . '\\watch_transient', PHP_INT_MAX, 2 );
		add_action( 'add_option', __NAMESPACE__ . '\\note_addition', PHP_INT_MAX, 2 );
	}
	add_filter( 'pre_update_option', __NAMESPACE__ . '\\note_update', PHP_INT_MAX, 2 );
} else {
	add_filter( 'template_include', __NAMESPACE__ . '\\remove_kept_marks', PHP_INT_MAX );
}

// Screens of other plugins for the object cache ask for its class and its methods. Links that change something there have a nonce and a page.
if ( keeps_values() && is_object( $GLOBALS['wp_object_cache'] ?? null ) && ( is_described() || ! is_admin() || wp_doing_ajax() || 'GET' !== ( $_SERVER['REQUEST_METHOD'] ?? '' ) || ( isset( $_GET['_wpnonce'] ) && ! isset( $_GET['page'] ) ) || 'other' !== object_cache_state() ) ) { // phpcs:ignore WordPress.Security -- compared only.
	require_once __DIR__ . '/class-described-cache.php';
	$GLOBALS['wp_object_cache'] = new Described_Cache( $GLOBALS['wp_object_cache'] ); // phpcs:ignore WordPress.WP.GlobalVariablesOverride.Prohibited -- it passes all calls on.
	if ( is_described() ) {
		// Otherwise what Galley's own object cache has read is known without it.
		$GLOBALS['galley_read_cache'] = $GLOBALS['wp_object_cache'];
	}
}

/**
 * Overwrites the markers in a text without changing lengths, which serialized values contain.
 *
 * @param mixed $text Statement of the database, or a serialized value.
 */
function overwrite_marks( $text ) {
	if ( ! is_string( $text ) || false === strpos( $text, '!--galley-' ) ) {
		return $text;
	}
	$plain = preg_replace_callback(
		'/(<?)!--galley-[0-9a-f]{32}-(?:begin|end)\d{1,4}--(>?)/',
		static function ( array $found ): string {
			$length = strlen( $found[0] );
			// The signs around an escaped marker stay, so that it becomes an empty comment.
			return '' !== $found[1] && '' !== $found[2] ? str_repeat( ' ', $length ) : str_pad( "$found[1]!--", $length - strlen( "--$found[2]" ) ) . "--$found[2]";
		},
		$text
	);
	return $plain ?? $text;
}

/**
 * Returns a value without the markers in its texts.
 *
 * @param mixed $value Text, or an array. Everything else is returned as it is.
 */
function without_kept_marks( $value ) {
	if ( is_string( $value ) ) {
		return is_serialized( $value ) ? overwrite_marks( $value ) : remove_marks( $value );
	}
	if ( is_array( $value ) ) {
		foreach ( $value as $key => $part ) {
			if ( is_string( $part ) ? false !== strpos( $part, '!--galley-' ) : ( is_array( $part ) && $part ) ) {
				$value[ $key ] = without_kept_marks( $part );
			}
		}
	}
	return $value;
}

/**
 * Returns whether a value is or contains HTML. Pure.
 *
 * @param mixed $value Value of a cache.
 */
function has_html( $value, int $depth = 4 ): bool {
	if ( is_string( $value ) ) {
		return (bool) preg_match( '~</?[a-z][^>]*>~i', $value );
	}
	foreach ( is_array( $value ) && $depth > 0 ? $value : array() as $part ) {
		if ( has_html( $part, $depth - 1 ) ) {
			return true;
		}
	}
	return false;
}

/**
 * Returns a key with a placeholder for numbers and hashes, because plugins have one key for each post or language. Pure.
 */
function kept_shape( string $key ): string {
	return word( substr( (string) preg_replace( '/[0-9a-f]{8,}|\d+/i', '-', $key ), 0, 200 ) );
}

/**
 * Returns whether a value of a cache has to count as missing.
 *
 * @param string $key   Group and key.
 * @param mixed  $value What is kept.
 */
function counts_as_missing( string $key, $value ): bool {
	// A member's page may read the session of the member, which would be lost.
	if ( ! is_shared() || isset( $GLOBALS['galley_kept_written'][ $key ] ) || preg_match( OWN_CACHES, $key ) || ! has_html( $value ) ) {
		return false;
	}
	$all   = (array) get_option( KEPT_OPTION, array() );
	$known = $all[ kept_shape( $key ) ] ?? ( count( $all ) < MAX_KEPT ? 'unknown' : 'other' );
	if ( 'other' === $known ) {
		at_most( KEPT_LIFETIME );
		return false;
	}
	if ( 'unknown' === $known ) {
		$GLOBALS['galley_kept_missed'][ $key ] = true;
	}
	$GLOBALS['galley_kept_rendered'][ $key ] = true;
	return true;
}

/**
 * Notes that the request has filled a cache.
 *
 * @param string $key   Group and key.
 * @param mixed  $value What will be kept.
 */
function note_kept( string $key, $value ): void {
	$GLOBALS['galley_kept_written'][ $key ] = true;
	unset( $GLOBALS['galley_kept_missed'][ $key ] );
	if ( is_shared() && has_html( $value ) ) {
		$GLOBALS['galley_kept_rendered'][ $key ] = true;
		// Rendering must not call other servers for each page.
		learn_kept( $key, empty( $GLOBALS['galley_kept_http'] ) ? 'page' : 'other' );
	}
}

/**
 * Notes that the page asks another server, unless it does not wait for the answer.
 */
function note_http( $response, $arguments = array() ) {
	if ( ! empty( $arguments['blocking'] ) ) {
		$GLOBALS['galley_kept_http'] = true;
	}
	return $response;
}

/**
 * Records what fills a key, for later requests.
 */
function learn_kept( string $key, string $by ): void {
	static $is_inner = false;
	$all             = (array) get_option( KEPT_OPTION, array() );
	$shape           = kept_shape( $key );
	if ( ! $is_inner && ( $all[ $shape ] ?? '' ) !== $by && ( isset( $all[ $shape ] ) || count( $all ) < MAX_KEPT ) ) {
		$is_inner      = true;
		$all[ $shape ] = $by;
		update_option( KEPT_OPTION, $all, true );
		$is_inner = false;
	}
}

/**
 * Records keys that counted as missing and that the page has not filled. Returns whether there are any: the page then lacks what they
 * contain.
 */
function lacks_kept_html(): bool {
	$missed = array_keys( $GLOBALS['galley_kept_missed'] );
	foreach ( $missed as $key ) {
		learn_kept( (string) $key, 'other' );
	}
	$GLOBALS['galley_kept_missed'] = array();
	return (bool) $missed;
}

/**
 * Watches a transient that WordPress is about to read from the database.
 */
function watch_transient( $pre, $option = '' ) {
	static $watched = array();
	$key            = transient_of( (string) $option );
	if ( null !== $key && ! isset( $watched[ $key ] ) ) {
		$watched[ $key ] = true;
		add_filter( "transient_$key", __NAMESPACE__ . '\\read_transient', PHP_INT_MAX, 2 );
	}
	return $pre;
}

function read_transient( $value, $key = '' ) {
	return counts_as_missing( "transient:$key", $value ) ? false : without_kept_marks( $value );
}

/**
 * Returns the name of a transient by the name of its option, or null for another option. Pure.
 */
function transient_of( string $option ): ?string {
	return 0 === strncmp( $option, '_transient_', 11 ) && 0 !== strncmp( $option, '_transient_timeout_', 19 ) ? substr( $option, 11 ) : null;
}

function note_update( $value, $option = '' ) {
	note_addition( $option, $value );
	return without_kept_marks( $value );
}

function note_addition( $option, $value = null ): void {
	$key = transient_of( (string) $option );
	if ( null !== $key ) {
		note_kept( "transient:$key", $value );
	}
}

/**
 * Removes markers from a page that the plugin does not describe. Files and other caches that this file does not know may contain them.
 */
function remove_kept_marks( $template ) {
	ob_start( __NAMESPACE__ . '\\remove_marks', BUFFER );
	return $template;
}
