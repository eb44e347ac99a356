<?php
/**
 * Widgets whose HTML is kept in four ways: in the group `widget` with its wrapper as by WooCommerce, in another group of the object cache, in a
 * transient, and in an option. Each lists the newest posts. Saving a post removes what is kept. A scheduled task keeps another text, and a
 * file contains what no plugin can observe.
 */

class Kept_Widget extends WP_Widget {
	public function __construct() {
		parent::__construct( 'kept', 'Kept' );
	}

	public function widget( $args, $instance ) {
		$kept = wp_cache_get( 'kept', 'widget' );
		if ( ! is_array( $kept ) ) {
			ob_start();
			echo $args['before_widget'], kept_list( 'widget' ), $args['after_widget'];
			$kept = array( 'html' => ob_get_clean() );
			wp_cache_set( 'kept', $kept, 'widget' );
		}
		echo $kept['html'];
		echo kept( 'group', fn() => wp_cache_get( 'kept-1', 'own-html' ), fn( $html ) => wp_cache_set( 'kept-1', $html, 'own-html' ) );
		echo kept( 'transient', fn() => get_transient( 'kept_1' ), fn( $html ) => set_transient( 'kept_1', $html, 3600 ) );
		echo get_transient( 'kept_by_task' ) ?: '<p>No text by a task yet</p>';
	}
}

function kept( string $how, callable $read, callable $keep ): string {
	$html = $read();
	if ( false === $html ) {
		$html = kept_list( $how );
		$keep( $html );
	}
	return $html;
}

/** Returns links to the newest posts, with a block, which may be a fragment of its own. */
function kept_list( string $how ): string {
	$html = do_blocks( '<!-- wp:latest-posts {"postsToShow":2} /-->' );
	foreach ( get_posts( array( 'numberposts' => 2 ) ) as $post ) {
		$html .= "<p class=\"by-$how\">$how: " . get_the_title( $post ) . '</p>';
	}
	return $html;
}

add_action( 'widgets_init', fn() => register_widget( 'Kept_Widget' ) );
add_action(
	'save_post',
	function () {
		wp_cache_delete( 'kept', 'widget' );
		wp_cache_delete( 'kept-1', 'own-html' );
		delete_transient( 'kept_1' );
	}
);
// Other code keeps whole parts of the page.
add_action(
	'get_footer',
	function () {
		ob_start();
		foreach ( array_keys( wp_get_sidebars_widgets() ) as $sidebar ) {
			dynamic_sidebar( $sidebar );
		}
		$html = ob_get_clean();
		update_option( 'kept_option', array( 'html' => $html ) );
		set_transient( 'kept_sidebar', wp_json_encode( $html ), 3600 );
		wp_cache_set( 'kept-sidebar', array( array( $html ) ), 'own-html' );
		if ( 'shared' === $_SERVER['HTTP_GALLEY_REQUEST'] ) {
			file_put_contents( WP_CONTENT_DIR . '/kept.html', $html );
		} elseif ( 'whole' === $_SERVER['HTTP_GALLEY_REQUEST'] ) {
			echo '<div class="kept-file">', file_get_contents( WP_CONTENT_DIR . '/kept.html' ), '</div>';
		}
	},
	1
);
