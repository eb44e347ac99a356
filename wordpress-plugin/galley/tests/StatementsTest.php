<?php
/**
 * Statements whose results edits verify: which ones, and what happens if pages and edits overlap.
 *
 * @package Galley
 */

use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/statements-database.php';

final class StatementsTest extends TestCase {

	/**
	 * @return array[]
	 */
	public static function statements(): array {
		return array(
			'a condition'          => array( "SELECT a, b FROM wp_t WHERE c = 'NOW()' AND d IN (1, 2) ORDER BY a LIMIT 5", true ),
			'functions of values'  => array( 'select count(*), coalesce(sum(x), 0), LEFT(a, 2) from `wp_t` group by y having max(z) > 3', true ),
			'joins'                => array( 'SELECT 1 FROM wp_t t LEFT JOIN wp_u USING (id) WHERE EXISTS (SELECT 1 FROM wp_v) AND (a OR b)', true ),
			'a union'              => array( '(SELECT a FROM wp_t) UNION ALL (SELECT b FROM wp_u) ORDER BY 1', true ),
			'columns like words'   => array( 'SELECT `update`, `into`, `now` FROM wp_t', true ),
			'a comment'            => array( 'SELECT 1 /* NOW() */ FROM wp_t -- RAND()', true ),
			'an index'             => array( 'SELECT 1 FROM wp_t USE INDEX (a) WHERE b BETWEEN (1) AND (2)', true ),
			'random numbers'       => array( 'SELECT 1 FROM wp_t ORDER BY RAND()', false ),
			'the time'             => array( 'SELECT 1 FROM wp_t WHERE a < NOW()', false ),
			'the time of today'    => array( 'SELECT 1 FROM wp_t WHERE a < UNIX_TIMESTAMP()', false ),
			'the time as a word'   => array( 'SELECT 1 FROM wp_t WHERE a < CURRENT_TIMESTAMP', false ),
			'a variable'           => array( 'SELECT @a := a FROM wp_t', false ),
			'a stored function'    => array( 'SELECT my_function(a) FROM wp_t', false ),
			'one with a database'  => array( 'SELECT db.LOWER(a) FROM wp_t', false ),
			'one in backticks'     => array( 'SELECT `lower`(a) FROM wp_t', false ),
			'a break before it'    => array( "SELECT sleep\n(5) FROM wp_t", false ),
			'a comment before it'  => array( 'SELECT sleep/**/(5) FROM wp_t', false ),
			'a lock'               => array( "SELECT GET_LOCK('a', 1)", false ),
			'rows that are locked' => array( 'SELECT a FROM wp_t FOR UPDATE', false ),
			'shared rows'          => array( 'SELECT a FROM wp_t LOCK IN SHARE MODE', false ),
			'a file'               => array( "SELECT a INTO OUTFILE '/tmp/x' FROM wp_t", false ),
			'the number of all'    => array( 'SELECT SQL_CALC_FOUND_ROWS a FROM wp_t LIMIT 1', false ),
			'it afterwards'        => array( 'SELECT FOUND_ROWS()', false ),
			'code in a comment'    => array( 'SELECT /*!50000 SLEEP(1) */ a FROM wp_t', false ),
			'a sequence'           => array( 'SELECT NEXT VALUE FOR s', false ),
			'two statements'       => array( 'SELECT a FROM wp_t; DELETE FROM wp_t', false ),
			'a write'              => array( 'DELETE FROM wp_t RETURNING a', false ),
			'a setting'            => array( 'SET STATEMENT max_statement_time = 1 FOR SELECT 1', false ),
			'a long one'           => array( 'SELECT a FROM wp_t WHERE b IN (' . implode( ',', range( 1, 2000 ) ) . ')', false ),
			'nothing'              => array( '', false ),
		);
	}

