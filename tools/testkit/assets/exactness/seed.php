<?php
/**
 * Run inside the sample site by the exactness run: gives everything fixed dates (all in the past, whenever it runs), plants what
 * the sample lacks, and prints `id NAME NUMBER` for what the events touch and `page KIND TARGET` for every page that is
 * compared. Included after wp-load.php; EXACTNESS_SHORT in the environment asks for fewer pages, EXACTNESS_POSTS for so many more
 * posts in place of the plants, and EXACTNESS_PAGES for so many pages of that site, EXACTNESS_SHOP for a shop and languages beside them.
 */

declare(strict_types=1);

namespace Galley\Exactness\Seed;

require_once ABSPATH . 'wp-admin/includes/taxonomy.php';

global $wpdb;
$wpdb->query( 'START TRANSACTION' );
redate();
$more = (int) getenv( 'EXACTNESS_POSTS' );
if ( $more ) {
	copies( $more );
} else {
	plant();
}
$wpdb->query( 'COMMIT' );
wp_cache_flush();
if ( $more ) {
	large( (int) getenv( 'EXACTNESS_PAGES' ) );
} elseif ( getenv( 'EXACTNESS_SHOP' ) ) {
	require __DIR__ . '/shop-seed.php';
} else {
	names();
	pages();
}

/** Posts twelve days apart from the last of May 2024 back; pages, pictures and comments on fixed days as well. */
function redate(): void {
	global $wpdb;
	$newest = strtotime( '2024-05-31 12:00:00 UTC' );
	$posts  = $wpdb->get_col( "SELECT ID FROM $wpdb->posts WHERE post_type = 'post' AND post_status = 'publish' AND post_name NOT IN ('sticky-notice', 'members-only') ORDER BY post_date DESC, ID" );
	foreach ( $posts as $number => $id ) {
		date_of( (int) $id, $newest - $number * 12 * DAY_IN_SECONDS );
	}
	$others = array( 'sticky-notice' => '2023-12-01', 'members-only' => '2023-10-15', 'private-note' => '2023-10-10', 'next-week' => '2024-06-20' );
	foreach ( $others as $slug => $day ) {
		date_of( post( $slug ), strtotime( "$day 09:00:00 UTC" ) );
	}
	$rest = $wpdb->get_col( "SELECT ID FROM $wpdb->posts WHERE post_type IN ('page', 'attachment') ORDER BY ID" );
	foreach ( $rest as $number => $id ) {
		date_of( (int) $id, strtotime( '2022-01-10 08:00:00 UTC' ) + $number * HOUR_IN_SECONDS );
	}
	$comments = $wpdb->get_col( "SELECT comment_ID FROM $wpdb->comments ORDER BY comment_date, comment_ID" );
	foreach ( $comments as $number => $id ) {
		$date = gmdate( 'Y-m-d H:i:s', strtotime( '2024-05-01 00:00:00 UTC' ) + $number * HOUR_IN_SECONDS );
		$wpdb->update( $wpdb->comments, array( 'comment_date' => $date, 'comment_date_gmt' => $date ), array( 'comment_ID' => $id ) );
	}
	wp_cache_flush();
	// Far away, until the event of that post lets the time come.
	_set_cron_array( array() );
	wp_schedule_single_event( time() + 10 * YEAR_IN_SECONDS, 'publish_future_post', array( post( 'next-week' ) ) );
}

function date_of( int $id, int $time ): void {
	global $wpdb;
	$date = gmdate( 'Y-m-d H:i:s', $time );
	$wpdb->update( $wpdb->posts, array( 'post_date' => $date, 'post_date_gmt' => $date, 'post_modified' => $date, 'post_modified_gmt' => $date ), array( 'ID' => $id ) );
}

/** Id of a post, page or other by its slug, whatever its status. */
function post( string $slug ): int {
	global $wpdb;
	return (int) $wpdb->get_var( $wpdb->prepare( "SELECT ID FROM $wpdb->posts WHERE post_name = %s AND post_type NOT IN ('revision', 'attachment')", $slug ) );
}

function add( string $type, string $slug, string $title, string $content, array $more = array() ): int {
	static $hour = 0;
	$date = gmdate( 'Y-m-d H:i:s', strtotime( '2022-03-01 08:00:00 UTC' ) + ( ++$hour ) * HOUR_IN_SECONDS );
	$id   = wp_insert_post( array( 'post_type' => $type, 'post_name' => $slug, 'post_title' => $title, 'post_content' => $content, 'post_status' => 'publish', 'post_author' => 1, 'post_date' => $date ) + $more );
	date_of( $id, strtotime( "$date UTC" ) );
	return $id;
}

