<?php
/**
 * The part of the object cache that talks to the store in Galley: changes, announcements, transactions, failures.
 * docs/internals/object-cache.md explains the rules.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

use function chr, count, strlen, substr;

/**
 * Changes the store. Without one, WordPress keeps transients in the database.
 */
abstract class Shared_Cache extends Reading_Cache {

	/** Bytes of changes that wait for the end of the request. */
	const MAX_WAITING = 524288;

	/** @var bool Whether a value was changed without the store that the database does not have. */
	private $is_missed = false;

	/** @var int Their size. */
	private $waiting_bytes = 0;

	/** @var bool Whether the transaction ends with the statement that is being sent. */
	private $is_ending = false;

	/** @var int The number of queries until a value was stored last: those until then belong to others. */
	private $counted = 0;

	/** @var int[] The queries that values of this request took, by key in the store. */
	private $measured = array();

	/** @var int The number of queries until the last end of the request. */
	private $reported = 0;

	/** @var bool Whether values that this process reads from the database may be stored. */
	private $may_fill = true;

	/**
	 * Returns how many answers the request has waited for.
	 */
	public function round_trips(): int {
		return $this->store->round_trips;
	}

	/**
	 * Sees each statement before it is sent: the first write is announced, and transactions are followed.
	 *
	 * @param mixed $sql Statement.
	 */
	public function watch( $sql ) {
		$this->settle();
		$word = strtoupper( substr( ltrim( (string) $sql, " \t\r\n(" ), 0, 4 ) );
		if ( in_array( $word, array( 'SELE', 'SHOW', 'DESC', 'EXPL', 'USE ' ), true ) ) {
			return $sql;
		}
		if ( preg_match( '/^\s*(?:START\s+TRANSACTION|BEGIN|SET\s+(?:SESSION\s+|@@)?autocommit\s*=\s*(?:0|OFF))/i', (string) $sql ) ) {
			$this->tell_waiting();
			if ( ! $this->store->is_open() ) {
				// Before the transaction, because ROLLBACK would remove the row.
				$this->fence->open();
			}
			$this->in_transaction = $this->in_transaction ?? array();
			return $sql;
		}
		if ( preg_match( '/^\s*(?:COMMIT|ROLLBACK(?!\s+TO|\s+WORK\s+TO)|SET\s+(?:SESSION\s+|@@)?autocommit|CREATE|ALTER|DROP|TRUNCATE)/i', (string) $sql ) ) {
			$is_commit       = null !== $this->in_transaction && preg_match( '/^\s*COMMIT\s*;?\s*$/i', (string) $sql );
			$this->is_ending = null !== $this->in_transaction;
			$this->may_fill  = $this->may_fill && 'ROLL' !== $word;
			if ( 'ROLL' === $word ) {
				$this->fence->forget_opening();
			}
		}
		if ( 'SET ' === $word ) {
			return $sql;
		}
		++$this->writes;
		if ( ! $this->store->is_open() ) {
			$this->fence->open();
		} elseif ( ! $this->is_announced ) {
			$this->is_announced = true;
			if ( ! $this->store->announce_writes() ) {
				$this->lose( true );
			}
		}
		if ( isset( $is_commit ) && $is_commit && $this->fence->commit() ) {
			// The rows are visible: nobody may find older values when the function that has sent this statement returns. If wpdb has several
			// connections, that was not the one of the transaction; the next statement deletes the keys again.
			$this->announce_again();
		}
		return $sql;
	}

	/**
	 * Sends what waits for the end of the request.
	 */
	public function finish(): void {
		$this->settle();
		if ( $this->is_announced && self::has_died() ) {
			// Perhaps between a statement and its announcement: the store is emptied when the connection ends without a message.
			$this->store->close();
		}
		$this->tell_waiting();
		if ( $this->store->is_open() ) {
			list( $all, $used, $others, $misses ) = $this->foreseen;

			$queries = self::queries();
			$this->store->end( array( $misses, max( 0, $queries - $this->reported ), $this->saved_queries ), $others > 0 || 4 * $used < 3 * $all ? array_slice( $this->used, 0, self::MAX_KEYS, true ) : null );
			$this->reported      = $queries;
			$this->saved_queries = 0;
			$this->foreseen      = array( 0, 0, 0, 0 );
			$this->is_announced  = false;
		}
		// A failure until now has opened the fence.
		if ( ! $this->store->is_open() ) {
			$this->fence->close( $this->is_missed );
			$this->is_missed = false;
		}
	}

