<?php
/**
 * Where in its lists a post stands: asked of the database when it enters or leaves one.
 *
 * Bounded: nobody needs to know more than that a post stands behind the deepest depth, and the number of posts is
 * counted up to a limit, above which the number of pages counts as changed.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

const MOST_COUNTED = 5000;

/**
 * Which of some lists have another number of pages than before so many posts were added.
 *
 * @param array[] $lists Of each what it is (`type` with `terms`, `author` or `period`, or none of them) and how many were added.
 * @return array The keys of those.
 */
function changed_pages( array $lists ): array {
	$per_page = max( 1, (int) get_option( 'posts_per_page' ) );
	$asked    = array();
	foreach ( $lists as $key => list( $list ) ) {
		$asked[ $key ] = count_sql( $list, MOST_COUNTED + 1 );
	}
	$changed = array();
	foreach ( ask_each( $asked ) as $key => $now ) {
		if ( $now > MOST_COUNTED || crosses_page( $now - $lists[ $key ][1], $now, $per_page ) ) {
			$changed[] = $key;
		}
	}
	return $changed;
}

/**
 * Whether so many posts need more or fewer pages than so many. Pure.
 */
function crosses_page( int $before, int $after, int $per_page ): bool {
	return (int) ceil( max( 0, $before ) / $per_page ) !== (int) ceil( max( 0, $after ) / $per_page );
}

/**
 * Several numbers of the database, in one query.
 *
 * @param string[] $asked Selections of one number each.
 * @return int[] By the same keys; 0 where nothing was found.
 */
function ask_each( array $asked ): array {
	global $wpdb;
	$columns = array();
	foreach ( array_values( $asked ) as $number => $sql ) {
		$columns[] = "($sql) c$number";
	}
	// phpcs:ignore WordPress.DB -- made of prepared parts; the answer must be of this moment.
	$row   = $columns ? (array) $wpdb->get_row( 'SELECT ' . implode( ', ', $columns ), ARRAY_A ) : array();
	$found = array();
	foreach ( array_keys( $asked ) as $number => $key ) {
		$found[ $key ] = (int) ( $row[ "c$number" ] ?? 0 );
	}
	return $found;
}

/**
 * Counts public posts of a list, up to a limit.
 *
 * @param array  $list   `type` with `terms`, `author` or `period`, or none of them.
 * @param string $after  As in `post_date`: only newer ones. The rank of a post is how many are newer.
 * @param int    $except A post that does not count.
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
 * The tags of lists that are sorted by title, where a post has passed another one.
 *
 * @param string $old Its title before.
 * @param string $new Its title after.
 * @return string[]
 */
function title_order_tags( int $id, string $type, string $old, string $new ): array {
	global $wpdb;
	// The database knows which of two titles is first. Some lists show drafts.
	// phpcs:ignore WordPress.DB -- the rest is ours.
	$passed = $wpdb->prepare( "SELECT COUNT(*) FROM (SELECT 1 FROM $wpdb->posts WHERE post_type = %s AND ID <> %d AND (post_title BETWEEN %s AND %s OR post_title BETWEEN %s AND %s) LIMIT 1) passed", $type, $id, $old, $new, $new, $old );
	return ask_each( array( $passed ) )[0] > 0 ? array( 'oo.' . word( $type ) . '.title' ) : array();
}

/**
 * The first and the last second of a year, a month or a day. Pure.
 *
 * @param string $digits `2024`, `202405` or `20240531`.
 * @return string[]
 */
function period( string $digits ): array {
	// No month is longer than 31 days, and dates are compared as they are written.
	$ends  = array( '0000-01-01 00:00:00', '0000-12-31 23:59:59' );
	$start = substr( $digits, 0, 4 );
	foreach ( array( 4, 6 ) as $at ) {
		$start .= strlen( $digits ) > $at ? '-' . substr( $digits, $at, 2 ) : '';
	}
	return array( $start . substr( $ends[0], strlen( $start ) ), $start . substr( $ends[1], strlen( $start ) ) );
}

/**
 * The public post of a type next to a moment.
 *
 * @param string $side `before` or `after`.
 */
function neighbour_sql( string $type, string $date, int $except, string $side ): string {
	global $wpdb;
	list( $than, $direction ) = 'before' === $side ? array( '<=', 'DESC' ) : array( '>=', 'ASC' );
	// phpcs:ignore WordPress.DB -- the rest is ours.
	return $wpdb->prepare( "SELECT ID FROM $wpdb->posts WHERE post_type = %s AND post_status = 'publish' AND ID <> %d AND post_date $than %s ORDER BY post_date $direction LIMIT 1", $type, $except, $date );
}
