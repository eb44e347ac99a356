<?php
/**
 * Provides actions that purge, for other plugins and themes.
 *
 *   do_action( 'galley_purge_all' );
 *   do_action( 'galley_purge_post', $post_id );
 *   do_action( 'galley_purge_url', 'https://example.com/a/' );
 *   do_action( 'galley_purge_tags', array( 'my-tag' ), 'soft' );
 *
 * The filter `galley_tags` adds tags of other plugins and themes to pages.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

add_action( 'galley_purge_all', __NAMESPACE__ . '\\purge_all' );
add_action( 'galley_purge_post', __NAMESPACE__ . '\\purge_post', 10, 2 );
add_action( 'galley_purge_url', __NAMESPACE__ . '\\purge_url', 10, 2 );
add_action( 'galley_purge_tags', __NAMESPACE__ . '\\purge_tags', 10, 2 );

/**
 * @param mixed $strength Pass `soft` for a soft purge. Any other value means hard.
 */
function purge_all( $strength = 'hard' ): void {
	note_cause( 'code' );
	queue_purge( 'b', strength( $strength ) );
}

/**
 * Purges every page that shows any part of a post.
 */
function purge_post( $post_id, $strength = 'hard' ): void {
	$id = (int) $post_id;
	note_cause( 'code', (string) get_post_field( 'post_title', $id, 'raw' ) );
	queue_purge( array( "p$id", "pl$id", "pe$id", "pt$id", "pm$id", "c$id", "cn$id" ), strength( $strength ) );
}

function purge_url( $url, $strength = 'hard' ): void {
	note_cause( 'code', (string) $url );
	$path  = (string) wp_parse_url( (string) $url, PHP_URL_PATH );
	$query = (string) wp_parse_url( (string) $url, PHP_URL_QUERY );
	$word  = ( '' === $path ? '/' : $path ) . ( '' === $query ? '' : "?$query" );
	if ( '/' === $word[0] && preg_match( '~^[\x21-\x2b\x2d-\x3a\x3c-\x7e]+$~D', $word ) && strlen( $word ) < 2000 ) {
		queue_purge_of_word( $word, strength( $strength ) );
	} else {
		// A purge cannot carry this address. Purge everything rather than nothing.
		queue_purge( 'b', strength( $strength ) );
	}
}

function purge_tags( $tags, $strength = 'hard' ): void {
	note_cause( 'code', implode( ', ', array_slice( array_map( 'strval', array_filter( (array) $tags, 'is_scalar' ) ), 0, 5 ) ) );
	foreach ( (array) $tags as $tag ) {
		// Pages carry these tags unchanged, so the plugin does not add the prefix of the blog here either.
		queue_purge_of_word( own_tag( $tag ), strength( $strength ) );
	}
}

function strength( $wanted ): string {
	return 'soft' === $wanted ? 'soft' : 'hard';
}
