<?php
/**
 * Finds the tables that an SQL statement may change, and the options that a statement on the table of options names. Pure.
 *
 * The functions accept any text. In doubt they return a name too many, or `UNKNOWN_TABLE`: more pages are then purged than necessary.
 * Tables that only a subquery reads may be among the names.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Bytes at the start of a statement that name its tables, so that long values are not read. */
const WRITE_HEAD = 2000;

/** Verbs of statements that change no rows. `CREATE` without `SELECT` makes an empty table, to which the next statements write. */
const QUIET_VERBS = array( 'SELECT', 'TABLE', 'VALUES', 'SHOW', 'DESCRIBE', 'DESC', 'EXPLAIN', 'SET', 'USE', 'START', 'BEGIN', 'COMMIT', 'ROLLBACK', 'SAVEPOINT', 'RELEASE', 'LOCK', 'UNLOCK', 'FLUSH', 'KILL', 'DO', 'CHECK', 'CHECKSUM', 'OPTIMIZE', 'REPAIR', 'GRANT', 'REVOKE', 'PREPARE', 'DEALLOCATE', 'HANDLER', 'HELP', 'XA', 'PRAGMA' );

/** Words between a verb and the name of a table. */
const WRITE_MODIFIERS = array( 'LOW_PRIORITY', 'HIGH_PRIORITY', 'DELAYED', 'QUICK', 'IGNORE', 'INTO', 'ONLINE', 'TEMPORARY', 'TABLE', 'TABLES', 'VIEW', 'IF', 'NOT', 'EXISTS', 'OR', 'REPLACE' );

/** The name that stands for all transients in the list of options of a statement. */
const ALL_TRANSIENTS = '_transient_*';

/**
 * Returns the tables that a statement may change: names as in the statement.
 *
 * @return string[] Without duplicates.
 */
function tables_written_by( string $sql ): array {
	if ( 0 === strncasecmp( ltrim( substr( $sql, 0, 20 ) ), 'SELECT', 6 ) ) {
		return array();
	}
	$tables = written_in_shape( statement_shape( substr( $sql, 0, WRITE_HEAD ) ), strlen( $sql ) > WRITE_HEAD );
	if ( null === $tables ) {
		$tables = strlen( $sql ) > MAX_STATEMENT ? null : written_in_shape( statement_shape( $sql ), false );
	}
	return $tables ?? array( UNKNOWN_TABLE );
}

/**
 * Returns the tables that a statement may change, from its shape. Null if the shape does not tell.
 *
 * @param bool $is_cut Whether the shape is only that of the start of the statement.
 * @return string[]|null
 */
function written_in_shape( ?string $shape, bool $is_cut ): ?array {
	if ( null === $shape || false === preg_match_all( '/`[^`]*+`?|[\w$\x80-\xff]++|[(),.]/', $shape, $found ) ) {
		return null;
	}
	$tokens = $found[0];
	while ( '(' === ( $tokens[0] ?? '' ) ) {
		array_shift( $tokens );
	}
	if ( 'WITH' === strtoupper( $tokens[0] ?? '' ) ) {
		$tokens = $is_cut ? array() : after_named_subqueries( $tokens );
		if ( ! $tokens ) {
			return null;
		}
	}
	$verb = strtoupper( $tokens[0] ?? '' );
	$rest = array_slice( $tokens, 1 );
	if ( preg_match( '~/\*M?!~', $shape ) || in_array( $verb . ' ' . strtoupper( $rest[0] ?? '' ), WRAPPERS, true ) ) {
		return array( UNKNOWN_TABLE );
	}
	switch ( $verb ) {
		case '':
			return array();
		case 'INSERT':
		case 'REPLACE':
		case 'TRUNCATE':
			return first_name( $rest );
		case 'UPDATE':
			return names_in_list( $rest, array( 'SET' ), $is_cut );
		case 'DELETE':
			return names_in_list( array_slice( $rest, (int) array_search( 'FROM', array_map( 'strtoupper', $rest ), true ) + 1 ), array( 'WHERE', 'ORDER', 'LIMIT', 'RETURNING' ), $is_cut );
		case 'DROP':
			if ( 'TEMPORARY' === strtoupper( $rest[0] ?? '' ) ) {
				return array();
			}
			return preg_match( '/^\s*DROP\s+(?:TEMPORARY\s+)?(?:TABLES?|VIEW)\s/i', $shape ) ? names_in_list( after_modifiers( $rest ), array(), $is_cut ) : null;
		case 'ALTER':
			return preg_match( '/^\s*ALTER\s+(?:ONLINE\s+)?(?:IGNORE\s+)?TABLE\s(?!.*\b(?:RENAME|EXCHANGE)\b)/is', $shape ) ? first_name( $rest ) : null;
		case 'CREATE':
			return preg_match( '/^\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMPORARY\s+TABLE\s|(?:TABLE|(?:UNIQUE\s+|FULLTEXT\s+)?INDEX|DATABASE)\s(?!.*\bSELECT\b))/is', $shape ) ? array() : null;
		case 'LOAD':
			$into = array_search( 'TABLE', array_map( 'strtoupper', $rest ), true );
			return false === $into ? null : first_name( array_slice( $rest, $into + 1 ) );
		case 'ANALYZE':
			return preg_match( '/^\s*ANALYZE\s+(?:LOCAL\s+|NO_WRITE_TO_BINLOG\s+)?TABLE\s/i', $shape ) ? array() : null;
	}
	return in_array( $verb, QUIET_VERBS, true ) ? array() : null;
}

