<?php
/**
 * Reads what the server sends about the current request.
 *
 * Galley adds `Galley-Request` to each request that it forwards, and removes the header field from requests of clients. The value is
 * `shared` if Galley may store the response for all visitors, `member` if the response is for one member, and `whole` if it is for one
 * client. Without the field, the request did not pass through Galley, and the plugin gathers nothing.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/**
 * Returns whether Galley may store the response for all visitors. The response then has to list its tags.
 */
function is_shared(): bool {
	return 'shared' === ( $_SERVER['HTTP_GALLEY_REQUEST'] ?? '' ); // phpcs:ignore WordPress.Security -- compared only.
}

/**
 * Returns whether the response is for one member. The response then names its private parts and their tags.
 */
function is_member_page(): bool {
	return 'member' === ( $_SERVER['HTTP_GALLEY_REQUEST'] ?? '' ); // phpcs:ignore WordPress.Security -- compared only.
}

/**
 * Returns whether the response has to list its tags.
 */
function is_described(): bool {
	return is_shared() || is_member_page();
}

/**
 * Returns whether members get stored pages with private parts (`members = "fragments"`).
 */
function has_members(): bool {
	return 'fragments' === ( $_SERVER['HTTP_GALLEY_MEMBERS'] ?? '' ); // phpcs:ignore WordPress.Security -- compared only.
}

/**
 * Returns whether the response passes through Galley, so that its header can carry purges.
 */
function passes_through(): bool {
	return 'cli' !== PHP_SAPI && isset( $_SERVER['HTTP_GALLEY_REQUEST'] );
}

/**
 * Returns whether Galley reads the response to its end even if the client disconnects.
 */
function runs_to_its_end(): bool {
	return ! in_array( $_SERVER['REQUEST_METHOD'] ?? 'GET', array( 'GET', 'HEAD', 'OPTIONS', 'QUERY' ), true );
}

/**
 * Returns the names of purges that the server has carried out and written to its log.
 *
 * @return array<string, true>
 */
function acknowledged(): array {
	$line = passes_through() ? (string) ( $_SERVER['HTTP_GALLEY_ACKNOWLEDGED'] ?? '' ) : ''; // phpcs:ignore WordPress.Security -- compared only.
	preg_match_all( '/[A-Za-z0-9]+/', substr( $line, 0, 4096 ), $found );
	return array_fill_keys( $found[0], true );
}
