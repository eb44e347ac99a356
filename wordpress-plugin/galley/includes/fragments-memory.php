<?php
/**
 * Dependencies of fragments that code of plugins prints from memory.
 *
 * A widget, block or shortcode may keep its HTML until the request ends, in the object cache or in a variable, as widgets of WooCommerce
 * do. When it is printed again, it reads nothing, so the plugin sees no dependencies. This happens if a theme prints it twice, and if
 * one request renders a fragment for several pages (fragments-render.php). Therefore what is printed again has the tags of each earlier
 * fragment by the same code as well. Before a fragment is rendered without its page, the object cache of the request is emptied, because
 * the kept HTML may show another page as the current one.
 *
 * Code of WordPress is described each time that it prints something.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Tags of the fragments that each class of widgets, block type or shortcode of a plugin has printed in this request. */
$GLOBALS['galley_printed'] = array();

if ( is_described() ) {
	add_filter( 'render_block', __NAMESPACE__ . '\\note_code_of_block', PHP_INT_MIN, 2 );
	add_filter( 'do_shortcode_tag', __NAMESPACE__ . '\\note_code_of_shortcode', PHP_INT_MIN, 2 );
	add_action( 'the_widget', __NAMESPACE__ . '\\note_code' );
}

/**
 * Records that code of a plugin has printed something. Outside of fragments, the page gets the tags of what this code printed before.
 *
 * @param string $name Class of the widget, type of the block, or name of the shortcode.
 */
function note_code( $name ): void {
	if ( null === $GLOBALS['galley_open_fragment'] ) {
		$GLOBALS['galley_tags'] += $GLOBALS['galley_printed'][ (string) $name ] ?? array();
	} else {
		$GLOBALS['galley_open_fragment']['code'][ (string) $name ] = true;
	}
}

function note_code_of_block( $html, $block = array() ) {
	$name = (string) ( $block['blockName'] ?? '' );
	if ( '' !== $name && 0 !== strpos( $name, 'core/' ) ) {
		note_code( $name );
	}
	return $html;
}

function note_code_of_shortcode( $html, $tag = '' ) {
	note_code( "[$tag]" );
	return $html;
}

/**
 * Records the class of a widget that is not one of WordPress.
 *
 * @param string $id ID of the widget.
 */
function note_code_of_widget( string $id ): void {
	$callback = $GLOBALS['wp_registered_widgets'][ $id ]['callback'] ?? null;
	$widget   = is_array( $callback ) ? $callback[0] ?? null : null;
	if ( ! is_object( $widget ) ) {
		note_code( $id );
	} elseif ( ! is_widget_of_wordpress( $widget ) ) {
		note_code( get_class( $widget ) );
	}
}

function is_widget_of_wordpress( object $widget ): bool {
	$folder = dirname( (string) ( new \ReflectionClass( 'WP_Widget' ) )->getFileName() ) . '/widgets/';
	return 0 === strpos( (string) ( new \ReflectionClass( $widget ) )->getFileName(), $folder );
}

/**
 * Returns the tags of a fragment together with those of the earlier fragments that the same code printed. Pure except for `galley_printed`.
 *
 * @param array $code Keys are the names that `note_code` recorded.
 * @param array $tags Keys are the tags that the fragment has itself.
 */
function with_printed_tags( array $code, array $tags ): array {
	$all = $tags;
	foreach ( $code as $name => $_ ) {
		$all                               += $GLOBALS['galley_printed'][ $name ] ?? array();
		$GLOBALS['galley_printed'][ $name ] = $tags + ( $GLOBALS['galley_printed'][ $name ] ?? array() );
	}
	return $all;
}

/**
 * Empties the object cache of this request if the fragment with this definition may take output of plugins from there.
 */
function forget_printed( array $definition ): void {
	if ( may_print_kept( $definition, $GLOBALS['galley_printed'] ) && function_exists( 'wp_cache_supports' ) && wp_cache_supports( 'flush_runtime' ) ) {
		wp_cache_flush_runtime();
	}
}

/**
 * Returns whether a fragment may print what code of plugins has kept. WordPress keeps no HTML of menus and of links to categories. Pure.
 *
 * @param array $definition Input of `render_definition`.
 * @param array $printed    What code of plugins has printed in this request.
 */
function may_print_kept( array $definition, array $printed ): bool {
	return $printed && ! isset( $definition['menu'] ) && ! isset( $definition['terms'] );
}
