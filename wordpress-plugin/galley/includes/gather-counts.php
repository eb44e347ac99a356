<?php
/**
 * Adds tags for numbers of posts and users that functions of WordPress count with statements of their own, and may keep.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

if ( is_described() ) {
	gather_counts();
}

function gather_counts(): void {
	$own = __NAMESPACE__ . '\\';
	add_filter( 'wp_count_posts', $own . 'gather_post_counts', PHP_INT_MAX, 2 );
	add_filter( 'wp_count_attachments', $own . 'gather_attachment_counts', PHP_INT_MAX );
	add_filter( 'get_usernumposts', $own . 'gather_posts_of_user', PHP_INT_MAX, 3 );
	add_filter( 'pre_count_many_users_posts', $own . 'gather_posts_of_users', PHP_INT_MAX, 3 );
	add_filter( 'pre_wp_list_authors_post_counts_query', $own . 'gather_posts_of_authors', PHP_INT_MAX, 2 );
	add_filter( 'pre_count_users', $own . 'gather_user_counts', PHP_INT_MAX );
}

/**
 * Adds the tag of all changes of a status: `wp_count_posts()` counts the posts of each status.
 */
function gather_post_counts( $counts, $type = 'post' ) {
	tag( 'l.' . word( (string) $type ) . '.z' );
	return $counts;
}

function gather_attachment_counts( $counts ) {
	return gather_post_counts( $counts, 'attachment' );
}

/**
 * Adds the tags of all posts of users. Visitors see the number of public ones.
 *
 * @param mixed        $count Returned without changes.
 * @param int|int[]    $users IDs of users.
 * @param string|array $types Post types.
 */
function gather_posts_of_user( $count, $users = 0, $types = 'post' ) {
	if ( machine_counts() && is_asked_by_users_controller() ) {
		tag( 'lu' );
		return $count;
	}
	$list = array(
		'types'   => array_map( 'strval', (array) $types ),
		'authors' => wp_parse_id_list( $users ),
		'pages'   => 'other',
	);
	foreach ( list_tags( any_list( $list ) ) as $tag ) {
		tag( $tag );
	}
	return $count;
}

/**
 * Returns whether WordPress's controller of the users in REST counts the posts of a user. It only asks whether there is one, as lists of users do.
 */
function is_asked_by_users_controller(): bool {
	// phpcs:ignore WordPress.PHP.DevelopmentFunctions -- finds the caller of `count_user_posts()`.
	foreach ( debug_backtrace( DEBUG_BACKTRACE_IGNORE_ARGS, 8 ) as $frame ) {
		if ( 'count_user_posts' === $frame['function'] ) {
			return 'class-wp-rest-users-controller.php' === basename( (string) ( $frame['file'] ?? '' ) ) && is_core_file( $frame['file'] );
		}
	}
	return false;
}

function gather_posts_of_users( $counts, $users = array(), $types = 'post' ) {
	return gather_posts_of_user( $counts, $users, $types );
}

/**
 * Adds the tag of all posts if a list of authors shows their numbers. Authors who get their first post or lose their last one have the tag `lu`.
 */
function gather_posts_of_authors( $counts, $arguments = array() ) {
	if ( ! empty( $arguments['optioncount'] ) ) {
		tag( 'l.post' );
		tag( 'l.post.x' );
	}
	return $counts;
}

/**
 * Adds the tags of all users and their roles.
 */
function gather_user_counts( $counts ) {
	tag_user_list();
	tag_network( 'lur' );
	return $counts;
}
