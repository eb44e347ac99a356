<?php
/**
 * Detects changes of a shop (WooCommerce) that WordPress actions do not report. WooCommerce uses direct SQL statements to write the stock of an
 * order, modification times and tax rates.
 *
 * Pages that depend on the stock quantity or the sales of a product have the tag `ps`, which is separate from the tag of other product
 * fields. An order changes only these two fields, so lists that show the product without them remain valid.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Actions that WooCommerce runs after it has written a field without the functions of WordPress, and that field. */
const PRODUCT_ACTIONS = array(
	'woocommerce_updated_product_stock'      => '_stock',
	'woocommerce_product_set_stock'          => '_stock',
	'woocommerce_variation_set_stock'        => '_stock',
	'woocommerce_product_set_stock_status'   => '_stock_status',
	'woocommerce_variation_set_stock_status' => '_stock_status',
	'woocommerce_updated_product_sales'      => 'total_sales',
	'woocommerce_updated_product_price'      => '_price',
);

/** Other fields of a variation that only the page of its product shows. */
const STOCK_FIELDS = array( '_stock_status', '_manage_stock', '_backorders', '_low_stock_amount' );

/** The summary of its attributes, which WooCommerce writes with the first edit of a variation, as keys of the state. */
const VARIATION_TEXTS = array(
	'excerpt' => true,
	'summary' => true,
);

foreach ( array_keys( PRODUCT_ACTIONS ) as $galley_action ) {
	add_action( $galley_action, __NAMESPACE__ . '\\on_product_field' );
}
foreach ( array( 'woocommerce_tax_rate_added', 'woocommerce_tax_rate_updated', 'woocommerce_tax_rate_deleted' ) as $galley_action ) {
	add_action( $galley_action, __NAMESPACE__ . '\\on_tax_rate' );
}
unset( $galley_action );
add_filter( 'add_post_metadata', __NAMESPACE__ . '\\before_unique_field', PHP_INT_MAX, 5 );
add_action( 'woocommerce_update_product', __NAMESPACE__ . '\\on_product' );
add_action( 'woocommerce_update_product_variation', __NAMESPACE__ . '\\on_product' );

/**
 * Returns the ID of a product that an action passes as an ID or as an object. Pure.
 *
 * @param mixed $product Product ID or object.
 */
function product_id( $product ): int {
	if ( is_object( $product ) ) {
		return is_callable( array( $product, 'get_id' ) ) ? max( 0, (int) $product->get_id() ) : 0;
	}
	return max( 0, (int) ( is_scalar( $product ) ? $product : 0 ) );
}

/**
 * Records the sales of a product before WooCommerce increases them in the database.
 *
 * WooCommerce first adds the field if the product does not have it. This is the last opportunity to read the old number.
 *
 * @param mixed  $check Returned without changes.
 * @param int    $id    Post ID.
 * @param string $key   Meta key.
 */
function before_unique_field( $check, $id = 0, $key = '', $value = '', $is_unique = false ) {
	if ( $is_unique && SALES === $key && null === noted_field( (int) $id, $key ) ) {
		on_field( 0, $id, $key, get_post_meta( (int) $id, $key ) );
	}
	return $check;
}

/**
 * Records a field that WooCommerce has written.
 *
 * @param int|object $product Product ID or object.
 */
function on_product_field( $product ): void {
	$id    = product_id( $product );
	$field = PRODUCT_ACTIONS[ (string) current_action() ] ?? '';
	if ( $id > 0 && '' !== $field ) {
		on_field( 0, $id, $field, noted_field( $id, $field ) ?? true );
	}
}

/**
 * Handles a saved product. WordPress actions report changes of its fields and terms, but not of its modification time.
 *
 * @param int|object $product Product ID or object.
 */
function on_product( $product ): void {
	$id = product_id( $product );
	if ( $id > 0 && ! is_shared() ) {
		queue_purge( array( "p$id", 'o.' . word( (string) get_post_type( $id ) ) . '.modified' ) );
	}
}

