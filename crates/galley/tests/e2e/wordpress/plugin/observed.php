<?php
/**
 * A plugin of which nobody knows anything: options, transients, a table of its own, counters.
 */

function observed_table(): string {
	return $GLOBALS['wpdb']->prefix . 'observed';
}

add_action( 'wp_loaded', function () {
	if ( isset( $_GET['counted'] ) ) {
		update_option( 'observed_visits', 1 + (int) get_option( 'observed_visits' ) );
		$GLOBALS['wpdb']->query( 'UPDATE ' . observed_table() . "_visits SET n = n + 1" );
	}
} );

add_filter( 'document_title_separator', fn( $sign ) => get_option( 'observed_separator', $sign ) );

add_shortcode( 'observed', function ( $with ) {
	global $wpdb;
	switch ( $with['what'] ) {
		case 'option':
			return 'Option: ' . get_option( 'observed_option', 'none' ) . '.';
		case 'transient':
			$value = get_transient( 'observed_list' );
			return 'Transient: ' . ( false === $value ? 'none' : $value ) . '.';
		case 'table':
			return 'Rows: ' . implode( ', ', $wpdb->get_col( 'SELECT name FROM ' . observed_table() . ' ORDER BY name' ) ) . '.';
		case 'visits':
			return 'Visits: ' . get_option( 'observed_visits' ) . '. Rows: ' . $wpdb->get_var( 'SELECT n FROM ' . observed_table() . '_visits' ) . '.';
		case 'raw':
			return 'Raw: ' . ( $wpdb->get_var( "SELECT option_value FROM $wpdb->options WHERE option_name = 'observed_option'" ) ?? 'none' ) . '.';
		case 'role':
			return 'Roles: ' . implode( ', ', get_user_by( 'login', 'observed' )->roles ) . '.';
		case 'all':
			return 'All: ' . ( wp_load_alloptions()['observed_option'] ?? 'none' ) . '.';
	}
	return '';
} );

add_action( 'wp_ajax_observed', function () {
	$GLOBALS['wpdb']->insert( observed_table(), array( 'name' => 'by ajax' ) );
	wp_send_json( true );
} );
add_action( 'observed_task', fn() => $GLOBALS['wpdb']->insert( observed_table(), array( 'name' => 'by a task' ) ) );