function plant(): void {
	$pattern = add( 'wp_block', 'opening-hours', 'Opening hours', '<!-- wp:paragraph --><p>Open from nine to five.</p><!-- /wp:paragraph -->' );
	$kitchen = (int) get_term_by( 'slug', 'kitchen', 'category' )->term_id;
	$media   = implode( ',', array_slice( media(), 0, 3 ) );
	$query   = wp_json_encode( array( 'queryId' => 1, 'query' => array( 'perPage' => 4, 'postType' => 'post', 'order' => 'desc', 'orderBy' => 'date', 'inherit' => false, 'taxQuery' => array( 'category' => array( $kitchen ) ) ) ) );
	$pages   = array(
		'latest'           => array( 'Latest', '<!-- wp:latest-posts {"postsToShow":5,"displayPostDate":true} /-->' ),
		'talk'             => array( 'Talk', '<!-- wp:latest-comments {"commentsToShow":5} /-->' ),
		'kitchen-table'    => array( 'Kitchen table', "<!-- wp:query $query --><div class=\"wp-block-query\"><!-- wp:post-template --><!-- wp:post-title {\"isLink\":true} /--><!-- /wp:post-template --></div><!-- /wp:query -->" ),
		'hours'            => array( 'Hours', "<!-- wp:block {\"ref\":$pattern} /-->" ),
		'hours-in-winter'  => array( 'Hours in winter', "<!-- wp:paragraph --><p>Shorter.</p><!-- /wp:paragraph --><!-- wp:block {\"ref\":$pattern} /-->" ),
		'clouds'           => array( 'Clouds', '<!-- wp:tag-cloud /--><!-- wp:categories {"showPostCounts":true} /--><!-- wp:archives {"showPostCounts":true} /-->' ),
		'all-pages'        => array( 'All pages', '<!-- wp:page-list /-->' ),
		'pictures'         => array( 'Pictures', "[gallery ids=\"$media\" link=\"none\"]" ),
		'write-to-us'      => array( 'Write to us', '[exact_form]' ),
		'lately-changed'   => array( 'Lately changed', '[exact_changed]' ),
		'at-the-wall'      => array( 'At the wall', '[exact_boats]' ),
		'plain'            => array( 'Plain', '<!-- wp:paragraph --><p>Depends on nothing.</p><!-- /wp:paragraph -->' ),
	);
	foreach ( $pages as $slug => list( $title, $content ) ) {
		add( 'page', $slug, $title, $content );
	}
	add( 'page', 'below', 'Below', '[exact_children]', array( 'post_parent' => 0 ) );
	add( 'page', 'below-one', 'Below one', 'A child.', array( 'post_parent' => post( 'below' ) ) );
	foreach ( array( 'Albatross' => 'North wall', 'Bittern' => 'North wall', 'Curlew' => 'South quay' ) as $boat => $wharf ) {
		$id = add( 'boat', sanitize_title( $boat ), $boat, "$boat lies still." );
		wp_set_object_terms( $id, $wharf, 'wharf' );
	}
	add( 'wp_navigation', 'navigation', 'Navigation', '<!-- wp:navigation-link {"label":"Contact","url":"/contact/","kind":"custom"} /--><!-- wp:navigation-link {"label":"Visit","type":"page","id":' . post( 'visit' ) . ',"url":"/visit/","kind":"post-type"} /-->' );
	widgets();
	// Styles are filed under their theme only by who may do that.
	wp_set_current_user( 1 );
	$classic = get_stylesheet();
	switch_theme( 'twentytwentythree' );
	$styles = \WP_Theme_JSON_Resolver::get_user_global_styles_post_id();
	date_of( $styles, strtotime( '2022-03-01 08:00:00 UTC' ) );
	update_option( 'exactness_styles', $styles, false );
	switch_theme( $classic );
	wp_set_current_user( 0 );
	add_post_meta( post( 'notes-on-painting-a-hull' ), 'catch', 'Two mackerel' );
	// Whoever was approved once is not moderated any more; the flood control of strangers is about time.
	update_option( 'comment_previously_approved', '1' );
	update_option( 'blogname', 'The Tide Table' );
	flush_rewrite_rules( false );
}

