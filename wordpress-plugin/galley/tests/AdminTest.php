<?php
/**
 * Pure functions of the admin area.
 */

use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/admin-bootstrap.php';

final class AdminTest extends TestCase {

	public function test_minutes_are_summed_into_chart_bars() {
		$now     = 1760740680;
		$minutes = array(
			array( 'time' => $now, 'hits' => 3, 'misses' => 1 ),
			array( 'time' => $now - 60, 'hits' => 2, 'passes' => 4 ),
			array( 'time' => $now - 80000, 'stale' => 5 ),
			array( 'time' => $now - 86400 * 2, 'hits' => 1000 ),
			array( 'time' => $now + 900, 'hits' => 1000 ),
			array( 'time' => '1', 'hits' => 1000 ),
			array( 'time' => $now, 'hits' => -7, 'misses' => 'x' ),
			'none',
		);
		$bars    = Galley\chart_bars( $minutes, $now );
		$this->assertCount( Galley\CHART_BARS, $bars );
		$sums = Galley\chart_sums( $bars );
		$this->assertSame( array( 'hits' => 5, 'stale' => 5, 'misses' => 1, 'passes' => 4 ), $sums );
		$this->assertEqualsWithDelta( 10 / 15, Galley\ratio_of( $sums ), 0.0001 );
		$this->assertNull( Galley\ratio_of( Galley\chart_sums( Galley\chart_bars( null, $now ) ) ) );
	}

	public function test_chart_bars_stay_within_the_chart() {
		$bars = Galley\chart_bars( array(), 1760740680 );
		$this->assertStringNotContainsString( '<rect', Galley\chart_svg( $bars ) );
		$bars[0] = array( 'hits' => 10, 'stale' => 10, 'misses' => 10, 'passes' => 10 );
		$svg     = Galley\chart_svg( $bars );
		$this->assertSame( 4, substr_count( $svg, '<rect' ) );
		$this->assertNotFalse( simplexml_load_string( $svg ) );
		preg_match_all( '/ y="([\d.]+)" width="[\d.]+" height="([\d.]+)"/', $svg, $found, PREG_SET_ORDER );
		foreach ( $found as $rect ) {
			$this->assertGreaterThanOrEqual( 0, (float) $rect[1] );
			$this->assertLessThanOrEqual( Galley\CHART_HEIGHT, (float) $rect[1] + (float) $rect[2] );
		}
	}

	public function test_own_site_is_found_by_host() {
		$a   = array( 'name' => 'a.test', 'hosts' => array( 'a.test', 'www.a.test' ) );
		$any = array( 'name' => '*', 'hosts' => array( '*' ) );
		$this->assertSame( $a, Galley\own_site( array( $any, $a ), 'WWW.a.test' ) );
		$this->assertSame( $any, Galley\own_site( array( $a, $any ), 'b.test' ) );
		$this->assertSame( $a, Galley\own_site( array( $a ), 'b.test' ) );
		$this->assertNull( Galley\own_site( array( $a, $a ), 'b.test' ) );
		foreach ( array( null, 'x', array(), array( 1 ) ) as $invalid ) {
			$this->assertNull( Galley\own_site( $invalid, 'a.test' ) );
		}
	}

	public function test_page_state_has_a_label_and_a_reason() {
		$hit = Galley\page_words( array( 'now' => array( 'what' => 'hit', 'sentence' => 'from memory' ), 'entry' => array( 'age_s' => 300 ), 'advice' => null ) );
		$this->assertSame( array( 'hit', 'Galley: cached, 5 mins old', 'from memory', '' ), array_values( $hit ) );
		$pass = Galley\page_words( array( 'now' => array( 'what' => 'pass', 'sentence' => 's' ), 'advice' => array( 'why' => 'the page sets the cookie `a`', 'do' => 'find it' ) ) );
		$this->assertSame( array( 'pass', 'Galley: not cached', 'the page sets the cookie `a`', 'find it' ), array_values( $pass ) );
		$this->assertSame( 'unknown', Galley\page_words( array() )['state'] );
		$this->assertSame( 'unknown', Galley\page_words( array( 'now' => array( 'what' => array() ) ) )['state'] );
	}

	public function test_cache_status_of_stored_pages_is_recognized() {
		foreach ( array( 'galley; hit', 'galley; fwd=uri-miss; stored', 'edge; fwd=miss, galley; hit', 'galley; fwd=stale; ttl=-3', 'Galley; HIT' ) as $stored ) {
			$this->assertTrue( Galley\is_kept( $stored ), $stored );
		}
		foreach ( array( '', 'galley; fwd=bypass; detail=cookie', 'edge; hit', 'galley; fwd=uri-miss, edge; hit', 'notgalley; hit' ) as $other ) {
			$this->assertFalse( Galley\is_kept( $other ), $other );
		}
	}

