<?php
/**
 * What requests change: tables, options, busy names.
 *
 * @package Galley
 */

use PHPUnit\Framework\TestCase;

function wp_load_alloptions(): array {
	return Galley\note_all_options( $GLOBALS['loaded_of_test'] ?? array() );
}

final class ObservedTest extends TestCase {

	/**
	 * Options that WordPress has not loaded take statements, and the parts read some while they are loaded.
	 *
	 * @group programs
	 */
	public function test_parts_may_read_any_option_while_they_are_loaded(): void {
		$code = '$_SERVER["HTTP_GALLEY_REQUEST"] = "shared"; $wpdb = (object) array( "options" => "wp_options", "dbname" => "db", "base_prefix" => "wp_", "users" => "wp_users", "usermeta" => "wp_usermeta", "insert_id" => 0 ); require ' . var_export( __DIR__ . '/bootstrap.php', true ) . '; get_option( "page" ); echo implode( ",", array_keys( $GLOBALS["galley_tags"] ) );';
		exec( escapeshellarg( PHP_BINARY ) . ' -r ' . escapeshellarg( $code ) . ' 2>&1', $lines );
		$this->assertSame( 'op.page', end( $lines ) );
	}

	public function test_a_page_that_reads_too_many_tables_reads_an_unknown_one(): void {
		$GLOBALS['wpdb'] = (object) array( 'dbname' => 'db', 'base_prefix' => 'wp_', 'users' => 'wp_users', 'usermeta' => 'wp_usermeta' );
		foreach ( range( 1, 30 ) as $number ) {
			Galley\observe_statement( "SELECT 1 FROM wp_t$number, wp_t1" );
			$tables = array_keys( $GLOBALS['galley_tables'] );
			$this->assertContains( $number <= Galley\MAX_UNKNOWN_TABLES ? "wp_t$number" : Galley\UNKNOWN_TABLE, $tables );
		}
		$this->assertCount( Galley\MAX_UNKNOWN_TABLES + 1, $tables );
		$this->assertFalse( Galley\is_plain_table( Galley\UNKNOWN_TABLE ) );
		$GLOBALS['galley_tables'] = array();
	}

	/**
	 * @return array[]
	 */
	public static function writes(): array {
		return array(
			'a row'                  => array( "INSERT INTO `wp_a` (`x`) VALUES ('INTO wp_x')", 'wp_a' ),
			'modifiers'              => array( 'insert low_priority ignore wp_a values (1)', 'wp_a' ),
			'with the database'      => array( 'REPLACE INTO db.`wp_a` SET x = 1', 'db.wp_a' ),
			'from a query'           => array( 'INSERT INTO wp_a SELECT * FROM wp_b ON DUPLICATE KEY UPDATE x = 1', 'wp_a' ),
			'an update'              => array( 'UPDATE wp_a SET x = 1 WHERE y IN (SELECT y FROM wp_b)', 'wp_a' ),
			'an update of several'   => array( 'UPDATE wp_a AS a LEFT JOIN wp_b b ON a.i = b.i, wp_c SET a.x = (SELECT 1 FROM wp_d)', 'wp_a wp_b wp_c' ),
			'a long value'           => array( "UPDATE wp_a SET x = '" . str_repeat( "it''s ", 2000 ) . "' WHERE y = 1", 'wp_a' ),
			'a long condition'       => array( 'DELETE FROM wp_a WHERE x IN (' . implode( ',', range( 1, 3000 ) ) . ')', 'wp_a' ),
			'a long list'            => array( 'UPDATE wp_a JOIN (SELECT 1 AS i WHERE 1 IN (' . implode( ' + ', array_fill( 0, 3000, 'x' ) ) . ')) q, wp_b SET x = 1', 'wp_a wp_b' ),
			'a deletion'             => array( 'DELETE QUICK FROM wp_a WHERE x = 1 LIMIT 3', 'wp_a' ),
			'all rows'               => array( 'DELETE FROM wp_a', 'wp_a' ),
			'a deletion from joins'  => array( 'DELETE a, b FROM wp_a a INNER JOIN wp_b AS b USING (id) WHERE a.x', 'wp_a wp_b' ),
			'a deletion with USING'  => array( 'DELETE FROM wp_a USING wp_a JOIN wp_b ON 1 WHERE 1', 'wp_a wp_b' ),
			'truncation'             => array( 'TRUNCATE TABLE `wp_a`', 'wp_a' ),
			'a column'               => array( 'ALTER TABLE wp_a ADD x int', 'wp_a' ),
			'a new name'             => array( 'ALTER TABLE wp_a RENAME TO wp_b', '?' ),
			'new names'              => array( 'RENAME TABLE wp_a TO wp_b', '?' ),
			'removal'                => array( 'DROP TABLE IF EXISTS wp_a, wp_b', 'wp_a wp_b' ),
			'an empty table'         => array( 'CREATE TABLE IF NOT EXISTS wp_a (x int)', '' ),
			'a temporary table'      => array( 'CREATE TEMPORARY TABLE wp_a AS SELECT 1', '' ),
			'another one'            => array( 'CREATE OR REPLACE TEMPORARY TABLE wp_a SELECT 1 FROM wp_b', '' ),
			'no temporary table'     => array( 'CREATE TABLE temporary AS SELECT 1', '?' ),
			'its removal'            => array( 'DROP TEMPORARY TABLE IF EXISTS wp_a', '' ),
			'a table from a query'   => array( 'CREATE TABLE wp_a AS SELECT 1', '?' ),
			'a view'                 => array( 'CREATE OR REPLACE VIEW wp_a AS SELECT 1', '?' ),
			'a trigger'              => array( 'CREATE TRIGGER t BEFORE INSERT ON wp_a FOR EACH ROW SET @a = 1', '?' ),
			'a file'                 => array( "LOAD DATA LOCAL INFILE '/tmp/x' REPLACE INTO TABLE wp_a", 'wp_a' ),
			'code in the database'   => array( 'CALL wp_procedure(1)', '?' ),
			'code in a comment'      => array( '/*!40000 ALTER TABLE wp_a DISABLE KEYS */', '?' ),
			'a modifier in a comment' => array( 'INSERT /*!50000 IGNORE */ INTO wp_a VALUES (1)', '?' ),
			'a comment of MariaDB'   => array( 'UPDATE wp_a /*M!100100 , wp_b */ SET x = 1', '?' ),
			'a comment in a value'   => array( "UPDATE wp_a SET x = '/*! normalize.css */'", 'wp_a' ),
			'with a setting'         => array( 'SET STATEMENT max_statement_time = 1 FOR UPDATE wp_a SET x = 1', '?' ),
			'a block'                => array( 'BEGIN NOT ATOMIC UPDATE wp_a SET x = 1; END', '?' ),
			'a named subquery'       => array( 'WITH t AS (SELECT 1 FROM wp_b) UPDATE wp_a, t SET x = 1', 'wp_a t' ),
			'a query with a name'    => array( 'WITH t AS (SELECT 1 FROM wp_b) SELECT * FROM t', '' ),
			'after a comment'        => array( "/* plugin */ -- x\n DELETE FROM wp_a", 'wp_a' ),
			'a statement of MariaDB' => array( 'ANALYZE UPDATE wp_a SET x = 1', '?' ),
			'a query'                => array( '(SELECT 1 FROM wp_a) UNION (SELECT 2)', '' ),
			'a transaction'          => array( 'START TRANSACTION', '' ),
			'a lock'                 => array( 'LOCK TABLES wp_a WRITE', '' ),
			'nothing'                => array( " \n;", '' ),
		);
	}

