<?php
/**
 * Shared fragments: parts of a page that many pages show, such as widgets and blocks that list posts, comments or terms.
 *
 * A fragment gets tags of its own, so that a purge of what only a fragment shows does not purge the page: Galley has the plugin
 * render the fragment again, once, and replaces its bytes in the stored pages. Each fragment is described in a field of the
 * response, `Galley-Fragment: <label> <start> <length> <blocks> <definition> <tags>`: positions are bytes of the body, `blocks`
 * stands for the kinds of blocks in it, whose styles and scripts the page has to load, and the definition is what
 * `fragments-render.php` needs, signed, because a stranger could send it where PHP can be reached without Galley.
 *
 * A seventh word, `context`, says that the definition contains what the fragment shows of its page, such as the current item of a menu.
 *
 * Galley only uses a fragment if its rendering without a page has the same bytes as in the page. So what else a fragment shows of
 * its page (a counter) needs no care here.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Blocks whose output changes with posts, comments or terms that the page itself does not show. */
const FRAGMENT_BLOCKS = array(
	'core/archives',
	'core/block',
	'core/calendar',
	'core/categories',
	'core/latest-comments',
	'core/latest-posts',
	'core/navigation',
	'core/page-list',
	'core/rss',
	'core/tag-cloud',
);

/** Fragments of a page; what follows belongs to the page. */
const MOST_FRAGMENTS = 40;

/** Bytes of a field that describes a fragment; what needs more belongs to the page. */
const LONGEST_FRAGMENT_FIELD = 3800;

/** Bytes of all of them. */
const MOST_FRAGMENT_BYTES = 16000;

/** The fragment that is open now: number, label, definition, the tags of what is around it, its kinds of blocks. Fragments do not nest. */
$GLOBALS['galley_open_fragment'] = null;

/** Fragments that have ended, by number: label, definition, tags, kinds of blocks. */
$GLOBALS['galley_fragments'] = array();

/** The fields that describe fragments, by where they start. */
$GLOBALS['galley_fragment_fields'] = array();

/** The part of a mark that nobody else knows. */
$GLOBALS['galley_mark'] = bin2hex( random_bytes( 16 ) );

/** Blocks that were rendered outside of a fragment. */
$GLOBALS['galley_blocks_outside'] = array();

if ( is_shared() && null === wanted_fragment() ) {
	add_filter( 'dynamic_sidebar_params', __NAMESPACE__ . '\\begin_widget', PHP_INT_MAX );
	add_action( 'dynamic_sidebar_after', __NAMESPACE__ . '\\end_widget', PHP_INT_MIN );
	add_filter( 'pre_render_block', __NAMESPACE__ . '\\begin_block', PHP_INT_MAX, 2 );
	add_filter( 'render_block', __NAMESPACE__ . '\\end_block', PHP_INT_MAX, 2 );
}
if ( is_shared() ) {
	add_filter( 'render_block', __NAMESPACE__ . '\\note_block', PHP_INT_MIN, 2 );
}

/**
 * The definitions of the fragments that Galley requests, separated by commas; null: it requests a page.
 */
function wanted_fragment(): ?string {
	$field = $_SERVER['HTTP_GALLEY_FRAGMENT'] ?? null; // phpcs:ignore WordPress.Security -- compared with its signature before it is used.
	return is_string( $field ) && '' !== $field ? $field : null;
}

/**
 * Fragments are parts of pages that the theme draws; WordPress has then understood the request.
 */
function may_begin_fragment(): bool {
	return null === $GLOBALS['galley_open_fragment'] && did_action( 'template_redirect' ) && ! is_feed() && ! wp_is_json_request();
}

/**
 * Begins a fragment: what is tagged from now on belongs to it.
 *
 * @param string $label      For people.
 * @param array  $definition What `render_definition` needs.
 */
function begin_fragment( string $label, array $definition ): void {
	$GLOBALS['galley_open_fragment'] = array(
		'number'     => count( $GLOBALS['galley_fragments'] ),
		'label'      => word( $label ),
		'definition' => $definition,
		'around'     => $GLOBALS['galley_tags'],
		'blocks'     => array(),
	);
	$GLOBALS['galley_tags']          = array();
	$GLOBALS['galley_terms_seen']    = array();
}

