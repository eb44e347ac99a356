<?php
/**
 * Sets up the test site in an installed WordPress: URLs, the plugin, sample content.
 *
 * @package Galley
 */

require '/wordpress/wp-load.php';
require_once ABSPATH . 'wp-admin/includes/admin.php';

update_option( 'siteurl', 'http://versions.test' );
update_option( 'home', 'http://versions.test' );
update_option( 'permalink_structure', '/%postname%/' );
update_option( 'default_comment_status', 'open' );
$done = activate_plugin( 'galley/galley.php' );
if ( is_wp_error( $done ) ) {
	echo 'FAILED ', $done->get_error_message();
	exit;
}
flush_rewrite_rules();
wp_update_user(
	array(
		'ID'           => 1,
		'display_name' => 'The Keeper',
	)
);
$tide = wp_insert_term( 'Tides', 'category' );
wp_insert_post(
	array(
		'post_name'     => 'spring-tide',
		'post_title'    => 'Spring tide',
		'post_content'  => "<!-- wp:paragraph --><p>High.</p><!-- /wp:paragraph -->\n<!-- wp:latest-posts /-->\n<!-- wp:categories /-->",
		'post_status'   => 'publish',
		'post_author'   => 1,
		'post_category' => array( $tide['term_id'] ),
	)
);
echo 'WordPress ', get_bloginfo( 'version' );
