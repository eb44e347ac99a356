<?php
/**
 * Tags searches by a word that all their results contain. A change of a post purges only searches whose word the post contains before or
 * after the change.
 *
 * A page of results has the tag `sw`, and `l.<type>.s.<word>` in place of `l.<type>.s`. The word consists of ASCII letters and digits,
 * because WordPress finds a word within other words, and the database decides which other letters are equal. The plugin writes the word to
 * the database before the query runs. So a later change of a post finds the word, and the query sees the result of an earlier change. The
 * plugin stores at most MAX_WORDS words; the next change then deletes all words and purges all searches. Each change of a post purges the
 * searches that have no such tag: those without such a word, with results from other code, or with an unknown collation.
 *
 * If a search is for this word alone, the plugin also recognizes changes that leave the post at its place among the results. The tag of a
 * search for more than the word is `l.<type>.s.<word>.x`.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Prefix of the options that store the words, one row for each. */
const WORD_OPTION = 'galley_word_';

/** Maximum number of words. */
const MAX_WORDS = 100;

/** Maximum number of search tags that a change of a post purges. Beyond it, the change purges all searches. */
const MAX_SEARCHES = 100;

/** Minimum length of a word. Nearly every text contains shorter words. */
const MIN_WORD_LENGTH = 3;

/** Maximum length of a word. The plugin uses the beginning of a longer one. */
const MAX_WORD_LENGTH = 40;

/** Collations under which two ASCII letters are equal only if they are the same letter, in uppercase or lowercase. */
const PLAIN_COLLATIONS = '/^utf8(mb[34])?_((general|unicode|unicode_520)(_nopad)?|(0900|uca1400|uca1400_nopad)_a[is])_ci$/D';

/** Letters of other scripts, which are never equal to an ASCII letter. */
const FOREIGN = '(?=\p{L})[\p{Cyrillic}\p{Greek}\p{Han}\p{Hangul}\p{Hiragana}\p{Katakana}\p{Arabic}\p{Hebrew}]';

/**
 * Returns the word of a query that is about to run, with `.x` if the query searches for more. Returns an empty string if changes of posts
 * will not look for the word.
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
 * Returns whether a search is for one word alone, in all columns. Pure.
 */
function is_whole_search( string $word, array $vars ): bool {
	return array( $word ) === array_map( __NAMESPACE__ . '\\small', $vars['search_terms'] ) && 1 === (int) ( $vars['search_terms_count'] ?? 0 )
		&& empty( $vars['exact'] ) && empty( $vars['search_columns'] );
}

/**
 * Returns the longest sequence of letters and digits in the terms of a search, which every result contains. Returns an empty string if it
 * is too short. Pure.
 *
 * @param string[] $terms  The terms into which WordPress split the search. A prefix marks terms that a text must not contain.
 * @param string   $prefix The prefix of excluded terms. If empty, there are none.
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
	return strlen( $longest ) < MIN_WORD_LENGTH ? '' : small( substr( $longest, 0, MAX_WORD_LENGTH ) );
}

/**
 * Converts ASCII letters to lowercase, independent of the locale. Pure.
 */
function small( string $text ): string {
	return strtr( $text, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz' );
}

/**
 * Stores a word, so that changes of posts look for it from now on. Returns false if there are too many words, or if texts cannot be
 * compared on this site.
 */
function keep_word( string $word ): bool {
	global $wpdb;
	$words = kept_words();
	if ( in_array( $word, $words, true ) ) {
		return true;
	}
	if ( count( $words ) >= MAX_WORDS || ! tells_letters_apart() ) {
		return false;
	}
	$hide = $wpdb->suppress_errors( true );
	// phpcs:ignore WordPress.DB -- a row of this plugin.
	$kept = $wpdb->query( $wpdb->prepare( "INSERT IGNORE INTO $wpdb->options (option_name, option_value, autoload) VALUES (%s, '', 'no')", WORD_OPTION . $word ) );
	$wpdb->suppress_errors( $hide );
	return false !== $kept;
}

/**
 * Returns whether the database finds an ASCII word only in texts with its letters, or with letters of other alphabets that it treats as
 * equal.
 */
function tells_letters_apart(): bool {
	global $wpdb;
	$hide = $wpdb->suppress_errors( true );
	// phpcs:ignore WordPress.DB -- runs only for the first search of a word.
	$columns = $wpdb->get_results( "SHOW FULL COLUMNS FROM $wpdb->posts WHERE Field IN ('post_title', 'post_excerpt', 'post_content')", ARRAY_A );
	$wpdb->suppress_errors( $hide );
	return 3 === count( preg_grep( PLAIN_COLLATIONS, array_column( $columns ? $columns : array(), 'Collation' ) ) );
}

/**
 * @return string[] All words that changes currently look for.
 */
function kept_words(): array {
	global $wpdb;
	// phpcs:ignore WordPress.DB -- rows of this plugin; the result must be current.
	$names = $wpdb->get_col( $wpdb->prepare( "SELECT option_name FROM $wpdb->options WHERE option_name LIKE %s", $wpdb->esc_like( WORD_OPTION ) . '%' ) );
	return array_map(
		static function ( string $name ): string {
			return substr( $name, strlen( WORD_OPTION ) );
		},
		$names
	);
}

/**
 * Returns the words that a change has to look for. If there are too many, deletes them and purges all searches.
 *
 * @return string[]
 */
function wanted_words(): array {
	global $wpdb;
	$words = kept_words();
	if ( count( $words ) < MAX_WORDS ) {
		return $words;
	}
	queue_purge( 'sw' );
	// phpcs:ignore WordPress.DB -- rows of this plugin.
	$wpdb->query( $wpdb->prepare( "DELETE FROM $wpdb->options WHERE option_name LIKE %s", $wpdb->esc_like( WORD_OPTION ) . '%' ) );
	return array();
}

/**
 * Queues purges of the searches that find changed posts, or found them before the change.
 *
 * @param array[] $changes For each post, its ID and its states before and after, as `post_state` returns them.
 */
function queue_searches( array $changes ): void {
	$words = $changes ? wanted_words() : array();
	foreach ( $words ? $changes : array() as list( $id, $old, $new ) ) {
		$tags = search_tags( $id, $words, $old, $new );
		queue_purge( count( $tags ) > MAX_SEARCHES ? 'sw' : $tags );
	}
}

/**
 * Returns the tags of the searches that a change of a post affects. Pure.
 *
 * @param string[] $words The words that changes look for.
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
 * Returns whether a search for one word finds a post in the same place before and after a change. Posts with the word in their titles come
 * first, then the newest. Pure.
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
 * Returns the words that a text may contain, also within other words. Letters beyond ASCII may stand for any letter. Pure.
 *
 * @param string[] $words Lowercase ASCII letters and digits.
 * @return string[]
 */
function words_in( array $words, string $text ): array {
	if ( ! $words ) {
		return array();
	}
	$text = preg_replace( '/(?!' . FOREIGN . ')[^\x00-\x7F\p{P}\p{Z}]/u', "\x01", small( $text ) );
	if ( null === $text ) {
		// The text is not valid UTF-8.
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
 * Returns the text of a post that searches use, or an empty string if visitors cannot see the post. Pure.
 */
function search_text( ?array $state ): string {
	return $state && $state['visible'] ? implode( "\n", array( $state['title'], $state['summary'], $state['content'], $state['file'] ) ) : '';
}

/**
 * Adds the tag of all searches if other code replaced the results of WordPress's query. Such results do not depend only on words.
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
