<?php
/**
 * Records which options and transients PHP reads for a page.
 *
 * WordPress counts by name how often each filter ran, and each option has a filter of its own (`pre_option_NAME`). So at the end of a page the names of
 * all options are known, those included that code read before WordPress loaded this plugin, and reading an option costs nothing more.
 * Only within a fragment a callback records the names, so that they become tags of the fragment.
 *
 * Options whose changes other files describe exactly, and those that no page shows, do not count. The others have the tag `op.NAME`, and
 * transients are options: `op._transient_NAME`. Changes are in writes.php.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Options that events-options.php and events-site.php describe by other tags than their names. */
const DESCRIBED_OPTIONS = array( 'sidebars_widgets', 'sticky_posts', 'show_on_front', 'page_on_front', 'page_for_posts', 'posts_per_page', 'posts_per_rss', 'polylang', 'active_plugins' );

/**
 * Options that no page shows, besides `QUIET_OPTIONS`: those of this plugin, locks, numbers that only
 * are parts of the keys of caches, and transients in which WordPress keeps facts about its code, about other servers and about users (`lu`). Each edit of
 * a product empties caches of WooCommerce, and of a language those of Polylang; gather-shops.php and gather-filters.php describe what they contain.
 * Easy Digital Downloads (3.6.5) reads the licences of its extensions on each page, and writes the time with them in each request of the administration.
 */
const QUIET_PATTERN = '/^(?:galley_|_(?:site_)?transient_(?:timeout_)?(?:doing_cron$|is_multi_author$|global_styles|wp_core_block_css_files|wp_styles_for_blocks|wp_theme_files_patterns|theme_roots|random_seed|update_|plugin_slugs|settings_errors|health-check|dash_|browser_|php_check_|wp_remote_block_patterns_|community-events|available_translations|poptags_|wporg_|dirsize_cache|wc_(?:products_onsale|featured_products|var_prices_|related_|product_children_|product_loop|child_has_|term_counts|layered_nav)|pll_languages_list))|edd_licensed_extensions$|(?:\.lock|-transient-version|_last_changed)$/D';

/** Described options that other code, too, reads to show something. */
const FRONT_OPTIONS = array( 'sticky_posts', 'show_on_front', 'page_on_front', 'page_for_posts' );

/** Maximum number of words at the beginning of an option's name that have a tag. */
const MAX_STARTS = 6;

/** Maximum number of options that the tags of a page name. Above it, the page depends on all of them (`op`). */
const MAX_OPTIONS = 250;

/** Number of reads within fragments, by filter. */
$GLOBALS['galley_read_inside'] = array();

/** Transients that were read within the open fragment, and options with their times, as keys. */
$GLOBALS['galley_transients_inside'] = array();

/**
 * Records the options that code reads from now on as read within a fragment or a private part.
 */
function begin_inside(): void {
	add_filter( 'pre_option', __NAMESPACE__ . '\\note_option_inside', PHP_INT_MAX, 2 );
}

function end_inside(): void {
	// These reads count as within the fragment, too.
	foreach ( array_keys( $GLOBALS['galley_transients_inside'] ) as $name ) {
		end_with_transient( (string) $name, false );
	}
	$GLOBALS['galley_transients_inside'] = array();
	remove_filter( 'pre_option', __NAMESPACE__ . '\\note_option_inside', PHP_INT_MAX );
}

function note_option_inside( $value, $option = '' ) {
	$filter = "pre_option_$option";

	$GLOBALS['galley_read_inside'][ $filter ] = ( $GLOBALS['galley_read_inside'][ $filter ] ?? 0 ) + 1;
	tag_options( array( (string) $option ) );
	if ( is_transient( (string) $option ) && is_observed_option( (string) $option ) ) {
		tag( 'ot' );
		$GLOBALS['galley_transients_inside'][ $option ] = true;
	}
	return $value;
}

/**
 * Lets the page depend on all options if code other than WordPress's own reads the array of them, or, if this code only asks which names exist, on
 * options that are created or deleted (`oe`). Code that fills WordPress's list of missing options changes no page: it saves WordPress a statement for
 * options that the page then reads by their names.
 */
