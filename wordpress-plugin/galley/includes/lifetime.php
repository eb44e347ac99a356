<?php
/**
 * Decides whether Galley may store the current response, and for how long.
 *
 * Edits purge pages, so lifetimes are long. A lifetime is shorter only if time alone changes the page: at a scheduled post, at the start or
 * end of a sale, or at midnight. A response that must not be stored indicates it in the usual ways: `DONOTCACHEPAGE`, `nocache_headers()`,
 * a session.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Default lifetime in seconds: a week. It also limits the age of a page whose purge is missing. */
const LIFETIME = 604800;

/** Maximum lifetime of missing pages in seconds. Scanners request many of them. */
const MISSING_LIFETIME = 3600;

const SEARCH_LIFETIME = 3600;

/** Seconds for which Galley may serve an expired page while PHP generates a new one. */
const STALE = 86400;

/** Lifetime in seconds of pages while the task that publishes a scheduled post is late. */
const LATE_LIFETIME = 60;

/** Seconds after which the current page is wrong. The least of them counts. */
$GLOBALS['galley_at_most'] = array();

/**
 * Notes that the current page is wrong after a number of seconds. Galley then serves it neither as fresh nor as stale.
 */
function at_most( int $seconds ): void {
	$GLOBALS['galley_at_most'][] = max( 1, $seconds );
}

/**
 * Returns the seconds after which the current page is wrong, or null if only an edit makes it wrong.
 */
function wrong_after(): ?int {
	return $GLOBALS['galley_at_most'] ? min( $GLOBALS['galley_at_most'] ) : null;
}

/**
 * Returns the seconds from a time of day to the end of the day. Pure.
 */
function until_midnight( string $time ): int {
	$parts = array_map( 'intval', explode( ':', $time ) );
	return max( 1, 86400 - ( $parts[0] ?? 0 ) * 3600 - ( $parts[1] ?? 0 ) * 60 - ( $parts[2] ?? 0 ) );
}

/**
 * Returns the reason why the current response must not be stored, or null if there is none.
 */
