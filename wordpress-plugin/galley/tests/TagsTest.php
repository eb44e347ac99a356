<?php
/**
 * Format of tags in header fields, and the tags of lists.
 *
 * @package Galley
 */

use PHPUnit\Framework\TestCase;

final class TagsTest extends TestCase {

	public function test_invalid_words_are_hashed(): void {
		foreach ( array( 'post' => 'post', 'a/b.c-d_e' => 'a/b.c-d_e' ) as $text => $expected ) {
			$this->assertSame( $expected, Galley\word( $text ) );
		}
		foreach ( array( '', 'a,b', 'a b', "a\nb", 'é', str_repeat( 'x', 49 ) ) as $text ) {
			$this->assertMatchesRegularExpression( '/^~[0-9a-f]{12}$/D', Galley\word( $text ) );
		}
		$this->assertNotSame( Galley\word( 'a b' ), Galley\word( 'a c' ) );
	}

	public function test_lines_have_a_limited_length_and_contain_all_words(): void {
		$words = array_map( static function ( int $n ): string { return "p$n"; }, range( 1, 5000 ) );
		$lines = Galley\lines( $words );
		$this->assertSame( $words, explode( ',', implode( ',', $lines ) ) );
		foreach ( $lines as $line ) {
			$this->assertLessThanOrEqual( Galley\MAX_LINE_BYTES, strlen( $line ) );
		}
		$this->assertSame( array( 'stale,a,b' ), Galley\lines( array( 'a', 'b' ), 'stale,' ) );
		$this->assertSame( array(), Galley\lines( array() ) );
	}

	public function test_too_many_tags_collapse_by_the_largest_class(): void {
		$tags = array( 'b', 'l.post', 'u1', 'p1', 'p2', 'pl1', 'pl2', 'pl3', '2.pl1' );
		$this->assertSame( $tags, Galley\collapsed( $tags, 9 ) );
		$this->assertSame( array( 'b', 'l.post', 'u1', 'p1', 'p2', '2.pl1', 'pl' ), Galley\collapsed( $tags, 8 ) );
		$this->assertSame( array( 'b', 'l.post', 'u1', '2.pl1', 'pl', 'p' ), Galley\collapsed( $tags, 6 ) );
		$this->assertSame( array( '*' ), Galley\collapsed( array( 'a.b', 'c.d' ), 1 ) );
		$this->assertSame( array( 'pl' ), Galley\collapsed( array( 'pl1', 'pl22222' ), 9, 8 ) );
	}

	public function test_a_tag_of_a_class_matches_the_class(): void {
		$this->assertSame( array( 'p12', 'p', 'l.post' ), Galley\with_classes( array( 'p12', 'l.post' ) ) );
		foreach ( Galley\collapsed( array( 'pl1', 'pl2', 'tl3', 'n.x' ), 3 ) as $tag ) {
			$this->assertContains( $tag, Galley\with_classes( array( 'pl2', 'tl3', 'n.x' ) ) );
		}
	}

