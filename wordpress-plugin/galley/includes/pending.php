<?php
/**
 * Stores purges in the database until the server has acknowledged them.
 *
 * Before a request queues its first purge, it writes a row without purges. When it sends the purges, it adds them to the row. The row is
 * deleted when the server acknowledges the purges. The server does so in its response on the admin interface or, for purges in response
 * headers, by their ID in a later request (`Galley-Acknowledged`). The purges of other rows are sent again. A row that still has no purges belongs
 * to a request that runs or died. If it died, the plugin purges everything on all blogs, since the request may have changed any of them. The row names the
 * connection to the database that wrote it: when a process dies, the database loses its connection.
 *
 * Each request has a separate row, so that concurrent requests do not interfere with each other. WordPress loads the few existing rows
 * together with the autoloaded options, so that reading them requires no additional query.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Number of seconds after which a request that has not sent its purges is considered dead. */
const DEAD_AFTER = 120;

/** Number of seconds after which the database is asked whether a request that has not sent its purges is still connected. */
const ASK_AFTER = 3;

/** Number of seconds after which purges without acknowledgment are sent again. `Galley-Acknowledged` usually arrives much earlier. */
const RESEND_AFTER = 10;

/** Maximum number of rows that one request reads. */
const MAX_PENDING = 20;

/**
 * Assigns an ID to the purges of this request, and writes the row that announces them.
 */
function begin_purges(): void {
	if ( isset( $GLOBALS['galley_purge_id'] ) || ! function_exists( 'get_option' ) ) {
		if ( ! empty( $GLOBALS['galley_unannounced'] ) ) {
			// The end of a transaction has undone the row, too.
			$GLOBALS['galley_unannounced'] = false;
			write_pending( $GLOBALS['galley_purge_id'], null );
		}
		return;
	}
	if ( $GLOBALS['galley_is_over'] ) {
		register_shutdown_function( __NAMESPACE__ . '\\deliver_rest' );
	}
	$id                         = bin2hex( random_bytes( 8 ) );
	$GLOBALS['galley_purge_id'] = $id;
	$GLOBALS['galley_began']    = microtime( true );
	$acknowledged               = array_pop( $GLOBALS['galley_acknowledged'] );
	if ( null === $acknowledged || ! reuse_pending( $acknowledged, $id ) ) {
		write_pending( $id, null );
	}
}

/** Whether the end of the request has sent its purges, and what was changed after that, as keys. */
$GLOBALS['galley_is_over']     = false;
$GLOBALS['galley_late_purges'] = array();

/**
 * Writes the purges of what destructors, or PHP when it writes the session, change after the end of the request: no function of this plugin may run
 * after that. The next request sends them. Where `later()` has other callbacks, their purges are unknown, and the row stays without purges.
 *
 * @param string[] $words Purges in addition to those that are queued.
 */
function write_late_purges( array $words = array() ): void {
	$GLOBALS['galley_late_purges'] += array_fill_keys( $words, true );
	if ( preg_grep( '/^(?:\d+\.)?(?:options|tables)$/D', array_map( 'strval', array_keys( $GLOBALS['galley_later'] ) ), PREG_GREP_INVERT ) ) {
		write_pending( $GLOBALS['galley_purge_id'], null );
		return;
	}
	$purges = merged_purges(
		array(
			'hard' => array_map( 'strval', array_keys( $GLOBALS['galley_late_purges'] ) ),
			'soft' => array(),
		),
		array_map( 'array_keys', $GLOBALS['galley_purges'] )
	);
	if ( $purges['hard'] || $purges['soft'] ) {
		write_pending( $GLOBALS['galley_purge_id'], $purges );
	} else {
		delete_pending( array( $GLOBALS['galley_purge_id'] ) );
	}
}

/** IDs of rows that the server has acknowledged. The first change of this request reuses one of them. The end of the request deletes the rest. */
$GLOBALS['galley_acknowledged'] = array();

$GLOBALS['galley_pending_table'] = $GLOBALS['wpdb']->options ?? '';

/**
 * Returns the options table of the blog with which the request began, even if the current blog is a different one.
 *
 * The next requests search this table for remaining rows.
 */
function pending_table(): string {
	return $GLOBALS['galley_pending_table'];
}

/**
 * Writes a row directly to the database, without option hooks and caches.
 *
 * Uses a single statement, because `wpdb::replace` queries the columns of the table first.
 *
 * @param array{hard: string[], soft: string[]}|null $purges Purges that were sent. Null if none were sent yet.
 * @param int|null                                   $at     Unix time since which the row is pending, by default now. 0 if the purges did
 *                                                           not reach the server.
 */
