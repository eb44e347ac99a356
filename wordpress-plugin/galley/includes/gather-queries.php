<?php
/**
 * Adds tags for the lists of posts that a page shows: of each WP_Query, of functions that list posts without it, and of adjacent posts.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

if ( is_described() ) {
	gather_queries();
}

function gather_queries(): void {
	$own = __NAMESPACE__ . '\\';
	add_filter( 'posts_pre_query', $own . 'gather_query', PHP_INT_MAX, 2 );
	add_filter( 'the_posts', $own . 'gather_results', PHP_INT_MAX, 2 );
	add_filter( 'get_pages', $own . 'gather_pages', PHP_INT_MAX, 2 );
	add_filter( 'getarchives_where', $own . 'gather_archives', PHP_INT_MAX, 2 );
	add_filter( 'get_calendar', $own . 'gather_calendar', PHP_INT_MAX );
	add_filter( 'get_previous_post_where', $own . 'gather_neighbour', PHP_INT_MAX, 5 );
	add_filter( 'get_next_post_where', $own . 'gather_neighbour', PHP_INT_MAX, 5 );
}

/**
 * Lists with up to this number of posts have a tag with their number of posts (`pp`), so that a change of the setting for the posts per
 * page purges only lists that it changes.
 */
const MAX_PER_PAGE = 100;

/** Post types that no list contains. Pages that show such posts have other tags for them. */
const UNLISTED_TYPES = array( 'nav_menu_item', 'wp_template', 'wp_template_part', 'wp_global_styles', 'custom_css', 'customize_changeset', 'revision', 'oembed_cache', 'user_request' );

/**
 * Adds the tags of a query after WordPress has parsed it and before it queries the database, even if the query suppresses filters.
 */
function gather_query( $posts, $query = null ) {
	$is_recent = $query instanceof \WP_Query && $query->is_comment_feed() && ! $query->is_singular() && ! $query->is_archive() && ! $query->is_search();
	if ( $query instanceof \WP_Query && ! is_for_sitemap( $query ) && ! is_for_nothing( $query ) && ! $is_recent ) {
		$list = types_of( $query ) ? describe_query( $query ) : any_list( array() );
		if ( null !== $posts ) {
			// Other code found the posts, in an unknown order.
			$list['depth'] = null;
		} elseif ( $list['search'] && ! $list['complex'] ) {
			$list['word'] = word_of( $query );
			tag( 'sw' );
		}
		foreach ( null === $posts && await_members( $query, $list ) ? array() : list_tags( $list ) as $tag ) {
			tag( $tag );
		}
		if ( shows_stickies( $query ) ) {
			tag( 'st' );
		}
		gather_current_time( $query );
	}
	return $posts;
}

/**
 * Returns whether WordPress puts sticky posts before the others, or whether the query names or excludes sticky posts by their IDs.
 */
function shows_stickies( \WP_Query $query ): bool {
	$vars = $query->query_vars;
	if ( $query->is_home() && empty( $vars['ignore_sticky_posts'] ) && (int) ( $vars['paged'] ?? 0 ) <= 1 ) {
		return true;
	}
	$named = array_merge( (array) ( $vars['post__in'] ?? array() ), (array) ( $vars['post__not_in'] ?? array() ) );
	return $named && array_intersect( $named, (array) get_option( 'sticky_posts' ) );
}

/**
 * Returns whether the query is for a response that shows no posts. WordPress queries posts even for robots.txt and the favicon.
 */
function is_for_nothing( \WP_Query $query ): bool {
	return $query->is_main_query() && ( $query->is_robots() || $query->is_favicon() );
}

/**
 * Returns the conditions and the order of a query in the form that `list_tags` expects.
 */
