<?php
/**
 * Whether the answer at hand may be stored, and for how long.
 *
 * Edits are purges, so lifetimes are long; they end earlier only where something changes by itself: a scheduled post, a sale, midnight.
 * What shall not be stored says so in the ways that exist: `DONOTCACHEPAGE`, `nocache_headers()`, a session.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** A week: also what nobody purged goes then. */
const LIFETIME = 604800;

/** Missing pages: scans ask for many. */
const MISSING_LIFETIME = 3600;

const SEARCH_LIFETIME = 3600;

/** How long a page that has come to its end may answer while a new one is composed. */
const STALE = 86400;

$GLOBALS['galley_at_most'] = array();

/**
 * Notes that the page at hand is right for so many seconds only.
 */
function at_most( int $seconds ): void {
	$GLOBALS['galley_at_most'][] = max( 1, $seconds );
}

/**
 * Seconds from a time of day to the end of the day. Pure.
 */
function until_midnight( string $time ): int {
	$parts = array_map( 'intval', explode( ':', $time ) );
	return max( 1, 86400 - ( $parts[0] ?? 0 ) * 3600 - ( $parts[1] ?? 0 ) * 60 - ( $parts[2] ?? 0 ) );
}

/**
 * Why the answer at hand must not be stored; null where nothing forbids it.
 */
function forbidden(): ?string {
	$error = error_get_last();
	if ( $error && ( $error['type'] & ( E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR ) ) ) {
		return 'error';
	}
	/**
	 * Whether `DONOTCACHEPAGE` applies to the current page.
	 */
	if ( defined( 'DONOTCACHEPAGE' ) && DONOTCACHEPAGE && apply_filters( 'galley_obey_donotcachepage', true ) ) {
		return 'donotcachepage';
	}
	if ( development_left() > 0 ) {
		return 'development';
	}
	if ( is_excluded() ) {
		return 'excluded';
	}
	if ( function_exists( 'is_user_logged_in' ) && is_user_logged_in() ) {
		return 'logged-in';
	}
	// WordPress says so of every missing page, also if it then redirects to another.
	if ( ! is_missing() && says_nocache( headers_list() ) ) {
		return 'nocache-headers';
	}
	if ( did_action( 'wp' ) ) {
		if ( is_preview() || is_customize_preview() || isset( $_GET['unapproved'] ) ) { // phpcs:ignore WordPress.Security.NonceVerification -- looked at only.
			return 'preview';
		}
		if ( is_singular() && get_queried_object() instanceof \WP_Post && '' !== get_queried_object()->post_password ) {
			return 'password';
		}
	}
	return forbidden_by_shop();
}

/**
 * Whether WordPress did not find what was asked for.
 */
function is_missing(): bool {
	return 404 === http_response_code() || ( did_action( 'wp' ) && is_404() );
}

/**
 * Whether fields of an answer forbid to store it. Pure.
 *
 * @param string[] $fields As `headers_list()` gives them.
 */
function says_nocache( array $fields ): bool {
	return (bool) preg_grep( '/^(galley-)?cache-control:.*\b(no-cache|no-store|private)\b/i', $fields );
}

/**
 * Pages of a shop that are for one customer.
 */
function forbidden_by_shop(): ?string {
	if ( ! did_action( 'wp' ) ) {
		return null;
	}
	foreach ( array( 'is_cart', 'is_checkout', 'is_account_page', 'edd_is_checkout', 'edd_is_success_page', 'edd_is_purchase_history_page' ) as $page ) {
		if ( function_exists( $page ) && $page() ) {
			return 'shop';
		}
	}
	if ( function_exists( 'wc_notice_count' ) && isset( WC()->session ) && wc_notice_count() > 0 ) {
		return 'shop';
	}
	return null;
}

/**
 * Seconds for which the current response is fresh, and for which it may be sent after that while a new one is generated.
 *
 * @return array{int, int}
 */
function lifetime(): array {
	$chosen = choices()['lifetime'];
	$fresh  = $chosen > 0 ? $chosen : LIFETIME;
	if ( is_missing() ) {
		$fresh = min( $fresh, MISSING_LIFETIME );
	} elseif ( did_action( 'wp' ) && is_search() ) {
		$fresh = min( $fresh, SEARCH_LIFETIME );
	}
	$next = next_publication();
	if ( null !== $next ) {
		at_most( $next );
	}
	$sale = next_sale();
	if ( null !== $sale ) {
		at_most( $sale );
	}
	$fresh = min( array_merge( array( $fresh ), $GLOBALS['galley_at_most'] ) );
	/**
	 * Seconds for which the page at hand is fresh. Who makes it shorter knows when it becomes wrong: then it does not answer after that.
	 */
	$named = (int) apply_filters( 'galley_lifetime', $fresh );
	$stale = $named < $fresh || is_missing() ? 0 : STALE;
	$fresh = $named;
	/**
	 * Seconds for which it may be sent after that while a new one is generated.
	 */
	$stale = (int) apply_filters( 'galley_stale', $stale );
	return array( $fresh, max( 0, $stale ) );
}

/**
 * Seconds to the next scheduled post. WordPress publishes on visits, so a page has to reach PHP then.
 */
function next_publication(): ?int {
	if ( defined( 'DISABLE_WP_CRON' ) && DISABLE_WP_CRON && tasks_are_acknowledged() ) {
		// Visits publish nothing: the scheduled tasks do, and purge what they change.
		return null;
	}
	foreach ( _get_cron_array() ? _get_cron_array() : array() as $time => $tasks ) {
		if ( isset( $tasks['publish_future_post'] ) ) {
			// A task that is late is started by this very visit, or never runs here: neither is a reason to compose all the time.
			return max( 60, (int) $time - time() );
		}
	}
	return null;
}

/**
 * Seconds to the next beginning or end of a sale among the products of the page (WooCommerce).
 */
function next_sale(): ?int {
	if ( ! function_exists( 'wc_get_product' ) ) {
		return null;
	}
	$next = null;
	foreach ( array_keys( tags_of_all_parts() ) as $tag ) {
		if ( ! preg_match( '/^(?:\d+\.)?(?:p|pl|pm)(\d+)$/D', (string) $tag, $found ) || 'product' !== get_post_type( (int) $found[1] ) ) {
			continue;
		}
		foreach ( array( '_sale_price_dates_from', '_sale_price_dates_to' ) as $key ) {
			$moment = (int) get_post_meta( (int) $found[1], $key, true );
			if ( $moment > time() ) {
				$next = min( $next ?? PHP_INT_MAX, $moment - time() );
			}
		}
	}
	return $next;
}
