<?php
/**
 * Fields (meta) that are deleted from all posts, terms, comments or users at once, as `delete_post_meta_by_key()` does. WordPress announces them
 * without saying whose they are.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

foreach ( array( 'post', 'term', 'comment', 'user' ) as $galley_type ) {
	add_filter( "delete_{$galley_type}_metadata", __NAMESPACE__ . '\\before_deletion_of_all', PHP_INT_MAX, 5 );
}
unset( $galley_type );

/**
 * Records the fields of each object before they are deleted.
 *
 * @param mixed $check Returned without changes. Not null if other code replaces the deletion.
 */
function before_deletion_of_all( $check, $id = 0, $key = '', $value = '', $is_all = false ) {
	global $wpdb;
	$type = substr( (string) current_filter(), 7, -9 );
	if ( null !== $check || ! $is_all ) {
		return $check;
	}
	$table  = $wpdb->{$type . 'meta'};
	$column = "{$type}_id";
	// phpcs:ignore WordPress.DB -- names of WordPress; must be current.
	$ids = array_map( 'intval', $wpdb->get_col( $wpdb->prepare( "SELECT DISTINCT $column FROM $table WHERE meta_key = %s LIMIT %d", $key, MAX_PURGES + 1 ) ) );
	if ( count( $ids ) > MAX_PURGES ) {
		if ( is_shared() ) {
			purge_unless_stored( array( 'user' === $type && is_multisite() ? '*' : blog_prefix() . 'b' ) );
		} elseif ( 'user' === $type ) {
			queue_purge_of_all_blogs();
		} else {
			queue_purge( 'b' );
		}
		return $check;
	}
	$handle = array(
		'post'    => 'on_field_gone',
		'term'    => 'on_term_field',
		'comment' => 'on_comment_field',
		'user'    => 'on_user_field',
	);
	foreach ( $ids as $id ) {
		call_user_func( __NAMESPACE__ . "\\$handle[$type]", 0, $id, (string) $key );
	}
	return $check;
}
