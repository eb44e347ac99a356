<?php
/**
 * Positions of fragments in a page.
 *
 * @package Galley
 */

declare(strict_types=1);

use PHPUnit\Framework\TestCase;

final class FragmentsTest extends TestCase {
	private const MARK = '0123456789abcdef0123456789abcdef';

	private static function mark( string $what, string $mark = self::MARK ): string {
		return "<!--galley-$mark-$what-->";
	}

	public function test_positions_are_those_in_the_page_without_marks(): void {
		$page                   = '<p>ä</p>' . self::mark( 'begin0' ) . '<ul></ul>' . self::mark( 'end0' ) . self::mark( 'begin1' ) . self::mark( 'end1' ) . 'end';
		list( $plain, $places ) = Galley\without_marks( $page, self::MARK );
		$this->assertSame( '<p>ä</p><ul></ul>end', $plain );
		$this->assertSame( array( array( 9, 9 ), array( 18, 0 ) ), $places );
	}

	public function test_a_fragment_without_both_marks_has_no_position(): void {
		$table = array(
			self::mark( 'begin0' ) . 'a',
			'a' . self::mark( 'end0' ),
			self::mark( 'end0' ) . 'a' . self::mark( 'begin0' ),
			self::mark( 'begin0' ) . 'a' . self::mark( 'end1' ),
			// Somebody has put a fragment into another.
			self::mark( 'begin0' ) . self::mark( 'begin1' ) . 'a' . self::mark( 'end0' ),
		);
		foreach ( $table as $page ) {
			$this->assertSame( array( 'a', array() ), Galley\without_marks( $page, self::MARK ), $page );
		}
	}

	public function test_marks_of_another_request_are_removed_and_mean_nothing(): void {
		$other = str_repeat( 'f', 32 );
		$page  = self::mark( 'begin0', $other ) . 'a' . self::mark( 'end0', $other ) . self::mark( 'begin0' ) . 'b' . self::mark( 'end0' );
		$this->assertSame( array( 'ab', array( array( 1, 1 ) ) ), Galley\without_marks( $page, self::MARK ) );
		$this->assertSame( 'ab', Galley\remove_marks( $page ) );
		$comment = '<!--galley-is-a-ship--><!-- x -->';
		$this->assertSame( $comment, Galley\remove_marks( $comment ) );
	}

	/**
	 * Authors and visitors write what they like into pages.
	 */
	public function test_what_authors_write_moves_no_position(): void {
		$other = str_repeat( 'e', 32 );
		$texts = array(
			self::mark( 'begin0', $other ),
			self::mark( 'end0', $other ) . self::mark( 'begin9000', $other ),
			'<!--galley-' . $other . '-begin99999-->',
			'<!--galley-' . $other . '-begin0',
			'<!--galley--begin0-->',
			"<!--galley-\0$other-begin0-->",
			'<!--galley-' . strtoupper( $other ) . '-end0-->',
			'<!--galley-' . self::mark( 'begin1', $other ) . "$other-begin0-->",
			"\xff\xfe\xf0\x9f ../../etc/passwd \u{202e}",
			str_repeat( '<!--galley-', 20000 ),
			str_repeat( '<!--galley-' . $other . '-begin', 20000 ),
			str_repeat( self::mark( 'begin0', $other ), 20000 ),
		);
		foreach ( $texts as $text ) {
			$page                   = $text . self::mark( 'begin0' ) . $text . 'part' . self::mark( 'end0' ) . $text;
			list( $plain, $places ) = Galley\without_marks( $page, self::MARK );
			$left                   = Galley\remove_marks( $text );
			$this->assertSame( "$left{$left}part$left", $plain );
			$this->assertSame( array( array( strlen( $left ), strlen( $left ) + 4 ) ), $places );
		}
	}

	public function test_kinds_of_blocks_count_and_not_their_order(): void {
		$this->assertSame( '-', Galley\blocks_id( array() ) );
		$one = array(
			'core/a' => true,
			'core/b' => true,
		);
		$this->assertSame( Galley\blocks_id( $one ), Galley\blocks_id( array_reverse( $one ) ) );
		$this->assertNotSame( Galley\blocks_id( $one ), Galley\blocks_id( array( 'core/a' => true ) ) );
	}

	public function test_a_fragment_that_is_printed_twice_has_no_position(): void {
		$part = self::mark( 'begin0' ) . 'a' . self::mark( 'end0' );
		$this->assertSame( array( 'aba', array() ), Galley\without_marks( $part . 'b' . $part, self::MARK ) );
	}

	public function test_escaped_marks_are_removed(): void {
		foreach ( array( array( '&lt;', '&gt;' ), array( '&#060;', '&#62;' ), array( '\\u003C', '\\u003e' ), array( '%3C', '%3E' ) ) as list( $open, $close ) ) {
			$this->assertSame( 'ab', Galley\remove_marks( "a$open!--galley-" . self::MARK . "-end12--{$close}b" ) );
		}
	}

	private static function item( array $fields ): object {
		return (object) ( $fields + array(
			'ID'               => 1,
			'menu_item_parent' => '0',
			'type'             => 'taxonomy',
			'object'           => 'category',
			'object_id'        => '3',
			'url'              => 'https://a.test/',
			'title'            => 'Kitchen',
			'classes'          => array( '', 'menu-item' ),
		) );
	}

