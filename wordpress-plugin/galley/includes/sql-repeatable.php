<?php
/**
 * Decides which statements may run a second time to find out whether their results have changed, and which rows a statement changes. Pure.
 *
 * Only a plain SELECT may, whose result depends on nothing but the rows of its tables: no variables, no locks, no time, no random numbers, and
 * no functions but those in a list, because functions that are stored in the database may do anything. In doubt the answer is no.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Words that may stand before a parenthesis: keywords, and functions whose results depend on their arguments alone. */
const REPEATABLE_CALLS = array(
	'SELECT', 'FROM', 'JOIN', 'STRAIGHT_JOIN', 'ON', 'USING', 'WHERE', 'AND', 'OR', 'XOR', 'NOT', 'IN', 'EXISTS', 'ANY', 'ALL', 'SOME', 'DISTINCT', 'AS',
	'BY', 'HAVING', 'UNION', 'EXCEPT', 'INTERSECT', 'CASE', 'WHEN', 'THEN', 'ELSE', 'BETWEEN', 'LIKE', 'REGEXP', 'RLIKE', 'IS', 'DIV', 'MOD', 'INTERVAL',
	'BINARY', 'LIMIT', 'INDEX', 'KEY', 'COUNT', 'SUM', 'MIN', 'MAX', 'AVG', 'GROUP_CONCAT', 'COALESCE', 'IFNULL', 'NULLIF', 'ISNULL', 'IF', 'CONCAT',
	'CONCAT_WS', 'LOWER', 'UPPER', 'LCASE', 'UCASE', 'LENGTH', 'CHAR_LENGTH', 'CHARACTER_LENGTH', 'SUBSTRING', 'SUBSTR', 'SUBSTRING_INDEX', 'MID',
	'LEFT', 'RIGHT', 'TRIM', 'LTRIM', 'RTRIM', 'REPLACE', 'REVERSE', 'REPEAT', 'LPAD', 'RPAD', 'INSTR', 'LOCATE', 'POSITION', 'FIELD', 'ELT',
	'FIND_IN_SET', 'STRCMP', 'ROUND', 'FLOOR', 'CEIL', 'CEILING', 'TRUNCATE', 'ABS', 'SIGN', 'POW', 'POWER', 'SQRT', 'EXP', 'LN', 'LOG', 'COS', 'ACOS',
	'SIN', 'ASIN', 'TAN', 'ATAN', 'ATAN2', 'RADIANS', 'DEGREES', 'GREATEST', 'LEAST', 'CAST', 'CONVERT', 'CHAR', 'DECIMAL', 'HEX', 'UNHEX', 'CRC32',
	'MD5', 'SHA1', 'SHA2', 'INET_ATON', 'INET_NTOA', 'DATE', 'TIME', 'YEAR', 'QUARTER', 'MONTH', 'MONTHNAME', 'WEEK', 'WEEKDAY', 'DAY', 'DAYNAME',
	'DAYOFMONTH', 'DAYOFWEEK', 'DAYOFYEAR', 'HOUR', 'MINUTE', 'SECOND', 'EXTRACT', 'DATE_FORMAT', 'DATE_ADD', 'DATE_SUB', 'ADDDATE', 'SUBDATE',
	'DATEDIFF', 'TIMEDIFF', 'TIMESTAMPDIFF', 'TIMESTAMPADD', 'STR_TO_DATE', 'FROM_UNIXTIME', 'LAST_DAY', 'TO_DAYS', 'FROM_DAYS', 'JSON_EXTRACT',
	'JSON_UNQUOTE', 'JSON_VALUE', 'JSON_CONTAINS',
);

/** Maximum length of the condition of a statement that changes rows: the numbers of 10,000 comments, which Akismet deletes at once. */
const MAX_CONDITION_BYTES = 262144;

/** Maximum number of parentheses that open in such a statement. */
const MAX_PARENTHESES = 5000;

/** Words that may follow the name of a table in a list, where an alias may be. */
const AFTER_TABLE = array( 'ON', 'USING', 'LEFT', 'RIGHT', 'INNER', 'OUTER', 'CROSS', 'NATURAL', 'FULL', 'JOIN', 'STRAIGHT_JOIN', 'USE', 'FORCE', 'IGNORE', 'PARTITION', 'FOR' );

