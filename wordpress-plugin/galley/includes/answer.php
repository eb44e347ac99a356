<?php
/**
 * Says of the answer at hand what it is made of and how long it lives, as late as possible: when all of it is there.
 *
 * A page that may be stored is buffered, so that its head leaves after its last byte was made. A download that outgrows
 * the buffer, or a theme that flushes early, sends the head before the page is known; then it depends on everything.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** What is larger is no page, and must not fill the memory. */
const BUFFER = 2097152;

if ( is_described() ) {
	ob_start( __NAMESPACE__ . '\\leave_buffer', BUFFER );
	$GLOBALS['galley_buffer_level'] = ob_get_level();
}
if ( passes_through() ) {
	header_register_callback( __NAMESPACE__ . '\\on_head' );
	// WordPress ends all buffers at priority 1.
	add_action( 'shutdown', __NAMESPACE__ . '\\on_end', 0 );
}

/**
 * The page is complete.
 */
function on_end(): void {
	$GLOBALS['galley_is_complete'] = true;
	if ( headers_sent() ) {
		return;
	}
	if ( is_described() ) {
		// Other buffers end here instead of a moment later, so that the positions of fragments are final.
		while ( ob_get_level() > $GLOBALS['galley_buffer_level'] && ob_end_flush() ) {
			continue;
		}
		if ( ob_get_level() === $GLOBALS['galley_buffer_level'] ) {
			$page = finish_private( (string) ob_get_contents() );
			ob_clean();
			$GLOBALS['galley_is_placed'] = true;
			echo $page; // phpcs:ignore WordPress.Security.EscapeOutput -- the page.
		}
	}
	on_head();
}

/**
 * What leaves the buffer. A complete page keeps its bytes: its positions count them, and what an author has written may look like a mark
 * once another one in it was removed.
 */
function leave_buffer( string $html ): string {
	return empty( $GLOBALS['galley_is_placed'] ) ? remove_marks( $html ) : $html;
}

/**
 * The head is about to be sent.
 */
function on_head(): void {
	if ( is_shared() ) {
		describe_page();
	} elseif ( is_member_page() ) {
		describe_member_page();
	} elseif ( runs_to_its_end() && ! headers_sent() ) {
		// What this request changed is purged by the plugin: the server need not guess it from the method.
		header( 'Galley-Plugin: ' . VERSION );
	}
	carry_purges();
	announce_appointments();
}

function describe_page(): void {
	static $done = false;
	$status      = http_response_code();
	if ( $done || ! in_array( $status, array( 200, 301, 308, 404, 410 ), true ) ) {
		return;
	}
	$done = true;
	if ( empty( $GLOBALS['galley_is_complete'] ) ) {
		header( 'Galley-Tags: *' );
		return;
	}
	$why = forbidden();
	if ( null !== $why ) {
		header( 'Galley-Cache-Control: no-store' );
		return;
	}
	tag( 'b' );
	if ( in_array( $status, array( 301, 308 ), true ) && ! did_action( 'wp_head' ) ) {
		forget_unshown();
	}
	gather_mods();
	gather_printed_titles();
	gather_awaited();
	/**
	 * The tags of the page at hand. Add some of your own, and purge them with the action `galley_purge_tags`.
	 */
	$tags = array_keys( $GLOBALS['galley_tags'] );
	if ( has_filter( 'galley_tags' ) && null === wanted_fragment() ) {
		$tags = (array) apply_filters( 'galley_tags', $tags );
		$tags = array_values( array_unique( array_map( __NAMESPACE__ . '\\own_tag', $tags ) ) );
	}
	foreach ( lines( collapsed( $tags ) ) as $line ) {
		header( "Galley-Tags: $line", false );
	}
	foreach ( fields_in_order( $GLOBALS['galley_fragment_fields'], $GLOBALS['galley_private_fields'] ) as $field ) {
		header( "Galley-Fragment: $field", false );
	}
	if ( $GLOBALS['galley_fragment_fields'] ) {
		header( 'Galley-Fragment-Except: ' . implode( ',', marked_as_current() ) );
	}
	if ( preg_grep( '/^cache-control:.*\b(s-maxage|max-age)=/i', headers_list() ) && ! is_missing() ) {
		// Who names a lifetime knows why.
		return;
	}
	list( $fresh, $stale ) = lifetime();
	header( $fresh > 0 ? "Galley-Cache-Control: max-age=$fresh, stale-while-revalidate=$stale, stale-if-error=" . LIFETIME : 'Galley-Cache-Control: no-store' );
}

/**
 * A tag that somebody else made, as a field may carry it. Pure.
 */
function own_tag( $tag ): string {
	return preg_match( '/^[\x21-\x2b\x2d-\x3a\x3c-\x7e]{1,200}$/D', (string) $tag ) ? (string) $tag : word( (string) $tag );
}
