<?php
/**
 * A must-use plugin of `make object-cache`: a small shop, if WooCommerce is not there, and the figures of each page as headers. It reads
 * products as WooCommerce does: one after the other, related ones at random, with transients and caches of its own.
 */

declare(strict_types=1);

add_action( 'init', 'sample_shop_types' );
add_filter( 'the_content', 'sample_shop_product' );
add_action( 'muplugins_loaded', static function () { ob_start( 'sample_shop_figures' ); } );

function sample_shop_types(): void {
	if ( function_exists( 'WC' ) ) {
		return;
	}
	if ( ! class_exists( 'WooCommerce', false ) ) {
		// Its groups in the object cache are known by this.
		final class WooCommerce {}
	}
	register_post_type( 'product', array( 'label' => 'Products', 'public' => true, 'has_archive' => 'shop', 'rewrite' => array( 'slug' => 'product' ), 'supports' => array( 'title', 'editor', 'thumbnail', 'custom-fields' ) ) );
	register_taxonomy( 'product_cat', 'product', array( 'label' => 'Categories', 'rewrite' => array( 'slug' => 'product-category' ) ) );
	register_taxonomy( 'product_tag', 'product', array( 'label' => 'Tags' ) );
}

function sample_shop_card( int $id ): string {
	$prefix = wp_cache_get( "wc_product_{$id}_cache_prefix", "product_$id" );
	if ( false === $prefix ) {
		$prefix = microtime();
		wp_cache_set( "wc_product_{$id}_cache_prefix", $prefix, "product_$id" );
	}
	$kind = wp_cache_get( "{$prefix}_type_$id", 'products' );
	if ( false === $kind ) {
		$kind = 'simple';
		wp_cache_set( "{$prefix}_type_$id", $kind, 'products' );
	}
	$terms = wp_list_pluck( get_the_terms( $id, 'product_cat' ) ?: array(), 'name' );
	return '<li>' . get_the_title( $id ) . ' ' . get_post_meta( $id, '_price', true ) . ' ' . implode( ', ', $terms ) . wp_get_attachment_image( (int) get_post_thumbnail_id( $id ) ) . "</li>\n";
}

function sample_shop_product( string $content ): string {
	$id = (int) get_the_ID();
	if ( function_exists( 'WC' ) || 'product' !== get_post_type( $id ) ) {
		return $content;
	}
	$content .= '<ul>' . sample_shop_card( $id );
	if ( is_singular( 'product' ) ) {
		$related = get_transient( "wc_related_$id" );
		if ( ! is_array( $related ) ) {
			$related = get_posts( array( 'post_type' => 'product', 'numberposts' => 14, 'fields' => 'ids', 'exclude' => array( $id ), 'tax_query' => array( array( 'taxonomy' => 'product_cat', 'terms' => wp_get_object_terms( $id, 'product_cat', array( 'fields' => 'ids' ) ) ) ) ) );
			set_transient( "wc_related_$id", $related, DAY_IN_SECONDS );
		}
		$related = apply_filters( 'woocommerce_related_products', $related, $id, array() );
		shuffle( $related );
		$content .= implode( '', array_map( 'sample_shop_card', array_slice( $related, 0, 4 ) ) );
	}
	return $content . '</ul>';
}

function sample_shop_figures( string $page ): string {
	$cache = $GLOBALS['wp_object_cache'] ?? null;
	if ( ! headers_sent() ) {
		header( 'X-Queries: ' . (int) ( $GLOBALS['wpdb']->num_queries ?? 0 ) );
		header( 'X-Is-Away: ' . (int) ( is_object( $cache ) && is_callable( array( $cache, 'is_connected' ) ) && false === $cache->is_connected() ) );
		header( 'X-Round-Trips: ' . ( is_object( $cache ) && is_callable( array( $cache, 'round_trips' ) ) ? $cache->round_trips() : 0 ) );
	}
	return $page;
}

/** Makes products and posts. Called once, on the command line. */
function sample_shop_seed(): void {
	wp_set_current_user( 1 );
	$images     = get_posts( array( 'post_type' => 'attachment', 'numberposts' => 20, 'fields' => 'ids', 'post_status' => 'inherit' ) );
	$categories = array();
	foreach ( array( 'Tools', 'Books', 'Music', 'Hats' ) as $name ) {
		$term         = wp_insert_term( $name, 'product_cat' );
		$categories[] = (int) ( is_wp_error( $term ) ? $term->get_error_data( 'term_exists' ) : $term['term_id'] );
	}
	for ( $i = 0; $i < 80; $i++ ) {
		$id = wp_insert_post( array( 'post_type' => 'product', 'post_status' => 'publish', 'post_title' => "Item $i", 'post_name' => "item-$i", 'post_content' => str_repeat( "Words of item $i. ", 60 ) ) );
		wp_set_object_terms( $id, array( $categories[ $i % 4 ] ), 'product_cat' );
		foreach ( array( '_price' => 10 + $i, '_regular_price' => 10 + $i, '_stock_status' => 'instock', '_sku' => "sku-$i", '_weight' => $i ) as $key => $value ) {
			update_post_meta( $id, $key, $value );
		}
		if ( array() !== $images ) {
			set_post_thumbnail( $id, $images[ $i % count( $images ) ] );
		}
		wp_insert_post( array( 'post_status' => 'publish', 'post_title' => "Article $i", 'post_name' => "article-$i", 'post_content' => str_repeat( "<!-- wp:paragraph --><p>Text $i.</p><!-- /wp:paragraph -->\n", 30 ), 'tags_input' => array( 'tag' . ( $i % 9 ) ) ) );
	}
	if ( function_exists( 'WC' ) ) {
		update_option( 'woocommerce_coming_soon', 'no' );
	}
	update_option( 'permalink_structure', '/%postname%/' );
	flush_rewrite_rules();
	echo 'seeded';
}
