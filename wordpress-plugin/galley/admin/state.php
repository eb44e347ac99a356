<?php
/**
 * The state of the site in one line: green, amber or red, with a recommended action.
 *
 * Galley judges whether visitors are served (`health` in its status). The plugin adds what only WordPress knows: whether it reaches Galley,
 * development mode, purges that are not confirmed, and conflicts with other plugins.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** The state mentions a hit ratio below `LOW_RATIO`, provided that there are at least `REQUESTS_TO_JUDGE` requests. */
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
		'health'         => $status['body']['health'] ?? null,
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
	$problems = server_problems( $facts['health'] );
	if ( $problems && 'failing' === $problems[0]['level'] ) {
		return state( 'red', problem_label( $problems[0] ), problem_words( $problems ) );
	}
	if ( $facts['development'] > 0 ) {
		/* translators: %s: a time span such as "2 hours" */
		return state( 'amber', __( 'Development mode is on', 'galley' ), sprintf( __( 'PHP generates every page for every visitor. Development mode ends by itself in %s.', 'galley' ), age_in_words( $facts['development'] ) ) );
	}
	if ( $problems ) {
		return state( 'amber', problem_label( $problems[0] ), problem_words( $problems ) );
	}
	if ( $facts['pending'] > 0 ) {
		/* translators: %s: a number */
		return state( 'amber', __( 'Some changes are not visible yet', 'galley' ), sprintf( _n( '%s purge has not reached Galley. It is sent again automatically.', '%s purges have not reached Galley. They are sent again automatically.', $facts['pending'], 'galley' ), number_format_i18n( $facts['pending'] ) ) );
	}
	if ( $facts['defeats'] ) {
		$conflicts = count( $facts['defeats'] );
		/* translators: %s: a number */
		return state( 'amber', __( 'Caching problem', 'galley' ), sprintf( _n( '%s conflict prevents caching.', '%s conflicts prevent caching.', $conflicts, 'galley' ), number_format_i18n( $conflicts ) ) );
	}
	return judge_traffic( $facts['site'] );
}

/**
 * Derives the state of a site without errors from its traffic. Pure.
 *
 * @param array $site The site in `GET /status`.
 */
function judge_traffic( array $site ): array {
	list( $ratio, $requests ) = visitor_ratio( $site );
	if ( null !== $ratio && $ratio < LOW_RATIO && $requests >= REQUESTS_TO_JUDGE ) {
		/* translators: %s: a percentage */
		return state( 'green', __( 'Everything works', 'galley' ), sprintf( __( 'Only %s of visitors’ requests are answered from the cache.', 'galley' ), percent( $ratio ) ) );
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
 * Returns the problems in Galley's verdict, the worst first. A server of an earlier version gives none. Pure.
 *
 * @param mixed $health `health` in `GET /status`.
 * @return array<int, array{level: string, kind: string, problem: string, remedy: string, since: ?int}>
 */
function server_problems( $health ): array {
	$found = array();
	foreach ( is_array( $health['problems'] ?? null ) ? $health['problems'] : array() as $one ) {
		if ( is_array( $one ) && is_string( $one['problem'] ?? null ) && in_array( $one['level'] ?? null, array( 'failing', 'degraded' ), true ) ) {
			$found[] = array(
				'level'   => $one['level'],
				'kind'    => is_string( $one['kind'] ?? null ) ? $one['kind'] : '',
				'problem' => $one['problem'],
				'remedy'  => is_string( $one['remedy'] ?? null ) ? $one['remedy'] : '',
				'since'   => is_int( $one['since_s'] ?? null ) ? $one['since_s'] : null,
			);
		}
	}
	return $found;
}

/**
 * Returns a problem in a few words. Pure except for translations.
 *
 * @param array $problem From `server_problems()`.
 */
function problem_label( array $problem ): string {
	$labels = array(
		'upstream'      => __( 'PHP does not answer', 'galley' ),
		'errors'        => __( 'Pages end with errors', 'galley' ),
		'overload'      => __( 'PHP is overloaded', 'galley' ),
		'certificate'   => __( 'A certificate is about to expire', 'galley' ),
		'cron'          => __( 'Scheduled tasks fail', 'galley' ),
		'purge-forward' => __( 'Purges are pending', 'galley' ),
		'plugin'        => __( 'Pages come without this plugin', 'galley' ),
	);
	if ( isset( $labels[ $problem['kind'] ] ) && ! ( 'certificate' === $problem['kind'] && 'failing' === $problem['level'] ) ) {
		return $labels[ $problem['kind'] ];
	}
	return 'failing' === $problem['level'] ? __( 'Visitors get errors', 'galley' ) : __( 'Something needs attention', 'galley' );
}

/**
 * Returns the worst problem with its age, what to do, and how many more there are. Galley writes problems and remedies in English, as in
 * `galley status`.
 *
 * @param array[] $problems From `server_problems()`, at least one.
 */
function problem_words( array $problems ): string {
	$first = $problems[0];
	/* translators: 1: a problem, 2: a time span such as "5 mins" */
	$words = null === $first['since'] ? $first['problem'] : sprintf( __( '%1$s (for %2$s)', 'galley' ), $first['problem'], age_in_words( $first['since'] ) );
	$words = as_sentence( $words ) . ( '' === $first['remedy'] ? '' : ' ' . as_sentence( $first['remedy'] ) );
	$more  = count( $problems ) - 1;
	/* translators: %s: a number */
	return 0 === $more ? $words : $words . ' ' . sprintf( _n( '%s more problem: see the dashboard of Galley.', '%s more problems: see the dashboard of Galley.', $more, 'galley' ), number_format_i18n( $more ) );
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
		wp_kses( with_code( $state['why'] ), array( 'code' => array() ) )
	);
}

/**
 * Returns the text as HTML, with what is between backticks as code. Pure.
 */
function with_code( string $text ): string {
	return preg_replace( '/`([^`]+)`/', '<code>$1</code>', esc_html( $text ) );
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
