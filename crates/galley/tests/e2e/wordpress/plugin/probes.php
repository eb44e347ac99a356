<?php
/**
 * Pages `/probe-<name>/` that print the post IDs found by one query. One change of a post affects the result of each query.
 */

add_action( 'init', fn() => register_post_type( 'slide', array( 'public' => false, 'show_ui' => true ) ) );
add_action( 'init', fn() => register_taxonomy( 'product_visibility', 'post', array( 'public' => false ) ) );

add_action(
	'template_redirect',
	function () {
		if ( is_page() && 0 === strpos( get_queried_object()->post_name, 'probe-' ) ) {
			echo '<!doctype html><html><head><title>Probe</title></head><body><p>', esc_html( probe( substr( get_queried_object()->post_name, 6 ) ) ), '</p></body></html>';
			exit;
		}
	},
	1
);

foreach ( array( 'posts_where', 'posts_join' ) as $probe_filter ) {
	add_filter( $probe_filter, fn( $sql, $query ) => $sql . ( $query->query[ "probe_$probe_filter" ] ?? '' ), 10, 2 );
}

/** Creates data that all queries share: newer posts with a tag, and in a child category. */
function probe_fillers(): void {
	wp_insert_term( 'probe-common', 'category' );
	$parent = wp_insert_term( 'probe-category', 'category' )['term_id'];
	$child  = wp_insert_term( 'probe-child', 'category', array( 'parent' => $parent ) )['term_id'];
	foreach ( array( 'probe-tag', 'probe-second' ) as $tag ) {
		wp_insert_term( $tag, 'post_tag' );
	}
	foreach ( array( 'probe-search', 'probe-second', 'probe-entered', 'probe-empty', 'probe-field' ) as $category ) {
		wp_insert_term( $category, 'category' );
	}
	for ( $number = 1; $number < 9; $number++ ) {
		$filler = wp_insert_post( array( 'post_title' => "Filler $number", 'post_name' => "filler-$number", 'post_status' => 'publish', 'post_author' => 1, 'post_date' => "2020-01-0$number 12:00:00", 'post_category' => array( $child ) ) );
		wp_set_object_terms( $filler, 'probe-tag', 'post_tag' );
	}
}

/** Creates the posts for one case: `$id`, an old post; `$later`, a scheduled post; `$slide`, a draft of a non-public type; `$page`. */
function probe_subjects( string $name ): array {
	$about = array( 'post_title' => "Subject $name", 'post_name' => "subject-$name", 'post_content' => "Xylograph of $name.", 'post_author' => 1, 'comment_status' => 'open' );
	$make  = fn( array $more ) => wp_insert_post( $more + $about );
	$ids   = array(
		'id'    => $make( array( 'post_status' => 'publish', 'post_date' => '2018-01-01 12:00:00', 'post_category' => array( get_cat_ID( 'probe-common' ) ) ) ),
		'later' => $make( array( 'post_status' => 'future', 'post_date' => '2099-01-01 12:00:00', 'post_name' => "later-$name" ) ),
		'slide' => $make( array( 'post_status' => 'draft', 'post_type' => 'slide' ) ),
		'page'  => $make( array( 'post_status' => 'publish', 'post_type' => 'page' ) ),
	);
	wp_set_object_terms( $ids['id'], array( 'probe-second', 'no-such-term' === $name ? 'probe-moved' : 'probe-moving' ), 'post_tag' );
	if ( in_array( $name, array( 'numbers-sold-out', 'slugs-sold-out' ), true ) ) {
		wp_set_object_terms( $ids['id'], 'outofstock', 'product_visibility' );
	}
	wp_insert_post( array( 'post_type' => 'page', 'post_name' => "probe-$name", 'post_title' => 'Probe', 'post_status' => 'publish', 'post_author' => 1 ) );
	return $ids;
}

