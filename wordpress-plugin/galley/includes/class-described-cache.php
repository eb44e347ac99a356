<?php
/**
 * A persistent object cache, with what plugins keep there: which values a page reads (`oc.GROUP.KEY`), which ones a request changes, and HTML (kept-html.php).
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Maximum number of values of the object cache that the tags of a page name. */
const MAX_CACHED = 100;

/** Values that this request has read: false for a missing one, `own` for one that the page has set. */
$GLOBALS['galley_cached_reads'] = array();

/** Tags of values that this request has changed, as keys, by the tag of their group. */
$GLOBALS['galley_cached_writes'] = array();

/** More groups of WordPress: those of its taxonomies and of transients have other tags. */
const MORE_CORE_GROUPS = '/^(?:transient|bookmark|blog-lookup|blog-id-cache|global-posts|customize_changeset_post|\w+_relationships)$/D';

/** Groups of WooCommerce with what other tags describe, and with what no page shows. */
const SHOP_GROUPS = '/^(?:product|order|coupon|tax|webhook|shipping|woocommerce|wc_)/';

/**
 * Passes all calls on to the object cache of the site. While the plugin describes a page, removes markers from what it writes and reads, and lets kept HTML
 * count as missing.
 */
final class Described_Cache {

	/**
	 * The object cache of the site.
	 *
	 * @var object
	 */
	private $cache;

	public function __construct( $cache ) {
		$this->cache = $cache;
	}

	public function get( $key, $group = 'default', $force = false, &$found = null ) {
		$value = $this->cache->get( $key, $group, $force, $found );
		if ( ! is_foreign_group( (string) $group ) ) {
			return $value;
		}
		$shown = $this->shown( (string) $group, $key, $value );
		$found = false === $shown && false !== $value ? false : $found;
		return $shown;
	}

	public function get_multiple( $keys, $group = 'default', $force = false ) {
		$values = $this->cache->get_multiple( $keys, $group, $force );
		foreach ( is_foreign_group( (string) $group ) && is_array( $values ) ? $values : array() as $key => $value ) {
			$values[ $key ] = $this->shown( (string) $group, $key, $value );
		}
		return $values;
	}

	/**
	 * Returns a value as the page may see it: without markers, or false for kept HTML that counts as missing. Records the read.
	 */
	private function shown( string $group, $key, $value ) {
		$is_missing = false === $value || ( is_described() && counts_as_missing( "$group:$key", $value ) );
		note_cached_read( $group, (string) $key, ! $is_missing );
		return $is_missing ? false : ( is_described() ? without_kept_marks( $value ) : $value );
	}

	/**
	 * Passes any other call on.
	 *
	 * @param string $name      Method.
	 * @param array  $arguments Its arguments. Methods that write get key, value and group, or values by key and group.
	 */
	public function __call( $name, $arguments ) {
		if ( is_described() && in_array( $name, array( 'set', 'add', 'replace' ), true ) && isset( $arguments[1] ) ) {
			note_kept_in( (string) ( $arguments[2] ?? '' ), array( $arguments[0] => $arguments[1] ) );
			$arguments[1] = without_kept_marks( $arguments[1] );
		} elseif ( is_described() && in_array( $name, array( 'set_multiple', 'add_multiple' ), true ) && is_array( $arguments[0] ?? null ) ) {
			note_kept_in( (string) ( $arguments[1] ?? '' ), $arguments[0] );
			$arguments[0] = without_kept_marks( $arguments[0] );
		}
		$this->note_changes( $name, $arguments );
		return $this->cache->$name( ...$arguments );
	}

	/**
	 * Records the values that a call is about to change. A page fills what it found missing without a change: other pages that found it missing have
	 * filled it, too.
	 */
	private function note_changes( string $name, array $arguments ): void {
		if ( 'flush' === $name || 'flush_group' === $name ) {
			$group = (string) ( $arguments[0] ?? '' );
			// Pages with transients have no tags of the groups in which those are.
			note_cached_write( 'flush' === $name || preg_match( '/^(?:site-)?transient$/D', $group ) ? null : $group, '' );
			return;
		}
		$is_many = '_multiple' === substr( $name, -9 );
		$change  = $is_many ? substr( $name, 0, -9 ) : $name;
		$places  = array_fill_keys( array( 'set', 'add', 'replace', 'incr', 'decr' ), 2 ) + array( 'delete' => 1 );
		if ( ! isset( $places[ $change ], $arguments[0] ) ) {
			return;
		}
		$group = (string) ( $arguments[ $is_many ? 1 : $places[ $change ] ] ?? '' );
		if ( ! is_observed_group( $group ) ) {
			return;
		}
		$values = $is_many ? (array) $arguments[0] : array( $arguments[0] => $arguments[1] ?? null );
		$values = $is_many && 'delete' === $change ? array_fill_keys( $values, null ) : $values;
		foreach ( $values as $key => $value ) {
			$tag  = cached_tag( $group, (string) $key );
			$read = $GLOBALS['galley_cached_reads'][ $tag ] ?? null;
			if ( is_described() && true !== $read ) {
				$GLOBALS['galley_cached_reads'][ $tag ] = 'own';
			}
			if ( null === $read || ( 'own' !== $read && ( $read || ! is_described() ) && ! $this->has_value( $change, $key, $group, $value ) ) ) {
				// To ask for a value that the request has not read could take a round trip.
				note_cached_write( $group, $tag );
			}
		}
	}

