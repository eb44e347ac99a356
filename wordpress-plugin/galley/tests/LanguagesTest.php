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

	public function test_members_whose_translations_change_are_purged(): void {
		$rows = array(
			'a new post'                     => array( array( 'en' => 3 ), array( 'en' => 3, 'de' => 7 ), array(), array( 'p3', 'p7' ) ),
			'an existing post joins two'     => array( array( 'en' => 3, 'fr' => 4 ), array( 'en' => 3, 'fr' => 4, 'de' => 7 ), array(), array( 'p3', 'p4', 'p7' ) ),
			'a post leaves'                  => array( array( 'en' => 3, 'de' => 7 ), array( 'en' => 3 ), array(), array( 'p3', 'p7' ) ),
			'another post in its place'      => array( array( 'en' => 3, 'de' => 7 ), array( 'de' => 8, 'en' => 3 ), array(), array( 'p3', 'p7', 'p8' ) ),
			'two posts change languages'     => array( array( 'en' => 3, 'de' => 7 ), array( 'en' => 7, 'de' => 3 ), array(), array( 'p3', 'p7' ) ),
			'the group ends'                 => array( array( 'en' => 3, 'de' => 7 ), array(), array(), array( 'p3', 'p7' ) ),
			'the group is written again'     => array( array( 'en' => 3, 'de' => 7 ), array( 'de' => 7, 'en' => 3 ), array(), array() ),
			'the new translation is a draft' => array( array( 'en' => 3, 'fr' => 4 ), array( 'en' => 3, 'fr' => 4, 'de' => 7 ), array( 7 ), array( 'p7' ) ),
			'no other members'               => array( array(), array( 'en' => 3 ), array(), array() ),
		);
		foreach ( $rows as $name => list( $old, $new, $hidden, $tags ) ) {
			$this->assertSame( $tags, Galley\group_tags( 'post_translations', $old, $new, $hidden ), $name );
		}
		$this->assertSame( array( 't3', 't7' ), Galley\group_tags( 'term_translations', array(), array( 'en' => 3, 'de' => 7 ), array() ) );
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

	public function test_only_switchers_that_show_languages_without_posts_depend_on_them(): void {
		$rows = array(
			array( array(), false ),
			array( array( 'hide_if_empty' => 1 ), false ),
			array( array( 'hide_if_empty' => true, 'show_flags' => 0 ), false ),
			array( array( 'hide_if_empty' => 0 ), true ),
			array( array( 'hide_if_empty' => '' ), true ),
		);
		foreach ( $rows as list( $settings, $shows ) ) {
			$GLOBALS['galley_tags'] = array();
			$this->assertSame( $settings, Galley\note_switcher( $settings ) );
			$this->assertSame( $shows, Galley\has_tag( 'le' ), serialize( $settings ) );
		}
	}

	public function test_code_that_may_list_all_languages_is_found(): void {
		$lists = array(
			'foreach ( pll_languages_list() as $slug ) {',
			'$all = PLL()->model->languages->get_list();',
			'$all = $polylang->model->get_languages_list();',
			'{% for slug in function("pll_languages_list") %}',
			"add_filter( 'pll_translation_url', 'theme_translation' );",
			"add_filter( 'pll_hide_archive_translation_url', '__return_false' );",
			"get_transient( 'pll_languages_list' )",
			"apply_filters( 'wpml_active_languages', null )",
			'icl_get_languages( "skip_missing=0" )',
			'class Theme_Switcher extends PLL_Walker_List {}',
			'new \\WP_Syntex\\Polylang\\Switcher\\Switcher()',
			'eval( $snippet );',
		);
		foreach ( $lists as $code ) {
			$this->assertTrue( Galley\lists_languages( $code ), $code );
		}
		foreach ( array( 'pll_the_languages();', 'pll_current_language()', 'pll_get_post( 3 )', 'do_action( "polylang" )', 'evaluate( $x )' ) as $code ) {
			$this->assertFalse( Galley\lists_languages( $code ), $code );
		}
	}

	public function test_translation_groups_are_not_visible_terms(): void {
		$this->assertContains( 'language', Galley\CONJOINED_TAXONOMIES );
		$this->assertSame( array( 'post_translations', 'term_translations' ), Galley\GROUP_TAXONOMIES );
		$this->assertSame( array(), array_diff( Galley\GROUP_TAXONOMIES, Galley\LANGUAGE_TAXONOMIES ) );
	}
}
