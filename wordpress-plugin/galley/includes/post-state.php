<?php
/**
 * Captures everything about a post that pages can show. A comparison of the states before and after a change shows what the change affects.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/**
 * Returns the state of a post. Returns null if neither a list nor a single page ever shows the post.
 *
 * @param \WP_Post    $post   The post.
 * @param string|null $status Status of the post, if the post object no longer contains it.
 * @return array|null Scalars, and `terms`: IDs of terms and of their ancestors, by taxonomy.
 */
function post_state( \WP_Post $post, ?string $status = null ): ?array {
	if ( ! is_listed_type( $post->post_type ) ) {
		return null;
	}
	if ( null !== $status ) {
		$post              = clone $post;
		$post->post_status = $status;
	}
	return array(
		'type'       => $post->post_type,
		'status'     => $post->post_status,
		'visible'    => is_public( $post ),
		'author'     => (int) $post->post_author,
		'date'       => $post->post_date,
		'title'      => $post->post_title,
		'slug'       => $post->post_name,
		'content'    => $post->post_content,
		'excerpt'    => md5( excerpt_basis( $post->post_excerpt, $post->post_content, (int) apply_filters( 'excerpt_length', 55 ) ) ),
		'summary'    => $post->post_excerpt,
		'file'       => 'attachment' === $post->post_type ? (string) get_post_meta( $post->ID, '_wp_attached_file', true ) : '',
		'parent'     => (int) $post->post_parent,
		'menu_order' => (int) $post->menu_order,
		'password'   => $post->post_password,
		'modified'   => $post->post_modified,
		'rest'       => md5( $post->comment_status . $post->ping_status . $post->post_mime_type ),
		'picture'    => (int) get_post_meta( $post->ID, '_thumbnail_id', true ),
		'link'       => (string) get_permalink( $post ),
		'terms'      => post_terms( $post ),
	);
}

/**
 * Checks whether posts of a type can be in lists. Themes also list posts of types without single pages, such as slides, testimonials and
 * questions.
 */
function is_listed_type( string $type ): bool {
	return ! in_array( $type, UNLISTED_TYPES, true ) && ( ! is_shared() || is_post_type_viewable( $type ) );
}

/**
 * Checks whether a post is visible to everyone. An attachment is visible as long as its post is visible.
 */
function is_public( \WP_Post $post ): bool {
	$status = (string) ( 'attachment' === $post->post_type ? get_post_status( $post ) : $post->post_status );
	$object = get_post_status_object( $status );
	// Lists check whether a status is public. Single pages check whether it is publicly queryable.
	return 'inherit' === $status || ( $object && $object->public ) || is_post_status_viewable( $status );
}

/**
 * Returns the source of an excerpt: the manual excerpt, or the first words of the content. Pure, except for WordPress's functions that
 * strip tags.
 */
function excerpt_basis( string $written, string $content, int $words ): string {
	if ( '' !== $written ) {
		return "=$written";
	}
	$more  = strpos( $content, '<!--more' );
	$plain = wp_strip_all_tags( false === $more ? $content : substr( $content, 0, $more ) );
	$parts = preg_split( '/\s+/', $plain, max( 1, $words ) + 2, PREG_SPLIT_NO_EMPTY );
	// The result has one word more than the excerpt, because pages also show whether more text follows.
	return ( false === $more ? '' : '+' ) . implode( ' ', array_slice( $parts, 0, max( 1, $words ) + 1 ) );
}

/**
 * Returns the terms of a post in all taxonomies, and their ancestors, because the archives of the ancestors also show the post.
 *
 * @return array<string, int[]>
 */
function post_terms( \WP_Post $post ): array {
	$terms = array();
	// This call uses one query for all taxonomies instead of one for each.
	update_object_term_cache( array( $post->ID ), $post->post_type );
	// Polylang stores the translations of a post as terms, which no page shows. events-languages.php handles their changes.
	foreach ( array_diff( get_object_taxonomies( $post->post_type ), GROUP_TAXONOMIES ) as $taxonomy ) {
		$found = get_the_terms( $post->ID, $taxonomy );
		foreach ( is_array( $found ) ? $found : array() as $term ) {
			$terms[ $taxonomy ][] = $term->term_id;

			$GLOBALS['galley_places'][ touched_key( $term->term_taxonomy_id ) ] = $term->term_id;
			foreach ( get_ancestors( $term->term_id, $taxonomy, 'taxonomy' ) as $ancestor ) {
				$terms[ $taxonomy ][] = (int) $ancestor;
			}
		}
		if ( isset( $terms[ $taxonomy ] ) ) {
			$terms[ $taxonomy ] = array_values( array_unique( $terms[ $taxonomy ] ) );
		}
	}
	return $terms;
}
