<?php
/**
 * Private parts: markers, positions, and the order of their fields.
 *
 * @package Galley
 */

declare(strict_types=1);

use PHPUnit\Framework\TestCase;

final class PrivateTest extends TestCase {
	public function test_a_private_part_has_the_tags_of_earlier_private_parts(): void {
		$before                         = array( $GLOBALS['galley_tags'], $GLOBALS['galley_private'], $GLOBALS['galley_printed'] );
		$_SERVER['HTTP_GALLEY_REQUEST'] = 'member';
		foreach ( array( 'cart/one', 'cart/two' ) as $name ) {
			Galley\begin_private( $name, 'session' );
			Galley\tag( $name );
			Galley\end_private( $name );
		}
		$tags = array_map( 'array_keys', array_column( $GLOBALS['galley_private'], 'tags' ) );
		unset( $_SERVER['HTTP_GALLEY_REQUEST'] );
		list( $GLOBALS['galley_tags'], $GLOBALS['galley_private'], $GLOBALS['galley_printed'] ) = $before;
		$this->assertSame( array( array( 'cart/one' ), array( 'cart/two', 'cart/one' ) ), $tags );
	}


	protected function setUp(): void {
		$_SERVER['HTTP_GALLEY_REQUEST']    = 'shared';
		$_SERVER['HTTP_GALLEY_MEMBERS']    = 'fragments';
		$GLOBALS['galley_private']         = array();
		$GLOBALS['galley_private_fields']  = array();
		$GLOBALS['galley_private_nonces']  = array();
		$GLOBALS['galley_fragments']       = array();
		$GLOBALS['galley_fragment_fields'] = array();
		$GLOBALS['galley_open_fragment']   = null;
		$GLOBALS['galley_tags']            = array();
	}

	protected function tearDown(): void {
		unset( $_SERVER['HTTP_GALLEY_REQUEST'], $_SERVER['HTTP_GALLEY_MEMBERS'] );
	}

	/** Returns a part between its markers. */
	private static function part( string $name, string $html, string $scope = 'page' ): string {
		return Galley\begin_private( $name, $scope ) . $html . Galley\end_private( $name );
	}

	/** @return string[] */
	private static function fields(): array {
		return Galley\fields_in_order( array(), $GLOBALS['galley_private_fields'] );
	}

	public function test_positions_refer_to_the_page_without_markers(): void {
		$html = '<p>ä</p>' . self::part( 'bar', '' ) . self::part( 'form', '<form>' ) . 'end';
		$this->assertSame( '<p>ä</p><form>end', Galley\finish_private( $html ) );
		$this->assertSame( array( 'bar 9 0 - private-page', 'form 9 6 - private-page' ), self::fields() );
	}

	public function test_markers_in_attributes_are_found(): void {
		$class = htmlspecialchars( 'home' . self::part( 'class', ' logged-in', 'session' ) );
		$this->assertSame( '<body class="home logged-in">', Galley\finish_private( "<body class=\"$class\">" ) );
		$this->assertSame( array( 'class 17 10 - private-session' ), self::fields() );
	}

	public function test_private_parts_do_not_nest_and_invalidate_the_enclosing_fragment(): void {
		$html = Galley\begin_private( 'outer', 'page' ) . self::part( 'inner', 'b' ) . 'c' . Galley\end_private( 'outer' );
		$this->assertSame( 'bc', Galley\finish_private( $html ) );
		$this->assertSame( array( 'outer 0 2 - private-page' ), self::fields() );
		$this->setUp();
		Galley\begin_fragment( 'widget/a', array( 'widget' => 'a' ) );
		$begin = Galley\fragment_mark( 'begin', 0 );
		$html  = $begin . 'x' . self::part( 'bar', 'y' );
		Galley\end_fragment();
		Galley\begin_fragment( 'widget/b', array( 'widget' => 'b' ) );
		$this->assertSame( 1, $GLOBALS['galley_open_fragment']['number'], 'the number was reused' );
		Galley\cancel_fragment();
		$this->assertSame( 'xyz', Galley\finish_private( $html . Galley\fragment_mark( 'end', 0 ) . 'z' ) );
		$this->assertSame( array( 'bar 1 1 - private-page' ), self::fields() );
		$this->assertSame( array(), $GLOBALS['galley_fragment_fields'] );
	}

