<?php
/**
 * How the stand-in for WooCommerce (shop.php) is changed: its REST interface, the fields of the product's form, its settings page,
 * its tax rates, and the checkout of a visitor.
 */

declare(strict_types=1);

add_action( 'rest_api_init', 'exact_shop_routes' );
add_action( 'save_post_product', 'exact_shop_form' );
add_action( 'admin_menu', 'exact_shop_menu' );
add_action( 'wp_ajax_woocommerce_tax_rates_save_changes', 'exact_shop_rates' );
add_action( 'template_redirect', 'exact_shop_checkout', 0 );

function exact_shop_routes(): void {
	$route = static function ( string $path, callable $answer ): void {
		register_rest_route( 'wc/v3', $path, array( 'methods' => 'POST', 'callback' => $answer, 'permission_callback' => static fn(): bool => current_user_can( 'manage_options' ) ) );
	};
	$route( '/products', static fn( WP_REST_Request $request ) => exact_shop_save( new WC_Product(), $request ) );
	$route( '/products/(?P<id>\d+)', static fn( WP_REST_Request $request ) => exact_shop_save( wc_get_product( $request['id'] ), $request ) );
	$route( '/products/\d+/variations/(?P<id>\d+)', static fn( WP_REST_Request $request ) => exact_shop_save( wc_get_product( $request['id'] ), $request ) );
	$route( '/orders', static fn( WP_REST_Request $request ) => array( 'id' => wc_create_order( (array) $request['items'] ) ) );
	$route( '/orders/(?P<id>\d+)', 'exact_shop_order' );
	$route( '/coupons', 'exact_shop_coupon' );
	$route( '/coupons/(?P<id>\d+)', 'exact_shop_coupon' );
}

function exact_shop_save( WC_Product $product, WP_REST_Request $request ): array {
	foreach ( $request->get_json_params() as $name => $value ) {
		$product->{"set_$name"}( $value );
	}
	return array( 'id' => $product->save() );
}

function exact_shop_order( WP_REST_Request $request ): array {
	$id     = (int) $request['id'];
	$status = (string) $request['status'];
	if ( 'refunded' === $status ) {
		$refund = wp_insert_post( array( 'post_type' => 'shop_order_refund', 'post_status' => 'wc-completed', 'post_parent' => $id, 'post_title' => 'Refund' ) );
		do_action( 'woocommerce_order_refunded', $id, $refund );
	}
	exact_shop_order_status( $id, $status );
	return array( 'id' => $id );
}

function exact_shop_coupon( WP_REST_Request $request ): array {
	$id = (int) $request['id'];
	if ( ! $id ) {
		$id = wp_insert_post( array( 'post_type' => 'shop_coupon', 'post_status' => 'publish', 'post_title' => (string) $request['code'] ) );
		do_action( 'woocommerce_new_coupon', $id, null );
	}
	update_post_meta( $id, 'coupon_amount', (string) $request['amount'] );
	do_action( 'woocommerce_update_coupon', $id, null );
	return array( 'id' => $id );
}

/** The product's form: WordPress has written the post, and WooCommerce writes its fields while that is announced. */
function exact_shop_form( int $id ): void {
	if ( ! isset( $_POST['_regular_price'] ) || doing_action( 'woocommerce_update_product' ) ) {
		return;
	}
	$product = wc_get_product( $id );
	$product->set_regular_price( (string) $_POST['_regular_price'] );
	$product->set_stock_quantity( (string) $_POST['_stock'] );
	$product->save();
}

function exact_shop_menu(): void {
	$page = add_menu_page( 'Shop', 'Shop', 'manage_options', 'wc-settings', '__return_empty_string' );
	add_action( "load-$page", 'exact_shop_settings' );
}

/** A form of its own, not that of options.php. */
function exact_shop_settings(): void {
	if ( 'POST' !== $_SERVER['REQUEST_METHOD'] ) {
		return;
	}
	check_admin_referer( 'woocommerce-settings' );
	foreach ( wp_unslash( $_POST ) as $name => $value ) {
		if ( 0 === strpos( (string) $name, 'woocommerce_' ) ) {
			update_option( $name, $value );
		}
	}
	do_action( 'woocommerce_settings_saved' );
}

/** The table of tax rates. */
function exact_shop_rates(): void {
	global $wpdb;
	check_ajax_referer( 'wc_tax_nonce-class:standard', 'wc_tax_nonce' );
	$rate = array( 'tax_rate' => (string) $_POST['tax_rate'], 'tax_rate_country' => '' );
	$wpdb->update( "{$wpdb->prefix}woocommerce_tax_rates", $rate, array( 'tax_rate_id' => 1 ) );
	do_action( 'woocommerce_tax_rate_updated', 1, $rate );
	wp_send_json_success();
}

/** `?wc-ajax=checkout`: an order that is paid at once. */
function exact_shop_checkout(): void {
	if ( 'checkout' !== ( $_GET['wc-ajax'] ?? '' ) || 'POST' !== $_SERVER['REQUEST_METHOD'] ) {
		return;
	}
	$id = wc_create_order( array( (int) $_POST['product'] => (int) $_POST['quantity'] ) );
	do_action( 'woocommerce_checkout_order_processed', $id, array(), null );
	exact_shop_order_status( $id, 'processing' );
	do_action( 'woocommerce_payment_complete', $id );
	status_header( 200 );
	wp_send_json( array( 'result' => 'success' ) );
}
