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
		$known[ $shape ] = $is_plain && calls_are_repeatable( $shape );
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
 * Returns the condition of an UPDATE or DELETE of one table, with the name by which it calls the table. Null if the statement is not of this kind,
 * has no condition, or one that cannot be asked for.
 *
 * @return array{string, string}|null Table with its alias, and condition.
 */
function condition_of( string $sql ): ?array {
	$mask = strlen( $sql ) > MAX_STATEMENT ? null : preg_replace_callback(
		SHAPE_PARTS,
		static function ( array $part ): string {
			return str_repeat( in_array( $part[0][0], array( '/', '-', '#' ), true ) ? ' ' : '?', strlen( $part[0] ) );
		},
		$sql
	);
	if ( null === $mask || preg_match( '/\bSELECT\b|\bJOIN\b|\/\*/i', $mask ) ) {
		return null;
	}
	// No part gives back what it has read, so that the time grows with the length only.
	$name  = '[`\w$\x80-\xff]++';
	$table = "((?:$name\\s*+\\.\\s*+)?+$name(?:\\s++(?:AS\\s++)?+(?!(?:SET|WHERE|USING)\\b)[`\\w$]++)?+)\\s++";
	if ( ! preg_match( "/^\\s*+(?:UPDATE\\s++(?:(?:LOW_PRIORITY|IGNORE)\\s++)*+{$table}SET\\b|DELETE\\s++(?:(?:LOW_PRIORITY|QUICK|IGNORE)\\s++)*+FROM\\s++{$table}(?=WHERE\\b))/i", $mask, $found ) || ! preg_match( '/\bWHERE\b/i', $mask, $where, PREG_OFFSET_CAPTURE, strlen( $found[0] ) ) ) {
		return null;
	}
	$start     = $where[0][1] + 5;
	$end       = preg_match( '/\b(?:ORDER\s++BY|LIMIT|RETURNING)\b/i', $mask, $after, PREG_OFFSET_CAPTURE, $start ) ? $after[0][1] : strlen( rtrim( $mask, "; \t\r\n" ) );
	$name      = trim( $found[1] . ( $found[2] ?? '' ) );
	$condition = substr( $sql, $start, max( 0, $end - $start ) );
	return is_repeatable( "SELECT 1 FROM $name WHERE $condition", MAX_CONDITION_BYTES ) ? array( $name, $condition ) : null;
}
