<?php
/**
 * The purges of this request: collected while it runs, sent once (delivery.php).
 *
 * A purge is a word: a tag, a path, or `*` for the whole site. Hard purges are final, soft ones let the old page answer
 * while one refresh runs. What happens is mostly known only when the request is over, so an event may also note what it has
 * touched and be asked then: `later()`.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** More purges than that are not sent one by one: the blog as a whole is purged. */
const MOST_ORDERS = 500;

$GLOBALS['galley_purges'] = array(
	'hard' => array(),
	'soft' => array(),
);
$GLOBALS['galley_later']  = array();

/**
 * Queues a purge of the pages with one of these tags.
 *
 * @param string|string[] $tags     Without the prefix of the blog.
 * @param string          $strength `hard` or `soft`.
 */
function queue_purge( $tags, string $strength = 'hard' ): void {
	if ( ! $tags ) {
		return;
	}
	begin_purges();
	foreach ( with_classes( (array) $tags ) as $tag ) {
		$GLOBALS['galley_purges'][ $strength ][ blog_prefix() . $tag ] = true;
	}
}

/**
 * The same for what all blogs of a network have in common: see `tag_network`.
 *
 * @param string|string[] $tags Without a prefix.
 */
function queue_network_purge( $tags ): void {
	foreach ( with_classes( (array) $tags ) as $tag ) {
		queue_purge_of_word( $tag );
	}
}

/**
 * Queues a purge of all pages: of all blogs, where there are several.
 */
function queue_purge_of_all_blogs( string $strength = 'hard' ): void {
	if ( is_multisite() ) {
		queue_purge_of_word( '*', $strength );
	} else {
		queue_purge( 'b', $strength );
	}
}

/**
 * Queues a purge of all pages of the blog, and makes the server forget which of them it could not store. It notes the latter
 * without tags, so only a purge of its whole site does that; in a network that would be all blogs, and there the notes end by themselves.
 */
function queue_purge_with_markers(): void {
	if ( is_multisite() ) {
		queue_purge( 'b' );
	} else {
		queue_purge_of_word( '*' );
	}
}

/**
 * Queues a purge of a path, or of everything (`*`).
 */
function queue_purge_of_word( string $word, string $strength = 'hard' ): void {
	begin_purges();
	$GLOBALS['galley_purges'][ $strength ][ $word ] = true;
}

/**
 * Has a function asked for its purges when they are about to be sent.
 *
 * @param string   $name The same name again does nothing.
 * @param callable $ask  Calls `queue_purge()`.
 */
function later( string $name, callable $ask ): void {
	begin_purges();
	$GLOBALS['galley_later'][ blog_prefix() . $name ] = array( get_current_blog_id(), $ask );
}

/**
 * Tags with the classes of the numbered among them: who carries the class is meant as well. Pure.
 *
 * @param string[] $tags As in tags.php.
 * @return string[]
 */
function with_classes( array $tags ): array {
	$all = array();
	foreach ( $tags as $tag ) {
		$all[ $tag ] = true;
		if ( preg_match( '/^([a-z]+)\d+$/D', $tag, $found ) ) {
			$all[ $found[1] ] = true;
		}
	}
	return array_map( 'strval', array_keys( $all ) );
}

/**
 * Takes what there is to be sent now.
 *
 * @return array{hard: string[], soft: string[]}
 */
function take_purges(): array {
	while ( $GLOBALS['galley_later'] ) {
		list( $blog, $ask ) = array_shift( $GLOBALS['galley_later'] );
		$elsewhere          = is_multisite() && get_current_blog_id() !== $blog;
		if ( $elsewhere && ! get_site( $blog ) ) {
			// It is gone, and has no tables to look into; that it went is a purge of its own.
			continue;
		}
		if ( $elsewhere ) {
			switch_to_blog( $blog );
		}
		$ask();
		if ( $elsewhere ) {
			restore_current_blog();
		}
	}
	$purges                   = $GLOBALS['galley_purges'];
	$GLOBALS['galley_purges'] = array(
		'hard' => array(),
		'soft' => array(),
	);
	return array(
		'hard' => compact_purges( array_map( 'strval', array_keys( $purges['hard'] ) ), blog_prefix() ),
		'soft' => compact_purges( array_map( 'strval', array_keys( $purges['soft'] ) ), blog_prefix() ),
	);
}

/**
 * Orders without those that others include; everything of the blog where there are too many. Pure.
 *
 * @param string[] $words  Orders.
 * @param string   $prefix Of the blog.
 * @return string[]
 */
function compact_purges( array $words, string $prefix = '' ): array {
	if ( in_array( '*', $words, true ) ) {
		return array( '*' );
	}
	$whole = $prefix . 'b';
	if ( count( $words ) > MOST_ORDERS ) {
		foreach ( $words as $word ) {
			if ( '/' !== $word[0] && 0 !== strncmp( $word, $prefix, strlen( $prefix ) ) ) {
				// Of several blogs at once.
				return array( '*' );
			}
		}
		$words[] = $whole;
	}
	if ( ! in_array( $whole, $words, true ) ) {
		return $words;
	}
	return array_values(
		array_filter(
			$words,
			static function ( string $word ) use ( $whole, $prefix ): bool {
				return $word === $whole || '/' === $word[0] || 0 !== strncmp( $word, $prefix, strlen( $prefix ) );
			}
		)
	);
}
