<?php
/**
 * Detects changes of posts, pages, attachments and custom post types by comparing their states before and after.
 *
 * The plugin records the state of a post before the first change that WordPress announces, and compares it when the purges are sent. This
 * works in the same way for forms, the block editor, quick edit, bulk edit, XML-RPC, imports, cron and the command line.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Hidden custom fields that pages show without reading them as custom fields. */
const SHOWN_FIELDS = array( '_thumbnail_id', '_wp_page_template', '_wp_attachment_metadata', '_wp_attached_file' );

$GLOBALS['galley_touched'] = array();
$GLOBALS['galley_shown']   = array();

foreach ( array( 'pre_post_update', 'before_delete_post', 'delete_attachment' ) as $galley_action ) {
	add_action( $galley_action, __NAMESPACE__ . '\\note_shown_post', PHP_INT_MIN );
	add_action( $galley_action, __NAMESPACE__ . '\\touch_post', PHP_INT_MIN );
}
add_action( 'delete_attachment', __NAMESPACE__ . '\\on_picture_gone', PHP_INT_MIN );
add_action( 'add_term_relationship', __NAMESPACE__ . '\\touch_post', PHP_INT_MIN );
add_action( 'delete_term_relationships', __NAMESPACE__ . '\\touch_post', PHP_INT_MIN );
add_filter( 'wp_insert_post_data', __NAMESPACE__ . '\\on_insertion', PHP_INT_MAX, 4 );
add_filter( 'wp_insert_attachment_data', __NAMESPACE__ . '\\on_insertion', PHP_INT_MAX, 4 );
add_action( 'wp_insert_post', __NAMESPACE__ . '\\on_insert', PHP_INT_MIN, 3 );
add_action( 'add_attachment', __NAMESPACE__ . '\\on_insert', PHP_INT_MIN );
add_action( 'transition_post_status', __NAMESPACE__ . '\\on_transition', PHP_INT_MIN, 3 );
add_action( 'update_post_meta', __NAMESPACE__ . '\\on_changed_field', PHP_INT_MIN, 4 );
add_action( 'delete_post_meta', __NAMESPACE__ . '\\on_field_gone', PHP_INT_MIN, 3 );
add_action( 'add_post_meta', __NAMESPACE__ . '\\on_new_field', PHP_INT_MIN, 3 );
add_action( 'wp_save_image_editor_file', __NAMESPACE__ . '\\on_image', 10, 5 );

/**
 * Records the state of a post before its first change in this request.
 */
function touch_post( $id ): void {
	$id = (int) $id;
	if ( array_key_exists( touched_key( $id ), $GLOBALS['galley_touched'] ) ) {
		return;
	}
	$post = get_post( $id );
	if ( $post instanceof \WP_Post ) {
		$is_new = is_being_inserted( $id );
		touched( $post, $is_new ? null : post_state( $post ), $is_new );
	}
}

/**
 * Records the state of a post that this request has published and now changes again. If the request also hides or deletes it, pages that
 * were generated in between show it, although the states before and after the request are the same for visitors.
 */
function note_shown_post( $id ): void {
	$key = touched_key( (int) $id );
	if ( ! array_key_exists( $key, $GLOBALS['galley_touched'] ) || ! empty( $GLOBALS['galley_touched'][ $key ]['visible'] ) ) {
		return;
	}
	$post = get_post( (int) $id );
	if ( $post instanceof \WP_Post && is_public( $post ) ) {
		$GLOBALS['galley_shown'][ $key ] = post_state( $post );
	}
}

/**
 * Handles the posts whose featured image is being deleted. WordPress removes the image from all of them at once.
 */
function on_picture_gone( $id ): void {
	global $wpdb;
	$sql = "SELECT post_id FROM $wpdb->postmeta WHERE meta_key = '_thumbnail_id' AND meta_value = %s LIMIT %d";
	// phpcs:ignore WordPress.DB -- must be current.
	$posts = $wpdb->get_col( $wpdb->prepare( $sql, (string) (int) $id, MAX_PURGES + 1 ) );
	if ( count( $posts ) > MAX_PURGES ) {
		queue_purge( 'b' );
		return;
	}
	foreach ( $posts as $post ) {
		on_field( 0, (int) $post, '_thumbnail_id' );
	}
}

/**
 * Prepares for the insertion of a new post. WordPress assigns terms before it announces the post, so the plugin must recognize new post IDs.
 */
