<?php
/**
 * Turns the conditions of a list of posts into tags, so that a change of a post purges the list only if it can change its result. Pure.
 *
 * The name of a list contains its conditions, because a post enters or leaves the list when one of them starts or ceases to apply:
 *
 *   l.<type>                        all posts of a type
 *   l.<type>.t<term>                posts with a term
 *   l.<type>.a<author>              posts of an author
 *   l.<type>.d<yyyy[mm[dd]]>        posts of a year, a month or a day
 *   l.<type>.par<parent>            children of a post
 *   l.<type>.s, l.<type>.s.<word>   results of a search
 *   l.<type>.x                      posts with conditions that have no name here
 *   l.<type>.xv                     the same, if terms that exclude posts can be among the conditions
 *   l.<type>.z                      posts with statuses other than `publish` and `inherit`
 *
 * These parts follow the name:
 *
 *   .q, .r<step>    lists of the newest posts: `.q` for every such list, and `.r` for each step of ranks that the list shows
 *   .n              lists that know their number of pages
 *   .in, .p<post>   lists without ranks whose posts are all known: posts that enter the list, and each post that it shows
 *   .w<term>        posts of the list with a term that nearly all lists of their type name, such as a language
 *   .v<term>        posts that get or lose a term that excludes them from the list
 *
 * With ranks, a change of a post far down purges only the pages that reach it. In a list with several conditions, a post can have a higher
 * position than in the list of each condition, so such lists have no ranks. The other tags are:
 *
 *   o.<type>.<field>   lists that sort or filter by a field; of terms, with the taxonomy, and of users (`o.user.<field>`), too
 *   oo.<type>.<field>  lists that only sort by a title or a number: a change that keeps the order does not affect them
 *   o.<type>.<field>.t<term>, .a<author>, .par<parent>; oo.: the same for lists whose posts all meet this condition
 *   os.<type>          the best-selling products, with ranks as above
 *   sv<term>           searches: posts that get or lose a term that excludes them from results
 *
 * The other half, what a change has to purge, is in ranks.php and post-changes.php.
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

/** From this rank on, the plugin does not distinguish ranks. */
const DEEPEST = 500;

/** Maximum number of tags for the posts of one list. More tags are not worth their cost. */
const MAX_MEMBERS = 60;

/** Conditions whose lists have ranks. */
const RANKED_CONDITIONS = array(
	'terms'   => 1,
	'authors' => 1,
	'dates'   => 1,
);

/**
 * Taxonomies whose terms nearly every list of a type names besides its other conditions: the languages of Polylang, and the terms that hide
 * products from catalogs in WooCommerce. If these terms were ordinary conditions, each post of a language would change all lists of that
 * language.
 */
const CONJOINED_TAXONOMIES = array( 'language', 'product_visibility' );

/** Fields whose lists have a tag for each term, author or parent that they name. */
const CONFINED_FIELDS = array( 'title', 'menu_order' );

/** The field with the sales of a product. It changes with each order, but the order of the products by sales seldom changes. */
const SALES = 'total_sales';

/**
 * Returns the tags of a list.
 *
 * @param array $list As `describe_query` returns it. An empty list means no such condition.
 *                    types (string[]), terms, authors, dates, parents, ids, slugs: lists of values.
 *                    with: terms of CONJOINED_TAXONOMIES. within: those of them of which each post of the list has one.
 *                    search (bool), word: the word of the search, see searches.php.
 *                    complex (bool): has conditions without a name. filtered (bool): only a filter of the SQL makes it complex.
 *                    any_status (bool). narrowed (bool): posts that `ids` names have to meet conditions as well.
 *                    directed (bool): a post that starts to meet a condition can only enter the list.
 *                    members (int[]|null): all posts that it shows.
 *                    sorted (string[]). ordered (string[]): fields that affect only the order.
 *                    sales (?int): the number of best-selling products that it depends on.
 *                    depth (?int). pages (string): `none`, `standard` or `other`.
 * @return string[]
 */
