<?php
/**
 * A must-use plugin of the exactness run: gives the site what core and the two themes lack (related posts, a list by time of
 * change, a post type with a taxonomy, a form for strangers), keeps mail and flood control out of the way, and tells the
 * logged-in editor one-time keys. None of it knows of a cache. The large site and the sites of scripts go without what it adds to pages.
 */

declare(strict_types=1);

namespace Galley\Exactness;

add_filter( 'pre_wp_mail', '__return_true' );
add_filter( 'wp_is_comment_flood', '__return_false', 99 );
add_filter( 'duplicate_comment_id', '__return_zero' );

// One pool of PHP-FPM measures what a page costs without plugins.
if ( 'without' === getenv( 'EXACTNESS_PLUGIN' ) ) {
	add_filter( 'option_active_plugins', '__return_empty_array' );
}

// The reference keeps no transients, because those of others are in the object cache.
if ( 'without' === getenv( 'EXACTNESS_OBJECTS' ) && file_exists( WP_CONTENT_DIR . '/object-cache.php' ) ) {
	wp_using_ext_object_cache( true );
}

if ( ! defined( 'EXACTNESS_LARGE' ) && ! defined( 'EXACTNESS_PLAIN' ) ) {
	add_action( 'init', __NAMESPACE__ . '\\boats' );
	add_filter( 'the_content', __NAMESPACE__ . '\\below_posts' );
	add_filter( 'is_active_sidebar', __NAMESPACE__ . '\\no_sidebar_on_pages' );
} elseif ( defined( 'EXACTNESS_LARGE' ) && 'shared' === ( $_SERVER['HTTP_GALLEY_REQUEST'] ?? '' ) ) {
	note_request();
}
add_shortcode( 'exact_changed', __NAMESPACE__ . '\\lately_changed' );
add_shortcode( 'exact_boats', __NAMESPACE__ . '\\boats_at' );
add_shortcode( 'exact_children', __NAMESPACE__ . '\\children' );
add_shortcode( 'exact_form', __NAMESPACE__ . '\\form' );
add_action( 'wp_ajax_exact_nonce', __NAMESPACE__ . '\\nonce' );
add_action( 'wp_ajax_exact_menu', __NAMESPACE__ . '\\menu_form' );
add_action( 'shutdown', __NAMESPACE__ . '\\say_that_cron_has_ended', PHP_INT_MAX );

/** What a server that stores pages requests: a page, or so many fragments. The run of the large site lists them. */
function note_request(): void {
	$wanted = (string) ( $_SERVER['HTTP_GALLEY_FRAGMENT'] ?? '' );
	$what   = '' === $wanted ? 'page' : 'fragments(' . implode( ' ', array_map( __NAMESPACE__ . '\\part', explode( ',', $wanted ) ) ) . ')';
	file_put_contents( EXACTNESS_NOTES . '/requests', "$what {$_SERVER['REQUEST_URI']}\n", FILE_APPEND );
}

/** A fragment in a few words. */
function part( string $signed ): string {
	$known = json_decode( (string) base64_decode( strstr( $signed, '.', true ) ), true )[1] ?? array();
	return (string) ( $known['widget'] ?? $known['block']['blockName'] ?? substr( (string) wp_json_encode( $known ), 0, 60 ) );
}

/** A post type with an archive, and a taxonomy of its own. */
function boats(): void {
	register_post_type(
		'boat',
		array(
			'label'        => 'Boats',
			'public'       => true,
			'has_archive'  => 'boats',
			'show_in_rest' => true,
			'supports'     => array( 'title', 'editor', 'custom-fields' ),
		)
	);
	register_taxonomy( 'wharf', 'boat', array( 'label' => 'Wharves', 'public' => true, 'show_in_rest' => true ) );
}

