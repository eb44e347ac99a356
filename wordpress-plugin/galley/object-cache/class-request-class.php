<?php
/**
 * What the store learns by: the URL of a request with its login state, and the pattern of both.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/**
 * Names the class of a request.
 */
final class Request_Class {

	/**
	 * Returns the hashes for this request.
	 *
	 * @return array{url: string, pattern: string}
	 */
	public static function of_request(): array {
		$uri    = (string) ( $_SERVER['REQUEST_URI'] ?? implode( ' ', array_slice( (array) ( $_SERVER['argv'] ?? array() ), 1, 4 ) ) ); // phpcs:ignore WordPress.Security.ValidatedSanitizedInput -- only a hash of it leaves PHP.
		$method = (string) ( $_SERVER['REQUEST_METHOD'] ?? PHP_SAPI ); // phpcs:ignore WordPress.Security.ValidatedSanitizedInput -- only a hash of it leaves PHP.
		$host   = (string) ( $_SERVER['HTTP_HOST'] ?? '' ); // phpcs:ignore WordPress.Security.ValidatedSanitizedInput -- only a hash of it leaves PHP.
		$user   = '';
		foreach ( $_COOKIE as $name => $value ) {
			if ( 0 === strpos( (string) $name, 'wordpress_logged_in_' ) && is_string( $value ) ) {
				$user = strtok( $value, '|' );
			}
		}
		$state = $method . '|' . $host . '|';
		return array(
			'url'     => md5( $state . $user . '|' . $uri, true ),
			'pattern' => md5( $state . ( '' === $user ? '' : 'user' ) . '|' . self::pattern( $uri ), true ),
		);
	}

	/**
	 * Returns the pattern of a URL: words of WordPress and the first of several parts stay. The names of query parameters matter where they
	 * choose the page: at the root, in the administration, in the REST API. Pure.
	 */
	public static function pattern( string $uri ): string {
		list( $path, $query ) = explode( '?', $uri, 2 ) + array( 1 => '' );
		$parts                = array_values( array_filter( explode( '/', $path ), 'strlen' ) );
		$is_pretty            = array() !== $parts && 0 !== strpos( $parts[0], 'wp-' ) && '.php' !== substr( $path, -4 );
		foreach ( $parts as $at => $part ) {
			if ( ctype_digit( $part ) ) {
				$parts[ $at ] = '#';
			} elseif ( $is_pretty && ( $at > 0 || 1 === count( $parts ) ) ) {
				$parts[ $at ] = '*';
			}
		}
		$names = array();
		foreach ( $is_pretty ? array() : array_slice( explode( '&', $query ), 0, 20 ) as $pair ) {
			$names[] = explode( '=', $pair, 2 )[0];
		}
		sort( $names );
		return implode( '/', $parts ) . '?' . implode( '&', $names );
	}
}
