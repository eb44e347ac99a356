<?php
/**
 * Finds the terms that a post query names.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/**
 * Returns the terms that a query names, and how it uses them.
 *
 * `complex`: the terms do not describe all conditions. `narrow`: posts have a higher position in the list of the query than in the lists of
 * the terms. `without`: the query excludes posts that have a term. `nothing`: the query finds no posts, because a term does not exist.
 * `with`: terms of CONJOINED_TAXONOMIES. `within`: those of them of which posts must have one.
 *
 * @return array{terms: int[], with: int[], within: int[], complex: bool, narrow: bool, without: bool, nothing: bool}
 */
function terms_of( \WP_Query $query ): array {
	$found   = array(
		'terms'   => array(),
		'with'    => array(),
		'within'  => array(),
		'complex' => false,
		'narrow'  => false,
		'without' => false,
		'nothing' => false,
	);
	$clauses = array();
	$is_or   = false;
	foreach ( (array) ( $query->tax_query->queries ?? array() ) as $key => $clause ) {
		if ( 'relation' === $key ) {
			$is_or = 'OR' === strtoupper( (string) $clause );
		} elseif ( is_array( $clause ) ) {
			$clauses[] = $clause;
		}
	}
	$clauses = $is_or ? $clauses : without_conjoined( $clauses, $found );
	$named   = 0;
	foreach ( $clauses as $clause ) {
		$operator = strtoupper( (string) ( $clause['operator'] ?? 'IN' ) );
		$terms    = (array) ( $clause['terms'] ?? array() );
		$ids      = clause_ids( $clause, array( 'IN', 'AND', 'NOT IN' ) );
		$named   += 'NOT IN' === $operator ? 0 : 1;

		$found['without'] = $found['without'] || 'NOT IN' === $operator;
		$found['complex'] = $found['complex'] || null === $ids || ( $is_or && 'NOT IN' === $operator );
		$found['narrow']  = $found['narrow'] || count( $clauses ) > 1 || ( 'AND' === $operator && count( $terms ) > 1 ) || ! ( $clause['include_children'] ?? true );
		$found['nothing'] = $found['nothing'] || ( array() === $ids && 'NOT IN' !== $operator && ! $is_or );
		$found['terms']   = array_merge( $found['terms'], $ids ?? array() );
	}
	// A term in the tags cannot stand for posts that do not have it.
	$found['complex'] = $found['complex'] || ( $clauses && ! $named );
	return $found;
}

/**
 * Returns the term IDs of a clause, or null if the clause does not name its terms in a known way.
 *
 * @param string[] $operators Operators that the clause may have.
 * @return int[]|null
 */
function clause_ids( array $clause, array $operators ): ?array {
	$terms    = (array) ( $clause['terms'] ?? array() );
	$field    = (string) ( $clause['field'] ?? 'term_id' );
	$is_known = in_array( strtoupper( (string) ( $clause['operator'] ?? 'IN' ) ), $operators, true ) && $terms && count( $terms ) <= 50 && in_array( $field, array( 'term_id', 'slug', 'name', 'term_taxonomy_id' ), true );
	return $is_known ? term_ids( $terms, $field, (string) ( $clause['taxonomy'] ?? '' ) ) : null;
}

/**
 * Returns the clauses without those of CONJOINED_TAXONOMIES, whose terms it adds to `with` and `within` of the result.
 *
 * @param array[] $clauses Clauses that posts must all meet.
 */
function without_conjoined( array $clauses, array &$found ): array {
	$others = array();
	foreach ( $clauses as $clause ) {
		$ids = in_array( $clause['taxonomy'] ?? '', CONJOINED_TAXONOMIES, true ) ? clause_ids( $clause, array( 'IN', 'NOT IN' ) ) : null;
		if ( null === $ids || ( ! $ids && 'NOT IN' !== strtoupper( (string) ( $clause['operator'] ?? 'IN' ) ) ) ) {
			$others[] = $clause;
			continue;
		}
		$found['with'] = array_merge( $found['with'], $ids );
		if ( 'NOT IN' !== strtoupper( (string) ( $clause['operator'] ?? 'IN' ) ) ) {
			$found['within'] = array_merge( $found['within'], $ids );
		}
	}
	return $others;
}

/**
 * Returns the IDs of the terms that exist. Which term has a name or a slug changes with the terms, so such lookups add tags.
 *
 * @return int[]
 */
function term_ids( array $terms, string $field, string $taxonomy ): array {
	if ( 'term_id' === $field ) {
		return array_map( 'intval', array_values( $terms ) );
	}
	$ids = array();
	foreach ( $terms as $value ) {
		$term = get_term_by( $field, $value, $taxonomy );
		if ( $term instanceof \WP_Term ) {
			tag( ( 'slug' === $field ? 'ts' : 'tn' ) . $term->term_id );
			$ids[] = $term->term_id;
		} else {
			tag( ( 'slug' === $field ? 'lta.' : 'lto.' ) . word( $taxonomy ) );
		}
	}
	return $ids;
}
