<?php
/**
 * The tags of the page at hand: names of the things it is made of.
 *
 * A tag of a numbered thing is a class and a number: `p12`. Pages with very many of a class carry the class alone (`p`), and
 * every purge of one of its things names the class too, so that such a page is generated too often, never too
 * rarely. The classes:
 *
 *   p  a post, anything of it       pl  its title, address, dates             pe  its excerpt    pm  its fields (meta)
 *   th its picture                  ps its stock and sales, of a product
 *   pt its terms                    ad  its neighbours                        rv  its revisions
 *   c  a post's comments            cn  their number                          k   the text of one comment
 *   t  a term's archive             tl  its name and address                  tc  its number of posts
 *   tn its name, without a link     ts  its slug, in CSS classes              to  the order of a post's terms
 *   pi a picture or another file, but not its title                          uf fields of a user besides names and addresses
 *   u  a user                       m   a menu                               sk whether a post is sticky
 *   pp a list of so many posts         pa who wrote a post
 *   mb what only a member sees      ln the language of the page (Polylang)
 *
 * Others are words: `l.` lists (lists.php), lists of terms by which change them: `lt.` terms
 * with their first or without their last post, `lta.` any, `ltc.` numbers, `lto.` names, `lc` recent comments, `lu` lists of users, `n.` a
 * slug, `g.` the beginning of one, `w.` a widget, `sb.` a sidebar, `sa.` whether it has widgets, `tp.` `tu.` templates, `op.` an option, `tm.` a setting of the theme, `tm` one that is not known, `sm.` a sitemap,
 * `f` feeds, `sw` searches (searches.php), `e404`, `home`, `ht` pages of the theme, and `b`, which every page of a blog carries.
 *
 * In a network the number of the blog stands before each (`2.p12`), but before users, who are everybody's, and `ls`, the list of blogs.
 * Lists of users carry both `2.lu`, for who comes and goes, and `lu`, for names.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Beyond it classes collapse; the server keeps 1024. */
const MOST_TAGS = 900;

/** All lines together. */
const MOST_TAG_BYTES = 16000;

/** One line: what every server on the way can take. */
const LONGEST_LINE = 3800;

$GLOBALS['galley_tags']   = array();
$GLOBALS['galley_prefix'] = own_prefix();
if ( is_multisite() ) {
	add_action( 'switch_blog', __NAMESPACE__ . '\\on_switch', PHP_INT_MIN );
}

/**
 * Notes that the page depends on a thing. Called a thousand times for a page.
 */
function tag( string $tag ): void {
	$GLOBALS['galley_tags'][ $GLOBALS['galley_prefix'] . $tag ] = true;
}

/**
 * Notes that the page depends on a thing that all blogs of a network have in common: a user, the list of blogs. No prefix.
 */
function tag_network( string $tag ): void {
	$GLOBALS['galley_tags'][ $tag ] = true;
}

/**
 * Whether the page is known to depend on a thing.
 */
function has_tag( string $tag ): bool {
	return isset( $GLOBALS['galley_tags'][ $GLOBALS['galley_prefix'] . $tag ] );
}

/**
 * What stands before the tags of the blog at hand: nothing, or its number where there are several.
 */
function blog_prefix(): string {
	return $GLOBALS['galley_prefix'];
}

function own_prefix(): string {
	return is_multisite() ? get_current_blog_id() . '.' : '';
}

/**
 * Another blog's things are named with its prefix, and what changes all of that blog changes the page, too.
 */
function on_switch(): void {
	$GLOBALS['galley_prefix'] = own_prefix();
	if ( is_described() ) {
		tag( 'b' );
	}
}

/**
 * A word as a tag may hold it: no blanks, commas or semicolons, not too long. Pure.
 */
function word( string $text ): string {
	if ( strlen( $text ) <= 48 && preg_match( '/^[A-Za-z0-9._\/-]+$/D', $text ) ) {
		return $text;
	}
	return '~' . substr( md5( $text ), 0, 12 );
}

/**
 * The tags as they are sent to the server: few enough, or whole classes, or everything. Pure.
 *
 * @param string[] $tags Each once.
 * @return string[]
 */
function collapsed( array $tags, int $most = MOST_TAGS, int $bytes = MOST_TAG_BYTES ): array {
	while ( count( $tags ) > $most || strlen( implode( ',', $tags ) ) > $bytes ) {
		$classes = array();
		foreach ( $tags as $tag ) {
			if ( preg_match( '/^((?:\d+\.)?[a-z]+)\d+$/D', $tag, $found ) ) {
				$classes[ $found[1] ][] = $tag;
			}
		}
		if ( ! $classes ) {
			return array( '*' );
		}
		uasort(
			$classes,
			static function ( array $a, array $b ): int {
				return count( $b ) - count( $a );
			}
		);
		$largest = (string) array_key_first( $classes );
		$tags    = array_merge( array_diff( $tags, $classes[ $largest ] ), array( $largest ) );
		$tags    = array_values( array_unique( $tags ) );
	}
	return $tags;
}

/**
 * Words as lines that are not too long. Pure.
 *
 * @param string[] $words None longer than a line.
 * @param string   $start What each line begins with.
 * @return string[]
 */
function lines( array $words, string $start = '' ): array {
	$lines = array();
	$line  = '';
	foreach ( $words as $word ) {
		if ( '' !== $line && strlen( $line ) + strlen( $word ) + 1 > LONGEST_LINE ) {
			$lines[] = $line;
			$line    = '';
		}
		$line .= '' === $line ? $start . $word : ',' . $word;
	}
	if ( '' !== $line ) {
		$lines[] = $line;
	}
	return $lines;
}
