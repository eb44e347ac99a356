<?php
/**
 * Statements on WordPress's own tables that other code than WordPress's sends: which pages read them, and what they change.
 *
 * What WordPress's functions read and write has tags of its own (gather-*.php, events-*.php). A page that reads such a table past them depends on it as
 * on a table of another plugin (statements.php). Edits then have to look at each write to it, so the page announces the table first: in a row that an edit reads
 * after its changes are visible, and in an option that most edits know from the beginning.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Option with the tables of WordPress that pages read past its functions, as keys. */
const CORE_READS_OPTION = 'galley_core_reads';

/** Files of WordPress in its folder, beside which owners put scripts of their own. */
const ROOT_FILES = '/^(?:index|xmlrpc|wp-(?:activate|blog-header|comments-post|config|cron|links-opml|load|login|mail|settings|signup|trackback))\.php$/D';

/** Tables that this page has announced, and those that it could not announce, as keys. */
$GLOBALS['galley_core_reads']        = array();
$GLOBALS['galley_unannounced_reads'] = array();

/** Tables that WordPress has written in this request, and that no page had announced when it began, as keys. */
$GLOBALS['galley_core_written'] = array();

/**
 * Returns the name of a table of WordPress without its prefix. Null for a table of options or another plugin, and for one of the database itself.
 *
 * @param string $table Name as in a statement.
 */
function core_name( string $table ): ?string {
	static $known = array();
	if ( ! array_key_exists( $table, $known ) && count( $known ) < 1000 ) {
		$known[ $table ] = core_name_of( $table );
	}
	return array_key_exists( $table, $known ) ? $known[ $table ] : core_name_of( $table );
}

function core_name_of( string $table ): ?string {
	if ( 'core' !== table_kind( $table, $GLOBALS['wpdb'], is_multisite() ) || 0 === strncasecmp( $table, 'information_schema.', 19 ) ) {
		return null;
	}
	$own = preg_replace( '/^.*\./', '', $table );
	foreach ( array( 'users', 'usermeta' ) as $name ) {
		if ( $own === $GLOBALS['wpdb']->$name ) {
			return $name;
		}
	}
	$name = preg_replace( '/^\d+_/', '', substr( $own, strlen( (string) $GLOBALS['wpdb']->base_prefix ) ) );
	return 'options' === $name ? null : $name;
}

/**
 * Returns whether WordPress itself, or this plugin, sends the statement that is being filtered.
 */
function is_core_statement(): bool {
	static $known = array();
	$file         = '';
	// phpcs:ignore WordPress.PHP.DevelopmentFunctions -- finds the caller of `wpdb`.
	foreach ( debug_backtrace( DEBUG_BACKTRACE_IGNORE_ARGS, 20 ) as $frame ) {
		$class = $frame['class'] ?? '';
		if ( 'wpdb' === $class || ( '' !== $class && 'WP_Hook' !== $class && is_subclass_of( $class, 'wpdb' ) ) ) {
			$file = $frame['file'] ?? '';
		} elseif ( '' !== $file ) {
			break;
		}
	}
	$known[ $file ] = $known[ $file ] ?? ( '' === $file || is_file_of_wordpress( $file ) );
	return $known[ $file ];
}

/**
 * Returns whether a file belongs to WordPress or to this plugin.
 */
function is_file_of_wordpress( string $file ): bool {
	$root   = realpath( ABSPATH );
	$folder = DIRECTORY_SEPARATOR;
	if ( 0 === strncmp( $file, dirname( __DIR__ ) . $folder, strlen( dirname( __DIR__ ) ) + 1 ) || ( dirname( $file ) === $root && preg_match( ROOT_FILES, basename( $file ) ) ) ) {
		return true;
	}
	return 0 === strncmp( $file, "$root{$folder}wp-admin$folder", strlen( $root ) + 10 ) || is_core_file( $file );
}

