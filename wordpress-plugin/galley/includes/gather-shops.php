<?php
/**
 * Adds tags for the pages of a shop (WooCommerce): numbers of products that orders change, and lists whose results WooCommerce stores for
 * later pages.
 *
 * WooCommerce reads all fields of a product at once, even if the page does not show them. A page shows the stock or the sales of a product
 * only if code gets them from the product, which runs a filter.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Products whose related products a statement of this request finds. The keys are their IDs. */
$GLOBALS['galley_related'] = array();

/** Fields of a product that each order changes. */
const SHOP_NUMBERS = array( '_stock', 'total_sales' );

if ( is_described() ) {
	gather_shops();
}

function gather_shops(): void {
	$own = __NAMESPACE__ . '\\';
	foreach ( array( 'product', 'product_variation' ) as $kind ) {
		foreach ( array( 'stock_quantity', 'total_sales' ) as $number ) {
			add_filter( "woocommerce_{$kind}_get_$number", $own . 'gather_shop_number', PHP_INT_MAX, 2 );
		}
	}
	add_filter( 'woocommerce_shortcode_products_query_results', $own . 'gather_kept_list', PHP_INT_MAX, 2 );
	add_filter( 'woocommerce_product_related_posts_query', $own . 'gather_related', PHP_INT_MAX, 3 );
	add_filter( 'woocommerce_related_products', $own . 'gather_kept_related', PHP_INT_MAX, 2 );
	add_filter( 'pre_transient_wc_products_onsale', $own . 'gather_on_sale', PHP_INT_MAX );
	foreach ( array( 'min', 'max' ) as $end ) {
		add_filter( "woocommerce_price_filter_widget_{$end}_amount", $own . 'gather_price_bound', PHP_INT_MAX );
	}
	// Kept numbers of products by attribute, and kept products of a block, would leave out the statement that tells what they depend on.
	foreach ( array( 'woocommerce_layered_nav_count_maybe_cache', 'woocommerce_blocks_product_grid_is_cacheable' ) as $filter ) {
		add_filter( $filter, '__return_false', PHP_INT_MAX );
	}
	// With this feature, only the first part of a page that shows a product reads its fields.
	add_filter( 'pre_option_woocommerce_feature_product_instance_caching_enabled', $own . 'without_kept_products', PHP_INT_MAX );
}

function without_kept_products(): string {
	return 'no';
}

/**
 * Returns whether WooCommerce reads all fields of a post. It later gets each field through a filter.
 */
function is_read_by_shop(): bool {
	// phpcs:ignore WordPress.PHP.DevelopmentFunctions -- only the stack identifies the caller. Frames: this, the gatherer, two of hooks, four of fields.
	foreach ( debug_backtrace( DEBUG_BACKTRACE_IGNORE_ARGS, 10 ) as $frame ) {
		if ( 0 === strpos( $frame['class'] ?? '', 'WC_Product' ) ) {
			return true;
		}
	}
	return false;
}

/**
 * Adds the tags of the stock or sales of a product. The stock of a variation may be the stock of its parent product, so both get a tag.
 */
function gather_shop_number( $value, $product = null ) {
	foreach ( array( 'get_id', 'get_parent_id' ) as $which ) {
		$id = is_callable( array( $product, $which ) ) ? (int) $product->$which() : 0;
		if ( $id > 0 ) {
			tag( "ps$id" );
		}
	}
	return $value;
}

/**
 * Adds the tags of the product list of a shortcode. WooCommerce may use the IDs that it stored for an earlier page; then no query runs.
 *
 * @param mixed       $results   The results of the list.
 * @param object|null $shortcode The shortcode, which provides the arguments of its query.
 */
function gather_kept_list( $results, $shortcode = null ) {
	$arguments = is_callable( array( $shortcode, 'get_query_args' ) ) ? $shortcode->get_query_args() : null;
	if ( ! is_array( $arguments ) ) {
		tag( 'l.product' );
		tag( 'l.product.x' );
		return $results;
	}
	$query = new \WP_Query();
	$query->parse_query( $arguments );
	$tags = types_of( $query ) ? list_tags( describe_query( $query ) ) : array();
	foreach ( array_merge( $tags, catalog_order_tags( is_string( $arguments['orderby'] ?? null ) ? $arguments['orderby'] : '' ) ) as $tag ) {
		tag( $tag );
	}
	return $results;
}

/**
 * Returns the tags of an order of products for which WooCommerce changes the statement and not the arguments of the query. Pure.
 *
 * @return string[]
 */
