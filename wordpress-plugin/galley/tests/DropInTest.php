<?php
/**
 * The drop-in of the object cache: codec, classes of requests, and WordPress's semantics without a store. With a store: the end-to-end tests.
 */

use PHPUnit\Framework\TestCase;

foreach ( array( 'wp_installing', 'wp_suspend_cache_addition' ) as $galley_name ) {
	if ( ! function_exists( $galley_name ) ) {
		eval( "function $galley_name() { return false; }" ); // phpcs:ignore Squiz.PHP.Eval.Discouraged -- a stub.
	}
}
if ( ! function_exists( 'get_current_blog_id' ) ) {
	function get_current_blog_id() {
		return 1;
	}
}

foreach ( array( 'codec', 'class-fence', 'class-object-store', 'class-request-class', 'class-local-cache', 'class-reading-cache', 'class-shared-cache', 'class-object-cache' ) as $galley_name ) {
	require_once __DIR__ . "/../object-cache/$galley_name.php";
}

/** Records the statements of the fence. */
final class Fence_Database {
	public $base_prefix = 'wp_';
	public $sent        = array();

	public function suppress_errors() {
		return false;
	}

	public function query( $sql ) {
		$this->sent[] = $sql;
		return 1;
	}

	public function get_results( $sql ) {
		$this->sent[] = $sql;
		return array();
	}
}

final class DropInTest extends TestCase {

	private $before;

	private $database;

	private $cache;

	protected function setUp(): void {
		$this->before    = $GLOBALS['wpdb'] ?? null;
		$this->database  = new Fence_Database();
		$GLOBALS['wpdb'] = $this->database;
		$this->cache     = new Galley\Object_Cache();
	}

	protected function tearDown(): void {
		$GLOBALS['wpdb'] = $this->before;
	}

	public function values(): array {
		$object = (object) array( 'a' => array( 1, null ) );
		return array( array( '' ), array( "b\0x" ), array( 5 ), array( -7 ), array( 1.5 ), array( false ), array( null ), array( true ), array( array( 'x' => array() ) ), array( $object ) );
	}

	/**
	 * @dataProvider values
	 */
	public function test_values_are_decoded_as_they_were( $value ) {
		$this->assertEquals( $value, Galley\decode_object( Galley\encode_object( $value, 255 ), $found ) );
		$this->assertTrue( $found );
		$this->assertSame( gettype( $value ), gettype( Galley\decode_object( Galley\encode_object( $value ), $found ) ) );
	}

	public function test_unknown_codecs_and_damaged_bytes_count_as_missing() {
		foreach ( array( '', 'x', 'Zabc', 'ifive', 's', 'S0a:1:{', 'S', 'BB', 'O:3:"Foo":0:{}', 'n', 'S0O:9:"NoSuchOne":0:{}' ) as $bytes ) {
			Galley\decode_object( $bytes, $found );
			$this->assertFalse( $found, $bytes );
		}
		$this->assertNull(
			Galley\encode_object(
				static function () {}
			)
		);
	}

	public function test_patterns_of_urls() {
		$patterns = array(
			'/'                                      => '?',
			'/hello-world/'                          => '*?',
			'/product/rope-5/?utm_source=a'          => 'product/*?',
			'/?s=a'                                  => '?s',
			'/2026/11/tale/'                         => '#/#/*?',
			'/wp-admin/post.php?post=5&action=edit'  => 'wp-admin/post.php?action&post',
			'/wp-json/wp/v2/posts/12?per_page=3'     => 'wp-json/wp/v2/posts/#?per_page',
			'/index.php?s=a'                         => 'index.php?s',
		);
		foreach ( $patterns as $uri => $pattern ) {
			$this->assertSame( $pattern, Galley\Request_Class::pattern( $uri ), $uri );
		}
	}

	public function test_values_and_groups() {
		$this->assertTrue( $this->cache->add( 'k', 'v', 'g' ) );
		$this->assertFalse( $this->cache->add( 'k', 'w', 'g' ) );
		$this->assertSame( 'v', $this->cache->get( 'k', 'g' ) );
		$this->assertFalse( $this->cache->get( 'k', 'other', false, $found ) );
		$this->assertFalse( $found );
		$this->assertFalse( $this->cache->replace( 'none', 1, 'g' ) );
		$this->assertTrue( $this->cache->replace( 'k', null, 'g' ) );
		$this->assertNull( $this->cache->get( 'k', 'g', false, $found ) );
		$this->assertTrue( $found );
		$this->assertSame( array( 'k' => null, 'x' => false ), $this->cache->get_multiple( array( 'k', 'x' ), 'g' ) );
		$this->assertSame( array( 'k' => false, 'l' => true ), $this->cache->add_multiple( array( 'k' => 1, 'l' => 2 ), 'g' ) );
		$this->assertSame( array( 'l' => true, 'x' => false ), $this->cache->delete_multiple( array( 'l', 'x' ), 'g' ) );
		$this->cache->set( 'o', 1, 'h' );
		$this->cache->flush_group( 'g' );
		$this->assertFalse( $this->cache->get( 'k', 'g' ) );
		$this->assertSame( 1, $this->cache->get( 'o', 'h' ) );
		$this->cache->flush();
		$this->assertFalse( $this->cache->get( 'o', 'h' ) );
	}

