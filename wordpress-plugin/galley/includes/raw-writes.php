<?php
/**
 * Statements of other code than WordPress's that change posts, terms, comments, users and their fields past WordPress's functions, whose actions
 * the events-*.php wait for: `$wpdb->update( $wpdb->posts, ... )`.
 *
 * Before such a statement is sent, the database is asked which rows its condition names, and the objects are treated as before a change by
 * WordPress's functions: their states before and after it are compared. If that is not possible, or for too many objects, the whole blog is purged.
 *
 * What cannot be named is ignored if it is written while a page is generated that Galley stores: otherwise each visit could purge the blog. A link whose
 * response is not stored is an edit.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Columns of the tables: the primary key, the object, and the key of a field or the taxonomy. */
const ROW_COLUMNS = array(
	'posts'              => array( 'ID', 'ID', null ),
	'postmeta'           => array( 'meta_id', 'post_id', 'meta_key' ),
	'terms'              => array( 'term_id', 'term_id', null ),
	'term_taxonomy'      => array( 'term_taxonomy_id', 'term_id', 'taxonomy' ),
	'termmeta'           => array( 'meta_id', 'term_id', 'meta_key' ),
	'term_relationships' => array( null, 'object_id', null ),
	'comments'           => array( 'comment_ID', 'comment_ID', null ),
	'commentmeta'        => array( 'meta_id', 'comment_id', 'meta_key' ),
	'users'              => array( 'ID', 'ID', null ),
	'usermeta'           => array( 'umeta_id', 'user_id', 'meta_key' ),
);

/** Groups of the object cache with the objects or their fields. */
const ROW_CACHES = array(
	'posts'         => 'posts',
	'postmeta'      => 'post_meta',
	'terms'         => 'terms',
	'term_taxonomy' => 'terms',
	'termmeta'      => 'term_meta',
	'comments'      => 'comment',
	'commentmeta'   => 'comment_meta',
	'users'         => 'users',
	'usermeta'      => 'user_meta',
);

/** Groups of the object cache whose `last_changed` is part of the keys under which WordPress keeps lists of the objects. */
const ROW_LISTS = array(
	'posts'              => 'posts',
	'postmeta'           => 'posts',
	'terms'              => 'terms',
	'term_taxonomy'      => 'terms',
	'termmeta'           => 'terms',
	'term_relationships' => 'terms',
	'comments'           => 'comment',
	'commentmeta'        => 'comment',
	'users'              => 'users',
	'usermeta'           => 'users',
);

/** Tables of WordPress that no page shows. */
const UNSHOWN_TABLES = array( 'signups', 'registration_log' );

/** Functions that tell about the last statement, which asking the database would change. */
const ABOUT_LAST_STATEMENT = '/\b(?:FOUND_ROWS|ROW_COUNT|LAST_INSERT_ID)\b|\bWARNINGS\b|@@/i';

/** Maximum number of rows of such a statement, of such statements in a request, and of bytes of one without its values. Above it, they purge the blog. */
const MAX_RAW_ROWS   = 100;
const MAX_RAW_WRITES = 200;
const MAX_HEAD_BYTES = 50000;

$GLOBALS['galley_raw_writes'] = 0;

/** Rows of the last statement, for each table: its name, the table, object and key of each row; null for an insertion. */
$GLOBALS['galley_raw_rows'] = array();

/**
 * Returns the tags of a statement on a table of WordPress that other code sends, and records the states of the objects that it changes.
 *
 * @param string $table Name as in the statement.
 * @param string $name  Without the prefix.
 * @return string[]
 */
function tags_of_raw_write( string $table, string $name, string $sql ): array {
	$tag = table_tag( $table );
	if ( in_array( $name, UNSHOWN_TABLES, true ) ) {
		// A busy table keeps the purges of its objects: pages that show them by WordPress's functions live longer than a minute.
		return is_known_as_busy( $tag ) ? array() : array( $tag );
	}
	$is_own = isset( ROW_COLUMNS[ $name ] ) && preg_replace( '/^.*\./', '', $table ) === $GLOBALS['wpdb']->$name;
	if ( $is_own && keeps_values() ) {
		forget_lists( ROW_LISTS[ $name ] );
	}
	$rows = $is_own && ! $GLOBALS['galley_is_over'] && ++$GLOBALS['galley_raw_writes'] <= MAX_RAW_WRITES ? rows_of_write( $name, $sql, preg_replace( '/^.*\./', '', $table ) ) : null;
	if ( null === $rows ) {
		$of_fields = $is_own && 'commentmeta' === $name;
		$of_all    = is_multisite() && ( ! $is_own || 0 === strncmp( $name, 'user', 4 ) );
		$any       = $of_all ? '*' : blog_prefix() . ( $of_fields ? 'kma' : 'b' );
		if ( ! is_shared() ) {
			return array( $tag, $any );
		}
		purge_unless_stored( array( $any ) );
		return array( $tag );
	}
	$GLOBALS['galley_raw_rows'][] = array( $name, $table, 'I' === $rows ? null : $rows );
	if ( is_array( $rows ) ) {
		quietly(
			static function () use ( $name, $rows ): void {
				foreach ( $rows as $row ) {
					note_state( $name, (int) $row[0], (string) ( $row[1] ?? '' ) );
				}
			}
		);
	}
	return array( $tag );
}

