<?php
/**
 * Settings > Galley: whether the server answers, what it has done in the last day, and how it is reached.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

add_action( 'admin_menu', __NAMESPACE__ . '\\settings_menu' );
add_filter( 'plugin_action_links_' . plugin_basename( dirname( __DIR__ ) . '/galley.php' ), __NAMESPACE__ . '\\settings_link' );

function settings_menu(): void {
	add_options_page( __( 'Galley', 'galley' ), __( 'Galley', 'galley' ), 'manage_options', 'galley', __NAMESPACE__ . '\\settings_page' );
}

/**
 * @param string[] $links Of the list of plugins.
 * @return string[]
 */
function settings_link( $links ): array {
	$link = sprintf( '<a href="%s">%s</a>', esc_url( admin_url( 'options-general.php?page=galley' ) ), esc_html__( 'Settings', 'galley' ) );
	return array_merge( array( $link ), (array) $links );
}

function settings_page(): void {
	if ( ! may_manage() ) {
		refuse();
	}
	$status = call( 'GET', '/status' );
	echo '<div class="wrap galley-settings"><h1>', esc_html__( 'Galley', 'galley' ), '</h1>';
	said_box();
	settings_connection( $status );
	if ( 200 === $status['status'] ) {
		settings_numbers( own_site( $status['body']['sites'] ?? null, own_host() ) );
		settings_day();
	}
	settings_purge();
	settings_form();
	echo '</div>';
}

/**
 * What the last click did.
 */
function said_box(): void {
	// phpcs:ignore WordPress.Security.NonceVerification -- chooses a sentence.
	$done = isset( $_GET['galley'] ) ? sanitize_key( wp_unslash( $_GET['galley'] ) ) : '';
	$says = array(
		'purged-page' => __( 'The page is purged.', 'galley' ),
		'purged-all'  => __( 'All pages are purged.', 'galley' ),
		'saved'       => __( 'The connection is saved.', 'galley' ),
		'not-saved'   => __( 'Invalid address. Use unix:/path or http://host:port.', 'galley' ),
	);
	if ( isset( $says[ $done ] ) ) {
		printf( '<div class="notice notice-%s is-dismissible"><p>%s</p></div>', 'not-saved' === $done ? 'error' : 'success', esc_html( $says[ $done ] ) );
	}
}

/**
 * @param array $status The answer to `GET /status`.
 */
function settings_connection( array $status ): void {
	$connection = connection();
	$sources    = array(
		'constants' => __( 'constants in wp-config.php', 'galley' ),
		'file'      => __( 'the file that `galley plugin install` has written', 'galley' ),
		'settings'  => __( 'this page', 'galley' ),
		'none'      => __( 'nowhere', 'galley' ),
	);
	echo '<h2>', esc_html__( 'Connection', 'galley' ), '</h2><table class="form-table galley-connection" role="presentation"><tbody>';
	if ( 200 === $status['status'] ) {
		/* translators: 1: version number, 2: time span */
		$said = sprintf( __( 'Connected to Galley %1$s, running for %2$s.', 'galley' ), (string) ( $status['body']['version'] ?? '' ), age_in_words( (int) ( $status['body']['uptime_s'] ?? 0 ) ) );
		settings_row( __( 'Check', 'galley' ), '✓ ' . $said, 'is-fine' );
	} else {
		settings_row( __( 'Check', 'galley' ), '✗ ' . connection_trouble( $status ), 'is-broken' );
	}
	settings_row( __( 'Address', 'galley' ), $connection['address'] ?? '–' );
	settings_row( __( 'Token', 'galley' ), masked( $connection['token'] ?? '' ) );
	settings_row( __( 'Set in', 'galley' ), $sources[ connection_source() ] );
	echo '</tbody></table>';
}

function settings_row( string $name, string $value, string $mark = '' ): void {
	printf( '<tr class="%s"><th scope="row">%s</th><td>%s</td></tr>', esc_attr( $mark ), esc_html( $name ), esc_html( $value ) );
}

/**
 * Enough of a token to tell it from another, and not to use it. Pure.
 */
function masked( string $token ): string {
	if ( '' === $token ) {
		return '–';
	}
	return strlen( $token ) < 16 ? '…' : substr( $token, 0, 4 ) . '…';
}

/**
 * Where the connection was found.
 */
function connection_source(): string {
	if ( defined( 'GALLEY_ADMIN' ) ) {
		return 'constants';
	}
	if ( null === connection() ) {
		return 'none';
	}
	return is_readable( WP_CONTENT_DIR . '/galley-connection.php' ) ? 'file' : 'settings';
}

/**
 * @param array|null $site Of `GET /status`.
 */
