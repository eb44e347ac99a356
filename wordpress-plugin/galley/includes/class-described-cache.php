<?php
/**
 * A persistent object cache, with what plugins keep there: which values a page reads (`oc.GROUP.KEY`), which ones a request changes, and HTML (kept-html.php).
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/** Maximum number of values of the object cache, and of their groups, that the tags of a page name. */
const MAX_CACHED        = 100;
const MAX_CACHED_GROUPS = 20;

/** Maximum number of values of a group that a request purges one by one. */
const MAX_WRITTEN = 50;

/** Maximum number of values that a request which describes no page remembers to have read. Changes of further ones always count. */
const MAX_REMEMBERED = 10000;

/** Values that this request has read, by blog and tag: false for a missing one, `own` for one that the page has set. */
$GLOBALS['galley_cached_reads'] = array();

/** Tags of values that this request has changed, as keys, by the tag of their group. */
$GLOBALS['galley_cached_writes'] = array();

/** Whether changes of a group purge, by its tag. */
$GLOBALS['galley_cached_groups'] = array();

/** Groups that only live as long as the request, as keys. */
$GLOBALS['galley_unkept_groups'] = array();

/** More groups of WordPress: those of its taxonomies and of transients have other tags. */
const MORE_CORE_GROUPS = '/^(?:transient|bookmark|blog-(?:lookup|id-cache)|global-posts|customize_changeset_post|oembed_cache_post|site-details|timeinfo|theme_files|image_editor|rss|general|widget|(?:network|site|user)-queries)$/D';

/** Groups of WooCommerce with what other tags describe, and with what no page shows. */
const SHOP_GROUPS = '/^(?:product(?:s|_objects|_\d+)|order(?:s|_objects|_\d+|-items)|coupons|taxes|webhooks|shipping_zones|woocommerce-attributes|wc_session_id)$/D';

/** Methods that change values, without underscores. Drop-ins have others with similar names for their settings. */
const CACHED_CHANGES = '/^(set|add|replace|append|prepend|cas|incr|decr|delete)(?:ement)?(multi(?:ple)?)?(bykey)?$/iD';

/**
 * Passes all calls on to the object cache of the site. While the plugin describes a page, removes markers from what it writes and reads, and lets kept HTML
 * count as missing.
 */
final class Described_Cache {

	/**
	 * The object cache of the site. Other code sets a property `cache` of it by its name.
	 *
	 * @var object
	 */
	private $galley_site_cache;

	public function __construct( $cache ) {
		$this->galley_site_cache = $cache;
	}

	/**
	 * Reads a value. Drop-ins for Memcached have four parameters more than WordPress.
	 */
	public function get( $key, $group = 'default', $force = false, &$found = null, $server = '', $by_server = false, $callback = null, &$token = null ) {
		$found = null;
		if ( is_string( $group ) && isset( CORE_GROUPS[ $group ] ) && func_num_args() < 5 ) {
			return $this->galley_site_cache->get( $key, $group, $force, $found );
		}
		$more  = array_slice( array( $server, $by_server, $callback, &$token ), 0, max( 0, func_num_args() - 4 ) );
		$value = $this->galley_site_cache->get( $key, $group, $force, $found, ...$more );
		if ( ! is_scalar( $key ) || ! is_foreign_group( group_name( $group ) ) ) {
			return $value;
		}
		$is_there = false !== $value || true === $found;
		$shown    = $this->shown( group_name( $group ), $key, $value, $is_there );
		$found    = false === $shown && false !== $value ? false : $found;
		return $shown;
	}

	public function get_multiple( $keys, $group = 'default', $force = false, ...$more ) {
		if ( ! is_callable( array( $this->galley_site_cache, 'get_multiple' ) ) ) {
			return null;
		}
		$values = $this->galley_site_cache->get_multiple( $keys, $group, $force, ...$more );
		foreach ( is_foreign_group( group_name( $group ) ) && is_array( $values ) ? $values : array() as $key => $value ) {
			$values[ $key ] = $this->shown( group_name( $group ), $key, $value, false !== $value );
		}
		return $values;
	}

	/**
	 * Returns a value as the page may see it: without markers, or false for kept HTML that counts as missing. Records the read.
	 */
	private function shown( string $group, $key, $value, bool $is_there ) {
		$is_missing = ! $is_there || ( is_described() && counts_as_missing( "$group:$key", $value ) );
		note_cached_read( $group, (string) $key, ! $is_missing );
		return $is_missing ? false : ( is_described() ? without_kept_marks( $value ) : $value );
	}

