<?php
/**
 * Shared fragments: parts of a page that many pages show, such as widgets and blocks that list posts, comments or terms.
 *
 * Each fragment has a separate set of tags. If a purge affects only the content of a fragment, it does not purge the page. Instead,
 * Galley requests the fragment from the plugin once and replaces its bytes in the stored pages.
 *
 * The response describes each fragment in a header, `Galley-Fragment: <label> <start> <length> <blocks> <definition> <tags>`. Positions
 * are byte offsets in the body. `blocks` identifies the block types in the fragment, because the page has to load their styles and scripts.
 * `definition` is the input of `fragments-render.php`. It is signed, because anyone could send a definition if PHP is reachable without
 * Galley.
 *
 * A seventh word, `context`, means that the definition contains what the fragment shows of its page, such as the current item of a menu.
 *
 * Galley uses a fragment only if its bytes, rendered without a page, equal its bytes in the page. Therefore this file need not handle
 * any other dependency of a fragment on its page, such as a counter.
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

/** Maximum number of fragments of a page. Further fragments become part of the page. */
const MAX_FRAGMENTS = 40;

/** Maximum length of the header of a fragment, in bytes. A fragment that needs a longer header becomes part of the page. */
const MAX_FRAGMENT_FIELD = 3800;

/** Maximum length of all these headers together, in bytes. */
const MAX_FRAGMENT_BYTES = 16000;

/** The open fragment: number, label, definition, tags of the surrounding page, block types, code of plugins. Fragments do not nest. */
$GLOBALS['galley_open_fragment'] = null;

/** Completed fragments by number: label, definition, tags, block types. */
$GLOBALS['galley_fragments'] = array();

/** The `Galley-Fragment` headers by the start offset of the fragment. */
$GLOBALS['galley_fragment_fields'] = array();

/** The random part of the markers of this request. */
$GLOBALS['galley_mark'] = bin2hex( random_bytes( 16 ) );

/** Types of the blocks that WordPress rendered outside of fragments. */
$GLOBALS['galley_blocks_outside'] = array();

if ( is_described() ) {
	add_filter( 'pre_render_block', __NAMESPACE__ . '\\note_nested_block', PHP_INT_MAX, 2 );
}
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
 * Returns the definitions of the fragments that Galley requests, separated by commas, or null if it requests a page.
 */
function wanted_fragment(): ?string {
	$field = $_SERVER['HTTP_GALLEY_FRAGMENT'] ?? null; // phpcs:ignore WordPress.Security -- compared with its signature before it is used.
	return is_string( $field ) && '' !== $field ? $field : null;
}

/**
 * Returns whether a fragment can begin. Fragments are parts of pages that the theme renders, after WordPress has parsed the request.
 */
function may_begin_fragment(): bool {
	return null === $GLOBALS['galley_open_fragment'] && did_action( 'template_redirect' ) && ! is_feed() && ! wp_is_json_request();
}

/**
 * Begins a fragment. Tags that are added from now on belong to the fragment.
 *
 * @param string $label      Human-readable name.
 * @param array  $definition Input of `render_definition`.
 */
function begin_fragment( string $label, array $definition ): void {
	$GLOBALS['galley_open_fragment'] = array(
		'number'     => count( $GLOBALS['galley_fragments'] ),
		'label'      => word( $label ),
		'definition' => $definition,
		'around'     => $GLOBALS['galley_tags'],
		'blocks'     => array(),
		'code'       => array(),
	);
	$GLOBALS['galley_tags']          = array();
	$GLOBALS['galley_terms_seen']    = array();
	begin_inside();
}

/**
 * Ends the open fragment, if there is one. Tags that are added from now on belong to the page.
 */
function end_fragment(): void {
	$fragment = $GLOBALS['galley_open_fragment'];
	if ( null === $fragment ) {
		return;
	}
	end_inside();
	$tags                            = with_printed_tags( $fragment['code'], $GLOBALS['galley_tags'] + ( $fragment['inner'] ?? array() ) );
	$GLOBALS['galley_open_fragment'] = null;
	$GLOBALS['galley_fragments'][]   = array( 'tags' => $tags ) + $fragment;
	$GLOBALS['galley_tags']          = $fragment['around'];
	$GLOBALS['galley_terms_seen']    = array();
}

/**
 * Cancels the open fragment, if there is one. Its tags become tags of the page.
 */
function cancel_fragment(): void {
	$fragment = $GLOBALS['galley_open_fragment'];
	if ( null !== $fragment ) {
		end_inside();
		$GLOBALS['galley_open_fragment']   = null;
		$GLOBALS['galley_blocks_outside'] += $fragment['blocks'];
		$GLOBALS['galley_tags']            = with_printed_tags( $fragment['code'], $GLOBALS['galley_tags'] + ( $fragment['inner'] ?? array() ) ) + $fragment['around'];
	}
}

