<?php
/**
 * What the database does itself: views show rows of other tables, and triggers and foreign keys change rows of other tables.
 *
 * A page that reads a view reads the tables of its definition. A statement on a table with triggers, or to which a foreign key points, writes the other tables,
 * too. `information_schema` tells once a day, and after statements on the structure. If one definition cannot be understood, pages that read
 * tables of other plugins live for a minute, as they do for each view that cannot.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Option with the time, the tables of each view, and the tables that change with each table; null if one of them is unknown. */
const LINKS_OPTION = 'galley_table_links';

/** Maximum number of views, triggers and keys. */
const MAX_LINKS = 200;

/** What this request knows. */
$GLOBALS['galley_table_links'] = null;

/**
 * Returns the views and what changes with a table. Asks the database if that is not known.
 *
 * @return array{views: array<string, string[]>, changes: ?array<string, string[]>}
 */
function table_links(): array {
	$links = $GLOBALS['galley_table_links'] ?? record_within( LINKS_OPTION );
	if ( ( $links['at'] ?? 0 ) < time() - PLAIN_FOR ) {
		$links = asked_links() + array( 'at' => time() );
		// A hook of the option may read a view.
		$GLOBALS['galley_table_links'] = $links;
		if ( $links['answered'] ) {
			quietly(
				static function () use ( $links ): void {
					keep_record( LINKS_OPTION, $links );
				}
			);
		}
	}
	$GLOBALS['galley_table_links'] = $links;
	return $links;
}

function asked_links(): array {
	$limit    = ' LIMIT ' . ( MAX_LINKS + 1 );
	$views    = rows_directly( "SELECT TABLE_NAME AS name, VIEW_DEFINITION AS code FROM information_schema.VIEWS WHERE TABLE_SCHEMA = DATABASE()$limit" );
	$triggers = rows_directly( "SELECT EVENT_OBJECT_TABLE AS name, ACTION_STATEMENT AS code FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE()$limit" );
	$rules    = "('CASCADE', 'SET NULL')";
	$keys     = rows_directly( "SELECT REFERENCED_TABLE_NAME AS name, TABLE_NAME AS other FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = DATABASE() AND (UPDATE_RULE IN $rules OR DELETE_RULE IN $rules)$limit" );
	$is_known = null !== $views && null !== $triggers && null !== $keys;
	if ( ! $is_known || max( count( $views ), count( $triggers ), count( $keys ) ) > MAX_LINKS ) {
		return array(
			'views'    => array(),
			'changes'  => null,
			'answered' => $is_known,
		);
	}
	return array(
		'views'    => linked_views( $views ),
		'changes'  => linked_changes( $triggers, $keys ),
		'answered' => true,
	);
}

/**
 * Returns the tables of each view whose definition says all that its rows depend on.
 *
 * @param array[] $views Names and definitions.
 * @return array<string, string[]>
 */
function linked_views( array $views ): array {
	$links = array();
	$names = array_map( 'strtolower', array_column( $views, 'name' ) );
	foreach ( $views as $view ) {
		if ( is_repeatable( (string) $view['code'] ) ) {
			$links[ tagged_name( $view['name'] ) ] = array_map( __NAMESPACE__ . '\\tagged_name', tables_read_by( $view['code'] ) );
		}
	}
	// A view on a view that is unknown is unknown.
	do {
		$count = count( $links );
		foreach ( $links as $name => $tables ) {
			if ( array_diff( array_intersect( $tables, $names ), array_keys( $links ) ) ) {
				unset( $links[ $name ] );
			}
		}
	} while ( count( $links ) < $count );
	return array_map(
		static function ( array $tables ) use ( $links ): array {
			return with_linked( $tables, $links );
		},
		$links
	);
}

/**
 * Returns the tables that change with each table, or null if a trigger is more than a statement that names them.
 *
 * @param array[] $triggers Tables and statements.
 * @param array[] $keys     Tables, and the ones whose foreign keys point to them.
 * @return array<string, string[]>|null
 */
function linked_changes( array $triggers, array $keys ): ?array {
	$links = array();
	foreach ( $triggers as $trigger ) {
		$tables = tables_of_trigger( (string) $trigger['code'] );
		if ( null === $tables ) {
			return null;
		}
		$name           = tagged_name( $trigger['name'] );
		$links[ $name ] = array_merge( $links[ $name ] ?? array(), array_map( __NAMESPACE__ . '\\tagged_name', $tables ) );
	}
	foreach ( $keys as $key ) {
		$links[ tagged_name( $key['name'] ) ][] = tagged_name( $key['other'] );
	}
	$all = array();
	foreach ( $links as $name => $tables ) {
		$all[ $name ] = with_linked( $tables, $links );
	}
	return $all;
}

/**
 * Returns the tables that the statement of a trigger writes. Null if it is a block, or calls functions that may write.
 *
 * @return string[]|null
 */
function tables_of_trigger( string $code ): ?array {
	$shape = statement_shape( $code );
	if ( null === $shape || preg_match( '/^\s*(?:BEGIN|IF|CASE|CALL|REPEAT|WHILE|FOR|\w+\s*:)\b|;\s*\S|\/\*/i', $shape ) ) {
		return null;
	}
	$tables = tables_written_by( $code );
	// Lists of columns and values are no calls.
	$calls = preg_replace( array( '/\bINTO\s+[`\w$.\x80-\xff]+\s*\(/i', '/\bVALUES?\s*\(/i' ), ' ', $shape );
	return in_array( UNKNOWN_TABLE, $tables, true ) || ! calls_are_repeatable( (string) $calls ) ? null : $tables;
}

/**
 * Returns the tables that views among tables show.
 *
 * @param string[] $tables Names.
 * @return string[]
 */
function tables_of_views( array $tables ): array {
	$views = table_links()['views'];
	$names = array_map( __NAMESPACE__ . '\\tagged_name', $tables );
	return $views ? array_diff( with_linked( $names, $views ), $names ) : array();
}

/**
 * Returns the tags of the tables that the database changes with one.
 *
 * @param string $table Name as in the statement.
 * @return string[]
 */
function tags_of_linked( string $table ): array {
	$kind  = table_kind( $table, $GLOBALS['wpdb'], is_multisite() );
	$links = '' === $kind ? table_links() : kept_record( LINKS_OPTION, true );
	$tags  = array();
	$name  = tagged_name( $table );
	// A statement on a view changes rows of its tables.
	foreach ( array_merge( $links['views'][ $name ] ?? array(), $links['changes'][ $name ] ?? array() ) as $other ) {
		$tag = "tb.$other";
		if ( 'core' === table_kind( $other, $GLOBALS['wpdb'], is_multisite() ) ) {
			$tags[] = is_multisite() ? '*' : 'b';
		} elseif ( ! is_known_as_busy( $tag ) ) {
			$tags[] = $tag;
		}
	}
	return $tags;
}

/**
 * Returns tables with all that follow from links. Pure.
 *
 * @param string[]                $tables Names.
 * @param array<string, string[]> $links  Tables by name.
 * @return string[]
 */
function with_linked( array $tables, array $links ): array {
	$all = array();
	while ( $tables ) {
		$table = array_pop( $tables );
		if ( ! isset( $all[ $table ] ) ) {
			$all[ $table ] = true;
			$tables        = array_merge( $tables, $links[ $table ] ?? array() );
		}
	}
	return array_map( 'strval', array_keys( $all ) );
}
