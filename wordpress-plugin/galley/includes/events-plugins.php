<?php
/**
 * Changes that other plugins announce by actions of their own, and that WordPress's actions do not tell of: options pages of Advanced
 * Custom Fields. Shops and languages have files of their own.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** What Advanced Custom Fields saves fields for, beside posts and options pages: `user_1`, and `category_3` for each taxonomy. */
const ACF_OWNERS = array( 'blog', 'comment', 'menu', 'menu_item', 'nav_menu', 'nav_menu_item', 'site', 'term', 'user' );

add_action( 'acf/save_post', __NAMESPACE__ . '\\on_acf_fields', PHP_INT_MAX );

/**
 * Any template may show the fields of an options page.
 *
 * @param int|string $id A post, or what else the fields belong to.
 */
function on_acf_fields( $id ): void {
	if ( is_acf_options_page( $id, get_taxonomies() ) ) {
		queue_purge( 'b' );
	}
}

/**
 * Whether fields belong to an options page, whose id may be any word. Pure.
 *
 * @param int|string $id         `7`, `user_1`, `category_3`, `options`.
 * @param string[]   $taxonomies Their names.
 */
function is_acf_options_page( $id, array $taxonomies ): bool {
	if ( ! is_string( $id ) || '' === $id || is_numeric( $id ) || preg_match( '/^(widget|block)_/', $id ) ) {
		return false;
	}
	$owner = preg_match( '/^(.+)_\d+$/D', $id, $found ) ? $found[1] : '';
	return ! in_array( $owner, ACF_OWNERS, true ) && ! in_array( $owner, $taxonomies, true );
}
