<?php
/**
 * The admin bar: how the current page is cached, and links that purge this page or all pages.
 *
 * A script requests the state after the page has loaded, so the request does not delay the page.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

add_action( 'admin_bar_menu', __NAMESPACE__ . '\\bar', 90 );
add_action( 'wp_enqueue_scripts', __NAMESPACE__ . '\\bar_script' );
add_action( 'admin_enqueue_scripts', __NAMESPACE__ . '\\bar_script' );

/**
 * Returns the ID of the post on whose page the visitor is, or 0 if the current page is not the page of a post.
 */
function post_at_hand(): int {
	return ! is_admin() && is_singular() ? (int) get_queried_object_id() : 0;
}

/**
 * Returns the address of the current page.
 */
function url_at_hand(): string {
	// phpcs:ignore WordPress.Security.ValidatedSanitizedInput -- own_address() cleans it.
	$uri = isset( $_SERVER['REQUEST_URI'] ) ? wp_unslash( $_SERVER['REQUEST_URI'] ) : '/';
	$at  = wp_parse_url( home_url() );
	$all = ( $at['scheme'] ?? 'http' ) . '://' . ( $at['host'] ?? '' ) . ( isset( $at['port'] ) ? ':' . $at['port'] : '' );
	return (string) own_address( $all . $uri );
}

/**
 * Adds the items of the plugin to the admin bar.
 *
 * @param \WP_Admin_Bar $bar The admin bar.
 */
function bar( $bar ): void {
	$post = post_at_hand();
	if ( ! may_purge( $post ) || ( is_admin() && ! may_manage() ) ) {
		return;
	}
	$bar->add_node(
		array(
			'id'    => 'galley',
			'title' => '<span class="galley-state" aria-hidden="true"></span><span class="galley-label">Galley</span>',
			'href'  => may_manage() ? admin_url( 'options-general.php?page=galley' ) : false,
		)
	);
	$checks = is_admin() ? __( 'Checking the state of the site', 'galley' ) : __( 'Checking how this page is cached', 'galley' );
	add_bar_item( $bar, 'galley-why', esc_html( $checks ), false );
	add_bar_item( $bar, 'galley-do', '', false );
	if ( ! is_admin() ) {
		add_bar_item( $bar, 'galley-purge-page', esc_html__( 'Purge this page', 'galley' ), purge_page_link( url_at_hand() ) );
	}
	if ( may_manage() ) {
		add_bar_item( $bar, 'galley-purge-all', esc_html__( 'Purge all pages', 'galley' ), purge_all_link() );
	}
}

/**
 * Adds an item below the main item of the plugin.
 *
 * @param \WP_Admin_Bar $bar   The admin bar.
 * @param string        $id    ID of the item.
 * @param string        $title Escaped title.
 * @param string|false  $href  Target of the link, or false for no link.
 */
function add_bar_item( $bar, string $id, string $title, $href ): void {
	$bar->add_node(
		array(
			'id'     => $id,
			'parent' => 'galley',
			'title'  => $title,
			'href'   => $href,
		)
	);
}

/**
 * Returns the link that purges a page.
 */
function purge_page_link( string $url ): string {
	$link = add_query_arg(
		array(
			'action' => 'galley_purge_page',
			'url'    => rawurlencode( $url ),
		),
		admin_url( 'admin-post.php' )
	);
	return wp_nonce_url( $link, 'galley_purge_page' );
}

/**
 * Returns the link that purges all pages.
 */
function purge_all_link(): string {
	return wp_nonce_url( admin_url( 'admin-post.php?action=galley_purge_all' ), 'galley_purge_all' );
}

/**
 * Enqueues the script that requests the state of the page, if the user has permission to see it.
 */
function bar_script(): void {
	// For all visitors, because other plugins print what is registered, and pages for administrators have to equal the others.
	wp_register_script( 'galley-bar', plugins_url( 'bar.js', __FILE__ ), array( 'admin-bar' ), VERSION, true );
	if ( ! is_admin_bar_showing() || ! may_purge( post_at_hand() ) || ! may_look() || ( is_admin() && ! may_manage() ) ) {
		return;
	}
	wp_enqueue_script( 'galley-bar' );
	$says = array(
		'ajax'    => admin_url( 'admin-ajax.php' ),
		'nonce'   => wp_create_nonce( 'galley_page_state' ),
		'confirm' => __( 'Purge all pages? PHP generates each of them again at its next request, so the site is slower for a while.', 'galley' ),
		'action'  => is_admin() ? 'galley_site_state' : 'galley_page_state',
	);
	wp_add_inline_script( 'galley-bar', 'var galleyBar = ' . wp_json_encode( $says ) . ';', 'before' );
	wp_add_inline_style(
		'admin-bar',
		'#wpadminbar .galley-state{display:inline-block;width:9px;height:9px;border-radius:50%;margin-right:7px;background:#a7aaad;overflow:hidden;font-size:0}' .
		'#wpadminbar .galley-state.is-hit{background:#00ba37}#wpadminbar .galley-state.is-stale,#wpadminbar .galley-state.is-miss{background:#dba617}' .
		'#wpadminbar .galley-state.is-pass,#wpadminbar .galley-state.is-unknown{background:#e65054}' .
		'#wpadminbar #wp-admin-bar-galley-why .ab-empty-item,#wpadminbar #wp-admin-bar-galley-do .ab-empty-item{max-width:26em;white-space:normal;height:auto;line-height:1.5;padding-top:4px;padding-bottom:4px}' .
		'#wpadminbar #wp-admin-bar-galley-do:not(.has-words){display:none}' .
		// WordPress hides the items of plugins on phones, where a larger dot with a mark stands for the label.
		'@media screen and (max-width:782px){#wpadminbar li#wp-admin-bar-galley{display:block}#wpadminbar #wp-admin-bar-galley>.ab-item{padding:0 12px}' .
		'#wpadminbar .galley-state{box-sizing:border-box;width:24px;height:24px;margin:11px 0;vertical-align:top;text-align:center;font:700 16px/24px sans-serif;color:#000}' .
		'#wpadminbar .galley-label{position:absolute;clip-path:inset(50%);width:1px;height:1px;overflow:hidden;white-space:nowrap}' .
		'#wpadminbar #wp-admin-bar-galley-why .ab-empty-item,#wpadminbar #wp-admin-bar-galley-do .ab-empty-item{max-width:86vw}}'
	);
}
