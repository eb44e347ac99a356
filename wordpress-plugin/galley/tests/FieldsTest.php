<?php
/**
 * Fields that are deleted from all objects at once.
 *
 * @package Galley
 */

use PHPUnit\Framework\TestCase;

if ( ! function_exists( 'current_filter' ) ) {
	/** Returns the value that a test has set. */
	function current_filter(): string {
		return $GLOBALS['filter_of_test'] ?? '';
	}
}

final class FieldsTest extends TestCase {

	protected function setUp(): void {
		$GLOBALS['galley_purge_id'] = 'test';
		$GLOBALS['galley_purges']   = array( 'hard' => array(), 'soft' => array() );
		$GLOBALS['wpdb']            = new class() {
			public $commentmeta = 'wp_commentmeta';
			public $usermeta    = 'wp_usermeta';
			public $base_prefix = 'wp_';
			public $asked       = array();
			public $found       = array();

			public function prepare( string $sql, ...$values ): string {
				return vsprintf( str_replace( '%s', "'%s'", $sql ), $values );
			}

			public function get_col( string $sql ): array {
				$this->asked[] = $sql;
				return $this->found;
			}
		};
	}

	protected function tearDown(): void {
		$GLOBALS['galley_purges'] = array( 'hard' => array(), 'soft' => array() );
		unset( $GLOBALS['wpdb'], $GLOBALS['galley_purge_id'], $GLOBALS['filter_of_test'], $_SERVER['HTTP_GALLEY_REQUEST'] );
	}

	private function purged_by( string $type, array $found, $check = null, bool $is_all = true ): array {
		$GLOBALS['filter_of_test']        = "delete_{$type}_metadata";
		$GLOBALS['wpdb']->found           = $found;
		$GLOBALS['galley_purges']['hard'] = array();
		$this->assertSame( $check, Galley\before_deletion_of_all( $check, 0, 'color', '', $is_all ) );
		return array_map( 'strval', array_keys( $GLOBALS['galley_purges']['hard'] ) );
	}

	public function test_the_objects_that_lose_a_field_are_asked_for(): void {
		$this->assertSame( array( 'km3', 'km', 'o.comment.m_color', 'o.comment.m_', 'km5' ), $this->purged_by( 'comment', array( '3', '5' ) ) );
		$this->assertSame( array( "SELECT DISTINCT comment_id FROM wp_commentmeta WHERE meta_key = 'color' LIMIT 501" ), $GLOBALS['wpdb']->asked );
		$this->assertSame( array( 'uf7', 'uf', 'uf7.color', 'o.user.m_color', 'o.user.m_' ), $this->purged_by( 'user', array( '7' ) ) );
	}

	public function test_lists_of_comments_name_the_fields_that_they_ask_for(): void {
		if ( ! class_exists( 'WP_Comment_Query', false ) ) {
			eval( 'class WP_Comment_Query { public $query_vars; }' ); // phpcs:ignore Squiz.PHP.Eval.Discouraged -- stands for that of WordPress.
		}
		$query = new WP_Comment_Query();
		foreach ( array( array( 'c7' ), array( 'o.comment.m_color', 'kma', 'c7' ) ) as $number => $tags ) {
			$GLOBALS['galley_tags'] = array();
			$query->query_vars      = array( 'post_id' => 7 ) + ( $number ? array( 'meta_key' => 'color' ) : array() );
			Galley\gather_comments( null, $query );
			$this->assertSame( $tags, array_keys( $GLOBALS['galley_tags'] ) );
		}
		$GLOBALS['galley_tags'] = array();
	}

	public function test_other_deletions_are_not(): void {
		$this->assertSame( array(), $this->purged_by( 'comment', array( '3' ), null, false ) );
		$this->assertSame( array(), $this->purged_by( 'comment', array( '3' ), true ), 'other code replaces the deletion' );
		$this->assertSame( array(), $GLOBALS['wpdb']->asked );
	}

	public function test_links_purge_and_visits_of_stored_pages_do_not(): void {
		$_SERVER['HTTP_GALLEY_REQUEST'] = 'shared';
		$this->assertContains( 'km3', $this->purged_by( 'comment', array( '3' ) ) );
		$this->assertSame( array(), $this->purged_by( 'comment', range( 1, Galley\MAX_PURGES + 1 ) ), 'not before the response is known' );
		foreach ( array(
			array( array( 'Galley-Tags: p1 b' ), true ),
			array( array( 'galley-tags: *', 'Galley-Cache-Control: max-age=60' ), true ),
			array( array( 'Galley-Tags: p1 b', 'Galley-Cache-Control: no-store' ), false ),
			array( array( 'Galley-Cache-Control: no-store, why=nocache-headers' ), false ),
			array( array( 'Location: /' ), false ),
		) as list( $fields, $is_stored ) ) {
			$this->assertSame( $is_stored, Galley\is_stored( $fields ), implode( "\n", $fields ) );
		}
		// The header of the command line has no tags.
		Galley\take_purges();
		$this->assertSame( array( 'b' ), array_map( 'strval', array_keys( $this->all_purged( range( 1, Galley\MAX_PURGES + 1 ) ) ) ) );
	}

