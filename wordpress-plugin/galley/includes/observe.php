<?php
/**
 * Observes the SQL of a page that Galley may store: which tables PHP reads.
 *
 * The other files describe what WordPress keeps in its own tables. A page that reads another table may change without any event that they
 * know: a group becomes private, an activity appears. Such a page has the tag `tb.` with the name of the table, and each statement that writes to the
 * table purges it (writes.php). If not all changes of the table can be seen, or it changes all the time (busy.php), the page also has the tag `db.` and
 * lives for a minute. Galley does not serve it after that while PHP generates a new one. The server names the table as the reason.
 *
 * The observer sees the statements of each `wpdb` from the moment on at which WordPress loads the plugin. It does not see rows that a plugin
 * takes from a persistent object cache, with which pages with tables of other plugins live for a minute.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Option with the times at which tables were found to be plain ones, or views on such tables. Others have negative times. */
const PLAIN_OPTION = 'galley_plain_tables';

/** Seconds after which the plugin looks at the kind of a table again. */
const PLAIN_FOR = 86400;

/** Lifetime of a page that reads tables whose changes the plugin cannot see, in seconds. */
const UNKNOWN_LIFETIME = 60;

/** Maximum number of tables that the tags of a page name. */
const MAX_UNKNOWN_TABLES = 20;

/** Tables of WordPress, without the prefix of the database. Bookmarks (`links`) are not among them: no event describes them. */
const CORE_TABLES = array( 'posts', 'comments', 'options', 'postmeta', 'terms', 'term_taxonomy', 'term_relationships', 'termmeta', 'commentmeta', 'users', 'usermeta', 'blogs', 'blogmeta', 'signups', 'site', 'sitemeta', 'sitecategories', 'registration_log' );

/**
 * Tables of other plugins that do not limit the lifetime of a page, without the prefix of the database.
 *
 * - Tax rates and their places: `on_tax_rate` purges the pages that calculate taxes. No page prints the names of tax classes.
 * - The queue of Action Scheduler: no page shows it. Plugins look into it to find out whether their tasks are scheduled.
 *
 * `PRODUCT_TABLE` is described by its columns: see `describe_product_statement`.
 */
const DESCRIBED_TABLES = array( 'woocommerce_tax_rates', 'woocommerce_tax_rate_locations', 'wc_tax_rate_classes', 'actionscheduler_actions', 'actionscheduler_claims', 'actionscheduler_groups', 'actionscheduler_logs' );

/** Unknown tables that the current page reads. The keys are their names. */
$GLOBALS['galley_tables'] = array();

if ( is_shared() ) {
	add_filter( 'posts_request', __NAMESPACE__ . '\\note_described_statement', PHP_INT_MAX );
	add_filter( 'posts_request_ids', __NAMESPACE__ . '\\note_described_statement', PHP_INT_MAX );
}

/**
 * Begins to observe statements and options. Only after all parts are loaded, because loading them reads options, which may take statements.
 */
function begin_to_observe(): void {
	if ( is_shared() ) {
		add_filter( 'query', __NAMESPACE__ . '\\observe_statement', PHP_INT_MAX );
	}
	if ( is_described() ) {
		add_filter( 'alloptions', __NAMESPACE__ . '\\note_all_options', PHP_INT_MAX );
		foreach ( FRONT_OPTIONS as $option ) {
			add_filter( "option_$option", __NAMESPACE__ . '\\note_front_option', PHP_INT_MAX, 2 );
			add_filter( "default_option_$option", __NAMESPACE__ . '\\note_front_option', PHP_INT_MAX, 2 );
		}
	}
	add_filter( 'query', __NAMESPACE__ . '\\observe_write', PHP_INT_MAX );
}

/**
 * Records the tables that a statement reads and that no other tags describe: unknown ones, and WordPress's own if other code than WordPress's reads them.
 *
 * @param string $sql Statement that WordPress sends to the database. Returned without changes.
 */
