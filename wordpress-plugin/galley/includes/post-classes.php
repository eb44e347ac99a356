<?php
/**
 * Prints the CSS classes of a post's terms in an order that does not depend on the names of the terms.
 *
 * WordPress prints the classes in the order of the names. If a user renamed a category, every post with two categories could change. The
 * order of classes has no meaning in HTML, so all pages print them in the order of the term IDs.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

add_filter( 'post_class_taxonomies', __NAMESPACE__ . '\\begin_classes', PHP_INT_MAX );
add_filter( 'get_the_terms', __NAMESPACE__ . '\\order_terms_of_classes', PHP_INT_MAX );
add_filter( 'post_class', __NAMESPACE__ . '\\end_classes', PHP_INT_MIN );

function begin_classes( $taxonomies ) {
	$GLOBALS['galley_in_classes'] = true;
	return $taxonomies;
}

function end_classes( $classes ) {
	unset( $GLOBALS['galley_in_classes'] );
	return $classes;
}

function order_terms_of_classes( $terms ) {
	return empty( $GLOBALS['galley_in_classes'] ) || ! is_array( $terms ) ? $terms : by_number( $terms );
}

/**
 * Sorts terms by ID. Pure.
 *
 * @param object[] $terms Terms.
 */
function by_number( array $terms ): array {
	usort(
		$terms,
		static function ( $a, $b ): int {
			return (int) ( $a->term_id ?? 0 ) <=> (int) ( $b->term_id ?? 0 );
		}
	);
	return $terms;
}
