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

/** What WooCommerce announces after it has written fields of a product past the functions of WordPress: a number or a product. */
const PRODUCT_ACTIONS = array( 'woocommerce_updated_product_stock', 'woocommerce_updated_product_sales', 'woocommerce_updated_product_price', 'woocommerce_product_set_stock', 'woocommerce_variation_set_stock', 'woocommerce_product_set_stock_status', 'woocommerce_variation_set_stock_status', 'woocommerce_update_product', 'woocommerce_update_product_variation' );

foreach ( PRODUCT_ACTIONS as $galley_action ) {
	add_action( $galley_action, __NAMESPACE__ . '\\on_product' );
}
unset( $galley_action );

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
 * An order changes the stock by a statement of its own: pages that show the product, and lists that read or sort by these fields.
 *
 * @param int|object $product Its number, or what has one.
 */
function on_product( $product ): void {
	$id = is_object( $product ) && is_callable( array( $product, 'get_id' ) ) ? (int) $product->get_id() : (int) ( is_scalar( $product ) ? $product : 0 );
	if ( $id <= 0 || is_shared() ) {
		return;
	}
	$keys = array(
		'woocommerce_updated_product_sales' => array( 'total_sales' ),
		'woocommerce_updated_product_price' => array( '_price' ),
	);
	foreach ( $keys[ (string) current_action() ] ?? array( '_stock', '_stock_status' ) as $key ) {
		on_field( 0, $id, $key );
	}
	queue_purge( "p$id" );
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
