<?php
/**
 * Adds tags for the terms, users and comments that a page shows.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Arguments that restrict a list of the newest comments, so that a comment has a higher position in it than among all comments. */
const NARROWER = array(
	'author_email'        => 1,
	'author_url'          => 1,
	'author__in'          => 1,
	'author__not_in'      => 1,
	'comment__in'         => 1,
	'comment__not_in'     => 1,
	'ID'                  => 1,
	'karma'               => 1,
	'parent'              => 1,
	'parent__in'          => 1,
	'parent__not_in'      => 1,
	'post_author'         => 1,
	'post_author__in'     => 1,
	'post_author__not_in' => 1,
	'post__in'            => 1,
	'post__not_in'        => 1,
	'post_name'           => 1,
	'post_parent'         => 1,
	'post_type'           => 1,
	'type'                => 1,
	'type__in'            => 1,
	'type__not_in'        => 1,
	'user_id'             => 1,
	'search'              => 1,
	'meta_key'            => 1,
	'meta_value'          => 1,
	'meta_query'          => 1,
	'date_query'          => 1,
	'hierarchical'        => 1,
);

if ( is_described() ) {
	gather_people();
}

function gather_people(): void {
	$own = __NAMESPACE__ . '\\';
	add_filter( 'term_link', $own . 'gather_term_link', PHP_INT_MAX, 2 );
	add_filter( 'get_terms', $own . 'gather_terms', PHP_INT_MAX, 4 );
	add_filter( 'get_term_metadata', $own . 'gather_term_field', PHP_INT_MAX, 3 );
	add_filter( 'author_link', $own . 'gather_author', PHP_INT_MAX, 2 );
	foreach ( array( 'display_name', 'user_nicename', 'user_url', 'user_email' ) as $field ) {
		add_filter( "get_the_author_$field", $own . 'gather_author', PHP_INT_MAX, 2 );
	}
	foreach ( array( 'description', 'user_description', 'first_name', 'last_name', 'nickname' ) as $field ) {
		add_filter( "get_the_author_$field", $own . 'gather_author_field', PHP_INT_MAX, 2 );
	}
	add_filter( 'get_user_metadata', $own . 'gather_user_field', PHP_INT_MAX, 3 );
	add_filter( 'the_author', $own . 'gather_this_author', PHP_INT_MAX );
	add_filter( 'get_avatar_data', $own . 'gather_avatar', PHP_INT_MAX, 2 );
	add_filter( 'sites_pre_query', $own . 'gather_blogs', PHP_INT_MAX );
	add_filter( 'users_pre_query', $own . 'gather_users', PHP_INT_MAX, 2 );
	add_filter( 'comments_pre_query', $own . 'gather_comments', PHP_INT_MAX, 2 );
	add_filter( 'get_comments_number', $own . 'gather_number', PHP_INT_MAX, 2 );
	foreach ( array( 'get_comment_text', 'get_comment_excerpt' ) as $filter ) {
		add_filter( $filter, $own . 'gather_comment', PHP_INT_MAX, 3 );
	}
}

function gather_term_link( $link, $term = null ) {
	if ( $term instanceof \WP_Term ) {
		tag( "tl$term->term_id" );
	}
	return $link;
}

/**
 * Returns the tag of a page that reads a field of a user or a term. Without a key, or with one that the database may find under another spelling than
 * in small or capital letters, it is the tag of all fields. Pure.
 *
 * @param string $kind `uf` or `tf`.
 */
function field_tag( string $kind, int $id, string $key ): string {
	// The database ignores spaces at the end.
	$key = rtrim( $key );
	return preg_match( '/^[ -~]+$/D', $key ) ? "$kind$id." . word( small( $key ) ) : $kind . $id;
}

/**
 * Adds the tag of a field of a term when code reads it, or of all of them (no key).
 */
