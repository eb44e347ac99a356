<?php
/**
 * Notices where a theme or plugin changes the SQL of a query for posts, and reads there which fields it looks at.
 *
 * Such a filter may leave out or sort by anything. What it adds is compared with what WordPress made; the columns that are named in
 * it are then conditions of the list. Of the tables of plugins it knows WooCommerce's table of products only.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Filters of parts of a query's SQL, and of all of it. */
const SQL_FILTERS = array( 'posts_search', 'posts_where', 'posts_join', 'posts_where_paged', 'posts_join_paged', 'posts_orderby', 'posts_search_orderby', 'posts_clauses', 'posts_where_request', 'posts_join_request', 'posts_orderby_request', 'posts_clauses_request', 'posts_request' );

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
		$GLOBALS['galley_filtered'][ spl_object_id( $query ) ][] = implode( ' ', (array) $sql );
	}
	return $sql;
}

/**
 * What filters made of the query that is about to be asked.
 *
 * @return array{complex: bool, search: bool, fields: string[]}
 */
function filtered_by( \WP_Query $query ): array {
	$id    = spl_object_id( $query );
	$added = $GLOBALS['galley_filtered'][ $id ] ?? array();
	unset( $GLOBALS['galley_filtered'][ $id ] );
	return read_sql( implode( ' ', $added ), $GLOBALS['wpdb']->postmeta );
}

/**
 * Which fields of posts a piece of SQL looks at. Pure.
 *
 * @param string $sql      Empty: no filter changed anything.
 * @param string $postmeta The table of fields.
 * @return array{complex: bool, search: bool, fields: string[]}
 */
function read_sql( string $sql, string $postmeta ): array {
	$fields = array();
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
		'complex' => '' !== $sql,
		'search'  => (bool) preg_match( '/post_(content|excerpt)/i', $sql ),
		'fields'  => array_values( array_unique( $fields ) ),
	);
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
