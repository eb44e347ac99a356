<?php
/**
 * Notices where a theme or plugin changes the SQL of a query for posts, and reads there which fields it looks at.
 *
 * Such a filter may leave out or sort by anything. What it adds is compared with what WordPress made; the columns that are named in
 * it are then conditions of the list. A table of the plugin's own is not seen.
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
	return array(
		'complex' => '' !== $sql,
		'search'  => (bool) preg_match( '/post_(content|excerpt)/i', $sql ),
		'fields'  => array_values( array_unique( $fields ) ),
	);
}