function on_insertion( $data, $wanted = array(), $raw = array(), $is_update = false ) {
	global $wpdb;
	// Revisions have no terms.
	if ( ! $is_update && 'revision' !== ( $data['post_type'] ?? '' ) ) {
		// phpcs:ignore WordPress.DB -- must be current.
		$GLOBALS['galley_newer_than'] = (int) $wpdb->get_var( "SELECT MAX(ID) FROM $wpdb->posts" );
		$GLOBALS['galley_import_id']  = (int) ( $wanted['import_id'] ?? 0 );
	}
	return $data;
}

function is_being_inserted( int $id ): bool {
	return isset( $GLOBALS['galley_newer_than'] ) && ( $id > $GLOBALS['galley_newer_than'] || $id === $GLOBALS['galley_import_id'] );
}

/**
 * Records a post that changes, together with its state before the change.
 */
function touched( \WP_Post $post, ?array $state, bool $is_new = false ): void {
	if ( touch_internal( $post, $is_new ) || ! is_listed_type( $post->post_type ) || 'auto-draft' === $post->post_status ) {
		return;
	}
	deliver_meanwhile();
	$GLOBALS['galley_touched'][ touched_key( $post->ID ) ] = $state;
	if ( $post->comment_count > 0 && doing_action( 'before_delete_post' ) ) {
		// WordPress also deletes the comments of the post, so the date of the newest one must be read now.
		$GLOBALS['galley_newest'][ touched_key( $post->ID ) ] = newest_comment( $post->ID );
	}
	later(
		"post$post->ID",
		static function () use ( $post ): void {
			queue_post( $post->ID );
		}
	);
}

function touched_key( int $id ): string {
	return get_current_blog_id() . ".$id";
}

function on_insert( $id, $post = null, $is_update = false ): void {
	$id   = (int) $id;
	$post = $post instanceof \WP_Post ? $post : get_post( $id );
	if ( $post instanceof \WP_Post && 'revision' === $post->post_type ) {
		queue_purge( 'rv' . (int) $post->post_parent );
		return;
	}
	if ( $post instanceof \WP_Post && ! array_key_exists( touched_key( $id ), $GLOBALS['galley_touched'] ) ) {
		touched( $post, null, ! $is_update );
	}
	if ( ! $is_update ) {
		unset( $GLOBALS['galley_newer_than'] );
	}
}

/**
 * Records the previous state of a post whose status changes. When WordPress publishes a scheduled post, only this action has the old status.
 */
function on_transition( $new, $old, $post ): void {
	if ( $new === $old || ! $post instanceof \WP_Post || array_key_exists( touched_key( $post->ID ), $GLOBALS['galley_touched'] ) ) {
		return;
	}
	if ( 'revision' !== $post->post_type ) {
		touched( $post, 'new' === $old ? null : post_state( $post, (string) $old ), 'publish' !== $old );
	}
}

/**
 * Records a new value of a field. A counter of visits costs the page nothing.
 */
function on_changed_field( $meta_ids, $post_id, $key, $value = null ): void {
	if ( ! is_shared() ) {
		on_field( $meta_ids, $post_id, $key );
	} elseif ( ! only_counts( (array) get_post_meta( (int) $post_id, (string) $key ), array( $value ) ) ) {
		on_new_field( $post_id, $key );
	}
}

function on_new_field( $post_id, $key, $value = null ): void {
	if ( ! is_shared() || ! only_counts( null, array( $value ) ) ) {
		on_field( 0, $post_id, $key, noted_field( (int) $post_id, (string) $key ) ?? get_post_meta( (int) $post_id, (string) $key ) );
	}
}

/**
 * Returns the old values of a custom field as recorded by `on_field()`. Null if this request has not written the field.
 *
 * @return array|bool|null
 */
function noted_field( int $post_id, string $key ) {
	return $GLOBALS['galley_fields'][ touched_key( $post_id ) ][ $key ] ?? null;
}

/**
 * Records the values of a custom field that is being deleted, because WooCommerce adds prices again with the same ones.
 */
function on_field_gone( $meta_ids, $post_id, $key ): void {
	if ( $post_id ) {
		on_new_field( $post_id, $key );
	}
}

/**
 * Records a changed custom field of a post.
 *
 * @param int|int[]  $meta_ids Unused.
 * @param int        $post_id  Post ID.
 * @param string     $key      Meta key.
 * @param array|bool $old      Values before the change. True if the field has definitely changed.
 */
function on_field( $meta_ids, $post_id, $key, $old = true ): void {
	$key = (string) $key;
	if ( is_quiet_field( $key ) && ! in_array( $key, SHOWN_FIELDS, true ) ) {
		return;
	}
	$post = get_post( (int) $post_id );
	if ( ! $post instanceof \WP_Post || ! is_listed_type( $post->post_type ) ) {
		return;
	}
	touch_post( $post->ID );
	$GLOBALS['galley_fields'][ touched_key( $post->ID ) ][ $key ] = is_array( $old ) ? $old : true;
}

