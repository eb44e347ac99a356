<?php
/**
 * Installs WordPress from the command line and fills it with sample content. Run in the folder of WordPress, which has
 * its wp-config.php. What it needs comes in the environment: GALLEY_TITLE, GALLEY_USER, GALLEY_PASSWORD, and GALLEY_SAMPLE
 * (`full` or `none`). Installing twice is harmless: what is there stays, and content is added only to an empty site.
 */

declare(strict_types=1);

if ( PHP_SAPI !== 'cli' ) {
	exit( 1 );
}

define( 'WP_INSTALLING', true );
$_SERVER += array(
	'HTTP_HOST'       => 'localhost',
	'REQUEST_URI'     => '/',
	'REQUEST_METHOD'  => 'GET',
	'SERVER_PROTOCOL' => 'HTTP/1.1',
	'REMOTE_ADDR'     => '127.0.0.1',
);

/** No mail leaves a test machine. */
function wp_mail(): bool {
	return true;
}

require getcwd() . '/wp-load.php';
require_once ABSPATH . 'wp-admin/includes/upgrade.php';
require_once ABSPATH . 'wp-admin/includes/image.php';
require_once ABSPATH . 'wp-admin/includes/plugin.php';
require_once ABSPATH . 'wp-admin/includes/file.php';

$galley_user = (string) getenv( 'GALLEY_USER' );
if ( ! is_blog_installed() ) {
	wp_install( (string) getenv( 'GALLEY_TITLE' ), $galley_user, "$galley_user@example.org", true, '', (string) getenv( 'GALLEY_PASSWORD' ) );
}

global $wp_rewrite, $wpdb;
update_option( 'blog_public', '1' );
update_option( 'default_pingback_flag', '0' );
$wp_rewrite->set_permalink_structure( '/%postname%/' );
$wp_rewrite->flush_rules( false );

if ( getenv( 'GALLEY_SAMPLE' ) === 'full' && ! get_option( 'sample_site' ) ) {
	// One transaction: thousands of small commits would take longer than all the rest.
	$wpdb->query( 'START TRANSACTION' );
	require __DIR__ . '/seed.php';
	Galley\Seed\plant();
	update_option( 'sample_site', '1' );
	$wpdb->query( 'COMMIT' );
}

echo 'installed ' . get_bloginfo( 'version' ) . "\n";