	private static function has_died(): bool {
		$error = error_get_last();
		return null !== $error && 0 !== ( $error['type'] & ( E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR ) );
	}

	/**
	 * Ends after all other functions that PHP calls at the end.
	 */
	public function end_last(): void {
		register_shutdown_function( array( $this, 'finish' ) );
	}

	/**
	 * As `is_shared()`, before a change. Without the store, notes a change that no statement will show.
	 */
	protected function shares( string $group ): bool {
		if ( $this->is_shared( $group ) ) {
			return true;
		}
		if ( ! isset( $this->non_persistent_groups[ $group ] ) && ! $this->are_rows( $group ) ) {
			$this->is_missed = true;
		}
		return false;
	}

	/**
	 * Whether a value of this request is not in the store yet.
	 */
	protected function waits( string $group, string $name ): bool {
		return isset( $this->waiting[ $this->id( $group, $name ) ] );
	}

	/**
	 * Stores the names that are new in the list, and deletes those that it lost: these options exist now.
	 */
	protected function store_missing( string $group, string $list, array $names ): void {
		if ( ! $this->is_shared( $group ) ) {
			return;
		}
		$before = $this->cache[ $group ][ $list ] ?? array();
		$exist  = array();
		foreach ( array_keys( array_diff_key( $before, $names ) ) as $option ) {
			$exist[] = $this->id( $group, substr( $list, 0, -10 ) . $option );
		}
		if ( array() !== $exist ) {
			$this->remove( $exist );
		}
		foreach ( null === $this->in_transaction ? array_keys( array_diff_key( $names, $before ) ) : array() as $option ) {
			$id = $this->id( $group, substr( $list, 0, -10 ) . $option );
			if ( $this->may_fill ) {
				$this->waiting[ $id ] = Object_Store::change( Object_Store::ADD, $id, self::IS_MISSING . chr( $this->queries_for( $id ) ), $this->rows_from );
			}
		}
	}

	/**
	 * Whether a value that is set now was read from the database after a miss: nothing was written since.
	 */
	protected function is_fill( string $id ): bool {
		return isset( $this->missed[ $id ] ) && $this->writes === ( $this->filled[ $id ] ?? -1 );
	}

	/**
	 * Sends the change of a value that is not a row.
	 *
	 * @param bool $waits Whether to wait for the outcome. It is null without one.
	 */
	protected function change( int $kind, string $id, $data, int $expire, bool $waits ): ?int {
		$bytes = $expire < 0 ? null : encode_object( $data, $this->queries_for( $id ) );
		if ( null === $bytes ) {
			$this->remove( array( $id ) );
			return null;
		}
		// What was known before is over, also that there was no value.
		unset( $this->missed[ $id ], $this->filled[ $id ], $this->ahead[ $id ] );
		$change = Object_Store::change( $kind, $id, $bytes, $this->leases[ $id ] ?? $this->store->counter, $expire );
		if ( $waits ) {
			return $this->make( array( $change ) )[0][0] ?? null;
		}
		$this->settle();
		if ( ! $this->store->put( array( $change ) ) ) {
			$this->lose( true );
		}
		return null;
	}

	/**
	 * Keeps a value from the database for the end of the request, unless the store has one. Nobody waits for it: until then others read the
	 * database. The request may have read the row at its beginning.
	 */
	protected function fill( string $id, $data, int $expire ): void {
		$is_wanted           = $this->may_fill && $expire >= 0 && ( isset( $this->missed[ $id ] ) || $this->is_absent( $id ) || '' === $this->store->filter );
		$bytes               = $is_wanted ? encode_object( $data, $this->queries_for( $id ) ) : null;
		$this->filled[ $id ] = $this->writes;
		if ( null === $bytes ) {
			return;
		}
		$this->waiting[ $id ] = Object_Store::change( Object_Store::ADD, $id, $bytes, $this->rows_from, $expire );
		$this->waiting_bytes += strlen( $bytes );
		if ( $this->waiting_bytes > self::MAX_WAITING || count( $this->waiting ) >= self::MAX_KEYS ) {
			$this->tell_waiting();
		}
	}

