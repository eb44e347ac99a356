<?php
/**
 * Changes of a shop (WooCommerce) that WordPress's actions do not tell of: it writes the stock of an order, the time of a change and tax
 * rates by statements of its own.
 *
 * What depends on the number in stock and on sales has the tag `ps`, apart from other fields of a product: an order changes these two,
 * and lists that show the product without them stay.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** What WooCommerce announces after it has written a field past the functions of WordPress, with that field. */
const PRODUCT_ACTIONS = array(
	'woocommerce_updated_product_stock'      => '_stock',
	'woocommerce_product_set_stock'          => '_stock',
	'woocommerce_variation_set_stock'        => '_stock',
	'woocommerce_product_set_stock_status'   => '_stock_status',
	'woocommerce_variation_set_stock_status' => '_stock_status',
	'woocommerce_updated_product_sales'      => 'total_sales',
	'woocommerce_updated_product_price'      => '_price',
);

/** What else of a variation only the page of its product shows. */
const STOCK_FIELDS = array( '_stock_status', '_manage_stock', '_backorders', '_low_stock_amount' );

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
 * The number of a product that an action hands over as a number or as the product. Pure.
 *
 * @param mixed $product Either.
 */
function product_id( $product ): int {
	if ( is_object( $product ) ) {
		return is_callable( array( $product, 'get_id' ) ) ? max( 0, (int) $product->get_id() ) : 0;
	}
	return max( 0, (int) ( is_scalar( $product ) ? $product : 0 ) );
}

/**
 * WooCommerce makes sure that a product has the number of its sales before it counts them up in the database: the last moment in which what
 * they were can be asked for.
 *
 * @param mixed  $check Passed on.
 * @param int    $id    The post.
 * @param string $key   Of the field.
 */
function before_unique_field( $check, $id = 0, $key = '', $value = '', $is_unique = false ) {
	if ( $is_unique && SALES === $key && null === noted_field( (int) $id, $key ) ) {
		on_field( 0, $id, $key, get_post_meta( (int) $id, $key ) );
	}
	return $check;
}

/**
 * @param int|object $product Its number, or what has one.
 */
function on_product_field( $product ): void {
	$id    = product_id( $product );
	$field = PRODUCT_ACTIONS[ (string) current_action() ] ?? '';
	if ( $id > 0 && '' !== $field ) {
		on_field( 0, $id, $field, noted_field( $id, $field ) ?? true );
	}
}

/**
 * A product was saved. Its fields and terms are known by WordPress's actions; when it was changed is not.
 *
 * @param int|object $product Its number, or what has one.
 */
function on_product( $product ): void {
	$id = product_id( $product );
	if ( $id > 0 && ! is_shared() ) {
		queue_purge( array( "p$id", 'o.' . word( (string) get_post_type( $id ) ) . '.modified' ) );
	}
}

/**
 * Rates are in a table. Code that shows a price first reads the option that says whether there are taxes.
 */
function on_tax_rate(): void {
	if ( 'yes' === get_option( 'woocommerce_calc_taxes' ) ) {
		queue_purge( 'op.woocommerce_calc_taxes' );
	}
}

/**
 * The tags of lists by sales in which a product has another place, or is no longer or not yet, as far down as it stands.
 *
 * @param array|null $old    Its state before.
 * @param array|null $new    Its state after.
 * @param array      $fields That have changed, with their values before, as `on_field` notes them.
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
 * @return int[]
 */
function visibility_terms( ?array $state ): array {
	$terms = $state['terms']['product_visibility'] ?? array();
	sort( $terms );
	return $terms;
}

/**
 * Whether another product has sales from one number to another: 0 or 1.
 *
 * @param array $numbers The two, in any order.
 */
