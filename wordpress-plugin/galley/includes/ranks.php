<?php
/**
 * Determines the position of a post in its lists, with queries to the database when the post enters or leaves a list.
 *
 * The queries have limits. Beyond the deepest rank, the exact position does not matter. The plugin counts posts up to a limit; above it, it
 * assumes that the number of pages changed.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

const MAX_COUNTED = 5000;

/**
 * Returns the lists whose number of pages changed since posts were added.
 *
 * @param array[] $lists For each, the list (`type` with `terms`, `author` or `period`, or none of them) and the number of added posts.
 * @return array The keys of the lists that changed.
 */
function changed_pages( array $lists ): array {
	$per_page = max( 1, (int) get_option( 'posts_per_page' ) );
	$asked    = array();
	foreach ( $lists as $key => list( $list ) ) {
		$asked[ $key ] = count_sql( $list, MAX_COUNTED + 1 );
	}
	$changed = array();
	foreach ( ask_each( $asked ) as $key => $now ) {
		if ( $now > MAX_COUNTED || crosses_page( $now - $lists[ $key ][1], $now, $per_page ) ) {
			$changed[] = $key;
		}
	}
	return $changed;
}

/**
 * Returns whether two numbers of posts need different numbers of pages. Pure.
 */
function crosses_page( int $before, int $after, int $per_page ): bool {
	return (int) ceil( max( 0, $before ) / $per_page ) !== (int) ceil( max( 0, $after ) / $per_page );
}

/**
 * Returns several numbers from the database with one query.
 *
 * @param string[] $asked SELECT statements that return one number, or a list of numbers with commas.
 * @return int[]|string[] Numbers and lists by the same keys, 0 if the database found nothing.
 */
function ask_each( array $asked ): array {
	global $wpdb;
	$columns = array();
	foreach ( array_values( $asked ) as $number => $sql ) {
		$columns[] = "($sql) c$number";
	}
	// phpcs:ignore WordPress.DB -- made of prepared parts; the result must be current.
	$row   = $columns ? (array) $wpdb->get_row( 'SELECT ' . implode( ', ', $columns ), ARRAY_A ) : array();
	$found = array();
	foreach ( array_keys( $asked ) as $number => $key ) {
		$value         = (string) ( $row[ "c$number" ] ?? 0 );
		$found[ $key ] = false === strpos( $value, ',' ) ? (int) $value : $value;
	}
	return $found;
}

/**
 * Returns SQL that counts the public posts of a list, up to a limit.
 *
 * @param array  $list   `type` with `terms`, `author` or `period`, or none of them.
 * @param string $after  A date as in `post_date`: only newer posts count. The rank of a post is the number of newer posts.
 * @param int    $except ID of a post that does not count.
 */
function count_sql( array $list, int $limit, string $after = '', int $except = 0 ): string {
	global $wpdb;
	$from  = "$wpdb->posts p";
	$where = $wpdb->prepare( 'p.post_type = %s AND p.post_status = %s', $list['type'], 'attachment' === $list['type'] ? 'inherit' : 'publish' );
	if ( ! empty( $list['terms'] ) ) {
		$terms  = implode( ',', array_map( 'intval', $list['terms'] ) );
		$from  .= " JOIN $wpdb->term_relationships r ON r.object_id = p.ID JOIN $wpdb->term_taxonomy x ON x.term_taxonomy_id = r.term_taxonomy_id";
		$where .= " AND x.term_id IN ($terms)";
	}
	if ( ! empty( $list['author'] ) ) {
		$where .= $wpdb->prepare( ' AND p.post_author = %d', $list['author'] );
	}
	if ( ! empty( $list['period'] ) ) {
		$where .= $wpdb->prepare( ' AND p.post_date BETWEEN %s AND %s', period( $list['period'] ) );
	}
	if ( '' !== $after ) {
		$where .= $wpdb->prepare( ' AND p.post_date > %s AND p.ID <> %d', $after, $except );
	}
	return "SELECT COUNT(*) FROM (SELECT DISTINCT p.ID FROM $from WHERE $where LIMIT $limit) counted";
}

/**
 * Returns the tags of lists sorted by title, if a change of a title moves the post past another one.
 *
 * @param array $old State before the change.
 * @param array $new State after the change.
 * @return string[]
 */
function title_order_tags( int $id, array $old, array $new ): array {
	global $wpdb;
	// Only the database knows the order of two titles. Some lists show drafts, so the query includes posts with any status.
	// phpcs:ignore WordPress.DB -- the other parts come from this plugin.
	$passed = $wpdb->prepare( "SELECT COUNT(*) FROM (SELECT 1 FROM $wpdb->posts WHERE post_type = %s AND ID <> %d AND (post_title BETWEEN %s AND %s OR post_title BETWEEN %s AND %s) LIMIT 1) passed", $new['type'], $id, $old['title'], $new['title'], $new['title'], $old['title'] );
	return ask_each( array( $passed ) )[0] > 0 ? with_confined( 'oo.' . word( $new['type'] ) . '.title', 'title', $old, $new ) : array();
}

/**
 * Returns the first and the last second of a year, a month or a day. Pure.
 *
 * @param string $digits `2024`, `202405` or `20240531`.
 * @return string[]
 */
function period( string $digits ): array {
	// No month has more than 31 days, and the database compares dates as text.
	$ends  = array( '0000-01-01 00:00:00', '0000-12-31 23:59:59' );
	$start = substr( $digits, 0, 4 );
	foreach ( array( 4, 6 ) as $at ) {
		$start .= strlen( $digits ) > $at ? '-' . substr( $digits, $at, 2 ) : '';
	}
	return array( $start . substr( $ends[0], strlen( $start ) ), $start . substr( $ends[1], strlen( $start ) ) );
}

/**
 * Returns SQL for the public posts of a type that are adjacent to a date: all of the nearest second before or after it, or of this second. Which one of
 * them is the neighbor, the database decides, and in WordPress 6.9 their IDs.
 *
 * @param string $side `under`, `over` or `same`.
 */
function neighbour_sql( string $type, string $date, int $except, string $side ): string {
	global $wpdb;
	$where = $wpdb->prepare( "post_type = %s AND post_status = 'publish' AND ID <> %d", $type, $except );
	$date  = $wpdb->prepare( '%s', $date );
	if ( 'same' !== $side ) {
		list( $nearest, $than ) = 'under' === $side ? array( 'MAX', '<' ) : array( 'MIN', '>' );

		$date = "(SELECT $nearest(post_date) FROM $wpdb->posts WHERE $where AND post_date $than $date)";
	}
	return "SELECT GROUP_CONCAT(ID) FROM $wpdb->posts WHERE $where AND post_date = $date";
}