function catalog_order_tags( string $order ): array {
	$tags = array(
		'popularity' => array( 'oo.product.m_' . SALES ),
		'rating'     => array( 'o.product.m__wc_average_rating', 'o.product.m__wc_review_count' ),
		'price'      => array( 'o.product.m__price' ),
	);
	return $tags[ $order ] ?? array();
}

/**
 * Adds the tags of the products with the categories and tags of another product. WooCommerce finds them with an SQL statement of its own and
 * stores their IDs for a day, unless it found too few.
 */
function gather_related( $query, $product_id = 0, $arguments = array() ) {
	$GLOBALS['galley_related'][ (int) $product_id ] = true;
	tag_related( array_merge( (array) ( $arguments['categories'] ?? array() ), (array) ( $arguments['tags'] ?? array() ) ) );
	return $query;
}

/**
 * Adds the same tags if WooCommerce uses the IDs that it stored up to a day ago. Then it neither runs the statement nor reads the terms.
 */
function gather_kept_related( $ids, $product_id = 0 ) {
	if ( ! $ids || isset( $GLOBALS['galley_related'][ (int) $product_id ] ) ) {
		return $ids;
	}
	$terms = array();
	foreach ( function_exists( 'wc_get_product_term_ids' ) ? array( 'cat', 'tag' ) : array() as $kind ) {
		// phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals -- WooCommerce's own filter.
		$terms = array_merge( $terms, (array) apply_filters( "woocommerce_get_related_product_{$kind}_terms", wc_get_product_term_ids( (int) $product_id, "product_$kind" ), (int) $product_id ) );
	}
	tag_related( $terms );
	at_most( DAY_IN_SECONDS );
	return $ids;
}

/**
 * Adds the tags of the list of all products with one of these terms, without those that the catalog hides.
 */
function tag_related( array $terms ): void {
	$hidden = function_exists( 'wc_get_product_visibility_term_ids' ) ? wc_get_product_visibility_term_ids() : array();
	$list   = array(
		'types' => array( 'product' ),
		'terms' => array_filter( array_map( 'intval', $terms ) ),
		'with'  => array_filter( array_map( 'intval', array( $hidden['exclude-from-catalog'] ?? 0, $hidden['outofstock'] ?? 0 ) ) ),
		'pages' => 'other',
	);
	foreach ( list_tags( any_list( $list ) ) as $tag ) {
		tag( $tag );
	}
}

/**
 * Returns how many of the best-selling products a list depends on. Returns null for a list in another order, for one with several pages,
 * and for one with a condition: a product may have a higher position there than among all products. Catalogs exclude some products by
 * `product_visibility`, which `sales_tags` takes into account.
 */
function sales_depth( \WP_Query $query, array $list ): ?int {
	$vars      = $query->query_vars;
	$per       = (int) ( $vars['posts_per_page'] ?? 0 );
	$is_sorted = array( 'm_total_sales' ) === $list['ordered'] && ! $list['sorted'] && 1 === preg_match( '/^meta_value_num\b/', is_string( $vars['orderby'] ?? null ) ? $vars['orderby'] : '' ) && 'ASC' !== strtoupper( (string) ( $vars['order'] ?? 'DESC' ) );
	$is_whole  = array( 'product' ) === $list['types'] && ! $list['complex'] && ! $list['search'] && ! $list['within'] && ! $list['any_status'] && ! is_by_time( $vars );
	foreach ( array( 'ids', 'slugs', 'terms', 'authors', 'dates', 'parents' ) as $condition ) {
		$is_whole = $is_whole && ! $list[ $condition ];
	}
	$is_first = $per > 0 && ! empty( $vars['no_found_rows'] ) && empty( $vars['nopaging'] ) && empty( $vars['offset'] ) && (int) ( $vars['paged'] ?? 0 ) < 2 && ! $query->is_feed();
	if ( ! $is_sorted || ! $is_whole || ! $is_first ) {
		return null;
	}
	foreach ( $list['with'] as $term ) {
		$term = get_term( $term );
		if ( ! $term instanceof \WP_Term || 'product_visibility' !== $term->taxonomy ) {
			return null;
		}
	}
	return $per + count( (array) ( $vars['post__not_in'] ?? array() ) );
}

/**
 * Adds the tags of the list of all products on sale, which WooCommerce stores. `queue_sale` purges them when a new product on sale appears.
 */
function gather_on_sale( $kept ) {
	foreach ( array( 'product', 'product_variation' ) as $type ) {
		foreach ( ON_SALE_FIELDS as $field ) {
			tag( "o.$type." . word( $field ) );
		}
	}
	return $kept;
}

/**
 * Adds the tags of the lowest and the highest price of a list.
 */
function gather_price_bound( $amount ) {
	tag( 'o.product.m__price' );
	tag( 'l.product' );
	return $amount;
}