function observe_statement( $sql ) {
	settle_read();
	$unknown = array();
	$core    = array();
	foreach ( is_string( $sql ) ? tables_read_by( $sql ) : array() as $table ) {
		if ( ! is_described_table( $table, $sql ) ) {
			$unknown[] = within_own( $table );
		} elseif ( 'options' === substr( $table, -7 ) ) {
			note_options_statement( $sql, $table );
		} elseif ( null !== core_name( $table ) ) {
			$core[] = within_own( $table );
		}
	}
	if ( $core && is_core_statement() ) {
		$core = array();
	}
	foreach ( $unknown ? tables_of_views( $unknown ) : array() as $table ) {
		if ( ! is_described_table( $table, $sql ) ) {
			$unknown[] = $table;
		} elseif ( null !== core_name( $table ) ) {
			$core[] = $table;
		} elseif ( 'options' === substr( $table, -7 ) ) {
			tag_network( prefix_of_options( $table ) . 'op' );
		}
	}
	if ( $core ) {
		announce_core_reads( $core );
		$unknown = array_merge( $unknown, $core );
	}
	foreach ( $unknown as $at => $table ) {
		if ( count( $GLOBALS['galley_tables'] ) >= MAX_UNKNOWN_TABLES && ! isset( $GLOBALS['galley_tables'][ $table ] ) ) {
			// It stands for all others. No table has it, so the page lives for a minute.
			$table          = UNKNOWN_TABLE;
			$unknown[ $at ] = $table;
		}
		$GLOBALS['galley_tables'][ $table ] = true;
		if ( isset( $GLOBALS['galley_open_fragment'] ) && ! in_array( $table, tables_of_authors(), true ) ) {
			// A page that lives for a week must not get a part that is valid for a minute.
			$GLOBALS['galley_open_fragment']['reads_unknown'] = true;
		}
	}
	if ( $unknown ) {
		note_read( $sql, array_unique( $unknown ) );
	}
	return $sql;
}

/**
 * Returns the name of a table without that of the database if it is the one of WordPress.
 */
function within_own( string $table ): string {
	$own = $GLOBALS['wpdb']->dbname . '.';
	return 0 === strncasecmp( $table, $own, strlen( $own ) ) ? substr( $table, strlen( $own ) ) : $table;
}

/**
 * Returns whether other files describe what a statement reads from a table.
 *
 * @param string $table Name as in the statement.
 */
function is_described_table( string $table, string $sql ): bool {
	static $known = array();
	$is_known     = $known[ $table ] ?? null;
	if ( null === $is_known ) {
		$is_known        = table_kind( $table, $GLOBALS['wpdb'], is_multisite() );
		$known[ $table ] = $is_known;
	}
	if ( PRODUCT_TABLE === $is_known ) {
		describe_product_statement( $sql );
	}
	return '' !== $is_known;
}

/**
 * Returns `core` for a table of WordPress or of the database itself, `described` for a table in `DESCRIBED_TABLES`, `PRODUCT_TABLE`, or an
 * empty string for an unknown table. Pure.
 *
 * @param object $wpdb       With `dbname`, `base_prefix`, `users` and `usermeta`.
 * @param bool   $is_network Whether the tables of blogs have a number in their prefix.
 */
function table_kind( string $table, $wpdb, bool $is_network ): string {
	$own = "$wpdb->dbname.";
	if ( 0 === strncmp( $table, $own, strlen( $own ) ) ) {
		$table = substr( $table, strlen( $own ) );
	}
	if ( in_array( $table, array( $wpdb->users, $wpdb->usermeta ), true ) || 0 === strncasecmp( $table, 'information_schema.', 19 ) ) {
		return 'core';
	}
	$prefix = preg_quote( (string) $wpdb->base_prefix, '/' ) . ( $is_network ? '(?:\d+_)?' : '' );
	if ( ! preg_match( "/^$prefix([a-z_]+)\$/D", $table, $found ) ) {
		return '';
	}
	if ( in_array( $found[1], CORE_TABLES, true ) ) {
		return 'core';
	}
	return PRODUCT_TABLE === $found[1] ? PRODUCT_TABLE : ( in_array( $found[1], DESCRIBED_TABLES, true ) ? 'described' : '' );
}

/**
 * Records the statement of a query whose list has tags for everything that filters added (gather-filters.php).
 */
function note_described_statement( $sql ) {
	if ( is_string( $sql ) && false !== strpos( $sql, PRODUCT_TABLE ) ) {
		// `wpdb` removes the placeholders of `%` before it runs the filter `query`, which `describe_product_statement` gets.
		$GLOBALS['galley_described_statement'] = $GLOBALS['wpdb']->remove_placeholder_escape( $sql );
	}
	return $sql;
}

/**
 * Adds the tags of a statement that reads WooCommerce's table of products: which products there are, and the fields that its columns are
 * copies of.
 */
function describe_product_statement( string $sql ): void {
	if ( ( $GLOBALS['galley_described_statement'] ?? null ) === $sql ) {
		return;
	}
	foreach ( array( 'product', 'product_variation' ) as $type ) {
		tag( "l.$type" );
		tag( "l.$type.x" );
		tag( "l.$type.xv" );
		foreach ( product_fields( $sql ) as $field ) {
			tag( "o.$type." . word( $field ) );
		}
	}
}

