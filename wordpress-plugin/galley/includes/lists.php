<?php
/**
 * Lists of posts: from what a query asks for to the narrowest tags that every change of its result touches. Pure.
 *
 * A list is named by its conditions, since a post enters or leaves it by a change of one of them:
 * `l.<type>`, `l.<type>.t<term>`, `.a<author>`, `.d<yyyy[mm[dd]]>`, `.par<parent>`, `.s` or `.s.<word>` for a search, `.x` for what cannot be
 * said so, and `.xv` where terms by which posts are left out are among it. Lists of the newest so many also say how far down they look (`.q`, and `.r<rank>` for each step of ranks), and, where they
 * know the number of pages, `.n`: a post far down then changes only the pages that reach it. A post stands higher up in a list of several
 * conditions than in the lists of each, so that those say no depth. `o.<type>.<field>` stands for what a
 * list is sorted or filtered by, and `oo.<type>.<field>` for a title or a number that it is only sorted by: a change that leaves the order as it
 * is does not touch it. `os.<type>` stands for the most sold, with ranks as above. `.w<term>` stands for posts of the list that have a term which nearly all
 * lists of their type name, such as a language, `.v<term>` for those that get or lose one by which such lists leave posts out, and `sv<term>` for
 * those of any search. What a purge has to name is the other half: ranks.php and post-changes.php.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** The first rank of each step. The plugin tags a list by the step of a rank, not by the rank itself. */
const STEPS = array(
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 28, 30, 32, 34,
	36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 65, 70, 75, 80, 85, 90, 95, 100, 150, 200, 300,
);

/** Ranks from here on are not told apart. */
const DEEPEST = 500;

/** More tags for the posts of one list are not worth it. */
const MOST_MEMBERS = 60;

/** Conditions of whose lists it is known how far down a post stands. */
const RANKED_CONDITIONS = array(
	'terms'   => 1,
	'authors' => 1,
	'dates'   => 1,
);

/**
 * Taxonomies of which nearly every list of a type names terms beside its own conditions: the languages of Polylang, and what WooCommerce
 * hides from catalogues. As conditions of their own they would have each post of a language change all lists of that language.
 */
const CONJOINED_TAXONOMIES = array( 'language', 'product_visibility' );

/** The field with a product's sales. It changes with each order, the products' order by it seldom. */
const SALES = 'total_sales';

/**
 * The tags of a list.
 *
 * @param array $list As `describe_query` gives it: types (string[]), terms, authors, dates, parents (lists of values, empty where
 *                    there is no such condition), with (terms of CONJOINED_TAXONOMIES), ids, slugs, search, word (of a search, see searches.php), complex, filtered (complex by a filter of its SQL alone), any_status, narrowed (bool; the last: whether those named by `ids` fulfil conditions as well), directed (bool: to fulfil a condition is to come in), members (int[]|null: all posts that it shows), sorted (string[]), ordered (string[]: only the order depends on these), sales (?int: of the most sold, how far down it looks), within (those of `with` of which its posts have one), depth (?int), pages (string: `none`, `standard`, `other`).
 * @return string[]
 */
function list_tags( array $list ): array {
	$tags = array();
	if ( 1 !== count( $list['types'] ) ) {
		// A post that passes one of another type is not noticed: `title_order_tags` asks for its own.
		$list['sorted']  = array_merge( $list['sorted'], $list['ordered'] );
		$list['ordered'] = array();
	}
	foreach ( $list['ids'] as $id ) {
		$tags[] = "pl$id";
	}
	foreach ( $list['slugs'] as $slug ) {
		$tags[] = 'n.' . word( $slug );
	}
	$is_named = ( $list['ids'] || $list['slugs'] ) && ! $list['narrowed'];
	foreach ( $list['types'] as $type ) {
		$type = word( $type );
		foreach ( $list['sorted'] as $field ) {
			$tags[] = "o.$type." . word( $field );
		}
		foreach ( null === $list['sales'] ? $list['ordered'] : array() as $field ) {
			$tags[] = "oo.$type." . word( $field );
		}
		if ( $list['any_status'] ) {
			$tags[] = "l.$type.z";
		}
		if ( null !== $list['sales'] ) {
			$tags = array_merge( $tags, reach_tags( "os.$type", $list['sales'] ) );
		} elseif ( ! $is_named ) {
			$tags = array_merge( $tags, conditions( $type, $list ) );
		}
	}
	return array_values( array_unique( $tags ) );
}

/**
 * The tags of the conditions of a list, for one type.
 *
 * @return string[]
 */
