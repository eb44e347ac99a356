<?php
/**
 * A must-use plugin of the exactness run that stands in for WooCommerce: products, stock, orders and coupons as its
 * documentation describes them. It is no copy: it has what pages show and what an edit writes, by the same functions of WordPress
 * or by the same direct statements, and it announces the same actions. It knows nothing of a cache. Pages are in shop-pages.php,
 * the doors through which a shop is changed in shop-doors.php.
 */

declare(strict_types=1);

add_action( 'init', 'exact_shop_types', 5 );
add_action( 'woocommerce_scheduled_sales', 'wc_scheduled_sales' );
add_action( 'shutdown', 'wc_deferred_product_sync', 10 );
add_action( 'comment_post', 'exact_shop_review', 10, 2 );
add_action( 'wp_update_comment_count', 'exact_shop_count_reviews' );

function exact_shop_types(): void {
	$hidden = array( 'public' => false, 'rewrite' => false, 'query_var' => false );
	register_taxonomy( 'product_type', array( 'product' ), $hidden );
	register_taxonomy( 'product_visibility', array( 'product', 'product_variation' ), $hidden );
	foreach ( array( 'product_cat' => 'product-category', 'product_tag' => 'product-tag', 'pa_colour' => 'colour' ) as $taxonomy => $base ) {
		register_taxonomy( $taxonomy, array( 'product' ), array( 'label' => $base, 'hierarchical' => 'product_cat' === $taxonomy, 'show_in_rest' => true, 'rewrite' => array( 'slug' => $base ) ) );
	}
	register_post_type( 'product', array( 'label' => 'Products', 'public' => true, 'has_archive' => 'shop', 'rewrite' => array( 'slug' => 'product' ), 'show_in_rest' => true, 'supports' => array( 'title', 'editor', 'excerpt', 'thumbnail', 'comments', 'custom-fields' ) ) );
	register_post_type( 'product_variation', array( 'public' => false ) );
	foreach ( array( 'shop_order', 'shop_order_refund', 'shop_coupon' ) as $type ) {
		register_post_type( $type, array( 'public' => false, 'show_ui' => true, 'supports' => array( 'title', 'comments', 'custom-fields' ) ) );
	}
	foreach ( array( 'pending', 'processing', 'completed', 'cancelled', 'refunded' ) as $status ) {
		register_post_status( "wc-$status", array( 'label' => $status, 'public' => false, 'exclude_from_search' => false ) );
	}
}

/** A product or a variation of one. `get_…()` passes through a filter as WooCommerce's getters do, `get_…( 'edit' )` does not. */
class WC_Product {
	/** Properties that are fields of the post. */
	const FIELDS = array(
		'regular_price'     => '_regular_price',
		'sale_price'        => '_sale_price',
		'price'             => '_price',
		'date_on_sale_from' => '_sale_price_dates_from',
		'date_on_sale_to'   => '_sale_price_dates_to',
		'total_sales'       => 'total_sales',
		'manage_stock'      => '_manage_stock',
		'stock_quantity'    => '_stock',
		'stock_status'      => '_stock_status',
		'image_id'          => '_thumbnail_id',
		'average_rating'    => '_wc_average_rating',
		'review_count'      => '_wc_review_count',
	);
	/** Properties that are columns of the post. */
	const COLUMNS = array( 'name' => 'post_title', 'description' => 'post_content', 'short_description' => 'post_excerpt', 'status' => 'post_status', 'menu_order' => 'menu_order', 'slug' => 'post_name', 'parent_id' => 'post_parent' );

	public array $data    = array( 'stock_status' => 'instock', 'status' => 'publish', 'manage_stock' => 'no', 'total_sales' => 0, 'visibility' => array() );
	public array $changes = array();
	public string $kind   = 'simple';
	private int $id;

	public function __construct( int $id = 0 ) {
		$this->id = $id;
		if ( $id ) {
			( new WC_Product_Data_Store_CPT() )->read( $this );
		}
	}

	public function get_id(): int {
		return $this->id;
	}

	public function set_id( int $id ): void {
		$this->id = $id;
	}