	/**
	 * @dataProvider statements
	 */
	public function test_only_statements_that_depend_on_rows_alone_run_again( string $sql, bool $expected ): void {
		$this->assertSame( $expected, Galley\is_repeatable( $sql ) );
	}

	/**
	 * Inserts words that make a statement vary at each place.
	 */
	public function test_no_place_hides_what_varies(): void {
		$words = preg_split( '/ /', "SELECT a , b FROM wp_t WHERE c = 'it''s' AND d IN ( 1 , 2 )" );
		foreach ( array( 'SLEEP(1)', 'sleep ( 1 )', '@@session.x', 'CURRENT_USER', 'INTO @a', '/*! x */', 'x.y (1)', '`f`(1)' ) as $word ) {
			foreach ( array_keys( $words ) as $at ) {
				$this->assertFalse( Galley\is_repeatable( implode( ' ', array_merge( array_slice( $words, 0, $at ), array( $word ), array_slice( $words, $at ) ) ) ), "$word at $at" );
			}
		}
	}

	/**
	 * @return array[]
	 */
	public static function conditions(): array {
		return array(
			'an update'            => array( "UPDATE `wp_posts` SET `post_title` = 'WHERE 1' WHERE `ID` = 5", '`wp_posts`', ' `ID` = 5' ),
			'of the database'      => array( 'update db.wp_posts set a = 1 where ID IN (1, 2) limit 5;', 'db.wp_posts', ' ID IN (1, 2) ' ),
			'with an alias'        => array( 'UPDATE wp_posts AS p SET p.a = 1 WHERE p.ID = 2 ORDER BY x LIMIT 1', 'wp_posts AS p', ' p.ID = 2 ' ),
			'a deletion'           => array( "DELETE FROM wp_postmeta WHERE meta_key = 'a b'", 'wp_postmeta', " meta_key = 'a b'" ),
			'after a comment'      => array( '/* x */ DELETE FROM wp_postmeta WHERE 1', 'wp_postmeta', ' 1' ),
			'a comment within'     => array( 'UPDATE /* x */ `db`.`wp_posts` SET a = 1 WHERE /* y */ ID = 2 # z', '`db`.`wp_posts`', ' /* y */ ID = 2' ),
			'everything'           => array( 'UPDATE wp_posts SET a = 1', null, null ),
			'a query within'       => array( 'UPDATE wp_posts SET a = 1 WHERE ID IN (SELECT 1 WHERE 2 LIMIT 3) ORDER BY x', 'wp_posts', ' ID IN (SELECT 1 WHERE 2 LIMIT 3) ' ),
			'a join'               => array( 'UPDATE wp_posts p JOIN wp_x ON (a = 1) SET a = (SELECT 1 WHERE 2) WHERE p.ID = 1', 'wp_posts p JOIN wp_x ON (a = 1)', ' p.ID = 1' ),
			'several tables'       => array( 'UPDATE wp_posts, wp_x SET a = 1 WHERE 1', 'wp_posts, wp_x', ' 1' ),
			'a deletion from joins' => array( 'DELETE p FROM wp_posts p LEFT JOIN wp_x USING (a) WHERE p.ID = 1', 'wp_posts p LEFT JOIN wp_x USING (a)', ' p.ID = 1' ),
			'a deletion by USING'  => array( 'DELETE FROM p USING wp_posts AS p JOIN wp_x USING(a) WHERE p.ID = 1', 'wp_posts AS p JOIN wp_x USING(a)', ' p.ID = 1' ),
			'words as names'       => array( 'UPDATE `set` SET `where` = 1 WHERE `limit` = 1', '`set`', ' `limit` = 1' ),
			'joins and all rows'   => array( 'UPDATE wp_posts p JOIN wp_x ON p.ID = 1 SET a = 1', null, null ),
			'random rows'          => array( 'DELETE FROM wp_posts WHERE RAND() < 0.5', null, null ),
			'code in a comment'    => array( 'DELETE FROM wp_posts WHERE ID = 1 /*! OR 1 */', null, null ),
		);
	}

