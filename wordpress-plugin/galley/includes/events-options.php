<?php
/**
 * Detects changes of the settings of WordPress that affect pages, and purges exactly the pages that show them. All other options, of which plugins
 * constantly write many, purge the pages that read them (writes.php).
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Settings that affect every page of a blog. */
const WHOLE_OPTIONS = array( 'siteurl', 'home', 'permalink_structure', 'category_base', 'tag_base', 'timezone_string', 'gmt_offset', 'WPLANG', 'template', 'stylesheet', 'use_smilies', 'html_type', 'blog_charset', 'thumbnail_size_w', 'thumbnail_size_h', 'medium_size_w', 'medium_size_h', 'large_size_w', 'large_size_h', 'link_manager_enabled' );

/** Theme mods that WordPress itself prints, in the head and the header of the theme's pages. */
const DRAWN_MODS = array( 'background_color', 'background_image', 'background_image_thumb', 'background_preset', 'background_position_x', 'background_position_y', 'background_size', 'background_repeat', 'background_attachment', 'header_image', 'header_image_data', 'header_textcolor', 'header_video', 'external_header_video' );

/** Types of widgets that add nothing to pages that do not show them: the types of WordPress core, except recent comments. */
const PLAIN_WIDGETS = array( 'archives', 'block', 'calendar', 'categories', 'custom_html', 'links', 'media_audio', 'media_gallery', 'media_image', 'media_video', 'meta', 'nav_menu', 'pages', 'recent-posts', 'rss', 'search', 'tag_cloud', 'text' );

/** Settings of WordPress core that no page shows. */
const QUIET_OPTIONS = array( 'new_admin_email', 'default_category', 'default_email_category', 'default_link_category', 'default_post_format', 'default_role', 'default_pingback_flag', 'default_ping_status', 'default_comment_status', 'comments_notify', 'moderation_notify', 'comment_moderation', 'comment_previously_approved', 'comment_max_links', 'moderation_keys', 'disallowed_keys', 'ping_sites', 'uploads_use_yearmonth_folders', 'rewrite_rules', 'cron', 'recently_edited', 'recently_activated', 'auto_update_plugins', 'auto_update_themes', 'db_upgraded', 'can_compress_scripts', 'theme_switched', 'category_children', 'finished_splitting_shared_terms', 'finished_updating_comment_type', 'nav_menu_options', 'auto_core_update_notified', 'https_detection_errors', 'galley_connection', 'fresh_site' );

add_action( 'updated_option', __NAMESPACE__ . '\\on_option', 10, 3 );
add_action( 'added_option', __NAMESPACE__ . '\\on_new_option', 10, 2 );
add_action( 'delete_option', __NAMESPACE__ . '\\on_gone_option' );

function on_new_option( $name, $value = null ): void {
	// A missing option has the same effect as an empty one.
	on_option( $name, '' === $value ? '' : null, $value );
}

function on_gone_option( $name ): void {
	$name = (string) $name;
	if ( 0 === strpos( $name, WORD_OPTION ) ) {
		// The row of a search word was deleted, so edits no longer find its searches: purge all searches.
		queue_purge( 'sw' );
	} elseif ( 0 !== strpos( $name, 'galley_' ) ) {
		on_option( $name, get_option( $name ), null );
	}
}

function on_option( $name, $old = null, $new = null ): void {
	$name = (string) $name;
	if ( $old === $new || preg_match( '/^_?(site_)?transient_|^_transient|^galley_|^_?site_transient/', $name ) ) {
		return;
	}
	if ( 'sidebars_widgets' === $name ) {
		queue_purge( sidebar_tags( (array) $old, (array) $new ) );
	} elseif ( 0 === strpos( $name, 'widget_' ) ) {
		queue_purge( widget_tags( substr( $name, 7 ), (array) $old, (array) $new ) );
	} elseif ( 'sticky_posts' === $name ) {
		queue_sticky( (array) $old, (array) $new );
	} elseif ( in_array( $name, array( 'show_on_front', 'page_on_front', 'page_for_posts' ), true ) ) {
		queue_front( $name, $old, $new );
	} elseif ( 'posts_per_page' === $name ) {
		queue_purge( per_page_tags( (int) $old, (int) $new ) );
	} elseif ( 'posts_per_rss' === $name || ( in_array( $name, READ_OPTIONS, true ) && ! in_array( $name, WHOLE_OPTIONS, true ) ) ) {
		queue_purge( "op.$name" );
	} elseif ( in_array( $name, WHOLE_OPTIONS, true ) || 'theme_mods_' . get_option( 'stylesheet' ) === $name ) {
		on_whole_option( $name, $old, $new );
	} elseif ( 'rewrite_rules' === $name ) {
		note_rules( $old );
	} elseif ( 'polylang' === $name ) {
		queue_purge( polylang_tags( (array) $old, (array) $new ) );
	}
}