	public function test_tags_inside_a_private_part_belong_to_the_page(): void {
		$begin = Galley\begin_private( 'bar', 'page' );
		Galley\tag( 'p1' );
		$html = $begin . Galley\end_private( 'bar' );
		Galley\finish_private( $html );
		$this->assertSame( array( 'p1' => true ), $GLOBALS['galley_tags'] );
		$this->assertSame( array( 'bar 0 0 - private-page' ), self::fields() );
	}

	public function test_a_part_without_both_markers_has_no_position(): void {
		$begin = Galley\begin_private( 'bar', 'page' );
		$end   = Galley\end_private( 'bar' );
		foreach ( array( $begin . 'a', 'a' . $end, $end . 'a' . $begin, $begin . 'a' . $end . $begin . $end ) as $html ) {
			$this->assertSame( 'a', Galley\finish_private( $html ) );
			$this->assertSame( array(), self::fields(), $html );
		}
		$this->assertSame( '', Galley\end_private( 'never begun' ) );
	}

	public function test_too_many_private_parts_disable_all_of_them(): void {
		$html = '';
		for ( $number = 0; $number <= Galley\MAX_PRIVATE; $number++ ) {
			$html .= self::part( "part-$number", 'x' );
		}
		Galley\finish_private( $html );
		$this->assertSame( array(), self::fields() );
	}

	public function test_nothing_is_marked_without_the_members_field(): void {
		unset( $_SERVER['HTTP_GALLEY_MEMBERS'] );
		$this->assertSame( 'x', self::part( 'bar', 'x' ) );
		$this->assertSame( 'x', Galley\finish_private( 'x' ) );
	}

	public function test_nonces_outside_private_parts_are_found(): void {
		$nonces = array(
			'n0123456789' => 'nonce/a',
			'nabcdef0123' => 'nonce/b',
			'nffffffffff' => 'nonce/c',
		);
		$page   = 'x 0123456789 y abcdef0123 z 0123456789';
		$found  = Galley\nonce_places( $page, $nonces, array( array( 14, 3 ) ) );
		$this->assertSame( array( array( 'nonce/a', 2, 10 ), array( 'nonce/a', 28, 10 ) ), $found );
	}

	public function test_fields_are_ordered_by_position(): void {
		$shared  = array(
			0  => 'widget/a 0 5 - d t',
			20 => 'widget/b 20 5 - d t',
		);
		$private = array( array( 20, 20, 'bar' ), array( 20, 20, 'scripts' ), array( 7, 9, 'form' ), array( 5, 5, 'class' ) );
		$this->assertSame( array( 'widget/a 0 5 - d t', 'class', 'form', 'bar', 'scripts', 'widget/b 20 5 - d t' ), Galley\fields_in_order( $shared, $private ) );
	}

	public function test_carts_are_recognized_by_their_cookies(): void {
		$this->assertTrue( Galley\has_cart( array( '_ga', 'woocommerce_items_in_cart' ) ) );
		$this->assertTrue( Galley\has_cart( array( 'wp_woocommerce_session_0a' ) ) );
		$this->assertFalse( Galley\has_cart( array( 'woocommerce_recently_viewed', 'wordpress_logged_in_0a' ) ) );
	}

	public function test_user_fields_that_affect_private_parts_are_recognized(): void {
		foreach ( array( 'session_tokens', 'wp_capabilities', 'wp_2_user_level', 'locale' ) as $key ) {
			$this->assertSame( 1, preg_match( Galley\MEMBER_FIELDS, $key ), $key );
		}
		$this->assertSame( 0, preg_match( Galley\MEMBER_FIELDS, 'wc_last_active' ) );
	}