function describe_query( \WP_Query $query ): array {
	$vars             = $query->query_vars;
	$filter           = filtered_by( $query );
	$list             = any_list(
		array(
			'types'      => types_of( $query ),
			'search'     => '' !== (string) ( $vars['s'] ?? '' ) || $filter['search'],
			'authors'    => authors_of( $vars ),
			'dates'      => dates_of( $vars ),
			'parents'    => parents_of( $vars ),
			'any_status' => ! empty( $vars['post_status'] ) && array_diff( (array) $vars['post_status'], array( 'publish', 'inherit' ) ),
			'sorted'     => array_merge( array_diff( sorted_by( $vars ), ordered_by( $vars ) ), $filter['fields'] ),
			'ordered'    => array_merge( ordered_by( $vars ), $filter['ordered'] ),
		)
	);
	$terms            = terms_of( $query );
	$list['complex']  = $terms['complex'] || $filter['complex'];
	$list['filtered'] = ! $terms['complex'];
	$list['terms']    = $terms['terms'];
	$list['with']     = $terms['with'];
	$list['directed'] = ! $terms['without'];
	$list['types']    = $terms['nothing'] && ! $list['complex'] ? array() : $list['types'];
	if ( $terms['within'] && ! $list['terms'] && ! $list['search'] && ! $list['authors'] && ! $list['dates'] && ! $list['parents'] ) {
		// These terms are the only condition.
		$list['terms'] = $terms['within'];
		$list['with']  = array_values( array_diff( $list['with'], $terms['within'] ) );
	} else {
		$list['within'] = $terms['within'];
	}
	$list['narrowed'] = ! $query->is_singular() && ( $list['complex'] || $list['search'] || $list['terms'] || $list['authors'] || $list['dates'] || $list['parents'] || $list['with'] );
	foreach ( array( 'p', 'page_id', 'attachment_id' ) as $name ) {
		if ( ! empty( $vars[ $name ] ) ) {
			$list['ids'][] = (int) $vars[ $name ];
		}
	}
	if ( ! empty( $vars['post__in'] ) && count( $vars['post__in'] ) <= 200 ) {
		$list['ids'] = array_merge( $list['ids'], array_map( 'intval', $vars['post__in'] ) );
	}
	foreach ( array( 'name', 'pagename', 'attachment' ) as $name ) {
		if ( ! empty( $vars[ $name ] ) && is_string( $vars[ $name ] ) ) {
			$list['slugs'][] = basename( $vars[ $name ] );
		}
	}
	$list['slugs'] = array_merge( $list['slugs'], array_map( 'strval', (array) ( $vars['post_name__in'] ?? array() ) ) );
	$list['sales'] = sales_depth( $query, $list );
	if ( $terms['narrow'] || $list['with'] || ( $list['narrowed'] && $list['ids'] ) || is_by_time( $vars ) || $query->is_comment_feed() ) {
		$list['pages'] = 'other';
		return $list;
	}
	return array_merge( $list, depth_of( $query, $list ) );
}

/**
 * @return string[]
 */
function types_of( \WP_Query $query ): array {
	$types = array_filter( (array) ( $query->query_vars['post_type'] ?? '' ) );
	if ( array( 'any' ) === array_values( $types ) ) {
		$types = get_post_types( array( 'exclude_from_search' => false ) );
	} elseif ( ! $types && $query->is_tax() ) {
		$types = array();
		foreach ( array_keys( (array) ( $query->tax_query->queried_terms ?? array() ) ) as $taxonomy ) {
			$object = get_taxonomy( (string) $taxonomy );
			$types  = array_merge( $types, $object ? $object->object_type : array() );
		}
	} elseif ( ! $types ) {
		$types = array( $query->is_page() ? 'page' : ( $query->is_attachment() ? 'attachment' : 'post' ) );
	}
	return array_values( array_diff( array_unique( $types ), UNLISTED_TYPES ) );
}

/**
 * @return int[]
 */
function authors_of( array $vars ): array {
	if ( ! empty( $vars['author__not_in'] ) ) {
		return array();
	}
	$authors = (array) ( $vars['author__in'] ?? array() );
	if ( ! $authors && preg_match( '/^\d+(,\d+)*$/D', (string) ( $vars['author'] ?? '' ) ) ) {
		$authors = explode( ',', (string) $vars['author'] );
	}
	return array_values( array_filter( array_map( 'intval', $authors ) ) );
}

/**
 * Returns whether a query names dates in a form that `dates_of` does not read. Pure.
 */
