<?php
/**
 * What the site's owner has chosen on the plugin's page: a lifetime, what is never stored, whether to preload, what browsers may load in
 * advance, and development mode.
 *
 * All of it works by the fields that Galley reads in each response (`Galley-Cache-Control`), so it applies to what PHP generates from then
 * on; a change of a choice purges everything. Galley's configuration comes first: a rule of the site's file that fixes a lifetime, or
 * does not store a path, is not changed from here.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** A page that lives for less than that is generated all the time. */
const SHORTEST_LIFETIME = 60;

const MOST_EXCLUDED_PATHS   = 50;
const LONGEST_EXCLUDED_PATH = 200;

/** Development mode ends by itself after so many seconds. */
const DEVELOPMENT_SECONDS = 7200;

add_action( 'galley_development_end', __NAMESPACE__ . '\\on_development_end' );

/**
 * The choices; where nothing was chosen, what the plugin does by itself.
 *
 * @return array{lifetime: int, paths: string[], types: string[], preload: bool, speculation: string}
 */
function choices(): array {
	return clean_choices( loaded_option( 'galley_choices' ) );
}

/**
 * An option of those that WordPress loads with every request. `get_option()` would ask the database for one that is not there, with every
 * page that PHP generates.
 *
 * @return mixed False where there is none.
 */
function loaded_option( string $name ) {
	$all = wp_load_alloptions();
	return isset( $all[ $name ] ) ? maybe_unserialize( $all[ $name ] ) : false;
}

/**
 * Choices as they may be used, whatever was sent or stored. Pure.
 *
 * @param mixed $raw `lifetime` in seconds (0: Galley's own), `paths` as lines or a list, `types`, `preload`, `speculation`.
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
		if ( preg_match( '~^/[\x21-\x7e]*$~D', $line ) && strlen( $line ) <= LONGEST_EXCLUDED_PATH && count( $paths ) < MOST_EXCLUDED_PATHS ) {
			$paths[ $line ] = $line;
		}
	}
	$types = array_filter( is_array( $raw['types'] ?? null ) ? $raw['types'] : array(), 'is_string' );
	$types = preg_grep( '/^[a-z0-9_-]{1,20}$/D', $types );
	$rules = $raw['speculation'] ?? '';
	return array(
		'lifetime'    => $lifetime <= 0 ? 0 : min( LIFETIME, max( SHORTEST_LIFETIME, $lifetime ) ),
		'paths'       => array_values( $paths ),
		'types'       => array_values( array_unique( $types ? $types : array() ) ),
		'preload'     => ! empty( $raw['preload'] ),
		'speculation' => is_string( $rules ) && isset( SPECULATIONS[ $rules ] ) ? $rules : '',
	);
}

/**
 * Whether a path is one of the excluded; `*` stands for anything. Pure.
 *
 * @param string   $path     Without a query.
 * @param string[] $patterns As `clean_choices()` gives them.
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
 * Whether the owner does not want the page at hand to be stored.
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
 * Seconds that development mode goes on for; 0: it is off.
 */
function development_left(): int {
	$until = loaded_option( 'galley_development' );
	return is_numeric( $until ) ? min( DEVELOPMENT_SECONDS, max( 0, (int) $until - time() ) ) : 0;
}

/**
 * Switches development mode on, for a limited time, or off.
 *
 * Storing begins again when the time is over, without any task. The purge at the end only makes Galley forget at once which
 * pages it could not store; without the purge, it does so some minutes later.
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
 * The time of development mode is over.
 */
function on_development_end(): void {
	if ( 0 === development_left() && false !== loaded_option( 'galley_development' ) ) {
		set_development( false );
	}
}