/**
 * Returns the tokens from the verb on that follows `WITH name AS (...)`, or an empty array.
 *
 * @param string[] $tokens Tokens of the statement.
 * @return string[]
 */
function after_named_subqueries( array $tokens ): array {
	$depth = 0;
	foreach ( $tokens as $at => $token ) {
		$depth += '(' === $token ? 1 : ( ')' === $token ? -1 : 0 );
		if ( 0 === $depth && in_array( strtoupper( $token ), array( 'SELECT', 'INSERT', 'REPLACE', 'UPDATE', 'DELETE' ), true ) ) {
			return array_slice( $tokens, $at );
		}
	}
	return array();
}

/**
 * @param string[] $tokens Tokens after the verb.
 * @return string[]
 */
function after_modifiers( array $tokens ): array {
	while ( in_array( strtoupper( $tokens[0] ?? '' ), WRITE_MODIFIERS, true ) ) {
		array_shift( $tokens );
	}
	return $tokens;
}

/**
 * @param string[] $tokens Tokens after the verb.
 * @return string[]|null
 */
function first_name( array $tokens ): ?array {
	$tokens = after_modifiers( $tokens );
	return $tokens && preg_match( '/^[`\w$\x80-\xff]/', $tokens[0] ) ? array( name_at( $tokens, 0 ) ) : null;
}

/**
 * Returns the names in a list of tables up to a word outside of parentheses.
 *
 * @param string[] $tokens Tokens from the list on.
 * @param string[] $ends   Words that end the list.
 * @param bool     $is_cut Whether the list may continue after the last token.
 * @return string[]|null Null if the list does not end, or is empty.
 */
function names_in_list( array $tokens, array $ends, bool $is_cut ): ?array {
	$list   = array();
	$depth  = 0;
	$tokens = after_modifiers( $tokens );
	foreach ( $tokens as $at => $token ) {
		$depth += '(' === $token ? 1 : ( ')' === $token ? -1 : 0 );
		if ( $depth <= 0 && in_array( strtoupper( $token ), $ends, true ) ) {
			$is_cut = false;
			break;
		}
		// `DELETE FROM a USING b`. A join has a list of columns after this word.
		$list[] = 'USING' === strtoupper( $token ) && '(' !== ( $tokens[ $at + 1 ] ?? '' ) ? ',' : $token;
	}
	$names = $is_cut ? array() : tables_of_tokens( array_merge( array( 'SELECT', 'FROM' ), $list ), 'SELECT' );
	return $names ? $names : null;
}

/**
 * Returns the options that a statement on the table of options reads or writes. Null if it does not say that by their names, `ALL_TRANSIENTS`
 * for all names that begin as transients do. Expired transients, which WordPress deletes, count as none.
 *
 * @return string[]|null
 */
function options_in_statement( string $sql ): ?array {
	if ( strlen( $sql ) > MAX_STATEMENT || preg_match( '/^\s*DELETE a, b FROM \S+ a, \S+ b\s+WHERE a\.(?:option_name|meta_key) LIKE .*\bb\.(?:option|meta)_value </s', $sql ) ) {
		return strlen( $sql ) > MAX_STATEMENT ? null : array();
	}
	$texts = array();
	$plain = preg_replace_callback(
		SHAPE_PARTS,
		static function ( array $part ) use ( &$texts ): string {
			if ( "'" !== $part[0][0] && '"' !== $part[0][0] ) {
				return ctype_digit( $part[0][0] ) ? '0' : ' ';
			}
			$quote   = $part[0][0];
			$texts[] = stripslashes( str_replace( $quote . $quote, $quote, substr( $part[0], 1, -1 ) ) );
			return '?' . ( count( $texts ) - 1 ) . '?';
		},
		$sql
	);
	if ( null === $plain || preg_match( '/\bX?OR\b|\|\||\bUNION\b|\bNOT\b|\/\*M?!|JOIN\b|\S\s*\bSELECT\b|\b(?:FROM|UPDATE)\s+[\w.`$\s]+,/is', $plain ) || preg_match( '/^\s*UPDATE\b.*?\bSET\b(?:(?!\bWHERE\b).)*option_name/is', $plain ) ) {
		// Also a second table, a query within it, and a new name.
		return null;
	}
	$column = '(?:[\w`]+\.)?`?option_name`?';
	$found  = preg_match( "/\\bWHERE\\s+\\(?\\s*$column\\s*(=|IN|LIKE)\\s*\\(?\\s*((?:\\?\\d+\\?[\\s,]*)+)\\)?\\s*\\)?\\s*(?:(?:AND|LIMIT|ORDER|FOR)\\b.*)?;?\\s*\$/is", $plain, $match ) === 1
		|| preg_match( '/^\s*(INSERT|REPLACE)\b[^(]*\(\s*`?option_name`?\s*[,)][^()]*\)?\s*VALUES?\s*\(\s*(\?\d+\?)[^()]*\)\s*(?:ON\s+DUPLICATE\b.*)?;?\s*$/is', $plain, $match ) === 1;
	if ( ! $found ) {
		return null;
	}
	preg_match_all( '/\?(\d+)\?/', $match[2], $numbers );
	$names = array();
	foreach ( $numbers[1] as $number ) {
		$names[] = $texts[ (int) $number ];
	}
	if ( 'LIKE' === strtoupper( $match[1] ) ) {
		return preg_match( '/^\\\\?_(?:site\\\\?_)?transient\\\\?_/', $names[0] ) ? array( ALL_TRANSIENTS ) : null;
	}
	return $names;
}
