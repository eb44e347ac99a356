<?php
/**
 * Positions of fragments in a page.
 *
 * @package Galley
 */

declare(strict_types=1);

use PHPUnit\Framework\TestCase;

final class FragmentsTest extends TestCase {
	private const MARKER_ID = '0123456789abcdef0123456789abcdef';

	private static function marker( string $kind, string $id = self::MARKER_ID ): string {
		return "<!--galley-$id-$kind-->";
	}

	public function test_positions_refer_to_the_page_without_markers(): void {
		$page                      = '<p>ä</p>' . self::marker( 'begin0' ) . '<ul></ul>' . self::marker( 'end0' ) . self::marker( 'begin1' ) . self::marker( 'end1' ) . 'end';
		list( $plain, $positions ) = Galley\without_marks( $page, self::MARKER_ID );
		$this->assertSame( '<p>ä</p><ul></ul>end', $plain );
		$this->assertSame( array( array( 9, 9 ), array( 18, 0 ) ), $positions );
	}

	public function test_a_fragment_without_both_markers_has_no_position(): void {
		$table = array(
			self::marker( 'begin0' ) . 'a',
			'a' . self::marker( 'end0' ),
			self::marker( 'end0' ) . 'a' . self::marker( 'begin0' ),
			self::marker( 'begin0' ) . 'a' . self::marker( 'end1' ),
			// Nested fragments.
			self::marker( 'begin0' ) . self::marker( 'begin1' ) . 'a' . self::marker( 'end0' ),
		);
		foreach ( $table as $page ) {
			$this->assertSame( array( 'a', array() ), Galley\without_marks( $page, self::MARKER_ID ), $page );
		}
	}

	public function test_markers_of_another_request_are_removed_and_ignored(): void {
		$other = str_repeat( 'f', 32 );
		$page  = self::marker( 'begin0', $other ) . 'a' . self::marker( 'end0', $other ) . self::marker( 'begin0' ) . 'b' . self::marker( 'end0' );
		$this->assertSame( array( 'ab', array( array( 1, 1 ) ) ), Galley\without_marks( $page, self::MARKER_ID ) );
		$this->assertSame( 'ab', Galley\remove_marks( $page ) );
		$comment = '<!--galley-is-a-ship--><!-- x -->';
		$this->assertSame( $comment, Galley\remove_marks( $comment ) );
	}

	/**
	 * Authors and commenters can write arbitrary text into pages.
	 */
	public function test_forged_markers_do_not_move_positions(): void {
		$other = str_repeat( 'e', 32 );
		$texts = array(
			self::marker( 'begin0', $other ),
			self::marker( 'end0', $other ) . self::marker( 'begin9000', $other ),
			'<!--galley-' . $other . '-begin99999-->',
			'<!--galley-' . $other . '-begin0',
			'<!--galley--begin0-->',
			"<!--galley-\0$other-begin0-->",
			'<!--galley-' . strtoupper( $other ) . '-end0-->',
			'<!--galley-' . self::marker( 'begin1', $other ) . "$other-begin0-->",
			"\xff\xfe\xf0\x9f ../../etc/passwd \u{202e}",
			str_repeat( '<!--galley-', 20000 ),
			str_repeat( '<!--galley-' . $other . '-begin', 20000 ),
			str_repeat( self::marker( 'begin0', $other ), 20000 ),
		);
		foreach ( $texts as $text ) {
			$page                      = $text . self::marker( 'begin0' ) . $text . 'part' . self::marker( 'end0' ) . $text;
			list( $plain, $positions ) = Galley\without_marks( $page, self::MARKER_ID );
			$remaining                 = Galley\remove_marks( $text );
			$this->assertSame( "$remaining{$remaining}part$remaining", $plain );
			$this->assertSame( array( array( strlen( $remaining ), strlen( $remaining ) + 4 ) ), $positions );
		}
	}

	public function test_blocks_id_does_not_depend_on_order(): void {
		$this->assertSame( '-', Galley\blocks_id( array() ) );
		$one = array(
			'core/a' => true,
			'core/b' => true,
		);
		$this->assertSame( Galley\blocks_id( $one ), Galley\blocks_id( array_reverse( $one ) ) );
		$this->assertNotSame( Galley\blocks_id( $one ), Galley\blocks_id( array( 'core/a' => true ) ) );
	}

	public function test_only_code_of_plugins_may_print_what_it_has_kept(): void {
		$printed = array( 'Reviews' => array( 'c7' => true ) );
		$this->assertTrue( Galley\may_print_kept( array( 'sidebar' => 'a', 'widget' => 'b-2' ), $printed ) );
		$this->assertTrue( Galley\may_print_kept( array( 'block' => array() ), $printed ) );
		$this->assertFalse( Galley\may_print_kept( array( 'block' => array() ), array() ) );
		$this->assertFalse( Galley\may_print_kept( array( 'menu' => 5 ), $printed ) );
		$this->assertFalse( Galley\may_print_kept( array( 'terms' => array( 5 ) ), $printed ) );
	}

	public function test_a_fragment_printed_twice_has_no_position(): void {
		$part = self::marker( 'begin0' ) . 'a' . self::marker( 'end0' );
		$this->assertSame( array( 'aba', array() ), Galley\without_marks( $part . 'b' . $part, self::MARKER_ID ) );
	}

