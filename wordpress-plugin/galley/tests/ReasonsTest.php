<?php
/**
 * Texts for the reasons of the server. The tests of the server write the list of reasons (crates/admin/src/why/reasons.rs).
 */

use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/admin-bootstrap.php';

final class ReasonsTest extends TestCase {

	/** Returns the reasons of the server. */
	private function reasons(): array {
		$reasons = json_decode( (string) file_get_contents( __DIR__ . '/reasons.json' ), true );
		$this->assertGreaterThan( 100, count( $reasons ) );
		return $reasons;
	}

	/** Returns the placeholder names in braces. */
	private function placeholders( string $text ): array {
		preg_match_all( '/\{(\w+)\}/', $text, $found );
		return $found[1];
	}

	public function test_every_server_reason_has_a_text() {
		$texts = Galley\reason_texts();
		foreach ( $this->reasons() as $reason ) {
			$id = $reason['id'];
			$this->assertArrayHasKey( $id, $texts, "the plugin has no text for `$id`" );
			$this->assertSame( array(), array_diff( $this->placeholders( $texts[ $id ][0] ), $this->placeholders( $reason['why'] ) ), "$id: a placeholder without a parameter of the server" );
			$this->assertSame( null !== $reason['do'], isset( $texts[ $id ][1] ), "$id: advice" );
		}
		$this->assertSame( array(), array_diff( array_keys( $texts ), array_column( $this->reasons(), 'id' ) ), 'texts for IDs that the server does not have' );
	}

	public function test_translations_have_the_same_placeholders() {
		foreach ( glob( __DIR__ . '/../languages/*.po' ) as $file ) {
			preg_match_all( '/^msgid "(.*\{\w+\}.*)"\nmsgstr "(.*)"$/m', (string) file_get_contents( $file ), $found, PREG_SET_ORDER );
			$this->assertGreaterThan( 25, count( $found ), $file );
			foreach ( $found as $message ) {
				$this->assertEqualsCanonicalizing( $this->placeholders( $message[1] ), $this->placeholders( $message[2] ), $message[1] );
			}
		}
	}

	public function test_parameters_replace_placeholders() {
		$reason = array(
			'id'     => 'not-stored-field',
			'params' => array(
				'field' => 'cache-control',
				'value' => '{field}<b>',
			),
		);
		$words  = Galley\reason_words( $reason, 'server' );
		$this->assertSame( 'its response has `cache-control: {field}<b>`', $words[0] );
		$this->assertStringContainsString( '[[site.rule]]', $words[1] );
		$country = array(
			'id'     => 'barred-country',
			'params' => array(
				'option'  => 'deny_countries',
				'client'  => '192.0.2.7',
				'country' => 'unknown',
			),
		);
		$this->assertStringContainsString( 'unknown', Galley\reason_words( $country, '' )[0] );
		$noted = array(
			'id'   => 'refused-bad-request',
			'note' => 'two hosts',
		);
		$this->assertSame( array( 'it is not a valid HTTP request: two hosts', '' ), Galley\reason_words( $noted, 'server' ) );
	}

	public function test_unknown_reasons_use_the_server_text() {
		foreach ( array( null, 'x', array(), array( 'id' => 'of-a-newer-server' ), array( 'id' => array() ) ) as $reason ) {
			$this->assertSame( array( 'server', '' ), Galley\reason_words( $reason, 'server' ) );
		}
		$newer = array(
			'id' => 'of-a-newer-server',
			'do' => 'look',
		);
		$this->assertSame( array( 'server', 'look' ), Galley\reason_words( $newer, 'server' ) );
		$odd = array(
			'id'     => 'pass-cookie',
			'params' => array( 'cookie' => array( 'x' ) ),
		);
		$this->assertSame( 'the cookie `` identifies a visitor', Galley\reason_words( $odd, '' )[0] );
	}

	public function test_sentences_end_with_one_full_stop() {
		$this->assertSame( 'ページの一部です。', Galley\as_sentence( 'ページの一部です。' ) );
		$this->assertSame( 'It is a part of a page.', Galley\as_sentence( 'it is a part of a page' ) );
	}
}