/**
 * Records the rewrite rules before the first change in this request. With other rules, addresses of missing pages may have pages. WordPress and
 * plugins also empty the rules and let this request or a later one make them again, which purges then.
 */
function note_rules( $old ): void {
	$blog = get_current_blog_id();

	$GLOBALS['galley_rules'][ $blog ] = $GLOBALS['galley_rules'][ $blog ] ?? (array) $old;
	later(
		'rules',
		static function () use ( $blog ): void {
			$now = (array) get_option( 'rewrite_rules' );
			if ( array_filter( $now ) && $now !== $GLOBALS['galley_rules'][ $blog ] ) {
				queue_purge( 'e404' );
			}
			unset( $GLOBALS['galley_rules'][ $blog ] );
		}
	);
}

/**
 * Handles settings that affect all pages. Some theme mods are not shown on any page and are ignored.
 */
function on_whole_option( string $name, $old, $new ): void {
	if ( 0 === strpos( $name, 'theme_mods_' ) ) {
		$old   = (array) $old;
		$new   = (array) $new;
		$quiet = array_fill_keys( array( 'sidebars_widgets', 'custom_css_post_id' ), true );
		// For WordPress, an empty logo is none.
		$quiet += empty( $old['custom_logo'] ) && empty( $new['custom_logo'] ) ? array( 'custom_logo' => true ) : array();
		$old    = array_diff_key( $old, $quiet );
		$new    = array_diff_key( $new, $quiet );
		if ( $old === $new ) {
			return;
		}
		queue_purge( mod_tags( $old, $new ) );
		return;
	}
	if ( 'gmt_offset' === $name && ( get_option( 'timezone_string' ) || (float) $old === (float) $new ) ) {
		// The settings form of WordPress leaves this option empty if a named time zone is selected.
		return;
	}
	if ( 'category_base' === $name || 'tag_base' === $name ) {
		$base = trim( (string) $new, '/' );
		queue_base( 'tag_base' === $name ? 'post_tag' : 'category', '' === $base ? substr( $name, 0, -5 ) : $base );
		return;
	}
	queue_purge( 'b' );
}

/**
 * Returns the tags of the theme settings that differ, and the tag of pages whose settings are unknown. Pure.
 *
 * @return string[]
 */
function mod_tags( array $old, array $new ): array {
	$tags = array( 'tm' );
	foreach ( array_keys( $old + $new ) as $name ) {
		if ( isset( $old[ $name ] ) !== isset( $new[ $name ] ) || ( $old[ $name ] ?? null ) !== ( $new[ $name ] ?? null ) ) {
			$tags[] = 'tm.' . word( (string) $name );
		}
	}
	return $tags;
}

/**
 * Queues purges for a new base in the addresses of terms: for pages that show such an address, for 404 pages, and for the sitemap of the
 * taxonomy. Purges all pages if there are too many terms, or if other addresses begin with the new base.
 */
function queue_base( string $taxonomy, string $base ): void {
	$terms = get_terms(
		array(
			'taxonomy'   => $taxonomy,
			'hide_empty' => false,
			'fields'     => 'ids',
			'number'     => MAX_PURGES,
		)
	);
	$own   = 'post_tag' === $taxonomy ? 'tag' : 'category_name';
	if ( ! is_array( $terms ) || count( $terms ) >= MAX_PURGES / 4 || ! is_free( explode( '/', trim( $base, '/' ) )[0], $own ) ) {
		queue_purge( 'b' );
		return;
	}
	queue_purge( array( 'e404', 'sm.' . word( $taxonomy ), 'lta.' . word( $taxonomy ) ) );
	foreach ( $terms as $term ) {
		queue_purge( 'tl' . (int) $term );
	}
}

/**
 * Checks whether no address begins with a word yet: neither the address of a post or page, nor an address in a rewrite rule.
 *
 * @param string $own Query variable of the pages that will use the word.
 */