	/**
	 * The number of queries since the request has looked for a value in vain, without those that were counted for other values.
	 */
	private function queries_for( string $id ): int {
		$now = self::queries();
		if ( ! isset( $this->missed[ $id ] ) ) {
			return 0;
		}
		$queries       = max( 0, min( 255, $now - max( $this->missed[ $id ], $this->counted ) ) );
		$this->counted = $now;
		// It may be stored once more, with a change.
		$this->measured[ $id ] = max( $queries, $this->measured[ $id ] ?? 0 );
		return $this->measured[ $id ];
	}

	protected function tell_waiting(): void {
		if ( array() !== $this->waiting && $this->store->is_open() ) {
			$this->store->tell( $this->waiting );
		}
		$this->waiting       = array();
		$this->waiting_bytes = 0;
	}

	/**
	 * Deletes keys, and waits until nobody reads them any more.
	 *
	 * @param string[] $ids Keys in the store.
	 */
	protected function remove( array $ids ): ?array {
		$changes = array();
		foreach ( $ids as $id ) {
			$this->forget_id( $id );
			$this->note_in_transaction( $id, Object_Store::DELETE );
			$changes[] = Object_Store::change( Object_Store::DELETE, $id );
		}
		return $this->make( $changes );
	}

	protected function make( array $changes ): ?array {
		$this->settle();
		$outcomes = $this->store->make( $changes );
		if ( null === $outcomes ) {
			$this->lose( true );
		}
		return $outcomes;
	}

	/**
	 * After the end of a transaction: others may have stored the old rows since the deletion.
	 */
	private function settle(): void {
		if ( ! $this->is_ending ) {
			return;
		}
		$this->is_ending = false;
		$this->announce_again();
		$this->in_transaction = null;
	}

	private function announce_again(): void {
		$again = (array) $this->in_transaction;
		if ( isset( $again[''] ) || count( $again ) > self::MAX_KEYS ) {
			$again = array( '' => Object_Store::FLUSH );
		}
		$changes = array();
		foreach ( $again as $id => $kind ) {
			$this->forget_id( (string) $id );
			$changes[] = Object_Store::change( $kind, Object_Store::FLUSH_GROUP === $kind ? substr( $id, 1 ) : (string) $id );
		}
		$is_ending = $this->is_ending;
		// Not `settle()` once more.
		$this->is_ending = false;
		if ( array() !== $changes && $this->store->is_open() ) {
			$this->make( $changes );
		}
		$this->is_ending = $is_ending;
	}

	/**
	 * Notes what was deleted in a transaction, to delete it again when that ends.
	 *
	 * @param string $id   Key in the store, or that of an empty name for the whole group, or an empty text for everything.
	 * @param int    $kind The change.
	 */
	protected function note_in_transaction( string $id, int $kind ): void {
		if ( null !== $this->in_transaction ) {
			$this->in_transaction[ $id ] = $kind;
		}
	}

	private function forget_id( string $id ): void {
		unset( $this->waiting[ $id ], $this->leases[ $id ], $this->missed[ $id ], $this->filled[ $id ] );
	}

	/**
	 * Goes on without the store.
	 *
	 * @param bool $writes Whether this process has written, so that nobody may use the store before it is emptied.
	 */
	protected function lose( bool $writes ): void {
		$this->store->close();
		$this->waiting = array();
		$this->ahead   = array();
		// Many short waits are the fate of this request; a long one will be that of the next, too.
		if ( ! $this->store->was_only_busy() ) {
			$this->fence->note_away( $this->store->failure );
		}
		if ( $writes ) {
			$this->fence->open();
		}
		$this->use_database();
	}

	/**
	 * Lets WordPress keep transients in the database. In a network they end with the request, because they are spread over many tables.
	 */
	protected function use_database(): void {
		if ( ! $this->is_network ) {
			wp_using_ext_object_cache( false );
		}
	}
}
