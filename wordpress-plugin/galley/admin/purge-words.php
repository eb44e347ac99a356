<?php
/**
 * The purge log as sentences.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Number of rows on the settings page. */
const SHOWN_PURGES = 15;

/**
 * Returns a row of the log as a sentence.
 *
 * @param array $row  Row from `purge_log()`.
 * @param int   $self ID of the user who reads the log.
 */
function purge_sentence( array $row, int $self ): string {
	$cause = cause_words( (string) $row['kind'], (string) $row['name'], who_words( (int) ( $row['user'] ?? 0 ), $self ) );
	$pages = $row['pages'] ?? null;
	if ( ! is_array( $pages ) || ! is_int( $pages[0] ?? null ) ) {
		/* translators: %s: a cause such as "Your edit of “Hello”" */
		return sprintf( __( '%s purged the pages that show it.', 'galley' ), $cause );
	}
	if ( 0 === $pages[0] && empty( $pages[1] ) ) {
		/* translators: %s: a cause such as "Your edit of “Hello”" */
		return sprintf( __( '%s purged no page: none of the pages it changes was stored.', 'galley' ), $cause );
	}
	$number = number_format_i18n( $pages[0] );
	if ( ! empty( $pages[1] ) ) {
		/* translators: 1: a cause such as "Your edit of “Hello”", 2: a number */
		return sprintf( _n( '%1$s purged at least %2$s page.', '%1$s purged at least %2$s pages.', $pages[0], 'galley' ), $cause, $number );
	}
	/* translators: 1: a cause such as "Your edit of “Hello”", 2: a number */
	return sprintf( _n( '%1$s purged %2$s page.', '%1$s purged %2$s pages.', $pages[0], 'galley' ), $cause, $number );
}

/**
 * Returns the user who caused a purge. The name is empty if the reader caused it, or if no user did.
 */
function who_words( int $user, int $self ): array {
	$data = $user > 0 && $user !== $self ? get_userdata( $user ) : false;
	return array(
		'is_own' => $user > 0 && $user === $self,
		'name'   => $data ? $data->display_name : '',
	);
}

/**
 * Returns the cause of a purge as the beginning of a sentence. Pure except for translations.
 *
 * @param string                            $kind Type of the cause, from `note_cause()`.
 * @param string                            $name Name of the changed object.
 * @param array{is_own: bool, name: string} $who  From `who_words()`.
 */
function cause_words( string $kind, string $name, array $who ): string {
	if ( 'post' === $kind || 'published' === $kind || 'unpublished' === $kind ) {
		return post_cause( $kind, $name, $who );
	}
	switch ( $kind ) {
		case 'comment':
			/* translators: %s: title of a post */
			return sprintf( __( 'A comment on “%s”', 'galley' ), $name );
		case 'term':
			/* translators: %s: name of a category or tag */
			return sprintf( __( 'A change of the term “%s”', 'galley' ), $name );
		case 'menu':
			return __( 'A change of a menu', 'galley' );
		case 'design':
			/* translators: %s: name of a template or pattern */
			return sprintf( __( 'A change of the design (%s)', 'galley' ), $name );
		case 'user':
			/* translators: %s: name of a user */
			return sprintf( __( 'A change of the profile of %s', 'galley' ), $name );
		case 'option':
			return option_cause( $name );
		case 'table':
			/* translators: %s: names of tables of the database */
			return sprintf( __( 'A change of the table “%s”', 'galley' ), $name );
		case 'theme':
			/* translators: %s: name of a theme */
			return sprintf( __( 'The switch to the theme “%s”', 'galley' ), $name );
		case 'plugin':
			/* translators: %s: name of a plugin */
			return sprintf( __( 'Activating or deactivating the plugin %s', 'galley' ), $name );
		case 'update':
			return __( 'An update', 'galley' );
		case 'button-page':
			/* translators: %s: an address */
			return sprintf( __( 'The button “Purge this page” (%s)', 'galley' ), $name );
		case 'button-all':
			return __( 'The button “Purge all pages”', 'galley' );
		case 'choices':
			return __( 'A change of the cache settings', 'galley' );
		case 'development':
			return __( 'The start of development mode', 'galley' );
		case 'development-end':
			return __( 'The end of development mode', 'galley' );
		case 'command':
			return __( 'A command on the server', 'galley' );
		case 'resent':
			return __( 'A delayed purge', 'galley' );
		case 'code':
			/* translators: %s: what it named: a title, an address or a tag */
			return '' === $name ? __( 'A theme or plugin', 'galley' ) : sprintf( __( 'A theme or plugin (%s)', 'galley' ), $name );
		default:
			return __( 'A change', 'galley' );
	}
}

