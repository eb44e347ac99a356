<?php
/**
 * What visitors see of the stand-in for WooCommerce (shop.php): the catalogue with its orders and filters, products, shortcodes.
 * Where WooCommerce asks the database past WP_Query, or keeps a list for later requests, so does this.
 */

declare(strict_types=1);

add_action( 'pre_get_posts', 'exact_shop_query' );
add_filter( 'posts_clauses', 'exact_shop_clauses', 10, 2 );
add_action( 'template_redirect', 'exact_shop_archive' );
add_filter( 'the_content', 'exact_shop_product' );
add_filter( 'post_class', 'exact_shop_classes', 20, 3 );
foreach ( array( 'products', 'sale_products', 'best_selling_products', 'featured_products' ) as $name ) {
	add_shortcode( $name, 'exact_shop_list' );
}

/** A number as money, by the settings of the shop. */
function wc_price( $price ): string {
	$symbols = array( 'EUR' => '&euro;', 'USD' => '$', 'GBP' => '&pound;' );
	$number  = number_format( (float) $price, (int) get_option( 'woocommerce_price_num_decimals', 2 ), (string) get_option( 'woocommerce_price_decimal_sep', '.' ), ',' );
	$symbol  = $symbols[ get_option( 'woocommerce_currency', 'EUR' ) ] ?? '?';
	$text    = 'left' === get_option( 'woocommerce_currency_pos', 'left' ) ? "$symbol$number" : "$number $symbol";
	return (string) apply_filters( 'wc_price', "<span class=\"amount\">$text</span>", $price );
}

/** With the tax, where the shop shows prices with it. */
function wc_get_price_to_display( WC_Product $product, array $with = array() ): float {
	global $wpdb;
	$price = (float) ( $with['price'] ?? $product->get_price() );
	if ( 'yes' !== get_option( 'woocommerce_calc_taxes' ) || 'incl' !== get_option( 'woocommerce_tax_display_shop' ) || 'yes' === get_option( 'woocommerce_prices_include_tax' ) ) {
		return $price;
	}
	return round( $price * ( 1 + (float) $wpdb->get_var( "SELECT MAX(tax_rate) FROM {$wpdb->prefix}woocommerce_tax_rates" ) / 100 ), 2 );
}

/** Prices of the variations, which WooCommerce keeps for a month. */
function exact_shop_range( WC_Product $product ): array {
	$kept = get_transient( 'wc_var_prices_' . $product->get_id() );
	if ( ! is_array( $kept ) ) {
		$kept = array();
		foreach ( $product->get_children() as $child ) {
			$kept[ $child ] = (float) wc_get_product( $child )->get_price( 'edit' );
		}
		set_transient( 'wc_var_prices_' . $product->get_id(), $kept, MONTH_IN_SECONDS );
	}
	return array( min( $kept ), max( $kept ) );
}

function exact_shop_price( WC_Product $product ): string {
	if ( 'variable' === $product->kind ) {
		list( $least, $most ) = exact_shop_range( $product );
		$with                 = static fn( float $price ): string => wc_price( wc_get_price_to_display( $product, array( 'price' => $price ) ) );
		$html                 = $least === $most ? $with( $least ) : $with( $least ) . '&ndash;' . $with( $most );
	} elseif ( $product->is_on_sale() ) {
		$html = '<del>' . wc_price( wc_get_price_to_display( $product, array( 'price' => $product->get_regular_price() ) ) ) . '</del> <ins>' . wc_price( wc_get_price_to_display( $product ) ) . '</ins>';
	} else {
		$html = wc_price( wc_get_price_to_display( $product ) );
	}
	return (string) apply_filters( 'woocommerce_get_price_html', $html, $product );
}

/** "12 in stock", by the setting for it. */
function exact_shop_stock( WC_Product $product ): string {
	if ( ! $product->is_in_stock() ) {
		return '<p class="stock out-of-stock">Out of stock</p>';
	}
	if ( ! $product->managing_stock() || 'no_amount' === get_option( 'woocommerce_stock_format' ) ) {
		return '<p class="stock">In stock</p>';
	}
	return '<p class="stock in-stock">' . (int) $product->get_stock_quantity() . ' in stock</p>';
}

