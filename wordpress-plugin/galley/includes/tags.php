<?php
/**
 * Collects the tags of the current page. A tag names a thing that the page shows or depends on.
 *
 * The tag of a numbered thing is a class and a number: `p12`. If a page has too many tags, the class alone (`p`) replaces all tags of the
 * class. Each purge of one of these things also purges the class, so PHP generates such a page too often, never too rarely. The classes:
 *
 *   p  a post, any part of it      pl  its title, address, dates             pe  its excerpt    pm  its fields (meta)
 *   th its featured image          ps  its stock and sales, if a product
 *   pt its terms                   ad  its adjacent posts                    rv  its revisions
 *   c  the comments of a post      cn  their number                          k   the text of one comment
 *   km its fields (meta)               kma any field of a comment
 *   t  the archive of a term       tl  its name and address                  tc  its number of posts
 *   tf its fields (meta)
 *   tn its name, without a link    ts  its slug, in CSS classes              to  the order of the terms of a post
 *   pi an attachment, such as an image, except its title                     uf  all fields of a user except names and addresses
 *   u  a user                      m   a menu                                sk  whether a post is sticky
 *   pp a list with this number of posts                                      pa  the author of a post
 *   mb parts that only this member sees                                      ln  the language of the page (Polylang)
 *
 * The other tags contain words or have no number:
 *
 *   l. lists of posts (lists.php)           ar. months that have posts              st   which posts are sticky
 *   lt. terms that have posts               lta. all terms of a taxonomy            ltc. their numbers of posts
 *   lto. their names                        lc  recent comments                     lu   lists of users
 *   n. a slug                               g.  the first characters of a slug      sm.  a sitemap
 *   w. a widget                             sb. a sidebar                           sa.  whether a sidebar has widgets
 *   tp. tu. templates                       op. an option                           tm.  a setting of the theme
 *   tm an unknown setting of the theme      f   feeds                               sw   searches (searches.php)
 *   e404 missing pages                      home the front page and the page of posts
 *   db.  a table of another plugin, or an option, that limits the lifetime (observe.php)
 *   tb.  a table read by SQL                op, ot any option without a tag of its own, any transient
 *   sq.  a statement with its result        tv.  a table of which all statements have such tags (statements.php)
 *   so.  a setting of the network           om. a transient that the page found missing
 *   ht pages with the theme                 b   every page of a blog
 *   le  languages without posts (Polylang)  cr. a task in the schedule             cm.  one that is not scheduled
 *   uf5.KEY, tf5.KEY one field of a user or a term; its class is that of `uf5`
 *   mba parts that only one member sees, of all members
 *
 * A tag `lt.` changes when a term gets its first post or loses its last post. In a network, a tag begins with the number of the blog
 * (`2.p12`). Tags of users, whom all blogs share, and `ls`, the list of blogs, have no such prefix. Lists of users have two tags: `2.lu`
 * for users who join or leave the blog, and `lu` for names.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Tag of a page that depends on everything: every purge of the site purges it. */
const ANY_CHANGE = '*';

/** Maximum number of tags. Beyond it, classes collapse. The server accepts 1024. */
const MAX_TAGS = 900;

/** Maximum length of all tags together, with their separators. */
const MAX_TAG_BYTES = 16000;

/** Maximum length of one header line: what every server between PHP and Galley accepts. */
const MAX_LINE_BYTES = 3800;

$GLOBALS['galley_tags']   = array();
$GLOBALS['galley_prefix'] = own_prefix();

/** The prefix of the blog that the request is for. */
$GLOBALS['galley_own_prefix'] = $GLOBALS['galley_prefix'];

if ( is_multisite() ) {
	add_action( 'switch_blog', __NAMESPACE__ . '\\on_switch', PHP_INT_MIN );
}

/**
 * Adds a tag to the current page. The function runs a thousand times for a page.
 */
function tag( string $tag ): void {
	$GLOBALS['galley_tags'][ $GLOBALS['galley_prefix'] . $tag ] = true;
}

/**
 * Adds a tag without the prefix of the blog, for things that all blogs of a network share: a user, the list of blogs.
 */
function tag_network( string $tag ): void {
	$GLOBALS['galley_tags'][ $tag ] = true;
}

/**
 * Returns whether the page has a tag of the current blog.
 */
function has_tag( string $tag ): bool {
	return isset( $GLOBALS['galley_tags'][ $GLOBALS['galley_prefix'] . $tag ] );
}

/**
 * Returns the prefix of the tags of the current blog: its number and a dot in a network, else nothing.
 */
function blog_prefix(): string {
	return $GLOBALS['galley_prefix'];
}

function own_prefix(): string {
	return is_multisite() ? get_current_blog_id() . '.' : '';
}

/**
 * Changes the prefix when WordPress switches to another blog. The page then also depends on all changes of that blog as a whole.
 */
function on_switch(): void {
	$GLOBALS['galley_prefix'] = own_prefix();
	if ( is_described() ) {
		tag( 'b' );
		if ( $GLOBALS['galley_prefix'] !== $GLOBALS['galley_own_prefix'] ) {
			// Which options code reads in another blog is not known (options-read.php).
			tag( 'op' );
		}
	}
}

/**
 * Returns a word in the form that a tag can contain: as it is, or its hash if it is too long or has characters other than ASCII letters,
 * digits and `._/-`. Pure.
 */
function word( string $text ): string {
	if ( strlen( $text ) <= 48 && preg_match( '/^[A-Za-z0-9._\/-]+$/D', $text ) ) {
		return $text;
	}
	return '~' . substr( md5( $text ), 0, 12 );
}

/**
 * Returns the tags to send: all of them if there are few enough, else the class in place of each of the largest groups of tags, else `*`.
 * Pure.
 *
 * @param string[] $tags Without duplicates.
 * @return string[]
 */
function collapsed( array $tags, int $most = MAX_TAGS, int $bytes = MAX_TAG_BYTES ): array {
	while ( count( $tags ) > $most || strlen( implode( ',', $tags ) ) > $bytes ) {
		$classes = array();
		foreach ( $tags as $tag ) {
			if ( preg_match( '/^((?:\d+\.)?(?:op(?=\.)|[ut]f(?=\d+\.)|[a-z]+(?=\d+$)))/D', $tag, $found ) ) {
				$classes[ $found[1] ][] = $tag;
			}
		}
		if ( ! $classes ) {
			return array( ANY_CHANGE );
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
 * Joins words with commas to lines that are not too long. Pure.
 *
 * @param string[] $words None is longer than a line.
 * @param string   $start Text at the start of each line.
 * @return string[]
 */
function lines( array $words, string $start = '' ): array {
	$lines = array();
	$line  = '';
	foreach ( $words as $word ) {
		if ( '' !== $line && strlen( $line ) + strlen( $word ) + 1 > MAX_LINE_BYTES ) {
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