	public function __call( string $name, array $arguments ) {
		$property = substr( $name, 4 );
		if ( 0 === strpos( $name, 'set_' ) ) {
			$this->changes[ $property ] = $arguments[0];
			return null;
		}
		$value = $this->changes[ $property ] ?? $this->data[ $property ] ?? '';
		$type  = 'variation' === $this->kind ? 'product_variation' : 'product';
		return 'edit' === ( $arguments[0] ?? 'view' ) ? $value : apply_filters( "woocommerce_{$type}_get_$property", $value, $this );
	}

	public function is_in_stock(): bool {
		return (bool) apply_filters( 'woocommerce_product_is_in_stock', 'outofstock' !== $this->get_stock_status(), $this );
	}

	public function managing_stock(): bool {
		return 'yes' === $this->get_manage_stock();
	}

	public function is_on_sale( string $context = 'view' ): bool {
		$sale = (string) $this->get_sale_price( $context );
		$from = (int) $this->get_date_on_sale_from( $context );
		$to   = (int) $this->get_date_on_sale_to( $context );
		return '' !== $sale && (float) $sale < (float) $this->get_regular_price( $context ) && ( ! $from || $from <= time() ) && ( ! $to || $to > time() );
	}

	public function is_featured(): bool {
		return in_array( 'featured', $this->get_visibility(), true );
	}

	/** Numbers of the variations, in their order. */
	public function get_children(): array {
		return array_map( 'intval', get_posts( array( 'post_type' => 'product_variation', 'post_parent' => $this->id, 'post_status' => 'publish', 'fields' => 'ids', 'numberposts' => -1, 'orderby' => 'menu_order ID', 'order' => 'ASC' ) ) );
	}

	public function save(): int {
		if ( 'yes' === $this->get_manage_stock( 'edit' ) ) {
			$status = (float) $this->get_stock_quantity( 'edit' ) > 0 ? 'instock' : 'outofstock';
			if ( $status !== $this->get_stock_status( 'edit' ) ) {
				$this->set_stock_status( $status );
			}
		}
		$store = new WC_Product_Data_Store_CPT();
		$this->id ? $store->update( $this ) : $store->create( $this );
		if ( 'variation' === $this->kind ) {
			wc_deferred_product_sync( (int) $this->get_parent_id( 'edit' ) );
		}
		return $this->id;
	}
}

/** Reads and writes products as posts with fields and terms. */
class WC_Product_Data_Store_CPT {
	public function read( WC_Product $product ): void {
		$id   = $product->get_id();
		$post = get_post( $id );
		foreach ( WC_Product::COLUMNS as $property => $column ) {
			$product->data[ $property ] = $post->$column;
		}
		$fields = get_post_meta( $id );
		foreach ( WC_Product::FIELDS as $property => $key ) {
			$product->data[ $property ] = $fields[ $key ][0] ?? '';
		}
		if ( 'product_variation' === $post->post_type ) {
			$product->kind = 'variation';
			return;
		}
		$types                       = get_the_terms( $id, 'product_type' );
		$visibility                  = get_the_terms( $id, 'product_visibility' );
		$product->kind               = is_array( $types ) && $types ? $types[0]->name : 'simple';
		$product->data['visibility'] = is_array( $visibility ) ? wp_list_pluck( $visibility, 'name' ) : array();
	}

	public function create( WC_Product $product ): void {
		$post = array( 'post_type' => 'variation' === $product->kind ? 'product_variation' : 'product', 'comment_status' => 'open', 'post_date' => $product->get_date_created( 'edit' ) );
		foreach ( WC_Product::COLUMNS as $property => $column ) {
			$post[ $column ] = $product->{"get_$property"}( 'edit' );
		}
		$product->set_id( wp_insert_post( wp_slash( $post ) ) );
		if ( 'variation' !== $product->kind ) {
			wp_set_object_terms( $product->get_id(), $product->kind, 'product_type' );
		}
		$product->changes += $product->data;
		$this->write( $product );
		do_action( 'variation' === $product->kind ? 'woocommerce_new_product_variation' : 'woocommerce_new_product', $product->get_id(), $product );
	}