	/**
	 * @return array[]
	 */
	public static function lists(): array {
		$top = array( 'depth' => 10, 'pages' => 'standard' );
		return array(
			'the front page'          => array( array( 'types' => array( 'post' ) ) + $top, array( 'l.post.q', 'l.post.r0', 'l.post.r1', 'l.post.r2', 'l.post.r3', 'l.post.r4', 'l.post.r5', 'l.post.r6', 'l.post.r7', 'l.post.r8', 'l.post.r9', 'l.post.n' ) ),
			'a widget of five'        => array( array( 'types' => array( 'post' ), 'depth' => 5 ), array( 'l.post.q', 'l.post.r0', 'l.post.r1', 'l.post.r2', 'l.post.r3', 'l.post.r4' ) ),
			'all'                     => array( array( 'types' => array( 'post', 'page' ) ), array( 'l.post', 'l.page' ) ),
			'a very long list'        => array( array( 'types' => array( 'post' ), 'depth' => 501 ), array( 'l.post' ) ),
			'an unusual page size'    => array( array( 'types' => array( 'post' ), 'depth' => 7, 'pages' => 'other' ), array( 'l.post' ) ),
			'two categories'          => array( array( 'types' => array( 'post' ), 'terms' => array( 3, 4 ) ) + $top, array( 'l.post.t3.q', 'l.post.t3.r0', 'l.post.t3.r1', 'l.post.t3.r2', 'l.post.t3.r3', 'l.post.t3.r4', 'l.post.t3.r5', 'l.post.t3.r6', 'l.post.t3.r7', 'l.post.t3.r8', 'l.post.t3.r9', 'l.post.t3.n', 'l.post.t4.q', 'l.post.t4.r0', 'l.post.t4.r1', 'l.post.t4.r2', 'l.post.t4.r3', 'l.post.t4.r4', 'l.post.t4.r5', 'l.post.t4.r6', 'l.post.t4.r7', 'l.post.t4.r8', 'l.post.t4.r9', 'l.post.t4.n' ) ),
			'a category of an author' => array( array( 'types' => array( 'post' ), 'terms' => array( 3 ), 'authors' => array( 2 ) ) + $top, array( 'l.post.t3', 'l.post.a2' ) ),
			'an author in a year'     => array( array( 'types' => array( 'post' ), 'authors' => array( 2 ), 'dates' => array( '2024' ) ), array( 'l.post.a2', 'l.post.d2024' ) ),
			'the start of a month'    => array( array( 'types' => array( 'post' ), 'dates' => array( '202405' ) ) + $top, array( 'l.post.d202405.q', 'l.post.d202405.r0', 'l.post.d202405.r1', 'l.post.d202405.r2', 'l.post.d202405.r3', 'l.post.d202405.r4', 'l.post.d202405.r5', 'l.post.d202405.r6', 'l.post.d202405.r7', 'l.post.d202405.r8', 'l.post.d202405.r9', 'l.post.d202405.n' ) ),
			'a month'                 => array( array( 'types' => array( 'post' ), 'dates' => array( '202405' ) ), array( 'l.post.d202405' ) ),
			'children'                => array( array( 'types' => array( 'page' ), 'parents' => array( 7 ), 'sorted' => array( 'menu_order' ) ), array( 'o.page.menu_order.par7', 'l.page.par7' ) ),
			'a search'                => array( array( 'types' => array( 'post' ), 'search' => true ), array( 'l.post.s' ) ),
			'a search for a word'     => array( array( 'types' => array( 'post', 'page' ), 'search' => true, 'word' => 'ferry' ), array( 'l.post.s.ferry', 'l.page.s.ferry' ) ),
			'all posts of a list'     => array( array( 'types' => array( 'post' ), 'members' => array( 7, 8 ) ), array( 'l.post.q', 'l.post.in', 'l.post.p7', 'l.post.p8' ) ),
			'members, two conditions' => array( array( 'types' => array( 'post' ), 'terms' => array( 3 ), 'authors' => array( 2 ), 'members' => array( 7 ) ), array( 'l.post.t3.q', 'l.post.t3.in', 'l.post.t3.p7', 'l.post.a2.q', 'l.post.a2.in', 'l.post.a2.p7' ) ),
			'members, no children'    => array( array( 'types' => array( 'page' ), 'parents' => array( 7 ), 'members' => array() ), array( 'l.page.par7.q', 'l.page.par7.in' ) ),
			'members of the newest'   => array( array( 'types' => array( 'post' ), 'depth' => 2, 'members' => array( 7, 8 ) ), array( 'l.post.q', 'l.post.r0', 'l.post.r1' ) ),
			'too many members'        => array( array( 'types' => array( 'post' ), 'terms' => array( 3, 4 ), 'members' => range( 1, 31 ) ), array( 'l.post.t3', 'l.post.t4' ) ),
			'a search in a category'  => array( array( 'types' => array( 'post' ), 'search' => true, 'terms' => array( 3 ) ), array( 'l.post.s', 'l.post.t3' ) ),
			'IDs in a category'       => array( array( 'types' => array( 'post' ), 'ids' => array( 1 ), 'terms' => array( 3 ), 'narrowed' => true ), array( 'pl1', 'pt1', 'l.post.t3' ) ),
			'IDs without a term'      => array( array( 'types' => array( 'product' ), 'ids' => array( 1, 2 ), 'with' => array( 8 ), 'narrowed' => true, 'pages' => 'other' ), array( 'pl1', 'pt1', 'pl2', 'pt2' ) ),
			'IDs of an author'        => array( array( 'types' => array( 'post' ), 'ids' => array( 1 ), 'authors' => array( 2 ), 'narrowed' => true, 'pages' => 'other' ), array( 'pl1', 'pa1', 'l.post.a2' ) ),
			'IDs among children'      => array( array( 'types' => array( 'page' ), 'ids' => array( 1 ), 'parents' => array( 7 ), 'narrowed' => true ), array( 'pl1', 'p1', 'l.page.par7' ) ),
			'IDs, unknown conditions' => array( array( 'types' => array( 'post' ), 'ids' => array( 1 ), 'complex' => true, 'narrowed' => true ), array( 'pl1', 'pt1', 'p1', 'l.post.x', 'l.post.xv' ) ),
			'slugs without a term'    => array( array( 'types' => array( 'product' ), 'slugs' => array( 'a' ), 'with' => array( 8 ), 'narrowed' => true, 'pages' => 'other' ), array( 'n.a', 'l.product.v8' ) ),
			'a complex query'         => array( array( 'types' => array( 'post' ), 'complex' => true ), array( 'l.post.x', 'l.post.xv' ) ),
			'a filtered query'        => array( array( 'types' => array( 'post' ), 'complex' => true, 'filtered' => true, 'with' => array( 8 ) ), array( 'l.post.x', 'l.post.x.v8' ) ),
			'by ID'                   => array( array( 'types' => array( 'post' ), 'ids' => array( 1, 2 ) ), array( 'pl1', 'pl2' ) ),
			'by name'                 => array( array( 'types' => array( 'post' ), 'slugs' => array( 'a' ) ), array( 'n.a' ) ),
			'drafts as well'          => array( array( 'types' => array( 'post' ), 'any_status' => true ), array( 'l.post.z', 'l.post' ) ),
			'no post types'           => array( array(), array() ),
		);
	}

