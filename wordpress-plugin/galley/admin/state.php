<?php
/**
 * The state of the site in one line: green, amber or red, with a recommended action.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** The state is amber if the hit ratio is below `LOW_RATIO`, provided that there are at least `REQUESTS_TO_JUDGE` requests. */
const LOW_RATIO         = 0.5;
const REQUESTS_TO_JUDGE = 200;

/** Reasons for which no cache may answer a request. */
const PERSONAL_PASSES = array( 'method', 'authorization', 'cookie', 'path', 'query', 'nonce', 'upgrade', 'body' );

/** Seconds for which the plugin stores the state. The admin bar requests it on every admin page. */
const STATE_SECONDS = 20;

add_action( 'wp_ajax_galley_site_state', __NAMESPACE__ . '\\on_site_state' );

/**
 * Collects the facts that determine the state.
 *
 * @param array $status Response to `GET /status`.
 * @return array Input of `judge_site()`.
 */
function site_facts( array $status ): array {
	$site = 200 === $status['status'] ? own_site( $status['body']['sites'] ?? null, own_site_host() ) : null;
	return array(
		'has_connection' => null !== connection(),
		'trouble'        => 200 === $status['status'] ? '' : connection_trouble( $status ),
		'site'           => $site,
		'pending'        => pending_purges(),
		'defeats'        => array_values( defeats() ),
		'development'    => development_left(),
	);
}

/**
 * Derives the state from the facts. Pure.
 *
 * @param array $facts From `site_facts()`.
 * @return array{color: string, label: string, why: string}
 */
function judge_site( array $facts ): array {
	if ( '' !== $facts['trouble'] ) {
		return state( 'red', $facts['has_connection'] ? __( 'Galley does not answer', 'galley' ) : __( 'Not connected to Galley', 'galley' ), $facts['trouble'] );
	}
	if ( null === $facts['site'] ) {
		/* translators: %s: a host such as example.com */
		return state( 'red', __( 'Galley does not serve this site', 'galley' ), sprintf( __( 'Galley answers, but its configuration has no site for %s.', 'galley' ), own_site_host() ) );
	}
	$paused = paused_servers( $facts['site'] );
	if ( $paused ) {
		/* translators: %s: addresses of PHP */
		return state( 'red', __( 'PHP does not answer', 'galley' ), sprintf( __( 'Visitors get stored pages as long as there are any. Check %s.', 'galley' ), implode( ', ', $paused ) ) );
	}
	if ( $facts['development'] > 0 ) {
		/* translators: %s: a time span such as "2 hours" */
		return state( 'amber', __( 'Development mode is on', 'galley' ), sprintf( __( 'PHP generates every page for every visitor. Development mode ends by itself in %s.', 'galley' ), age_in_words( $facts['development'] ) ) );
	}
	if ( $facts['pending'] > 0 ) {
		/* translators: %s: a number */
		return state( 'amber', __( 'Some changes are not visible yet', 'galley' ), sprintf( _n( '%s purge has not reached Galley. It is sent again automatically.', '%s purges have not reached Galley. They are sent again automatically.', $facts['pending'], 'galley' ), number_format_i18n( $facts['pending'] ) ) );
	}
	if ( $facts['defeats'] ) {
		return state( 'amber', __( 'Something works against the cache', 'galley' ), (string) $facts['defeats'][0] );
	}
	return judge_traffic( $facts['site'] );
}

/**
 * Derives the state of a site without errors from its traffic. Pure.
 *
 * @param array $site The site in `GET /status`.
 */
function judge_traffic( array $site ): array {
	$waiting = array_sum( array_map( 'intval', array_column( array_filter( (array) ( $site['upstreams'] ?? array() ), 'is_array' ), 'waiting' ) ) );
	if ( $waiting > 0 ) {
		/* translators: %s: a number */
		return state( 'amber', __( 'PHP is busy', 'galley' ), sprintf( _n( '%s request waits for PHP.', '%s requests wait for PHP.', $waiting, 'galley' ), number_format_i18n( $waiting ) ) );
	}
	list( $ratio, $requests ) = visitor_ratio( $site );
	if ( null !== $ratio && $ratio < LOW_RATIO && $requests >= REQUESTS_TO_JUDGE ) {
		/* translators: %s: a percentage */
		return state( 'amber', __( 'Few pages come from the cache', 'galley' ), sprintf( __( 'Only %s of visitors’ requests are answered from the cache. See below what costs PHP time.', 'galley' ), percent( $ratio ) ) );
	}
	/* translators: %s: a percentage */
	$words = null !== $ratio ? sprintf( __( '%s of visitors’ requests are answered from the cache.', 'galley' ), percent( $ratio ) ) : __( 'No visitor has requested a page since Galley started.', 'galley' );
	return state( 'green', __( 'Everything works', 'galley' ), $words );
}

