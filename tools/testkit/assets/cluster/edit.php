<?php
/** Edits the post whose version is checked, reads it without a stored page, and reaches PHP without an edit. */

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
					update_option( 'cluster_version', $version, false );
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
			'/objects',
			array(
				'methods'             => 'GET',
				'permission_callback' => '__return_true',
				'callback'            => function () {
					nocache_headers();
					$cache = $GLOBALS['wp_object_cache'];
					return array(
						'option'    => get_option( 'cluster_version', 'version-1-' ),
						'title'     => get_page_by_path( 'checked', OBJECT, 'post' )->post_title,
						'connected' => is_callable( array( $cache, 'is_connected' ) ) && $cache->is_connected(),
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