function note_all_options( $options ) {
	// phpcs:ignore WordPress.PHP.DevelopmentFunctions -- finds the caller of `wp_load_alloptions()`.
	$frames = debug_backtrace( DEBUG_BACKTRACE_IGNORE_ARGS, 6 );
	if ( is_read_by_others( 'wp_load_alloptions', $frames ) ) {
		foreach ( tags_of_all_options( code_of_caller( 'wp_load_alloptions', $frames ) ) as $tag ) {
			tag( $tag );
		}
	}
	return $options;
}

/**
 * Returns the tags of a page on which code reads the array of all options. Pure.
 *
 * @param string $code Source of the function that reads it.
 * @return string[]
 */
function tags_of_all_options( string $code ): array {
	if ( ! asks_for_names_only( $code ) ) {
		return array( 'op' );
	}
	return preg_match( '/\bwp_cache_set\(\s*.notoptions.,/', $code ) ? array() : array( 'oe' );
}

/**
 * Returns the source of the named function that calls another one, or an empty string.
 *
 * @param array[] $frames Frames of `debug_backtrace()`.
 */
function code_of_caller( string $called, array $frames ): string {
	static $known = array();
	$at           = array_search( $called, array_column( $frames, 'function' ), true );
	$frame        = false === $at ? array() : ( $frames[ $at + 1 ] ?? array() );
	$name         = ( isset( $frame['class'] ) ? "$frame[class]::" : '' ) . ( $frame['function'] ?? '' );
	if ( ! isset( $known[ $name ] ) ) {
		$known[ $name ] = '';
		try {
			$function = isset( $frame['class'] ) ? new \ReflectionMethod( $frame['class'], $frame['function'] ) : new \ReflectionFunction( $name );
			if ( ! is_file( (string) $function->getFileName() ) ) {
				// A function of PHP, or of code that is kept in the database.
				return '';
			}
			$lines          = array_slice( (array) file( (string) $function->getFileName() ), $function->getStartLine() - 1, $function->getEndLine() - $function->getStartLine() + 1 );
			$known[ $name ] = implode( '', $lines );
		} catch ( \ReflectionException $failure ) {
			// A closure, or a file that is included.
			return '';
		}
	}
	return $known[ $name ];
}

/**
 * Returns whether a function asks the array of all options only for names: `isset( $all[ $name ] )`. Pure.
 *
 * bbPress does so on each page, to spare statements for options that do not exist. It then reads options by their names.
 */
function asks_for_names_only( string $code ): bool {
	static $known = array();
	if ( isset( $known[ $code ] ) || '' === $code || ! function_exists( 'token_get_all' ) ) {
		return $known[ $code ] ?? false;
	}
	$known[ $code ] = false;
	$plain          = '';
	foreach ( token_get_all( "<?php $code" ) as $token ) {
		$plain .= is_array( $token ) && in_array( $token[0], array( T_COMMENT, T_DOC_COMMENT, T_INLINE_HTML ), true ) ? ' ' : ( $token[1] ?? $token );
	}
	if ( 1 !== preg_match_all( '/\bwp_load_alloptions\b/', $plain ) || ! preg_match( '/(?<![\w$>&])(\$\w+)\s*=\s*wp_load_alloptions\s*\(\s*\)\s*;/', $plain, $found ) ) {
		return false;
	}
	$name           = preg_quote( $found[1], '/' );
	$asks           = preg_match_all( "/\\bisset\\(\\s*$name\\s*\\[(?:[^][()]|\\[[^][()]*\\])*\\]\\s*\\)/", $plain );
	$known[ $code ] = preg_match_all( "/$name\\b/", $plain ) === $asks + 1 && ! preg_match( '/\$\$|\$\{|\b(?:compact|extract|eval|get_defined_vars|func_get_args?|include|require)(?:_once)?\b/i', $plain );
	return $known[ $code ];
}

/**
 * Adds the tag of a setting that WordPress itself reads for each page, and that other tags describe there, if other code reads it.
 */
function note_front_option( $value, $option = '' ) {
	// phpcs:ignore WordPress.PHP.DevelopmentFunctions -- finds the caller of `get_option()`.
	if ( is_read_by_others( 'get_option', debug_backtrace( DEBUG_BACKTRACE_IGNORE_ARGS, 5 ) ) ) {
		tag( "op.$option" );
	}
	return $value;
}

/**
 * Returns whether a file of neither WordPress nor this plugin calls a function.
 *
 * @param array[] $frames Frames of `debug_backtrace()`.
 */
