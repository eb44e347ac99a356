<?php
/**
 * What people see of Galley: the admin bar, the settings page, Site Health, notices, the command line.
 *
 * Nothing in here is needed to serve a page or to purge one.
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
 * The translations that come along. A copy from WordPress's directory of translations is preferred.
 */
function load_texts(): void {
	load_plugin_textdomain( 'galley', false, dirname( plugin_basename( dirname( __DIR__ ) . '/galley.php' ) ) . '/languages' );
}

/**
 * Who may see and change everything.
 */
function may_manage(): bool {
	return current_user_can( 'manage_options' );
}

/**
 * Who may say how this WordPress reaches its Galley: an address that PHP then connects to.
 */
function may_connect(): bool {
	return current_user_can( is_multisite() ? 'manage_network_options' : 'manage_options' );
}

/**
 * Who may purge the page of this post; without a post, who may purge any page.
 */
function may_purge( int $post = 0 ): bool {
	return may_manage() || ( $post > 0 && current_user_can( 'edit_post', $post ) );
}

/**
 * Who may see how a page is cached.
 */
function may_look(): bool {
	return current_user_can( 'edit_posts' );
}