	/**
	 * @dataProvider writes
	 */
	public function test_the_tables_that_a_statement_writes_are_found( string $sql, string $tables ): void {
		$this->assertSame( array_values( array_filter( explode( ' ', $tables ) ) ), Galley\tables_written_by( $sql ) );
	}

	/**
	 * Cuts the statements and mixes them with other text: nothing fails, and a table that follows a verb is always found.
	 */
	public function test_any_text_is_accepted_as_a_write(): void {
		mt_srand( 2 );
		$parts = array( '(', ')', ',', '.', "'", '"', '`', '/*', '*/', '--', "\n", '\\', 'FROM', 'SET', 'WHERE', 'USING', 'JOIN', 'SELECT', 'wp_a', "\xff", '0', '?', ';' );
		foreach ( self::writes() as $case ) {
			foreach ( range( 0, max( 7, min( 3000, strlen( $case[0] ) ) ), 7 ) as $end ) {
				$this->assertIsArray( Galley\tables_written_by( substr( $case[0], $end ) ) );
				$this->assertIsArray( Galley\tables_written_by( substr( $case[0], 0, $end ) ) );
				$this->assertIsArray( Galley\options_in_statement( substr( $case[0], $end ) ) ?? array() );
			}
		}
		for ( $number = 0; $number < 3000; $number++ ) {
			$text = '';
			for ( $length = mt_rand( 1, 30 ); $length > 0; --$length ) {
				$text .= $parts[ mt_rand( 0, count( $parts ) - 1 ) ] . ' ';
			}
			foreach ( array( 'UPDATE wp_last SET x = ', 'DELETE FROM wp_last WHERE x = ', 'INSERT INTO wp_last VALUES ' ) as $start ) {
				$this->assertContains( 'wp_last', Galley\tables_written_by( $start . $text ), $text );
			}
			$this->assertNotContains( 'b', Galley\options_in_statement( "DELETE FROM wp_options WHERE option_name = 'a' AND $text" ) ?? array() );
		}
	}