function gather_term_field( $value, $term_id = 0, $key = '' ) {
	tag( field_tag( 'tf', (int) $term_id, (string) $key ) );
	return $value;
}

/**
 * Adds the tags of a list of terms. The terms of a post and the lookup of one term are not such lists.
 */
function gather_terms( $terms, $taxonomies = array(), $arguments = array(), $query = null ) {
	foreach ( term_field_tags( (array) $taxonomies, (array) $arguments, (string) ( $query->request ?? '' ), (string) ( $GLOBALS['wpdb']->termmeta ?? '' ) ) as $tag ) {
		tag( $tag );
	}
	if ( ! empty( $arguments['object_ids'] ) || 'id=>parent' === ( $arguments['fields'] ?? '' ) || is_sitemap_request() ) {
		return $terms;
	}
	if ( $taxonomies && ! array_diff( (array) $taxonomies, LANGUAGE_TAXONOMIES ) ) {
		// Polylang queries its languages now and then for all pages. Changes of these terms are in events-languages.php.
		return $terms;
	}
	$is_plain = is_array( $terms ) && count( $terms ) <= 300;
	foreach ( $is_plain ? $terms : array() as $term ) {
		if ( $term instanceof \WP_Term ) {
			tag( "tl$term->term_id" );
		} else {
			$is_plain = false;
		}
	}
	foreach ( wp_parse_id_list( $arguments['include'] ?? array() ) as $id ) {
		tag( "tl$id" );
	}
	$is_shown = ! empty( $arguments['hide_empty'] );
	if ( ! $is_shown && finds_named_terms( $arguments, is_array( $terms ) ? count( $terms ) : 0 ) ) {
		return $terms;
	}
	$kinds = array( $is_shown ? 'lt.' : 'lta.' );
	if ( 'count' === ( $arguments['orderby'] ?? '' ) || ! empty( $arguments['show_count'] ) || ( array( 'product_visibility' ) !== (array) $taxonomies && machine_counts() && ( may_be_counted() || is_listed_by_others( debug_backtrace( DEBUG_BACKTRACE_IGNORE_ARGS, 12 ) ) ) ) ) { // phpcs:ignore WordPress.PHP.DevelopmentFunctions -- finds the caller.
		$kinds[] = 'ltc.';
	}
	if ( ! $is_plain || ! empty( $arguments['number'] ) ) {
		$kinds[] = 'lto.';
	}
	foreach ( (array) $taxonomies as $taxonomy ) {
		foreach ( $kinds as $kind ) {
			tag( $kind . word( (string) $taxonomy ) );
		}
	}
	return $terms;
}

/**
 * Returns the tags of the fields by which a list of terms sorts or filters, as its arguments name them. If only its SQL reads the table of fields, because
 * of a filter, or the taxonomy is unknown, that is the class of all fields of terms. Pure.
 *
 * @param string[] $taxonomies The taxonomies of the list. None means all.
 * @param array    $arguments  Arguments of `get_terms()`.
 * @param string   $sql        The SQL of the list.
 * @param string   $table      The table of fields.
 * @return string[]
 */
function term_field_tags( array $taxonomies, array $arguments, string $sql, string $table ): array {
	$fields = meta_conditions( $arguments );
	$tags   = array();
	foreach ( $taxonomies as $taxonomy ) {
		foreach ( $fields as $field ) {
			$tags[] = 'o.' . word( (string) $taxonomy ) . '.' . word( $field );
		}
	}
	return ! $tags && '' !== $table && false !== strpos( $sql, $table ) ? array( 'tf' ) : $tags;
}

/**
 * Returns whether a list of terms contains all terms that its arguments name, so that no other term can enter it. Pure.
 *
 * @param array $arguments Arguments of `get_terms()`.
 * @param int   $found     Number of terms in the list.
 */
