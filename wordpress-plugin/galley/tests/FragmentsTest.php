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
		$this->assertSame( array( 'depth' => 0 ), Galley\plain_arguments( array( 'depth' => 0, 'echo' => true ) ) );
		$this->assertNull( Galley\plain_arguments( array( 'walker' => new stdClass() ) ) );
	}

	public function test_only_names_that_every_database_sorts_alike_are_in_plain_order(): void {
		$this->assertTrue( Galley\is_plain_order( array( 'boats', 'Harbour' ) ) );
		$this->assertFalse( Galley\is_plain_order( array( 'Harbour', 'boats' ) ) );
		$this->assertFalse( Galley\is_plain_order( array( 'Ämter', 'Boats' ) ) );
	}
}
