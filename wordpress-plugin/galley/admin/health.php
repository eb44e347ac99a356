<?php
/**
 * Site Health: WordPress recognizes the page cache, the server answers, no purge is pending, nothing prevents caching.
 *
 * The test for an object cache is in object-cache.php.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

add_filter( 'site_status_page_cache_supported_cache_headers', __NAMESPACE__ . '\\cache_headers' );
add_filter( 'site_status_tests', __NAMESPACE__ . '\\health_tests' );
add_action( 'rest_api_init', __NAMESPACE__ . '\\health_routes' );

/**
 * Adds `Cache-Status` to the headers by which WordPress recognizes a page cache. WordPress requests the front page a few times and checks
 * the headers of the responses.
 *
 * @param array $headers Names of headers, with callbacks that check the value.
 */
function cache_headers( $headers ): array {
	$headers                 = (array) $headers;
	$headers['cache-status'] = static function ( $value ) {
		return is_kept( is_array( $value ) ? implode( ', ', $value ) : (string) $value );
	};
	return $headers;
}

/**
 * Returns whether a `Cache-Status` header (RFC 9211) indicates a page that Galley has stored before or with this response. Pure.
 */
function is_kept( string $status ): bool {
	return (bool) preg_match( '/(^|,)\s*galley\b[^,]*;\s*(hit|stored|fwd=stale)\b/i', $status );
}

/**
 * Returns the tests with the labels for a good result.
 *
 * @return array<string, string>
 */
function health_checks(): array {
	return array(
		'connection'   => __( 'Galley is connected', 'galley' ),
		'purges'       => __( 'Purges reach Galley', 'galley' ),
		'defeats'      => __( 'Nothing prevents page caching', 'galley' ),
		'object_cache' => __( 'WordPress uses an object cache', 'galley' ),
	);
}

function health_routes(): void {
	register_rest_route(
		'galley/v1',
		'/health/(?P<name>connection|defeats|object_cache)',
		array(
			'methods'             => 'GET',
			'callback'            => static function ( $request ) {
				switch ( $request['name'] ) {
					case 'connection':
						return health_connection();
					case 'defeats':
						return health_defeats();
					default:
						return health_object_cache();
				}
			},
			'permission_callback' => static function (): bool {
				return current_user_can( 'view_site_health_checks' );
			},
		)
	);
}

/**
 * Adds the tests of the plugin to Site Health.
 *
 * @param array $tests Tests of WordPress.
 */
function health_tests( $tests ): array {
	$tests = (array) $tests;
	foreach ( health_checks() as $name => $label ) {
		$test = array(
			'label'             => $label,
			'test'              => rest_url( "galley/v1/health/$name" ),
			'has_rest'          => true,
			'async_direct_test' => __NAMESPACE__ . "\\health_$name",
		);
		// Site Health runs tests that query the server or search files after the page has loaded.
		if ( 'purges' === $name ) {
			$test = array(
				'label' => $label,
				'test'  => __NAMESPACE__ . '\\health_purges',
			);
		}
		$tests[ 'purges' === $name ? 'direct' : 'async' ][ "galley_$name" ] = $test;
	}
	return $tests;
}

/**
 * Builds a result for Site Health.
 *
 * @param string $test   Name of the test.
 * @param string $status `good`, `recommended` or `critical`.
 * @param string $label  Result in a short sentence.
 * @param string $says   Description of the result.
 */
function health_result( string $test, string $status, string $label, string $says ): array {
	return array(
		'test'        => $test,
		'status'      => $status,
		'label'       => $label,
		'badge'       => array(
			'label' => __( 'Performance', 'galley' ),
			'color' => 'blue',
		),
		'description' => '<p>' . esc_html( $says ) . '</p>',
		'actions'     => sprintf( '<a href="%s">%s</a>', esc_url( admin_url( 'options-general.php?page=galley' ) ), esc_html__( 'Galley settings', 'galley' ) ),
	);
}

function health_connection(): array {
	$status = call( 'GET', '/status' );
	if ( 200 === $status['status'] ) {
		return health_result( 'galley_connection', 'good', __( 'Galley is connected', 'galley' ), __( 'Edits purge the pages they change.', 'galley' ) );
	}
	return health_result( 'galley_connection', 'critical', __( 'Galley is not connected', 'galley' ), connection_trouble( $status ) );
}

/**
 * Returns why the server does not answer, and what to do.
 *
 * @param array $status Response to `GET /status`.
 */
function connection_trouble( array $status ): string {
	if ( null === connection() ) {
		return __( 'No connection is set up. Run `galley plugin install` with the folder of this WordPress on the server.', 'galley' );
	}
	if ( 401 === $status['status'] ) {
		return __( 'The server rejects the token. If the token is new, run `galley reload`; otherwise run `galley plugin install` again.', 'galley' );
	}
	/* translators: %s: an error message */
	return sprintf( __( '%s. Check that Galley is running and that PHP can connect to its address.', 'galley' ), (string) $status['error'] );
}

function health_purges(): array {
	$waiting = pending_purges();
	if ( 0 === $waiting ) {
		return health_result( 'galley_purges', 'good', __( 'No purge is pending', 'galley' ), __( 'The server has confirmed every purge.', 'galley' ) );
	}
	return health_result(
		'galley_purges',
		'recommended',
		__( 'Purges are pending', 'galley' ),
		/* translators: %s: a number */
		sprintf( _n( 'The server has not confirmed %s purge. The plugin sends it again automatically.', 'The server has not confirmed %s purges. The plugin sends them again automatically.', $waiting, 'galley' ), number_format_i18n( $waiting ) )
	);
}

/**
 * Returns the number of purges that the server has not acknowledged within `DEAD_AFTER` seconds, longer than a request takes.
 */
function pending_purges(): int {
	$now     = time();
	$waiting = array_filter(
		read_pending(),
		static function ( array $row ) use ( $now ): bool {
			return $now - $row['at'] >= DEAD_AFTER;
		}
	);
	return count( $waiting );
}

function health_defeats(): array {
	$found = defeats();
	if ( array() === $found ) {
		return health_result( 'galley_defeats', 'good', __( 'Nothing prevents page caching', 'galley' ), __( 'No visitor cookie, second page cache or second purge plugin was found.', 'galley' ) );
	}
	return health_result( 'galley_defeats', 'recommended', __( 'Something prevents page caching', 'galley' ), implode( ' ', $found ) );
}
