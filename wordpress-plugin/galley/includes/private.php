<?php
/**
 * Private fragments: the parts of a page that differ for members and for visitors with a cart.
 *
 * If the site has `members = "fragments"`, Galley stores the page for anonymous visitors and inserts the private parts of a member. The
 * plugin puts markers around these parts in both pages, removes the markers before it sends the page, and describes each part in a header:
 * `Galley-Fragment: <name> <start> <length> - private-<scope> <tags>`. The scope `session` means that the part is the same on all pages
 * of this member. The scope `page` means that the part belongs to this page.
 *
 * In a page for a member (`Galley-Request: member`) the header `Galley-Member` contains the class of the member. Members of the same class
 * get the same page outside of their private parts. Galley compares the pages, so a part without a marker only costs performance.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Maximum number of private parts of a page. Galley does not serve a page with more private parts to members from the cache. */
const MAX_PRIVATE = 24;

/** The lowest marker number of private parts. Shared fragments have lower numbers. */
const FIRST_PRIVATE = 9000;

/** Blocks that show data of a member or of a cart, with their scopes. */
const PRIVATE_BLOCKS = array(
	'core/loginout'                => 'page',
	'galley/private'               => 'page',
	'woocommerce/customer-account' => 'page',
	'woocommerce/mini-cart'        => 'session',
);

/** Widget types that show such data, with their scopes. */
const PRIVATE_WIDGETS = array(
	'meta'                    => 'session',
	'woocommerce_widget_cart' => 'session',
);

/** Completed private parts by number: name, scope, tags. */
$GLOBALS['galley_private'] = array();

/** Names of the nonces of this request. Each key is the letter `n` followed by the nonce. */
$GLOBALS['galley_private_nonces'] = array();

/** The `Galley-Fragment` headers of private parts: start, end, text. */
$GLOBALS['galley_private_fields'] = array();

if ( marks_private() ) {
	add_filter( 'nonce_life', __NAMESPACE__ . '\\note_private_nonce', PHP_INT_MAX, 2 );
	add_filter( 'pre_render_block', __NAMESPACE__ . '\\begin_private_block', PHP_INT_MAX, 2 );
	add_filter( 'render_block', __NAMESPACE__ . '\\end_private_block', PHP_INT_MAX, 2 );
	add_filter( 'dynamic_sidebar_params', __NAMESPACE__ . '\\end_private_widget', PHP_INT_MIN );
	add_filter( 'dynamic_sidebar_params', __NAMESPACE__ . '\\begin_private_widget', PHP_INT_MAX );
	add_action( 'dynamic_sidebar_after', __NAMESPACE__ . '\\end_private_widget', PHP_INT_MIN );
	add_action( 'comment_form_before', __NAMESPACE__ . '\\begin_comment_form', PHP_INT_MIN );
	add_action( 'comment_form_after', __NAMESPACE__ . '\\end_comment_form', PHP_INT_MAX );
}
add_action( 'init', __NAMESPACE__ . '\\register_private_block' );

/**
 * Returns whether the plugin describes the private parts of the current page. The page is either for all visitors or for one member.
 */
function marks_private(): bool {
	return is_member_page() || ( has_members() && is_shared() && null === wanted_fragment() );
}

/**
 * Begins a private part and returns its marker, or an empty string if no private part can begin. A shared fragment that contains a
 * private part becomes part of the page.
 *
 * @param string $name  Name of the part, which is the same on every page.
 * @param string $scope `session` or `page`.
 */
function begin_private( string $name, string $scope ): string {
	$open = $GLOBALS['galley_open_fragment'];
	if ( ! marks_private() || isset( $open['definition']['private'] ) || ! did_action( 'template_redirect' ) || is_feed() || wp_is_json_request() ) {
		return '';
	}
	if ( null !== $open ) {
		cancel_fragment();
		// Reserves the number of the canceled fragment, because the page may already contain its marker.
		$GLOBALS['galley_fragments'][] = array( 'tags' => array(), 'definition' => array(), 'blocks' => array(), 'label' => '' ); // phpcs:ignore WordPress.Arrays.ArrayDeclarationSpacing -- reads better.
	}
	begin_fragment( $name, array( 'private' => 'session' === $scope ? 'session' : 'page' ) );
	$number = FIRST_PRIVATE + count( $GLOBALS['galley_private'] );

	$GLOBALS['galley_open_fragment']['number'] = $number;
	return fragment_mark( 'begin', $number );
}

/**
 * Ends the private part with this name and returns its marker, or an empty string if the part has not begun.
 */
function end_private( string $name ): string {
	$open = $GLOBALS['galley_open_fragment'];
	return isset( $open['definition']['private'] ) && word( $name ) === $open['label'] ? end_open_private() : '';
}

/**
 * Ends the open private part and returns its marker.
 */
