<?php
/**
 * Sends the purges of this request, once and together.
 *
 * If the response to the edit passes through Galley, its headers contain the purges. The server applies them before it forwards the
 * response, so the editor sees the new page. The admin interface receives all other purges when the request ends: purges that are queued
 * after the headers were sent, and all purges of the command line and of cron. Nothing in this file throws or prints.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

add_action( 'shutdown', __NAMESPACE__ . '\\deliver_rest', PHP_INT_MAX );

/** Interval, in seconds, at which long-running commands and scheduled tasks send their purges. */
const DELIVER_EVERY = 5.0;

/**
 * Adds the purges that are known now to the response headers, before the headers are sent.
 */
function carry_purges(): void {
	queue_ended_sessions();
	if ( null === $GLOBALS['galley_transaction'] ) {
		queue_core_writes();
	}
	if ( ! isset( $GLOBALS['galley_purge_id'] ) || headers_sent() || null !== $GLOBALS['galley_transaction'] ) {
		// Before the end of a transaction other requests read the old rows.
		return;
	}
	$purges = take_purges();
	if ( ! $purges['hard'] && ! $purges['soft'] ) {
		return;
	}
	$id = $GLOBALS['galley_purge_id'];
	log_purges( $purges );
	write_pending( $id, $purges );
	$ids = array_merge( array( $id ), $GLOBALS['galley_taken_up'] ?? array() );
	foreach ( purge_lines( $ids, $purges, purge_label( first_cause( $GLOBALS['galley_causes'] ) ) ) as $line ) {
		header( "Galley-Purge: $line", false );
	}
	$GLOBALS['galley_carried']   = $purges;
	$GLOBALS['galley_delivered'] = array_merge( $GLOBALS['galley_delivered'] ?? array(), $purges['hard'], $purges['soft'] );
}

/**
 * Returns the values of the `Galley-Purge` headers. Pure.
 *
 * @param string[]                              $ids    IDs of these purges. The ID of this request comes first.
 * @param array{hard: string[], soft: string[]} $purges Purges to send.
 * @param string                                $label  From `purge_label()`.
 * @return string[]
 */
function purge_lines( array $ids, array $purges, string $label = '' ): array {
	$names = array();
	foreach ( array_slice( $ids, 0, 8 ) as $id ) {
		$names[] = "id=$id";
	}
	if ( '' !== $label ) {
		$names[] = 'label=' . rawurlencode( $label );
	}
	return array_merge( lines( array_merge( $names, $purges['hard'] ) ), lines( $purges['soft'], 'stale,' ) );
}

/**
 * Sends, at the end of the request, the purges that no response header contained, deletes the rows that are no longer needed, and writes
 * the log.
 */
function deliver_rest(): void {
	queue_ended_sessions();
	queue_core_writes();
	$done = isset( $GLOBALS['galley_purge_id'] ) ? send_rest( $GLOBALS['galley_purge_id'] ) : array();
	delete_pending( array_merge( $done, $GLOBALS['galley_acknowledged'] ) );
	$GLOBALS['galley_acknowledged'] = array();
	write_purge_log();
	if ( did_action( 'shutdown' ) ) {
		// What the request changes after that needs a purge of its own.
		$GLOBALS['galley_is_over']     = true;
		$GLOBALS['galley_late_purges'] = array();
		unset( $GLOBALS['galley_purge_id'], $GLOBALS['galley_carried'], $GLOBALS['galley_taken_up'] );
	}
}

/**
 * Sends the purges that no response header contained. Also repeats the purges of a response that may not be read to its end.
 *
 * @return string[] IDs of the rows that are no longer needed.
 */
function send_rest( string $id ): array {
	$purges  = take_purges();
	$carried = $GLOBALS['galley_carried'] ?? null;
	if ( $purges['hard'] || $purges['soft'] ) {
		log_purges( $purges );
	}
	if ( $carried && ! runs_to_its_end() && connection() ) {
		// The client of a GET request may have disconnected. In this case nothing reads the response.
		$purges = merged_purges( $carried, $purges );
	}
	if ( ! $purges['hard'] && ! $purges['soft'] ) {
		return $carried ? array() : array( $id );
	}
	if ( ! deliver( $purges ) ) {
		write_pending( $id, $carried ? merged_purges( $carried, $purges ) : $purges, 0 );
		return array();
	}
	$GLOBALS['galley_delivered'] = array_merge( $GLOBALS['galley_delivered'] ?? array(), $purges['hard'], $purges['soft'] );
	// The server acknowledges the purges in the response headers in a later request.
	return $carried && runs_to_its_end() ? array() : array_merge( array( $id ), $GLOBALS['galley_taken_up'] ?? array() );
}

/**
 * Sends purges over the admin interface. Returns true if the server accepted all of them.
 *
 * @param array{hard: string[], soft: string[]} $purges Purges to send.
 */
function deliver( array $purges ): bool {
	if ( ! connection() ) {
		return false;
	}
	$label = array( 'label' => purge_label( first_cause( $GLOBALS['galley_causes'] ) ) );
	foreach ( purge_bodies( $purges, own_site_host() ) as $body ) {
		$answer = call_for_site( '/purge', $body + $label, 1.0 );
		if ( 200 !== $answer['status'] ) {
			$GLOBALS['galley_delivery_error'] = $answer['error'];
			return false;
		}
	}
	return true;
}

/**
 * Returns the bodies of the `/purge` requests for these purges. Pure.
 *
 * @return array[]
 */
function purge_bodies( array $purges, string $host ): array {
	$bodies = array();
	foreach ( array( 'hard', 'soft' ) as $strength ) {
		foreach ( array_chunk( $purges[ $strength ], 1000 ) as $words ) {
			$body = array( 'soft' => 'soft' === $strength );
			if ( '' !== $host ) {
				$body['site'] = $host;
			}
			foreach ( $words as $word ) {
				if ( '*' === $word ) {
					$body['all'] = true;
				} else {
					$body[ '/' === $word[0] ? 'urls' : 'tags' ][] = $word;
				}
			}
			$bodies[] = $body;
		}
	}
	return $bodies;
}

/**
 * Merges two sets of purges without duplicates. Pure.
 */
function merged_purges( array $one, array $two ): array {
	return array(
		'hard' => array_values( array_unique( array_merge( $one['hard'], $two['hard'] ) ) ),
		'soft' => array_values( array_unique( array_merge( $one['soft'], $two['soft'] ) ) ),
	);
}

/**
 * Sends the collected purges at intervals during a long-running command or scheduled task.
 */
function deliver_meanwhile(): void {
	$is_long = ( 'cli' === PHP_SAPI || ( defined( 'DOING_CRON' ) && DOING_CRON ) ) && isset( $GLOBALS['galley_began'] );
	if ( ! $is_long || null !== $GLOBALS['galley_transaction'] || microtime( true ) - $GLOBALS['galley_began'] < DELIVER_EVERY ) {
		return;
	}
	deliver_rest();
	unset( $GLOBALS['galley_purge_id'], $GLOBALS['galley_carried'], $GLOBALS['galley_taken_up'] );
}
