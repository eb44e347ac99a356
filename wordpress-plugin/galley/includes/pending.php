<?php
/**
 * Orders that are not known to have arrived, kept in the database.
 *
 * Before the first change of a request is queued, a row says that something will be. When the purges leave, the row holds
 * them; it is deleted when the server has said that it has them: in its answer on the admin interface, or, of purges in the
 * head of an answer, by their name in a later request (`Galley-Heard`). Rows that stay are sent again. A row without purges
 * belongs to a request that died: then everything is purged, of all blogs, since it may have changed any. One row per request, so that requests that run
 * at the same time take nothing from each other. The few rows there are come along with the settings that WordPress loads
 * for every request, so that looking for them costs no query.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** A request that has not sent its purges after so many seconds has died. */
const DEAD_AFTER = 120;

/** Orders of an answer are in the next requests' `Galley-Heard` long before. */
const UNHEARD_AFTER = 10;

/** Rows looked at by one request. */
const MOST_PENDING = 20;

/**
 * Notes that purges will come, and begins to listen for the end of the request.
 */
function begin_purges(): void {
	if ( isset( $GLOBALS['galley_purge_id'] ) || ! function_exists( 'get_option' ) ) {
		return;
	}
	$id                         = bin2hex( random_bytes( 8 ) );
	$GLOBALS['galley_purge_id'] = $id;
	$GLOBALS['galley_began']    = microtime( true );
	$acknowledged               = array_pop( $GLOBALS['galley_acknowledged'] );
	if ( null === $acknowledged || ! reuse_pending( $acknowledged, $id ) ) {
		write_pending( $id, null );
	}
}

/** Rows whose purges the server has: the first change of this request takes one over, the end of the request deletes the rest. */
$GLOBALS['galley_acknowledged'] = array();

$GLOBALS['galley_pending_table'] = $GLOBALS['wpdb']->options ?? '';

/**
 * The table of the blog that the request began with, whichever is at hand: there the next requests look for what was left behind.
 */
function pending_table(): string {
	return $GLOBALS['galley_pending_table'];
}

/**
 * Writes a row past the options' hooks and caches. One statement: `wpdb::replace` asks for the columns of the table first.
 *
 * @param array{hard: string[], soft: string[]}|null $purges What was sent.
 * @param int|null                                   $at     Since when it is waited for; 0: it is known not to have arrived.
 */
function write_pending( string $id, ?array $purges, ?int $at = null ): void {
	query_pending(
		"INSERT INTO %table% (option_name, option_value, autoload) VALUES (%s, %s, 'yes') ON DUPLICATE KEY UPDATE option_value = VALUES(option_value)",
		array( "galley_pending_$id", pending_value( $purges, $at ) )
	);
}

/**
 * Makes an acknowledged row the row of this request: one write instead of a deletion and an insertion.
 *
 * @return bool False: the row is gone.
 */
function reuse_pending( string $acknowledged, string $id ): bool {
	return 1 === query_pending(
		'UPDATE %table% SET option_name = %s, option_value = %s WHERE option_name = %s',
		array( "galley_pending_$id", pending_value( null ), "galley_pending_$acknowledged" )
	);
}

/**
 * @param string[] $ids Of the rows.
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
		)
	);
}

/**
 * @param string   $sql    With `%table%` for the table, and `%s`.
 * @param string[] $values What stands for each `%s`.
 * @return int|bool As `wpdb::query`.
 */
function query_pending( string $sql, array $values ) {
	global $wpdb;
	$hide = $wpdb->suppress_errors( true );
	// phpcs:ignore WordPress.DB -- rows of our own, written past the options' caches; prepared here.
	$done = $wpdb->query( $wpdb->prepare( str_replace( '%table%', pending_table(), $sql ), $values ) );
	$wpdb->suppress_errors( $hide );
	return $done;
}

/**
 * The rows that earlier requests left behind.
 *
 * @return array<string, array{at: int, purges: ?array}> By id.
 */
function read_pending(): array {
	$found = array();
	foreach ( wp_using_ext_object_cache() ? stored_pending() : wp_load_alloptions() as $name => $text ) {
		if ( 0 === strncmp( (string) $name, 'galley_pending_', 15 ) && count( $found ) < MOST_PENDING ) {
			$value                                 = json_decode( (string) $text, true );
			$found[ substr( (string) $name, 15 ) ] = array(
				'at'     => (int) ( $value['at'] ?? 0 ),
				'purges' => is_array( $value['purges'] ?? null ) ? $value['purges'] : null,
			);
		}
	}
	return $found;
}

/**
 * Asks the database: an object cache that lives longer than the request knows nothing of rows that were written past it.
 *
 * @return array<string, string>
 */
function stored_pending(): array {
	global $wpdb;
	$hide = $wpdb->suppress_errors( true );
	// phpcs:ignore WordPress.DB -- must not come from a cache.
	$rows = $wpdb->get_results( 'SELECT option_name, option_value FROM ' . pending_table() . " WHERE option_name LIKE 'galley\\_pending\\_%' LIMIT " . MOST_PENDING );
	$wpdb->suppress_errors( $hide );
	return array_column( $rows ? $rows : array(), 'option_value', 'option_name' );
}

/**
 * What to do with a row. Pure.
 *
 * @param array $row   As `read_pending` gives it.
 * @param bool  $acknowledged Whether the server has its purges.
 * @param int   $now   Unix time.
 * @return string `keep`, `delete`, `resend` or `everything`.
 */
function judge_pending( array $row, bool $acknowledged, int $now ): string {
	if ( $acknowledged ) {
		return 'delete';
	}
	$age = $now - $row['at'];
	if ( null === $row['purges'] ) {
		return $age >= DEAD_AFTER ? 'everything' : 'keep';
	}
	return $age >= UNHEARD_AFTER ? 'resend' : 'keep';
}

/**
 * Makes good what was lost: takes up the purges of earlier requests into this one.
 */
function take_up_pending(): void {
	// Who cannot deliver leaves them to who can.
	if ( ! passes_through() && ! connection() ) {
		return;
	}
	$acknowledged = acknowledged();
	foreach ( read_pending() as $id => $row ) {
		$verdict = judge_pending( $row, isset( $acknowledged[ $id ] ), time() );
		if ( 'delete' === $verdict ) {
			$GLOBALS['galley_acknowledged'][] = (string) $id;
		} elseif ( 'keep' !== $verdict ) {
			// A new moment, so that requests beside this one leave it alone.
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
