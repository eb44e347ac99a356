<?php
/**
 * Collects the purges of this request. delivery.php sends them once.
 *
 * A purge is a string: a tag, a path, or `*` for the whole site. After a hard purge, the server no longer sends the old page. After a soft
 * purge, it sends the old page while one refresh runs. The effect of a change is often known only at the end of the request. Event handlers
 * can therefore register a callback that queues purges at that time: `later()`.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Maximum number of purges that are sent individually. If there are more, the plugin purges the whole blog. */
const MAX_PURGES = 500;

$GLOBALS['galley_purges'] = array(
	'hard' => array(),
	'soft' => array(),
);
$GLOBALS['galley_later']  = array();

/**
 * Queues a purge of the pages that have at least one of these tags.
 *
 * @param string|string[] $tags     Tags without the blog prefix.
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
	if ( $GLOBALS['galley_is_over'] ) {
		write_late_purges();
	}
}

/**
 * Queues a hard purge of tags that all blogs of a network share. See `tag_network()`.
 *
 * @param string|string[] $tags Tags without a prefix.
 */
function queue_network_purge( $tags ): void {
	foreach ( with_classes( (array) $tags ) as $tag ) {
		queue_purge_of_word( $tag );
	}
}

/**
 * Queues a purge of all pages. On a multisite network, this includes the pages of all blogs.
 */
function queue_purge_of_all_blogs( string $strength = 'hard' ): void {
	if ( is_multisite() ) {
		queue_purge_of_word( '*', $strength );
	} else {
		queue_purge( 'b', $strength );
	}
}

/**
 * Queues a purge of all pages of the blog, and of the server's markers for pages that it could not store.
 *
 * These markers have no tags, so only a purge of the whole site removes them. On a multisite network, that would purge all blogs. The
 * function does not do that; the markers expire there.
 */
function queue_purge_with_markers(): void {
	if ( is_multisite() ) {
		queue_purge( 'b' );
	} else {
		queue_purge_of_word( '*' );
	}
}

/**
 * Queues a purge of a path, of a tag with its prefix, or of everything (`*`).
 */
function queue_purge_of_word( string $word, string $strength = 'hard' ): void {
	begin_purges();
	$GLOBALS['galley_purges'][ $strength ][ $word ] = true;
	if ( $GLOBALS['galley_is_over'] ) {
		write_late_purges();
	}
}

/**
 * Registers a callback that queues purges immediately before the purges are sent.
 *
 * @param string   $name Name of the callback, unique within the blog. Another callback with the same name replaces it.
 * @param callable $ask  Callback that calls `queue_purge()`.
 */
function later( string $name, callable $ask ): void {
	begin_purges();
	$GLOBALS['galley_later'][ blog_prefix() . $name ] = array( get_current_blog_id(), $ask );
	if ( $GLOBALS['galley_is_over'] && ! in_array( $name, array( 'options', 'tables' ), true ) ) {
		write_late_purges();
	}
}

/**
 * Queues purges at the end of the request, unless Galley stores its response: a link that changes something is an edit, but a page that is stored, and
 * changes the same at each visit, is not.
 *
 * @param string[] $tags Tags with their prefixes.
 */
function purge_unless_stored( array $tags ): void {
	later(
		'unless stored ' . implode( ' ', $tags ),
		static function () use ( $tags ): void {
			if ( ! is_shared() || ! is_stored( headers_list() ) ) {
				queue_observed( without_busy( $tags ) );
			}
		}
	);
}

/**
 * Returns whether the header of a response lets Galley store it. Pure.
 *
 * @param string[] $fields As `headers_list()` returns them, after the plugin has described the response.
 */
function is_stored( array $fields ): bool {
	return preg_grep( '/^Galley-Tags:/i', $fields ) && ! preg_grep( '/^Galley-Cache-Control:.*\bno-store\b/i', $fields );
}

/**
 * Returns the tags and the class of each tag with a number and of each option, because the purge also concerns pages that carry only the class. Pure.
 *
 * @param string[] $tags Tags as described in tags.php.
 * @return string[]
 */
function with_classes( array $tags ): array {
	$all = array();
	foreach ( $tags as $tag ) {
		$all[ $tag ] = true;
		if ( preg_match( '/^(?:op(?=\.)|[ut]f(?=\d+\.)|[a-z]+(?=\d+$))/D', $tag, $found ) ) {
			$all[ $found[0] ] = true;
		}
	}
	return array_map( 'strval', array_keys( $all ) );
}

/**
 * Returns the purges to send now, and empties the queue. Runs the callbacks of `later()` first.
 *
 * @return array{hard: string[], soft: string[]}
 */
function take_purges(): array {
	while ( $GLOBALS['galley_later'] ) {
		list( $blog, $ask ) = array_shift( $GLOBALS['galley_later'] );
		$elsewhere          = is_multisite() && get_current_blog_id() !== $blog;
		if ( $elsewhere && ! get_site( $blog ) ) {
			// The blog was deleted and has no tables to query. Its deletion has queued a separate purge.
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
 * Removes purges that other purges include. If there are too many purges, replaces the tags of the blogs with most of them by purges
 * of these whole blogs, or if that is not sufficient, everything by a purge of all blogs. Pure.
 *
 * @param string[] $words  Purges.
 * @param string   $prefix Blog prefix.
 * @return string[]
 */
function compact_purges( array $words, string $prefix = '' ): array {
	if ( in_array( '*', $words, true ) ) {
		return array( '*' );
	}
	$blogs = array();
	foreach ( $words as $word ) {
		$blog = prefix_of_tag( $word, $prefix );
		if ( null !== $blog ) {
			$blogs[ $blog ] = ( $blogs[ $blog ] ?? 0 ) + 1;
		}
	}
	arsort( $blogs );
	$left = count( $words );
	foreach ( $blogs as $blog => $tags ) {
		if ( $left > MAX_PURGES ) {
			$words[] = $blog . 'b';
			$left   -= $tags - 1;
		}
	}
	if ( $left > MAX_PURGES && '' !== $prefix ) {
		return array( '*' );
	}
	$all = array_flip( $words );
	return array_values(
		array_filter(
			array_unique( $words ),
			static function ( string $word ) use ( $all, $prefix ): bool {
				$blog = prefix_of_tag( $word, $prefix );
				return null === $blog || $blog . 'b' === $word || ! isset( $all[ $blog . 'b' ] );
			}
		)
	);
}

/**
 * Returns the prefix of the blog to which a tag belongs; null for a path and for a tag that all blogs of a network share. Pure.
 *
 * @param string $word   Purge.
 * @param string $prefix Blog prefix of any blog; empty without a network.
 */
function prefix_of_tag( string $word, string $prefix ): ?string {
	if ( '/' === $word[0] ) {
		return null;
	}
	if ( '' === $prefix ) {
		return '';
	}
	return preg_match( '/^\d+\./', $word, $found ) ? $found[0] : null;
}
