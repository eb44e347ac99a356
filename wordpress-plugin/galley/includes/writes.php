<?php
/**
 * Records what a request changes in options and in tables of other plugins, and purges the pages that read it.
 *
 * - **Options, settings of the network, transients**: the first value that the request replaced is compared with the value at the end, so what is
 *   written again or ends as it began purges nothing. `op.NAME` are the pages that read the option (options-read.php).
 * - **Tables**: each statement that writes to a table that the plugin does not know purges `tb.TABLE`, unless it changed no row. Statements on the
 *   table of options past WordPress's functions purge the options that they name, or everything.
 *
 * Before the first such change is sent to the database, pending.php notes that the request may change something. Purges are sent after the end of a
 * transaction. A request for a page that Galley stores may fill transients that are missing or over: that purges only pages that found none, because pages end with their
 * transients, and soon if they found none.
 *
 * Not seen: what other programs and `mysqli` write past `wpdb`, and functions of the database that write.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** First values of changed options, by blog and name; their last values; those that are about to be written. */
$GLOBALS['galley_first_values'] = array();
$GLOBALS['galley_last_values']  = array();
$GLOBALS['galley_next_values']  = array();

/** Transients whose time was over before this request set a new one, by blog and name: -1 in place of the blog for the network. */
$GLOBALS['galley_filled_again'] = array();

/** Tags, with their prefixes, of what statements changed, as keys. */
$GLOBALS['galley_written'] = array();

/** The same before the open transaction, or null if none is open. */
$GLOBALS['galley_transaction'] = null;

/** The last statement that may have changed something, and the tags of what it changes: null for the end of a transaction. */
$GLOBALS['galley_statement'] = null;

/** Whether a statement may have changed which tables are views, or what the database itself changes. */
$GLOBALS['galley_kinds_changed'] = false;

/** The option that WordPress's functions are about to write. */
$GLOBALS['galley_option_at_work'] = null;

/**
 * Options in which plugins keep results for later pages, and what fills them. The SEO Framework empties its one with each edit. Pages that have read the
 * old value remain valid if the new one is the same.
 */
const FILLED_OPTIONS = array( 'autodescription-site-cache' => 'The_SEO_Framework\Helper\Query\Exclusion::get_excluded_ids_from_cache' );

/** Stands for a missing option. */
$GLOBALS['galley_gone'] = new \stdClass();

/** Stands for the value of a transient that ends earlier than before. It differs from every value. */
$GLOBALS['galley_shortened'] = (object) array( 'is' => 'shortened' );

add_action( 'update_option', __NAMESPACE__ . '\\note_first_value', PHP_INT_MAX, 3 );
add_action( 'add_option', __NAMESPACE__ . '\\note_new_option', PHP_INT_MAX, 2 );
add_action( 'delete_option', __NAMESPACE__ . '\\note_gone_option', PHP_INT_MAX );
foreach ( array( 'updated_option', 'added_option', 'deleted_option' ) as $galley_action ) {
	add_action( $galley_action, __NAMESPACE__ . '\\note_last_value', PHP_INT_MIN );
}
if ( is_multisite() ) {
	foreach ( array( 'update_site_option', 'add_site_option', 'delete_site_option' ) as $galley_action ) {
		add_action( $galley_action, __NAMESPACE__ . '\\note_network_option', 10, 3 );
	}
}
if ( wp_using_ext_object_cache() ) {
	foreach ( array( 'setted_transient', 'deleted_transient', 'setted_site_transient', 'deleted_site_transient' ) as $galley_action ) {
		add_action( $galley_action, __NAMESPACE__ . '\\note_cached_transient' );
	}
}
unset( $galley_action );

/**
 * Records the values of an option before and after a change that WordPress is about to write.
 */
function note_first_value( $option, $old = null, $new = null ): void {
	$name                             = (string) $option;
	$GLOBALS['galley_option_at_work'] = $name;
	if ( ! is_timeout( $name ) ) {
		note_change( $name, $old, $new );
		return;
	}
	$name = transient_of_timeout( $name );
	if ( (int) $old < time() ) {
		$GLOBALS['galley_filled_again'][ get_current_blog_id() ][ $name ] = true;
	} elseif ( (int) $new < (int) $old ) {
		// Pages that have read the transient would live longer than it.
		note_change( $name, $GLOBALS['galley_shortened'], $new );
	}
}