/**
 * Returns the keys of the written custom fields whose values differ from the old values, without those that only count visits.
 *
 * @param array $written Old values by meta key, as recorded by `on_field()`.
 * @return string[]
 */
function changed_fields( int $id, array $written ): array {
	$changed = array();
	foreach ( $written as $key => $old ) {
		$is_same = is_array( $old ) && shown_values( (string) $key, get_post_meta( $id, (string) $key ) ) === shown_values( (string) $key, $old );
		if ( ! $is_same && ! is_visit_field( 'post', $id, (string) $key, is_array( $old ) ? $old : null ) ) {
			$changed[] = (string) $key;
		}
	}
	return $changed;
}

/**
 * Returns the changed fields that a page of the post may show differently. The number 0 of a picture, which WooCommerce stores with the first
 * edit of a variation, means none, as a missing field does.
 *
 * @param string[] $fields  Keys of the changed fields.
 * @param array    $written Old values by meta key, as recorded by `on_field()`.
 * @return string[]
 */
function shown_fields( int $id, array $fields, array $written ): array {
	$old = $written['_thumbnail_id'] ?? true;
	$new = (array) get_post_meta( $id, '_thumbnail_id' );
	return is_array( $old ) && ! array_filter( $old ) && ! array_filter( $new ) ? array_values( array_diff( $fields, array( '_thumbnail_id' ) ) ) : $fields;
}

/**
 * Returns the tags of pages that read one of these custom fields of a post. Pure.
 *
 * @param string[] $fields Meta keys.
 * @param string[] $shown  Those of them that a page of the post may show differently.
 * @return string[]
 */
function field_tags( int $id, string $type, array $fields, array $shown ): array {
	$tags = array_intersect( $shown, SHOWN_FIELDS ) ? array( "p$id", "pi$id" ) : array();
	if ( array_diff( $shown, SHOP_NUMBERS ) ) {
		$tags[] = "pm$id";
	}
	if ( array_intersect( $shown, SHOP_NUMBERS ) ) {
		$tags[] = "ps$id";
	}
	foreach ( array_merge( array( '' ), $fields ) as $field ) {
		$tags[] = 'o.' . word( $type ) . '.' . word( "m_$field" );
	}
	return $tags;
}

/**
 * Purges the pages that show an image that was cropped, rotated or replaced. These pages have the tag of the image. The URL of the image
 * itself is the URL of a file.
 */
function on_image( $override, $filename = '', $image = null, $mime = '', $post_id = 0 ) {
	if ( $post_id ) {
		queue_purge( array( 'p' . (int) $post_id, 'pi' . (int) $post_id ) );
	}
	return $override;
}

/**
 * Queues purges for everything that has changed in a post since its state was recorded.
 */
function queue_post( int $id ): void {
	$key    = touched_key( $id );
	$old    = $GLOBALS['galley_touched'][ $key ] ?? null;
	$noted  = $GLOBALS['galley_fields'][ $key ] ?? array();
	$fields = changed_fields( $id, $noted );
	$shown  = shown_fields( $id, $fields, $noted );
	$post   = get_post( $id );
	$new    = $post instanceof \WP_Post ? post_state( $post ) : null;
	$newest = $GLOBALS['galley_newest'][ $key ] ?? '';
	if ( empty( $old['visible'] ) && empty( $new['visible'] ) ) {
		$old = $GLOBALS['galley_shown'][ $key ] ?? $old;
	}
	unset( $GLOBALS['galley_touched'][ $key ], $GLOBALS['galley_shown'][ $key ], $GLOBALS['galley_fields'][ $key ], $GLOBALS['galley_newest'][ $key ] );
	if ( ! $old && ! $new ) {
		// Created and deleted in this request: the states before and after it are the same.
		return;
	}
	$change = post_changes( $id, $old, $new );
	if ( $fields ) {
		$tags           = field_tags( $id, ( $new ?? $old )['type'], $fields, $shown );
		$change['tags'] = array_merge( $change['tags'], empty( $old['visible'] ) && empty( $new['visible'] ) ? preg_grep( '/^[a-z]+\d+$/D', $tags ) : $tags );
	}
	if ( ! empty( $old['visible'] ) && ! empty( $new['visible'] ) && $old['title'] !== $new['title'] ) {
		$change['tags'] = array_merge( $change['tags'], title_order_tags( $id, $old, $new ) );
	}
	queue_purge( $change['tags'] );
	queue_lists( $id, $change['lists'] );
	if ( $change['searched'] ) {
		queue_searches( array( array( $id, $old, $new ) ) );
	}
	$appears = ! empty( $old['visible'] ) !== ! empty( $new['visible'] );
	if ( $change['moved'] ) {
		queue_descendants( $id, is_post_type_hierarchical( ( $new ?? $old )['type'] ), $appears );
	}
	if ( $appears || ( $old && $new && $new['visible'] && (bool) $old['password'] !== (bool) $new['password'] ) ) {
		// Comments appear and disappear with their post. The REST API and feeds do not show the comments of a password-protected post.
		$newest = '' === $newest && $post instanceof \WP_Post ? newest_comment( $id ) : $newest;
		if ( '' !== $newest ) {
			queue_recent( $newest, 0, $id );
		}
	}
	if ( 'product_variation' === ( $new ?? $old )['type'] ) {
		queue_variation( $id, $shown, $old, $new );
	} elseif ( 'product' === ( $new ?? $old )['type'] ) {
		queue_purge( sales_tags( $id, $old, $new, array_intersect_key( $noted, array_flip( $fields ) ) ) );
		if ( $appears ) {
			queue_sale( $id );
			forget_attribute_counts( $old, $new );
		}
	}
}

