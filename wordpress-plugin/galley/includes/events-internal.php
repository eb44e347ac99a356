<?php
/**
 * Detects changes of internal posts, which have no single page: menu items, templates, template parts, navigation, patterns, styles.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

$GLOBALS['galley_internal'] = array();

/**
 * Records the state of an internal post before its first change. Returns false if the post is not internal.
 */
function touch_internal( \WP_Post $post, bool $is_new = false ): bool {
	$known = array( 'nav_menu_item', 'wp_template', 'wp_template_part', 'wp_navigation', 'wp_block', 'wp_global_styles', 'custom_css' );
	if ( ! in_array( $post->post_type, $known, true ) ) {
		return false;
	}
	if ( 'auto-draft' === $post->post_status ) {
		return true;
	}
	if ( 'nav_menu_item' === $post->post_type ) {
		queue_menus_of( $post->ID );
		later(
			"item$post->ID",
			static function () use ( $post ): void {
				queue_menus_of( $post->ID );
			}
		);
		return true;
	}
	$key = touched_key( $post->ID );
	if ( ! isset( $GLOBALS['galley_internal'][ $key ] ) ) {
		$GLOBALS['galley_internal'][ $key ] = internal_state( $is_new ? null : $post );
		later(
			"post$post->ID",
			static function () use ( $post ): void {
				queue_internal( $post );
			}
		);
	}
	return true;
}

/**
 * Returns the state of an internal post.
 *
 * @return array{shown: bool, slug: string, text: string, settings: string} `settings` is used only for styles.
 */
function internal_state( ?\WP_Post $post ): array {
	$styles = $post && 'wp_global_styles' === $post->post_type ? json_decode( $post->post_content, true ) : array();
	return array(
		// WordPress creates an empty styles record when a user opens the editor.
		'shown'    => $post && 'publish' === $post->post_status && ( 'wp_global_styles' !== $post->post_type || preg_match( '/"(styles|settings)"/', $post->post_content ) ),
		'slug'     => $post ? preg_replace( '/__trashed$/', '', $post->post_name ) : '',
		'settings' => is_array( $styles ) ? (string) wp_json_encode( array_filter( $styles['settings'] ?? array() ) ) : '?',
		'text'     => $post ? md5( "$post->post_title\n$post->post_content\n$post->post_modified" ) : '',
	);
}

/**
 * Queues purges for the menus that contain an item.
 */
function queue_menus_of( int $item ): void {
	$menus = wp_get_object_terms( $item, 'nav_menu', array( 'fields' => 'ids' ) );
	foreach ( is_array( $menus ) ? $menus : array() as $menu ) {
		queue_purge( 'm' . (int) $menu );
	}
}

/**
 * Queues purges for everything that has changed in an internal post since its state was recorded.
 */
function queue_internal( \WP_Post $post ): void {
	$key = touched_key( $post->ID );
	$old = $GLOBALS['galley_internal'][ $key ] ?? internal_state( null );
	unset( $GLOBALS['galley_internal'][ $key ] );
	$now = get_post( $post->ID );
	if ( 'wp_global_styles' === $post->post_type ) {
		forget_styles();
	}
	queue_purge( internal_tags( $post->ID, $post->post_type, $old, internal_state( $now instanceof \WP_Post ? $now : null ) ) );
}

/**
 * Deletes the cached styles. WordPress up to 6.1 caches the styles for one minute, even if they are saved in the meantime. Pages that are
 * generated within that minute would show the old styles.
 */
function forget_styles(): void {
	foreach ( array( 'global_styles_', 'global_styles_svg_filters_' ) as $kept ) {
		delete_transient( $kept . get_stylesheet() );
	}
}

/**
 * Returns the tags that a change of an internal post affects. Pure.
 *
 * A change of an existing template affects the pages that use it (`tu.`). If a template appears or disappears, this affects all pages that
 * look up a template of that name (`tp.`).
 *
 * @return string[]
 */
function internal_tags( int $id, string $type, array $old, array $new ): array {
	if ( $old === $new || ( ! $old['shown'] && ! $new['shown'] ) ) {
		return array();
	}
	if ( in_array( $type, array( 'wp_global_styles', 'custom_css' ), true ) ) {
		// Styles are in the head of pages. The settings of the editor also change blocks, wherever pages show them.
		return array( $old['settings'] === $new['settings'] ? 'ht' : 'b' );
	}
	$appears = $old['shown'] !== $new['shown'] || $old['slug'] !== $new['slug'];
	$tags    = array( "p$id" );
	if ( 'wp_template' === $type || 'wp_template_part' === $type ) {
		foreach ( array_unique( array_filter( array( $old['slug'], $new['slug'] ) ) ) as $slug ) {
			$tags[] = ( $appears ? 'tp.' : 'tu.' ) . word( $slug );
		}
	}
	if ( $appears ) {
		$tags[] = "l.$type";
		$tags[] = "l.$type.q";
		$tags[] = "l.$type.x";
	}
	return $tags;
}