	public function test_a_menu_is_known_by_its_items_and_not_by_titles_or_marks(): void {
		$known = Galley\menu_structure( array( self::item( array() ) ) );
		$same  = array(
			array( 'title' => 'The galley' ),
			array( 'url' => 'https://a.test/other/' ),
			array( 'classes' => array( '', 'menu-item', 'current-menu-item', 'page_item', 'page-item-3' ) ),
		);
		foreach ( $same as $fields ) {
			$this->assertSame( $known, Galley\menu_structure( array( self::item( $fields ) ) ) );
		}
		$others = array(
			array( 'ID' => 2 ),
			array( 'menu_item_parent' => '5' ),
			array( 'object_id' => '4' ),
			array( 'classes' => array( 'wide' ) ),
		);
		foreach ( $others as $fields ) {
			$this->assertNotSame( $known, Galley\menu_structure( array( self::item( $fields ) ) ) );
		}
	}

	public function test_marks_of_a_menu_are_those_of_current_items_alone(): void {
		$current = self::item(
			array(
				'ID'      => 7,
				'current' => true,
				'classes' => array( 'menu-item', 'current-menu-item' ),
			)
		);
		$this->assertSame( array( 7 => array( array( 'menu-item', 'current-menu-item' ), 1, 0, 0 ) ), Galley\menu_marks( array( self::item( array() ), $current ) ) );
	}

	public function test_a_menu_with_a_walker_is_no_fragment(): void {
		$this->assertSame( array( 'depth' => 1 ), Galley\plain_arguments( array( 'depth' => 1, 'echo' => true ) ) );
		$this->assertNull( Galley\plain_arguments( array( 'walker' => new stdClass() ) ) );
	}

	public function test_only_names_that_every_database_sorts_alike_are_in_plain_order(): void {
		$this->assertTrue( Galley\is_plain_order( array( 'boats', 'Harbour' ) ) );
		$this->assertFalse( Galley\is_plain_order( array( 'Harbour', 'boats' ) ) );
		$this->assertFalse( Galley\is_plain_order( array( 'Ämter', 'Boats' ) ) );
	}

	public function test_arguments_of_a_menu_that_say_nothing_new_are_left_out(): void {
		$args = array(
			'container'  => 'div',
			'menu_class' => 'menu',
			'menu_id'    => 'main',
			'depth'      => 2,
			'items_wrap' => '<ul id="%1$s" class="%2$s">%3$s</ul>',
			'walker'     => '',
			'own'        => null,
		);
		$this->assertSame( array( 'menu_id' => 'main', 'depth' => 2, 'own' => null ), Galley\plain_arguments( $args ) );
	}

	public function test_classes_of_terms_do_not_stand_in_the_order_of_their_names(): void {
		$terms = array();
		foreach ( array( 5 => 'Boats', 3 => 'Harbour', 9 => 'Kitchen' ) as $id => $name ) {
			$terms[] = (object) array(
				'term_id' => $id,
				'name'    => $name,
			);
		}
		$this->assertSame( array( 3, 5, 9 ), array_column( Galley\by_number( $terms ), 'term_id' ) );
	}

	public function test_a_page_marks_categories_only_where_it_is_about_a_term(): void {
		$this->assertSame( array( 'pl3', 'tl3' ), Galley\marked_tags( array( 3 ), true, false ) );
		$this->assertSame( array( 'pl3', 'pl8' ), Galley\marked_tags( array( 3, 8 ), false, false ) );
		$this->assertSame( array(), Galley\marked_tags( array(), false, false ) );
	}

	public function test_a_page_about_a_month_marks_months(): void {
		$this->assertSame( array( 'ar.post', 'l.post' ), Galley\marked_tags( array(), false, true ) );
		$this->assertSame( array( 'year' => 2024 ), Galley\date_vars( '2024' ) );
		$this->assertSame(
			array(
				'year'     => 2024,
				'monthnum' => 5,
				'day'      => 31,
			),
			Galley\date_vars( '20240531' )
		);
	}

	private static function signed( string $text, string $salt = 'salt of this site' ): string {
		$text = base64_encode( $text );
		return $text . '.' . hash_hmac( 'md5', $text, $salt );
	}

	public function test_only_definitions_that_this_site_has_signed_are_read(): void {
		$known  = array( 'widget' => 'search-2' );
		$signed = Galley\signed_definition( $known );
		$this->assertSame( $known, Galley\read_definition( $signed ) );
		list( $text, $signature ) = explode( '.', $signed );
		$other                    = base64_encode( '[1,{"widget":"other-2"}]' );
		$forged                   = array(
			'',
			'.',
			$text,
			"$text.",
			".$signature",
			"$text.$signature.$signature",
			"$text." . strtoupper( $signature ),
			"$text." . substr( $signature, 0, -1 ),
			"$text.0",
			"$other.$signature",
			self::signed( '[1,{"widget":"search-2"}]', 'salt of another site' ),
			"$text." . md5( $text ),
		);
		foreach ( $forged as $definition ) {
			$this->assertNull( Galley\read_definition( $definition ), $definition );
		}
	}

	public function test_signed_definitions_of_another_blog_or_form_are_not_read(): void {
		$own = self::signed( '[1,{"widget":"search-2"}]' );
		$this->assertSame( array( 'widget' => 'search-2' ), Galley\read_definition( $own ) );
		foreach ( array( '[2,{"widget":"search-2"}]', '["1",{"widget":"search-2"}]', '[1,"search-2"]', '[1]', '{"widget":"search-2"}', 'null', '' ) as $text ) {
			$this->assertNull( Galley\read_definition( self::signed( $text ) ), $text );
		}
	}
}