	/**
	 * @return array[]
	 */
	public static function statements_on_options(): array {
		return array(
			'by its name'       => array( "SELECT option_value FROM wp_options WHERE option_name = 'x' LIMIT 1", array( 'x' ) ),
			'after a space'     => array( "\n SELECT option_value FROM wp_options WHERE option_name = 'x'", array( 'x' ) ),
			'by names'          => array( "SELECT * FROM `wp_options` WHERE `option_name` IN ('a', 'b')", array( 'a', 'b' ) ),
			'with quotes'       => array( "UPDATE `wp_options` SET `option_value` = 'WHERE option_name = \\'z\\'' WHERE `option_name` = 'it''s'", array( "it's" ) ),
			'an insertion'      => array( "INSERT INTO `wp_options` (`option_name`, `option_value`, `autoload`) VALUES ('n', 'v', 'yes') ON DUPLICATE KEY UPDATE `option_value` = VALUES(`option_value`)", array( 'n' ) ),
			'insertions'        => array( "INSERT INTO wp_options (option_name, option_value) VALUES ('n', 'v'), ('m', 'v')", null ),
			'transients'        => array( "DELETE FROM wp_options WHERE option_name LIKE '\\\\_transient\\\\_shop%'", array( '_transient_*' ) ),
			'other names'       => array( "DELETE FROM wp_options WHERE option_name LIKE 'shop%'", null ),
			'two conditions'    => array( "DELETE FROM wp_options WHERE option_name = 'a' OR autoload = 'yes'", null ),
			'all but one'       => array( "DELETE FROM wp_options WHERE NOT option_name = 'a'", null ),
			'a further one'     => array( "DELETE FROM wp_options WHERE option_name = 'a' AND option_value = 'b'", array( 'a' ) ),
			'of a join'         => array( "SELECT a.option_value FROM wp_options a JOIN wp_options b ON b.option_name = 'y' WHERE a.option_name = 'x'", null ),
			'of a second table' => array( "SELECT a.option_value FROM wp_options AS a, wp_options b WHERE a.option_name = 'x' AND b.option_name = 'y'", null ),
			'of a query within' => array( "SELECT (SELECT option_value FROM wp_options LIMIT 1) FROM wp_options WHERE option_name = 'x'", null ),
			'in a condition'    => array( "DELETE FROM wp_options WHERE option_name = 'x' AND option_id IN (SELECT 5)", null ),
			'a new name'        => array( "UPDATE wp_options SET option_name = 'new' WHERE option_name = 'old'", null ),
			'a value'           => array( "UPDATE wp_options SET option_value = 'a, SELECT JOIN' WHERE option_name = 'old'", array( 'old' ) ),
			'updates of several' => array( "UPDATE wp_options a, wp_options b SET a.option_value = 1 WHERE a.option_name = 'old'", null ),
			'by number'         => array( 'DELETE FROM wp_options WHERE option_id = 5', null ),
			'all'               => array( 'SELECT * FROM wp_options', null ),
			'expired ones'      => array( "DELETE a, b FROM wp_options a, wp_options b\n\t\t\tWHERE a.option_name LIKE '\\\\_transient\\\\_%'\n AND a.option_name NOT LIKE 'x'\n AND b.option_name = CONCAT( 'y', SUBSTRING( a.option_name, 12 ) ) AND b.option_value < 5", array() ),
		);
	}

	/**
	 * @dataProvider statements_on_options
	 */
	public function test_statements_on_options_name_them( string $sql, ?array $names ): void {
		$this->assertSame( $names, Galley\options_in_statement( $sql ) );
	}

	public function test_the_statements_of_wordpress_that_load_all_options_are_known(): void {
		$start = 'SELECT option_name, option_value FROM wp_options';
		foreach ( array( " WHERE autoload = 'yes'", " WHERE autoload IN ( 'yes', 'on', 'auto-on', 'auto' )", " WHERE option_name LIKE 'galley\\_pending\\_%' LIMIT 20" ) as $end ) {
			$this->assertTrue( Galley\is_own_statement( $start . $end ), $end );
		}
		foreach ( array( " WHERE autoload = 'yes' AND option_name LIKE 'mytheme_%'", " WHERE autoload = 'no'", " WHERE option_name LIKE 'galley%' OR option_name LIKE 'x'", " WHERE autoload IN ('yes') LIMIT 5", '' ) as $end ) {
			$this->assertFalse( Galley\is_own_statement( $start . $end ), $end );
		}
	}

	public function test_transactions_are_followed(): void {
		$steps = array( 'start transaction' => 'begin', ' BEGIN' => 'begin', 'BEGIN WORK' => 'begin', 'BEGIN NOT ATOMIC SELECT 1; END' => '', 'COMMIT' => 'commit', 'ROLLBACK' => 'rollback', 'ROLLBACK TO SAVEPOINT a' => '', 'SET autocommit=0' => 'always', 'SET SESSION autocommit = 1' => 'never', 'SET names utf8' => '', 'DROP TABLE a' => 'commit', 'DROP TEMPORARY TABLE a' => '', 'CREATE TABLE a (x int)' => 'commit', 'CREATE TEMPORARY TABLE a (x int)' => '', 'CREATE OR REPLACE TEMPORARY TABLE a (x int)' => '', 'UPDATE a SET x = 1' => '' );
		foreach ( $steps as $sql => $step ) {
			$this->assertSame( $step, Galley\transaction_step( $sql ), $sql );
		}
	}

