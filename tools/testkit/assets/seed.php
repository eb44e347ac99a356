<?php
/**
 * Plants the sample site into a fresh WordPress: 60 posts over two years, 8 categories in a tree, 12 tags, 3 authors and
 * an editor, 120 comments, 10 pages, 12 pictures, two menus, footer widgets, and one post of each special kind: sticky,
 * password-protected (`galley`), private, scheduled, draft. Slugs of the special ones: `sticky-notice`, `members-only`,
 * `private-note`, `next-week`, `unfinished`. Included by install.php, which has loaded WordPress.
 */

declare(strict_types=1);

namespace Galley\Seed;

require __DIR__ . '/seed-text.php';
require __DIR__ . '/seed-images.php';

/** Plants everything. The site must be newly installed. */
function plant(): void {
	wp_defer_term_counting( true );
	wp_defer_comment_counting( true );
	clear_defaults();
	appearance();
	$authors    = users();
	$categories = categories();
	$images     = images( 12, $authors[0] );
	$posts      = posts( $authors, $categories, $images );
	special_posts( $authors );
	$pages = pages( $authors[0] );
	comments( $posts );
	menus( $pages, $categories );
	widgets();
	wp_defer_comment_counting( false );
	wp_defer_term_counting( false );
}

/** Takes away what a fresh installation brings: one post, two pages, one comment. */
function clear_defaults(): void {
	foreach ( get_posts( array( 'post_type' => array( 'post', 'page' ), 'post_status' => 'any', 'numberposts' => 20 ) ) as $post ) {
		wp_delete_post( $post->ID, true );
	}
}

function appearance(): void {
	switch_theme( 'twentytwentyone' );
	update_option( 'blogdescription', 'News, tides and recipes from a small harbour' );
	update_option( 'posts_per_page', 10 );
	update_option( 'thread_comments', '1' );
	update_option( 'comments_per_page', '50' );
	update_option( 'timezone_string', 'UTC' );
	// Avatars come from a foreign host: a test machine asks none.
	update_option( 'show_avatars', '0' );
}

/** Three authors and the user `editor`, all with the administrator's password. Returns the authors' ids. */
function users(): array {
	$people = array(
		'mara'   => array( 'Mara Lindqvist', 'author' ),
		'tomas'  => array( 'Tomas Okafor', 'author' ),
		'ines'   => array( 'Ines Duarte', 'author' ),
		'editor' => array( 'Edda Editor', 'editor' ),
	);
	$ids    = array();
	foreach ( $people as $login => list( $name, $role ) ) {
		$ids[] = wp_insert_user(
			array(
				'user_login'   => $login,
				'user_pass'    => (string) getenv( 'GALLEY_PASSWORD' ),
				'user_email'   => "$login@example.org",
				'display_name' => $name,
				'role'         => $role,
				'description'  => "$name writes about the harbour and lives above the chandler's shop.",
			)
		);
	}
	return array_slice( $ids, 0, 3 );
}

/** Returns the term ids, name to id. */
function categories(): array {
	$ids = array();
	foreach ( category_tree() as $name => $children ) {
		$ids[ $name ] = wp_insert_term( $name, 'category' )['term_id'];
		foreach ( $children as $child ) {
			$ids[ $child ] = wp_insert_term( $child, 'category', array( 'parent' => $ids[ $name ] ) )['term_id'];
		}
	}
	update_option( 'default_category', $ids['Town'] );
	wp_delete_term( 1, 'category' );
	return $ids;
}

function posts( array $authors, array $categories, array $images ): array {
	$names = array_values( $categories );
	$tags  = tag_names();
	$ids   = array();
	foreach ( post_titles() as $number => $title ) {
		$picture = $images[ $number % count( $images ) ];
		$inline  = 0 === $number % 3 ? image_block( $images[ ( $number + 5 ) % count( $images ) ] ) : '';
		$id      = wp_insert_post(
			array(
				'post_title'    => $title,
				'post_content'  => body( $number, $inline ),
				'post_status'   => 'publish',
				'post_author'   => $authors[ $number % count( $authors ) ],
				'post_date'     => moment( $number * 12 * 24 + 30 + pick( $number, 9, 90 ) ),
				'post_category' => array( $names[ $number % 8 ], $names[ pick( $number, 8, 8 ) ] ),
				'tags_input'    => array( $tags[ $number % 12 ], $tags[ pick( $number, 7, 12 ) ] ),
			)
		);
		if ( 0 !== $number % 4 ) {
			set_post_thumbnail( $id, $picture );
		}
		$ids[] = $id;
	}
	return $ids;
}

/** A point of time so many hours before now (or after, if negative), as WordPress writes it. */
function moment( int $hours_ago ): string {
	return gmdate( 'Y-m-d H:i:s', time() - $hours_ago * 3600 - 60 );
}

