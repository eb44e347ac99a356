<?php
/**
 * Words of searches, and the texts that contain them.
 *
 * @package Galley
 */

use PHPUnit\Framework\TestCase;

final class SearchesTest extends TestCase {

	/**
	 * @return array[]
	 */
	public static function searches(): array {
		return array(
			'one word'              => array( array( 'Ferry' ), 'ferry' ),
			'the longest of three'  => array( array( 'old', 'harbour', 'ferry' ), 'harbour' ),
			'in quotes'             => array( array( 'the old ferry' ), 'ferry' ),
			'a sentence'            => array( array( 'to-day it runs' ), 'runs' ),
			'an excluded word'      => array( array( '-harbour', 'ferry' ), 'ferry' ),
			'only an excluded word' => array( array( '-harbour' ), '' ),
			'letters with accents'  => array( array( 'préférence' ), 'rence' ),
			'another alphabet'      => array( array( 'паром' ), '' ),
			'short words'           => array( array( 'R2', 'é-x' ), '' ),
			'LIKE wildcards'        => array( array( '100%_sure' ), 'sure' ),
			'numbers'               => array( array( '2024' ), '2024' ),
			'nothing'               => array( array(), '' ),
			'not a string'          => array( array( array( 'ferry' ) ), '' ),
			'a very long word'      => array( array( str_repeat( 'x', 60 ) ), str_repeat( 'x', 40 ) ),
		);
	}

	/**
	 * @dataProvider searches
	 */
	public function test_longest_required_word( array $terms, string $expected ): void {
		$this->assertSame( $expected, Galley\longest_word( $terms, '-' ) );
	}

	public function test_exclusion_prefix_is_configurable(): void {
		$this->assertSame( 'harbour', Galley\longest_word( array( '-harbour', '!ferries' ), '!' ) );
		$this->assertSame( 'ferries', Galley\longest_word( array( '-harbour', '!ferries', '-' ), '-' ) );
		$this->assertSame( 'harbour', Galley\longest_word( array( '-harbour', 'ferry' ), '' ) );
		// WordPress compares only the first character.
		$this->assertSame( 'ferry', Galley\longest_word( array( '-harbour', 'ferry' ), '--' ) );
	}

	/**
	 * @return array[]
	 */
	public static function texts(): array {
		return array(
			'the word'                 => array( 'A ferry.', true ),
			'in capitals'              => array( 'A FERRY.', true ),
			'within another'           => array( '<p>ferryman</p><!-- xferryx -->', true ),
			'next to punctuation'      => array( "\u{201c}ferry\u{201d}\u{2014}", true ),
			'letters with accents'     => array( "f\u{e9}rry", true ),
			'capitals with accents'    => array( "F\u{c9}RR\u{dd}", true ),
			'fullwidth letters'        => array( "\u{ff26}\u{ff25}\u{ff32}\u{ff32}\u{ff39}", true ),
			'circled letters'          => array( "\u{24d5}erry", true ),
			'other words'              => array( 'A boat fer ry, fery.', false ),
			'parts of two words'       => array( "ferr y \u{e9}t\u{e9} rry", false ),
			'another alphabet'         => array( 'По морю идёт паром', false ),
			'Japanese'                 => array( 'フェリーが出る 渡し船', false ),
			'invalid UTF-8'            => array( "boat \xff", true ),
			'nothing'                  => array( '', false ),
		);
	}

	/**
	 * @dataProvider texts
	 */
	public function test_texts_that_may_contain_a_word( string $text, bool $may ): void {
		$this->assertSame( $may, in_array( 'ferry', Galley\words_in( array( 'zeppelin', 'ferry' ), $text ), true ) );
	}

	public function test_all_contained_words_are_found(): void {
		$words = array( 'ferry', 'bread', 'zeppelin', '2024', 'rry' );
		$this->assertSame( array( 'ferry', '2024', 'rry' ), Galley\words_in( $words, 'The ferry of 2024' ) );
		$this->assertSame( array( 'bread' ), Galley\words_in( $words, "Br\u{ea}ad" ) );
		$this->assertSame( array(), Galley\words_in( array(), 'ferry' ) );
	}

	public function test_plain_collations_are_recognized(): void {
		foreach ( array( 'utf8mb4_unicode_520_ci', 'utf8mb4_unicode_ci', 'utf8_general_ci', 'utf8mb3_general_ci', 'utf8mb4_unicode_nopad_ci', 'utf8mb4_0900_ai_ci', 'utf8mb4_uca1400_ai_ci', 'utf8mb4_uca1400_nopad_as_ci' ) as $collation ) {
			$this->assertMatchesRegularExpression( Galley\PLAIN_COLLATIONS, $collation );
		}
		foreach ( array( 'utf8mb4_lithuanian_ci', 'utf8mb4_lt_0900_ai_ci', 'utf8mb4_uca1400_lithuanian_ai_ci', 'utf8mb4_roman_ci', 'latin1_swedish_ci', 'utf8mb4_bin', 'utf8mb4_0900_as_cs', '' ) as $collation ) {
			$this->assertDoesNotMatchRegularExpression( Galley\PLAIN_COLLATIONS, $collation );
		}
	}

