<?php
/**
 * The connection to the object cache of Galley: messages as bytes, within a limit of time. crates/object-cache/src/wire.rs has the format.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

use function chr, count, is_string, ord, strlen, substr;

/**
 * Sends messages and reads the answers. After a failure it does nothing any more.
 */
final class Object_Store {

	const SET         = 1;
	const ADD         = 2;
	const DELETE      = 4;
	const INCREMENT   = 5;
	const FLUSH_GROUP = 6;
	const FLUSH       = 7;

	const STARTED = 0;
	const BEHIND  = 1;

	const REFUSED  = 0;
	const DONE     = 1;
	const CONFLICT = 2;

	const ABSENT = 0xFFFFFFFF;
	const LATER  = 0xFFFFFFFE;

	/** So many messages are in effect before the store answers a process that begins after them. */
	const MAX_UNANSWERED = 100;

	/** The longest answer in bytes; the store sends at most half of it. */
	const MAX_ANSWER = 67108864;

	/** Added to a status in a cluster. */
	const AMONG_NODES = 0x80;

	/** A wait that says that the store is away, in seconds. */
	const LONG_WAIT = 0.03;

	/** @var resource|null The socket; null if it is not open. */
	private $stream = null;

	/** @var int The process that opened it. A child process must not use it. */
	private $process = 0;

	/** @var int Changes in a row that were sent without waiting for an answer. */
	private $unanswered = 0;

	/** @var float Seconds that the request may still wait. */
	private $budget = 0.05;

	/** @var float The longest wait. */
	private $longest = 0.0;

	/** @var int The second for which the budget is, on the command line. */
	private $second = 0;

	/** @var float Waits of up to a millisecond are not slow, and do not count. In a cluster, all nodes have to acknowledge a change. */
	private $free_wait = 0.001;

	/** @var bool Whether other nodes have stores of their own, which must know of a change before the function that makes it returns. */
	public $has_nodes = false;

	/** @var int The counter of the store in its last answer. */
	public $counter = 0;

	/** @var string Bits of the keys that had a value at the beginning. */
	public $filter = '';

	/** @var int Answers that the request has waited for. */
	public $round_trips = 0;

	/** @var string Why the store cannot be used; empty: it can, or there is none. */
	public $failure = '';

	/**
	 * Returns path and token, or null if the site has no connection. Options cannot be read yet.
	 *
	 * @return array{path: string, token: string}|null
	 */
	public static function target(): ?array {
		$file = WP_CONTENT_DIR . '/galley-connection.php';
		if ( defined( 'GALLEY_ADMIN' ) ) {
			$found = array(
				'address' => GALLEY_ADMIN,
				'token'   => defined( 'GALLEY_TOKEN' ) ? GALLEY_TOKEN : '',
			);
		} else {
			$found = is_readable( $file ) ? include $file : null;
		}
		$token = $found['token'] ?? null;
		if ( ! is_string( $found['address'] ?? null ) || ! is_string( $token ) || '' === $token || strlen( $token ) > 255 || 0 !== strpos( $found['address'], 'unix:/' ) ) {
			return null;
		}
		return array(
			'path'  => dirname( substr( $found['address'], 5 ) ) . '/objects.sock',
			'token' => $token,
		);
	}

	public function is_open(): bool {
		// PHP-FPM's processes have no children. The number of the process is a system call.
		return null !== $this->stream && ( 'fpm-fcgi' === PHP_SAPI || getmypid() === $this->process );
	}

	public function connect( string $path ): bool {
		$began = microtime( true );
		// phpcs:ignore WordPress.PHP.NoSilencedErrors.Discouraged -- the error is kept.
		$stream = @stream_socket_client( "unix://$path", $number, $message, max( 0.001, $this->budget ) );
		$this->wait_ended( $began );
		if ( false === $stream ) {
			$this->failure = "connect to $path: $message";
			return false;
		}
		stream_set_blocking( $stream, false );
		stream_set_read_buffer( $stream, 0 );
		$this->stream  = $stream;
		$this->process = (int) getmypid();
		return true;
	}

