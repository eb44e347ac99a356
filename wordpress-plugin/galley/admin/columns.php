<?php
/**
 * The column "Cached" in the lists of posts and pages. The plugin sends one request for the whole list and stores the result for
 * `COLUMN_SECONDS` seconds. If the server does not answer, the column is empty.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

const COLUMN_SECONDS = 10;

add_action( 'admin_init', __NAMESPACE__ . '\\add_columns' );

function add_columns(): void {
	if ( ! may_look() || null === connection() ) {
		return;
	}
	foreach ( get_post_types( array( 'show_ui' => true ) ) as $type ) {
		if ( is_post_type_viewable( $type ) && 'attachment' !== $type ) {
			add_filter( "manage_{$type}_posts_columns", __NAMESPACE__ . '\\name_column' );
			add_action( "manage_{$type}_posts_custom_column", __NAMESPACE__ . '\\print_column', 10, 2 );
		}
	}
}

/**
 * Adds the column to a list.
 *
 * @param string[] $columns Columns of the list.
 */
function name_column( $columns ): array {
	$columns                  = (array) $columns;
	$columns['galley_cached'] = __( 'Cached', 'galley' );
	return $columns;
}

/**
 * Prints the cell of a post.
 *
 * @param string $column Name of the column.
 * @param int    $post   ID of the post.
 */
function print_column( $column, $post ): void {
	if ( 'galley_cached' !== $column ) {
		return;
	}
	$link  = 'publish' === get_post_status( (int) $post ) ? own_address( (string) get_permalink( (int) $post ) ) : null;
	$state = null === $link ? null : ( listed_states()[ $link ] ?? null );
	if ( null === $state ) {
		echo '<span aria-hidden="true">–</span>';
		return;
	}
	$words = column_words( $state );
	printf( '<span class="galley-dot is-%s" aria-hidden="true"></span><span title="%s">%s</span>', esc_attr( $words[0] ), esc_attr( $words[2] ), esc_html( $words[1] ) );
}

/**
 * Returns the content of a cell. Pure except for translations.
 *
 * @param array $state State of a page from `pages_states()`.
 * @return array{string, string, string} CSS class, text, and reason.
 */
function column_words( array $state ): array {
	$why = is_string( $state['why'] ?? null ) ? as_sentence( reason_words( $state, $state['why'] )[0] ) : '';
	$age = is_int( $state['age_s'] ?? null ) ? $state['age_s'] : 0;
	switch ( $state['what'] ) {
		case 'hit':
		case 'stale':
			/* translators: %s: a time span such as "5 mins" */
			return array( $state['what'], sprintf( __( 'for %s', 'galley' ), age_in_words( $age ) ), $why );
		case 'miss':
			return array( 'miss', __( 'not yet', 'galley' ), $why );
		default:
			return array( 'pass', __( 'no', 'galley' ), $why );
	}
}

/**
 * Returns the states of all posts in the current list, by address.
 *
 * @return array<string, array>
 */
function listed_states(): array {
	static $states = null;
	if ( null !== $states ) {
		return $states;
	}
	$states = array();
	$urls   = array();
	foreach ( (array) ( $GLOBALS['wp_query']->posts ?? array() ) as $post ) {
		// Hierarchical lists contain IDs or reduced rows in place of posts.
		$id   = is_object( $post ) ? (int) ( $post->ID ?? 0 ) : (int) $post;
		$link = $id > 0 && 'publish' === get_post_status( $id ) ? own_address( (string) get_permalink( $id ) ) : null;
		if ( null !== $link ) {
			$urls[ $link ] = $link;
		}
	}
	$name = 'galley_listed_' . md5( implode( "\n", $urls ) );
	$kept = get_transient( $name );
	if ( is_array( $kept ) ) {
		$states = $kept;
	} elseif ( $urls ) {
		$states = pages_states( $urls );
		set_transient( $name, $states, COLUMN_SECONDS );
	}
	return $states;
}