	/**
	 * @dataProvider lists
	 */
	public function test_list_tags( array $list, array $expected ): void {
		$this->assertSame( $expected, Galley\list_tags( Galley\any_list( $list ) ) );
	}

	/**
	 * A purge for a rank matches each list that reaches the rank and no others.
	 */
	public function test_rank_tags_match_lists_that_reach_the_rank(): void {
		foreach ( array_merge( range( 0, 120 ), array( 499, 500, 501, 9999 ) ) as $rank ) {
			$purges = Galley\rank_tags( 'l.post', $rank );
			$this->assertContains( 'l.post', $purges );
			// A post is in many lists, and the number of purges per request is limited.
			$this->assertLessThanOrEqual( 2, count( $purges ) );
			foreach ( range( 1, 130 ) as $reach ) {
				$tags    = Galley\list_tags( Galley\any_list( array( 'types' => array( 'post' ), 'depth' => $reach ) ) );
				$touched = (bool) array_intersect( $tags, $purges );
				if ( $rank < $reach ) {
					$this->assertTrue( $touched, "a list of $reach, rank $rank" );
				} elseif ( ! array_intersect( range( $reach, $rank ), Galley\STEPS ) ) {
					continue;
				} else {
					$this->assertFalse( $touched, "a list of $reach, rank $rank" );
				}
			}
		}
	}

