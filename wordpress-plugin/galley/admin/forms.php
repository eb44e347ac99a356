<?php
/**
 * The buttons and forms of the settings page. Their handlers are in actions.php.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Lifetimes in the settings, in seconds. 0 is the default of the plugin. */
const LIFETIMES = array( 0, 300, 3600, 21600, 86400, 259200, 604800 );

/**
 * Prints a form with one button.
 *
 * @param string $action  Action of `admin-post.php`.
 * @param string $id      ID of the button.
 * @param string $words   Label of the button.
 * @param string $confirm Question to confirm before the form is submitted. Empty for none.
 */
function button_form( string $action, string $id, string $words, string $confirm = '' ): void {
	printf( '<form method="post" action="%s" data-galley-confirm="%s">', esc_url( admin_url( 'admin-post.php' ) ), esc_attr( $confirm ) );
	printf( '<input type="hidden" name="action" value="%s">', esc_attr( $action ) );
	wp_nonce_field( $action );
	submit_button( $words, 'secondary', $id, false );
	echo '</form>';
}

function settings_buttons(): void {
	echo '<h2>', esc_html__( 'Purge and preload', 'galley' ), '</h2><p>';
	esc_html_e( 'Edits purge the pages they change automatically. Purge by hand only after a change that WordPress does not notice: PHP then generates each purged page again at its next request.', 'galley' );
	printf( '</p><form method="post" action="%s">', esc_url( admin_url( 'admin-post.php' ) ) );
	echo '<input type="hidden" name="action" value="galley_purge_url">';
	wp_nonce_field( 'galley_purge_url' );
	printf(
		'<p><label for="galley-purge-address">%s</label><br><input type="text" id="galley-purge-address" name="url" class="galley-url-field" required placeholder="%s"> ',
		esc_html__( 'Address of the page to purge', 'galley' ),
		esc_attr( home_url( '/' ) )
	);
	submit_button( __( 'Purge this URL', 'galley' ), 'secondary', 'galley-purge-url', false );
	echo '</p></form><div class="galley-buttons">';
	button_form( 'galley_purge_all', 'galley-purge-all', __( 'Purge all pages', 'galley' ), __( 'Purge all pages? PHP generates each of them again at its next request, so the site is slower for a while.', 'galley' ) );
	$at = preload_progress();
	if ( null !== $at && in_array( $at['state'], array( 'waiting', 'running', 'busy' ), true ) ) {
		button_form( 'galley_preload_off', 'galley-preload-off', __( 'Stop preloading', 'galley' ) );
	} else {
		button_form( 'galley_preload', 'galley-preload', __( 'Preload pages', 'galley' ), __( 'Let PHP generate the pages of the sitemaps and menus now, in the background?', 'galley' ) );
	}
	if ( development_left() > 0 ) {
		button_form( 'galley_development_off', 'galley-development-off', __( 'End development mode', 'galley' ) );
	} else {
		button_form( 'galley_development', 'galley-development', __( 'Development mode for two hours', 'galley' ), __( 'Switch the cache off for two hours? PHP then generates every page for every visitor.', 'galley' ) );
	}
	echo '</div>';
	if ( null !== $at ) {
		printf( '<p class="galley-preloading">%s</p>', esc_html( preload_words( $at ) ) );
	}
}

/**
 * Returns the progress of preloading in words. Pure except for translations.
 *
 * @param array $at From `preload_progress()`.
 */
function preload_words( array $at ): string {
	$done = number_format_i18n( $at['done'] );
	$all  = number_format_i18n( $at['total'] );
	switch ( $at['state'] ) {
		case 'waiting':
			return __( 'Preloading begins with the next run of the scheduled tasks.', 'galley' );
		case 'busy':
			/* translators: 1: a number, 2: a number */
			return sprintf( __( 'Preloading waits because PHP is busy: %1$s of %2$s pages are done.', 'galley' ), $done, $all );
		case 'failed':
			/* translators: 1: a number, 2: a number */
			return sprintf( __( 'Preloading ended after %1$s of %2$s pages: the site cannot reach its own address.', 'galley' ), $done, $all );
		case 'done':
			/* translators: %s: a number */
			return sprintf( __( 'Preloading is complete: %s pages.', 'galley' ), $all );
		default:
			/* translators: 1: a number, 2: a number */
			return sprintf( __( 'Preloading: %1$s of %2$s pages are done.', 'galley' ), $done, $all );
	}
}

