<?php
/**
 * Changes of posts, pages, attachments and custom types, compared before and after, whatever makes them.
 *
 * A post's state is taken down before the first change that WordPress announces, and compared when the purges are sent: so a
 * form, the block editor, quick edit, bulk edit, XML-RPC, an import, cron and the command line are all the same.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Hidden fields that pages show without reading them as fields. */
const SHOWN_FIELDS = array( '_thumbnail_id', '_wp_page_template', '_wp_attachment_metadata', '_wp_attached_file' );

$GLOBALS['galley_touched'] = array();

add_action( 'pre_post_update', __NAMESPACE__ . '\\touch_post', PHP_INT_MIN );
add_action( 'before_delete_post', __NAMESPACE__ . '\\touch_post', PHP_INT_MIN );
add_action( 'delete_attachment', __NAMESPACE__ . '\\touch_post', PHP_INT_MIN );
add_action( 'delete_attachment', __NAMESPACE__ . '\\on_picture_gone', PHP_INT_MIN );
add_action( 'add_term_relationship', __NAMESPACE__ . '\\touch_post', PHP_INT_MIN );
add_action( 'delete_term_relationships', __NAMESPACE__ . '\\touch_post', PHP_INT_MIN );
add_filter( 'wp_insert_post_data', __NAMESPACE__ . '\\on_insertion', PHP_INT_MAX, 4 );
add_filter( 'wp_insert_attachment_data', __NAMESPACE__ . '\\on_insertion', PHP_INT_MAX, 4 );
add_action( 'wp_insert_post', __NAMESPACE__ . '\\on_insert', PHP_INT_MIN, 3 );
add_action( 'add_attachment', __NAMESPACE__ . '\\on_insert', PHP_INT_MIN );
add_action( 'transition_post_status', __NAMESPACE__ . '\\on_transition', PHP_INT_MIN, 3 );
add_action( 'update_post_meta', __NAMESPACE__ . '\\on_field', PHP_INT_MIN, 3 );
add_action( 'delete_post_meta', __NAMESPACE__ . '\\on_field_gone', PHP_INT_MIN, 3 );
add_action( 'add_post_meta', __NAMESPACE__ . '\\on_new_field', PHP_INT_MIN, 2 );
add_action( 'wp_save_image_editor_file', __NAMESPACE__ . '\\on_image', 10, 5 );

/**
 * Takes down the state of a post that is about to change, the first time.
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
 * Posts lose the picture that is deleted, which WordPress does for all of them at once.
 */
function on_picture_gone( $id ): void {
	global $wpdb;
	$sql = "SELECT post_id FROM $wpdb->postmeta WHERE meta_key = '_thumbnail_id' AND meta_value = %s LIMIT %d";
	// phpcs:ignore WordPress.DB -- must be of this moment.
	$posts = $wpdb->get_col( $wpdb->prepare( $sql, (string) (int) $id, MOST_ORDERS + 1 ) );
	if ( count( $posts ) > MOST_ORDERS ) {
		queue_purge( 'b' );
		return;
	}
	foreach ( $posts as $post ) {
		on_field( 0, (int) $post, '_thumbnail_id' );
	}
}

/**
 * A new post is about to be written. It gets its terms before WordPress announces it, so its number has to be recognized as new.
 */
function on_insertion( $data, $wanted = array(), $raw = array(), $is_update = false ) {
	global $wpdb;
	// A revision has no terms.
	if ( ! $is_update && 'revision' !== ( $data['post_type'] ?? '' ) ) {
		// phpcs:ignore WordPress.DB -- must be of this moment.
		$GLOBALS['galley_newer_than'] = (int) $wpdb->get_var( "SELECT MAX(ID) FROM $wpdb->posts" );
		$GLOBALS['galley_import_id']  = (int) ( $wanted['import_id'] ?? 0 );
	}
	return $data;
}

function is_being_inserted( int $id ): bool {
	return isset( $GLOBALS['galley_newer_than'] ) && ( $id > $GLOBALS['galley_newer_than'] || $id === $GLOBALS['galley_import_id'] );
}

/**
 * Notes a post that changes, with what it was.
 */