	/**
	 * Passes any other call on. Other code asks whether a method can be called before it calls one that few drop-ins have, and this class seems to have
	 * all of them.
	 *
	 * @param string $name      Method.
	 * @param array  $arguments Its arguments. Methods that write get key, value and group, or values by key and group.
	 */
	public function __call( $name, $arguments ) {
		if ( ! is_callable( array( $this->galley_site_cache, $name ) ) ) {
			return null;
		}
		if ( is_described() && in_array( $name, array( 'set', 'add', 'replace' ), true ) && isset( $arguments[1] ) && is_scalar( $arguments[0] ?? null ) ) {
			note_kept_in( group_name( $arguments[2] ?? '' ), array( (string) $arguments[0] => $arguments[1] ) );
			$arguments[1] = without_kept_marks( $arguments[1] );
		} elseif ( is_described() && in_array( $name, array( 'set_multiple', 'add_multiple' ), true ) && is_array( $arguments[0] ?? null ) ) {
			note_kept_in( group_name( $arguments[1] ?? '' ), $arguments[0] );
			$arguments[0] = without_kept_marks( $arguments[0] );
		}
		$plain = str_replace( '_', '', $name );
		if ( 0 === strcasecmp( 'addNonPersistentGroups', $plain ) ) {
			$GLOBALS['galley_unkept_groups'] += array_fill_keys( array_filter( (array) ( $arguments[0] ?? array() ), 'is_string' ), true );
		}
		if ( is_described() && preg_match( '/^get(?:multi|bykey|delayed)/i', $plain ) ) {
			at_most( UNKNOWN_LIFETIME );
		}
		$changed = preg_match( CACHED_CHANGES, $plain, $parts ) ? $this->changed_by( $parts, $arguments ) : array();
		$result  = $this->galley_site_cache->$name( ...$arguments );
		foreach ( $changed as list( $group, $key ) ) {
			$done = is_array( $result ) ? ( $result[ $key ] ?? true ) : $result;
			if ( false !== $done || 0 === strcasecmp( 'set', $parts[1] ) ) {
				note_cached_write( $group, null === $group ? '' : cached_tag( $group, (string) $key ) );
			}
		}
		$this->note_emptied( strtolower( $plain ), $arguments );
		return $result;
	}

	/**
	 * Records that a call has removed all values, or those of a group.
	 */
	private function note_emptied( string $name, array $arguments ): void {
		$group = group_name( $arguments[0] ?? '' );
		if ( in_array( $name, array( 'flush', 'flushblog' ), true ) ) {
			note_cached_write( null, '' );
		} elseif ( in_array( $name, array( 'flushgroup', 'deletegroup' ), true ) ) {
			// Pages with transients have no tags of the groups in which those are.
			note_cached_write( preg_match( '/^(?:site-)?transient$/D', $group ) ? null : $group, '' );
		}
	}

	/**
	 * Returns the groups and keys of the values that a call will change. A page fills what it found missing without a change: other pages that found it
	 * missing have filled it, too. It depends on the value all the same, because another request may set one that is not made of what this page has read.
	 *
	 * @param string[] $parts     What `CACHED_CHANGES` has found in the name of the method.
	 * @param array    $arguments Its arguments: keys before groups. Those of `cas` and `...ByKey` begin with a word more.
	 */
	private function changed_by( array $parts, array $arguments ): array {
		$change    = strtolower( $parts[1] );
		$is_many   = ! empty( $parts[2] );
		$arguments = array_slice( $arguments, 'cas' === $change || ! empty( $parts[3] ) ? 1 : 0 );
		$group     = $arguments[ $is_many || 'delete' === $change ? 1 : 2 ] ?? '';
		$values    = $arguments[0] ?? null;
		if ( $is_many && is_array( $values ) && is_array( $group ) ) {
			// Each value has a group of its own.
			return array( array( null, '' ) );
		}
		$group = group_name( $group );
		if ( ! is_observed_group( $group ) || ! ( $is_many ? is_array( $values ) : is_scalar( $values ) ) ) {
			return array();
		}
		$values = $is_many ? $values : array( (string) $values => $arguments[1] ?? null );
		$values = $is_many && 'delete' === $change ? array_fill_keys( array_filter( $values, 'is_scalar' ), null ) : $values;
		$found  = array();
		foreach ( $values as $key => $value ) {
			$name = get_current_blog_id() . ':' . cached_tag( $group, (string) $key );
			$read = $GLOBALS['galley_cached_reads'][ $name ] ?? ( $this->has_read( $key, $group ) ? true : null );
			// HTML that the page renders itself counts as missing on each page, so no page shows what another request puts there.
			$is_rendered = false === $read && isset( $GLOBALS['galley_kept_rendered'][ "$group:$key" ] ) && empty( $GLOBALS['galley_kept_http'] );
			if ( is_described() && ( null === $read || $is_rendered ) ) {
				$GLOBALS['galley_cached_reads'][ $name ] = 'own';
			}
			$is_fill = 'own' === $read || ( false === $read && is_described() );
			// To ask for a value that the request has not read could take a round trip.
			if ( ! $is_fill && ! ( true === $read && 'set' === $change && $this->has_value( $key, $group, $value ) ) ) {
				$found[] = array( $group, $key );
			}
		}
		return $found;
	}