function settings_numbers( ?array $site ): void {
	if ( null === $site ) {
		printf( '<p>%s</p>', esc_html__( 'The server has no site with this host, or the token belongs to another site.', 'galley' ) );
		return;
	}
	echo '<h2>', esc_html__( 'Hit ratio', 'galley' ), '</h2><p class="galley-ratio">';
	$lately = $site['last_10_minutes']['hit_ratio'] ?? null;
	printf(
		/* translators: 1: percentage, 2: percentage, 3: number of purges */
		esc_html__( '%1$s in the last ten minutes, %2$s since the server started. Purges: %3$s.', 'galley' ),
		'<strong>' . esc_html( percent( $lately ) ) . '</strong>',
		esc_html( percent( $site['hit_ratio'] ?? null ) ),
		esc_html( number_format_i18n( (int) ( $site['purges'] ?? 0 ) ) )
	);
	echo '</p>';
	$parts = array_filter( (array) ( $site['fragments_switched_off'] ?? array() ), 'is_string' );
	if ( $parts ) {
		/* translators: %s: names of widgets or blocks */
		printf( '<p class="galley-parts">%s</p>', esc_html( sprintf( __( 'These parts of pages change without an edit, so that Galley generates every page that shows them again when a part of it is purged: %s.', 'galley' ), implode( ', ', $parts ) ) ) );
	}
}

/**
 * The chart, and its sums as a table for those who do not see it.
 */
function settings_day(): void {
	$answer = call( 'GET', '/history?minutes=1440&site=' . rawurlencode( own_host() ) );
	$site   = own_site( $answer['body']['sites'] ?? null, own_host() );
	if ( null === $site ) {
		return;
	}
	$names = array(
		'hits'   => __( 'from the cache', 'galley' ),
		'stale'  => __( 'from the cache, refreshed in the background', 'galley' ),
		'misses' => __( 'generated by PHP and stored', 'galley' ),
		'passes' => __( 'generated by PHP for one visitor', 'galley' ),
	);
	$bars  = chart_bars( $site['minutes'] ?? null, time() );
	$sums  = chart_sums( $bars );
	echo '<h2>', esc_html__( 'The last day', 'galley' ), '</h2><div class="galley-day" style="max-width:960px">';
	// phpcs:ignore WordPress.Security.EscapeOutput.OutputNotEscaped -- made of numbers; its title is escaped.
	echo chart_svg( $bars );
	echo '<table class="widefat striped" style="max-width:36em"><tbody>';
	foreach ( $names as $part => $name ) {
		printf(
			'<tr><th scope="row"><span style="display:inline-block;width:10px;height:10px;background:%s"></span> %s</th><td>%s</td></tr>',
			esc_attr( CHART_PARTS[ $part ] ),
			esc_html( $name ),
			esc_html( number_format_i18n( $sums[ $part ] ) )
		);
	}
	printf( '<tr><th scope="row">%s</th><td>%s</td></tr>', esc_html__( 'hit ratio of the last day', 'galley' ), esc_html( percent( ratio_of( $sums ) ) ) );
	echo '</tbody></table></div>';
}

function settings_purge(): void {
	echo '<h2>', esc_html__( 'Purge', 'galley' ), '</h2><p>';
	esc_html_e( 'Edits purge the pages they change automatically. Purge all pages only after a change that WordPress does not notice: PHP then generates each page again at its next request.', 'galley' );
	printf( '</p><form method="post" action="%s">', esc_url( admin_url( 'admin-post.php' ) ) );
	echo '<input type="hidden" name="action" value="galley_purge_all">';
	wp_nonce_field( 'galley_purge_all' );
	submit_button( __( 'Purge all pages', 'galley' ), 'secondary', 'galley-purge-all', false );
	echo '</form>';
}

/**
 * The connection by hand, where nothing stronger says it.
 */
function settings_form(): void {
	if ( ! may_connect() || in_array( connection_source(), array( 'constants', 'file' ), true ) ) {
		return;
	}
	$connection = connection();
	printf( '<h2>%s</h2><form method="post" action="%s">', esc_html__( 'Connect by hand', 'galley' ), esc_url( admin_url( 'admin-post.php' ) ) );
	echo '<input type="hidden" name="action" value="galley_save">';
	wp_nonce_field( 'galley_save' );
	echo '<p>', esc_html__( 'If you can log in to the server, run `galley plugin install` there instead: it sets both values.', 'galley' ), '</p><table class="form-table" role="presentation"><tbody>';
	printf(
		'<tr><th scope="row"><label for="galley-address">%s</label></th><td><input id="galley-address" name="address" class="regular-text code" value="%s" placeholder="unix:/run/galley/admin.sock"></td></tr>',
		esc_html__( 'Address', 'galley' ),
		esc_attr( $connection['address'] ?? '' )
	);
	printf(
		'<tr><th scope="row"><label for="galley-token">%s</label></th><td><input id="galley-token" name="token" type="password" autocomplete="off" class="regular-text code" placeholder="%s"></td></tr>',
		esc_html__( 'Token', 'galley' ),
		esc_attr( null === $connection ? '' : __( 'leave empty to keep the current token', 'galley' ) )
	);
	echo '</tbody></table>';
	submit_button( __( 'Save', 'galley' ), 'primary', 'galley-save' );
	echo '</form>';
}
