<?php
/**
 * Plugin Name: Galley Object Cache
 * Description: Keeps what WordPress reads from the database in the memory of Galley. The plugin Galley installs and removes this file.
 *
 * Without the plugin's files WordPress works as without this one.
 *
 * @package Galley
 */

defined( 'ABSPATH' ) || exit;

if ( is_readable( ( defined( 'WP_PLUGIN_DIR' ) ? WP_PLUGIN_DIR : WP_CONTENT_DIR . '/plugins' ) . '/galley/object-cache/functions.php' ) ) {
	require_once( defined( 'WP_PLUGIN_DIR' ) ? WP_PLUGIN_DIR : WP_CONTENT_DIR . '/plugins' ) . '/galley/object-cache/functions.php';
}
