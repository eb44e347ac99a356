<?php
/**
 * Options, tables, fields and groups of the object cache that visitors change all the time: counters, statistics, records of visits.
 *
 * If requests of visitors changed one more than ten times in ten minutes, it is *busy* for an hour: changes by visitors purge nothing, and pages that
 * read it live for a minute, as do those that read what nobody observes. The change that makes it busy still purges, so that no page with a longer
 * lifetime remains. Changes by users who can edit posts, tasks and commands always purge. Pages that depend on all options (`op`) are one of these names.
 *
 * The record is one option of the network with at most `MAX_BUSY` entries, which is written only when a visitor changes something that is not busy.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

const BUSY_OPTION = 'galley_busy';

/** Number of changes by visitors in `BUSY_WINDOW` seconds that do not make a name busy yet. */
const BUSY_CHANGES = 10;

const BUSY_WINDOW = 600;

/** Seconds for which a name stays busy. */
const BUSY_FOR = 3600;

/** Seconds before the end from which on changes purge again. A change that purges nothing has ended before a page gets a long lifetime. */
const BUSY_MARGIN = 120;

const MAX_BUSY = 100;

/**
 * Returns whether the request is one of a visitor, as far as it is known yet.
 */
function is_by_visitor(): bool {
	return 'cli' !== PHP_SAPI && ! wp_doing_cron() && did_action( 'init' ) && ! is_user_logged_in();
}

/**
 * Returns whether a request reads pages as visitors do: the user cannot edit posts, as customers, and sends no form to a page. Pure.
 *
 * @param array $abilities  Keys are the capabilities of the user.
 * @param bool  $is_machine Whether it is a request of a script (admin-ajax, REST).
 */
function is_by_reader( array $abilities, string $method, bool $is_machine ): bool {
	return empty( $abilities['edit_posts'] ) && ( $is_machine || in_array( $method, array( 'GET', 'HEAD' ), true ) );
}

/**
 * Returns whether the changes of the request count as those of visitors.
 */
function counts_as_visitor(): bool {
	if ( is_by_visitor() || 'cli' === PHP_SAPI || wp_doing_cron() || ! did_action( 'init' ) ) {
		return is_by_visitor();
	}
	// No function that asks for a capability: its filters may run statements.
	return is_by_reader( wp_get_current_user()->allcaps, (string) ( $_SERVER['REQUEST_METHOD'] ?? '' ), wp_doing_ajax() || ( defined( 'REST_REQUEST' ) && REST_REQUEST ) ) && ! ( is_multisite() && is_super_admin() ); // phpcs:ignore WordPress.Security -- compared only.
}

/**
 * Returns the tags that a request has to purge: without those of busy names, and with the class of each option that is left, unless the class
 * is busy. Counts the changes of visitors. Names that this request has created do not count, because visitors may choose them.
 *
 * @param string[] $tags    Tags with their prefixes.
 * @param string[] $created Those of new options.
 * @return string[]
 */
function without_busy( array $tags, array $created = array() ): array {
	if ( ! $tags || ! counts_as_visitor() ) {
		return array_merge( $tags, classes_of_options( $tags ) );
	}
	$before              = kept_record( BUSY_OPTION );
	list( $now, $purge ) = count_changes( $before, array_diff( $tags, $created ), time() );
	$purge               = array_merge( $purge, array_intersect( $tags, $created ) );
	list( $now, $also )  = count_changes( $now, classes_of_options( $purge ), time() );
	if ( $now !== $before ) {
		keep_record( BUSY_OPTION, $now );
	}
	return array_merge( $purge, $also );
}

/**
 * Returns whether a field (meta) that a request has changed purges nothing: a page that Galley may store has changed it, and it is a counter, or
 * visitors change it all the time. Pages that show it are then as old as they may be.
 *
 * @param array|null $old Its values before, or null if they are unknown.
 */
function is_visit_field( string $type, int $id, string $key, ?array $old = null ): bool {
	if ( ! is_shared() ) {
		return false;
	}
	return only_counts( $old, (array) get_metadata( $type, $id, $key ) ) || ! without_busy( array( "mf.$type." . word( $key ) ) );
}

/**
 * Returns whether values only count, or tell when something was: all are numbers, or only digits in them have changed. Pure.
 */
function only_counts( ?array $old, array $new ): bool {
	if ( $new && array_filter( $new, 'is_numeric' ) === $new ) {
		return true;
	}
	$masked = preg_replace( '/\d+/', '0', array( serialize( $old ), serialize( $new ) ) ); // phpcs:ignore WordPress.PHP.DiscouragedPHPFunctions -- compares only.
	return null !== $old && $masked[0] === $masked[1];
}

