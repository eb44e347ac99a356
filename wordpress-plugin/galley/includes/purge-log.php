<?php
/**
 * Logs the most recent purges and the cause of each: "your edit of 'Hello' purged 12 pages".
 *
 * Hooks record causes while the request runs. The log shows the first meaningful cause. Before the plugin sends a purge, it queries the
 * number of affected pages. It does so only for users with permission to edit posts, so that a visitor's comment does not wait for the result. The log
 * is one option with a limited number of lines. Purges do not depend on it.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

const MAX_LOGGED = 50;

/** Maximum time, in seconds, that an edit waits for the number of pages that one purge request affects. */
const COUNT_SECONDS = 0.5;

/** Post types that are parts of the design rather than pages. */
const DESIGN_TYPES = array( 'wp_template', 'wp_template_part', 'wp_global_styles', 'wp_navigation', 'wp_block', 'custom_css', 'customize_changeset' );

$GLOBALS['galley_causes'] = array();
$GLOBALS['galley_logged'] = array();

add_action( 'transition_post_status', __NAMESPACE__ . '\\cause_of_post', 20, 3 );
add_action( 'deleted_post', __NAMESPACE__ . '\\cause_of_deleted_post', 20, 2 );
add_action( 'wp_insert_comment', __NAMESPACE__ . '\\cause_of_comment', 20, 2 );
add_action( 'edit_comment', __NAMESPACE__ . '\\cause_of_comment', 20 );
add_action( 'transition_comment_status', __NAMESPACE__ . '\\cause_of_comment_status', 20, 3 );
add_action( 'edited_term', __NAMESPACE__ . '\\cause_of_term', 20, 3 );
add_action( 'delete_term', __NAMESPACE__ . '\\cause_of_deleted_term', 20, 4 );
add_action( 'wp_update_nav_menu', __NAMESPACE__ . '\\cause_of_menu', 20 );
add_action( 'profile_update', __NAMESPACE__ . '\\cause_of_user', 20 );
add_action( 'updated_option', __NAMESPACE__ . '\\cause_of_option', 20 );
add_action( 'switch_theme', __NAMESPACE__ . '\\cause_of_theme', 20 );
add_action( 'activated_plugin', __NAMESPACE__ . '\\cause_of_plugin', 20 );
add_action( 'deactivated_plugin', __NAMESPACE__ . '\\cause_of_plugin', 20 );
add_action( 'upgrader_process_complete', __NAMESPACE__ . '\\cause_of_update', 20 );

/**
 * Records a cause for the purges of this request.
 *
 * @param string $kind      Kind of cause, as defined in `cause_words()`.
 * @param string $name      Name of the changed object, as plain text.
 * @param bool   $is_public Whether every visitor may read the name. Only such names leave WordPress.
 */
function note_cause( string $kind, string $name = '', bool $is_public = false ): void {
	$name  = trim( wp_strip_all_tags( $name ) );
	$short = function_exists( 'mb_substr' ) ? mb_substr( $name, 0, 80 ) : substr( $name, 0, 80 );
	if ( count( $GLOBALS['galley_causes'] ) < 20 ) {
		$GLOBALS['galley_causes'][] = array( $kind, $short, $is_public );
	}
}

function cause_of_post( $new, $old, $post ): void {
	if ( ! $post instanceof \WP_Post || in_array( $post->post_type, array( 'revision', 'attachment', 'oembed_cache', 'user_request' ), true ) || 'auto-draft' === $new ) {
		return;
	}
	if ( 'nav_menu_item' === $post->post_type ) {
		note_cause( 'menu' );
	} elseif ( in_array( $post->post_type, DESIGN_TYPES, true ) ) {
		note_cause( 'design', $post->post_title );
	} elseif ( 'publish' === $new || 'publish' === $old ) {
		$kind = 'publish' === $old ? 'post' : 'published';
		note_cause( 'publish' === $new ? $kind : 'unpublished', $post->post_title, is_public_post( $post ) );
	}
}

/**
 * Returns whether every visitor may read the title of a post.
 */
function is_public_post( \WP_Post $post ): bool {
	return 'publish' === $post->post_status && '' === (string) $post->post_password && is_post_type_viewable( $post->post_type );
}