function is_by_time( array $vars ): bool {
	$has = static function ( string $name ) use ( $vars ): bool {
		return ! in_array( $vars[ $name ] ?? '', array( '', 0, '0', array() ), true );
	};
	if ( $has( 'date_query' ) || $has( 'w' ) || strlen( (string) ( $vars['m'] ?? '' ) ) > 8 || ( $has( 'm' ) && $has( 'year' ) ) ) {
		return true;
	}
	foreach ( array( 'hour', 'minute', 'second' ) as $name ) {
		if ( '' !== (string) ( $vars[ $name ] ?? '' ) ) {
			return true;
		}
	}
	return ( $has( 'monthnum' ) && ! $has( 'year' ) ) || ( $has( 'day' ) && ! ( $has( 'year' ) && $has( 'monthnum' ) ) );
}

/**
 * Returns the date of a query as `2024`, `202405` or `20240531`, or an empty list. Pure.
 *
 * @return string[]
 */
function dates_of( array $vars ): array {
	$date = preg_replace( '/\D/', '', (string) ( $vars['m'] ?? '' ) );
	if ( ! empty( $vars['year'] ) ) {
		$date = sprintf( '%04d', $vars['year'] );
		if ( ! empty( $vars['monthnum'] ) ) {
			$date .= sprintf( '%02d', $vars['monthnum'] );
			$date .= empty( $vars['day'] ) ? '' : sprintf( '%02d', $vars['day'] );
		}
	}
	$length = strlen( $date );
	return $length < 4 ? array() : array( substr( $date, 0, min( 8, $length - $length % 2 ) ) );
}

/**
 * Returns the IDs of the parents that a query names. Pure.
 *
 * @return int[]
 */
function parents_of( array $vars ): array {
	if ( ! empty( $vars['post_parent__in'] ) ) {
		return array_map( 'intval', (array) $vars['post_parent__in'] );
	}
	return is_numeric( $vars['post_parent'] ?? '' ) ? array( (int) $vars['post_parent'] ) : array();
}

/**
 * Returns the fields by which a query sorts or filters, except dates and the conditions of the list. Pure.
 *
 * @return string[]
 */
function sorted_by( array $vars ): array {
	$fields = array_intersect( order_names( $vars ), array( 'title', 'name', 'modified', 'menu_order', 'author', 'parent', 'comment_count' ) );
	return array_values( array_unique( array_merge( $fields, filtered_fields( $vars ) ) ) );
}

/**
 * Returns the fields by which a query sorts, as the query names them, without `post_`. Pure.
 *
 * @return string[]
 */
function order_names( array $vars ): array {
	$names = is_array( $vars['orderby'] ?? '' ) ? array_keys( $vars['orderby'] ) : preg_split( '/[\s,]+/', (string) ( $vars['orderby'] ?? '' ) );
	return preg_replace( '/^post_/', '', array_map( 'strval', $names ) );
}

/**
 * Returns the fields by which a query only sorts: titles, and the sales of products, if the query has no condition for them. A change of
 * such a field seldom changes the order. Pure.
 *
 * @return string[]
 */
function ordered_by( array $vars ): array {
	$is_set  = static function ( string $name ) use ( $vars ): bool {
		return ! in_array( $vars[ $name ] ?? '', array( '', array() ), true );
	};
	$ordered = in_array( 'title', order_names( $vars ), true ) && ! $is_set( 'title' ) ? array( 'title' ) : array();
	if ( SALES === ( $vars['meta_key'] ?? '' ) && ! array_filter( array( 'meta_value', 'meta_value_num', 'meta_compare', 'meta_query' ), $is_set ) ) {
		$ordered[] = 'm_' . SALES;
	}
	return $ordered;
}

/** Query arguments that are a condition for a field of the posts. The values are the names of the fields in tags. */
const FIELD_CONDITIONS = array(
	'title'               => 'title',
	'menu_order'          => 'menu_order',
	'post_parent__not_in' => 'parent',
	'author__not_in'      => 'author',
	'has_password'        => 'password',
	'post_password'       => 'password',
	'comment_count'       => 'comment_count',
	'comment_status'      => 'rest',
	'ping_status'         => 'rest',
	'post_mime_type'      => 'rest',
);

