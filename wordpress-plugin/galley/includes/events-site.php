<?php
/**
 * Detects changes of the whole site: themes, updates, plugins, the Customizer, imports, blogs of a network, and this plugin itself.
 *
 * The purge is soft if no user changed any content. After an update, the server may send the old pages while PHP generates new pages one by
 * one.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Network settings that pages of the network's blogs show. */
const NETWORK_OPTIONS = array( 'WPLANG', 'registration', 'site_name' );

/** Network settings that no page shows. */
const QUIET_NETWORK_OPTIONS = array( 'add_new_users', 'banned_email_domains', 'blog_upload_space', 'fileupload_maxk', 'first_comment', 'first_comment_author', 'first_comment_email', 'first_comment_url', 'first_page', 'first_post', 'illegal_names', 'limited_email_domains', 'menu_items', 'new_admin_email', 'registrationnotification', 'upload_filetypes', 'upload_space_check_disabled', 'welcome_email', 'welcome_user_email', 'active_sitewide_plugins', 'auto_core_update_notified', 'blog_count', 'can_compress_scripts', 'ms_files_rewriting', 'recently_activated', 'site_admins', 'wpmu_upgrade_site' );

add_action( 'switch_theme', __NAMESPACE__ . '\\on_theme' );
add_action( 'permalink_structure_changed', __NAMESPACE__ . '\\on_theme' );
add_action( 'import_end', __NAMESPACE__ . '\\on_theme' );
foreach ( array( 'upgrader_process_complete', 'automatic_updates_complete', '_core_updated_successfully' ) as $galley_action ) {
	add_action( $galley_action, __NAMESPACE__ . '\\on_update' );
}
unset( $galley_action );
add_action( 'activated_plugin', __NAMESPACE__ . '\\on_plugin', 10, 2 );
add_action( 'deactivated_plugin', __NAMESPACE__ . '\\on_plugin', 10, 2 );
add_action( 'customize_save_after', __NAMESPACE__ . '\\on_customizer' );
foreach ( array( 'make_spam_blog', 'make_ham_blog', 'archive_blog', 'unarchive_blog', 'make_delete_blog', 'make_undelete_blog', 'wp_uninitialize_site' ) as $galley_action ) {
	add_action( $galley_action, __NAMESPACE__ . '\\on_blog' );
}
unset( $galley_action );
if ( is_multisite() ) {
	foreach ( array( 'add_site_option', 'update_site_option', 'delete_site_option' ) as $galley_action ) {
		add_action( $galley_action, __NAMESPACE__ . '\\on_network_option' );
	}
	unset( $galley_action );
}
add_action( 'wp_insert_site', __NAMESPACE__ . '\\on_new_blog' );
add_action( 'wp_update_site', __NAMESPACE__ . '\\on_moved_blog', 10, 2 );
foreach ( array( 'elementor/core/files/clear_cache', 'autoptimize_action_cachepurged', 'fl_builder_cache_cleared' ) as $galley_action ) {
	add_action( $galley_action, __NAMESPACE__ . '\\on_builder' );
}
unset( $galley_action );

function on_theme(): void {
	queue_purge( 'b' );
}

/**
 * Handles an update of code, which all blogs share.
 */
function on_update(): void {
	queue_purge_of_all_blogs( 'soft' );
}

function on_plugin( $plugin, $in_network = false ): void {
	if ( $in_network ) {
		queue_purge_of_all_blogs( 'soft' );
	} else {
		queue_purge( 'b', 'soft' );
	}
}

function on_builder(): void {
	queue_purge( 'b', 'soft' );
}

/**
 * Purges all pages if the Customizer has saved a setting of an unknown type. Other hooks detect changes of theme, menu, widget and style
 * settings when WordPress stores them.
 */
function on_customizer( $manager = null ): void {
	$known = array( 'theme_mod', 'option', 'nav_menu', 'nav_menu_item', 'custom_css' );
	foreach ( $manager instanceof \WP_Customize_Manager ? array_keys( $manager->unsanitized_post_values() ) : array() as $id ) {
		$setting = $manager->get_setting( $id );
		if ( $setting && ! in_array( $setting->type, $known, true ) ) {
			queue_purge( 'b' );
			return;
		}
	}
}

/**
 * Handles a changed network setting that pages of all blogs show. Others are in writes.php.
 */
function on_network_option( $name ): void {
	if ( in_array( $name, NETWORK_OPTIONS, true ) ) {
		queue_purge_of_all_blogs();
	}
}

/**
 * Handles a blog of a network that is shown, hidden or deleted. Uses the prefix of that blog, even if the current blog is a different one.
 *
 * @param int|\WP_Site $blog The blog.
 */
function on_blog( $blog ): void {
	$id = is_object( $blog ) ? (int) $blog->blog_id : (int) $blog;
	queue_purge_of_word( "$id.b" );
	queue_network_purge( 'ls' );
}

/**
 * Handles a new blog. If the blog is in a subdirectory, its addresses belonged to the main blog until now and returned a 404 page.
 */
function on_new_blog( $blog ): void {
	queue_purge_of_word( get_main_site_id() . '.e404' );
	queue_network_purge( 'ls' );
}

/**
 * Handles changed data of a blog. The action also runs when a user writes content in the blog. Only a new address is relevant here.
 */
function on_moved_blog( $new, $old = null ): void {
	if ( $new instanceof \WP_Site && $old instanceof \WP_Site && ( $new->domain !== $old->domain || $new->path !== $old->path ) ) {
		on_blog( $old );
		on_new_blog( $new );
	}
}

/**
 * Purges everything on activation. Pages that were stored before have no tags, so no later purge could select them.
 */
function on_activation(): void {
	queue_purge_of_word( '*' );
}

/**
 * Purges everything on deactivation. Pages with a long lifetime would otherwise become outdated, because the plugin no longer reports changes.
 */
function on_deactivation(): void {
	queue_purge_of_word( '*' );
	remove_drop_in();
	delete_option( 'galley_development' );
	foreach ( array( 'galley_development_end', 'galley_preload' ) as $task ) {
		wp_clear_scheduled_hook( $task );
	}
}