function cause_of_deleted_post( $id, $post = null ): void {
	if ( $post instanceof \WP_Post && 'revision' !== $post->post_type ) {
		note_cause( 'unpublished', $post->post_title );
	}
}

function cause_of_comment( $id, $comment = null ): void {
	$comment = $comment instanceof \WP_Comment ? $comment : get_comment( $id );
	if ( $comment instanceof \WP_Comment ) {
		$post = get_post( (int) $comment->comment_post_ID );
		note_cause( 'comment', $post instanceof \WP_Post ? $post->post_title : '', $post instanceof \WP_Post && is_public_post( $post ) );
	}
}

function cause_of_comment_status( $new, $old, $comment ): void {
	if ( $new !== $old ) {
		cause_of_comment( 0, $comment );
	}
}

function cause_of_term( $id, $tt_id = 0, $taxonomy = '' ): void {
	$term = get_term( (int) $id, (string) $taxonomy );
	note_cause( 'term', $term instanceof \WP_Term ? $term->name : '', is_taxonomy_viewable( (string) $taxonomy ) );
}

function cause_of_deleted_term( $id, $tt_id = 0, $taxonomy = '', $term = null ): void {
	note_cause( 'term', $term instanceof \WP_Term ? $term->name : '' );
}

function cause_of_menu(): void {
	note_cause( 'menu' );
}

function cause_of_user( $id ): void {
	$user = get_userdata( (int) $id );
	note_cause( 'user', $user ? $user->display_name : '' );
}

/**
 * Records a changed option. This is the weakest cause, because most edits also write some option.
 */
function cause_of_option( $name ): void {
	if ( ! preg_match( '/^(galley_|_transient|_site_transient|cron$|rewrite_rules$)/', (string) $name ) ) {
		note_cause( 'option', (string) $name );
	}
}

function cause_of_theme( $name ): void {
	note_cause( 'theme', (string) $name );
}

function cause_of_plugin( $file ): void {
	note_cause( 'plugin', dirname( (string) $file ) );
}

function cause_of_update(): void {
	note_cause( 'update' );
}

/**
 * Returns the cause to log: the first one that is neither an option nor a purge of an earlier request that is sent again. Pure.
 *
 * @param array[] $causes Kind and name of each cause, and whether the name is public.
 * @return array{string, string, bool}
 */
function first_cause( array $causes ): array {
	foreach ( $causes as $cause ) {
		if ( ! in_array( $cause[0], array( 'option', 'resent' ), true ) ) {
			return $cause;
		}
	}
	return $causes[0] ?? array( 'other', '', false );
}

/**
 * Returns the label under which Galley lists the purges of this request, in English as its dashboard is. It has the name of a changed object only
 * if every visitor may read this name, and never that of a user. Pure.
 *
 * @param array{string, string, bool} $cause From `first_cause()`.
 */
function purge_label( array $cause ): string {
	list( $kind, $name, $is_public ) = $cause;
	$words                           = array(
		'post'            => 'Edit of %s',
		'published'       => 'Publication of %s',
		'unpublished'     => 'Removal of %s',
		'comment'         => 'Comment on %s',
		'term'            => 'Change of the term %s',
		'menu'            => 'Change of a menu',
		'design'          => 'Change of the design',
		'user'            => 'Change of a user',
		'option'          => 'Change of a setting of WordPress',
		'table'           => 'Change of a table of the database',
		'theme'           => 'Switch of the theme',
		'plugin'          => 'Change of the active plugins',
		'update'          => 'Update of WordPress',
		'button-page'     => 'Button “Purge this page”',
		'button-all'      => 'Button “Purge all pages”',
		'choices'         => 'Change of the cache settings',
		'development'     => 'Start of development mode',
		'development-end' => 'End of development mode',
		'command'         => 'Command on the server',
		'resent'          => 'Delayed purge',
	);
	$none                            = 'term' === $kind ? '' : 'a post';
	return trim( sprintf( $words[ $kind ] ?? 'Change', $is_public && '' !== $name ? "“{$name}”" : $none ) );
}

/**
 * Creates the log row for purges that are about to be sent.
 *
 * @param array{hard: string[], soft: string[]} $purges Purges to send.
 */
