<?php
/**
 * The fence: rows in the options table that tell every process of every machine whether it may use the object cache.
 *
 * `galley_fence` is a random text that a process changes when it has written to the database without the store's acknowledgement. The store
 * keeps the one that it knows; a process that reads another one has the store emptied first. `galley_fence_open_...` belongs to a process
 * that is writing without the store: nobody reads the store meanwhile. It counts for a minute and is renewed. `galley_fence_away` says when a
 * process last waited in vain, so that others do not wait, too.
 *
 * The statements use the connection of wpdb past its methods, whose results stay as they are.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/**
 * Reads and writes the fence.
 */
final class Fence {

	/** Seconds after which the row of a process that died does not count any more. */
	const OPEN_FOR = 60;

	/** Seconds after which a process renews its row. */
	const RENEW_AFTER = 20;

	/** Seconds for which a store that did not answer is left alone. */
	const AWAY_FOR = 5;

	/** @var string The text of `galley_fence` when it was read last. */
	public $value = '';

	/** @var bool Whether another process was writing without the store then. The store may be told of changes, but not read. */
	public $is_blocked = false;

	/** @var string The name of this process's row, or an empty string. */
	private $open = '';

	/** @var float When it was written. */
	private $opened = 0.0;

	/** @var int Seconds since a process last waited in vain. */
	private $away = PHP_INT_MAX;

	/** @var bool Whether a statement of this class is running. */
	private $is_busy = false;

	/**
	 * Returns the fence, or null if the store must not be used now.
	 */
	public function read(): ?string {
		$this->is_blocked = false;
		$rows             = $this->run( 'SELECT option_name, option_value, UNIX_TIMESTAMP() AS now FROM %t WHERE option_name LIKE \'galley\\_fence%\'' );
		if ( ! is_array( $rows ) ) {
			return null;
		}
		$this->value = '';
		$is_open     = false;
		foreach ( $rows as $row ) {
			$age = (int) $row['now'] - (int) $row['option_value'];
			if ( 'galley_fence' === $row['option_name'] ) {
				$this->value = (string) $row['option_value'];
			} elseif ( 'galley_fence_away' === $row['option_name'] ) {
				$this->away = $age;
			} else {
				$is_open = true;
				if ( $age > self::OPEN_FOR ) {
					$this->open = (string) $row['option_name'];
					$this->close();
				}
			}
		}
		$is_away          = $this->away < self::AWAY_FOR;
		$this->is_blocked = $is_open && ! $is_away;
		return $is_open || $is_away ? null : $this->value;
	}

	/**
	 * Keeps everybody from the store until `close()`: this process writes without it. Must be called before each write.
	 */
	public function open(): void {
		$now = microtime( true );
		if ( $now - $this->opened < self::RENEW_AFTER || $this->is_busy ) {
			return;
		}
		if ( '' === $this->open ) {
			$this->open = 'galley_fence_open_' . $this->random();
		}
		$this->opened = $now;
		$this->put( $this->open, 'UNIX_TIMESTAMP()' );
	}

	/**
	 * The next write opens the fence again: a ROLLBACK may have removed the row.
	 */
	public function forget_opening(): void {
		$this->opened = 0.0;
	}

	/**
	 * Lets everybody use the store again, after it was emptied.
	 *
	 * @param bool $must_empty Whether it has to be emptied although this process has not opened the fence.
	 */
	public function close( bool $must_empty = false ): void {
		if ( '' === $this->open && ! $must_empty ) {
			return;
		}
		// Without this row, the other one keeps everybody from the store until it is old.
		$is_put = $this->put( 'galley_fence', "'" . $this->random() . "'" );
		if ( ! $is_put || '' === $this->open ) {
			return;
		}
		$this->run( "DELETE FROM %t WHERE option_name = '{$this->open}'" );
		$this->open   = '';
		$this->opened = 0.0;
	}

