<?php
/**
 * Renders fragments without their page, for a request with `Galley-Fragment: <definition>[,<definition>...]`.
 *
 * The response is described as a page is: its body is the fragments one after the other, and each has its field, with its number in
 * the request in place of the definition. What cannot be rendered is missing. Each fragment is rendered twice: if the second rendering
 * differs (a counter, an id that a page may have once), the fragment depends on what was rendered before it. Then it must be the first,
 * and nothing may follow.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Definitions in one request. */
const MOST_RENDERED = 24;

if ( is_shared() && null !== wanted_fragment() ) {
	add_filter( 'do_parse_request', __NAMESPACE__ . '\\skip_request', PHP_INT_MAX );
	add_action( 'template_redirect', __NAMESPACE__ . '\\render_fragments', PHP_INT_MIN );
}

/**
 * A fragment belongs to no page, so WordPress need not find one. What would have run then runs here.
 */
function skip_request(): bool {
	gather_options();
	return false;
}

/**
 * Renders the fragments that Galley requests, and nothing else.
 */
function render_fragments(): void {
	$wanted = array_slice( explode( ',', (string) wanted_fragment() ), 0, MOST_RENDERED );
	$body   = '';
	foreach ( $wanted as $number => $signed ) {
		$known = read_definition( $signed );
		if ( null === $known ) {
			continue;
		}
		begin_fragment( 'alone', $known );
		$mark    = $GLOBALS['galley_open_fragment']['number'];
		$html    = render_definition( $known );
		$is_same = render_definition( $known ) === $html;
		end_fragment();
		if ( null === $html || ( ! $is_same && '' !== $body ) ) {
			// What it depends on must not become part of the others.
			$GLOBALS['galley_fragments'][ $mark ]['tags'] = array();
		} else {
			$GLOBALS['galley_fragments'][ $mark ]['name'] = (string) $number;
			$body                                        .= fragment_mark( 'begin', $mark ) . $html . fragment_mark( 'end', $mark );
		}
		if ( ! $is_same ) {
			break;
		}
	}
	if ( '' === $body ) {
		status_header( 410 );
		header( 'Galley-Cache-Control: no-store' );
		exit;
	}
	status_header( 200 );
	// No HTML page: Galley does not look for its end.
	header( 'Content-Type: text/plain; charset=' . get_option( 'blog_charset' ) );
	echo $body; // phpcs:ignore WordPress.Security.EscapeOutput -- what a page shows in these places.
	exit;
}

/**
 * What is to be rendered; null: not signed by this site, or of another blog.
 *
 * @param string $signed Definition and signature.
 */
function read_definition( string $signed ): ?array {
	list( $definition, $signature ) = array_pad( explode( '.', $signed, 2 ), 2, '' );
	// phpcs:ignore WordPress.PHP.DiscouragedPHPFunctions -- a field holds no blanks.
	$known = hash_equals( wp_hash( $definition ), $signature ) ? json_decode( (string) base64_decode( $definition, true ), true ) : null;
	return is_array( $known ) && is_array( $known[1] ?? null ) && get_current_blog_id() === $known[0] ? $known[1] : null;
}

/**
 * The fragment; null: it cannot be rendered.
 */
function render_definition( array $known ): ?string {
	$level = ob_get_level();
	try {
		return isset( $known['block'] ) ? render_block( (array) $known['block'] ) : widget_html( (string) ( $known['sidebar'] ?? '' ), (string) ( $known['widget'] ?? '' ) );
	} catch ( \Throwable $failure ) {
		while ( ob_get_level() > $level && ob_end_clean() ) {
			continue;
		}
		return null;
	}
}

/**
 * What one widget of a sidebar prints, without the others; null: it is not there.
 */
function widget_html( string $sidebar, string $widget ): ?string {
	$only = static function ( $all ) use ( $sidebar, $widget ) {
		$all             = is_array( $all ) ? $all : array();
		$all[ $sidebar ] = in_array( $widget, (array) ( $all[ $sidebar ] ?? array() ), true ) ? array( $widget ) : array();
		return $all;
	};
	$mark = static function ( $params ) {
		return between_marks( $params, 0 );
	};
	add_filter( 'sidebars_widgets', $only, PHP_INT_MAX );
	add_filter( 'dynamic_sidebar_params', $mark, PHP_INT_MAX );
	ob_start();
	try {
		dynamic_sidebar( $sidebar );
	} finally {
		$html = (string) ob_get_clean();
		remove_filter( 'sidebars_widgets', $only, PHP_INT_MAX );
		remove_filter( 'dynamic_sidebar_params', $mark, PHP_INT_MAX );
	}
	list( $plain, $places ) = without_marks( $html, $GLOBALS['galley_mark'] );
	return isset( $places[0] ) ? substr( $plain, $places[0][0], $places[0][1] ) : null;
}