/**
 * Handles changed tax rates, which are stored in a table. Code that shows a price first reads the option that enables taxes.
 */
function on_tax_rate(): void {
	if ( 'yes' === get_option( 'woocommerce_calc_taxes' ) ) {
		queue_purge( 'op.woocommerce_calc_taxes' );
	}
}

/**
 * Returns the tags of lists by sales in which the position of a product changes, or which it enters or leaves, down to its rank.
 *
 * @param array|null $old    State before the change.
 * @param array|null $new    State after the change.
 * @param array      $fields Old values of the changed fields, as recorded by `on_field()`.
 * @return string[]
 */
function sales_tags( int $id, ?array $old, ?array $new, array $fields ): array {
	$is_sold  = array_key_exists( SALES, $fields );
	$hidden   = array_map( __NAMESPACE__ . '\\visibility_terms', array( $old, $new ) );
	$is_moved = ! empty( $old['visible'] ) !== ! empty( $new['visible'] ) || $hidden[0] !== $hidden[1];
	if ( ! $is_sold && ! $is_moved ) {
		return array();
	}
	$now     = get_post_meta( $id, SALES );
	$before  = empty( $old['visible'] ) ? null : ( $is_sold ? $fields[ SALES ] : $now );
	$numbers = array();
	foreach ( array( $before, empty( $new['visible'] ) ? null : $now ) as $values ) {
		if ( null !== $values && ( ! is_array( $values ) || 1 !== count( $values ) || ! is_numeric( $values[0] ) ) ) {
			return array( 'os.product', 'os.product.r0', 'oo.product.m_' . SALES );
		}
		$numbers = array_merge( $numbers, $values ?? array() );
	}
	$found = ask_each(
		array(
			'passed' => passed_sql( $id, $numbers ),
			'rank'   => sales_rank_sql( $id, (float) max( $numbers ) ),
		)
	);
	$order = $is_sold && $found['passed'] ? array( 'oo.product.m_' . SALES ) : array();
	return $order || $is_moved ? array_merge( $order, rank_tags( 'os.product', $found['rank'] ) ) : array();
}

/**
 * Returns the visibility terms in a state, sorted.
 *
 * @return int[]
 */
function visibility_terms( ?array $state ): array {
	$terms = $state['terms']['product_visibility'] ?? array();
	sort( $terms );
	return $terms;
}

/**
 * Returns a query that checks whether the sales of another product are between two numbers. Its result is 0 or 1.
 *
 * @param array $numbers The two numbers, in any order.
 */
function passed_sql( int $except, array $numbers ): string {
	global $wpdb;
	// phpcs:ignore WordPress.DB -- the rest is ours.
	return $wpdb->prepare( "SELECT COUNT(*) FROM (SELECT 1 FROM $wpdb->postmeta m JOIN $wpdb->posts p ON p.ID = m.post_id WHERE m.meta_key = %s AND p.ID <> %d AND p.post_type = 'product' AND p.post_status = 'publish' AND m.meta_value + 0 BETWEEN %f AND %f LIMIT 1) passed", SALES, $except, (float) min( $numbers ), (float) max( $numbers ) );
}

/**
 * Returns a query that counts the products with more sales. Products that some catalog leaves out do not count.
 */
function sales_rank_sql( int $except, float $sales ): string {
	global $wpdb;
	$hidden = "SELECT 1 FROM $wpdb->term_relationships r JOIN $wpdb->term_taxonomy x ON x.term_taxonomy_id = r.term_taxonomy_id WHERE r.object_id = p.ID AND x.taxonomy = 'product_visibility'";
	// phpcs:ignore WordPress.DB -- the rest is ours.
	return $wpdb->prepare( "SELECT COUNT(*) FROM (SELECT 1 FROM $wpdb->postmeta m JOIN $wpdb->posts p ON p.ID = m.post_id WHERE m.meta_key = %s AND p.ID <> %d AND p.post_type = 'product' AND p.post_status = 'publish' AND m.meta_value + 0 > %f AND NOT EXISTS ($hidden) LIMIT %d) counted", SALES, $except, $sales, DEEPEST + 1 );
}

