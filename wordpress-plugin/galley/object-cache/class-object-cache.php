<?php
/**
 * The object cache of a request: its own values, and the store in Galley.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

// PHP looks for every other function in the namespace first, at each call.
use function is_int, is_object, is_string, strlen, substr;

/**
 * WordPress's object cache with a store.
 */
final class Object_Cache extends Shared_Cache {

	// phpcs:ignore Squiz.Commenting.FunctionComment -- as WordPress.
	public function get( $key, $group = '', $force = false, &$found = null ) {
		$group = empty( $group ) ? 'default' : (string) $group;
		if ( ! $force && ( is_string( $key ) || is_int( $key ) ) ) {
			// The usual case without a call: WordPress comes here thousands of times for a page.
			$name = '' === $this->blog_prefix || isset( $this->global_groups[ $group ] ) ? $key : $this->blog_prefix . $key;
			if ( isset( $this->cache[ $group ][ $name ] ) ) {
				$found = true;
				++$this->cache_hits;
				$value = $this->cache[ $group ][ $name ];
				return is_object( $value ) ? clone $value : $value;
			}
			if ( $this->take_ahead( $group, (string) $name ) ) {
				$found = true;
				++$this->cache_hits;
				return $this->kept( $group, $name );
			}
		}
		$found = false;
		$name  = $this->name( $key, $group );
		if ( null === $name || ( self::lists_missing( $group, $name ) && ! $this->has( $group, $name ) ) ) {
			return false;
		}
		if ( $force && $this->is_shared( $group ) && ! $this->waits( $group, $name ) && ! self::lists_missing( $group, $name ) ) {
			$this->forget( $group, $name );
		}
		if ( ! $this->has( $group, $name ) && ! $this->load( $group, array( $name ), $force ) ) {
			++$this->cache_misses;
			return false;
		}
		$found = true;
		++$this->cache_hits;
		return $this->kept( $group, $name );
	}

	// phpcs:ignore Squiz.Commenting.FunctionComment -- as WordPress.
	public function get_multiple( $keys, $group = '', $force = false ): array {
		$group    = empty( $group ) ? 'default' : (string) $group;
		$is_plain = ! $force && ( '' === $this->blog_prefix || isset( $this->global_groups[ $group ] ) );
		$values   = array();
		$unknown  = array();
		foreach ( $keys as $key ) {
			// The usual case, as in `get()`.
			if ( $is_plain && ( is_string( $key ) || is_int( $key ) ) && isset( $this->cache[ $group ][ $key ] ) ) {
				++$this->cache_hits;
				$value          = $this->cache[ $group ][ $key ];
				$values[ $key ] = is_object( $value ) ? clone $value : $value;
				continue;
			}
			$values[ $key ] = false;
			$name           = $this->name( $key, $group );
			if ( null !== $name ) {
				$unknown[ $key ] = $name;
			}
		}
		$asked = array();
		foreach ( $unknown as $name ) {
			if ( $force && $this->is_shared( $group ) && ! $this->waits( $group, $name ) ) {
				$this->forget( $group, $name );
			}
			if ( $force || ! $this->has( $group, $name ) ) {
				$asked[] = $name;
			}
		}
		if ( array() !== $asked ) {
			$this->load( $group, $asked, $force );
		}
		foreach ( array_keys( $unknown ) as $key ) {
			$values[ $key ] = $this->get( $key, $group );
		}
		return $values;
	}

	// phpcs:ignore Squiz.Commenting.FunctionComment -- as WordPress.
	public function set( $key, $data, $group = '', $expire = 0 ): bool {
		$group = self::group( $group );
		$name  = $this->name( $key, $group );
		if ( null === $name ) {
			return false;
		}
		if ( self::lists_missing( $group, $name ) ) {
			$this->store_missing( $group, $name, (array) $data );
		} elseif ( $this->shares( $group ) ) {
			$id = $this->id( $group, $name );
			if ( ! $this->are_rows( $group ) ) {
				$this->change( Object_Store::SET, $id, $data, $expire, false );
			} elseif ( null !== $this->in_transaction || ! $this->is_fill( $id ) ) {
				$this->remove( array( $id ) );
			} elseif ( 0 === $this->writes ) {
				$this->fill( $id, $data, $expire );
			} else {
				// It contains a change that nothing else announces. Another process may have stored what it read before, which this removes.
				unset( $this->waiting[ $id ] );
				$this->leases[ $id ] = $this->rows_from;
				$this->change( Object_Store::SET, $id, $data, $expire, false );
			}
			unset( $this->ahead[ $id ] );
		}
		$this->keep( $group, $name, $data );
		return true;
	}

	// phpcs:ignore Squiz.Commenting.FunctionComment -- as WordPress.
	public function add( $key, $data, $group = '', $expire = 0 ): bool {
		$group = self::group( $group );
		$name  = $this->name( $key, $group );
		if ( null === $name || wp_suspend_cache_addition() || $this->has( $group, $name ) ) {
			return false;
		}
		if ( $this->shares( $group ) ) {
			$id = $this->id( $group, $name );
			if ( isset( $this->ahead[ $id ] ) && $this->load( $group, array( $name ) ) ) {
				return false;
			}
			if ( $this->are_rows( $group ) ) {
				if ( null === $this->in_transaction ) {
					$this->fill( $id, $data, $expire );
				}
			} else {
				// A lock matters to others, and has a number or a text for a value, or ends. What the request has looked for is none.
				$waits = ! isset( $this->missed[ $id ] ) || $expire > 0 || is_scalar( $data );
				if ( Object_Store::REFUSED === $this->change( Object_Store::ADD, $id, $data, $expire, $waits ) ) {
					return false;
				}
			}
		}
		$this->keep( $group, $name, $data );
		return true;
	}

