<?php
/**
 * Included by seed.php for the site with a shop and two languages: fills it, and prints the pages and ids as seed.php does. Thirty
 * products in four categories, some with variations, orders in several states, shortcodes for lists of products; the posts of the
 * sample in English, some of them in German too, and a menu for each language.
 */

declare(strict_types=1);

namespace Galley\Exactness\Seed;

tables();
settings();
products();
orders();
lists();
languages();
flush_rewrite_rules( false );
shop_names();
shop_pages();

function tables(): void {
	global $wpdb;
	$wpdb->query( "CREATE TABLE {$wpdb->prefix}wc_product_meta_lookup (product_id BIGINT PRIMARY KEY, min_price DECIMAL(19,4), max_price DECIMAL(19,4), onsale TINYINT, stock_quantity DOUBLE, stock_status VARCHAR(100), average_rating DECIMAL(3,2), total_sales BIGINT)" );
	$wpdb->query( "CREATE TABLE {$wpdb->prefix}woocommerce_tax_rates (tax_rate_id BIGINT PRIMARY KEY, tax_rate_country VARCHAR(2), tax_rate VARCHAR(8))" );
	$wpdb->insert( "{$wpdb->prefix}woocommerce_tax_rates", array( 'tax_rate_id' => 1, 'tax_rate_country' => '', 'tax_rate' => '20' ) );
}

function settings(): void {
	$settings = array( 'currency' => 'EUR', 'currency_pos' => 'left', 'price_num_decimals' => '2', 'price_decimal_sep' => '.', 'calc_taxes' => 'yes', 'tax_display_shop' => 'incl', 'prices_include_tax' => 'no', 'hide_out_of_stock_items' => 'no', 'stock_format' => '', 'flat_rate_1_settings' => array( 'cost' => '4' ) );
	foreach ( $settings as $name => $value ) {
		update_option( "woocommerce_$name", $value );
	}
	foreach ( array( 'exclude-from-catalog', 'exclude-from-search', 'featured', 'outofstock' ) as $name ) {
		wp_insert_term( $name, 'product_visibility' );
	}
	update_option( 'woocommerce_shop_page_id', add( 'page', 'shop', 'Shop', '' ) );
}

function term( string $name, string $taxonomy ): int {
	$found = get_term_by( 'name', $name, $taxonomy );
	return $found ? $found->term_id : (int) wp_insert_term( $name, $taxonomy )['term_id'];
}

function products(): void {
	$names = array(
		'tea'    => array( 'Assam', 'Bancha', 'Ceylon', 'Darjeeling', 'Earl Grey', 'Genmaicha', 'Hojicha', 'Jasmine', 'Keemun', 'Lapsang' ),
		'coffee' => array( 'Brazil', 'Colombia', 'Ethiopia', 'Guatemala', 'Honduras', 'Kenya', 'Mexico', 'Peru' ),
		'mugs'   => array( 'Anchor mug', 'Beacon mug', 'Compass mug', 'Dinghy mug', 'Ferry mug', 'Gull mug', 'Keel mug' ),
		'books'  => array( 'Almanac', 'Book of knots', 'Charts', 'Tide tables', 'Weather book' ),
	);
	$number = 0;
	foreach ( $names as $category => $all ) {
		foreach ( $all as $name ) {
			product( ++$number, $name, ucfirst( $category ) );
		}
	}
}

/** Variable ones are the first mugs. Sales follow each other closely, so that an order may change the order of the most sold. */
function product( int $number, string $name, string $category ): void {
	$colours            = array( 'Red', 'Green', 'Blue' );
	$is_variable        = in_array( $name, array( 'Anchor mug', 'Beacon mug', 'Compass mug' ), true );
	$product            = new \WC_Product();
	$product->kind      = $is_variable ? 'variable' : 'simple';
	$product->set_name( $name );
	$product->set_description( "$name, from our shelves." );
	$product->set_category_ids( array( term( $category, 'product_cat' ) ) );
	$product->set_tag_ids( 0 === $number % 4 ? array( 'gift' ) : array() );
	$product->set_colours( array( term( $colours[ $number % 3 ], 'pa_colour' ) ) );
	$product->set_total_sales( 100 - 2 * $number );
	$product->set_image_id( 0 === $number % 3 ? media()[ $number % 5 ] : '' );
	if ( ! $is_variable ) {
		$product->set_regular_price( (string) ( 5 + $number ) );
		$product->set_manage_stock( 'yes' );
		$product->set_stock_quantity( in_array( $name, array( 'Bancha', 'Peru' ), true ) ? '0' : ( 'Charts' === $name ? '2' : '20' ) );
		$product->set_sale_price( in_array( $name, array( 'Ceylon', 'Mexico', 'Almanac' ), true ) ? (string) ( 3 + $number ) : '' );
	}
	if ( 'Hojicha' === $name ) {
		$product->set_sale_price( '9' );
		$product->set_date_on_sale_from( (string) ( time() + 10 * YEAR_IN_SECONDS ) );
	} elseif ( 'Jasmine' === $name ) {
		$product->set_sale_price( '8' );
		$product->set_date_on_sale_to( (string) ( time() + 10 * YEAR_IN_SECONDS ) );
	}
	$product->set_visibility( in_array( $name, array( 'Kenya', 'Gull mug' ), true ) ? array( 'featured' ) : array() );
	$id = $product->save();
	foreach ( $is_variable ? array( 10, 12, 15 ) : array() as $place => $price ) {
		variation( $id, $place, (string) $price );
	}
	wc_deferred_product_sync();
	date_of( $id, strtotime( '2023-01-01 08:00:00 UTC' ) + $number * DAY_IN_SECONDS );
}

