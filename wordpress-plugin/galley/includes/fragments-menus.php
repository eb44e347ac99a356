<?php
/**
 * Menus and lists of a post's categories as fragments.
 *
 * A menu marks the current page, what is above it, and the categories of the post. These marks depend on the page and on which items
 * the menu has, but not on their titles. So the definition of a menu contains the page's marks and a hash of the items, and the tags of
 * what WordPress reads to find the marks belong to the page. Pages with the same marks share the fragment.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

if ( is_shared() && null === wanted_fragment() ) {
	add_filter( 'pre_wp_nav_menu', __NAMESPACE__ . '\\begin_menu', PHP_INT_MAX, 2 );
	add_filter( 'wp_get_nav_menu_items', __NAMESPACE__ . '\\leave_menu', PHP_INT_MAX );
	add_filter( 'wp_nav_menu_objects', __NAMESPACE__ . '\\enter_menu', PHP_INT_MIN );
	add_filter( 'wp_nav_menu', __NAMESPACE__ . '\\end_menu', PHP_INT_MAX );
	add_filter( 'the_category_list', __NAMESPACE__ . '\\begin_categories', PHP_INT_MAX );
	add_filter( 'the_category', __NAMESPACE__ . '\\end_categories', PHP_INT_MAX, 3 );
}

/** What WordPress takes where a theme says nothing else; it need not be sent to and fro. */
const MENU_DEFAULTS = array(
	'container'            => 'div',
	'container_class'      => '',
	'container_id'         => '',
	'container_aria_label' => '',
	'menu_class'           => 'menu',
	'menu_id'              => '',
	'before'               => '',
	'after'                => '',
	'link_before'          => '',
	'link_after'           => '',
	'items_wrap'           => '<ul id="%1$s" class="%2$s">%3$s</ul>',
	'item_spacing'         => 'preserve',
	'depth'                => 0,
	'walker'               => '',
	'theme_location'       => '',
);

/**
 * Whether a menu is the open fragment.
 */
function is_in_menu(): bool {
	return isset( $GLOBALS['galley_open_fragment']['definition']['menu'] );
}

/**
 * Begins a menu, if it can be rendered again from simple arguments.
 *
 * @param string|null $html What a filter has rendered in its place.
 * @param object      $args Of `wp_nav_menu`.
 */
function begin_menu( $html, $args = null ) {
	if ( is_in_menu() ) {
		// WordPress printed nothing of it.
		cancel_fragment();
	}
	if ( null !== $html || ! is_object( $args ) || ! may_begin_fragment() ) {
		return $html;
	}
	$menu  = menu_of( $args );
	$plain = plain_arguments( (array) $args );
	if ( $menu && null !== $plain ) {
		// The fragment is of this menu for good; that it is this one is the page's.
		tag( "ml$menu->term_id" );
		begin_fragment(
			"menu/$menu->slug",
			array(
				'menu' => $menu->term_id,
				'args' => $plain,
			)
		);
	}
	return $html;
}

/**
 * The menu that WordPress shows for these arguments.
 */
function menu_of( object $args ): ?\WP_Term {
	$menu = empty( $args->menu ) ? false : wp_get_nav_menu_object( $args->menu );
	if ( ! $menu && ! empty( $args->theme_location ) ) {
		$menu = wp_get_nav_menu_object( (int) ( get_nav_menu_locations()[ $args->theme_location ] ?? 0 ) );
	}
	return $menu instanceof \WP_Term ? $menu : null;
}

/**
 * The arguments of a menu as JSON can hold them; null: it has a walker of its own, or other objects. Pure.
 */
function plain_arguments( array $args ): ?array {
	unset( $args['menu'], $args['echo'], $args['fallback_cb'] );
	foreach ( $args as $name => $argument ) {
		if ( null !== $argument && ! is_scalar( $argument ) ) {
			return null;
		}
		if ( array_key_exists( $name, MENU_DEFAULTS ) && MENU_DEFAULTS[ $name ] === $argument ) {
			unset( $args[ $name ] );
		}
	}
	return $args;
}

/**
 * The items have been read. What is read until they are printed finds what the page marks, and belongs to the page.
 */
function leave_menu( $items ) {
	if ( is_in_menu() && ! isset( $GLOBALS['galley_open_fragment']['inner'] ) ) {
		if ( ! $items ) {
			cancel_fragment();
			return $items;
		}
		$GLOBALS['galley_open_fragment']['inner'] = $GLOBALS['galley_tags'];
		$GLOBALS['galley_tags']                   = $GLOBALS['galley_open_fragment']['around'];
	}
	return $items;
}

/**
 * The items have their classes: what the page marks is known.
 */
