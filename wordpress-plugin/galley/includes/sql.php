<?php
/**
 * Finds the tables that an SQL statement reads. Pure.
 *
 * `statement_shape` removes comments and values, so that the statements of one piece of code have the same shape. `tables_of_shape` reads
 * the shape with a small tokenizer that follows the lists of tables (`FROM a, b JOIN c`) through parentheses and subqueries. It accepts any
 * text. In doubt it returns a name too many: the page then lives shorter than necessary.
 *
 * A statement that only writes, or asks for the structure of tables, reads nothing that a page shows.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Maximum length of a statement in bytes. PHP would need more than a millisecond for a longer one. */
const MAX_STATEMENT = 1048576;

/** The name that stands for the tables of a statement that is too long, that runs code in the database, or that is unknown. */
const UNKNOWN_TABLE = '?';

/** Identifiers in backticks, comments with code for the database, other comments, strings, numbers. The first two stay in the shape. */
const SHAPE_PARTS = '~`[^`]*+`?(*SKIP)(*FAIL)|/\*M?!\d*+(*SKIP)(*FAIL)|/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/)?|--(?=\s|$)[^\n]*+|#[^\n]*+|\'[^\'\\\\]*+(?:(?:\\\\.|\'\')[^\'\\\\]*+)*+\'?|"[^"\\\\]*+(?:(?:\\\\.|"")[^"\\\\]*+)*+"?|(?<![\w$])(?:0x[0-9a-f]++|\d[\d.]*+)(?![\w$])~si';

/** Verbs of statements that return rows of tables. */
const READING_VERBS = array( 'SELECT', 'WITH', 'TABLE', 'VALUES' );

/** Verbs of statements that return no rows of tables, unless they say `RETURNING`. */
const OTHER_VERBS = array( 'INSERT', 'REPLACE', 'DELETE', 'UPDATE', 'TRUNCATE', 'CREATE', 'ALTER', 'DROP', 'RENAME', 'LOCK', 'UNLOCK', 'SET', 'START', 'BEGIN', 'COMMIT', 'ROLLBACK', 'SAVEPOINT', 'RELEASE', 'USE', 'SHOW', 'DESCRIBE', 'DESC', 'EXPLAIN', 'ANALYZE', 'CHECK', 'OPTIMIZE', 'REPAIR', 'FLUSH', 'KILL', 'DO', 'LOAD', 'GRANT', 'REVOKE' );

/** Beginnings of statements of MariaDB that contain any others. */
const WRAPPERS = array( 'SET STATEMENT', 'BEGIN NOT' );

/** Words that end a list of tables. */
const AFTER_TABLES = array( 'WHERE', 'GROUP', 'ORDER', 'HAVING', 'LIMIT', 'UNION', 'EXCEPT', 'INTERSECT', 'WINDOW', 'PROCEDURE', 'INTO', 'SET', 'FETCH', 'OFFSET' );

/** Functions with the word FROM between their arguments. */
const FROM_FUNCTIONS = array( 'EXTRACT', 'SUBSTRING', 'SUBSTR', 'MID', 'TRIM' );

/**
 * Returns the tables that a statement reads: names as in the statement, with the name of the database if the statement has it.
 *
 * @return string[] Without duplicates.
 */
function tables_read_by( string $sql ): array {
	static $known = array();
	if ( preg_match( '/^\s*+(?:INSERT|REPLACE|DELETE|UPDATE|SHOW|SET(?!\s+STATEMENT\b))\b/i', $sql ) && false === stripos( $sql, 'RETURNING' ) ) {
		return array();
	}
	$shape = strlen( $sql ) > MAX_STATEMENT ? null : statement_shape( $sql );
	if ( null === $shape ) {
		return array( UNKNOWN_TABLE );
	}
	if ( isset( $known[ $shape ] ) ) {
		return $known[ $shape ];
	}
	$tables = tables_of_shape( $shape );
	if ( strlen( $shape ) <= 8192 && count( $known ) < 500 ) {
		$known[ $shape ] = $tables;
	}
	return $tables;
}

/**
 * Returns a statement with `?` in place of values and lists of values, or null if PHP cannot read it.
 */
function statement_shape( string $sql ): ?string {
	$shape = preg_replace( SHAPE_PARTS, '?', $sql );
	return null === $shape ? null : preg_replace( '/\?(?:\s*+[,?]\s*+\?)++/', '?', $shape );
}

/**
 * Returns the tables that a statement reads, from its shape.
 *
 * @return string[] Without duplicates.
 */