/**
 * Returns the change of an option as the beginning of a sentence: as the administration calls it, or by its name. Pure except for translations.
 *
 * @param string $name Name of the option.
 */
function option_cause( string $name ): string {
	if ( 'sidebars_widgets' === $name || 0 === strpos( $name, 'widget_' ) ) {
		return __( 'A change of the widgets', 'galley' );
	}
	switch ( $name ) {
		case 'blogname':
		case 'blogdescription':
			return __( 'A change of the site title or tagline', 'galley' );
		case 'permalink_structure':
			return __( 'A change of the permalinks', 'galley' );
		case 'show_on_front':
		case 'page_on_front':
		case 'page_for_posts':
			return __( 'A change of the front page', 'galley' );
		default:
			/* translators: %s: name of a setting */
			return sprintf( __( 'A change of the setting “%s”', 'galley' ), $name );
	}
}

/**
 * Returns the change of a post as the beginning of a sentence. Pure except for translations.
 *
 * @param array{is_own: bool, name: string} $who From `who_words()`.
 */
function post_cause( string $kind, string $name, array $who ): string {
	if ( 'published' === $kind ) {
		/* translators: %s: title of a post */
		$words = sprintf( __( 'Publishing “%s”', 'galley' ), $name );
	} elseif ( 'unpublished' === $kind ) {
		/* translators: %s: title of a post */
		$words = sprintf( __( 'Taking “%s” off the site', 'galley' ), $name );
	} elseif ( $who['is_own'] ) {
		/* translators: %s: title of a post */
		return sprintf( __( 'Your edit of “%s”', 'galley' ), $name );
	} else {
		/* translators: %s: title of a post */
		$words = sprintf( __( 'An edit of “%s”', 'galley' ), $name );
	}
	/* translators: 1: what was done, 2: name of a user */
	return '' === $who['name'] ? $words : sprintf( __( '%1$s by %2$s', 'galley' ), $words, $who['name'] );
}

/**
 * Prints the last purges, the newest first.
 */
function print_purge_log(): void {
	echo '<h2>', esc_html__( 'Recent purges', 'galley' ), '</h2>';
	$waiting = pending_purges();
	/* translators: %s: a number */
	$words = sprintf( _n( '%s purge waits for Galley to confirm it.', '%s purges wait for Galley to confirm them.', $waiting, 'galley' ), number_format_i18n( $waiting ) );
	printf( '<p class="galley-pending">%s</p>', esc_html( $waiting > 0 ? $words : __( 'No purge is pending: Galley has confirmed all of them.', 'galley' ) ) );
	$rows = array_slice( array_reverse( purge_log() ), 0, SHOWN_PURGES );
	if ( ! $rows ) {
		echo '<p>', esc_html__( 'Nothing has been purged since the log began.', 'galley' ), '</p>';
		return;
	}
	printf( '<table class="widefat striped galley-log"><thead><tr><th scope="col">%s</th><th scope="col">%s</th></tr></thead><tbody>', esc_html__( 'When', 'galley' ), esc_html__( 'What happened', 'galley' ) );
	foreach ( $rows as $row ) {
		printf(
			'<tr><td><time datetime="%s">%s</time></td><td>%s</td></tr>',
			esc_attr( gmdate( 'c', $row['time'] ) ),
			/* translators: %s: a time span such as "5 mins" */
			esc_html( sprintf( __( '%s ago', 'galley' ), age_in_words( max( 0, time() - $row['time'] ) ) ) ),
			esc_html( purge_sentence( $row, get_current_user_id() ) )
		);
	}
	echo '</tbody></table>';
}