function finds_named_terms( array $arguments, int $found ): bool {
	if ( ! empty( $arguments['include'] ) ) {
		// No other term ever gets one of these IDs.
		return true;
	}
	$named = max( count( array_filter( (array) ( $arguments['slug'] ?? array() ) ) ), count( array_filter( (array) ( $arguments['name'] ?? array() ) ) ) );
	return $named > 0 && $found >= $named;
}

/**
 * Returns the fields by which a query for terms, users or comments filters or sorts, as tags name them. Pure.
 *
 * @return string[]
 */
function meta_conditions( array $arguments ): array {
	return array_values( preg_grep( '/^m_/', filtered_fields( $arguments ) ) );
}

/**
 * Adds the tags of a user whom the page shows, usually as the author of the current post.
 */
function gather_author( $value, $user_id = 0 ) {
	if ( (int) $user_id > 0 ) {
		tag_network( 'u' . (int) $user_id );
		tag( 'pa' . (int) get_the_ID() );
	}
	return $value;
}

/**
 * Adds the tags of a field of the author of the current post, other than names and addresses.
 */
function gather_author_field( $value, $user_id = 0 ) {
	if ( (int) $user_id > 0 ) {
		tag_network( field_tag( 'uf', (int) $user_id, preg_replace( '/^get_the_author_(?:user_)?/', '', (string) current_filter() ) ) );
		tag( 'pa' . (int) get_the_ID() );
	}
	return $value;
}

/**
 * Adds the tag of a field of a user when code reads it, or of all of them (no key).
 */
function gather_user_field( $value, $user_id = 0, $key = '' ) {
	global $wpdb;
	if ( (int) $user_id > 0 && ! is_private_user_field( (string) $key, $wpdb->base_prefix ) ) {
		tag_network( field_tag( 'uf', (int) $user_id, (string) $key ) );
	} elseif ( (int) $user_id > 0 && "{$wpdb->prefix}capabilities" === $key && is_loaded_by_others() ) {
		tag_network( 'u' . (int) $user_id );
		tag_network( 'ur' . (int) $user_id );
	}
	return $value;
}

/**
 * Returns whether code other than WordPress's own loads the user whose capabilities WordPress asks for. No filter runs when such code prints the
 * name or a role, `get_userdata( 5 )->display_name`, or asks `user_can( 5, 'sail' )`. WordPress loads the author of each post, prints names through
 * filters, and no roles.
 */
function is_loaded_by_others(): bool {
	// phpcs:ignore WordPress.PHP.DevelopmentFunctions -- finds the caller.
	foreach ( debug_backtrace( DEBUG_BACKTRACE_IGNORE_ARGS, 20 ) as $frame ) {
		if ( 'WP_User' === ( $frame['class'] ?? '' ) || in_array( $frame['function'], array( 'get_user_meta', 'get_user_option', 'get_user_by', 'get_userdata', 'user_can', 'user_can_for_site' ), true ) ) {
			$file = (string) ( $frame['file'] ?? '' );
		} elseif ( isset( $file ) ) {
			break;
		}
	}
	return isset( $file ) && ! is_core_file( $file );
}

function gather_this_author( $name ) {
	if ( isset( $GLOBALS['authordata']->ID ) ) {
		tag_network( 'u' . (int) $GLOBALS['authordata']->ID );
		tag( 'pa' . (int) get_the_ID() );
	}
	return $name;
}

function gather_avatar( $data, $of = null ) {
	if ( is_numeric( $of ) ) {
		tag_network( 'u' . (int) $of );
	} elseif ( $of instanceof \WP_User ) {
		tag_network( "u$of->ID" );
	} elseif ( $of instanceof \WP_Post ) {
		tag_network( 'u' . (int) $of->post_author );
	} elseif ( $of instanceof \WP_Comment && $of->user_id ) {
		tag_network( 'u' . (int) $of->user_id );
	}
	return $data;
}

/**
 * Adds the tags of a list of users. The tag of the blog stands for its members, and the tag of the network for their names.
 */
