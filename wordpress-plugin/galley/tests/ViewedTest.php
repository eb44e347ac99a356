<?php
/**
 * Addresses of the lists of what a visitor has viewed.
 *
 * @package Galley
 */

use PHPUnit\Framework\TestCase;

final class ViewedTest extends TestCase {

	public function test_each_list_has_one_address(): void {
		$widget = array( 'galley-viewed' => 'woocommerce_recently_viewed_products-2' );
		$lists  = array(
			'7'                        => array( '7' ),
			'7-12-9223372036854775807' => array( '7', '12', '9223372036854775807' ),
			''                         => array(),
			'0'                        => array(),
			'07'                       => array(),
			'7-7'                      => array(),
			'7-'                       => array(),
			'7,12'                     => array(),
			"7\n"                      => array(),
			'12345678901234567890'     => array(),
		);
		foreach ( $lists as $list => $ids ) {
			$query = $widget + array( 'galley-ids' => (string) $list );
			$this->assertSame( $ids, Galley\viewed_ids( 'GET', $query ), (string) $list );
			$this->assertSame( $ids, Galley\viewed_ids( 'GET', $query + array( 'lang' => 'de' ) ), (string) $list );
			$this->assertSame( array(), Galley\viewed_ids( 'POST', $query ) );
			$this->assertSame( array(), Galley\viewed_ids( 'GET', $query + array( 's' => '' ) ) );
		}
		$this->assertSame( array(), Galley\viewed_ids( 'GET', array( 'galley-ids' => '7' ) ) );
		$this->assertSame( array(), Galley\viewed_ids( 'GET', $widget ) );
		$this->assertSame( array(), Galley\viewed_ids( 'GET', $widget + array( 'galley-ids' => array( '7' ) ) ) );
	}
}