	public function test_a_changed_term_takes_the_order_of_the_terms_of_posts_with_it() {
		$this->cache->set( 5, array( 2, 1 ), 'category_relationships' );
		$this->cache->forget_orders( array( 2 ), 'category', false );
		$this->cache->forget_orders( array( 2 ), 'post_tag' );
		$this->assertSame( array( 2, 1 ), $this->cache->get( 5, 'category_relationships' ) );
		$this->cache->forget_orders( array( 2 ), 'category' );
		$this->assertFalse( $this->cache->get( 5, 'category_relationships' ) );
	}

	public function test_changes_are_seen_although_reads_pass_the_plugin() {
		require_once dirname( __DIR__ ) . '/includes/class-described-cache.php';
		$GLOBALS['galley_cached_writes'] = array();
		$this->cache->set( 'a', 'one', 'shelf' );
		$seen                       = new Galley\Described_Cache( $this->cache );
		$GLOBALS['galley_purge_id'] = 'of a test';
		$seen->set( 'a', 'one', 'shelf' );
		$this->assertSame( array(), $GLOBALS['galley_cached_writes'] );
		$seen->set( 'a', 'two', 'shelf' );
		$this->assertSame( array( 'og.shelf' ), array_keys( $GLOBALS['galley_cached_writes'] ) );
		$seen->set( 'b', 'one', 'box' );
		$this->assertSame( array( 'og.shelf', 'og.box' ), array_keys( $GLOBALS['galley_cached_writes'] ) );
		$GLOBALS['galley_cached_writes'] = $GLOBALS['galley_later'] = array();
		unset( $GLOBALS['galley_purge_id'] );
	}

	public function test_objects_are_copies() {
		$object = (object) array( 'n' => 1 );
		$this->cache->set( 'o', $object );
		$object->n = 2;
		$read      = $this->cache->get( 'o' );
		$this->assertSame( 1, $read->n );
		$read->n = 3;
		$this->assertSame( 1, $this->cache->get( 'o' )->n );
	}

	public function test_numbers_do_not_fall_below_zero() {
		$this->assertFalse( $this->cache->incr( 'n' ) );
		$this->cache->set( 'n', 2 );
		$this->assertSame( 5, $this->cache->incr( 'n', 3 ) );
		$this->assertSame( 0, $this->cache->decr( 'n', 9 ) );
		$this->cache->set( 'n', 'text' );
		$this->assertSame( 1, $this->cache->incr( 'n' ) );
	}

	public function test_invalid_keys_are_refused() {
		foreach ( array( '', ' ', null, false, array() ) as $key ) {
			$this->assertFalse( @$this->cache->set( $key, 1 ) );
			$this->assertFalse( @$this->cache->get( $key ) );
		}
		$this->assertTrue( $this->cache->set( 0, 'zero' ) );
		$this->assertSame( 'zero', $this->cache->get( '0' ) );
	}

	public function test_without_a_store_a_write_opens_the_fence_and_the_end_closes_it() {
		$cache = $this->cache;
		$cache->watch( 'SELECT 1' );
		$cache->watch( 'SHOW TABLES' );
		$this->assertSame( array(), $this->database->sent );
		$cache->watch( "UPDATE wp_posts SET post_title = 'x'" );
		$cache->watch( 'DELETE FROM wp_posts' );
		$this->assertCount( 1, $this->database->sent );
		$this->assertStringContainsString( "'galley_fence_open_", $this->database->sent[0] );
		$cache->finish();
		$this->assertStringContainsString( "('galley_fence', '", $this->database->sent[1] );
		$this->assertStringContainsString( 'DELETE FROM', $this->database->sent[2] );
		$cache->finish();
		$this->assertCount( 3, $this->database->sent );
	}

	public function test_without_a_store_a_value_that_no_statement_writes_changes_the_fence() {
		$this->cache->set( 'k', 'v', 'plugin' );
		$this->cache->set( '5', 'v', 'posts' );
		$this->cache->finish();
		$this->assertCount( 1, $this->database->sent );
		$this->assertStringContainsString( "('galley_fence', '", $this->database->sent[0] );
	}
}