function tables_of_shape( string $shape ): array {
	// Code in comments counts as code. A number in front of it is a version.
	$shape = preg_replace( '~`[^`]*+`?(*SKIP)(*FAIL)|/\*M?!\d*+~', ' ', $shape );
	if ( null === $shape || false === preg_match_all( '/`[^`]*+`?|[\w$\x80-\xff]++|[(),.]/', $shape, $found ) ) {
		return array( UNKNOWN_TABLE );
	}
	$tokens = $found[0];
	$start  = 0;
	while ( '(' === ( $tokens[ $start ] ?? '' ) ) {
		++$start;
	}
	$verb = strtoupper( $tokens[ $start ] ?? '' );
	if ( in_array( $verb, READING_VERBS, true ) ) {
		return tables_of_tokens( $tokens, $verb );
	}
	$returns_rows = ! in_array( $verb, OTHER_VERBS, true ) || in_array( $verb . ' ' . strtoupper( $tokens[ $start + 1 ] ?? '' ), WRAPPERS, true ) || in_array( 'RETURNING', array_map( 'strtoupper', $tokens ), true );
	return '' !== $verb && $returns_rows ? array( UNKNOWN_TABLE ) : array();
}

/**
 * Follows the lists of tables in the tokens of a statement. `$is_list` says whether the current parenthesis level is in such a list,
 * `$wants` whether the next name is a table. `$is_call` says whether the level contains the arguments of a function, where FROM begins no list.
 *
 * @param string[] $tokens Names, parentheses, commas, periods.
 * @param string   $verb   The first word.
 * @return string[] Without duplicates.
 */
function tables_of_tokens( array $tokens, string $verb ): array {
	$tables  = array();
	$outer   = array();
	$is_list = false;
	$is_call = false;
	$wants   = false;
	$last    = '';
	foreach ( $tokens as $at => $token ) {
		$word = strtoupper( $token );
		if ( '(' === $token ) {
			$outer[] = array( $is_list, $is_call );
			$is_call = in_array( $last, FROM_FUNCTIONS, true );
			$is_list = $wants;
		} elseif ( ')' === $token ) {
			list( $is_list, $is_call ) = array_pop( $outer ) ?? array( false, false );
			$wants                     = false;
		} elseif ( ',' === $token ) {
			$wants = $is_list;
		} elseif ( 'SELECT' === $word || in_array( $word, AFTER_TABLES, true ) ) {
			$is_call = $is_call && 'SELECT' !== $word;
			// An index hint is `USE INDEX FOR ORDER BY (name)`.
			$is_list = $is_list && 'FOR' === $last;
			$wants   = false;
		} elseif ( ( 'FROM' === $word && ! $is_call ) || ( 'TABLE' === $word && 0 === $at ) ) {
			$is_list = true;
			$wants   = true;
		} elseif ( ( 'JOIN' === $word || 'STRAIGHT_JOIN' === $word ) && $is_list && 'FOR' !== $last ) {
			$wants = true;
		} elseif ( $wants && '.' !== $token && ! in_array( $word, array( 'LATERAL', 'ONLY' ), true ) ) {
			$wants = false;
			$name  = name_at( $tokens, $at );
			if ( 'DUAL' !== $word && '(' !== ( $tokens[ $at + 1 ] ?? '' ) ) {
				$tables[ $name ] = true;
			}
		}
		$last = $word;
	}
	return array_map( 'strval', array_keys( array_diff_key( $tables, temporary_names( $tokens, $verb ) ) ) );
}

/**
 * Returns the name of a table that begins at a token, with the name of its database if the statement has it.
 *
 * @param string[] $tokens Tokens of the statement.
 */
function name_at( array $tokens, int $at ): string {
	$name = trim( $tokens[ $at ], '`' );
	return '.' === ( $tokens[ $at + 1 ] ?? '' ) ? $name . '.' . trim( $tokens[ $at + 2 ] ?? '', '`' ) : $name;
}

/**
 * Returns the names that a statement gives to its own subqueries: `WITH name AS (`, `WITH name (column) AS (`.
 *
 * @param string[] $tokens Tokens of the statement.
 * @return array<string, true>
 */
function temporary_names( array $tokens, string $verb ): array {
	$names = array();
	if ( 'WITH' === $verb && preg_match_all( '/([^\s(),]+)\s(?:\([^()]*\)\s)?AS\s\(/i', implode( ' ', $tokens ), $found ) ) {
		foreach ( $found[1] as $name ) {
			$names[ trim( $name, '`' ) ] = true;
		}
	}
	return $names;
}
