<?php
/**
 * Searches by a word that their results have: a change of a post purges those whose word its text has, before or after.
 *
 * A page of results carries `l.<type>.s.<word>` instead of `l.<type>.s`, and `sw`. The word is one that every result must have:
 * letters and digits of ASCII, since WordPress finds a word in any part of another and leaves it to the database which letters are alike. It
 * is written to the database before the query is asked, so that a change after it finds the word, and one before it is
 * found by the query. At most MOST_WORDS are kept; the next change forgets them all and purges all searches. Everything else
 * (no such word, results found by something else than WordPress, a collation that is not known) is purged by each change.
 *
 * Of a search for that word alone it is also known when a post stays where it is among the results; one for more than the word
 * is `l.<type>.s.<word>.x`.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** A row of the options for each word. */
const WORD_OPTION = 'galley_word_';

/** More words are not told apart. */
const MOST_WORDS = 100;

/** One change that would purge more tags of searches purges all of them. */
const MOST_SEARCHES = 100;

/** Shorter ones are in nearly every text. */
const SHORTEST_WORD = 3;

/** Of a longer one the beginning. */
const LONGEST_WORD = 40;

/** Collations under which two letters of ASCII are alike if they are the same, large or small, and only then. */
const PLAIN_COLLATIONS = '/^utf8(mb[34])?_((general|unicode|unicode_520)(_nopad)?|(0900|uca1400|uca1400_nopad)_a[is])_ci$/D';

/** Letters of other alphabets are never like one of ASCII. */
const FOREIGN = '(?=\p{L})[\p{Cyrillic}\p{Greek}\p{Han}\p{Hangul}\p{Hiragana}\p{Katakana}\p{Arabic}\p{Hebrew}]';

/**
 * The word of a query that is about to be asked, if changes of posts are going to look for it, with `.x` if it asks for more; else empty.
 */
function word_of( \WP_Query $query ): string {
	$vars   = $query->query_vars;
	$terms  = is_array( $vars['search_terms'] ?? null ) ? $vars['search_terms'] : array();
	$prefix = (string) apply_filters( 'wp_query_search_exclusion_prefix', '-' );
	$word   = longest_word( $terms, $prefix );
	if ( '' === $word || ! keep_word( $word ) ) {
		return '';
	}
	return is_whole_search( $word, $vars ) && ! has_filter( 'post_search_columns' ) ? $word : "$word.x";
}

/**
 * Whether a search is for a word alone, in all columns. Pure.
 */
function is_whole_search( string $word, array $vars ): bool {
	return array( $word ) === array_map( __NAMESPACE__ . '\\small', $vars['search_terms'] ) && 1 === (int) ( $vars['search_terms_count'] ?? 0 )
		&& empty( $vars['exact'] ) && empty( $vars['search_columns'] );
}

/**
 * The longest run of letters and digits that every text with these terms has; empty where it is too short. Pure.
 *
 * @param string[] $terms  As WordPress has split a search; with a prefix those that a text must not have.
 * @param string   $prefix Of those; empty: there are none.
 */
function longest_word( array $terms, string $prefix ): string {
	$longest = '';
	foreach ( $terms as $term ) {
		if ( ! is_string( $term ) || ( '' !== $prefix && 0 === strncmp( $term, $prefix, 1 ) ) ) {
			continue;
		}
		preg_match_all( '/[A-Za-z0-9]+/', $term, $runs );
		foreach ( $runs[0] as $run ) {
			$longest = strlen( $run ) > strlen( $longest ) ? $run : $longest;
		}
	}
	return strlen( $longest ) < SHORTEST_WORD ? '' : small( substr( $longest, 0, LONGEST_WORD ) );
}

/**
 * Small letters of ASCII, whatever the locale. Pure.
 */