/**
 * Lets WordPress forget the lists that a persistent object cache keeps, before the purges are sent. It would show them until another object of the kind
 * changes, and that purges other pages. If visitors change the rows all the time, it keeps them.
 */
function forget_lists( string $group ): void {
	later(
		"lists $group",
		static function () use ( $group ): void {
			if ( without_busy( array( "rows.$group" ) ) ) {
				wp_cache_set( 'last_changed', microtime(), $group );
			}
		}
	);
}

/**
 * Returns the rows that a statement is about to change: object, and key or taxonomy. `I` for an insertion, whose rows are known afterwards. Null if the rows
 * are unknown or too many.
 *
 * @param string $name  Name of WordPress for the table.
 * @param string $table Name of the table without a database.
 * @return array[]|string|null
 */
function rows_of_write( string $name, string $sql, string $table ) {
	list( $primary, $object, $key ) = ROW_COLUMNS[ $name ];
	if ( preg_match( ABOUT_LAST_STATEMENT, $sql ) ) {
		return null;
	}
	if ( preg_match( '/^\s*(?:\/\*[^!*]*\*\/\s*)?INSERT\s(?!.*\bON\s+DUPLICATE\b)/is', $sql ) ) {
		// With keys of its own, or without a list of columns, `insert_id` is not that of the first row.
		$has_list = preg_match( '/^[^(\'"]*\(([^()\'"]*)\)\s*(?:VALUES?|SELECT)\b/i', $sql, $found );
		$has_keys = $has_list && preg_match( "/\\b$primary\\b/i", $found[1] );
		return null === $primary || $has_keys || ( ! $has_list && ! preg_match( '/^[^(\'"]*\bSET\b/i', $sql ) ) ? null : 'I';
	}
	$head = preg_replace( SHAPE_PARTS, '?', $sql );
	// An object that gets another number, or a field that gets another key.
	if ( ! is_string( $head ) || strlen( $head ) > MAX_HEAD_BYTES || 0 !== preg_match( "/\\bSET\\b(?:(?!\\bWHERE\\b).)*`?\\b(?:$object" . ( $key ? "|$key" : '' ) . ')`?\s*=/is', $head ) ) {
		return null;
	}
	$parts  = condition_of( $sql );
	$called = null === $parts ? array() : aliases_in( $parts[0], $table );
	if ( 1 !== count( $called ) ) {
		// Nothing that only a query within parentheses reads is changed. A table that is joined with itself has two names.
		return null !== $parts && ! $called && ! is_named_outside_queries( $parts[0], $table ) ? array() : null;
	}
	if ( 'comments' === $name && preg_match( '/^\s*DELETE\b/i', $sql ) ) {
		// No page shows spam, of which thousands are deleted at once.
		$parts[1] .= ") AND ($called[0].comment_approved = '1'";
	}
	$columns = "$called[0].$object" . ( $key ? ", $called[0].$key" : '' );
	$lock    = null === $GLOBALS['galley_transaction'] ? '' : ' FOR UPDATE';
	$rows    = rows_directly( "SELECT DISTINCT $columns FROM $parts[0] WHERE ($parts[1]) LIMIT " . ( MAX_RAW_ROWS + 1 ) . $lock );
	if ( null === $rows || count( $rows ) > MAX_RAW_ROWS ) {
		return null;
	}
	// A join may have no row of this table.
	return array_values(
		array_filter(
			array_map( 'array_values', $rows ),
			static function ( array $row ): bool {
				return (int) $row[0] > 0;
			}
		)
	);
}

/**
 * Does something that sends statements by `wpdb`, and lets `wpdb` tell about the last statement what it told before.
 */
function quietly( callable $work ): void {
	$wpdb  = $GLOBALS['wpdb'];
	$names = array( 'insert_id', 'rows_affected', 'num_rows', 'last_query', 'last_error', 'last_result', 'check_current_query' );
	$read  = function () use ( $names ): array {
		$kept = array();
		foreach ( $names as $name ) {
			$kept[ $name ] = $this->$name ?? null;
		}
		return $kept;
	};
	$write = function ( array $kept ): void {
		foreach ( $kept as $name => $value ) {
			$this->$name = $value;
		}
	};
	$kept  = $read->call( $wpdb );
	$work();
	$write->call( $wpdb, $kept );
}

