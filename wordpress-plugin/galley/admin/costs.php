<?php
/**
 * What costs PHP time: the reasons why Galley did not answer requests from the cache, as the dashboard of Galley shows them.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Number of reasons in the table. The others are rare. */
const SHOWN_COSTS = 8;

/**
 * Returns descriptions of the server's reasons for site owners, by kind.
 *
 * @return array<string, array<string, string>>
 */
function cost_words(): array {
	return array(
		'pass'       => array(
			'method'        => __( 'Forms, logins and other requests that may change something', 'galley' ),
			'authorization' => __( 'Programs that log in (applications, API clients)', 'galley' ),
			'cookie'        => __( 'Visitors with a personal cookie: logged in, with a cart, or who left a comment', 'galley' ),
			'path'          => __( 'The administration, the login and scripts that are called directly', 'galley' ),
			'query'         => __( 'Addresses with a parameter for a personal or unpublished view', 'galley' ),
			'ajax'          => __( 'Requests by scripts of the theme or of plugins', 'galley' ),
			'nonce'         => __( 'Requests of logged-in users to the REST API', 'galley' ),
			'rule'          => __( 'Paths that the server’s configuration excludes', 'galley' ),
			'remembered'    => __( 'Pages that WordPress or a plugin does not allow to be stored', 'galley' ),
			'no-store'      => __( 'Visitors who ask for a page that is not stored', 'galley' ),
		),
		'not-stored' => array(
			'set-cookie'  => __( 'Pages that set a cookie for visitors', 'galley' ),
			'no-store'    => __( 'Pages that forbid storing (no-store)', 'galley' ),
			'private'     => __( 'Pages that are for one visitor (private)', 'galley' ),
			'no-cache'    => __( 'Pages that forbid reuse (no-cache)', 'galley' ),
			'vary'        => __( 'Pages that differ by a header that Galley does not know', 'galley' ),
			'error-page'  => __( 'Pages that show an error message', 'galley' ),
			'empty'       => __( 'Pages without content', 'galley' ),
			'maintenance' => __( 'Requests during maintenance', 'galley' ),
			'status'      => __( 'Responses with an error status', 'galley' ),
			'too-large'   => __( 'Pages that are larger than the server stores', 'galley' ),
			'memory'      => __( 'Pages for which the cache had no memory', 'galley' ),
		),
	);
}

/**
 * Returns what PHP's time went to, most of it first. The last part is the pages that were stored. Pure except for translations.
 *
 * @param array $site The site in `GET /not-cached`.
 * @return array<int, array{words: string, requests: int|null, share: float}> `share` of PHP's time; `requests` is null if unknown.
 */
function site_costs( array $site ): array {
	$all  = is_int( $site['upstream_us'] ?? null ) ? max( 0, $site['upstream_us'] ) : 0;
	$rest = $all;
	$rows = array();
	foreach ( is_array( $site['reasons'] ?? null ) ? $site['reasons'] : array() as $one ) {
		if ( is_array( $one ) && is_string( $one['word'] ?? null ) && is_int( $one['requests'] ?? null ) && is_int( $one['upstream_us'] ?? null ) ) {
			$rest  -= $one['upstream_us'];
			$rows[] = array(
				'words'    => cost_words()[ $one['kind'] ?? '' ][ $one['word'] ] ?? $one['word'],
				'requests' => max( 0, $one['requests'] ),
				'share'    => $all > 0 ? max( 0.0, min( 1.0, $one['upstream_us'] / $all ) ) : 0.0,
			);
		}
	}
	if ( $rest > 0 ) {
		$rows[] = array(
			'words'    => __( 'Pages that Galley stored: they were new, purged or too old', 'galley' ),
			'requests' => null,
			'share'    => min( 1.0, $rest / $all ),
		);
	}
	usort(
		$rows,
		static function ( array $a, array $b ): int {
			return array( $b['share'], $b['requests'] ) <=> array( $a['share'], $a['requests'] );
		}
	);
	return array_slice( $rows, 0, SHOWN_COSTS );
}

/**
 * Returns the number of seconds that the requests of a day waited for PHP. Pure.
 *
 * @param mixed $minutes `minutes` in `GET /history`.
 */
function php_seconds( $minutes ): int {
	$all = 0;
	foreach ( is_array( $minutes ) ? $minutes : array() as $minute ) {
		$all += is_array( $minute ) && is_int( $minute['upstream_ms'] ?? null ) ? max( 0, $minute['upstream_ms'] ) : 0;
	}
	return intdiv( $all, 1000 );
}

/**
 * Prints the table of reasons.
 *
 * @param int|null $seconds PHP time in the last day, or null if unknown.
 */
function print_costs( ?int $seconds ): void {
	echo '<h2>', esc_html__( 'What costs PHP time', 'galley' ), '</h2>';
	if ( null !== $seconds ) {
		/* translators: %s: a time span such as "5 mins" */
		printf( '<p>%s</p>', esc_html( sprintf( __( 'In the last day PHP worked on this site for %s.', 'galley' ), age_in_words( $seconds ) ) ) );
	}
	$answer = call( 'GET', '/not-cached?site=' . rawurlencode( own_site_host() ) );
	$rows   = site_costs( own_site( $answer['body']['sites'] ?? null, own_site_host() ) ?? array() );
	if ( ! $rows ) {
		echo '<p>', esc_html__( 'PHP has answered no request since Galley started.', 'galley' ), '</p>';
		return;
	}
	printf(
		'<table class="widefat striped galley-costs"><caption class="screen-reader-text">%s</caption><thead><tr><th scope="col">%s</th><th scope="col">%s</th><th scope="col">%s</th></tr></thead><tbody>',
		esc_html__( 'Requests that PHP answered since Galley started, by reason', 'galley' ),
		esc_html__( 'Why PHP answered', 'galley' ),
		esc_html__( 'Requests', 'galley' ),
		esc_html__( 'Share of PHP’s time', 'galley' )
	);
	foreach ( $rows as $row ) {
		printf( '<tr><td>%s</td><td>%s</td><td>%s</td></tr>', esc_html( $row['words'] ), esc_html( null === $row['requests'] ? '–' : number_format_i18n( $row['requests'] ) ), esc_html( percent( $row['share'] ) ) );
	}
	echo '</tbody></table>';
}
