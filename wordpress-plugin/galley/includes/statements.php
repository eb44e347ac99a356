<?php
/**
 * Statements of pages, and their results: an edit that leaves the result of a statement as it was purges no page for it.
 *
 * A table of this plugin keeps the statements that pages have sent, each with the digest of its result. A page has the tag `sq.` with the hash
 * of statement and digest, and `tv.TABLE` in place of `tb.TABLE`. After an edit has changed a table, it sends the statements on this table again and
 * purges `sq.` where the result differs. Purges of `tv.TABLE` are for the rest: too many statements, too little time, tables that
 * are changed all the time.
 *
 * What makes this exact (docs/internals/observed.md): a page trusts a row only after somebody has sent the statement again *after* the row was
 * written, with the same result. An edit reads the rows after its own changes are visible to all. So it either finds the row, or came before that
 * second result, which then differs. An edit removes rows before it purges.
 *
 * All statements of this file go to the database directly, so that what `wpdb` tells about the last statement stays as it is.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Maximum number of statements on one table, and of all statements. */
const MAX_STATEMENTS     = 200;
const MAX_ALL_STATEMENTS = 2000;

/** Maximum length of a statement in bytes, number of rows and bytes of its result, and number of statements of a page. */
const MAX_STATEMENT_BYTES = 4000;
const MAX_RESULT_ROWS     = 500;
const MAX_RESULT_BYTES    = 1048576;
const MAX_PAGE_STATEMENTS = 50;

/**
 * Seconds that an edit may take to send statements again, and a single statement for a page. On a busy machine, where needless purges cost most, an edit
 * sends at least some statements, each of which was fast for a page, and takes a second at most.
 */
const VERIFY_SECONDS     = 0.1;
const SLOW_SECONDS       = 0.02;
const MIN_VERIFIED       = 50;
const MAX_VERIFY_SECONDS = 1;

/**
 * Columns of rows for users that no page shows, by table without the prefix of the database. Yoast SEO reads the row of the author for each page, and
 * each post of the author changes its times. The times of posts are printed, as `article:modified_time`.
 */
const QUIET_COLUMNS = array( 'yoast_indexable' => array( 'object_last_modified', 'updated_at' ) );

/** Statements of the page: their tables, as tags name them, and the digest of the result or null. */
$GLOBALS['galley_reads'] = array();

/** The last one, whose result `wpdb` has when the next one is sent. */
$GLOBALS['galley_open_read'] = null;

/** Tables of which the page has read something that no digest covers, as keys. */
$GLOBALS['galley_unverified'] = array();

/**
 * Returns the name of this plugin's table. All blogs of a network share it.
 */
function statements_table(): string {
	return '`' . $GLOBALS['wpdb']->base_prefix . 'galley_statements`';
}

/**
 * Sends a statement past `wpdb`.
 *
 * @param string $sql With `%table%` in place of the table of statements.
 * @return \mysqli_result|bool
 */
function ask_directly( string $sql ) {
	$wpdb = $GLOBALS['wpdb'];
	if ( ! ( $wpdb->dbh ?? null ) instanceof \mysqli || method_exists( $wpdb, 'add_database' ) ) {
		return false;
	}
	try {
		return $wpdb->dbh->query( str_replace( '%table%', statements_table(), $sql ) );
	} catch ( \Throwable $failed ) {
		// Also an `Error` of PHP 8 for a closed connection.
		return false;
	}
}

/**
 * Inserts rows, and makes the table if it is missing. Not within a transaction of other code, which would end, or hide the rows.
 */
function insert_directly( string $sql ): bool {
	if ( null !== $GLOBALS['galley_transaction'] ) {
		return false;
	}
	if ( ask_directly( $sql ) ) {
		return true;
	}
	static $cannot = false;
	if ( $cannot || ! is_table_missing() ) {
		return false;
	}
	$made   = ask_directly( 'CREATE TABLE IF NOT EXISTS %table% (id char(32) CHARACTER SET ascii NOT NULL PRIMARY KEY, digest char(32) CHARACTER SET ascii NOT NULL, known tinyint NOT NULL, names varbinary(1000) NOT NULL, statement blob NOT NULL)' );
	$cannot = ! $made;
	return $made && ask_directly( $sql );
}

/**
 * Returns whether the last statement failed because the table is missing.
 */
function is_table_missing(): bool {
	try {
		return ( $GLOBALS['wpdb']->dbh ?? null ) instanceof \mysqli && 1146 === $GLOBALS['wpdb']->dbh->errno;
	} catch ( \Throwable $closed ) {
		return false;
	}
}

/**
 * @return array[]|null Rows, or null if the statement failed.
 */