	/**
	 * Returns what a link has purged at its end that deletes fields of these comments.
	 */
	private function all_purged( array $found ): array {
		$this->purged_by( 'comment', $found );
		return array_flip( Galley\take_purges()['hard'] );
	}

	public function test_too_many_objects_purge_all_pages(): void {
		$this->assertSame( array( 'b' ), $this->purged_by( 'comment', range( 1, Galley\MAX_PURGES + 1 ) ) );
		$this->assertSame( array( 'b' ), $this->purged_by( 'user', range( 1, Galley\MAX_PURGES + 1 ) ) );
	}

	public function test_values_that_count_are_told_from_others(): void {
		$rows = array(
			array( array( '4' ), array( '5' ), true ),
			array( array(), array( 1 ), true ),
			array( null, array( '1764450000' ), true ),
			array( array( array( '2026-11-29' => 4 ) ), array( array( '2026-11-30' => 12 ) ), true ),
			array( array( 'seen at 10:15' ), array( 'seen at 9:02' ), true ),
			array( array( 'red' ), array( 'blue' ), false ),
			array( array( 'red' ), array(), false ),
			array( array( '4' ), array(), false ),
			array( array( '4' ), array( 'blue' ), false ),
			array( null, array( 'blue' ), false ),
			array( null, array(), false ),
		);
		foreach ( $rows as list( $old, $new, $counts ) ) {
			$this->assertSame( $counts, Galley\only_counts( $old, $new ), json_encode( array( $old, $new ) ) );
		}
	}

	public function test_pages_of_visitors_purge_other_fields_until_they_are_busy(): void {
		$GLOBALS['options_of_test'] = array();
		$GLOBALS['fields_of_test']  = array( 5 => array( 'color' => array( 'blue' ), 'views' => array( '7' ) ) );
		$this->assertFalse( Galley\is_visit_field( 'post', 5, 'views', array( '6' ) ), 'not by a page' );
		$_SERVER['HTTP_GALLEY_REQUEST'] = 'shared';
		$this->assertTrue( Galley\is_visit_field( 'post', 5, 'views', array( '6' ) ) );
		$this->assertFalse( Galley\is_visit_field( 'post', 5, 'color', array( 'red' ) ) );
		$this->assertFalse( Galley\is_visit_field( 'post', 5, 'color', array( 'red' ) ) );
		$this->assertSame( 1, $GLOBALS['loaded_of_test']['galley_busy']['mf.post.color'][0], 'a request counts once' );
		$GLOBALS['galley_visit_fields'] = array();
		$GLOBALS['loaded_of_test']      = array( 'galley_busy' => array( 'mf.post.color' => array( null, time() + 3600 ), 'mf.user.town' => array( null, time() + 3600 ) ) );
		$this->assertTrue( Galley\is_visit_field( 'post', 5, 'color', array( 'red' ) ) );
		$GLOBALS['galley_at_most'] = array();
		$GLOBALS['galley_tags']    = array( 'uf5.other' => true, 'tf5.town' => true );
		Galley\limit_to_busy();
		$this->assertSame( array(), $GLOBALS['galley_at_most'] );
		$GLOBALS['galley_tags']['uf5.town'] = true;
		Galley\limit_to_busy();
		$this->assertSame( array( Galley\UNKNOWN_LIFETIME ), $GLOBALS['galley_at_most'] );
		$this->assertTrue( isset( $GLOBALS['galley_tags']['db.user.town'] ) );
		$GLOBALS['loaded_of_test'] = array( 'galley_busy' => array( 'og.shelf' => array( null, time() + 3600 ) ) );
		$GLOBALS['galley_at_most'] = array();
		$GLOBALS['galley_tags']    = array( 'og' => true, 'oh' => true );
		Galley\limit_to_busy();
		$this->assertSame( array( Galley\UNKNOWN_LIFETIME ), $GLOBALS['galley_at_most'], 'too many groups' );
		$GLOBALS['galley_at_most']      = array();
		$GLOBALS['galley_tags']         = array();
		$GLOBALS['galley_visit_fields'] = array();
		unset( $GLOBALS['options_of_test'], $GLOBALS['loaded_of_test'], $GLOBALS['fields_of_test'] );
	}
}