/** A product in a list. */
function exact_shop_item( int $id ): string {
	$product = wc_get_product( $id );
	if ( ! $product || 'publish' !== $product->get_status() || array_intersect( (array) $product->get_visibility(), array( 'exclude-from-catalog' ) ) ) {
		return '';
	}
	$stars  = (float) $product->get_average_rating() > 0 ? '<span class="stars">' . esc_html( $product->get_average_rating() ) . ' of 5</span>' : '';
	$flash  = $product->is_on_sale() ? '<span class="onsale">Sale!</span>' : '';
	$button = ! $product->is_in_stock() ? 'Read more' : ( 'variable' === $product->kind ? 'Select options' : 'Add to cart' );
	return '<li class="' . esc_attr( implode( ' ', get_post_class( '', $id ) ) ) . '"><a href="' . esc_url( get_permalink( $id ) ) . '">' . $flash . get_the_post_thumbnail( $id, 'thumbnail' )
		. '<h2>' . esc_html( get_the_title( $id ) ) . "</h2>$stars" . exact_shop_price( $product ) . "</a><a class=\"button\" href=\"?add-to-cart=$id\">$button</a></li>";
}

function exact_shop_classes( array $classes, $more, $id ): array {
	if ( 'product' === get_post_type( $id ) ) {
		$product   = wc_get_product( $id );
		$classes[] = $product->get_stock_status();
		$classes[] = "product-type-$product->kind";
		$classes[] = $product->is_on_sale() ? 'sale' : '';
		$classes[] = $product->is_featured() ? 'featured' : '';
	}
	return array_filter( $classes );
}

/** What catalogues leave out, as WooCommerce says it to WP_Query. */
function exact_shop_visible( array $more = array() ): array {
	$hidden = array( 'exclude-from-catalog' );
	if ( 'yes' === get_option( 'woocommerce_hide_out_of_stock_items' ) ) {
		$hidden[] = 'outofstock';
	}
	return array_merge( array( 'relation' => 'AND', array( 'taxonomy' => 'product_visibility', 'field' => 'name', 'terms' => $hidden, 'operator' => 'NOT IN' ) ), $more );
}

/** The catalogue is in an order of its own, and shows what is meant to be shown. */
function exact_shop_query( WP_Query $query ): void {
	if ( ! $query->is_main_query() || is_admin() || ! ( $query->is_post_type_archive( 'product' ) || $query->is_tax( array( 'product_cat', 'product_tag', 'pa_colour' ) ) ) || $query->is_feed() ) {
		return;
	}
	$order = (string) ( $_GET['orderby'] ?? 'menu_order' );
	if ( 'date' === $order ) {
		$query->set( 'orderby', 'date ID' );
	} else {
		$query->set( 'orderby', 'menu_order' === $order ? 'menu_order title' : 'ID' );
		$query->set( 'order', 'menu_order' === $order ? 'ASC' : 'DESC' );
		$query->set( 'exact_order', $order );
	}
	$query->set( 'posts_per_page', 12 );
	$query->set( 'tax_query', array_merge( (array) $query->get( 'tax_query', array() ), exact_shop_visible() ) );
	$query->set( 'exact_most', (string) ( $_GET['max_price'] ?? '' ) );
}

/** Orders and filters by the table of prices and sales, which is no field of a post. */
function exact_shop_clauses( array $clauses, WP_Query $query ): array {
	global $wpdb;
	$orders = array( 'price' => 'wc_product_meta_lookup.min_price ASC, wc_product_meta_lookup.product_id ASC', 'popularity' => 'wc_product_meta_lookup.total_sales DESC, wc_product_meta_lookup.product_id DESC', 'rating' => 'wc_product_meta_lookup.average_rating DESC, wc_product_meta_lookup.product_id DESC' );
	$order  = $orders[ $query->get( 'exact_order' ) ] ?? '';
	$most   = $query->get( 'exact_most' );
	if ( '' !== $order || '' !== (string) $most ) {
		$clauses['join'] .= " LEFT JOIN {$wpdb->prefix}wc_product_meta_lookup wc_product_meta_lookup ON $wpdb->posts.ID = wc_product_meta_lookup.product_id ";
	}
	if ( '' !== $order ) {
		$clauses['orderby'] = $order;
	}
	if ( '' !== (string) $most ) {
		$clauses['where'] .= $wpdb->prepare( ' AND wc_product_meta_lookup.min_price <= %f ', $most );
	}
	return $clauses;
}

