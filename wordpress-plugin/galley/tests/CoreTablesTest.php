<?php
/**
 * Statements of other code on WordPress's own tables.
 *
 * @package Galley
 */

use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/statements-database.php';

final class CoreTablesTest extends TestCase {

	public function test_only_wordpress_tables_have_names_here(): void {
		$wpdb  = (object) array( 'dbname' => 'db', 'base_prefix' => 'wp_', 'users' => 'people', 'usermeta' => 'wp_usermeta' );
		$names = array(
			'wp_posts'                  => 'posts',
			'db.wp_postmeta'            => 'postmeta',
			'people'                    => 'users',
			'wp_usermeta'               => 'usermeta',
			'wp_options'                => null,
			'wp_groups'                 => null,
			'information_schema.tables' => null,
			'other.wp_posts'            => null,
		);
		foreach ( $names as $table => $name ) {
			$GLOBALS['wpdb'] = $wpdb;
			$this->assertSame( $name, Galley\core_name_of( $table ), $table );
		}
		unset( $GLOBALS['wpdb'] );
	}

	public function test_files_of_wordpress_and_of_this_plugin_are_no_other_code(): void {
		$root  = realpath( ABSPATH );
		$files = array(
			"$root/wp-cron.php"                                   => true,
			"$root/wp-admin/includes/post.php"                    => true,
			dirname( __DIR__ ) . '/includes/pending.php'          => true,
			"/srv$root/wp-content/plugins/x/x.php"                => false,
			"/srv$root/wp-admin/x.php"                            => false,
			dirname( __DIR__ ) . 'x/x.php'                       => false,
			'phar:///usr/bin/wp/php/commands/search-replace.php' => false,
		);
		foreach ( $files as $file => $expected ) {
			$this->assertSame( $expected, Galley\is_file_of_wordpress( $file ), $file );
		}
		// The plugin of this test is below ABSPATH.
		$this->assertSame( array( 1, 0, 0 ), array_map( fn( $name ) => preg_match( Galley\ROOT_FILES, $name ), array( 'wp-cron.php', 'import.php', 'wp-import.php' ) ) );
	}

	public function test_the_file_that_asks_for_a_list_is_found_behind_functions_of_wordpress(): void {
		$core   = realpath( ABSPATH ) . '/wp-admin/x.php';
		$plugin = '/srv/wp-content/plugins/x/x.php';
		$frames = static function ( array $calls ): array {
			$frames = array( array( 'function' => 'apply_filters', 'file' => '/srv/any.php' ) );
			foreach ( $calls as $function => $file ) {
				$frames[] = array( 'function' => $function, 'file' => $file );
			}
			return $frames;
		};
		$this->assertTrue( Galley\is_listed_by_others( $frames( array( 'get_terms' => $core, 'get_categories' => $plugin, 'x' => $core ) ) ) );
		$this->assertTrue( Galley\is_listed_by_others( $frames( array( 'get_terms' => $plugin, 'wp_list_categories' => $core ) ) ) );
		$this->assertFalse( Galley\is_listed_by_others( $frames( array( 'get_terms' => $core, 'wp_list_categories' => $plugin ) ) ) );
		$this->assertTrue( Galley\is_listed_by_others( $frames( array( 'get_posts' => $plugin ) ) ) );
		$this->assertFalse( Galley\is_listed_by_others( $frames( array() ) ) );
		$this->assertTrue( Galley\is_listed_by_others( $frames( array( 'get_comments' => $plugin ) ) ) );
		$this->assertFalse( Galley\is_listed_by_others( $frames( array( 'get_comments' => $core, 'widget' => $core ) ) ) );
	}

