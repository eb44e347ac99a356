<?php
/**
 * Applies the purges of plugins that delete files of nginx's cache: SpinupWP, and Nginx Helper if it is configured to delete files.
 *
 * The name of such a file is a hash of the address, and Galley has no such files. Both plugins announce a purge with an action that contains the
 * address. Galley uses this action, so the purge does not depend on whether the plugin found a file.
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
 * Purges all pages, except if SpinupWP does so because of a changed post. SpinupWP purges everything with each change of a post, but
 * events-posts.php already purges the affected pages.
 */
function on_purged_site(): void {
	if ( ! doing_action( 'transition_post_status' ) && ! doing_action( 'delete_post' ) ) {
		purge_all();
	}
}
