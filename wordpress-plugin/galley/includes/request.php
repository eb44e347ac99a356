<?php
/**
 * What the server says of the request at hand.
 *
 * Galley sends `Galley-Request` with everything it passes on and takes it from strangers: `shared` where the answer may
 * be stored, `whole` where it is for one client. Without it the request did not come through Galley, and nothing is gathered.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/**
 * Whether the answer may be stored for everybody, so that it has to say what it is made of.
 */
function is_shared(): bool {
	return 'shared' === ( $_SERVER['HTTP_GALLEY_REQUEST'] ?? '' ); // phpcs:ignore WordPress.Security -- compared only.
}

/**
 * Whether the answer is for one member: it says which of its parts are private, and what these are made of.
 */
function is_member_page(): bool {
	return 'member' === ( $_SERVER['HTTP_GALLEY_REQUEST'] ?? '' ); // phpcs:ignore WordPress.Security -- compared only.
}

/**
 * Whether the answer says what it is made of.
 */
function is_described(): bool {
	return is_shared() || is_member_page();
}

/**
 * Whether members get stored pages with parts of their own.
 */
function has_members(): bool {
	return 'fragments' === ( $_SERVER['HTTP_GALLEY_MEMBERS'] ?? '' ); // phpcs:ignore WordPress.Security -- compared only.
}

/**
 * Whether the answer passes through Galley, so that it may carry purges.
 */
function passes_through(): bool {
	return 'cli' !== PHP_SAPI && isset( $_SERVER['HTTP_GALLEY_REQUEST'] );
}

/**
 * Whether an answer to this request is taken in to its end whatever its client does.
 */
function runs_to_its_end(): bool {
	return ! in_array( $_SERVER['REQUEST_METHOD'] ?? 'GET', array( 'GET', 'HEAD', 'OPTIONS' ), true );
}

/**
 * The names of purges that the server has carried out and written to its log.
 *
 * @return array<string, true>
 */
function acknowledged(): array {
	$line = passes_through() ? (string) ( $_SERVER['HTTP_GALLEY_HEARD'] ?? '' ) : ''; // phpcs:ignore WordPress.Security -- compared only.
	preg_match_all( '/[A-Za-z0-9]+/', substr( $line, 0, 4096 ), $found );
	return array_fill_keys( $found[0], true );
}