	public function update( WC_Product $product ): void {
		global $wpdb;
		$id   = $product->get_id();
		$post = array();
		foreach ( array_intersect_key( WC_Product::COLUMNS, $product->changes ) as $property => $column ) {
			$post[ $column ] = $product->changes[ $property ];
		}
		if ( $post && ! doing_action( 'save_post' ) ) {
			wp_update_post( wp_slash( array( 'ID' => $id ) + $post ) );
		} else {
			// WooCommerce writes the time of the change past WordPress's functions.
			$wpdb->update( $wpdb->posts, $post + array( 'post_modified' => current_time( 'mysql' ), 'post_modified_gmt' => current_time( 'mysql', true ) ), array( 'ID' => $id ) );
			clean_post_cache( $id );
		}
		$this->write( $product );
		do_action( 'variation' === $product->kind ? 'woocommerce_update_product_variation' : 'woocommerce_update_product', $id, $product );
	}

	/** Everything but the post's columns. */
	private function write( WC_Product $product ): void {
		$id      = $product->get_id();
		$updated = array();
		foreach ( array_intersect_key( WC_Product::FIELDS, $product->changes ) as $property => $key ) {
			if ( update_post_meta( $id, $key, (string) $product->changes[ $property ] ) ) {
				$updated[] = $property;
			}
		}
		foreach ( array( 'category_ids' => 'product_cat', 'tag_ids' => 'product_tag', 'colours' => 'pa_colour' ) as $property => $taxonomy ) {
			if ( isset( $product->changes[ $property ] ) ) {
				wp_set_post_terms( $id, $product->changes[ $property ], $taxonomy, false );
			}
		}
		if ( 'variation' !== $product->kind && array_intersect_key( $product->changes, array_flip( array( 'stock_status', 'visibility' ) ) ) ) {
			$terms = array_diff( (array) ( $product->changes['visibility'] ?? $product->data['visibility'] ?? array() ), array( 'outofstock', '' ) );
			if ( 'outofstock' === $product->get_stock_status( 'edit' ) ) {
				$terms[] = 'outofstock';
			}
			wp_set_post_terms( $id, array_values( $terms ), 'product_visibility', false );
		}
		$this->announce( $product, $updated );
		$this->forget( $id );
		$product->data    = array_merge( $product->data, $product->changes );
		$product->changes = array();
	}

	private function announce( WC_Product $product, array $updated ): void {
		$kind = 'variation' === $product->kind ? 'variation' : 'product';
		if ( 'variable' !== $product->kind && array_intersect( array( 'regular_price', 'sale_price', 'date_on_sale_from', 'date_on_sale_to' ), $updated ) ) {
			$price = $product->is_on_sale( 'edit' ) ? $product->get_sale_price( 'edit' ) : $product->get_regular_price( 'edit' );
			update_post_meta( $product->get_id(), '_price', $price );
			$product->set_price( $price );
		}
		if ( in_array( 'stock_quantity', $updated, true ) ) {
			do_action( "woocommerce_{$kind}_set_stock", $product );
		}
		if ( in_array( 'stock_status', $updated, true ) ) {
			do_action( "woocommerce_{$kind}_set_stock_status", $product->get_id(), $product->get_stock_status( 'edit' ), $product );
		}
		$this->look_up( $product->get_id() );
		do_action( 'woocommerce_product_object_updated_props', $product, $updated );
	}

	/** A table of its own, by which catalogues sort and filter. */
	public function look_up( int $id ): void {
		global $wpdb;
		$prices = array_map( 'floatval', (array) get_post_meta( $id, '_price' ) );
		$wpdb->replace(
			"{$wpdb->prefix}wc_product_meta_lookup",
			array(
				'product_id'     => $id,
				'min_price'      => $prices ? min( $prices ) : 0,
				'max_price'      => $prices ? max( $prices ) : 0,
				'onsale'         => (int) ( '' !== (string) get_post_meta( $id, '_sale_price', true ) && in_array( (float) get_post_meta( $id, '_sale_price', true ), $prices, true ) ),
				'stock_quantity' => (float) get_post_meta( $id, '_stock', true ),
				'stock_status'   => (string) get_post_meta( $id, '_stock_status', true ),
				'average_rating' => (float) get_post_meta( $id, '_wc_average_rating', true ),
				'total_sales'    => (int) get_post_meta( $id, 'total_sales', true ),
			)
		);
	}

