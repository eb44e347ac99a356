<?php
/**
 * Detects changes of languages and translations (Polylang, WPML). The pages of translations link to each other.
 *
 * Polylang stores languages, the language of each post, and the group of its translations as terms. The option `polylang` contains the menus
 * of each language. A meta field of the language's term contains its strings.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Taxonomies of translation groups. The description of a term contains the posts or terms of the group by language. */
const GROUP_TAXONOMIES = array( 'post_translations', 'term_translations' );

/** Taxonomies of Polylang whose terms have no pages. */
const LANGUAGE_TAXONOMIES = array( 'language', 'term_language', 'post_translations', 'term_translations' );

/** What the source of code contains that may ask Polylang for languages without posts, or change where Polylang links to them. */
const LISTS_LANGUAGES = '/\bPLL\s*\(|(?-i:PLL_[A-Z])|\$polylang\b|WP_Syntex|get_languages_list|icl_get_languages|icl_ls_languages|wpml_active_languages|pll_(?:languages_list|hide_archive|rel_hreflang|(?:pre_)?translation_url)|\beval\s*\(/i';

/** Maximum time of the search for such code, in seconds. After it, there may be some. */
const SEARCH_SECONDS = 2;

/** Meta field of a language's term that contains the strings of the site and its plugins. */
const STRINGS_FIELD = '_pll_strings_translations';

add_action( 'pll_save_post', __NAMESPACE__ . '\\on_polylang_post', 10, 3 );
add_filter( 'pll_is_cache_active', __NAMESPACE__ . '\\has_cache' );
add_action( 'wp_loaded', __NAMESPACE__ . '\\watch_switchers' );
add_action( 'wpml_after_save_post', __NAMESPACE__ . '\\on_wpml_post', 10, 2 );

/**
 * Makes Polylang recognize that a page cache is active.
 *
 * Otherwise Polylang sends each visitor a cookie with the language of the page, and Galley does not store pages that set a cookie. If Polylang
 * recognizes a cache, a script in the page sets the cookie.
 *
 * @param bool $is Whether Polylang has detected a cache.
 */
function has_cache( $is ) {
	return $is || passes_through();
}

/**
 * Adds the tag of the page's language, which only Polylang knows. Any page of a language may contain the strings of that language.
 */
function gather_language(): void {
	$language = function_exists( 'pll_current_language' ) ? pll_current_language( 'term_id' ) : 0;
	if ( is_numeric( $language ) && (int) $language > 0 ) {
		tag( 'ln' . (int) $language );
	}
	$map = (string) get_query_var( 'sitemap' );
	// These link to the ones of all languages: the heads of front pages and searches, with Yoast SEO also of their further pages, and sitemaps, except parts of WordPress's.
	$is_linked = ( is_home() || is_front_page() || is_search() ) && ( ! is_paged() || defined( 'WPSEO_VERSION' ) );
	if ( function_exists( 'pll_the_languages' ) && ( $is_linked || ! in_array( $map, array( '', 'posts', 'taxonomies', 'users' ), true ) ) ) {
		tag( 'le' );
	}
}

/**
 * Watches the settings of language switchers. Polylang 3.9 reports callbacks of the older filter.
 */
function watch_switchers(): void {
	if ( function_exists( 'pll_the_languages' ) ) {
		$is_new = class_exists( 'WP_Syntex\\Polylang\\Switcher\\Switcher' );
		add_filter( $is_new ? 'pll_language_switcher_settings' : 'pll_the_languages_args', __NAMESPACE__ . '\\note_switcher', PHP_INT_MAX );
	}
}

/**
 * Returns the settings of a language switcher, and adds the tag of pages that show languages without posts, if it shows them.
 *
 * @param mixed $settings Settings with `hide_if_empty`. Polylang hides these languages by default.
 */
function note_switcher( $settings ) {
	if ( is_array( $settings ) && empty( $settings['hide_if_empty'] ?? true ) ) {
		tag( 'le' );
	}
	return $settings;
}

/**
 * Queues purges for the translations of a post that appears or disappears.
 *
 * The pages of the translations link to a post that is visible to everyone, and have its address as a tag. When the post appears, no page has
 * this tag yet.
 *
 * @param int   $id           Post ID.
 * @param mixed $post         The post.
 * @param array $translations Post IDs by language, including this post.
 */
function on_polylang_post( $id, $post = null, $translations = array() ): void {
	$key = touched_key( (int) $id );
	$was = ! empty( $GLOBALS['galley_touched'][ $key ]['visible'] );
	$is  = $post instanceof \WP_Post && is_public( $post );
	if ( $was !== $is ) {
		queue_translations( (int) $id, is_array( $translations ) ? $translations : array() );
	}
}