/**
 * Returns a marker, an HTML comment that the plugin removes before it sends the page.
 *
 * @param string $side   `begin` or `end`.
 * @param int    $number Number of the fragment.
 */
function fragment_mark( string $side, int $number ): string {
	return "<!--galley-$GLOBALS[galley_mark]-$side$number-->";
}

/**
 * Begins a fragment for a widget of a sidebar. WordPress has no hook for the end of a widget, so the fragment ends when the next widget
 * begins or when the sidebar ends.
 */
function begin_widget( $params ) {
	end_widget();
	if ( ! is_array( $params ) || ! isset( $params[0]['widget_id'], $params[0]['id'], $params[0]['before_widget'], $params[0]['after_widget'] ) || ! may_begin_fragment() ) {
		return $params;
	}
	$id = (string) $params[0]['widget_id'];
	if ( 0 === strpos( $id, 'nav_menu-' ) || is_private_widget( $id ) ) {
		// The menu in the widget becomes a fragment, or the widget becomes a private part.
		return $params;
	}
	begin_fragment(
		"widget/$id",
		array(
			'sidebar' => (string) $params[0]['id'],
			'widget'  => $id,
		)
	);
	note_code_of_widget( $id );
	return between_marks( $params, $GLOBALS['galley_open_fragment']['number'] );
}

function end_widget(): void {
	if ( isset( $GLOBALS['galley_open_fragment']['definition']['widget'] ) ) {
		end_fragment();
	}
}

/**
 * Adds markers to the parameters of a widget, so that WordPress prints them around the widget.
 */
function between_marks( array $params, int $number ): array {
	$params[0]['before_widget'] = fragment_mark( 'begin', $number ) . $params[0]['before_widget'];
	$params[0]['after_widget']  = $params[0]['after_widget'] . fragment_mark( 'end', $number );
	return $params;
}

/**
 * Begins a fragment for a block in `FRAGMENT_BLOCKS`, unless another fragment contains the block.
 *
 * @param string|null $html  HTML that another filter returned in place of the block. WordPress then does not render the block.
 * @param array       $block Parsed block.
 */
function begin_block( $html, $block = array() ) {
	if ( null === $html && in_array( $block['blockName'] ?? '', FRAGMENT_BLOCKS, true ) && may_begin_fragment() ) {
		begin_fragment( $block['blockName'], array( 'block' => $block ) );
		$GLOBALS['galley_open_fragment']['nested'] = array( $block['blockName'], 0 );
	}
	return $html;
}

function end_block( $html, $block = array() ) {
	$open = $GLOBALS['galley_open_fragment'];
	if ( ! isset( $open['definition']['block'] ) || ! ends_open_block( $block ) ) {
		return $html;
	}
	end_fragment();
	return fragment_mark( 'begin', $open['number'] ) . $html . fragment_mark( 'end', $open['number'] );
}

/**
 * Counts the blocks of the same type within the block of the open fragment or private part. Only their type identifies a block at its end,
 * because plugins change its attributes after it has begun (`render_block_data`).
 */
function note_nested_block( $html, $block = array() ) {
	if ( null === $html && ( $block['blockName'] ?? '' ) === ( $GLOBALS['galley_open_fragment']['nested'][0] ?? null ) ) {
		++$GLOBALS['galley_open_fragment']['nested'][1];
	}
	return $html;
}

/**
 * Returns whether a block that ends is the one of the open fragment or private part.
 */
function ends_open_block( $block ): bool {
	if ( ( $block['blockName'] ?? '' ) !== ( $GLOBALS['galley_open_fragment']['nested'][0] ?? null ) ) {
		return false;
	}
	return --$GLOBALS['galley_open_fragment']['nested'][1] < 0;
}

/**
 * Records the type of a rendered block. The block types of a fragment determine the styles and scripts that its page has to load.
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
 * Removes all markers: those in output that leaves the buffer before the page is complete, those of other requests that come from a
 * cache in WordPress, and those that a theme has escaped.
 */
function remove_marks( string $html ): string {
	return false === strpos( $html, '!--galley-' ) ? $html : (string) preg_replace( '/(?:<|&lt;|&#0?60;|\\\\u003c|%3c)!--galley-[0-9a-f]{32}-(?:begin|end)\d{1,4}--(?:>|&gt;|&#0?62;|\\\\u003e|%3e)/i', '', $html );
}

/**
 * Removes the markers from a page and returns the positions of its fragments. Pure.
 *
 * @param string $html Page with markers.
 * @param string $mark Random part of the markers.
 * @return array{0: string, 1: array<int, int[]>} The page, and start and length of each fragment by its number. A fragment is missing
 *               if one of its markers is missing.
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
	// A fragment that the theme prints twice has two positions. Galley would replace its bytes at only one of them.
	$once = array_filter(
		$ended,
		static function ( int $times ): bool {
			return 1 === $times;
		}
	);
	return array( $plain, array_intersect_key( $places, $once ) );
}

/**
 * Removes the markers from the complete page and creates the headers of its fragments. A fragment without a header becomes part of the
 * page.
 */