function special_posts( array $authors ): void {
	$common = array( 'post_status' => 'publish', 'post_author' => $authors[0] );
	$kinds  = array(
		'sticky-notice' => array( 'post_title' => 'Winter opening hours', 'post_date' => moment( 400 ) ),
		'members-only'  => array( 'post_title' => 'For members of the rowing club', 'post_date' => moment( 900 ), 'post_password' => 'galley' ),
		'private-note'  => array( 'post_title' => 'A note to ourselves', 'post_date' => moment( 950 ), 'post_status' => 'private' ),
		'next-week'     => array( 'post_title' => 'The regatta of next week', 'post_date' => moment( -7 * 24 ), 'post_status' => 'future' ),
		'unfinished'    => array( 'post_title' => 'Something about eels', 'post_status' => 'draft' ),
	);
	$seed   = 500;
	foreach ( $kinds as $slug => $fields ) {
		$id = wp_insert_post( array_merge( $common, array( 'post_name' => $slug, 'post_content' => body( $seed++ ) ), $fields ) );
		if ( 'sticky-notice' === $slug ) {
			stick_post( $id );
		}
	}
}

/** Returns the page ids, title to id. */
function pages( int $author, ?array $tree = null, int $parent = 0 ): array {
	$ids = array();
	foreach ( $tree ?? page_tree() as $title => $children ) {
		$ids[ $title ] = wp_insert_post(
			array(
				'post_type'    => 'page',
				'post_status'  => 'publish',
				'post_title'   => $title,
				'post_author'  => $author,
				'post_parent'  => $parent,
				'menu_order'   => count( $ids ),
				'post_content' => body( crc32( $title ) % 1000 ),
			)
		);
		$ids          += pages( $author, $children, $ids[ $title ] );
	}
	return $ids;
}

/** 120 comments: 114 to be seen, some as answers to others, and 6 that wait for approval. */
function comments( array $posts ): void {
	$names = visitor_names();
	$last  = array();
	for ( $number = 0; $number < 120; $number++ ) {
		$post = $posts[ pick( $number, 5, 30 ) ];
		$name = $names[ $number % count( $names ) ];
		$id   = wp_insert_comment(
			array(
				'comment_post_ID'      => $post,
				'comment_author'       => $name,
				'comment_author_email' => sanitize_title( $name ) . '@example.org',
				'comment_author_IP'    => '192.0.2.' . ( 1 + $number ),
				'comment_content'      => paragraph( 2000 + $number, 1, 1 + pick( $number, 6, 4 ) ),
				'comment_date'         => moment( 3 + 120 - $number ),
				'comment_date_gmt'     => moment( 3 + 120 - $number ),
				'comment_parent'       => 0 === $number % 3 ? ( $last[ $post ] ?? 0 ) : 0,
				'comment_approved'     => 19 === $number % 20 ? 0 : 1,
			)
		);
		if ( 19 !== $number % 20 ) {
			$last[ $post ] = $id;
		}
	}
}

function menus( array $pages, array $categories ): void {
	$main = wp_create_nav_menu( 'Main' );
	// The path alone: it holds on any host and port.
	menu_item( $main, array( 'menu-item-type' => 'custom', 'menu-item-title' => 'Home', 'menu-item-url' => '/' ) );
	$about = menu_page( $main, $pages['About'] );
	menu_page( $main, $pages['Our crew'], $about );
	menu_page( $main, $pages['History'], $about );
	$visit = menu_page( $main, $pages['Visit'] );
	menu_page( $main, $pages['Getting here'], $visit );
	foreach ( array( 'Harbour', 'Town', 'Kitchen' ) as $name ) {
		menu_item( $main, array( 'menu-item-type' => 'taxonomy', 'menu-item-object' => 'category', 'menu-item-object-id' => $categories[ $name ] ) );
	}
	$footer = wp_create_nav_menu( 'Footer' );
	menu_page( $footer, $pages['Contact'] );
	menu_page( $footer, $pages['Privacy'] );
	set_theme_mod( 'nav_menu_locations', array( 'primary' => $main, 'footer' => $footer ) );
}

function menu_page( int $menu, int $page, int $parent = 0 ): int {
	return menu_item( $menu, array( 'menu-item-type' => 'post_type', 'menu-item-object' => 'page', 'menu-item-object-id' => $page, 'menu-item-parent-id' => $parent ) );
}

function menu_item( int $menu, array $fields ): int {
	// While terms are not counted, WordPress takes a menu for empty, and gives all items the same position.
	static $position = 0;
	return wp_update_nav_menu_item( $menu, 0, $fields + array( 'menu-item-status' => 'publish', 'menu-item-position' => ++$position ) );
}

function widgets(): void {
	$kinds    = array(
		'search'          => array( 'title' => 'Search' ),
		'recent-posts'    => array( 'title' => 'Recent posts', 'number' => 5 ),
		'recent-comments' => array( 'title' => 'Recent comments', 'number' => 5 ),
		'archives'        => array( 'title' => 'Archives', 'count' => 1, 'dropdown' => 0 ),
		'categories'      => array( 'title' => 'Categories', 'count' => 1, 'hierarchical' => 1, 'dropdown' => 0 ),
	);
	$sidebars = array( 'wp_inactive_widgets' => array(), 'sidebar-1' => array(), 'array_version' => 3 );
	foreach ( $kinds as $kind => $settings ) {
		update_option( "widget_$kind", array( 2 => $settings, '_multiwidget' => 1 ) );
		$sidebars['sidebar-1'][] = "$kind-2";
	}
	update_option( 'sidebars_widgets', $sidebars );
}
