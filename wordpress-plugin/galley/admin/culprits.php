<?php
/**
 * Anything that prevents page caching, and the plugin that causes it: a second page cache, a second purge plugin, a cookie.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Folders and names of plugins that purge other caches after every edit. */
const PURGERS = array(
	'varnish-http-purge'            => 'Proxy Cache Purge',
	'nginx-helper'                  => 'Nginx Helper',
	'nginx-cache'                   => 'Nginx Cache',
	'vcaching'                      => 'VCaching',
	'w3-total-cache'                => 'W3 Total Cache',
	'wp-rocket'                     => 'WP Rocket',
	'litespeed-cache'               => 'LiteSpeed Cache',
	'wp-super-cache'                => 'WP Super Cache',
	'wp-fastest-cache'              => 'WP Fastest Cache',
	'cache-enabler'                 => 'Cache Enabler',
	'pantheon-advanced-page-cache'  => 'Pantheon Advanced Page Cache',
	'purge-varnish'                 => 'Purge Varnish Cache',
	'spinupwp'                      => 'SpinupWP',
	'surge'                         => 'Surge',
	'breeze'                        => 'Breeze',
	'hummingbird-performance'       => 'Hummingbird',
	'comet-cache'                   => 'Comet Cache',
	'powered-cache'                 => 'Powered Cache',
);

/** The plugins in `PURGERS` that do more than page caching. Only their page cache is a conflict, and that is named as such. */
const CACHE_SUITES = array( 'w3-total-cache', 'wp-rocket', 'litespeed-cache', 'wp-fastest-cache', 'breeze', 'hummingbird-performance', 'powered-cache' );

/** Limits of the search for the plugin that sets a cookie. */
const MAX_FILES      = 4000;
const MAX_FILE_BYTES = 400000;
const MAX_SECONDS    = 3.0;

/**
 * Returns a sentence for each conflict that prevents caching, by a stable key.
 *
 * @return array<string, string>
 */
function defeats(): array {
	$found = array();
	$cache = second_cache();
	if ( null !== $cache ) {
		/* translators: %s: name of a plugin */
		$found[ 'cache-' . sanitize_key( $cache ) ] = sprintf( __( 'A second page cache is active: %s (advanced-cache.php). Galley cannot purge its copies. Turn off its page cache.', 'galley' ), $cache );
	}
	foreach ( second_purgers( active_plugins(), $cache ) as $folder => $name ) {
		/* translators: %s: name of a plugin */
		$found[ 'purger-' . sanitize_key( $folder ) ] = sprintf( __( 'A second plugin purges pages: %s. It also purges pages that have not changed. Deactivate it, or turn off its purging.', 'galley' ), $name );
	}
	foreach ( seen_cookies() as $name => $seen ) {
		$found[ 'cookie-' . sanitize_key( (string) $name ) ] = cookie_sentence( (string) $name, $seen );
	}
	return $found;
}

/**
 * Returns the main files of active plugins, relative to the plugin directory.
 *
 * @return string[]
 */
function active_plugins(): array {
	$own     = (array) get_option( 'active_plugins', array() );
	$network = is_multisite() ? array_keys( (array) get_site_option( 'active_sitewide_plugins', array() ) ) : array();
	return array_values( array_filter( array_merge( $own, $network ), 'is_string' ) );
}

/**
 * Returns the active plugins that also purge pages, without the one whose page cache is named anyway. Pure.
 *
 * @param string[]    $active From `active_plugins()`.
 * @param string|null $cache  From `second_cache()`.
 * @return array<string, string> Folder and name.
 */
function second_purgers( array $active, ?string $cache ): array {
	$folders = array_map( 'dirname', $active );
	$found   = array_intersect_key( PURGERS, array_flip( $folders ) );
	return array_filter(
		$found,
		static function ( string $name, string $folder ) use ( $cache ): bool {
			return $name !== $cache && ! in_array( $folder, CACHE_SUITES, true );
		},
		ARRAY_FILTER_USE_BOTH
	);
}

/**
 * Returns the name of the page cache that runs before WordPress is loaded, or null if there is none.
 */
function second_cache(): ?string {
	$file = WP_CONTENT_DIR . '/advanced-cache.php';
	if ( ! defined( 'WP_CACHE' ) || ! WP_CACHE || ! is_readable( $file ) ) {
		return null;
	}
	// phpcs:ignore WordPress.WP.AlternativeFunctions.file_get_contents_file_get_contents -- a local file.
	return name_of_drop_in( (string) file_get_contents( $file, false, null, 0, 65536 ) );
}

/**
 * Returns the plugin to which a drop-in belongs. Pure.
 *
 * @param string $code The beginning of `advanced-cache.php`.
 */
