<?php
/**
 * Settings > Galley: the state of the site, then statistics of requests, what costs PHP time, why a page is not cached, purges, buttons and
 * settings. The connection to the server is at the end.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

add_action( 'admin_menu', __NAMESPACE__ . '\\settings_menu' );
add_action( 'admin_enqueue_scripts', __NAMESPACE__ . '\\settings_files' );
add_filter( 'plugin_action_links_' . plugin_basename( dirname( __DIR__ ) . '/galley.php' ), __NAMESPACE__ . '\\settings_link' );

function settings_menu(): void {
	add_options_page( __( 'Galley', 'galley' ), __( 'Galley', 'galley' ), 'manage_options', 'galley', __NAMESPACE__ . '\\settings_page' );
}

/**
 * Enqueues the styles and the script on the screens that show output of the plugin.
 *
 * @param string $screen Hook suffix of the admin page.
 */
function settings_files( $screen ): void {
	if ( in_array( $screen, array( 'settings_page_galley', 'index.php', 'edit.php' ), true ) ) {
		wp_enqueue_style( 'galley-page', plugins_url( 'page.css', __FILE__ ), array(), VERSION );
	}
	if ( 'settings_page_galley' === $screen ) {
		wp_enqueue_script( 'galley-page', plugins_url( 'page.js', __FILE__ ), array(), VERSION, true );
	}
}

/**
 * Adds a link to the settings page to the plugin's row in the list of plugins.
 *
 * @param string[] $links Action links of the plugin.
 * @return string[]
 */
function settings_link( $links ): array {
	$link = sprintf( '<a href="%s">%s</a>', esc_url( settings_url() ), esc_html__( 'Settings', 'galley' ) );
	return array_merge( array( $link ), (array) $links );
}

function settings_url(): string {
	return admin_url( 'options-general.php?page=galley' );
}

function settings_page(): void {
	if ( ! may_manage() ) {
		refuse();
	}
	$status = call( 'GET', '/status' );
	$facts  = site_facts( $status );
	echo '<div class="wrap galley-settings"><h1>', esc_html__( 'Galley', 'galley' ), '</h1>';
	said_box();
	print_state( judge_site( $facts ) );
	if ( ! $facts['has_connection'] ) {
		settings_how_to_get();
	}
	if ( null !== $facts['site'] ) {
		$minutes = settings_day( $facts['site'] );
		print_costs( null === $minutes ? null : php_seconds( $minutes ) );
		settings_why();
	}
	settings_conflicts( $facts['defeats'] );
	print_purge_log();
	settings_buttons();
	settings_object_cache( $facts['site'] );
	settings_choices();
	settings_connection( $status );
	echo '</div>';
}

/**
 * Prints a notice with the result of the last action.
 */
function said_box(): void {
	// phpcs:ignore WordPress.Security.NonceVerification -- chooses a sentence.
	$done = isset( $_GET['galley'] ) ? sanitize_key( wp_unslash( $_GET['galley'] ) ) : '';
	$says = array(
		'purged-page'     => __( 'The page is purged.', 'galley' ),
		'purged-all'      => __( 'All pages are purged.', 'galley' ),
		'saved'           => __( 'The connection is saved.', 'galley' ),
		'chosen'          => __( 'The settings are saved, and all pages are purged so that they apply at once.', 'galley' ),
		'preloading'      => __( 'Preloading has begun. It goes on in the background while PHP has capacity.', 'galley' ),
		'preload-off'     => __( 'Preloading is stopped.', 'galley' ),
		'development'     => __( 'Development mode is on, and all pages are purged.', 'galley' ),
		'development-off' => __( 'Development mode is off. Pages are stored again.', 'galley' ),
		'object-cache'    => __( 'The object cache is on.', 'galley' ),
		'object-cache-off' => __( 'The object cache is off.', 'galley' ),
	);
	$bad  = array(
		'not-saved' => __( 'Invalid address. Use unix:/path or http://host:port.', 'galley' ),
		'no-object-cache' => __( 'wp-content/object-cache.php could not be written: PHP may not write there, or another plugin has one.', 'galley' ),
		'not-own'   => __( 'That address is not on this site, so nothing was purged.', 'galley' ),
	);
	if ( isset( $says[ $done ] ) || isset( $bad[ $done ] ) ) {
		printf( '<div class="notice notice-%s is-dismissible"><p>%s</p></div>', isset( $bad[ $done ] ) ? 'error' : 'success', esc_html( $says[ $done ] ?? $bad[ $done ] ) );
	}
}

/**
 * Prints instructions for sites that have the plugin but no Galley server.
 */
function settings_how_to_get(): void {
	echo '<h2>', esc_html__( 'How to get Galley', 'galley' ), '</h2><p>';
	esc_html_e( 'This plugin belongs to Galley, a web server for WordPress that stores pages. It does nothing without it. The administrator of your server can install Galley beside the present web server and try it there; hosts that already run Galley connect the plugin themselves.', 'galley' );
	printf( '</p><p><a href="%s">%s</a></p>', esc_url( 'https://github.com/galley-server/galley' ), esc_html__( 'Galley and its manual', 'galley' ) );
}

/**
 * Prints the hit ratio and the chart of the last day.
 *
 * @param array $site The site in `GET /status`.
 * @return array|null `minutes` in `GET /history`.
 */