function note_new_option( $option, $value = null ): void {
	$GLOBALS['galley_option_at_work'] = (string) $option;
	if ( ! is_timeout( (string) $option ) ) {
		note_change( (string) $option, $GLOBALS['galley_gone'], $value );
	}
}

function note_gone_option( $option ): void {
	$name = (string) $option;
	note_name( $name );
	if ( ! is_timeout( $name ) && is_observed_option( $name ) && ! is_expired( $name ) ) {
		$is_known = array_key_exists( $name, $GLOBALS['galley_first_values'][ get_current_blog_id() ] ?? array() );
		note_change( $name, $is_known ? null : get_option( $name ), $GLOBALS['galley_gone'] );
	}
	$GLOBALS['galley_option_at_work'] = $name;
}

/**
 * Queues a purge of pages that asked the array of all options for names (`oe`), if it has a name that was created or is about to be deleted.
 * Most transients are not in this array.
 */
function note_name( string $name ): void {
	if ( isset( wp_load_alloptions()[ $name ] ) ) {
		later(
			'names',
			static function (): void {
				queue_observed( without_busy( array( blog_prefix() . 'oe' ) ) );
			}
		);
	}
}

/**
 * Records a change that may fail. If the option would then have its first value, only the success counts, because the change before it did not fail.
 * The values are those of WordPress's actions: filters of other plugins change what `get_option()` returns.
 */
function note_change( string $name, $old, $new ): void {
	$blog      = get_current_blog_id();
	$has_first = array_key_exists( $name, $GLOBALS['galley_first_values'][ $blog ] ?? array() );
	if ( ! is_observed_option( $name ) ) {
		return;
	}
	if ( ! $has_first && is_shared() && is_filling( $name, $old ) ) {
		queue_filled( blog_prefix() . 'om.' . word( $name ) );
		return;
	}
	deliver_meanwhile();
	$first = &$GLOBALS['galley_first_values'][ $blog ];
	if ( ! array_key_exists( $name, $first ?? array() ) || $old === $GLOBALS['galley_shortened'] ) {
		$first[ $name ] = $old;
	}
	if ( is_changed( $first[ $name ], $new, $GLOBALS['galley_gone'] ) ) {
		$GLOBALS['galley_last_values'][ $blog ][ $name ] = $new;
	}
	$GLOBALS['galley_next_values'][ $blog ][ $name ] = $new;
	later( 'options', __NAMESPACE__ . '\\queue_changed_options' );
	if ( $GLOBALS['galley_is_over'] ) {
		write_late_purges( without_busy( tags_of_option( $name, blog_prefix() ) ) );
	}
}

/**
 * Records that the last change of an option has succeeded. A change within an action of another one ends before that.
 */
function note_last_value( $option ): void {
	$blog = get_current_blog_id();
	$name = (string) $option;
	$next = $GLOBALS['galley_next_values'][ $blog ] ?? array();
	if ( array_key_exists( $name, $next ) ) {
		$GLOBALS['galley_last_values'][ $blog ][ $name ] = $next[ $name ];
		unset( $GLOBALS['galley_next_values'][ $blog ][ $name ] );
	}
}

/**
 * Queues a purge of the pages that found a transient missing which a page that Galley may store has filled. Pages that read the value before have
 * ended with it.
 *
 * @param string $tag Tag with its prefix.
 */
function queue_filled( string $tag ): void {
	later(
		"filled $tag",
		static function () use ( $tag ): void {
			queue_observed( without_busy( array( $tag ) ) );
		}
	);
}

/**
 * Returns whether a change fills a transient that was missing or whose time was over.
 */
function is_filling( string $name, $old, int $blog = 0 ): bool {
	return is_transient( $name ) && ( $old === $GLOBALS['galley_gone'] || isset( $GLOBALS['galley_filled_again'][ $blog ? $blog : get_current_blog_id() ][ $name ] ) );
}

function is_transient( string $name ): bool {
	return (bool) preg_match( '/^_(?:site_)?transient_/', $name );
}

/**
 * Returns whether an option is a transient whose time is over. Pages have ended with it, and WordPress deletes it now.
 */
function is_expired( string $name, bool $is_network = false ): bool {
	$time = str_replace( '_transient_', '_transient_timeout_', $name );
	$end  = is_transient( $name ) ? (int) ( $is_network ? get_site_option( $time ) : get_option( $time ) ) : 0;
	return $end > 0 && $end < time();
}

/**
 * Queues purges for the options of the current blog whose values differ from the first ones.
 */