function write_pending( string $id, ?array $purges, ?int $at = null ): void {
	foreach ( array_unique( array( null === $purges ? value_with_connection() : '%s', '%s' ) ) as $value ) {
		$written = query_pending(
			"INSERT INTO %table% (option_name, option_value, autoload) VALUES (%s, $value, 'yes') ON DUPLICATE KEY UPDATE option_value = VALUES(option_value)",
			array( "galley_pending_$id", pending_value( $purges, $at ) )
		);
		if ( false !== $written ) {
			return;
		}
	}
}

/**
 * Returns the SQL for the value of a row without purges. It adds the server of the database and the number of the connection, without a statement of
 * its own, and as this server knows them, because there may be a proxy in front of it.
 */
function value_with_connection(): string {
	$is_plain = ( $GLOBALS['wpdb']->dbh ?? null ) instanceof \mysqli && ! method_exists( $GLOBALS['wpdb'], 'add_database' );
	return $is_plain ? "REPLACE(%s, '\"by\":null', CONCAT('\"by\":\"', @@hostname, ':', @@port, ' ', CONNECTION_ID(), '\"'))" : '%s';
}

/**
 * Turns an acknowledged row into the row of this request. This takes one write instead of a deletion and an insertion.
 *
 * @return bool False if the row no longer exists.
 */
function reuse_pending( string $acknowledged, string $id ): bool {
	return 1 === query_pending(
		'UPDATE %table% SET option_name = %s, option_value = ' . value_with_connection() . ' WHERE option_name = %s',
		array( "galley_pending_$id", pending_value( null ), "galley_pending_$acknowledged" )
	);
}

/**
 * Deletes rows.
 *
 * @param string[] $ids IDs of the rows.
 */
function delete_pending( array $ids ): void {
	if ( $ids ) {
		query_pending(
			'DELETE FROM %table% WHERE option_name IN (' . implode( ', ', array_fill( 0, count( $ids ), '%s' ) ) . ')',
			array_map(
				static function ( string $id ): string {
					return "galley_pending_$id";
				},
				$ids
			)
		);
	}
}

function pending_value( ?array $purges, ?int $at = null ): string {
	return (string) wp_json_encode(
		array(
			'at'     => $at ?? time(),
			'purges' => $purges,
			'by'     => null,
		)
	);
}

/**
 * Runs a statement on the table of pending rows, without error output.
 *
 * It may run just before another statement. The properties of `wpdb` that tell about the last one (`insert_id`, `last_result`) stay as they are where
 * the connection is one of `mysqli`.
 *
 * @param string   $sql    Statement with `%table%` in place of the table name, and `%s` placeholders.
 * @param string[] $values Values of the placeholders.
 * @return int|bool Number of rows, or false.
 */
function query_pending( string $sql, array $values ) {
	global $wpdb;
	// phpcs:ignore WordPress.DB -- the table is ours; the values are prepared here.
	$sql = $wpdb->remove_placeholder_escape( $wpdb->prepare( str_replace( '%table%', pending_table(), $sql ), $values ) );
	if ( ( $wpdb->dbh ?? null ) instanceof \mysqli && ! method_exists( $wpdb, 'add_database' ) ) {
		try {
			// Code may ask for the number of the last row that it has inserted itself.
			$last = 'I' === $sql[0] ? $wpdb->dbh->query( 'SELECT LAST_INSERT_ID()' ) : false;
			if ( $wpdb->dbh->query( $sql ) ) {
				$rows = $wpdb->dbh->affected_rows;
				if ( $last instanceof \mysqli_result ) {
					$wpdb->dbh->query( 'SELECT LAST_INSERT_ID(' . (int) $last->fetch_row()[0] . ')' );
				}
				return $rows;
			}
		} catch ( \mysqli_sql_exception $lost ) {
			// `wpdb` connects again.
			unset( $lost );
		}
	}
	$hide = $wpdb->suppress_errors( true );
	// phpcs:ignore WordPress.DB -- rows of this plugin, which bypass the option caches; prepared above.
	$done = $wpdb->query( $sql );
	$wpdb->suppress_errors( $hide );
	return $done;
}

/**
 * Returns the remaining rows of earlier requests.
 *
 * @return array<string, array{at: int, purges: ?array, by: string}> Rows by ID.
 */
function read_pending(): array {
	$found = array();
	foreach ( keeps_values() ? stored_pending() : wp_load_alloptions() as $name => $text ) {
		if ( 0 === strncmp( (string) $name, 'galley_pending_', 15 ) && count( $found ) < MAX_PENDING ) {
			$value                                 = json_decode( (string) $text, true );
			$found[ substr( (string) $name, 15 ) ] = array(
				'at'     => (int) ( $value['at'] ?? 0 ),
				'purges' => is_array( $value['purges'] ?? null ) ? $value['purges'] : null,
				'by'     => is_string( $value['by'] ?? null ) ? $value['by'] : '',
			);
		}
	}
	return $found;
}

