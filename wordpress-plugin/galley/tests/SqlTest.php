<?php
/**
 * The tables that SQL statements read.
 *
 * @package Galley
 */

use PHPUnit\Framework\TestCase;

final class SqlTest extends TestCase {

	/**
	 * @return array[]
	 */
	public static function statements(): array {
		return array(
			'one table'              => array( "SELECT option_value FROM wp_options WHERE option_name = 'a FROM wp_x' LIMIT 1", 'wp_options' ),
			'backticks'              => array( 'SELECT `from` FROM `wp_a` WHERE `join` = 1', 'wp_a' ),
			'with the database'      => array( 'SELECT * FROM `db`.`wp_a` JOIN other.wp_b ON 1', 'db.wp_a other.wp_b' ),
			'a list'                 => array( 'SELECT * FROM wp_a AS a, wp_b b, wp_c WHERE a.x = b.x AND f(1, wp_d)', 'wp_a wp_b wp_c' ),
			'joins'                  => array( 'SELECT SQL_CALC_FOUND_ROWS p.ID FROM wp_a p LEFT JOIN wp_b AS b ON (p.ID = b.id AND b.k IN (1, 2)) INNER JOIN wp_c USING (id, x), wp_d ORDER BY p.x, p.y', 'wp_a wp_b wp_c wp_d' ),
			'joins in parentheses'   => array( 'SELECT 1 FROM (wp_a CROSS JOIN (wp_b, wp_c)) STRAIGHT_JOIN wp_d', 'wp_a wp_b wp_c wp_d' ),
			'an order of joins'      => array( 'SELECT STRAIGHT_JOIN x, y FROM wp_a', 'wp_a' ),
			'a subquery in WHERE'    => array( 'SELECT 1 FROM wp_a WHERE id NOT IN (SELECT id FROM wp_b WHERE x = 1) AND EXISTS (SELECT 1 FROM wp_c)', 'wp_a wp_b wp_c' ),
			'a derived table'        => array( 'SELECT 1 FROM (SELECT id FROM wp_a WHERE id = 1) AS t, wp_b', 'wp_a wp_b' ),
			'a subquery as a column' => array( 'SELECT (SELECT COUNT(*) FROM wp_b), x FROM wp_a', 'wp_b wp_a' ),
			'a union'                => array( '(SELECT 1 FROM wp_a) UNION ALL (SELECT 2 FROM wp_b) ORDER BY 1', 'wp_a wp_b' ),
			'a named subquery'       => array( 'WITH RECURSIVE t (n, m) AS (SELECT 1, 2 FROM wp_a UNION SELECT n FROM t), u AS (SELECT 3) SELECT * FROM t JOIN u JOIN wp_b', 'wp_a wp_b' ),
			'functions with FROM'    => array( "SELECT EXTRACT(YEAR FROM d), TRIM(BOTH 'x' FROM n), SUBSTRING(s FROM 2 FOR 3), TRIM((SELECT x FROM wp_b)) FROM wp_a", 'wp_b wp_a' ),
			'index hints'            => array( 'SELECT 1 FROM wp_a USE INDEX FOR ORDER BY (i, j), wp_b FORCE INDEX (k) WHERE 1', 'wp_a wp_b' ),
			'functions as tables'    => array( "SELECT 1 FROM wp_a, JSON_TABLE(wp_a.j, '$[*]' COLUMNS (x INT PATH '$.x')) t", 'wp_a' ),
			'comments'               => array( "/* FROM wp_x */ SELECT 1 -- FROM wp_y\n FROM # wp_z\n wp_a /* it's */ JOIN wp_b", 'wp_a wp_b' ),
			'code in comments'       => array( 'SELECT /*!40001 SQL_NO_CACHE */ * FROM wp_a', 'wp_a' ),
			'tables in comments'     => array( 'SELECT 1 FROM /*!50000 wp_a */ /*M!100100 , wp_b */', 'wp_a wp_b' ),
			'a setting of MariaDB'   => array( 'SET STATEMENT max_statement_time = 1 FOR SELECT 1 FROM wp_a', '?' ),
			'strings'                => array( "SELECT 'it''s FROM wp_x', \"a\\\" FROM wp_y\", 'b\\' FROM wp_z' FROM wp_a", 'wp_a' ),
			'minus signs'            => array( 'SELECT 5--3 FROM wp_a', 'wp_a' ),
			'a network'              => array( 'SELECT 1 FROM wp_2_posts WHERE ID IN (1,2,3,4)', 'wp_2_posts' ),
			'rows in lower case'     => array( 'select a.* from wp_a a left join wp_b on a.i = wp_b.i where 1', 'wp_a wp_b' ),
			'no table'               => array( 'SELECT FOUND_ROWS()', '' ),
			'dual'                   => array( 'SELECT 1 FROM DUAL WHERE 1', '' ),
			'a locking read'         => array( 'SELECT 1 FROM wp_a FOR UPDATE', 'wp_a' ),
			'the structure'          => array( 'SHOW FULL COLUMNS FROM wp_a', '' ),
			'writes'                 => array( "INSERT INTO wp_a (x) SELECT y FROM wp_b ON DUPLICATE KEY UPDATE x = 'RETURNED'", '' ),
			'writes after a comment' => array( '/* plugin */ UPDATE wp_a, wp_b SET x = 1', '' ),
			'a write that reads'     => array( 'DELETE FROM wp_a WHERE x = 1 RETURNING y', '?' ),
			'code in the database'   => array( 'CALL wp_procedure(1)', '?' ),
			'a statement by name'    => array( 'EXECUTE statement USING @a', '?' ),
			'a whole table'          => array( 'TABLE wp_a ORDER BY x', 'wp_a' ),
			'nothing'                => array( " \n;", '' ),
			'an open string'         => array( "SELECT 1 FROM wp_a WHERE x = 'abc", 'wp_a' ),
			'open parentheses'       => array( 'SELECT ((( 1 FROM wp_a, (wp_b', 'wp_a wp_b' ),
			'closed parentheses'     => array( 'SELECT 1)) FROM wp_a) JOIN', 'wp_a' ),
		);
	}

