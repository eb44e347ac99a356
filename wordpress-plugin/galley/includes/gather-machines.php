<?php
/**
 * Adds tags for machine-readable pages: responses of REST, sitemaps, comment feeds.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

if ( is_described() ) {
	add_action( 'rest_api_init', __NAMESPACE__ . '\\gather_rest', PHP_INT_MAX );
	add_filter( 'rest_request_before_callbacks', __NAMESPACE__ . '\\gather_route', PHP_INT_MAX, 3 );
	add_filter( 'rest_request_after_callbacks', __NAMESPACE__ . '\\note_end_of_route', PHP_INT_MIN );
	add_action( 'template_redirect', __NAMESPACE__ . '\\gather_sitemap', -1 );
	add_action( 'parse_query', __NAMESPACE__ . '\\gather_comment_feed', PHP_INT_MAX );
}

/**
 * Returns whether responses contain the total number of items of a list, as those of REST do.
 */
function machine_counts(): bool {
	return defined( 'REST_REQUEST' ) && REST_REQUEST;
}

/** For each REST route that is at work, whether WordPress's controller of posts handles it. */
$GLOBALS['galley_routes'] = array();

/**
 * Returns whether a list, other than of posts, may be one whose total number a response contains. What the texts of posts show is as on pages.
 */
function may_be_counted(): bool {
	return machine_counts() && ! end( $GLOBALS['galley_routes'] );
}

function note_end_of_route( $response ) {
	array_pop( $GLOBALS['galley_routes'] );
	return $response;
}

/**
 * Returns whether the request is for a sitemap of WordPress that no other code changes. One tag stands for the thousands of addresses in it. Plugins
 * use the same query variable for their own sitemaps.
 */
function is_sitemap_request(): bool {
	static $is = null;
	if ( null === $is ) {
		if ( ! did_action( 'parse_request' ) ) {
			return false;
		}
		$kind   = (string) ( $GLOBALS['wp']->query_vars['sitemap'] ?? '' );
		$server = '' === $kind ? null : ( $GLOBALS['wp_sitemaps'] ?? null );
		$is     = $server instanceof \WP_Sitemaps && $server->sitemaps_enabled() && ! is_extended_sitemap( $kind );
	}
	return $is;
}

function gather_rest(): void {
	foreach ( get_post_types( array( 'show_in_rest' => true ) ) as $type ) {
		add_filter( "rest_prepare_$type", __NAMESPACE__ . '\\gather_rest_post', PHP_INT_MAX, 2 );
	}
	foreach ( get_taxonomies( array( 'show_in_rest' => true ) ) as $taxonomy ) {
		add_filter( "rest_prepare_$taxonomy", __NAMESPACE__ . '\\gather_rest_term', PHP_INT_MAX, 2 );
	}
	add_filter( 'rest_prepare_user', __NAMESPACE__ . '\\gather_rest_user', PHP_INT_MAX, 2 );
	add_filter( 'rest_prepare_comment', __NAMESPACE__ . '\\gather_rest_comment', PHP_INT_MAX, 2 );
}

function gather_rest_post( $response, $post = null ) {
	$id = id_of( $post );
	tag( "p$id" );
	tag( "pt$id" );
	tag( "pa$id" );
	tag( "pm$id" );
	tag( "rv$id" );
	tag( "sk$id" );
	return $response;
}

function gather_rest_term( $response, $term = null ) {
	if ( $term instanceof \WP_Term ) {
		tag( "t$term->term_id" );
		tag( "tl$term->term_id" );
		tag( "tc$term->term_id" );
	}
	return $response;
}

function gather_rest_user( $response, $user = null ) {
	if ( $user instanceof \WP_User ) {
		tag_network( "u$user->ID" );
		tag_network( "uf$user->ID" );
	}
	return $response;
}

function gather_rest_comment( $response, $comment = null ) {
	if ( $comment instanceof \WP_Comment ) {
		tag( "k$comment->comment_ID" );
		tag( "c$comment->comment_post_ID" );
	}
	return $response;
}

/**
 * Adds tags before the callback of a REST route runs. If the route names an item by ID, the response has tags with this ID even if the item
 * does not exist.
 */
