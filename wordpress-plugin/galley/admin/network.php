<?php
/**
 * Network Admin > Settings > Galley: the state of the server for the network, a purge of all sites, and links to the settings of each site.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Number of sites on one page of the list. */
const LISTED_BLOGS = 50;

add_action( 'network_admin_menu', __NAMESPACE__ . '\\network_menu' );
add_action( 'network_admin_edit_galley_purge_network', __NAMESPACE__ . '\\on_purge_network' );

function network_menu(): void {
	$screen = add_submenu_page( 'settings.php', __( 'Galley', 'galley' ), __( 'Galley', 'galley' ), 'manage_network_options', 'galley-network', __NAMESPACE__ . '\\network_page' );
	add_action(
		"admin_print_styles-$screen",
		static function (): void {
			wp_enqueue_style( 'galley-page', plugins_url( 'page.css', __FILE__ ), array(), VERSION );
			wp_enqueue_script( 'galley-page', plugins_url( 'page.js', __FILE__ ), array(), VERSION, true );
		}
	);
}

function on_purge_network(): void {
	check_admin_referer( 'galley_purge_network' );
	if ( ! current_user_can( 'manage_network_options' ) ) {
		refuse();
	}
	note_cause( 'button-all' );
	queue_purge_of_all_blogs();
	wp_safe_redirect( network_admin_url( 'settings.php?page=galley-network&galley=purged-all' ) );
	exit;
}

function network_page(): void {
	if ( ! current_user_can( 'manage_network_options' ) ) {
		refuse();
	}
	echo '<div class="wrap galley-settings galley-network"><h1>', esc_html__( 'Galley', 'galley' ), '</h1>';
	said_box();
	print_state( judge_site( site_facts( call( 'GET', '/status' ) ) ) );
	printf( '<h2>%s</h2><form method="post" action="%s" data-galley-confirm="%s">', esc_html__( 'Purge', 'galley' ), esc_url( network_admin_url( 'edit.php?action=galley_purge_network' ) ), esc_attr__( 'Purge all pages of all sites of this network?', 'galley' ) );
	wp_nonce_field( 'galley_purge_network' );
	submit_button( __( 'Purge all sites', 'galley' ), 'secondary', 'galley-purge-network', false );
	echo '</form>';
	network_sites();
	echo '</div>';
}

/**
 * Prints the paginated list of sites, with a link to the settings page of each site.
 */
function network_sites(): void {
	// phpcs:ignore WordPress.Security.NonceVerification -- a number of a page.
	$page  = isset( $_GET['paged'] ) ? max( 1, (int) $_GET['paged'] ) : 1;
	$sites = get_sites(
		array(
			'number' => LISTED_BLOGS,
			'offset' => ( $page - 1 ) * LISTED_BLOGS,
		)
	);
	printf( '<h2>%s</h2><table class="widefat striped"><thead><tr><th scope="col">%s</th><th scope="col">%s</th><th scope="col">%s</th></tr></thead><tbody>', esc_html__( 'Sites', 'galley' ), esc_html__( 'Site', 'galley' ), esc_html__( 'Development mode', 'galley' ), esc_html__( 'Last purge', 'galley' ) );
	foreach ( $sites as $site ) {
		switch_to_blog( (int) $site->blog_id );
		$log = purge_log();
		printf(
			'<tr><th scope="row"><a href="%s">%s</a></th><td>%s</td><td>%s</td></tr>',
			esc_url( settings_url() ),
			esc_html( $site->domain . $site->path ),
			esc_html( development_left() > 0 ? __( 'on', 'galley' ) : __( 'off', 'galley' ) ),
			esc_html( $log ? purge_sentence( $log[ count( $log ) - 1 ], get_current_user_id() ) : '–' )
		);
		restore_current_blog();
	}
	echo '</tbody></table>';
	$pages = (int) ceil( (int) get_sites( array( 'count' => true ) ) / LISTED_BLOGS );
	if ( $pages > 1 ) {
		$links = paginate_links(
			array(
				'base'    => add_query_arg( 'paged', '%#%' ),
				'format'  => '',
				'total'   => $pages,
				'current' => $page,
			)
		);
		echo '<p>', wp_kses_post( (string) $links ), '</p>';
	}
}