/**
 * Reads the rows from the database, because a persistent object cache does not contain rows that bypassed it.
 *
 * @return array<string, string>
 */
function stored_pending(): array {
	global $wpdb;
	$hide = $wpdb->suppress_errors( true );
	// phpcs:ignore WordPress.DB -- must not come from a cache.
	$rows = $wpdb->get_results( 'SELECT option_name, option_value FROM ' . pending_table() . " WHERE option_name LIKE 'galley\\_pending\\_%' LIMIT " . MAX_PENDING );
	$wpdb->suppress_errors( $hide );
	return array_column( $rows ? $rows : array(), 'option_value', 'option_name' );
}

/**
 * Decides what to do with a row. Pure.
 *
 * @param array $row          Row as returned by `read_pending()`.
 * @param bool  $acknowledged Whether the server has acknowledged the purges of the row.
 * @param int   $now          Unix time.
 * @return string `keep`, `delete`, `resend`, `everything`, or `ask`: `everything` if the request is no longer connected.
 */
function judge_pending( array $row, bool $acknowledged, int $now ): string {
	if ( $acknowledged ) {
		return 'delete';
	}
	$age = $now - $row['at'];
	if ( null === $row['purges'] ) {
		return $age >= DEAD_AFTER ? 'everything' : ( $age >= ASK_AFTER && '' !== $row['by'] ? 'ask' : 'keep' );
	}
	return $age >= RESEND_AFTER ? 'resend' : 'keep';
}

/**
 * Returns whether the request that wrote a row without purges has died: its connection to the database is closed, and the row is still the same after
 * that. A request that ends normally sends its purges before it closes the connection.
 *
 * @param string $by Server and connection, as in the row.
 */
function has_died( string $id, string $by ): bool {
	if ( ! preg_match( '/^([\w.:-]+) (\d+)$/D', $by, $found ) ) {
		return false;
	}
	// Another server of a cluster does not know the connection. The user of the database sees the connections of this user.
	$rows = rows_directly( "SELECT CONCAT(@@hostname, ':', @@port) = '$found[1]' AS is_here, SUM(ID = CONNECTION_ID()) AS can_see, SUM(ID = $found[2]) AS lives FROM information_schema.PROCESSLIST" );
	$row  = $rows[0] ?? array();
	if ( '1' !== (string) ( $row['is_here'] ?? '' ) || '1' !== (string) ( $row['can_see'] ?? '' ) || '0' !== (string) ( $row['lives'] ?? '' ) ) {
		return false;
	}
	$now   = rows_directly( 'SELECT option_value AS value FROM `' . pending_table() . "` WHERE option_name = 'galley_pending_" . preg_replace( '/\W/', '', $id ) . "'" );
	$value = json_decode( (string) ( $now[0]['value'] ?? '' ), true );
	return is_array( $value ) && null === ( $value['purges'] ?? null ) && $by === ( $value['by'] ?? null );
}

/**
 * Adds lost purges of earlier requests to the purges of this request.
 */
function take_up_pending(): void {
	// A request that cannot deliver purges leaves them to a request that can.
	if ( ! passes_through() && ! connection() ) {
		return;
	}
	$acknowledged = acknowledged();
	foreach ( read_pending() as $id => $row ) {
		$verdict = judge_pending( $row, isset( $acknowledged[ $id ] ), time() );
		if ( 'ask' === $verdict ) {
			$verdict = has_died( (string) $id, $row['by'] ) ? 'everything' : 'keep';
		}
		if ( 'delete' === $verdict ) {
			$GLOBALS['galley_acknowledged'][] = (string) $id;
		} elseif ( 'keep' !== $verdict ) {
			// The new timestamp makes concurrent requests skip this row.
			write_pending( $id, $row['purges'] );
			$GLOBALS['galley_taken_up'][] = $id;
			note_cause( 'resent' );
			foreach ( $row['purges'] ?? array( 'hard' => array( is_multisite() ? '*' : 'b' ) ) as $strength => $words ) {
				foreach ( array_filter( (array) $words, 'is_string' ) as $word ) {
					queue_purge_of_word( $word, 'soft' === $strength ? 'soft' : 'hard' );
				}
			}
		}
	}
}

if ( passes_through() || ( defined( 'DOING_CRON' ) && DOING_CRON ) ) {
	add_action( 'wp_loaded', __NAMESPACE__ . '\\take_up_pending', 0 );
}
