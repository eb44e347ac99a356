<?php
/**
 * Values of the object cache as bytes. The first byte names the codec; a value with an unknown one counts as missing. The second byte, which
 * integers do not have, is the number of queries that the value took when it was read from the database.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

use function chr, is_int, is_string, substr;

/**
 * Converts a value to bytes; null if that is not possible, as for closures.
 *
 * @param mixed $value   Value.
 * @param int   $queries Queries that it took, at most 255.
 */
function encode_object( $value, int $queries = 0 ): ?string {
	if ( is_string( $value ) ) {
		return 's' . chr( $queries ) . $value;
	}
	if ( is_int( $value ) ) {
		return "i$value";
	}
	try {
		if ( function_exists( 'igbinary_serialize' ) ) {
			return 'B' . chr( $queries ) . igbinary_serialize( $value );
		}
		return 'S' . chr( $queries ) . serialize( $value ); // phpcs:ignore WordPress.PHP.DiscouragedPHPFunctions.serialize_serialize -- objects, too.
	} catch ( \Throwable $error ) {
		return null;
	}
}

/**
 * Converts bytes to a value. Sets `$found` to whether that was possible.
 */
function decode_object( string $bytes, ?bool &$found ) {
	$found = true;
	$codec = $bytes[0] ?? '';
	if ( 'i' === $codec && is_numeric( substr( $bytes, 1 ) ) ) {
		return (int) substr( $bytes, 1 );
	}
	$rest = (string) substr( $bytes, 2 );
	if ( 's' === $codec && isset( $bytes[1] ) ) {
		return $rest;
	}
	$value = false;
	try {
		if ( 'S' === $codec ) {
			// phpcs:ignore WordPress.PHP.DiscouragedPHPFunctions.serialize_unserialize, WordPress.PHP.NoSilencedErrors.Discouraged -- only the site's own PHP writes these bytes; damaged ones count as missing.
			$value = @unserialize( $rest );
			$found = false !== $value || 'b:0;' === $rest;
		} elseif ( 'B' === $codec && function_exists( 'igbinary_unserialize' ) ) {
			// phpcs:ignore WordPress.PHP.NoSilencedErrors.Discouraged -- damaged bytes count as missing.
			$value = @igbinary_unserialize( $rest );
			$found = null !== $value || igbinary_serialize( null ) === $rest;
		} else {
			$found = false;
		}
	} catch ( \Throwable $error ) {
		$found = false;
	}
	// Its class is not loaded yet.
	if ( $value instanceof \__PHP_Incomplete_Class ) {
		$found = false;
	}
	return $found ? $value : false;
}
