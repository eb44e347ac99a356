<?php
/**
 * Plugin Name: Pages that depend on a file, which nothing can see, and pages that vary
 */

add_shortcode(
	'audited',
	static function ( $attributes ) {
		if ( 'random' === ( $attributes['what'] ?? '' ) ) {
			return 'lucky number ' . wp_rand();
		}
		return 'hours: ' . file_get_contents( WP_CONTENT_DIR . '/hours.txt' );
	}
);

// The lab prints the id of the request.
add_action( 'wp_head', fn() => remove_action( 'wp_footer', 'Galley\Lab\print_request', 999 ) );
