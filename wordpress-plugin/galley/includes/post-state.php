<?php
/**
 * What of a post pages can show, at one moment: compared before and after a change, it says what the change touches.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/**
 * The state of a post; null of what no list and no page of its own ever shows.
 *
 * @param \WP_Post    $post   The post.
 * @param string|null $status Its status, where the post does not tell it any more.
 * @return array|null Scalars, and `terms`: taxonomy to ids with their ancestors.
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
 * Whether posts of a type may be in lists. Such as have no page of their own are in those of themes: slides, opinions, questions.
 */
function is_listed_type( string $type ): bool {
	return ! in_array( $type, UNLISTED_TYPES, true ) && ( ! is_shared() || is_post_type_viewable( $type ) );
}

/**
 * Whether anybody may see a post. A picture is seen as long as its post is.
 */
function is_public( \WP_Post $post ): bool {
	$status = (string) ( 'attachment' === $post->post_type ? get_post_status( $post ) : $post->post_status );
	$object = get_post_status_object( $status );
	// Lists ask whether a status is public, single pages whether it can be queried.
	return 'inherit' === $status || ( $object && $object->public ) || is_post_status_viewable( $status );
}

/**
 * What an excerpt is made from: the one that was written, or the first words of the text. Pure, but for WordPress's strippers.
 */
function excerpt_basis( string $written, string $content, int $words ): string {
	if ( '' !== $written ) {
		return "=$written";
	}
	$more  = strpos( $content, '<!--more' );
	$plain = wp_strip_all_tags( false === $more ? $content : substr( $content, 0, $more ) );
	$parts = preg_split( '/\s+/', $plain, max( 1, $words ) + 2, PREG_SPLIT_NO_EMPTY );
	// One word more than is shown: whether there is more is shown, too.
	return ( false === $more ? '' : '+' ) . implode( ' ', array_slice( $parts, 0, max( 1, $words ) + 1 ) );
}

/**
 * The terms of a post, of all taxonomies, with their ancestors: their archives show it as well.
 *
 * @return array<string, int[]>
 */
function post_terms( \WP_Post $post ): array {
	$terms = array();
	// One query for all taxonomies instead of one for each.
	update_object_term_cache( array( $post->ID ), $post->post_type );
	// A post's translations are terms of Polylang's that no page shows; events-languages.php says what they change.
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
