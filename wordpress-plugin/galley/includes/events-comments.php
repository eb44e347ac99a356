<?php
/**
 * Detects changes of comments. Comments that await moderation and spam comments do not change what others see.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

add_action( 'wp_insert_comment', __NAMESPACE__ . '\\on_new_comment', 10, 2 );
add_filter( 'wp_update_comment_data', __NAMESPACE__ . '\\on_edited_comment', PHP_INT_MAX, 3 );
add_action( 'transition_comment_status', __NAMESPACE__ . '\\on_comment_status', 10, 3 );
add_action( 'delete_comment', __NAMESPACE__ . '\\on_deleted_comment', 10, 2 );
add_action( 'wp_update_comment_count', __NAMESPACE__ . '\\on_comment_count', 10, 3 );

/**
 * Checks whether a comment is visible to everyone.
 */
function is_shown( $comment ): bool {
	return $comment instanceof \WP_Comment && '1' === (string) $comment->comment_approved;
}

function on_new_comment( $id, $comment = null ): void {
	if ( is_shown( $comment ) ) {
		queue_comment( $comment );
	}
}

/**
 * Handles an edited comment. The filter runs before WordPress writes the change, so the database still contains the old state.
 */
function on_edited_comment( $data, $comment = array(), $changed = array() ) {
	$old = get_comment( (int) ( $comment['comment_ID'] ?? 0 ) );
	if ( ! is_shown( $old ) || ! is_array( $data ) ) {
		return $data;
	}
	$differs = static function ( string ...$fields ) use ( $old, $data ): bool {
		foreach ( $fields as $field ) {
			if ( isset( $data[ $field ] ) && (string) wp_unslash( $data[ $field ] ) !== (string) $old->$field ) {
				return true;
			}
		}
		return false;
	};
	if ( $differs( 'comment_author', 'comment_author_url', 'comment_author_email', 'comment_date', 'comment_parent', 'comment_post_ID', 'user_id' ) ) {
		queue_comment( $old );
		queue_purge( 'c' . (int) ( $data['comment_post_ID'] ?? 0 ) );
	} elseif ( $differs( 'comment_content', 'comment_type', 'comment_karma' ) ) {
		queue_purge( array( "c$old->comment_post_ID", "k$old->comment_ID" ) );
	}
	return $data;
}

function on_comment_status( $new, $old, $comment = null ): void {
	if ( $new !== $old && ( 'approved' === $new || 'approved' === $old ) && $comment instanceof \WP_Comment ) {
		queue_comment( $comment );
	}
}

function on_deleted_comment( $id, $comment = null ): void {
	$comment = $comment instanceof \WP_Comment ? $comment : get_comment( (int) $id );
	if ( is_shown( $comment ) ) {
		queue_comment( $comment );
	}
}

/**
 * Queues purges for a changed number of comments. Lists can also be sorted by this number.
 */
function on_comment_count( $post_id, $new = 0, $old = 0 ): void {
	if ( (int) $new !== (int) $old ) {
		queue_purge( array( 'cn' . (int) $post_id, 'o.' . word( (string) get_post_type( (int) $post_id ) ) . '.comment_count' ) );
	}
}

/**
 * Queues purges for everything that shows a comment: its post, the number of comments of the post, and lists of the newest comments if they
 * contain it.
 */
function queue_comment( \WP_Comment $comment ): void {
	$post = (int) $comment->comment_post_ID;
	queue_purge( array( "c$post", "cn$post", "k$comment->comment_ID" ) );
	$parent = (int) $comment->comment_parent;
	$below  = $parent > 0 ? (int) ( get_comment( $parent )->comment_post_ID ?? $post ) : $post;
	if ( $below !== $post ) {
		queue_purge( "c$below" );
	}
	$shown = get_post( $post );
	if ( $shown instanceof \WP_Post && is_public( $shown ) ) {
		// Order notes are also comments, but their posts are not visible to everyone.
		queue_recent( (string) $comment->comment_date_gmt, (int) $comment->comment_ID, 0 );
	}
}

/**
 * Queues purges for lists of the newest comments that reach down to a date. These lists contain only comments of posts that are visible to
 * everyone.
 *
 * @param string $date    Date as in `comment_date_gmt`.
 * @param int    $comment ID of a comment that does not count.
 * @param int    $post    ID of a post whose comments do not count.
 */
function queue_recent( string $date, int $comment, int $post ): void {
	global $wpdb;
	$deepest = DEEPEST + 1;
	$from    = "$wpdb->comments c JOIN $wpdb->posts p ON p.ID = c.comment_post_ID";
	$where   = "c.comment_approved = '1' AND p.post_status = 'publish' AND c.comment_date_gmt > %s AND c.comment_ID <> %d AND p.ID <> %d";
	// phpcs:ignore WordPress.DB -- must be current.
	$rank = (int) $wpdb->get_var( $wpdb->prepare( "SELECT COUNT(*) FROM (SELECT 1 FROM $from WHERE $where LIMIT $deepest) newer", $date, $comment, $post ) );
	queue_purge( rank_tags( 'lc', $rank ) );
}

/**
 * Returns the date of the newest visible comment of a post, or an empty string if there is none. The comments of a post in the trash have the
 * status `post-trashed`.
 */
function newest_comment( int $post ): string {
	global $wpdb;
	// phpcs:ignore WordPress.DB -- must be current.
	return (string) $wpdb->get_var( $wpdb->prepare( "SELECT MAX(comment_date_gmt) FROM $wpdb->comments WHERE comment_post_ID = %d AND comment_approved IN ('1', 'post-trashed')", $post ) );
}