	public function test_theme_mods_that_were_read(): void {
		$filters = array( 'the_title' => 9, 'pre_option_theme_mods_x' => 3, 'theme_mod_custom_logo' => 2, 'theme_mod_background_color' => 1 );
		$this->assertSame( array( 'tm.custom_logo', 'tm.background_color' ), Galley\mods_read( $filters, 'x', true ) );
		$this->assertSame( array( 'tm.custom_logo' ), Galley\mods_read( $filters, 'x', false ) );
		$this->assertContains( 'tm', Galley\mods_read( array( 'pre_option_theme_mods_x' => 4 ) + $filters, 'x', true ) );
		$this->assertSame( array( 'tm' ), Galley\mods_read( array(), 'x', true ) );
	}

	public function test_printed_titles_are_found(): void {
		$shown = array(
			'The pier'     => '<figcaption>the &#8220;pier&#8221;</figcaption>',
			"Anna's boat"  => '<p>anna&#8217;s boat</p>',
			'Übersee'      => '<p>Übersee</p>',
			''             => '<p></p>',
			'IMG_1'        => '<p>img_1</p>',
		);
		foreach ( $shown as $title => $page ) {
			$this->assertTrue( Galley\prints_title( $page, (string) $title ), (string) $title );
		}
		$this->assertTrue( Galley\prints_title( "the \xff pier", 'The pier' ) );
		foreach ( array( 'the long pier', '<img src="/uploads/the-pier.jpg">', '<p>other piers</p>' ) as $page ) {
			$this->assertFalse( Galley\prints_title( $page, 'The pier' ), $page );
		}
	}

	public function test_parts_are_removed_as_often_as_they_are_listed(): void {
		$this->assertSame( '<alt="x">', Galley\without( '<alt="x"alt="x"alt="x">', array( 'alt="x"', '', 'alt="x"', 'alt="y"' ) ) );
	}

	public function test_query_conditions_are_parsed(): void {
		$this->assertSame( array( '202405' ), Galley\dates_of( array( 'year' => 2024, 'monthnum' => 5 ) ) );
		$this->assertSame( array( '20240531' ), Galley\dates_of( array( 'm' => '20240531120000' ) ) );
		$this->assertSame( array(), Galley\dates_of( array( 'm' => '12' ) ) );
		$this->assertSame( array( 3 ), Galley\authors_of( array( 'author' => 3 ) ) );
		$this->assertSame( array(), Galley\authors_of( array( 'author' => '-3' ) ) );
		$this->assertSame( array( 0 ), Galley\parents_of( array( 'post_parent' => 0 ) ) );
		$this->assertSame( array(), Galley\parents_of( array( 'post_parent' => '' ) ) );
		$this->assertSame( array( 'title', 'm_price', 'm_stock' ), Galley\sorted_by( array( 'orderby' => 'post_title date', 'meta_key' => 'price', 'meta_query' => array( array( array( 'key' => 'stock' ) ) ) ) ) );
		$this->assertSame( array( 'password', 'm_' ), Galley\filtered_fields( array( 'has_password' => false, 'title' => '', 'author__not_in' => array(), 'meta_query' => array( array( 'value' => 'x' ) ) ) ) );
		$this->assertSame( array( 'm_' ), Galley\filtered_fields( array( 'meta_query' => array( array( 'key' => 'a', 'compare_key' => 'LIKE' ) ) ) ) );
		$this->assertSame( array( 'm_a', 'm_0', 'm_b' ), Galley\filtered_fields( array( 'meta_key' => array( 'a', '', '0', 'b', array( 'c' ) ) ) ) );
		$this->assertTrue( Galley\is_by_time( array( 'hour' => 0 ) ) );
		$this->assertTrue( Galley\is_by_time( array( 'monthnum' => 5 ) ) );
		$this->assertFalse( Galley\is_by_time( array( 'year' => 2024, 'monthnum' => 5, 'day' => 0, 'hour' => '', 'w' => 0, 'm' => '' ) ) );
		$this->assertSame( array( 'menu_order', 'author' ), Galley\sorted_pages( array( 'sort_column' => 'menu_order, post_title', 'authors' => '2' ), false ) );
		$this->assertSame( array( 'menu_order' ), Galley\sorted_by( array( 'orderby' => array( 'menu_order' => 'ASC' ) ) ) );
	}

