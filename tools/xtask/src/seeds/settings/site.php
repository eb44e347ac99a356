<?php
/**
 * A must-use plugin of `make seeds`: gives the site a mobile edition, notes which requests reached WordPress, and has pages say
 * what the probes ask them to say. Galley's plugin is active behind Galley only. Behind Varnish, purges are sent as Proxy Cache
 * Purge sends them, for the addresses that the model beside this file notes.
 */

declare(strict_types=1);

namespace Galley\Seeds;

add_filter( 'pre_wp_mail', '__return_true' );
add_filter( 'wp_is_comment_flood', '__return_false', 99 );
add_filter( 'duplicate_comment_id', '__return_zero' );
add_filter( 'option_active_plugins', __NAMESPACE__ . '\\active_plugins' );
add_action( 'wp_footer', __NAMESPACE__ . '\\edition' );
add_action( 'send_headers', __NAMESPACE__ . '\\cache_control' );
add_action( 'shutdown', __NAMESPACE__ . '\\send_purges', 5 );
note_request();

/** Galley's plugin only behind Galley. */
function active_plugins( $plugins ): array {
	return 'galley' === getenv( 'SEEDS_STACK' ) ? (array) $plugins : array_diff( (array) $plugins, array( 'galley/galley.php' ) );
}

/** The mobile edition differs from the other by these words. */
function edition(): void {
	echo wp_is_mobile() ? '<p class="edition">mobile edition</p>' : '<p class="edition">desktop edition</p>';
}

/** What a probe asks for by `?seeds-control=`. */
function cache_control(): void {
	$fields = array(
		'private' => 'private, max-age=0',
		'public'  => 'public, max-age=3600',
	);
	$field = $fields[ (string) ( $_GET['seeds-control'] ?? '' ) ] ?? null;
	if ( null !== $field ) {
		header( "Cache-Control: $field" );
	}
}

/** One line for each page that WordPress generates for a probe. */
function note_request(): void {
	$probe = (string) ( $_GET['seeds-probe'] ?? '' );
	if ( preg_match( '/^[a-z0-9-]{1,40}$/', $probe ) && ! isset( $_SERVER['HTTP_GALLEY_FRAGMENT'] ) ) {
		file_put_contents( EXACTNESS_NOTES . '/generated', "$probe\n", FILE_APPEND | LOCK_EX );
	}
}

/** `PURGE` for each address, with the fields of Proxy Cache Purge; from fifty on one for everything. */
function send_purges(): void {
	$cache = (string) getenv( 'SEEDS_PURGE' );
	$urls  = array_keys( \Galley\Exactness\Models\note( null )['proxy-cache-purge'] ?? array() );
	if ( '' === $cache || array() === $urls ) {
		return;
	}
	$everything = count( $urls ) >= 50 || in_array( '*', $urls, true );
	foreach ( $everything ? array( home_url( '/.*' ) ) : $urls as $url ) {
		$parts = wp_parse_url( $url );
		wp_remote_request(
			"http://$cache" . ( $parts['path'] ?? '/' ),
			array(
				'method'  => 'PURGE',
				'headers' => array(
					'host'           => (string) wp_parse_url( home_url(), PHP_URL_HOST ),
					'X-Purge-Method' => $everything ? 'regex' : 'default',
				),
			)
		);
	}
}