/** The catalogue's own page, in the theme's frame. */
function exact_shop_archive(): void {
	global $wp_query;
	if ( is_feed() || ! ( is_post_type_archive( 'product' ) || is_tax( array( 'product_cat', 'product_tag', 'pa_colour' ) ) ) ) {
		return;
	}
	$title = is_tax() ? single_term_title( '', false ) : get_the_title( wc_get_page_id( 'shop' ) );
	$items = '';
	foreach ( $wp_query->posts as $post ) {
		$items .= exact_shop_item( $post->ID );
	}
	$text  = is_tax() ? term_description() : '';
	$main  = '<main><h1>' . esc_html( $title ) . "</h1>$text<p class=\"result-count\">$wp_query->found_posts results</p><ul class=\"products\">$items</ul>" . paginate_links() . '</main>';
	$part  = static fn( string $slug ): string => wp_is_block_theme() ? do_blocks( '<!-- wp:template-part {"slug":"' . $slug . '","theme":"' . get_stylesheet() . '"} /-->' ) : '';
	$begin = $part( 'header' );
	$end   = $part( 'footer' );
	if ( ! wp_is_block_theme() ) {
		get_header();
		echo $main;
		get_footer();
		exit;
	}
	echo '<!DOCTYPE html><html><head>';
	wp_head();
	echo '</head><body class="' . esc_attr( implode( ' ', get_body_class() ) ) . '">';
	wp_body_open();
	echo $begin . $main . $end;
	wp_footer();
	echo '</body></html>';
	exit;
}

/** A product's page below its description. */
function exact_shop_product( string $content ): string {
	static $inside = false;
	if ( $inside || ! is_singular( 'product' ) || get_the_ID() !== get_queried_object_id() ) {
		return $content;
	}
	$inside  = true;
	$id      = (int) get_the_ID();
	$product = wc_get_product( $id );
	$out     = '<div class="summary">' . exact_shop_price( $product ) . ( 'variable' === $product->kind ? exact_shop_variations( $product ) : exact_shop_stock( $product ) );
	if ( $product->is_in_stock() && 'variable' !== $product->kind ) {
		$out .= '<form class="cart"><input name="quantity" value="1"' . ( $product->managing_stock() ? ' max="' . (int) $product->get_stock_quantity() . '"' : '' ) . '></form>';
	}
	$out   .= (float) $product->get_average_rating() > 0 ? '<p>' . esc_html( $product->get_average_rating() . ' of 5, ' . $product->get_review_count() . ' reviews' ) . '</p>' : '';
	$out   .= get_the_term_list( $id, 'product_cat', '<p>', ', ', '</p>' ) . get_the_term_list( $id, 'pa_colour', '<p>', ', ', '</p>' ) . '</div>';
	$out   .= '<ul class="related">' . implode( '', array_map( 'exact_shop_item', exact_shop_related( $id ) ) ) . '</ul>';
	$inside = false;
	return $content . $out;
}

/** The choices, as a script of the page wants them. */
function exact_shop_variations( WC_Product $product ): string {
	$all = array();
	foreach ( $product->get_children() as $child ) {
		$variation = wc_get_product( $child );
		$all[]     = array( 'id' => $child, 'price' => wc_get_price_to_display( $variation ), 'stock' => exact_shop_stock( $variation ), 'max' => $variation->managing_stock() ? (int) $variation->get_stock_quantity() : '' );
	}
	return '<form class="variations" data-product_variations="' . esc_attr( (string) wp_json_encode( $all ) ) . '"></form>';
}

/**
 * Four products of the same categories, kept for a day. Not if the site has an object cache: the reference keeps its transients in the
 * database, and would show numbers from another time.
 */
