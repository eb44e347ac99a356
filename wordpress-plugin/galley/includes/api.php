<?php
/**
 * Functions for themes and other plugins, in the global namespace. They do nothing harmful where Galley is not in front of the site; call
 * them behind `function_exists()`, since the plugin may be deactivated.
 *
 * @package Galley
 */

defined( 'ABSPATH' ) || exit;

/**
 * Notes that the page at hand shows something, under a name of your own: `galley_tag( 'my-plugin:list' )`.
 *
 * @param string|string[] $tags Up to 200 printable ASCII characters each, without blanks, commas and semicolons. Others are hashed.
 */
function galley_tag( $tags ): void {
	foreach ( (array) $tags as $tag ) {
		Galley\tag_network( Galley\own_tag( $tag ) );
	}
}

/**
 * Purges the pages that show something, when this request ends.
 *
 * @param string|string[] $what     Tags as `galley_tag()` takes them, and addresses: what begins with `/`, `http://` or `https://`.
 * @param string          $strength `hard`, or `soft`: the old page may be sent while PHP generates the new one.
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
 * Where Galley sends stored pages to members, it puts what the function printed for them in place of what it printed for everybody.
 *
 * @param string   $name   The same on every page that has the part; each name once on a page.
 * @param callable $render Prints the part.
 * @param string   $scope  `session` if a member sees the same on every page, else `page`.
 */
function galley_private( string $name, callable $render, string $scope = 'page' ): void {
	Galley\print_private( "own/$name", $render, $scope );
}
