<?php
/**
 * Purges after changes of translation groups, languages and their menus.
 *
 * @package Galley
 */

use PHPUnit\Framework\TestCase;

final class LanguagesTest extends TestCase {

	public function test_translation_groups_are_parsed(): void {
		$this->assertSame( array( 'en' => 3, 'de' => 7 ), Galley\translations_in( serialize( array( 'en' => 3, 'de' => '7' ) ) ) );
		foreach ( array( '', 'a text', 'a:1:{', serialize( 'x' ), serialize( new ArrayObject( array( 3 ) ) ) ) as $invalid ) {
			$this->assertSame( array(), Galley\translations_in( $invalid ), $invalid );
		}
	}

	public function test_a_new_translation_purges_the_existing_translations(): void {
		$this->assertSame( array( 'p3' ), Galley\group_tags( 'post_translations', array( 3, 3, 7 ), array( 7 ) ) );
		$this->assertSame( array( 'p3', 'p7' ), Galley\group_tags( 'post_translations', array( 3, 7 ), array( 3, 7 ) ) );
		$this->assertSame( array( 't3', 't7' ), Galley\group_tags( 'term_translations', array( 3, 7 ), array( 3, 7 ) ) );
		// The new translation is not public.
		$this->assertSame( array(), Galley\group_tags( 'post_translations', array( 3, 7 ), array() ) );
		// The group has no other members.
		$this->assertSame( array(), Galley\group_tags( 'post_translations', array( 7, 7 ), array( 7 ) ) );
	}

	public function test_language_changes_purge_pages_with_a_language_switcher(): void {
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

	public function test_translation_groups_are_not_visible_terms(): void {
		$this->assertContains( 'language', Galley\CONJOINED_TAXONOMIES );
		$this->assertSame( array( 'post_translations', 'term_translations' ), Galley\GROUP_TAXONOMIES );
		$this->assertSame( array(), array_diff( Galley\GROUP_TAXONOMIES, Galley\LANGUAGE_TAXONOMIES ) );
	}
}