function passed_sql( int $except, array $numbers ): string {
	global $wpdb;
	// phpcs:ignore WordPress.DB -- the rest is ours.
	return $wpdb->prepare( "SELECT COUNT(*) FROM (SELECT 1 FROM $wpdb->postmeta m JOIN $wpdb->posts p ON p.ID = m.post_id WHERE m.meta_key = %s AND p.ID <> %d AND p.post_type = 'product' AND p.post_status = 'publish' AND m.meta_value + 0 BETWEEN %f AND %f LIMIT 1) passed", SALES, $except, (float) min( $numbers ), (float) max( $numbers ) );
}

/**
 * How many products are sold more often. Such as some catalogue leaves out do not count.
 */
function sales_rank_sql( int $except, float $sales ): string {
	global $wpdb;
	$hidden = "SELECT 1 FROM $wpdb->term_relationships r JOIN $wpdb->term_taxonomy x ON x.term_taxonomy_id = r.term_taxonomy_id WHERE r.object_id = p.ID AND x.taxonomy = 'product_visibility'";
	// phpcs:ignore WordPress.DB -- the rest is ours.
	return $wpdb->prepare( "SELECT COUNT(*) FROM (SELECT 1 FROM $wpdb->postmeta m JOIN $wpdb->posts p ON p.ID = m.post_id WHERE m.meta_key = %s AND p.ID <> %d AND p.post_type = 'product' AND p.post_status = 'publish' AND m.meta_value + 0 > %f AND NOT EXISTS ($hidden) LIMIT %d) counted", SALES, $except, $sales, DEEPEST + 1 );
}

/**
 * Lists of all products on sale gain one that appears.
 */
function queue_sale( int $id ): void {
	$product = function_exists( 'wc_get_product' ) ? wc_get_product( $id ) : null;
	if ( is_object( $product ) && is_callable( array( $product, 'is_on_sale' ) ) && $product->is_on_sale() ) {
		queue_purge( 'o.product.m__sale_price' );
	}
}

/**
 * What of a field's values pages show: a product with variations has the prices of all, and shows the lowest and the highest. Pure.
 *
 * @param array $values Of one field.
 */
function shown_values( string $key, array $values ): array {
	if ( '_price' !== $key || count( $values ) < 2 || array_filter( $values, 'is_numeric' ) !== $values ) {
		return $values;
	}
	$prices = array_map( 'floatval', $values );
	return array( min( $prices ), max( $prices ) );
}

/**
 * A variation is shown by its product.
 *
 * @param string[]   $fields That have changed.
 * @param array|null $old    Its state before.
 * @param array|null $new    Its state after.
 */
function queue_variation( int $id, array $fields, ?array $old, ?array $new ): void {
	$parent  = $new['parent'] ?? $old['parent'] ?? (int) wp_get_post_parent_id( $id );
	$time    = array( 'modified' => true );
	$is_same = $old && $new && array_diff_key( $old, $time ) === array_diff_key( $new, $time );
	queue_purge( variation_tags( $parent, $fields, $is_same, 'yes' === get_option( 'woocommerce_hide_out_of_stock_items' ) ) );
}

/**
 * What a change of a variation touches of its product, beside what WooCommerce writes to the product then: lowest and highest price, status.
 * The number in stock has a tag of its own. Lists keep other things of the variation without reading it again, such as whether it is on sale. Pure.
 *
 * @param string[] $fields   That have changed.
 * @param bool     $is_same  Whether the rest of it is what it was.
 * @param bool     $is_short Whether catalogues leave out variations that are sold out.
 * @return string[]
 */
function variation_tags( int $parent, array $fields, bool $is_same, bool $is_short ): array {
	$fields = array_diff( $fields, SHOP_NUMBERS );
	if ( $is_same && ! $fields ) {
		return array();
	}
	$own = in_array( '_price', $fields, true ) ? array( '_price', '_regular_price' ) : array();
	$own = $is_short ? $own : array_merge( $own, STOCK_FIELDS );
	return $is_same && ! array_diff( $fields, $own ) ? array( "p$parent" ) : array( "p$parent", "pm$parent" );
}
