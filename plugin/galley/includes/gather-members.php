<?php
/**
 * Notes the posts of a list that has no ranks: what leaves it was one of them, or changes nothing of it.
 *
 * That holds for the beginning of a list of which nobody knows how many pages it has, as of feeds. Its tags are `<list>.in` for what comes in,
 * `<list>.p<post>` for each of its posts, and `<list>.q`. They are known when the database has answered; a query that never says so has the
 * tag of the list.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

$GLOBALS['galley_awaited'] = array();
if ( is_shared() ) {
	add_filter( 'posts_results', __NAMESPACE__ . '\\gather_members', PHP_INT_MIN, 2 );
}

/**
 * Whether the posts of a query are all that what leaves its list can change. They are then told to `gather_members`.
 *
 * @param array $list As `describe_query` gives it.
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
 * What the database found, before anything is done to it.
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
 * Tags of queries that have not said what they found.
 */
function gather_awaited(): void {
	foreach ( $GLOBALS['galley_awaited'] as $awaited ) {
		foreach ( $awaited[2] as $tag ) {
			$GLOBALS['galley_tags'][ $tag ] = true;
		}
	}
}
