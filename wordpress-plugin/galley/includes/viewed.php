<?php
/**
 * Lists of what a visitor has viewed, in cookies that each page sets: "Recently viewed products" of WooCommerce.
 *
 * Such a cookie would keep all these pages out of the cache. So while the plugin describes a page, it takes the cookie out of the response,
 * and a script in the page adds the page to the visitor's list instead. Where the widget would print the list, the script inserts it: a
 * page of its own, `/?galley-viewed=<widget>&galley-ids=<IDs>`, which is the same for all visitors with this list, and has its own tags.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Cookies with IDs of posts, oldest first: separator, maximum number, ID base of the widget that shows them. */
const VIEWED_COOKIES = array(
	'woocommerce_recently_viewed' => array( '|', 15, 'woocommerce_recently_viewed_products' ),
);

/** Lifetime of a list in seconds. Few visitors have the same list. */
const VIEWED_LIFETIME = 3600;

/** Widgets whose list the script of this page inserts. Keys are their IDs. */
$GLOBALS['galley_viewed_widgets'] = array();

// phpcs:ignore WordPress.Security -- compared only.
if ( viewed_ids( (string) ( $_SERVER['REQUEST_METHOD'] ?? '' ), $_GET ) ) {
	add_filter( 'do_parse_request', __NAMESPACE__ . '\\begin_viewed', PHP_INT_MAX );
} else {
	watch_viewed();
}

function watch_viewed(): void {
	if ( is_described() && null === wanted_fragment() ) {
		add_action( 'dynamic_sidebar', __NAMESPACE__ . '\\hold_place_for_viewed', PHP_INT_MIN );
		add_action( 'wp_footer', __NAMESPACE__ . '\\print_viewed_script', PHP_INT_MAX );
	}
}

/**
 * Returns the IDs in the address of a list, or none if the request is for something else. Each list has one address. Pure.
 *
 * @param array $query Parameters of the address. Plugins for languages add `lang`.
 * @return string[]
 */
function viewed_ids( string $method, array $query ): array {
	$list = $query['galley-ids'] ?? null;
	if ( 'GET' !== $method || ! is_string( $list ) || ! is_string( $query['galley-viewed'] ?? null ) || array_diff( array_keys( $query ), array( 'galley-viewed', 'galley-ids', 'lang' ) ) ) {
		return array();
	}
	$ids = preg_match( '/^[1-9]\d{0,18}(-[1-9]\d{0,18})*$/D', $list ) ? explode( '-', $list ) : array();
	return array_unique( $ids ) === $ids ? $ids : array();
}

/**
 * Lets the request print a list if its address has the path of the front page, else what WordPress has there.
 */
function begin_viewed( $parse ) {
	$homes = array( home_url( '/' ) );
	if ( function_exists( 'pll_languages_list' ) && function_exists( 'pll_home_url' ) ) {
		$homes = array_merge( $homes, array_map( 'pll_home_url', pll_languages_list() ) );
	}
	$path = strtok( (string) ( $_SERVER['REQUEST_URI'] ?? '' ), '?' ); // phpcs:ignore WordPress.Security -- compared only.
	foreach ( $homes as $home ) {
		if ( wp_parse_url( $home, PHP_URL_PATH ) === $path ) {
			add_action( 'template_redirect', __NAMESPACE__ . '\\print_viewed', PHP_INT_MIN );
			return skip_request();
		}
	}
	watch_viewed();
	return $parse;
}

/**
 * Prints an element in place of the widget, which prints nothing without the cookie.
 */
function hold_place_for_viewed( $widget ): void {
	$id = is_array( $widget ) ? (string) ( $widget['id'] ?? '' ) : '';
	if ( null !== cookie_of_widget( $id ) ) {
		$GLOBALS['galley_viewed_widgets'][ $id ] = true;
		echo '<div hidden data-galley-viewed="', esc_attr( $id ), '"></div>';
	}
}

