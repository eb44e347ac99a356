<?php
/**
 * Products of a shop: changes by an order, lists without WP_Query, and products that catalogues exclude.
 *
 * @package Galley
 */

use PHPUnit\Framework\TestCase;

final class ShopsTest extends TestCase {

	private static function state( array $differs = array() ): array {
		return array_merge(
			array(
				'type'     => 'product_variation',
				'parent'   => 4,
				'author'   => 1,
				'date'     => '2024-05-31 12:00:00',
				'modified' => '1',
				'terms'    => array(),
			),
			$differs
		);
	}

	public function test_stock_and_sales_fields_have_separate_tags(): void {
		$this->assertSame( array( 'ps7', 'o.product.m_', 'o.product.m__stock' ), Galley\field_tags( 7, 'product', array( '_stock' ), array( '_stock' ) ) );
		$this->assertSame( array( 'pm7', 'o.product.m_', 'o.product.m__price' ), Galley\field_tags( 7, 'product', array( '_price' ), array( '_price' ) ) );
		$this->assertSame( array( 'pm7', 'ps7' ), array_slice( Galley\field_tags( 7, 'product', array( 'total_sales', '_stock_status' ), array( 'total_sales', '_stock_status' ) ), 0, 2 ) );
		$this->assertSame( array( 'p7', 'pi7', 'pm7' ), array_slice( Galley\field_tags( 7, 'product', array( '_thumbnail_id' ), array( '_thumbnail_id' ) ), 0, 3 ) );
		$this->assertSame( array( 'ps', 'ps', 'pm', 'pm', 'th', '' ), array_map( 'Galley\class_of_field', array( '_stock', 'total_sales', '_price', '', '_thumbnail_id', '_edit_lock' ) ) );
	}

	public function test_writing_the_same_value_is_not_a_change(): void {
		$GLOBALS['fields_of_test'] = array( 7 => array( '_price' => array( '10', '15' ), 'new' => array( 'x' ) ) );
		$this->assertSame( array(), Galley\changed_fields( 7, array( '_price' => array( '10', '15' ) ) ) );
		$this->assertSame( array( '_price' ), Galley\changed_fields( 7, array( '_price' => array( '10', '18' ) ) ) );
		$this->assertSame( array( '_price', 'gone', 'new' ), Galley\changed_fields( 7, array( '_price' => true, 'gone' => array( 'x' ), 'new' => array() ) ) );
	}

	public function test_only_lowest_and_highest_price_of_a_product_count(): void {
		$GLOBALS['fields_of_test'] = array( 7 => array( '_price' => array( '10', '13', '15' ), 'sizes' => array( '1', '2', '3' ) ) );
		$this->assertSame( array(), Galley\changed_fields( 7, array( '_price' => array( '15.00', '12', '10' ) ) ) );
		$this->assertSame( array( '_price', 'sizes' ), Galley\changed_fields( 7, array( '_price' => array( '10', '12' ), 'sizes' => array( '3', '2', '1' ) ) ) );
		$this->assertSame( array( '', '5' ), Galley\shown_values( '_price', array( '', '5' ) ) );
	}

	public function test_a_variation_purges_pages_that_show_it(): void {
		$this->assertSame( array(), Galley\variation_tags( 4, array( '_stock' ), true, true, false ) );
		$this->assertSame( array( 'p4' ), Galley\variation_tags( 4, array( '_stock', '_stock_status' ), true, true, false ) );
		$this->assertSame( array( 'p4', 'pm4' ), Galley\variation_tags( 4, array( '_stock', '_stock_status' ), true, true, true ) );
		$this->assertSame( array( 'p4' ), Galley\variation_tags( 4, array( '_price', '_regular_price' ), true, true, false ) );
		// On sale: lists show the regular price, too.
		$this->assertSame( array( 'p4', 'pm4' ), Galley\variation_tags( 4, array( '_regular_price' ), true, true, false ) );
		$this->assertSame( array( 'p4', 'pm4' ), Galley\variation_tags( 4, array( '_price', '_sale_price' ), true, true, false ) );
		$this->assertSame( array( 'p4', 'pm4' ), Galley\variation_tags( 4, array(), false, false, false ) );
		$this->assertSame( array( 'p4' ), Galley\variation_tags( 4, array( '_stock_status' ), false, true, false ), 'only the summary differs' );
		// WooCommerce writes 0 for no picture, and the status also as a term.
		$this->assertSame( array( 'p4' ), Galley\variation_tags( 4, array( '_stock', '_stock_status', '_thumbnail_id' ), true, true, false ) );
		$state = static function ( array $changes ): array {
			return Galley\without_stock( array_merge( array( 'modified' => '1', 'picture' => 0, 'terms' => array( 'product_visibility' => array( 31 ), 'pa_color' => array( 5 ) ) ), $changes ) );
		};
		$this->assertSame( $state( array() ), $state( array( 'modified' => '2', 'terms' => array( 'pa_color' => array( 5 ) ) ) ) );
		$this->assertNotSame( $state( array() ), $state( array( 'terms' => array( 'pa_color' => array( 6 ) ) ) ) );
		$this->assertNotSame( $state( array() ), $state( array( 'picture' => 7 ) ) );
	}