function probe_query( string $name ): array {
	global $wpdb;
	$other = username_exists( 'editor' );
	$tag   = get_term_by( 'slug', 'probe-tag', 'post_tag' )->term_id;
	$both  = array( $tag, get_term_by( 'slug', 'probe-second', 'post_tag' )->term_id );
	$alone = array( 'taxonomy' => 'category', 'field' => 'slug', 'terms' => 'probe-category', 'include_children' => false );
	$sold  = array( array( 'taxonomy' => 'product_visibility', 'field' => 'name', 'terms' => 'outofstock', 'operator' => 'NOT IN' ) );
	$three = array( 'posts_per_page' => 3, 'ignore_sticky_posts' => true, 'no_found_rows' => true );
	$posts = get_posts( array( 'name' => "subject-$name", 'fields' => 'ids' ) );
	$all   = array(
		'category-and-author'   => array( 'category_name' => 'probe-common', 'author' => $other ),
		'category-and-tag'      => array( 'category_name' => 'probe-common', 'tag' => 'probe-tag' ),
		'two-tags'              => array( 'tag__and' => $both ),
		'category-without-tag'  => array( 'category_name' => 'probe-common', 'tag__not_in' => array( $tag ), 'posts_per_page' => 100 ),
		'category-alone'        => array( 'tax_query' => array( $alone ) ),
		'term-by-slug'          => array( 'tax_query' => array( array( 'taxonomy' => 'post_tag', 'field' => 'slug', 'terms' => 'probe-moving' ) ) ),
		'no-such-term'          => array( 'tax_query' => array( array( 'taxonomy' => 'post_tag', 'field' => 'slug', 'terms' => 'probe-awaited' ) ) ),
		'members-leave'         => array( 'category__in' => array( get_cat_ID( 'probe-common' ), get_cat_ID( 'probe-second' ) ), 'orderby' => 'ID' ),
		'members-change-term'   => array( 'category__in' => array( get_cat_ID( 'probe-common' ), get_cat_ID( 'probe-second' ) ), 'orderby' => 'ID' ),
		'members-enter'         => array( 'category__in' => array( get_cat_ID( 'probe-entered' ) ), 'orderby' => 'rand' ),
		'numbers-and-tag'       => array( 'post__in' => $posts, 'tag_id' => $tag ),
		'numbers-and-author'    => array( 'post__in' => $posts, 'author' => $other ),
		'numbers-sold-out'      => array( 'post__in' => $posts, 'tax_query' => $sold ),
		'slugs-sold-out'        => array( 'post_name__in' => array( "subject-$name" ), 'tax_query' => $sold ),
		'not-by-author'         => array( 'author__not_in' => array( $other ), 'posts_per_page' => 300 ),
		// Oldest first: other posts published at this hour are newer.
		'hour'                  => array( 'hour' => 3, 'order' => 'ASC' ),
		'menu-order'            => array( 'menu_order' => 7 ),
		'closed'                => array( 'comment_status' => 'closed', 'category_name' => 'probe-common' ),
		'protected-in-category' => array( 'has_password' => true, 'category_name' => 'probe-common' ),
		'search'                => array( 's' => "Xylograph of $name" ),
		'search-in-category'    => array( 's' => 'Xylograph', 'category_name' => 'probe-search' ),
		'search-by-author'      => array( 's' => "Xylograph of $name", 'author' => $other ),
		'scheduled'             => array( 'post_status' => 'future', 'author' => $other ),
		'hidden-type'           => array( 'post_type' => 'slide' ),
		'stickies-first'        => array( 'ignore_sticky_posts' => false ),
		'any-field'             => array( 'meta_query' => array( array( 'value' => 'probe-value' ) ) ),
		'filtered-title'        => array( 'probe_posts_where' => " AND $wpdb->posts.post_title LIKE 'Zz%'" ),
		'filtered-field'        => array( 'probe_posts_join' => " JOIN $wpdb->postmeta probes ON probes.post_id = $wpdb->posts.ID AND probes.meta_key = 'probe_join'" ),
		'filtered-rank'         => array( 'probe_posts_where' => " AND $wpdb->posts.post_name = 'subject-$name'", 'tag' => 'probe-tag' ),
	);
	return $all[ $name ] + $three;
}

/** Returns the IDs that a query finds. */
function probe( string $name ): string {
	$pages = array(
		'pages-in-order'  => array( 'sort_column' => 'menu_order' ),
		'pages-by-field'  => array( 'meta_key' => 'probe_page', 'hierarchical' => false ),
		'pages-by-author' => array( 'authors' => username_exists( 'editor' ) ),
	);
	$terms = array(
		'terms-by-number' => array( 'include' => array( get_cat_ID( 'probe-empty' ) ) ),
		'terms-by-slug'   => array( 'slug' => array( 'probe-common', 'probe-empty' ) ),
		'terms-by-field'  => array( 'meta_key' => 'probe_term', 'hide_empty' => false ),
	);
	$users = array(
		'users-by-number' => array( 'include' => array( username_exists( 'editor' ) ), 'meta_key' => 'probe_user' ),
		'users-by-field'  => array( 'meta_key' => 'probe_user', 'meta_value' => '2' ),
		'users-by-role'   => array( 'role' => 'contributor' ),
	);
	if ( isset( $terms[ $name ] ) ) {
		$found = get_terms( array( 'taxonomy' => 'category', 'fields' => 'ids' ) + $terms[ $name ] );
	} elseif ( isset( $users[ $name ] ) ) {
		$found = get_users( array( 'fields' => 'ID' ) + $users[ $name ] );
	} else {
		$found = wp_list_pluck( isset( $pages[ $name ] ) ? get_pages( $pages[ $name ] ) : ( new WP_Query( probe_query( $name ) ) )->posts, 'ID' );
	}
	return 'found:[' . implode( ' ', $found ) . ']';
}
