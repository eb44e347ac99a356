<?php
/**
 * Purges derived from the old and new state of posts, templates, terms and settings.
 *
 * @package Galley
 */

use PHPUnit\Framework\TestCase;

final class ChangesTest extends TestCase {

	private static function post( array $differs = array() ): array {
		return array_merge(
			array(
				'type'       => 'post',
				'status'     => 'publish',
				'visible'    => true,
				'author'     => 2,
				'date'       => '2024-05-31 12:00:00',
				'title'      => 'T',
				'slug'       => 'tide',
				'content'    => 'c',
				'excerpt'    => 'e',
				'summary'    => '',
				'file'       => '',
				'parent'     => 0,
				'menu_order' => 0,
				'password'   => '',
				'modified'   => '1',
				'rest'       => '',
				'picture'    => 0,
				'link'       => 'http://x/tide/',
				'terms'      => array( 'category' => array( 3, 1 ) ),
			),
			$differs
		);
	}

	private static function draft( array $differs = array() ): array {
		return self::post( $differs + array( 'status' => 'draft', 'visible' => false ) );
	}

	private function keys( array $change ): array {
		return array_column( $change['lists'], 'key' );
	}

	public function test_an_unchanged_post_purges_nothing(): void {
		$this->assertSame( array(), Galley\post_changes( 7, self::post(), self::post() )['tags'] );
		$this->assertSame( array(), Galley\post_changes( 7, self::draft(), self::draft() )['tags'] );
	}

	public function test_tasks_that_an_edit_schedules_or_clears_are_changed_and_those_that_ran_are_not(): void {
		$task = static fn( string $name, string $key = 'a' ): array => array( $name => array( $key => array( 'args' => array() ) ) );
		$rows = array(
			'scheduled'               => array( array(), array( 50 => $task( 'x' ) ), 0, array( array(), array( 'x' ) ) ),
			'cleared'                 => array( array( 50 => $task( 'x' ) ), array(), 0, array( array( 'x' ), array() ) ),
			'moved'                   => array( array( 50 => $task( 'x' ) ), array( 60 => $task( 'x' ) ), 0, array( array( 'x' ), array() ) ),
			'another one of the name' => array( array( 50 => $task( 'x' ) ), array( 50 => array( 'x' => array( 'a' => array(), 'b' => array() ) ) ), 0, array( array(), array( 'x' ) ) ),
			'ran'                     => array( array( 50 => $task( 'x' ) ), array( 60 => $task( 'x' ) ), 50, array( array(), array() ) ),
			'ran once'                => array( array( 50 => $task( 'x' ) ), array(), 55, array( array(), array() ) ),
			'cleared by a task'       => array( array( 50 => $task( 'x' ), 70 => $task( 'y' ) ), array(), 55, array( array( 'y' ), array() ) ),
			'the same'                => array( array( 50 => $task( 'x' ), 'version' => 2 ), array( 'version' => 2, 50 => $task( 'x' ) ), 0, array( array(), array() ) ),
		);
		foreach ( $rows as $name => list( $old, $new, $until, $changed ) ) {
			$this->assertSame( $changed, Galley\changed_tasks( $old, $new, $until ), $name );
		}
	}

	public function test_a_menu_change_of_a_language_purges_pages_with_the_old_menu(): void {
		$menus = static function ( array $languages ): array {
			return array( 'nav_menus' => array( 'theme' => array( 'primary' => $languages ) ) );
		};
		$tags  = static function ( array $old, array $new ) use ( $menus ): array {
			return Galley\polylang_tags( $menus( $old ), $menus( $new ) );
		};
		$this->assertSame( array(), $tags( array( 'de' => 3 ), array( 'de' => 3 ) ) );
		$this->assertSame( array( 'm3', 'ml3' ), $tags( array( 'de' => 3, 'en' => 4 ), array( 'de' => 5, 'en' => 4 ) ) );
		$this->assertSame( array( 'tm.nav_menu_locations' ), $tags( array(), array( 'de' => 5 ) ) );
		$this->assertSame( array( 'm3', 'ml3' ), $tags( array( 'de' => 3 ), array() ) );
		$this->assertSame( array( 'b' ), Galley\polylang_tags( array( 'force_lang' => 1 ) + $menus( array() ), $menus( array() ) ) );
		$this->assertSame( array( 'theme primary 0' => 7 ), Galley\menus_by_place( array( 'theme' => array( 'primary' => '7' ) ) ) );
	}

