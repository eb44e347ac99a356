<?php
/**
 * Computes from two states of a post what to purge.
 *
 * The functions are pure. They only name the data that requires the database (ranks, neighbors, descendants). events-posts.php queries it.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/**
 * Returns what a change of a post affects.
 *
 * @param int        $id  Post ID.
 * @param array|null $old State before the change, as returned by `post_state()`. Null if the post did not exist.
 * @param array|null $new State after the change. Null if the post no longer exists.
 * @return array{tags: string[], lists: array[], searched: bool, moved: bool} Tags to purge; lists that the post enters or leaves (`key`,
 *               `type`, `term`, `author`, `period`, `date`, `added`); whether search results may change; whether its address changed.
 */
function post_changes( int $id, ?array $old, ?array $new ): array {
	$was    = $old && $old['visible'];
	$is     = $new && $new['visible'];
	$change = array(
		'tags'     => array(),
		'lists'    => array(),
		'searched' => false,
		'moved'    => false,
	);
	if ( $old === $new ) {
		return $change;
	}
	$types = array_unique( array_filter( array( $old['type'] ?? '', $new['type'] ?? '' ) ) );
	if ( ( $old['status'] ?? '' ) !== ( $new['status'] ?? '' ) ) {
		foreach ( $types as $type ) {
			$change['tags'][] = 'l.' . word( $type ) . '.z';
		}
	}
	if ( ! $was && ! $is ) {
		$change['tags'] = array_values( array_unique( array_merge( $change['tags'], $old && $new && 'future' === $new['status'] ? hidden_tags( $id, $old, $new ) : own_tags( $id, $old, $new ) ) ) );
		return $change;
	}
	$left             = $was ? state_lists( $old ) : array();
	$entered          = $is ? state_lists( $new ) : array();
	$change['tags'][] = "p$id";
	$change['moved']  = $was !== $is || $old['link'] !== $new['link'] || $old['slug'] !== $new['slug'];
	if ( $was && $is ) {
		$change['tags'] = array_merge( $change['tags'], edit_tags( $id, $old, $new ), conjoined_tags( $old, $new, array_merge( array_keys( $left + $entered ), array( 'l.' . word( $new['type'] ) . '.x' ) ) ) );
		if ( $old['date'] === $new['date'] && $old['type'] === $new['type'] ) {
			list( $left, $entered ) = array( array_diff_key( $left, $entered ), array_diff_key( $entered, $left ) );
		}
	} else {
		$change['tags'] = array_merge( $change['tags'], own_tags( $id, $old, $new, true ) );
		foreach ( $types as $type ) {
			$change['tags'][] = 'sm.' . word( $type );
		}
	}
	if ( $change['moved'] ) {
		foreach ( array_filter( array( $was ? $old : null, $is ? $new : null ) ) as $state ) {
			$change['tags'] = array_merge( $change['tags'], slug_tags( $state['slug'] ) );
		}
	}
	$change['searched'] = $was !== $is || differs( $old, $new, 'type', 'status', 'date', 'content', 'title', 'summary', 'file', 'password' );
	foreach ( $types as $type ) {
		if ( $left || $entered ) {
			$change['tags'][] = 'l.' . word( $type ) . '.xv';
			if ( in_array( false, array_column( $left + $entered, 'conjoined' ), true ) ) {
				$change['tags'][] = 'l.' . word( $type ) . '.x';
			}
		}
		if ( $change['searched'] ) {
			$change['tags'][] = 'l.' . word( $type ) . '.s';
		}
	}
	foreach ( array( -1 => $left, 1 => $entered ) as $added => $lists ) {
		foreach ( $lists as $list ) {
			$change['lists'][] = $list + array( 'added' => $added );
		}
	}
	$change['tags'] = array_values( array_unique( $change['tags'] ) );
	return $change;
}

/**
 * Returns the tags of a post itself that a change of it affects, without those of lists. Code may also show a post that no list shows, such as the
 * title of one in the trash: `get_the_title( 5 )`. Pure.
 *
 * @param bool $appears Whether the post appears or disappears.
 * @return string[]
 */
function own_tags( int $id, ?array $old, ?array $new, bool $appears = false ): array {
	if ( $appears || ! $old || ! $new ) {
		return array( "p$id", "pi$id", "pl$id", "pe$id", "th$id", "pt$id", "pm$id", "cn$id", "c$id" );
	}
	return array_merge( array( "p$id" ), preg_grep( '/^[a-z]+\d+$/D', edit_tags( $id, $old, $new ) ) );
}

/**
 * Returns the tags of lists that exclude posts by a term that the post gains or loses. Pure.
 *
 * @param string[] $lists Lists that contain the post before or after the change.
 * @return string[]
 */
function conjoined_tags( array $old, array $new, array $lists ): array {
	$tags = array();
	foreach ( CONJOINED_TAXONOMIES as $taxonomy ) {
		$was = $old['terms'][ $taxonomy ] ?? array();
		$is  = $new['terms'][ $taxonomy ] ?? array();
		foreach ( array_merge( array_diff( $was, $is ), array_diff( $is, $was ) ) as $term ) {
			$tags[] = "sv$term";
			foreach ( $lists as $list ) {
				$tags[] = "$list.v$term";
			}
		}
	}
	return $tags;
}

/**
 * Checks whether two states differ in at least one of the given fields.
 */
function differs( array $old, array $new, string ...$names ): bool {
	foreach ( $names as $name ) {
		if ( $old[ $name ] !== $new[ $name ] ) {
			return true;
		}
	}
	return false;
}

