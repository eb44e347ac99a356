<?php
/**
 * Pages that time alone makes wrong.
 *
 * @package Galley
 */

use PHPUnit\Framework\TestCase;

final class TimesTest extends TestCase {

	public function test_no_page_is_served_stale_once_it_is_wrong(): void {
		$day  = Galley\STALE;
		$rows = array(
			// Fresh, fresh after callbacks, wrong after; window.
			array( 604800, 604800, null, $day ),
			array( 3600, 3600, 3600, 0 ),
			array( 3600, 3600, 5000, 1400 ),
			array( 3600, 3600, 3600 + 2 * $day, $day ),
			array( 3600, 60, null, 0 ),
			array( 3600, 7200, 3600, 0 ),
		);
		foreach ( $rows as list( $fresh, $named, $wrong_after, $window ) ) {
			$this->assertSame( $window, Galley\stale_window( $fresh, $named, $wrong_after ) );
		}
	}

	public function test_no_callback_extends_a_page_beyond_the_time_at_which_it_is_wrong(): void {
		$week = Galley\LIFETIME;
		$rows = array(
			// Stale, fresh, wrong after; window.
			array( $week, 60, null, $week ),
			array( $week, 60, 60, 0 ),
			array( $week, 3600, 5000, 1400 ),
			array( 100, 3600, 5000, 100 ),
			array( $week, 0, 1, 1 ),
			array( $week, 90, 60, 0 ),
			array( -5, 60, null, 0 ),
		);
		foreach ( $rows as list( $stale, $fresh, $wrong_after, $window ) ) {
			$this->assertSame( $window, Galley\until_wrong( $stale, $fresh, $wrong_after ) );
		}
	}

	public function test_a_lifetime_of_all_pages_does_not_exempt_unknown_tables(): void {
		$rows = array(
			// Has a lifetime, is REST, has tags of its own; tables count.
			array( false, false, false, true ),
			array( false, true, true, true ),
			array( true, false, false, true ),
			array( true, false, true, false ),
			array( true, true, false, false ),
		);
		foreach ( $rows as list( $has_lifetime, $is_rest, $is_tagged, $expected ) ) {
			$this->assertSame( $expected, Galley\tables_count( $has_lifetime, $is_rest, $is_tagged ) );
		}
	}

	public function test_lifetimes_of_other_code_are_read(): void {
		$rows = array(
			array( array(), null ),
			array( array( 'Content-Type: text/html', 'Expires: 0' ), null ),
			array( array( 'Cache-Control: public, max-age=600' ), 600 ),
			array( array( 'cache-control: max-age=600, s-maxage=60' ), 60 ),
			array( array( 'Cache-Control: public', 'Cache-Control: s-maxage="5"' ), 5 ),
			array( array( 'Cache-Control: x-max-age=5' ), null ),
			array( array( 'Cache-Control: no-transform' ), null ),
		);
		foreach ( $rows as list( $fields, $seconds ) ) {
			$this->assertSame( $seconds, Galley\stated_lifetime( $fields ), implode( $fields ) );
		}
	}

	public function test_a_time_difference_is_right_until_its_text_changes(): void {
		$day  = 86400;
		$rows = array(
			// Difference, whether it grows, seconds.
			array( 5, true, 1 ),
			array( 59, true, 1 ),
			array( 90, true, 60 ),
			array( 5 * 3600, true, 1800 ),
			array( 2 * $day, true, $day / 2 ),
			array( 2 * $day, false, $day / 2 ),
			array( (int) ( 6.9 * $day ), true, $day - (int) ( 0.9 * $day ) ),
			array( 3 * 365 * $day, true, 365 * $day / 2 ),
			array( 3600, false, 1 ),
		);
		foreach ( $rows as list( $difference, $grows, $seconds ) ) {
			$this->assertEqualsWithDelta( $seconds, Galley\until_text_changes( $difference, $grows ), 1 );
		}
	}

	public function test_relative_times_are_found_in_any_language(): void {
		$texts = array( '%s ago', '%s from now', 'vor %s', 'hace %s', '%s前', 'no place', 'one %s or %s' );
		$rows  = array(
			'<time>5 minutes ago</time>'   => '5 minutes',
			'<b>1</b> second ago.'         => '1 second',
			"posted 5\n days&nbsp;ago"     => '5 days',
			'an hour ago'                  => 'an hour',
			'3 hours from now'             => '3 hours',
			'<i>vor 2 Stunden</i>'         => '2 Stunden',
			'hace 1 día'                   => '1 día',
			'5分前'                          => '5分',
			'long ago, 5 lakes in Chicago' => null,
			'5 days agony'                 => null,
			'vor allem 5'                  => null,
			'one a or b'                   => null,
		);
		foreach ( $rows as $page => $difference ) {
			$found = Galley\relative_times( $page, $texts );
			$this->assertSame( null === $difference ? array() : array( $difference ), array_values( $found ), $page );
		}
		$this->assertSame( 'a b c', Galley\plain_text( "a <br>\n b&nbsp;<i>\xC2\xA0c" ) );
	}

	public function test_conditions_that_name_the_current_time_are_found(): void {
		$now   = 1700000000;
		$today = gmdate( 'Ymd', $now );
		$rows  = array(
			array( array(), array(), false ),
			array( array( array( 'after' => '1 week ago' ) ), array(), true ),
			array( array( 'relation' => 'AND', array( 'before' => 'today' ) ), array(), true ),
			array( array( array( 'after' => '2024-01-01' ) ), array(), false ),
			array( array( array( 'after' => array( 'year' => 2024 ) ) ), array(), false ),
			array( array(), array( 'query' => array( array( 'key' => 'start', 'value' => $today, 'compare' => '>=' ) ) ), true ),
			array( array(), array( 'query' => array( array( array( 'key' => 'end', 'value' => array( (string) $now, '1800000000' ) ) ) ) ), true ),
			array( array(), array( 'value' => gmdate( 'Y-m-d H:i:s', $now ) ), true ),
			array( array(), array( 'value' => '20200101' ), false ),
			array( array(), array( 'query' => array( array( 'key' => 'price', 'value' => 15 ) ) ), false ),
		);
		foreach ( $rows as $number => list( $dates, $fields, $expected ) ) {
			$this->assertSame( $expected, Galley\names_now( $dates, $fields, $now ), "row $number" );
		}
	}
}
