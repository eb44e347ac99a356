<?php
// Reads and writes through WordPress, as one request of PHP-FPM. Prints JSON.
require __DIR__ . '/wp-load.php';
header( 'Content-Type: application/json' );
header( 'Cache-Control: no-store' );
$who    = preg_replace( '/\W/', '', (string) ( $_GET['who'] ?? 'a' ) );
$number = (int) ( $_GET['number'] ?? 0 );
if ( 'write' === ( $_GET['do'] ?? '' ) ) {
	update_option( "probe_auto_$who", $number, true );
	update_option( "probe_late_$who", "text $number", false );
	wp_update_post( array( 'ID' => (int) $_GET['post'], 'post_title' => "Title $number" ) );
	update_post_meta( (int) $_GET['post'], 'probe', $number );
	$stored = set_transient( "probe_$who", $number, 600 );
}
if ( 'fill' === ( $_GET['do'] ?? '' ) ) {
	for ( $i = 0; $i < 20; $i++ ) {
		wp_cache_set( "filler-$i", str_repeat( chr( 65 + $i ), 100000 ), 'filler' );
	}
	exit( '{}' );
}
if ( 'die' === ( $_GET['do'] ?? '' ) ) {
	// Between the statement and its announcement.
	$GLOBALS['wpdb']->update( $GLOBALS['wpdb']->posts, array( 'post_title' => "Title $number" ), array( 'ID' => (int) $_GET['post'] ) );
	throw new Exception( 'a fatal error' );
}
if ( 'commit' === ( $_GET['do'] ?? '' ) ) {
	// Tells the test through files where it is, and waits for it.
	$pause = static function ( $step ) {
		touch( __DIR__ . "/probe-$step" );
		for ( $i = 0; $i < 3000 && ! file_exists( __DIR__ . "/probe-$step-seen" ); $i++ ) {
			usleep( 10000 );
		}
	};
	$GLOBALS['wpdb']->query( 'START TRANSACTION' );
	wp_update_term( get_the_category( (int) $_GET['post'] )[0]->term_id, 'category', array( 'name' => "Name $number" ) );
	wp_update_post( array( 'ID' => (int) $_GET['post'], 'post_title' => "Title $number" ) );
	$pause( 'open' );
	$GLOBALS['wpdb']->query( 'COMMIT' );
	$pause( 'committed' );
}
$post = get_post( (int) $_GET['post'] );
echo json_encode(
	array(
		'auto'      => (int) get_option( "probe_auto_$who" ),
		'late'      => (int) substr( (string) get_option( "probe_late_$who" ), 5 ),
		'term'      => isset( $_GET['term'] ) ? (int) substr( get_the_category( $post->ID )[0]->name, 5 ) : null,
		'title'     => (int) substr( $post->post_title, 6 ),
		'meta'      => (int) get_post_meta( $post->ID, 'probe', true ),
		// WordPress says that it has not stored it, and shows the former value to this request, if another process deletes the row meanwhile.
		'transient' => $stored ?? true ? get_transient( "probe_$who" ) : null,
		'connected' => is_callable( array( $GLOBALS['wp_object_cache'], 'is_connected' ) ) && $GLOBALS['wp_object_cache']->is_connected(),
		'trips'     => is_callable( array( $GLOBALS['wp_object_cache'], 'round_trips' ) ) ? $GLOBALS['wp_object_cache']->round_trips() : 0,
		'queries'   => $GLOBALS['wpdb']->num_queries,
	)
);