	public function test_escaped_markers_are_removed(): void {
		foreach ( array( array( '&lt;', '&gt;' ), array( '&#060;', '&#62;' ), array( '\\u003C', '\\u003e' ), array( '%3C', '%3E' ) ) as list( $open, $close ) ) {
			$this->assertSame( 'ab', Galley\remove_marks( "a$open!--galley-" . self::MARKER_ID . "-end12--{$close}b" ) );
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

	public function test_menu_structure_depends_on_items_but_not_on_titles_or_current_classes(): void {
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

	public function test_menu_marks_contain_only_current_items(): void {
		$current = self::item(
			array(
				'ID'      => 7,
				'current' => true,
				'classes' => array( 'menu-item', 'current-menu-item' ),
			)
		);
		$this->assertSame( array( 7 => array( array( 'menu-item', 'current-menu-item' ), 1, 0, 0 ) ), Galley\menu_marks( array( self::item( array() ), $current ) ) );
	}

	public function test_a_menu_with_a_walker_is_not_a_fragment(): void {
		$this->assertSame( array( 'depth' => 1 ), Galley\plain_arguments( array( 'depth' => 1, 'echo' => true ) ) );
		$this->assertNull( Galley\plain_arguments( array( 'walker' => new stdClass() ) ) );
	}

	/** @return string[] */
	private static function tags_of_last_fragment(): array {
		Galley\end_fragment();
		return array_keys( array_column( $GLOBALS['galley_fragments'], 'tags' )[ count( $GLOBALS['galley_fragments'] ) - 1 ] );
	}

	public function test_code_that_prints_again_from_memory_has_the_tags_of_before(): void {
		$before = array( $GLOBALS['galley_tags'], $GLOBALS['galley_fragments'], $GLOBALS['galley_printed'] );
		Galley\begin_fragment( 'first', array() );
		Galley\note_code( 'Reviews' );
		Galley\tag( 'lc' );
		$this->assertSame( array( 'lc' ), self::tags_of_last_fragment() );
		Galley\begin_fragment( 'other code', array() );
		Galley\note_code_of_shortcode( '', 'news' );
		Galley\tag( 'l.post' );
		$this->assertSame( array( 'l.post' ), self::tags_of_last_fragment() );
		Galley\begin_fragment( 'code of WordPress', array() );
		Galley\note_code_of_block( '', array( 'blockName' => 'core/calendar' ) );
		$this->assertSame( array(), self::tags_of_last_fragment() );
		Galley\begin_fragment( 'from memory', array() );
		Galley\note_code( 'Reviews' );
		Galley\note_code_of_shortcode( '', 'news' );
		Galley\tag( 'w.2' );
		$this->assertSame( array( 'w.2', 'lc', 'l.post' ), self::tags_of_last_fragment() );
		$GLOBALS['galley_tags'] = array( 'ht' => true );
		Galley\note_code( 'Other' );
		$this->assertSame( array( 'ht' ), array_keys( $GLOBALS['galley_tags'] ) );
		Galley\note_code( 'Reviews' );
		$this->assertSame( array( 'ht', 'w.2', 'lc' ), array_keys( $GLOBALS['galley_tags'] ), 'in the page' );
		Galley\begin_fragment( 'canceled', array() );
		Galley\note_code_of_shortcode( '', 'news' );
		Galley\cancel_fragment();
		$this->assertArrayHasKey( 'l.post', $GLOBALS['galley_tags'], 'a canceled fragment is part of the page' );
		list( $GLOBALS['galley_tags'], $GLOBALS['galley_fragments'], $GLOBALS['galley_printed'] ) = $before;
	}

	public function test_plain_order_requires_names_that_all_databases_sort_alike(): void {
		$this->assertTrue( Galley\is_plain_order( array( 'boats', 'Harbour' ) ) );
		$this->assertFalse( Galley\is_plain_order( array( 'Harbour', 'boats' ) ) );
		$this->assertFalse( Galley\is_plain_order( array( 'Ämter', 'Boats' ) ) );
	}

	public function test_default_menu_arguments_are_omitted(): void {
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

	public function test_term_classes_are_ordered_by_id(): void {
		$terms = array();
		foreach ( array( 5 => 'Boats', 3 => 'Harbour', 9 => 'Kitchen' ) as $id => $name ) {
			$terms[] = (object) array(
				'term_id' => $id,
				'name'    => $name,
			);
		}
		$this->assertSame( array( 3, 5, 9 ), array_column( Galley\by_number( $terms ), 'term_id' ) );
	}

	public function test_category_markers_depend_on_the_term_of_the_page(): void {
		$this->assertSame( array( 'pl3', 'tl3' ), Galley\marked_tags( array( 3 ), true, false ) );
		$this->assertSame( array( 'pl3', 'pl8' ), Galley\marked_tags( array( 3, 8 ), false, false ) );
		$this->assertSame( array(), Galley\marked_tags( array(), false, false ) );
	}

	public function test_a_date_archive_has_the_tags_of_its_months(): void {
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

	public function test_only_definitions_signed_by_this_site_are_accepted(): void {
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

	public function test_signed_definitions_of_another_site_or_format_are_rejected(): void {
		$valid = self::signed( '[1,{"widget":"search-2"}]' );
		$this->assertSame( array( 'widget' => 'search-2' ), Galley\read_definition( $valid ) );
		foreach ( array( '[2,{"widget":"search-2"}]', '["1",{"widget":"search-2"}]', '[1,"search-2"]', '[1]', '{"widget":"search-2"}', 'null', '' ) as $text ) {
			$this->assertNull( Galley\read_definition( self::signed( $text ) ), $text );
		}
	}
}
