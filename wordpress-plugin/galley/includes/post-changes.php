<?php
/**
 * From two states of a post to what has to be purged. Pure: what only the database knows (ranks, neighbours, descendants) is
 * named here and asked for in events-posts.php.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/**
 * What a change touches.
 *
 * @param int        $id  The post.
 * @param array|null $old As `post_state` gives it; null: it was not there.
 * @param array|null $new The same after the change; null: it is gone.
 * @return array{tags: string[], lists: array[], searched: bool, moved: bool} Tags to purge; lists that it enters or leaves (`key`, `type`,
 *               `term`, `author`, `period`, `date`, `added`); whether searches may find it otherwise; whether its address changed.
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
		$change['tags'] = array_values( array_unique( array_merge( $change['tags'], $old && $new && 'future' === $new['status'] ? hidden_tags( $id, $old, $new ) : array() ) ) );
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
		array_push( $change['tags'], "pi$id", "pl$id", "pe$id", "th$id", "pt$id", "pm$id", "cn$id", "c$id" );
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
 * The tags of lists for a post that gets or loses a term by which they leave posts out. Pure.
 *
 * @param string[] $lists That it is in, before or after.
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
 * Whether two states differ in one of some fields.
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
 * The tags of what an edit touches of a scheduled post: some sites list what is to come.
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
 * The tags of what an edit of a public post touches, besides lists and the post itself.
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
			$tags[] = "o.$type." . ( 'slug' === $field ? 'name' : $field );
		}
	}
	if ( differs( $old, $new, 'picture' ) ) {
		$tags[] = "th$id";
		$tags[] = "o.$type.m__thumbnail_id";
	}
	if ( differs( $old, $new, 'password' ) ) {
		$tags[] = "l.$type.x";
		// REST shows the comments of a protected post to nobody.
		$tags[] = "c$id";
	}
	return $tags;
}

/**
 * The lists that a public post of such a state is in, by their tags.
 *
 * @return array<string, array{key: string, type: string, term: int, author: int, period: string, date: string, ranked: bool, conjoined: bool}> The
 *               last: whether it is a list of posts with a term of CONJOINED_TAXONOMIES.
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
 * Some lists, and the same of posts with one of some terms alone, of which no rank is known. Pure.
 *
 * @param array[] $lists By key.
 * @param string  $type  As in a tag.
 * @param int[]   $terms Of CONJOINED_TAXONOMIES.
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
 * The tags of pages that look for a slug, or for the beginning of one.
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
