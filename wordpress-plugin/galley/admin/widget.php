<?php
/**
 * The dashboard widget: the state of the site and the last purges.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

add_action( 'wp_dashboard_setup', __NAMESPACE__ . '\\add_widget' );

function add_widget(): void {
	if ( may_manage() ) {
		wp_add_dashboard_widget( 'galley_state', __( 'Page cache (Galley)', 'galley' ), __NAMESPACE__ . '\\print_widget' );
	}
}

function print_widget(): void {
	echo '<div class="galley-widget">';
	print_state( recent_state() );
	$rows = array_slice( array_reverse( purge_log() ), 0, 3 );
	if ( $rows ) {
		echo '<ul>';
		foreach ( $rows as $row ) {
			/* translators: %s: a time span such as "5 mins" */
			printf( '<li>%s <span class="description">%s</span></li>', esc_html( purge_sentence( $row, get_current_user_id() ) ), esc_html( sprintf( __( '%s ago', 'galley' ), age_in_words( max( 0, time() - $row['time'] ) ) ) ) );
		}
		echo '</ul>';
	}
	printf( '<p><a href="%s">%s</a></p></div>', esc_url( settings_url() ), esc_html__( 'Details', 'galley' ) );
}
