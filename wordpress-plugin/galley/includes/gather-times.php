<?php
/**
 * Limits the lifetimes of pages that time alone makes wrong: pages that show how long ago something was, foreign feeds, lists whose conditions
 * name the current time, and comments that close after some days. Scheduled posts, sales and nonces are in other files.
 *
 * Code that prints "5 minutes ago" need not use WordPress's function for it. The plugin therefore also searches for such texts in the complete
 * page, in the words of each plugin that has translated `%s ago`.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Seconds after which a text such as "5 minutes ago" may be wrong. */
const TEXT_LIFETIME = 3600;

/** English texts around a time difference, as plugins translate them. */
const DIFFERENCES = array( '%s ago', '%s from now' );

/** Maximum number of such texts that are examined in a page. */
const MAX_DIFFERENCES = 50;

/** Time differences of this page whose next change is known, as array keys. */
$GLOBALS['galley_differences'] = array();

if ( is_described() ) {
	gather_times();
}

function gather_times(): void {
	$own = __NAMESPACE__ . '\\';
	add_filter( 'human_time_diff', $own . 'gather_time_difference', PHP_INT_MAX, 4 );
	foreach ( array( 'bp_core_time_since', 'bbp_get_time_since', 'wp_feed_cache_transient_lifetime' ) as $filter ) {
		add_filter( $filter, $own . 'gather_hourly', PHP_INT_MAX );
	}
	add_filter( 'comments_open', $own . 'gather_closing', PHP_INT_MAX, 2 );
}

/**
 * Limits the lifetime of a page with the time differences of BuddyPress or bbPress, or with a feed of another site.
 */
function gather_hourly( $value ) {
	at_most( TEXT_LIFETIME );
	return $value;
}

/**
 * Limits the lifetime of a page that shows a time difference of WordPress, until the text changes.
 */
function gather_time_difference( $text, $difference = 0, $from = 0, $to = 0 ) {
	// A difference of two other times never changes.
	if ( is_present( (int) $to ) ) {
		at_most( max( TEXT_LIFETIME, until_text_changes( (int) $difference, $from <= $to ) ) );
	} elseif ( is_present( (int) $from ) ) {
		at_most( max( TEXT_LIFETIME, until_text_changes( (int) $difference, $to <= $from ) ) );
	}
	if ( is_string( $text ) && $from ) {
		$GLOBALS['galley_differences'][ $text ] = true;
	}
	return $text;
}

/**
 * Returns whether a Unix time is the current time, in UTC or in the time zone of the site, as themes pass it.
 */
function is_present( int $time ): bool {
	return abs( $time - time() ) < 60 || abs( $time - (int) current_time( 'timestamp' ) ) < 60; // phpcs:ignore WordPress.DateTime -- as themes do.
}

/**
 * Returns the seconds until `human_time_diff()` returns another text. Pure.
 *
 * @param bool $grows Whether the difference increases, because the other time is in the past.
 */
function until_text_changes( int $difference, bool $grows ): int {
	// The units of WordPress, and the differences from which it uses them.
	$units = array( 1, 60, 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400 );
	$index = 0;
	while ( isset( $units[ $index + 1 ] ) && $difference >= $units[ $index + 1 ] ) {
		++$index;
	}
	$unit  = $units[ $index ];
	$count = round( $difference / $unit );
	if ( $grows ) {
		return (int) ceil( min( ( $count + 0.5 ) * $unit, $units[ $index + 1 ] ?? INF ) - $difference );
	}
	return max( 1, (int) floor( $difference - max( ( $count - 0.5 ) * $unit, $index > 0 ? $unit : 0 ) ) );
}

/**
 * Limits the lifetime of a page whose comments WordPress closes some days after the publication of the post.
 */
function gather_closing( $is_open, $post_id = 0 ) {
	$days = $is_open && get_option( 'close_comments_for_old_posts' ) ? (int) get_option( 'close_comments_days_old' ) : 0;
	$post = $days > 0 ? get_post( $post_id ) : null;
	/** This filter is documented in wp-includes/comment.php */
	if ( $post instanceof \WP_Post && in_array( $post->post_type, (array) apply_filters( 'close_comments_for_post_types', array( 'post' ) ), true ) ) { // phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals -- WordPress's own.
		$left = (int) strtotime( "$post->post_date_gmt +0000" ) + $days * DAY_IN_SECONDS - time();
		if ( $left > 0 ) {
			at_most( $left + 1 );
		}
	}
	return $is_open;
}

/**
 * Limits the lifetime of a page that contains a text such as "5 minutes ago" whose next change is unknown.
 *
 * @param string $page Content of the page.
 */
function note_relative_times( string $page ): void {
	$texts = array();
	foreach ( array_merge( array( 'default' ), array_keys( (array) ( $GLOBALS['l10n'] ?? array() ) ) ) as $domain ) {
		foreach ( DIFFERENCES as $text ) {
			$translated = translate( $text, (string) $domain ); // phpcs:ignore WordPress.WP.I18n -- the text of another plugin.

			$texts[ $text ]       = true;
			$texts[ $translated ] = true;
		}
	}
	$written = null;
	foreach ( relative_times( $page, array_map( 'strval', array_keys( $texts ) ) ) as $found => $difference ) {
		if ( isset( $GLOBALS['galley_differences'][ $difference ] ) ) {
			continue;
		}
		$written = $written ?? written_texts();
		if ( false === stripos( $written, $found ) ) {
			at_most( TEXT_LIFETIME );
			return;
		}
	}
}

