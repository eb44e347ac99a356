<?php
/**
 * Shows the widget that keeps its HTML, and approves comments.
 */

/** Shows the widget, and publishes posts with one newest comment each. */
function show_kept_comments( string ...$posts ): void {
	update_option( 'widget_kept-comments', array( 2 => array(), '_multiwidget' => 1 ) );
	$sidebars                = get_option( 'sidebars_widgets' );
	$sidebars['sidebar-1'][] = 'kept-comments-2';
	update_option( 'sidebars_widgets', $sidebars );
	// Each has a time of its own: the order of comments of the same second is not defined.
	foreach ( $posts as $number => $name ) {
		$id = wp_insert_post( array( 'post_title' => $name, 'post_name' => $name, 'post_status' => 'publish', 'comment_status' => 'open' ) );
		$time = gmdate( 'Y-m-d H:i:s', time() - $number );
		wp_insert_comment( array( 'comment_post_ID' => $id, 'comment_content' => "About $name.", 'comment_date' => $time, 'comment_date_gmt' => $time ) );
	}
}

/** Approves a new comment, as an editor does who finds it pending. */
function approve_comment( string $post, string $text ): void {
	$id      = get_page_by_path( $post, OBJECT, 'post' )->ID;
	$newest  = (array) get_comments( array( 'number' => 1, 'orderby' => 'comment_date_gmt' ) );
	$time    = gmdate( 'Y-m-d H:i:s', max( time(), 1 + strtotime( $newest[0]->comment_date_gmt . ' +0000' ) ) );
	$comment = wp_insert_comment( array( 'comment_post_ID' => $id, 'comment_content' => $text, 'comment_approved' => 0, 'comment_date' => $time, 'comment_date_gmt' => $time ) );
	wp_set_comment_status( $comment, 'approve' );
}
