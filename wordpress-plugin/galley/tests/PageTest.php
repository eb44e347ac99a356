<?php
/**
 * Pure functions of the settings page: state, costs, purge log, settings, preloading.
 */

use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/admin-bootstrap.php';

final class PageTest extends TestCase {

	private function facts( array $other = array(), array $site = array() ): array {
		$site = array_merge( array( 'requests' => 1000, 'hit_ratio' => 0.9, 'upstreams' => array() ), $site );
		return array_merge( array( 'has_connection' => true, 'trouble' => '', 'health' => null, 'site' => $site, 'pending' => 0, 'defeats' => array(), 'development' => 0 ), $other );
	}

	public function test_clients_are_summed_by_kind() {
		$minutes = array(
			array( 'people' => 3, 'bots' => 1, 'unseen' => 2, 'unseen_refused' => 40 ),
			array( 'people' => 4, 'unseen_refused' => -1, 'bots' => 'many' ),
			'broken',
		);
		$this->assertSame( array( 'people' => 7, 'bots' => 1, 'unseen' => 2, 'unseen_refused' => 40 ), Galley\client_sums( $minutes ) );
		$this->assertSame( 0, array_sum( Galley\client_sums( null ) ) );
	}

	public function test_site_state_reports_the_most_severe_problem() {
		$problem = static function ( string $level, string $kind ): array {
			return array( 'level' => $level, 'kind' => $kind, 'problem' => 'no response from unix:/a', 'since_s' => 300, 'remedy' => 'start PHP-FPM' );
		};
		$dead    = array( 'health' => array( 'problems' => array( $problem( 'failing', 'upstream' ), $problem( 'degraded', 'disk' ) ) ) );
		$partly  = array( 'health' => array( 'problems' => array( $problem( 'degraded', 'disk' ) ) ) );
		$broken  = array( 'health' => array( 'problems' => array( 'x', array(), array( 'problem' => 7 ), array( 'problem' => 'x', 'level' => 'grave' ) ) ) );
		$cases   = array(
			array( 'green', 'Everything works', $this->facts() ),
			array( 'amber', 'Something needs attention', $this->facts( $partly ) ),
			array( 'green', 'Everything works', $this->facts( $broken ) ),
			array( 'green', 'Everything works', $this->facts( array( 'health' => 'x' ) ) ),
			array( 'red', 'PHP does not answer', $this->facts( $dead ) ),
			array( 'red', 'Visitors get errors', $this->facts( array( 'health' => array( 'problems' => array( $problem( 'failing', 'certificate' ) ) ) ) ) ),
			array( 'amber', 'Purges are pending', $this->facts( array( 'health' => array( 'problems' => array( $problem( 'degraded', 'purge-forward' ) ) ) ) ) ),
			array( 'green', 'Everything works', $this->facts( array(), array( 'requests' => 0, 'hit_ratio' => null ) ) ),
			array( 'green', 'Everything works', $this->facts( array(), array( 'requests' => 10, 'hit_ratio' => 0.1 ) ) ),
			array( 'green', 'Everything works', $this->facts( array(), array( 'hit_ratio' => 0.3 ) ) ),
			array( 'amber', 'Caching problem', $this->facts( array( 'defeats' => array( 'A cookie.' ) ) ) ),
			array( 'amber', 'Some changes are not visible yet', $this->facts( array( 'pending' => 1, 'defeats' => array( 'A cookie.' ) ) ) ),
			array( 'amber', 'Development mode is on', $this->facts( array( 'development' => 60, 'pending' => 1 ) ) ),
			array( 'red', 'PHP does not answer', $this->facts( array( 'development' => 60 ) + $dead ) ),
			array( 'amber', 'Development mode is on', $this->facts( array( 'development' => 60 ) + $partly ) ),
			array( 'red', 'Galley does not answer', $this->facts( array( 'trouble' => 'refused' ) ) ),
			array( 'red', 'Not connected to Galley', $this->facts( array( 'trouble' => 'none', 'has_connection' => false, 'site' => null ) ) ),
		);
		foreach ( $cases as list( $color, $label, $facts ) ) {
			$state = Galley\judge_site( $facts );
			$this->assertSame( array( $color, $label ), array( $state['color'], $state['label'] ) );
			$this->assertNotSame( '', $state['why'] );
		}
		$this->assertSame( 'No response from unix:/a (for 5 mins). Start PHP-FPM. 1 more problem: see the dashboard of Galley.', Galley\judge_site( $this->facts( $dead ) )['why'] );
	}