function rows_directly( string $sql ): ?array {
	$result = ask_directly( $sql );
	$rows   = array();
	while ( $result instanceof \mysqli_result && $row = $result->fetch_assoc() ) { // phpcs:ignore WordPress.CodeAnalysis.AssignmentInCondition, Generic.CodeAnalysis.AssignmentInCondition -- not all builds of PHP have `fetch_all()`.
		$rows[] = $row;
	}
	return $result instanceof \mysqli_result ? $rows : null;
}

/**
 * Returns the name of a table as tags have it.
 */
function tagged_name( string $table ): string {
	return substr( table_tag( $table ), 3 );
}

/**
 * Records a statement of the page before it is sent.
 *
 * @param string[] $tables What no other tags describe: names as in the statement.
 */
function note_read( string $sql, array $tables ): void {
	$names = array_map( __NAMESPACE__ . '\\tagged_name', $tables );
	if ( ( count( $GLOBALS['galley_reads'] ) < MAX_PAGE_STATEMENTS || isset( $GLOBALS['galley_reads'][ $sql ] ) ) && null === $GLOBALS['galley_transaction'] && strlen( implode( ',', $names ) ) < 900 && is_repeatable( $sql ) && ! is_for_one_visit( $sql, time() ) ) {
		$GLOBALS['galley_reads'][ $sql ] = $GLOBALS['galley_reads'][ $sql ] ?? array( $names, null );
		$GLOBALS['galley_open_read']     = $sql;
	} else {
		$GLOBALS['galley_unverified'] += array_fill_keys( $names, true );
	}
}

/**
 * Returns whether a statement contains the current time, or a long value that the visitor chose, such as a token: no other visit sends it, and secrets
 * must not be kept.
 */
function is_for_one_visit( string $sql, int $now ): bool {
	foreach ( $_GET as $value ) { // phpcs:ignore WordPress.Security.NonceVerification -- compared only.
		if ( is_string( $value ) && strlen( $value ) > 15 && false !== strpos( $sql, substr( stripslashes( $value ), 0, 16 ) ) ) {
			return true;
		}
	}
	preg_match_all( '/\b(?:\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?|1\d{9})\b/', $sql, $times );
	foreach ( $times[0] as $time ) {
		// The time of the site or of the world.
		$seconds = ctype_digit( $time ) ? (int) $time : (int) strtotime( "$time UTC" );
		foreach ( array( 0, (int) ( 3600 * (float) get_option( 'gmt_offset' ) ) ) as $offset ) {
			if ( abs( $seconds - $offset - $now ) < 3600 ) {
				return true;
			}
		}
	}
	return false;
}

/**
 * Records the result of the last statement, which `wpdb` still has.
 */
function settle_read(): void {
	$sql = $GLOBALS['galley_open_read'];
	if ( null === $sql ) {
		return;
	}
	$GLOBALS['galley_open_read'] = null;
	$wpdb                        = $GLOBALS['wpdb'];
	$rows                        = ( $wpdb->last_query ?? null ) === $sql && '' === $wpdb->last_error ? (array) $wpdb->last_result : null;
	$digest                      = null === $rows ? null : digest_of( $rows, quiet_columns( $sql ) );
	list( $names, $before )      = $GLOBALS['galley_reads'][ $sql ];
	if ( null === $digest || ( null !== $before && $before !== $digest ) ) {
		$GLOBALS['galley_unverified'] += array_fill_keys( $names, true );
	} else {
		$GLOBALS['galley_reads'][ $sql ][1] = $digest;
	}
}

/**
 * Returns the columns of a statement's result that do not count, as keys, if it reads no other table. Pure.
 */
function quiet_columns( string $sql ): array {
	foreach ( QUIET_COLUMNS as $table => $columns ) {
		if ( false !== strpos( $sql, $table ) && ! preg_grep( "/_$table\$/D", tables_read_by( $sql ), PREG_GREP_INVERT ) ) {
			return array_fill_keys( $columns, true );
		}
	}
	return array();
}

/**
 * Returns the digest of rows, or null for too many. Pure.
 *
 * @param object[] $rows  As `wpdb` has them.
 * @param array    $quiet Columns that do not count in rows for users, as keys.
 */
function digest_of( array $rows, array $quiet = array() ): ?string {
	if ( count( $rows ) > MAX_RESULT_ROWS ) {
		return null;
	}
	$hash = hash_init( 'md5' );
	$left = MAX_RESULT_BYTES;
	foreach ( $rows as $row ) {
		$row   = (array) $row;
		$row   = 'user' === ( $row['object_type'] ?? '' ) ? array_diff_key( $row, $quiet ) : $row;
		$text  = serialize( $row ); // phpcs:ignore WordPress.PHP.DiscouragedPHPFunctions -- never read again.
		$left -= strlen( $text );
		if ( $left < 0 ) {
			return null;
		}
		hash_update( $hash, $text );
	}
	return hash_final( $hash );
}