/**
 * Deletes the numbers of products by attribute that WooCommerce keeps for a day, also while the product is in the trash: members and visitors would see
 * different numbers.
 */
function forget_attribute_counts( ?array $old, ?array $new ): void {
	foreach ( preg_grep( '/^pa_/', array_keys( ( $old['terms'] ?? array() ) + ( $new['terms'] ?? array() ) ) ) as $taxonomy ) {
		delete_transient( "wc_layered_nav_counts_$taxonomy" );
	}
}

/**
 * Queues purges for lists of all products on sale if a product that appears is on sale.
 */
function queue_sale( int $id ): void {
	$product = function_exists( 'wc_get_product' ) ? wc_get_product( $id ) : null;
	if ( is_object( $product ) && is_callable( array( $product, 'is_on_sale' ) ) && $product->is_on_sale() ) {
		queue_purge( 'o.product.m__sale_price' );
	}
}

/**
 * Returns the values of a field that pages show. A product with variations has the prices of all variations, but pages show only the lowest and
 * the highest price. Pure.
 *
 * @param array $values Values of one field.
 */
function shown_values( string $key, array $values ): array {
	if ( '_price' !== $key || count( $values ) < 2 || array_filter( $values, 'is_numeric' ) !== $values ) {
		return $values;
	}
	$prices = array_map( 'floatval', $values );
	return array( min( $prices ), max( $prices ) );
}

/**
 * Queues purges for a changed variation. Pages of its product show it.
 *
 * @param string[]   $fields Keys of the changed fields.
 * @param array|null $old    State before the change.
 * @param array|null $new    State after the change.
 */
function queue_variation( int $id, array $fields, ?array $old, ?array $new ): void {
	$parent  = $new['parent'] ?? $old['parent'] ?? (int) wp_get_post_parent_id( $id );
	$is_same = $old && $new && without_stock( $old ) === without_stock( $new );
	$is_like = $is_same || ( $old && $new && array_diff_key( without_stock( $old ), VARIATION_TEXTS ) === array_diff_key( without_stock( $new ), VARIATION_TEXTS ) );
	if ( visibility_terms( $old ) !== visibility_terms( $new ) ) {
		$fields[] = '_stock_status';
	}
	queue_purge( variation_tags( $parent, $fields, $is_same, $is_like, 'yes' === get_option( 'woocommerce_hide_out_of_stock_items' ) ) );
}

/**
 * Returns the state of a variation without its time, and without the terms that repeat its stock status. Pure.
 */
function without_stock( array $state ): array {
	unset( $state['modified'], $state['terms']['product_visibility'] );
	return $state;
}

/**
 * Returns the tags of a product that a change of one of its variations affects. Pure.
 *
 * WooCommerce also writes some data to the product, which is handled separately: the lowest and the highest price, and the status. The stock
 * quantity has a separate tag. Lists store other data of a variation, such as whether it is on sale, and do not read the variation again.
 *
 * @param string[] $fields   Keys of the changed fields.
 * @param bool     $is_same  Whether the rest of the variation is unchanged.
 * @param bool     $is_like  Whether it is, except for texts that no list shows.
 * @param bool     $is_short Whether catalogs leave out variations that are out of stock.
 * @return string[]
 */
function variation_tags( int $parent, array $fields, bool $is_same, bool $is_like, bool $is_short ): array {
	// The picture is a part of the state: WooCommerce writes 0 for none.
	$fields = array_diff( $fields, SHOP_NUMBERS, array( '_thumbnail_id' ) );
	if ( $is_same && ! $fields ) {
		return array();
	}
	$own = in_array( '_price', $fields, true ) ? array( '_price', '_regular_price' ) : array();
	$own = $is_short ? $own : array_merge( $own, STOCK_FIELDS );
	return $is_like && ! array_diff( $fields, $own ) ? array( "p$parent" ) : array( "p$parent", "pm$parent" );
}