/**
 * Returns the classes, with their prefixes, of the tags of options. Pure.
 *
 * @param string[] $tags Tags with their prefixes.
 * @return string[]
 */
function classes_of_options( array $tags ): array {
	$classes = array();
	foreach ( $tags as $tag ) {
		if ( preg_match( '/^(?:\d+\.)?op(?=\.)/', $tag, $found ) ) {
			$classes[ $found[0] ] = true;
		}
	}
	return array_keys( $classes );
}

/**
 * Returns whether a change by this request purges nothing, from what is in memory: no statement may run, because this may be inside of one.
 */
function is_known_as_busy( string $tag ): bool {
	return is_by_visitor() && array() === count_changes( kept_record( BUSY_OPTION, true ), array( $tag ), time() )[1];
}

/**
 * Returns a record that all blogs share. Without a network it is one of the options that WordPress has loaded, so a missing one costs no statement.
 *
 * @param bool $in_memory Whether to return only what this request has read before.
 */
function kept_record( string $option, bool $in_memory = false ): array {
	if ( ! is_multisite() ) {
		$all = $in_memory ? wp_cache_get( 'alloptions', 'options' ) : wp_load_alloptions();
		return (array) maybe_unserialize( $all[ $option ] ?? array() );
	}
	$kept = $in_memory ? wp_cache_get( get_current_network_id() . ":$option", 'site-options' ) : get_site_option( $option );
	return is_array( $kept ) ? $kept : array();
}

function keep_record( string $option, array $record ): void {
	if ( is_multisite() ) {
		update_site_option( $option, $record );
	} else {
		update_option( $option, $record, true );
	}
}

/**
 * Returns the record after changes of a visitor, and the tags to purge. Pure.
 *
 * @param array    $record Number of changes and time of the first one by tag, or null and the time at which it is no longer busy.
 * @param string[] $tags   What was changed.
 * @return array{array, string[]}
 */
function count_changes( array $record, array $tags, int $now ): array {
	$purge  = array();
	$record = array_filter(
		$record,
		static function ( array $entry ) use ( $now ): bool {
			return $now <= $entry[1] + ( null === $entry[0] ? 0 : BUSY_WINDOW );
		}
	);
	foreach ( $tags as $tag ) {
		list( $count, $time ) = $record[ $tag ] ?? array( 0, $now );
		if ( null === $count && $now < $time - BUSY_MARGIN ) {
			continue;
		}
		$purge[] = $tag;
		if ( null === $count ) {
			list( $count, $time ) = array( 0, $now );
		}
		++$count;
		$record[ $tag ] = $count > BUSY_CHANGES ? array( null, $now + BUSY_FOR ) : array( $count, $time );
	}
	if ( count( $record ) > MAX_BUSY ) {
		// Names that change often stay, so that many names with one change each do not drive them out.
		uasort(
			$record,
			static function ( array $a, array $b ): int {
				return array( $b[0] ?? BUSY_CHANGES + 1, $b[1] ) <=> array( $a[0] ?? BUSY_CHANGES + 1, $a[1] );
			}
		);
		$record = array_slice( $record, 0, MAX_BUSY, true );
	}
	return array( $record, $purge );
}

/**
 * Returns the tags of busy names among what a page with these tags reads. Pure.
 *
 * @param array $record As in `count_changes`.
 * @param array $tags   Keys are the tags.
 * @return string[]
 */
function busy_among( array $record, array $tags, int $now ): array {
	$busy = array();
	foreach ( $record as $tag => list( $count, $time ) ) {
		if ( null === $count && $now < $time && ( isset( $tags[ $tag ] ) || isset( $tags[ preg_replace( '/^((?:\d+\.)?op)\..*/', '$1', (string) $tag ) ] ) ) ) {
			$busy[] = (string) $tag;
		}
	}
	return $busy;
}

/**
 * Limits the lifetime of a page that reads something busy. Its tag names the reason.
 */
function limit_to_busy(): void {
	$record = kept_record( BUSY_OPTION );
	if ( ! $record ) {
		return;
	}
	// The header may have the class in place of the names.
	$sent = collapsed( array_map( 'strval', array_keys( $GLOBALS['galley_tags'] ) ), MAX_TAGS - 50, MAX_TAG_BYTES - 2000 );
	$tags = tags_of_all_parts() + array_fill_keys( $sent, true );
	foreach ( preg_grep( '/^tv\./', array_map( 'strval', array_keys( $tags ) ) ) as $tag ) {
		$tags[ 'tb' . substr( $tag, 2 ) ] = true;
	}
	foreach ( busy_among( $record, $tags, time() ) as $tag ) {
		tag_network( 'db.' . preg_replace( '/^((?:\d+\.)?)(?:op|om|tb|og)\./', '$1', $tag ) );
		at_most( UNKNOWN_LIFETIME );
	}
}
