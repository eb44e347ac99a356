<?php
/**
 * The drop-in of `make object-cache` for all columns but Galley's. The pool of PHP-FPM chooses by OBJECT_CACHE; `none` is WordPress's own object cache.
 */

declare(strict_types=1);

if ( in_array( getenv( 'OBJECT_CACHE' ), array( 'redis', 'mget', 'apcu' ), true ) ) {
	require __DIR__ . '/object-cache-peers.php';
}