/** The sample's widgets, a text, a menu, and a widget that many pages show in contexts of their own. */
function widgets(): void {
	$footer = wp_get_nav_menu_object( 'Footer' )->term_id;
	update_option( 'widget_custom_html', array( 2 => array( 'title' => 'Notice', 'content' => '<p>The slipway is open.</p>' ), '_multiwidget' => 1 ) );
	update_option( 'widget_nav_menu', array( 2 => array( 'title' => 'More', 'nav_menu' => $footer ), '_multiwidget' => 1 ) );
	update_option( 'widget_kept-comments', array( 2 => array(), '_multiwidget' => 1 ) );
	$sidebars                = get_option( 'sidebars_widgets' );
	$sidebars['sidebar-1'][] = 'custom_html-2';
	$sidebars['sidebar-1'][] = 'nav_menu-2';
	$sidebars['sidebar-1'][] = 'kept-comments-2';
	update_option( 'sidebars_widgets', $sidebars );
}

function media(): array {
	global $wpdb;
	return array_map( 'intval', $wpdb->get_col( "SELECT ID FROM $wpdb->posts WHERE post_type = 'attachment' ORDER BY ID" ) );
}

/** The sixty posts of the sample, newest first. */
function posts(): array {
	global $wpdb;
	return array_map( 'intval', $wpdb->get_col( "SELECT ID FROM $wpdb->posts WHERE post_type = 'post' AND post_status = 'publish' AND post_name NOT IN ('sticky-notice', 'members-only') ORDER BY post_date DESC, ID" ) );
}

/** Prints what the events need. */
function names(): void {
	global $wpdb;
	$say = static function ( string $name, $id ): void {
		echo "id $name " . (int) $id . "\n";
	};
	foreach ( posts() as $number => $id ) {
		$say( "post.$number", $id );
	}
	foreach ( media() as $number => $id ) {
		$say( "media.$number", $id );
	}
	foreach ( array( 'page', 'boat', 'wp_block', 'wp_navigation' ) as $type ) {
		foreach ( get_posts( array( 'post_type' => $type, 'numberposts' => -1 ) ) as $post ) {
			$say( "$type.{$post->post_name}", $post->ID );
		}
	}
	foreach ( array( 'sticky-notice', 'members-only', 'private-note', 'next-week' ) as $slug ) {
		$say( "post.$slug", post( $slug ) );
	}
	$say( 'post.unfinished', $wpdb->get_var( "SELECT ID FROM $wpdb->posts WHERE post_status = 'draft' AND post_type = 'post' ORDER BY ID LIMIT 1" ) );
	foreach ( get_terms( array( 'taxonomy' => array( 'category', 'post_tag', 'wharf', 'nav_menu' ), 'hide_empty' => false ) ) as $term ) {
		$say( "{$term->taxonomy}.{$term->slug}", $term->term_id );
	}
	foreach ( get_users() as $user ) {
		$say( "user.{$user->user_nicename}", $user->ID );
	}
	// Below posts that no other event touches, without answers of their own.
	$posts  = posts();
	$quiet  = implode( ',', array_map( static fn( int $at ): int => $posts[ $at ], array( 3, 4, 8, 11, 15, 18, 19, 20, 22, 23, 24 ) ) );
	$number = 0;
	foreach ( $wpdb->get_col( "SELECT comment_ID FROM $wpdb->comments WHERE comment_approved = '1' AND comment_post_ID IN ($quiet) AND comment_ID NOT IN (SELECT comment_parent FROM $wpdb->comments) ORDER BY comment_date DESC LIMIT 10" ) as $id ) {
		$say( "comment.$number", $id );
		$say( "comment.$number.post", get_comment( (int) $id )->comment_post_ID );
		++$number;
	}
	$pending = (int) $wpdb->get_var( "SELECT comment_ID FROM $wpdb->comments WHERE comment_approved = '0' AND comment_post_ID IN ($quiet) ORDER BY comment_date DESC LIMIT 1" );
	$say( 'comment.pending', $pending );
	foreach ( wp_get_nav_menu_items( 'main' ) as $number => $item ) {
		$say( "item.$number", $item->ID );
	}
	$say( 'styles', get_option( 'exactness_styles' ) );
}

/** Prints the pages; the short form takes some of each kind. */
function pages(): void {
	$short = (bool) getenv( 'EXACTNESS_SHORT' );
	$most  = array( 'post' => 6, 'page' => 8, 'list' => 2, 'term' => 4, 'author' => 1, 'date' => 2, 'search' => 1, 'feed' => 4, 'rest' => 6, 'sitemap' => 2, 'missing' => 2, 'other' => 2 );
	foreach ( targets() as $kind => $all ) {
		foreach ( $short ? array_slice( $all, 0, $most[ $kind ] ) : $all as $target ) {
			echo "page $kind " . preg_replace( '~^https?://[^/]+~', '', $target ) . "\n";
		}
	}
}