function settings_day( array $site ): ?array {
	echo '<h2>', esc_html__( 'What visitors get', 'galley' ), '</h2><p class="galley-ratio">';
	printf(
		/* translators: 1: percentage, 2: percentage */
		esc_html__( '%1$s of requests came from the cache in the last ten minutes, %2$s since Galley started.', 'galley' ),
		'<strong>' . esc_html( percent( $site['last_10_minutes']['hit_ratio'] ?? null ) ) . '</strong>',
		esc_html( percent( $site['hit_ratio'] ?? null ) )
	);
	echo '</p>';
	/* translators: %s: names of widgets or blocks */
	settings_parts( $site['fragments_switched_off'] ?? null, __( 'These parts of pages change without an edit, so that Galley generates every page that shows them again when a part of it is purged: %s.', 'galley' ) );
	/* translators: %s: names of widgets or blocks */
	settings_parts( $site['fragments_failed'] ?? null, __( 'These parts of pages could not be rendered without their page, so that Galley generates every page that shows them again when they change: %s.', 'galley' ) );
	settings_members( is_array( $site['members'] ?? null ) ? $site['members'] : array() );
	$answer  = call( 'GET', '/history?minutes=1440&site=' . rawurlencode( own_site_host() ) );
	$history = own_site( $answer['body']['sites'] ?? null, own_site_host() );
	if ( null === $history || ! is_array( $history['minutes'] ?? null ) ) {
		return null;
	}
	print_chart( chart_bars( $history['minutes'], time() ), time() );
	print_clients( $history['minutes'] );
	return $history['minutes'];
}

/**
 * Prints the list of fragments that Galley cannot replace in stored pages.
 *
 * @param mixed  $labels Labels of fragments from `GET /status`.
 * @param string $text   Sentence with a placeholder for the labels.
 */
function settings_parts( $labels, string $text ): void {
	$parts = array_filter( (array) $labels, 'is_string' );
	if ( $parts ) {
		printf( '<p class="galley-parts">%s</p>', esc_html( sprintf( $text, implode( ', ', $parts ) ) ) );
	}
}

/**
 * Prints the pages that PHP generates for members, because Galley found differences outside of their private parts.
 *
 * @param array $members `members` in `GET /status`. Empty if members get no stored pages.
 */
function settings_members( array $members ): void {
	$names = array();
	foreach ( array_slice( (array) ( $members['differences'] ?? array() ), 0, 10 ) as $known ) {
		$names[] = (string) ( $known['url'] ?? '' ) . ' (' . (string) preg_replace( '/-[0-9a-f]{8}$/', '', (string) ( $known['class'] ?? '' ) ) . ')';
	}
	if ( $names ) {
		/* translators: %s: addresses, each with a role */
		printf( '<p class="galley-members">%s</p>', esc_html( sprintf( __( 'PHP generates these pages for members of the role in brackets, because they differ outside of their private parts: %s.', 'galley' ), implode( ', ', array_unique( $names ) ) ) ) );
	}
}

/**
 * Prints a form for an address, and why the page at this address is cached or not.
 */
function settings_why(): void {
	// phpcs:ignore WordPress.Security -- own_address() cleans it, and it is only looked at.
	$typed = isset( $_GET['galley_url'] ) ? trim( (string) wp_unslash( $_GET['galley_url'] ) ) : '';
	$url   = '' !== $typed && '/' === $typed[0] ? own_address( site_origin() . $typed ) : own_address( $typed );
	echo '<h2 id="galley-why">', esc_html__( 'Why is a page not cached?', 'galley' ), '</h2>';
	printf( '<form method="get" action="%s#galley-why"><input type="hidden" name="page" value="galley">', esc_url( admin_url( 'options-general.php' ) ) );
	printf(
		'<p><label for="galley-url">%s</label><br><input type="text" id="galley-url" name="galley_url" class="galley-url-field" value="%s" placeholder="%s"> <button class="button" id="galley-explain">%s</button></p></form>',
		esc_html__( 'Address of a page of this site', 'galley' ),
		esc_attr( $typed ),
		esc_attr( home_url( '/' ) ),
		esc_html__( 'Explain', 'galley' )
	);
	if ( '' === $typed ) {
		return;
	}
	if ( null === $url ) {
		/* translators: %s: an address */
		printf( '<p class="galley-answer">%s</p>', esc_html( sprintf( __( 'That address is not on this site. Addresses of this site begin with %s.', 'galley' ), home_url() ) ) );
		return;
	}
	$state = page_state( $url );
	printf( '<div class="galley-answer"><p><span class="galley-dot is-%s"></span><strong>%s</strong></p>', esc_attr( $state['state'] ), esc_html( $state['label'] ) );
	foreach ( array( 'why', 'what_to_do' ) as $part ) {
		if ( '' !== $state[ $part ] ) {
			printf( '<p class="galley-%s">%s</p>', esc_attr( $part ), esc_html( as_sentence( $state[ $part ] ) ) );
		}
	}
	printf( '<p><a class="button" href="%s">%s</a></p></div>', esc_url( purge_page_link( $url ) ), esc_html__( 'Purge this page', 'galley' ) );
}

/**
 * Returns the scheme, host and port of the site. The plugin prepends them to addresses that begin with a path.
 */
function site_origin(): string {
	$at = wp_parse_url( home_url() );
	return ( $at['scheme'] ?? 'http' ) . '://' . ( $at['host'] ?? '' ) . ( isset( $at['port'] ) ? ':' . $at['port'] : '' );
}

/**
 * Prints the conflicts that prevent caching.
 *
 * @param string[] $sentences From `defeats()`.
 */
function settings_conflicts( array $sentences ): void {
	echo '<h2>', esc_html__( 'Conflicts', 'galley' ), '</h2>';
	if ( ! $sentences ) {
		echo '<p>', esc_html__( 'No other cache plugin and no visitor cookie prevents caching.', 'galley' ), '</p>';
		return;
	}
	echo '<ul class="ul-disc">';
	foreach ( $sentences as $sentence ) {
		printf( '<li>%s</li>', esc_html( $sentence ) );
	}
	echo '</ul>';
}