function is_read_by_others( string $reader, array $frames ): bool {
	static $core = '';
	foreach ( $frames as $frame ) {
		if ( $reader === $frame['function'] ) {
			$file = (string) ( $frame['file'] ?? '' );
			if ( $file === $core || 0 === strncmp( $file, __DIR__ . DIRECTORY_SEPARATOR, strlen( __DIR__ ) + 1 ) ) {
				return false;
			}
			if ( is_core_file( $file ) ) {
				// The next read is often in the same file.
				$core = $file;
				return false;
			}
			return true;
		}
	}
	return false;
}

/**
 * Returns whether the tag `op.NAME` of an option is the only thing that describes its changes.
 */
function is_observed_option( string $name ): bool {
	static $known = null;
	$known        = $known ?? array_fill_keys( array_merge( READ_OPTIONS, WHOLE_OPTIONS, QUIET_OPTIONS, DESCRIBED_OPTIONS ), false );
	if ( ! isset( $known[ $name ] ) && count( $known ) < 2000 ) {
		$known[ $name ] = ! preg_match( QUIET_PATTERN, $name );
	}
	return ( $known[ $name ] ?? ! preg_match( QUIET_PATTERN, $name ) ) && ! is_widget_option( $name ) && ! is_tree_option( $name ) && ! is_unshown_option( $name );
}

/**
 * Returns whether the site says that no page shows an option.
 */
function is_unshown_option( string $name ): bool {
	/**
	 * Filters the names of options that no page shows: pages that read them do not depend on them.
	 */
	return has_filter( 'galley_unshown_options' ) && in_array( $name, (array) apply_filters( 'galley_unshown_options', array() ), true );
}

/**
 * Returns whether an option has the settings of widgets of one type, whose changes have the tags of the widgets: a type of WordPress, also if the
 * theme does not offer it, or one that other code has registered.
 */
function is_widget_option( string $name ): bool {
	if ( 0 !== strncmp( $name, 'widget_', 7 ) ) {
		return false;
	}
	if ( in_array( substr( $name, 7 ), array_merge( PLAIN_WIDGETS, array( 'recent-comments', 'recent_entries', 'recent_comments' ) ), true ) ) {
		return true;
	}
	foreach ( $GLOBALS['wp_widget_factory']->widgets ?? array() as $widget ) {
		if ( in_array( $name, array( $widget->option_name, $widget->alt_option_name ?? null ), true ) ) {
			return true;
		}
	}
	return false;
}

/**
 * Returns whether an option has the tree of the terms of a taxonomy, whose changes have the tags of the terms.
 */
function is_tree_option( string $name ): bool {
	return '_children' === substr( $name, -9 ) && taxonomy_exists( substr( $name, 0, -9 ) );
}

/**
 * Returns whether the tag `so.NAME` of a setting of the network is the only thing that describes its changes.
 */
function is_observed_network_option( string $name ): bool {
	return ! in_array( $name, NETWORK_OPTIONS, true ) && ! in_array( $name, QUIET_NETWORK_OPTIONS, true ) && ! preg_match( QUIET_PATTERN, $name );
}

/**
 * Adds the tags of options of the current blog.
 *
 * @param string[] $names Names of options.
 */
function tag_options( array $names ): void {
	foreach ( $names as $name ) {
		// WordPress does not read a transient whose time is over.
		$name = transient_of_timeout( $name );
		if ( is_observed_option( $name ) && ! is_own_mods( $name ) && ! is_rendered( $name ) ) {
			tag( 'op.' . word( $name ) );
		}
	}
}

/**
 * Returns whether an option has the settings of the theme, which have tags of their own (`tm`).
 */
function is_own_mods( string $name ): bool {
	return 0 === strncmp( $name, 'theme_mods_', 11 ) && 'theme_mods_' . get_option( 'stylesheet' ) === $name;
}

function is_timeout( string $name ): bool {
	return 0 === strncmp( $name, '_transient_timeout_', 19 ) || 0 === strncmp( $name, '_site_transient_timeout_', 24 );
}

/**
 * Returns the option with the value of a transient for the one with its time, and other names as they are.
 */
function transient_of_timeout( string $name ): string {
	return is_timeout( $name ) ? preg_replace( '/timeout_/', '', $name, 1 ) : $name;
}

