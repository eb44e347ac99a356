<?php
/**
 * HTML that is kept between requests: markers in values and statements, and what counts as HTML.
 *
 * @package Galley
 */

declare(strict_types=1);

use PHPUnit\Framework\TestCase;

final class KeptHtmlTest extends TestCase {

	/** Markers as they appear in HTML, in attributes, and in JSON. */
	private static function markers(): array {
		$plain = Galley\fragment_mark( 'begin', 12 );
		return array( $plain, htmlspecialchars( $plain ), json_encode( $plain, JSON_HEX_TAG ), Galley\fragment_mark( 'end', 9001 ) );
	}

	public function test_values_have_no_markers(): void {
		foreach ( self::markers() as $mark ) {
			$mark  = trim( $mark, '"' );
			$value = array( 'html' => "<p>{$mark}text</p>", 'deep' => array( array( $mark, 7, null ) ), 'object' => new stdClass() );
			$this->assertSame( array( '<p>text</p>', array( array( '', 7, null ) ) ), array_slice( array_values( Galley\without_kept_marks( $value ) ), 0, 2 ), $mark );
		}
	}

	public function test_serialized_values_keep_their_lengths(): void {
		foreach ( self::markers() as $mark ) {
			$mark  = trim( $mark, '"' );
			$kept  = array( 'html' => "<p>{$mark}text</p>" );
			$sql   = "INSERT INTO wp_options VALUES ('a', '" . addslashes( serialize( $kept ) ) . "')";
			$clean = Galley\overwrite_marks( $sql );
			$this->assertSame( strlen( $sql ), strlen( $clean ) );
			$this->assertStringNotContainsString( 'galley', $clean );
			$value = unserialize( Galley\without_kept_marks( serialize( $kept ) ) );
			$this->assertStringEndsWith( 'text</p>', $value['html'] );
			$this->assertStringNotContainsString( 'galley', $value['html'] );
		}
		$this->assertSame( 'SELECT 1', Galley\overwrite_marks( 'SELECT 1' ) );
	}

	public function test_html_is_recognized(): void {
		foreach ( array( '<p>a', 'a</b>', array( 1, array( 'x' => '<img src=a>' ) ) ) as $html ) {
			$this->assertTrue( Galley\has_html( $html ), json_encode( $html ) );
		}
		foreach ( array( '', 'a < b', '1 <2> 3', 7, null, true, new stdClass(), array( 'a', array( 1 ) ), array( array( array( array( array( '<p>' ) ) ) ) ) ) as $other ) {
			$this->assertFalse( Galley\has_html( $other ), json_encode( $other ) );
		}
	}

	public function test_keys_of_one_kind_have_one_shape(): void {
		$this->assertSame( Galley\kept_shape( 'transient:menu_12_0123456789abcdef' ), Galley\kept_shape( 'transient:menu_7_fedcba9876543210' ) );
		$this->assertNotSame( Galley\kept_shape( 'transient:menu_12' ), Galley\kept_shape( 'transient:list_12' ) );
		$this->assertSame( 'menu', Galley\transient_of( '_transient_menu' ) );
		$this->assertNull( Galley\transient_of( '_transient_timeout_menu' ) );
		$this->assertNull( Galley\transient_of( 'menu' ) );
	}

	public function test_code_changes_public_arrays_of_the_object_cache_in_place(): void {
		require_once dirname( __DIR__ ) . '/includes/class-described-cache.php';
		$cache = new class() {
			public $groups = array( 'one' );
			private $kept  = array( 'a' );

			public function __get( $name ) {
				return $this->$name;
			}
		};
		$own   = new Galley\Described_Cache( $cache );

		$own->groups[] = 'two';
		$this->assertSame( array( 'one', 'two' ), $cache->groups );
		$this->assertSame( array( 'a' ), $own->kept );
	}
}
