<?php
/**
 * The object cache while the plugin describes a page. See kept-html.php.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/**
 * Passes all calls on to the object cache of the site. Removes markers from what it writes and reads, and lets kept HTML count as missing.
 */
final class Described_Cache {

	/**
	 * The object cache of the site.
	 *
	 * @var object
	 */
	private $cache;

	public function __construct( $cache ) {
		$this->cache = $cache;
	}

	public function get( $key, $group = 'default', $force = false, &$found = null ) {
		$value = $this->cache->get( $key, $group, $force, $found );
		if ( false === $value || ! is_foreign_group( (string) $group ) ) {
			return $value;
		}
		if ( counts_as_missing( "$group:$key", $value ) ) {
			$found = false;
			return false;
		}
		return without_kept_marks( $value );
	}

	public function get_multiple( $keys, $group = 'default', $force = false ) {
		$values = $this->cache->get_multiple( $keys, $group, $force );
		foreach ( is_foreign_group( (string) $group ) && is_array( $values ) ? $values : array() as $key => $value ) {
			$values[ $key ] = false !== $value && counts_as_missing( "$group:$key", $value ) ? false : without_kept_marks( $value );
		}
		return $values;
	}

	/**
	 * Passes any other call on.
	 *
	 * @param string $name      Method.
	 * @param array  $arguments Its arguments. Methods that write get key, value and group, or values by key and group.
	 */
	public function __call( $name, $arguments ) {
		if ( in_array( $name, array( 'set', 'add', 'replace' ), true ) && isset( $arguments[1] ) ) {
			note_kept_in( (string) ( $arguments[2] ?? '' ), array( $arguments[0] => $arguments[1] ) );
			$arguments[1] = without_kept_marks( $arguments[1] );
		} elseif ( in_array( $name, array( 'set_multiple', 'add_multiple' ), true ) && is_array( $arguments[0] ?? null ) ) {
			note_kept_in( (string) ( $arguments[1] ?? '' ), $arguments[0] );
			$arguments[0] = without_kept_marks( $arguments[0] );
		}
		return $this->cache->$name( ...$arguments );
	}

	/**
	 * Returns a reference, because some code changes public arrays of the object cache in place.
	 *
	 * @param string $name Property.
	 */
	public function &__get( $name ) {
		if ( isset( get_object_vars( $this->cache )[ $name ] ) ) {
			return $this->cache->$name;
		}
		// The object cache returns copies of its private properties.
		$value = $this->cache->$name;
		return $value;
	}

	public function __set( $name, $value ) {
		$this->cache->$name = $value;
	}

	public function __isset( $name ) {
		return isset( $this->cache->$name );
	}

	public function __unset( $name ) {
		unset( $this->cache->$name );
	}
}

/**
 * Notes that the request has filled keys of a group of the object cache.
 */
function note_kept_in( string $group, array $values ): void {
	foreach ( is_foreign_group( $group ) ? $values : array() as $key => $value ) {
		note_kept( "$group:$key", $value );
	}
}

/**
 * Returns whether a group of the object cache may contain HTML that themes and plugins keep. Pure.
 */
function is_foreign_group( string $group ): bool {
	return ! in_array( $group, CORE_GROUPS, true );
}