/**
 * Returns the fields for which a query has conditions. `m_` means any custom field. Pure.
 *
 * @return string[]
 */
function filtered_fields( array $vars ): array {
	$fields = array();
	foreach ( FIELD_CONDITIONS as $name => $field ) {
		if ( ! in_array( $vars[ $name ] ?? '', array( '', array() ), true ) ) {
			$fields[] = $field;
		}
	}
	foreach ( array_filter( (array) ( $vars['meta_key'] ?? array() ), 'is_scalar' ) as $key ) {
		if ( '' !== (string) $key ) {
			$fields[] = "m_$key";
		}
	}
	$left = array( (array) ( $vars['meta_query'] ?? array() ) );
	while ( $left ) {
		$clause = array_pop( $left );
		if ( isset( $clause['key'] ) || isset( $clause['value'] ) ) {
			$is_named = is_string( $clause['key'] ?? null ) && in_array( $clause['compare_key'] ?? '=', array( '=', 'EXISTS' ), true );
			$fields[] = 'm_' . ( $is_named ? $clause['key'] : '' );
		}
		foreach ( $clause as $part ) {
			if ( is_array( $part ) ) {
				$left[] = $part;
			}
		}
	}
	return array_values( array_unique( $fields ) );
}

/**
 * Returns how many of the newest posts a list depends on, and whether its page depends on the number of pages.
 *
 * @return array{depth: ?int, pages: string}
 */
function depth_of( \WP_Query $query, array $list ): array {
	$vars  = $query->query_vars;
	$order = $vars['orderby'] ?? '';
	$per   = (int) ( $vars['posts_per_page'] ?? 0 );
	$plain = in_array( $order, array( '', 'date', 'post_date' ), true ) && 'ASC' !== strtoupper( (string) ( $vars['order'] ?? 'DESC' ) );
	$other = array(
		'depth' => null,
		'pages' => 'other',
	);
	if ( ! $plain || $per < 1 || ! empty( $vars['nopaging'] ) || $list['sorted'] || $list['ordered'] || $list['any_status'] || machine_counts() ) {
		return $other;
	}
	/**
	 * Filters whether pages of a list depend only on the posts down to the last one that they show. Return false if a theme prints the
	 * number of posts in a list.
	 */
	if ( ! apply_filters( 'galley_ranked_lists', true, $query ) ) {
		return $other;
	}
	$pages = 'none';
	if ( empty( $vars['no_found_rows'] ) && ! $query->is_feed() ) {
		$pages = (int) get_option( 'posts_per_page' ) === $per ? 'standard' : 'other';
	}
	$before = ! empty( $vars['offset'] ) ? (int) $vars['offset'] : ( max( 1, (int) ( $vars['paged'] ?? 1 ) ) - 1 ) * $per;
	return array(
		'depth' => $before + $per + count( (array) ( $vars['post__not_in'] ?? array() ) ),
		'pages' => $pages,
	);
}

/**
 * Adds tags that depend on the results of a query. A feed contains the modification times of its items. Other lists are split into pages,
 * so the number of posts per page matters if a list has more posts than fit on one page.
 */
function gather_results( $posts, $query = null ) {
	if ( ! is_array( $posts ) || ! $query instanceof \WP_Query || is_for_sitemap( $query ) || is_for_nothing( $query ) ) {
		return $posts;
	}
	if ( is_sitemap_request() ) {
		// For their modification times.
		foreach ( $posts as $post ) {
			tag( 'pd' . id_of( $post ) );
		}
	}
	if ( 'wp_navigation' === ( $query->query_vars['post_type'] ?? '' ) ) {
		// A navigation block without a menu shows the newest menu.
		foreach ( $posts as $post ) {
			tag( 'p' . id_of( $post ) );
		}
	}
	if ( ! $query->is_singular() && empty( $query->query['posts_per_page'] ) ) {
		$found = empty( $query->query_vars['no_found_rows'] ) ? (int) $query->found_posts : MAX_PER_PAGE + 1;
		if ( $query->is_feed() ) {
			tag( 'op.posts_per_rss' );
		} else {
			// On a page after the last one, WordPress does not know how many posts come before it.
			$found = 0 === $found && (int) ( $query->query_vars['paged'] ?? 0 ) > 1 ? MAX_PER_PAGE + 1 : $found;
			tag( $found > MAX_PER_PAGE ? 'op.posts_per_page' : "pp$found" );
		}
	}
	if ( $query->is_feed() && $query->is_main_query() ) {
		tag( 'f' );
		foreach ( $posts as $post ) {
			tag( 'p' . id_of( $post ) );
		}
	}
	return $posts;
}