function end_open_private(): string {
	$open = $GLOBALS['galley_open_fragment'];
	$own  = with_printed_tags( array( 'private' => true ), $GLOBALS['galley_tags'] );
	cancel_fragment();
	$GLOBALS['galley_private'][ $open['number'] ] = array(
		'name'  => $open['label'],
		'scope' => $open['definition']['private'],
		'tags'  => $own,
	);
	return fragment_mark( 'end', $open['number'] );
}

/**
 * Prints a private part with its markers.
 *
 * @param callable $render Prints the content of the part.
 */
function print_private( string $name, callable $render, string $scope ): void {
	echo begin_private( $name, $scope ); // phpcs:ignore WordPress.Security.EscapeOutput -- a mark.
	try {
		$render();
	} finally {
		echo end_private( $name ); // phpcs:ignore WordPress.Security.EscapeOutput -- a mark.
	}
}

function register_private_block(): void {
	if ( ! \WP_Block_Type_Registry::get_instance()->is_registered( 'galley/private' ) ) {
		register_block_type(
			'galley/private',
			array(
				'attributes'      => array(
					'name'  => array( 'type' => 'string' ),
					'scope' => array( 'type' => 'string' ),
				),
				'render_callback' => static function ( $attributes, $content ) {
					return $content;
				},
			)
		);
	}
}

/**
 * Begins a private part for a block in `PRIVATE_BLOCKS`.
 *
 * @param string|null $html  HTML that another filter returned in place of the block.
 * @param array       $block Parsed block.
 */
function begin_private_block( $html, $block = array() ) {
	$scope = PRIVATE_BLOCKS[ (string) ( $block['blockName'] ?? '' ) ] ?? null;
	if ( null !== $html || null === $scope ) {
		return $html;
	}
	if ( 'galley/private' === $block['blockName'] && 'session' === ( $block['attrs']['scope'] ?? '' ) ) {
		$scope = 'session';
	}
	if ( doing_filter( 'the_content' ) ) {
		// Authors must not be able to choose what members see on the pages of other authors.
		$scope = 'page';
	}
	$mark = begin_private( private_block_name( $block ), $scope );
	if ( '' !== $mark ) {
		$GLOBALS['galley_open_fragment']['mark']   = $mark;
		$GLOBALS['galley_open_fragment']['nested'] = array( $block['blockName'], 0 );
	}
	return $html;
}

function end_private_block( $html, $block = array() ) {
	$open = $GLOBALS['galley_open_fragment'];
	if ( ! isset( $open['mark'] ) || ! ends_open_block( $block ) ) {
		return $html;
	}
	return $open['mark'] . $html . end_open_private();
}

function private_block_name( array $block ): string {
	$name = (string) ( $block['attrs']['name'] ?? '' );
	return $block['blockName'] . ( '' === $name ? '' : "/$name" );
}

/**
 * Begins a private part for a widget in `PRIVATE_WIDGETS`. As in `fragments.php`, the part ends when the next widget begins or when the
 * sidebar ends.
 */
function begin_private_widget( $params ) {
	$id = is_array( $params ) ? (string) ( $params[0]['widget_id'] ?? '' ) : '';
	if ( ! is_private_widget( $id ) || ! isset( $params[0]['before_widget'], $params[0]['after_widget'] ) ) {
		return $params;
	}
	$mark = begin_private( "widget/$id", PRIVATE_WIDGETS[ _get_widget_id_base( $id ) ] );
	if ( '' !== $mark ) {
		$GLOBALS['galley_open_fragment']['is_widget'] = true;

		$params[0]['before_widget'] = $mark . $params[0]['before_widget'];
		$params[0]['after_widget'] .= fragment_mark( 'end', $GLOBALS['galley_open_fragment']['number'] );
	}
	return $params;
}

/**
 * Returns whether a widget is a private part of the current page.
 */
function is_private_widget( string $id ): bool {
	return isset( PRIVATE_WIDGETS[ _get_widget_id_base( $id ) ] ) && marks_private();
}

/**
 * Ends the private part of the previous widget, if it is one.
 */
function end_private_widget( $params = null ) {
	if ( isset( $GLOBALS['galley_open_fragment']['is_widget'] ) ) {
		end_open_private();
	}
	return $params;
}

function begin_comment_form(): void {
	echo begin_private( 'comment-form', 'page' ); // phpcs:ignore WordPress.Security.EscapeOutput -- a mark.
}

function end_comment_form(): void {
	echo end_private( 'comment-form' ); // phpcs:ignore WordPress.Security.EscapeOutput -- a mark.
}

/**
 * Records a nonce that WordPress creates or checks. Before version 6.1, WordPress does not pass the action to this filter. Galley then
 * does not serve pages with nonces to members from the cache.
 *
 * @param int        $life   Lifetime in seconds.
 * @param int|string $action Action of the nonce.
 */