	public function test_a_block_ends_whatever_a_plugin_does_to_its_attributes(): void {
		foreach ( array( 'woocommerce/mini-cart', 'core/block' ) as $name ) {
			$this->setUp();
			$before = array(
				'blockName' => $name,
				'attrs'     => array( 'name' => 'a b' ),
			);
			$after  = array( 'attrs' => array( 'by' => 'a plugin' ) ) + $before;
			$begin  = static function () use ( $before ): void {
				Galley\note_nested_block( null, $before );
				Galley\begin_block( null, $before );
				Galley\begin_private_block( null, $before );
			};
			$end    = static function ( string $html ) use ( $after ): string {
				return Galley\end_private_block( Galley\end_block( $html, $after ), $after );
			};
			$begin();
			$begin();
			$this->assertSame( 'inner', $end( 'inner' ), "$name ended with a block in it" );
			$this->assertSame( 'other', Galley\end_private_block( Galley\end_block( 'other', array( 'blockName' => 'core/group' ) ), array( 'blockName' => 'core/group' ) ) );
			$this->assertStringContainsString( '-end', $end( 'outer' ) );
			$this->assertNull( $GLOBALS['galley_open_fragment'] );
		}
	}

	/** @return array<string, array{string, int[]|null}> */
	public static function statements(): array {
		return array(
			'reads'                  => array( 'SELECT * FROM wp_users WHERE user_pass = 1', array() ),
			'reads in parentheses'   => array( '(SELECT ID FROM wp_users) UNION (SELECT ID FROM wp_old)', array() ),
			'a new user'             => array( "INSERT INTO `wp_users` (`user_login`, `user_pass`) VALUES ('a', 'b')", array() ),
			'a new session'          => array( "INSERT INTO `wp_usermeta` (`user_id`, `meta_key`) VALUES (5, 'session_tokens')", array() ),
			'a replaced row'         => array( "INSERT INTO wp_users (ID) VALUES (5)\nON DUPLICATE KEY UPDATE user_pass = 'x'", null ),
			'a password'             => array( "UPDATE `wp_users` SET `user_pass` = 'ID = 7', `user_activation_key` = '' WHERE `ID` = 5", array( 5 ) ),
			'a quoted ID'            => array( "update wp_users set user_pass = 'it\\'s' where ID='5'", array( 5 ) ),
			'a name'                 => array( "UPDATE wp_users SET user_pass = MD5('x') WHERE user_login = 'ID = 7'", null ),
			'several IDs'            => array( 'UPDATE wp_users SET user_pass = 1 WHERE ID = 5 OR ID > 7', null ),
			'a list of IDs'          => array( 'DELETE FROM wp_users WHERE ID IN (5, 7)', null ),
			'no condition'           => array( 'TRUNCATE TABLE wp_users', null ),
			'an assigned ID'         => array( "UPDATE wp_usermeta SET user_id = 7 WHERE meta_key = 'session_tokens'", null ),
			'two tables'             => array( 'DELETE m FROM wp_usermeta m JOIN wp_users u ON u.ID = m.user_id WHERE u.ID = 5', null ),
			'another table'          => array( "UPDATE wp_usermeta m, wp_posts p SET m.meta_value = '' WHERE m.meta_key = 'session_tokens' AND p.ID = 5", null ),
			'sessions of a user'     => array( "DELETE FROM `wp_usermeta`\nWHERE `user_id` = 5\nAND `meta_key` = 'session_tokens'", array( 5 ) ),
			'all sessions'           => array( "DELETE FROM wp_usermeta WHERE meta_key = 'session_tokens'", null ),
			'all fields of a user'   => array( 'DELETE FROM wp_usermeta WHERE user_id = 5', array( 5 ) ),
			'roles'                  => array( "UPDATE wp_usermeta SET meta_value = 'a:0:{}' WHERE user_id = 5 AND meta_key = 'wp_capabilities'", array( 5 ) ),
			'another field'          => array( "UPDATE `wp_usermeta` SET `meta_value` = '1' WHERE `user_id` = 5 AND `meta_key` = 'wc_last_active'", array() ),
			'rows that are reported' => array( 'DELETE FROM wp_usermeta WHERE umeta_id IN( 5,6 )', array() ),
			'a similar table'        => array( 'DELETE FROM wp_users_online WHERE ID = 5', array() ),
			'a table of a blog'      => array( 'DELETE FROM wp_2_users WHERE ID = 5', array() ),
		);
	}

