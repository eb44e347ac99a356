<?php
/**
 * Adds tags for the posts that a page shows: their text, excerpts, titles, addresses, images, fields and terms.
 *
 * WordPress passes each of these values through a filter when a page uses it. The callbacks here return the value unchanged. The plugin
 * adds them only for responses that have to list their tags.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Posts whose terms have tags already, of the page or of the open fragment. */
$GLOBALS['galley_terms_seen'] = array();

if ( is_described() ) {
	gather_posts();
}

function gather_posts(): void {
	$own = __NAMESPACE__ . '\\';
	add_filter( 'the_title', $own . 'gather_title', PHP_INT_MAX, 2 );
	foreach ( array( 'post_link', 'page_link', 'post_type_link', 'attachment_link' ) as $filter ) {
		add_filter( $filter, $own . 'gather_link', PHP_INT_MAX, 2 );
	}
	add_filter( 'post_thumbnail_id', $own . 'gather_picture', PHP_INT_MAX, 2 );
	foreach ( array( 'get_the_date', 'get_the_time' ) as $filter ) {
		add_filter( $filter, $own . 'gather_date', PHP_INT_MAX, 3 );
	}
	foreach ( array( 'get_the_modified_date', 'get_the_modified_time' ) as $filter ) {
		add_filter( $filter, $own . 'gather_third', PHP_INT_MAX, 3 );
	}
	add_filter( 'the_content', $own . 'gather_content', PHP_INT_MAX );
	add_filter( 'get_the_excerpt', $own . 'begin_excerpt', PHP_INT_MIN, 2 );
	add_filter( 'get_the_excerpt', $own . 'end_excerpt', PHP_INT_MAX, 2 );
	add_filter( 'get_the_terms', $own . 'gather_terms_of_post', PHP_INT_MAX, 3 );
	add_filter( 'get_post_metadata', $own . 'gather_field', PHP_INT_MAX, 3 );
	add_filter( 'post_class', $own . 'gather_classes', PHP_INT_MAX, 3 );
	add_filter( 'oembed_response_data', $own . 'gather_embed', PHP_INT_MAX, 2 );
	add_action( 'wp', $own . 'gather_main', PHP_INT_MAX );
	// Runs first, before other plugins change the address.
	add_filter( 'redirect_canonical', $own . 'note_canonical', PHP_INT_MIN );
}

/**
 * Returns the ID of a post that WordPress passes to a filter as a post or an ID.
 *
 * @param mixed $post A post, an ID, or nothing.
 */
function id_of( $post ): int {
	return $post instanceof \WP_Post ? $post->ID : (int) ( is_scalar( $post ) ? $post : 0 );
}

function gather_title( $title, $id = 0 ) {
	$id = id_of( $id );
	if ( $id > 0 ) {
		tag( "pl$id" );
	}
	return $title;
}

function gather_link( $link, $post = 0 ) {
	$id = id_of( $post );
	if ( $id > 0 ) {
		tag( "pl$id" );
	}
	return $link;
}

/**
 * Adds the tag of the featured image. The CSS classes of a post also show whether it has one.
 */
function gather_picture( $picture, $post = null ) {
	$id = id_of( $post );
	if ( $id > 0 ) {
		tag( "th$id" );
	}
	return $picture;
}

function gather_date( $date, $format = '', $post = null ) {
	$id = id_of( $post );
	if ( $id > 0 ) {
		tag( "pl$id" );
	}
	return $date;
}

function gather_third( $date, $format = '', $post = null ) {
	$id = id_of( $post );
	if ( $id > 0 ) {
		tag( "p$id" );
	}
	return $date;
}

/**
 * Adds the tag of the current post when the page shows its content. If WordPress reads the content only to make an excerpt, the tag of the
 * excerpt is enough.
 */
function gather_content( $content ) {
	$id = (int) get_the_ID();
	if ( $id > 0 && empty( $GLOBALS['galley_excerpt_of'] ) ) {
		tag( "p$id" );
	}
	return $content;
}

function begin_excerpt( $excerpt, $post = null ) {
	$id                           = id_of( $post );
	$GLOBALS['galley_excerpt_of'] = $id;
	if ( $id > 0 ) {
		tag( "pe$id" );
	}
	return $excerpt;
}

function end_excerpt( $excerpt, $post = null ) {
	unset( $GLOBALS['galley_excerpt_of'] );
	return $excerpt;
}

/**
 * Adds the tags of the terms of a post: of names, or only of slugs if these become CSS classes of the post.
 *
 * @param mixed $terms Terms, an error, or false.
 */
function gather_terms_of_post( $terms, $post_id = 0, $taxonomy = '' ) {
	if ( is_for_categories( (string) $taxonomy ) ) {
		tag( 'pt' . (int) $post_id );
		return $terms;
	}
	$numbers = empty( $GLOBALS['galley_in_classes'] ) && is_for_numbers();
	$class   = $numbers || ! empty( $GLOBALS['galley_in_classes'] ) ? 'ts' : 'tn';
	$key     = "$class$numbers$post_id.$taxonomy." . $GLOBALS['galley_prefix'];
	if ( isset( $GLOBALS['galley_terms_seen'][ $key ] ) ) {
		return $terms;
	}
	$GLOBALS['galley_terms_seen'][ $key ] = true;
	tag( 'pt' . (int) $post_id );
	if ( $numbers ) {
		tag( 'to' . (int) $post_id );
	}
	if ( is_array( $terms ) ) {
		foreach ( $terms as $term ) {
			if ( $term instanceof \WP_Term ) {
				tag( "$class$term->term_id" );
			}
		}
	}
	return $terms;
}

