<?php
/**
 * Preloads pages: after a full purge, requests the pages of the sitemaps and menus one after another, so that they are stored before visitors
 * request them.
 *
 * Preloading runs in batches, as tasks of WordPress's scheduler. Before each page, it checks whether PHP has spare capacity. It stops until the
 * next batch if requests wait, if PHP is paused, or if the site returns status 429 or 503. It skips pages that are already stored. The number
 * of addresses, the duration of a batch and the number of failures are limited.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

const MAX_PRELOADED    = 2000;
const PRELOAD_SECONDS  = 20.0;
const PRELOAD_PAUSE    = 30;
const PRELOAD_FAILURES = 5;

/** Number of addresses in one status query to the server. */
const PRELOAD_CHUNK = 20;

add_action( 'galley_preload', __NAMESPACE__ . '\\preload_batch' );
add_action( 'switch_theme', __NAMESPACE__ . '\\preload_after_purge' );

/**
 * Starts preloading after a full purge, if this is enabled in the settings.
 */
function preload_after_purge(): void {
	if ( choices()['preload'] ) {
		start_preload();
	}
}

/**
 * Starts preloading from the beginning. The first batch collects the addresses.
 */
function start_preload(): void {
	update_option(
		'galley_preload',
		array(
			'state'    => 'waiting',
			'began'    => time(),
			'queue'    => null,
			'total'    => 0,
			'done'     => 0,
			'failures' => 0,
		),
		false
	);
	schedule_preload( 1 );
}

function stop_preload(): void {
	wp_clear_scheduled_hook( 'galley_preload' );
	delete_option( 'galley_preload' );
}

function schedule_preload( int $seconds ): void {
	wp_clear_scheduled_hook( 'galley_preload' );
	wp_schedule_single_event( time() + $seconds, 'galley_preload' );
}

/**
 * Returns the progress of preloading, or null if there is none.
 *
 * @return array{state: string, began: int, queue: ?array, total: int, done: int, failures: int}|null
 */
function preload_progress(): ?array {
	$at = get_option( 'galley_preload' );
	if ( ! is_array( $at ) || ! is_string( $at['state'] ?? null ) ) {
		return null;
	}
	return array(
		'state'    => $at['state'],
		'began'    => (int) ( $at['began'] ?? 0 ),
		'queue'    => is_array( $at['queue'] ?? null ) ? array_values( array_filter( $at['queue'], 'is_string' ) ) : null,
		'total'    => (int) ( $at['total'] ?? 0 ),
		'done'     => (int) ( $at['done'] ?? 0 ),
		'failures' => (int) ( $at['failures'] ?? 0 ),
	);
}

/**
 * Runs one batch.
 */
function preload_batch(): void {
	$at = preload_progress();
	if ( null === $at || 'done' === $at['state'] || development_left() > 0 ) {
		return;
	}
	if ( null === $at['queue'] ) {
		$at['queue'] = preload_addresses();
		$at['total'] = count( $at['queue'] );
	}
	$began       = microtime( true );
	$at['state'] = 'running';
	while ( $at['queue'] && 'running' === $at['state'] && microtime( true ) - $began < PRELOAD_SECONDS ) {
		$at = preload_chunk( $at, $began + PRELOAD_SECONDS );
	}
	if ( ! $at['queue'] && 'failed' !== $at['state'] ) {
		$at['state'] = 'done';
	}
	// If another request has stopped or restarted preloading in the meantime, its change takes precedence.
	wp_cache_delete( 'galley_preload', 'options' );
	$now = preload_progress();
	if ( null === $now || $now['began'] !== $at['began'] ) {
		return;
	}
	update_option( 'galley_preload', $at, false );
	if ( in_array( $at['state'], array( 'running', 'busy' ), true ) ) {
		schedule_preload( 'busy' === $at['state'] ? PRELOAD_PAUSE : 1 );
	}
}

/**
 * Processes some addresses of the queue. Requests those that are not stored, as long as PHP has capacity.
 *
 * @param array $at    Progress as returned by `preload_progress()`.
 * @param float $until Unix time.
 */