function forbidden(): ?string {
	$error = error_get_last();
	if ( $error && ( $error['type'] & ( E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR ) ) ) {
		return 'error';
	}
	/**
	 * Filters whether `DONOTCACHEPAGE` applies to the current page.
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
	// WordPress sends these fields with every missing page, even if it then redirects to another page.
	if ( ! is_missing() && says_nocache( headers_list() ) ) {
		return 'nocache-headers';
	}
	if ( did_action( 'wp' ) ) {
		if ( is_preview() || is_customize_preview() || isset( $_GET['unapproved'] ) ) { // phpcs:ignore WordPress.Security.NonceVerification -- the value is not used.
			return 'preview';
		}
		if ( is_singular() && get_queried_object() instanceof \WP_Post && '' !== get_queried_object()->post_password ) {
			return 'password';
		}
	}
	return forbidden_by_shop();
}

/**
 * Returns whether the requested page is missing.
 */
function is_missing(): bool {
	return 404 === http_response_code() || ( did_action( 'wp' ) && is_404() );
}

/**
 * Returns whether the header fields of a response forbid storing it. Pure.
 *
 * @param string[] $fields As `headers_list()` returns them.
 */
function says_nocache( array $fields ): bool {
	return (bool) preg_grep( '/^(galley-)?cache-control:.*\b(no-cache|no-store|private)\b/i', $fields );
}

/**
 * Returns `shop` if the current page of a shop is for one customer, else null.
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
 * Returns the seconds for which the current response is fresh, and the seconds after that for which Galley may serve it while PHP generates
 * a new one.
 *
 * @return array{int, int}
 */
function lifetime(): array {
	if ( lacks_kept_html() ) {
		// Soon a request gets what is missing here. The server would not ask again for a page that must not be stored, or that takes longer to
		// generate than it lives.
		at_most( LACKING_LIFETIME );
	}
	$chosen = choices()['lifetime'];
	$fresh  = $chosen > 0 ? $chosen : LIFETIME;
	if ( is_missing() ) {
		$fresh = min( $fresh, MISSING_LIFETIME );
	} elseif ( did_action( 'wp' ) && is_search() ) {
		$fresh = min( $fresh, SEARCH_LIFETIME );
	}
	$next = next_publication();
	if ( null !== $next && $next > 0 ) {
		at_most( $next );
	} elseif ( null !== $next ) {
		// A late task either starts on this visit or never runs here. Neither is a reason to generate pages all the time.
		$fresh = min( $fresh, LATE_LIFETIME );
	}
	note_next_sale();
	if ( ob_get_level() === $GLOBALS['galley_buffer_level'] ) {
		note_relative_times( (string) ob_get_contents() );
	}
	$good  = note_printed_nonces();
	$fresh = min( $fresh, $good, wrong_after() ?? $fresh );
	/**
	 * Filters the seconds for which the current page is fresh. If a callback shortens them, it knows when the page becomes wrong, so Galley
	 * does not serve the page after that. If it makes them longer, the page still ends when it becomes wrong.
	 */
	$named = min( (int) apply_filters( 'galley_lifetime', $fresh ), $good, wrong_after() ?? PHP_INT_MAX );
	/**
	 * Filters the seconds for which Galley may serve the expired page while PHP generates a new one.
	 */
	$stale = (int) apply_filters( 'galley_stale', is_missing() ? 0 : stale_window( $fresh, $named, wrong_after() ) );
	return array( $named, until_wrong( $stale, $named, wrong_after() ) );
}

/**
 * Limits the seconds for which Galley may serve an expired page to the time at which the page becomes wrong. Pure.
 *
 * @param int      $stale       Seconds after the lifetime.
 * @param int      $named       Seconds for which the page is fresh.
 * @param int|null $wrong_after Seconds after which the page is wrong.
 */
function until_wrong( int $stale, int $named, ?int $wrong_after ): int {
	return max( 0, null === $wrong_after ? $stale : min( $stale, $wrong_after - $named ) );
}

/**
 * Returns the seconds for which Galley may serve an expired page. They end when the page becomes wrong. Pure.
 *
 * @param int      $fresh       Seconds for which the page is fresh, before callbacks change them.
 * @param int      $named       The same, after callbacks have changed them.
 * @param int|null $wrong_after Seconds after which the page is wrong.
 */
function stale_window( int $fresh, int $named, ?int $wrong_after ): int {
	return $named < $fresh ? 0 : until_wrong( STALE, $named, $wrong_after );
}

/**
 * Returns the lifetime that other code has set for the current page, or null. Pure.
 *
 * @param string[] $fields As `headers_list()` returns them.
 */
function stated_lifetime( array $fields ): ?int {
	$stated = preg_grep( '/^cache-control:/i', $fields );
	foreach ( array( 's-maxage', 'max-age' ) as $name ) {
		if ( preg_match( "/[:,\s]$name=\"?(\d+)/i", implode( ',', $stated ), $found ) ) {
			return (int) $found[1];
		}
	}
	return null;
}

/**
 * Returns the seconds to the next scheduled post, not above 0 if its task is late, or null if no page has to wait for it. WordPress publishes
 * scheduled posts on visits, so a request has to reach PHP at that time.
 */
function next_publication(): ?int {
	if ( defined( 'DISABLE_WP_CRON' ) && DISABLE_WP_CRON && tasks_are_acknowledged() ) {
		// Visits do not publish posts here. The server runs the scheduled tasks, and their changes purge pages.
		return null;
	}
	foreach ( _get_cron_array() ? _get_cron_array() : array() as $time => $tasks ) {
		if ( isset( $tasks['publish_future_post'] ) ) {
			return (int) $time - time();
		}
	}
	return null;
}

/**
 * Limits the lifetime of the page to the next start or end of a sale among its products and their variations (WooCommerce).
 */
function note_next_sale(): void {
	global $wpdb;
	if ( ! function_exists( 'wc_get_product' ) ) {
		return;
	}
	$shown = preg_replace( '/^' . preg_quote( blog_prefix(), '/' ) . '(?:p|pl|pm|ps)(\d+)$/D', '=$1', array_keys( tags_of_all_parts() ) );
	$ids   = implode( ',', array_map( 'intval', str_replace( '=', '', preg_grep( '/^=\d+$/D', $shown ) ) ) );
	if ( '' === $ids ) {
		return;
	}
	// A sale that starts or ends while PHP generates the page leaves it unknown which of the prices the page has.
	$since = (int) ( $_SERVER['REQUEST_TIME'] ?? time() );
	$sql   = "SELECT MIN(m.meta_value + 0) FROM $wpdb->posts p JOIN $wpdb->postmeta m ON m.post_id = p.ID WHERE (p.ID IN ($ids) OR p.post_parent IN ($ids)) AND p.post_type IN ('product', 'product_variation') AND m.meta_key IN ('_sale_price_dates_from', '_sale_price_dates_to') AND m.meta_value + 0 >= %d";
	// phpcs:ignore WordPress.DB -- integers; the rest is ours.
	$next = $wpdb->get_var( $wpdb->prepare( $sql, $since ) );
	if ( null !== $next ) {
		at_most( (int) $next - time() );
	}
}