/**
 * Returns the tables that other plugins describe themselves.
 *
 * @return string[]
 */
function tables_of_authors(): array {
	/**
	 * Filters the names of tables, with the prefix of the database, that do not limit the lifetime of pages: their plugin tags each page that
	 * shows their content, and purges these tags.
	 */
	return (array) apply_filters( 'galley_described_tables', array() );
}

/**
 * Returns the unknown tables that the current page reads.
 *
 * @return string[]
 */
function unknown_tables(): array {
	$tables = array_map( 'strval', array_keys( $GLOBALS['galley_tables'] ) );
	if ( keeps_values() && function_exists( 'is_buddypress' ) && did_action( 'wp' ) && is_buddypress() ) {
		// BuddyPress keeps its rows in the object cache, so that no statement reads them. The rows contain the members of private groups.
		$tables[] = $GLOBALS['wpdb']->base_prefix . 'bp_*';
	}
	return $tables ? array_values( array_diff( $tables, tables_of_authors() ) ) : array();
}

/**
 * Adds the tags of the unknown tables that the page reads. Limits its lifetime if the plugin cannot see all their changes; a tag names the reason.
 *
 * @param bool $may_limit Whether tables limit the lifetime.
 */
function gather_tables( bool $may_limit ): void {
	$tables  = unknown_tables();
	$unknown = $tables ? gather_statements() : array();
	$plain   = $tables ? plain_tables( $tables ) : array();
	foreach ( $tables as $table ) {
		$name = tagged_name( $table );
		tag_network( ( isset( $unknown[ $name ] ) || false !== strpos( $name, '*' ) ? 'tb.' : 'tv.' ) . $name );
		if ( $may_limit && ! in_array( $table, $plain, true ) ) {
			tag_network( own_tag( "db.$table" ) );
			at_most( UNKNOWN_LIFETIME );
		}
	}
	keep_core_reads();
	gather_unfiltered();
	if ( $may_limit ) {
		limit_to_busy();
	}
}

/**
 * Returns those of the tables whose changes the plugin sees: tables of this WordPress, and views whose tables are known. With a persistent object
 * cache, other plugins keep rows of their tables there.
 *
 * @param string[] $tables Names as in the statements.
 * @return string[]
 */
function plain_tables( array $tables ): array {
	if ( keeps_values() ) {
		$tables = array_filter( $tables, __NAMESPACE__ . '\\core_name' );
	}
	$tables = array_diff( $tables, array_keys( $GLOBALS['galley_unannounced_reads'] ) );
	$known  = kept_record( PLAIN_OPTION );
	$since  = time() - PLAIN_FOR;
	$plain  = array();
	foreach ( $tables as $table ) {
		if ( abs( $known[ $table ] ?? 0 ) < $since && count( $known ) < 500 ) {
			$known[ $table ] = is_plain_table( $table ) ? time() : -time();
			keep_record( PLAIN_OPTION, $known );
		}
		if ( ( $known[ $table ] ?? 0 ) >= $since ) {
			$plain[] = $table;
		}
	}
	return $plain;
}

/**
 * Asks the database whether all changes of what a table shows are known: it is one, or a view on such tables.
 *
 * @param string $table Name as in a statement.
 */
function is_plain_table( string $table ): bool {
	global $wpdb;
	if ( ! preg_match( '/^' . preg_quote( $wpdb->base_prefix, '/' ) . '[\w$]+$/D', $table ) ) {
		return false;
	}
	$links = table_links();
	if ( null === $links['changes'] || isset( $links['views'][ tagged_name( $table ) ] ) ) {
		return null !== $links['changes'];
	}
	$sql  = "SELECT TABLE_TYPE = 'BASE TABLE' FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s";
	$hide = $wpdb->suppress_errors( true );
	// phpcs:ignore WordPress.DB -- no placeholders but that one; the answer is kept for a day.
	$is_plain = $wpdb->get_var( $wpdb->prepare( $sql, $table ) );
	$wpdb->suppress_errors( $hide );
	return '1' === (string) $is_plain;
}

/**
 * Returns whether unknown tables limit the lifetime of a response. Code that sets the lifetime of a REST response, or of a page that has tags
 * of its own, knows these tables. Plugins that make browsers keep pages set one for every page. Pure.
 *
 * @param bool $has_lifetime Whether the response has a lifetime from other code.
 * @param bool $is_rest      Whether it is a response of REST.
 * @param bool $is_tagged    Whether code of other plugins has added tags with `galley_tag()`.
 */
function tables_count( bool $has_lifetime, bool $is_rest, bool $is_tagged ): bool {
	return ! $has_lifetime || ( ! $is_rest && ! $is_tagged );
}