	public function test_a_scheduled_post_purges_only_what_refers_to_it(): void {
		$this->assertSame( array( 'p7', 'pl7' ), Galley\post_changes( 7, self::draft(), self::draft( array( 'title' => 'U' ) ) )['tags'] );
		$later = array( 'status' => 'future' );
		$title = Galley\post_changes( 7, self::draft( $later ), self::draft( $later + array( 'title' => 'U' ) ) );
		$this->assertSame( array( array( 'p7', 'pl7', 'o.post.title', 'o.post.title.par0', 'o.post.title.a2', 'o.post.title.t3', 'o.post.title.t1' ), array() ), array( $title['tags'], $title['lists'] ) );
		$date = Galley\post_changes( 7, self::draft( $later ), self::draft( $later + array( 'date' => '2025-01-01 00:00:00' ) ) );
		$this->assertContains( 'l.post.z', $date['tags'] );
		$this->assertSame( array(), $date['lists'] );
	}

	/**
	 * Code may show a post that is in the trash: `get_the_title( 7 )`. Its changes purge such pages, and no list.
	 */
	public function test_changes_of_a_hidden_post_purge_the_pages_that_ask_for_it(): void {
		$hidden = self::draft( array( 'status' => 'trash' ) );
		$tags   = array( 'title' => 'pl7', 'slug' => 'pl7', 'link' => 'pl7', 'excerpt' => 'pe7', 'author' => 'pa7', 'terms' => 'pt7', 'picture' => 'th7', 'content' => 'p7', 'parent' => 'p7', 'menu_order' => 'p7' );
		foreach ( $tags as $field => $tag ) {
			$value  = array( 'author' => 9, 'terms' => array(), 'picture' => 4, 'parent' => 3, 'menu_order' => 2 )[ $field ] ?? 'other';
			$purged = Galley\post_changes( 7, $hidden, array( $field => $value ) + $hidden );
			$this->assertContains( $tag, $purged['tags'], $field );
			$this->assertContains( 'p7', $purged['tags'], $field );
			$this->assertSame( array(), preg_grep( '/[.]/', $purged['tags'] ), $field );
			$this->assertSame( array(), $purged['lists'], $field );
		}
		$this->assertSame( array( 'l.post.z', 'p7' ), Galley\post_changes( 7, self::draft(), $hidden )['tags'] );
		foreach ( array( array( null, $hidden ), array( $hidden, null ) ) as list( $old, $new ) ) {
			$this->assertSame( array( 'l.post.z', 'p7', 'pi7', 'pl7', 'pe7', 'th7', 'pt7', 'pm7', 'cn7', 'c7' ), Galley\post_changes( 7, $old, $new )['tags'] );
		}
	}

	public function test_a_post_password_purges_searches_and_comments(): void {
		$change = Galley\post_changes( 7, self::post(), self::post( array( 'password' => 'oar' ) ) );
		foreach ( array( 'l.post.s', 'l.post.x', 'o.post.password', 'c7', 'pl7', 'pe7' ) as $tag ) {
			$this->assertContains( $tag, $change['tags'] );
		}
	}

