<?php
/**
 * A must-use plugin of the exactness run that stands in for Polylang: two languages in directories, translations of posts and terms,
 * menus and strings of a language, and a switcher on every page. It keeps them as Polylang's documentation says (terms of the taxonomies
 * `language` and `post_translations`, the setting `polylang`, fields of the language's term) and announces the same actions. It is
 * no copy, and it knows nothing of a cache.
 */

declare(strict_types=1);

add_action( 'init', 'exact_languages_types', 1 );
add_filter( 'query_vars', static fn( array $names ): array => array_merge( $names, array( 'lang' ) ) );
add_filter( 'rewrite_rules_array', 'exact_languages_rules', PHP_INT_MAX );
add_action( 'parse_request', 'exact_languages_begin' );
add_action( 'parse_query', 'exact_languages_query' );
foreach ( array( 'post_link', 'page_link' ) as $filter ) {
	add_filter( $filter, 'exact_languages_link', 20, 2 );
}
add_filter( 'term_link', 'exact_languages_term_link', 20, 2 );
add_filter( 'redirect_canonical', static fn( $url ) => 'de' === pll_current_language() ? false : $url );
add_filter( 'theme_mod_nav_menu_locations', 'exact_languages_menus', 20 );
add_filter( 'option_blogname', 'exact_languages_text', 20 );
add_action( 'wp_body_open', static fn() => pll_the_languages() );
add_action( 'wp_head', 'exact_languages_alternates' );
add_shortcode( 'all_languages', 'exact_languages_all' );
add_action( 'template_redirect', 'exact_languages_cookie' );
add_action( 'save_post', 'exact_languages_saved', 10, 2 );
add_action( 'before_delete_post', 'exact_languages_gone' );
add_action( 'edit_term', 'exact_languages_saved_term', 999, 3 );
foreach ( array( 'created_language', 'edited_language', 'edited_term_taxonomy' ) as $action ) {
	add_action( $action, static fn() => delete_transient( 'pll_languages_list' ) );
}

function exact_languages_types(): void {
	$hidden = array( 'public' => false, 'rewrite' => false, 'query_var' => false );
	register_taxonomy( 'language', array( 'post', 'page' ), $hidden );
	register_taxonomy( 'post_translations', array( 'post', 'page' ), $hidden );
	register_taxonomy( 'term_language', array( 'term' ), $hidden );
	register_taxonomy( 'term_translations', array( 'term' ), $hidden );
}

/** For the seed, in a request of its own. */
function exact_languages_add( string $slug, string $name ): void {
	wp_insert_term( $name, 'language', array( 'slug' => $slug ) );
}

/** Languages by slug, kept until a language changes: `term_id`, `name`, `count`. */
function exact_languages(): array {
	$kept = get_transient( 'pll_languages_list' );
	if ( ! is_array( $kept ) ) {
		$kept = array();
		foreach ( get_terms( array( 'taxonomy' => 'language', 'hide_empty' => false, 'orderby' => 'term_id' ) ) as $term ) {
			$kept[ $term->slug ] = array( 'term_id' => $term->term_id, 'place' => $term->term_taxonomy_id, 'name' => $term->name, 'count' => $term->count );
		}
		set_transient( 'pll_languages_list', $kept );
	}
	return $kept;
}

function pll_default_language(): string {
	return (string) ( get_option( 'polylang' )['default_lang'] ?? 'en' );
}

/** The language of the page at hand; false where there is none: REST, the administration, the command line. */
function pll_current_language( string $field = 'slug' ) {
	$slug = $GLOBALS['exact_language'] ?? '';
	if ( '' === $slug ) {
		return false;
	}
	return 'slug' === $field ? $slug : ( exact_languages()[ $slug ][ $field ] ?? false );
}

/** Below its directory every language has all addresses; the default one has none. */
function exact_languages_rules( array $rules ): array {
	$more = array();
	foreach ( array_diff( array_keys( exact_languages() ), array( pll_default_language() ) ) as $slug ) {
		$more[ "$slug/?$" ] = "index.php?lang=$slug";
		foreach ( $rules as $rule => $query ) {
			$more[ "$slug/" . ltrim( (string) $rule, '^' ) ] = "$query&lang=$slug";
		}
	}
	return $more + $rules;
}

function exact_languages_begin( WP $request ): void {
	if ( ! is_admin() && empty( $request->query_vars['rest_route'] ) ) {
		$slug                      = (string) ( $request->query_vars['lang'] ?? '' );
		$GLOBALS['exact_language'] = isset( exact_languages()[ $slug ] ) ? $slug : pll_default_language();
	}
}

