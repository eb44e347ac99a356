<?php
/**
 * User interface of the plugin: the admin bar, the settings page, Site Health, notices, the command line.
 *
 * The plugin does not need these files to serve or purge pages.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

require_once __DIR__ . '/reasons.php';
require_once __DIR__ . '/page.php';
require_once __DIR__ . '/bar.php';
require_once __DIR__ . '/health.php';
require_once __DIR__ . '/object-cache.php';
require_once __DIR__ . '/culprits.php';
require_once __DIR__ . '/cookies.php';
require_once __DIR__ . '/state.php';
require_once __DIR__ . '/editor.php';

if ( is_admin() ) {
	require_once __DIR__ . '/actions.php';
	require_once __DIR__ . '/chart.php';
	require_once __DIR__ . '/costs.php';
	require_once __DIR__ . '/purge-words.php';
	require_once __DIR__ . '/forms.php';
	require_once __DIR__ . '/settings.php';
	require_once __DIR__ . '/columns.php';
	require_once __DIR__ . '/widget.php';
	require_once __DIR__ . '/privacy.php';
	require_once __DIR__ . '/notices.php';
}
if ( is_admin() && is_multisite() ) {
	require_once __DIR__ . '/network.php';
}
if ( defined( 'WP_CLI' ) && WP_CLI ) {
	require_once __DIR__ . '/cli.php';
}

add_action( 'init', __NAMESPACE__ . '\\load_texts' );

/**
 * Loads the translations that the plugin contains. WordPress prefers a copy in its own languages directory.
 */
function load_texts(): void {
	load_plugin_textdomain( 'galley', false, dirname( plugin_basename( dirname( __DIR__ ) . '/galley.php' ) ) . '/languages' );
}

/**
 * Returns whether the current user may see and change all settings.
 */
function may_manage(): bool {
	return current_user_can( 'manage_options' );
}

/**
 * Returns whether the current user may configure the connection to Galley. PHP connects to the configured address.
 */
function may_connect(): bool {
	return current_user_can( is_multisite() ? 'manage_network_options' : 'manage_options' );
}

/**
 * Returns whether the current user may purge the page of this post, or any page if no post is given.
 */
function may_purge( int $post = 0 ): bool {
	return may_manage() || ( $post > 0 && current_user_can( 'edit_post', $post ) );
}

/**
 * Returns whether the current user may see how a page is cached.
 */
function may_look(): bool {
	return current_user_can( 'edit_posts' );
}