	public function test_only_searched_fields_affect_searches(): void {
		$searched = static function ( array $differs ): bool {
			return Galley\post_changes( 7, self::post(), self::post( $differs ) )['searched'];
		};
		foreach ( array( 'content', 'title', 'summary', 'file', 'date', 'password', 'type' ) as $field ) {
			$this->assertTrue( $searched( array( $field => '2020-01-01 00:00:00' ) ), $field );
		}
		foreach ( array( 'slug' => 's', 'author' => 5, 'terms' => array(), 'modified' => '5' ) as $field => $value ) {
			$this->assertFalse( $searched( array( $field => $value ) ), $field );
		}
		$this->assertTrue( Galley\post_changes( 7, self::post(), null )['searched'] );
		$this->assertFalse( Galley\post_changes( 7, self::draft(), self::draft( array( 'content' => 'd' ) ) )['searched'] );
	}

	public function test_a_text_change_purges_only_the_post(): void {
		$change = Galley\post_changes( 7, self::post(), self::post( array( 'content' => 'd', 'modified' => '2' ) ) );
		$this->assertSame( array( 'p7', 'pd7', 'o.post.modified', 'l.post.s' ), $change['tags'] );
		$this->assertSame( array(), $change['lists'] );
		$this->assertFalse( $change['moved'] );
	}

	public function test_publishing_and_removing_a_post_purge_the_same_tags(): void {
		$published   = Galley\post_changes( 7, self::draft(), self::post() );
		$unpublished = Galley\post_changes( 7, self::post(), self::draft() );
		$deleted     = Galley\post_changes( 7, self::post(), null );
		$lists       = array( 'l.post', 'l.post.t3', 'l.post.t1', 'l.post.a2', 'l.post.d2024', 'l.post.d202405', 'l.post.d20240531', 'l.post.par0' );
		foreach ( array( $published, $unpublished, $deleted ) as $change ) {
			$this->assertSame( $lists, $this->keys( $change ) );
			foreach ( array( 'p7', 'pl7', 'pe7', 'pt7', 'sm.post', 'n.tide', 'g.tid', 'g.ti', 'g.t', 'l.post.x', 'l.post.s', 'l.post.z' ) as $tag ) {
				$this->assertContains( $tag, $change['tags'] );
			}
			$this->assertTrue( $change['moved'] );
		}
		$this->assertSame( array( 1, -1, -1 ), array( $published['lists'][0]['added'], $unpublished['lists'][0]['added'], $deleted['lists'][0]['added'] ) );
	}

	public function test_a_term_change_purges_the_old_and_new_lists(): void {
		$change = Galley\post_changes( 7, self::post(), self::post( array( 'terms' => array( 'category' => array( 4, 1 ) ) ) ) );
		$this->assertSame( array( 'l.post.t3', 'l.post.t4' ), $this->keys( $change ) );
		$this->assertContains( 'pt7', $change['tags'] );
		$this->assertNotContains( 'pl7', $change['tags'] );
		$this->assertNotContains( 'l.post.s', $change['tags'] );
	}

	public function test_a_date_change_purges_all_lists(): void {
		$change = Galley\post_changes( 7, self::post(), self::post( array( 'date' => '2023-01-01 00:00:00' ) ) );
		$this->assertCount( 16, $change['lists'] );
		$this->assertContains( 'pl7', $change['tags'] );
	}

	public function test_date_archives_have_ranks_within_their_period(): void {
		$lists = array_column( Galley\post_changes( 7, self::post(), null )['lists'], null, 'key' );
		foreach ( array( '2024', '202405', '20240531' ) as $period ) {
			$this->assertTrue( $lists[ "l.post.d$period" ]['ranked'], $period );
			$this->assertSame( $period, $lists[ "l.post.d$period" ]['period'] );
		}
		$this->assertFalse( $lists['l.post.par0']['ranked'] );
		$this->assertSame( array( '2024-01-01 00:00:00', '2024-12-31 23:59:59' ), Galley\period( '2024' ) );
		$this->assertSame( array( '2024-05-01 00:00:00', '2024-05-31 23:59:59' ), Galley\period( '202405' ) );
		$this->assertSame( array( '2024-05-30 00:00:00', '2024-05-30 23:59:59' ), Galley\period( '20240530' ) );
	}

