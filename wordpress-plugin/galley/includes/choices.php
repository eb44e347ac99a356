<?php
/**
 * Reads the settings that the owner of the site chose on the page of the plugin: a lifetime, exclusions from the cache, preloading, pages
 * that browsers load in advance, and development mode.
 *
 * The plugin applies all of them with the field that Galley reads in each response (`Galley-Cache-Control`). So they apply to responses
 * that PHP generates after a change, and each change purges everything. The configuration of Galley has precedence: these settings cannot
 * change a rule that fixes a lifetime or excludes a path.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Minimum lifetime in seconds. PHP would generate pages with a shorter one all the time. */
const MIN_LIFETIME = 60;

const MAX_EXCLUDED_PATHS = 50;
const MAX_EXCLUDED_PATH  = 200;

/** Seconds after which development mode ends. */
const DEVELOPMENT_SECONDS = 7200;

add_action( 'galley_development_end', __NAMESPACE__ . '\\on_development_end' );

/**
 * Returns the settings, or the defaults of the plugin for those that the owner did not choose.
 *
 * @return array{lifetime: int, paths: string[], types: string[], preload: bool, speculation: string}
 */
function choices(): array {
	return clean_choices( loaded_option( 'galley_choices' ) );
}

/**
 * Returns an option from those that WordPress loads with every request. For a missing option, `get_option()` would query the database for
 * every page that PHP generates.
 *
 * @return mixed The value, or false if the option does not exist.
 */
function loaded_option( string $name ) {
	$all = wp_load_alloptions();
	return isset( $all[ $name ] ) ? maybe_unserialize( $all[ $name ] ) : false;
}

/**
 * Returns valid settings for any input. Pure.
 *
 * @param mixed $raw `lifetime` in seconds (0 means the default), `paths` as lines or a list, `types`, `preload`, `speculation`.
 * @return array{lifetime: int, paths: string[], types: string[], preload: bool, speculation: string}
 */
function clean_choices( $raw ): array {
	$raw      = is_array( $raw ) ? $raw : array();
	$lifetime = is_numeric( $raw['lifetime'] ?? null ) ? (int) $raw['lifetime'] : 0;
	$lines    = $raw['paths'] ?? array();
	$lines    = is_string( $lines ) ? preg_split( '/[\r\n]+/', $lines ) : ( is_array( $lines ) ? $lines : array() );
	$paths    = array();
	foreach ( array_filter( (array) $lines, 'is_string' ) as $line ) {
		$line = trim( $line );
		if ( preg_match( '~^/[\x21-\x7e]*$~D', $line ) && strlen( $line ) <= MAX_EXCLUDED_PATH && count( $paths ) < MAX_EXCLUDED_PATHS ) {
			$paths[ $line ] = $line;
		}
	}
	$types = array_filter( is_array( $raw['types'] ?? null ) ? $raw['types'] : array(), 'is_string' );
	$types = preg_grep( '/^[a-z0-9_-]{1,20}$/D', $types );
	$rules = $raw['speculation'] ?? '';
	return array(
		'lifetime'    => $lifetime <= 0 ? 0 : min( LIFETIME, max( MIN_LIFETIME, $lifetime ) ),
		'paths'       => array_values( $paths ),
		'types'       => array_values( array_unique( $types ? $types : array() ) ),
		'preload'     => ! empty( $raw['preload'] ),
		'speculation' => is_string( $rules ) && isset( SPECULATIONS[ $rules ] ) ? $rules : '',
	);
}

/**
 * Returns whether a path is excluded. `*` stands for any characters. Pure.
 *
 * @param string   $path     Path without a query string.
 * @param string[] $patterns Patterns as `clean_choices()` returns them.
 */
function is_excluded_path( string $path, array $patterns ): bool {
	foreach ( $patterns as $pattern ) {
		if ( preg_match( '~^' . str_replace( '\*', '.*', preg_quote( $pattern, '~' ) ) . '$~Ds', $path ) ) {
			return true;
		}
	}
	return false;
}

/**
 * Returns whether the owner excluded the current page from the cache.
 */
function is_excluded(): bool {
	$choices = choices();
	// phpcs:ignore WordPress.Security.ValidatedSanitizedInput -- compared only.
	$path = (string) strtok( (string) wp_unslash( $_SERVER['REQUEST_URI'] ?? '/' ), '?' );
	if ( $choices['paths'] && is_excluded_path( $path, $choices['paths'] ) ) {
		return true;
	}
	return $choices['types'] && did_action( 'wp' ) && ( is_singular( $choices['types'] ) || is_post_type_archive( $choices['types'] ) );
}

/**
 * Returns the remaining seconds of development mode, or 0 if it is off.
 */
function development_left(): int {
	$until = loaded_option( 'galley_development' );
	return is_numeric( $until ) ? min( DEVELOPMENT_SECONDS, max( 0, (int) $until - time() ) ) : 0;
}

/**
 * Switches development mode on for a limited time, or off.
 *
 * When the time is over, Galley stores pages again, even if the scheduled task does not run. The purge at the end only makes Galley forget
 * immediately which pages it could not store. Without the purge, Galley forgets them some minutes later.
 */
function set_development( bool $is_on ): void {
	wp_clear_scheduled_hook( 'galley_development_end' );
	if ( $is_on ) {
		$until = time() + DEVELOPMENT_SECONDS;
		update_option( 'galley_development', $until, true );
		wp_schedule_single_event( $until, 'galley_development_end' );
	} else {
		delete_option( 'galley_development' );
	}
	note_cause( $is_on ? 'development' : 'development-end' );
	queue_purge_with_markers();
}

/**
 * Ends development mode when its time is over.
 */
function on_development_end(): void {
	if ( 0 === development_left() && false !== loaded_option( 'galley_development' ) ) {
		set_development( false );
	}
}