	/**
	 * @return array[]
	 */
	public static function writes(): array {
		$rows = array( array( '5', 'color' ) );
		return array(
			'a field'                => array( 'postmeta', "UPDATE wp_postmeta SET meta_value = 'x' WHERE post_id = 5 AND meta_key = 'color'", 'SELECT DISTINCT wp_postmeta.post_id, wp_postmeta.meta_key FROM wp_postmeta WHERE ( post_id = 5 AND meta_key = \'color\') LIMIT 101', $rows ),
			'a post'                 => array( 'posts', "UPDATE `wp_posts` SET `post_title` = 'ID = 3' WHERE `ID` = 5", 'SELECT DISTINCT `wp_posts`.ID FROM `wp_posts` WHERE ( `ID` = 5) LIMIT 101', $rows ),
			'a deletion'             => array( 'usermeta', 'DELETE FROM wp_usermeta WHERE user_id = 5', 'SELECT DISTINCT wp_usermeta.user_id, wp_usermeta.meta_key FROM wp_usermeta WHERE ( user_id = 5) LIMIT 101', $rows ),
			'a join'                 => array( 'postmeta', "UPDATE wp_posts p JOIN wp_postmeta AS m ON p.ID = m.post_id SET m.meta_value = p.post_title WHERE m.meta_key = 'x'", "SELECT DISTINCT m.post_id, m.meta_key FROM wp_posts p JOIN wp_postmeta AS m ON p.ID = m.post_id WHERE ( m.meta_key = 'x') LIMIT 101", $rows ),
			'a query within'         => array( 'postmeta', 'DELETE FROM wp_postmeta WHERE post_id NOT IN (SELECT ID FROM wp_posts WHERE 1 LIMIT 5) LIMIT 3', 'SELECT DISTINCT wp_postmeta.post_id, wp_postmeta.meta_key FROM wp_postmeta WHERE ( post_id NOT IN (SELECT ID FROM wp_posts WHERE 1 LIMIT 5) ) LIMIT 101', $rows ),
			'only read'              => array( 'postmeta', 'UPDATE wp_posts p JOIN (SELECT post_id FROM wp_postmeta) x ON x.post_id = p.ID SET p.a = 1 WHERE 1', null, array() ),
			'joined in parentheses'  => array( 'postmeta', 'UPDATE (wp_posts p JOIN wp_postmeta m ON m.post_id = p.ID) SET m.a = 1 WHERE 1', null, null ),
			'joined with itself'     => array( 'postmeta', 'DELETE a FROM wp_postmeta a JOIN wp_postmeta b ON a.post_id = b.post_id WHERE a.meta_id > b.meta_id', null, null ),
			'a new row'              => array( 'comments', "INSERT INTO wp_comments (a) VALUES ('b')", null, 'I' ),
			'a new row or an old one' => array( 'postmeta', 'INSERT INTO wp_postmeta (a) VALUES (1) ON DUPLICATE KEY UPDATE a = 2', null, null ),
			'new rows with numbers'  => array( 'posts', "INSERT INTO wp_posts (`post_title`, `ID`) VALUES ('a', 10), ('b', 11)", null, null ),
			'rows without a list'    => array( 'posts', "INSERT INTO wp_posts VALUES (10, 'a'), (11, 'b')", null, null ),
			'a new row by SET'       => array( 'posts', "INSERT INTO wp_posts SET post_title = 'a'", null, 'I' ),
			'comments'               => array( 'comments', "DELETE FROM wp_comments WHERE comment_approved = 'spam'", "SELECT DISTINCT wp_comments.comment_ID FROM wp_comments WHERE ( comment_approved = 'spam') AND (wp_comments.comment_approved = '1') LIMIT 101", $rows ),
			'a row in place'         => array( 'postmeta', 'REPLACE INTO wp_postmeta (a) VALUES (1)', null, null ),
			'a row without a number' => array( 'term_relationships', 'INSERT INTO wp_term_relationships VALUES (1, 2, 0)', null, null ),
			'another object'         => array( 'postmeta', 'UPDATE wp_postmeta SET post_id = 6 WHERE post_id = 5', null, null ),
			'another key'            => array( 'postmeta', "UPDATE wp_postmeta SET `meta_key` = 'x' WHERE post_id = 5", null, null ),
			'all rows'               => array( 'posts', 'UPDATE wp_posts SET menu_order = 1', null, null ),
			'emptied'                => array( 'posts', 'TRUNCATE TABLE wp_posts', null, null ),
			'the last number'        => array( 'posts', 'UPDATE wp_posts SET a = 1 WHERE ID = LAST_INSERT_ID()', null, null ),
		);
	}

	/**
	 * @dataProvider writes
	 */
	public function test_the_rows_of_a_write_are_asked_for( string $name, string $sql, ?string $asked, $expected ): void {
		$database        = new Statements_Database();
		$database->found = is_array( $expected ) ? $expected : array();
		$this->assertSame( $expected, Galley\rows_of_write( $name, $sql, "wp_$name" ) );
		$this->assertSame( $asked, $database->asked );
		$database->found = array_fill( 0, Galley\MAX_RAW_ROWS + 1, array( '5', 'x' ) );
		$this->assertSame( in_array( $expected, array( 'I', array() ), true ) ? $expected : null, Galley\rows_of_write( $name, $sql, "wp_$name" ), 'too many rows' );
		$database->close_test();
	}