	/**
	 * Plays sequences of changes of one option: there is a change if and only if the last value, as the database keeps it, differs from the first.
	 */
	public function test_only_the_net_effect_counts(): void {
		mt_srand( 3 );
		$gone   = new stdClass();
		$values = array( $gone, '', '0', '1', 1, true, false, null, array(), array( 'a' => 1 ), array( 'a' => '1' ), (object) array( 'a' => 1 ) );
		$kept   = static function ( $value ) use ( $gone ): string {
			return $value === $gone ? 'gone' : ( is_scalar( $value ) ? 't:' . $value : serialize( $value ) );
		};
		foreach ( $values as $old ) {
			foreach ( $values as $new ) {
				$this->assertSame( $kept( $old ) !== $kept( $new ), Galley\is_changed( $old, is_object( $new ) && $new !== $gone ? clone $new : $new, $gone ), $kept( $old ) . ' ' . $kept( $new ) );
			}
		}
	}

	public function test_names_that_visitors_change_all_the_time_become_busy(): void {
		$record = array();
		for ( $number = 1; $number <= 11; $number++ ) {
			list( $record, $purge ) = Galley\count_changes( $record, array( 'op.x' ), 1000 + $number );
			$this->assertSame( array( 'op.x' ), $purge, (string) $number );
			$this->assertSame( 11 === $number ? array( 'op.x' ) : array(), Galley\busy_among( $record, array( 'op.x' => true ), 1020 ) );
		}
		$this->assertSame( array( $record, array( 'op.y' ) ), array( $record, Galley\count_changes( $record, array( 'op.x', 'op.y' ), 1100 )[1] ) );
		// Changes purge again before pages get a long lifetime.
		$end = 1011 + Galley\BUSY_FOR;
		$this->assertSame( array( 'op.x' ), Galley\count_changes( $record, array( 'op.x' ), $end - 100 )[1] );
		$this->assertSame( array( 'op.x' ), Galley\busy_among( $record, array( 'op.x' => true ), $end - 100 ) );
		$this->assertSame( array(), Galley\busy_among( $record, array( 'op.x' => true ), $end ) );
		// Few changes in a long time do not count together.
		$record = array();
		for ( $number = 0; $number < 50; $number++ ) {
			list( $record, $purge ) = Galley\count_changes( $record, array( 'op.x' ), 1000 + 90 * $number );
			$this->assertSame( array( 'op.x' ), $purge );
		}
		for ( $number = 0; $number < 300; $number++ ) {
			$record = Galley\count_changes( $record, array( "op.$number" ), 9000 + $number )[0];
		}
		$this->assertCount( Galley\MAX_BUSY, $record );
	}

	public function test_pages_that_depend_on_all_options_are_a_name_of_their_own(): void {
		$this->assertSame( array( 'op', '3.op' ), Galley\classes_of_options( array( 'op.a', 'op.b', 'tb.x', '3.op.a', 'op', 'so.z' ) ) );
		$this->assertSame( array( 'tb.x', 'op.a', 'op' ), Galley\without_busy( array( 'tb.x', 'op.a' ) ) );
		// Visitors make names that nothing reads, while one changes a counter.
		$record = array();
		for ( $number = 0; $number < 300; $number++ ) {
			$record = Galley\count_changes( $record, array( "op.$number" ), 1000 + $number )[0];
			$record = 0 === $number % 20 ? Galley\count_changes( $record, array( 'op.counter' ), 1000 + $number )[0] : $record;
		}
		$this->assertSame( array( 'op.counter' ), Galley\busy_among( $record, array( 'op.counter' => true ), 1300 ) );
		$record = array( 'op' => array( null, 5000 ) );
		$this->assertSame( array(), Galley\busy_among( $record, array( 'op.x' => true ), 1000 ) );
		$this->assertSame( array( 'op' ), Galley\busy_among( $record, array( 'op' => true ), 1000 ) );
	}

	public function test_users_who_cannot_edit_count_as_visitors(): void {
		foreach ( array( array( 'read' => true ), array( 'edit_posts' => false ), array( 'edit_posts' => true ) ) as $abilities ) {
			foreach ( array( 'GET', 'HEAD', 'POST', 'PUT', '' ) as $method ) {
				foreach ( array( true, false ) as $is_machine ) {
					$is_reader = empty( $abilities['edit_posts'] ) && ( $is_machine || 'GET' === $method || 'HEAD' === $method );
					$this->assertSame( $is_reader, Galley\is_by_reader( $abilities, $method, $is_machine ), $method );
				}
			}
		}
	}