function enter_menu( $items ) {
	if ( ! is_in_menu() || ! isset( $GLOBALS['galley_open_fragment']['inner'] ) || ! is_array( $items ) ) {
		return $items;
	}
	$GLOBALS['galley_open_fragment']['around']                  = $GLOBALS['galley_tags'];
	$GLOBALS['galley_tags']                                     = $GLOBALS['galley_open_fragment']['inner'];
	$GLOBALS['galley_open_fragment']['definition']['structure'] = menu_structure( $items );
	$GLOBALS['galley_open_fragment']['definition']['marks']     = menu_marks( $items );
	return $items;
}

function end_menu( $html ) {
	$open = $GLOBALS['galley_open_fragment'];
	if ( ! is_in_menu() || ! isset( $open['definition']['structure'] ) || ! is_string( $html ) ) {
		return $html;
	}
	end_fragment();
	return fragment_mark( 'begin', $open['number'] ) . $html . fragment_mark( 'end', $open['number'] );
}

/**
 * Whether a class says what is current. Pure.
 */
function is_current_class( $name ): bool {
	return (bool) preg_match( '/^(current[-_]|page_item$|page-item-\d+$)/', (string) $name );
}

/**
 * A hash of everything of a menu's items by which WordPress decides what is current, but not of their titles. Pure.
 *
 * @param object[] $items In their order.
 */
function menu_structure( array $items ): string {
	$all = array();
	foreach ( $items as $item ) {
		$classes = array();
		foreach ( (array) ( $item->classes ?? array() ) as $name ) {
			if ( ! is_current_class( $name ) ) {
				$classes[] = (string) $name;
			}
		}
		$all[] = array( (int) $item->ID, (int) $item->menu_item_parent, (string) $item->type, (string) $item->object, (int) $item->object_id, 'custom' === $item->object ? (string) $item->url : '', $classes );
	}
	return md5( (string) wp_json_encode( $all ) );
}

/**
 * The classes and flags of the items that the page marks, by number. Pure.
 *
 * @param object[] $items In their order.
 */
function menu_marks( array $items ): array {
	$marks = array();
	foreach ( $items as $item ) {
		$flags   = array( (int) ! empty( $item->current ), (int) ! empty( $item->current_item_ancestor ), (int) ! empty( $item->current_item_parent ) );
		$classes = array_values( array_map( 'strval', (array) ( $item->classes ?? array() ) ) );
		if ( array_sum( $flags ) || array_filter( $classes, __NAMESPACE__ . '\\is_current_class' ) ) {
			$marks[ (int) $item->ID ] = array_merge( array( $classes ), $flags );
		}
	}
	return $marks;
}

/**
 * Begins the list of a post's categories, if they are in WordPress's own order.
 *
 * @param mixed $terms The categories.
 */
function begin_categories( $terms ) {
	if ( ! is_array( $terms ) || ! $terms || ! may_begin_fragment() ) {
		return $terms;
	}
	if ( is_plain_order( wp_list_pluck( $terms, 'name' ) ) ) {
		begin_fragment( 'categories', array( 'terms' => array_values( array_map( 'intval', wp_list_pluck( $terms, 'term_id' ) ) ) ) );
	}
	foreach ( $terms as $term ) {
		tag( "tn$term->term_id" );
	}
	return $terms;
}

/**
 * Whether names are in the order in which a database sorts them, and of letters that all databases sort in the same way. Pure.
 *
 * @param string[] $names The names.
 */
function is_plain_order( array $names ): bool {
	$sorted = array_values( $names );
	usort( $sorted, 'strcasecmp' );
	return array_values( $names ) === $sorted && array() === preg_grep( '/[^A-Za-z0-9 ]/', $names );
}

/**
 * @param string $html      The list.
 * @param string $separator Empty: a list in HTML.
 * @param string $parents   Whether categories above them are shown.
 */
function end_categories( $html, $separator = '', $parents = '' ) {
	$open = $GLOBALS['galley_open_fragment'];
	if ( ! isset( $open['definition']['terms'] ) ) {
		return $html;
	}
	if ( '' !== $parents || ! is_string( $html ) ) {
		cancel_fragment();
		return $html;
	}
	$GLOBALS['galley_open_fragment']['definition']['separator'] = (string) $separator;
	end_fragment();
	return fragment_mark( 'begin', $open['number'] ) . $html . fragment_mark( 'end', $open['number'] );
}

/**
 * Whether `get_the_category_list` reads the terms of a post, which become a fragment of their own.
 */
function is_for_categories( string $taxonomy ): bool {
	if ( 'category' !== $taxonomy || null !== wanted_fragment() || ! may_begin_fragment() ) {
		return false;
	}
	// phpcs:ignore WordPress.PHP.DevelopmentFunctions -- who asked is said nowhere else; its frames: this, the gatherer, three of WordPress's hooks at most, get_the_terms, get_the_category.
	$frames = array_column( debug_backtrace( DEBUG_BACKTRACE_IGNORE_ARGS, 9 ), 'function' );
	return in_array( 'get_the_category_list', $frames, true );
}
