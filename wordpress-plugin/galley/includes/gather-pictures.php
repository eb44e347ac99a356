<?php
/**
 * Adds tags for the images and other attachments of a page, and detects whether the page prints their titles.
 *
 * WordPress does not reveal which code reads a title, so the plugin searches the complete page for it. If it cannot search the page, it
 * assumes that the page prints the title. Alternative texts and images within a text often contain the same words, but they do not depend
 * on the title. The plugin first removes them from its copy of the page, once for each time that WordPress generated them.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

$GLOBALS['galley_pictures'] = array();
$GLOBALS['galley_no_title'] = array();
if ( is_described() ) {
	gather_pictures();
}

function gather_pictures(): void {
	$own = __NAMESPACE__ . '\\';
	foreach ( array( 'wp_get_attachment_metadata', 'wp_get_attachment_url' ) as $filter ) {
		add_filter( $filter, $own . 'gather_attachment', PHP_INT_MAX, 2 );
	}
	add_filter( 'wp_get_attachment_image_attributes', $own . 'gather_alternative', PHP_INT_MAX, 2 );
	add_filter( 'wp_content_img_tag', $own . 'gather_written_picture', PHP_INT_MAX );
}

function gather_attachment( $data, $id = 0 ) {
	$id = (int) $id;
	if ( $id > 0 && empty( $GLOBALS['galley_excerpt_of'] ) ) {
		tag( "pi$id" );
		$GLOBALS['galley_pictures'][ blog_prefix() ][ $id ] = (string) ( get_post( $id )->post_title ?? '' );
	}
	return $data;
}

/**
 * Records an alternative text that comes from the field of the image and not from its title.
 */
function gather_alternative( $attributes, $picture = null ) {
	$text = (string) ( $attributes['alt'] ?? '' );
	if ( '' !== $text && $picture instanceof \WP_Post && $text !== $picture->post_title && trim( wp_strip_all_tags( (string) get_post_meta( $picture->ID, '_wp_attachment_image_alt', true ) ) ) === $text ) {
		$GLOBALS['galley_no_title'][] = 'alt="' . esc_attr( $text ) . '"';
	}
	return $attributes;
}

/**
 * Records an image as it occurs in a text.
 */
function gather_written_picture( $html ) {
	$GLOBALS['galley_no_title'][] = (string) $html;
	return $html;
}

function gather_printed_titles(): void {
	if ( ! $GLOBALS['galley_pictures'] ) {
		return;
	}
	$page = has_tag( 'ht' ) && ob_get_level() === $GLOBALS['galley_buffer_level'] ? (string) ob_get_contents() : '';
	$page = strtolower( without( $page, $GLOBALS['galley_no_title'] ) );
	foreach ( $GLOBALS['galley_pictures'] as $prefix => $titles ) {
		foreach ( $titles as $id => $title ) {
			if ( '' === $page || prints_title( $page, $title ) ) {
				$GLOBALS['galley_tags'][ $prefix . "p$id" ] = true;
			}
		}
	}
}

/**
 * Returns a page without some parts. Each part is removed as often as it is in the list. Pure.
 *
 * @param string[] $parts Texts that are not empty.
 */
function without( string $page, array $parts ): string {
	foreach ( $parts as $part ) {
		$at = '' === $part ? false : strpos( $page, $part );
		if ( false !== $at ) {
			$page = substr_replace( $page, '', $at, strlen( $part ) );
		}
	}
	return $page;
}

/**
 * Returns whether a page may print a title: its first two words, with anything between them that is not a letter or digit, but not as a
 * file name. Pure.
 *
 * @param string $page  The page in lowercase.
 * @param string $title The title as stored.
 */
function prints_title( string $page, string $title ): bool {
	$words = preg_split( '/[^\pL\pN]+/u', strtolower( $title ), 3, PREG_SPLIT_NO_EMPTY );
	if ( ! $words ) {
		return true;
	}
	if ( false === strpos( $page, $words[0] ) ) {
		return false;
	}
	$pattern = implode( '(?:&#?\w+;|[^\pL\pN])+', array_slice( $words, 0, 2 ) );
	return 0 !== preg_match( '~(?<![/\pL\pN])' . $pattern . '(?![\pL\pN])~u', $page );
}