/**
 * Sends a statement and returns the digest of its result, or null if it failed.
 */
function digest_now( string $sql ): ?string {
	$result = ask_directly( $sql );
	if ( ! $result instanceof \mysqli_result ) {
		return null;
	}
	$rows = array();
	$left = MAX_RESULT_BYTES;
	while ( $left >= 0 && count( $rows ) <= MAX_RESULT_ROWS && $row = $result->fetch_object() ) { // phpcs:ignore WordPress.CodeAnalysis.AssignmentInCondition, Generic.CodeAnalysis.AssignmentInCondition -- as in `wpdb`.
		$rows[] = $row;
		$left  -= array_sum( array_map( 'strlen', array_map( 'strval', (array) $row ) ) );
	}
	$result->free();
	return $left < 0 ? null : digest_of( $rows, quiet_columns( $sql ) );
}

/**
 * Returns the tag of a statement with a result. Pure.
 */
function statement_tag( string $id, string $digest ): string {
	return 'sq.' . substr( md5( $id . $digest ), 0, 16 );
}

/**
 * Adds the tags of the statements whose results edits verify.
 *
 * @return array<string, true> Tables of the other statements, as tags name them.
 */
function gather_statements(): array {
	settle_read();
	$unknown = $GLOBALS['galley_unverified'];
	$reads   = $GLOBALS['galley_reads'];
	$known   = $reads ? known_reads( $reads ) : array();
	foreach ( $reads as $sql => list( $names, $digest ) ) {
		if ( isset( $known[ $sql ] ) ) {
			tag_network( statement_tag( md5( (string) $sql ), $digest ) );
		} else {
			$unknown += array_fill_keys( $names, true );
		}
	}
	return $unknown;
}

/**
 * Returns the statements of the page that edits know with the same result, as keys. Makes them known.
 *
 * @param array[] $reads As in `$GLOBALS['galley_reads']`.
 */
function known_reads( array $reads ): array {
	$rows  = kept_digests( array_keys( $reads ) );
	$known = array();
	$new   = array();
	foreach ( $reads as $sql => list( , $digest ) ) {
		list( $kept, $is_known ) = $rows[ md5( (string) $sql ) ] ?? array( null, false );
		if ( null !== $digest && $is_known ) {
			// A different result belongs to an edit that has not ended yet, or that nobody saw.
			$known += $kept === $digest ? array( $sql => true ) : array();
		} elseif ( null !== $digest ) {
			$new[ $sql ] = $reads[ $sql ];
		}
	}
	return $known + ( $new ? register_reads( $new ) : array() );
}

/**
 * @param string[] $statements Statements.
 * @return array[] Digest and whether it may be trusted, by the hash of the statement.
 */
function kept_digests( array $statements ): array {
	$ids  = implode( "', '", array_map( 'md5', array_map( 'strval', $statements ) ) );
	$kept = array();
	foreach ( rows_directly( "SELECT id, digest, known FROM %table% WHERE id IN ('$ids')" ) ?? array() as $row ) {
		$kept[ $row['id'] ] = array( $row['digest'], '1' === (string) $row['known'] );
	}
	return $kept;
}

/**
 * Registers statements, and sends them again: the rows count only with the same result after they were written.
 *
 * @param array[] $reads As in `$GLOBALS['galley_reads']`, with digests.
 * @return array<string, true> Statements that edits know now.
 */
function register_reads( array $reads ): array {
	$reads  = with_room( $reads );
	$values = array();
	$pairs  = array( array(), array() );
	foreach ( $reads as $sql => list( $names, $digest ) ) {
		$values[] = sprintf( "('%s', '%s', 0, 0x%s, 0x%s)", md5( (string) $sql ), $digest, bin2hex( ',' . implode( ',', $names ) . ',' ), bin2hex( (string) $sql ) );
	}
	if ( ! $values || ! insert_directly( 'INSERT INTO %table% (id, digest, known, names, statement) VALUES ' . implode( ', ', $values ) . ' ON DUPLICATE KEY UPDATE digest = IF(known, digest, VALUES(digest))' ) ) {
		return array();
	}
	foreach ( $reads as $sql => list( , $digest ) ) {
		$began   = microtime( true );
		$is_same = digest_now( (string) $sql ) === $digest && microtime( true ) - $began < SLOW_SECONDS;

		$pairs[ (int) $is_same ][ md5( (string) $sql ) ] = $digest;
	}
	if ( $pairs[1] ) {
		ask_directly( 'UPDATE %table% SET known = 1 WHERE ' . these_rows( $pairs[1] ) );
	}
	if ( $pairs[0] ) {
		ask_directly( 'DELETE FROM %table% WHERE known = 0 AND ' . these_rows( $pairs[0] ) );
	}
	$known = array();
	$rows  = $pairs[1] ? kept_digests( array_keys( $reads ) ) : array();
	foreach ( $reads as $sql => list( , $digest ) ) {
		$known += ( $rows[ md5( (string) $sql ) ] ?? null ) === array( $digest, true ) ? array( $sql => true ) : array();
	}
	return $known;
}