	/**
	 * @dataProvider statements
	 * @param int[]|null $expected
	 */
	public function test_statements_that_end_sessions_name_their_users( string $sql, ?array $expected ): void {
		$this->assertSame( $expected, Galley\users_changed( $sql, 'wp_users', 'wp_usermeta' ) );
	}

	public function test_functions_that_have_printed_are_not_called_again(): void {
		$function                      = array( 'function' => 'my_admin_bar_style' );
		$GLOBALS['wp_filter']['three'] = (object) array(
			'callbacks' => array(
				1  => array( $function ),
				2  => array( $function ),
				3  => array( $function ),
				10 => array( array( 'function' => 'other' ) ),
			),
		);
		Galley\withhold_printers( 'three', null, 3 );
		$this->assertSame( array( array( 'three', 'my_admin_bar_style' ) ), $GLOBALS['galley_toolbar_printers'] );
		Galley\withhold_printers( 'three', 'other' );
		$this->assertCount( 5, $GLOBALS['galley_toolbar_printers'] );
		$GLOBALS['galley_toolbar_printers'] = array();
		unset( $GLOBALS['wp_filter']['three'] );
	}

	public function test_a_statement_that_ends_sessions_is_not_disturbed(): void {
		$kept            = $GLOBALS['wpdb'] ?? null;
		$GLOBALS['wpdb'] = new class() {
			public $users      = 'wp_users';
			public $usermeta   = 'wp_usermeta';
			public $insert_id  = 5;
			public $statements = 0;

			public function suppress_errors(): bool {
				return false;
			}

			public function prepare( string $sql ): string {
				return $sql;
			}

			public function remove_placeholder_escape( string $sql ): string {
				return $sql;
			}

			public function query(): int {
				++$this->statements;
				$this->insert_id = 9;
				return 1;
			}
		};
		// The statement, the users who wait, the statements that run inside of it.
		$rows = array(
			array( "UPDATE wp_users SET display_name = 'J\u{f6}rg' WHERE ID = 7", array( 7 ), 0 ),
			array( "DELETE FROM wp_users WHERE user_login = '\u{142}'", array( null ), 0 ),
			array( "UPDATE wp_posts SET post_title = 'J\u{f6}rg' WHERE ID = 7", array(), 0 ),
			array( "UPDATE wp_users SET user_pass = 'x' WHERE ID = 7", array(), 1 ),
		);
		foreach ( $rows as list( $sql, $waiting, $statements ) ) {
			unset( $GLOBALS['galley_purge_id'] );
			$GLOBALS['galley_ended_sessions'] = array();
			$GLOBALS['wpdb']->statements      = 0;
			$this->assertSame( $sql, Galley\on_statement( $sql ) );
			$this->assertSame( $waiting, $GLOBALS['galley_ended_sessions'], $sql );
			$this->assertSame( array( $statements, 5 ), array( $GLOBALS['wpdb']->statements, $GLOBALS['wpdb']->insert_id ), $sql );
		}
		unset( $GLOBALS['galley_purge_id'] );
		$GLOBALS['galley_purges'] = array(
			'hard' => array(),
			'soft' => array(),
		);
		$GLOBALS['wpdb']          = $kept;
	}
}
