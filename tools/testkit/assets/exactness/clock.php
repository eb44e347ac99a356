<?php
/**
 * A must-use plugin of the exactness run: measures what our plugin takes of a request that asks for it, inside PHP.
 *
 * Counted are the loading of its files, each of its functions that WordPress calls, and what it does when the head leaves and when the
 * request ends, with the database queries of all of them; not PHP's start, WordPress, the network or the server.
 */

declare(strict_types=1);

namespace Galley\Exactness;

if ( isset( $_SERVER['HTTP_X_EXACT_CLOCK'] ) && 'with' === getenv( 'EXACTNESS_PLUGIN' ) ) {
	Clock::start();
}

/** What was taken up to now; functions of the plugin that call others count once. */
final class Clock {
	private static int $depth      = 0;
	private static int $nanos      = 0;
	private static int $queries    = 0;
	private static int $began      = 0;
	private static int $queried    = 0;
	private static int $micros     = 0;
	private static int $busy       = 0;
	private static array $wrapped  = array();

	public static function start(): void {
		// WordPress reads which plugins there are just before it loads them.
		add_filter(
			'option_active_plugins',
			function ( $plugins ) {
				if ( ! did_action( 'plugins_loaded' ) && 0 === self::$depth ) {
					self::enter();
				}
				return $plugins;
			},
			PHP_INT_MAX
		);
		add_action(
			'plugin_loaded',
			function (): void {
				self::leave();
				self::wrap();
				header_register_callback( self::timed( 'Galley\\on_head' ) );
			},
			PHP_INT_MAX
		);
		// What the plugin adds later, under way.
		foreach ( array( 'wp_loaded', 'rest_api_init' ) as $action ) {
			add_action( $action, array( self::class, 'wrap' ), PHP_INT_MAX );
		}
		register_shutdown_function(
			function (): void {
				file_put_contents( EXACTNESS_NOTES . '/clock', sprintf( "%.4f %.4f %d\n", self::$nanos / 1e6, self::$micros / 1e3, self::$queries ), FILE_APPEND );
			}
		);
	}

	/** Puts a clock around every function of the plugin that is hooked anywhere. */
	public static function wrap(): void {
		foreach ( $GLOBALS['wp_filter'] as $hook ) {
			foreach ( $hook->callbacks as $priority => $callbacks ) {
				foreach ( $callbacks as $id => $callback ) {
					if ( is_string( $callback['function'] ) && 0 === strpos( $callback['function'], 'Galley\\' ) && false === strpos( $callback['function'], 'Exactness' ) ) {
						$hook->callbacks[ $priority ][ $id ]['function'] = self::timed( $callback['function'] );
					}
				}
			}
		}
	}

	private static function timed( string $name ): \Closure {
		return self::$wrapped[ $name ] ??= function ( ...$arguments ) use ( $name ) {
			self::enter();
			try {
				return $name( ...$arguments );
			} finally {
				self::leave();
			}
		};
	}

	/** Microseconds of processor time of this process. */
	private static function busy(): int {
		$usage = getrusage();
		return 1000000 * ( $usage['ru_utime.tv_sec'] + $usage['ru_stime.tv_sec'] ) + $usage['ru_utime.tv_usec'] + $usage['ru_stime.tv_usec'];
	}

	private static function enter(): void {
		if ( 0 === self::$depth++ ) {
			self::$began   = hrtime( true );
			self::$queried = $GLOBALS['wpdb']->num_queries;
			self::$busy    = self::busy();
		}
	}

	private static function leave(): void {
		if ( self::$depth > 0 && 0 === --self::$depth ) {
			self::$micros  += self::busy() - self::$busy;
			self::$nanos   += hrtime( true ) - self::$began;
			self::$queries += $GLOBALS['wpdb']->num_queries - self::$queried;
		}
	}
}