	/** What is kept of products elsewhere. */
	public function forget( int $id ): void {
		delete_transient( 'wc_products_onsale' );
		delete_transient( "wc_related_$id" );
		delete_transient( 'wc_var_prices_' . $id );
		set_transient( 'product_query-transient-version', (string) microtime( true ) );
	}

	/** The stock as an order changes it: one statement, then an action. */
	public function update_product_stock( int $id, float $quantity, string $operation ): float {
		global $wpdb;
		add_post_meta( $id, '_stock', 0, true );
		$change = array( 'increase' => '+', 'decrease' => '-' )[ $operation ] ?? '';
		$new    = '' === $change ? '%f' : "meta_value $change %f";
		$wpdb->query( $wpdb->prepare( "UPDATE $wpdb->postmeta SET meta_value = $new WHERE post_id = %d AND meta_key = '_stock'", $quantity, $id ) );
		wp_cache_delete( $id, 'post_meta' );
		$this->look_up( $id );
		do_action( 'woocommerce_updated_product_stock', $id );
		return (float) get_post_meta( $id, '_stock', true );
	}

	public function update_product_sales( int $id, int $quantity ): void {
		global $wpdb;
		add_post_meta( $id, 'total_sales', 0, true );
		$wpdb->query( $wpdb->prepare( "UPDATE $wpdb->postmeta SET meta_value = meta_value + %f WHERE post_id = %d AND meta_key = 'total_sales'", $quantity, $id ) );
		wp_cache_delete( $id, 'post_meta' );
		$this->look_up( $id );
		do_action( 'woocommerce_updated_product_sales', $id );
	}
}

function wc_get_product( $id ): ?WC_Product {
	$post = get_post( (int) $id );
	return $post && in_array( $post->post_type, array( 'product', 'product_variation' ), true ) ? new WC_Product( $post->ID ) : null;
}

function wc_get_page_id( string $page ): int {
	return (int) get_option( "woocommerce_{$page}_page_id", -1 );
}

function wc_update_product_stock( WC_Product $product, float $quantity, string $operation = 'set' ): void {
	$kind = 'variation' === $product->kind ? 'variation' : 'product';
	do_action( "woocommerce_{$kind}_before_set_stock", $product );
	$new = ( new WC_Product_Data_Store_CPT() )->update_product_stock( $product->get_id(), $quantity, $operation );
	// As it is in the database: not a change of the product any more.
	$product->data['stock_quantity'] = $new;
	$product->save();
	do_action( "woocommerce_{$kind}_set_stock", $product );
}

/** Prices and status of a product with variations; at the end of the request. */
function wc_deferred_product_sync( $product_id = 0 ): void {
	static $waiting = array();
	if ( $product_id ) {
		$waiting[ (int) $product_id ] = true;
		return;
	}
	foreach ( array_keys( $waiting ) as $id ) {
		unset( $waiting[ $id ] );
		$product = wc_get_product( $id );
		$prices  = array();
		$status  = 'outofstock';
		foreach ( $product ? $product->get_children() : array() as $child ) {
			$variation = wc_get_product( $child );
			$prices[]  = (float) $variation->get_price( 'edit' );
			$status    = 'instock' === $variation->get_stock_status( 'edit' ) ? 'instock' : $status;
		}
		if ( ! $prices ) {
			continue;
		}
		delete_post_meta( $id, '_price' );
		sort( $prices );
		foreach ( array_unique( $prices ) as $price ) {
			add_post_meta( $id, '_price', $price );
		}
		if ( $status !== $product->get_stock_status( 'edit' ) ) {
			$product->set_stock_status( $status );
		}
		$product->save();
	}
}