	/**
	 * Plays a request of which the steps are calls of WordPress's actions, and returns what it purges.
	 *
	 * @param array[] $steps Action and its arguments.
	 * @return string[]
	 */
	private static function purged_by( array $steps, bool $is_shared ): array {
		$GLOBALS['options_of_test']     = array( 'filtered' => 'always', '_transient_timeout_over' => 5, '_transient_timeout_kept' => time() + 99 );
		$GLOBALS['galley_purge_id']     = 'x';
		$GLOBALS['galley_filled_again'] = array();
		$_SERVER['HTTP_GALLEY_REQUEST'] = $is_shared ? 'shared' : 'whole';
		$actions                        = array( 'update' => 'note_first_value', 'add' => 'note_new_option', 'delete' => 'note_gone_option', 'done' => 'note_last_value' );
		foreach ( $steps as $step ) {
			( 'Galley\\' . $actions[ $step[0] ] )( ...array_slice( $step, 1 ) );
		}
		$tags = array_filter(
			Galley\take_purges()['hard'],
			static function ( string $tag ): bool {
				return 'op' !== $tag;
			}
		);
		unset( $_SERVER['HTTP_GALLEY_REQUEST'], $GLOBALS['options_of_test'], $GLOBALS['galley_purge_id'] );
		return array_values( $tags );
	}

	public function test_the_values_of_the_actions_decide_and_not_filtered_ones(): void {
		foreach ( array( false, true ) as $is_shared ) {
			$this->assertSame( array( 'op.filtered' ), self::purged_by( array( array( 'update', 'filtered', 'always', 'b' ), array( 'done', 'filtered' ) ), $is_shared ) );
			$this->assertSame( array( 'op.gone' ), self::purged_by( array( array( 'delete', 'gone' ), array( 'done', 'gone' ) ), $is_shared ) );
			$this->assertSame( array(), self::purged_by( array( array( 'update', 'x', 'a', 'b' ), array( 'done', 'x' ), array( 'update', 'x', 'b', 'a' ), array( 'done', 'x' ) ), $is_shared ) );
			$this->assertSame( array(), self::purged_by( array( array( 'add', 'x', 'a' ), array( 'done', 'x' ), array( 'delete', 'x' ), array( 'done', 'x' ) ), $is_shared ) );
			// The second change fails.
			$this->assertSame( array( 'op.x' ), self::purged_by( array( array( 'update', 'x', 'a', 'b' ), array( 'done', 'x' ), array( 'update', 'x', 'b', 'a' ) ), $is_shared ) );
			// An action of the second change makes a third one.
			$this->assertSame( array( 'op.x' ), self::purged_by( array( array( 'update', 'x', 'a', 'b' ), array( 'done', 'x' ), array( 'update', 'x', 'b', 'a' ), array( 'update', 'x', 'a', 'c' ), array( 'done', 'x' ), array( 'done', 'x' ) ), $is_shared ) );
		}
	}

	/**
	 * Fills an option as The SEO Framework does when a page needs it.
	 */
	public static function get_excluded_ids_from_cache(): void {
		if ( array() === end( $GLOBALS['galley_next_values'][ get_current_blog_id() ] ) || array() === end( $GLOBALS['galley_last_values'][ get_current_blog_id() ] ) ) {
			Galley\note_first_value( 'autodescription-site-cache', array(), $GLOBALS['filling_of_test'] );
			Galley\note_last_value( 'autodescription-site-cache' );
		}
	}

	public function test_an_emptied_cache_in_an_option_purges_only_if_it_is_filled_otherwise(): void {
		$name  = 'autodescription-site-cache';
		$steps = array( array( 'update', $name, array( 'ids' => array( 5 ) ), array() ), array( 'done', $name ) );
		$tags  = array( "op.$name", 'ob.autodescription-', 'ob.autodescription-site-' );
		$this->assertSame( $tags, self::purged_by( $steps, false ), 'nothing fills it' );
		class_alias( self::class, 'The_SEO_Framework\Helper\Query\Exclusion' );
		foreach ( array( 5, 6 ) as $id ) {
			$GLOBALS['filling_of_test'] = array( 'ids' => array( $id ) );
			$this->assertSame( 5 === $id ? array() : $tags, self::purged_by( $steps, false ), "$id" );
		}
		unset( $GLOBALS['filling_of_test'] );
	}

	public function test_names_that_appear_or_go_purge_pages_that_asked_for_names(): void {
		$GLOBALS['loaded_of_test'] = array( 'kept' => 'a', 'gone' => 'a' );
		$cases                     = array(
			'created'               => array( array( array( 'add', 'kept', 'a' ), array( 'done', 'kept' ) ), true ),
			'deleted'               => array( array( array( 'delete', 'gone' ), array( 'done', 'gone' ) ), true ),
			'changed'               => array( array( array( 'update', 'kept', 'a', 'b' ), array( 'done', 'kept' ) ), false ),
			'created, not in array' => array( array( array( 'add', 'elsewhere', 'a' ), array( 'done', 'elsewhere' ) ), false ),
			'transient'             => array( array( array( 'delete', '_transient_x' ), array( 'done', '_transient_x' ) ), false ),
		);
		foreach ( $cases as $case => list( $steps, $is ) ) {
			$this->assertSame( $is, in_array( 'oe', self::purged_by( $steps, false ), true ), $case );
		}
		unset( $GLOBALS['loaded_of_test'] );
		$this->assertContains( 'oe', Galley\tags_of_write( 'wp_options', "DELETE FROM wp_options WHERE option_name = 'x'" ) );
		$this->assertNotContains( 'oe', Galley\tags_of_write( 'wp_options', "UPDATE wp_options SET option_value = 1 WHERE option_name = 'x'" ) );
	}