/**
 * Kind to addresses. The first ones of each kind make the short form. Queries are in alphabetical order: feeds and lists name the
 * address that PHP sees, which is that one for every order.
 */
function targets(): array {
	$posts = posts();
	$media = media();
	$link  = static fn( int $number ): string => (string) get_permalink( $posts[ $number ] );
	$term  = static fn( string $slug, string $taxonomy = 'category' ): string => (string) get_term_link( $slug, $taxonomy );
	$shown = array_merge( array( 0, 1, 8, 30, 31, 2 ), range( 3, 7 ), range( 9, 24 ), array( 40, 41, 45, 50, 55, 58, 59 ) );
	$pages = array();
	foreach ( get_posts( array( 'post_type' => 'page', 'numberposts' => -1, 'orderby' => 'ID', 'order' => 'DESC' ) ) as $page ) {
		$pages[] = get_permalink( $page );
	}
	$first = array_map( static fn( string $slug ): string => (string) get_permalink( post( $slug ) ), array( 'plain', 'latest', 'talk', 'hours', 'about', 'clouds', 'lately-changed', 'kitchen-table' ) );
	$terms = array( $term( 'harbour' ), $term( 'kitchen' ), $term( 'bread', 'post_tag' ), $term( 'fish', 'post_tag' ) );
	foreach ( get_terms( array( 'taxonomy' => array( 'category', 'post_tag', 'wharf' ) ) ) as $one ) {
		$terms[] = get_term_link( $one );
	}
	$terms[] = $term( 'harbour' ) . 'page/2/';
	$rest    = static fn( string $path ): string => "/wp-json/wp/v2/$path";
	return array(
		'list'    => array( '/', '/page/2/', '/page/3/', '/page/4/', '/page/6/', '/page/7/', '/boats/' ),
		'post'    => array_merge( array_map( $link, $shown ), array( get_permalink( post( 'sticky-notice' ) ), get_permalink( post( 'bittern' ) ), get_permalink( post( 'albatross' ) ), get_permalink( post( 'curlew' ) ) ) ),
		'page'    => array_values( array_unique( array_merge( $first, $pages ) ) ),
		'term'    => array_values( array_unique( $terms ) ),
		'author'  => array( '/author/mara/', '/author/tomas/', '/author/ines/', '/author/mara/page/2/' ),
		'date'    => array( '/2024/', '/2024/05/', '/2023/', '/2024/04/', '/2024/03/', '/2023/12/', '/2024/05/31/' ),
		'search'  => array( '/?s=ferry', '/?s=bread', '/?s=zeppelin' ),
		'feed'    => array( '/feed/', '/comments/feed/', $term( 'harbour' ) . 'feed/', $link( 8 ) . 'feed/', '/feed/atom/', $term( 'bread', 'post_tag' ) . 'feed/', '/author/mara/feed/', $link( 2 ) . 'feed/', '/boats/feed/', '/?feed=rss2&s=ferry' ),
		'rest'    => array(
			$rest( 'posts' ),
			$rest( "posts/{$posts[30]}" ),
			$rest( 'comments' ),
			$rest( 'categories' ),
			$rest( 'pages?per_page=30' ),
			$rest( 'users' ),
			$rest( 'posts?page=2&per_page=5' ),
			$rest( "posts/{$posts[0]}" ),
			$rest( 'posts?categories=' . get_term_by( 'slug', 'kitchen', 'category' )->term_id ),
			$rest( 'posts?search=ferry' ),
			$rest( 'posts?_embed=1&per_page=3' ),
			$rest( 'pages/' . post( 'about' ) ),
			$rest( 'tags' ),
			$rest( 'comments?post=' . $posts[8] ),
			$rest( 'media' ),
			$rest( "media/{$media[0]}" ),
			$rest( 'search?search=bread' ),
			$rest( 'boat' ),
			$rest( 'navigation' ),
			'/wp-json/oembed/1.0/embed?url=' . rawurlencode( $link( 1 ) ),
		),
		'sitemap' => array( '/wp-sitemap-posts-post-1.xml', '/wp-sitemap.xml', '/wp-sitemap-posts-page-1.xml', '/wp-sitemap-taxonomies-category-1.xml', '/wp-sitemap-taxonomies-post_tag-1.xml', '/wp-sitemap-users-1.xml' ),
		'missing' => array( '/fresh-fish/', '/nothing-here/', '/next-week/' ),
		'other'   => array( "/?p={$posts[30]}", '/robots.txt', $link( 0 ) . 'embed/', get_attachment_link( $media[0] ), get_attachment_link( $media[4] ) ),
	);
}

