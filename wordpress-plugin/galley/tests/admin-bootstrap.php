<?php
/**
 * Stubs for the WordPress functions that the files of admin/ and nonces.php call while they are loaded.
 *
 * The unit tests cover pure functions only. The end-to-end tests cover the rest with a real WordPress.
 */

defined( 'ABSPATH' ) || define( 'ABSPATH', dirname( __DIR__ ) . '/' );
foreach ( array( 'MINUTE_IN_SECONDS' => 60, 'DAY_IN_SECONDS' => 86400 ) as $name => $value ) {
	defined( $name ) || define( $name, $value );
}

if ( ! function_exists( 'add_action' ) ) {
	function add_action() {}
}
if ( ! function_exists( 'add_filter' ) ) {
	function add_filter() {}
}
if ( ! function_exists( 'is_admin' ) ) {
	function is_admin() {
		return false;
	}
}
if ( ! function_exists( '__' ) ) {
	function __( $text ) {
		return $text;
	}
}
if ( ! function_exists( '_n' ) ) {
	function _n( $one, $many, $number ) {
		return 1 === $number ? $one : $many;
	}
}
if ( ! function_exists( 'esc_html' ) ) {
	function esc_html( $text ) {
		return htmlspecialchars( $text, ENT_QUOTES );
	}
}
if ( ! function_exists( 'number_format_i18n' ) ) {
	function number_format_i18n( $number, $decimals = 0 ) {
		return number_format( (float) $number, $decimals );
	}
}
if ( ! function_exists( 'human_time_diff' ) ) {
	function human_time_diff( $from, $to ) {
		return intdiv( $to - $from, 60 ) . ' mins';
	}
}
if ( ! class_exists( 'WP_CLI' ) ) {
	/** The functions of WP-CLI that the commands use. Records their output. */
	class WP_CLI {
		public static $commands = array();
		public static $output   = array();
		public static function add_command( $name, $callable ) {
			self::$commands[ $name ] = $callable;
		}
		public static function line( $text ) {
			self::$output[] = $text;
		}
		public static function success( $text ) {
			self::$output[] = "Success: $text";
		}
		public static function error( $text ) {
			self::$output[] = "Error: $text";
		}
	}
}

if ( ! function_exists( 'get_option' ) ) {
	function get_option() {
		return false;
	}
}
if ( ! function_exists( 'get_userdata' ) ) {
	function get_userdata( $id ) {
		return 7 === $id ? (object) array( 'display_name' => 'Maria' ) : false;
	}
}

require_once dirname( __DIR__ ) . '/includes/request.php';
require_once dirname( __DIR__ ) . '/includes/nonces.php';
foreach ( array( 'questions', 'lifetime', 'choices', 'purge-log', 'preload', 'speculation' ) as $name ) {
	require_once dirname( __DIR__ ) . "/includes/$name.php";
}
foreach ( array( 'reasons', 'page', 'health', 'object-cache', 'culprits', 'cookies', 'state', 'costs', 'purge-words', 'forms', 'columns', 'editor', 'chart', 'cli' ) as $name ) {
	require_once dirname( __DIR__ ) . "/admin/$name.php";
}
