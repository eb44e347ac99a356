<?php
/**
 * Provides functions for themes and other plugins, in the global namespace.
 *
 * The functions are harmless if Galley is not in front of the site. Check `function_exists()` before you call them, because the plugin may be
 * deactivated.
 *
 * @package Galley
 */

defined( 'ABSPATH' ) || exit;

/**
 * Adds custom tags to the current page for data that the page shows: `galley_tag( 'my-plugin:list' )`. Galley may store a response of a REST
 * route of another plugin only if its code calls this function or sends a lifetime.
 *
 * @param string|string[] $tags Up to 200 printable ASCII characters each, without spaces, commas and semicolons. Other tags are hashed.
 */
function galley_tag( $tags ): void {
	$GLOBALS['galley_is_tagged'] = true;
	foreach ( (array) $tags as $tag ) {
		Galley\tag_network( Galley\own_tag( $tag ) );
	}
}

/**
 * Purges pages by tag or address when this request ends.
 *
 * @param string|string[] $what     Tags as in `galley_tag()`, and addresses. An address begins with `/`, `http://` or `https://`.
 * @param string          $strength `hard` or `soft`. After a soft purge, the server may send the old page while PHP generates the new one.
 */
function galley_purge( $what, string $strength = 'hard' ): void {
	foreach ( array_filter( (array) $what, 'is_scalar' ) as $one ) {
		if ( preg_match( '~^(/|https?://)~i', (string) $one ) ) {
			Galley\purge_url( (string) $one, $strength );
		} else {
			Galley\purge_tags( (string) $one, $strength );
		}
	}
}

/**
 * Prints a part of the page that members or visitors with a cart see differently: `galley_private( 'greeting', 'my_theme_greeting' )`.
 *
 * If Galley sends stored pages to members, it replaces the output for all visitors with the output for the member.
 *
 * @param string   $name   Name of the part. It is the same on every page that has the part, and unique within a page.
 * @param callable $render Function that prints the part.
 * @param string   $scope  `session` if a member sees the same content on every page, otherwise `page`.
 */
function galley_private( string $name, callable $render, string $scope = 'page' ): void {
	Galley\print_private( "own/$name", $render, $scope );
}
