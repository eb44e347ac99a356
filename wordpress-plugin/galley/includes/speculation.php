<?php
/**
 * Adds speculation rules, by which browsers load pages before the visitor follows a link. A stored page costs PHP nothing, so browsers can
 * load pages earlier than WordPress allows. If a page is not stored and PHP is busy, Galley refuses the request (503 to `Sec-Purpose:
 * prefetch`).
 *
 * WordPress 6.8 and later print the rules, and filters set mode and eagerness. With earlier versions, the plugin prints them. Only
 * anonymous visitors get them, and only if requests pass through Galley. The rules exclude links that do something: administration, login,
 * cart, checkout, accounts, query strings, `rel="nofollow"`, and paths that the owner excludes from the cache.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Settings to choose from. The empty one keeps the default of WordPress. */
const SPECULATIONS = array(
	''               => array(),
	'prefetch'       => array(
		'mode'      => 'prefetch',
		'eagerness' => 'moderate',
	),
	'prefetch-eager' => array(
		'mode'      => 'prefetch',
		'eagerness' => 'eager',
	),
	'prerender'      => array(
		'mode'      => 'prerender',
		'eagerness' => 'moderate',
	),
);

/** Paths of pages for one visitor, relative to the home page, with the usual names of shop and membership plugins. */
const ACTING_PATHS = array( '/cart/*', '/basket/*', '/checkout/*', '/my-account/*', '/account/*', '/login/*', '/logout/*', '/register/*', '/wishlist/*' );

/** Paths whose characters have no special meaning in a URL pattern, or the same one, as the asterisk has. */
const PLAIN_PATTERN = '~^/[A-Za-z0-9/_.\~%*-]*$~D';

add_filter( 'wp_speculation_rules_configuration', __NAMESPACE__ . '\\configure_speculation' );
add_filter( 'wp_speculation_rules_href_exclude_paths', __NAMESPACE__ . '\\exclude_from_speculation' );
add_action( 'wp_footer', __NAMESPACE__ . '\\print_speculation' );

/**
 * Returns the mode and the eagerness for the current request. If empty, those of WordPress apply.
 *
 * @return array{mode?: string, eagerness?: string}
 */
function speculation(): array {
	// Galley stores nothing in development mode.
	return passes_through() && 0 === development_left() ? SPECULATIONS[ choices()['speculation'] ] : array();
}

/**
 * Passes mode and eagerness to WordPress. Null is unchanged: WordPress or another plugin has decided to print no rules.
 *
 * @param array|null $configuration Values of `mode` and `eagerness`.
 * @return array|null
 */
function configure_speculation( $configuration ) {
	return is_array( $configuration ) ? array_merge( $configuration, speculation() ) : $configuration;
}

/**
 * @param mixed $paths Patterns relative to the home page.
 * @return string[]
 */
function exclude_from_speculation( $paths ): array {
	return array_values( array_unique( array_merge( (array) $paths, acting_paths() ) ) );
}

/**
 * Returns patterns of paths, relative to the home page, that browsers must not load in advance.
 *
 * @return string[]
 */
function acting_paths(): array {
	$home  = rtrim( (string) wp_parse_url( home_url( '/' ), PHP_URL_PATH ), '/' );
	$paths = array();
	foreach ( acting_pages() as $url ) {
		$path = (string) wp_parse_url( $url, PHP_URL_PATH );
		if ( '' === $home || 0 === strpos( $path, $home . '/' ) ) {
			$paths[] = rtrim( substr( $path, strlen( $home ) ), '/' ) . '/*';
		}
	}
	foreach ( choices()['paths'] as $path ) {
		if ( '' === $home || 0 === strpos( $path, $home . '/' ) ) {
			$paths[] = substr( $path, strlen( $home ) );
		}
	}
	return plain_patterns( array_merge( ACTING_PATHS, $paths ) );
}

/**
 * Returns the paths that a URL pattern matches literally, without patterns that exclude the whole site. Pure.
 *
 * @param string[] $paths Any text.
 * @return string[]
 */
function plain_patterns( array $paths ): array {
	$plain = preg_grep( PLAIN_PATTERN, $paths );
	return array_values( array_diff( $plain ? $plain : array(), array( '/*' ) ) );
}

/**
 * Returns the addresses of the cart, checkout and account pages of a shop, with their names on this site.
 *
 * @return string[]
 */
function acting_pages(): array {
	$urls = array();
	if ( function_exists( 'wc_get_page_id' ) ) {
		foreach ( array( 'cart', 'checkout', 'myaccount' ) as $name ) {
			$page   = (int) wc_get_page_id( $name );
			$urls[] = $page > 0 ? get_permalink( $page ) : '';
		}
	}
	if ( function_exists( 'edd_get_checkout_uri' ) ) {
		$urls[] = edd_get_checkout_uri();
	}
	return array_filter( $urls, 'is_string' );
}

/**
 * Prints the rules if WordPress prints none (before 6.8) and the plugin from which the rules of WordPress originate is not active.
 */
function print_speculation(): void {
	if ( ! speculation() || function_exists( 'wp_print_speculation_rules' ) || function_exists( 'plsr_print_speculation_rules' ) || ! get_option( 'permalink_structure' ) ) {
		return;
	}
	print_private( 'speculation-rules', __NAMESPACE__ . '\\print_own_speculation', 'session' );
}

function print_own_speculation(): void {
	if ( is_user_logged_in() ) {
		return;
	}
	$home  = rtrim( (string) wp_parse_url( home_url( '/' ), PHP_URL_PATH ), '/' );
	$paths = array();
	foreach ( array( site_url( '/' ), content_url( '/' ), plugins_url( '/' ), get_template_directory_uri() . '/', wp_upload_dir( null, false )['baseurl'] . '/' ) as $at => $url ) {
		$path  = (string) wp_parse_url( $url, PHP_URL_PATH );
		$paths = array_merge( $paths, 0 === $at ? array( $path . 'wp-*.php', $path . 'wp-admin/*' ) : array( $path . '*' ) );
	}
	foreach ( acting_paths() as $path ) {
		$paths[] = $home . $path;
	}
	$rules = speculation_rules( speculation(), $home, plain_patterns( $paths ) );
	wp_print_inline_script_tag( (string) wp_json_encode( $rules, JSON_HEX_TAG | JSON_HEX_AMP ), array( 'type' => 'speculationrules' ) );
}

/**
 * Returns the rules in the format of browsers. Pure.
 *
 * @param array    $wanted   Mode and eagerness.
 * @param string   $home     Path of the home page without the trailing slash.
 * @param string[] $excluded Patterns of paths.
 */
function speculation_rules( array $wanted, string $home, array $excluded ): array {
	$not_marked = 'prerender' === $wanted['mode'] ? '.no-prefetch, .no-prefetch a, .no-prerender, .no-prerender a' : '.no-prefetch, .no-prefetch a';
	// A question mark starts a group in a URL pattern, unless it is escaped.
	$excluded[] = $home . '/*\\?(.+)';
	return array(
		$wanted['mode'] => array(
			array(
				'source'    => 'document',
				'where'     => array(
					'and' => array(
						array( 'href_matches' => $home . '/*' ),
						array( 'not' => array( 'href_matches' => $excluded ) ),
						array( 'not' => array( 'selector_matches' => 'a[rel~="nofollow"]' ) ),
						array( 'not' => array( 'selector_matches' => $not_marked ) ),
					),
				),
				'eagerness' => $wanted['eagerness'],
			),
		),
	);
}
