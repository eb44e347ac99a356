<?php
/**
 * Speculation rules: browsers load pages in advance, before a link is followed. A stored page costs PHP nothing, so this can begin earlier
 * than WordPress lets it; a page that is not stored is refused while PHP is busy (503 to `Sec-Purpose: prefetch`).
 *
 * WordPress 6.8 and later print the rules, and filters set mode and eagerness; before, they are printed here. Only anonymous visitors get them, only
 * where requests come through Galley, and never for links that do something: administration, login, cart, checkout, accounts, query
 * strings, `rel="nofollow"`, and what the owner does not want to be stored.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** What may be chosen. Empty: what WordPress does by itself. */
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

/** Paths of pages that are about one visitor, below the home page, in the names that shops and membership plugins give them. */
const ACTING_PATHS = array( '/cart/*', '/basket/*', '/checkout/*', '/my-account/*', '/account/*', '/login/*', '/logout/*', '/register/*', '/wishlist/*' );

/** Characters of a path that mean nothing else in a URL pattern, and the asterisk, which means the same. */
const PLAIN_PATTERN = '~^/[A-Za-z0-9/_.\~%*-]*$~D';

add_filter( 'wp_speculation_rules_configuration', __NAMESPACE__ . '\\configure_speculation' );
add_filter( 'wp_speculation_rules_href_exclude_paths', __NAMESPACE__ . '\\exclude_from_speculation' );
add_action( 'wp_footer', __NAMESPACE__ . '\\print_speculation' );

/**
 * Mode and eagerness that are in force for the request at hand; empty: those of WordPress.
 *
 * @return array{mode?: string, eagerness?: string}
 */
function speculation(): array {
	// In development mode nothing is stored.
	return passes_through() && 0 === development_left() ? SPECULATIONS[ choices()['speculation'] ] : array();
}

/**
 * Tells WordPress. Null stays: it, or another plugin, has decided that there are no rules.
 *
 * @param array|null $configuration `mode` and `eagerness`.
 * @return array|null
 */
function configure_speculation( $configuration ) {
	return is_array( $configuration ) ? array_merge( $configuration, speculation() ) : $configuration;
}

/**
 * @param mixed $paths Patterns below the home page.
 * @return string[]
 */
function exclude_from_speculation( $paths ): array {
	return array_values( array_unique( array_merge( (array) $paths, acting_paths() ) ) );
}

/**
 * Patterns of paths, below the home page, that no browser may request in advance.
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
 * Those that a URL pattern means literally, and that do not exclude the whole site. Pure.
 *
 * @param string[] $paths May be anything.
 * @return string[]
 */
function plain_patterns( array $paths ): array {
	$plain = preg_grep( PLAIN_PATTERN, $paths );
	return array_values( array_diff( $plain ? $plain : array(), array( '/*' ) ) );
}

/**
 * Addresses of a shop's pages, whatever they are called here.
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
 * The rules, where WordPress prints none of its own (before 6.8, and without the plugin that core's are made of).
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
 * The rules as browsers read them. Pure.
 *
 * @param array    $wanted   Mode and eagerness.
 * @param string   $home     Path of the home page without the slash at its end.
 * @param string[] $excluded Patterns of paths.
 */
function speculation_rules( array $wanted, string $home, array $excluded ): array {
	$not_marked = 'prerender' === $wanted['mode'] ? '.no-prefetch, .no-prefetch a, .no-prerender, .no-prerender a' : '.no-prefetch, .no-prefetch a';
	// A question mark begins a group in a URL pattern unless it is escaped.
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