/**
 * Returns the name of the cookie with the list that a widget shows, or null for another widget.
 */
function cookie_of_widget( string $id ): ?string {
	$bases = array_map( 'strval', array_column( VIEWED_COOKIES, 2 ) );
	$at    = array_search( _get_widget_id_base( $id ), $bases, true );
	return false === $at ? null : array_keys( VIEWED_COOKIES )[ $at ];
}

/**
 * Takes the cookies out of the response, and prints the script that keeps and shows the lists.
 */
function print_viewed_script(): void {
	$set = take_viewed_cookies();
	if ( ! $set && ! $GLOBALS['galley_viewed_widgets'] ) {
		return;
	}
	$lists = array();
	foreach ( VIEWED_COOKIES as $name => list( $separator, $most ) ) {
		$lists[] = array( $name, $separator, $most, $set[ $name ] ?? null );
	}
	$data = wp_json_encode( array( home_url( '/' ), (int) get_queried_object_id(), $lists ), JSON_HEX_TAG | JSON_HEX_AMP );
	// phpcs:ignore WordPress.WP.AlternativeFunctions.file_get_contents_file_get_contents -- a local file.
	wp_print_inline_script_tag( trim( (string) file_get_contents( __DIR__ . '/viewed.js' ) ) . "( $data );" );
}

/**
 * Removes the cookies from the response. Returns the attributes of each that a script needs, by name.
 *
 * @return array<string, string>
 */
function take_viewed_cookies(): array {
	$taken  = array();
	$others = array();
	foreach ( headers_sent() ? array() : headers_list() as $line ) {
		if ( preg_match( '/^set-cookie:\s*([^=;\s]+)=[^;]*(.*)$/i', $line, $found ) && isset( VIEWED_COOKIES[ $found[1] ] ) ) {
			$taken[ $found[1] ] = (string) preg_replace( '/;\s*+(?!(?:path|domain|expires|max-age|secure|samesite)\b)[^;]*/i', '', $found[2] );
		} elseif ( 0 === strncasecmp( $line, 'set-cookie:', 11 ) ) {
			$others[] = $line;
		}
	}
	if ( $taken ) {
		header_remove( 'Set-Cookie' );
		foreach ( $others as $line ) {
			header( $line, false );
		}
	}
	return $taken;
}

/**
 * Prints the list of a widget for the IDs in the address, and nothing else.
 */
function print_viewed(): void {
	$id      = sanitize_text_field( wp_unslash( (string) ( $_GET['galley-viewed'] ?? '' ) ) ); // phpcs:ignore WordPress.Security.NonceVerification -- reads only.
	$ids     = viewed_ids( 'GET', $_GET ); // phpcs:ignore WordPress.Security.NonceVerification -- reads only.
	$name    = cookie_of_widget( $id );
	$sidebar = null === $name ? null : is_active_widget( false, $id, _get_widget_id_base( $id ) );
	if ( ! $sidebar || ! is_string( $sidebar ) || ! $ids || count( $ids ) > VIEWED_COOKIES[ $name ][1] ) {
		status_header( 410 );
		header( 'Galley-Cache-Control: no-store' );
		exit;
	}
	$_COOKIE[ $name ] = implode( VIEWED_COOKIES[ $name ][0], $ids );
	tag( 'sb.' . word( $sidebar ) );
	at_most( VIEWED_LIFETIME );
	status_header( 200 );
	header( 'X-Robots-Tag: noindex' );
	remove_filter( 'dynamic_sidebar_params', __NAMESPACE__ . '\\begin_widget', PHP_INT_MAX );
	// A whole document, because the server takes a part of one for an error page. The script inserts nothing without the ID.
	echo '<!DOCTYPE html><html><head><title></title></head><body data-galley-viewed="', esc_attr( $id ), '">', (string) widget_html( $sidebar, $id ), '</body></html>'; // phpcs:ignore WordPress.Security.EscapeOutput -- what the widget prints.
	exit;
}
