<?php
/**
 * Adds the tags and the lifetime to the current response. This happens as late as possible, when the page is complete.
 *
 * The plugin buffers a page that Galley may store, so that PHP sends the header after the last byte of the page exists. If a download
 * outgrows the buffer, or a theme flushes early, PHP sends the header before all tags are known. Such a page depends on everything.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Size of the buffer in bytes. A larger response is not a page, and must not fill the memory. */
const BUFFER = 2097152;

if ( is_described() ) {
	ob_start( __NAMESPACE__ . '\\leave_buffer', BUFFER );
	$GLOBALS['galley_buffer_level'] = ob_get_level();
}
if ( passes_through() ) {
	header_register_callback( __NAMESPACE__ . '\\on_head' );
	// WordPress flushes all output buffers at priority 1.
	add_action( 'shutdown', __NAMESPACE__ . '\\on_end', 0 );
}

/**
 * Finishes the page and its header when the page is complete.
 */
function on_end(): void {
	$GLOBALS['galley_is_complete'] = true;
	if ( headers_sent() ) {
		return;
	}
	if ( is_described() ) {
		// Ends other buffers now instead of a moment later, so that the positions of fragments are final.
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
 * Returns the output of the buffer. The function does not change a complete page, because the positions of fragments count its bytes. Also,
 * text of an author may look like a mark once another mark in it has been removed.
 */
function leave_buffer( string $html ): string {
	return empty( $GLOBALS['galley_is_placed'] ) ? remove_marks( $html ) : $html;
}

/**
 * Adds the header fields of the plugin just before PHP sends the header, once: PHP sends the header of a short page after it has destroyed all
 * objects, the object cache among them.
 */
function on_head(): void {
	static $done = false;
	if ( $done ) {
		return;
	}
	$done = true;
	if ( is_shared() ) {
		describe_page();
	} elseif ( is_member_page() ) {
		describe_member_page();
	} elseif ( runs_to_its_end() && ! headers_sent() ) {
		// The plugin purges what this request changes, so the server need not guess from the method.
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
	$done   = true;
	$stated = is_missing() ? null : stated_lifetime( headers_list() );
	$why    = forbidden() ?? forbidden_route( null !== $stated );
	if ( null !== $why ) {
		// The server explains the second directive.
		header( "Galley-Cache-Control: no-store, why=$why" );
		return;
	}
	if ( empty( $GLOBALS['galley_is_complete'] ) ) {
		header( 'Galley-Tags: ' . ANY_CHANGE );
		return;
	}
	tag( 'b' );
	if ( in_array( $status, array( 301, 308 ), true ) && ! did_action( 'wp_head' ) ) {
		forget_unshown();
	}
	gather_mods();
	gather_printed_titles();
	gather_awaited();
	if ( is_missing() ) {
		// Some plugins decide this late.
		tag( 'e404' );
	}
	gather_read_options();
	if ( function_exists( __NAMESPACE__ . '\\gather_cached_reads' ) ) {
		gather_cached_reads();
	}
	gather_tables( tables_count( null !== $stated, machine_counts(), ! empty( $GLOBALS['galley_is_tagged'] ) ) );
	gather_foreign_format();
	/**
	 * Filters the tags of the current page. Add your own tags here, and purge them with the action `galley_purge_tags`.
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
	list( $fresh, $stale ) = lifetime();
	if ( null !== $stated ) {
		// Code that sets a lifetime has a reason for it, but it does not know when the page becomes wrong.
		$wrong = wrong_after() ?? PHP_INT_MAX;
		if ( $fresh > 0 && $stated + STALE <= $wrong ) {
			return;
		}
		list( $fresh, $stale ) = array( $fresh > 0 ? min( $stated, $wrong ) : 0, 0 );
	}
	// A wrong page is no better than an error.
	$error = null === wrong_after() ? LIFETIME : $stale;
	header( $fresh > 0 ? "Galley-Cache-Control: max-age=$fresh, stale-while-revalidate=$stale, stale-if-error=$error" : 'Galley-Cache-Control: no-store' );
}

/**
 * Returns a tag of other code in the form that a header field can carry. Pure.
 */
function own_tag( $tag ): string {
	return preg_match( '/^[\x21-\x2b\x2d-\x3a\x3c-\x7e]{1,200}$/D', (string) $tag ) ? (string) $tag : word( (string) $tag );
}
