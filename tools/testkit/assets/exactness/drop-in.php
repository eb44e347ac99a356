<?php
/**
 * The drop-in of the exactness run: Galley's object cache, except in the pools that generate the reference and measure costs.
 */

declare(strict_types=1);

if ( 'without' !== getenv( 'EXACTNESS_OBJECTS' ) ) {
	require WP_CONTENT_DIR . '/plugins/galley/object-cache/drop-in.php';
}
