<?php
/**
 * Renders fragments without their page, for a request with `Galley-Fragment: <definition>[,<definition>...]`.
 *
 * The response has the same headers as a page. Its body consists of the fragments, one after the other. Each fragment has a header in which
 * its number in the request replaces the definition. The response omits fragments that the plugin cannot render.
 *
 * The plugin renders each fragment twice. If the second rendering differs (a counter, an ID that must be unique in a page), the fragment
 * depends on the output before it. Such a fragment must be the first one, and no fragment may follow it.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Maximum number of definitions in one request. */
const MAX_RENDERED = 24;

if ( is_shared() && null !== wanted_fragment() ) {
	add_filter( 'do_parse_request', __NAMESPACE__ . '\\skip_request', PHP_INT_MAX );
	add_action( 'template_redirect', __NAMESPACE__ . '\\render_fragments', PHP_INT_MIN );
}

/**
 * Skips the main query, because a fragment belongs to no page. Runs the plugin's own `parse_request` callback, which WordPress skips, too.
 */
function skip_request(): bool {
	gather_options();
	return false;
}

/**
 * Renders the fragments that Galley requests, and nothing else.
 */
function render_fragments(): void {
	// The page that Galley requests does not matter: its address must not appear in the fragments.
	$_SERVER['REQUEST_URI'] = '/galley-fragment/';
	// WordPress prints the ID of a menu item only once per request.
	remove_filter( 'nav_menu_item_id', '_nav_menu_item_id_use_once' );
	$wanted = array_slice( explode( ',', (string) wanted_fragment() ), 0, MAX_RENDERED );
	$body   = '';
	foreach ( $wanted as $number => $signed ) {
		$known = read_definition( $signed );
		if ( null === $known ) {
			continue;
		}
		begin_fragment( 'alone', $known );
		forget_printed( $known );
		$mark    = $GLOBALS['galley_open_fragment']['number'];
		$html    = render_definition( $known );
		$is_same = render_definition( $known ) === $html;
		end_fragment();
		if ( null === $html || isset( $GLOBALS['galley_fragments'][ $mark ]['reads_unknown'] ) || ( ! $is_same && '' !== $body ) ) {
			// The tags of this fragment must not become tags of the others.
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
	// The response is not an HTML page, so Galley does not look for the end of the document.
	header( 'Content-Type: text/plain; charset=' . get_option( 'blog_charset' ) );
	echo $body; // phpcs:ignore WordPress.Security.EscapeOutput -- the same HTML that a page shows.
	exit;
}

/**
 * Returns the definition of a fragment, or null if this site has not signed it or if it belongs to another blog of the network.
 *
 * @param string $signed Definition and signature.
 */
function read_definition( string $signed ): ?array {
	list( $definition, $signature ) = array_pad( explode( '.', $signed, 2 ), 2, '' );
	// phpcs:ignore WordPress.PHP.DiscouragedPHPFunctions -- a word of the header must not contain spaces.
	$known = hash_equals( wp_hash( $definition ), $signature ) ? json_decode( (string) base64_decode( $definition, true ), true ) : null;
	return is_array( $known ) && is_array( $known[1] ?? null ) && get_current_blog_id() === $known[0] ? $known[1] : null;
}

/**
 * Returns the HTML of a fragment, or null if the plugin cannot render it.
 */
function render_definition( array $known ): ?string {
	$level               = ob_get_level();
	$query               = $GLOBALS['wp_query'];
	$GLOBALS['wp_query'] = query_about( (array) ( $known['about'] ?? array() ) ); // phpcs:ignore WordPress.WP.GlobalVariablesOverride -- restored below.
	try {
		if ( isset( $known['block'] ) ) {
			return render_block( (array) $known['block'] );
		}
		if ( isset( $known['menu'] ) ) {
			return menu_html( $known );
		}
		return isset( $known['terms'] ) ? terms_html( $known ) : widget_html( (string) ( $known['sidebar'] ?? '' ), (string) ( $known['widget'] ?? '' ) );
	} catch ( \Throwable $failure ) {
		while ( ob_get_level() > $level && ob_end_clean() ) {
			continue;
		}
		return null;
	} finally {
		$GLOBALS['wp_query'] = $query; // phpcs:ignore WordPress.WP.GlobalVariablesOverride -- restored.
	}
}

/**
 * Returns a query for a page about a term, a post or a date. It has the properties from which fragments derive the current page.
 *
 * @param array $about Result of `page_subject`.
 */
function query_about( array $about ): \WP_Query {
	$query = new \WP_Query();
	$id    = (int) ( $about[1] ?? 0 );
	if ( 'term' === ( $about[0] ?? '' ) ) {
		$term                     = get_term( $id );
		$query->is_archive        = true;
		$query->is_category       = $term instanceof \WP_Term && 'category' === $term->taxonomy;
		$query->is_tag            = $term instanceof \WP_Term && 'post_tag' === $term->taxonomy;
		$query->is_tax            = ! $query->is_category && ! $query->is_tag;
		$query->queried_object    = $term instanceof \WP_Term ? $term : null;
		$query->queried_object_id = $id;
	} elseif ( 'post' === ( $about[0] ?? '' ) ) {
		$post                     = get_post( $id );
		$query->is_singular       = true;
		$query->is_page           = $post instanceof \WP_Post && 'page' === $post->post_type;
		$query->is_single         = ! $query->is_page;
		$query->queried_object    = $post;
		$query->queried_object_id = $id;
	} elseif ( 'date' === ( $about[0] ?? '' ) ) {
		$digits            = (string) ( $about[1] ?? '' );
		$query->is_archive = true;
		$query->is_date    = true;
		$query->is_year    = 4 === strlen( $digits );
		$query->is_month   = 6 === strlen( $digits );
		$query->is_day     = 8 === strlen( $digits );
		$query->query_vars = date_vars( $digits );
	}
	return $query;
}

/**
 * Returns the query variables of a date archive. Pure.
 *
 * @param string $digits `2024`, `202405` or `20240531`.
 */
function date_vars( string $digits ): array {
	$vars = array();
	foreach ( array( 'year' => array( 0, 4 ), 'monthnum' => array( 4, 2 ), 'day' => array( 6, 2 ) ) as $name => list( $from, $length ) ) {
		if ( strlen( $digits ) > $from ) {
			$vars[ $name ] = (int) substr( $digits, $from, $length );
		}
	}
	return $vars;
}

/**
 * Returns the HTML of one widget of a sidebar, or null if the sidebar does not contain the widget.
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
	note_code_of_widget( $widget );
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

/**
 * Returns a menu with the marks of a page, or null if its items have changed, because the marks of the page are then unknown.
 */
function menu_html( array $known ): ?string {
	$is_same = false;
	$objects = static function ( $items ) use ( $known, &$is_same ) {
		$is_same = is_array( $items ) && menu_structure( $items ) === ( $known['structure'] ?? '' );
		return $is_same ? with_marks( $items, (array) ( $known['marks'] ?? array() ) ) : $items;
	};
	$args    = array(
		'menu'        => (int) $known['menu'],
		'echo'        => false,
		'fallback_cb' => false,
	) + (array) ( $known['args'] ?? array() );
	if ( empty( $args['menu_id'] ) ) {
		// WordPress numbers menus without an ID. The bytes differ on a page on which the menu is the second one with that name.
		$args['menu_id'] = 'menu-' . (string) ( wp_get_nav_menu_object( $args['menu'] )->slug ?? '' );
	}
	add_filter( 'wp_nav_menu_objects', $objects, PHP_INT_MIN );
	$html = wp_nav_menu( $args );
	remove_filter( 'wp_nav_menu_objects', $objects, PHP_INT_MIN );
	return $is_same && is_string( $html ) ? $html : null;
}

/**
 * Applies the marks of a page to the items of a menu.
 *
 * @param object[] $items  Menu items in their order.
 * @param array    $marks Classes and three flags by item ID.
 */
function with_marks( array $items, array $marks ): array {
	foreach ( $items as $item ) {
		$mark = $marks[ $item->ID ] ?? null;
		if ( is_array( $mark ) ) {
			$item->classes               = (array) ( $mark[0] ?? array() );
			$item->current               = (bool) ( $mark[1] ?? false );
			$item->current_item_ancestor = (bool) ( $mark[2] ?? false );
			$item->current_item_parent   = (bool) ( $mark[3] ?? false );
		}
	}
	return $items;
}

/**
 * Returns the links to the categories of a post, or null if one of the categories no longer exists.
 */
function terms_html( array $known ): ?string {
	$ids   = array_map( 'intval', (array) $known['terms'] );
	$terms = get_terms(
		array(
			'taxonomy'   => 'category',
			'include'    => $ids,
			'hide_empty' => false,
			'orderby'    => 'name',
		)
	);
	if ( ! is_array( $terms ) || count( $terms ) !== count( $ids ) ) {
		return null;
	}
	foreach ( $ids as $id ) {
		tag( "tn$id" );
	}
	return linked_categories( $terms, (string) ( $known['separator'] ?? '' ) );
}

/**
 * Returns the same HTML as `get_the_category_list`, which requires a post.
 *
 * @param \WP_Term[] $terms     Categories in their order.
 * @param string     $separator Separator of the links. Empty for an HTML list.
 */
function linked_categories( array $terms, string $separator ): string {
	$rel   = $GLOBALS['wp_rewrite']->using_permalinks() ? 'rel="category tag"' : 'rel="category"';
	$links = array();
	foreach ( $terms as $term ) {
		$links[] = '<a href="' . esc_url( get_category_link( $term->term_id ) ) . "\" $rel>$term->name</a>";
	}
	$html = '' === $separator ? "<ul class=\"post-categories\">\n\t<li>" . implode( "</li>\n\t<li>", $links ) . '</li></ul>' : implode( $separator, $links );
	return (string) apply_filters( 'the_category', $html, $separator, '' ); // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals -- WordPress's own filter.
}