	public function test_a_storable_page_purges_with_transients_unless_it_fills_them(): void {
		$later = time() + 500;
		$cases = array(
			'without an end'             => array( array( array( 'update', '_transient_endless', 'a', 'b' ), array( 'done', '_transient_endless' ) ), true ),
			'before its end'             => array( array( array( 'update', '_transient_timeout_kept', $later - 400, $later ), array( 'update', '_transient_kept', 'a', 'b' ), array( 'done', '_transient_kept' ) ), true ),
			'with an earlier end'        => array( array( array( 'update', '_transient_timeout_kept', $later, $later - 400 ) ), true ),
			'deleted before its end'     => array( array( array( 'delete', '_transient_kept' ) ), true ),
			'which was missing'          => array( array( array( 'add', '_transient_timeout_new', $later ), array( 'add', '_transient_new', 'a' ), array( 'done', '_transient_new' ) ), false ),
			'which was over and deleted' => array( array( array( 'delete', '_transient_over' ), array( 'delete', '_transient_timeout_over' ), array( 'add', '_transient_over', 'a' ) ), false ),
			'which was over'             => array( array( array( 'update', '_transient_timeout_over', 5, $later ), array( 'update', '_transient_over', 'a', 'b' ), array( 'done', '_transient_over' ) ), false ),
		);
		foreach ( $cases as $case => list( $steps, $is_purged ) ) {
			$purged = self::purged_by( $steps, true );
			$this->assertSame( $is_purged ? array() : array( 'om' ), array_values( array_unique( preg_replace( '/\..*/', '', preg_grep( '/^om/', $purged ) ) ) ), $case );
			$this->assertSame( $is_purged, (bool) preg_grep( '/^op/', $purged ), $case );
		}
	}

	public function test_a_page_has_a_tag_of_each_transient_that_it_found_missing(): void {
		$GLOBALS['options_of_test'] = array( '_transient_set' => 'a', '_transient_ends' => 'a', '_transient_timeout_ends' => time() + 500 );
		$cases                      = array( '_transient_set' => array( null, '_transient_set' ), '_transient_timeout_ends' => array( 500, '_transient_ends' ), '_transient_missing' => array( null, '_transient_missing' ), '_transient_timeout_over' => array( null, '_transient_over' ), '_transient_global_styles_x' => array( null, '' ), '_transient_feed_x' => array( null, '_transient_feed_x' ), 'missing' => array( null, 'missing' ) );
		foreach ( $cases as $name => list( $seconds, $tag ) ) {
			list( $GLOBALS['galley_at_most'], $GLOBALS['galley_tags'], $GLOBALS['wp_filters'] ) = array( array(), array(), array( "pre_option_$name" => 1 ) );
			Galley\gather_read_options();
			$this->assertEqualsWithDelta( $seconds, Galley\wrong_after(), 1, $name );
			$this->assertSame( '' !== $tag, isset( $GLOBALS['galley_tags'][ "op.$tag" ] ), $name );
			$this->assertSame( in_array( $tag, array( '_transient_missing', '_transient_over', '_transient_feed_x' ), true ), isset( $GLOBALS['galley_tags'][ "om.$tag" ] ), $name );
		}
		$GLOBALS['options_of_test'] = array( '_site_transient_ends' => 'a', '_site_transient_timeout_ends' => time() + 500 );
		foreach ( array( '_site_transient_timeout_ends' => 500, '_site_transient_ends' => null, '_site_transient_missing' => null, 'site_name' => null ) as $name => $seconds ) {
			$GLOBALS['galley_at_most'] = array();
			Galley\end_with_transient( $name, true );
			$this->assertEqualsWithDelta( $seconds, Galley\wrong_after(), 1, $name );
		}
		list( $GLOBALS['galley_at_most'], $GLOBALS['galley_tags'] ) = array( array(), array() );
		unset( $GLOBALS['options_of_test'], $GLOBALS['wp_filters'] );
	}