/**
 * Returns the hit ratio of the requests that a cache can answer. It excludes admin pages, forms and logged-in users, because otherwise an
 * hour of editing would look like a problem of the cache. Pure.
 *
 * @param array $site The site in `GET /status`.
 * @return array{float|null, int} The ratio, or null if there are no such requests, and the number of these requests.
 */
function visitor_ratio( array $site ): array {
	$all  = (int) ( $site['requests'] ?? 0 );
	$hits = is_numeric( $site['hit_ratio'] ?? null ) ? $all * (float) $site['hit_ratio'] : 0.0;
	foreach ( PERSONAL_PASSES as $word ) {
		$all -= max( 0, (int) ( $site['reasons']['pass'][ $word ] ?? 0 ) );
	}
	return $all > 0 ? array( min( 1.0, $hits / $all ), $all ) : array( null, 0 );
}

/**
 * Builds the array that describes a state.
 *
 * @return array{color: string, label: string, why: string}
 */
function state( string $color, string $label, string $why ): array {
	return compact( 'color', 'label', 'why' );
}

/**
 * Returns the PHP servers of the upstreams in which no server answers: each server accepts no connections, has failed several times or
 * does not pass its health checks. As long as another server of the same upstream answers, visitors do not notice the failure. Pure.
 *
 * @return string[] Addresses, with the error if there is one.
 */
function paused_servers( array $site ): array {
	$paused = array();
	foreach ( (array) ( $site['upstreams'] ?? array() ) as $upstream ) {
		$servers = array_filter( (array) ( $upstream['servers'] ?? array() ), 'is_array' );
		$failing = array_filter(
			$servers,
			static function ( array $server ): bool {
				return isset( $server['connect_error'] ) || in_array( $server['state'] ?? '', array( 'paused', 'down' ), true );
			}
		);
		if ( count( $failing ) === count( $servers ) ) {
			foreach ( $failing as $server ) {
				$error    = is_string( $server['connect_error'] ?? null ) ? ': ' . $server['connect_error'] : '';
				$paused[] = (string) ( $server['address'] ?? '' ) . $error;
			}
		}
	}
	return $paused;
}

/**
 * Returns the state. The plugin requests it from the server at most once every `STATE_SECONDS` seconds.
 *
 * @return array{color: string, label: string, why: string}
 */
function recent_state(): array {
	$kept = get_transient( 'galley_state' );
	if ( is_array( $kept ) && is_string( $kept['color'] ?? null ) && is_string( $kept['label'] ?? null ) && is_string( $kept['why'] ?? null ) ) {
		return $kept;
	}
	$state = judge_site( site_facts( call( 'GET', '/status', null, 1.0 ) ) );
	set_transient( 'galley_state', $state, STATE_SECONDS );
	return $state;
}

/**
 * Prints the state. A symbol and the text repeat the information of the color.
 *
 * @param array{color: string, label: string, why: string} $state From `judge_site()`.
 */
function print_state( array $state ): void {
	$marks = array(
		'green' => '✓',
		'amber' => '!',
		'red'   => '✗',
	);
	printf(
		'<p class="galley-state-line is-%1$s" role="status"><span class="galley-mark" aria-hidden="true">%2$s</span> <strong>%3$s</strong> <span>%4$s</span></p>',
		esc_attr( $state['color'] ),
		esc_html( $marks[ $state['color'] ] ),
		esc_html( $state['label'] ),
		esc_html( $state['why'] )
	);
}

/**
 * Sends the state of the site to the script of the admin bar in wp-admin.
 */
function on_site_state(): void {
	check_ajax_referer( 'galley_page_state' );
	if ( ! may_manage() ) {
		wp_send_json_error( null, 403 );
	}
	$state   = recent_state();
	$classes = array(
		'green' => 'hit',
		'amber' => 'miss',
		'red'   => 'pass',
	);
	wp_send_json_success(
		array(
			'state'      => $classes[ $state['color'] ] ?? 'unknown',
			/* translators: %s: a state such as "Everything works" */
			'label'      => sprintf( __( 'Galley: %s', 'galley' ), $state['label'] ),
			'why'        => $state['why'],
			'what_to_do' => '',
		)
	);
}