function gather_route( $response, $handler = null, $request = null ) {
	tag( 'b' );
	$controller = is_array( $handler['callback'] ?? null ) ? $handler['callback'][0] : null;
	// Not those of plugins that extend it.
	$GLOBALS['galley_routes'][] = is_object( $controller ) && 'WP_REST_Posts_Controller' === get_class( $controller );

	$route = $request instanceof \WP_REST_Request ? $request->get_route() : '/';
	if ( preg_match( '~([^/]*)/(\d+)$~D', $route, $found ) ) {
		foreach ( classes_of_base( $found[1] ) as $class ) {
			tag( $class . (int) $found[2] );
		}
	}
	if ( $request instanceof \WP_REST_Request && null !== $request->get_param( 'sticky' ) ) {
		tag( 'st' );
	}
	if ( substr_count( trim( $route, '/' ), '/' ) < 2 ) {
		// The index of the routes, with the name and the front page of the site.
		tag( 'home' );
	}
	return $response;
}

/**
 * Returns the classes of tags that an ID after a REST base may stand for.
 *
 * @return string[]
 */
function classes_of_base( string $base ): array {
	foreach ( get_post_types( array( 'show_in_rest' => true ), 'objects' ) as $type ) {
		if ( ( $type->rest_base ? $type->rest_base : $type->name ) === $base ) {
			return array( 'pl' );
		}
	}
	return 'comments' === $base ? array( 'k' ) : array( 'pl', 'tl', 'tn', 'k' );
}

function gather_sitemap(): void {
	if ( ! is_sitemap_request() ) {
		return;
	}
	$vars                   = $GLOBALS['wp']->query_vars;
	$GLOBALS['galley_tags'] = array();
	tag( 'b' );
	tag( 'op.blog_public' );
	$kind = word( (string) $vars['sitemap'] );
	if ( 'posts' === $kind || 'taxonomies' === $kind ) {
		$kind = word( (string) ( $vars['sitemap-subtype'] ?? '' ) );
	}
	tag( "sm.$kind" );
	if ( 'users' === $kind ) {
		tag_network( 'sm.users' );
	}
	if ( 'posts' === $vars['sitemap'] ) {
		gather_sitemap_dates( $kind );
	}
	// Links in a sitemap get no tags: each change of an address purges the sitemap of its type.
	foreach ( array( 'post_link', 'page_link', 'post_type_link' ) as $filter ) {
		remove_filter( $filter, __NAMESPACE__ . '\\gather_link', PHP_INT_MAX );
	}
	remove_filter( 'term_link', __NAMESPACE__ . '\\gather_term_link', PHP_INT_MAX );
	remove_filter( 'author_link', __NAMESPACE__ . '\\gather_author', PHP_INT_MAX );
}

/**
 * Adds the tags of the modification times in a sitemap of posts (since WordPress 6.5).
 */
function gather_sitemap_dates( string $type ): void {
	if ( version_compare( get_bloginfo( 'version' ), '6.5', '>=' ) ) {
		tag( "o.$type.modified" );
	}
}

/**
 * Returns whether a query finds the posts of a sitemap, which the tags of the sitemap describe. The sitemap of pages also asks for the posts of the
 * front page, if that is the list of the newest ones: its time is the latest of theirs.
 */
function is_for_sitemap( \WP_Query $query ): bool {
	$is_front = 'page' === ( $GLOBALS['wp']->query_vars['sitemap-subtype'] ?? '' ) && 'post' === ( $query->query_vars['post_type'] ?? '' );
	return is_sitemap_request() && ! $is_front;
}

/**
 * Returns whether other code adds to the sitemaps of WordPress or changes them. They may then contain anything, and have the tags of what was read
 * for them.
 *
 * @param string $provider Name of the provider, such as `posts`.
 */
function is_extended_sitemap( string $provider ): bool {
	$filters = preg_grep( '/^wp_sitemaps_(posts|taxonomies|users|index)_/', array_map( 'strval', array_keys( $GLOBALS['wp_filter'] ) ) );
	$known   = array( 'index', 'posts', 'taxonomies', 'users' );
	foreach ( $GLOBALS['wp_sitemaps']->registry->get_providers() as $name => $object ) {
		// Polylang replaces the providers.
		if ( ! in_array( (string) $name, $known, true ) || 0 !== strpos( get_class( $object ), 'WP_Sitemaps_' ) ) {
			return true;
		}
	}
	return ! in_array( $provider, $known, true ) || array_filter( $filters, 'has_filter' );
}

