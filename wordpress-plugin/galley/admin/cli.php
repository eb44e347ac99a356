<?php
/**
 * `wp galley`: purge, status, why, log, preload, development, object-cache.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

\WP_CLI::add_command( 'galley purge', __NAMESPACE__ . '\\cli_purge' );
\WP_CLI::add_command( 'galley status', __NAMESPACE__ . '\\cli_status' );
\WP_CLI::add_command( 'galley why', __NAMESPACE__ . '\\cli_why' );
\WP_CLI::add_command( 'galley log', __NAMESPACE__ . '\\cli_log' );
\WP_CLI::add_command( 'galley preload', __NAMESPACE__ . '\\cli_preload' );
\WP_CLI::add_command( 'galley development', __NAMESPACE__ . '\\cli_development' );

\WP_CLI::add_command( 'galley object-cache', __NAMESPACE__ . '\\cli_object_cache' );

/**
 * Shows the state of the object cache, or switches it on or off.
 *
 * ## OPTIONS
 *
 * [<action>]
 * : `on` or `off`. Without it, the command shows the state.
 *
 * @param string[] $arguments Action.
 */
function cli_object_cache( $arguments ): void {
	$action = (string) ( $arguments[0] ?? '' );
	if ( 'off' === $action ) {
		remove_drop_in();
	} elseif ( 'on' === $action ) {
		$why = install_drop_in();
		if ( '' !== $why ) {
			\WP_CLI::error( $why );
		}
	} else {
		$status = call( 'GET', '/status' );
		$site   = own_site( $status['body']['sites'] ?? null, own_site_host() );
		\WP_CLI::line( object_cache_state_words( object_cache_state() ) . ' ' . object_cache_words( $site['object_cache'] ?? null ) );
		return;
	}
	\WP_CLI::success( 'on' === $action ? __( 'The object cache is on.', 'galley' ) : __( 'The object cache is off.', 'galley' ) );
}

/**
 * Purges pages.
 *
 * ## OPTIONS
 *
 * [<url>...]
 * : Addresses of pages.
 *
 * [--all]
 * : All pages.
 *
 * [--post=<id>]
 * : The page of a post, and all pages that show the post.
 *
 * [--tag=<tag>]
 * : All pages with a tag.
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
	note_cause( 'command' );
	foreach ( $list as list( $action, $what ) ) {
		null === $what ? do_action( $action ) : do_action( $action, $what );
	}
	// The plugin sends the purge when this command ends, and sends it again later if the server does not acknowledge it.
	\WP_CLI::success( __( 'Purged.', 'galley' ) );
}

/**
 * Returns the actions of a purge command, or null if the command names nothing to purge. Pure.
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
 * Shows whether Galley answers, and statistics of the site.
 *
 * ## OPTIONS
 *
 * [--format=<format>]
 * : Output format.
 * ---
 * options:
 *   - table
 *   - json
 *   - csv
 *   - yaml
 * ---
 *
 * @param string[] $none  No arguments.
 * @param array    $flags Options.
 */
function cli_status( $none = array(), $flags = array() ): void {
	$answer = call( 'GET', '/status' );
	if ( 200 !== $answer['status'] ) {
		\WP_CLI::error( connection_trouble( $answer ) );
		return;
	}
	$facts = site_facts( $answer );
	$state = judge_site( $facts );
	$site  = $facts['site'];
	$rows  = array(
		'galley'      => (string) ( $answer['body']['version'] ?? '' ),
		'site'        => (string) ( $site['name'] ?? '-' ),
		'state'       => $state['color'],
		'requests'    => (int) ( $site['requests'] ?? 0 ),
		'hit ratio'   => percent( $site['hit_ratio'] ?? null ),
		'purges'      => (int) ( $site['purges'] ?? 0 ),
		'waiting'     => $facts['pending'],
		'development' => $facts['development'],
	);
	$table = array();
	foreach ( $rows as $field => $value ) {
		$table[] = compact( 'field', 'value' );
	}
	cli_print( $table, array( 'field', 'value' ), (array) $flags );
}

