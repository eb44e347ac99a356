<?php
/**
 * Languages and translations: what a change of a group, a language or its menus touches.
 *
 * @package Galley
 */

use PHPUnit\Framework\TestCase;

final class LanguagesTest extends TestCase {

	public function test_groups_name_their_members(): void {
		$this->assertSame( array( 'en' => 3, 'de' => 7 ), Galley\translations_in( serialize( array( 'en' => 3, 'de' => '7' ) ) ) );
		foreach ( array( '', 'a text', 'a:1:{', serialize( 'x' ), serialize( new ArrayObject( array( 3 ) ) ) ) as $odd ) {
			$this->assertSame( array(), Galley\translations_in( $odd ), $odd );
		}
	}

	public function test_a_new_translation_changes_the_pages_of_the_others(): void {
		$this->assertSame( array( 'p3' ), Galley\group_tags( 'post_translations', array( 3, 3, 7 ), array( 7 ) ) );
		$this->assertSame( array( 'p3', 'p7' ), Galley\group_tags( 'post_translations', array( 3, 7 ), array( 3, 7 ) ) );
		$this->assertSame( array( 't3', 't7' ), Galley\group_tags( 'term_translations', array( 3, 7 ), array( 3, 7 ) ) );
		// Nobody can see the new one.
		$this->assertSame( array(), Galley\group_tags( 'post_translations', array( 3, 7 ), array() ) );
		// It is alone.
		$this->assertSame( array(), Galley\group_tags( 'post_translations', array( 7, 7 ), array( 7 ) ) );
	}

	public function test_the_switcher_shows_languages_with_posts(): void {
		$german = array( 'taxonomy' => 'language', 'name' => 'Deutsch', 'slug' => 'de', 'description' => 'de_DE', 'parent' => 0, 'count' => 4 );
		$tags   = static function ( array $differs ) use ( $german ): array {
			return Galley\language_tags( $german, $differs + $german );
		};
		$this->assertSame( array(), $tags( array( 'count' => 5 ) ) );
		$this->assertSame( array( 'ht' ), $tags( array( 'count' => 0 ) ) );
		$this->assertSame( array( 'ht' ), $tags( array( 'name' => 'German' ) ) );
		$this->assertSame( array( 'b' ), $tags( array( 'slug' => 'german' ) ) );
		$this->assertSame( array( 'b' ), Galley\language_tags( $german, null ) );
	}

	public function test_groups_are_no_terms_that_a_page_shows(): void {
		$this->assertContains( 'language', Galley\CONJOINED_TAXONOMIES );
		$this->assertSame( array( 'post_translations', 'term_translations' ), Galley\GROUP_TAXONOMIES );
		$this->assertSame( array(), array_diff( Galley\GROUP_TAXONOMIES, Galley\LANGUAGE_TAXONOMIES ) );
	}
}