	/**
	 * Statements whose rows cannot be asked for purge the blog, but not from a request for a page, where counters of visits are written.
	 */
	public function test_a_write_whose_rows_are_unknown_purges_the_blog_except_while_a_page_is_generated(): void {
		$database                  = new Statements_Database();
		$GLOBALS['wpdb']->posts    = 'wp_posts';
		$GLOBALS['wpdb']->postmeta = 'wp_postmeta';

		$GLOBALS['wpdb']->commentmeta = 'wp_commentmeta';
		$GLOBALS['options_of_test']   = array();
		$GLOBALS['galley_raw_rows']   = array();
		$joined                       = 'UPDATE wp_posts p JOIN wp_postmeta m ON p.ID = m.post_id SET p.post_title = m.meta_value';
		foreach ( array( 'whole' => array( 'tb.wp_posts', 'b' ), 'shared' => array( 'tb.wp_posts' ) ) as $kind => $expected ) {
			$_SERVER['HTTP_GALLEY_REQUEST'] = $kind;
			$this->assertSame( $expected, Galley\tags_of_raw_write( 'wp_posts', 'posts', $joined ), $kind );
			$this->assertSame( 'whole' === $kind ? array( 'tb.wp_commentmeta', 'kma' ) : array( 'tb.wp_commentmeta' ), Galley\tags_of_raw_write( 'wp_commentmeta', 'commentmeta', 'DELETE m FROM wp_commentmeta m JOIN wp_comments c' ), $kind );
			$this->assertSame( array( 'tb.wp_signups' ), Galley\tags_of_raw_write( 'wp_signups', 'signups', 'DELETE FROM wp_signups' ), $kind );
			$this->assertSame( array(), $GLOBALS['galley_raw_rows'], $kind );
		}
		unset( $_SERVER['HTTP_GALLEY_REQUEST'], $GLOBALS['options_of_test'] );
		$database->close_test();
	}

	public function test_tables_with_any_name_have_one_tag(): void {
		$GLOBALS['wpdb'] = (object) array( 'dbname' => 'db' );
		foreach ( array( 'wp_Groups', 'db.wp_groups', 'wp a,b', str_repeat( 'x', 300 ) ) as $table ) {
			$this->assertSame( Galley\table_tag( $table ), 'tb.' . Galley\tagged_name( $table ), $table );
			$this->assertMatchesRegularExpression( '/^tb\.[^\s,]+$/D', Galley\table_tag( $table ) );
		}
		$this->assertSame( 'tb.wp_groups', Galley\table_tag( 'DB.wp_Groups' ) );
		unset( $GLOBALS['wpdb'] );
	}

	/**
	 * A page announces a table before it reads; an edit looks for that after its changes.
	 */
	public function test_an_edit_that_began_before_the_first_reader_of_a_table_purges_it(): void {
		$database = new Statements_Database();

		$GLOBALS['options_of_test'] = array();
		$this->assertSame( array(), Galley\tags_of_core_write( 'wp_posts', 'posts', 'UPDATE wp_posts SET a = 1' ) );
		$this->assertSame( array( 'wp_posts' => true ), $GLOBALS['galley_core_written'] );
		Galley\announce_core_reads( array( 'wp_posts' ) );
		Galley\queue_core_writes();
		$this->assertSame( array( 'tb.wp_posts' => true ), $GLOBALS['galley_written'] );
		// Nobody reads this one.
		$GLOBALS['galley_written'] = array();
		Galley\tags_of_core_write( 'wp_users', 'users', 'UPDATE wp_users SET a = 1' );
		Galley\queue_core_writes();
		$this->assertSame( array(), $GLOBALS['galley_written'] );
		// What pages have announced is unknown if the database does not answer.
		$database->fails = true;
		Galley\tags_of_core_write( 'wp_users', 'users', 'UPDATE wp_users SET a = 1' );
		Galley\queue_core_writes();
		$this->assertSame( array( 'tb.wp_users' => true ), $GLOBALS['galley_written'] );
		$database->fails           = false;
		$GLOBALS['galley_written'] = array();
		// Rows of a transaction that has not ended yet are not visible to the edit.
		$GLOBALS['galley_transaction'] = array();
		Galley\announce_core_reads( array( 'wp_terms' ) );
		$this->assertSame( array( 'wp_terms' => true ), $GLOBALS['galley_unannounced_reads'] );
		list( $GLOBALS['galley_transaction'], $GLOBALS['galley_unannounced_reads'], $GLOBALS['galley_core_reads'], $GLOBALS['galley_later'] ) = array( null, array(), array(), array() );
		unset( $GLOBALS['options_of_test'] );
		$database->close_test();
	}

	public function test_a_part_has_the_tags_and_the_end_of_the_transients_that_it_reads(): void {
		$kept                       = array_intersect_key( $GLOBALS, array_flip( array( 'galley_tags', 'galley_at_most', 'galley_read_inside' ) ) );
		$GLOBALS['galley_tags']     = array();
		$GLOBALS['galley_at_most']  = array();
		$GLOBALS['options_of_test'] = array(
			'_transient_rates'         => '5',
			'_transient_timeout_rates' => (string) ( time() + 100 ),
		);
		Galley\begin_inside();
		foreach ( array( 'blogname', '_transient_timeout_rates', '_transient_rates', '_transient_missing' ) as $name ) {
			Galley\note_option_inside( false, $name );
		}
		Galley\end_inside();
		$this->assertEqualsCanonicalizing( array( 'op._transient_rates', 'op._transient_missing', 'ot', 'om._transient_missing' ), preg_grep( '/transient|^ot$/', array_keys( $GLOBALS['galley_tags'] ) ) );
		$this->assertEqualsWithDelta( 100, Galley\wrong_after(), 2 );
		unset( $GLOBALS['options_of_test'] );
		foreach ( $kept as $name => $value ) {
			$GLOBALS[ $name ] = $value;
		}
	}
}