/** Words that make a result depend on more than rows, or that do more than read. */
const VARYING_WORDS = '/\b(?:INTO|UPDATE|LOCK|SHARE|PROCEDURE|SQL_CALC_FOUND_ROWS|CURRENT_(?:DATE|TIME|TIMESTAMP|USER|ROLE)|LOCALTIME(?:STAMP)?|UTC_(?:DATE|TIME|TIMESTAMP)|SYSDATE|ROWNUM|NEXT|PREVIOUS|SYSTEM_TIME|NEXTVAL|CURRVAL|LASTVAL|AS\s+TIME)\b|@|:=|\/\*/i';

/**
 * Returns whether a statement gives the same result as long as the rows of its tables are the same, and does nothing else.
 *
 * @param int $most Maximum length in bytes.
 */
function is_repeatable( string $sql, int $most = MAX_STATEMENT_BYTES ): bool {
	static $known = array();
	$shape        = strlen( $sql ) > $most ? null : statement_shape( $sql );
	if ( null === $shape ) {
		return false;
	}
	if ( ! isset( $known[ $shape ] ) ) {
		$is_plain = preg_match( '/^[\s(]*+SELECT\b/i', $shape ) && ! preg_match( VARYING_WORDS, (string) preg_replace( '/`[^`]*`/', 'x', $shape ) ) && ! preg_match( '/;\s*\S/', $shape );
		if ( count( $known ) > 500 ) {
			$known = array();
		}
		$is_plain = $is_plain && calls_are_repeatable( $shape );
		if ( strlen( $shape ) > MAX_STATEMENT_BYTES ) {
			return $is_plain;
		}
		$known[ $shape ] = $is_plain;
	}
	return $known[ $shape ];
}

/**
 * Returns whether only known words stand before parentheses.
 */
function calls_are_repeatable( string $shape ): bool {
	// A comment became `?`.
	preg_match_all( '/([`\w$\x80-\xff]+|[.])[\s?]*\(/', $shape, $found );
	foreach ( $found[1] as $word ) {
		if ( ! in_array( strtoupper( $word ), REPEATABLE_CALLS, true ) ) {
			return false;
		}
	}
	// The name of a database before that of a stored function.
	return ! preg_match( '/\.\s*[`\w$\x80-\xff]+[\s?]*\(/', $shape );
}

/**
 * Returns the tables of an UPDATE or DELETE as a SELECT can name them, with their joins, and its condition. Null if the statement is not of this
 * kind, has no condition, or one that cannot be asked for.
 *
 * @return array{string, string}|null
 */
function condition_of( string $sql ): ?array {
	$mask = mask_of( $sql );
	if ( null === $mask || ! preg_match( '/^\s*+(UPDATE|DELETE)\s++(?:(?:LOW_PRIORITY|QUICK|IGNORE)\s++)*+/i', $mask, $verb ) ) {
		return null;
	}
	$at    = strlen( $verb[0] );
	$words = outer_words( $mask, $at );
	$where = $words['WHERE'] ?? null;
	if ( 'UPDATE' === strtoupper( $verb[1] ) ) {
		$end = $words['SET'] ?? null;
	} else {
		// The list of tables follows the last of these words.
		$at  = isset( $words['FROM'] ) ? max( $words['FROM'] + 4, ( $words['USING'] ?? -5 ) + 5 ) : null;
		$end = $where;
	}
	if ( null === $at || null === $end || null === $where || $end > $where || $at > $end ) {
		return null;
	}
	$last = strlen( rtrim( $mask, "; \t\r\n" ) );
	foreach ( array( 'ORDER', 'LIMIT', 'RETURNING' ) as $word ) {
		$last = min( $last, $words[ $word ] ?? $last );
	}
	$from      = trim( substr( $sql, $at, $end - $at ) );
	$condition = substr( $sql, $where + 5, max( 0, $last - $where - 5 ) );
	return is_repeatable( "SELECT 1 FROM $from WHERE $condition", MAX_CONDITION_BYTES ) ? array( $from, $condition ) : null;
}

/**
 * Returns a statement with `?` in place of each byte of its values, `x` in place of those of quoted names, and spaces in place of comments. Null for
 * one that is too long, or that has code in a comment.
 */
