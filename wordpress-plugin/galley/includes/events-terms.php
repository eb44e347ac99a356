<?php
/**
 * Detects changes of categories, tags and other terms, and of menus, which are also terms.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

add_action( 'edit_terms', __NAMESPACE__ . '\\touch_term', PHP_INT_MIN, 2 );
add_action( 'pre_delete_term', __NAMESPACE__ . '\\touch_term', PHP_INT_MIN, 2 );
add_action( 'edit_term_taxonomy', __NAMESPACE__ . '\\touch_term_by_place', PHP_INT_MIN, 2 );
add_action( 'created_term', __NAMESPACE__ . '\\on_new_term', PHP_INT_MIN, 3 );
add_action( 'delete_term', __NAMESPACE__ . '\\on_deleted_term', PHP_INT_MIN, 5 );
foreach ( array( 'added_term_meta', 'updated_term_meta', 'deleted_term_meta' ) as $galley_action ) {
	add_action( $galley_action, __NAMESPACE__ . '\\on_term_field', 10, 3 );
}
unset( $galley_action );
add_action( 'wp_update_nav_menu', __NAMESPACE__ . '\\on_menu' );
add_action( 'wp_delete_nav_menu', __NAMESPACE__ . '\\on_menu' );
add_action( 'wp_create_nav_menu', __NAMESPACE__ . '\\on_menu' );

$GLOBALS['galley_terms'] = array();

/** IDs of the terms of this request's posts, by `term_taxonomy_id`. */
$GLOBALS['galley_places'] = array();

/**
 * Records the state of a term before its first change in this request.
 */
function touch_term( $term_id, $taxonomy = '' ): void {
	$term_id = (int) $term_id;
	$key     = touched_key( $term_id );
	if ( isset( $GLOBALS['galley_terms'][ $key ] ) ) {
		return;
	}
	$state = term_state( $term_id, (string) $taxonomy );
	if ( $state ) {
		$GLOBALS['galley_terms'][ $key ] = $state;
		later(
			"term$term_id",
			static function () use ( $term_id, $taxonomy, $key ): void {
				$old = $GLOBALS['galley_terms'][ $key ];
				unset( $GLOBALS['galley_terms'][ $key ] );
				queue_term( $term_id, $old, term_state( $term_id, (string) $taxonomy ) );
			}
		);
	}
}

/**
 * Records the state of a term by its `term_taxonomy_id`, which WordPress uses when it updates the number of posts of a term.
 */
function touch_term_by_place( $place, $taxonomy = '' ): void {
	$taxonomy = is_object( $taxonomy ) ? $taxonomy->name : (string) $taxonomy;
	$id       = $GLOBALS['galley_places'][ touched_key( (int) $place ) ] ?? 0;
	if ( ! $id ) {
		$term = get_term_by( 'term_taxonomy_id', (int) $place, $taxonomy );
		$id   = $term instanceof \WP_Term ? $term->term_id : 0;
	}
	if ( $id ) {
		touch_term( $id, $taxonomy );
	}
}

/**
 * Returns the state of a term.
 *
 * @return array|null Null if the term does not exist or is a menu.
 */
function term_state( int $term_id, string $taxonomy ): ?array {
	$term = get_term( $term_id, $taxonomy );
	if ( ! $term instanceof \WP_Term || 'nav_menu' === $term->taxonomy ) {
		return null;
	}
	return array(
		'taxonomy'    => $term->taxonomy,
		'name'        => $term->name,
		'slug'        => $term->slug,
		'description' => $term->description,
		'parent'      => (int) $term->parent,
		'count'       => (int) $term->count,
	);
}

/**
 * Queues purges for everything that has changed in a term.
 */
function queue_term( int $term_id, array $old, ?array $new ): void {
	if ( in_array( $old['taxonomy'], LANGUAGE_TAXONOMIES, true ) ) {
		queue_language_term( $old, $new );
		return;
	}
	queue_purge( term_tags( $term_id, $old, $new ) );
	if ( $new && $old['name'] !== $new['name'] ) {
		$sorted = sorted_otherwise( $term_id, $old['taxonomy'], $old['name'], $new['name'] );
		// If there are too many posts, purge all pages that print the ID or the slug of this term.
		queue_purge( count( $sorted ) < MAX_PURGES ? preg_replace( '/^/', 'to', $sorted ) : "ts$term_id" );
	}
	if ( $new && ( $old['slug'] !== $new['slug'] || $old['parent'] !== $new['parent'] ) ) {
		// The addresses of the term and of its descendants change, and the addresses of posts that contain the term.
		foreach ( array_merge( array( $term_id ), descendant_terms( $term_id ) ) as $moved ) {
			queue_purge( array( "t$moved", "tl$moved", "tn$moved" ) );
		}
		if ( false !== strpos( (string) get_option( 'permalink_structure' ), '%category%' ) ) {
			queue_purge( 'b' );
		}
	}
	if ( $new && $old['parent'] !== $new['parent'] ) {
		foreach ( array_filter( array( $old['parent'], $new['parent'] ) ) as $parent ) {
			queue_archives_of( (int) $parent, $new['taxonomy'] );
		}
	}
}

/**
 * Returns the posts whose terms are in a different order after this term was renamed. The REST API returns term IDs in the order of the names.
 *
 * @return string[] Post IDs, at most `MAX_PURGES`.
 */
