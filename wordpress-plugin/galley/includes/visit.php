<?php
/**
 * Links to a style sheet by which browsers prove that they visit the site, so that Galley can tell people from a crawl.
 *
 * Galley asks for the link if few visitors load files of the site from it: a CDN sends them, another cache, or the cache of the browser.
 * The link is the same for everybody, so a stored page has it for all. Browsers keep the style sheet for ten minutes.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

add_action( 'wp_head', __NAMESPACE__ . '\\print_visit_link', 1000 );

function print_visit_link(): void {
	if ( passes_through() && 'link' === ( $_SERVER['HTTP_GALLEY_VISIT'] ?? '' ) ) { // phpcs:ignore WordPress.Security -- compared only.
		// Not enqueued: plugins that combine style sheets or send them from a CDN must not find it. For print, so that it delays no page.
		echo '<link rel="stylesheet" href="/galley-visit/style.css" media="print">', "\n"; // phpcs:ignore WordPress.WP.EnqueuedResources.NonEnqueuedStylesheet -- see above.
	}
}