	/**
	 * Notes that the store did not answer. Logs it once in a minute.
	 */
	public function note_away( string $why ): void {
		if ( $this->away > 60 ) {
			error_log( "Galley: the object cache cannot be used ($why); WordPress works without it, with more queries. `galley status` shows its state" ); // phpcs:ignore WordPress.PHP.DevelopmentFunctions.error_log_error_log -- for the operator.
		}
		if ( $this->away >= self::AWAY_FOR ) {
			$this->put( 'galley_fence_away', 'UNIX_TIMESTAMP()' );
			$this->away = 0;
		}
	}

	/**
	 * Deletes the transients in the options table: those that were written while the store was away are older than any in the store. Returns
	 * whether that was possible.
	 */
	public function delete_transients(): bool {
		return true === $this->run( "DELETE FROM %t WHERE option_name LIKE '\\_transient\\_%' OR option_name LIKE '\\_site\\_transient\\_%'" );
	}

	/**
	 * Ends the transaction of this process. Returns false if that is left to WordPress.
	 */
	public function commit(): bool {
		return isset( $GLOBALS['wpdb']->dbh ) && $GLOBALS['wpdb']->dbh instanceof \mysqli && true === $this->run( 'COMMIT' );
	}

	private function put( string $name, string $value ): bool {
		return true === $this->run( "INSERT INTO %t (option_name, option_value, autoload) VALUES ('$name', $value, 'no') ON DUPLICATE KEY UPDATE option_value = VALUES(option_value)" );
	}

	private function random(): string {
		return bin2hex( random_bytes( 8 ) );
	}

	/**
	 * Sends a statement.
	 *
	 * @param string $sql Statement. `%t` is the options table of the main site.
	 * @return array|bool Rows, or whether it succeeded.
	 */
	private function run( string $sql ) {
		global $wpdb;
		if ( $this->is_busy || ! is_object( $wpdb ) ) {
			return false;
		}
		$this->is_busy = true;
		$sql           = str_replace( '%t', "`{$wpdb->base_prefix}options`", $sql );
		try {
			$connection = $wpdb->dbh ?? null;
			if ( $connection instanceof \mysqli ) {
				return $this->send( $connection, $sql );
			}
			$before = $wpdb->suppress_errors( true );
			// phpcs:ignore WordPress.DB -- no value in it is foreign.
			$result = 0 === strpos( $sql, 'SELECT' ) ? $wpdb->get_results( $sql, ARRAY_A ) : false !== $wpdb->query( $sql );
			$wpdb->suppress_errors( $before );
			return $result;
		} catch ( \Throwable $error ) {
			return false;
		} finally {
			$this->is_busy = false;
		}
	}

	private function send( \mysqli $connection, string $sql ) {
		global $wpdb;
		$result = mysqli_query( $connection, $sql ); // phpcs:ignore WordPress.DB.RestrictedFunctions -- the results of wpdb must stay as they are.
		if ( false === $result && in_array( mysqli_errno( $connection ), array( 2006, 2013 ), true ) && $wpdb->check_connection( false ) ) { // phpcs:ignore WordPress.DB.RestrictedFunctions -- the results of wpdb must stay as they are.
			$result = mysqli_query( $wpdb->dbh, $sql ); // phpcs:ignore WordPress.DB.RestrictedFunctions -- the results of wpdb must stay as they are.
		}
		// The database may choose this statement to end a deadlock.
		$tries = 0;
		while ( false === $result && ++$tries < 6 && in_array( mysqli_errno( $wpdb->dbh ), array( 1205, 1213 ), true ) ) { // phpcs:ignore WordPress.DB.RestrictedFunctions -- the results of wpdb must stay as they are.
			$result = mysqli_query( $wpdb->dbh, $sql ); // phpcs:ignore WordPress.DB.RestrictedFunctions -- the results of wpdb must stay as they are.
		}
		return $result instanceof \mysqli_result ? mysqli_fetch_all( $result, MYSQLI_ASSOC ) : $result; // phpcs:ignore WordPress.DB.RestrictedFunctions -- the results of wpdb must stay as they are.
	}
}
