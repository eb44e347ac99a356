<?php
/**
 * Values that plugins keep in a persistent object cache: which pages read them, and which requests change them.
 *
 * @package Galley
 */

declare(strict_types=1);

use PHPUnit\Framework\TestCase;

require_once dirname( __DIR__ ) . '/includes/class-described-cache.php';

final class CachedValuesTest extends TestCase {

	protected function tearDown(): void {
		$GLOBALS['galley_cached_reads'] = array();
		$GLOBALS['galley_tags']         = array();
		unset( $_SERVER['HTTP_GALLEY_REQUEST'], $GLOBALS['options_of_test'], $GLOBALS['galley_purge_id'] );
	}

	/** An object cache with some values. */
	private static function cache(): Galley\Described_Cache {
		$cache = new class() {
			public $values = array( 'shelf:a' => 'one', 'posts:a' => 'one', 'shelf:empty' => '' );

			public function get( $key, $group ) {
				return $this->values[ "$group:$key" ] ?? false;
			}

			public function get_multiple( $keys, $group ) {
				$found = array();
				foreach ( $keys as $key ) {
					$found[ $key ] = $this->get( $key, $group );
				}
				return $found;
			}

			public function __call( $name, $arguments ) {
				if ( 'set' === $name ) {
					$this->values[ "$arguments[2]:$arguments[0]" ] = $arguments[1];
				}
				return true;
			}
		};
		return new Galley\Described_Cache( $cache );
	}

	/**
	 * Returns the tags of the page and the purges of a request.
	 *
	 * @param array[] $calls Method and its arguments.
	 */
	private static function played( bool $is_page, array $calls ): array {
		$GLOBALS['options_of_test']     = array();
		$GLOBALS['galley_purge_id']     = 'x';
		$GLOBALS['galley_cached_reads'] = array();
		$GLOBALS['galley_tags']         = array();
		$_SERVER['HTTP_GALLEY_REQUEST'] = $is_page ? 'shared' : 'whole';
		$cache                          = self::cache();
		foreach ( $calls as $call ) {
			$cache->{$call[0]}( ...array_slice( $call, 1 ) );
		}
		Galley\gather_cached_reads();
		return array( array_keys( $GLOBALS['galley_tags'] ), Galley\take_purges()['hard'] );
	}

	public function test_pages_depend_on_values_that_they_did_not_fill(): void {
		$tag  = Galley\cached_tag( 'shelf', 'a' );
		$none = Galley\cached_tag( 'shelf', 'none' );
		// Calls of a page, and its tags.
		$rows = array(
			array( array( array( 'get', 'a', 'shelf' ) ), array( 'og', 'og.shelf', $tag ) ),
			array( array( array( 'get', 'none', 'shelf' ) ), array( 'og', 'og.shelf', $none ) ),
			array( array( array( 'get', 'none', 'shelf' ), array( 'set', 'none', 'new', 'shelf' ), array( 'get', 'none', 'shelf' ) ), array() ),
			array( array( array( 'get', 'none', 'shelf' ), array( 'delete', 'none', 'shelf' ), array( 'set_multiple', array( 'none' => 'new' ), 'shelf' ) ), array() ),
			array( array( array( 'get_multiple', array( 'a', 'none' ), 'shelf' ) ), array( 'og', 'og.shelf', $tag, $none ) ),
			array( array( array( 'get', 'a', 'posts' ), array( 'get', 'x', 'transient' ), array( 'get', 'x', 'default' ) ), array() ),
		);
		foreach ( $rows as list( $calls, $tags ) ) {
			$this->assertSame( array( $tags, array() ), self::played( true, $calls ), json_encode( $calls ) );
		}
		$many = array();
		for ( $key = 0; $key <= Galley\MAX_CACHED; $key++ ) {
			$many[] = array( 'get', $key, 'shelf' );
		}
		$this->assertSame( array( array( 'og', 'og.shelf', 'oh.shelf' ), array() ), self::played( true, $many ) );
	}

	public function test_requests_purge_the_values_that_they_change(): void {
		$tag  = Galley\cached_tag( 'shelf', 'a' );
		$none = Galley\cached_tag( 'shelf', 'none' );
		// Calls, and purges.
		$read = array( 'get_multiple', array( 'a', 'empty', 'none' ), 'shelf' );
		$rows = array(
			array( array( array( 'set', 'a', 'two', 'shelf', 60 ) ), array( $tag, 'oh.shelf' ) ),
			array( array( array( 'set', 'a', 'one', 'shelf' ) ), array( $tag, 'oh.shelf' ) ),
			array( array( $read, array( 'set', 'a', 'one', 'shelf' ), array( 'set', 'empty', '', 'shelf' ) ), array() ),
			array( array( $read, array( 'set', 'a', static function () {}, 'shelf' ), array( 'add', 'none', 'x', 'shelf' ) ), array( $tag, $none, 'oh.shelf' ) ),
			array( array( $read, array( 'add', 'a', 'two', 'shelf' ), array( 'replace', 'none', 'x', 'shelf' ) ), array() ),
			array( array( array( 'delete', 'a', 'shelf' ) ), array( $tag, 'oh.shelf' ) ),
			array( array( array( 'delete', 'a', 'shelf' ), array( 'set', 'a', 'two', 'shelf' ) ), array( $tag, 'oh.shelf' ) ),
			array( array( $read, array( 'delete', 'none', 'shelf' ), array( 'incr', 'none', 1, 'shelf' ) ), array() ),
			array( array( $read, array( 'set', 'none', 'new', 'shelf' ) ), array( $none, 'oh.shelf' ) ),
			array( array( $read, array( 'set_multiple', array( 'a' => 'one', 'none' => 'x' ), 'shelf' ) ), array( $none, 'oh.shelf' ) ),
			array( array( $read, array( 'delete_multiple', array( 'a', 'none' ), 'shelf' ) ), array( $tag, 'oh.shelf' ) ),
			array( array( array( 'set', 'a', 'two', 'posts' ), array( 'set', 'a', 'two', '' ), array( 'delete', 'x', 'transient' ) ), array() ),
			array( array( array( 'flush_group', 'shelf' ) ), array( 'og.shelf', 'oh.shelf' ) ),
			array( array( array( 'flush' ) ), array( 'og', 'oh' ) ),
		);
		foreach ( $rows as list( $calls, $purges ) ) {
			$this->assertSame( $purges, self::played( false, $calls )[1], json_encode( $calls ) );
		}
		$this->assertSame( array( $tag, 'oh.shelf' ), self::played( true, array( array( 'set', 'a', 'two', 'shelf' ) ) )[1], 'a page that changes what it did not miss' );
	}
}