	/**
	 * Returns whether a request that describes no page has a value of Galley's object cache, which it reads past this class.
	 */
	private function has_read( $key, string $group ): bool {
		return ! is_described() && $this->galley_site_cache instanceof Object_Cache && $this->galley_site_cache->has_read( $key, $group );
	}

	/**
	 * Returns whether the object cache has a value already.
	 */
	private function has_value( $key, string $group, $value ): bool {
		try {
			return serialize( $this->galley_site_cache->get( $key, $group ) ) === serialize( $value ); // phpcs:ignore WordPress.PHP.DiscouragedPHPFunctions -- compares only.
		} catch ( \Throwable $closure ) {
			return false;
		}
	}

	// Other code asks whether these exist.

	public function set( ...$arguments ) {
		return $this->__call( __FUNCTION__, $arguments );
	}

	public function add( ...$arguments ) {
		return $this->__call( __FUNCTION__, $arguments );
	}

	public function replace( ...$arguments ) {
		return $this->__call( __FUNCTION__, $arguments );
	}

	public function delete( ...$arguments ) {
		return $this->__call( __FUNCTION__, $arguments );
	}

	public function incr( ...$arguments ) {
		return $this->__call( __FUNCTION__, $arguments );
	}

	public function decr( ...$arguments ) {
		return $this->__call( __FUNCTION__, $arguments );
	}

	public function set_multiple( ...$arguments ) {
		return $this->__call( __FUNCTION__, $arguments );
	}

	public function add_multiple( ...$arguments ) {
		return $this->__call( __FUNCTION__, $arguments );
	}

	public function delete_multiple( ...$arguments ) {
		return $this->__call( __FUNCTION__, $arguments );
	}

	public function flush( ...$arguments ) {
		return $this->__call( __FUNCTION__, $arguments );
	}

	public function flush_group( ...$arguments ) {
		return $this->__call( __FUNCTION__, $arguments );
	}

	/**
	 * Returns a reference, because some code changes public arrays of the object cache in place.
	 *
	 * @param string $name Property.
	 */
	public function &__get( $name ) {
		if ( isset( get_object_vars( $this->galley_site_cache )[ $name ] ) ) {
			return $this->galley_site_cache->$name;
		}
		// The object cache returns copies of its private properties.
		$value = $this->galley_site_cache->$name;
		return $value;
	}

	public function __set( $name, $value ) {
		$this->galley_site_cache->$name = $value;
	}

	public function __isset( $name ) {
		return isset( $this->galley_site_cache->$name );
	}

	public function __unset( $name ) {
		unset( $this->galley_site_cache->$name );
	}
}

/**
 * Returns the name of a group, or that of no group for what is no name. Pure.
 */
function group_name( $group ): string {
	return is_scalar( $group ) ? (string) $group : '';
}

/**
 * Returns the tag of a value in the object cache. Its key may be an address of a person, so it is hashed. Pure.
 */
function cached_tag( string $group, string $key ): string {
	static $words    = array();
	$words[ $group ] = $words[ $group ] ?? word( $group );
	return "oc.$words[$group]." . substr( md5( $key ), 0, 12 );
}

/**
 * Returns whether only the tags of its values describe a group of the object cache.
 */
function is_observed_group( string $group ): bool {
	static $known = array();
	if ( isset( $GLOBALS['galley_unkept_groups'][ $group ] ) ) {
		return false;
	}
	$is_observed = $known[ $group ] ?? ( is_foreign_group( $group ) && ! preg_match( MORE_CORE_GROUPS, $group ) && ! taxonomy_exists( (string) preg_replace( '/_relationships$/D', '', $group ) ) && ! ( class_exists( 'WooCommerce', false ) && preg_match( SHOP_GROUPS, $group ) ) );
	if ( did_action( 'init' ) ) {
		$known[ $group ] = $is_observed;
	}
	return $is_observed;
}

/**
 * Records a value that the request has read.
 */
function note_cached_read( string $group, string $key, bool $is_there ): void {
	if ( is_observed_group( $group ) && ( is_described() || count( $GLOBALS['galley_cached_reads'] ) < MAX_REMEMBERED ) ) {
		$name = get_current_blog_id() . ':' . cached_tag( $group, $key );

		$GLOBALS['galley_cached_reads'][ $name ] = $GLOBALS['galley_cached_reads'][ $name ] ?? $is_there;
	}
}