	public function test_options_are_known_by_the_filters_that_ran(): void {
		$filters = array( 'pre_option_a' => 3, 'pre_option_b' => 2, 'pre_option' => 5, 'pre_option_1' => 1, 'pre_transient_t' => 1, 'pre_site_option_s' => 1, 'pre_site_transient_u' => 1, 'init' => 1 );
		$this->assertSame( array( array( 'a', '1' ), array() ), Galley\options_read( $filters, array( 'pre_option_b' => 2, 'pre_option_a' => 2 ), false, false ) );
		$this->assertSame( array( array( 'a', 'b', '1', '_transient_t' ), array( 's', '_site_transient_u' ) ), Galley\options_read( $filters, array(), true, true ) );
		foreach ( array( 'blogname', 'cron', 'galley_x', 'widget_text', '_transient_doing_cron', 'category_children', 'product-transient-version' ) as $described ) {
			$this->assertFalse( Galley\is_observed_option( $described ), $described );
		}
		foreach ( array( 'theme_settings', '_transient_list', 'upload_url_path', 'woocommerce_demo_store' ) as $observed ) {
			$this->assertTrue( Galley\is_observed_option( $observed ), $observed );
		}
		$GLOBALS['filtered_of_test'] = array( 'galley_unshown_options' => array( 'ship_updates_checked' ) );
		$this->assertFalse( Galley\is_observed_option( 'ship_updates_checked' ) );
		$this->assertTrue( Galley\is_observed_option( 'ship_updates' ) );
		unset( $GLOBALS['filtered_of_test'] );
		$this->assertTrue( Galley\is_observed_option( 'ship_updates_checked' ) );
	}

	/**
	 * Destructors and PHP's own write of the session run after all functions of the plugin.
	 */
	public function test_what_is_written_after_the_end_of_a_request_is_in_its_row(): void {
		$GLOBALS['wpdb']            = new class() {
			public $dbname      = 'db';
			public $base_prefix = 'wp_';
			public $users       = 'wp_users';
			public $usermeta    = 'wp_usermeta';
			public $insert_id   = 0;
			public $last_query  = '';
			public $last_error  = '';
			public $row         = 'none';
			public function prepare( $sql, $values ) {
				return array( $sql, $values );
			}
			public function remove_placeholder_escape( $sql ) {
				return $sql;
			}
			public function suppress_errors() {
				return false;
			}
			public function query( $sql ) {
				$this->row = 'D' === $sql[0][0] ? 'none' : json_decode( $sql[1][1], true )['purges'];
			}
		};
		$row                        = static function (): string {
			return json_encode( $GLOBALS['wpdb']->row );
		};
		$GLOBALS['options_of_test'] = array();
		$GLOBALS['galley_is_over']  = true;
		unset( $GLOBALS['galley_purge_id'] );
		Galley\observe_write( 'UPDATE wp_visits SET x = 1' );
		$this->assertSame( '{"hard":["tb.wp_visits","tv.wp_visits"],"soft":[]}', $row() );
		Galley\note_first_value( 'thing', 'a', 'b' );
		$this->assertSame( '{"hard":["tb.wp_visits","tv.wp_visits","op.thing","op"],"soft":[]}', $row() );
		Galley\queue_purge( 'p5' );
		$this->assertSame( '{"hard":["tb.wp_visits","tv.wp_visits","op.thing","op","p5","p"],"soft":[]}', $row() );
		// Its purges are known only later.
		Galley\later( 'rules', '__' );
		$this->assertSame( 'null', $row() );
		Galley\observe_write( 'UPDATE wp_visits SET x = 2' );
		$this->assertSame( 'null', $row() );
		$GLOBALS['galley_is_over'] = false;
		$GLOBALS['galley_later']   = array();
		Galley\take_purges();
		list( $GLOBALS['galley_statement'], $GLOBALS['galley_written'], $GLOBALS['galley_first_values'], $GLOBALS['galley_late_purges'] ) = array( null, array(), array(), array() );
		// A row cannot be written while other tables are locked, so that comes first.
		unset( $GLOBALS['galley_purge_id'] );
		$GLOBALS['wpdb']->row = 'none';
		Galley\observe_write( 'UNLOCK TABLES' );
		$this->assertSame( '"none"', $row() );
		Galley\observe_write( 'LOCK TABLES wp_visits WRITE' );
		$this->assertSame( 'null', $row() );
		$this->assertSame( array( 'hard' => array(), 'soft' => array() ), Galley\take_purges() );
		unset( $GLOBALS['options_of_test'], $GLOBALS['galley_purge_id'], $GLOBALS['wpdb'] );
	}

	public function test_only_options_of_registered_widgets_and_taxonomies_are_quiet(): void {
		$GLOBALS['wp_widget_factory'] = (object) array( 'widgets' => array( (object) array( 'option_name' => 'widget_shop', 'alt_option_name' => 'widget_old_shop' ) ) );
		$observed                     = array( 'widget_logic' => true, 'widget_shop' => false, 'widget_old_shop' => false, 'widget_text' => false, 'widget_recent-posts' => false, 'widget_recent-comments' => false, 'product_cat_children' => false, 'our_children' => true, 'admin_email' => true, 'user_count' => true, 'new_admin_email' => false );
		foreach ( $observed as $name => $is_observed ) {
			$this->assertSame( $is_observed, Galley\is_observed_option( $name ), $name );
		}
		$this->assertTrue( Galley\is_observed_network_option( 'admin_email' ) );
		unset( $GLOBALS['wp_widget_factory'] );
	}