function variation( int $parent, int $place, string $price ): void {
	$variation       = new \WC_Product();
	$variation->kind = 'variation';
	$variation->set_parent_id( $parent );
	$variation->set_name( "Variation $place" );
	$variation->set_menu_order( $place );
	$variation->set_regular_price( $price );
	$variation->set_manage_stock( 'yes' );
	$variation->set_stock_quantity( '9' );
	$variation->save();
}

/** Numbers of orders by what becomes of them. */
function orders(): void {
	$orders = array( 'pending' => 'Keemun', 'cancelled' => 'Lapsang', 'refunded' => 'Brazil', 'completed' => 'Colombia' );
	foreach ( $orders as $name => $product ) {
		$id = wc_create_order( array( post( sanitize_title( $product ) ) => 3 ) );
		if ( 'pending' !== $name ) {
			exact_shop_order_status( $id, 'processing' );
		}
		update_post_meta( $id, '_exact_name', $name );
	}
	$coupon = wp_insert_post( array( 'post_type' => 'shop_coupon', 'post_status' => 'publish', 'post_title' => 'harbour10' ) );
	update_post_meta( $coupon, '_exact_name', 'coupon' );
}

function lists(): void {
	add( 'page', 'offers', 'Offers', '[sale_products limit="12"]' );
	add( 'page', 'most-sold', 'Most sold', '[best_selling_products limit="6"]' );
	add( 'page', 'our-choice', 'Our choice', '[featured_products limit="6"]' );
	add( 'page', 'coffees', 'Coffees', '[products category="coffee" limit="12"]' );
	add( 'page', 'languages', 'Languages', '[all_languages]' );
}

/** German: translations of some posts and pages, of a category, and a menu. */
function languages(): void {
	$settings = array_merge( (array) get_option( 'polylang', array() ), array( 'default_lang' => 'en' ) );
	update_option( 'polylang', $settings );
	foreach ( get_posts( array( 'post_type' => array( 'post', 'page' ), 'post_status' => 'any', 'numberposts' => -1, 'fields' => 'ids' ) ) as $id ) {
		pll_set_post_language( $id, 'en' );
	}
	foreach ( get_terms( array( 'taxonomy' => array( 'category', 'post_tag' ), 'hide_empty' => false ) ) as $term ) {
		pll_set_term_language( $term->term_id, 'en' );
	}
	$harbour = (int) get_term_by( 'slug', 'harbour', 'category' )->term_id;
	$hafen   = (int) wp_insert_term( 'Hafen', 'category', array( 'slug' => 'hafen' ) )['term_id'];
	$kueche  = (int) wp_insert_term( 'Küche', 'category', array( 'slug' => 'kueche' ) )['term_id'];
	pll_set_term_language( $hafen, 'de' );
	pll_set_term_language( $kueche, 'de' );
	pll_save_term_translations( array( 'en' => $harbour, 'de' => $hafen ) );
	$posts = posts();
	foreach ( range( 20, 27 ) as $at ) {
		german( $posts[ $at ], 'post', "Nachricht $at", 26 === $at ? 'draft' : 'publish', $at % 2 ? $hafen : $kueche );
	}
	foreach ( array( 'about' => 'Über uns', 'contact' => 'Kontakt' ) as $slug => $title ) {
		german( post( $slug ), 'page', $title, 'publish', 0 );
	}
	// For an event that makes it a translation.
	pll_set_post_language( add( 'post', 'allein', 'Allein', 'Noch ohne Übersetzung.' ), 'de' );
	$menus = array();
	foreach ( array( 'primary', 'footer' ) as $place ) {
		$menus[ $place ] = array( 'en' => (int) ( get_nav_menu_locations()[ $place ] ?? 0 ), 'de' => 'primary' === $place ? menu( 'Hauptmenü' ) : 0 );
	}
	update_option( 'polylang', array_merge( $settings, array( 'nav_menus' => array( 'twentytwentyone' => $menus ) ) ) );
	menu( 'Anderes Menü' );
}