/**
 * Queues purges for the translations of a post that WPML has saved.
 *
 * @param int $id    Post ID.
 * @param int $group ID that the translations share.
 */
function on_wpml_post( $id, $group = 0 ): void {
	// phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals -- a filter of WPML.
	$translations = apply_filters( 'wpml_get_element_translations', null, (int) $group, 'post_' . get_post_type( (int) $id ) );
	$ids          = array();
	foreach ( is_array( $translations ) ? $translations : array() as $translation ) {
		$ids[] = (int) ( $translation->element_id ?? 0 );
	}
	queue_translations( (int) $id, $ids );
}

/**
 * Queues purges for the translations of a post, since each of them links to the others. No page links to a draft that visitors have never
 * seen.
 *
 * @param int   $id  ID of the changed post. Other code purges the pages of this post.
 * @param int[] $ids IDs of its translations.
 */
function queue_translations( int $id, array $ids ): void {
	if ( 'auto-draft' === get_post_status( $id ) ) {
		return;
	}
	foreach ( array_diff( array_map( 'intval', $ids ), array( $id, 0 ) ) as $other ) {
		queue_purge( "p$other" );
	}
}

/**
 * Queues purges for everything that has changed in a term of Polylang.
 */
function queue_language_term( array $old, ?array $new ): void {
	if ( in_array( $old['taxonomy'], GROUP_TAXONOMIES, true ) ) {
		queue_group( $old['taxonomy'], translations_in( $old['description'] ), $new ? translations_in( $new['description'] ) : array() );
	} elseif ( 'language' === $old['taxonomy'] ) {
		queue_purge( language_tags( $old, $new ) );
	}
}

/**
 * Returns whether code of plugins and themes may ask Polylang for languages without posts. No filter tells which page does.
 */
function others_list_languages(): bool {
	$polylang = function_exists( 'pll_the_languages' ) ? (string) ( new \ReflectionFunction( 'pll_the_languages' ) )->getFileName() : '';
	$until    = microtime( true ) + SEARCH_SECONDS;
	foreach ( places_of_code( $polylang ) as $place ) {
		try {
			$files = is_dir( $place ) ? new \RecursiveIteratorIterator( new \RecursiveDirectoryIterator( $place, \FilesystemIterator::FOLLOW_SYMLINKS ), \RecursiveIteratorIterator::LEAVES_ONLY, \RecursiveIteratorIterator::CATCH_GET_CHILD ) : array( $place );
			foreach ( $files as $file ) {
				$is_code = preg_match( '/\.(?:php\d?|inc|phtml|twig|latte|tpl)$/iD', (string) $file ) && (string) $file !== $polylang;
				if ( microtime( true ) > $until || ( $is_code && lists_languages( (string) file_get_contents( (string) $file ) ) ) ) {
					return true;
				}
			}
		} catch ( \UnexpectedValueException $unreadable ) {
			return true;
		}
	}
	return false;
}

/**
 * Returns whether code may ask Polylang for languages without posts. Code that is evaluated may do anything. Pure.
 *
 * @param string $code Source of a file.
 */
function lists_languages( string $code ): bool {
	return 0 !== preg_match( LISTS_LANGUAGES, $code );
}

/**
 * Returns the folders and files with code of active plugins and the theme, and other files of this request; not Polylang, WordPress and this plugin.
 *
 * @param string $polylang A file of Polylang.
 * @return string[]
 */
function places_of_code( string $polylang ): array {
	$is_within = static function ( string $file, string $folder ): bool {
		return '' !== $folder && 0 === strpos( $file, $folder . DIRECTORY_SEPARATOR );
	};
	$all       = (string) realpath( WP_PLUGIN_DIR );
	$places    = array( WPMU_PLUGIN_DIR, get_template_directory(), get_stylesheet_directory() );
	$plugins   = array_merge( wp_get_active_and_valid_plugins(), is_multisite() ? wp_get_active_network_plugins() : array() );
	foreach ( $plugins as $file ) {
		$folder = (string) realpath( dirname( $file ) );
		if ( dirname( __DIR__ ) !== $folder && ( $all === $folder || ! $is_within( $polylang, $folder ) ) ) {
			$places[] = $all === $folder ? $file : $folder;
		}
	}
	foreach ( get_included_files() as $file ) {
		if ( ! is_core_file( $file ) && ! $is_within( $file, $all ) && ! $is_within( $file, dirname( __DIR__ ) ) ) {
			$places[] = $file;
		}
	}
	return array_unique( array_filter( array_map( 'realpath', $places ) ) );
}

