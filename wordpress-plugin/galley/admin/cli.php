<?php
/**
 * `wp galley`: purge, status, why.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

\WP_CLI::add_command( 'galley purge', __NAMESPACE__ . '\\cli_purge' );
\WP_CLI::add_command( 'galley status', __NAMESPACE__ . '\\cli_status' );
\WP_CLI::add_command( 'galley why', __NAMESPACE__ . '\\cli_why' );

/**
 * Purges pages.
 *
 * ## OPTIONS
 *
 * [<url>...]
 * : Addresses of pages.
 *
 * [--all]
 * : Everything.
 *
 * [--post=<id>]
 * : The page of a post, and what shows that post.
 *
 * [--tag=<tag>]
 * : What carries a tag.
 *
 * ## EXAMPLES
 *
 *     wp galley purge --all
 *     wp galley purge --post=12
 *     wp galley purge https://example.com/hello-world/
 *
 * @param string[] $urls  Addresses.
 * @param array    $flags Options.
 */
function cli_purge( $urls, $flags ): void {
	$list = cli_purges( (array) $urls, (array) $flags );
	if ( null === $list ) {
		\WP_CLI::error( __( 'Name what to purge: URLs, --all, --post=<id> or --tag=<tag>.', 'galley' ) );
		return;
	}
	foreach ( $list as list( $action, $what ) ) {
		null === $what ? do_action( $action ) : do_action( $action, $what );
	}
	// The purge is sent when this command ends, and is tried again later if the server does not acknowledge it.
	\WP_CLI::success( __( 'Purged.', 'galley' ) );
}

/**
 * The actions of a purge command; null where it says nothing. Pure.
 *
 * @param string[] $urls  Addresses.
 * @param array    $flags Options.
 * @return array<int, array{string, mixed}>|null
 */
function cli_purges( array $urls, array $flags ): ?array {
	$list = array();
	if ( ! empty( $flags['all'] ) ) {
		$list[] = array( 'galley_purge_all', null );
	}
	if ( isset( $flags['post'] ) && ctype_digit( (string) $flags['post'] ) ) {
		$list[] = array( 'galley_purge_post', (int) $flags['post'] );
	}
	if ( isset( $flags['tag'] ) && is_string( $flags['tag'] ) ) {
		$list[] = array( 'galley_purge_tags', array( $flags['tag'] ) );
	}
	foreach ( $urls as $url ) {
		$list[] = array( 'galley_purge_url', (string) $url );
	}
	return array() === $list ? null : $list;
}

/**
 * Shows whether Galley answers, and what it has done.
 */
function cli_status(): void {
	$answer = call( 'GET', '/status' );
	if ( 200 !== $answer['status'] ) {
		\WP_CLI::error( connection_trouble( $answer ) );
		return;
	}
	$site = own_site( $answer['body']['sites'] ?? null, own_host() );
	\WP_CLI::line( 'galley     ' . (string) ( $answer['body']['version'] ?? '' ) );
	\WP_CLI::line( 'site       ' . (string) ( $site['name'] ?? '-' ) );
	\WP_CLI::line( 'requests   ' . (int) ( $site['requests'] ?? 0 ) );
	\WP_CLI::line( 'hit ratio  ' . percent( $site['hit_ratio'] ?? null ) );
	\WP_CLI::line( 'purges     ' . (int) ( $site['purges'] ?? 0 ) );
	\WP_CLI::line( 'waiting    ' . pending_purges() );
}

/**
 * Explains how a page is cached.
 *
 * ## OPTIONS
 *
 * <url>
 * : The address of a page of this site.
 *
 * @param string[] $urls The address.
 */
function cli_why( $urls ): void {
	$url = own_url( (string) ( $urls[0] ?? '' ) );
	if ( null === $url ) {
		/* translators: %s: a host */
		\WP_CLI::error( sprintf( __( 'This URL is not on this site. URLs of this site begin with %s.', 'galley' ), home_url() ) );
		return;
	}
	$state = page_state( $url );
	\WP_CLI::line( $state['label'] );
	foreach ( array( 'why', 'what_to_do' ) as $part ) {
		if ( '' !== $state[ $part ] ) {
			\WP_CLI::line( $state[ $part ] );
		}
	}
}