	public function test_the_title_of_an_image_does_not_purge_the_image(): void {
		$picture = self::post( array( 'type' => 'attachment', 'status' => 'inherit' ) );
		$tags    = static function ( array $differs ) use ( $picture ): array {
			return Galley\post_changes( 7, $picture, $differs + $picture )['tags'];
		};
		$this->assertNotContains( 'pi7', $tags( array( 'title' => 'U', 'modified' => '2' ) ) );
		$this->assertContains( 'p7', $tags( array( 'title' => 'U', 'modified' => '2' ) ) );
		foreach ( array( 'excerpt', 'content', 'slug', 'link' ) as $field ) {
			$this->assertContains( 'pi7', $tags( array( $field => 'other' ) ), $field );
		}
		$this->assertContains( 'pi7', Galley\post_changes( 7, $picture, null )['tags'] );
	}

	public function test_changed_theme_mods_are_named_in_tags(): void {
		$this->assertSame( array( 'tm', 'tm.b', 'tm.c' ), Galley\mod_tags( array( 'a' => 1, 'b' => 1 ), array( 'a' => 1, 'b' => 2, 'c' => 3 ) ) );
		$this->assertSame( array( 'tm', 'tm.a' ), Galley\mod_tags( array( 'a' => 1 ), array() ) );
	}

	public function test_an_empty_logo_is_none(): void {
		$GLOBALS['galley_purge_id'] = 'x';
		$rows                       = array(
			array( array(), array( 'custom_logo' => '' ), array() ),
			array( array( 'custom_logo' => 0 ), array( 'custom_logo' => '' ), array() ),
			array( array( 'custom_logo' => 0 ), array( 'custom_logo' => 5 ), array( 'tm', 'tm.custom_logo' ) ),
			array( array( 'custom_logo' => 5 ), array(), array( 'tm', 'tm.custom_logo' ) ),
			array( array(), array( 'custom_logo' => '', 'color' => '' ), array( 'tm', 'tm.color' ) ),
		);
		foreach ( $rows as list( $old, $new, $tags ) ) {
			Galley\on_whole_option( 'theme_mods_x', $old, $new );
			$this->assertSame( $tags, Galley\take_purges()['hard'] );
		}
		unset( $GLOBALS['galley_purge_id'] );
	}

	public function test_a_slug_change_purges_both_urls(): void {
		$change = Galley\post_changes( 7, self::post(), self::post( array( 'slug' => 'ebb', 'link' => 'http://x/ebb/' ) ) );
		foreach ( array( 'n.tide', 'n.ebb', 'g.ebb', 'pl7', 'sm.post', 'o.post.name' ) as $tag ) {
			$this->assertContains( $tag, $change['tags'] );
		}
		$this->assertTrue( $change['moved'] );
		$this->assertSame( array(), $change['lists'] );
	}

	public function test_an_excerpt_depends_only_on_its_first_words(): void {
		$this->assertSame( Galley\excerpt_basis( '', 'a b c d', 2 ), Galley\excerpt_basis( '', '<p>a b</p> c e', 2 ) );
		$this->assertNotSame( Galley\excerpt_basis( '', 'a b', 2 ), Galley\excerpt_basis( '', 'a b c', 2 ) );
		$this->assertNotSame( Galley\excerpt_basis( '', 'a b', 2 ), Galley\excerpt_basis( 'a b', 'a b', 2 ) );
		$this->assertNotSame( Galley\excerpt_basis( '', 'a <!--more--> b', 9 ), Galley\excerpt_basis( '', 'a', 9 ) );
	}