	/**
	 * Returns whether a change leaves a value as it is.
	 */
	private function has_value( string $change, $key, string $group, $value ): bool {
		$found = null;
		$old   = $this->cache->get( $key, $group, false, $found );
		if ( false === $old || 'set' !== $change ) {
			return in_array( $change, array( 'delete', 'replace', 'incr', 'decr' ), true ) ? false === $old : 'add' === $change && false !== $old;
		}
		try {
			return serialize( $old ) === serialize( $value ); // phpcs:ignore WordPress.PHP.DiscouragedPHPFunctions -- compares only.
		} catch ( \Throwable $closure ) {
			return false;
		}
	}

	/**
	 * Returns a reference, because some code changes public arrays of the object cache in place.
	 *
	 * @param string $name Property.
	 */
	public function &__get( $name ) {
		if ( isset( get_object_vars( $this->cache )[ $name ] ) ) {
			return $this->cache->$name;
		}
		// The object cache returns copies of its private properties.
		$value = $this->cache->$name;
		return $value;
	}

	public function __set( $name, $value ) {
		$this->cache->$name = $value;
	}

	public function __isset( $name ) {
		return isset( $this->cache->$name );
	}

	public function __unset( $name ) {
		unset( $this->cache->$name );
	}
}

/**
 * Returns the tag of a value in the object cache. Its key may be an address of a person, so it is hashed. Pure.
 */
function cached_tag( string $group, string $key ): string {
	return 'oc.' . word( $group ) . '.' . substr( md5( $key ), 0, 12 );
}

/**
 * Returns whether only the tags of its values describe a group of the object cache.
 */
function is_observed_group( string $group ): bool {
	return is_foreign_group( $group ) && ! preg_match( MORE_CORE_GROUPS, $group ) && ! taxonomy_exists( $group ) && ! ( class_exists( 'WooCommerce', false ) && preg_match( SHOP_GROUPS, $group ) );
}

/**
 * Records a value that the request has read.
 */
function note_cached_read( string $group, string $key, bool $is_there ): void {
	if ( is_observed_group( $group ) ) {
		$tag = cached_tag( $group, $key );

		$GLOBALS['galley_cached_reads'][ $tag ] = $GLOBALS['galley_cached_reads'][ $tag ] ?? $is_there;
	}
}

/**
 * Records that this request is about to change a value, or all values of a group, or all.
 */
function note_cached_write( ?string $group, string $tag ): void {
	if ( null === $group || is_observed_group( $group ) ) {
		$of_group = null === $group ? 'og' : 'og.' . word( $group );

		$GLOBALS['galley_cached_writes'][ $of_group ][ '' === $tag ? $of_group : $tag ] = true;
		later( 'cached', __NAMESPACE__ . '\\queue_cached_writes' );
	}
}

function queue_cached_writes(): void {
	$written                         = $GLOBALS['galley_cached_writes'];
	$GLOBALS['galley_cached_writes'] = array();
	foreach ( $written as $group => $tags ) {
		if ( ! without_busy( array( $group ) ) ) {
			continue;
		}
		// From now on, changes purge nothing for a while, so this one purges all.
		$is_busy = counts_as_visitor() && null === ( kept_record( BUSY_OPTION )[ $group ][0] ?? 0 );
		queue_observed( $is_busy ? array( $group ) : array_merge( array_map( 'strval', array_keys( $tags ) ), array( 'oh' . substr( $group, 2 ) ) ) );
	}
}

/**
 * Adds the tags of the values of the object cache that the page has read and not filled itself: of each value, or `oh` with the group if there are too many.
 */
function gather_cached_reads(): void {
	$tags = array_map( 'strval', array_keys( array_filter( $GLOBALS['galley_cached_reads'], 'is_bool' ) ) );
	foreach ( $tags as $tag ) {
		$group = preg_replace( '/^oc(.*)\.[0-9a-f]+$/D', '$1', $tag );
		foreach ( array( 'og', "og$group", count( $tags ) > MAX_CACHED ? "oh$group" : $tag ) as $one ) {
			tag_network( $one );
		}
	}
}

/**
 * Notes that the request has filled keys of a group of the object cache.
 */
function note_kept_in( string $group, array $values ): void {
	foreach ( is_foreign_group( $group ) ? $values : array() as $key => $value ) {
		note_kept( "$group:$key", $value );
	}
}

/**
 * Returns whether a group of the object cache may contain HTML that themes and plugins keep. Pure.
 */
function is_foreign_group( string $group ): bool {
	return ! in_array( $group, CORE_GROUPS, true );
}
