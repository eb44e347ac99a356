<?php
/**
 * The functions of WordPress's object cache. They are the interface that WordPress defines, so they have no namespace.
 *
 * @package Galley
 */

defined( 'ABSPATH' ) || exit;

require_once __DIR__ . '/codec.php';
require_once __DIR__ . '/class-fence.php';
require_once __DIR__ . '/class-object-store.php';
require_once __DIR__ . '/class-request-class.php';
require_once __DIR__ . '/class-local-cache.php';
require_once __DIR__ . '/class-reading-cache.php';
require_once __DIR__ . '/class-shared-cache.php';
require_once __DIR__ . '/class-object-cache.php';

function wp_cache_init() { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	// The plugin sees changes, and reads only where they matter to a page.
	$GLOBALS['galley_read_cache'] = new Galley\Object_Cache();
	$GLOBALS['wp_object_cache']   = $GLOBALS['galley_read_cache']; // phpcs:ignore WordPress.WP.GlobalVariablesOverride.Prohibited -- as WordPress.
}

function wp_cache_close() { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	$GLOBALS['wp_object_cache']->finish();
	return true;
}

function wp_cache_add( $key, $data, $group = '', $expire = 0 ) { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	return $GLOBALS['wp_object_cache']->add( $key, $data, $group, (int) $expire );
}

function wp_cache_add_multiple( array $data, $group = '', $expire = 0 ) { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	return $GLOBALS['wp_object_cache']->add_multiple( $data, $group, (int) $expire );
}

function wp_cache_replace( $key, $data, $group = '', $expire = 0 ) { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	return $GLOBALS['wp_object_cache']->replace( $key, $data, $group, (int) $expire );
}

function wp_cache_set( $key, $data, $group = '', $expire = 0 ) { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	return $GLOBALS['wp_object_cache']->set( $key, $data, $group, (int) $expire );
}

function wp_cache_set_multiple( array $data, $group = '', $expire = 0 ) { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	return $GLOBALS['wp_object_cache']->set_multiple( $data, $group, (int) $expire );
}

function wp_cache_get( $key, $group = '', $force = false, &$found = null ) { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	return $GLOBALS['galley_read_cache']->get( $key, $group, $force, $found );
}

function wp_cache_get_multiple( $keys, $group = '', $force = false ) { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	return $GLOBALS['galley_read_cache']->get_multiple( $keys, $group, $force );
}

function wp_cache_delete( $key, $group = '' ) { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	return $GLOBALS['wp_object_cache']->delete( $key, $group );
}

function wp_cache_delete_multiple( array $keys, $group = '' ) { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	return $GLOBALS['wp_object_cache']->delete_multiple( $keys, $group );
}

function wp_cache_incr( $key, $offset = 1, $group = '' ) { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	return $GLOBALS['wp_object_cache']->incr( $key, $offset, $group );
}

function wp_cache_decr( $key, $offset = 1, $group = '' ) { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	return $GLOBALS['wp_object_cache']->decr( $key, $offset, $group );
}

function wp_cache_flush() { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	return $GLOBALS['wp_object_cache']->flush();
}

function wp_cache_flush_runtime() { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	return $GLOBALS['wp_object_cache']->flush_runtime();
}

function wp_cache_flush_group( $group ) { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	return $GLOBALS['wp_object_cache']->flush_group( $group );
}

function wp_cache_supports( $feature ) { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	return in_array( $feature, array( 'add_multiple', 'set_multiple', 'get_multiple', 'delete_multiple', 'flush_runtime', 'flush_group' ), true );
}

function wp_cache_add_global_groups( $groups ) { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	$GLOBALS['wp_object_cache']->add_global_groups( $groups );
}

function wp_cache_add_non_persistent_groups( $groups ) { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	$GLOBALS['wp_object_cache']->add_non_persistent_groups( $groups );
}

function wp_cache_switch_to_blog( $blog_id ) { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	$GLOBALS['wp_object_cache']->switch_to_blog( $blog_id );
}

function wp_cache_reset() { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals, Squiz.Commenting.FunctionComment -- WordPress defines it.
	_deprecated_function( __FUNCTION__, '3.5.0', 'wp_cache_switch_to_blog()' );
	$GLOBALS['wp_object_cache']->flush_runtime();
}
