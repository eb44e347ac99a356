<?php
/**
 * Questions to the server that more than one part asks: about the own site, about addresses of it.
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

/** Addresses of one question: what the server takes at once. */
const MOST_ASKED = 200;

/**
 * The host that visitors know this site by, without a port.
 */
function own_site_host(): string {
	return (string) wp_parse_url( home_url(), PHP_URL_HOST );
}

/**
 * The address of a page of this site, or null for one that is somewhere else.
 */
function own_address( string $url ): ?string {
	$url  = strtok( esc_url_raw( $url, array( 'http', 'https' ) ), '#' );
	$host = $url ? wp_parse_url( $url, PHP_URL_HOST ) : null;
	return is_string( $host ) && 0 === strcasecmp( $host, own_site_host() ) ? (string) $url : null;
}

/**
 * A `POST` that names this site, or leaves it to the token where the server does not know the name.
 *
 * @param string $path Of the admin interface.
 * @param array  $body With `site` where it is known.
 * @return array{status: int, body: ?array, error: ?string}
 */
function call_for_site( string $path, array $body, float $timeout ): array {
	$answer = call( 'POST', $path, $body, $timeout );
	if ( 404 === $answer['status'] && isset( $body['site'] ) ) {
		// The address of this site is none that the server knows; the token says which site is meant.
		unset( $body['site'] );
		$answer = call( 'POST', $path, $body, $timeout );
	}
	return $answer;
}

/**
 * How some pages are cached, in one question.
 *
 * @param string[] $urls Of this site.
 * @return array<string, array> `what`, `why` and `age_s` by address; empty where the server does not answer.
 */
function pages_states( array $urls ): array {
	$urls = array_slice( array_values( $urls ), 0, MOST_ASKED );
	if ( ! $urls || ! connection() ) {
		return array();
	}
	$answer = call(
		'POST',
		'/why/batch',
		array(
			'urls'    => $urls,
			'headers' => AS_A_BROWSER,
		),
		1.0
	);
	$states = array();
	foreach ( (array) ( $answer['body']['pages'] ?? array() ) as $page ) {
		if ( is_string( $page['url'] ?? null ) && is_string( $page['what'] ?? null ) ) {
			$states[ $page['url'] ] = $page;
		}
	}
	return $states;
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
