<?php
/**
 * Lists of posts and comments that other code than WordPress's asks for: it may print their properties, which no filter sees.
 *
 * A title, an address and a date have the tag `pl`. Content has tags where it is printed (gather-posts.php): code that prints
 * `$post->post_content` as it is would be rare.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Maximum number of posts with a tag each. */
const MAX_LISTED = 100;

/** Functions that ask for posts on behalf of their callers. */
const LISTING_FUNCTIONS = array( 'get_posts', 'query_posts', 'get_children', 'wp_get_recent_posts' );

/** The same for terms. */
const TERM_FUNCTIONS = array( 'get_terms', 'get_categories', 'get_tags' );

/** Classes of WordPress with the queries. */
const QUERY_CLASSES = array( 'WP_Query', 'WP_Term_Query', 'WP_Comment_Query' );

/** Queries whose results no filter has. */
$GLOBALS['galley_unfiltered'] = array();

if ( is_described() ) {
	add_filter( 'the_posts', __NAMESPACE__ . '\\gather_foreign_list', PHP_INT_MAX, 2 );
	add_filter( 'posts_pre_query', __NAMESPACE__ . '\\note_unfiltered', PHP_INT_MAX, 2 );
	add_filter( 'the_comments', __NAMESPACE__ . '\\gather_foreign_comments', PHP_INT_MAX );
}

function gather_foreign_list( $posts, $query = null ) {
	// phpcs:ignore WordPress.PHP.DevelopmentFunctions -- finds the caller of the query.
	if ( is_array( $posts ) && $posts && ! is_sitemap_request() && is_listed_by_others( debug_backtrace( DEBUG_BACKTRACE_IGNORE_ARGS, 10 ) ) ) {
		tag_titles( $posts );
	}
	return $posts;
}

/**
 * Keeps a query without filters. WordPress finds its posts after that.
 */
function note_unfiltered( $posts, $query = null ) {
	// phpcs:ignore WordPress.PHP.DevelopmentFunctions -- finds the caller of the query.
	if ( $query instanceof \WP_Query && ! empty( $query->query_vars['suppress_filters'] ) && count( $GLOBALS['galley_unfiltered'] ) < MAX_LISTED && is_listed_by_others( debug_backtrace( DEBUG_BACKTRACE_IGNORE_ARGS, 10 ) ) ) {
		$GLOBALS['galley_unfiltered'][] = $query;
	}
	return $posts;
}

/**
 * Adds the tags of the texts of comments, as code prints them: `$comment->comment_content`.
 */
function gather_foreign_comments( $comments ) {
	// phpcs:ignore WordPress.PHP.DevelopmentFunctions -- finds the caller of the query.
	if ( ! is_array( $comments ) || ! is_listed_by_others( debug_backtrace( DEBUG_BACKTRACE_IGNORE_ARGS, 10 ) ) ) {
		return $comments;
	}
	foreach ( count( $comments ) > MAX_LISTED ? array() : $comments as $comment ) {
		gather_comment( '', $comment );
	}
	if ( count( $comments ) > MAX_LISTED ) {
		tag( 'k' );
	}
	return $comments;
}

function gather_unfiltered(): void {
	foreach ( $GLOBALS['galley_unfiltered'] as $query ) {
		tag_titles( (array) $query->posts );
	}
	$GLOBALS['galley_unfiltered'] = array();
}

/**
 * Adds the tags of titles, or that of all titles.
 *
 * @param array $posts Posts. IDs alone show nothing.
 */
function tag_titles( array $posts ): void {
	foreach ( count( $posts ) > MAX_LISTED ? array() : $posts as $post ) {
		if ( $post instanceof \WP_Post ) {
			tag( "pl$post->ID" );
		}
	}
	if ( count( $posts ) > MAX_LISTED && reset( $posts ) instanceof \WP_Post ) {
		tag( 'pl' );
	}
}

/**
 * Returns whether other code than WordPress's and this plugin's begins a query for posts, terms or comments.
 *
 * @param array[] $frames Frames of `debug_backtrace()`, from within a filter of the query.
 */
function is_listed_by_others( array $frames ): bool {
	$file = '';
	foreach ( $frames as $frame ) {
		if ( in_array( $frame['class'] ?? '', QUERY_CLASSES, true ) || in_array( $frame['function'], array_merge( LISTING_FUNCTIONS, TERM_FUNCTIONS, array( 'get_comments' ) ), true ) ) {
			$file = (string) ( $frame['file'] ?? '' );
		} elseif ( '' !== $file ) {
			break;
		}
	}
	return '' !== $file && ! is_file_of_wordpress( $file );
}
