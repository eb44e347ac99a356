<?php
/**
 * Every reason of the server has words of the plugin. The list is written by the server's tests (crates/galley/src/admin/why/reasons.rs).
 */

use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/admin-bootstrap.php';

final class ReasonsTest extends TestCase {

	/** The server's reasons. */
	private function reasons(): array {
		$reasons = json_decode( (string) file_get_contents( __DIR__ . '/reasons.json' ), true );
		$this->assertGreaterThan( 100, count( $reasons ) );
		return $reasons;
	}

	/** Names in braces. */
	private function places( string $text ): array {
		preg_match_all( '/\{(\w+)\}/', $text, $found );
		return $found[1];
	}

	public function test_every_reason_of_the_server_has_words() {
		$texts = Galley\reason_texts();
		foreach ( $this->reasons() as $reason ) {
			$id = $reason['id'];
			$this->assertArrayHasKey( $id, $texts, "the plugin has no words for `$id`" );
			$this->assertSame( array(), array_diff( $this->places( $texts[ $id ][0] ), $this->places( $reason['why'] ) ), "$id: a place that the server does not fill" );
			$this->assertSame( null !== $reason['do'], isset( $texts[ $id ][1] ), "$id: what to do" );
		}
		$this->assertSame( array(), array_diff( array_keys( $texts ), array_column( $this->reasons(), 'id' ) ), 'words for ids that the server does not have' );
	}

	public function test_translations_keep_the_places() {
		foreach ( glob( __DIR__ . '/../languages/*.po' ) as $file ) {
			preg_match_all( '/^msgid "(.*\{\w+\}.*)"\nmsgstr "(.*)"$/m', (string) file_get_contents( $file ), $found, PREG_SET_ORDER );
			$this->assertGreaterThan( 25, count( $found ), $file );
			foreach ( $found as $message ) {
				$this->assertEqualsCanonicalizing( $this->places( $message[1] ), $this->places( $message[2] ), $message[1] );
			}
		}
	}

	public function test_parameters_come_into_their_places() {
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

	public function test_what_is_not_known_has_the_words_of_the_server() {
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
		$this->assertSame( 'the cookie `` means a person', Galley\reason_words( $odd, '' )[0] );
	}

	public function test_sentences_end_once() {
		$this->assertSame( 'ページの一部です。', Galley\as_sentence( 'ページの一部です。' ) );
		$this->assertSame( 'It is a part of a page.', Galley\as_sentence( 'it is a part of a page' ) );
	}
}
