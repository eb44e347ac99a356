<?php
/** Edits the post whose version is checked, and reaches PHP without an edit. */

add_action(
	'rest_api_init',
	function () {
		register_rest_route(
			'cluster/v1',
			'/edit',
			array(
				'methods'             => 'POST',
				'permission_callback' => '__return_true',
				'callback'            => function ( $request ) {
					$version = 'version-' . (int) $request['version'] . '-';
					$post    = get_page_by_path( 'checked', OBJECT, 'post' );
					return wp_update_post(
						array(
							'ID'           => $post->ID,
							'post_title'   => $version,
							'post_content' => str_repeat( "<p>$version of a text that is long enough.</p>\n", 100 ) . $version,
						),
						true
					);
				},
			)
		);
		register_rest_route(
			'cluster/v1',
			'/ping',
			array(
				'methods'             => 'GET',
				'permission_callback' => '__return_true',
				'callback'            => function () {
					nocache_headers();
					return 'here';
				},
			)
		);
	}
);