function mask_of( string $sql ): ?string {
	$mask = strlen( $sql ) > MAX_STATEMENT ? null : preg_replace_callback(
		SHAPE_PARTS,
		static function ( array $part ): string {
			return str_repeat( in_array( $part[0][0], array( '/', '-', '#' ), true ) ? ' ' : '?', strlen( $part[0] ) );
		},
		$sql
	);
	$mask = null === $mask || false !== strpos( $mask, '/*' ) || substr_count( $mask, '(' ) > MAX_PARENTHESES ? null : preg_replace_callback(
		'/`[^`]*+`?/',
		static function ( array $name ): string {
			return str_repeat( 'x', strlen( $name[0] ) );
		},
		$mask
	);
	return $mask;
}

/**
 * Returns where the words that divide a statement are, outside of parentheses: the first WHERE and the first of each other word, those after WHERE
 * only where they end the condition.
 *
 * @param string $mask As `mask_of()` returns it.
 * @param int    $at   Where to begin.
 * @return int[] Positions by word.
 */
function outer_words( string $mask, int $at ): array {
	$words = array();
	$depth = 0;
	preg_match_all( '/[()]|\b(?:SET|WHERE|FROM|USING(?!\s*+\()|ORDER(?=\s++BY\b)|LIMIT|RETURNING)\b/i', $mask, $found, PREG_OFFSET_CAPTURE, $at );
	foreach ( $found[0] as list( $word, $position ) ) {
		$depth += '(' === $word ? 1 : ( ')' === $word ? -1 : 0 );
		$word   = strtoupper( $word );
		$is_end = in_array( $word, array( 'ORDER', 'LIMIT', 'RETURNING' ), true );
		if ( 0 === $depth && ! isset( $words[ $word ] ) && $is_end === isset( $words['WHERE'] ) ) {
			$words[ $word ] = $position;
		}
	}
	return $words;
}

/**
 * Returns the names by which a list of tables calls a table, outside of parentheses.
 *
 * @param string $from  As `condition_of()` returns it.
 * @param string $table Name without a database.
 * @return string[] Aliases, or the name as in the list.
 */
function aliases_in( string $from, string $table ): array {
	$names = array();
	$wants = true;
	$depth = 0;
	preg_match_all( '/`[^`]*+`?|[\w$\x80-\xff]++|[(),.]/', (string) statement_shape( $from ), $found );
	foreach ( $found[0] as $at => $token ) {
		$word   = strtoupper( $token );
		$depth += '(' === $token ? 1 : ( ')' === $token ? -1 : 0 );
		if ( $depth > 0 ) {
			continue;
		}
		if ( ',' === $token || 'JOIN' === $word || 'STRAIGHT_JOIN' === $word ) {
			$wants = true;
		} elseif ( $wants && preg_match( '/^[`\w$\x80-\xff]/', $token ) ) {
			$wants = false;
			$name  = name_at( $found[0], $at );
			if ( preg_replace( '/^.*\./', '', $name ) === $table ) {
				$next    = $at + ( '.' === ( $found[0][ $at + 1 ] ?? '' ) ? 3 : 1 );
				$next   += 'AS' === strtoupper( $found[0][ $next ] ?? '' ) ? 1 : 0;
				$alias   = $found[0][ $next ] ?? '';
				$is_name = preg_match( '/^(?:`|[\w$\x80-\xff])/', $alias ) && ! in_array( strtoupper( $alias ), AFTER_TABLE, true );
				$names[] = $is_name ? $alias : implode( '', array_slice( $found[0], $at, '.' === ( $found[0][ $at + 1 ] ?? '' ) ? 3 : 1 ) );
			}
		}
	}
	return $names;
}

/**
 * Returns whether a list of tables names a table outside of queries within parentheses.
 *
 * @param string $from  As `condition_of()` returns it.
 * @param string $table Name without a database.
 */
function is_named_outside_queries( string $from, string $table ): bool {
	$depth = 0;
	$query = null;
	preg_match_all( '/`[^`]*+`?|[\w$\x80-\xff]++|[(),.]/', (string) statement_shape( $from ), $found );
	foreach ( $found[0] as $at => $token ) {
		if ( '(' === $token ) {
			++$depth;
			$query = $query ?? ( 'SELECT' === strtoupper( $found[0][ $at + 1 ] ?? '' ) ? $depth : null );
		} elseif ( ')' === $token ) {
			$query = $query === $depth ? null : $query;
			--$depth;
		} elseif ( null === $query && trim( $token, '`' ) === $table ) {
			return true;
		}
	}
	return false;
}
