<?php
/**
 * A must-use plugin of `make seeds`: adds a mobile edition, records which requests reached WordPress, and sets the Cache-Control that a
 * probe requests. Galley's plugin is active only behind Galley. Behind Varnish, it sends purges in the form of Proxy Cache Purge, for
 * the URLs that the model of that plugin records.
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

/** Activates Galley's plugin only behind Galley. */
function active_plugins( $plugins ): array {
	return 'galley' === getenv( 'SEEDS_STACK' ) ? (array) $plugins : array_diff( (array) $plugins, array( 'galley/galley.php' ) );
}

/** Prints the text that distinguishes the mobile edition. */
function edition(): void {
	echo wp_is_mobile() ? '<p class="edition">mobile edition</p>' : '<p class="edition">desktop edition</p>';
}

/** Sets the Cache-Control that a probe selects with `?seeds-control=`. */
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

/** Records each page that WordPress generates for a probe. */
function note_request(): void {
	$probe = (string) ( $_GET['seeds-probe'] ?? '' );
	if ( preg_match( '/^[a-z0-9-]{1,40}$/', $probe ) && ! isset( $_SERVER['HTTP_GALLEY_FRAGMENT'] ) ) {
		file_put_contents( EXACTNESS_NOTES . '/generated', "$probe\n", FILE_APPEND | LOCK_EX );
	}
}

/** Sends `PURGE` for each URL, with the header fields of Proxy Cache Purge; from fifty URLs on, one purge for everything. */
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
