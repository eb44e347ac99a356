<?php
/**
 * Purges by plugins that remove files of nginx's cache: SpinupWP, and Nginx Helper where it deletes files.
 *
 * Such a file is named by a hash of the address, and Galley has no such files. Both plugins announce a purge by an action, with the
 * address itself; the purge is taken from there. It does not depend on whether the plugin found a file.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

add_action( 'spinupwp_url_purged', __NAMESPACE__ . '\\on_purged_url' );
add_action( 'spinupwp_site_purged', __NAMESPACE__ . '\\on_purged_site', 10, 0 );
add_action( 'rt_nginx_helper_after_fastcgi_purge_all', __NAMESPACE__ . '\\on_purged_site', 10, 0 );

function on_purged_url( $url ): void {
	purge_url( is_string( $url ) ? $url : '' );
}

/**
 * With each change of a post SpinupWP purges everything. What the change shows on is purged without it (events-posts.php).
 */
function on_purged_site(): void {
	if ( ! doing_action( 'transition_post_status' ) && ! doing_action( 'delete_post' ) ) {
		purge_all();
	}
}
