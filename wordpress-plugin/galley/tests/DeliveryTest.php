<?php
/**
 * Delivery of purges: header fields, requests, responses, and pending purges.
 *
 * @package Galley
 */

use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/statements-database.php';

final class DeliveryTest extends TestCase {

	public function test_purge_field_lists_ids_and_purges(): void {
		$purges = array( 'hard' => array( 'p1', '/a/' ), 'soft' => array( 'b' ) );
		$this->assertSame( array( 'id=k1,id=k0,p1,/a/', 'stale,b' ), Galley\purge_lines( array( 'k1', 'k0' ), $purges ) );
		$this->assertSame( array( 'id=k1', 'stale,b' ), Galley\purge_lines( array( 'k1' ), array( 'hard' => array(), 'soft' => array( 'b' ) ) ) );
		$many = array_map( static function ( int $n ): string { return "p$n"; }, range( 1, 2000 ) );
		$this->assertSame( array( 'id=k1,label=Edit%20of%20%E2%80%9Ca%2C%20b%E2%80%9D,p1', 'stale,b' ), Galley\purge_lines( array( 'k1' ), array( 'hard' => array( 'p1' ), 'soft' => array( 'b' ) ), 'Edit of “a, b”' ) );
		$lines = Galley\purge_lines( array( 'k1' ), array( 'hard' => array(), 'soft' => $many ) );
		foreach ( $lines as $line ) {
			$this->assertTrue( 'id=k1' === $line || 0 === strpos( $line, 'stale,' ) );
		}
	}

	public function test_purge_bodies_separate_hard_and_soft_purges(): void {
		$purges   = array( 'hard' => array( 'p1', '/a/' ), 'soft' => array( '*' ) );
		$expected = array(
			array( 'soft' => false, 'site' => 'x.test', 'tags' => array( 'p1' ), 'urls' => array( '/a/' ) ),
			array( 'soft' => true, 'site' => 'x.test', 'all' => true ),
		);
		$this->assertEquals( $expected, Galley\purge_bodies( $purges, 'x.test' ) );
		$this->assertCount( 2, Galley\purge_bodies( array( 'hard' => array_fill( 0, 1500, 'p1' ), 'soft' => array() ), '' ) );
	}

	public function test_too_many_purges_are_merged(): void {
		$many = array_map( static function ( int $n ): string { return "p$n"; }, range( 1, Galley\MAX_PURGES + 1 ) );
		$this->assertSame( array( 'b' ), Galley\compact_purges( $many ) );
		$this->assertSame( array( '/a/', 'b' ), Galley\compact_purges( array( 'p1', '/a/', 'b' ) ) );
		$this->assertSame( array( '*' ), Galley\compact_purges( array( 'p1', '*' ) ) );
		$this->assertSame( array( '3.p1', '2.b' ), Galley\compact_purges( array( '2.p1', '3.p1', '2.b' ), '2.' ) );
		$of_two = array_map( static function ( int $n ): string { return ( $n % 2 + 2 ) . ".p$n"; }, range( 1, Galley\MAX_PURGES + 1 ) );
		$merged = Galley\compact_purges( $of_two, '2.' );
		$this->assertSame( array( 250, '2.p2', '3.b' ), array( count( preg_grep( '/^2\.p/', $merged ) ), $merged[0], end( $merged ) ) );
		$of_network = array_merge( array( 'u5', '/a/', '3.p1' ), array_map( static function ( string $tag ): string { return "2.$tag"; }, $many ) );
		$this->assertSame( array( 'u5', '/a/', '3.p1', '2.b' ), Galley\compact_purges( $of_network, '3.' ) );
		$of_many_blogs = array_map( static function ( int $n ): string { return "$n.p1"; }, range( 1, Galley\MAX_PURGES + 1 ) );
		$this->assertSame( array( '*' ), Galley\compact_purges( $of_many_blogs, '2.' ) );
	}

	public function test_pending_rows_are_deleted_kept_or_resent(): void {
		$sent    = array( 'at' => 1000, 'purges' => array( 'hard' => array( 'p1' ) ) );
		$aborted = array( 'at' => 1000, 'purges' => null, 'by' => '' );
		$this->assertSame( 'delete', Galley\judge_pending( $sent, true, 1000 ) );
		$this->assertSame( 'keep', Galley\judge_pending( $sent, false, 1001 ) );
		$this->assertSame( 'resend', Galley\judge_pending( $sent, false, 1000 + Galley\RESEND_AFTER ) );
		$this->assertSame( 'resend', Galley\judge_pending( array( 'at' => 0 ) + $sent, false, 1000 ) );
		$this->assertSame( 'keep', Galley\judge_pending( $aborted, false, 1000 + Galley\RESEND_AFTER ) );
		$this->assertSame( 'everything', Galley\judge_pending( $aborted, false, 1000 + Galley\DEAD_AFTER ) );
		$connected = array( 'by' => 'db:3306 7' ) + $aborted;
		$this->assertSame( 'keep', Galley\judge_pending( $connected, false, 999 + Galley\ASK_AFTER ) );
		$this->assertSame( 'ask', Galley\judge_pending( $connected, false, 1000 + Galley\ASK_AFTER ) );
		$this->assertSame( 'everything', Galley\judge_pending( $connected, false, 1000 + Galley\DEAD_AFTER ) );
		$this->assertSame( 'resend', Galley\judge_pending( array( 'by' => 'db:3306 7' ) + $sent, false, 1000 + Galley\RESEND_AFTER ) );
	}

