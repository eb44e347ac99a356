<?php
/**
 * Adds tags for parts that pages share: menus, widgets, templates, patterns, navigation blocks, settings.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/**
 * Options with a tag for each page that reads them. Options that shape every page are in events-options.php.
 */
const READ_OPTIONS = array(
	'blogname',
	'blogdescription',
	'date_format',
	'time_format',
	'start_of_week',
	'rss_use_excerpt',
	'site_icon',
	'site_logo',
	'blog_public',
	'show_avatars',
	'avatar_default',
	'avatar_rating',
	'comment_order',
	'comments_per_page',
	'comment_registration',
	'close_comments_days_old',
	'close_comments_for_old_posts',
	'default_comments_page',
	'page_comments',
	'require_name_email',
	'show_comments_cookies_opt_in',
	'thread_comments',
	'thread_comments_depth',
	'users_can_register',
	'wp_page_for_privacy_policy',
	'woocommerce_calc_taxes',
	'woocommerce_currency',
	'woocommerce_currency_pos',
	'woocommerce_default_country',
	'woocommerce_enable_review_rating',
	'woocommerce_hide_out_of_stock_items',
	'woocommerce_notify_low_stock_amount',
	'woocommerce_price_decimal_sep',
	'woocommerce_price_display_suffix',
	'woocommerce_price_num_decimals',
	'woocommerce_price_thousand_sep',
	'woocommerce_prices_include_tax',
	'woocommerce_stock_format',
	'woocommerce_tax_based_on',
	'woocommerce_tax_display_shop',
);

if ( is_described() ) {
	gather_parts();
}

function gather_parts(): void {
	$own = __NAMESPACE__ . '\\';
	add_filter( 'wp_get_nav_menu_items', $own . 'gather_menu', PHP_INT_MAX, 2 );
	add_filter( 'is_active_sidebar', $own . 'gather_sidebar', PHP_INT_MAX, 2 );
	add_action( 'dynamic_sidebar_before', $own . 'gather_sidebar_shown', PHP_INT_MAX );
	add_action( 'dynamic_sidebar', $own . 'gather_widget', PHP_INT_MAX );
	add_filter( 'get_block_templates', $own . 'gather_templates', PHP_INT_MAX, 3 );
	add_filter( 'render_block', $own . 'gather_block', PHP_INT_MAX, 2 );
	// Not earlier: during its startup, WordPress reads settings that no page shows.
	add_action( 'parse_request', $own . 'gather_options', PHP_INT_MIN );
}

function gather_options(): void {
	foreach ( READ_OPTIONS as $option ) {
		add_filter( "option_$option", __NAMESPACE__ . '\\gather_option', PHP_INT_MAX, 2 );
		// For an option that was never saved.
		add_filter( "default_option_$option", __NAMESPACE__ . '\\gather_option', PHP_INT_MAX, 2 );
	}
}

/**
 * Adds the tags of the theme settings that code read for the page. WordPress counts by name how often filters ran, and each setting has its
 * own filter. A setting that code read in another way is unknown.
 */
function gather_mods(): void {
	foreach ( mods_read( $GLOBALS['wp_filters'] ?? array(), (string) get_option( 'stylesheet' ), has_tag( 'ht' ) ) as $tag ) {
		tag( $tag );
	}
}

/**
 * Returns the tags of the theme settings that code read, from the number of times that filters ran. Pure.
 *
 * @param int[]  $filters  Number of runs by name.
 * @param string $theme    Name of the theme.
 * @param bool   $is_drawn Whether the page has the head of the theme, where WordPress itself uses some settings.
 * @return string[]
 */
