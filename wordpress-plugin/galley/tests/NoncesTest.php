<?php
/**
 * Lifetimes of nonces, and detection of logged-in users.
 */

use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/admin-bootstrap.php';

final class NoncesTest extends TestCase {

	/** The same calculation as `wp_nonce_tick()` in WordPress. */
	private static function tick( int $now, int $life ): int {
		return (int) ceil( $now / ( $life / 2 ) );
	}

	public function test_nonce_validity_ends_before_the_nonce_expires() {
		foreach ( array( 86400, 7200, 3601, 60 ) as $life ) {
			foreach ( array( 1760745600, 1760745601, 1760788799, 1760788800, 1760740680 ) as $now ) {
				$good = Galley\nonce_good_for( $now, $life );
				$made = self::tick( $now, $life );
				$last = self::tick( $now + $good, $life );
				$this->assertLessThanOrEqual( $made + 1, $last, "$now $life" );
				$this->assertGreaterThanOrEqual( $life / 2 - $life / 24 - 1, $good, "$now $life" );
				// With the time reserved for reading the page, the nonce would expire.
				$this->assertGreaterThan( $made + 1, self::tick( $now + $good + (int) ceil( $life / 24 ) + 2, $life ), "$now $life" );
			}
		}
		foreach ( array( 0, 1, -5 ) as $invalid ) {
			$this->assertSame( 0, Galley\nonce_good_for( 1760745600, $invalid ) );
		}
	}

	public function test_only_nonces_in_the_page_limit_its_lifetime() {
		$nonces = array( 'n0123456789' => 500, 'nabcdef0123' => 100 );
		$this->assertSame( 900, Galley\cut_to( 900, $nonces, '<p>nothing</p>' ) );
		$this->assertSame( 500, Galley\cut_to( 900, $nonces, '<input value="0123456789">' ) );
		$this->assertSame( 100, Galley\cut_to( 900, $nonces, 'abcdef0123 0123456789' ) );
		$this->assertSame( 100, Galley\cut_to( 900, $nonces, null ), 'an unknown page may contain every nonce' );
		$this->assertSame( 50, Galley\cut_to( 50, $nonces, null ) );
		$this->assertSame( 900, Galley\cut_to( 900, array(), null ) );
	}

	public function test_login_cookies_are_recognized() {
		$login = array( 'mysite_in' );
		foreach ( array( 'mysite_in', 'wordpress_logged_in_abc', 'wordpress_sec_abc' ) as $name ) {
			$this->assertTrue( Galley\has_login( array( 'a', $name ), $login ), $name );
		}
		$this->assertFalse( Galley\has_login( array( 'wordpress_test_cookie', 'comment_author_x', 7 ), $login ) );
		$this->assertFalse( Galley\has_login( array(), $login ) );
	}
}
