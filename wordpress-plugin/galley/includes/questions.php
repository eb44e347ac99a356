<?php
/**
 * Sends requests to the admin interface that several parts of the plugin use: about this site, and about its addresses.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Header fields of a browser, so that the server looks up the page in the form that browsers get. */
const AS_A_BROWSER = array(
	array( 'Accept', 'text/html,application/xhtml+xml;q=0.9,*/*;q=0.8' ),
	array( 'User-Agent', 'Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0' ),
);

/** Maximum number of addresses in one request, as the server accepts it. */
const MAX_URLS = 200;

/**
 * Returns the host name of this site for visitors, without a port.
 */
function own_site_host(): string {
	return (string) wp_parse_url( home_url(), PHP_URL_HOST );
}

/**
 * Returns the address of a page of this site, or null for an address of another site.
 */
function own_address( string $url ): ?string {
	$url  = strtok( esc_url_raw( $url, array( 'http', 'https' ) ), '#' );
	$host = $url ? wp_parse_url( $url, PHP_URL_HOST ) : null;
	return is_string( $host ) && 0 === strcasecmp( $host, own_site_host() ) ? (string) $url : null;
}

/**
 * Sends a `POST` request that names this site. If the server does not know the name, the function repeats the request without it. The token
 * then determines the site.
 *
 * @param string $path Path of the admin interface.
 * @param array  $body Request body, with `site` if known.
 * @return array{status: int, body: ?array, error: ?string}
 */
function call_for_site( string $path, array $body, float $timeout ): array {
	$answer = call( 'POST', $path, $body, $timeout );
	if ( 404 === $answer['status'] && isset( $body['site'] ) ) {
		// The server does not know the address of this site. The token determines the site.
		unset( $body['site'] );
		$answer = call( 'POST', $path, $body, $timeout );
	}
	if ( 422 === $answer['status'] && isset( $body['label'] ) ) {
		// A server of an earlier version does not know labels, and rejects the request.
		unset( $body['label'] );
		$answer = call( 'POST', $path, $body, $timeout );
	}
	return $answer;
}

/**
 * Returns how pages are cached, with one request.
 *
 * @param string[] $urls Addresses of this site.
 * @return array<string, array> `what`, `why` and `age_s` by address. Empty if the server does not respond.
 */
function pages_states( array $urls ): array {
	$urls = array_slice( array_values( $urls ), 0, MAX_URLS );
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
 * Returns this site from a list of the server: the site with this host, else the site for all hosts, else the only one. Pure.
 *
 * @param mixed  $sites The value of `sites` in `GET /status` or `GET /history`.
 * @param string $host  Host name without a port.
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