function preload_chunk( array $at, float $until ): array {
	$urls  = array_splice( $at['queue'], 0, PRELOAD_CHUNK );
	$pages = pages_states( $urls );
	while ( $urls ) {
		$url = array_shift( $urls );
		if ( in_array( $pages[ $url ]['what'] ?? '', array( 'hit', 'stale', 'pass', 'file', 'redirect', 'refused' ), true ) ) {
			++$at['done'];
			continue;
		}
		$load = call( 'GET', '/status', null, 1.0 );
		if ( microtime( true ) >= $until || ! has_capacity( own_site( $load['body']['sites'] ?? null, own_site_host() ) ) ) {
			array_unshift( $urls, $url );
			$at['state'] = microtime( true ) >= $until ? 'running' : 'busy';
			break;
		}
		$status = preload_page( $url );
		if ( 429 === $status || 503 === $status ) {
			array_unshift( $urls, $url );
			$at['state'] = 'busy';
			break;
		}
		++$at['done'];
		$at['failures'] = 0 === $status ? $at['failures'] + 1 : 0;
		if ( $at['failures'] >= PRELOAD_FAILURES ) {
			$at['state'] = 'failed';
			break;
		}
	}
	$at['queue'] = array_merge( $urls, $at['queue'] );
	return $at;
}

/**
 * Checks whether PHP has capacity for a page that no visitor waits for: no request waits, no server is paused, and a worker is free. Pure.
 *
 * @param array|null $site Entry of the site in the response to `GET /status`.
 */
function has_capacity( ?array $site ): bool {
	if ( null === $site || ! is_array( $site['upstreams'] ?? null ) ) {
		return false;
	}
	foreach ( $site['upstreams'] as $upstream ) {
		$states = array_column( (array) ( $upstream['servers'] ?? array() ), 'state' );
		if ( (int) ( $upstream['waiting'] ?? 0 ) > 0 || in_array( 'paused', $states, true ) ) {
			return false;
		}
		if ( (int) ( $upstream['in_flight'] ?? 0 ) >= (int) ( $upstream['slots'] ?? 0 ) ) {
			return false;
		}
	}
	return array() !== $site['upstreams'];
}

/**
 * Requests a page as a crawler, so that Galley gives priority to requests of visitors.
 *
 * @return int HTTP status, or 0 if there was no response.
 */
function preload_page( string $url ): int {
	$answer = wp_remote_get(
		$url,
		array(
			'timeout'             => 10,
			'redirection'         => 0,
			'user-agent'          => 'Mozilla/5.0 (compatible; GalleyPreload-bot/' . VERSION . ')',
			'headers'             => array( 'Accept' => 'text/html,application/xhtml+xml;q=0.9,*/*;q=0.8' ),
			'cookies'             => array(),
			'limit_response_size' => 1048576,
			'sslverify'           => apply_filters( 'https_local_ssl_verify', false ), // phpcs:ignore WordPress.NamingConventions -- WordPress's own.
		)
	);
	return is_wp_error( $answer ) ? 0 : (int) wp_remote_retrieve_response_code( $answer );
}

/**
 * Returns the addresses of the front page, the menus and the sitemaps, in this order and without duplicates.
 *
 * @return string[]
 */
function preload_addresses(): array {
	$urls = array_merge( array( home_url( '/' ) ), menu_addresses(), sitemap_addresses() );
	/**
	 * Filters the addresses to preload. The most important address comes first.
	 */
	$urls  = (array) apply_filters( 'galley_preload_urls', $urls );
	$clean = array();
	foreach ( array_filter( $urls, 'is_string' ) as $url ) {
		$own = own_address( $url );
		if ( null !== $own && count( $clean ) < MAX_PRELOADED ) {
			$clean[ $own ] = $own;
		}
	}
	return array_values( $clean );
}

/**
 * Returns the addresses in the menus that are assigned to a location.
 *
 * @return string[]
 */
function menu_addresses(): array {
	$urls = array();
	foreach ( array_unique( array_filter( (array) get_nav_menu_locations() ) ) as $menu ) {
		foreach ( (array) wp_get_nav_menu_items( (int) $menu ) as $item ) {
			if ( is_object( $item ) && is_string( $item->url ?? null ) ) {
				$urls[] = $item->url;
			}
		}
	}
	return $urls;
}

/**
 * Returns the addresses in the sitemaps of WordPress core. A plugin that replaces these sitemaps can add addresses with the filter
 * `galley_preload_urls`.
 *
 * @return string[]
 */
function sitemap_addresses(): array {
	$urls = array();
	foreach ( wp_get_sitemap_providers() as $provider ) {
		$types = $provider->get_object_subtypes();
		foreach ( $types ? array_keys( $types ) : array( '' ) as $type ) {
			$most = (int) $provider->get_max_num_pages( (string) $type );
			$page = 0;
			while ( ++$page <= $most && count( $urls ) < MAX_PRELOADED ) {
				$rows = (array) $provider->get_url_list( $page, (string) $type );
				$urls = array_merge( $urls, array_column( $rows, 'loc' ) );
			}
		}
	}
	return $urls;
}