/**
 * Returns whether the REST controller reads the terms of a post. It returns their IDs in the order of the names, and their slugs as CSS
 * classes.
 */
function is_for_numbers(): bool {
	if ( ! machine_counts() ) {
		return false;
	}
	// phpcs:ignore WordPress.PHP.DevelopmentFunctions -- only the stack identifies the caller. Frames: this, the gatherer, up to three hooks, get_the_terms.
	foreach ( debug_backtrace( DEBUG_BACKTRACE_IGNORE_ARGS, 7 ) as $frame ) {
		if ( $is_next ?? false ) {
			return 'WP_REST_Posts_Controller' === ( $frame['class'] ?? '' ) && 'prepare_item_for_response' === $frame['function'];
		}
		$is_next = 'get_the_terms' === $frame['function'];
	}
	return false;
}

/**
 * Adds the tag of the CSS classes of a post. Lists mark sticky posts with a class.
 */
function gather_classes( $classes, $more = array(), $id = 0 ) {
	if ( ! is_singular() ) {
		tag( 'sk' . (int) $id );
	}
	return $classes;
}

/**
 * Adds the tag of a post's field when code reads it. A page reads hundreds of fields, so the plugin looks up the kind of each field once.
 */
function gather_field( $value, $id = 0, $key = '' ) {
	static $classes = array();
	$class          = $classes[ $key ] ?? null;
	if ( null === $class ) {
		$class           = class_of_field( (string) $key );
		$classes[ $key ] = $class;
	}
	if ( '' !== $class ) {
		tag( $class . (int) $id );
	}
	if ( '' === (string) $key && ! is_read_by_shop() ) {
		tag( 'ps' . (int) $id );
	}
	return $value;
}

/**
 * Returns the class of the tag for a field: `pm`, `ps` or `th`. Hidden fields of WordPress that other filters cover have none. Pure.
 *
 * @param string $key An empty string means all fields.
 */
function class_of_field( string $key ): string {
	if ( '_thumbnail_id' === $key ) {
		return 'th';
	}
	if ( in_array( $key, SHOP_NUMBERS, true ) ) {
		return 'ps';
	}
	return is_quiet_field( $key ) ? '' : 'pm';
}

/**
 * Returns whether a hidden field belongs to WordPress and is either covered by other filters or never shown on pages. Pure.
 */
function is_quiet_field( string $key ): bool {
	return (bool) preg_match( '/^_(edit_|wp_(?!attachment_image_alt$)|menu_item_|oembed_|pingme|encloseme|customize_|galley_|thumbnail_id$)/', $key );
}

function gather_embed( $data, $post = null ) {
	tag( 'p' . id_of( $post ) );
	return $data;
}

/**
 * Adds the tags of the subject of the current page, such as a post, a term or a user.
 */
function gather_main(): void {
	tag( 'b' );
	if ( ! is_feed() && ! is_robots() && ! is_favicon() && '' === (string) get_query_var( 'sitemap' ) ) {
		tag( 'ht' );
	}
	if ( is_front_page() || is_home() ) {
		tag( 'home' );
	}
	$about = get_queried_object();
	if ( $about instanceof \WP_Post ) {
		tag( ( is_home() ? 'pl' : 'p' ) . $about->ID );
		if ( is_comment_feed() ) {
			tag( "c$about->ID" );
		}
	} elseif ( $about instanceof \WP_Term ) {
		tag( "t$about->term_id" );
		tag( "tl$about->term_id" );
		tag( "tn$about->term_id" );
	} elseif ( $about instanceof \WP_User ) {
		tag_network( "u$about->ID" );
	}
	gather_language();
	if ( is_404() ) {
		gather_missing();
	}
}

/**
 * Saves the address of WordPress's canonical redirect. The redirect depends only on the address of a post, unless the request is for a page
 * of the post: WordPress counts these pages in the text.
 */
function note_canonical( $address ) {
	$GLOBALS['galley_canonical'] = get_query_var( 'page' ) || get_query_var( 'cpage' ) ? null : $address;
	return $address;
}

/**
 * Removes tags that a redirect does not depend on. It shows nothing of the theme, and a redirect to the address of a post shows nothing
 * else of the post.
 */
function forget_unshown(): void {
	unset( $GLOBALS['galley_tags'][ blog_prefix() . 'ht' ] );
	$about   = get_queried_object();
	$address = $GLOBALS['galley_canonical'] ?? null;
	if ( $about instanceof \WP_Post && is_string( $address ) && in_array( 'Location: ' . wp_sanitize_redirect( $address ), headers_list(), true ) ) {
		tag( "pl$about->ID" );
		unset( $GLOBALS['galley_tags'][ blog_prefix() . "p$about->ID" ] );
	}
}

/**
 * Adds the tags of things whose appearance would turn a missing page into a page: a post whose slug starts with the same characters
 * (WordPress guesses), a user, or a term.
 */
function gather_missing(): void {
	tag( 'e404' );
	$slug = basename( (string) ( get_query_var( 'name' ) ? get_query_var( 'name' ) : get_query_var( 'pagename' ) ) );
	if ( '' !== $slug ) {
		tag( 'g.' . word( substr( $slug, 0, 3 ) ) );
	}
	if ( '' !== (string) get_query_var( 'author_name' ) || '' !== (string) get_query_var( 'author' ) ) {
		tag_user_list();
	}
	$taxonomies = array_keys( (array) ( $GLOBALS['wp_query']->tax_query->queried_terms ?? array() ) );
	foreach ( $taxonomies as $taxonomy ) {
		tag( 'lta.' . word( (string) $taxonomy ) );
	}
}