	/**
	 * @return array[]
	 */
	public static function connections(): array {
		$row = '{"at":1000,"purges":null,"by":"db:3306 7"}';
		return array(
			'closed'                   => array( array( '1', '1', '0' ), $row, true ),
			'open'                     => array( array( '1', '1', '1' ), $row, false ),
			'at another server'        => array( array( '0', '1', '0' ), $row, false ),
			'of another user'          => array( array( '1', '0', '0' ), $row, false ),
			'no answer'                => array( null, $row, false ),
			'ended in the meantime'    => array( array( '1', '1', '0' ), null, false ),
			'purges sent meanwhile'    => array( array( '1', '1', '0' ), '{"at":1000,"purges":{"hard":["p1"],"soft":[]},"by":null}', false ),
			'taken up by another'      => array( array( '1', '1', '0' ), '{"at":1003,"purges":null,"by":"db:3306 8"}', false ),
		);
	}

	/**
	 * @dataProvider connections
	 */
	public function test_a_request_has_died_if_its_connection_is_closed_and_its_row_is_the_same( ?array $state, ?string $row, bool $expected ): void {
		$database        = new class() extends mysqli {
			public $results = array();
			public $asked   = array();

			public function __construct() {}

			#[\ReturnTypeWillChange]
			public function query( $sql, $mode = 0 ) {
				$this->asked[] = $sql;
				return array_shift( $this->results );
			}
		};
		$GLOBALS['wpdb'] = (object) array( 'dbh' => $database, 'base_prefix' => 'wp_' );
		$table           = $GLOBALS['galley_pending_table'];

		$GLOBALS['galley_pending_table'] = 'wp_options';

		$database->results = array(
			null === $state ? false : new Statements_Result( array( array_combine( array( 'is_here', 'can_see', 'lives' ), $state ) ) ),
			new Statements_Result( null === $row ? array() : array( array( 'value' => $row ) ) ),
		);
		$this->assertSame( $expected, Galley\has_died( '0a', 'db:3306 7' ) );
		$this->assertStringContainsString( "'db:3306' AS is_here", $database->asked[0] );
		foreach ( array( '', 'db:3306', "x' OR 1=1 -- 7", 'db:3306 7;' ) as $by ) {
			$this->assertFalse( Galley\has_died( '0a', $by ) );
		}
		$this->assertLessThanOrEqual( 2, count( $database->asked ) );
		$GLOBALS['galley_pending_table'] = $table;
		unset( $GLOBALS['wpdb'] );
	}

	public function test_admin_addresses_are_parsed_or_rejected(): void {
		$this->assertSame( 'unix:///run/galley/admin.sock', Galley\socket_address( 'unix:/run/galley/admin.sock' ) );
		$this->assertSame( 'tcp://127.0.0.1:8079', Galley\socket_address( 'http://127.0.0.1:8079' ) );
		$this->assertSame( 'tcp://[::1]:8079', Galley\socket_address( 'http://[::1]:8079/' ) );
		foreach ( array( '', 'unix:x', 'https://a:1', 'http://a', "http://a:1\r\n", 'http://a:1/x', 'ftp://a:1' ) as $address ) {
			$this->assertNull( Galley\socket_address( $address ), $address );
		}
		$this->assertNull( Galley\clean_connection( array( 'address' => 'http://a:1', 'token' => "x\r\nHost: y" ) ) );
		$this->assertNull( Galley\clean_connection( 1 ) );
	}

	public function test_request_text_cannot_be_split(): void {
		$text = Galley\request_text( 'POST', "/purge HTTP/1.1\r\nX: y", '{}', 't' );
		$this->assertStringStartsWith( "POST / HTTP/1.1\r\nHost: galley\r\n", $text );
		$this->assertStringEndsWith( "Content-Length: 2\r\n\r\n{}", $text );
	}

	public function test_responses_are_parsed(): void {
		$good = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{\"ok\":true}";
		$this->assertTrue( Galley\is_whole( $good ) );
		$this->assertFalse( Galley\is_whole( substr( $good, 0, -1 ) ) );
		$this->assertSame( array( 'status' => 200, 'body' => array( 'ok' => true ), 'error' => null ), Galley\parse_response( $good ) );
		$bad = Galley\parse_response( "HTTP/1.1 401 No\r\n\r\n{\"error\":\"no such token\"}" );
		$this->assertSame( array( 401, 'no such token' ), array( $bad['status'], $bad['error'] ) );
		$this->assertSame( array( 'ok' => true ), Galley\parse_response( "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"ok\"\r\n6\r\n:true}\r\n0\r\n\r\n" )['body'] );
		foreach ( array( '', 'x', "HTTP/1.1 200 OK\r\n" ) as $text ) {
			$this->assertSame( 0, Galley\parse_response( $text )['status'] );
		}
	}

	public function test_response_fields_that_prevent_storing_are_recognized(): void {
		$this->assertTrue( Galley\says_nocache( array( 'Content-Type: x', 'Cache-Control: no-cache, must-revalidate' ) ) );
		$this->assertTrue( Galley\says_nocache( array( 'cache-control: max-age=0, private' ) ) );
		$this->assertFalse( Galley\says_nocache( array( 'Cache-Control: max-age=600', 'X-Note: no-store' ) ) );
		$this->assertSame( 1, Galley\until_midnight( '23:59:59' ) );
		$this->assertSame( 86400, Galley\until_midnight( '00:00:00' ) );
	}

	public function test_invalid_tags_of_other_plugins_are_hashed(): void {
		$this->assertSame( 'x:own', Galley\own_tag( 'x:own' ) );
		foreach ( array( 'a,b', 'a;b', "a\r\nb", '' ) as $tag ) {
			$this->assertStringStartsWith( '~', Galley\own_tag( $tag ) );
		}
	}
}