function gather_pages( $pages, $arguments = array() ) {
	$type  = word( (string) ( $arguments['post_type'] ?? 'page' ) );
	$pages = is_array( $pages ) ? $pages : array();
	$below = array_filter( array( (int) ( $arguments['child_of'] ?? 0 ), (int) ( $arguments['parent'] ?? -1 ) ) );
	$below = array_filter(
		$below,
		static function ( int $id ): bool {
			return $id > 0;
		}
	);
	foreach ( $below as $id ) {
		tag( "l.$type.par$id" );
	}
	if ( ! $below ) {
		tag( "l.$type" );
	}
	foreach ( $pages as $page ) {
		tag( 'pl' . id_of( $page ) );
		if ( ! empty( $arguments['child_of'] ) ) {
			tag( 'l.' . $type . '.par' . id_of( $page ) );
		}
	}
	foreach ( sorted_pages( $arguments, (bool) $below ) as $field ) {
		tag( "o.$type." . word( $field ) );
	}
	return $pages;
}

/**
 * Returns the fields by which `get_pages()` sorts or filters. Pure.
 *
 * @return string[]
 */
function sorted_pages( array $arguments, bool $is_below ): array {
	$number = (int) ( $arguments['number'] ?? 0 );
	$column = (string) ( $arguments['sort_column'] ?? 'post_title' );
	$fields = array();
	// A list that sorts by titles also shows them. WordPress queries one child to find out whether a page has any.
	if ( $number > 1 || ( 1 === $number && ( ! $is_below || 'post_title' !== $column ) ) ) {
		$fields = array( 'title', 'menu_order' );
	}
	foreach ( array( 'menu_order', 'modified', 'name', 'author', 'parent', 'comment_count' ) as $field ) {
		if ( false !== strpos( $column, $field ) ) {
			$fields[] = $field;
		}
	}
	if ( ! empty( $arguments['authors'] ) ) {
		$fields[] = 'author';
	}
	if ( ! empty( $arguments['meta_key'] ) || ! empty( $arguments['meta_value'] ) ) {
		$fields[] = 'm_' . (string) ( $arguments['meta_key'] ?? '' );
	}
	return array_values( array_unique( $fields ) );
}

/**
 * Adds the tag of a list of archives. A list of months changes when a month gets its first post or loses its last one. A list with numbers
 * changes with each post.
 */
function gather_archives( $where, $arguments = array() ) {
	$type   = word( (string) ( $arguments['post_type'] ?? 'post' ) );
	$months = in_array( $arguments['type'] ?? '', array( '', 'monthly', 'yearly' ), true ) && empty( $arguments['show_post_count'] );
	tag( $months ? "ar.$type" : "l.$type" );
	return $where;
}

/**
 * Adds the tag of the calendar, which shows the days that have posts, and marks the current day.
 */
function gather_calendar( $calendar ) {
	tag( 'l.post' );
	at_most( until_midnight( (string) wp_date( 'H:i:s' ) ) );
	return $calendar;
}

function gather_neighbour( $where, $in_same_term = false, $excluded = '', $taxonomy = 'category', $post = null ) {
	$id = id_of( $post );
	if ( ! $in_same_term && ! $excluded ) {
		tag( "ad$id" );
		return $where;
	}
	$type = word( (string) get_post_type( $id ) );
	tag( "l.$type.x" );
	tag( "pt$id" );
	return $where;
}
