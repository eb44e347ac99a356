<?php
/**
 * Decides whether Galley may store the response of a REST route.
 *
 * WordPress's own routes show posts, terms, comments and users, which have tags. Nobody knows what a route of another plugin returns: a
 * token, a counter, a number of seats. Such a response is not stored unless the plugin sends a lifetime or adds tags with `galley_tag()`.
 *
 * The code of the route counts, not its name: plugins register routes in the namespace of WordPress, and let WordPress's classes answer for
 * their own post types in other namespaces.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Whether code of another plugin answers the REST request, or a part of it. */
$GLOBALS['galley_foreign_route'] = false;

if ( is_shared() ) {
	add_filter( 'rest_pre_dispatch', __NAMESPACE__ . '\\note_early_answer', PHP_INT_MAX );
	add_filter( 'rest_request_before_callbacks', __NAMESPACE__ . '\\note_route', PHP_INT_MAX, 2 );
}

/**
 * Records an answer that another plugin gives before WordPress looks for the route.
 */
function note_early_answer( $answer ) {
	$GLOBALS['galley_foreign_route'] = $GLOBALS['galley_foreign_route'] || null !== $answer;
	return $answer;
}

function note_route( $response, $handler = null ) {
	$GLOBALS['galley_foreign_route'] = $GLOBALS['galley_foreign_route'] || ! is_core_callback( $handler['callback'] ?? null );
	return $response;
}

/**
 * Returns whether the callback of a route is code of WordPress.
 *
 * @param mixed $callback Callback of the route.
 */
function is_core_callback( $callback ): bool {
	try {
		if ( is_array( $callback ) && 2 === count( $callback ) ) {
			$file = ( new \ReflectionMethod( $callback[0], $callback[1] ) )->getFileName();
			$own  = is_object( $callback[0] ) ? ( new \ReflectionClass( $callback[0] ) )->getFileName() : $file;
		} else {
			$file = is_string( $callback ) || $callback instanceof \Closure ? ( new \ReflectionFunction( $callback ) )->getFileName() : false;
			$own  = $file;
		}
	} catch ( \ReflectionException $unknown ) {
		return false;
	}
	return is_core_file( $file ) && is_core_file( $own );
}

/**
 * @param string|false $file Path of a PHP file.
 */
function is_core_file( $file ): bool {
	// PHP reports paths without symbolic links.
	$root = realpath( ABSPATH . WPINC );
	return is_string( $file ) && is_string( $root ) && 0 === strncmp( $file, $root . DIRECTORY_SEPARATOR, strlen( $root ) + 1 );
}

/**
 * Returns `rest-route` if the response belongs to a route of another plugin that gives no lifetime and no tags, else null.
 *
 * @param bool $has_lifetime Whether the response has a lifetime from other code.
 */
function forbidden_route( bool $has_lifetime ): ?string {
	$is_rest = defined( 'REST_REQUEST' ) && REST_REQUEST;
	return $is_rest && $GLOBALS['galley_foreign_route'] && ! $has_lifetime && empty( $GLOBALS['galley_is_tagged'] ) ? 'rest-route' : null;
}