/**
 * Prints rows in the requested format, or as plain lines without a format.
 *
 * @param array[]  $rows    Values by column.
 * @param string[] $columns Names of the columns.
 * @param array    $flags   Options.
 */
function cli_print( array $rows, array $columns, array $flags ): void {
	$format = is_string( $flags['format'] ?? null ) ? $flags['format'] : '';
	if ( 'json' === $format ) {
		\WP_CLI::line( (string) wp_json_encode( $rows ) );
	} elseif ( '' !== $format ) {
		\WP_CLI\Utils\format_items( $format, $rows, $columns );
	} else {
		foreach ( $rows as $row ) {
			$first = (string) array_shift( $row );
			\WP_CLI::line( str_pad( $first, 11 ) . implode( '  ', $row ) );
		}
	}
}

/**
 * Shows the last purges, and what caused them.
 *
 * ## OPTIONS
 *
 * [--format=<format>]
 * : Output format.
 * ---
 * options:
 *   - table
 *   - json
 *   - csv
 *   - yaml
 * ---
 *
 * @param string[] $none  No arguments.
 * @param array    $flags Options.
 */
function cli_log( $none = array(), $flags = array() ): void {
	require_once __DIR__ . '/purge-words.php';
	$rows = array();
	foreach ( purge_log() as $row ) {
		$rows[] = array(
			'time'  => gmdate( 'Y-m-d H:i:s', $row['time'] ),
			'purge' => purge_sentence( $row, 0 ),
		);
	}
	cli_print( $rows, array( 'time', 'purge' ), (array) $flags );
}

/**
 * Preloads the pages of the sitemaps and menus, in the background, while PHP has capacity.
 *
 * ## OPTIONS
 *
 * [--stop]
 * : Stops preloading.
 *
 * @param string[] $none  No arguments.
 * @param array    $flags Options.
 */
function cli_preload( $none, $flags ): void {
	if ( ! empty( $flags['stop'] ) ) {
		stop_preload();
		\WP_CLI::success( __( 'Preloading is stopped.', 'galley' ) );
		return;
	}
	start_preload();
	\WP_CLI::success( __( 'Preloading begins with the next run of the scheduled tasks.', 'galley' ) );
}

/**
 * Turns development mode on, for two hours, or off.
 *
 * ## OPTIONS
 *
 * <state>
 * : The new state.
 * ---
 * options:
 *   - on
 *   - off
 * ---
 *
 * @param string[] $words `on` or `off`.
 */
function cli_development( $words ): void {
	$wanted = (string) ( $words[0] ?? '' );
	if ( ! in_array( $wanted, array( 'on', 'off' ), true ) ) {
		\WP_CLI::error( __( 'Say on or off.', 'galley' ) );
		return;
	}
	set_development( 'on' === $wanted );
	\WP_CLI::success( 'on' === $wanted ? __( 'Development mode is on, and all pages are purged.', 'galley' ) : __( 'Development mode is off. Pages are stored again.', 'galley' ) );
}

/**
 * Explains how a page is cached.
 *
 * ## OPTIONS
 *
 * <url>
 * : The address of a page of this site.
 *
 * [--format=<format>]
 * : Output format.
 * ---
 * options:
 *   - table
 *   - json
 *   - csv
 *   - yaml
 * ---
 *
 * @param string[] $urls  The address.
 * @param array    $flags Options.
 */
function cli_why( $urls, $flags = array() ): void {
	$url = own_address( (string) ( $urls[0] ?? '' ) );
	if ( null === $url ) {
		/* translators: %s: a host */
		\WP_CLI::error( sprintf( __( 'This URL is not on this site. URLs of this site begin with %s.', 'galley' ), home_url() ) );
		return;
	}
	$state = page_state( $url );
	if ( isset( $flags['format'] ) ) {
		cli_print( array( array( 'url' => $url ) + $state ), array( 'url', 'state', 'label', 'why', 'what_to_do' ), (array) $flags );
		return;
	}
	\WP_CLI::line( $state['label'] );
	foreach ( array( 'why', 'what_to_do' ) as $part ) {
		if ( '' !== $state[ $part ] ) {
			\WP_CLI::line( $state[ $part ] );
		}
	}
}
