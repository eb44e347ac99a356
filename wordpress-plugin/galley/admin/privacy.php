<?php
/**
 * The text for the privacy policy, and the plugin's section in Site Health > Info.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

add_action( 'admin_init', __NAMESPACE__ . '\\privacy_text' );
add_filter( 'debug_information', __NAMESPACE__ . '\\debug_rows' );

function privacy_text(): void {
	if ( ! function_exists( 'wp_add_privacy_policy_content' ) ) {
		return;
	}
	$texts = array(
		__( 'Galley stores copies of pages on the server of this site, so that they are sent faster. It stores only pages that are the same for everybody, sets no cookie, and sends no data to others.', 'galley' ),
		__( 'So that edits renew search results, the site stores up to 100 words that visitors have searched for, without any data about the visitors.', 'galley' ),
		__( 'For the owners of the site it stores the last 50 changes of pages, with the number of the user who made them.', 'galley' ),
	);
	wp_add_privacy_policy_content( 'Galley', '<p>' . implode( '</p><p>', array_map( 'esc_html', $texts ) ) . '</p>' );
}

/**
 * Adds the section of the plugin to Site Health > Info.
 *
 * @param array $info Sections of Site Health.
 */
function debug_rows( $info ): array {
	$info    = (array) $info;
	$status  = call( 'GET', '/status', null, 1.0 );
	$facts   = site_facts( $status );
	$state   = judge_site( $facts );
	$choices = choices();
	$fields  = array(
		'plugin'      => array( __( 'Plugin', 'galley' ), VERSION ),
		'server'      => array( __( 'Server', 'galley' ), (string) ( $status['body']['version'] ?? '–' ) ),
		'state'       => array( __( 'State', 'galley' ), $state['color'] . ': ' . $state['label'] ),
		'connection'  => array( __( 'Connection set in', 'galley' ), connection_source() ),
		'hit_ratio'   => array( __( 'Hit ratio', 'galley' ), percent( $facts['site']['hit_ratio'] ?? null ) ),
		'pending'     => array( __( 'Pending purges', 'galley' ), (string) $facts['pending'] ),
		'development' => array( __( 'Development mode', 'galley' ), $facts['development'] > 0 ? 'on' : 'off' ),
		'lifetime'    => array( __( 'Lifetime of pages', 'galley' ), (string) ( $choices['lifetime'] > 0 ? $choices['lifetime'] : LIFETIME ) ),
		'excluded'    => array( __( 'Excluded paths and kinds', 'galley' ), implode( ', ', array_merge( $choices['paths'], $choices['types'] ) ) ),
	);
	$rows    = array();
	foreach ( $fields as $name => $field ) {
		$rows[ $name ] = array(
			'label' => $field[0],
			'value' => '' === $field[1] ? '–' : $field[1],
		);
	}
	$rows['address'] = array(
		'label'   => __( 'Address', 'galley' ),
		'value'   => connection()['address'] ?? '–',
		'private' => true,
	);
	$info['galley']  = array(
		'label'  => 'Galley',
		'fields' => $rows,
	);
	return $info;
}