function touched( \WP_Post $post, ?array $state, bool $is_new = false ): void {
	if ( touch_internal( $post, $is_new ) || ! is_listed_type( $post->post_type ) || 'auto-draft' === $post->post_status ) {
		return;
	}
	deliver_meanwhile();
	$GLOBALS['galley_touched'][ touched_key( $post->ID ) ] = $state;
	if ( $post->comment_count > 0 && doing_action( 'before_delete_post' ) ) {
		// It takes its comments along, which nobody tells of.
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
 * The one moment in which WordPress publishes a scheduled post says what it was.
 */
function on_transition( $new, $old, $post ): void {
	if ( $new === $old || ! $post instanceof \WP_Post || array_key_exists( touched_key( $post->ID ), $GLOBALS['galley_touched'] ) ) {
		return;
	}
	if ( 'revision' !== $post->post_type ) {
		touched( $post, 'new' === $old ? null : post_state( $post, (string) $old ), 'publish' !== $old );
	}
}

function on_new_field( $post_id, $key ): void {
	on_field( 0, $post_id, $key, noted_field( (int) $post_id, (string) $key ) ?? true );
}

/**
 * What a field that has been written in this request was before, as `on_field` notes it; null: it has not been.
 *
 * @return array|bool|null
 */
function noted_field( int $post_id, string $key ) {
	return $GLOBALS['galley_fields'][ touched_key( $post_id ) ][ $key ] ?? null;
}

/**
 * A field that is deleted may be added again with the same value, as WooCommerce does with prices: what it was is compared then.
 */
function on_field_gone( $meta_ids, $post_id, $key ): void {
	if ( is_shared() ) {
		return;
	}
	on_field( $meta_ids, $post_id, $key, noted_field( (int) $post_id, (string) $key ) ?? get_post_meta( (int) $post_id, (string) $key ) );
}

/**
 * A field of a post. Counters of visits write some while a page is generated: these writes change nothing for others.
 *
 * @param int|int[]  $meta_ids Unused.
 * @param int        $post_id  The post.
 * @param string     $key      Of the field.
 * @param array|bool $old      Its values before; true: it has changed for certain.
 */
function on_field( $meta_ids, $post_id, $key, $old = true ): void {
	$key = (string) $key;
	if ( is_shared() || ( is_quiet_field( $key ) && ! in_array( $key, SHOWN_FIELDS, true ) ) ) {
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
 * The fields of those that were written that have another value.
 *
 * @param array $written By key, as `on_field` notes them.
 * @return string[]
 */
function changed_fields( int $id, array $written ): array {
	$changed = array();
	foreach ( $written as $key => $old ) {
		if ( ! is_array( $old ) || shown_values( (string) $key, get_post_meta( $id, (string) $key ) ) !== shown_values( (string) $key, $old ) ) {
			$changed[] = (string) $key;
		}
	}
	return $changed;
}

/**
 * The tags of what reads some fields of a post. Pure.
 *
 * @param string[] $fields Their keys.
 * @return string[]
 */
function field_tags( int $id, string $type, array $fields ): array {
	$tags = array_intersect( $fields, SHOWN_FIELDS ) ? array( "p$id", "pi$id" ) : array();
	if ( array_diff( $fields, SHOP_NUMBERS ) ) {
		$tags[] = "pm$id";
	}
	if ( array_intersect( $fields, SHOP_NUMBERS ) ) {
		$tags[] = "ps$id";
	}
	foreach ( array_merge( array( '' ), $fields ) as $field ) {
		$tags[] = 'o.' . word( $type ) . '.' . word( "m_$field" );
	}
	return $tags;
}

/**
 * A picture that was cropped or turned, or replaced: its own address is a file's, and pages that show it carry its tag.
 */
function on_image( $override, $filename = '', $image = null, $mime = '', $post_id = 0 ) {
	if ( $post_id ) {
		queue_purge( array( 'p' . (int) $post_id, 'pi' . (int) $post_id ) );
	}
	return $override;
}

/**
 * Orders what has changed of a post since it was taken down.
 */
function queue_post( int $id ): void {
	$key    = touched_key( $id );
	$old    = $GLOBALS['galley_touched'][ $key ] ?? null;
	$noted  = $GLOBALS['galley_fields'][ $key ] ?? array();
	$fields = changed_fields( $id, $noted );
	$post   = get_post( $id );
	$new    = $post instanceof \WP_Post ? post_state( $post ) : null;
	$newest = $GLOBALS['galley_newest'][ $key ] ?? '';
	unset( $GLOBALS['galley_touched'][ $key ], $GLOBALS['galley_fields'][ $key ], $GLOBALS['galley_newest'][ $key ] );
	$change = post_changes( $id, $old, $new );
	if ( $fields && ( ! empty( $old['visible'] ) || ! empty( $new['visible'] ) ) ) {
		$change['tags'] = array_merge( $change['tags'], field_tags( $id, ( $new ?? $old )['type'], $fields ) );
	}
	if ( ! empty( $old['visible'] ) && ! empty( $new['visible'] ) && $old['title'] !== $new['title'] ) {
		$change['tags'] = array_merge( $change['tags'], title_order_tags( $id, $new['type'], $old['title'], $new['title'] ) );
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
		// Its comments come and go with it, and machines are not shown those of a protected one.
		$newest = '' === $newest && $post instanceof \WP_Post ? newest_comment( $id ) : $newest;
		if ( '' !== $newest ) {
			queue_recent( $newest, 0, $id );
		}
	}
	if ( 'product_variation' === ( $new ?? $old )['type'] ) {
		queue_variation( $id, $fields, $old, $new );
	} elseif ( 'product' === ( $new ?? $old )['type'] ) {
		queue_purge( sales_tags( $id, $old, $new, array_intersect_key( $noted, array_flip( $fields ) ) ) );
		if ( $appears && $new ) {
			queue_sale( $id );
		}
	}
}

/**
 * Orders the lists that a post enters or leaves, as far down as it stands; its neighbours; and what counts posts.
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
		// In a list in which it moves, the place higher up says all.
		if ( $list['ranked'] && max( $dates[ $list['key'] ] ) === $list['date'] ) {
			$asked[ "rank$number" ] = count_sql( $list['about'], DEEPEST + 1, $list['date'], $id );
		}
		if ( $list['author'] && ! $list['stays'] ) {
			$asked[ "others$number" ] = count_sql( $list['about'], 2, '0000-00-00 00:00:00', $id );
		}
		if ( is_list_of_type( $list ) ) {
			$asked[ "before$number" ] = neighbour_sql( $list['type'], $list['date'], $id, 'before' );
			$asked[ "after$number" ]  = neighbour_sql( $list['type'], $list['date'], $id, 'after' );
			$asked[ "month$number" ]  = count_sql( array( 'period' => substr( preg_replace( '/\D/', '', $list['date'] ), 0, 6 ) ) + $list['about'], 1, '0000-00-00 00:00:00', $id );
			if ( ! $list['stays'] ) {
				$asked[ "all$number" ] = count_sql( $list['about'], MOST_COUNTED, '0000-00-00 00:00:00', $id );
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
			queue_around( word( $list['type'] ), array_filter( array( $found[ "before$number" ], $found[ "after$number" ] ) ), $found[ "month$number" ], $found[ "all$number" ] ?? null );
		}
		if ( 0 === ( $found[ "others$number" ] ?? 1 ) ) {
			// The first post of an author, or the last.
			queue_purge( array( 'lu', 'sm.users' ) );
		}
	}
}

function is_list_of_type( array $list ): bool {
	return 'l.' . word( $list['type'] ) === $list['key'];
}

/**
 * Neighbours of a post; the list of months, where it is the only one of its month; the index of sitemaps, where it fills or empties a page.
 *
 * @param string   $type       As in a tag.
 * @param int[]    $neighbours The posts before and after it.
 * @param int      $month      Whether its month has others.
 * @param int|null $all        How many others there are, up to a limit; null: it was one of them and still is.
 */
function queue_around( string $type, array $neighbours, int $month, ?int $all ): void {
	foreach ( $neighbours as $neighbour ) {
		queue_purge( "ad$neighbour" );
	}
	if ( 0 === $month ) {
		queue_purge( "ar.$type" );
	}
	if ( null !== $all && 0 === $all % 2000 ) {
		queue_purge( 'sm.index' );
	}
}

/**
 * Sums up what lists gain and lose in this request; the number of their pages is asked for when all is known.
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
 * The addresses of all that is below a post that has moved: pages, and pictures, which are seen as long as their post is.
 *
 * @param bool $with_pages Whether posts of its type have others below them.
 * @param bool $appears    Whether it comes or goes.
 */
function queue_descendants( int $id, bool $with_pages, bool $appears ): void {
	global $wpdb;
	$parents  = array( $id );
	$pictures = array();
	for ( $depth = 0; $parents && $depth < 20; $depth++ ) {
		$list = implode( ',', array_map( 'intval', $parents ) );
		// phpcs:ignore WordPress.DB -- integers; must be of this moment.
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
 * What searches look at of a picture that comes or goes with its post.
 *
 * @param object $row Of the database.
 * @return array As `queue_searches` wants it.
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
