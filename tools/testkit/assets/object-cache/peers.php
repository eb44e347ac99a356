<?php
/**
 * The object caches that `make object-cache` compares with Galley's: redis (a command for each question, as Redis Object Cache sends), mget
 * (learns the keys of a URL and asks for them at once), apcu. They have no protection from old values.
 */

declare(strict_types=1);

/** Commands and answers of Redis over a unix socket. */
final class Peer_Redis {

	public int $trips = 0;

	private $stream;

	public function __construct( string $path ) {
		$this->stream = stream_socket_client( "unix://$path" );
	}

	public function ask( string ...$words ) {
		++$this->trips;
		$command = '*' . count( $words ) . "\r\n";
		foreach ( $words as $word ) {
			$command .= '$' . strlen( $word ) . "\r\n$word\r\n";
		}
		fwrite( $this->stream, $command );
		return $this->answer();
	}

	private function answer() {
		$line   = (string) fgets( $this->stream );
		$number = (int) substr( $line, 1 );
		if ( '$' === $line[0] ) {
			return $number < 0 ? null : substr( (string) stream_get_contents( $this->stream, $number + 2 ), 0, -2 );
		}
		if ( '*' === $line[0] ) {
			$all = array();
			for ( $i = 0; $i < $number; $i++ ) {
				$all[] = $this->answer();
			}
			return $all;
		}
		return ':' === $line[0] ? $number : substr( $line, 1 );
	}
}

/** Values of the request, and a store behind them. */
final class Peer_Object_Cache {

	private array $known     = array();
	private array $global    = array();
	private array $transient = array();
	/** Keys that were read, for `mget`. */
	private array $read      = array();
	private ?Peer_Redis $redis = null;
	private bool $is_apcu;
	private string $class;

	public function __construct( string $kind ) {
		$this->is_apcu = 'apcu' === $kind;
		$this->class   = 'mget' === $kind ? 'class:' . md5( ( $_SERVER['REQUEST_URI'] ?? '' ) . json_encode( array_keys( $_COOKIE ) ) ) : '';
		if ( ! $this->is_apcu ) {
			$this->redis = new Peer_Redis( (string) getenv( 'OBJECT_CACHE_REDIS' ) );
			$this->redis->ask( 'SELECT', 'mget' === $kind ? '1' : '0' );
		}
		if ( '' !== $this->class ) {
			$keys = explode( "\n", (string) $this->redis->ask( 'GET', $this->class ) );
			foreach ( '' === $keys[0] ? array() : $this->redis->ask( 'MGET', ...$keys ) as $at => $bytes ) {
				$this->known[ $keys[ $at ] ] = null === $bytes ? null : array( unserialize( $bytes ) );
			}
		}
	}

	public function round_trips(): int {
		return $this->redis ? $this->redis->trips : 0;
	}

	public function add_groups( array $groups, bool $are_global ): void {
		$this->{ $are_global ? 'global' : 'transient' } += array_fill_keys( $groups, true );
	}

	private function key( $key, string $group ): string {
		return ( '' === $group ? 'default' : $group ) . ":$key";
	}

	public function get( $key, string $group = '', bool $force = false, &$found = null ) {
		$name = $this->key( $key, $group );
		if ( $force || ! array_key_exists( $name, $this->known ) ) {
			$this->load( array( $name ), $group );
		}
		$found = isset( $this->known[ $name ] );
		$value = $found ? $this->known[ $name ][0] : false;
		return is_object( $value ) ? clone $value : $value;
	}

	public function get_multiple( array $keys, string $group = '', bool $force = false ): array {
		$unknown = array();
		foreach ( $keys as $key ) {
			$name = $this->key( $key, $group );
			if ( $force || ! array_key_exists( $name, $this->known ) ) {
				$unknown[] = $name;
			}
		}
		$this->load( $unknown, $group );
		$values = array();
		foreach ( $keys as $key ) {
			$values[ $key ] = $this->get( $key, $group );
		}
		return $values;
	}

