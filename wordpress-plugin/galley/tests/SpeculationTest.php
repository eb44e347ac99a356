<?php
/**
 * Pure functions of speculation rules.
 */

use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/admin-bootstrap.php';

final class SpeculationTest extends TestCase {

	public function test_rules_have_included_and_excluded_urls() {
		$rules = Galley\speculation_rules( Galley\SPECULATIONS['prefetch-eager'], '/blog', array( '/blog/cart/*' ) );
		$this->assertSame( array( 'prefetch' ), array_keys( $rules ) );
		$rule = $rules['prefetch'][0];
		$this->assertSame( array( 'document', 'eager' ), array( $rule['source'], $rule['eagerness'] ) );
		$where = $rule['where']['and'];
		$this->assertSame( '/blog/*', $where[0]['href_matches'] );
		$this->assertSame( array( '/blog/cart/*', '/blog/*\\?(.+)' ), $where[1]['not']['href_matches'] );
		$this->assertSame( 'a[rel~="nofollow"]', $where[2]['not']['selector_matches'] );
		$this->assertStringNotContainsString( 'prerender', wp_json_encode( $rules ) );
		$prerender = Galley\speculation_rules( Galley\SPECULATIONS['prerender'], '', array() );
		$this->assertStringContainsString( '.no-prerender', $prerender['prerender'][0]['where']['and'][3]['not']['selector_matches'] );
	}

	public function test_patterns_with_special_characters_are_rejected() {
		$given = array( '/a/*', '/b(.*)', '/c?x', '/d:e', '/{f}', '/g+', '/*', 'h', "/i\n", '/j-k_l.m~n%20/' );
		$this->assertSame( array( '/a/*', '/j-k_l.m~n%20/' ), Galley\plain_patterns( $given ) );
		$this->assertSame( Galley\ACTING_PATHS, Galley\plain_patterns( Galley\ACTING_PATHS ) );
	}

	public function test_speculation_disabled_by_wordpress_stays_disabled() {
		$this->assertNull( Galley\configure_speculation( null ) );
		$config = array( 'mode' => 'auto', 'eagerness' => 'auto' );
		// The request did not pass through Galley.
		$this->assertSame( $config, Galley\configure_speculation( $config ) );
	}
}