function queue_changed_options(): void {
	$blog = get_current_blog_id();
	foreach ( array_intersect_key( FILLED_OPTIONS, $GLOBALS['galley_first_values'][ $blog ] ?? array() ) as $fill ) {
		if ( is_callable( $fill ) ) {
			$fill();
		}
	}
	$first = $GLOBALS['galley_first_values'][ $blog ] ?? array();
	$last  = $GLOBALS['galley_last_values'][ $blog ] ?? array();
	$tags  = array();
	$made  = array();
	unset( $GLOBALS['galley_first_values'][ $blog ], $GLOBALS['galley_last_values'][ $blog ], $GLOBALS['galley_next_values'][ $blog ] );
	foreach ( $first as $name => $old ) {
		if ( $old === $GLOBALS['galley_shortened'] || ( array_key_exists( $name, $last ) && is_changed( $old, $last[ $name ], $GLOBALS['galley_gone'] ) ) ) {
			$changed = tags_of_option( (string) $name, blog_prefix() );
			$tags    = array_merge( $tags, $changed );
			if ( $old === $GLOBALS['galley_gone'] ) {
				$made[] = $changed[0];
				note_name( (string) $name );
			}
		}
	}
	queue_observed( without_busy( array_values( array_unique( $tags ) ), $made ) );
}

/**
 * Returns whether two values of an option differ. The database makes numbers texts. Pure.
 *
 * @param object $gone Stands for a missing option.
 */
function is_changed( $old, $new, object $gone ): bool {
	if ( $old === $gone || $new === $gone ) {
		return $old !== $new;
	}
	if ( is_scalar( $old ) && is_scalar( $new ) ) {
		return (string) $old !== (string) $new;
	}
	return $old !== $new && serialize( $old ) !== serialize( $new ); // phpcs:ignore WordPress.PHP.DiscouragedPHPFunctions -- compares only.
}

/**
 * @param string[] $tags Tags with their prefixes.
 */
function queue_observed( array $tags ): void {
	foreach ( $tags as $tag ) {
		queue_purge_of_word( $tag );
	}
}

/**
 * Handles a changed setting of the network. WordPress does not call this if a setting keeps its value.
 */
function note_network_option( $option, $new = null, $old = null ): void {
	$name   = (string) $option;
	$action = (string) current_action();
	$is_new = 'add_site_option' === $action;
	if ( is_timeout( $name ) ) {
		$name = transient_of_timeout( $name );
		if ( 'update_site_option' === $action && (int) $old < time() ) {
			$GLOBALS['galley_filled_again'][ -1 ][ $name ] = true;
		}
		$is_quiet = 'update_site_option' !== $action || (int) $old < time() || (int) $new >= (int) $old;
	} elseif ( 'delete_site_option' === $action ) {
		$is_quiet = is_expired( $name, true );
	} else {
		$is_quiet = is_shared() && is_filling( $name, $is_new ? $GLOBALS['galley_gone'] : null, -1 );
		if ( $is_quiet && is_observed_network_option( $name ) ) {
			queue_filled( 'om.' . word( $name ) );
		}
	}
	if ( ! $is_quiet && is_observed_network_option( $name ) ) {
		queue_observed( without_busy( array( 'so.' . word( $name ) ) ) );
	}
}

/**
 * Handles a transient in a persistent object cache, whose old value and end are unknown: nothing else ends the pages that show the old value.
 */
function note_cached_transient( $name ): void {
	$is_network = false !== strpos( (string) current_action(), '_site_' );
	$name       = ( $is_network ? '_site_transient_' : '_transient_' ) . $name;
	if ( is_observed_option( $name ) ) {
		queue_observed( without_busy( array( ( $is_network && is_multisite() ? 'so.' : blog_prefix() . 'op.' ) . word( $name ) ) ) );
	}
}

/**
 * Records a statement before it is sent, and what the statement before it has changed.
 *
 * @param string $sql Statement. Returned without changes.
 */
function observe_write( $sql ) {
	static $is_inner = false;
	if ( ! is_string( $sql ) || $is_inner ) {
		return $sql;
	}
	$is_inner = true;
	if ( null !== $GLOBALS['galley_statement'] ) {
		settle_statement( $sql );
	}
	if ( ! preg_match( '/^\s*+(?:SELECT|SHOW|DESC|SAVEPOINT)\b/i', $sql ) ) {
		$insert_id = $GLOBALS['wpdb']->insert_id;
		note_statement( $sql );
		$GLOBALS['wpdb']->insert_id = $insert_id;
	}
	$is_inner = false;
	return $sql;
}