	public function test_kept_lists_depend_on_the_order_that_only_the_statement_has(): void {
		$this->assertSame( array( 'oo.product.m_total_sales' ), Galley\catalog_order_tags( 'popularity' ) );
		$this->assertSame( array( 'o.product.m__wc_average_rating', 'o.product.m__wc_review_count' ), Galley\catalog_order_tags( 'rating' ) );
		$this->assertSame( array( 'o.product.m__price' ), Galley\catalog_order_tags( 'price' ) );
		foreach ( array( '', 'menu_order title', 'date ID', 'rand' ) as $order ) {
			$this->assertSame( array(), Galley\catalog_order_tags( $order ), $order );
		}
	}

	public function test_products_are_ids_or_objects(): void {
		$product = new class() {
			public function get_id(): int {
				return 9;
			}
		};
		$this->assertSame( array( 9, 7, 7, 0, 0, 0 ), array_map( 'Galley\product_id', array( $product, 7, '7', -7, array( 7 ), new stdClass() ) ) );
	}

	public function test_columns_of_the_product_lookup_table_map_to_fields(): void {
		$join  = 'LEFT JOIN wp_wc_product_meta_lookup wc_product_meta_lookup ON wp_posts.ID = wc_product_meta_lookup.product_id';
		$known = static function ( string $sql ): array {
			return Galley\read_sql( $sql, 'wp_postmeta' )['fields'];
		};
		$this->assertSame( array( 'm__price' ), $known( "$join ORDER BY wc_product_meta_lookup.min_price ASC" ) );
		$this->assertSame( array( 'm_total_sales' ), $known( "$join WHERE wc_product_meta_lookup.total_sales > 5" ) );
		$this->assertSame( Galley\ON_SALE_FIELDS, $known( "$join WHERE onsale = 1" ) );
		$this->assertSame( array( 'm_' ), $known( $join ) );
		$this->assertSame( array(), $known( 'ORDER BY min_price' ) );
	}

	public function test_the_number_of_no_picture_is_not_another_picture(): void {
		$rows = array(
			// Values before, values after, whether pages show the difference.
			array( array(), array( '0' ), false ),
			array( array( '' ), array( '0' ), false ),
			array( array( '0' ), array(), false ),
			array( array(), array( '3' ), true ),
			array( array( '3' ), array( '0' ), true ),
			array( true, array( '0' ), true ),
		);
		foreach ( $rows as $number => list( $old, $new, $is_shown ) ) {
			$GLOBALS['fields_of_test'] = array( 7 => array( '_thumbnail_id' => $new ) );
			$shown                     = Galley\shown_fields( 7, array( '_stock', '_thumbnail_id' ), array( '_thumbnail_id' => $old ) );
			$this->assertSame( $is_shown ? array( '_stock', '_thumbnail_id' ) : array( '_stock' ), $shown, "row $number" );
		}
		// Queries for the field still find another result.
		$tags = Galley\field_tags( 7, 'product_variation', array( '_stock', '_thumbnail_id' ), array( '_stock' ) );
		$this->assertSame( array( 'ps7', 'o.product_variation.m_', 'o.product_variation.m__stock', 'o.product_variation.m__thumbnail_id' ), $tags );
		$GLOBALS['fields_of_test'] = array();
	}

