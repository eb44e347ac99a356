<?php
/**
 * What the server would answer to an anonymous visitor who asks for a page now, in words.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** A browser's, so that the page is asked for in the form that browsers get. */
const AS_A_BROWSER = array(
	array( 'Accept', 'text/html,application/xhtml+xml;q=0.9,*/*;q=0.8' ),
	array( 'User-Agent', 'Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0' ),
);

/**
 * Asks the server how a page is cached.
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
			'what_to_do' => __( 'See Settings > Galley.', 'galley' ),
		);
	}
	return page_words( $answer['body'] );
}

/**
 * The server's explanation in the few words of the admin bar.
 *
 * @param array $why The answer to `POST /why`.
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
	$sentence = is_string( $why['advice']['why'] ?? null ) ? $why['advice']['why'] : (string) ( $why['now']['sentence'] ?? '' );
	return array(
		'state'      => $what,
		'label'      => $label,
		'why'        => $sentence,
		'what_to_do' => is_string( $why['advice']['do'] ?? null ) ? $why['advice']['do'] : '',
	);
}

/**
 * Seconds as a person says them.
 */
function age_in_words( int $seconds ): string {
	if ( $seconds < MINUTE_IN_SECONDS ) {
		/* translators: %d: a number of seconds */
		return sprintf( _n( '%d second', '%d seconds', $seconds, 'galley' ), $seconds );
	}
	return human_time_diff( 0, $seconds );
}

/**
 * The site among those that the server tells of: the one of this host, else one for every host, else the only one. Pure.
 *
 * @param mixed  $sites `sites` of `GET /status` or `GET /history`.
 * @param string $host  Without a port.
 */
function own_site( $sites, string $host ): ?array {
	$sites = is_array( $sites ) ? array_values( array_filter( $sites, 'is_array' ) ) : array();
	foreach ( array( strtolower( $host ), '*' ) as $wanted ) {
		foreach ( $sites as $site ) {
			if ( in_array( $wanted, (array) ( $site['hosts'] ?? array() ), true ) || ( $site['name'] ?? '' ) === $wanted ) {
				return $site;
			}
		}
	}
	return 1 === count( $sites ) ? $sites[0] : null;
}

/**
 * A ratio as a percentage.
 *
 * @param mixed $ratio 0 to 1, or nothing.
 */
function percent( $ratio ): string {
	return is_numeric( $ratio ) ? number_format_i18n( 100 * (float) $ratio, 1 ) . ' %' : '–';
}