/** Visitors get a cookie with the language of the page, unless some cache says that it is there. */
function exact_languages_cookie(): void {
	$slug = pll_current_language();
	if ( $slug && ! is_404() && ( $_COOKIE['pll_language'] ?? '' ) !== $slug && ! apply_filters( 'pll_is_cache_active', defined( 'WP_CACHE' ) && WP_CACHE ) ) {
		setcookie( 'pll_language', $slug, array( 'path' => '/', 'samesite' => 'Lax' ) );
	}
}

/** Lists of posts and pages show those of the language. */
function exact_languages_query( WP_Query $query ): void {
	$place = pll_current_language( 'place' );
	$types = (array) ( $query->query_vars['post_type'] ?: 'post' );
	if ( ! $place || $query->is_singular() || ! empty( $query->query_vars['p'] ) || array_diff( $types, array( 'post', 'page', 'any' ) ) || $query->is_tax() || ! empty( $query->query_vars['post__in'] ) ) {
		return;
	}
	$clauses                        = (array) ( $query->query_vars['tax_query'] ?? array() );
	$clauses[]                      = array( 'taxonomy' => 'language', 'field' => 'term_taxonomy_id', 'terms' => array( (int) $place ), 'operator' => 'IN' );
	$query->query_vars['tax_query'] = array_filter( $clauses );
}

/** The group of a post or a term: ids by language. Read past the functions that have filters, as Polylang does. */
function exact_languages_group( int $id, string $taxonomy ): array {
	$terms = wp_get_object_terms( $id, $taxonomy );
	$group = is_array( $terms ) && $terms ? maybe_unserialize( $terms[0]->description ) : array();
	return is_array( $group ) ? array_map( 'intval', $group ) : array();
}

function exact_languages_of( int $id, string $taxonomy ): string {
	$terms = wp_get_object_terms( $id, $taxonomy );
	return is_array( $terms ) && $terms ? $terms[0]->slug : '';
}

function pll_get_post_language( int $id ): string {
	return exact_languages_of( $id, 'language' );
}

function pll_get_post_translations( int $id ): array {
	return exact_languages_group( $id, 'post_translations' );
}

function pll_get_term_translations( int $id ): array {
	return exact_languages_group( $id, 'term_translations' );
}

function pll_set_post_language( int $id, string $slug ): void {
	wp_set_object_terms( $id, exact_languages()[ $slug ]['term_id'], 'language' );
}

function pll_set_term_language( int $id, string $slug ): void {
	wp_set_object_terms( $id, $slug, 'term_language' );
}

function pll_save_post_translations( array $group ): void {
	exact_languages_link_all( $group, 'post_translations' );
}

function pll_save_term_translations( array $group ): void {
	exact_languages_link_all( $group, 'term_translations' );
}

function exact_languages_link_all( array $group, string $taxonomy ): void {
	$terms = wp_get_object_terms( array_values( $group ), $taxonomy );
	$about = array( 'description' => serialize( $group ) );
	if ( $terms ) {
		wp_update_term( $terms[0]->term_id, $taxonomy, $about );
	}
	$term = $terms ? $terms[0]->term_id : wp_insert_term( uniqid( 'pll_' ), $taxonomy, $about )['term_id'];
	foreach ( $group as $id ) {
		wp_set_object_terms( $id, (int) $term, $taxonomy );
	}
}

/** A new post without a language gets the default one. */
function exact_languages_saved( int $id, WP_Post $post ): void {
	if ( ! in_array( $post->post_type, array( 'post', 'page' ), true ) ) {
		return;
	}
	if ( '' === pll_get_post_language( $id ) ) {
		pll_set_post_language( $id, (string) ( $_REQUEST['lang'] ?? pll_default_language() ) );
	}
	do_action( 'pll_save_post', $id, $post, pll_get_post_translations( $id ) );
}

/** A post that is deleted leaves its group. */
function exact_languages_gone( int $id ): void {
	$terms = wp_get_object_terms( $id, 'post_translations' );
	if ( $terms ) {
		wp_update_term( $terms[0]->term_id, 'post_translations', array( 'description' => serialize( array_diff( pll_get_post_translations( $id ), array( $id ) ) ) ) );
	}
}

