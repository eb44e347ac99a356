<?php
/**
 * Admin notices about conditions that prevent caching. WordPress shows them to administrators.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Admin screens on which the notices appear. The settings page of the plugin has a list of its own. */
const NOTICE_SCREENS = array( 'dashboard', 'plugins' );

add_action( 'admin_notices', __NAMESPACE__ . '\\notices' );

function notices(): void {
	$screen = get_current_screen();
	if ( ! may_manage() || null === $screen || ! in_array( $screen->id, NOTICE_SCREENS, true ) ) {
		return;
	}
	$dismissed = (array) get_user_meta( get_current_user_id(), 'galley_dismissed', true );
	$found     = defeats();
	if ( null === connection() ) {
		$found = array( 'connection' => connection_trouble( array() ) ) + $found;
	}
	foreach ( $found as $notice => $sentence ) {
		if ( in_array( $notice, $dismissed, true ) ) {
			continue;
		}
		printf(
			'<div class="notice notice-warning galley-notice"><p><strong>Galley:</strong> %s <a href="%s">%s</a></p></div>',
			esc_html( $sentence ),
			esc_url( dismiss_link( $notice ) ),
			esc_html__( 'Do not show this again', 'galley' )
		);
	}
}

function dismiss_link( string $notice ): string {
	return wp_nonce_url( admin_url( 'admin-post.php?action=galley_dismiss&notice=' . rawurlencode( $notice ) ), 'galley_dismiss' );
}