	private static function post( array $differs = array() ): array {
		return $differs + array( 'type' => 'post', 'status' => 'publish', 'visible' => true, 'title' => 'T', 'summary' => '', 'content' => 'The ferry.', 'file' => '', 'date' => 'D', 'password' => '' );
	}

	public function test_a_post_keeps_its_place_in_a_search_result(): void {
		$stays = static function ( array $old, array $new ): bool {
			return Galley\stays_found( 'ferry', self::post( $old ), self::post( $new ) );
		};
		$this->assertTrue( $stays( array(), array( 'content' => 'Two FERRIES and a Ferryman.' ) ) );
		$this->assertTrue( $stays( array(), array( 'summary' => 'S', 'title' => 'U' ) ) );
		$this->assertTrue( $stays( array(), array( 'summary' => 'A ferry', 'content' => '' ) ) );
		$this->assertTrue( $stays( array( 'title' => 'Ferry' ), array( 'title' => 'A ferry', 'content' => '' ) ) );
		$this->assertTrue( $stays( array( 'title' => "f\u{e9}rry" ), array( 'title' => "f\u{e9}rry", 'summary' => 'S' ) ) );
		// The database may or may not find the post.
		$this->assertFalse( $stays( array(), array( 'content' => "A f\u{e9}rry." ) ) );
		$this->assertFalse( $stays( array(), array( 'content' => '', 'file' => 'ferry.jpg' ) ) );
		$this->assertFalse( $stays( array(), array( 'title' => "f\u{e9}rry" ) ) );
		// Results with the word in the title come first, then the newest.
		$this->assertFalse( $stays( array(), array( 'title' => 'Ferry' ) ) );
		foreach ( array( 'date', 'status', 'type', 'password' ) as $field ) {
			$this->assertFalse( $stays( array(), array( $field => 'other' ) ), $field );
		}
		$this->assertFalse( $stays( array(), array( 'visible' => false ) ) );
		$this->assertFalse( Galley\stays_found( 'ferry', null, self::post() ) );
		$this->assertFalse( Galley\stays_found( 'ferry', self::post(), null ) );
	}

	public function test_search_tags_of_a_post_change(): void {
		$tags = static function ( ?array $old, ?array $new ): array {
			return Galley\search_tags( 7, array( 'ferry', 'bread' ), $old, $new );
		};
		$word = array( 'l.post.s.ferry', 'l.post.s.ferry.p7' );
		$more = array( 'l.post.s.ferry.x', 'l.post.s.ferry.x.p7' );
		$this->assertSame( array_merge( $word, $more ), $tags( self::post(), null ) );
		$this->assertSame( array_merge( $word, $more ), $tags( self::post(), self::post( array( 'content' => '' ) ) ) );
		$this->assertSame( array_merge( $word, array( 'l.post.s.ferry.in' ), $more, array( 'l.post.s.ferry.x.in' ) ), $tags( null, self::post() ) );
		// The result of a search with more words may change.
		$this->assertSame( array_merge( $more, array( 'l.post.s.ferry.x.in' ) ), $tags( self::post(), self::post( array( 'content' => 'No ferry.' ) ) ) );
		$this->assertSame( array(), $tags( self::post( array( 'content' => 'A' ) ), self::post( array( 'content' => 'B' ) ) ) );
		$this->assertContains( 'l.page.s.ferry', $tags( self::post(), self::post( array( 'type' => 'page' ) ) ) );
		$this->assertContains( 'l.post.s.ferry', $tags( self::post(), self::post( array( 'type' => 'page' ) ) ) );
	}

	public function test_searches_for_one_word_are_recognized(): void {
		$one = array( 'search_terms' => array( 'Ferry' ), 'search_terms_count' => 1 );
		$this->assertTrue( Galley\is_whole_search( 'ferry', $one ) );
		foreach ( array( array( 'search_terms' => array( 'ferry', 'bread' ) ), array( 'search_terms_count' => 2 ), array( 'exact' => '1' ), array( 'search_columns' => array( 'post_title' ) ), array( 'search_terms' => array( 'ferry-boat' ) ) ) as $more ) {
			$this->assertFalse( Galley\is_whole_search( 'ferry', $more + $one ) );
		}
	}

	public function test_search_text_contains_the_searched_fields(): void {
		$post = array( 'visible' => true, 'title' => 'T', 'summary' => 'S', 'content' => 'C', 'file' => 'F' );
		$this->assertSame( "T\nS\nC\nF", Galley\search_text( $post ) );
		$this->assertSame( '', Galley\search_text( array( 'visible' => false ) + $post ) );
		$this->assertSame( '', Galley\search_text( null ) );
	}
}
