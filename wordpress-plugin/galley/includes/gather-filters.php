<?php
/**
 * Notices where a theme or plugin changes the SQL of a query for posts, and reads there which fields it looks at.
 *
 * Such a filter may leave out or sort by anything. What it adds is compared with what WordPress made; the columns that are named in
 * it are then conditions of the list. Of the tables of plugins it knows WooCommerce's table of products only; what is about nothing else
 * leaves the query's other conditions as they are.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Filters of parts of a query's SQL, and of all of it. */
const SQL_FILTERS = array( 'posts_search', 'posts_where', 'posts_join', 'posts_where_paged', 'posts_join_paged', 'posts_orderby', 'posts_search_orderby', 'posts_clauses', 'posts_where_request', 'posts_join_request', 'posts_orderby_request', 'posts_clauses_request', 'posts_request' );

/** Those of them that hand over what posts are sorted by, and nothing else. */
const ORDER_FILTERS = array( 'posts_orderby', 'posts_search_orderby', 'posts_orderby_request' );

/** Columns, with the tag of the field (lists.php). */
const COLUMNS = array(
	'post_title'     => 'title',
	'post_name'      => 'name',
	'post_modified'  => 'modified',
	'menu_order'     => 'menu_order',
	'post_author'    => 'author',
	'post_parent'    => 'parent',
	'post_password'  => 'password',
	'comment_count'  => 'comment_count',
	'comment_status' => 'rest',
	'ping_status'    => 'rest',
	'post_mime_type' => 'rest',
);

/** Fields that decide whether a product is on sale, as lists name them. */
const ON_SALE_FIELDS = array( 'm__sale_price', 'm__sale_price_dates_from', 'm__sale_price_dates_to' );

/** The table by which WooCommerce sorts and filters catalogues, without its prefix. */
const PRODUCT_TABLE = 'wc_product_meta_lookup';

/** Its columns, with the fields of products that they are copies of. */
const PRODUCT_COLUMNS = array(
	'min_price'      => array( 'm__price' ),
	'max_price'      => array( 'm__price' ),
	'onsale'         => ON_SALE_FIELDS,
	'stock_quantity' => array( 'm__stock' ),
	'stock_status'   => array( 'm__stock_status' ),
	'average_rating' => array( 'm__wc_average_rating' ),
	'rating_count'   => array( 'm__wc_review_count' ),
	'total_sales'    => array( 'm_total_sales' ),
	'sku'            => array( 'm__sku' ),
);

if ( is_described() ) {
	watch_filters();
}

function watch_filters(): void {
	foreach ( SQL_FILTERS as $filter ) {
		add_filter( $filter, __NAMESPACE__ . '\\before_filter', PHP_INT_MIN );
		add_filter( $filter, __NAMESPACE__ . '\\after_filter', PHP_INT_MAX, 2 );
	}
}

function before_filter( $sql ) {
	$GLOBALS['galley_sql'] = $sql;
	return $sql;
}

function after_filter( $sql, $query = null ) {
	$before = $GLOBALS['galley_sql'] ?? $sql;
	if ( $sql !== $before && is_object( $query ) ) {
		$is_order = in_array( current_filter(), ORDER_FILTERS, true );
		$added    = &$GLOBALS['galley_filtered'][ spl_object_id( $query ) ];
		foreach ( added_parts( (array) $before, (array) $sql ) as $key => $part ) {
			$key           = $is_order || 'orderby' === $key ? 'orderby' : 'rest';
			$added[ $key ] = ( $added[ $key ] ?? '' ) . " $part";
		}
	}
	return $sql;
}

/**
 * What a filter appended to each part of a query's SQL; all of a part that it changed otherwise. Pure.
 *
 * @param string[] $before By the name of the part, or the only one.
 * @param string[] $after  The same.
 * @return string[]
 */
function added_parts( array $before, array $after ): array {
	$added = array();
	foreach ( $after as $key => $part ) {
		$old = (string) ( $before[ $key ] ?? '' );
		if ( $old !== $part ) {
			$added[ $key ] = 0 === strncmp( $part, $old, strlen( $old ) ) ? substr( $part, strlen( $old ) ) : $part;
		}
	}
	return $added;
}

/**
 * What filters made of the query that is about to be asked.
 *
 * @return array{complex: bool, search: bool, fields: string[], ordered: string[]} As of `read_sql`.
 */
function filtered_by( \WP_Query $query ): array {
	$id    = spl_object_id( $query );
	$added = $GLOBALS['galley_filtered'][ $id ] ?? array();
	unset( $GLOBALS['galley_filtered'][ $id ] );
	return read_sql( trim( $added['rest'] ?? '' ), $GLOBALS['wpdb']->postmeta, trim( $added['orderby'] ?? '' ) );
}

/**
 * Which fields of posts a piece of SQL looks at. Pure.
 *
 * @param string $rest     All but what posts are sorted by. Empty like the last: no filter changed anything.
 * @param string $postmeta The table of fields.
 * @param string $order    What posts are sorted by.
 * @return array{complex: bool, search: bool, fields: string[], ordered: string[]} The last: sales, if the order depends on them and nothing else.
 */
function read_sql( string $rest, string $postmeta, string $order = '' ): array {
	$ordered = false !== stripos( $order, SALES ) && false === stripos( $rest, SALES ) ? array( 'm_' . SALES ) : array();
	$sql     = trim( "$rest $order" );
	$fields  = array();
	foreach ( COLUMNS as $column => $field ) {
		if ( false !== stripos( $sql, $column ) ) {
			$fields[] = $field;
		}
	}
	if ( false !== stripos( $sql, $postmeta ) ) {
		$fields[] = 'm_';
	}
	if ( false !== stripos( $sql, PRODUCT_TABLE ) ) {
		$fields = array_merge( $fields, product_fields( $sql ) );
	}
	return array(
		'complex' => '' !== $sql && ! is_of_product_table( $sql ),
		'search'  => (bool) preg_match( '/post_(content|excerpt)/i', $sql ),
		'fields'  => array_values( array_diff( array_unique( $fields ), $ordered ) ),
		'ordered' => $ordered,
	);
}

/**
 * Whether all of a piece of SQL is about known columns of WooCommerce's table of products, as its orders and its filter by price are. Then
 * the fields say it all. Pure.
 */
function is_of_product_table( string $sql ): bool {
	// A word, a text, a number, or a sign.
	preg_match_all( '/[a-z_][a-z0-9_.]*|\'[a-z]*\'|[0-9.]+|\S/', strtolower( $sql ), $words );
	$table   = '(?:[a-z0-9_]*' . PRODUCT_TABLE . ')';
	$columns = 'product_id|' . implode( '|', array_keys( PRODUCT_COLUMNS ) );
	$known   = "/^(?:and|or|not|asc|desc|on|left|inner|join|between|[()=<>!,]|[0-9.]+|'[a-z]*'|[a-z0-9_]*posts\\.id|$table|(?:$table\\.)?(?:$columns))$/D";
	return $words[0] && count( preg_grep( $known, $words[0] ) ) === count( $words[0] );
}

/**
 * The fields of products that a piece of SQL looks at in WooCommerce's table; any field, where it names no column that is known. Pure.
 *
 * @return string[]
 */
function product_fields( string $sql ): array {
	$fields = array();
	foreach ( PRODUCT_COLUMNS as $column => $copied ) {
		if ( false !== stripos( $sql, $column ) ) {
			$fields = array_merge( $fields, $copied );
		}
	}
	return $fields ? $fields : array( 'm_' );
}