	public function test_editor_requests_do_not_lower_the_hit_ratio() {
		$site = array( 'requests' => 1000, 'hit_ratio' => 0.09, 'reasons' => array( 'pass' => array( 'path' => 600, 'method' => 300, 'remembered' => 5 ) ) );
		$this->assertSame( array( 0.9, 100 ), Galley\visitor_ratio( $site ) );
		$this->assertSame( 'green', Galley\judge_site( $this->facts( array(), $site ) )['color'] );
		$this->assertSame( array( null, 0 ), Galley\visitor_ratio( array( 'requests' => 3, 'reasons' => array( 'pass' => array( 'path' => 5 ) ) ) ) );
		$this->assertSame( array( null, 0 ), Galley\visitor_ratio( array() ) );
	}

	public function test_costs_are_shares_of_the_time_of_php() {
		$reason = static function ( $kind, $word, $requests, $us ) {
			return array( 'kind' => $kind, 'word' => $word, 'requests' => $requests, 'upstream_us' => $us );
		};
		$site   = array(
			'upstream_us' => 1000,
			'reasons'     => array( $reason( 'pass', 'cookie', 90, 100 ), $reason( 'pass', 'something-new', 3, 50 ), $reason( 'not-stored', 'set-cookie', 2, 550 ), 'x', array( 'word' => 'path' ) ),
		);
		$costs  = Galley\site_costs( $site );
		$this->assertSame( array( 0.55, 0.3, 0.1, 0.05 ), array_column( $costs, 'share' ) );
		$this->assertSame( array( 2, null, 90, 3 ), array_column( $costs, 'requests' ) );
		$this->assertSame( array( 'Pages that set a cookie for visitors', 'something-new' ), array( $costs[0]['words'], $costs[3]['words'] ) );
		foreach ( array( array(), array( 'reasons' => 'none' ), array( 'upstream_us' => 'x', 'reasons' => array( array( 'word' => 'cookie', 'requests' => 1 ) ) ) ) as $none ) {
			$this->assertSame( array(), Galley\site_costs( $none ) );
		}
		$this->assertSame( 3, Galley\php_seconds( array( array( 'upstream_ms' => 1500 ), array( 'upstream_ms' => 2400 ), 'x', array( 'upstream_ms' => -9 ) ) ) );
	}

	public function test_no_text_sends_the_reader_to_the_page_of_the_plugin() {
		$texts = file_get_contents( dirname( __DIR__ ) . '/languages/galley.pot' );
		$texts = preg_replace( '/"\n"/', '', $texts );
		$this->assertDoesNotMatchRegularExpression( '/Settings > Galley|[Ss]ee (below|above)|page of Galley’s plugin/u', $texts );
	}