function settings_choices(): void {
	$choices = choices();
	printf( '<h2>%s</h2><form method="post" action="%s">', esc_html__( 'Settings', 'galley' ), esc_url( admin_url( 'admin-post.php' ) ) );
	echo '<input type="hidden" name="action" value="galley_choose">';
	wp_nonce_field( 'galley_choose' );
	echo '<table class="form-table" role="presentation"><tbody>';
	printf( '<tr><th scope="row"><label for="galley-lifetime">%s</label></th><td><select id="galley-lifetime" name="lifetime" aria-describedby="galley-lifetime-help">', esc_html__( 'Keep pages for at most', 'galley' ) );
	foreach ( array_unique( array_merge( LIFETIMES, array( $choices['lifetime'] ) ) ) as $seconds ) {
		printf( '<option value="%d"%s>%s</option>', (int) $seconds, selected( $choices['lifetime'], $seconds, false ), esc_html( 0 === $seconds ? __( 'a week (recommended)', 'galley' ) : human_time_diff( 0, $seconds ) ) );
	}
	printf( '</select><p class="description" id="galley-lifetime-help">%s</p></td></tr>', esc_html__( 'Edits purge pages at once, whatever this says. Choose less only if pages change without an edit in WordPress.', 'galley' ) );
	printf(
		'<tr><th scope="row"><label for="galley-paths">%s</label></th><td><textarea id="galley-paths" name="paths" rows="4" class="large-text code" aria-describedby="galley-paths-help">%s</textarea><p class="description" id="galley-paths-help">%s</p></td></tr>',
		esc_html__( 'Never store these paths', 'galley' ),
		esc_textarea( implode( "\n", $choices['paths'] ) ),
		esc_html__( 'One path a line, for example /members/*. An asterisk stands for anything.', 'galley' )
	);
	settings_types( $choices['types'] );
	printf( '<tr><th scope="row">%s</th><td><p>%s</p></td></tr>', esc_html__( 'Visitors with a cookie', 'galley' ), esc_html__( 'Galley decides by cookies before WordPress runs, so names of cookies are in its configuration: the option bypass_cookies of the site. Logged-in users, carts and comment authors are recognized without it.', 'galley' ) );
	printf(
		'<tr><th scope="row">%s</th><td><label><input type="checkbox" name="preload" value="1"%s> %s</label></td></tr>',
		esc_html__( 'Preload', 'galley' ),
		checked( $choices['preload'], true, false ),
		esc_html__( 'after purging all pages and after a change of the theme', 'galley' )
	);
	settings_speculation( $choices['speculation'] );
	echo '</tbody></table>';
	submit_button( __( 'Save settings', 'galley' ), 'primary', 'galley-choose' );
	echo '</form>';
}

/**
 * Prints the setting for speculative loading.
 *
 * @param string $chosen Selected value, one of `SPECULATIONS`.
 */
function settings_speculation( string $chosen ): void {
	$words = array(
		''               => __( 'as WordPress does by itself (recommended)', 'galley' ),
		'prefetch'       => __( 'when a visitor points at a link', 'galley' ),
		'prefetch-eager' => __( 'as early as the browser permits', 'galley' ),
		'prerender'      => __( 'when a visitor points at a link, and draw them, too', 'galley' ),
	);
	printf( '<tr><th scope="row"><label for="galley-speculation">%s</label></th><td><select id="galley-speculation" name="speculation" aria-describedby="galley-speculation-help">', esc_html__( 'Load pages in advance', 'galley' ) );
	foreach ( $words as $value => $text ) {
		printf( '<option value="%s"%s>%s</option>', esc_attr( $value ), selected( $chosen, $value, false ), esc_html( $text ) );
	}
	printf( '</select><p class="description" id="galley-speculation-help">%s</p></td></tr>', esc_html__( 'Browsers then show the next page at once. Only links to pages of this site count, without query strings, carts and accounts. Pages that are not stored are not loaded in advance while PHP is busy. Drawing a page in advance runs its scripts, which some statistics count as a visit.', 'galley' ) );
}

/**
 * Prints the setting for post types whose pages Galley does not store.
 *
 * @param string[] $chosen Selected post types.
 */
function settings_types( array $chosen ): void {
	printf( '<tr><th scope="row">%s</th><td><fieldset><legend class="screen-reader-text">%s</legend>', esc_html__( 'Never store these kinds of content', 'galley' ), esc_html__( 'Never store these kinds of content', 'galley' ) );
	foreach ( get_post_types( array( 'public' => true ), 'objects' ) as $type ) {
		printf( '<label><input type="checkbox" name="types[]" value="%s"%s> %s</label><br>', esc_attr( $type->name ), checked( in_array( $type->name, $chosen, true ), true, false ), esc_html( $type->labels->name ) );
	}
	echo '</fieldset></td></tr>';
}