	/**
	 * @dataProvider conditions
	 */
	public function test_the_rows_of_a_write_have_its_condition( string $sql, ?string $table, ?string $condition ): void {
		$this->assertSame( null === $table ? null : array( $table, $condition ), Galley\condition_of( $sql ) );
	}

	/**
	 * Long statements: what is found is the same, and a hostile text takes no longer than a plain one.
	 */
	public function test_long_statements_have_conditions_without_long_waits(): void {
		$size  = 600000;
		$ids   = implode( ', ', array_map( fn( $id ) => "'$id'", range( 100000, 110000 ) ) );
		$longs = array(
			array( "UPDATE wp_posts SET post_content = '" . str_repeat( 'a WHERE b ', $size / 10 ) . "' WHERE ID = 5;", 'wp_posts', ' ID = 5' ),
			array( 'UPDATE wp_posts SET a = 1' . str_repeat( ' ', $size ) . 'WHERE ID = 5', 'wp_posts', ' ID = 5' ),
			array( 'UPDATE wp_posts SET a = 1 /*' . str_repeat( ' WHERE', $size / 6 ) . '*/ WHERE ID = 5', 'wp_posts', ' ID = 5' ),
			array( 'UPDATE wp_posts ' . str_repeat( ' ', $size ) . 'SE a = 1 WHERE ID = 5', null, null ),
			array( 'UPDATE ' . str_repeat( 'x', $size ) . ' = 1 WHERE ID = 5', null, null ),
			array( 'UPDATE ' . str_repeat( 'x.', $size / 2 ) . ' SET a = 1 WHERE ID = 5', null, null ),
			array( 'UPDATE wp_posts ' . str_repeat( '(', $size ) . ' SET a = 1 WHERE ID = 5', null, null ),
			array( 'UPDATE wp_posts SET a = 1 ' . str_repeat( 'ORDER   ', $size / 8 ) . ' WHERE ID = 5', 'wp_posts', ' ID = 5' ),
			array( 'UPDATE wp_posts SET a = 1 ' . str_repeat( 'WHERE ', $size / 6 ), null, null ),
			array( 'DELETE FROM wp_posts WHERE ID = 5' . str_repeat( ' ;', $size / 2 ) . 'x', null, null ),
			array( "DELETE FROM wp_comments WHERE comment_id IN ( $ids )", 'wp_comments', " comment_id IN ( $ids )" ),
			array( "DELETE FROM wp_comments WHERE comment_id IN ( $ids, $ids, $ids )", null, null ),
		);
		foreach ( $longs as $at => list( $sql, $table, $condition ) ) {
			$began = microtime( true );
			$this->assertSame( null === $table ? null : array( $table, $condition ), Galley\condition_of( $sql ), "$at: " . substr( $sql, 0, 60 ) );
			// Seconds: a busy machine takes up to one and a half, quadratic work takes minutes.
			$this->assertLessThan( 5.0, microtime( true ) - $began, "$at" );
		}
	}

