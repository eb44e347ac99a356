<?php
/**
 * A persistent object cache of the exactness runs: one file per key below EXACTNESS_NOTES/object-cache. It keeps what it has read
 * for the request, as the drop-ins of Redis and Memcached do.
 */

declare(strict_types=1);

final class Exact_Object_Cache {

	/** Values of this request by key. False for a missing key. */
	private array $known = array();

	private array $not_persistent = array();

	public function get( $key, string $group, bool $force, &$found ) {
		$name = $this->name( $key, $group );
		if ( $force && ! isset( $this->not_persistent[ $group ] ) ) {
			unset( $this->known[ $name ] );
		}
		if ( ! isset( $this->known[ $name ] ) ) {
			$this->known[ $name ] = isset( $this->not_persistent[ $group ] ) ? array() : $this->read( $name );
		}
		$found = isset( $this->known[ $name ]['value'] );
		if ( ! $found ) {
			return false;
		}
		return unserialize( $this->known[ $name ]['value'] );
	}

	public function set( $key, $value, string $group, int $seconds ): bool {
		$name                 = $this->name( $key, $group );
		$this->known[ $name ] = array( 'value' => serialize( $value ), 'until' => $seconds ? time() + $seconds : PHP_INT_MAX );
		if ( ! isset( $this->not_persistent[ $group ] ) ) {
			$this->write( $name );
		}
		return true;
	}

	public function delete( $key, string $group ): bool {
		$name = $this->name( $key, $group );
		$this->get( $key, $group, false, $found );
		$this->known[ $name ] = array();
		if ( ! isset( $this->not_persistent[ $group ] ) && is_file( $this->path( $name ) ) ) {
			unlink( $this->path( $name ) );
		}
		return $found;
	}

	public function flush(): bool {
		$this->known = array();
		foreach ( glob( EXACTNESS_NOTES . '/object-cache/*' ) as $file ) {
			unlink( $file );
		}
		return true;
	}

	public function flush_runtime(): bool {
		$this->known = array();
		return true;
	}

	public function add_not_persistent( array $groups ): void {
		$this->not_persistent += array_fill_keys( $groups, true );
	}

	private function name( $key, string $group ): string {
		return "$group:$key";
	}

	private function path( string $name ): string {
		return EXACTNESS_NOTES . '/object-cache/' . md5( $name );
	}

	private function read( string $name ): array {
		$text = @file_get_contents( $this->path( $name ) );
		$kept = false === $text ? array() : unserialize( $text );
		return ( $kept['until'] ?? 0 ) > time() ? $kept : array();
	}

	private function write( string $name ): void {
		$path = $this->path( $name );
		$new  = $path . '.' . getmypid();
		file_put_contents( $new, serialize( $this->known[ $name ] ) );
		rename( $new, $path );
	}
}

function wp_cache_init(): void {
	if ( ! is_dir( EXACTNESS_NOTES . '/object-cache' ) ) {
		@mkdir( EXACTNESS_NOTES . '/object-cache', 0777 );
	}
	$GLOBALS['wp_object_cache'] = new Exact_Object_Cache();
}

function wp_cache_get( $key, $group = '', $force = false, &$found = null ) {
	global $wp_object_cache;
	return $wp_object_cache->get( $key, $group ?: 'default', (bool) $force, $found );
}

function wp_cache_get_multiple( $keys, $group = '', $force = false ) {
	$values = array();
	foreach ( $keys as $key ) {
		$values[ $key ] = wp_cache_get( $key, $group, $force );
	}
	return $values;
}

function wp_cache_set( $key, $value, $group = '', $expire = 0 ) {
	global $wp_object_cache;
	return $wp_object_cache->set( $key, $value, $group ?: 'default', (int) $expire );
}

function wp_cache_add( $key, $value, $group = '', $expire = 0 ) {
	if ( wp_suspend_cache_addition() ) {
		return false;
	}
	wp_cache_get( $key, $group, false, $found );
	return ! $found && wp_cache_set( $key, $value, $group, $expire );
}

function wp_cache_replace( $key, $value, $group = '', $expire = 0 ) {
	wp_cache_get( $key, $group, false, $found );
	return $found && wp_cache_set( $key, $value, $group, $expire );
}

function wp_cache_set_multiple( $values, $group = '', $expire = 0 ) {
	$done = array();
	foreach ( $values as $key => $value ) {
		$done[ $key ] = wp_cache_set( $key, $value, $group, $expire );
	}
	return $done;
}

function wp_cache_add_multiple( $values, $group = '', $expire = 0 ) {
	$done = array();
	foreach ( $values as $key => $value ) {
		$done[ $key ] = wp_cache_add( $key, $value, $group, $expire );
	}
	return $done;
}

function wp_cache_delete( $key, $group = '' ) {
	global $wp_object_cache;
	return $wp_object_cache->delete( $key, $group ?: 'default' );
}

function wp_cache_delete_multiple( $keys, $group = '' ) {
	$done = array();
	foreach ( $keys as $key ) {
		$done[ $key ] = wp_cache_delete( $key, $group );
	}
	return $done;
}

function wp_cache_incr( $key, $offset = 1, $group = '' ) {
	$value = wp_cache_get( $key, $group, false, $found );
	if ( ! $found ) {
		return false;
	}
	$value = max( 0, (int) $value + (int) $offset );
	wp_cache_set( $key, $value, $group );
	return $value;
}

function wp_cache_decr( $key, $offset = 1, $group = '' ) {
	return wp_cache_incr( $key, - (int) $offset, $group );
}

function wp_cache_flush() {
	global $wp_object_cache;
	return $wp_object_cache->flush();
}

function wp_cache_flush_runtime() {
	global $wp_object_cache;
	return $wp_object_cache->flush_runtime();
}

function wp_cache_supports( $feature ) {
	return in_array( $feature, array( 'add_multiple', 'set_multiple', 'get_multiple', 'delete_multiple', 'flush_runtime' ), true );
}

function wp_cache_add_non_persistent_groups( $groups ) {
	global $wp_object_cache;
	$wp_object_cache->add_not_persistent( (array) $groups );
}

function wp_cache_add_global_groups( $groups ) {
}

function wp_cache_switch_to_blog( $blog ) {
}

function wp_cache_close() {
	return true;
}