	/**
	 * @dataProvider statements
	 */
	public function test_the_tables_of_a_statement_are_found( string $sql, string $tables ) {
		$expected = array_values( array_filter( explode( ' ', $tables ) ) );
		$this->assertSame( $expected, Galley\tables_read_by( $sql ) );
		// The second time from memory.
		$this->assertSame( $expected, Galley\tables_read_by( $sql ) );
	}

	public function test_statements_of_one_piece_of_code_have_one_shape() {
		$one = Galley\statement_shape( "SELECT * FROM wp_a2 WHERE id IN (1,2, 3) AND n = 'x' AND t > 0x1F" );
		$two = Galley\statement_shape( "SELECT * FROM wp_a2 WHERE id IN (45) AND n = 'it''s' AND t > 2.5" );
		$this->assertSame( 'SELECT * FROM wp_a2 WHERE id IN (?) AND n = ? AND t > ?', $one );
		$this->assertSame( $one, $two );
	}

	/**
	 * Cuts and mixes the statements above: nothing fails, warns or takes long, and no table of a statement disappears when text follows it.
	 */
	public function test_any_text_is_accepted() {
		mt_srand( 1 );
		$parts = array( '(', ')', ',', '.', "'", '"', '`', '/*', '*/', '/*!', '--', '#', "\n", '\\', 'FROM', 'JOIN', 'SELECT', 'WITH', 'AS', 'wp_a', "\xff", '0', '?', ';', str_repeat( '(', 200 ) );
		foreach ( self::statements() as $case ) {
			foreach ( range( 0, strlen( $case[0] ), 3 ) as $end ) {
				$this->assertIsArray( Galley\tables_read_by( substr( $case[0], $end ) ) );
				$this->assertIsArray( Galley\tables_read_by( substr( $case[0], 0, $end ) ) );
			}
		}
		for ( $number = 0; $number < 3000; $number++ ) {
			$text = '';
			for ( $length = mt_rand( 1, 30 ); $length > 0; --$length ) {
				$text .= $parts[ mt_rand( 0, count( $parts ) - 1 ) ] . ( mt_rand( 0, 2 ) ? ' ' : '' );
			}
			$this->assertIsArray( Galley\tables_read_by( $text ) );
			$this->assertContains( 'wp_last', Galley\tables_read_by( "SELECT 1 FROM wp_last WHERE $text" ), $text );
		}
	}

	public function test_large_statements_are_bounded() {
		$start = microtime( true );
		$this->assertSame( array( 'wp_a' ), Galley\tables_read_by( 'SELECT 1 FROM wp_a WHERE id IN (' . implode( ',', range( 1, 100000 ) ) . ')' ) );
		$this->assertSame( array( 'wp_a' ), Galley\tables_read_by( "SELECT 1 FROM wp_a WHERE x = '" . str_repeat( "\\'x", 300000 ) . "'" ) );
		$this->assertSame( array( '?' ), Galley\tables_read_by( 'SELECT 1 FROM wp_a WHERE x = ' . str_repeat( ' ', 1100000 ) . '1' ) );
		$this->assertLessThan( 1.0, microtime( true ) - $start );
	}