	/**
	 * Generated statements: what divides them is found wherever its words are also within parentheses, texts, names and comments.
	 */
	public function test_the_parts_of_generated_statements_are_found(): void {
		mt_srand( 6 );
		$one  = static function ( array $of ): string {
			return $of[ mt_rand( 0, count( $of ) - 1 ) ];
		};
		$hard = array( "'WHERE LIMIT'", '"it\'s FROM"', '`order by`', '(SELECT b FROM wp_c WHERE d = 1 ORDER BY e LIMIT 2)', '/* SET ( */ 7', "'a\\' WHERE '", 'COALESCE(a, (1))' );
		for ( $round = 0; $round < 2000; $round++ ) {
			$from = $one( array( 'wp_posts', '`wp_posts` AS p', 'db.wp_posts p' ) );
			for ( $joins = mt_rand( 0, 2 ); $joins > 0; $joins-- ) {
				$from .= $one( array( ', wp_x', ' JOIN wp_x USING (a)', ' LEFT JOIN `wp_y` AS y ON y.a = ' . $one( $hard ), ' JOIN (SELECT a FROM wp_posts WHERE b = 1) z ON (z.a = 1)' ) );
			}
			$condition = '';
			for ( $parts = mt_rand( 0, 3 ); $parts >= 0; $parts-- ) {
				$condition .= ( '' === $condition ? ' ' : $one( array( ' AND ', ' OR ' ) ) ) . $one( array( 'a', 'p.a', '`b`' ) ) . $one( array( ' = ', ' <> ' ) ) . $one( $hard );
			}
			$set  = 'a = ' . $one( $hard ) . ', b = ' . $one( $hard );
			$sql  = $one( array( "UPDATE IGNORE $from SET $set", "DELETE FROM $from", "DELETE p FROM $from", "DELETE FROM p USING $from" ) );
			$tail = $one( array( '', ';', ' LIMIT 3', ' order  by a LIMIT 3' ) );
			$this->assertSame( array( $from, rtrim( $condition ) ), array_map( 'rtrim', (array) Galley\condition_of( "$sql WHERE$condition$tail" ) ), "$sql WHERE$condition$tail" );
			$this->assertNull( Galley\condition_of( "$sql$tail" ), "$sql$tail" );
			$names = Galley\aliases_in( $from, 'wp_posts' );
			$this->assertCount( 1, $names, $from );
			$this->assertContains( $names[0], array( 'wp_posts', 'p', 'db.wp_posts' ), $from );
			$this->assertSame( array(), Galley\aliases_in( $from, 'wp_c' ), $from );
			$this->assertFalse( Galley\is_named_outside_queries( $from, 'wp_c' ), $from );
		}
	}

	/**
	 * @return array[]
	 */
	public static function triggers(): array {
		return array(
			'another table'     => array( 'UPDATE wp_item SET amount = amount + 1 WHERE id = NEW.item_id', array( 'wp_item' ) ),
			'a new row'         => array( 'INSERT INTO wp_log (a, b) VALUES (NEW.id, UPPER(NEW.name))', array( 'wp_log' ) ),
			'its own row'       => array( 'SET NEW.a = LOWER(NEW.a)', array() ),
			'a block'           => array( 'BEGIN UPDATE wp_item SET a = 1; END', null ),
			'a name of a block' => array( 'x: BEGIN UPDATE wp_item SET a = 1; END', null ),
			'a procedure'       => array( 'CALL p()', null ),
			'a stored function' => array( 'SET NEW.a = f(1)', null ),
		);
	}

	/**
	 * @dataProvider triggers
	 */
	public function test_the_tables_that_a_trigger_writes_are_known_or_it_is_unknown( string $code, ?array $expected ): void {
		$this->assertSame( $expected, Galley\tables_of_trigger( $code ) );
	}

	public function test_views_have_the_tables_of_their_views(): void {
		$GLOBALS['wpdb'] = (object) array( 'dbname' => 'db' );
		$views           = array(
			array( 'name' => 'a', 'code' => 'select 1 from `db`.`t` join `db`.`b`' ),
			array( 'name' => 'b', 'code' => 'select 1 from `db`.`u`' ),
			array( 'name' => 'c', 'code' => 'select now() from `db`.`u`' ),
			array( 'name' => 'd', 'code' => 'select 1 from `db`.`c`' ),
			array( 'name' => 'e', 'code' => 'select 1 from `db`.`d`' ),
			array( 'name' => 'f', 'code' => '' ),
		);
		$links           = Galley\linked_views( $views );
		sort( $links['a'] );
		$this->assertSame( array( 'a', 'b' ), array_keys( $links ) );
		$this->assertSame( array( 'b', 't', 'u' ), $links['a'] );
		$this->assertNull( Galley\linked_changes( array( array( 'name' => 'q', 'code' => 'CALL p()' ) ), array() ) );
		$changes = Galley\linked_changes( array( array( 'name' => 'Q', 'code' => 'DELETE FROM wp_t WHERE a = 1' ) ), array( array( 'name' => 'wp_t', 'other' => 'wp_u' ), array( 'name' => 'wp_u', 'other' => 'wp_t' ) ) );
		sort( $changes['q'] );
		$this->assertSame( array( 'wp_t', 'wp_u' ), $changes['q'] );
		unset( $GLOBALS['wpdb'] );
	}