	public function test_a_list_sorted_by_sales_depends_on_their_order(): void {
		$join = 'LEFT JOIN wp_wc_product_meta_lookup wc_product_meta_lookup ON wp_posts.ID = wc_product_meta_lookup.product_id';
		$read = Galley\read_sql( $join, 'wp_postmeta', 'wc_product_meta_lookup.total_sales DESC, wc_product_meta_lookup.product_id DESC' );
		$this->assertSame( array( false, array(), array( 'm_total_sales' ) ), array( $read['complex'], $read['fields'], $read['ordered'] ) );
		$read = Galley\read_sql( "$join WHERE total_sales > 5", 'wp_postmeta', 'total_sales DESC, min_price' );
		$this->assertSame( array( array( 'm__price', 'm_total_sales' ), array() ), array( $read['fields'], $read['ordered'] ) );

		$vars = array( 'meta_key' => 'total_sales', 'orderby' => 'meta_value_num ID', 'meta_value' => '', 'meta_query' => array() );
		$this->assertSame( array( 'm_total_sales' ), Galley\ordered_by( $vars ) );
		$this->assertSame( array(), Galley\ordered_by( array( 'meta_value' => '5' ) + $vars ) );
		$this->assertSame( array(), Galley\ordered_by( array( 'meta_query' => array( array( 'key' => 'total_sales' ) ) ) + $vars ) );
		$this->assertSame( array(), Galley\ordered_by( array( 'meta_key' => '_price' ) + $vars ) );
		$this->assertSame( array( 'title' ), Galley\ordered_by( array( 'orderby' => 'menu_order post_title' ) ) );
		$this->assertSame( array(), Galley\ordered_by( array( 'orderby' => 'title', 'title' => 'This one' ) ) );
		$list = array( 'types' => array( 'product' ), 'ordered' => array( 'm_total_sales' ), 'pages' => 'other' );
		$this->assertContains( 'oo.product.m_total_sales', Galley\list_tags( Galley\any_list( $list ) ) );
		// With several types each change counts, because a post may overtake one of another type.
		$tags = Galley\list_tags( Galley\any_list( array( 'types' => array( 'post', 'page' ), 'ordered' => array( 'title' ), 'pages' => 'other' ) ) );
		$this->assertSame( array( 'o.post.title', 'l.post', 'o.page.title', 'l.page' ), $tags );
	}

	public function test_catalogue_tags_name_the_excluded_terms(): void {
		$list = static function ( array $known ): array {
			return Galley\list_tags( Galley\any_list( array( 'types' => array( 'product' ), 'with' => array( 8 ), 'pages' => 'other' ) + $known ) );
		};
		$this->assertSame( array( 'l.product', 'l.product.v8' ), $list( array() ) );
		$this->assertSame( array( 'l.product.t3', 'l.product.t3.v8' ), $list( array( 'terms' => array( 3 ) ) ) );
		$this->assertSame( array( 'l.product.s', 'l.product.s.v8', 'sv8' ), $list( array( 'search' => true ) ) );
	}

	public function test_conditions_on_the_product_lookup_table_are_parsed(): void {
		$join = ' LEFT JOIN wp_wc_product_meta_lookup wc_product_meta_lookup ON wp_posts.ID = wc_product_meta_lookup.product_id ';
		foreach (
			array(
				"$join wc_product_meta_lookup.min_price ASC, wc_product_meta_lookup.product_id ASC",
				"$join AND NOT (15.000000<wc_product_meta_lookup.min_price OR 0.500000>wc_product_meta_lookup.max_price )",
				"$join AND wc_product_meta_lookup.stock_status = 'instock'",
			) as $sql
		) {
			$this->assertTrue( Galley\is_of_product_table( $sql ), $sql );
		}
		foreach (
			array(
				'',
				$join . 'AND wp_posts.post_title LIKE 1',
				$join . 'AND virtual = 1',
				$join . "AND sku = 'A-1'",
				$join . 'AND product_id IN (SELECT 1)',
				$join . 'AND other.min_price = 1',
				"$join `min_price` ASC",
				"$join -- min_price",
				'AND wp_posts.ID = RAND()',
			) as $sql
		) {
			$this->assertFalse( Galley\is_of_product_table( $sql ), $sql );
		}
		$this->assertSame( array( 'join' => ' b', 'orderby' => 'new' ), Galley\added_parts( array( 'join' => 'a', 'where' => 'w', 'orderby' => 'old' ), array( 'join' => 'a b', 'where' => 'w', 'orderby' => 'new' ) ) );
		$this->assertSame( array( 'x' ), Galley\added_parts( array( '' ), array( 'x' ) ) );
	}

	public function test_bestseller_lists_have_separate_tags(): void {
		$list = array( 'types' => array( 'product' ), 'ordered' => array( 'm_total_sales' ), 'sales' => 2, 'with' => array( 8 ), 'pages' => 'other' );
		$this->assertSame( array( 'os.product.q', 'os.product.r0', 'os.product.r1' ), Galley\list_tags( Galley\any_list( $list ) ) );
	}

	public function test_unknown_sales_purge_all_lists_sorted_by_sales(): void {
		$all = array( 'os.product', 'os.product.r0', 'oo.product.m_total_sales' );
		$old = self::state( array( 'visible' => true ) );
		$new = self::state( array( 'visible' => true, 'terms' => array( 'product_visibility' => array( 8 ) ) ) );

		$GLOBALS['fields_of_test'] = array( 7 => array( 'total_sales' => array( '5' ) ) );
		$this->assertSame( array(), Galley\sales_tags( 7, $old, self::state( array( 'visible' => true, 'modified' => '2' ) ), array( '_price' => true ) ) );
		$this->assertSame( $all, Galley\sales_tags( 7, $old, $old, array( 'total_sales' => true ) ) );
		$this->assertSame( $all, Galley\sales_tags( 7, $old, $old, array( 'total_sales' => array() ) ) );
		// The product was deleted with its fields.
		$GLOBALS['fields_of_test'] = array();
		$this->assertSame( $all, Galley\sales_tags( 7, $old, null, array() ) );
		$this->assertSame( $all, Galley\sales_tags( 7, $old, $new, array() ) );
	}