function note_statement( string $sql ): void {
	static $always = false;
	$step          = transaction_step( $sql );
	if ( 'rollback' === $step ) {
		$GLOBALS['galley_statement']   = array( $sql, null, array() );
		$GLOBALS['galley_unannounced'] = isset( $GLOBALS['galley_purge_id'] );
		return;
	}
	if ( '' !== $step ) {
		$always                        = 'always' === $step || ( $always && 'never' !== $step );
		$GLOBALS['galley_transaction'] = $always || 'begin' === $step ? $GLOBALS['galley_written'] : null;
	}
	if ( 'commit' === $step && preg_match( '/^\s*+LOCK\b/i', $sql ) ) {
		// The row that announces a change cannot be written while other tables are locked.
		later( 'tables', __NAMESPACE__ . '\\queue_written' );
	}
	$tags   = array();
	$linked = array();
	$tables = tables_written_by( $sql );
	foreach ( $tables as $table ) {
		$tags   = array_merge( $tags, tags_of_write( $table, $sql ) );
		$linked = array_merge( $linked, UNKNOWN_TABLE === $table ? array() : tags_of_linked( $table ) );
	}
	$tags = array_merge( $tags, $linked );
	if ( preg_match( '/^\s*+(?:ALTER|DROP(?!\s+TEMPORARY\b))\b/i', $sql ) || in_array( is_multisite() ? '*' : 'b', $tags, true ) ) {
		$GLOBALS['galley_kinds_changed'] = true;
	}
	if ( $tags ) {
		$may_ask = ! preg_match( '/[^\x00-\x7f]|LAST_INSERT_ID/i', $sql );
		if ( $may_ask && ! array_filter( $tables, __NAMESPACE__ . '\\core_name' ) ) {
			// It runs statements inside of this one (private-sessions.php). Not between the noted state of an object of WordPress and its change.
			deliver_meanwhile();
		}
		later( 'tables', __NAMESPACE__ . '\\queue_written' );
		if ( $GLOBALS['galley_is_over'] ) {
			$tags = $may_ask ? without_busy( $tags ) : array_merge( $tags, classes_of_options( $tags ) );
			// Nobody sends statements again after the end.
			write_late_purges( array_merge( $tags, preg_replace( '/^tb/', 'tv', preg_grep( '/^tb\./', $tags ) ) ) );
		}
		$GLOBALS['galley_statement'] = array( $sql, $tags, $linked );
	}
}

/**
 * Returns what a statement does to transactions: `begin`, `commit`, `rollback`, `always` and `never` for the mode in which the database begins them
 * itself, or an empty string. Statements on the structure of tables commit. Pure.
 */
function transaction_step( string $sql ): string {
	$mode  = 'SET\s+(?:SESSION\s+|@@(?:session\.)?)?autocommit\s*:?=\s*';
	$steps = array(
		'begin'    => 'START\s+TRANSACTION|BEGIN(?!\s+NOT\b)',
		'commit'   => 'COMMIT|ALTER|CREATE(?!\s+(?:OR\s+REPLACE\s+)?TEMPORARY\b)|DROP(?!\s+TEMPORARY\b)|RENAME|TRUNCATE|LOCK',
		'rollback' => 'ROLLBACK(?!\s+(?:WORK\s+)?TO\b)',
		'always'   => "$mode(?:0|OFF)",
		'never'    => "$mode(?:1|ON)",
	);
	foreach ( $steps as $step => $pattern ) {
		if ( preg_match( "/^\\s*+(?:$pattern)\\b/i", $sql ) ) {
			return $step;
		}
	}
	return '';
}

/**
 * Returns the tags, with their prefixes, of what a statement changes in a table.
 *
 * @param string $table Name as in the statement.
 * @return string[]
 */
