<?php
/**
 * Detection of Redis or Valkey, and the settings for wp-config.php.
 */

use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/admin-bootstrap.php';

final class ObjectCacheTest extends TestCase {

	/**
	 * @group programs
	 */
	public function test_the_first_responding_engine_is_found() {
		$dir    = sys_get_temp_dir() . '/galley-engine-' . getmypid();
		$socket = "$dir/redis.sock";
		mkdir( $dir );
		$redis = proc_open( array( 'redis-server', '--port', '0', '--save', '', '--unixsocket', $socket ), array( 1 => array( 'file', '/dev/null', 'w' ) ), $pipes );
		$until = microtime( true ) + 10;
		while ( ! Galley\engine_answers( $socket ) && microtime( true ) < $until ) {
			usleep( 50000 );
		}
		$addresses = array( "$dir/none.sock", '127.0.0.1:1', $socket );
		$this->assertSame( $socket, Galley\object_engine( $addresses ) );
		proc_terminate( $redis );
		proc_close( $redis );
		$this->assertSame( '', Galley\object_engine( $addresses ) );
		array_map( 'unlink', glob( "$dir/*" ) );
		rmdir( $dir );
	}

	public function test_a_server_without_a_redis_response_is_not_an_engine() {
		$server = stream_socket_server( 'tcp://127.0.0.1:0' );
		$this->assertFalse( Galley\engine_answers( stream_socket_get_name( $server, false ) ), 'a server that sends no response' );
	}

	public function test_engine_settings_depend_on_the_address() {
		$this->assertSame( "define( 'WP_REDIS_SCHEME', 'unix' ); define( 'WP_REDIS_PATH', '/run/redis/redis.sock' );", Galley\engine_settings( '/run/redis/redis.sock' ) );
		$this->assertSame( "define( 'WP_REDIS_HOST', '127.0.0.1' ); define( 'WP_REDIS_PORT', 6379 );", Galley\engine_settings( '127.0.0.1:6379' ) );
	}
}
