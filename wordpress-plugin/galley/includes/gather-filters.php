<?php
/**
 * Detects changes that themes and plugins make to the SQL of a post query, and finds the fields that the changed SQL uses.
 *
 * A filter can exclude posts or sort them by anything. The plugin compares the SQL before and after the filters. Each column that the added
 * SQL names becomes a condition of the list. The only table of another plugin that it knows is WooCommerce's table of products. If the
 * added SQL uses nothing else, the other conditions of the query stay in effect.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Filters of parts of the SQL of a query, and of the whole SQL. */
const SQL_FILTERS = array( 'posts_search', 'posts_where', 'posts_join', 'posts_where_paged', 'posts_join_paged', 'posts_orderby', 'posts_search_orderby', 'posts_clauses', 'posts_where_request', 'posts_join_request', 'posts_orderby_request', 'posts_clauses_request', 'posts_request' );

/** The filters among them that pass only the ORDER BY clause. */
const ORDER_FILTERS = array( 'posts_orderby', 'posts_search_orderby', 'posts_orderby_request' );

/** Columns of posts, with the names of their fields in tags (lists.php). */
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

/** Fields that determine whether a product is on sale, as tags of lists name them. */
const ON_SALE_FIELDS = array( 'm__sale_price', 'm__sale_price_dates_from', 'm__sale_price_dates_to' );

/** The table by which WooCommerce sorts and filters catalogs, without the prefix of the database. */
const PRODUCT_TABLE = 'wc_product_meta_lookup';

/** Columns of this table, with the product fields that they are copies of. */
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
 * Returns the SQL that a filter appended to each part of a query. If it changed a part in another way, returns the whole part. Pure.
 *
 * @param string[] $before The parts by name, or the only part.
 * @param string[] $after  The same parts after the filter.
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
 * Returns what filters added to a query that is about to run.
 *
 * @return array{complex: bool, search: bool, fields: string[], ordered: string[]} As `read_sql` returns it.
 */
function filtered_by( \WP_Query $query ): array {
	$id    = spl_object_id( $query );
	$added = $GLOBALS['galley_filtered'][ $id ] ?? array();
	unset( $GLOBALS['galley_filtered'][ $id ] );
	return read_sql( trim( $added['rest'] ?? '' ), $GLOBALS['wpdb']->postmeta, trim( $added['orderby'] ?? '' ) );
}

/**
 * Returns the fields of posts that a piece of SQL uses. Pure.
 *
 * @param string $rest     The SQL except the ORDER BY clause. If it and `$order` are empty, no filter changed anything.
 * @param string $postmeta The name of the table of fields.
 * @param string $order    The ORDER BY clause.
 * @return array{complex: bool, search: bool, fields: string[], ordered: string[]} `ordered` is the field of sales, if only the order depends on it.
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
 * Returns whether a piece of SQL uses only known columns of WooCommerce's table of products, as the sort orders and the price filter of
 * WooCommerce do. The fields then describe the SQL completely. Pure.
 */
function is_of_product_table( string $sql ): bool {
	// A word, a string, a number, or a symbol.
	preg_match_all( '/[a-z_][a-z0-9_.]*|\'[a-z]*\'|[0-9.]+|\S/', strtolower( $sql ), $words );
	$table   = '(?:[a-z0-9_]*' . PRODUCT_TABLE . ')';
	$columns = 'product_id|' . implode( '|', array_keys( PRODUCT_COLUMNS ) );
	$known   = "/^(?:and|or|not|asc|desc|on|left|inner|join|between|[()=<>!,]|[0-9.]+|'[a-z]*'|[a-z0-9_]*posts\\.id|$table|(?:$table\\.)?(?:$columns))$/D";
	return $words[0] && count( preg_grep( $known, $words[0] ) ) === count( $words[0] );
}

/**
 * Returns the product fields that a piece of SQL uses in WooCommerce's table, or `m_`, any field, if it names no known column. Pure.
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