	/**
	 * Runs an edit before each statement that a page sends when it ends, and a page before each statement of an edit: whenever the page shows the old rows, a
	 * purge of the edit reaches it.
	 */
	public function test_no_overlap_of_pages_and_edits_leaves_a_stale_page(): void {
		foreach ( array( 'nothing', 'old', 'new', 'unconfirmed', 'late' ) as $registered ) {
			foreach ( array( true, false ) as $reads_before ) {
				for ( $step = 0; $step < 12; $step++ ) {
					$text = "$registered, reads before: " . (int) $reads_before . ", step $step";
					$this->check_overlap( $registered, $reads_before, $step, false, "edit within a page, $text" );
					$this->check_overlap( $registered, $reads_before, $step, true, "page within an edit, $text" );
				}
			}
		}
	}

	private function check_overlap( string $registered, bool $reads_before, int $step, bool $is_edit_outer, string $text ): void {
		$database = new Statements_Database();
		$database->prepare_registry( $registered );
		$page = array();
		$edit = function () use ( $database ): void {
			$database->value = 'new';
			Galley\queue_changed_results( array( 'wp_t' ) );
			$database->purged_at = $database->time;
		};
		$read = function () use ( $database, &$page ): void {
			$page['shows']           = $database->value;
			$GLOBALS['galley_reads'] = array( Statements_Database::SQL => array( array( 'wp_t' ), Galley\digest_of( $database->rows() ) ) );
		};
		$end  = function () use ( $database, &$page, $registered ): void {
			if ( 'late' === $registered ) {
				// Another page, which has read the old rows, too, has got as far as this.
				$database->prepare_registry( 'unconfirmed' );
			}
			$page['unknown'] = Galley\gather_statements();
			$page['tags']    = array_keys( $GLOBALS['galley_tags'] );
			$page['end']     = $database->time;
		};
		if ( $reads_before ) {
			$read();
		}
		if ( $is_edit_outer ) {
			$database->interrupt(
				$step,
				function () use ( $read, $end, $reads_before ): void {
					$reads_before || $read();
					$end();
				}
			);
			$edit();
		} else {
			$reads_before || $read();
			$database->interrupt( $step, $edit );
			$end();
		}
		$database->finish(
			$is_edit_outer ? function () use ( $read, $end, $reads_before ): void {
				$reads_before || $read();
				$end();
			} : $edit
		);
		$purged = array_map( 'strval', array_keys( $GLOBALS['galley_purges']['hard'] ) );
		// Each edit also purges pages without verified statements.
		$is_reached = $page['unknown'] || array_intersect( $page['tags'], $purged );
		if ( 'old' === $page['shows'] ) {
			$this->assertTrue( (bool) $is_reached, $text );
		}
		// What is trusted from now on is what the database has.
		foreach ( $database->registry as $row ) {
			$this->assertTrue( ! $row['known'] || Galley\digest_of( $database->rows() ) === $row['digest'], $text );
		}
		$database->close_test();
	}

