<?php
/**
 * Private parts of WordPress core: the toolbar with its styles and scripts, classes of the body element, and speculation rules.
 *
 * WordPress prints styles and scripts in an order that depends on all of them. On a page with private parts, the plugin prints the styles
 * and scripts of the toolbar separately, after all others, so that the others are the same for all visitors.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Classes of the body element that depend on the visitor. */
const MEMBER_CLASSES = array( 'logged-in', 'admin-bar', 'no-customize-support' );

/** Functions that print styles of the toolbar in the head of the page. */
$GLOBALS['galley_toolbar_styles'] = array();

if ( marks_private() ) {
	add_filter( 'body_class', __NAMESPACE__ . '\\separate_member_classes', PHP_INT_MAX );
	add_action( 'template_redirect', __NAMESPACE__ . '\\separate_toolbar', 1 );
}

function separate_toolbar(): void {
	add_action( 'wp_head', __NAMESPACE__ . '\\withhold_toolbar_styles', 2 );
	add_action( 'wp_head', __NAMESPACE__ . '\\print_toolbar_styles', 200 );
	add_action( 'wp_footer', __NAMESPACE__ . '\\print_toolbar_scripts', 200 );
	foreach ( array( 'wp_body_open', 'wp_footer' ) as $action ) {
		$priority = has_action( $action, 'wp_admin_bar_render' );
		if ( false !== $priority ) {
			remove_action( $action, 'wp_admin_bar_render', $priority );
			add_action( $action, __NAMESPACE__ . '\\print_toolbar', $priority );
		}
	}
	$priority = has_action( 'wp_footer', 'wp_print_speculation_rules' );
	if ( false !== $priority ) {
		// WordPress prints speculation rules only for anonymous visitors.
		remove_action( 'wp_footer', 'wp_print_speculation_rules', $priority );
		add_action( 'wp_footer', __NAMESPACE__ . '\\print_speculation_rules', $priority );
	}
}

/**
 * Moves the classes that depend on the visitor behind the other classes of the body element and makes them a private part.
 *
 * @param string[] $classes Escaped class names.
 */
function separate_member_classes( $classes ) {
	$others = array_values( array_diff( (array) $classes, MEMBER_CLASSES ) );
	$begin  = begin_private( 'body-class', 'session' );
	if ( '' === $begin || ! $others ) {
		return $classes;
	}
	$own = array_intersect( MEMBER_CLASSES, (array) $classes );

	$others[ count( $others ) - 1 ] .= $begin . ( $own ? ' ' . implode( ' ', $own ) : '' ) . end_private( 'body-class' );
	return $others;
}

/**
 * Removes the styles and scripts of the toolbar from the queue, so that the plugin can print them separately. It runs after WordPress and
 * the theme have enqueued theirs.
 */
function withhold_toolbar_styles(): void {
	wp_dequeue_style( 'admin-bar' );
	wp_dequeue_script( 'admin-bar' );
	$support  = get_theme_support( 'admin-bar' );
	$callback = is_array( $support ) ? ( $support[0]['callback'] ?? null ) : null;
	foreach ( array( 'wp_admin_bar_header', $callback ?? '_admin_bar_bump_cb' ) as $print ) {
		$priority = has_action( 'wp_head', $print );
		if ( false !== $priority ) {
			remove_action( 'wp_head', $print, $priority );
			$GLOBALS['galley_toolbar_styles'][] = $print;
		}
	}
}

function print_toolbar_styles(): void {
	print_private(
		'toolbar-styles',
		static function (): void {
			if ( is_admin_bar_showing() ) {
				wp_print_styles( array( 'admin-bar' ) );
				array_map( 'call_user_func', $GLOBALS['galley_toolbar_styles'] );
			}
		},
		'session'
	);
}

function print_toolbar_scripts(): void {
	print_private(
		'toolbar-scripts',
		static function (): void {
			if ( is_admin_bar_showing() ) {
				wp_print_scripts( array( 'admin-bar' ) );
			}
		},
		'session'
	);
}

/**
 * Prints the toolbar once. For users with editing rights, the toolbar contains links that depend on the page.
 */
function print_toolbar(): void {
	static $is_printed = false;
	if ( ! $is_printed ) {
		$is_printed = true;
		print_private( 'toolbar', 'wp_admin_bar_render', current_user_can( 'edit_posts' ) || is_super_admin() || is_author() ? 'page' : 'session' );
	}
}

function print_speculation_rules(): void {
	print_private( 'speculation-rules', 'wp_print_speculation_rules', 'session' );
}
