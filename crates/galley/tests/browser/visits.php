<?php
/**
 * Imitates other plugins, depending on the slug of the page.
 */
add_action( 'wp_footer', function () {
	if ( is_single( 'with-nonce' ) ) {
		echo '<input name="n" value="' . wp_create_nonce( 'newsletter' ) . '">';
	}
	if ( is_single( 'with-short-nonce' ) ) {
		add_filter( 'nonce_life', function () { return 7200; } );
		echo '<input name="n" value="' . wp_create_nonce( 'quick' ) . '">';
	}
} );
add_action( 'template_redirect', function () {
	if ( is_single( 'with-rest' ) ) {
		wp_enqueue_script( 'wp-api-fetch' );
	}
	if ( is_single( 'with-own-tag' ) ) {
		galley_tag( 'people:list' );
	}
	if ( is_single( 'with-cookie' ) ) {
		setcookie( 'visited_before', '1' );
	}
} );
