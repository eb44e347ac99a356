<?php
/**
 * A widget that keeps its HTML in the object cache, as the widgets of WooCommerce do. It lists the newest comments and links their posts.
 */

class Kept_Comments extends WP_Widget {
	public function __construct() {
		parent::__construct( 'kept-comments', 'Kept comments' );
	}

	public function widget( $args, $instance ) {
		$kept = (array) wp_cache_get( 'kept-comments', 'widget' );
		if ( ! isset( $kept[ $args['widget_id'] ] ) ) {
			ob_start();
			echo $args['before_widget'], '<ul>';
			foreach ( get_comments( array( 'number' => 10, 'status' => 'approve', 'post_status' => 'publish', 'parent' => 0 ) ) as $comment ) {
				echo '<li><a href="', esc_url( get_permalink( $comment->comment_post_ID ) ), '">', esc_html( get_comment_excerpt( $comment ) ), '</a></li>';
			}
			echo '</ul>', $args['after_widget'];
			$kept[ $args['widget_id'] ] = ob_get_clean();
			wp_cache_set( 'kept-comments', $kept, 'widget' );
		}
		echo $kept[ $args['widget_id'] ];
	}
}

add_action( 'widgets_init', fn() => register_widget( 'Kept_Comments' ) );