	public function test_cookies_set_by_a_response_are_listed() {
		$fields = array( 'Set-Cookie: PHPSESSID=abc; path=/', 'set-cookie:a=1', 'Set-Cookie: a=2', 'Set-Cookie: wordpress_test_cookie=x', 'Set-Cookie: woocommerce_cart_hash=1', 'X-Cookie: b=1', 'Set-Cookie: =1' );
		$this->assertSame( array( 'PHPSESSID', 'a' ), Galley\cookies_set( $fields ) );
	}

	public function test_number_of_recorded_cookies_is_limited() {
		$known = Galley\with_cookies( array(), array( 'a' ), '/x', 1000 );
		$this->assertSame( array( 'a' => array( 'path' => '/x', 'time' => 1000 ) ), $known );
		$this->assertSame( $known, Galley\with_cookies( $known, array( 'a' ), '/y', 1001 ) );
		$known['a']['by'] = 'Shop';
		$updated          = Galley\with_cookies( $known, array( 'a' ), '/y', 1000 + Galley\COOKIE_SECONDS );
		$this->assertSame( array( 'path' => '/y', 'time' => 1000 + Galley\COOKIE_SECONDS, 'by' => 'Shop' ), $updated['a'] );
		for ( $number = 0; $number < 50; $number++ ) {
			$known = Galley\with_cookies( $known, array( "c$number" ), '/', 2000 );
		}
		$this->assertCount( Galley\MAX_COOKIES, $known );
	}

	public function test_drop_ins_and_conflicting_purgers_are_named() {
		$this->assertSame( 'WP Rocket', Galley\name_of_drop_in( "<?php define( 'WP_ROCKET_ADVANCED_CACHE', true ); include '/x/plugins/wp-rocket/y.php';" ) );
		$this->assertSame( 'some-cache', Galley\name_of_drop_in( "<?php include '/x/wp-content/plugins/some-cache/y.php';" ) );
		$this->assertSame( 'My Cache', Galley\name_of_drop_in( "<?php\n/*\n * Plugin Name: My Cache */" ) );
		$this->assertSame( 'advanced-cache.php', Galley\name_of_drop_in( '' ) );
		$this->assertSame( array( 'nginx-helper' => 'Nginx Helper' ), Galley\second_purgers( array( 'galley/galley.php', 'nginx-helper/nginx-helper.php', 'hello.php' ), null ) );
		// Without its page cache, the plugin is compatible: minification and lazy loading do not conflict.
		$this->assertSame( array(), Galley\second_purgers( array( 'wp-rocket/wp-rocket.php' ), null ) );
		// Its page cache is named as such, and not a second time.
		$this->assertSame( array( 'surge' => 'Surge' ), Galley\second_purgers( array( 'wp-rocket/wp-rocket.php', 'surge/surge.php' ), 'WP Rocket' ) );
	}

	public function test_a_call_is_found_in_code_but_not_in_comments() {
		$this->assertSame( 3, Galley\line_with( "<?php\n// session_start();\nif ( ! session_id() ) { session_start(); }", array( 'session_start' ) ) );
		$this->assertSame( 0, Galley\line_with( "<?php\n/* session_start */", array( 'session_start' ) ) );
		$this->assertSame( 2, Galley\line_with( "<?php\nsetcookie( 'my_cookie', 1 );", array( 'my_cookie' ) ) );
		$this->assertSame( 0, Galley\line_with( 'session_start', array( 'session_start' ) ) );
		$this->assertSame( 0, Galley\line_with( '<?php', array( '' ) ) );
	}

	public function test_cli_commands_map_arguments_to_purges() {
		$this->assertSame( array( 'galley purge', 'galley status', 'galley why', 'galley log', 'galley preload', 'galley development', 'galley object-cache' ), array_keys( WP_CLI::$commands ) );
		$this->assertNull( Galley\cli_purges( array(), array( 'post' => 'x' ) ) );
		$this->assertSame(
			array( array( 'galley_purge_all', null ), array( 'galley_purge_post', 7 ), array( 'galley_purge_tags', array( 't' ) ), array( 'galley_purge_url', '/a/' ) ),
			Galley\cli_purges( array( '/a/' ), array( 'all' => true, 'post' => '7', 'tag' => 't' ) )
		);
		Galley\cli_purge( array(), array() );
		$this->assertStringStartsWith( 'Error: ', end( WP_CLI::$output ) );
	}
}