	public function test_template_changes_purge_their_tags(): void {
		$shown  = array( 'shown' => true, 'slug' => 'page', 'text' => '1', 'settings' => '[]' );
		$hidden = array( 'shown' => false, 'slug' => '', 'text' => '', 'settings' => '?' );
		$other  = array( 'text' => '2' ) + $shown;
		$this->assertSame( array( 'p7', 'tu.page' ), Galley\internal_tags( 7, 'wp_template', $shown, $other ) );
		$this->assertSame( array( 'p7', 'tp.page', 'l.wp_template', 'l.wp_template.q', 'l.wp_template.x' ), Galley\internal_tags( 7, 'wp_template', $hidden, $shown ) );
		$this->assertContains( 'tp.page', Galley\internal_tags( 7, 'wp_template', $shown, $hidden ) );
		$this->assertSame( array( 'ht' ), Galley\internal_tags( 7, 'wp_global_styles', $shown, $other ) );
		$this->assertSame( array( 'b' ), Galley\internal_tags( 7, 'wp_global_styles', $shown, array( 'settings' => '{"a":1}' ) + $other ) );
		$this->assertSame( array( 'b' ), Galley\internal_tags( 7, 'wp_global_styles', $hidden, $shown ) );
		$this->assertSame( array( 'p7' ), Galley\internal_tags( 7, 'wp_block', $shown, $other ) );
		$this->assertSame( array(), Galley\internal_tags( 7, 'wp_block', $shown, $shown ) );
	}

	public function test_term_changes_purge_their_tags(): void {
		$term = array( 'taxonomy' => 'category', 'name' => 'N', 'slug' => 's', 'description' => '', 'parent' => 0, 'count' => 2 );
		$this->assertSame( array(), Galley\term_tags( 5, $term, $term ) );
		$this->assertSame( array( 't5' ), Galley\term_tags( 5, $term, array( 'description' => 'x' ) + $term ) );
		$this->assertSame( array( 't5', 'tl5', 'tn5', 'lto.category' ), Galley\term_tags( 5, $term, array( 'name' => 'x' ) + $term ) );
		$this->assertContains( 'ts5', Galley\term_tags( 5, $term, array( 'slug' => 'x' ) + $term ) );
		$this->assertSame( array( 'tc5', 'ltc.category' ), Galley\term_tags( 5, $term, array( 'count' => 3 ) + $term ) );
		$this->assertContains( 'lt.category', Galley\term_tags( 5, $term, array( 'count' => 0 ) + $term ) );
		$this->assertNotContains( 'lt.category', Galley\term_tags( 5, array( 'count' => 0 ) + $term, null ) );
	}

	public function test_widget_and_sidebar_changes_purge_their_tags(): void {
		$this->assertSame( array( 'w.text-3', 'w.text-4' ), Galley\widget_tags( 'text', array( 2 => 'a', 3 => 'b', '_multiwidget' => 1 ), array( 2 => 'a', 3 => 'c', 4 => 'd' ) ) );
		$old = array( 'wp_inactive_widgets' => array( 'text-9' ), 'one' => array( 'text-2' ), 'two' => array(), 'array_version' => 3 );
		$new = array( 'wp_inactive_widgets' => array(), 'one' => array( 'text-2', 'text-9' ), 'two' => array(), 'array_version' => 3 );
		$this->assertSame( array( 'sb.one' ), Galley\sidebar_tags( $old, $new ) );
		$this->assertSame( array( 'sb.two', 'sa.two' ), Galley\sidebar_tags( $old, array( 'two' => array( 'text-7' ) ) + $old ) );
		// The first widget of a type adds its styles to every page.
		$this->assertSame( array( 'sb.one', 'ht' ), Galley\sidebar_tags( $old, array( 'one' => array( 'text-2', 'recent-comments-2' ) ) + $old ) );
	}

	public function test_page_count_changes_are_detected(): void {
		$this->assertTrue( Galley\crosses_page( 10, 11, 10 ) );
		$this->assertFalse( Galley\crosses_page( 9, 10, 10 ) );
		$this->assertTrue( Galley\crosses_page( 0, 1, 10 ) );
		$tags = Galley\per_page_tags( 10, 12 );
		$this->assertContains( 'pp11', $tags );
		$this->assertNotContains( 'pp10', $tags );
	}

