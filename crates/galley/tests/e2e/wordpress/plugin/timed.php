<?php
/**
 * Pages `/?timed=<name>` that time alone makes wrong, each for one reason.
 */

$timed = $_GET['timed'] ?? '';

if ( '' !== $timed && PHP_SAPI !== 'cli' ) {
	/** The plugin reads sales only if WooCommerce is there. */
	function wc_get_product() {
		return null;
	}

	add_action( 'init', fn() => register_post_type( 'product', array( 'public' => true ) ) );
	add_action( 'init', fn() => register_post_type( 'product_variation' ) );
	add_action( 'wp_footer', 'timed_footer' );
	if ( 'own-lifetime' === $timed ) {
		add_action( 'send_headers', fn() => header( 'Cache-Control: public, max-age=86400' ) );
	}
}

function timed_footer(): void {
	global $timed;
	switch ( $timed ) {
		case 'sale':
		case 'own-lifetime':
		case 'variation':
			echo get_the_title( get_page_by_path( 'variation' === $timed ? 'timed-boat' : 'timed-oar', OBJECT, 'product' ) );
			break;
		case 'seconds':
			echo human_time_diff( time() - 30 );
			break;
		case 'years':
			echo human_time_diff( time() - 3 * YEAR_IN_SECONDS ), ' ago';
			break;
		case 'printed':
			echo '<span>5</span> minutes ago';
			break;
		case 'written':
			echo '10 years ago';
			break;
		case 'community':
			echo apply_filters( 'bp_core_time_since', 'right now' );
			break;
		case 'feed':
			fetch_feed( 'http://127.0.0.1:1/' );
			break;
		case 'closing':
			add_filter( 'pre_option_close_comments_for_old_posts', '__return_true' );
			add_filter( 'pre_option_close_comments_days_old', fn() => 1000 );
			comments_open( get_page_by_path( 'timed-open', OBJECT, 'post' ) );
			break;
		case 'events':
			get_posts( array( 'meta_key' => 'start', 'meta_value' => time(), 'meta_compare' => '>=', 'suppress_filters' => false ) );
			break;
	}
}

/** Creates what the pages show: a sale that ends in 5000 s, a variation whose sale begins then, a post whose comments close then. */
function timed_subjects(): void {
	$until = time() + 5000;
	$make  = fn( string $type, string $name, array $more = array() ) => wp_insert_post( $more + array( 'post_type' => $type, 'post_name' => "timed-$name", 'post_title' => $name, 'post_status' => 'publish' ) );
	update_post_meta( $make( 'product', 'oar' ), '_sale_price_dates_to', $until );
	update_post_meta( $make( 'product_variation', 'large', array( 'post_parent' => $make( 'product', 'boat' ) ) ), '_sale_price_dates_from', $until );
	$make( 'post', 'open', array( 'comment_status' => 'open', 'post_date_gmt' => gmdate( 'Y-m-d H:i:s', $until - 1000 * DAY_IN_SECONDS ), 'post_date' => gmdate( 'Y-m-d H:i:s', $until - 1000 * DAY_IN_SECONDS ) ) );
}