/**
 * Records that this request has changed a value, or all values of a group, or all.
 *
 * @param string $tag Tag of the value, or nothing for all.
 */
function note_cached_write( ?string $group, string $tag ): void {
	if ( null !== $group && ! is_observed_group( $group ) ) {
		return;
	}
	$of_group = null === $group ? 'og' : 'og.' . word( $group );
	$tag      = '' === $tag ? $of_group : $tag;
	$written  = $GLOBALS['galley_cached_writes'][ $of_group ] ?? array();
	if ( isset( $written[ $tag ] ) || isset( $written[ $of_group ] ) || is_known_as_busy( $of_group ) ) {
		return;
	}
	$written[ $tag ] = true;

	$GLOBALS['galley_cached_writes'][ $of_group ] = isset( $written[ $of_group ] ) || count( $written ) > MAX_WRITTEN ? array( $of_group => true ) : $written;
	if ( false !== stripos( (string) ( $GLOBALS['wpdb']->last_query ?? '' ), 'SQL_CALC_FOUND_ROWS' ) && ! isset( $GLOBALS['galley_purge_id'] ) && ! did_action( 'shutdown' ) ) {
		// The statement that announces purges would change what FOUND_ROWS() returns.
		add_action( 'shutdown', __NAMESPACE__ . '\\announce_cached_writes', PHP_INT_MIN );
		return;
	}
	announce_cached_writes();
}

function announce_cached_writes(): void {
	if ( $GLOBALS['galley_is_over'] ) {
		// No callback of `later()` runs after the end.
		queue_cached_writes();
	} else {
		later( 'cached', __NAMESPACE__ . '\\queue_cached_writes' );
	}
}

function queue_cached_writes(): void {
	queue_observed( tags_of_cached_writes() );
}

/**
 * Returns the tags to purge for what the request has changed since the last call: of few values, or of their groups, or of all groups.
 *
 * @return string[]
 */
function tags_of_cached_writes(): array {
	$written                         = $GLOBALS['galley_cached_writes'];
	$GLOBALS['galley_cached_writes'] = array();
	$count                           = array_sum( array_map( 'count', $written ) );
	$found                           = array();
	// A request counts once, and all groups together, so that there is one record to write.
	$new   = array_map( 'strval', array_keys( array_diff_key( $written, $GLOBALS['galley_cached_groups'] ) ) );
	$known = array_fill_keys( without_busy( $new, array(), is_shared() ), true );

	$GLOBALS['galley_cached_groups'] += $known + array_fill_keys( $new, false );
	foreach ( $written as $group => $tags ) {
		$group = (string) $group;
		if ( ! $GLOBALS['galley_cached_groups'][ $group ] ) {
			continue;
		}
		// From now on, changes of a busy group purge nothing for a while, so this one purges all.
		$entry   = is_shared() || counts_as_visitor() ? kept_record( BUSY_OPTION )[ $group ] ?? array( 0 ) : array( 0 );
		$is_all  = null === $entry[0] || isset( $tags[ $group ] ) || $count > 4 * MAX_WRITTEN;
		$found[] = $is_all ? array( $group ) : array_merge( array_map( 'strval', array_keys( $tags ) ), array( 'oh' . substr( $group, 2 ) ) );
	}
	if ( count( $found ) > MAX_CACHED_GROUPS ) {
		return array( 'og' );
	}
	return $found ? array_values( array_unique( array_merge( array_merge( ...$found ), array( 'oh' ) ) ) ) : array();
}

/**
 * Adds the tags of the values of the object cache that the page has asked for: of each value; `oh` with the group if there are too many,
 * which any change of the group purges; or `oh` if there are too many groups.
 */
function gather_cached_reads(): void {
	$tags   = array_unique( preg_replace( '/^\d+:/', '', array_map( 'strval', array_keys( array_filter( $GLOBALS['galley_cached_reads'], 'is_bool' ) ) ) ) );
	$groups = preg_replace( '/^oc(.*)\.[0-9a-f]+$/D', '$1', $tags );
	if ( count( array_unique( $groups ) ) > MAX_CACHED_GROUPS ) {
		tag_network( 'og' );
		tag_network( 'oh' );
		return;
	}
	foreach ( $tags as $index => $tag ) {
		foreach ( array( 'og', "og$groups[$index]", count( $tags ) > MAX_CACHED ? "oh$groups[$index]" : $tag ) as $one ) {
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
	return ! isset( CORE_GROUPS[ $group ] );
}