	public function test_a_write_that_changes_no_result_purges_no_verified_page(): void {
		$database               = new Statements_Database();
		$page                   = static function () use ( $database ): array {
			$GLOBALS['galley_tags']  = array();
			$GLOBALS['galley_reads'] = array( Statements_Database::SQL => array( array( 'wp_t' ), Galley\digest_of( $database->rows() ) ) );
			return array( Galley\gather_statements(), array_keys( $GLOBALS['galley_tags'] ) );
		};
		$edit                   = static function (): array {
			$GLOBALS['galley_purges']['hard'] = array();
			Galley\queue_changed_results( array( 'wp_t' ) );
			return array_keys( $GLOBALS['galley_purges']['hard'] );
		};
		list( $unknown, $tags ) = $page();
		$this->assertSame( array(), $unknown );
		$this->assertCount( 1, $tags );
		$this->assertSame( array(), $edit() );
		$database->value = 'new';
		$this->assertSame( $tags, $edit() );
		$this->assertSame( array(), $database->registry );
		$this->assertNotSame( $tags, $page()[1] );
		// A result that no edit has seen yet is not trusted.
		$database->value = 'newer';
		$this->assertSame( array( array( 'wp_t' => true ), array() ), $page() );
		$this->assertCount( 1, $edit() );
		$this->assertSame( array(), $page()[0] );
		// Without an answer, all pages with statements on the table are purged.
		$database->fails = true;
		$this->assertSame( array( 'tv.wp_t' ), $edit() );
		$database->close_test();
	}

	public function test_statements_of_one_visit_are_not_kept(): void {
		$now   = gmmktime( 12, 0, 0, 11, 29, 2026 );
		$table = array(
			"SELECT a FROM t WHERE d > '2026-11-29 11:59:58'"   => true,
			"SELECT a FROM t WHERE d > '2026-11-29T12:30'"      => true,
			'SELECT a FROM t WHERE d > ' . ( $now - 60 )        => true,
			"SELECT a FROM t WHERE d > '2026-11-29'"            => false,
			"SELECT a FROM t WHERE d > '2025-11-29 12:00:00'"   => false,
			'SELECT a FROM t WHERE d > 1234567890'              => false,
			"SELECT a FROM t WHERE token = 'abcdefghijklmnopq'" => true,
			"SELECT a FROM t WHERE page = 'about'"              => false,
		);
		$_GET  = array( 'token' => 'abcdefghijklmnopq', 'page' => 'about', 'list' => array( 'x' ) );
		foreach ( $table as $sql => $expected ) {
			$this->assertSame( $expected, Galley\is_for_one_visit( $sql, $now ), $sql );
		}
		$_GET = array();
	}

	public function test_long_results_have_no_digest(): void {
		$row = (object) array( 'text' => str_repeat( 'x', 500000 ) );
		$this->assertNotNull( Galley\digest_of( array( $row, $row ) ) );
		$this->assertNull( Galley\digest_of( array( $row, $row, $row ) ) );
		$this->assertNull( Galley\digest_of( array_fill( 0, Galley\MAX_RESULT_ROWS + 1, (object) array() ) ) );
		$this->assertNotSame( Galley\digest_of( array( (object) array( 'a' => null ) ) ), Galley\digest_of( array( (object) array( 'a' => '' ) ) ) );
	}

	public function test_columns_that_no_page_shows_do_not_count(): void {
		$row  = static function ( string $title, string $time, string $type = 'user' ): array {
			return array(
				(object) array(
					'object_type' => $type,
					'title'       => $title,
					'updated_at'  => $time,
				),
			);
		};
		$rows = array(
			array( 'SELECT * FROM wp_yoast_indexable WHERE id = 5', true ),
			array( 'SELECT * FROM `wp_yoast_indexable` WHERE `object_id` = 1 LIMIT 1', true ),
			array( 'SELECT * FROM wp_yoast_indexable y JOIN wp_news n ON n.id = y.object_id', false ),
			array( "SELECT * FROM wp_news WHERE name = 'yoast_indexable'", false ),
			array( 'SELECT * FROM wp_yoast_indexable_hierarchy', false ),
		);
		foreach ( $rows as list( $sql, $is_quiet ) ) {
			$quiet = Galley\quiet_columns( $sql );
			$this->assertSame( $is_quiet, Galley\digest_of( $row( 'a', '1' ), $quiet ) === Galley\digest_of( $row( 'a', '2' ), $quiet ), $sql );
			$this->assertNotSame( Galley\digest_of( $row( 'a', '1' ), $quiet ), Galley\digest_of( $row( 'b', '1' ), $quiet ), $sql );
			$this->assertNotSame( Galley\digest_of( $row( 'a', '1', 'post' ), $quiet ), Galley\digest_of( $row( 'a', '2', 'post' ), $quiet ), $sql );
		}
	}