	// phpcs:ignore Squiz.Commenting.FunctionComment -- as WordPress.
	public function delete( $key, $group = '' ): bool {
		$result = $this->delete_multiple( array( $key ), $group );
		return (bool) reset( $result );
	}

	// phpcs:ignore Squiz.Commenting.FunctionComment -- as WordPress.
	public function delete_multiple( array $keys, $group = '' ): array {
		$group   = self::group( $group );
		$results = array();
		$ids     = array();
		foreach ( $keys as $key ) {
			$name = $this->name( $key, $group );
			if ( null !== $name && self::lists_missing( $group, $name ) ) {
				$this->flush_group( $group );
			}
			$results[ $key ] = null !== $name && $this->has( $group, $name );
			if ( null !== $name ) {
				$this->forget( $group, $name );
				$ids[ $key ] = $this->id( $group, $name );
			}
		}
		if ( ! $this->shares( $group ) || array() === $ids ) {
			return $results;
		}
		$outcomes = $this->remove( array_values( $ids ) );
		foreach ( array_keys( $ids ) as $at => $key ) {
			$results[ $key ] = $results[ $key ] || Object_Store::DONE === ( $outcomes[ $at ][0] ?? null );
		}
		return $results;
	}

	// phpcs:ignore Squiz.Commenting.FunctionComment -- as WordPress.
	public function incr( $key, $offset = 1, $group = '' ) {
		$group = self::group( $group );
		$value = $this->get( $key, $group, $this->is_shared( $group ), $found );
		if ( ! $found ) {
			return false;
		}
		$name = (string) $this->name( $key, $group );
		if ( is_int( $value ) && $this->is_shared( $group ) ) {
			$this->tell_waiting();
			$outcome = $this->make( array( Object_Store::change( Object_Store::INCREMENT, $this->id( $group, $name ), pack( 'P', (int) $offset ) ) ) );
			if ( null !== $outcome && $outcome[0][0] > Object_Store::CONFLICT ) {
				$this->keep( $group, $name, $outcome[0][1] );
				return $outcome[0][1];
			}
		}
		$value = max( 0, ( is_numeric( $value ) ? $value : 0 ) + (int) $offset );
		$this->set( $key, $value, $group );
		return $value;
	}

	// phpcs:ignore Squiz.Commenting.FunctionComment -- as WordPress.
	public function flush(): bool {
		$this->flush_runtime();
		$this->waiting = array();
		$this->leases  = array();
		if ( ! $this->shares( 'default' ) ) {
			return true;
		}
		$this->note_in_transaction( '', Object_Store::FLUSH );
		return null !== $this->make( array( Object_Store::change( Object_Store::FLUSH, self::caller() ) ) );
	}

	// phpcs:ignore Squiz.Commenting.FunctionComment -- as WordPress.
	public function flush_runtime(): bool {
		$this->tell_waiting();
		$this->cache  = array();
		$this->ahead  = array();
		$this->missed = array();
		// It does not know what this process has stored since.
		$this->store->filter = '';
		return true;
	}

	// phpcs:ignore Squiz.Commenting.FunctionComment -- as WordPress.
	public function flush_group( $group ): bool {
		$group = self::group( $group );
		$this->tell_waiting();
		unset( $this->cache[ $group ] );
		$start = $this->id( $group, '' );
		foreach ( array( 'ahead', 'missed', 'leases' ) as $list ) {
			foreach ( array_keys( $this->$list ) as $id ) {
				if ( 0 === strncmp( (string) $id, $start, strlen( $start ) ) ) {
					unset( $this->$list[ $id ] );
				}
			}
		}
		if ( ! $this->shares( $group ) ) {
			return true;
		}
		$this->note_in_transaction( $start, Object_Store::FLUSH_GROUP );
		// As in the keys, where a long name is a hash.
		return null !== $this->make( array( Object_Store::change( Object_Store::FLUSH_GROUP, substr( $start, 1 ) ) ) );
	}

	/**
	 * Forgets the terms of all posts after the change of a term: they are in the order of their names, and WordPress deletes only the term.
	 *
	 * @param mixed  $terms       Terms.
	 * @param string $taxonomy    Their taxonomy.
	 * @param bool   $has_changed False if only their counts have changed.
	 */
	public function forget_orders( $terms, $taxonomy, $has_changed = true ): void {
		if ( $has_changed ) {
			$this->flush_group( "{$taxonomy}_relationships" );
		}
	}

	/**
	 * Returns the first place outside of the object cache that led here. `galley doctor` names it if it comes again and again.
	 */
	private static function caller(): string {
		foreach ( debug_backtrace( DEBUG_BACKTRACE_IGNORE_ARGS, 9 ) as $frame ) { // phpcs:ignore WordPress.PHP.DevelopmentFunctions -- rare, and for the operator.
			$file = (string) ( $frame['file'] ?? '' );
			if ( '' !== $file && 0 !== strpos( $file, __DIR__ ) ) {
				return substr( str_replace( ABSPATH, '', $file ), -150 ) . ':' . $frame['line'];
			}
		}
		return '';
	}
}