function tags_of_write( string $table, string $sql ): array {
	if ( UNKNOWN_TABLE === $table ) {
		return array( is_multisite() ? '*' : 'b' );
	}
	$kind = table_kind( $table, $GLOBALS['wpdb'], is_multisite() );
	if ( '' === $kind ) {
		$tag = table_tag( $table );
		return in_array( $table, tables_of_authors(), true ) || is_known_as_busy( $tag ) ? array() : array( $tag );
	}
	$name = core_name( $table );
	if ( null !== $name ) {
		return tags_of_core_write( $table, $name, $sql );
	}
	if ( 'core' !== $kind || ! preg_match( '/(?:^|[._])options$/D', $table ) ) {
		return array();
	}
	$at_work                          = $GLOBALS['galley_option_at_work'];
	$GLOBALS['galley_option_at_work'] = null;
	if ( ( null !== $at_work && false !== strpos( $sql, $at_work ) ) || preg_match( '/^\s*UPDATE\s+\S+\s+SET\s+`?autoload`?\s*=(?!.*\boption_value\b)/is', $sql ) ) {
		return array();
	}
	$prefix = prefix_of_options( $table );
	$tags   = array();
	foreach ( options_in_statement( $sql ) ?? array( 'siteurl' ) as $name ) {
		if ( ALL_TRANSIENTS === $name ) {
			$tags[] = "{$prefix}ot";
		} elseif ( is_observed_option( $name ) && 0 !== strpos( $name, 'theme_mods_' ) ) {
			$tags = array_merge( $tags, tags_of_option( $name, $prefix ), preg_match( '/^\s*UPDATE\b/i', $sql ) || is_transient( $name ) ? array() : array( "{$prefix}oe" ) );
		} elseif ( ! in_array( $name, QUIET_OPTIONS, true ) && ! preg_match( QUIET_PATTERN, $name ) && ! is_tree_option( $name ) ) {
			// One of WordPress's own, or any.
			$tags[] = "{$prefix}b";
		}
	}
	return $tags;
}

/**
 * Returns the tag of a table of another plugin. Some servers accept names in any case, so it is in lower case.
 *
 * @param string $table Name as in the statement.
 */
function table_tag( string $table ): string {
	return 'tb.' . own_tag( strtolower( within_own( $table ) ) );
}

/**
 * Records what the last statement has changed, from the number of rows that the database has told since.
 *
 * @param string $next Statement that is sent next.
 */
function settle_statement( string $next = '' ): void {
	list( $sql, $tags, $linked ) = $GLOBALS['galley_statement'];
	$GLOBALS['galley_statement'] = null;
	$wpdb                        = $GLOBALS['wpdb'];
	$is_last                     = $wpdb->last_query === $sql && '' === $wpdb->last_error;
	if ( null === $tags ) {
		// A warning means that a table without transactions keeps what was written.
		if ( $is_last && ( $wpdb->dbh ?? null ) instanceof \mysqli && 0 === $wpdb->dbh->warning_count ) {
			$GLOBALS['galley_written'] = $GLOBALS['galley_transaction'] ?? $GLOBALS['galley_written'];
		}
		$GLOBALS['galley_transaction'] = null;
	} elseif ( ! $is_last || 0 !== $wpdb->rows_affected || ! preg_match( '/^\s*(?:insert|delete|update|replace)\s/i', $sql ) ) {
		$GLOBALS['galley_written'] += array_fill_keys( $tags, true );
		foreach ( $GLOBALS['galley_raw_rows'] as $written ) {
			if ( ! preg_match( ABOUT_LAST_STATEMENT, $next ) && settle_raw_rows( $written, $is_last ) ) {
				continue;
			}
			if ( is_shared() ) {
				purge_unless_stored( array( is_multisite() ? '*' : 'b' ) );
			} else {
				$GLOBALS['galley_written'][ is_multisite() ? '*' : 'b' ] = true;
			}
		}
	} else {
		// Triggers also run for rows that keep their values.
		$GLOBALS['galley_written'] += array_fill_keys( $linked, true );
	}
	$GLOBALS['galley_raw_rows'] = array();
}

/**
 * Queues purges for what statements have changed.
 */
function queue_written(): void {
	if ( null !== $GLOBALS['galley_statement'] ) {
		settle_statement();
	}
	$tags                      = without_busy( array_map( 'strval', array_keys( $GLOBALS['galley_written'] ) ) );
	$GLOBALS['galley_written'] = array();
	queue_observed( $tags );
	queue_changed_tables( preg_replace( '/^tb\./', '', preg_grep( '/^tb\./', $tags ) ) );
	if ( $GLOBALS['galley_kinds_changed'] ) {
		$GLOBALS['galley_kinds_changed'] = false;
		delete_site_option( PLAIN_OPTION );
		delete_site_option( LINKS_OPTION );
		$GLOBALS['galley_table_links'] = null;
	}
	if ( in_array( is_multisite() ? '*' : 'b', $tags, true ) ) {
		// All pages are purged, and which statements have other results now is not known.
		ask_directly( "DELETE FROM %table% WHERE digest <> ''" );
	}
}