	/**
	 * Filters that answer in place of an option run before no array of options is read, so counting reads does not tell the callers.
	 */
	public function test_the_caller_of_a_read_decides(): void {
		$inner = array( array( 'function' => 'note_all_options', 'file' => ABSPATH . 'class-wp-hook.php' ), array( 'function' => 'apply_filters', 'file' => ABSPATH . 'plugin.php' ) );
		$cases = array( dirname( __DIR__ ) . '/includes/pending.php' => false, __FILE__ => true, '/srv/wp-content/themes/x/index.php' => true );
		foreach ( $cases as $file => $is_other ) {
			$frames = array_merge( $inner, array( array( 'function' => 'wp_load_alloptions', 'file' => $file ) ) );
			$this->assertSame( $is_other, Galley\is_read_by_others( 'wp_load_alloptions', $frames ), $file );
		}
		$GLOBALS['wp_filters'] = array( 'pre_option' => 5 );
		$read                  = static function (): array {
			$GLOBALS['galley_tags'] = array();
			wp_load_alloptions();
			return array_keys( $GLOBALS['galley_tags'] );
		};
		$this->assertSame( array( 'op' ), $read() );
		$GLOBALS['wp_filters']['pre_option'] = 6;
		$this->assertSame( array( 'op' ), $read() );
		unset( $GLOBALS['wp_filters'] );
		$GLOBALS['galley_tags'] = array();
	}

	public function test_tags_of_options_collapse_to_their_class(): void {
		$tags = array( 'b', 'p1' );
		for ( $number = 0; $number < 950; $number++ ) {
			$tags[] = "op.name_$number";
		}
		$this->assertSame( array( 'b', 'p1', 'op' ), Galley\collapsed( $tags ) );
		$this->assertSame( array( 'op.x', 'op', 'p1', 'p' ), Galley\with_classes( array( 'op.x', 'p1' ) ) );
	}

	public function test_code_that_asks_for_names_of_options_only_is_recognized(): void {
		$call = '$all = wp_load_alloptions();';
		$rows = array(
			"function f() { $call if ( isset( \$all[ \$name ] ) ) { return 1; } }" => true,
			"function f() { $call foreach ( \$names as \$name => \$x ) { if ( isset( \$all[ \$names[ \$name ] ] ) || isset(\$all['x']) ) { continue; } } }" => true,
			"/** About \$all. */ static function f(): int { /* \$all */ $call # \$all\n return (int) isset( \$all[\"x\"] ); }" => true,
			"function f() { $call return \$all; }" => false,
			"function f() { $call return \$all['x']; }" => false,
			"function f() { $call return isset( \$all['x'] ) ? \$all['x'] : 0; }" => false,
			"function f() { $call return compact( 'all' ); }" => false,
			"function f() { $call \$name = 'all'; return \$\$name; }" => false,
			"function f() { $call include 'x.php'; }" => false,
			"function f() { $call return \"\${all}\"; }" => false,
			"function f() { return isset( wp_load_alloptions()['x'] ); }" => false,
			"function f() { \$this->all = wp_load_alloptions(); return isset( \$this->all['x'] ); }" => false,
			'function f() { foreach ( wp_load_alloptions() as $x ) { echo $x; } }' => false,
			"function f() { $call foreach ( wp_load_alloptions() as \$x ) { echo \$x; } isset( \$all[1] ); }" => false,
			"function f() { $call return static function () use ( \$all ) { return isset( \$all[1] ); }; }" => false,
			"function f() { $call return isset( \$all[ g( \$all ) ] ); }" => false,
			'' => false,
		);
		foreach ( $rows as $code => $is ) {
			$this->assertSame( $is, Galley\asks_for_names_only( $code ), $code );
		}
	}

	public function test_code_that_fills_the_list_of_missing_options_depends_on_no_name(): void {
		$fills = "if ( ! isset( \$all['x'] ) ) { \$not['x'] = true; wp_cache_set( 'notoptions', \$not, 'options' ); }";
		$rows  = array(
			"function f() { \$all = wp_load_alloptions(); $fills }" => array(),
			"function f() { \$all = wp_load_alloptions(); $fills return \$all['y']; }" => array( 'op' ),
			"function f() { \$all = wp_load_alloptions(); return isset( \$all['x'] ); }" => array( 'oe' ),
		);
		foreach ( $rows as $code => $tags ) {
			$this->assertSame( $tags, Galley\tags_of_all_options( $code ), $code );
		}
	}

	public function test_the_code_of_the_function_that_reads_all_options_is_found(): void {
		$frames = array( array( 'function' => 'apply_filters' ), array( 'function' => 'wp_load_alloptions' ), array( 'function' => 'f' ) );
		foreach ( array( array( 'function' => 'wp_load_alloptions' ), array( 'function' => __FUNCTION__, 'class' => __CLASS__ ), array( 'function' => '{closure}' ), array( 'function' => 'require_once' ), array() ) as $at => $caller ) {
			$frames[2] = $caller;
			$code      = Galley\code_of_caller( 'wp_load_alloptions', $frames );
			$this->assertSame( $at < 2, false !== strpos( $code, 'function ' . ( $caller['function'] ?? '' ) . '(' ), "$at" );
		}
	}
}
