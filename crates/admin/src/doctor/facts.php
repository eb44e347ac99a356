<?php
// What PHP and WordPress say of themselves, for `galley doctor`. Loads WordPress as little as it can: no plugin, no theme.
// A request from the web cannot set this variable: its fields become HTTP_*.
if ( ( $_SERVER['GALLEY_DOCTOR'] ?? '' ) !== '1' ) {
	http_response_code( 404 );
	exit;
}
ini_set( 'display_errors', '0' );
ob_start();
$galley_facts = array(
	'php'       => array(
		'version'      => PHP_VERSION,
		'memory_limit' => ini_get( 'memory_limit' ),
		'extensions'   => array_map( 'strtolower', get_loaded_extensions() ),
		'opcache'      => function_exists( 'opcache_get_status' ) ? opcache_get_status( false ) : null,
	),
	'wordpress' => null,
);
// Also when WordPress ends the script: it is not installed, its database is down.
register_shutdown_function(
	function () use ( &$galley_facts ) {
		while ( ob_get_level() > 0 ) {
			ob_end_clean();
		}
		if ( ! headers_sent() ) {
			http_response_code( 200 );
			header( 'Content-Type: application/json' );
		}
		echo json_encode( $galley_facts, JSON_PARTIAL_OUTPUT_ON_ERROR );
	}
);
$galley_load = $_SERVER['DOCUMENT_ROOT'] . '/wp-load.php';
if ( is_readable( $galley_load ) ) {
	$galley_facts['wordpress'] = array( 'answers' => false );
	define( 'SHORTINIT', true );
	require $galley_load;
	global $wpdb, $wp_version;
	$galley_cron    = get_option( 'cron' );
	$galley_times   = array_filter( array_keys( is_array( $galley_cron ) ? $galley_cron : array() ), 'is_int' );
	$galley_overdue = array_filter( $galley_times, function ( $time ) { return $time < time() - 60; } );
	$galley_facts['wordpress'] = array(
		'answers'          => true,
		'version'          => $wp_version,
		'autoload_bytes'   => (int) $wpdb->get_var( "SELECT SUM(LENGTH(option_value)) FROM $wpdb->options WHERE autoload IN ('yes','on','auto','auto-on')" ),
		'autoload_largest' => $wpdb->get_col( "SELECT option_name FROM $wpdb->options WHERE autoload IN ('yes','on','auto','auto-on') ORDER BY LENGTH(option_value) DESC LIMIT 3" ),
		'cron_overdue'     => count( $galley_overdue ),
		'cron_overdue_s'   => $galley_overdue ? time() - min( $galley_overdue ) : 0,
		'second_cache'     => defined( 'WP_CACHE' ) && WP_CACHE && file_exists( WP_CONTENT_DIR . '/advanced-cache.php' ),
		'object_cache'     => file_exists( WP_CONTENT_DIR . '/object-cache.php' ),
		'shows_errors'     => defined( 'WP_DEBUG' ) && WP_DEBUG && ( ! defined( 'WP_DEBUG_DISPLAY' ) || WP_DEBUG_DISPLAY ),
	);
}
