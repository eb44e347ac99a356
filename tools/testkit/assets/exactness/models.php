<?php
/**
 * A must-use plugin of the exactness run: notes the addresses that two purge plugins would purge, at the hooks that they
 * use. A model of what they decide, written from their documented behavior; how they send it plays no part. Where a detail
 * is open, the model purges rather more. `*` stands for everything.
 */

declare(strict_types=1);

namespace Galley\Exactness\Models;

add_action( 'shutdown', __NAMESPACE__ . '\\write', PHP_INT_MAX );

// Proxy Cache Purge.
foreach ( array( 'save_post', 'edit_post', 'deleted_post', 'trashed_post', 'delete_attachment' ) as $hook ) {
	add_action( $hook, __NAMESPACE__ . '\\proxy_cache_purge_post', 10, 1 );
}
add_action( 'transition_post_status', __NAMESPACE__ . '\\proxy_cache_purge_goes_live', 10, 3 );
foreach ( array( 'switch_theme', 'customize_save_after', 'import_start', 'import_end' ) as $hook ) {
	add_action( $hook, static fn() => note( 'proxy-cache-purge', '*' ) );
}

// Nginx Helper, with the settings that it has when purging is switched on.
add_action( 'transition_post_status', __NAMESPACE__ . '\\nginx_helper_status', 20, 3 );
add_action( 'before_delete_post', static fn( $id ) => 'trash' === get_post_status( $id ) || nginx_helper_post( (int) $id ), 10 );
add_action( 'wp_insert_comment', static fn( $id, $comment ) => '1' !== (string) $comment->comment_approved || nginx_helper_post( (int) $comment->comment_post_ID ), 200, 2 );
add_action( 'transition_comment_status', static fn( $new, $old, $comment ) => ! in_array( 'approved', array( $new, $old ), true ) || nginx_helper_post( (int) $comment->comment_post_ID ), 200, 3 );
add_action( 'edit_term', static fn() => nginx_helper( home_url( '/' ) ), 20 );
add_action( 'delete_term', static fn() => nginx_helper( home_url( '/' ) ), 20 );
add_action( 'edit_attachment', static fn( $id ) => nginx_helper( get_attachment_link( $id ) ), 100 );
add_action( 'check_ajax_referer', static fn( $action ) => 'save-sidebar-widgets' !== $action || nginx_helper( home_url( '/' ) ), 19 );

/** Notes an address for one of the two; `null` gives all that was noted. */
function note( ?string $model, $url = '' ): array {
	static $noted = array();
	if ( null !== $model && is_string( $url ) && '' !== $url ) {
		$noted[ $model ][ $url ] = true;
	}
	return $noted;
}

/** Fifty addresses in one request are everything, for Proxy Cache Purge. */
function write(): void {
	foreach ( note( null ) as $model => $urls ) {
		$urls = array_keys( $urls );
		if ( 'proxy-cache-purge' === $model && count( $urls ) >= 50 ) {
			$urls = array( '*' );
		}
		file_put_contents( EXACTNESS_NOTES . "/$model", implode( "\n", $urls ) . "\n", FILE_APPEND | LOCK_EX );
	}
}

function proxy_cache_purge_goes_live( string $new, string $old, \WP_Post $post ): void {
	if ( 'publish' === $new && 'future' === $old ) {
		proxy_cache_purge_post( $post->ID );
		note( 'proxy-cache-purge', home_url( '/?p=' . $post->ID ) );
	}
}

function proxy_cache_purge_post( $id ): void {
	$id   = (int) $id;
	$type = get_post_type( $id );
	if ( ! $type || in_array( $type, array( 'nav_menu_item', 'revision' ), true ) || ! in_array( get_post_status( $id ), array( 'publish', 'private', 'trash', 'pending', 'draft' ), true ) ) {
		return;
	}
	// It drops the query of every address.
	$note = static fn( $url ) => note( 'proxy-cache-purge', is_string( $url ) ? (string) strtok( $url, '?' ) : '' );
	$link   = (string) get_permalink( $id );
	$object = get_post_type_object( $type );
	$note( $link );
	$note( rest_url( 'wp/v2/' . ( $object->rest_base ? $object->rest_base : $type . 's' ) . "/$id/" ) );
	foreach ( get_object_taxonomies( $type ) as $taxonomy ) {
		$about = get_taxonomy( $taxonomy );
		$terms = get_the_terms( $id, $taxonomy );
		foreach ( is_array( $terms ) && $about->public ? $terms : array() as $term ) {
			$note( get_term_link( $term ) );
			$note( rest_url( 'wp/v2/' . ( $about->rest_base ? $about->rest_base : $taxonomy ) . "/{$term->term_id}/" ) );
		}
	}
	if ( 'post' === $type ) {
		$author = (int) get_post_field( 'post_author', $id );
		$note( get_author_posts_url( $author ) );
		$note( get_author_feed_link( $author ) );
		$note( rest_url( "wp/v2/users/$author/" ) );
		foreach ( array( 'rdf_url', 'rss_url', 'rss2_url', 'atom_url', 'comments_rss2_url' ) as $feed ) {
			$note( get_bloginfo_rss( $feed ) );
		}
		$note( get_post_comments_feed_link( $id ) );
	} elseif ( 'page' !== $type ) {
		$note( get_post_type_archive_link( $type ) );
		$note( get_post_type_archive_feed_link( $type ) );
	}
	if ( 'trash' === get_post_status( $id ) ) {
		$note( str_replace( '__trashed', '', $link ) );
		$note( str_replace( '__trashed', '', $link ) . 'feed/' );
	}
	$note( rest_url() );
	$note( home_url( '/' ) );
	$posts = (int) get_option( 'page_for_posts' );
	if ( $posts ) {
		$note( get_permalink( $posts ) );
	}
}

/** One address with its feeds, which Nginx Helper purges along. */
function nginx_helper( $url ): void {
	if ( ! is_string( $url ) || '' === $url ) {
		return;
	}
	note( 'nginx-helper', $url );
	if ( false === strpos( $url, '?' ) ) {
		foreach ( array( 'feed/', 'feed/atom/', 'feed/rdf/' ) as $feed ) {
			note( 'nginx-helper', trailingslashit( $url ) . $feed );
		}
	}
}

function nginx_helper_status( string $new, string $old, \WP_Post $post ): void {
	if ( in_array( 'publish', array( $new, $old ), true ) && is_post_type_viewable( $post->post_type ) ) {
		nginx_helper_post( $post->ID );
	}
}

function nginx_helper_post( int $id ): void {
	$post = get_post( $id );
	if ( ! $post || ! is_post_type_viewable( $post->post_type ) ) {
		return;
	}
	nginx_helper( str_replace( '__trashed', '', (string) get_permalink( $post ) ) );
	nginx_helper( home_url( '/' ) );
	nginx_helper( get_post_type_archive_link( $post->post_type ) );
	list( $year, $month, $day ) = explode( '-', substr( $post->post_date, 0, 10 ) );
	nginx_helper( get_day_link( (int) $year, (int) $month, (int) $day ) );
	nginx_helper( get_month_link( (int) $year, (int) $month ) );
	nginx_helper( get_year_link( (int) $year ) );
	foreach ( get_object_taxonomies( $post ) as $taxonomy ) {
		$terms = get_the_terms( $post, $taxonomy );
		foreach ( is_array( $terms ) && get_taxonomy( $taxonomy )->public ? $terms : array() as $term ) {
			nginx_helper( get_term_link( $term ) );
		}
	}
	nginx_helper( get_author_posts_url( (int) $post->post_author ) );
}