/**
 * Ends the open fragment, if there is one: what is tagged from now on belongs to the page.
 */
function end_fragment(): void {
	$fragment = $GLOBALS['galley_open_fragment'];
	if ( null === $fragment ) {
		return;
	}
	$GLOBALS['galley_open_fragment'] = null;
	$GLOBALS['galley_fragments'][]   = array( 'tags' => $GLOBALS['galley_tags'] + ( $fragment['inner'] ?? array() ) ) + $fragment;
	$GLOBALS['galley_tags']          = $fragment['around'];
	$GLOBALS['galley_terms_seen']    = array();
}

/**
 * Gives up the open fragment, if there is one: what it has tagged belongs to the page.
 */
function cancel_fragment(): void {
	$fragment = $GLOBALS['galley_open_fragment'];
	if ( null !== $fragment ) {
		$GLOBALS['galley_open_fragment']   = null;
		$GLOBALS['galley_blocks_outside'] += $fragment['blocks'];
		$GLOBALS['galley_tags']           += $fragment['around'] + ( $fragment['inner'] ?? array() );
	}
}

/**
 * A mark in the page. It is removed before the page is sent.
 *
 * @param string $side   `begin` or `end`.
 * @param int    $number Of the fragment.
 */
function fragment_mark( string $side, int $number ): string {
	return "<!--galley-$GLOBALS[galley_mark]-$side$number-->";
}

/**
 * Each widget of a sidebar is a fragment. It ends with the next one or with the sidebar: WordPress does not say when it is complete.
 */
function begin_widget( $params ) {
	end_widget();
	if ( ! is_array( $params ) || ! isset( $params[0]['widget_id'], $params[0]['id'], $params[0]['before_widget'], $params[0]['after_widget'] ) || ! may_begin_fragment() ) {
		return $params;
	}
	$id = (string) $params[0]['widget_id'];
	if ( 0 === strpos( $id, 'nav_menu-' ) ) {
		// Its menu is a fragment.
		return $params;
	}
	begin_fragment(
		"widget/$id",
		array(
			'sidebar' => (string) $params[0]['id'],
			'widget'  => $id,
		)
	);
	return between_marks( $params, $GLOBALS['galley_open_fragment']['number'] );
}

function end_widget(): void {
	if ( isset( $GLOBALS['galley_open_fragment']['definition']['widget'] ) ) {
		end_fragment();
	}
}

/**
 * The parameters of a widget that prints marks around itself.
 */
function between_marks( array $params, int $number ): array {
	$params[0]['before_widget'] = fragment_mark( 'begin', $number ) . $params[0]['before_widget'];
	$params[0]['after_widget']  = $params[0]['after_widget'] . fragment_mark( 'end', $number );
	return $params;
}

/**
 * Begins a block that is a fragment, unless it is part of one.
 *
 * @param string|null $html  What a filter has rendered in its place; then WordPress does not render the block.
 * @param array       $block As it was parsed.
 */
function begin_block( $html, $block = array() ) {
	if ( null === $html && in_array( $block['blockName'] ?? '', FRAGMENT_BLOCKS, true ) && may_begin_fragment() ) {
		begin_fragment( $block['blockName'], array( 'block' => $block ) );
	}
	return $html;
}

function end_block( $html, $block = array() ) {
	$open = $GLOBALS['galley_open_fragment'];
	if ( ! isset( $open['definition']['block'] ) || $open['definition']['block'] !== $block ) {
		return $html;
	}
	end_fragment();
	return fragment_mark( 'begin', $open['number'] ) . $html . fragment_mark( 'end', $open['number'] );
}

/**
 * The kinds of blocks in a fragment stand for the styles and scripts that its page has to load.
 */
function note_block( $html, $block = array() ) {
	$name = (string) ( $block['blockName'] ?? '' );
	if ( '' !== $name && null !== $GLOBALS['galley_open_fragment'] ) {
		$GLOBALS['galley_open_fragment']['blocks'][ $name ] = true;
	} elseif ( '' !== $name ) {
		$GLOBALS['galley_blocks_outside'][ $name ] = true;
	}
	return $html;
}

