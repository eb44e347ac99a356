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
		$GLOBALS['galley_cached_reads']  = array();
		$GLOBALS['galley_kept_rendered'] = array();
		$GLOBALS['galley_tags']          = array();
		$GLOBALS['galley_at_most']       = array();
		$GLOBALS['galley_is_over']       = false;
		$GLOBALS['galley_unkept_groups'] = $GLOBALS['galley_cached_groups'] = $GLOBALS['galley_cached_writes'] = $GLOBALS['galley_later'] = array();
		unset( $GLOBALS['galley_kept_http'], $GLOBALS['wpdb'], $GLOBALS['actions_of_test'], $GLOBALS['loaded_of_test'] );
		unset( $_SERVER['HTTP_GALLEY_REQUEST'], $GLOBALS['options_of_test'], $GLOBALS['galley_purge_id'] );
	}

	/** An object cache with some values. */
	private static function cache(): Galley\Described_Cache {
		$cache = new class() {
			public $values = array( 'shelf:a' => 'one', 'posts:a' => 'one', 'shelf:empty' => '' );

			public function get( $key, $group ) {
				return is_scalar( $key ) ? $this->values[ "$group:$key" ] ?? false : false;
			}

			public function get_multiple( $keys, $group ) {
				$found = array();
				foreach ( $keys as $key ) {
					$found[ $key ] = $this->get( $key, $group );
				}
				return $found;
			}

			public function __call( $name, $arguments ) {
				if ( array_filter( array_slice( $arguments, 2, 1 ), 'is_array' ) ) {
					return true;
				}
				if ( 'set' === $name && is_scalar( $arguments[0] ) ) {
					$this->values[ "$arguments[2]:$arguments[0]" ] = $arguments[1];
				}
				$many = in_array( $name, array( 'add_multiple', 'delete_multiple' ), true );
				$keys = $many && 'delete_multiple' === $name ? array_flip( $arguments[0] ) : (array) ( $arguments[0] ?? array() );
				$done = array();
				foreach ( $many ? $keys : array() as $key => $value ) {
					$done[ $key ] = isset( $this->values[ "$arguments[1]:$key" ] ) === ( 'delete_multiple' === $name );
				}
				if ( $many ) {
					return $done;
				}
				$is_there = is_scalar( $arguments[0] ?? null ) && isset( $this->values[ ( 'delete' === $name ? $arguments[1] ?? '' : $arguments[2] ?? '' ) . ":$arguments[0]" ] );
				return in_array( $name, array( 'replace', 'delete', 'incr', 'increment' ), true ) ? $is_there : ( 'add' === $name ? ! $is_there : true );
			}
		};
		return new Galley\Described_Cache( $cache );
	}

	/**
	 * Returns the tags of the page and the purges of a request.
	 *
	 * @param array[] $calls Method and its arguments.
	 */
	private static function played( bool $is_page, array $calls, array $options = array() ): array {
		$GLOBALS['options_of_test']      = array();
		$GLOBALS['loaded_of_test']       = $options;
		$GLOBALS['galley_purge_id']      = 'x';
		$GLOBALS['galley_cached_reads']  = array();
		$GLOBALS['galley_kept_rendered'] = array();
		$GLOBALS['galley_tags']          = array();
		$_SERVER['HTTP_GALLEY_REQUEST']  = $is_page ? 'shared' : 'whole';
		$GLOBALS['galley_cached_groups'] = array();
		$cache                           = self::cache();
		foreach ( $calls as $call ) {
			$cache->{$call[0]}( ...array_slice( $call, 1 ) );
		}
		Galley\gather_cached_reads();
		return array( array_keys( $GLOBALS['galley_tags'] ), Galley\take_purges()['hard'] );
	}

	public function test_pages_depend_on_values_that_they_ask_for(): void {
		$tag  = Galley\cached_tag( 'shelf', 'a' );
		$none = Galley\cached_tag( 'shelf', 'none' );
		// Calls of a page, and its tags.
		$rows = array(
			array( array( array( 'get', 'a', 'shelf' ) ), array( 'og', 'og.shelf', $tag ) ),
			array( array( array( 'get', 'none', 'shelf' ) ), array( 'og', 'og.shelf', $none ) ),
			array( array( array( 'get', 'none', 'shelf' ), array( 'set', 'none', 'new', 'shelf' ), array( 'get', 'none', 'shelf' ) ), array( 'og', 'og.shelf', $none ) ),
			array( array( array( 'get', 'none', 'shelf' ), array( 'set', 'none', '<p>new</p>', 'shelf' ) ), array() ),
			array( array( array( 'get', 'none', 'shelf' ), array( 'delete', 'none', 'shelf' ), array( 'set_multiple', array( 'none' => 'new' ), 'shelf' ) ), array( 'og', 'og.shelf', $none ) ),
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
			array( array( array( 'set', 'a', 'two', 'shelf', 60 ) ), array( $tag, 'oh.shelf', 'oh' ) ),
			array( array( array( 'set', 'a', 'one', 'shelf' ) ), array( $tag, 'oh.shelf', 'oh' ) ),
			array( array( $read, array( 'set', 'a', 'one', 'shelf' ), array( 'set', 'empty', '', 'shelf' ) ), array() ),
			array( array( $read, array( 'set', 'a', static function () {}, 'shelf' ), array( 'add', 'none', 'x', 'shelf' ) ), array( $tag, $none, 'oh.shelf', 'oh' ) ),
			array( array( $read, array( 'add', 'a', 'two', 'shelf' ), array( 'replace', 'none', 'x', 'shelf' ) ), array() ),
			array( array( array( 'delete', 'a', 'shelf' ) ), array( $tag, 'oh.shelf', 'oh' ) ),
			array( array( array( 'delete', 'a', 'shelf' ), array( 'set', 'a', 'two', 'shelf' ) ), array( $tag, 'oh.shelf', 'oh' ) ),
			array( array( $read, array( 'delete', 'none', 'shelf' ), array( 'incr', 'none', 1, 'shelf' ) ), array() ),
			array( array( $read, array( 'set', 'none', 'new', 'shelf' ) ), array( $none, 'oh.shelf', 'oh' ) ),
			array( array( $read, array( 'set_multiple', array( 'a' => 'one', 'none' => 'x' ), 'shelf' ) ), array( $none, 'oh.shelf', 'oh' ) ),
			array( array( $read, array( 'delete_multiple', array( 'a', 'none' ), 'shelf' ) ), array( $tag, 'oh.shelf', 'oh' ) ),
			array( array( array( 'set', 'a', 'two', 'posts' ), array( 'set', 'a', 'two', '' ), array( 'delete', 'x', 'transient' ) ), array() ),
			array( array( array( 'flush_group', 'shelf' ) ), array( 'og.shelf', 'oh' ) ),
			array( array( array( 'flush' ) ), array( 'og', 'oh' ) ),
		);
		foreach ( $rows as list( $calls, $purges ) ) {
			$this->assertSame( $purges, self::played( false, $calls )[1], json_encode( $calls ) );
		}
		$this->assertSame( array( $tag, 'oh.shelf', 'oh' ), self::played( true, array( array( 'set', 'a', 'two', 'shelf' ) ) )[1], 'a page that changes what it did not miss' );
	}

	public function test_methods_of_other_drop_ins(): void {
		$tag  = array( Galley\cached_tag( 'shelf', 'a' ), 'oh.shelf', 'oh' );
		$none = array( Galley\cached_tag( 'shelf', 'none' ), 'oh.shelf', 'oh' );
		$rows = array(
			array( array( 'increment', 'a', 1, 'shelf' ), $tag ),
			array( array( 'increment', 'none', 1, 'shelf' ), array() ),
			array( array( 'delete', 'none', 'shelf' ), array() ),
			array( array( 'add', 'a', 'x', 'shelf' ), array() ),
			array( array( 'add_multiple', array( 'a' => 1, 'none' => 2 ), 'shelf' ), $none ),
			array( array( 'delete_multiple', array( 'a', 'none' ), 'shelf' ), $tag ),
			array( array( 'setByKey', 'server', 'a', 'x', 'shelf' ), $tag ),
			array( array( 'setMulti', array( 'a' => 1 ), 'shelf' ), $tag ),
			array( array( 'setMulti', array( 'a' => 1 ), array( 'shelf' ) ), array( 'og', 'oh' ) ),
			array( array( 'set', 'shelf', 'a', array( 'group first' ) ), array() ),
			array( array( 'setMultiple', 'shelf', array( 'a' => 1 ) ), array() ),
			array( array( 'deleteByKey', 'server', 'a', 'shelf' ), $tag ),
			array( array( 'cas', 1.5, 'a', 'x', 'shelf' ), $tag ),
			array( array( 'append', 'a', 'x', 'shelf' ), $tag ),
			array( array( 'delete_group', 'shelf' ), array( 'og.shelf', 'oh' ) ),
			array( array( 'set', array( 'a' ), 'x', 'shelf' ), array() ),
			array( array( 'set', new stdClass(), 'x', 'shelf' ), array() ),
			array( array( 'get', array( 'a' ), 'shelf' ), array() ),
		);
		foreach ( $rows as list( $call, $purges ) ) {
			$this->assertSame( $purges, self::played( false, array( $call ) )[1], json_encode( $call ) );
		}
		$settings = array( 'stats', 'close', 'info', 'flush_runtime', 'addServer', 'setOption', 'add_global_groups', 'set_prefix', 'switch_to_blog', 'delete_from_internal_cache', 'add_to_internal_cache', 'is_connected' );
		foreach ( $settings as $name ) {
			$this->assertSame( array( array(), array() ), self::played( true, array( array( $name, 'a', 'x', 'shelf' ) ) ), $name );
		}
		$this->assertSame( array(), $GLOBALS['galley_at_most'] );
		self::played( true, array( array( 'get_multi', array( 'shelf' => array( 'a' ) ) ) ) );
		$this->assertSame( array( Galley\UNKNOWN_LIFETIME ), $GLOBALS['galley_at_most'], 'reads that are not recorded' );
		$this->assertSame( array(), self::played( false, array( array( 'add_nonpersistent_groups', 'shelf' ), array( 'set', 'a', 'x', 'shelf' ) ) )[1] );
	}

	public function test_other_code_asks_for_methods_and_properties(): void {
		$inner = new class() {
			public $token = 0;

			public function get( $key, $group = 'default', $force = false, &$found = null, $server = '', $by_server = false, $callback = null, &$token = null ) {
				$this->token = func_num_args();
				$found       = 'false' === $key;
				$token       = 7;
				return false;
			}
		};
		$cache = new Galley\Described_Cache( $inner );
		$this->assertTrue( is_callable( array( $cache, '__remoteset' ) ) );
		$this->assertNull( call_user_func( array( $cache, '__remoteset' ) ) );
		$this->assertNull( $cache->flush_group( 'shelf' ) );
		$this->assertNull( $cache->get_multiple( array( 'a' ), 'shelf' ) );
		$this->assertTrue( method_exists( $cache, 'flush_group' ) );
		$this->assertFalse( property_exists( $cache, 'cache' ) );
		$found = true;
		$this->assertFalse( $cache->get( 'none', 'shelf', false, $found ) );
		$this->assertSame( array( 4, false ), array( $inner->token, $found ) );
		$cache->get( 'none', 'shelf', false, $found, '', false, null, $token );
		$this->assertSame( array( 8, 7 ), array( $inner->token, $token ) );
		$cache->get( 'false', 'shelf', false, $found );
		$this->assertTrue( $found );
		$reads = array( '1:' . Galley\cached_tag( 'shelf', 'none' ) => false, '1:' . Galley\cached_tag( 'shelf', 'false' ) => true );
		$this->assertSame( $reads, $GLOBALS['galley_cached_reads'], 'of this blog, and false is a value, too' );
	}

	public function test_groups_of_wordpress_and_shops_are_not_observed(): void {
		foreach ( array( 'product_cat', 'product_cat_relationships', 'network-queries', 'user-queries', 'site-details', 'timeinfo', 'theme_files', 'image_editor', 'rss', 'general', 'posts', '' ) as $group ) {
			$this->assertFalse( Galley\is_observed_group( $group ), $group );
		}
		foreach ( array( 'shelf', 'product_reviews_pro', 'wc_points', 'friend_relationships', 'shelf-queries' ) as $group ) {
			$this->assertTrue( Galley\is_observed_group( $group ), $group );
		}
		$this->assertSame( array( 1, 0, 1, 0 ), array( preg_match( Galley\SHOP_GROUPS, 'products' ), preg_match( Galley\SHOP_GROUPS, 'product_reviews' ), preg_match( Galley\SHOP_GROUPS, 'product_12' ), preg_match( Galley\SHOP_GROUPS, 'wc_points' ) ) );
	}

	public function test_many_values_become_a_purge_of_their_group(): void {
		$few   = array();
		$calls = array();
		for ( $key = 0; $key <= Galley\MAX_WRITTEN; $key++ ) {
			$few     = $calls;
			$calls[] = array( 'set', "k$key", 'x', 'shelf' );
		}
		$this->assertCount( Galley\MAX_WRITTEN + 2, self::played( false, $few )[1] );
		$this->assertSame( array( 'og.shelf', 'oh' ), self::played( false, $calls )[1] );
		$reads  = array();
		$writes = array();
		for ( $key = 0; $key <= Galley\MAX_CACHED_GROUPS; $key++ ) {
			$reads[]  = array( 'get', 'a', "shelf$key" );
			$writes[] = array( 'set', 'a', 'x', "shelf$key" );
		}
		$this->assertSame( array( 'og', 'oh' ), self::played( true, $reads )[0] );
		$this->assertSame( array( 'og' ), self::played( false, $writes )[1] );
	}

	public function test_a_page_depends_on_what_it_filled_from_another_server(): void {
		$calls                       = array( array( 'get', 'none', 'shelf' ), array( 'set', 'none', 'new', 'shelf' ) );
		$GLOBALS['galley_kept_http'] = true;
		$this->assertSame( array( array( 'og', 'og.shelf', Galley\cached_tag( 'shelf', 'none' ) ), array() ), self::played( true, $calls ) );
	}

	public function test_the_change_that_makes_a_group_busy_purges_all_of_it(): void {
		$call = array( array( 'set', 'a', 'two', 'shelf' ) );
		for ( $change = 1; $change <= Galley\BUSY_CHANGES + 2; $change++ ) {
			$kept = array( 'galley_busy' => array( 'og.shelf' => array( $change - 1, time() ) ) );
			if ( $change > Galley\BUSY_CHANGES + 1 ) {
				$kept = array( 'galley_busy' => array( 'og.shelf' => array( null, time() + Galley\BUSY_FOR ) ) );
			}
			$expected = $change > Galley\BUSY_CHANGES ? array( 'og.shelf', 'oh' ) : array( Galley\cached_tag( 'shelf', 'a' ), 'oh.shelf', 'oh' );
			$this->assertSame( $change > Galley\BUSY_CHANGES + 1 ? array() : $expected, self::played( true, $call, $kept )[1], "$change" );
		}
	}

	public function test_what_destructors_change_is_purged(): void {
		$GLOBALS['galley_purge_id']     = 'x';
		$GLOBALS['galley_later']        = array();
		$GLOBALS['galley_is_over']      = true;
		$GLOBALS['galley_late_purges']  = array();
		$GLOBALS['options_of_test']     = array();
		$_SERVER['HTTP_GALLEY_REQUEST'] = 'whole';
		$GLOBALS['wpdb']                = new class() {
			public $options = 'wp_options';
			public $sent    = array();

			public function prepare( $sql, $values ) {
				return $sql . json_encode( $values );
			}
			public function remove_placeholder_escape( $sql ) {
				return $sql;
			}
			public function suppress_errors() {
				return true;
			}
			public function query( $sql ) {
				$this->sent[] = $sql;
				return 1;
			}
		};
		self::cache()->set( 'a', 'two', 'shelf' );
		$this->assertSame( array(), $GLOBALS['galley_later'] );
		$this->assertStringContainsString( Galley\cached_tag( 'shelf', 'a' ), end( $GLOBALS['wpdb']->sent ) );
		Galley\take_purges();
	}

	public function test_the_number_of_found_rows_stays(): void {
		$_SERVER['HTTP_GALLEY_REQUEST'] = 'whole';
		$GLOBALS['wpdb']                = (object) array( 'last_query' => 'SELECT SQL_CALC_FOUND_ROWS ID FROM wp_posts' );
		$GLOBALS['actions_of_test']     = array( 'shutdown' => 0 );
		unset( $GLOBALS['galley_purge_id'] );
		self::cache()->set( 'a', 'two', 'shelf' );
		$this->assertSame( array(), $GLOBALS['galley_later'] );
		$this->assertFalse( isset( $GLOBALS['galley_purge_id'] ) );
		$this->assertCount( 1, $GLOBALS['galley_cached_writes'] );
	}
}
