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
	foreach ( $posts as $name ) {
		$id = wp_insert_post( array( 'post_title' => $name, 'post_name' => $name, 'post_status' => 'publish', 'comment_status' => 'open' ) );
		wp_insert_comment( array( 'comment_post_ID' => $id, 'comment_content' => "About $name." ) );
	}
}

/** Approves a new comment, as an editor does who finds it pending. */
function approve_comment( string $post, string $text ): void {
	$id      = get_page_by_path( $post, OBJECT, 'post' )->ID;
	$comment = wp_insert_comment( array( 'comment_post_ID' => $id, 'comment_content' => $text, 'comment_approved' => 0 ) );
	wp_set_comment_status( $comment, 'approve' );
}