/**
 * Queues purges for the lists that a post enters or leaves, down to its rank; for its neighbors; and for pages that show numbers of posts.
 */
function queue_lists( int $id, array $lists ): void {
	$dates = array();
	foreach ( $lists as $list ) {
		$dates[ $list['key'] ][] = $list['date'];
	}
	$asked = array();
	foreach ( $lists as $number => $list ) {
		$list['stays'] = count( $dates[ $list['key'] ] ) > 1;
		$list['about'] = array(
			'type'   => $list['type'],
			'terms'  => $list['term'] ? array_merge( array( $list['term'] ), descendant_terms( $list['term'] ) ) : array(),
			'author' => $list['author'],
			'period' => $list['period'],
		);
		// If the post moves within a list, the purge for its higher position includes the lower one.
		if ( $list['ranked'] && max( $dates[ $list['key'] ] ) === $list['date'] ) {
			$asked[ "rank$number" ] = count_sql( $list['about'], DEEPEST + 1, $list['date'], $id );
		}
		if ( $list['author'] && ! $list['stays'] ) {
			$asked[ "others$number" ] = count_sql( $list['about'], 2, '0000-00-00 00:00:00', $id );
		}
		if ( is_list_of_type( $list ) ) {
			foreach ( array( 'under', 'same', 'over' ) as $side ) {
				$asked[ $side . $number ] = neighbour_sql( $list['type'], $list['date'], $id, $side );
			}
			$asked[ "month$number" ] = count_sql( array( 'period' => substr( preg_replace( '/\D/', '', $list['date'] ), 0, 6 ) ) + $list['about'], 1, '0000-00-00 00:00:00', $id );
			if ( ! $list['stays'] ) {
				$asked[ "all$number" ] = count_sql( $list['about'], MAX_COUNTED, '0000-00-00 00:00:00', $id );
			}
		}
		$lists[ $number ] = $list;
	}
	$found = ask_each( $asked );
	foreach ( $lists as $number => $list ) {
		queue_purge( isset( $found[ "rank$number" ] ) ? rank_tags( $list['key'], $found[ "rank$number" ] ) : array( $list['key'] ) );
		queue_purge( $list['added'] > 0 ? "$list[key].in" : "$list[key].p$id" );
		if ( $list['ranked'] && ! $list['stays'] ) {
			note_added( $list['key'], $list['about'], $list['added'] );
		}
		if ( is_list_of_type( $list ) ) {
			queue_around( word( $list['type'] ), array_filter( array( $found[ "under$number" ], $found[ "same$number" ], $found[ "over$number" ] ) ), $found[ "month$number" ], $found[ "all$number" ] ?? null );
		}
		if ( 0 === ( $found[ "others$number" ] ?? 1 ) ) {
			// This is the first or the last post of its author.
			queue_purge( array( 'lu', 'sm.users' ) );
		}
	}
}

function is_list_of_type( array $list ): bool {
	return 'l.' . word( $list['type'] ) === $list['key'];
}

/**
 * Queues purges for the neighbors of a post, the list of months and the sitemap index.
 *
 * The list of months changes if the post is the only one of its month. The sitemap index changes if the post fills or empties a sitemap page.
 *
 * @param string   $type       Post type as in a tag.
 * @param array    $neighbours IDs of the posts before and after this post, or lists of them with commas.
 * @param int      $month      Whether the month has other posts: 1 or 0.
 * @param int|null $all        Number of other posts, up to a limit. Null if the post was and still is in the list.
 */