function conditions( string $type, array $list ): array {
	$keys = $list['search'] ? array( 'search' => array( '' === $list['word'] ? "l.$type.s" : "l.$type.s.$list[word]" ) ) : array();
	if ( $list['complex'] ) {
		$keys['complex'] = array( "l.$type.x" );
		if ( ! $list['filtered'] ) {
			$keys['complex'][] = "l.$type.xv";
		}
		foreach ( $list['filtered'] ? $list['with'] : array() as $term ) {
			$keys['complex'][] = "l.$type.x.v$term";
		}
		return array_merge( ...array_values( $keys ) );
	}
	foreach ( array( 'terms' => 't', 'authors' => 'a', 'dates' => 'd', 'parents' => 'par' ) as $kind => $letter ) {
		foreach ( $list[ $kind ] as $value ) {
			$keys[ $kind ][] = "l.$type.$letter$value";
		}
	}
	if ( ! $keys && ( $list['ids'] || $list['slugs'] ) ) {
		return array();
	}
	$flat = $keys ? array_merge( ...array_values( $keys ) ) : array( "l.$type" );
	if ( 1 < count( $keys ) || ( $keys && ! array_intersect_key( $keys, RANKED_CONDITIONS ) ) ) {
		$list['depth'] = null;
	}
	$tags = array();
	if ( $list['within'] && ! $list['search'] ) {
		foreach ( $flat as $key ) {
			// What happens to a term or an author as a whole purges this one.
			$tags[] = "$key.q";
		}
		$flat         = within_terms( $flat, $list['within'] );
		$list['with'] = array_diff( $list['with'], $list['within'] );
	}
	$list['members'] = count( (array) $list['members'] ) * count( $flat ) > MOST_MEMBERS ? null : $list['members'];
	foreach ( $flat as $key ) {
		$tags = array_merge( $tags, deep( $key, $list ) );
		foreach ( $list['with'] as $term ) {
			$tags[] = "$key.v$term";
		}
	}
	// No post says which searches find it.
	foreach ( $list['search'] ? $list['with'] : array() as $term ) {
		$tags[] = "sv$term";
	}
	return $tags;
}

/**
 * Some lists, of posts that have one of some terms of CONJOINED_TAXONOMIES alone. Pure.
 *
 * @param string[] $keys  The lists.
 * @param int[]    $terms The terms.
 * @return string[]
 */
function within_terms( array $keys, array $terms ): array {
	$within = array();
	foreach ( $keys as $key ) {
		foreach ( $terms as $term ) {
			$within[] = "$key.w$term";
		}
	}
	return $within;
}

/**
 * A list's tag, or, of the newest so many, how far down it looks, or what comes in and which posts may leave it.
 *
 * @return string[]
 */
function deep( string $key, array $list ): array {
	$tags = reach_tags( $key, 'other' === $list['pages'] ? null : $list['depth'] );
	if ( array( $key ) === $tags ) {
		return null === $list['members'] ? $tags : member_tags( $key, $list['members'] );
	}
	if ( 'standard' === $list['pages'] ) {
		$tags[] = "$key.n";
	}
	return $tags;
}

/**
 * The tags of a list without ranks of which all posts are known.
 *
 * @param int[] $posts Their numbers.
 * @return string[]
 */
function member_tags( string $key, array $posts ): array {
	$tags = array( "$key.q", "$key.in" );
	foreach ( $posts as $post ) {
		$tags[] = "$key.p$post";
	}
	return $tags;
}

/**
 * The tags of the newest so many of a list: one for each step of ranks that it shows, and one for all of them.
 *
 * @param int|null $reach Null: all.
 * @return string[]
 */
function reach_tags( string $key, ?int $reach ): array {
	if ( null === $reach || $reach > DEEPEST ) {
		return array( $key );
	}
	$tags = array( "$key.q" );
	foreach ( STEPS as $step ) {
		if ( $step < $reach ) {
			$tags[] = "$key.r$step";
		}
	}
	return $tags;
}

/**
 * What has to be purged for a post that enters or leaves a list, with so many newer ones before it. The posts behind it move up
 * or down, so that lists that look further change as well; they show its rank, too.
 *
 * @return string[]
 */
function rank_tags( string $key, int $rank ): array {
	if ( $rank >= DEEPEST ) {
		return array( $key );
	}
	$found = 0;
	foreach ( STEPS as $step ) {
		$found = $step <= $rank ? $step : $found;
	}
	return array( $key, "$key.r$found" );
}

/**
 * A list that nothing is known of; what is known is put over it.
 */
function any_list( array $known ): array {
	return array_merge(
		array(
			'types'      => array(),
			'terms'      => array(),
			'authors'    => array(),
			'dates'      => array(),
			'parents'    => array(),
			'with'       => array(),
			'ids'        => array(),
			'slugs'      => array(),
			'search'     => false,
			'word'       => '',
			'complex'    => false,
			'filtered'   => false,
			'any_status' => false,
			'directed'   => false,
			'members'    => null,
			'narrowed'   => false,
			'sorted'     => array(),
			'ordered'    => array(),
			'sales'      => null,
			'within'     => array(),
			'depth'      => null,
			'pages'      => 'none',
		),
		$known
	);
}