/** Copies of the sample's posts with their categories and tags, each an hour older than the one before. */
function copies( int $wanted ): void {
	global $wpdb;
	$posts = posts();
	$day   = "post_date - INTERVAL %d HOUR, post_date_gmt - INTERVAL %d HOUR";
	$texts = 'post_content, post_excerpt, post_status, post_author, post_type, comment_status, ping_status, post_content_filtered, to_ping, pinged';
	for ( $round = 1; $wanted > 0; $round++ ) {
		$ids     = implode( ',', array_slice( $posts, 0, $wanted ) );
		$wanted -= count( $posts );
		$wpdb->query( $wpdb->prepare( "INSERT INTO $wpdb->posts (post_title, post_name, post_date, post_date_gmt, post_modified, post_modified_gmt, $texts) SELECT CONCAT(post_title, ' ', %d), CONCAT(post_name, '-', %d), $day, $day, $texts FROM $wpdb->posts WHERE ID IN ($ids)", $round, $round, $round, $round, $round, $round ) );
		$wpdb->query( $wpdb->prepare( "INSERT INTO $wpdb->term_relationships (object_id, term_taxonomy_id, term_order) SELECT new.ID, held.term_taxonomy_id, 0 FROM $wpdb->posts old JOIN $wpdb->posts new ON new.post_name = CONCAT(old.post_name, '-', %d) JOIN $wpdb->term_relationships held ON held.object_id = old.ID WHERE old.ID IN ($ids)", $round ) );
	}
	foreach ( array( 'category', 'post_tag' ) as $taxonomy ) {
		$terms = get_terms( array( 'taxonomy' => $taxonomy, 'hide_empty' => false, 'fields' => 'tt_ids' ) );
		wp_update_term_count_now( $terms, $taxonomy );
	}
	update_option( 'blogname', 'The Tide Table' );
	flush_rewrite_rules( false );
}

/** Prints the pages of the large site, the most visited kinds first, and what its events touch. */
function large( int $wanted ): void {
	global $wpdb;
	$posts = posts();
	$pages = get_posts( array( 'post_type' => 'page', 'numberposts' => -1 ) );
	$terms = get_terms( array( 'taxonomy' => array( 'category', 'post_tag' ) ) );
	$lists = array_merge( array( '/', '/feed/' ), array_map( 'get_permalink', $pages ), array_map( 'get_term_link', $terms ) );
	array_push( $lists, '/page/2/', '/page/3/', '/author/mara/', '/author/tomas/', '/author/ines/', '/2024/', '/2024/05/', '/2023/', '/comments/feed/', get_term_link( 'kitchen', 'category' ) . 'feed/', '/wp-sitemap.xml', '/wp-sitemap-posts-post-1.xml' );
	$shown = array_slice( $posts, 0, max( 20, $wanted - count( $lists ) ) );
	foreach ( array_merge( $lists, array_map( 'get_permalink', $shown ) ) as $target ) {
		echo 'page any ' . preg_replace( '~^https?://[^/]+~', '', $target ) . "\n";
	}
	$say = static function ( string $name, $id ): void {
		echo "id $name " . (int) $id . "\n";
	};
	$say( 'count.post', count( $shown ) );
	foreach ( $shown as $number => $id ) {
		$say( "post.$number", $id );
	}
	// Far behind the first pages of all lists.
	foreach ( array( 'commented', 'renamed', 'rewritten' ) as $number => $name ) {
		$say( "old.$name", $shown[ intdiv( count( $shown ) * ( 6 + $number ), 10 ) ] );
	}
	foreach ( array( 'category', 'post_tag' ) as $taxonomy ) {
		foreach ( get_terms( array( 'taxonomy' => $taxonomy ) ) as $number => $term ) {
			$say( "$taxonomy.$term->slug", $term->term_id );
			$say( "$taxonomy.$number", $term->term_id );
		}
	}
	foreach ( get_users() as $user ) {
		$say( "user.{$user->user_nicename}", $user->ID );
	}
	foreach ( wp_get_nav_menu_items( 'main' ) as $number => $item ) {
		$say( "item.$number", $item->ID );
	}
}
