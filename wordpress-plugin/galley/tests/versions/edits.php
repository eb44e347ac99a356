<?php
/**
 * Makes one edit of each kind with WordPress functions, and prints the purges of the plugin as JSON, by name of the edit.
 *
 * @package Galley
 */

require '/wordpress/wp-load.php';
require_once ABSPATH . 'wp-admin/includes/admin.php';
require_once ABSPATH . 'wp-admin/includes/class-wp-upgrader.php';

wp_set_current_user( 1 );
$post           = get_page_by_path( 'spring-tide', OBJECT, 'post' );
$term           = get_term_by( 'name', 'Tides', 'category' );
$purges_by_edit = array();
$edit           = static function ( string $name, callable $change ) use ( &$purges_by_edit ) {
	$result                  = $change();
	$purges                  = Galley\take_purges();
	$purges_by_edit[ $name ] = array_merge( $purges['hard'], $purges['soft'] );
	return $result;
};

$edit( 'text', static function () use ( $post ) { wp_update_post( array( 'ID' => $post->ID, 'post_content' => 'Low.' ) ); } );
$edit( 'field', static function () use ( $post ) { update_post_meta( $post->ID, 'depth', '3' ); } );
$edit( 'sticky', static function () use ( $post ) { stick_post( $post->ID ); } );
$comment = $edit(
	'comment',
	static function () use ( $post ) {
		return wp_insert_comment( array( 'comment_post_ID' => $post->ID, 'comment_content' => 'Wet.', 'comment_approved' => 1, 'user_id' => 1 ) );
	}
);
$edit( 'comment-text', static function () use ( $comment ) { wp_update_comment( array( 'comment_ID' => $comment, 'comment_content' => 'Dry.' ) ); } );
$edit( 'comment-gone', static function () use ( $comment ) { wp_delete_comment( $comment, true ); } );
$edit( 'term', static function () use ( $term ) { wp_update_term( $term->term_id, 'category', array( 'name' => 'Ebbs' ) ); } );
$edit( 'user', static function () { wp_update_user( array( 'ID' => 1, 'display_name' => 'The Pilot' ) ); } );
$edit( 'name', static function () { update_option( 'blogname', 'Another name' ); } );
$edit( 'per-page', static function () { update_option( 'posts_per_page', 7 ); } );
$edit( 'widgets', static function () { update_option( 'sidebars_widgets', array( 'sidebar-1' => array( 'recent-comments-2' ), 'array_version' => 3 ) ); } );
$menu = $edit( 'menu', static function () { return wp_create_nav_menu( 'Ways' ); } );
$edit( 'menu-item', static function () use ( $menu ) { wp_update_nav_menu_item( $menu, 0, array( 'menu-item-title' => 'Out', 'menu-item-url' => 'http://versions.test/', 'menu-item-status' => 'publish' ) ); wp_update_nav_menu_object( $menu, array( 'menu-name' => 'Ways' ) ); } );
$edit( 'template', static function () { wp_insert_post( array( 'post_type' => 'wp_template', 'post_name' => 'single', 'post_title' => 'Single', 'post_status' => 'publish', 'post_content' => 'x', 'tax_input' => array( 'wp_theme' => get_stylesheet() ) ) ); } );
$edit( 'slug', static function () use ( $post ) { wp_update_post( array( 'ID' => $post->ID, 'post_name' => 'neap-tide' ) ); } );
$edit( 'trash', static function () use ( $post ) { wp_trash_post( $post->ID ); } );
$edit( 'deleted', static function () use ( $post ) { wp_delete_post( $post->ID, true ); } );
$edit( 'term-gone', static function () use ( $term ) { wp_delete_term( $term->term_id, 'category' ); } );
$edit( 'permalinks', static function () { $GLOBALS['wp_rewrite']->set_permalink_structure( '/%year%/%postname%/' ); } );
$edit( 'theme', static function () { do_action( 'switch_theme', 'x', wp_get_theme(), wp_get_theme() ); } );
$edit( 'update', static function () { do_action( 'upgrader_process_complete', null, array() ); } );

echo "\nEDITS ", wp_json_encode(
	array(
		'post'   => $post->ID,
		'term'   => $term->term_id,
		'menu'   => $menu,
		'purges' => $purges_by_edit,
	)
);
