<?php
/**
 * Deletes the data of the plugin: options, the table of statements, notices that users have dismissed, scheduled tasks, and the connection file.
 *
 * @package Galley
 */

namespace Galley;

defined( 'WP_UNINSTALL_PLUGIN' ) || exit;

require_once __DIR__ . '/includes/drop-in.php';

/**
 * Deletes the options, transients and scheduled tasks of the current site.
 */
function clean_site(): void {
	global $wpdb;
	// phpcs:ignore WordPress.DB.DirectDatabaseQuery -- there is no other way to find options by a prefix.
	$names = $wpdb->get_col( $wpdb->prepare( "SELECT option_name FROM {$wpdb->options} WHERE option_name LIKE %s OR option_name LIKE %s", $wpdb->esc_like( 'galley_' ) . '%', $wpdb->esc_like( '_transient_galley_' ) . '%' ) );
	foreach ( $names as $name ) {
		if ( 0 === strpos( $name, '_transient_' ) ) {
			delete_transient( substr( $name, strlen( '_transient_' ) ) );
		} else {
			delete_option( $name );
		}
	}
	foreach ( _get_cron_array() ? _get_cron_array() : array() as $tasks ) {
		foreach ( array_keys( $tasks ) as $task ) {
			if ( 0 === strpos( (string) $task, 'galley_' ) ) {
				wp_clear_scheduled_hook( $task );
				wp_unschedule_hook( $task );
			}
		}
	}
}

/**
 * Deletes the data of all sites, and the data that they share: network options, dismissed notices, and the connection file.
 */
function clean_all(): void {
	global $wpdb;
	if ( is_multisite() ) {
		$offset = 0;
		do {
			$sites = get_sites(
				array(
					'fields' => 'ids',
					'number' => 100,
					'offset' => $offset,
				)
			);
			foreach ( $sites as $site ) {
				switch_to_blog( (int) $site );
				clean_site();
				restore_current_blog();
			}
			$offset += 100;
			$more    = 100 === count( $sites );
		} while ( $more );
		// phpcs:ignore WordPress.DB.DirectDatabaseQuery -- as above.
		foreach ( $wpdb->get_col( $wpdb->prepare( "SELECT meta_key FROM {$wpdb->sitemeta} WHERE meta_key LIKE %s", $wpdb->esc_like( 'galley_' ) . '%' ) ) as $name ) {
			delete_site_option( $name );
		}
	} else {
		clean_site();
	}
	// phpcs:ignore WordPress.DB -- the table of this plugin.
	$wpdb->query( "DROP TABLE IF EXISTS `{$wpdb->base_prefix}galley_statements`" );
	delete_metadata( 'user', 0, 'galley_dismissed', '', true );
	$file = WP_CONTENT_DIR . '/galley-connection.php';
	if ( is_file( $file ) && ! is_link( $file ) ) {
		wp_delete_file( $file );
	}
}

remove_drop_in();
clean_all();
