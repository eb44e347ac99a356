<?php
/**
 * Draws the pictures of the sample site with php-gd (sky, sun, hills, water) and makes them attachments with all the sizes
 * that WordPress cuts. The same number gives the same picture.
 */

declare(strict_types=1);

namespace Galley\Seed;

const IMAGE_WIDTH  = 1600;
const IMAGE_HEIGHT = 1066;

/** Two colors of the sky, one of the sun, one of the hills, one of the water, as hexadecimal RGB. */
function palettes(): array {
	return array(
		array( '2b4c7e', 'f2b880', 'ffe3b3', '24405c', '1d3557' ),
		array( '7aa5c9', 'e8eef2', 'ffffff', '4f6d5c', '5b8fa8' ),
		array( '463c66', 'e26d5c', 'ffd8a8', '2e294e', '3d3a63' ),
		array( 'a3c4bc', 'f7e7ce', 'fff6e0', '5c7a6b', '8fb8ad' ),
	);
}

function color( \GdImage $image, string $hex, int $shade = 0 ): int {
	$parts = array_map( static fn( string $part ): int => max( 0, min( 255, hexdec( $part ) + $shade ) ), str_split( $hex, 2 ) );
	return imagecolorallocate( $image, ...$parts );
}

/** Draws picture $number and writes it as a JPEG. */
function draw( int $number, string $file ): void {
	list( $top, $bottom, $sun, $hills, $water ) = palettes()[ $number % 4 ];
	$image   = imagecreatetruecolor( IMAGE_WIDTH, IMAGE_HEIGHT );
	$horizon = 560 + pick( $number, 1, 200 );
	$from    = array_map( 'hexdec', str_split( $top, 2 ) );
	$to      = array_map( 'hexdec', str_split( $bottom, 2 ) );
	for ( $y = 0; $y < $horizon; $y++ ) {
		$mix = array_map( static fn( $a, $b ): int => (int) ( $a + ( $b - $a ) * $y / $horizon ), $from, $to );
		imageline( $image, 0, $y, IMAGE_WIDTH, $y, imagecolorallocate( $image, ...$mix ) );
	}
	$size = 120 + pick( $number, 2, 140 );
	imagefilledellipse( $image, 300 + pick( $number, 3, 1000 ), $horizon - 80 - pick( $number, 4, 260 ), $size, $size, color( $image, $sun ) );
	for ( $layer = 0; $layer < 3; $layer++ ) {
		draw_hills( $image, $number + $layer * 31, $horizon, 190 - $layer * 60, color( $image, $hills, 46 - $layer * 23 ) );
	}
	imagefilledrectangle( $image, 0, $horizon, IMAGE_WIDTH, IMAGE_HEIGHT, color( $image, $water ) );
	for ( $wave = 0; $wave < 150; $wave++ ) {
		$y = $horizon + 6 + pick( $number, 100 + $wave, IMAGE_HEIGHT - $horizon - 8 );
		$x = pick( $number, 400 + $wave, IMAGE_WIDTH );
		imageline( $image, $x, $y, $x + 30 + intdiv( $y - $horizon, 3 ), $y, color( $image, $water, 12 + $wave % 30 ) );
	}
	imagejpeg( $image, $file, 80 );
	imagedestroy( $image );
}

function draw_hills( \GdImage $image, int $seed, int $horizon, int $height, int $color ): void {
	$points = array( 0, $horizon );
	for ( $x = 0; $x <= IMAGE_WIDTH; $x += 40 ) {
		$rise     = 0.55 + 0.3 * sin( $x / 210 + $seed ) + 0.15 * sin( $x / 67 + $seed * 3 );
		$points[] = $x;
		$points[] = (int) ( $horizon - $height * $rise );
	}
	array_push( $points, IMAGE_WIDTH, $horizon );
	imagefilledpolygon( $image, $points, $color );
}

/** Draws and registers $count pictures; returns the ids of the attachments. */
function images( int $count, int $author ): array {
	$names = array( 'quay', 'north-wall', 'evening-ferry', 'dunes', 'lighthouse', 'market', 'slipway', 'breakwater', 'bay', 'morning', 'signal-tower', 'moorings' );
	$place = wp_upload_dir( gmdate( 'Y/m' ) );
	$ids   = array();
	for ( $number = 0; $number < $count; $number++ ) {
		$name = $names[ $number % count( $names ) ];
		$file = $place['path'] . "/$name.jpg";
		draw( $number, $file );
		$id = wp_insert_attachment(
			array(
				'post_title'     => ucfirst( str_replace( '-', ' ', $name ) ),
				'post_mime_type' => 'image/jpeg',
				'post_author'    => $author,
				'guid'           => $place['url'] . "/$name.jpg",
			),
			$file
		);
		wp_update_attachment_metadata( $id, wp_generate_attachment_metadata( $id, $file ) );
		update_post_meta( $id, '_wp_attachment_image_alt', ucfirst( str_replace( '-', ' ', $name ) ) . ', seen from the pier' );
		$ids[] = $id;
	}
	return $ids;
}

/** An image block without the site's address in it, so that it holds on any host and port. */
function image_block( int $id ): string {
	$source = wp_get_attachment_image_src( $id, 'large' );
	$path   = (string) wp_parse_url( $source[0], PHP_URL_PATH );
	return sprintf(
		"<!-- wp:image {\"id\":%d,\"sizeSlug\":\"large\"} -->\n<figure class=\"wp-block-image size-large\"><img src=\"%s\" alt=\"%s\" class=\"wp-image-%d\"/></figure>\n<!-- /wp:image -->",
		$id,
		esc_attr( $path ),
		esc_attr( (string) get_post_meta( $id, '_wp_attachment_image_alt', true ) ),
		$id
	);
}