/**
 * Returns the tags that an edit of a scheduled post affects. Some sites list upcoming posts.
 *
 * @return string[]
 */
function hidden_tags( int $id, array $old, array $new ): array {
	$tags = array_merge( array( "p$id" ), edit_tags( $id, $old, $new ) );
	if ( differs( $old, $new, 'date', 'terms', 'author', 'parent', 'type' ) ) {
		foreach ( array_unique( array( $old['type'], $new['type'] ) ) as $type ) {
			$tags[] = 'l.' . word( $type ) . '.z';
		}
	}
	return $tags;
}

/**
 * Returns the tags that an edit of a public post affects, in addition to lists and the post itself.
 *
 * @return string[]
 */
function edit_tags( int $id, array $old, array $new ): array {
	$tags   = array();
	$type   = word( $new['type'] );
	$titles = array_fill_keys( array( 'title', 'modified' ), true );
	if ( differs( $old, $new, 'excerpt', 'password' ) ) {
		$tags[] = "pe$id";
	}
	if ( 'attachment' === $new['type'] && array_diff_key( $old, $titles ) !== array_diff_key( $new, $titles ) ) {
		$tags[] = "pi$id";
	}
	if ( differs( $old, $new, 'title', 'link', 'slug', 'password', 'date', 'type' ) ) {
		$tags[] = "pl$id";
	}
	if ( differs( $old, $new, 'modified' ) ) {
		$tags[] = "pd$id";
	}
	if ( differs( $old, $new, 'author', 'type' ) ) {
		$tags[] = "pa$id";
	}
	if ( differs( $old, $new, 'terms', 'type' ) ) {
		$tags[] = "pt$id";
	}
	if ( differs( $old, $new, 'link', 'slug' ) ) {
		$tags[] = "sm.$type";
	}
	foreach ( array( 'title', 'modified', 'menu_order', 'author', 'parent', 'slug', 'password', 'rest' ) as $field ) {
		if ( differs( $old, $new, $field ) ) {
			$tags = array_merge( $tags, with_confined( "o.$type." . ( 'slug' === $field ? 'name' : $field ), $field, $old, $new ) );
		}
	}
	if ( differs( $old, $new, 'picture' ) ) {
		$tags[] = "th$id";
		$tags[] = "o.$type.m__thumbnail_id";
	}
	if ( differs( $old, $new, 'password' ) ) {
		$tags[] = "l.$type.x";
		// The REST API does not show the comments of a password-protected post.
		$tags[] = "c$id";
	}
	return $tags;
}

/**
 * Returns the lists that contain a public post with this state, by tag.
 *
 * @return array<string, array{key: string, type: string, term: int, author: int, period: string, date: string, ranked: bool, conjoined: bool}>
 *               `conjoined` is true for a list of posts with a term of CONJOINED_TAXONOMIES.
 */
function state_lists( array $state ): array {
	$type  = word( $state['type'] );
	$about = array(
		'type'   => $state['type'],
		'term'   => 0,
		'author' => 0,
		'period' => '',
		'date'   => $state['date'],
		'ranked' => true,
		'conjoined' => false,
	);
	$lists = array( "l.$type" => $about );
	foreach ( $state['terms'] as $terms ) {
		foreach ( $terms as $term ) {
			$lists[ "l.$type.t$term" ] = array_merge( $about, array( 'term' => $term ) );
		}
	}
	$lists[ "l.$type.a{$state['author']}" ] = array_merge( $about, array( 'author' => $state['author'] ) );
	$digits                                 = preg_replace( '/\D/', '', $state['date'] );
	foreach ( array( 4, 6, 8 ) as $length ) {
		$period                      = substr( $digits, 0, $length );
		$lists[ "l.$type.d$period" ] = array_merge( $about, array( 'period' => $period ) );
	}
	$lists[ "l.$type.par{$state['parent']}" ] = array_merge( $about, array( 'ranked' => false ) );
	foreach ( array_intersect_key( $state['terms'], array_flip( CONJOINED_TAXONOMIES ) ) as $terms ) {
		$lists = with_conjoined( $lists, $type, $terms );
	}
	foreach ( $lists as $key => $list ) {
		$lists[ $key ]['key'] = $key;
	}
	return $lists;
}

/**
 * Adds, for each list, the lists that contain only its posts with one of the given terms. Ranks in the added lists are unknown. Pure.
 *
 * @param array[] $lists Lists by key.
 * @param string  $type  Post type as in a tag.
 * @param int[]   $terms Terms of CONJOINED_TAXONOMIES.
 * @return array[]
 */
function with_conjoined( array $lists, string $type, array $terms ): array {
	$about = array(
		'term'      => 0,
		'author'    => 0,
		'period'    => '',
		'ranked'    => false,
		'conjoined' => true,
	);
	foreach ( $terms as $term ) {
		$lists[ "l.$type.t$term" ]['conjoined'] = true;
	}
	foreach ( $lists as $key => $list ) {
		foreach ( within_terms( array( $key ), $list['conjoined'] ? array() : $terms ) as $within ) {
			$lists[ $within ] = array_merge( $list, $about );
		}
	}
	return $lists;
}

/**
 * Returns the tags of pages that look up a slug or the beginning of a slug.
 *
 * @return string[]
 */
function slug_tags( string $slug ): array {
	$tags = array( 'n.' . word( $slug ) );
	$most = min( 3, strlen( $slug ) );
	for ( $length = 1; $length <= $most; $length++ ) {
		$tags[] = 'g.' . word( substr( $slug, 0, $length ) );
	}
	return $tags;
}