	public function test_purges_are_described_in_sentences() {
		$row = array( 'time' => 1, 'kind' => 'post', 'name' => 'Hello', 'user' => 3, 'pages' => array( 12, false ) );
		$this->assertSame( 'Your edit of “Hello” purged 12 pages.', Galley\purge_sentence( $row, 3 ) );
		$this->assertSame( 'An edit of “Hello” purged 12 pages.', Galley\purge_sentence( $row, 4 ) );
		$this->assertSame( 'An edit of “Hello” by Maria purged at least 1 page.', Galley\purge_sentence( array( 'user' => 7, 'pages' => array( 1, true ) ) + $row, 3 ) );
		$this->assertSame( 'Your edit of “Hello” purged the pages that show it.', Galley\purge_sentence( array( 'pages' => null ) + $row, 3 ) );
		$this->assertStringContainsString( 'purged no page', Galley\purge_sentence( array( 'pages' => array( 0, false ) ) + $row, 3 ) );
		foreach ( array( 'comment', 'term', 'menu', 'design', 'user', 'option', 'table', 'theme', 'plugin', 'update', 'button-page', 'button-all', 'choices', 'development', 'development-end', 'command', 'resent', 'code', 'published', 'unpublished' ) as $kind ) {
			$this->assertStringNotContainsString( 'A change purged', Galley\purge_sentence( array( 'kind' => $kind ) + $row, 3 ), $kind );
		}
		foreach ( array( 'blogname' => 'A change of the site title or tagline', 'widget_text' => 'A change of the widgets', 'page_on_front' => 'A change of the front page', 'my_option' => 'A change of the setting “my_option”' ) as $option => $cause ) {
			$this->assertSame( "$cause purged 12 pages.", Galley\purge_sentence( array( 'kind' => 'option', 'name' => $option ) + $row, 3 ) );
		}
		$this->assertSame( array( 'post', 'Hello' ), Galley\first_cause( array( array( 'option', 'x' ), array( 'resent', '' ), array( 'post', 'Hello' ), array( 'menu', '' ) ) ) );
		$this->assertSame( array( 'option', 'x' ), Galley\first_cause( array( array( 'option', 'x' ) ) ) );
		$this->assertSame( array( 'other', '', false ), Galley\first_cause( array() ) );
		foreach ( array( null, 'x', array(), array( 'time' => '1', 'kind' => 'post', 'name' => '' ) ) as $invalid ) {
			$this->assertFalse( Galley\is_log_row( $invalid ) );
		}
	}

	public function test_labels_of_purges_have_only_public_names(): void {
		$this->assertSame( 'Edit of “Hello”', Galley\purge_label( array( 'post', 'Hello', true ) ) );
		$this->assertSame( 'Change', Galley\purge_label( Galley\first_cause( array() ) ) );
		foreach ( array( 'post', 'published', 'unpublished', 'comment', 'term', 'menu', 'design', 'user', 'option', 'table', 'theme', 'plugin', 'update', 'button-page', 'button-all', 'choices', 'development', 'development-end', 'command', 'resent', 'code', 'other' ) as $kind ) {
			$label = Galley\purge_label( array( $kind, 'Secret', false ) );
			$this->assertStringNotContainsString( 'Secret', $label );
			$this->assertMatchesRegularExpression( '/^[A-Z][^%]{4,60}$/D', $label );
		}
		// Nothing marks the name of a user as public.
		$this->assertSame( 'Change of a user', Galley\purge_label( array( 'user', 'Maria', true ) ) );
	}

	public function test_purge_log_is_stored_as_lines(): void {
		$rows  = array();
		$lines = '';
		foreach ( array( "Hello\n“there”", '' ) as $time => $name ) {
			$rows[] = array( 'time' => $time, 'kind' => 'post', 'name' => $name, 'user' => 1, 'soft' => false, 'pages' => array( 12, true ) );
			$lines .= Galley\log_line( end( $rows ) );
		}
		$this->assertSame( 2, substr_count( $lines, "\n" ) );
		$this->assertSame( $rows, Galley\log_rows( $lines ) );
		$this->assertSame( $rows, Galley\log_rows( "a:1:{i:0;}\n[]\n7\n\n$lines" ) );
		$this->assertSame( array(), Galley\log_rows( '' ) );
	}