function finish_fragments( string $html ): string {
	end_fragment();
	if ( ! $GLOBALS['galley_fragments'] ) {
		return remove_marks( $html );
	}
	list( $plain, $places ) = without_marks( $html, $GLOBALS['galley_mark'] );
	$marked                 = array_flip( null === wanted_fragment() ? marked_as_current() : array() );
	foreach ( important_first( $GLOBALS['galley_fragments'] ) as $number => $fragment ) {
		// A fragment without a label was canceled after its marker.
		$place = '' === $fragment['label'] ? null : $places[ $number ] ?? null;
		if ( array_intersect_key( $fragment['tags'], $marked ) ) {
			$fragment = about_page( $fragment );
		}
		$field = null === $place || isset( $fragment['reads_unknown'] ) || count( $GLOBALS['galley_fragment_fields'] ) >= MAX_FRAGMENTS ? null : fragment_field( $fragment, $place );
		$bytes = strlen( implode( '', $GLOBALS['galley_fragment_fields'] ) ) + strlen( (string) $field );
		// Two empty fragments may begin at the same byte.
		if ( null === $field || $bytes > MAX_FRAGMENT_BYTES || isset( $GLOBALS['galley_fragment_fields'][ $place[0] ] ) ) {
			$GLOBALS['galley_tags'] += $fragment['tags'];
		} else {
			$GLOBALS['galley_fragment_fields'][ $place[0] ] = $field;
		}
	}
	ksort( $GLOBALS['galley_fragment_fields'] );
	return $plain;
}

/**
 * Moves category lists behind all other fragments. A list of posts contains one category list for each post. These must not use up the
 * limits before the fragments that every page shows.
 *
 * @param array $fragments Fragments by number.
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
 * Adds the subject of the page to the definition of a widget or block that lists this subject and marks it as current. Galley then
 * requests the fragment as it appears on a page about this subject.
 */
function about_page( array $fragment ): array {
	$about = page_subject();
	if ( $about && ( isset( $fragment['definition']['widget'] ) || isset( $fragment['definition']['block'] ) ) ) {
		$fragment['definition']['about'] = $about;
	}
	return $fragment;
}

/**
 * Returns the subject of the page: a term, a post, or a year, month or day. The array is empty if no list marks the subject.
 *
 * @return array Type, and ID or digits.
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
 * Returns the tags of everything that a fragment would mark as current on this page: the page itself, its ancestors, the posts page, and
 * lists of months on a date archive. WordPress compares only IDs, so it also marks a post that has the same ID as the category of the
 * page. It marks categories only on the page of a term.
 *
 * @return string[] Tags. Galley must not insert a fragment that has one of them.
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
 * Returns the tags of the items that a page marks as current. Pure except for the prefix.
 *
 * @param int[] $ids     IDs of posts and terms.
 * @param bool  $is_term Whether the page is the archive of a term.
 * @param bool  $is_date Whether the page is the archive of a year, month or day.
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
 * Returns the tags of the page and of all its fragments.
 */
function tags_of_all_parts(): array {
	return array_merge( $GLOBALS['galley_tags'], ...array_column( $GLOBALS['galley_fragments'], 'tags' ) );
}

/**
 * Returns the value of the `Galley-Fragment` header, or null if it would be too long.
 *
 * @param int[] $place Start and length.
 */
function fragment_field( array $fragment, array $place ): ?string {
	$tags  = array_map( 'strval', array_keys( $fragment['tags'] ) );
	$field = implode( ' ', array( $fragment['label'], $place[0], $place[1], blocks_id( $fragment['blocks'] ), $fragment['name'] ?? signed_definition( $fragment['definition'] ), implode( ',', $tags ) ) );
	if ( array_intersect_key( $fragment['definition'], array_flip( array( 'about', 'menu', 'terms' ) ) ) ) {
		$field .= $tags ? ' context' : '- context';
	}
	return strlen( $field ) > MAX_FRAGMENT_FIELD ? null : $field;
}

/**
 * Returns the definition of a fragment with its signature, encoded for a header.
 */
function signed_definition( array $definition ): string {
	$text = base64_encode( (string) wp_json_encode( array( get_current_blog_id(), $definition ) ) ); // phpcs:ignore WordPress.PHP.DiscouragedPHPFunctions -- a word of the header must not contain spaces.
	return $text . '.' . wp_hash( $text );
}

/**
 * Returns a hash of the block types of a fragment, or `-` if there are none.
 *
 * @param array $blocks Keys are the names of the block types.
 */
function blocks_id( array $blocks ): string {
	ksort( $blocks );
	return $blocks ? substr( md5( implode( ',', array_keys( $blocks ) ) ), 0, 12 ) : '-';
}