/**
 * Adds tags to a page that the gatherers do not know: a sitemap, a feed or another format of a plugin. It may print any property of what it
 * names. If it names nothing, it may come from a file, and has the tag of every change. Fragments of pages are plain text.
 */
function gather_foreign_format(): void {
	$is_known = null !== wanted_fragment() || is_sitemap_request() || machine_counts() || isset( $GLOBALS['wp']->query_vars['sitemap-stylesheet'] );
	if ( ! $is_known && did_action( 'wp' ) ) {
		$is_known = is_robots() || is_favicon() || ( is_feed() && in_array( get_query_var( 'feed' ), array( 'feed', 'rdf', 'rss', 'rss2', 'atom' ), true ) );
	}
	if ( ! $is_known && ! is_missing() && is_foreign_format( headers_list(), (string) ( $_SERVER['REQUEST_URI'] ?? '' ), array_keys( $GLOBALS['galley_tags'] ) ) ) { // phpcs:ignore WordPress.Security -- compared only.
		$asked = array_filter( array_map( __NAMESPACE__ . '\\core_name', array_map( 'strval', array_keys( $GLOBALS['galley_tables'] ) ) ) );
		$tags  = tags_of_anything( array_map( 'strval', array_keys( $GLOBALS['galley_tags'] ) ), (bool) $asked );

		$GLOBALS['galley_tags'] += array_fill_keys( $tags, true );
	}
}

/**
 * Returns the tags of all properties of what the given tags name; that of every change if they name nothing. WordPress's own query for a page without
 * a title or an address in it shows nothing. Pure.
 *
 * @param string[] $tags     Tags of the page.
 * @param bool     $is_asked Whether other code has read a table of WordPress by SQL.
 * @return string[]
 */
function tags_of_anything( array $tags, bool $is_asked ): array {
	$more = array();
	foreach ( $tags as $tag ) {
		if ( preg_match( '/^((?:\d+\.)?)(p|t|c)[ln](\d*)$/D', $tag, $found ) ) {
			array_push( $more, "$found[1]$found[2]$found[3]", "$found[1]tc$found[3]" );
		}
	}
	$lists = preg_grep( '/^(?:\d+\.)?(?:l\.|o\.|tb\.|sq\.)/', $tags );
	return $is_asked || ( $lists && preg_grep( '/^(?:\d+\.)?(?:p|pl|tl)\d/', $tags ) ) ? $more : array( ANY_CHANGE );
}

/**
 * Returns whether a response is not HTML, or is a sitemap for people. JSON with tags of posts counts as known: interfaces such as GraphQL read
 * posts with the functions of WordPress. Pure.
 *
 * @param string[] $fields  As `headers_list()` returns them.
 * @param string   $address Path and query.
 * @param array    $tags    Tags of the page.
 */
function is_foreign_format( array $fields, string $address, array $tags ): bool {
	$types = preg_grep( '/^content-type:/i', $fields );
	$type  = $types ? (string) end( $types ) : 'Content-Type: text/html';
	if ( preg_match( '~:\s*application/(?:[\w.-]+\+)?json\b~i', $type ) ) {
		return ! preg_grep( '/^(?:\d+\.)?(?:p\d|l\.)/', array_map( 'strval', $tags ) );
	}
	return ! preg_match( '~:\s*(?:text/html|application/xhtml\+xml)\b~i', $type ) || false !== stripos( $address, 'sitemap' );
}

/**
 * Adds the tags of a comment feed. The feed of one post gets its tag from the query for its comments.
 */
function gather_comment_feed( $query ): void {
	if ( $query instanceof \WP_Query && $query->is_comment_feed() ) {
		tag( 'f' );
		if ( $query->is_singular() ) {
			// The post is not known yet. `gather_main` adds its tag.
			return;
		}
		foreach ( reach_tags( 'lc', $query->is_archive() || $query->is_search() ? null : (int) get_option( 'posts_per_rss' ) ) as $tag ) {
			tag( $tag );
		}
	}
}