	public function test_tables_are_known_by_their_names() {
		$wpdb = (object) array(
			'dbname'      => 'site',
			'base_prefix' => 'wp_',
			'users'       => 'all_users',
			'usermeta'    => 'wp_usermeta',
		);
		foreach ( array( 'wp_posts', 'site.wp_options', 'all_users', 'information_schema.TABLES', 'wp_woocommerce_tax_rates', 'wp_wc_product_meta_lookup', 'wp_actionscheduler_actions' ) as $known ) {
			$this->assertNotSame( '', Galley\table_kind( $known, $wpdb, false ), $known );
		}
		foreach ( array( 'wp_bp_groups', 'wp_2_posts', 'posts', 'wp_links', 'other.wp_posts', 'wp_wc_product_attributes_lookup', 'wp_posts_archive', 'WP_POSTS', '?', '' ) as $unknown ) {
			$this->assertSame( '', Galley\table_kind( $unknown, $wpdb, false ), $unknown );
		}
		$this->assertSame( 'core', Galley\table_kind( 'wp_2_posts', $wpdb, true ) );
		$this->assertSame( '', Galley\table_kind( 'wp_2_bp_groups', $wpdb, true ) );
	}

	public function test_statements_say_with_what_the_names_of_options_begin(): void {
		$rows = array(
			// A task of a plugin, as `esc_like()` and `prepare()` write it.
			"SELECT COUNT(*) FROM wp_options WHERE option_name LIKE 'wp\\\\_x\\\\_batch\\\\_%'" => 'wp_x_batch_',
			"\n\t\tSELECT *\n\t\tFROM `wp_options`\n\t\tWHERE option_name LIKE 'wp\\_x\\_batch\\_%'\n\t\tORDER BY option_id ASC\n\t\tLIMIT 1" => 'wp_x_batch_',
			"SELECT option_name FROM wp_options WHERE option_name LIKE 'My-Plugin.batch%'" => 'my-plugin.',
			"SELECT option_name FROM wp_options WHERE option_name LIKE 'a\\_b\\_c\\_d\\_e\\_f\\_g\\_h\\_%'" => 'a_b_c_d_e_f_',
			// `_` without a backslash is any character.
			"SELECT COUNT(*) FROM wp_options WHERE option_name LIKE 'wp_x_batch_%'" => '',
			"SELECT COUNT(*) FROM wp_options WHERE option_name LIKE 'wp%'" => '',
			"SELECT COUNT(*) FROM wp_options WHERE option_name LIKE '%x\\_%'" => '',
			"SELECT COUNT(*) FROM wp_options WHERE option_name LIKE 'x\\_%y'" => '',
			"SELECT COUNT(*) FROM wp_options WHERE option_name NOT LIKE 'x\\_%'" => '',
			"SELECT COUNT(*) FROM wp_options WHERE option_name LIKE 'x\\_%' OR 1" => '',
			"SELECT COUNT(*) FROM wp_options o, wp_posts WHERE option_name LIKE 'x\\_%'" => '',
			"SELECT (SELECT COUNT(*) FROM wp_options) FROM wp_options WHERE option_name LIKE 'x\\_%'" => '',
			"DELETE FROM wp_options WHERE option_name LIKE 'x\\_%'" => '',
			// Their changes have no such tags.
			"SELECT COUNT(*) FROM wp_options WHERE option_name LIKE '\\_transient\\_x\\_%'" => '',
			"SELECT COUNT(*) FROM wp_options WHERE option_name LIKE '\\_site\\_%'" => '',
		);
		foreach ( $rows as $sql => $start ) {
			$this->assertSame( $start, Galley\start_of_names( (string) $sql ), (string) $sql );
		}
	}

	public function test_each_option_that_such_a_statement_finds_has_its_tag(): void {
		mt_srand( 7 );
		$letters = str_split( 'abAB1_-._' );
		$random  = static function ( int $most ) use ( $letters ): string {
			$text = '';
			foreach ( range( 1, mt_rand( 1, $most ) ) as $position ) {
				$text .= $letters[ mt_rand( 0, count( $letters ) - 1 ) ];
			}
			return $text;
		};
		$found   = 0;
		for ( $case = 0; $case < 5000; $case++ ) {
			list( $start, $rest ) = array( $random( 60 ), $random( 20 ) );
			$known                = Galley\start_of_names( "SELECT COUNT(*) FROM wp_options WHERE option_name LIKE '" . str_replace( '_', '\\_', $start ) . "%'" );
			if ( '' !== $known ) {
				$found++;
				$this->assertContains( "ob.$known", Galley\tags_of_starts( strtoupper( $start ) . $rest ), "$start $rest" );
			}
		}
		$this->assertGreaterThan( 3000, $found );
	}
}