/**
 * Records the state of an object before a statement changes it.
 */
function note_state( string $name, int $id, string $key ): void {
	switch ( $name ) {
		case 'posts':
			note_shown_post( $id );
			touch_post( $id );
			break;
		case 'term_relationships':
			touch_post( $id );
			break;
		case 'postmeta':
			$old = noted_field( $id, $key ) ?? get_post_meta( $id, $key );
			if ( ! is_shared() || ! is_array( $old ) || ! only_counts( null, $old ) ) {
				on_field( 0, $id, $key, $old );
			}
			break;
		case 'terms':
		case 'term_taxonomy':
			touch_term( $id, $key );
			break;
		case 'comments':
			$old = get_comment( $id );
			later(
				"comment$id",
				static function () use ( $id, $old ): void {
					queue_raw_comment( $id, $old );
				}
			);
	}
}

/**
 * Queues purges for a comment before and after a change.
 *
 * @param \WP_Comment|null $old Before it.
 */
function queue_raw_comment( int $id, $old = null ): void {
	$new = get_comment( $id );
	foreach ( (array) $old === (array) $new ? array() : array_filter( array( $old, $new ), __NAMESPACE__ . '\\is_shown' ) as $comment ) {
		queue_comment( $comment );
	}
}

/**
 * Handles the rows that the last statement has changed in a table.
 *
 * @param array $written  Name of the table, the table, and the rows, as in `$GLOBALS['galley_raw_rows']`.
 * @param bool  $is_known Whether `wpdb` still tells about that statement.
 * @return bool False if the rows are unknown.
 */
function settle_raw_rows( array $written, bool $is_known ): bool {
	list( $name, $table, $rows )    = $written;
	list( $primary, $object, $key ) = ROW_COLUMNS[ $name ];
	$is_new                         = null === $rows;
	if ( $is_new ) {
		$first = (int) $GLOBALS['wpdb']->insert_id;
		$limit = MAX_RAW_ROWS + 1;
		$found = $is_known && $first > 0 && 0 < (int) $GLOBALS['wpdb']->rows_affected ? rows_directly( "SELECT DISTINCT $object" . ( $key ? ", $key" : '' ) . " FROM $table WHERE $primary >= $first LIMIT $limit" ) : null;
		$rows  = array_map( 'array_values', (array) $found );
		if ( ! $rows || count( $rows ) >= $limit ) {
			return false;
		}
	}
	quietly(
		static function () use ( $name, $rows, $is_new ): void {
			foreach ( $rows as $row ) {
				queue_row( $name, (int) $row[0], (string) ( $row[1] ?? '' ), $is_new );
			}
		}
	);
	return true;
}

/**
 * Queues purges for a row that a statement has changed, or takes the object out of this request's cache, so that its state is compared at the end.
 *
 * @param string $key    Key of a field, or taxonomy.
 * @param bool   $is_new Whether the statement has inserted the row.
 */
function queue_row( string $name, int $id, string $key, bool $is_new ): void {
	if ( isset( ROW_CACHES[ $name ] ) ) {
		wp_cache_delete( $id, ROW_CACHES[ $name ] );
	}
	$post = $is_new && 'posts' === $name ? get_post( $id ) : null;
	if ( $post ) {
		touched( $post, null, true );
	} elseif ( 'postmeta' === $name && $is_new ) {
		on_field( 0, $id, $key );
	} elseif ( 'term_taxonomy' === $name && $is_new ) {
		on_new_term( $id, 0, $key );
	} elseif ( 'termmeta' === $name ) {
		on_term_field( 0, $id, $key );
	} elseif ( 'term_relationships' === $name ) {
		foreach ( get_taxonomies() as $taxonomy ) {
			wp_cache_delete( $id, "{$taxonomy}_relationships" );
		}
	} elseif ( 'comments' === $name && $is_new ) {
		queue_raw_comment( $id );
	} elseif ( 'commentmeta' === $name ) {
		on_comment_field( 0, $id, $key );
	} elseif ( 'users' === $name ) {
		queue_network_purge( array( "u$id", "uf$id", 'lu', 'sm.users' ) );
		queue_purge( 'lu' );
	} elseif ( 'usermeta' === $name ) {
		on_user_field( 0, $id, $key );
		if ( preg_match( '/(?:capabilities|user_level)$/D', $key ) ) {
			on_user_list();
			queue_network_purge( "u$id" );
		}
	}
}
