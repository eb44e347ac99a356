<?php
/**
 * Describes the response that an anonymous visitor would get for a page now.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/**
 * Requests from the server how a page is cached.
 *
 * @return array{state: string, label: string, why: string, what_to_do: string}
 */
function page_state( string $url ): array {
	$answer = call(
		'POST',
		'/why',
		array(
			'url'     => $url,
			'headers' => AS_A_BROWSER,
		)
	);
	if ( 200 !== $answer['status'] || null === $answer['body'] ) {
		return array(
			'state'      => 'unknown',
			'label'      => __( 'Galley: no connection', 'galley' ),
			'why'        => (string) $answer['error'],
			'what_to_do' => __( 'Check the connection of the plugin to Galley.', 'galley' ),
		);
	}
	return page_words( $answer['body'] );
}

/**
 * Shortens the server's explanation for the admin bar.
 *
 * @param array $why Response to `POST /why`.
 * @return array{state: string, label: string, why: string, what_to_do: string}
 */
function page_words( array $why ): array {
	$what = is_string( $why['now']['what'] ?? null ) ? $why['now']['what'] : '';
	$age  = is_numeric( $why['entry']['age_s'] ?? null ) ? (int) $why['entry']['age_s'] : null;
	switch ( $what ) {
		case 'hit':
			/* translators: %s: a time span such as "5 mins" */
			$label = sprintf( __( 'Galley: cached, %s old', 'galley' ), age_in_words( (int) $age ) );
			break;
		case 'stale':
			/* translators: %s: a time span such as "5 mins" */
			$label = sprintf( __( 'Galley: cached, %s old, refreshing', 'galley' ), age_in_words( (int) $age ) );
			break;
		case 'miss':
			$label = __( 'Galley: not cached yet', 'galley' );
			break;
		case 'pass':
			$label = __( 'Galley: not cached', 'galley' );
			break;
		case 'file':
		case 'redirect':
			$label = __( 'Galley: a file', 'galley' );
			break;
		default:
			$what  = 'unknown';
			$label = __( 'Galley: rejected', 'galley' );
	}
	$has_advice = is_string( $why['advice']['why'] ?? null );
	$words      = $has_advice
		? reason_words( $why['advice'], $why['advice']['why'] )
		: reason_words( $why['now'] ?? null, (string) ( $why['now']['sentence'] ?? '' ) );
	return array(
		'state'      => $what,
		'label'      => $label,
		'why'        => $words[0],
		'what_to_do' => $words[1],
	);
}

/**
 * Turns an explanation of the server into a sentence. Explanations begin with a lowercase letter and have no period at the end. Pure.
 */
function as_sentence( string $words ): string {
	return preg_match( '/[.!?。]$/u', $words ) ? ucfirst( $words ) : ucfirst( $words ) . '.';
}

/**
 * Returns a time span in words.
 */
function age_in_words( int $seconds ): string {
	if ( $seconds < MINUTE_IN_SECONDS ) {
		/* translators: %d: a number of seconds */
		return sprintf( _n( '%d second', '%d seconds', $seconds, 'galley' ), $seconds );
	}
	return human_time_diff( 0, $seconds );
}

/**
 * Returns a ratio as a percentage.
 *
 * @param mixed $ratio 0 to 1. Any other type means unknown.
 */
function percent( $ratio ): string {
	return is_numeric( $ratio ) ? number_format_i18n( 100 * (float) $ratio, 1 ) . ' %' : '–';
}