	public function test_settings_are_sanitized_and_limited() {
		$none = array( 'lifetime' => 0, 'paths' => array(), 'types' => array(), 'preload' => false, 'speculation' => '' );
		foreach ( array( null, false, 'x', array(), array( 'lifetime' => 'x', 'paths' => 7, 'types' => 'page', 'speculation' => array() ), array( 'speculation' => 'eager' ) ) as $invalid ) {
			$this->assertSame( $none, Galley\clean_choices( $invalid ) );
		}
		$clean = Galley\clean_choices( array( 'lifetime' => '5', 'paths' => " /a/*\r\n\nnot-a-path\n/b c\n/a/*\n/d", 'types' => array( 'page', 'page', 'No Type', 5 ), 'preload' => '1', 'speculation' => 'prefetch' ) );
		$this->assertSame( array( 'lifetime' => Galley\MIN_LIFETIME, 'paths' => array( '/a/*', '/d' ), 'types' => array( 'page' ), 'preload' => true, 'speculation' => 'prefetch' ), $clean );
		$this->assertSame( $clean, Galley\clean_choices( $clean ) );
		$many = Galley\clean_choices( array( 'lifetime' => PHP_INT_MAX, 'paths' => array_map( static function ( $n ) { return "/$n"; }, range( 1, 999 ) ) ) );
		$this->assertSame( Galley\LIFETIME, $many['lifetime'] );
		$this->assertCount( Galley\MAX_EXCLUDED_PATHS, $many['paths'] );
	}

	public function test_path_patterns_match_whole_paths() {
		foreach ( array( array( '/a/*', '/a/b/c', true ), array( '/a/*', '/a/', true ), array( '/a/*', '/a', false ), array( '/a', '/a/', false ), array( '*', '/a', true ), array( '/a.b', '/axb', false ), array( '/(a|b)', '/a', false ), array( '/*/x~', '/1/2/x~', true ) ) as list( $pattern, $path, $is_in ) ) {
			$this->assertSame( $is_in, Galley\is_excluded_path( $path, array( '/nothing', $pattern ) ), "$pattern $path" );
		}
	}

	public function test_preloading_waits_for_capacity() {
		$free = array( 'in_flight' => 1, 'slots' => 2, 'waiting' => 0, 'servers' => array( array( 'state' => 'answers' ) ) );
		$this->assertTrue( Galley\has_capacity( array( 'upstreams' => array( $free ) ) ) );
		foreach ( array( array( 'in_flight' => 2 ), array( 'waiting' => 1 ), array( 'servers' => array( array( 'state' => 'paused' ) ) ), array( 'slots' => 0 ) ) as $busy ) {
			$this->assertFalse( Galley\has_capacity( array( 'upstreams' => array( $free, $busy + $free ) ) ) );
		}
		foreach ( array( null, array(), array( 'upstreams' => array() ), array( 'upstreams' => 'x' ) ) as $invalid ) {
			$this->assertFalse( Galley\has_capacity( $invalid ) );
		}
	}

	public function test_chart_axis_ends_at_a_round_number() {
		foreach ( array( 1 => 1, 2 => 2, 3 => 5, 5 => 5, 6 => 10, 11 => 20, 21 => 50, 99 => 100, 101 => 200, 4999 => 5000, 5001 => 10000 ) as $most => $end ) {
			$this->assertSame( $end, Galley\axis_end( $most ), (string) $most );
		}
		$bars = Galley\chart_bars( array( array( 'time' => 1760740680, 'hits' => 4 ), array( 'time' => 1760740680 - 3600, 'misses' => 3 ) ), 1760740680 );
		$this->assertSame( 7, array_sum( array_map( 'array_sum', Galley\chart_hours( $bars, 1760740680 ) ) ) );
	}

	public function test_list_column_and_editor_panel_describe_the_state() {
		$this->assertSame( array( 'hit', 'for 5 mins', '' ), Galley\column_words( array( 'what' => 'hit', 'age_s' => 300, 'why' => null ) ) );
		$this->assertSame( array( 'pass', 'no', 'It sets a cookie.' ), Galley\column_words( array( 'what' => 'pass', 'why' => 'it sets a cookie' ) ) );
		$this->assertSame( 'A new title purges 3+ stored pages.', Galley\effect_words( 'title', 3, true ) );
		$this->assertSame( 'A change of the text purges 1 stored page.', Galley\effect_words( 'text', 1, false ) );
	}

	public function test_names_between_backticks_are_code_and_markup_is_text() {
		$this->assertSame( 'set <code>listen</code> of &lt;b&gt;x&lt;/b&gt; `', Galley\with_code( 'set `listen` of <b>x</b> `' ) );
	}
}