	public function test_statements_for_which_there_is_no_time_count_as_changed(): void {
		$database   = new Statements_Database();
		$statements = (int) ( Galley\VERIFY_SECONDS / 0.002 ) + 20;
		$tags       = array();
		for ( $number = 0; $number < $statements; $number++ ) {
			$GLOBALS['galley_reads'] = array( "SELECT a FROM wp_t WHERE b = $number" => array( array( 'wp_t' ), Galley\digest_of( $database->rows() ) ) );
			Galley\gather_statements();
			$tags = array_merge( $tags, preg_grep( '/^sq/', array_keys( $GLOBALS['galley_tags'] ) ) );
		}
		$tags                             = array_values( array_unique( $tags ) );
		$GLOBALS['galley_purges']['hard'] = array();
		$database->slow                   = true;
		$began                            = microtime( true );
		Galley\queue_changed_results( array( 'wp_t' ) );
		$purged = array_keys( $GLOBALS['galley_purges']['hard'] );
		// The first statements are verified. The number of the others depends on the machine.
		if ( microtime( true ) - $began < Galley\MAX_VERIFY_SECONDS ) {
			$this->assertGreaterThanOrEqual( Galley\MIN_VERIFIED, count( $tags ) - count( $purged ) );
		}
		$this->assertSame( array_slice( $tags, count( $tags ) - count( $purged ) ), $purged );
		$this->assertGreaterThanOrEqual( 5, count( $purged ) );
		$this->assertCount( count( $tags ) - count( $purged ), $database->registry );
		$database->close_test();
	}

	public function test_a_full_list_is_dropped_although_nothing_has_changed(): void {
		$database = new Statements_Database();
		for ( $number = 0; $number < Galley\MAX_STATEMENTS; $number++ ) {
			$GLOBALS['galley_reads'] = array( "SELECT a FROM wp_t WHERE b = $number" => array( array( 'wp_t' ), Galley\digest_of( $database->rows() ) ) );
			Galley\gather_statements();
		}
		$GLOBALS['galley_purges']['hard'] = array();
		Galley\queue_changed_results( array( 'wp_t' ) );
		$this->assertSame( array( 'tv.wp_t' ), array_keys( $GLOBALS['galley_purges']['hard'] ) );
		$this->assertSame( array(), $database->registry );
		$database->close_test();
	}

	public function test_rows_are_limited_and_dropped_together(): void {
		$database = new Statements_Database();
		$known    = 0;
		for ( $number = 0; $number < Galley\MAX_STATEMENTS + 50; $number++ ) {
			$GLOBALS['galley_reads'] = array( "SELECT a FROM wp_t WHERE b = $number" => array( array( 'wp_t' ), Galley\digest_of( $database->rows() ) ) );
			$known                  += array() === Galley\gather_statements() ? 1 : 0;
		}
		$this->assertSame( Galley\MAX_STATEMENTS, $known );
		$GLOBALS['galley_purges']['hard'] = array();
		$database->slow                   = true;
		Galley\queue_changed_results( array( 'wp_t' ) );
		$this->assertSame( array( 'tv.wp_t' ), array_keys( $GLOBALS['galley_purges']['hard'] ) );
		$this->assertSame( array(), $database->registry );
		$database->close_test();
	}
}
