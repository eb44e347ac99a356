<?php
/**
 * Plugin Name:       Galley
 * Plugin URI:        https://github.com/galley-server/galley
 * Description:       Page cache for sites that run on the Galley web server: every edit purges exactly the pages it changes, and you see why a page is not cached.
 * Version:           0.3.0
 * Author:            The Galley authors
 * Author URI:        https://github.com/galley-server
 * Requires at least: 6.1
 * Requires PHP:      7.4
 * License:           GPL-2.0-or-later
 * License URI:       https://www.gnu.org/licenses/gpl-2.0.html
 * Text Domain:       galley
 * Domain Path:       /languages
 *
 * This file only loads the parts of the plugin. Each file in includes/ describes its purpose. Nothing here changes what a visitor sees.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

const VERSION = '0.3.0';

const PARTS = array(
	'includes/connection.php',
	'includes/drop-in.php',
	'includes/questions.php',
	'includes/request.php',
	'includes/sql.php',
	'includes/sql-writes.php',
	'includes/sql-repeatable.php',
	'includes/observe.php',
	'includes/statements.php',
	'includes/core-tables.php',
	'includes/table-links.php',
	'includes/options-read.php',
	'includes/busy.php',
	'includes/writes.php',
	'includes/cron.php',
	'includes/tags.php',
	'includes/lists.php',
	'includes/ranks.php',
	'includes/searches.php',
	'includes/gather-posts.php',
	'includes/gather-pictures.php',
	'includes/gather-queries.php',
	'includes/foreign-lists.php',
	'includes/gather-terms.php',
	'includes/gather-counts.php',
	'includes/gather-members.php',
	'includes/gather-filters.php',
	'includes/gather-people.php',
	'includes/gather-parts.php',
	'includes/gather-machines.php',
	'includes/rest-routes.php',
	'includes/gather-shops.php',
	'includes/gather-times.php',
	'includes/post-classes.php',
	'includes/fragments.php',
	'includes/fragments-memory.php',
	'includes/fragments-menus.php',
	'includes/fragments-render.php',
	'includes/kept-html.php',
	'includes/viewed.php',
	'includes/private.php',
	'includes/private-members.php',
	'includes/private-sessions.php',
	'includes/private-toolbar.php',
	'includes/random-order.php',
	'includes/choices.php',
	'includes/lifetime.php',
	'includes/answer.php',
	'includes/purges.php',
	'includes/purge-log.php',
	'includes/pending.php',
	'includes/delivery.php',
	'includes/post-state.php',
	'includes/post-changes.php',
	'includes/events-posts.php',
	'includes/events-internal.php',
	'includes/events-terms.php',
	'includes/events-comments.php',
	'includes/comment-fields.php',
	'includes/fields-of-all.php',
	'includes/events-users.php',
	'includes/events-options.php',
	'includes/events-site.php',
	'includes/events-shops.php',
	'includes/events-languages.php',
	'includes/raw-writes.php',
	'includes/shims.php',
	'includes/other-purgers.php',
	'includes/preload.php',
	'includes/speculation.php',
	'includes/visit.php',
	'includes/api.php',
);

/** Parts that a copy of the plugin may omit. */
const OPTIONAL_PARTS = array(
	'includes/nonces.php',
	'admin/admin.php',
);

foreach ( PARTS as $galley_part ) {
	require __DIR__ . '/' . $galley_part;
}
foreach ( OPTIONAL_PARTS as $galley_part ) {
	if ( file_exists( __DIR__ . '/' . $galley_part ) ) {
		require __DIR__ . '/' . $galley_part;
	}
}
unset( $galley_part );
begin_to_observe();

register_activation_hook( __FILE__, __NAMESPACE__ . '\\on_activation' );
register_deactivation_hook( __FILE__, __NAMESPACE__ . '\\on_deactivation' );
