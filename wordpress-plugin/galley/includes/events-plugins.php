<?php
/**
 * Changes that other plugins announce by actions of their own, and that WordPress's actions do not tell of: options pages of Advanced
 * Custom Fields, and translations of Polylang and WPML, whose pages link to each other.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** What Advanced Custom Fields saves fields for, beside posts and options pages: `user_1`, and `category_3` for each taxonomy. */
const ACF_OWNERS = array( 'blog', 'comment', 'menu', 'menu_item', 'nav_menu', 'nav_menu_item', 'site', 'term', 'user' );

add_action( 'acf/save_post', __NAMESPACE__ . '\\on_acf_fields', PHP_INT_MAX );
add_action( 'pll_save_post', __NAMESPACE__ . '\\on_polylang_post', 10, 3 );
add_action( 'wpml_after_save_post', __NAMESPACE__ . '\\on_wpml_post', 10, 2 );

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

/**
 * @param int   $id           Post id.
 * @param mixed $post         The post.
 * @param array $translations Ids by language, this one included.
 */
function on_polylang_post( $id, $post = null, $translations = array() ): void {
	queue_translations( (int) $id, is_array( $translations ) ? $translations : array() );
}

/**
 * @param int $id    Post id.
 * @param int $group The id that translations have in common.
 */
function on_wpml_post( $id, $group = 0 ): void {
	// phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals -- of WPML.
	$translations = apply_filters( 'wpml_get_element_translations', null, (int) $group, 'post_' . get_post_type( (int) $id ) );
	$ids          = array();
	foreach ( is_array( $translations ) ? $translations : array() as $translation ) {
		$ids[] = (int) ( $translation->element_id ?? 0 );
	}
	queue_translations( (int) $id, $ids );
}

/**
 * Each translation of a post links to the others. A draft that visitors have never seen is linked by none.
 *
 * @param int   $id  Of the post that has changed; its own pages are purged without this.
 * @param int[] $ids Of its translations.
 */
function queue_translations( int $id, array $ids ): void {
	if ( 'auto-draft' === get_post_status( $id ) ) {
		return;
	}
	foreach ( array_diff( array_map( 'intval', $ids ), array( $id, 0 ) ) as $other ) {
		queue_purge( "p$other" );
	}
}
