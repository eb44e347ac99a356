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

/** Functions of the actions `wp_head` and `wp_footer` that print parts of the toolbar: action, function. */
$GLOBALS['galley_toolbar_printers'] = array();

/** Styles and scripts of the toolbar. */
$GLOBALS['galley_toolbar_handles'] = array(
	'styles'  => array(),
	'scripts' => array(),
);

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
 * Removes the styles and scripts of the toolbar from the queues, with those that depend on them, so that the plugin can print them
 * separately. It runs after WordPress and the theme have enqueued theirs.
 */
function withhold_toolbar_styles(): void {
	$GLOBALS['galley_toolbar_handles'] = array(
		'styles'  => of_toolbar( wp_styles() ),
		'scripts' => of_toolbar( wp_scripts() ),
	);
	wp_dequeue_style( $GLOBALS['galley_toolbar_handles']['styles'] );
	wp_dequeue_script( $GLOBALS['galley_toolbar_handles']['scripts'] );
	$support = get_theme_support( 'admin-bar' );
	withhold_printers( 'wp_head', is_array( $support ) ? ( $support[0]['callback'] ?? null ) : null, 3 );
	withhold_printers( 'wp_footer', null );
}

/**
 * Returns the handles in a queue that are the toolbar's or depend on it.
 *
 * @param \WP_Dependencies $all Styles or scripts.
 * @return string[]
 */
function of_toolbar( $all ): array {
	$found = array();
	foreach ( $all->queue as $handle ) {
		if ( 'admin-bar' === $handle || in_array( 'admin-bar', $all->registered[ $handle ]->deps ?? array(), true ) ) {
			$found[] = $handle;
		}
	}
	return $found;
}

/**
 * Removes the functions from an action that print something for the toolbar: the one of the theme, and those of WordPress and of plugins
 * that say so in their names.
 *
 * @param callable|null $of_theme The function that makes room for the toolbar.
 * @param int           $from     Least priority of functions that have not printed yet.
 */
function withhold_printers( string $action, $of_theme, int $from = PHP_INT_MIN ): void {
	foreach ( $GLOBALS['wp_filter'][ $action ]->callbacks ?? array() as $priority => $callbacks ) {
		foreach ( $callbacks as $callback ) {
			$print = $callback['function'];
			if ( $priority >= $from && ( $print === $of_theme || prints_for_toolbar( $print ) ) ) {
				remove_action( $action, $print, $priority );
				$GLOBALS['galley_toolbar_printers'][] = array( $action, $print );
			}
		}
	}
}

/**
 * Returns whether the name of a function, or of its class, names the toolbar. Pure.
 *
 * @param mixed $callback A function.
 */
function prints_for_toolbar( $callback ): bool {
	$words = is_array( $callback ) ? array( is_object( $callback[0] ) ? get_class( $callback[0] ) : $callback[0], $callback[1] ) : array( $callback );
	$names = array_filter( $words, 'is_string' );
	return (bool) preg_grep( '/admin_?bar/i', $names ) && ! in_array( 'wp_admin_bar_render', $names, true );
}

/**
 * Calls the functions of an action that print something for the toolbar.
 */
function call_printers( string $action ): void {
	foreach ( $GLOBALS['galley_toolbar_printers'] as list( $of, $print ) ) {
		if ( $of === $action ) {
			call_user_func( $print );
		}
	}
}

function print_toolbar_styles(): void {
	print_private(
		'toolbar-styles',
		static function (): void {
			wp_print_styles( $GLOBALS['galley_toolbar_handles']['styles'] );
			call_printers( 'wp_head' );
		},
		toolbar_scope()
	);
}

function print_toolbar_scripts(): void {
	print_private(
		'toolbar-scripts',
		static function (): void {
			wp_print_scripts( $GLOBALS['galley_toolbar_handles']['scripts'] );
			call_printers( 'wp_footer' );
		},
		toolbar_scope()
	);
}

/**
 * Returns the scope of the parts of the toolbar. For users with editing rights, the toolbar contains links that depend on the page.
 */
function toolbar_scope(): string {
	return current_user_can( 'edit_posts' ) || is_super_admin() || is_author() ? 'page' : 'session';
}

/**
 * Prints the toolbar once.
 */
function print_toolbar(): void {
	static $is_printed = false;
	if ( ! $is_printed ) {
		$is_printed = true;
		print_private( 'toolbar', 'wp_admin_bar_render', toolbar_scope() );
	}
}

function print_speculation_rules(): void {
	print_private( 'speculation-rules', 'wp_print_speculation_rules', 'session' );
}