	private function load( array $names, string $group ): void {
		if ( isset( $this->transient[ $group ] ) || array() === $names ) {
			return;
		}
		if ( $this->is_apcu ) {
			$found = apcu_fetch( $names );
		} else {
			$bytes = 1 === count( $names ) ? array( $this->redis->ask( 'GET', $names[0] ) ) : $this->redis->ask( 'MGET', ...$names );
			$found = array();
			foreach ( $names as $at => $name ) {
				if ( null !== $bytes[ $at ] ) {
					$found[ $name ] = unserialize( $bytes[ $at ] );
				}
			}
			$this->read += array_fill_keys( $names, true );
		}
		foreach ( $names as $name ) {
			$this->known[ $name ] = array_key_exists( $name, $found ) ? array( $found[ $name ] ) : null;
		}
	}

	public function set( $key, $value, string $group = '', int $seconds = 0 ): bool {
		$name                 = $this->key( $key, $group );
		$this->known[ $name ] = array( is_object( $value ) ? clone $value : $value );
		if ( isset( $this->transient[ $group ] ) ) {
			return true;
		}
		if ( $this->is_apcu ) {
			return apcu_store( $name, $value, $seconds );
		}
		$this->read[ $name ] = true;
		$this->redis->ask( 'SET', $name, serialize( $value ), ...( $seconds > 0 ? array( 'EX', (string) $seconds ) : array() ) );
		return true;
	}

	public function add( $key, $value, string $group = '', int $seconds = 0 ): bool {
		$this->get( $key, $group, false, $found );
		return ! wp_suspend_cache_addition() && ! $found && $this->set( $key, $value, $group, $seconds );
	}

	public function delete( $key, string $group = '' ): bool {
		$name                 = $this->key( $key, $group );
		$this->known[ $name ] = null;
		if ( isset( $this->transient[ $group ] ) ) {
			return true;
		}
		return $this->is_apcu ? apcu_delete( $name ) : (bool) $this->redis->ask( 'DEL', $name );
	}

	public function flush(): bool {
		$this->known = array();
		return $this->is_apcu ? apcu_clear_cache() : (bool) $this->redis->ask( 'FLUSHDB' );
	}

	/** Stores the keys of the URL if they are others than before. */
	public function end(): void {
		if ( '' !== $this->class && array() !== $this->read ) {
			$this->redis->ask( 'SET', $this->class, implode( "\n", array_unique( array_merge( array_keys( $this->known ), array_keys( $this->read ) ) ) ) );
		}
	}
}

function wp_cache_init() { $GLOBALS['wp_object_cache'] = new Peer_Object_Cache( (string) getenv( 'OBJECT_CACHE' ) ); }
function wp_cache_close() { $GLOBALS['wp_object_cache']->end(); return true; }
function wp_cache_get( $key, $group = '', $force = false, &$found = null ) { return $GLOBALS['wp_object_cache']->get( $key, (string) $group, (bool) $force, $found ); }
function wp_cache_get_multiple( $keys, $group = '', $force = false ) { return $GLOBALS['wp_object_cache']->get_multiple( (array) $keys, (string) $group, (bool) $force ); }
function wp_cache_set( $key, $data, $group = '', $expire = 0 ) { return $GLOBALS['wp_object_cache']->set( $key, $data, (string) $group, (int) $expire ); }
function wp_cache_add( $key, $data, $group = '', $expire = 0 ) { return $GLOBALS['wp_object_cache']->add( $key, $data, (string) $group, (int) $expire ); }
function wp_cache_delete( $key, $group = '' ) { return $GLOBALS['wp_object_cache']->delete( $key, (string) $group ); }
function wp_cache_flush() { return $GLOBALS['wp_object_cache']->flush(); }
function wp_cache_add_global_groups( $groups ) { $GLOBALS['wp_object_cache']->add_groups( (array) $groups, true ); }
function wp_cache_add_non_persistent_groups( $groups ) { $GLOBALS['wp_object_cache']->add_groups( (array) $groups, false ); }
function wp_cache_switch_to_blog( $blog_id ) {}
function wp_cache_supports( $feature ) { return 'get_multiple' === $feature; }
function wp_cache_replace( $key, $data, $group = '', $expire = 0 ) { wp_cache_get( $key, $group, false, $found ); return $found && wp_cache_set( $key, $data, $group, $expire ); }
function wp_cache_incr( $key, $offset = 1, $group = '' ) { $value = wp_cache_get( $key, $group, true, $found ); return $found && wp_cache_set( $key, max( 0, (int) $value + $offset ), $group ) ? max( 0, (int) $value + $offset ) : false; }
function wp_cache_decr( $key, $offset = 1, $group = '' ) { return wp_cache_incr( $key, -$offset, $group ); }