	/**
	 * Begins. Returns the status, or null after a failure.
	 *
	 * @param array $who   token, stamp, fence, namespace, url and pattern.
	 * @param bool  $adopt Whether the store is to be emptied, and takes over fence and stamp.
	 * @param array $items Receives key => bytes, null for a missing value, or false for one that has to be asked for.
	 */
	public function start( array $who, bool $adopt, array &$items ): ?int {
		$body = pack( 'CC', 5, $adopt ? 1 : 0 );
		foreach ( array( 'token', 'stamp', 'fence' ) as $part ) {
			$body .= chr( strlen( $who[ $part ] ) ) . $who[ $part ];
		}
		$answer = $this->ask( 1, $body . $who['namespace'] . $who['url'] . $who['pattern'] );
		if ( null === $answer || '' === $answer ) {
			return null;
		}
		$status          = ord( $answer[0] ) & ~self::AMONG_NODES;
		$this->has_nodes = ord( $answer[0] ) !== $status;
		$this->free_wait = $this->has_nodes ? 0.01 : 0.001;
		if ( self::STARTED !== $status ) {
			return $status;
		}
		$head  = strlen( $answer ) < 13 ? null : unpack( 'Pcounter/Vfilter', $answer, 1 );
		$items = null === $head ? null : $this->items( $answer, 13 + $head['filter'] );
		if ( null === $items ) {
			return $this->fail( 'damaged answer' );
		}
		$this->counter = $head['counter'];
		$this->filter  = substr( $answer, 13, $head['filter'] );
		return self::STARTED;
	}

	/**
	 * Asks for values. Returns key => bytes, null or false as `start()`, also of keys that are read next; null after a failure.
	 *
	 * @param string[] $keys Keys.
	 */
	public function get( array $keys ): ?array {
		$answer = $this->ask( 3, $this->list_of( $keys ) );
		$at     = 8 + 4 * count( $keys );
		if ( null === $answer || strlen( $answer ) < $at ) {
			return $this->fail( 'damaged answer' );
		}
		$this->counter = unpack( 'P', $answer )[1];
		$lengths       = unpack( 'V*', substr( $answer, 8, 4 * count( $keys ) ) );
		$items         = array();
		foreach ( $keys as $i => $key ) {
			$items[ $key ] = $this->value( $answer, $lengths[ $i + 1 ], $at );
		}
		$next = $this->items( $answer, $at );
		return null === $next ? $this->fail( 'damaged answer' ) : $items + $next;
	}

	/**
	 * Returns the keys and values at a place of an answer.
	 */
	private function items( string $answer, int $at ): ?array {
		$count = strlen( $answer ) < $at + 4 ? -1 : unpack( 'V', $answer, $at )[1];
		$keys  = $at + 4 + 8 * $count;
		if ( $count <= 0 || strlen( $answer ) < $keys ) {
			return 0 === $count ? array() : null;
		}
		$lengths = unpack( 'V' . 2 * $count, $answer, $at + 4 );
		$at      = $keys + array_sum( array_slice( $lengths, 0, $count ) );
		$items   = array();
		for ( $i = 1; $i <= $count; $i++ ) {
			$items[ substr( $answer, $keys, $lengths[ $i ] ) ] = $this->value( $answer, $lengths[ $i + $count ], $at );

			$keys += $lengths[ $i ];
		}
		return $items;
	}

	/**
	 * Makes changes. Returns an outcome and a number for each, or null after a failure.
	 *
	 * @param string[] $changes Changes of `change()`.
	 * @return array[]|null
	 */
	public function make( array $changes ): ?array {
		$answer = $this->ask( 4, pack( 'V', count( $changes ) ) . implode( '', $changes ) );
		if ( null === $answer || strlen( $answer ) !== 8 + 9 * count( $changes ) ) {
			return $this->fail( 'damaged answer' );
		}
		$this->counter = unpack( 'P', $answer )[1];
		$outcomes      = array();
		foreach ( str_split( substr( $answer, 8 ), 9 ) as $one ) {
			$outcomes[] = array( ord( $one[0] ), unpack( 'P', $one, 1 )[1] );
		}
		return $outcomes;
	}

	/**
	 * Makes changes without waiting for them.
	 *
	 * @param string[] $changes Changes of `change()`.
	 */
	public function tell( array $changes ): bool {
		return $this->send( 5, pack( 'V', count( $changes ) ) . implode( '', $changes ) );
	}

	/**
	 * Makes changes that others read from now on. Their outcome does not matter to the caller.
	 *
	 * @param string[] $changes Changes of `change()`.
	 */
	public function put( array $changes ): bool {
		$body = pack( 'V', count( $changes ) ) . implode( '', $changes );
		// The store may refuse large messages for lack of memory.
		$waits = $this->has_nodes || strlen( $body ) > 60000 || ++$this->unanswered > self::MAX_UNANSWERED;
		return $waits ? null !== $this->make( $changes ) : $this->send( 8, $body );
	}

	/**
	 * Announces that this process will write to the database.
	 */
	public function announce_writes(): bool {
		return $this->send( 6, '' );
	}

	/**
	 * Ends: everything that was written is announced.
	 *
	 * @param int[]       $counts Values that the request did not ask for, because they do not exist; its queries; those that it did not make.
	 * @param bool[]|null $report The keys that the request has read, if the store did not foresee them, and whether the first answer contained each.
	 */
	public function end( array $counts, ?array $report ): void {
		$body = pack( 'V3C', $counts[0], $counts[1], $counts[2], null === $report ? 0 : 1 );
		if ( null !== $report ) {
			$lengths = array();
			foreach ( $report as $key => $was_foreseen ) {
				$lengths[] = strlen( (string) $key ) | ( $was_foreseen ? 0 : 1 << 31 );
			}
			$body .= pack( 'V*', count( $report ), ...$lengths ) . implode( '', array_keys( $report ) );
		}
		$this->send( 7, $body );
	}

