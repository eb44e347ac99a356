<?php
/**
 * A plugin with a table of its own, which WordPress's events do not cover, and with REST routes.
 */

function club_members(): string {
	global $wpdb;
	return 'Members: ' . implode( ', ', $wpdb->get_col( "SELECT name FROM {$wpdb->prefix}club WHERE is_public = 1 ORDER BY name" ) ) . '.';
}

add_shortcode( 'club', 'club_members' );
add_shortcode( 'club-preload', fn() => (string) wp_json_encode( rest_do_request( '/club/v1/refill' )->get_data() ) );

add_action(
	'widgets_init',
	function () {
		wp_register_sidebar_widget( 'club-1', 'Club', function ( $parts ) {
			echo $parts['before_widget'], club_members(), $parts['after_widget'];
		} );
	}
);

if ( isset( $_SERVER['REQUEST_URI'] ) && false !== strpos( $_SERVER['REQUEST_URI'], 'club-described' ) ) {
	add_filter( 'galley_described_tables', fn( $tables ) => array_merge( $tables, array( $GLOBALS['wpdb']->prefix . 'club' ) ) );
}

foreach ( array( 'wp_ajax_club', 'wp_ajax_nopriv_club' ) as $club_action ) {
	add_action( $club_action, fn() => wp_send_json( club_members() ) );
}

add_action(
	'rest_api_init',
	function () {
		$routes = array(
			'club/v1'    => array(
				'refill'   => fn() => array( 'token' => wp_generate_password( 20, false ) ),
				'lifetime' => fn() => new WP_REST_Response( array( 'token' => wp_generate_password( 20, false ) ), 200, array( 'Cache-Control' => 'max-age=300' ) ),
				'tagged'   => function () {
					galley_tag( 'club:list' );
					return array( 'token' => wp_generate_password( 20, false ) );
				},
			),
			'wp/v2/club' => array( 'refill' => fn() => array( 'token' => wp_generate_password( 20, false ) ) ),
		);
		foreach ( $routes as $namespace => $callbacks ) {
			foreach ( $callbacks as $route => $callback ) {
				register_rest_route( $namespace, "/$route", array( 'callback' => $callback, 'permission_callback' => '__return_true' ) );
			}
		}
	}
);
add_filter( 'rest_pre_dispatch', fn( $answer, $server, $request ) => '/club/early' === $request->get_route() ? new WP_REST_Response( array( 'token' => wp_generate_password( 20, false ) ) ) : $answer, 10, 3 );
