<?php
/**
 * Fields (meta) of comments: which pages read them, and which change.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

if ( is_described() ) {
	add_filter( 'get_comment_metadata', __NAMESPACE__ . '\\gather_comment_field', PHP_INT_MAX, 2 );
}
foreach ( array( 'added_comment_meta', 'updated_comment_meta', 'deleted_comment_meta' ) as $galley_action ) {
	add_action( $galley_action, __NAMESPACE__ . '\\on_comment_field', 10, 3 );
}
unset( $galley_action );

function gather_comment_field( $value, $id = 0 ) {
	tag( 'km' . (int) $id );
	tag( 'kma' );
	return $value;
}

/**
 * Handles a changed field. No page shows what WordPress notes about a comment in the trash.
 */
function on_comment_field( $meta_ids, $id = 0, $key = '' ): void {
	if ( 0 !== strpos( (string) $key, '_wp_trash_' ) && ! is_visit_field( 'comment', (int) $id, (string) $key ) ) {
		queue_purge( array( 'km' . (int) $id, 'o.comment.' . word( "m_$key" ), 'o.comment.m_' ) );
	}
}