function tag_user_list(): void {
	tag( 'lu' );
	tag_network( 'lu' );
}

/**
 * Adds the tags of a query for users. Users whom it names are tagged whether or not they meet its other conditions.
 */
function gather_users( $users, $query = null ) {
	if ( is_sitemap_request() ) {
		return $users;
	}
	tag_user_list();
	$vars   = $query instanceof \WP_User_Query ? $query->query_vars : array();
	$fields = meta_conditions( $vars );
	foreach ( $fields as $field ) {
		tag_network( 'o.user.' . word( $field ) );
	}
	if ( in_array( 'm_', $fields, true ) || ( $vars && preg_match( '/capabilities|user_level/', "$query->query_from $query->query_where" ) ) ) {
		tag_network( 'lur' );
	}
	foreach ( array_slice( wp_parse_id_list( $vars['include'] ?? array() ), 0, MAX_MEMBERS ) as $id ) {
		tag_network( "u$id" );
	}
	return $users;
}

/**
 * Adds the tag of the list of blogs of a network.
 */
function gather_blogs( $blogs ) {
	tag_network( 'ls' );
	return $blogs;
}

/**
 * Adds the tags of a query for comments: of a post, or of the newest comments of all posts.
 */
function gather_comments( $comments, $query = null ) {
	$vars = $query instanceof \WP_Comment_Query ? $query->query_vars : array();
	foreach ( meta_conditions( $vars ) as $field ) {
		tag( 'o.comment.' . word( $field ) );
		tag( 'kma' );
	}
	$post = (int) ( $vars['post_id'] ?? 0 );
	if ( ! $post && ! empty( $vars['parent'] ) ) {
		// Replies to a comment belong to the post of the comment.
		$post = (int) ( get_comment( (int) $vars['parent'] )->comment_post_ID ?? 0 );
		if ( $post > 0 ) {
			tag( "c$post" );
			return $comments;
		}
	}
	if ( $post > 0 ) {
		tag( ( empty( $vars['count'] ) ? 'c' : 'cn' ) . $post );
		return $comments;
	}
	$posts = wp_parse_id_list( $vars['post__in'] ?? array() );
	if ( $posts && count( $posts ) <= 50 ) {
		foreach ( $posts as $post ) {
			tag( "c$post" );
		}
		return $comments;
	}
	$reach = (int) ( $vars['number'] ?? 0 ) + (int) ( $vars['offset'] ?? 0 );
	$first = in_array( $vars['orderby'] ?? '', array( '', 'comment_date', 'comment_date_gmt' ), true ) && 'ASC' !== strtoupper( (string) ( $vars['order'] ?? '' ) ) && (int) ( $vars['paged'] ?? 1 ) < 2;
	$whole = ! array_filter( array_intersect_key( $vars, NARROWER ), __NAMESPACE__ . '\\is_narrower' );
	foreach ( reach_tags( 'lc', $first && $whole && ! empty( $vars['number'] ) && ! may_be_counted() ? $reach : null ) as $tag ) {
		tag( $tag );
	}
	return $comments;
}

/**
 * Returns whether an argument of a comment query has an effect. Pure.
 *
 * @param mixed $value The value of the argument.
 */
function is_narrower( $value ): bool {
	return null !== $value && '' !== $value && array() !== $value && false !== $value;
}

function gather_number( $number, $post_id = 0 ) {
	tag( 'cn' . (int) $post_id );
	return $number;
}

/**
 * Adds the tag of the text of one comment, unless the page has the tag of all comments of its post.
 */
function gather_comment( $text, $comment = null, $more = null ) {
	// `get_comment_excerpt` passes an ID, followed by the comment.
	$comment = $comment instanceof \WP_Comment ? $comment : ( $more instanceof \WP_Comment ? $more : null );
	if ( $comment && ! has_tag( "c$comment->comment_post_ID" ) ) {
		tag( "k$comment->comment_ID" );
	}
	return $text;
}