function sorted_otherwise( int $term_id, string $taxonomy, string $old, string $new ): array {
	global $wpdb;
	$own   = "$wpdb->term_relationships a JOIN $wpdb->term_taxonomy x ON x.term_taxonomy_id = a.term_taxonomy_id AND x.term_id = %d AND x.taxonomy = %s";
	$other = "$wpdb->term_relationships b ON b.object_id = a.object_id JOIN $wpdb->term_taxonomy y ON y.term_taxonomy_id = b.term_taxonomy_id AND y.taxonomy = x.taxonomy JOIN $wpdb->terms t ON t.term_id = y.term_id";
	$where = 't.term_id <> x.term_id AND ( t.name BETWEEN %s AND %s OR t.name BETWEEN %s AND %s )';
	// phpcs:ignore WordPress.DB -- must be current.
	return $wpdb->get_col( $wpdb->prepare( "SELECT DISTINCT a.object_id FROM $own JOIN $other WHERE $where LIMIT %d", $term_id, $taxonomy, $old, $new, $new, $old, MAX_PURGES ) );
}

/**
 * Returns the tags that a change of a term affects, without the tags of its ancestors and descendants. Pure.
 *
 * @return string[]
 */
function term_tags( int $id, array $old, ?array $new ): array {
	$taxonomy = word( $old['taxonomy'] );
	if ( ! $new ) {
		$tags = array( "t$id", "tl$id", "tn$id", "ts$id", "tc$id", "lta.$taxonomy" );
		return $old['count'] ? array_merge( $tags, array( "lt.$taxonomy", "ltc.$taxonomy", "sm.$taxonomy" ) ) : $tags;
	}
	$tags = array();
	if ( $old['name'] !== $new['name'] || $old['slug'] !== $new['slug'] || $old['parent'] !== $new['parent'] ) {
		array_push( $tags, "t$id", "tl$id", "tn$id", "lto.$taxonomy" );
	}
	if ( $old['slug'] !== $new['slug'] || $old['parent'] !== $new['parent'] ) {
		// A lookup of a term by slug may now find this term.
		array_push( $tags, "sm.$taxonomy", "lta.$taxonomy" );
	}
	if ( $old['slug'] !== $new['slug'] ) {
		$tags[] = "ts$id";
	}
	if ( $old['description'] !== $new['description'] ) {
		$tags[] = "t$id";
	}
	if ( $old['count'] !== $new['count'] ) {
		array_push( $tags, "tc$id", "ltc.$taxonomy" );
		if ( ! $old['count'] || ! $new['count'] ) {
			array_push( $tags, "lt.$taxonomy", "sm.$taxonomy" );
		}
	}
	return $tags;
}

/**
 * Queues purges for the archives of a term and of its ancestors, for all post types of the taxonomy.
 */
function queue_archives_of( int $term_id, string $taxonomy ): void {
	$object = get_taxonomy( $taxonomy );
	$terms  = array_merge( array( $term_id ), array_map( 'intval', get_ancestors( $term_id, $taxonomy, 'taxonomy' ) ) );
	foreach ( $object ? $object->object_type : array() as $type ) {
		foreach ( $terms as $term ) {
			$key = 'l.' . word( $type ) . ".t$term";
			queue_purge( array( $key, "$key.q", "$key.n" ) );
		}
	}
}

function on_new_term( $term_id, $place = 0, $taxonomy = '' ): void {
	if ( in_array( $taxonomy, LANGUAGE_TAXONOMIES, true ) ) {
		on_new_language_term( (int) $term_id, (string) $taxonomy );
	} elseif ( 'nav_menu' !== $taxonomy ) {
		$taxonomy = word( (string) $taxonomy );
		queue_purge( array( 'tl' . (int) $term_id, 'tn' . (int) $term_id, "lta.$taxonomy", "lto.$taxonomy" ) );
	}
}

/**
 * Queues purges for a deleted term. WordPress passes the IDs of the posts that lose it.
 */
function on_deleted_term( $term_id, $place = 0, $taxonomy = '', $term = null, $posts = array() ): void {
	$object = get_taxonomy( (string) $taxonomy );
	if ( ! $object || ! $object->public ) {
		return;
	}
	foreach ( $object->object_type as $type ) {
		$key = 'l.' . word( $type ) . '.t' . (int) $term_id;
		queue_purge( array( $key, "$key.q", "$key.n" ) );
	}
	foreach ( array_slice( (array) $posts, 0, MAX_PURGES ) as $id ) {
		queue_purge( array( 'p' . (int) $id, 'pt' . (int) $id ) );
	}
}

function on_term_field( $meta_id, $term_id, $key = '' ): void {
	if ( STRINGS_FIELD === $key ) {
		queue_purge( 'ln' . (int) $term_id );
	} elseif ( ! is_visit_field( 'term', (int) $term_id, (string) $key ) ) {
		$term     = get_term( (int) $term_id );
		$taxonomy = $term instanceof \WP_Term ? word( $term->taxonomy ) : '';
		queue_purge( array( 'tf' . (int) $term_id, field_tag( 'tf', (int) $term_id, (string) $key ), "o.$taxonomy." . word( "m_$key" ), "o.$taxonomy.m_" ) );
	}
}

function on_menu( $menu_id ): void {
	queue_purge( 'm' . (int) $menu_id );
}