function exact_shop_related( int $id ): array {
	global $wpdb;
	$is_kept = ! file_exists( WP_CONTENT_DIR . '/object-cache.php' );
	$kept    = $is_kept ? get_transient( "wc_related_$id" ) : false;
	if ( ! is_array( $kept ) ) {
		$terms = implode( ',', array_map( 'intval', array_merge( array( 0 ), wp_get_object_terms( $id, 'product_cat', array( 'fields' => 'tt_ids' ) ) ) ) );
		$kept  = $wpdb->get_col( "SELECT DISTINCT p.ID FROM $wpdb->posts p JOIN $wpdb->term_relationships r ON r.object_id = p.ID WHERE p.post_type = 'product' AND p.post_status = 'publish' AND p.ID <> $id AND r.term_taxonomy_id IN ($terms) ORDER BY p.ID LIMIT 4" );
		if ( $is_kept ) {
			set_transient( "wc_related_$id", $kept, DAY_IN_SECONDS );
		}
	}
	return array_map( 'intval', $kept );
}

/** The shortcodes for lists, whose results WooCommerce keeps until a product changes. */
function exact_shop_list( $attributes, $content = '', string $name = 'products' ): string {
	$with = shortcode_atts( array( 'limit' => 6, 'category' => '' ), $attributes );
	$args = array( 'post_type' => 'product', 'post_status' => 'publish', 'ignore_sticky_posts' => true, 'no_found_rows' => true, 'orderby' => 'title', 'order' => 'ASC', 'posts_per_page' => (int) $with['limit'], 'fields' => 'ids', 'tax_query' => exact_shop_visible() );
	if ( '' !== $with['category'] ) {
		$args['tax_query'][] = array( 'taxonomy' => 'product_cat', 'terms' => explode( ',', $with['category'] ), 'field' => 'slug', 'operator' => 'IN' );
	}
	if ( 'featured_products' === $name ) {
		$args['tax_query'][] = array( 'taxonomy' => 'product_visibility', 'terms' => 'featured', 'field' => 'name', 'operator' => 'IN', 'include_children' => false );
	} elseif ( 'sale_products' === $name ) {
		$args['post__in'] = array_merge( array( 0 ), exact_shop_on_sale() );
	} elseif ( 'best_selling_products' === $name ) {
		$args = array_merge( $args, array( 'meta_key' => 'total_sales', 'orderby' => 'meta_value_num ID', 'order' => 'DESC' ) );
	}
	$args    = apply_filters( 'woocommerce_shortcode_products_query', $args, $with, $name );
	$results = exact_shop_results( $args, $name );
	return '<ul class="products">' . implode( '', array_map( 'exact_shop_item', array_map( 'intval', $results->ids ) ) ) . '</ul>';
}

function exact_shop_results( array $args, string $name ): object {
	$place   = 'wc_product_loop_' . md5( wp_json_encode( $args ) . $name );
	$version = (string) get_transient( 'product_query-transient-version' );
	$kept    = get_transient( $place );
	if ( ! is_array( $kept ) || $kept['version'] !== $version ) {
		$query = new WP_Query( $args );
		$kept  = array( 'version' => $version, 'value' => (object) array( 'ids' => wp_parse_id_list( $query->posts ) ) );
		set_transient( $place, $kept, MONTH_IN_SECONDS );
	}
	return apply_filters( 'woocommerce_shortcode_products_query_results', $kept['value'], new WC_Shortcode_Products( $args ) );
}

/** A list as a shortcode asks for it. */
class WC_Shortcode_Products {
	private array $query_args;

	public function __construct( array $query_args ) {
		$this->query_args = $query_args;
	}

	public function get_query_args(): array {
		return $this->query_args;
	}
}

/** The products on sale, kept until a product changes. */
function exact_shop_on_sale(): array {
	global $wpdb;
	$kept = get_transient( 'wc_products_onsale' );
	if ( ! is_array( $kept ) ) {
		$kept = array_map( 'intval', $wpdb->get_col( "SELECT product_id FROM {$wpdb->prefix}wc_product_meta_lookup JOIN $wpdb->posts ON ID = product_id AND post_type = 'product' AND post_status = 'publish' WHERE onsale = 1 ORDER BY product_id" ) );
		set_transient( 'wc_products_onsale', $kept, MONTH_IN_SECONDS );
	}
	return $kept;
}
