<?php
/**
 * Menus and lists of a post's categories as fragments.
 *
 * WordPress adds classes and flags to the menu items for the current page, its ancestors and the categories of the post. These marks depend
 * on the page and on the set of menu items, but not on their titles. Therefore the definition of a menu contains the marks of the page and a
 * hash of the items. The tags of the data that WordPress reads to find the marks belong to the page. Pages with the same marks share the
 * fragment.
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

/** The default arguments of `wp_nav_menu`. The definition omits arguments that have these values. */
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
 * Returns whether the open fragment is a menu.
 */
function is_in_menu(): bool {
	return isset( $GLOBALS['galley_open_fragment']['definition']['menu'] );
}

/**
 * Begins a fragment for a menu if the plugin can render the menu again from scalar arguments.
 *
 * @param string|null $html HTML that another filter returned in place of the menu.
 * @param object      $args Arguments of `wp_nav_menu`.
 */
function begin_menu( $html, $args = null ) {
	if ( is_in_menu() ) {
		// WordPress did not print the previous menu.
		cancel_fragment();
	}
	if ( null !== $html || ! is_object( $args ) || ! may_begin_fragment() ) {
		return $html;
	}
	$menu  = menu_of( $args );
	$plain = plain_arguments( (array) $args );
	if ( $menu && null !== $plain ) {
		// The fragment always shows this menu. The tag belongs to the page, because the page depends on which menu it shows.
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
 * Returns the menu that WordPress shows for the given arguments.
 */
function menu_of( object $args ): ?\WP_Term {
	$menu = empty( $args->menu ) ? false : wp_get_nav_menu_object( $args->menu );
	if ( ! $menu && ! empty( $args->theme_location ) ) {
		$menu = wp_get_nav_menu_object( (int) ( get_nav_menu_locations()[ $args->theme_location ] ?? 0 ) );
	}
	return $menu instanceof \WP_Term ? $menu : null;
}

/**
 * Returns the arguments of a menu for a JSON document, or null if they contain a custom walker or another object. Pure.
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
 * Suspends the fragment after WordPress has read the menu items. Until it prints them, WordPress reads data to find the current items.
 * The tags of this data belong to the page.
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
 * Resumes the fragment after WordPress has set the classes of the items, and stores the marks of the page in the definition.
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
 * Returns whether a class marks a current item. Pure.
 */
function is_current_class( $name ): bool {
	return (bool) preg_match( '/^(current[-_]|page_item$|page-item-\d+$)/', (string) $name );
}

/**
 * Returns a hash of all properties of the menu items from which WordPress derives the current items. Titles are not part of it. Pure.
 *
 * @param object[] $items Menu items in their order.
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
 * Returns the classes and flags of the items that the page marks, by item ID. Pure.
 *
 * @param object[] $items Menu items in their order.
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
 * Begins a fragment for the category list of a post if the categories are in the default order of WordPress, by name.
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
 * Returns whether names are in the order in which every database sorts them. Names with characters other than ASCII letters, digits and
 * spaces never qualify, because databases sort such names differently. Pure.
 *
 * @param string[] $names The names.
 */
function is_plain_order( array $names ): bool {
	$sorted = array_values( $names );
	usort( $sorted, 'strcasecmp' );
	return array_values( $names ) === $sorted && array() === preg_grep( '/[^A-Za-z0-9 ]/', $names );
}

/**
 * Ends the fragment of a category list.
 *
 * @param string $html      The list.
 * @param string $separator Separator of the links. Empty for an HTML list.
 * @param string $parents   How the list shows parent categories. Empty if it does not show them.
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
 * Returns whether `get_the_category_list` is the caller that reads the terms of a post. This list becomes a separate fragment.
 */
function is_for_categories( string $taxonomy ): bool {
	if ( 'category' !== $taxonomy || null !== wanted_fragment() || ! may_begin_fragment() ) {
		return false;
	}
	// phpcs:ignore WordPress.PHP.DevelopmentFunctions -- only the call stack identifies the caller. Frames: this function, the gatherer, at most three of WP_Hook, get_the_terms, get_the_category.
	$frames = array_column( debug_backtrace( DEBUG_BACKTRACE_IGNORE_ARGS, 9 ), 'function' );
	return in_array( 'get_the_category_list', $frames, true );
}