function list_tags( array $list ): array {
	$tags = array();
	if ( 1 !== count( $list['types'] ) ) {
		// With several types, nothing notices a post that passes a post of another type: `title_order_tags` compares posts of one type.
		$list['sorted']  = array_merge( $list['sorted'], $list['ordered'] );
		$list['ordered'] = array();
	}
	foreach ( $list['ids'] as $id ) {
		foreach ( classes_of_named( $list ) as $class ) {
			$tags[] = $class . $id;
		}
	}
	foreach ( $list['slugs'] as $slug ) {
		$tags[] = 'n.' . word( $slug );
	}
	$is_named = ( $list['ids'] || $list['slugs'] ) && ! $list['narrowed'];
	foreach ( $list['types'] as $type ) {
		$type = word( $type );
		foreach ( $list['sorted'] as $field ) {
			$tags = array_merge( $tags, confined( "o.$type." . word( $field ), $field, $list ) );
		}
		foreach ( null === $list['sales'] ? $list['ordered'] : array() as $field ) {
			$tags = array_merge( $tags, confined( "oo.$type." . word( $field ), $field, $list ) );
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
 * Returns the tags of a list that sorts or filters by a field. If all its posts meet one of several conditions, changes of other posts do not affect
 * it, so each condition has a tag. Pure.
 *
 * @param string $tag   The tag for all posts of the type.
 * @param string $field The field, as in the tag.
 * @return string[]
 */
function confined( string $tag, string $field, array $list ): array {
	if ( ! in_array( $field, CONFINED_FIELDS, true ) || $list['complex'] || $list['search'] || $list['ids'] || $list['slugs'] ) {
		return array( $tag );
	}
	foreach ( array( 'parents' => 'par', 'terms' => 't', 'authors' => 'a' ) as $kind => $letter ) {
		if ( $list[ $kind ] ) {
			return preg_replace( '/^/', "$tag.$letter", array_map( 'strval', $list[ $kind ] ) );
		}
	}
	return array( $tag );
}

/**
 * Returns the tags of the lists by a field that a change of a post may affect. Pure.
 *
 * @param string     $tag    The tag for all posts of the type.
 * @param string     $field  The field, as in the tag.
 * @param array|null ...$states States of the post before and after, as `post_state` returns them.
 * @return string[]
 */
function with_confined( string $tag, string $field, ?array ...$states ): array {
	$tags = array( $tag );
	foreach ( in_array( $field, CONFINED_FIELDS, true ) ? array_filter( $states ) : array() as $state ) {
		array_push( $tags, "$tag.par$state[parent]", "$tag.a$state[author]" );
		foreach ( $state['terms'] as $terms ) {
			$tags = array_merge( $tags, preg_replace( '/^/', "$tag.t", array_map( 'strval', $terms ) ) );
		}
	}
	return array_values( array_unique( $tags ) );
}

/**
 * Returns the classes of the tags of a post that a list names by its ID, whether or not the post meets the other conditions. `pl` is for its
 * existence, its status and its date.
 *
 * @return string[]
 */
function classes_of_named( array $list ): array {
	$classes = array( 'pl' );
	if ( ! $list['narrowed'] ) {
		return $classes;
	}
	if ( $list['terms'] || $list['with'] || $list['within'] || $list['complex'] ) {
		$classes[] = 'pt';
	}
	if ( $list['authors'] ) {
		$classes[] = 'pa';
	}
	if ( $list['search'] || $list['parents'] || $list['complex'] ) {
		$classes[] = 'p';
	}
	return $classes;
}

/**
 * Returns the tags of the conditions of a list, for one post type.
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
		$tags = array();
		foreach ( $list['slugs'] ? $list['with'] : array() as $term ) {
			// Which posts have these slugs is not known here.
			$tags[] = "l.$type.v$term";
		}
		return $tags;
	}
	$flat = $keys ? array_merge( ...array_values( $keys ) ) : array( "l.$type" );
	if ( 1 < count( $keys ) || ( $keys && ! array_intersect_key( $keys, RANKED_CONDITIONS ) ) ) {
		$list['depth'] = null;
	}
	$tags = array();
	if ( $list['within'] && ! $list['search'] ) {
		foreach ( $flat as $key ) {
			// A change that concerns a term or an author as a whole purges this tag.
			$tags[] = "$key.q";
		}
		$flat         = within_terms( $flat, $list['within'] );
		$list['with'] = array_diff( $list['with'], $list['within'] );
	}
	$list['members'] = count( (array) $list['members'] ) * count( $flat ) > MAX_MEMBERS ? null : $list['members'];
	foreach ( $flat as $key ) {
		$tags = array_merge( $tags, deep( $key, $list ) );
		foreach ( $list['with'] as $term ) {
			$tags[] = "$key.v$term";
		}
	}
	// A change of a post cannot name the searches that find the post, so it purges this tag.
	foreach ( $list['search'] ? $list['with'] : array() as $term ) {
		$tags[] = "sv$term";
	}
	return $tags;
}

/**
 * Returns the names of lists, limited to posts with one of some terms of CONJOINED_TAXONOMIES. Pure.
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
 * Returns the tag of the whole list, or the tags of the ranks that a list of the newest posts shows, or, if all posts are known, the tags
 * of posts that enter the list and of each post that may leave it.
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
 * Returns the tags of a list without ranks whose posts are all known.
 *
 * @param int[] $posts Their IDs.
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
 * Returns the tags of the newest posts of a list: one for each step of ranks that it shows, and one for all lists of the newest posts.
 *
 * @param int|null $reach Null means all posts.
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
 * Returns the tags to purge for a post that enters or leaves a list at a rank, which is the number of newer posts. The posts after it move
 * up or down, so lists that reach further change as well. Such lists have the tag of this step too, so one step is enough.
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
 * Returns a list with the known properties, and defaults for all others.
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