/**
 * Returns the statements for which there is room, and drops the others.
 *
 * @param array[] $reads As in `$GLOBALS['galley_reads']`.
 */
function with_room( array $reads ): array {
	$tables = array_values( array_unique( array_merge( ...array_column( array_values( $reads ), 0 ) ) ) );
	$counts = array( 'COUNT(*) AS n' );
	foreach ( $tables as $at => $table ) {
		$counts[] = 'SUM(' . is_on( $table ) . ") AS n$at";
	}
	$row = rows_directly( 'SELECT ' . implode( ', ', $counts ) . ' FROM %table%' )[0] ?? array();
	foreach ( $tables as $at => $table ) {
		$left[ $table ] = min( MAX_STATEMENTS - (int) ( $row[ "n$at" ] ?? 0 ), MAX_ALL_STATEMENTS - (int) ( $row['n'] ?? 0 ) );
	}
	foreach ( $reads as $sql => list( $names ) ) {
		foreach ( $names as $name ) {
			if ( --$left[ $name ] < 0 ) {
				unset( $reads[ $sql ] );
			}
		}
	}
	return $reads;
}

/**
 * Returns the condition for statements on a table.
 */
function is_on( string $table ): string {
	return 'LOCATE(0x' . bin2hex( ",$table," ) . ', names) > 0';
}

/**
 * Returns the condition for rows that still have these digests.
 *
 * @param string[] $digests Digests by the hash of the statement.
 */
function these_rows( array $digests ): string {
	$rows = array();
	foreach ( $digests as $id => $digest ) {
		$rows[] = "(id = '$id' AND digest = '$digest')";
	}
	return '(' . implode( ' OR ', $rows ) . ')';
}

/**
 * Queues the purges of pages with statements on tables that this request has changed.
 *
 * @param string[] $tables As tags name them.
 */
function queue_changed_tables( array $tables ): void {
	$busy = array();
	foreach ( $tables && counts_as_visitor() ? kept_record( BUSY_OPTION ) : array() as $tag => $entry ) {
		// From now on, changes purge nothing for a while, so this one purges all.
		if ( null === $entry[0] && in_array( substr( (string) $tag, 3 ), $tables, true ) ) {
			$busy[] = substr( (string) $tag, 3 );
		}
	}
	if ( $busy ) {
		forget_results( $busy );
	}
	$tables = array_diff( $tables, $busy );
	if ( $tables ) {
		queue_changed_results( array_values( $tables ) );
	}
}

/**
 * Sends the statements on tables again that this request has changed, and queues purges where the results differ. The changes must be visible
 * to all.
 *
 * @param string[] $tables As tags name them.
 */
function queue_changed_results( array $tables ): void {
	$where = implode( ' OR ', array_map( __NAMESPACE__ . '\\is_on', $tables ) );
	// A full list would never lose statements that no page sends any more.
	$limit = MAX_STATEMENTS;
	$rows  = rows_directly( "SELECT id, digest, statement FROM %table% WHERE ($where) AND digest <> '' LIMIT $limit" );
	if ( array() === $rows ) {
		return;
	}
	if ( null === $rows || count( $rows ) >= $limit ) {
		forget_results( $tables );
		return;
	}
	$changed = array();
	$began   = microtime( true );
	foreach ( $rows as $at => $row ) {
		// Statements for which there is no time count as changed.
		if ( microtime( true ) - $began > ( $at < MIN_VERIFIED ? MAX_VERIFY_SECONDS : VERIFY_SECONDS ) || ! is_repeatable( $row['statement'] ) || digest_now( $row['statement'] ) !== $row['digest'] ) {
			$changed[ $row['id'] ] = $row['digest'];
		}
	}
	if ( $changed ) {
		ask_directly( 'DELETE FROM %table% WHERE ' . these_rows( $changed ) );
		note_cause( 'table', implode( ', ', $tables ) );
	}
	foreach ( $changed as $id => $digest ) {
		queue_purge_of_word( statement_tag( (string) $id, $digest ) );
	}
}

/**
 * Purges all pages with statements on tables, and forgets these statements.
 *
 * @param string[] $tables As tags name them.
 */
function forget_results( array $tables ): void {
	foreach ( $tables as $table ) {
		queue_purge_of_word( "tv.$table" );
	}
	ask_directly( "DELETE FROM %table% WHERE digest <> '' AND (" . implode( ' OR ', array_map( __NAMESPACE__ . '\\is_on', $tables ) ) . ')' );
}