	/**
	 * Returns a change as bytes.
	 */
	public static function change( int $kind, string $key, string $value = '', int $lease = 0, int $seconds = 0 ): string {
		return pack( 'CPVVV', $kind, $lease, $seconds, strlen( $key ), strlen( $value ) ) . $key . $value;
	}

	/**
	 * Closes the connection.
	 */
	public function close(): void {
		if ( $this->is_open() ) {
			fclose( $this->stream ); // phpcs:ignore WordPress.WP.AlternativeFunctions -- a socket.
		}
		$this->stream = null;
	}

	private function list_of( array $keys ): string {
		return pack( 'V*', count( $keys ), ...array_map( 'strlen', $keys ) ) . implode( '', $keys );
	}

	/**
	 * Returns the next value of an answer.
	 */
	private function value( string $answer, int $length, int &$at ) {
		if ( $length >= self::LATER ) {
			return self::ABSENT === $length ? null : false;
		}
		$at += $length;
		return substr( $answer, $at - $length, $length );
	}

	private function ask( int $operation, string $body ): ?string {
		$this->unanswered = 0;
		if ( ! $this->send( $operation, $body ) ) {
			return null;
		}
		++$this->round_trips;
		$head   = $this->receive( 4 );
		$length = null === $head ? 0 : unpack( 'V', $head )[1];
		if ( $length > self::MAX_ANSWER ) {
			$this->fail( 'damaged answer' );
			return null;
		}
		return null === $head ? null : $this->receive( $length );
	}

	private function send( int $operation, string $body ): bool {
		if ( ! $this->is_open() ) {
			return false;
		}
		// Programs of the command line may run for hours.
		if ( 'cli' === PHP_SAPI && time() !== $this->second ) {
			$this->second = time();
			$this->budget = 0.05;
		}
		$message = pack( 'VC', strlen( $body ) + 1, $operation ) . $body;
		while ( true ) {
			// phpcs:ignore WordPress.PHP.NoSilencedErrors.Discouraged, WordPress.WP.AlternativeFunctions -- a socket, which may be closed.
			$written = @fwrite( $this->stream, $message );
			if ( strlen( $message ) === $written ) {
				return true;
			}
			if ( false === $written && feof( $this->stream ) ) {
				$this->fail( 'connection closed' );
				return false;
			}
			$message = substr( $message, (int) $written );
			if ( ! $this->wait( false ) ) {
				return false;
			}
		}
	}

	private function receive( int $length ): ?string {
		$text = '';
		while ( strlen( $text ) < $length ) {
			// phpcs:ignore WordPress.PHP.NoSilencedErrors.Discouraged, WordPress.WP.AlternativeFunctions -- a socket, which may be closed.
			$piece = @fread( $this->stream, $length - strlen( $text ) );
			if ( false === $piece || '' === $piece ) {
				if ( feof( $this->stream ) ) {
					return $this->fail( 'connection closed' );
				}
				if ( ! $this->wait( true ) ) {
					return null;
				}
				continue;
			}
			$text .= $piece;
		}
		return $text;
	}

	private function wait( bool $reads ): bool {
		$began = microtime( true );
		$read  = $reads ? array( $this->stream ) : null;
		$write = $reads ? null : array( $this->stream );
		$other = null;
		$ready = 0;
		if ( $this->budget > 0 ) {
			// phpcs:ignore WordPress.PHP.NoSilencedErrors.Discouraged -- a signal may interrupt the call.
			$ready = @stream_select( $read, $write, $other, 0, (int) ( 1000000 * ( $this->budget + $this->free_wait ) ) );
		}
		$this->wait_ended( $began );
		if ( $this->budget <= 0 ) {
			$this->fail( 'no answer in time' );
			return false;
		}
		return 0 !== $ready || $this->wait( $reads );
	}

	private function wait_ended( float $began ): void {
		$waited        = microtime( true ) - $began;
		$this->longest = max( $this->longest, $waited );
		$this->budget -= max( 0.0, $waited - $this->free_wait );
	}

	/**
	 * Whether the budget was used up by many short waits.
	 */
	public function was_only_busy(): bool {
		return $this->budget <= 0 && $this->longest < self::LONG_WAIT;
	}

	/**
	 * Gives up. Always returns null.
	 */
	private function fail( string $why ) {
		if ( '' === $this->failure ) {
			$this->failure = $why;
		}
		$this->close();
		return null;
	}
}