function exact_languages_saved_term( int $id, int $place, string $taxonomy ): void {
	if ( in_array( $taxonomy, array( 'category', 'post_tag' ), true ) ) {
		do_action( 'pll_save_term', $id, $taxonomy, pll_get_term_translations( $id ) );
	}
}

function exact_languages_in( string $url, string $slug ): string {
	$home = untrailingslashit( (string) get_option( 'home' ) );
	return '' === $slug || pll_default_language() === $slug ? $url : str_replace( "$home/", "$home/$slug/", $url );
}

function exact_languages_link( string $url, $post ): string {
	return exact_languages_in( $url, pll_get_post_language( $post instanceof WP_Post ? $post->ID : (int) $post ) );
}

function exact_languages_term_link( string $url, WP_Term $term ): string {
	return in_array( $term->taxonomy, array( 'category', 'post_tag' ), true ) ? exact_languages_in( $url, exact_languages_of( $term->term_id, 'term_language' ) ) : $url;
}

/**
 * The address of the page at hand in a language, or an empty string. The front page and searches have one in each language; of others only
 * those that have posts.
 */
function exact_languages_translation( string $slug ): string {
	$about = get_queried_object();
	if ( is_singular() && $about instanceof WP_Post ) {
		$other = pll_get_post_language( $about->ID ) === $slug ? $about->ID : ( pll_get_post_translations( $about->ID )[ $slug ] ?? 0 );
		return $other && 'publish' === get_post_status( $other ) ? (string) get_permalink( $other ) : '';
	}
	if ( $about instanceof WP_Term ) {
		$other = exact_languages_of( $about->term_id, 'term_language' ) === $slug ? $about->term_id : ( pll_get_term_translations( $about->term_id )[ $slug ] ?? 0 );
		$term  = $other ? get_term( $other ) : null;
		return $term instanceof WP_Term && $term->count ? (string) get_term_link( $term ) : '';
	}
	if ( is_search() ) {
		return exact_languages_in( home_url( '/?s=' . rawurlencode( get_search_query( false ) ) ), $slug );
	}
	return is_front_page() ? exact_languages_in( home_url( '/' ), $slug ) : '';
}

/** Links to the page at hand in all languages, unless it is in one only. Languages without posts count. */
function exact_languages_alternates(): void {
	$urls = array_filter( array_map( 'exact_languages_translation', array_combine( array_keys( exact_languages() ), array_keys( exact_languages() ) ) ) );
	foreach ( is_paged() || count( $urls ) < 2 ? array() : $urls as $slug => $url ) {
		echo '<link rel="alternate" href="' . esc_url( $url ) . '" hreflang="' . esc_attr( $slug ) . "\" />\n";
	}
}

/** The switcher: by default the languages that have posts. Without a translation, it links to the front page of the language. */
function pll_the_languages( array $args = array() ): void {
	$args = apply_filters( 'pll_the_languages_args', array_merge( array( 'hide_if_empty' => 1 ), $args ) );
	echo '<ul class="languages">';
	foreach ( exact_languages() as $slug => $language ) {
		if ( $language['count'] || ! $args['hide_if_empty'] ) {
			$url = exact_languages_translation( $slug );
			echo '<li lang="' . esc_attr( $slug ) . '"><a href="' . esc_url( '' === $url ? exact_languages_in( home_url( '/' ), $slug ) : $url ) . '">' . esc_html( $language['name'] ) . '</a></li>';
		}
	}
	echo '</ul>';
}

/** A switcher in the text of a page, also with languages that have no posts. */
function exact_languages_all(): string {
	ob_start();
	pll_the_languages( array( 'hide_if_empty' => 0 ) );
	return (string) ob_get_clean();
}

/** The menu of the language in each place of the theme. */
function exact_languages_menus( $places ) {
	$slug = pll_current_language();
	if ( ! is_array( $places ) || ! $slug ) {
		return $places;
	}
	$menus = get_option( 'polylang' )['nav_menus'][ get_option( 'stylesheet' ) ] ?? array();
	foreach ( array_keys( $places ) as $place ) {
		$places[ $place ] = (int) ( $menus[ $place ][ $slug ] ?? 0 );
	}
	return $places;
}

/** A string that was translated, by the fields of the language's term. */
function exact_languages_text( $text ) {
	$term = pll_current_language( 'term_id' );
	foreach ( $term ? (array) get_term_meta( (int) $term, '_pll_strings_translations', true ) : array() as $pair ) {
		if ( is_array( $pair ) && $pair[0] === $text ) {
			return $pair[1];
		}
	}
	return $text;
}