/** Sales that begin or end by now. */
function wc_scheduled_sales(): void {
	global $wpdb;
	$ids = $wpdb->get_col( $wpdb->prepare( "SELECT post_id FROM $wpdb->postmeta WHERE meta_key IN ('_sale_price_dates_from', '_sale_price_dates_to') AND meta_value > 0 AND meta_value < %d", time() ) );
	foreach ( array_unique( $ids ) as $id ) {
		$product = wc_get_product( $id );
		$price   = $product->is_on_sale( 'edit' ) ? $product->get_sale_price( 'edit' ) : $product->get_regular_price( 'edit' );
		if ( $price === $product->get_price( 'edit' ) ) {
			continue;
		}
		$product->set_price( $price );
		if ( $product->is_on_sale( 'edit' ) ) {
			$product->set_date_on_sale_from( '' );
		} else {
			$product->set_sale_price( '' );
			$product->set_date_on_sale_to( '' );
		}
		$product->save();
	}
}

/** A new order of some products, not paid. */
function wc_create_order( array $items ): int {
	$id = wp_insert_post( array( 'post_type' => 'shop_order', 'post_status' => 'wc-pending', 'post_title' => 'Order', 'comment_status' => 'open', 'meta_input' => array( '_order_items' => $items ) ) );
	do_action( 'woocommerce_new_order', $id, null );
	return $id;
}

/** What WooCommerce does when an order is paid, cancelled or refunded. */
function exact_shop_order_status( int $id, string $to ): void {
	$from = substr( (string) get_post_status( $id ), 3 );
	wp_update_post( array( 'ID' => $id, 'post_status' => "wc-$to" ) );
	wp_insert_comment( array( 'comment_post_ID' => $id, 'comment_content' => "Order status changed from $from to $to.", 'comment_type' => 'order_note', 'comment_approved' => 1, 'comment_agent' => 'WooCommerce', 'comment_author' => 'WooCommerce' ) );
	do_action( "woocommerce_order_status_$to", $id, null );
	do_action( 'woocommerce_order_status_changed', $id, $from, $to, null );
	$is_reduced = 'yes' === get_post_meta( $id, '_order_stock_reduced', true );
	$takes      = in_array( $to, array( 'processing', 'completed' ), true );
	if ( $takes === $is_reduced ) {
		return;
	}
	foreach ( (array) get_post_meta( $id, '_order_items', true ) as $product_id => $quantity ) {
		$product = wc_get_product( $product_id );
		if ( $product->managing_stock() ) {
			wc_update_product_stock( $product, (float) $quantity, $takes ? 'decrease' : 'increase' );
		}
		if ( $takes ) {
			( new WC_Product_Data_Store_CPT() )->update_product_sales( (int) ( $product->get_parent_id( 'edit' ) ?: $product_id ), (int) $quantity );
		}
	}
	update_post_meta( $id, '_order_stock_reduced', $takes ? 'yes' : 'no' );
	do_action( $takes ? 'woocommerce_reduce_order_stock' : 'woocommerce_restore_order_stock', null );
}

/** The rating of a review that has just been written. */
function exact_shop_review( int $comment_id, $approved ): void {
	$comment = get_comment( $comment_id );
	if ( 'product' === get_post_type( (int) $comment->comment_post_ID ) && isset( $_POST['rating'] ) ) {
		add_comment_meta( $comment_id, 'rating', (int) $_POST['rating'], true );
		exact_shop_count_reviews( (int) $comment->comment_post_ID );
	}
}

/** The mean of the ratings and their number, as fields of the product. */
function exact_shop_count_reviews( $post_id ): void {
	global $wpdb;
	if ( 'product' !== get_post_type( (int) $post_id ) || ! get_post_meta( (int) $post_id, '_stock_status', true ) ) {
		return;
	}
	$found   = $wpdb->get_row( $wpdb->prepare( "SELECT AVG(m.meta_value) mean, COUNT(*) number FROM $wpdb->comments c JOIN $wpdb->commentmeta m ON m.comment_id = c.comment_ID AND m.meta_key = 'rating' WHERE c.comment_post_ID = %d AND c.comment_approved = '1'", $post_id ) );
	$product = wc_get_product( $post_id );
	$product->set_average_rating( number_format( (float) $found->mean, 2 ) );
	$product->set_review_count( (int) $found->number );
	$product->save();
}
