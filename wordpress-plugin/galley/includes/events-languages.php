<?php
/**
 * Changes of languages and translations (Polylang, WPML), whose pages link to each other.
 *
 * Polylang keeps languages, the language of each post, and the group of its translations as terms; the settings `polylang` name the
 * menus of each language, and a field of the language's term its strings.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Groups of translations: the description of a term names their posts or terms by language. */
const GROUP_TAXONOMIES = array( 'post_translations', 'term_translations' );

/** What Polylang keeps as terms that are no subject of a page. */
const LANGUAGE_TAXONOMIES = array( 'language', 'term_language', 'post_translations', 'term_translations' );

/** The field of a language with the texts of the site and its plugins. */
const STRINGS_FIELD = '_pll_strings_translations';

add_action( 'pll_save_post', __NAMESPACE__ . '\\on_polylang_post', 10, 3 );
add_filter( 'pll_is_cache_active', __NAMESPACE__ . '\\has_cache' );
add_action( 'wpml_after_save_post', __NAMESPACE__ . '\\on_wpml_post', 10, 2 );

/**
 * Tells Polylang that there is a cache. Else it sends each visitor a cookie with the language of the page, and Galley stores no page that
 * sets a cookie; now a script of the page sets it.
 *
 * @param bool $is Whether Polylang knows of one.
 */
function has_cache( $is ) {
	return $is || passes_through();
}

/**
 * Which language a page has says Polylang alone. Strings of a language may be on any of its pages.
 */
function gather_language(): void {
	$language = function_exists( 'pll_current_language' ) ? pll_current_language( 'term_id' ) : 0;
	if ( is_numeric( $language ) && (int) $language > 0 ) {
		tag( 'ln' . (int) $language );
	}
}

/**
 * Pages of the translations link to a post that everybody can see, and have its address as a tag. When it appears, none has.
 *
 * @param int   $id           Post id.
 * @param mixed $post         The post.
 * @param array $translations Ids by language, this one included.
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
 * @param int $id    Post id.
 * @param int $group The id that translations have in common.
 */
function on_wpml_post( $id, $group = 0 ): void {
	// phpcs:ignore WordPress.NamingConventions.PrefixAllGlobals -- of WPML.
	$translations = apply_filters( 'wpml_get_element_translations', null, (int) $group, 'post_' . get_post_type( (int) $id ) );
	$ids          = array();
	foreach ( is_array( $translations ) ? $translations : array() as $translation ) {
		$ids[] = (int) ( $translation->element_id ?? 0 );
	}
	queue_translations( (int) $id, $ids );
}

/**
 * Each translation of a post links to the others. A draft that visitors have never seen is linked by none.
 *
 * @param int   $id  Of the post that has changed; its own pages are purged without this.
 * @param int[] $ids Of its translations.
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
 * Orders what has changed of a term of Polylang's.
 */
function queue_language_term( array $old, ?array $new ): void {
	if ( in_array( $old['taxonomy'], GROUP_TAXONOMIES, true ) ) {
		queue_group( $old['taxonomy'], translations_in( $old['description'] ), $new ? translations_in( $new['description'] ) : array() );
	} elseif ( 'language' === $old['taxonomy'] ) {
		queue_purge( language_tags( $old, $new ) );
	}
}

function on_new_language_term( int $term_id, string $taxonomy ): void {
	$term = get_term( $term_id, $taxonomy );
	if ( ! $term instanceof \WP_Term ) {
		return;
	}
	if ( in_array( $taxonomy, GROUP_TAXONOMIES, true ) ) {
		queue_group( $taxonomy, array(), translations_in( $term->description ) );
	} elseif ( 'language' === $taxonomy ) {
		// Its front page was not found until now.
		queue_purge_of_word( rtrim( (string) wp_parse_url( home_url( '/' ), PHP_URL_PATH ), '/' ) . "/$term->slug/" );
	}
}

/**
 * The switcher of every page shows the languages that have posts. Pure.
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
 * The members of a group: ids by language. Pure.
 *
 * @param string $description Of the group's term.
 * @return array<string, int>
 */
function translations_in( string $description ): array {
	// phpcs:ignore WordPress.PHP -- as Polylang writes it, without objects; anything else is no group.
	$group = @unserialize( $description, array( 'allowed_classes' => false ) );
	return is_array( $group ) ? array_map( 'intval', array_filter( $group, 'is_scalar' ) ) : array();
}

/**
 * Another member of a group changes the pages of the others, if everybody can see it.
 *
 * @param array<string, int> $old Ids by language.
 * @param array<string, int> $new The same after the change.
 */
function queue_group( string $taxonomy, array $old, array $new ): void {
	$moved = array_values( array_unique( array_merge( array_values( array_diff_assoc( $old, $new ) ), array_values( array_diff_assoc( $new, $old ) ) ) ) );
	if ( 'post_translations' === $taxonomy ) {
		$moved = array_filter(
			$moved,
			static function ( int $id ): bool {
				$post = get_post( $id );
				return ! $post instanceof \WP_Post || is_public( $post );
			}
		);
	}
	queue_purge( group_tags( $taxonomy, array_merge( array_values( $old ), array_values( $new ) ), $moved ) );
}

/**
 * The pages of those members of a group beside which another one appears or goes. Pure.
 *
 * @param int[] $members Before and after.
 * @param int[] $moved   Those that came or went and that everybody can see.
 * @return string[]
 */
function group_tags( string $taxonomy, array $members, array $moved ): array {
	$tags = array();
	foreach ( array_unique( $members ) as $id ) {
		if ( array_diff( $moved, array( $id ) ) ) {
			$tags[] = ( 'post_translations' === $taxonomy ? 'p' : 't' ) . $id;
		}
	}
	return $tags;
}

/**
 * Polylang's settings: everything, but for the menus of each language, which are on the pages of one. Pure.
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
			// Where there was none, pages only looked for one.
			$tags = array_merge( $tags, $menu ? array( "m$menu", "ml$menu" ) : array( 'tm.nav_menu_locations' ) );
		}
	}
	return array_values( array_unique( $tags ) );
}

/**
 * Ids of menus by theme, location and language in one word. Pure.
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
