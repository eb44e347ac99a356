<?php
/**
 * Tags a page by the posts of a list that has no ranks. A post that leaves the list changes the page only if the list shows it.
 *
 * This is used for the first page of lists whose number of pages is unknown, such as feeds. The page gets the tag `<list>.in` for posts
 * that enter, `<list>.p<post>` for each post shown, and `<list>.q`. The plugin adds these tags after the database has answered. If a
 * query never reports its results, the page gets the tag of the whole list.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

$GLOBALS['galley_awaited'] = array();
if ( is_described() ) {
	add_filter( 'posts_results', __NAMESPACE__ . '\\gather_members', PHP_INT_MIN, 2 );
}

/**
 * Returns whether a post that leaves the list of a query affects the page only if the query returned the post. If so, `gather_members` adds
 * the tags when the results are known.
 *
 * @param array $list As `describe_query` returns it.
 */
function await_members( \WP_Query $query, array $list ): bool {
	$vars       = $query->query_vars;
	$is_whole   = in_array( $vars['fields'] ?? '', array( '', 'all' ), true ) && empty( $vars['suppress_filters'] );
	$is_first   = empty( $vars['offset'] ) && (int) ( $vars['paged'] ?? 0 ) < 2;
	$is_counted = empty( $vars['no_found_rows'] ) && ! $query->is_feed();
	if ( ! $is_whole || ! $is_first || $is_counted || ! $list['directed'] || $list['complex'] || $list['any_status'] || ( $list['search'] && '' === $list['word'] ) || $query->is_singular() || $query->is_comment_feed() ) {
		return false;
	}
	$tags = array();
	foreach ( list_tags( $list ) as $tag ) {
		$tags[] = $GLOBALS['galley_prefix'] . $tag;
	}
	$GLOBALS['galley_awaited'][ spl_object_id( $query ) ] = array( $query, $list, $tags );
	return true;
}

/**
 * Adds the tags of a query when the database has returned its posts, before filters change them.
 */
function gather_members( $posts, $query = null ) {
	$id = is_object( $query ) ? spl_object_id( $query ) : 0;
	if ( is_array( $posts ) && isset( $GLOBALS['galley_awaited'][ $id ] ) ) {
		$list            = $GLOBALS['galley_awaited'][ $id ][1];
		$list['members'] = array_map( __NAMESPACE__ . '\\id_of', $posts );
		unset( $GLOBALS['galley_awaited'][ $id ] );
		foreach ( list_tags( $list ) as $tag ) {
			tag( $tag );
		}
	}
	return $posts;
}

/**
 * Adds the tags of the whole list for queries that never reported their results.
 */
function gather_awaited(): void {
	foreach ( $GLOBALS['galley_awaited'] as $awaited ) {
		foreach ( $awaited[2] as $tag ) {
			$GLOBALS['galley_tags'][ $tag ] = true;
		}
	}
}