function small( string $text ): string {
	return strtr( $text, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz' );
}

/**
 * Has changes of posts look for a word from now on. False: they will not, since there are too many or texts cannot be compared here.
 */
function keep_word( string $word ): bool {
	global $wpdb;
	$words = kept_words();
	if ( in_array( $word, $words, true ) ) {
		return true;
	}
	if ( count( $words ) >= MOST_WORDS || ! tells_letters_apart() ) {
		return false;
	}
	$hide = $wpdb->suppress_errors( true );
	// phpcs:ignore WordPress.DB -- a row of our own.
	$kept = $wpdb->query( $wpdb->prepare( "INSERT IGNORE INTO $wpdb->options (option_name, option_value, autoload) VALUES (%s, '', 'no')", WORD_OPTION . $word ) );
	$wpdb->suppress_errors( $hide );
	return false !== $kept;
}

/**
 * Whether the database finds a word of ASCII only where its letters are, or such of other alphabets.
 */
function tells_letters_apart(): bool {
	global $wpdb;
	$hide = $wpdb->suppress_errors( true );
	// phpcs:ignore WordPress.DB -- asked for the first search of a word only.
	$columns = $wpdb->get_results( "SHOW FULL COLUMNS FROM $wpdb->posts WHERE Field IN ('post_title', 'post_excerpt', 'post_content')", ARRAY_A );
	$wpdb->suppress_errors( $hide );
	return 3 === count( preg_grep( PLAIN_COLLATIONS, array_column( $columns ? $columns : array(), 'Collation' ) ) );
}

/**
 * @return string[] All that are looked for at this moment.
 */
function kept_words(): array {
	global $wpdb;
	// phpcs:ignore WordPress.DB -- rows of our own; must be of this moment.
	$names = $wpdb->get_col( $wpdb->prepare( "SELECT option_name FROM $wpdb->options WHERE option_name LIKE %s", $wpdb->esc_like( WORD_OPTION ) . '%' ) );
	return array_map(
		static function ( string $name ): string {
			return substr( $name, strlen( WORD_OPTION ) );
		},
		$names
	);
}

/**
 * The words that a change has to look for. Too many are forgotten with all searches.
 *
 * @return string[]
 */
function wanted_words(): array {
	global $wpdb;
	$words = kept_words();
	if ( count( $words ) < MOST_WORDS ) {
		return $words;
	}
	queue_purge( 'sw' );
	// phpcs:ignore WordPress.DB -- rows of our own.
	$wpdb->query( $wpdb->prepare( "DELETE FROM $wpdb->options WHERE option_name LIKE %s", $wpdb->esc_like( WORD_OPTION ) . '%' ) );
	return array();
}

/**
 * Orders the searches that changed posts are found by, or were.
 *
 * @param array[] $changes Of each post its number and its state as `post_state` gives it, before and after.
 */
function queue_searches( array $changes ): void {
	$words = $changes ? wanted_words() : array();
	foreach ( $words ? $changes : array() as list( $id, $old, $new ) ) {
		$tags = search_tags( $id, $words, $old, $new );
		queue_purge( count( $tags ) > MOST_SEARCHES ? 'sw' : $tags );
	}
}

/**
 * What a changed post touches of searches. Pure.
 *
 * @param string[] $words Those that are looked for.
 * @return string[]
 */
function search_tags( int $id, array $words, ?array $old, ?array $new ): array {
	$tags  = array();
	$found = words_in( $words, search_text( $new ) );
	foreach ( array_unique( array_merge( words_in( $words, search_text( $old ) ), $found ) ) as $word ) {
		foreach ( array_unique( array_column( array_filter( array( $old, $new ) ), 'type' ) ) as $type ) {
			$key  = 'l.' . word( $type ) . ".s.$word";
			$keys = stays_found( $word, $old, $new ) ? array( "$key.x" ) : array( $key, "$key.x" );
			foreach ( $keys as $key ) {
				array_push( $tags, $key, "$key.p$id" );
				if ( in_array( $word, $found, true ) ) {
					$tags[] = "$key.in";
				}
			}
		}
	}
	return $tags;
}

/**
 * Whether a search for one word finds a post before and after a change, in the same place: titles with the word come first, then
 * the newest. Pure.
 */
function stays_found( string $word, ?array $old, ?array $new ): bool {
	if ( ! $old || ! $new || ! $old['visible'] || ! $new['visible'] || differs( $old, $new, 'type', 'status', 'date', 'password' ) ) {
		return false;
	}
	$titles = array();
	foreach ( array( $old, $new ) as $state ) {
		if ( false === strpos( small( "$state[title]\n$state[summary]\n$state[content]" ), $word ) ) {
			return false;
		}
		$has      = false !== strpos( small( $state['title'] ), $word );
		$titles[] = $has || ! words_in( array( $word ), $state['title'] ) ? $has : $state['title'];
	}
	return $titles[0] === $titles[1];
}

/**
 * Those of some words that a text may have, in any part of its own. Letters beyond ASCII stand for any. Pure.
 *
 * @param string[] $words Small letters and digits of ASCII.
 * @return string[]
 */
function words_in( array $words, string $text ): array {
	if ( ! $words ) {
		return array();
	}
	$text = preg_replace( '/(?!' . FOREIGN . ')[^\x00-\x7F\p{P}\p{Z}]/u', "\x01", small( $text ) );
	if ( null === $text ) {
		// Broken text.
		return $words;
	}
	preg_match_all( '/[a-z0-9]*\x01[a-z0-9\x01]*/', $text, $doubtful );
	$doubtful = implode( ' ', $doubtful[0] );
	return array_values(
		array_filter(
			$words,
			static function ( string $word ) use ( $text, $doubtful ): bool {
				if ( false !== strpos( $text, $word ) || '' === $doubtful ) {
					return false !== strpos( $text, $word );
				}
				return 1 === preg_match( '/' . preg_replace( '/./', '[$0\x01]', $word ) . '/', $doubtful );
			}
		)
	);
}

/**
 * What searches look at of a post, as `post_state` gives it; empty where nobody can see it. Pure.
 */
function search_text( ?array $state ): string {
	return $state && $state['visible'] ? implode( "\n", array( $state['title'], $state['summary'], $state['content'], $state['file'] ) ) : '';
}

/**
 * Results that something has replaced after WordPress had asked for them do not depend on words alone.
 */
function gather_replaced( $posts, $query = null ) {
	if ( is_array( $posts ) && $query instanceof \WP_Query && '' !== (string) ( $query->query_vars['s'] ?? '' ) && array_map( __NAMESPACE__ . '\\id_of', $posts ) !== array_map( __NAMESPACE__ . '\\id_of', (array) $query->posts ) ) {
		foreach ( types_of( $query ) as $type ) {
			tag( 'l.' . word( $type ) . '.s' );
		}
	}
	return $posts;
}

if ( is_described() ) {
	add_filter( 'posts_results', __NAMESPACE__ . '\\gather_replaced', PHP_INT_MAX, 2 );
	add_filter( 'the_posts', __NAMESPACE__ . '\\gather_replaced', PHP_INT_MAX, 2 );
}
