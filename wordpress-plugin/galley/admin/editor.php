<?php
/**
 * The panel of the block editor that shows what an update will purge. A script requests its content after the editor has loaded and after
 * each save.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

add_action( 'enqueue_block_editor_assets', __NAMESPACE__ . '\\editor_script' );
add_action( 'rest_api_init', __NAMESPACE__ . '\\editor_route' );

function editor_script(): void {
	$screen = function_exists( 'get_current_screen' ) ? get_current_screen() : null;
	if ( null === connection() || null === $screen || 'post' !== $screen->base || ! is_post_type_viewable( (string) $screen->post_type ) ) {
		return;
	}
	wp_enqueue_script( 'galley-editor', plugins_url( 'editor.js', __FILE__ ), array( 'wp-api-fetch', 'wp-components', 'wp-data', 'wp-edit-post', 'wp-element', 'wp-i18n', 'wp-plugins' ), VERSION, true );
	wp_set_script_translations( 'galley-editor', 'galley', dirname( __DIR__ ) . '/languages' );
}

function editor_route(): void {
	register_rest_route(
		'galley/v1',
		'/effect/(?P<post>\d+)',
		array(
			'methods'             => 'GET',
			'callback'            => static function ( $request ) {
				return rest_ensure_response( array( 'sentences' => effect_sentences( (int) $request['post'] ) ) );
			},
			'permission_callback' => static function ( $request ): bool {
				return current_user_can( 'edit_post', (int) $request['post'] );
			},
		)
	);
}

/**
 * Returns sentences that describe what saving a post will purge, or none if the server does not answer.
 *
 * @return string[]
 */
function effect_sentences( int $id ): array {
	$post  = get_post( $id );
	$state = $post instanceof \WP_Post ? post_state( $post ) : null;
	if ( null === $state ) {
		return array();
	}
	$sentences = array();
	foreach ( planned_changes( $id, $state ) as $kind => $purges ) {
		$count = count_purged( $purges, 1.0 );
		if ( null === $count ) {
			return array();
		}
		$sentences[] = effect_words( $kind, $count[0], $count[1] );
	}
	return $sentences;
}

/**
 * Returns the possible next changes of a post and their purges.
 *
 * @param array $state From `post_state()`.
 * @return array<string, array{hard: string[], soft: string[]}>
 */
function planned_changes( int $id, array $state ): array {
	if ( ! $state['visible'] ) {
		$public = array_merge( $state, array( 'status' => 'publish', 'visible' => true ) );
		return array( 'publish' => planned_purges( post_changes( $id, $state, $public ) ) );
	}
	$text  = array_merge( $state, array( 'content' => $state['content'] . ' ', 'modified' => '' ) );
	$title = array_merge( $state, array( 'title' => $state['title'] . ' ', 'modified' => '' ) );
	return array(
		'text'  => planned_purges( post_changes( $id, $state, $text ) ),
		'title' => planned_purges( post_changes( $id, $state, $title ) ),
	);
}

/**
 * Returns the purges of a change, as far as they are known in advance. For lists that the post enters, these are the pages that show the
 * newest posts.
 *
 * @param array $change From `post_changes()`.
 * @return array{hard: string[], soft: string[]}
 */
function planned_purges( array $change ): array {
	$tags = $change['tags'];
	foreach ( $change['lists'] as $list ) {
		array_push( $tags, $list['key'], $list['key'] . '.r0', $list['key'] . '.in' );
	}
	$hard = array();
	foreach ( with_classes( $tags ) as $tag ) {
		$hard[] = blog_prefix() . $tag;
	}
	return array(
		'hard' => $hard,
		'soft' => array(),
	);
}

/**
 * Returns a sentence about the number of pages that a change purges. Pure except for translations.
 *
 * @param string $kind    `text`, `title` or `publish`.
 * @param int    $pages   Number of stored pages.
 * @param bool   $is_more Whether the change may purge more pages.
 */
function effect_words( string $kind, int $pages, bool $is_more ): string {
	$number = number_format_i18n( $pages ) . ( $is_more ? '+' : '' );
	switch ( $kind ) {
		case 'publish':
			/* translators: %s: a number of pages */
			return sprintf( _n( 'Publishing purges at least %s stored page.', 'Publishing purges at least %s stored pages.', $pages, 'galley' ), $number );
		case 'title':
			/* translators: %s: a number of pages */
			return sprintf( _n( 'A new title purges %s stored page.', 'A new title purges %s stored pages.', $pages, 'galley' ), $number );
		default:
			/* translators: %s: a number of pages */
			return sprintf( _n( 'A change of the text purges %s stored page.', 'A change of the text purges %s stored pages.', $pages, 'galley' ), $number );
	}
}