function german( int $of, string $type, string $title, string $status, int $category ): void {
	$id = add( $type, sanitize_title( $title ), $title, "$title, auf Deutsch.", array( 'post_category' => $category ? array( $category ) : array() ) );
	pll_set_post_language( $id, 'de' );
	if ( 'draft' === $status ) {
		wp_update_post( array( 'ID' => $id, 'post_status' => 'draft' ) );
	}
	pll_save_post_translations( array( 'en' => $of, 'de' => $id ) );
}

function menu( string $name ): int {
	$menu = wp_create_nav_menu( $name );
	wp_update_nav_menu_item( $menu, 0, array( 'menu-item-title' => "$name: Start", 'menu-item-url' => '/de/', 'menu-item-status' => 'publish' ) );
	return (int) $menu;
}

function shop_names(): void {
	global $wpdb;
	$say = static function ( string $name, $id ): void {
		echo "id $name " . (int) $id . "\n";
	};
	foreach ( get_posts( array( 'post_type' => array( 'product', 'page' ), 'post_status' => 'any', 'numberposts' => -1 ) ) as $post ) {
		$say( "$post->post_type.$post->post_name", $post->ID );
		foreach ( 'product' === $post->post_type ? wc_get_product( $post->ID )->get_children() : array() as $place => $child ) {
			$say( "variation.$post->post_name.$place", $child );
		}
	}
	foreach ( $wpdb->get_results( "SELECT post_id, meta_value FROM $wpdb->postmeta WHERE meta_key = '_exact_name'" ) as $row ) {
		$say( "order.$row->meta_value", $row->post_id );
	}
	foreach ( get_terms( array( 'taxonomy' => array( 'product_cat', 'pa_colour', 'category', 'language', 'nav_menu' ), 'hide_empty' => false ) ) as $term ) {
		$say( "$term->taxonomy.$term->slug", $term->term_id );
	}
	foreach ( posts() as $number => $id ) {
		$say( "post.$number", $id );
		foreach ( array_diff_key( pll_get_post_translations( $id ), array( 'en' => 0 ) ) as $other ) {
			$say( "german.$number", $other );
		}
	}
	$say( 'german.alone', post( 'allein' ) );
	foreach ( media() as $number => $id ) {
		$say( "media.$number", $id );
	}
	$say( 'item.start', wp_get_nav_menu_items( 'Hauptmenü' )[0]->ID );
}

function shop_pages(): void {
	$posts = get_posts( array( 'post_type' => 'product', 'numberposts' => -1, 'orderby' => 'ID', 'order' => 'ASC' ) );
	$pages = array_map( 'get_permalink', $posts );
	foreach ( get_terms( array( 'taxonomy' => array( 'product_cat', 'product_tag', 'pa_colour' ) ) ) as $term ) {
		$pages[] = get_term_link( $term );
	}
	foreach ( array( 'offers', 'most-sold', 'our-choice', 'coffees', 'languages', 'about', 'contact', 'plain', 'latest', 'uber-uns', 'kontakt' ) as $slug ) {
		$pages[] = get_permalink( post( $slug ) );
	}
	$news = posts();
	foreach ( array_merge( array( 0, 1, 2, 3, 40 ), range( 20, 28 ) ) as $at ) {
		$pages[] = get_permalink( $news[ $at ] );
		foreach ( array_diff_key( pll_get_post_translations( $news[ $at ] ), array( 'en' => 0 ) ) as $other ) {
			$pages[] = 'publish' === get_post_status( $other ) ? get_permalink( $other ) : home_url( '/de/nachricht-26/' );
		}
	}
	foreach ( array( 'harbour', 'kitchen', 'hafen', 'kueche' ) as $slug ) {
		$pages[] = get_term_link( $slug, 'category' );
	}
	$more = array( '/', '/page/2/', '/de/', '/shop/', '/shop/page/2/', '/shop/page/3/', '/shop/?orderby=price', '/shop/?orderby=popularity', '/shop/?orderby=rating', '/shop/?max_price=15', '/shop/feed/', '/feed/', '/de/feed/', '/nl/', '/de/allein/', '/de/die-faehre/', '/2024/05/', '/author/mara/', '/?s=ferry', '/product/oolong/', '/wp-json/wp/v2/product', '/wp-json/wp/v2/product/' . post( 'assam' ), '/wp-json/wp/v2/posts', '/wp-sitemap-posts-product-1.xml', '/wp-sitemap-taxonomies-product_cat-1.xml' );
	foreach ( array_unique( array_merge( $more, $pages ) ) as $target ) {
		echo 'page any ' . preg_replace( '~^https?://[^/]+~', '', (string) $target ) . "\n";
	}
}