/**
 * Returns what people have written in the posts and comments of the page. Their words do not change with time.
 */
function written_texts(): string {
	$written = '';
	$posts   = array_merge( (array) ( $GLOBALS['wp_query']->posts ?? array() ), array( get_queried_object() ) );
	foreach ( $posts as $post ) {
		if ( $post instanceof \WP_Post ) {
			$written .= "$post->post_title\n$post->post_excerpt\n$post->post_content\n";
		}
	}
	foreach ( (array) ( $GLOBALS['wp_query']->comments ?? array() ) as $comment ) {
		$written .= ( $comment->comment_content ?? '' ) . "\n";
	}
	return plain_text( $written );
}

/**
 * Returns a text without tags and with single spaces. Pure.
 */
function plain_text( string $html ): string {
	return (string) preg_replace( '/(?:<[^>]*>|&nbsp;|&#160;|\xC2\xA0|\s)+/', ' ', $html );
}

/**
 * Returns the time differences in a page, such as "5 minutes", by the texts that contain them, such as "5 minutes ago". Pure.
 *
 * @param string   $page  Content of the page.
 * @param string[] $texts Texts around a difference. Each contains `%s`.
 * @return array<string, string>
 */
function relative_times( string $page, array $texts ): array {
	$found = array();
	$space = '(?:<[^>]{0,200}>|&nbsp;|&#160;|\xC2\xA0|\s)';
	foreach ( array_unique( $texts ) as $text ) {
		$around = preg_split( '/%(?:1\$)?s/', $text );
		if ( 2 !== count( $around ) || '' === trim( implode( '', $around ) ) || false === strpos( $page, strlen( $around[0] ) > strlen( $around[1] ) ? trim( $around[0] ) : trim( $around[1] ) ) ) {
			continue;
		}
		// In other languages any word counts as a unit.
		$difference = in_array( $text, DIFFERENCES, true ) ? "(?:\\d{1,4}|an?|few)$space{1,9}(?:sec(?:ond)?|min(?:ute)?|ho?u?r|day|week|month|year)s?" : "\\d{1,4}$space{0,9}[^\\s<>&\\d.,;:!?()]{1,30}";
		$around     = preg_replace( '/\s+/', $space . '{1,9}', array( preg_quote( $around[0], '/' ), preg_quote( $around[1], '/' ) ) );
		preg_match_all( "/(?<![\\w-])$around[0]($difference)$around[1](?![\\w-])/i", $page, $matches, PREG_SET_ORDER );
		foreach ( array_slice( $matches, 0, MAX_DIFFERENCES ) as $match ) {
			$found[ plain_text( $match[0] ) ] = plain_text( $match[1] );
		}
	}
	return $found;
}

/**
 * Limits the lifetime of a page with a list whose conditions depend on the current time.
 */
function gather_current_time( \WP_Query $query ): void {
	$vars   = $query->query_vars;
	$fields = array(
		'value' => $vars['meta_value'] ?? array(),
		'query' => (array) ( $vars['meta_query'] ?? array() ),
	);
	if ( names_now( (array) ( $vars['date_query'] ?? array() ), $fields, time() ) ) {
		at_most( TEXT_LIFETIME );
	}
}

/**
 * Returns whether the conditions of a query name the current time: a date relative to it, or a value of a field less than two days from it, such
 * as a list of events that have not ended. Pure.
 *
 * @param array $dates  The argument `date_query`.
 * @param array $fields Clauses of fields, as in the argument `meta_query`.
 */
function names_now( array $dates, array $fields, int $now ): bool {
	$has = false;
	array_walk_recursive(
		$dates,
		static function ( $value, $key ) use ( &$has ): void {
			// A date that does not depend on the current time is the same at two times.
			$has = $has || ( in_array( $key, array( 'after', 'before' ), true ) && is_string( $value ) && strtotime( $value, 0 ) !== strtotime( $value, 40000000 ) );
		}
	);
	$left = array( $fields );
	while ( $left && ! $has ) {
		$clause = array_pop( $left );
		foreach ( (array) ( $clause['value'] ?? array() ) as $value ) {
			$has = $has || abs( ( time_of( $value ) ?? 0 ) - $now ) < 2 * DAY_IN_SECONDS;
		}
		$left = array_merge( $left, array_filter( $clause, 'is_array' ) );
	}
	return $has;
}

/**
 * Returns the time that a value of a field means, as Unix time: a number of seconds or a date. Null if it means none. Pure.
 *
 * @param mixed $value Value of a field.
 */
function time_of( $value ): ?int {
	$value = is_scalar( $value ) ? (string) $value : '';
	if ( preg_match( '/^\d{9,11}$/D', $value ) ) {
		return (int) $value;
	}
	if ( preg_match( '/^(20\d\d)-?([01]\d)-?([0-3]\d)(?:[ T]?\d|$)/D', $value, $date ) ) {
		return gmmktime( 12, 0, 0, (int) $date[2], (int) $date[3], (int) $date[1] );
	}
	return null;
}