function mods_read( array $filters, string $theme, bool $is_drawn ): array {
	$tags  = array();
	$named = 0;
	foreach ( $filters as $filter => $times ) {
		if ( 0 === strncmp( (string) $filter, 'theme_mod_', 10 ) ) {
			$named += $times;
			$name   = substr( (string) $filter, 10 );
			if ( $is_drawn || ! in_array( $name, DRAWN_MODS, true ) ) {
				$tags[] = 'tm.' . word( $name );
			}
		}
	}
	if ( ! $filters || ( $filters[ "pre_option_theme_mods_$theme" ] ?? 0 ) > $named ) {
		$tags[] = 'tm';
	}
	return $tags;
}

function gather_menu( $items, $menu = null ) {
	if ( isset( $menu->term_id ) ) {
		tag( 'm' . (int) $menu->term_id );
	}
	foreach ( is_array( $items ) ? $items : array() as $item ) {
		if ( 'post_type' === ( $item->type ?? '' ) ) {
			tag( 'pl' . (int) $item->object_id );
		} elseif ( 'taxonomy' === ( $item->type ?? '' ) ) {
			tag( 'tl' . (int) $item->object_id );
		}
	}
	return $items;
}

/**
 * Adds the tag for whether a sidebar has widgets. Only pages that show the sidebar depend on which widgets it has.
 */
function gather_sidebar( $is_active, $index = '' ) {
	tag( 'sa.' . word( is_numeric( $index ) ? "sidebar-$index" : sanitize_title( (string) $index ) ) );
	return $is_active;
}

function gather_sidebar_shown( $index ): void {
	tag( 'sb.' . word( (string) $index ) );
}

function gather_widget( $widget ): void {
	if ( isset( $widget['id'] ) ) {
		tag( 'w.' . word( (string) $widget['id'] ) );
	}
}

/**
 * Adds the tags of the templates that WordPress looked up, in their order: of the first one that exists, and of those before it, which
 * would replace it.
 */
function gather_templates( $templates, $query = array(), $type = 'wp_template' ) {
	if ( 'wp_template' !== $type || ! is_array( $templates ) ) {
		return $templates;
	}
	$found = array();
	foreach ( $templates as $template ) {
		$found[ (string) ( $template->slug ?? '' ) ] = true;
	}
	if ( empty( $query['slug__in'] ) ) {
		tag( 'l.wp_template' );
	}
	foreach ( (array) ( $query['slug__in'] ?? array() ) as $slug ) {
		tag( 'tp.' . word( (string) $slug ) );
		if ( isset( $found[ (string) $slug ] ) ) {
			tag( 'tu.' . word( (string) $slug ) );
			break;
		}
	}
	return $templates;
}

/**
 * Adds the tags of blocks that show content from elsewhere.
 */
function gather_block( $html, $block = array() ) {
	$with = $block['attrs'] ?? array();
	switch ( $block['blockName'] ?? '' ) {
		case 'core/block':
		case 'core/navigation':
			if ( ! empty( $with['ref'] ) ) {
				tag( 'p' . (int) $with['ref'] );
			}
			break;
		case 'core/navigation-link':
		case 'core/navigation-submenu':
			if ( ! empty( $with['id'] ) ) {
				tag( ( 'taxonomy' === ( $with['kind'] ?? '' ) ? 'tl' : 'pl' ) . (int) $with['id'] );
			}
			break;
		case 'core/template-part':
			tag( 'tu.' . word( (string) ( $with['slug'] ?? '' ) ) );
			tag( 'tp.' . word( (string) ( $with['slug'] ?? '' ) ) );
			break;
		case 'core/query':
			if ( ! empty( $with['query']['sticky'] ) ) {
				tag( 'st' );
			}
			break;
		case 'core/query-total':
			tag( 'l.post' );
			break;
	}
	return $html;
}

/**
 * Adds the tag of an option that code reads for the page. Reads for default scripts, which most pages do not have, do not count.
 */
function gather_option( $value, $option = '' ) {
	if ( ! has_tag( "op.$option" ) && ! doing_action( 'wp_default_scripts' ) ) {
		tag( "op.$option" );
	}
	return $value;
}