/** A custom field, related posts of the same categories and, where the theme has none, the neighbours. */
function below_posts( string $content ): string {
	static $inside = false;
	if ( $inside || is_feed() || ! is_singular( 'post' ) || get_the_ID() !== get_queried_object_id() || post_password_required() ) {
		return $content;
	}
	$inside = true;
	$id     = (int) get_the_ID();
	$catch  = (string) get_post_meta( $id, 'catch', true );
	$out    = '' === $catch ? '' : '<p class="catch">' . esc_html( $catch ) . '</p>';
	$out   .= links(
		array( 'category__in' => wp_get_post_categories( $id ), 'post__not_in' => array( $id ), 'posts_per_page' => 3 ),
		'related'
	);
	if ( wp_is_block_theme() ) {
		$out .= '<nav>' . get_previous_post_link( '%link' ) . get_next_post_link( '%link' ) . '</nav>';
	}
	$inside = false;
	return $content . $out;
}

/** Links to the posts of a query. */
function links( array $query, string $name ): string {
	$found = new \WP_Query( $query + array( 'ignore_sticky_posts' => true, 'no_found_rows' => true ) );
	$out   = '';
	foreach ( $found->posts as $post ) {
		$out .= '<li><a href="' . esc_url( get_permalink( $post ) ) . '">' . esc_html( get_the_title( $post ) ) . '</a></li>';
	}
	return '<ul class="' . $name . '">' . $out . '</ul>';
}

/** Pages go without widgets, so that not everything depends on everything. */
function no_sidebar_on_pages( bool $active ): bool {
	return $active && ! is_page();
}

/** With the ID, because a bulk edit changes several posts in one second, and the database may give those in any order. */
function lately_changed(): string {
	return links( array( 'orderby' => 'modified ID', 'posts_per_page' => 5 ), 'changed' );
}

function boats_at(): string {
	$wharf = array( 'taxonomy' => 'wharf', 'field' => 'slug', 'terms' => 'north-wall' );
	return links( array( 'post_type' => 'boat', 'tax_query' => array( $wharf ), 'orderby' => 'title', 'order' => 'ASC' ), 'boats' );
}

function children(): string {
	return '<ul>' . wp_list_pages( array( 'child_of' => get_the_ID(), 'title_li' => '', 'echo' => false ) ) . '</ul>';
}

function form(): string {
	return '<form>' . wp_nonce_field( 'exact_form', '_wpnonce', false, false ) . '</form>';
}

/** The one-time key that a form of the administration would carry. */
function nonce(): void {
	wp_die( esc_html( wp_create_nonce( sanitize_text_field( wp_unslash( $_GET['for'] ?? '' ) ) ) ), '', array( 'response' => 200 ) );
}

/** A menu as the form of nav-menus.php sends it, with one label changed. */
function menu_form(): void {
	$menu   = wp_get_nav_menu_object( (int) ( $_GET['menu'] ?? 0 ) );
	$fields = array( array( 'name' => 'menu-name', 'value' => $menu->name ), array( 'name' => 'menu-locations[primary]', 'value' => $menu->term_id ) );
	foreach ( wp_get_nav_menu_items( $menu ) as $item ) {
		$values = array(
			'db-id'       => $item->ID,
			'object-id'   => $item->object_id,
			'object'      => $item->object,
			'parent-id'   => $item->menu_item_parent,
			'position'    => $item->menu_order,
			'type'        => $item->type,
			'title'       => (int) ( $_GET['item'] ?? 0 ) === $item->ID ? sanitize_text_field( wp_unslash( $_GET['title'] ?? '' ) ) : $item->title,
			'url'         => $item->url,
			'description' => '',
			'attr-title'  => '',
			'target'      => '',
			'classes'     => '',
			'xfn'         => '',
		);
		foreach ( $values as $name => $value ) {
			$fields[] = array( 'name' => "menu-item-{$name}[{$item->ID}]", 'value' => (string) $value );
		}
	}
	header( 'Content-Type: text/plain' );
	echo wp_json_encode( $fields );
	exit;
}

/** wp-cron.php answers before it works: whoever waits for its work needs a sign, after everybody else's end of the request. */
function say_that_cron_has_ended(): void {
	if ( wp_doing_cron() ) {
		register_shutdown_function(
			static function (): void {
				file_put_contents( EXACTNESS_NOTES . '/cron', "ended\n", FILE_APPEND );
			}
		);
	}
}