/**
 * Removes marks from what leaves the buffer before the page was complete, those that another request left in somebody's cache, and
 * those that a theme has escaped.
 */
function remove_marks( string $html ): string {
	return false === strpos( $html, '!--galley-' ) ? $html : (string) preg_replace( '/(?:<|&lt;|&#0?60;|\\\\u003c|%3c)!--galley-[0-9a-f]{32}-(?:begin|end)\d{1,4}--(?:>|&gt;|&#0?62;|\\\\u003e|%3e)/i', '', $html );
}

/**
 * The page without marks, and the positions of its fragments. Pure.
 *
 * @param string $html With marks.
 * @param string $mark The random part of them.
 * @return array{0: string, 1: array<int, int[]>} The page; of each fragment, by its number, start and length. Those without both
 *               marks are missing.
 */
function without_marks( string $html, string $mark ): array {
	$parts  = preg_split( "/<!--galley-$mark-(begin|end)(\\d{1,4})-->/", $html, -1, PREG_SPLIT_DELIM_CAPTURE );
	$plain  = '';
	$begun  = array();
	$places = array();
	$ended  = array();
	foreach ( array_chunk( $parts ? $parts : array( $html ), 3 ) as $part ) {
		$plain .= remove_marks( $part[0] );
		$number = (int) ( $part[2] ?? 0 );
		if ( 'begin' === ( $part[1] ?? '' ) ) {
			$begun = array( $number => strlen( $plain ) );
		} elseif ( isset( $part[1], $begun[ $number ] ) ) {
			$places[ $number ] = array( $begun[ $number ], strlen( $plain ) - $begun[ $number ] );
			$begun             = array();
			$ended[ $number ]  = ( $ended[ $number ] ?? 0 ) + 1;
		} elseif ( isset( $part[1] ) ) {
			$ended[ $number ] = 2;
		}
	}
	// What a theme prints twice has two places, of which one would keep its old bytes.
	$once = array_filter(
		$ended,
		static function ( int $times ): bool {
			return 1 === $times;
		}
	);
	return array( $plain, array_intersect_key( $places, $once ) );
}

/**
 * The complete page without marks. Its fragments get their fields, or belong to the page.
 */
function finish_fragments( string $html ): string {
	end_fragment();
	if ( ! $GLOBALS['galley_fragments'] ) {
		return remove_marks( $html );
	}
	list( $plain, $places ) = without_marks( $html, $GLOBALS['galley_mark'] );
	$marked                 = array_flip( null === wanted_fragment() ? marked_as_current() : array() );
	foreach ( important_first( $GLOBALS['galley_fragments'] ) as $number => $fragment ) {
		$place = $places[ $number ] ?? null;
		if ( array_intersect_key( $fragment['tags'], $marked ) ) {
			$fragment = about_page( $fragment );
		}
		$field = null === $place || count( $GLOBALS['galley_fragment_fields'] ) >= MOST_FRAGMENTS ? null : fragment_field( $fragment, $place );
		$bytes = strlen( implode( '', $GLOBALS['galley_fragment_fields'] ) ) + strlen( (string) $field );
		// Two empty fragments may begin at the same byte.
		if ( null === $field || $bytes > MOST_FRAGMENT_BYTES || isset( $GLOBALS['galley_fragment_fields'][ $place[0] ] ) ) {
			$GLOBALS['galley_tags'] += $fragment['tags'];
		} else {
			$GLOBALS['galley_fragment_fields'][ $place[0] ] = $field;
		}
	}
	ksort( $GLOBALS['galley_fragment_fields'] );
	return $plain;
}

/**
 * A list of posts has the terms of each; they must not take the room of what every page shows.
 *
 * @param array $fragments By number.
 */
function important_first( array $fragments ): array {
	$small = array_filter(
		$fragments,
		static function ( array $fragment ): bool {
			return isset( $fragment['definition']['terms'] );
		}
	);
	return array_diff_key( $fragments, $small ) + $small;
}

/**
 * A fragment that lists what its page is about marks it as current. It is rendered as for that page.
 */