	public function test_private_user_fields_are_recognized(): void {
		foreach ( array( 'session_tokens', 'wp_capabilities', 'wp_12_user_level', 'wp_user-settings', '_woocommerce_persistent_cart_1', 'edit_post_per_page', 'metaboxhidden_post' ) as $key ) {
			$this->assertTrue( Galley\is_private_user_field( $key, 'wp_' ), $key );
		}
		foreach ( array( 'description', 'first_name', 'twitter', '_hidden', 'wp_user_avatar', 'wp_capabilities_of_mine' ) as $key ) {
			$this->assertFalse( Galley\is_private_user_field( $key, 'wp_' ), $key );
		}
	}

	public function test_changed_user_fields_purge_what_pages_can_show_of_them(): void {
		$rows = array(
			'wp_capabilities'   => array( 'ur5', 'lur' ),
			'wp_12_capabilities' => array( 'ur5', 'lur' ),
			'wp_user_level'     => array(),
			'session_tokens'    => array(),
			'town'              => array( 'uf5', 'uf5.town', 'o.user.m_town', 'o.user.m_' ),
			'xwp_capabilities'  => array( 'uf5', 'uf5.xwp_capabilities', 'o.user.m_xwp_capabilities', 'o.user.m_' ),
		);
		foreach ( $rows as $key => $tags ) {
			$this->assertSame( $tags, Galley\user_field_tags( 5, $key, 'wp_' ), $key );
		}
	}

	/**
	 * Generated keys: what a page reads is purged by each write to a key that the database takes for the same one.
	 */
	public function test_a_changed_field_purges_the_pages_that_read_it_in_any_spelling(): void {
		mt_srand( 9 );
		$letters = array( 'a', 'b', 'A', '_', '-', '.', 'é', ' ', "\u{1F600}", 'long' . str_repeat( 'x', 20 ) );
		for ( $round = 0; $round < 2000; $round++ ) {
			$key = '';
			for ( $length = mt_rand( 1, 4 ); $length > 0; $length-- ) {
				$key .= $letters[ mt_rand( 0, count( $letters ) - 1 ) ];
			}
			$written = array( $key, strtoupper( $key ), "$key " )[ mt_rand( 0, 2 ) ];
			$purged  = Galley\with_classes( Galley\user_field_tags( 5, $written, 'wp_' ) );
			foreach ( array( Galley\field_tag( 'uf', 5, $key ), Galley\field_tag( 'uf', 5, '' ), 'uf' ) as $tag ) {
				$this->assertContains( $tag, $purged, "$key $written" );
				$this->assertMatchesRegularExpression( '/^[!-~]+$/D', $tag );
			}
			$this->assertNotContains( Galley\field_tag( 'uf', 5, 'other' ), $purged );
			$this->assertNotContains( 'uf6', $purged );
		}
	}

	public function test_lists_of_terms_depend_on_the_fields_that_their_statement_reads(): void {
		$sql = 'SELECT t.term_id FROM wp_terms t LEFT JOIN wp_termmeta m ON m.term_id = t.term_id';
		$this->assertSame( array( 'o.product_cat.m_order' ), Galley\term_field_tags( array( 'product_cat' ), array( 'meta_key' => 'order', 'object_ids' => array( 5 ) ), $sql, 'wp_termmeta' ) );
		$this->assertSame( array( 'tf' ), Galley\term_field_tags( array( 'product_cat' ), array(), $sql, 'wp_termmeta' ), 'a filter reads them' );
		$this->assertSame( array( 'tf' ), Galley\term_field_tags( array(), array( 'meta_key' => 'order' ), $sql, 'wp_termmeta' ), 'all taxonomies' );
		$this->assertSame( array(), Galley\term_field_tags( array( 'category' ), array(), 'SELECT t.term_id FROM wp_terms t', 'wp_termmeta' ) );
		$this->assertContains( 'tf', Galley\with_classes( array( 'tf5' ) ) );
	}