function name_of_drop_in( string $code ): string {
	foreach ( PURGERS as $folder => $name ) {
		if ( false !== stripos( $code, '/' . $folder . '/' ) || false !== stripos( $code, $name ) ) {
			return $name;
		}
	}
	if ( preg_match( '~plugins/([A-Za-z0-9_-]{1,80})/~', $code, $match ) ) {
		return $match[1];
	}
	return preg_match( '~Plugin Name:\s*([^\r\n]{1,80})~i', $code, $match ) ? trim( $match[1], " \t*/" ) : 'advanced-cache.php';
}

/**
 * Returns a sentence about a cookie that prevents caching.
 *
 * @param string $name Name of the cookie.
 * @param array  $seen Path of the page, and the plugin that sets the cookie, if known.
 */
function cookie_sentence( string $name, array $seen ): string {
	$by = is_string( $seen['by'] ?? null ) && '' !== $seen['by']
		/* translators: 1: name of a plugin or theme, 2: a file and a line */
		? sprintf( __( 'It is probably set by %1$s (%2$s).', 'galley' ), $seen['by'], (string) ( $seen['at'] ?? '' ) )
		: __( 'The plugin that sets it is unknown.', 'galley' );
	/* translators: 1: name of a cookie, 2: a path, 3: a sentence about its plugin */
	return sprintf( __( 'The cookie %1$s is set for visitors who are not logged in, on %2$s. Galley cannot store these pages. %3$s', 'galley' ), $name, (string) ( $seen['path'] ?? '/' ), $by );
}

/**
 * Searches the files of active plugins and themes for the one that sets a cookie.
 *
 * @return array{by: string, at: string}|null
 */
function culprit_of( string $cookie ): ?array {
	$needles = session_name() === $cookie ? array( 'session_start' ) : array( $cookie );
	$until   = microtime( true ) + MAX_SECONDS;
	$left    = MAX_FILES;
	foreach ( code_folders() as $name => $folder ) {
		foreach ( php_files( $folder ) as $file ) {
			if ( --$left < 0 || microtime( true ) > $until ) {
				return null;
			}
			// phpcs:ignore WordPress.WP.AlternativeFunctions.file_get_contents_file_get_contents -- a local file.
			$line = line_with( (string) file_get_contents( $file, false, null, 0, MAX_FILE_BYTES ), $needles );
			if ( $line > 0 ) {
				return array(
					'by' => (string) $name,
					'at' => ltrim( str_replace( WP_CONTENT_DIR, '', $file ), '/' ) . ':' . $line,
				);
			}
		}
	}
	return null;
}

/**
 * Returns the paths of active plugins and themes by their names.
 *
 * @return array<string, string>
 */
function code_folders(): array {
	require_once ABSPATH . 'wp-admin/includes/plugin.php';
	$folders = array();
	foreach ( active_plugins() as $plugin ) {
		$path = WP_PLUGIN_DIR . '/' . $plugin;
		if ( 0 === strpos( $plugin, 'galley/' ) || ! is_readable( $path ) ) {
			continue;
		}
		$head = get_plugin_data( $path, false, false );
		$name = '' === $head['Name'] ? $plugin : $head['Name'];

		$folders[ $name ] = '.' === dirname( $plugin ) ? $path : dirname( $path );
	}
	foreach ( wp_get_mu_plugins() as $plugin ) {
		$folders[ basename( $plugin ) ] = $plugin;
	}
	foreach ( array( wp_get_theme(), wp_get_theme( get_template() ) ) as $theme ) {
		$folders[ (string) $theme->get( 'Name' ) ] = $theme->get_stylesheet_directory();
	}
	return $folders;
}

/**
 * Yields the PHP files in a folder and its subfolders. If the path is a file, yields this file.
 */
function php_files( string $path ): \Generator {
	if ( is_file( $path ) ) {
		yield $path;
		return;
	}
	if ( ! is_dir( $path ) ) {
		return;
	}
	$flags = \FilesystemIterator::SKIP_DOTS | \FilesystemIterator::CURRENT_AS_PATHNAME;
	$all   = new \RecursiveIteratorIterator( new \RecursiveDirectoryIterator( $path, $flags ), \RecursiveIteratorIterator::LEAVES_ONLY, \RecursiveIteratorIterator::CATCH_GET_CHILD );
	foreach ( $all as $file ) {
		if ( '.php' === substr( $file, -4 ) && is_readable( $file ) ) {
			yield $file;
		}
	}
}

/**
 * Returns the number of the first line of PHP code that contains one of the words outside of comments, or 0 if there is none. Pure.
 *
 * @param string[] $needles Words to search for.
 */
function line_with( string $code, array $needles ): int {
	foreach ( $needles as $needle ) {
		if ( '' !== $needle && false !== strpos( $code, $needle ) ) {
			foreach ( token_get_all( $code ) as $token ) {
				if ( is_array( $token ) && ! in_array( $token[0], array( T_COMMENT, T_DOC_COMMENT, T_INLINE_HTML ), true ) && false !== strpos( $token[1], $needle ) ) {
					return (int) $token[2];
				}
			}
		}
	}
	return 0;
}