function about_page( array $fragment ): array {
	$about = page_subject();
	if ( $about && ( isset( $fragment['definition']['widget'] ) || isset( $fragment['definition']['block'] ) ) ) {
		$fragment['definition']['about'] = $about;
	}
	return $fragment;
}

/**
 * What the page is about: a term, a post, or a year, a month or a day; empty: nothing that a list marks.
 *
 * @return array Its kind, and its number or digits.
 */
function page_subject(): array {
	$about = get_queried_object();
	if ( $about instanceof \WP_Term ) {
		return array( 'term', (int) $about->term_id );
	}
	if ( $about instanceof \WP_Post && is_singular() ) {
		return array( 'post', (int) $about->ID );
	}
	$digits = is_date() ? implode( '', dates_of( $GLOBALS['wp_query']->query_vars ) ) : '';
	return '' === $digits ? array() : array( 'date', $digits );
}

/**
 * What fragments of this page mark as current when they come to list it: the page itself, what is above it, the page of the blog, and
 * months on the page of one. WordPress compares numbers alone, so that a post with the number of the page's category is marked, too;
 * categories are marked on the page of a term only.
 *
 * @return string[] Tags that a fragment which Galley puts in must not have.
 */
function marked_as_current(): array {
	$id    = (int) get_queried_object_id();
	$about = get_queried_object();
	$ids   = array( $id, (int) get_option( 'page_for_posts' ) );
	if ( $about instanceof \WP_Post ) {
		$ids = array_merge( $ids, get_post_ancestors( $about ) );
	} elseif ( $about instanceof \WP_Term ) {
		$ids = array_merge( $ids, get_ancestors( $id, $about->taxonomy, 'taxonomy' ) );
	}
	return marked_tags( array_filter( array_map( 'intval', $ids ) ), $about instanceof \WP_Term, is_date() );
}

/**
 * The tags of what a page marks. Pure but for the prefix.
 *
 * @param int[] $ids     Posts and terms.
 * @param bool  $is_term Whether the page is that of a term.
 * @param bool  $is_date Whether the page is that of a year, a month or a day.
 * @return string[]
 */
function marked_tags( array $ids, bool $is_term, bool $is_date ): array {
	$tags = array();
	foreach ( $ids as $marked ) {
		$tags[] = blog_prefix() . "pl$marked";
		if ( $is_term ) {
			$tags[] = blog_prefix() . "tl$marked";
		}
	}
	if ( $is_date ) {
		array_push( $tags, blog_prefix() . 'ar.post', blog_prefix() . 'l.post' );
	}
	return $tags;
}

/**
 * The tags of the page and of its fragments.
 */
function tags_of_all_parts(): array {
	return array_merge( $GLOBALS['galley_tags'], ...array_column( $GLOBALS['galley_fragments'], 'tags' ) );
}

/**
 * The field that describes a fragment; null: it would be too long.
 *
 * @param int[] $place Start and length.
 */
function fragment_field( array $fragment, array $place ): ?string {
	$tags  = array_map( 'strval', array_keys( $fragment['tags'] ) );
	$field = implode( ' ', array( $fragment['label'], $place[0], $place[1], blocks_id( $fragment['blocks'] ), $fragment['name'] ?? signed_definition( $fragment['definition'] ), implode( ',', $tags ) ) );
	if ( array_intersect_key( $fragment['definition'], array_flip( array( 'about', 'menu', 'terms' ) ) ) ) {
		$field .= $tags ? ' context' : '- context';
	}
	return strlen( $field ) > LONGEST_FRAGMENT_FIELD ? null : $field;
}

/**
 * What renders a fragment again, as a field may hold it.
 */
function signed_definition( array $definition ): string {
	$text = base64_encode( (string) wp_json_encode( array( get_current_blog_id(), $definition ) ) ); // phpcs:ignore WordPress.PHP.DiscouragedPHPFunctions -- a field holds no blanks.
	return $text . '.' . wp_hash( $text );
}

/**
 * @param array $blocks By their names.
 */
function blocks_id( array $blocks ): string {
	ksort( $blocks );
	return $blocks ? substr( md5( implode( ',', array_keys( $blocks ) ) ), 0, 12 ) : '-';
}