function queue_around( string $type, array $neighbours, int $month, ?int $all ): void {
	foreach ( $neighbours as $list ) {
		// The database cuts off a list of more than 1,024 bytes.
		queue_purge( strlen( (string) $list ) > 1000 ? 'ad' : preg_replace( '/^/', 'ad', explode( ',', (string) $list ) ) );
	}
	if ( 0 === $month ) {
		queue_purge( "ar.$type" );
	}
	if ( null !== $all && 0 === $all % 2000 ) {
		queue_purge( 'sm.index' );
	}
}

/**
 * Adds up the posts that a list gains and loses in this request. The number of pages of the list is queried when all changes are known.
 */
function note_added( string $key, array $about, int $added ): void {
	$blog = blog_prefix();

	$GLOBALS['galley_added'][ $blog ][ $key ] = array( $about, ( $GLOBALS['galley_added'][ $blog ][ $key ][1] ?? 0 ) + $added );
	later( 'pages', __NAMESPACE__ . '\\queue_pages' );
}

function queue_pages(): void {
	$lists = array_filter(
		$GLOBALS['galley_added'][ blog_prefix() ] ?? array(),
		static function ( array $list ): bool {
			return 0 !== $list[1];
		}
	);
	unset( $GLOBALS['galley_added'][ blog_prefix() ] );
	foreach ( array_chunk( $lists, 50, true ) as $some ) {
		foreach ( changed_pages( $some ) as $key ) {
			queue_purge( "$key.n" );
		}
	}
}

/**
 * Returns the IDs of all terms below a term.
 *
 * @return int[]
 */
function descendant_terms( int $term_id ): array {
	$term = get_term( $term_id );
	if ( ! $term instanceof \WP_Term || ! is_taxonomy_hierarchical( $term->taxonomy ) ) {
		return array();
	}
	$children = get_term_children( $term_id, $term->taxonomy );
	return is_array( $children ) ? array_map( 'intval', $children ) : array();
}

/**
 * Queues purges for the addresses of everything below a post that has moved: child pages, and attachments, which are visible as long as
 * their post is visible.
 *
 * @param bool $with_pages Whether the type of the post is hierarchical.
 * @param bool $appears    Whether the post appears or disappears.
 */
function queue_descendants( int $id, bool $with_pages, bool $appears ): void {
	global $wpdb;
	$parents  = array( $id );
	$pictures = array();
	for ( $depth = 0; $parents && $depth < 20; $depth++ ) {
		$list = implode( ',', array_map( 'intval', $parents ) );
		// phpcs:ignore WordPress.DB -- integers; must be current.
		$rows    = $wpdb->get_results( "SELECT ID, post_name, post_type, post_author, post_title, post_excerpt, post_content FROM $wpdb->posts WHERE post_parent IN ($list) AND post_type <> 'revision' LIMIT 501" );
		$parents = array();
		if ( count( $rows ) > 500 ) {
			queue_purge( 'b' );
			return;
		}
		foreach ( $rows as $row ) {
			$is_picture = 'attachment' === $row->post_type;
			if ( $is_picture || $with_pages ) {
				$parents[] = (int) $row->ID;
				queue_purge( array_merge( array( "p$row->ID", "pl$row->ID" ), slug_tags( (string) $row->post_name ) ) );
			}
			if ( $is_picture && $appears && 0 === $depth ) {
				queue_purge( array_merge( array( 'l.attachment', 'l.attachment.q', 'l.attachment.x', 'l.attachment.s', "l.attachment.par$id", "l.attachment.par$id.q", 'sm.attachment' ), author_list( 'attachment', (int) $row->post_author ) ) );
				$pictures[ (int) $row->ID ] = $row;
			}
		}
		$parents = $with_pages ? $parents : array();
	}
	update_meta_cache( 'post', array_keys( $pictures ) );
	queue_searches( array_map( __NAMESPACE__ . '\\picture_change', $pictures ) );
}

/**
 * Returns the searchable data of an attachment that appears or disappears with its post.
 *
 * @param object $row Database row of the attachment.
 * @return array Change as `queue_searches()` expects it.
 */
function picture_change( $row ): array {
	$state = array(
		'type'    => 'attachment',
		'visible' => true,
		'title'   => $row->post_title,
		'summary' => $row->post_excerpt,
		'content' => $row->post_content,
		'file'    => (string) get_post_meta( (int) $row->ID, '_wp_attached_file', true ),
	);
	return array( (int) $row->ID, null, $state );
}
