<?php
/**
 * The chart of the last day: requests in bars of a quarter of an hour, by how they were answered. Inline SVG.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

const CHART_BARS    = 96;
const CHART_SECONDS = 900;
const CHART_WIDTH   = 960;
const CHART_HEIGHT  = 160;

/** From the bottom up: what the server counts, and its colour. */
const CHART_PARTS = array(
	'hits'   => '#2271b1',
	'stale'  => '#72aee6',
	'misses' => '#dba617',
	'passes' => '#a7aaad',
);

/**
 * The minutes of the server in bars; the last one is the quarter of an hour that is under way. Pure.
 *
 * @param mixed $minutes `minutes` of `GET /history`.
 * @param int   $now     Seconds since the epoch.
 * @return array<int, array<string, int>> For each bar the requests of each part.
 */
function chart_bars( $minutes, int $now ): array {
	$bars  = array_fill( 0, CHART_BARS, array_fill_keys( array_keys( CHART_PARTS ), 0 ) );
	$first = intdiv( $now, CHART_SECONDS ) - CHART_BARS + 1;
	foreach ( is_array( $minutes ) ? $minutes : array() as $minute ) {
		if ( ! is_array( $minute ) || ! is_int( $minute['time'] ?? null ) ) {
			continue;
		}
		$bar = intdiv( $minute['time'], CHART_SECONDS ) - $first;
		if ( ! isset( $bars[ $bar ] ) ) {
			continue;
		}
		foreach ( array_keys( CHART_PARTS ) as $part ) {
			$count                  = $minute[ $part ] ?? 0;
			$bars[ $bar ][ $part ] += is_int( $count ) ? max( 0, $count ) : 0;
		}
	}
	return $bars;
}

/**
 * The sums of all bars. Pure.
 *
 * @param array $bars From `chart_bars()`.
 * @return array<string, int>
 */
function chart_sums( array $bars ): array {
	$sums = array_fill_keys( array_keys( CHART_PARTS ), 0 );
	foreach ( $bars as $bar ) {
		foreach ( $bar as $part => $count ) {
			$sums[ $part ] += $count;
		}
	}
	return $sums;
}

/**
 * The part of requests that a stored page answered, 0 to 1; null without requests. Pure.
 *
 * @param array $sums From `chart_sums()`.
 */
function ratio_of( array $sums ): ?float {
	$all = array_sum( $sums );
	return $all > 0 ? ( $sums['hits'] + $sums['stale'] ) / $all : null;
}

/**
 * The chart as SVG. Numbers only: nothing in it comes from a visitor. Pure but for the translated title.
 *
 * @param array $bars From `chart_bars()`.
 */
function chart_svg( array $bars ): string {
	$most  = max( 1, max( array_map( 'array_sum', $bars ) ) );
	$width = CHART_WIDTH / CHART_BARS;
	$rects = '';
	foreach ( $bars as $at => $bar ) {
		$y = CHART_HEIGHT;
		foreach ( CHART_PARTS as $part => $colour ) {
			$height = round( $bar[ $part ] * CHART_HEIGHT / $most, 1 );
			if ( $height <= 0 ) {
				continue;
			}
			$y     -= $height;
			$rects .= sprintf( '<rect x="%.1F" y="%.1F" width="%.1F" height="%.1F" fill="%s"/>', $at * $width, $y, $width - 1, $height, $colour );
		}
	}
	/* translators: %s: a number of requests */
	$title = sprintf( __( 'Requests of the last 24 hours, at most %s in a quarter of an hour', 'galley' ), number_format_i18n( $most ) );
	return sprintf(
		'<svg class="galley-chart" role="img" viewBox="0 0 %d %d" preserveAspectRatio="none" width="100%%" height="%d" style="background:#fff;border:1px solid #c3c4c7;box-sizing:border-box"><title>%s</title>%s</svg>',
		CHART_WIDTH,
		CHART_HEIGHT,
		CHART_HEIGHT,
		esc_html( $title ),
		$rects
	);
}
