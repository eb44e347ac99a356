<?php
/**
 * Changes of the site as a whole: themes, updates, plugins, the customizer, imports, blogs of a network; and of this plugin itself.
 *
 * Soft where no person changed any content: after an update the old pages may answer while new ones are composed one by one.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

add_action( 'switch_theme', __NAMESPACE__ . '\\on_theme' );
add_action( 'permalink_structure_changed', __NAMESPACE__ . '\\on_theme' );
add_action( 'import_end', __NAMESPACE__ . '\\on_theme' );
foreach ( array( 'upgrader_process_complete', 'automatic_updates_complete', '_core_updated_successfully', 'activated_plugin', 'deactivated_plugin' ) as $galley_action ) {
	add_action( $galley_action, __NAMESPACE__ . '\\on_update' );
}
unset( $galley_action );
add_action( 'customize_save_after', __NAMESPACE__ . '\\on_customizer' );
foreach ( array( 'make_spam_blog', 'make_ham_blog', 'archive_blog', 'unarchive_blog', 'make_delete_blog', 'make_undelete_blog', 'wp_uninitialize_site' ) as $galley_action ) {
	add_action( $galley_action, __NAMESPACE__ . '\\on_blog' );
}
unset( $galley_action );
foreach ( array( 'elementor/core/files/clear_cache', 'autoptimize_action_cachepurged', 'fl_builder_cache_cleared' ) as $galley_action ) {
	add_action( $galley_action, __NAMESPACE__ . '\\on_update' );
}
unset( $galley_action );

function on_theme(): void {
	order( 'b' );
}

function on_update(): void {
	order( 'b', 'soft' );
}

/**
 * Settings of themes, menus, widgets and styles are seen where they are stored; of other kinds nothing is known.
 */
function on_customizer( $manager = null ): void {
	$known = array( 'theme_mod', 'option', 'nav_menu', 'nav_menu_item', 'custom_css' );
	foreach ( $manager instanceof \WP_Customize_Manager ? array_keys( $manager->unsanitized_post_values() ) : array() as $id ) {
		$setting = $manager->get_setting( $id );
		if ( $setting && ! in_array( $setting->type, $known, true ) ) {
			order( 'b' );
			return;
		}
	}
}

/**
 * A blog of a network that appears or goes: its own prefix, whichever blog is at hand.
 *
 * @param int|\WP_Site $blog The blog.
 */
function on_blog( $blog ): void {
	$id = is_object( $blog ) ? (int) $blog->blog_id : (int) $blog;
	order_word( "$id.b" );
}

/**
 * Pages from before do not say what they are made of, so nothing could purge them.
 */
function on_activation(): void {
	order_word( '*' );
}

/**
 * Pages that live long would stay as they are: nobody will tell of changes any more.
 */
function on_deactivation(): void {
	order_word( '*' );
}
