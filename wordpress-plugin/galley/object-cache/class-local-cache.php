<?php
/**
 * What one request knows of the object cache: values, and keys that are known to have none. As WordPress's own object cache, without a store.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

use function array_key_exists, is_int, is_object, is_string;

/**
 * Values of this request by group and key.
 */
abstract class Local_Cache {

	/** @var array[] Values. Code of other plugins reads this property. */
	public $cache = array();

	/** @var int Values that were found. Query Monitor shows it. */
	public $cache_hits = 0;

	/** @var int Values that were not found. */
	public $cache_misses = 0;

	/** @var true[] Groups that all sites of a network share, as keys. */
	public $global_groups = array();

	/** @var true[] Groups that end with the request, as keys. */
	protected $non_persistent_groups = array();

	/** @var string The beginning of the keys of this site in a network. */
	protected $blog_prefix;

	/** @var bool Whether this is a network. */
	protected $is_network;

	public function __construct() {
		$this->is_network = is_multisite();
		$this->switch_to_blog( get_current_blog_id() );
	}

	public function switch_to_blog( $blog_id ): void {
		$this->blog_prefix = $this->is_network ? (int) $blog_id . ':' : '';
	}

	public function add_global_groups( $groups ): void {
		$this->global_groups += array_fill_keys( (array) $groups, true );
	}

	public function add_non_persistent_groups( $groups ): void {
		$this->non_persistent_groups += array_fill_keys( (array) $groups, true );
	}

	/**
	 * Returns the name of a key within its group; null if it is not valid.
	 *
	 * @param int|string $key   Key.
	 * @param string     $group Group.
	 */
	protected function name( $key, string $group ): ?string {
		if ( is_int( $key ) || ( is_string( $key ) && '' !== trim( $key ) ) ) {
			return isset( $this->global_groups[ $group ] ) ? (string) $key : $this->blog_prefix . $key;
		}
		if ( function_exists( '_doing_it_wrong' ) ) {
			_doing_it_wrong( 'WP_Object_Cache', 'Cache key must be an integer or a non-empty string.', '6.1.0' );
		}
		return null;
	}

	protected static function group( $group ): string {
		return empty( $group ) ? 'default' : (string) $group;
	}

	protected function has( string $group, string $name ): bool {
		return isset( $this->cache[ $group ][ $name ] ) || ( isset( $this->cache[ $group ] ) && array_key_exists( $name, $this->cache[ $group ] ) );
	}

	/**
	 * Whether this request has a value, without asking the store.
	 *
	 * @param int|string $key   Key.
	 * @param mixed      $group Group.
	 */
	public function has_read( $key, $group ): bool {
		$name = $this->name( $key, self::group( $group ) );
		return null !== $name && $this->has( self::group( $group ), $name );
	}

	protected function keep( string $group, string $name, $value ): void {
		$this->cache[ $group ][ $name ] = is_object( $value ) ? clone $value : $value;
	}

	protected function kept( string $group, string $name ) {
		$value = $this->cache[ $group ][ $name ];
		return is_object( $value ) ? clone $value : $value;
	}

	abstract public function get( $key, $group = '', $force = false, &$found = null );

	abstract public function set( $key, $data, $group = '', $expire = 0 );

	abstract public function add( $key, $data, $group = '', $expire = 0 );

	public function set_multiple( array $data, $group = '', $expire = 0 ): array {
		$values = array();
		foreach ( $data as $key => $value ) {
			$values[ $key ] = $this->set( $key, $value, $group, $expire );
		}
		return $values;
	}

	public function add_multiple( array $data, $group = '', $expire = 0 ): array {
		$values = array();
		foreach ( $data as $key => $value ) {
			$values[ $key ] = $this->add( $key, $value, $group, $expire );
		}
		return $values;
	}

	public function replace( $key, $data, $group = '', $expire = 0 ): bool {
		$this->get( $key, $group, false, $found );
		return $found && $this->set( $key, $data, $group, $expire );
	}

	public function decr( $key, $offset = 1, $group = '' ) {
		return $this->incr( $key, -(int) $offset, $group );
	}

	abstract public function incr( $key, $offset = 1, $group = '' );

	/**
	 * Prints figures, as WordPress's own object cache does.
	 */
	public function stats(): void {
		echo '<p><strong>Cache Hits:</strong> ' . (int) $this->cache_hits . '<br /><strong>Cache Misses:</strong> ' . (int) $this->cache_misses . '<br /></p>';
	}
}