function note_private_nonce( $life, $action = -1 ) {
	static $is_inner = false;
	if ( ! $is_inner && -1 !== $action && count( $GLOBALS['galley_private_nonces'] ) < 100 ) {
		$is_inner = true;
		$nonce    = wp_create_nonce( $action );
		$is_inner = false;

		$GLOBALS['galley_private_nonces'][ "n$nonce" ] = 'nonce/' . word( (string) $action );
	}
	return $life;
}

/**
 * Removes the markers from the page and creates the headers of its private parts. Nothing may change the page afterwards.
 *
 * @param string $html Page with the markers of shared fragments and private parts.
 */
function finish_private( string $html ): string {
	if ( ! marks_private() ) {
		return finish_fragments( $html );
	}
	// Markers in attributes are escaped.
	$html                   = (string) preg_replace( "/&lt;!--(galley-$GLOBALS[galley_mark]-(?:begin|end)9\\d{3})--&gt;/", '<!--$1-->', $html );
	list( $plain, $places ) = without_marks( $html, $GLOBALS['galley_mark'] );
	$page                   = finish_fragments( $html );
	if ( $page !== $plain ) {
		return $page;
	}
	$parts = array();
	foreach ( $places as $number => $place ) {
		if ( isset( $GLOBALS['galley_private'][ $number ] ) ) {
			$parts[] = $GLOBALS['galley_private'][ $number ] + array( 'place' => $place );
		}
	}
	foreach ( $parts ? nonce_places( $plain, $GLOBALS['galley_private_nonces'], array_values( $places ) ) : array() as $found ) {
		$parts[] = array(
			'name'  => $found[0],
			'scope' => 'session',
			'tags'  => array(),
			'place' => array( $found[1], $found[2] ),
		);
	}
	if ( count( $parts ) <= MAX_PRIVATE ) {
		$GLOBALS['galley_private_fields'] = array_map( __NAMESPACE__ . '\\private_field', $parts );
	}
	return $plain;
}

/**
 * Returns the positions of nonces in a page, outside of other private parts and of shared fragments. Pure.
 *
 * @param array<string, string> $nonces Names of the nonces. Each key is the letter `n` followed by the nonce.
 * @param array<int, int[]>     $taken  Starts and lengths of other parts.
 * @return array<int, array{string, int, int}> Names, starts, lengths.
 */
function nonce_places( string $page, array $nonces, array $taken ): array {
	$found = array();
	foreach ( $nonces as $nonce => $name ) {
		$nonce = substr( (string) $nonce, 1 );
		$at    = -1;
		while ( '' !== $nonce && false !== ( $at = strpos( $page, $nonce, $at + 1 ) ) && count( $found ) <= MAX_PRIVATE ) { // phpcs:ignore Generic.CodeAnalysis.AssignmentInCondition, WordPress.CodeAnalysis.AssignmentInCondition -- a search.
			$end     = $at + strlen( $nonce );
			$overlap = array_filter(
				$taken,
				static function ( array $place ) use ( $at, $end ): bool {
					return $place[0] < $end && $at < $place[0] + $place[1];
				}
			);
			if ( ! $overlap ) {
				$found[] = array( $name, $at, strlen( $nonce ) );
				$taken[] = array( $at, strlen( $nonce ) );
			}
		}
	}
	return $found;
}

/**
 * Returns the header of a private part.
 *
 * @param array $part Name, scope, tags, place.
 * @return array{int, int, string} Start, end and text of the header.
 */
function private_field( array $part ): array {
	$tags                   = is_member_page() ? $part['tags'] + tags_of_member() : array();
	list( $start, $length ) = $part['place'];
	$text                   = implode( ' ', array( $part['name'], $start, $length, '-', "private-$part[scope]", implode( ',', collapsed( array_map( 'strval', array_keys( $tags ) ), 200, MAX_FRAGMENT_FIELD - 500 ) ) ) );
	return array( $start, $start + $length, rtrim( $text ) );
}

/**
 * Returns the headers of shared fragments and private parts in the order of their positions.
 *
 * @param array<int, string> $shared Headers of shared fragments by start.
 * @param array              $own    Headers of private parts: start, end, text. Parts with the same start are in their order.
 * @return string[]
 */
function fields_in_order( array $shared, array $own ): array {
	$fields = array();
	foreach ( $own as $number => $field ) {
		$fields[] = array( $field[0], $field[1] - $field[0], $number, $field[2] );
	}
	foreach ( $shared as $start => $text ) {
		$fields[] = array( $start, (int) ( explode( ' ', $text )[2] ?? 0 ), -1, $text );
	}
	sort( $fields );
	return array_column( $fields, 3 );
}