	public function test_lists_of_a_language_have_separate_tags(): void {
		$list = array( 'types' => array( 'post' ), 'terms' => array( 3 ), 'with' => array( 5, 8 ), 'within' => array( 5 ), 'pages' => 'other' );
		$this->assertSame( array( 'l.post.t3.q', 'l.post.t3.w5', 'l.post.t3.w5.v8' ), Galley\list_tags( Galley\any_list( $list ) ) );
		// A post does not determine which searches find it.
		$tags = Galley\list_tags( Galley\any_list( array( 'search' => true ) + $list ) );
		sort( $tags );
		$this->assertSame( array( 'l.post.s', 'l.post.s.v5', 'l.post.s.v8', 'l.post.t3', 'l.post.t3.v5', 'l.post.t3.v8', 'sv5', 'sv8' ), $tags );

		$state = self::state( array( 'type' => 'post', 'terms' => array( 'category' => array( 3 ), 'language' => array( 5 ) ) ) );
		$lists = Galley\state_lists( $state );
		foreach ( array( 'l.post', 'l.post.t3', 'l.post.a1', 'l.post.d2024', 'l.post.par4' ) as $key ) {
			$this->assertFalse( $lists[ $key ]['conjoined'], $key );
			$this->assertTrue( $lists[ "$key.w5" ]['conjoined'], $key );
			$this->assertFalse( $lists[ "$key.w5" ]['ranked'], $key );
		}
		$this->assertTrue( $lists['l.post.t5']['conjoined'] );
		$this->assertArrayNotHasKey( 'l.post.t5.w5', $lists );
	}

	public function test_clauses_of_conjoined_taxonomies_are_extracted(): void {
		$found  = array( 'with' => array(), 'within' => array() );
		$hidden = array( 'taxonomy' => 'product_visibility', 'terms' => array( 8 ), 'operator' => 'NOT IN' );
		$german = array( 'taxonomy' => 'language', 'terms' => array( 5 ) );
		$others = array(
			array( 'taxonomy' => 'product_cat', 'terms' => array( 3 ) ),
			array( 'taxonomy' => 'language', 'terms' => array( 5 ), 'operator' => 'AND' ),
			array( 'taxonomy' => 'language', 'operator' => 'EXISTS' ),
		);
		$this->assertSame( $others, Galley\without_conjoined( array_merge( array( $hidden, $german ), $others ), $found ) );
		$this->assertSame( array( 'with' => array( 8, 5 ), 'within' => array( 5 ) ), $found );
	}

	public function test_hiding_a_product_purges_only_its_lists(): void {
		$old  = self::state( array( 'terms' => array( 'product_cat' => array( 3 ), 'product_visibility' => array( 8 ) ) ) );
		$new  = self::state( array( 'terms' => array( 'product_cat' => array( 3 ), 'product_visibility' => array( 9 ) ) ) );
		$tags = Galley\conjoined_tags( $old, $new, array( 'l.product', 'l.product.t3' ) );
		$this->assertSame( array( 'sv8', 'l.product.v8', 'l.product.t3.v8', 'sv9', 'l.product.v9', 'l.product.t3.v9' ), $tags );
		$this->assertSame( array(), Galley\conjoined_tags( $old, $old, array( 'l.product' ) ) );
	}

	public function test_price_settings_are_read_by_pages(): void {
		foreach ( array( 'calc_taxes', 'currency', 'prices_include_tax', 'stock_format', 'tax_display_shop' ) as $name ) {
			$this->assertContains( "woocommerce_$name", Galley\READ_OPTIONS );
		}
		$this->assertSame( array(), preg_grep( '/^woocommerce_/', array_intersect( Galley\READ_OPTIONS, Galley\WHOLE_OPTIONS ) ) );
	}

	public function test_a_random_order_is_the_same_for_everyone(): void {
		$ids    = range( 1, 40 );
		$one    = Galley\by_chance( $ids, '7' );
		$sorted = $one;
		sort( $sorted );
		$this->assertSame( $ids, $sorted );
		$this->assertNotSame( $ids, $one );
		$this->assertSame( $one, Galley\by_chance( array_reverse( $ids ), '7' ) );
		$this->assertNotSame( $one, Galley\by_chance( $ids, '8' ) );
		$this->assertSame( 'none', Galley\keep_product_order( array( 'orderby' => 'rand' ) )['orderby'] );
		$this->assertSame( 'none', Galley\keep_product_order( array() )['orderby'], 'the default is random' );
		$this->assertSame( 'price', Galley\keep_product_order( array( 'orderby' => 'price' ) )['orderby'] );
	}
}
