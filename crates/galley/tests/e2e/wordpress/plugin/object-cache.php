<?php
/**
 * A persistent object cache for tests: one file for each key in `wp-content/kept`, and arrays in front of them.
 */

class WP_Object_Cache {
	private array $own = array();
	private array $local = array();
	public array $global_groups = array();

	private function file( $key, string $group ): string {
		return WP_CONTENT_DIR . '/kept/' . md5( "$group:$key" );
	}

	public function get( $key, $group = 'default', $force = false, &$found = null ) {
		$group = (string) $group ?: 'default';
		if ( ! isset( $this->own[ $group ][ $key ] ) && ! isset( $this->local[ $group ] ) ) {
			$text = @file_get_contents( $this->file( $key, $group ) );
			if ( is_string( $text ) ) {
				$this->own[ $group ][ $key ] = unserialize( $text );
			}
		}
		$found = isset( $this->own[ $group ][ $key ] );
		$value = $found ? $this->own[ $group ][ $key ] : false;
		return is_object( $value ) ? clone $value : $value;
	}

	public function set( $key, $data, $group = 'default', $expire = 0 ): bool {
		$group                       = (string) $group ?: 'default';
		$this->own[ $group ][ $key ] = is_object( $data ) ? clone $data : $data;
		if ( ! isset( $this->local[ $group ] ) ) {
			@mkdir( WP_CONTENT_DIR . '/kept', 0777, true );
			file_put_contents( $this->file( $key, $group ), serialize( $data ), LOCK_EX );
		}
		return true;
	}

	public function add( $key, $data, $group = 'default', $expire = 0 ): bool {
		$this->get( $key, $group, false, $found );
		return ! $found && $this->set( $key, $data, $group, $expire );
	}

	public function delete( $key, $group = 'default' ): bool {
		$group = (string) $group ?: 'default';
		unset( $this->own[ $group ][ $key ] );
		return @unlink( $this->file( $key, $group ) );
	}

	public function flush(): bool {
		$this->own = array();
		array_map( 'unlink', glob( WP_CONTENT_DIR . '/kept/*' ) ?: array() );
		return true;
	}

	public function make_local( array $groups ): void {
		$this->local += array_fill_keys( $groups, true );
	}
}

function wp_cache_init(): void {
	$GLOBALS['wp_object_cache'] = new WP_Object_Cache();
}
function wp_cache_get( $key, $group = '', $force = false, &$found = null ) {
	global $wp_object_cache;
	return $wp_object_cache->get( $key, $group, $force, $found );
}
function wp_cache_set( $key, $data, $group = '', $expire = 0 ) {
	return $GLOBALS['wp_object_cache']->set( $key, $data, $group, $expire );
}
function wp_cache_add( $key, $data, $group = '', $expire = 0 ) {
	return ! wp_suspend_cache_addition() && $GLOBALS['wp_object_cache']->add( $key, $data, $group, $expire );
}
function wp_cache_replace( $key, $data, $group = '', $expire = 0 ) {
	wp_cache_get( $key, $group, false, $found );
	return $found && wp_cache_set( $key, $data, $group, $expire );
}
function wp_cache_incr( $key, $offset = 1, $group = '' ) {
	$value = (int) wp_cache_get( $key, $group ) + $offset;
	wp_cache_set( $key, $value, $group );
	return $value;
}
function wp_cache_decr( $key, $offset = 1, $group = '' ) {
	return wp_cache_incr( $key, -$offset, $group );
}
function wp_cache_delete( $key, $group = '' ) {
	return $GLOBALS['wp_object_cache']->delete( $key, $group );
}
function wp_cache_flush() {
	return $GLOBALS['wp_object_cache']->flush();
}
function wp_cache_close() {
	return true;
}
function wp_cache_add_global_groups( $groups ): void {}
function wp_cache_add_non_persistent_groups( $groups ): void {
	$GLOBALS['wp_object_cache']->make_local( (array) $groups );
}
function wp_cache_switch_to_blog( $blog ): void {}
