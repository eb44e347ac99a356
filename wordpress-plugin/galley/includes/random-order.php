<?php
/**
 * Products that a shop shows in random order: related products and up-sells of WooCommerce.
 *
 * Members get the stored page only if their page is equal to it, and a random order differs in each page. So the plugin orders these products
 * by a hash, as randomly, but the same way for everyone.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

if ( marks_private() ) {
	add_filter( 'woocommerce_related_products', __NAMESPACE__ . '\\order_related_products', PHP_INT_MAX, 2 );
	add_filter( 'woocommerce_product_related_posts_shuffle', __NAMESPACE__ . '\\take_over_shuffle', PHP_INT_MAX );
	add_filter( 'woocommerce_output_related_products_args', __NAMESPACE__ . '\\keep_product_order', PHP_INT_MAX );
	add_filter( 'woocommerce_upsell_display_args', __NAMESPACE__ . '\\keep_product_order', PHP_INT_MAX );
}

/**
 * Orders the IDs of related products by chance, if WooCommerce would shuffle them.
 */
function order_related_products( $ids, $product = 0 ) {
	if ( ! is_array( $ids ) || ! may_shuffle() ) {
		return $ids;
	}
	return by_chance( $ids, (string) $product );
}

/**
 * Returns whether the theme and other plugins let WooCommerce shuffle related products.
 */
function may_shuffle(): bool {
	$GLOBALS['galley_asks_shuffle'] = true;
	$may                            = (bool) apply_filters( 'woocommerce_product_related_posts_shuffle', true ); // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals -- WooCommerce's own filter.
	unset( $GLOBALS['galley_asks_shuffle'] );
	return $may;
}

function take_over_shuffle( $may ) {
	return isset( $GLOBALS['galley_asks_shuffle'] ) ? $may : false;
}

/**
 * Orders IDs by a hash. Pure.
 *
 * @param array  $ids  IDs.
 * @param string $seed Another seed gives another order.
 */
function by_chance( array $ids, string $seed ): array {
	$hashes = array();
	foreach ( $ids as $id ) {
		$hashes[] = md5( "$seed-$id" );
	}
	array_multisort( $hashes, $ids );
	return $ids;
}

function keep_product_order( $args ) {
	if ( is_array( $args ) && 'rand' === ( $args['orderby'] ?? 'rand' ) ) {
		$args['orderby'] = 'none';
	}
	return $args;
}