/**
 * Prints the details of the connection. The section is open only if the connection fails.
 *
 * @param array $status Response to `GET /status`.
 */
function settings_connection( array $status ): void {
	$is_fine    = 200 === $status['status'];
	$connection = connection();
	$sources    = array(
		'constants' => __( 'constants in wp-config.php', 'galley' ),
		'file'      => __( 'the file that `galley plugin install` has written', 'galley' ),
		'settings'  => __( 'this page', 'galley' ),
		'none'      => __( 'nowhere', 'galley' ),
	);
	printf( '<details class="galley-end"%s><summary>%s</summary>', $is_fine ? '' : ' open', esc_html__( 'Connection details', 'galley' ) );
	echo '<table class="form-table galley-connection" role="presentation"><tbody>';
	if ( $is_fine ) {
		/* translators: 1: version number, 2: time span */
		$said = sprintf( __( 'Connected to Galley %1$s, running for %2$s.', 'galley' ), (string) ( $status['body']['version'] ?? '' ), age_in_words( (int) ( $status['body']['uptime_s'] ?? 0 ) ) );
		settings_row( __( 'Check', 'galley' ), '✓ ' . $said, 'is-fine' );
	} else {
		settings_row( __( 'Check', 'galley' ), '✗ ' . connection_trouble( $status ), 'is-broken' );
	}
	settings_row( __( 'Address', 'galley' ), $connection['address'] ?? '–' );
	settings_row( __( 'Token', 'galley' ), masked( $connection['token'] ?? '' ) );
	settings_row( __( 'Set in', 'galley' ), $sources[ connection_source() ] );
	echo '</tbody></table>';
	settings_form();
	echo '</details>';
}

function settings_row( string $name, string $value, string $mark = '' ): void {
	printf( '<tr class="%s"><th scope="row">%s</th><td>%s</td></tr>', esc_attr( $mark ), esc_html( $name ), esc_html( $value ) );
}

/**
 * Masks a token. The result distinguishes it from another token but is useless for authentication. Pure.
 */
function masked( string $token ): string {
	if ( '' === $token ) {
		return '–';
	}
	return strlen( $token ) < 16 ? '…' : substr( $token, 0, 4 ) . '…';
}

/**
 * Returns the source of the connection settings.
 */
function connection_source(): string {
	if ( defined( 'GALLEY_ADMIN' ) ) {
		return 'constants';
	}
	if ( null === connection() ) {
		return 'none';
	}
	return is_readable( WP_CONTENT_DIR . '/galley-connection.php' ) ? 'file' : 'settings';
}

/**
 * Prints the form for the connection, unless a source with higher priority defines the connection.
 */
function settings_form(): void {
	if ( ! may_connect() || in_array( connection_source(), array( 'constants', 'file' ), true ) ) {
		return;
	}
	$connection = connection();
	printf( '<h3>%s</h3><form method="post" action="%s">', esc_html__( 'Connect by hand', 'galley' ), esc_url( admin_url( 'admin-post.php' ) ) );
	echo '<input type="hidden" name="action" value="galley_save">';
	wp_nonce_field( 'galley_save' );
	echo '<p>', esc_html__( 'If you can log in to the server, run `galley plugin install` there instead: it sets both values.', 'galley' ), '</p><table class="form-table" role="presentation"><tbody>';
	printf(
		'<tr><th scope="row"><label for="galley-address">%s</label></th><td><input id="galley-address" name="address" class="regular-text code" value="%s" placeholder="unix:/run/galley/admin.sock"></td></tr>',
		esc_html__( 'Address', 'galley' ),
		esc_attr( $connection['address'] ?? '' )
	);
	printf(
		'<tr><th scope="row"><label for="galley-token">%s</label></th><td><input id="galley-token" name="token" type="password" autocomplete="off" class="regular-text code" placeholder="%s"></td></tr>',
		esc_html__( 'Token', 'galley' ),
		esc_attr( null === $connection ? '' : __( 'leave empty to keep the current token', 'galley' ) )
	);
	echo '</tbody></table>';
	submit_button( __( 'Save', 'galley' ), 'primary', 'galley-save' );
	echo '</form>';
}