function on_new_language_term( int $term_id, string $taxonomy ): void {
	$term = get_term( $term_id, $taxonomy );
	if ( ! $term instanceof \WP_Term ) {
		return;
	}
	if ( in_array( $taxonomy, GROUP_TAXONOMIES, true ) ) {
		queue_group( $taxonomy, array(), translations_in( $term->description ) );
	} elseif ( 'language' === $taxonomy ) {
		queue_purge( array( 'le', 'lta.language', 'lto.language' ) );
		if ( others_list_languages() ) {
			queue_purge( 'ht' );
		}
		// Until now, the address of its front page returned a 404 page.
		queue_purge_of_word( rtrim( (string) wp_parse_url( home_url( '/' ), PHP_URL_PATH ), '/' ) . "/$term->slug/" );
	}
}

/**
 * Returns the tags that a change of a language affects. The language switcher of every page shows the languages that have posts. Pure.
 *
 * @return string[]
 */
function language_tags( array $old, ?array $new ): array {
	if ( ! $new || differs( $old, $new, 'slug', 'description' ) ) {
		return array( 'b' );
	}
	return differs( $old, $new, 'name' ) || (bool) $old['count'] !== (bool) $new['count'] ? array( 'ht' ) : array();
}

/**
 * Returns the members of a translation group: IDs by language. Pure.
 *
 * @param string $description Description of the group's term.
 * @return array<string, int>
 */
function translations_in( string $description ): array {
	// phpcs:ignore WordPress.PHP -- the format of Polylang, without objects; anything else is not a group.
	$group = @unserialize( $description, array( 'allowed_classes' => false ) );
	return is_array( $group ) ? array_map( 'intval', array_filter( $group, 'is_scalar' ) ) : array();
}

/**
 * Queues purges for a translation group whose members change. The page of each member links to the others that are visible to everyone.
 *
 * @param array<string, int> $old IDs by language before the change.
 * @param array<string, int> $new IDs by language after the change.
 */
function queue_group( string $taxonomy, array $old, array $new ): void {
	$hidden = array_filter(
		'post_translations' === $taxonomy ? array_unique( array_merge( array_values( $old ), array_values( $new ) ) ) : array(),
		static function ( int $id ): bool {
			$post = get_post( $id );
			return $post instanceof \WP_Post && ! is_public( $post );
		}
	);
	queue_purge( group_tags( $taxonomy, $old, $new, $hidden ) );
}

/**
 * Returns the tags of the group members for which another member appears or disappears. A member that joins or leaves the group gains or loses
 * all others. Pure.
 *
 * @param array<string, int> $old    IDs by language before the change.
 * @param array<string, int> $new    IDs by language after the change.
 * @param int[]              $hidden Members to which no page links.
 * @return string[]
 */
function group_tags( string $taxonomy, array $old, array $new, array $hidden ): array {
	$tags = array();
	foreach ( array_unique( array_merge( array_values( $old ), array_values( $new ) ) ) as $id ) {
		$others = array();
		foreach ( array( $old, $new ) as $group ) {
			$linked = in_array( $id, $group, true ) ? array_diff( $group, $hidden, array( $id ) ) : array();
			ksort( $linked );
			$others[] = $linked;
		}
		if ( $others[0] !== $others[1] ) {
			$tags[] = ( 'post_translations' === $taxonomy ? 'p' : 't' ) . $id;
		}
	}
	return $tags;
}

/**
 * Returns the tags that a change of Polylang's settings affects: all pages, except for the menus of a language. Only pages of that language
 * show these menus. Pure.
 *
 * @return string[]
 */
function polylang_tags( array $old, array $new ): array {
	$menus = array( (array) ( $old['nav_menus'] ?? array() ), (array) ( $new['nav_menus'] ?? array() ) );
	unset( $old['nav_menus'], $new['nav_menus'] );
	if ( $old !== $new ) {
		return array( 'b' );
	}
	list( $before, $after ) = array_map( __NAMESPACE__ . '\\menus_by_place', $menus );
	$tags                   = array();
	foreach ( array_keys( $before + $after ) as $place ) {
		$menu = $before[ $place ] ?? 0;
		if ( ( $after[ $place ] ?? 0 ) !== $menu ) {
			// If there was no menu before, pages only looked for one.
			$tags = array_merge( $tags, $menu ? array( "m$menu", "ml$menu" ) : array( 'tm.nav_menu_locations' ) );
		}
	}
	return array_values( array_unique( $tags ) );
}

/**
 * Returns menu IDs. Each key contains the theme, the location and the language. Pure.
 *
 * @return array<string, int>
 */
function menus_by_place( array $themes ): array {
	$found = array();
	foreach ( $themes as $theme => $locations ) {
		foreach ( (array) $locations as $location => $languages ) {
			foreach ( (array) $languages as $language => $menu ) {
				$found[ "$theme $location $language" ] = is_scalar( $menu ) ? (int) $menu : 0;
			}
		}
	}
	return $found;
}
