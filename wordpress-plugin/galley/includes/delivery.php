<?php
/**
 * Sends the purges of this request, once and together.
 *
 * If the response to the edit passes through Galley, its head carries the purges: the server carries them out before it forwards the
 * response, so the editor sees the new page. Purges that arise after the head was sent, and all purges of the command line
 * and of cron, are sent over the admin interface when the request ends. Nothing here throws or prints.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

add_action( 'shutdown', __NAMESPACE__ . '\\deliver_rest', PHP_INT_MAX );

/** A command line that runs long delivers every so many seconds. */
const DELIVER_EVERY = 5.0;

/**
 * Puts the purges that are known now into the head that is leaving.
 */
function carry_purges(): void {
	if ( ! isset( $GLOBALS['galley_purge_id'] ) || headers_sent() ) {
		return;
	}
	$purges = take_purges();
	if ( ! $purges['hard'] && ! $purges['soft'] ) {
		return;
	}
	$id = $GLOBALS['galley_purge_id'];
	log_purges( $purges );
	write_pending( $id, $purges );
	foreach ( purge_lines( array_merge( array( $id ), $GLOBALS['galley_taken_up'] ?? array() ), $purges ) as $line ) {
		header( "Galley-Purge: $line", false );
	}
	$GLOBALS['galley_carried']   = $purges;
	$GLOBALS['galley_delivered'] = array_merge( $GLOBALS['galley_delivered'] ?? array(), $purges['hard'], $purges['soft'] );
}

/**
 * The lines of the field. Pure.
 *
 * @param string[]                              $ids    Names of these purges, ours first.
 * @param array{hard: string[], soft: string[]} $purges What to say.
 * @return string[]
 */
function purge_lines( array $ids, array $purges ): array {
	$names = array();
	foreach ( array_slice( $ids, 0, 8 ) as $id ) {
		$names[] = "id=$id";
	}
	return array_merge( lines( array_merge( $names, $purges['hard'] ) ), lines( $purges['soft'], 'stale,' ) );
}

/**
 * The request is over: sends what no head carried, and deletes the rows that nobody needs any more.
 */
function deliver_rest(): void {
	$done = isset( $GLOBALS['galley_purge_id'] ) ? send_rest( $GLOBALS['galley_purge_id'] ) : array();
	delete_pending( array_merge( $done, $GLOBALS['galley_acknowledged'] ) );
	$GLOBALS['galley_acknowledged'] = array();
	write_purge_log();
}

/**
 * Sends what no head carried, and what a head carried that may not be read to its end.
 *
 * @return string[] The rows that are not needed any more.
 */
function send_rest( string $id ): array {
	$purges  = take_purges();
	$carried = $GLOBALS['galley_carried'] ?? null;
	if ( $purges['hard'] || $purges['soft'] ) {
		log_purges( $purges );
	}
	if ( $carried && ! runs_to_its_end() && connection() ) {
		// The client of a GET may be gone, and then nobody reads the response.
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
	// What the head carried is acknowledged in a later request.
	return $carried && runs_to_its_end() ? array() : array_merge( array( $id ), $GLOBALS['galley_taken_up'] ?? array() );
}

/**
 * Sends purges over the admin interface. True: the server has them all.
 *
 * @param array{hard: string[], soft: string[]} $purges What to say.
 */
function deliver( array $purges ): bool {
	if ( ! connection() ) {
		return false;
	}
	foreach ( purge_bodies( $purges, own_site_host() ) as $body ) {
		$answer = call_for_site( '/purge', $body, 1.0 );
		if ( 200 !== $answer['status'] ) {
			$GLOBALS['galley_delivery_error'] = $answer['error'];
			return false;
		}
	}
	return true;
}

/**
 * The requests that say it. Pure.
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
 * Pure.
 */
function merged_purges( array $one, array $two ): array {
	return array(
		'hard' => array_values( array_unique( array_merge( $one['hard'], $two['hard'] ) ) ),
		'soft' => array_values( array_unique( array_merge( $one['soft'], $two['soft'] ) ) ),
	);
}

/**
 * In a command line or a scheduled task that runs long: sends from time to time what has come together.
 */
function deliver_meanwhile(): void {
	$is_long = ( 'cli' === PHP_SAPI || ( defined( 'DOING_CRON' ) && DOING_CRON ) ) && isset( $GLOBALS['galley_began'] );
	if ( ! $is_long || microtime( true ) - $GLOBALS['galley_began'] < DELIVER_EVERY ) {
		return;
	}
	deliver_rest();
	unset( $GLOBALS['galley_purge_id'], $GLOBALS['galley_carried'], $GLOBALS['galley_taken_up'] );
}