	public function test_sql_added_by_filters_is_parsed(): void {
		$this->assertSame( array( 'complex' => false, 'search' => false, 'fields' => array(), 'ordered' => array() ), Galley\read_sql( '', 'wp_postmeta' ) );
		$read = Galley\read_sql( ' JOIN wp_postmeta m ON 1 WHERE wp_posts.post_title LIKE 1 AND post_content = 2', 'wp_postmeta' );
		$this->assertSame( array( 'complex' => true, 'search' => true, 'fields' => array( 'title', 'm_' ), 'ordered' => array() ), $read );
	}

	public function test_other_formats_than_html_are_recognized(): void {
		$rows = array(
			array( array(), '/about/', false ),
			array( array( 'Content-Type: text/html; charset=UTF-8' ), '/about/', false ),
			array( array( 'content-type:application/xhtml+xml' ), '/about/', false ),
			array( array( 'Content-Type: text/html', 'Content-Type: text/xml; charset=UTF-8' ), '/post-list.xml', true ),
			array( array( 'Content-Type: application/json' ), '/?data=1', true ),
			array( array( 'Content-Type: text/calendar' ), '/events/', true ),
			array( array( 'Content-Type: text/html' ), '/Sitemap/', true ),
			array( array( 'X-Content-Type: text/xml' ), '/about/', false ),
		);
		foreach ( $rows as list( $fields, $address, $expected ) ) {
			$this->assertSame( $expected, Galley\is_foreign_format( $fields, $address, array( 'b', 'pl5' ) ), $address . implode( $fields ) );
		}
		foreach ( array( 'p7', '2.l.post.q' ) as $tag ) {
			$this->assertFalse( Galley\is_foreign_format( array( 'Content-Type: application/json' ), '/graphql', array( 'b', $tag ) ), $tag );
			$this->assertTrue( Galley\is_foreign_format( array( 'Content-Type: application/rss+xml' ), '/feed/products/', array( 'b', $tag ) ), $tag );
		}
	}

	public function test_other_formats_depend_on_all_properties_of_what_they_name(): void {
		$this->assertSame( array( 'p5', 'tc5', '2.t3', '2.tc3', 'c5', 'tc5', 'p', 'tc' ), Galley\tags_of_anything( array( 'b', 'pl5', '2.tl3', 'cn5', 'pl', 'op.x', 'u1', 'l.post.r0' ), false ) );
		$this->assertSame( array(), Galley\tags_of_anything( array( 'b', '2.p7', '2.l.post.q' ), false ) );
		// One post may be the channel of a feed whose items come from a file.
		$this->assertSame( array( '*' ), Galley\tags_of_anything( array( 'b', '2.p7' ), false ) );
		// Of a file, nothing is known. WordPress looks for the newest posts at an address that it does not know.
		$this->assertSame( array( '*' ), Galley\tags_of_anything( array( 'b', 'op.x', 'ot', 'u1', 'l.post.r0', 'home' ), false ) );
		$this->assertSame( array(), Galley\tags_of_anything( array( 'b', 'op.x' ), true ) );
	}

	public function test_lists_of_named_terms_know_whether_others_can_enter(): void {
		$rows = array(
			array( array(), 3, false ),
			array( array( 'include' => array( 3, 4 ) ), 1, true ),
			array( array( 'slug' => 'a' ), 1, true ),
			array( array( 'slug' => 'a' ), 0, false ),
			array( array( 'slug' => array( 'a', 'b' ) ), 1, false ),
			array( array( 'name' => array( 'a', 'b' ), 'slug' => '' ), 2, true ),
		);
		foreach ( $rows as $number => list( $arguments, $found, $expected ) ) {
			$this->assertSame( $expected, Galley\finds_named_terms( $arguments, $found ), "row $number" );
		}
		$this->assertSame( array( 'm_order', 'm_' ), Galley\meta_conditions( array( 'meta_key' => 'order', 'meta_query' => array( array( 'value' => 1 ) ), 'title' => 'x' ) ) );
	}
}
