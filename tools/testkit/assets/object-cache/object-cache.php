<?php
/**
 * The drop-in of `make object-cache`. The pool of PHP-FPM chooses by OBJECT_CACHE; `none` is WordPress's own object cache.
 */

declare(strict_types=1);

if ( 'galley' === getenv( 'OBJECT_CACHE' ) ) {
	require WP_CONTENT_DIR . '/plugins/galley/object-cache/drop-in.php';
} elseif ( in_array( getenv( 'OBJECT_CACHE' ), array( 'redis', 'mget', 'apcu' ), true ) ) {
	require __DIR__ . '/object-cache-peers.php';
}