function log_purges( array $purges ): void {
	list( $kind, $name ) = first_cause( $GLOBALS['galley_causes'] );
	if ( 'other' === $kind && defined( 'WP_CLI' ) && WP_CLI ) {
		$kind = 'command';
	}
	$user = function_exists( 'wp_get_current_user' ) ? get_current_user_id() : 0;

	$GLOBALS['galley_logged'][] = array(
		'time'  => time(),
		'kind'  => $kind,
		'name'  => $name,
		'user'  => $user,
		'soft'  => ! $purges['hard'],
		'pages' => $user && current_user_can( 'edit_posts' ) ? count_purged( $purges ) : null,
	);
}

/**
 * Returns the number of stored pages that these purges would affect now, as counted by the server.
 *
 * @param array{hard: string[], soft: string[]} $purges  Purges to send.
 * @param float                                 $timeout Timeout in seconds for each of at most two queries.
 * @return array{int, bool}|null The number of pages, and whether there may be more. Null if unknown.
 */
function count_purged( array $purges, float $timeout = COUNT_SECONDS ): ?array {
	if ( ! connection() ) {
		return null;
	}
	$pages   = 0;
	$is_more = false;
	foreach ( array_slice( purge_bodies( $purges, own_site_host() ), 0, 2 ) as $body ) {
		$answer = call_for_site( '/purge', $body + array( 'dry_run' => true ), $timeout );
		// An older server does not support `dry_run`. It rejects the whole request and purges nothing.
		if ( 200 !== $answer['status'] || ! is_int( $answer['body']['pages'] ?? null ) ) {
			return null;
		}
		$pages  += $answer['body']['pages'];
		$is_more = $is_more || empty( $answer['body']['complete'] );
	}
	return array( $pages, $is_more );
}

/**
 * Adds the rows of this request to the log in one query. Runs after all purges were sent.
 */
function write_purge_log(): void {
	global $wpdb;
	$lines = implode( '', array_map( __NAMESPACE__ . '\\log_line', $GLOBALS['galley_logged'] ) );
	if ( '' === $lines ) {
		return;
	}
	$GLOBALS['galley_logged'] = array();

	$hide = $wpdb->suppress_errors( true );
	// phpcs:ignore WordPress.DB -- a row of this plugin, which bypasses the option caches, so that rows of concurrent requests are not lost.
	$done = $wpdb->query( $wpdb->prepare( "INSERT INTO $wpdb->options (option_name, option_value, autoload) VALUES ('galley_log', %s, 'no') ON DUPLICATE KEY UPDATE option_value = SUBSTRING_INDEX(CONCAT(option_value, VALUES(option_value)), %s, %d)", $lines, "\n", -1 - MAX_LOGGED ) );
	$wpdb->suppress_errors( $hide );
	if ( false === $done ) {
		// The database does not support these functions. An example is SQLite.
		update_option( 'galley_log', implode( '', array_map( __NAMESPACE__ . '\\log_line', array_slice( array_merge( purge_log(), log_rows( $lines ) ), -MAX_LOGGED ) ) ), false );
	}
}

/**
 * Formats a row as a line of the log: JSON in ASCII. Pure.
 */
function log_line( array $row ): string {
	return wp_json_encode( $row ) . "\n";
}

/**
 * Returns the rows of the log, oldest first.
 *
 * @return array[]
 */
function purge_log(): array {
	global $wpdb;
	// phpcs:ignore WordPress.DB -- the row bypasses the option caches.
	return log_rows( (string) $wpdb->get_var( "SELECT option_value FROM $wpdb->options WHERE option_name = 'galley_log'" ) );
}

/**
 * Parses the rows of a log and skips invalid lines. Pure.
 *
 * @param string $text Log as stored.
 * @return array[]
 */
function log_rows( string $text ): array {
	$rows = array();
	foreach ( explode( "\n", $text ) as $line ) {
		$row = json_decode( $line, true );
		if ( is_log_row( $row ) ) {
			$rows[] = $row;
		}
	}
	return $rows;
}

/**
 * Checks whether a value is a row of the log. Pure.
 *
 * @param mixed $row Decoded line of the log.
 */
function is_log_row( $row ): bool {
	return is_array( $row ) && is_int( $row['time'] ?? null ) && is_string( $row['kind'] ?? null ) && is_string( $row['name'] ?? null );
}
