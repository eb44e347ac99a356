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
}