function is_free( string $word, string $own ): bool {
	global $wpdb;
	$structure = explode( '/', trim( (string) get_option( 'permalink_structure' ), '/' ) )[0];
	if ( ! in_array( $structure, array( '%postname%', '%year%', '%post_id%' ), true ) || is_numeric( $word ) ) {
		return false;
	}
	foreach ( (array) get_option( 'rewrite_rules' ) as $rule => $query ) {
		// Existing rules for the same pages do not conflict.
		if ( 0 === strpos( ltrim( (string) $rule, '^(' ), $word ) && false === strpos( (string) $query, "?$own=" ) ) {
			return false;
		}
	}
	// phpcs:ignore WordPress.DB -- must be current.
	return ! $wpdb->get_var( $wpdb->prepare( "SELECT 1 FROM $wpdb->posts WHERE post_name = %s AND post_type <> 'revision' LIMIT 1", $word ) );
}

/**
 * Returns the tags of sidebars whose widgets were added, removed or moved. Pure.
 *
 * @return string[]
 */
function sidebar_tags( array $old, array $new ): array {
	$tags  = array();
	$kinds = array( array(), array() );
	foreach ( array_keys( $old + $new ) as $sidebar ) {
		$was = $old[ $sidebar ] ?? array();
		$is  = $new[ $sidebar ] ?? array();
		if ( ! is_array( $was ) || ! is_array( $is ) || 'wp_inactive_widgets' === $sidebar ) {
			continue;
		}
		$kinds = array( $kinds[0] + widget_kinds( $was ), $kinds[1] + widget_kinds( $is ) );
		if ( $was !== $is ) {
			$tags[] = 'sb.' . word( (string) $sidebar );
		}
		if ( (bool) $was !== (bool) $is ) {
			$tags[] = 'sa.' . word( (string) $sidebar );
		}
	}
	// Widgets add styles and scripts to every page as soon as one widget of their type is active anywhere.
	$changed = array_diff_key( $kinds[0] + $kinds[1], array_intersect_key( $kinds[0], $kinds[1] ) );
	if ( array_diff_key( $changed, array_fill_keys( PLAIN_WIDGETS, true ) ) ) {
		$tags[] = 'ht';
	}
	return $tags;
}

/**
 * Returns the types of the given widgets as array keys. Pure.
 *
 * @param array $widgets Widget IDs, such as `search-2`.
 * @return array<string, bool>
 */
function widget_kinds( array $widgets ): array {
	$kinds = array();
	foreach ( $widgets as $widget ) {
		$kinds[ preg_replace( '/-\d+$/D', '', (string) $widget ) ] = true;
	}
	return $kinds;
}

/**
 * Returns the tags of widgets whose settings differ. Pure.
 *
 * @return string[]
 */
function widget_tags( string $base, array $old, array $new ): array {
	$tags = array();
	foreach ( array_keys( $old + $new ) as $number ) {
		if ( is_int( $number ) && ( $old[ $number ] ?? null ) !== ( $new[ $number ] ?? null ) ) {
			$tags[] = 'w.' . word( "$base-$number" );
		}
	}
	return $tags;
}

function queue_sticky( array $old, array $new ): void {
	queue_purge( array( 'st', 'op.sticky_posts' ) );
	foreach ( array_merge( array_diff( $old, $new ), array_diff( $new, $old ) ) as $id ) {
		queue_purge( 'sk' . (int) $id );
	}
}

/**
 * Returns the tags of lists that a new number of posts per page splits differently: lists with more posts than the smaller of the two numbers.
 * Pure.
 *
 * @return string[]
 */
function per_page_tags( int $old, int $new ): array {
	$tags = array( 'op.posts_per_page' );
	for ( $posts = max( 0, min( $old, $new ) ) + 1; $posts <= MAX_PER_PAGE; $posts++ ) {
		$tags[] = "pp$posts";
	}
	return $tags;
}

/**
 * Queues purges for a new front page or a new posts page: for the old page, the new page, and the pages that link to them.
 */
function queue_front( string $name, $old, $new ): void {
	queue_purge( array( 'home', 'sm.page', "op.$name" ) );
	foreach ( 'show_on_front' === $name ? array( get_option( 'page_on_front' ), get_option( 'page_for_posts' ) ) : array( $old, $new ) as $id ) {
		$page = get_post( (int) $id );
		if ( $page instanceof \WP_Post && (int) $id > 0 ) {
			queue_purge( array_merge( array( "p$page->ID", "pl$page->ID" ), slug_tags( $page->post_name ) ) );
		}
	}
}
