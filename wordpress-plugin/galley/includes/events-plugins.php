<?php
/**
 * Detects changes that other plugins announce with custom actions and that WordPress actions do not report: options pages of Advanced Custom
 * Fields. Separate files handle shops and languages.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/**
 * Prefixes of the IDs of objects for which Advanced Custom Fields saves fields, other than posts and options pages: `user_1`. Each taxonomy
 * is also such a prefix: `category_3`.
 */
const ACF_OWNERS = array( 'blog', 'comment', 'menu', 'menu_item', 'nav_menu', 'nav_menu_item', 'site', 'term', 'user' );

add_action( 'acf/save_post', __NAMESPACE__ . '\\on_acf_fields', PHP_INT_MAX );

/**
 * Purges all pages when a user saves an options page, because any template may show its fields.
 *
 * @param int|string $id ID of the post or other object to which the fields belong.
 */
function on_acf_fields( $id ): void {
	if ( is_acf_options_page( $id, get_taxonomies() ) ) {
		queue_purge( 'b' );
	}
}

/**
 * Checks whether fields belong to an options page. The ID of an options page can be any string. Pure.
 *
 * @param int|string $id         For example `7`, `user_1`, `category_3`, `options`.
 * @param string[]   $taxonomies Names of the taxonomies.
 */
function is_acf_options_page( $id, array $taxonomies ): bool {
	if ( ! is_string( $id ) || '' === $id || is_numeric( $id ) || preg_match( '/^(widget|block)_/', $id ) ) {
		return false;
	}
	$owner = preg_match( '/^(.+)_\d+$/D', $id, $found ) ? $found[1] : '';
	return ! in_array( $owner, ACF_OWNERS, true ) && ! in_array( $owner, $taxonomies, true );
}