/**
 * Returns whether the page renders the HTML in a transient itself (kept-html.php), so that it does not depend on what is kept.
 */
function is_rendered( string $option ): bool {
	$key = transient_of( $option );
	return null !== $key && isset( $GLOBALS['galley_kept_rendered'][ "transient:$key" ] );
}

/**
 * Returns the options that code read, from the number of times that filters ran: first those of the blog, then those of the network. Pure.
 *
 * @param int[] $filters    Number of runs by name.
 * @param int[] $inside     Number of runs that do not count.
 * @param bool  $has_cache  Whether transients are in a persistent object cache.
 * @param bool  $is_network Whether settings of the network have a table of their own.
 * @return array{string[], string[]}
 */
function options_read( array $filters, array $inside, bool $has_cache, bool $is_network ): array {
	$own     = array();
	$network = array();
	foreach ( $filters as $filter => $times ) {
		$filter = (string) $filter;
		if ( 0 !== \strncmp( $filter, 'pre_', 4 ) ) {
			continue;
		}
		if ( 0 === strncmp( $filter, 'pre_option_', 11 ) ) {
			if ( $times > ( $inside[ $filter ] ?? 0 ) ) {
				$own[] = substr( $filter, 11 );
			}
		} elseif ( $has_cache && 0 === strncmp( $filter, 'pre_transient_', 14 ) ) {
			$own[] = substr( $filter, 3 );
		} elseif ( $has_cache && 0 === strncmp( $filter, 'pre_site_transient_', 19 ) ) {
			$network[] = substr( $filter, 3 );
		} elseif ( $is_network && 0 === strncmp( $filter, 'pre_site_option_', 16 ) ) {
			$network[] = substr( $filter, 16 );
		}
	}
	return array( $own, $network );
}

/**
 * Adds the tags of the options that code read for the page, and ends its lifetime with that of its transients.
 */
function gather_read_options(): void {
	$filters              = $GLOBALS['wp_filters'] ?? array();
	list( $own, $shared ) = options_read( $filters, $GLOBALS['galley_read_inside'], (bool) wp_using_ext_object_cache(), is_multisite() );
	$before               = $GLOBALS['galley_tags'];
	tag_options( $own );
	if ( count( $GLOBALS['galley_tags'] ) - count( $before ) > MAX_OPTIONS || ! $filters ) {
		$GLOBALS['galley_tags'] = $before;
		tag( 'op' );
	}
	foreach ( $shared as $name ) {
		if ( is_observed_network_option( $name ) ) {
			tag_network( ( is_multisite() ? 'so.' : 'op.' ) . word( transient_of_timeout( $name ) ) );
			end_with_transient( $name, is_multisite() );
		}
	}
	foreach ( $own as $name ) {
		if ( is_transient( $name ) && is_observed_option( $name ) ) {
			tag( 'ot' );
			end_with_transient( $name, false );
		}
	}
	if ( keeps_values() && preg_grep( '/^_(?:site_)?transient_/', array_merge( $own, $shared ) ) ) {
		// `wp_cache_flush()` deletes transients, too.
		tag_network( 'og' );
	}
}

/**
 * Ends the lifetime of the page with that of a transient. If the page found none and did not set it, it gets the tag that the first page that does
 * purges. WordPress has looked up the options, so this asks the database for nothing, except for a transient that it has deleted.
 *
 * @param string $name       Option with the time or the value. Others are ignored.
 * @param bool   $is_network Whether it is a setting of the network.
 */
function end_with_transient( string $name, bool $is_network ): void {
	$transient = transient_of_timeout( $name );
	if ( ! is_transient( $name ) || is_rendered( $transient ) ) {
		return;
	}
	$end = is_timeout( $name ) ? (int) ( $is_network ? get_site_option( $name ) : get_option( $name ) ) : 0;
	if ( $end > time() ) {
		at_most( $end - time() );
	}
	if ( is_missing_transient( $transient, $is_network ) ) {
		tag_network( ( $is_network ? '' : blog_prefix() ) . 'om.' . word( $transient ) );
	}
}

function is_missing_transient( string $name, bool $is_network ): bool {
	if ( wp_using_ext_object_cache() ) {
		$is_shared = 0 === strncmp( $name, '_site_', 6 );
		return false === wp_cache_get( substr( $name, $is_shared ? 16 : 11 ), $is_shared ? 'site-transient' : 'transient' );
	}
	return false === ( $is_network ? get_site_option( $name ) : get_option( $name ) );
}