	public function test_a_field_of_a_user_or_a_term_has_the_class_of_all_fields(): void {
		$this->assertSame( array( 'uf5.town', 'uf', 'tf5.town', 'tf' ), Galley\with_classes( array( 'uf5.town', 'tf5.town' ) ) );
		$this->assertSame( array( 'b', 'uf' ), Galley\collapsed( array( 'uf5.town', 'uf6.town', 'uf6', 'b' ), 2 ) );
		$this->assertSame( array( 'b', '2.tf' ), Galley\collapsed( array( '2.tf5.town', '2.tf6', 'b' ), 2 ) );
	}

	/**
	 * Generated lists and posts: a change of the title or the order purges a list if the post can be in it before or after the change, and not if it
	 * meets none of the conditions by which the list has its tag.
	 */
	public function test_lists_by_a_field_are_purged_for_their_own_posts(): void {
		mt_srand( 41 );
		$some  = static function (): array {
			return array_slice( array( 1, 2, 3, 4 ), mt_rand( 0, 3 ), mt_rand( 0, 2 ) );
		};
		$cases = array( 0, 0 );
		for ( $round = 0; $round < 4000; $round++ ) {
			$list    = array(
				'types'    => mt_rand( 0, 3 ) ? array( 'post' ) : array( 'post', 'page' ),
				'terms'    => $some(),
				'authors'  => mt_rand( 0, 1 ) ? $some() : array(),
				'parents'  => mt_rand( 0, 2 ) ? array() : $some(),
				'ids'      => mt_rand( 0, 5 ) ? array() : array( 9 ),
				'search'   => 0 === mt_rand( 0, 9 ),
				'complex'  => 0 === mt_rand( 0, 9 ),
				'narrowed' => true,
			);
			$field   = mt_rand( 0, 1 ) ? 'title' : 'menu_order';
			$tags    = Galley\list_tags( Galley\any_list( array( mt_rand( 0, 1 ) ? 'ordered' : 'sorted' => array( $field ) ) + $list ) );
			$states  = array();
			$is_in   = false;
			$is_near = array();
			foreach ( array( 0, 1 ) as $which ) {
				$state    = self::post( array( $field => $which, 'terms' => array( 'category' => $some() ), 'author' => mt_rand( 1, 4 ), 'parent' => mt_rand( 0, 4 ) ) );
				$meets    = array(
					'parents' => ! $list['parents'] || in_array( $state['parent'], $list['parents'], true ),
					'terms'   => ! $list['terms'] || array_intersect( $state['terms']['category'], $list['terms'] ),
					'authors' => ! $list['authors'] || in_array( $state['author'], $list['authors'], true ),
				);
				$is_in    = $is_in || ! in_array( false, array_map( 'boolval', $meets ), true );
				$states[] = $state;
				foreach ( $meets as $kind => $is_met ) {
					$is_near[ $kind ] = ! empty( $is_near[ $kind ] ) || $is_met;
				}
			}
			$purged = array_intersect( $tags, array_merge( Galley\with_confined( "o.post.$field", $field, ...$states ), Galley\with_confined( "oo.post.$field", $field, ...$states ) ) );
			$about  = json_encode( array( $list, $states, $tags ) );
			if ( $is_in ) {
				$this->assertNotEmpty( $purged, $about );
				++$cases[0];
			}
			$kind = $list['parents'] ? 'parents' : ( $list['terms'] ? 'terms' : 'authors' );
			if ( ! $is_near[ $kind ] && ! $list['ids'] && ! $list['search'] && ! $list['complex'] ) {
				$this->assertEmpty( $purged, $about );
				++$cases[1];
			}
		}
		$this->assertGreaterThan( 500, min( $cases ) );
	}
}