/**
 * Announces that a page is about to read tables of WordPress past its functions. Before the statement is sent: if the row is missing at the end of
 * an edit, the edit has ended before the page reads.
 *
 * @param string[] $tables Names as in the statement.
 */
function announce_core_reads( array $tables ): void {
	$names = array_map( __NAMESPACE__ . '\\tagged_name', $tables );
	$new   = array_diff( $names, array_keys( $GLOBALS['galley_core_reads'] + record_within( CORE_READS_OPTION ) ) );
	if ( ! $new ) {
		return;
	}
	$rows = array();
	foreach ( $new as $name ) {
		$rows[] = sprintf( "('%s', '', 0, 0x%s, '')", announcement( $name ), bin2hex( $name ) );
	}
	if ( insert_directly( 'INSERT IGNORE INTO %table% (id, digest, known, names, statement) VALUES ' . implode( ', ', $rows ) ) ) {
		$GLOBALS['galley_core_reads'] += array_fill_keys( $new, true );
	} else {
		$GLOBALS['galley_unannounced_reads'] += array_fill_keys( $tables, true );
	}
}

/**
 * Returns a record from within a statement. A network may have to ask the database, once in a request.
 */
function record_within( string $option ): array {
	static $known = array();
	$record       = kept_record( $option, true );
	if ( $record || ! is_multisite() ) {
		return $record;
	}
	if ( ! isset( $known[ $option ] ) ) {
		quietly(
			static function () use ( $option, &$known ): void {
				$known[ $option ] = kept_record( $option );
			}
		);
	}
	return $known[ $option ];
}

/**
 * Returns the key of the row that announces a table. It is no hash of a statement. Pure.
 */
function announcement( string $name ): string {
	return 't' . substr( md5( $name ), 0, 31 );
}

/**
 * Lets edits know from their beginning which tables pages read.
 */
function keep_core_reads(): void {
	if ( $GLOBALS['galley_core_reads'] ) {
		keep_record( CORE_READS_OPTION, kept_record( CORE_READS_OPTION ) + $GLOBALS['galley_core_reads'] );
		$GLOBALS['galley_core_reads'] = array();
	}
}

/**
 * Returns the tags of a write to a table of WordPress.
 *
 * @param string $table Name as in the statement.
 * @param string $name  Without the prefix.
 * @return string[]
 */
function tags_of_core_write( string $table, string $name, string $sql ): array {
	$tag = table_tag( $table );
	if ( ! is_core_statement() ) {
		return tags_of_raw_write( $table, $name, $sql );
	}
	if ( preg_match( "/'(?:_edit_lock|_edit_last|session_tokens)'/", $sql ) || is_known_as_busy( $tag ) ) {
		return array();
	}
	if ( isset( kept_record( CORE_READS_OPTION, true )[ tagged_name( $table ) ] ) ) {
		return array( $tag );
	}
	$GLOBALS['galley_core_written'][ tagged_name( $table ) ] = true;
	return array();
}

/**
 * Settles the last statement, before states of objects are compared, and queues the purges of tables of WordPress that pages have announced since the
 * request began.
 */
function queue_core_writes(): void {
	if ( null !== $GLOBALS['galley_statement'] ) {
		settle_statement();
	}
	$tables                         = array_map( 'strval', array_keys( $GLOBALS['galley_core_written'] ) );
	$GLOBALS['galley_core_written'] = array();
	$ids                            = implode( "', '", array_map( __NAMESPACE__ . '\\announcement', $tables ) );
	$rows                           = $tables ? rows_directly( "SELECT names FROM %table% WHERE id IN ('$ids')" ) : array();
	if ( null === $rows && ! is_table_missing() ) {
		// The connection is lost, for example. What pages have announced is unknown.
		$rows = array();
		foreach ( $tables as $name ) {
			$rows[] = array( 'names' => $name );
		}
	}
	foreach ( (array) $rows as $row ) {
		$GLOBALS['galley_written'][ "tb.$row[names]" ] = true;
		later( 'tables', __NAMESPACE__ . '\\queue_written' );
	}
}