/**
 * Returns whether a statement is the one with which WordPress loads the options, or one of this plugin. Pure.
 */
function is_own_statement( string $sql ): bool {
	return (bool) preg_match( '/^\s*SELECT option_name(?:, option_value)? FROM \S+(?: WHERE autoload (?:= \'yes\'|IN \([\s\w\',-]*\))| WHERE option_name LIKE \'galley[^\']*\'[^\']*)\s*$/D', $sql );
}

/**
 * Records what a statement reads from a table of options, past WordPress's functions for it.
 *
 * @param string $table Name as in the statement.
 */
function note_options_statement( string $sql, string $table ): void {
	if ( is_own_statement( $sql ) ) {
		return;
	}
	$names = options_in_statement( $sql );
	$start = null === $names && $GLOBALS['wpdb']->options === $table ? start_of_names( $sql ) : '';
	if ( '' !== $start ) {
		tag( 'ob' );
		tag( "ob.$start" );
		return;
	}
	if ( null === $names || array( ALL_TRANSIENTS ) === $names || $GLOBALS['wpdb']->options !== $table ) {
		tag_network( prefix_of_options( $table ) . 'op' );
		return;
	}
	tag_options( $names );
	foreach ( array_intersect( $names, READ_OPTIONS ) as $name ) {
		tag( "op.$name" );
	}
}

/**
 * Returns the beginning of the names of all options that a statement can read, up to the last place where `tags_of_starts()` cuts names, or an
 * empty string. Pure.
 *
 * Many plugins ask on each page whether a task of theirs waits: `SELECT COUNT(*) FROM wp_options WHERE option_name LIKE 'wp\_x\_batch\_%'`.
 */
function start_of_names( string $sql ): string {
	$pattern = '/^\s*SELECT\s(?:(?!\b(?:FROM|SELECT)\b)[^\'"\/#-])*\bFROM\s+`?\w+`?\s+WHERE\s+`?option_name`?\s+LIKE\s+(["\'])((?:[A-Za-z0-9.-]|\\\\{1,2}_)+)%\1\s*(?:(?:ORDER|LIMIT)\b[\w\s`,.]*)?;?\s*$/iD';
	$tags    = preg_match( $pattern, $sql, $found ) ? tags_of_starts( str_replace( '\\', '', $found[2] ) ) : array();
	$start   = $tags ? substr( end( $tags ), 3 ) : '';
	return '' === $start || 0 === strpos( '_transient_', $start ) || 0 === strpos( '_site_transient_', $start ) ? '' : $start;
}

/**
 * Returns the tags of the beginnings of an option's name: `ob.wp_` and `ob.wp_cron_` for `wp_cron_x`; `ob` stands for any. Pure.
 *
 * @return string[]
 */
function tags_of_starts( string $name ): array {
	if ( preg_match( '/[^\x20-\x7e]/', $name ) ) {
		// For the database, `e` may be the same as `é`.
		return array( 'ob' );
	}
	$tags = array();
	if ( ! is_transient( $name ) && preg_match_all( '/(?<=[a-z0-9])[_.-]/', strtolower( substr( $name, 0, 48 ) ), $found, PREG_OFFSET_CAPTURE ) ) {
		foreach ( array_slice( $found[0], 0, MAX_STARTS ) as list( , $at ) ) {
			$tags[] = 'ob.' . word( strtolower( substr( $name, 0, $at + 1 ) ) );
		}
	}
	return $tags;
}

/**
 * Returns the tags that a change of an option purges, without its class `op`.
 *
 * @return string[]
 */
function tags_of_option( string $name, string $prefix ): array {
	$tags = array( "{$prefix}op." . word( $name ) );
	foreach ( tags_of_starts( $name ) as $tag ) {
		$tags[] = $prefix . $tag;
	}
	return $tags;
}

/**
 * Returns the prefix of the tags of the blog to which a table of options belongs.
 */
function prefix_of_options( string $table ): string {
	if ( ! is_multisite() ) {
		return '';
	}
	return ( preg_match( '/_(\d+)_options$/D', $table, $found ) ? (int) $found[1] : get_main_site_id() ) . '.';
}
