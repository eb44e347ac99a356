<?php
/**
 * The part of the object cache that begins with the store in Galley and reads from it: first answer, misses, leases.
 * docs/internals/object-cache.md explains the rules.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

use function array_key_exists, chr, count, is_string, ord, strlen, substr;

/**
 * Asks the store.
 */
abstract class Reading_Cache extends Local_Cache {

	/**
	 * Groups whose values WordPress reads from the database. A value that the request already had is deleted instead of replaced, because the
	 * order of two writes in the database and here may differ.
	 */
	const READ_FROM_DATABASE = '/^(?:options|site-options|notoptions|posts|post_meta|terms|term_meta|users|user_meta|userlogins|useremail|userslugs|comment|comment_meta|counts|blog-details|blog-id-cache|blog-lookup|blog_meta|sites|networks|site-details|.*_relationships|.*-queries)$/D';

	/**
	 * Groups whose values end with the request, because they depend on more than WordPress announces: links on their categories, the calendar
	 * on the day and on permalinks, the time of the last post on posts that are deleted, the list of translations on files. Widgets that keep their
	 * HTML often know only some of what it shows.
	 */
	const NOT_ANNOUNCED = array( 'bookmark', 'calendar', 'timeinfo', 'translation_files', 'widget' );

	/** The codec of an option that does not exist, without a value. */
	const IS_MISSING = 'n';

	/** Keys of one message. The store refuses many more. */
	const MAX_KEYS = 10000;

	/** Seconds after which a long request reads the fence again. */
	const RECHECK_AFTER = 1.0;

	/** @var Object_Store The connection. */
	protected $store;

	/** @var Fence The fence. */
	protected $fence;

	/** @var string[] The first message, and the path of the socket. */
	protected $who = array();

	/** @var bool Whether values may be read: no process writes without the store. */
	protected $may_read = true;

	/** @var float When the fence was read. */
	protected $checked = 0.0;

	/** @var array Bytes of values by their keys in the store; null: there is none; false: it has to be asked for. */
	protected $ahead = array();

	/** @var int The counter of the store when the request began. */
	protected $began = 0;

	/** @var int The same, unless the process had to begin anew: then it is 0, because rows that it has read before have no lease. */
	protected $rows_from = 0;

	/** @var bool[] Groups whose values WordPress reads from the database. */
	private $are_rows = array();

	/** @var string[] Changes that nobody waits for, by key in the store. */
	protected $waiting = array();

	/** @var int[] The number of queries of the request until a key was found to have no value, by key in the store. */
	protected $missed = array();

	/** @var int Queries that values of the store took when they were read from the database, so that this request did not make them. */
	protected $saved_queries = 0;

	/** @var int[] The counter at which a key was asked for, by key in the store, if that was after the beginning. */
	protected $leases = array();

	/** @var bool[] Keys in the store that the request has read, and whether they were in the first answer. */
	protected $used = array();

	/** @var true[] Keys that were read and not in the first answer. */
	private $unforeseen = array();

	/** @var int[]|null How keys in the store were changed in a transaction, or whole groups, under the key of an empty name; null outside of one. */
	protected $in_transaction = null;

	/** @var int[] The number of keys in the first answer, of those that were used, of those that were not in it, and of reads of values that do not exist. */
	protected $foreseen = array( 0, 0, 0, 0 );

	/** @var int The number of statements that write, so far. */
	protected $writes = 0;

	/** @var int[] The value of `$writes` when a key was found missing or filled, by key in the store. */
	protected $filled = array();

	/** @var bool Whether the process has announced that it writes to the database. */
	protected $is_announced = false;

	public function __construct() {
		parent::__construct();
		$this->add_non_persistent_groups( self::NOT_ANNOUNCED );
		if ( defined( 'CUSTOM_USER_TABLE' ) || defined( 'CUSTOM_USER_META_TABLE' ) ) {
			// Another WordPress changes these tables, too, and has a store of its own.
			$this->add_non_persistent_groups( array( 'users', 'user_meta', 'userlogins', 'useremail', 'userslugs', 'user-queries' ) );
		}
		$this->store = new Object_Store();
		$this->fence = new Fence();
		$target      = wp_installing() ? null : Object_Store::target();
		$value       = null === $target ? null : $this->fence->read();
		if ( null === $value && $this->fence->is_blocked ) {
			// Its own changes reach the store, so it needs no row of its own: otherwise one process after the other would block the next.
			$this->may_read = false;
			$value          = $this->fence->value;
		}
		add_filter( 'query', array( $this, 'watch' ), PHP_INT_MAX );
		add_filter( 'woocommerce_related_products', array( $this, 'expect' ), PHP_INT_MAX );
		add_action( 'clean_term_cache', array( $this, 'forget_orders' ), PHP_INT_MIN, 3 );
		// Queries of comments also ask for the status, type and author of their posts.
		add_action( 'clean_post_cache', 'wp_cache_set_comments_last_changed', PHP_INT_MIN, 0 );
		register_shutdown_function( array( $this, 'end_last' ) );
		if ( null !== $value ) {
			$this->who = $target + array(
				'fence'     => $value,
				'namespace' => substr( md5( DB_NAME . '|' . $GLOBALS['wpdb']->base_prefix, true ), 0, 8 ) . substr( md5( DB_HOST, true ), 0, 8 ),
			) + Request_Class::of_request();
			$this->open();
		}
		if ( ! $this->store->is_open() ) {
			$this->use_database();
		}
	}

	/**
	 * Returns whether the store is in use.
	 */
	public function is_connected(): bool {
		return $this->store->is_open();
	}

	/**
	 * Connects, and receives what this request will probably read.
	 */
	protected function open(): void {
		$this->who['stamp'] = $this->stamp();

		$items  = array();
		$status = $this->store->connect( $this->who['path'] ) ? $this->store->start( $this->who, false, $items ) : null;
		if ( Object_Store::BEHIND === $status ) {
			$is_ready = $this->is_network || $this->store->has_nodes || $this->fence->delete_transients();
			$status   = $is_ready ? $this->store->start( $this->who, true, $items ) : null;
		}
		$this->checked = microtime( true );
		if ( Object_Store::STARTED !== $status ) {
			$this->store->close();
			$this->fence->note_away( '' === $this->store->failure ? 'Galley does not know the token of this site, or `object_cache` is off' : $this->store->failure );
			return;
		}
		if ( $this->store->has_nodes ) {
			// One node's transients would be missing on the others.
			$this->use_database();
		}
		$this->began      = $this->store->counter;
		$this->rows_from  = $this->began;
		$this->ahead      = $this->may_read ? $items : array();
		$this->missed     = array();
		$this->leases     = array();
		$this->unforeseen = array();
		$this->foreseen   = array( count( $items ), 0, 0, 0 );
		$this->note_missing();
	}

	/**
	 * The files of the drop-in. If they were away for a while, other code has written without the store: moving a file changes its time.
	 * PHP knows times to the second, so until the second after a change has passed, no two stamps are equal and nothing old is read.
	 */
	protected function stamp(): string {
		$times  = '';
		$latest = 0;
		foreach ( array( WP_CONTENT_DIR . '/object-cache.php', dirname( __DIR__ ), __FILE__ ) as $file ) {
			$changed = filectime( $file );
			$latest  = max( $latest, $changed );
			$times  .= $changed . '.' . fileinode( $file ) . '.';
		}
		return abs( time() - $latest ) > 1 ? $times : $times . bin2hex( random_bytes( 8 ) );
	}

	protected function is_shared( string $group ): bool {
		return $this->store->is_open() && ! isset( $this->non_persistent_groups[ $group ] );
	}

	/**
	 * The key in the store: the length of the group, the group, the name. Names that are too long become hashes.
	 */
	protected function id( string $group, string $name ): string {
		$group = strlen( $group ) > 200 ? md5( $group ) : $group;
		$name  = strlen( $name ) > 250 ? substr( $name, 0, 20 ) . hash( 'sha256', $name ) : $name;
		return chr( strlen( $group ) ) . $group . $name;
	}

	/**
	 * Whether WordPress reads the values of a group from the database.
	 */
	protected function are_rows( string $group ): bool {
		return $this->are_rows[ $group ] ?? ( $this->are_rows[ $group ] = (bool) preg_match( self::READ_FROM_DATABASE, $group ) );
	}

	protected function forget( string $group, string $name ): void {
		$id = $this->id( $group, $name );
		unset( $this->cache[ $group ][ $name ], $this->ahead[ $id ], $this->missed[ $id ] );
	}

	/**
	 * Loads values from the store into this request. Returns whether the first one exists.
	 *
	 * @param string   $group Group.
	 * @param string[] $names Names in the group that this request does not have.
	 * @param bool     $asks  Whether to ask also for values that did not exist at the beginning.
	 */
	protected function load( string $group, array $names, bool $asks = false ): bool {
		if ( ! $this->is_shared( $group ) || ( ! $this->may_read && ! $this->is_current() ) ) {
			return false;
		}
		$ids = array();
		$ask = array();
		foreach ( $names as $name ) {
			$id = $this->id( $group, $name );
			if ( isset( $this->missed[ $id ] ) || ( null !== $this->in_transaction && $this->is_changing( $id ) ) ) {
				continue;
			}
			$ids[ $id ] = $name;
			if ( ! array_key_exists( $id, $this->ahead ) ) {
				$this->unforeseen[ $id ] = true;
				++$this->foreseen[2];
				if ( ! $asks && $this->is_absent( $id ) ) {
					$this->ahead[ $id ] = null;
					++$this->foreseen[3];
				} else {
					$ask[ $id ] = true;
				}
			} elseif ( false === $this->ahead[ $id ] ) {
				// One question for all values that did not fit into the first answer.
				$ask += array_fill_keys( array_keys( $this->ahead, false, true ), true );
			}
		}
		if ( array() !== $ask && ! $this->ask( array_map( 'strval', array_keys( $ask ) ) ) ) {
			return false;
		}
		foreach ( $ids as $id => $name ) {
			$this->take( $group, (string) $name, (string) $id );
		}
		return $this->has( $group, $names[0] );
	}

	/**
	 * Asks at once for what WooCommerce is going to read of several products, one by one. It chooses some of these at random.
	 *
	 * @param mixed $products Numbers of products.
	 */
	public function expect( $products ) {
		$ids = array();
		foreach ( is_array( $products ) && $this->is_shared( 'posts' ) ? array_slice( array_filter( $products, 'is_numeric' ), 0, 20 ) : array() as $product ) {
			foreach ( array( 'posts', 'post_meta', "product_$product" ) as $group ) {
				$name = (string) $this->name( 0 === strpos( $group, 'product' ) ? "wc_{$group}_cache_prefix" : (int) $product, $group );
				$id   = $this->id( $group, $name );
				if ( ! isset( $this->used[ $id ] ) && ! isset( $this->ahead[ $id ] ) && ! isset( $this->waiting[ $id ] ) && ! $this->is_changing( $id ) && ! $this->is_absent( $id ) ) {
					$ids[] = $id;
				}
			}
		}
		if ( array() !== $ids ) {
			foreach ( $ids as $id ) {
				$this->unforeseen[ $id ] = true;
			}
			$this->ask( $ids );
		}
		return $products;
	}

	/**
	 * Whether the open transaction of this process has changed a key: what others see of it is not what this process has written.
	 */
	protected function is_changing( string $id ): bool {
		return null !== $this->in_transaction && ( isset( $this->in_transaction[ $id ] ) || isset( $this->in_transaction[''] ) || isset( $this->in_transaction[ substr( $id, 0, 1 + ord( $id[0] ) ) ] ) );
	}

	/**
	 * Whether the store had no value for a key at the beginning.
	 */
	protected function is_absent( string $id ): bool {
		if ( '' !== $this->store->filter && microtime( true ) - $this->checked > self::RECHECK_AFTER ) {
			$this->store->filter = '';
		}
		$filter = $this->store->filter;
		if ( '' === $filter ) {
			return false;
		}
		$hash = crc32( $id );
		$last = 8 * strlen( $filter ) - 1;
		foreach ( array( $hash & $last, ( $hash >> 7 ) & $last, ( $hash >> 14 ) & $last ) as $bit ) {
			if ( 0 === ( ord( $filter[ $bit >> 3 ] ) >> ( $bit & 7 ) & 1 ) ) {
				return true;
			}
		}
		return false;
	}

	/**
	 * As `load()`, for one value that the store has sent already, which is the usual case: in the administration a hundred for a page. Returns
	 * whether the request has it now.
	 */
	protected function take_ahead( string $group, string $name ): bool {
		// What `id()` returns, unless that is a hash. A key with a longer group or name is never in the list.
		$id = chr( strlen( $group ) ) . $group . $name;
		if ( ! is_string( $this->ahead[ $id ] ?? null ) || null !== $this->in_transaction || ! $this->may_read || ! $this->is_shared( $group ) ) {
			return false;
		}
		$this->take( $group, $name, $id );
		return isset( $this->cache[ $group ][ $name ] );
	}

	/**
	 * Makes a value that the store has sent one of this request.
	 */
	private function take( string $group, string $name, string $id ): void {
		if ( ! array_key_exists( $id, $this->ahead ) ) {
			return;
		}
		if ( ! isset( $this->used[ $id ] ) ) {
			$this->used[ $id ]  = ! isset( $this->unforeseen[ $id ] );
			$this->foreseen[1] += (int) $this->used[ $id ];
		}
		$bytes = $this->ahead[ $id ];
		unset( $this->ahead[ $id ] );
		$this->leases[ $id ] = $this->leases[ $id ] ?? $this->began;
		$value               = is_string( $bytes ) ? decode_object( $bytes, $found ) : false;
		if ( is_string( $bytes ) && $found ) {
			$this->cache[ $group ][ $name ] = $value;
			$this->saved_queries           += 'i' === $bytes[0] ? 0 : ord( $bytes[1] );
			return;
		}
		$this->missed[ $id ] = self::queries();
		$this->filled[ $id ] = $this->writes;
		if ( self::is_mark( $bytes ) ) {
			$this->saved_queries += ord( $bytes[1] );

			$prefix = $this->prefix_of( $group, $name );
			$this->cache[ $group ][ $prefix . 'notoptions' ][ substr( $name, strlen( $prefix ) ) ] = true;
		}
	}

	/**
	 * The number of queries of the request so far.
	 */
	protected static function queries(): int {
		return (int) ( $GLOBALS['wpdb']->num_queries ?? 0 );
	}

	/**
	 * Whether a key is WordPress's list of options that do not exist. It stays in the request: two processes that change it would lose names
	 * or keep wrong ones. Each name is in the store for itself.
	 */
	protected static function lists_missing( string $group, string $name ): bool {
		return ( 'options' === $group || 'site-options' === $group ) && 'notoptions' === substr( $name, -10 );
	}

	/**
	 * Whether the bytes of a value say that an option does not exist.
	 *
	 * @param string|false|null $bytes Bytes.
	 */
	private static function is_mark( $bytes ): bool {
		return is_string( $bytes ) && 2 === strlen( $bytes ) && self::IS_MISSING === $bytes[0];
	}

	/**
	 * Adds the names that the store has sent to the list.
	 */
	private function note_missing(): void {
		foreach ( $this->ahead as $id => $bytes ) {
			if ( self::is_mark( $bytes ) ) {
				$length = ord( $id[0] );
				$this->take( substr( $id, 1, $length ), substr( $id, 1 + $length ), $id );
			}
		}
	}

	protected function prefix_of( string $group, string $name ): string {
		if ( 'options' === $group ) {
			return isset( $this->global_groups[ $group ] ) ? '' : $this->blog_prefix;
		}
		return substr( $name, 0, strspn( $name, '0123456789' ) + 1 );
	}

	/**
	 * Asks the store for keys. Its answer also contains those that requests read next.
	 *
	 * @param string[] $ids Keys in the store.
	 */
	private function ask( array $ids ): bool {
		if ( count( $ids ) > self::MAX_KEYS ) {
			// Each part has the lease of its own answer.
			return $this->ask( array_splice( $ids, 0, self::MAX_KEYS ) ) && $this->ask( $ids );
		}
		if ( ! $this->is_current() ) {
			return false;
		}
		$items = $this->store->get( $ids );
		if ( null === $items ) {
			$this->lose( $this->is_announced );
			return false;
		}
		$asked = array_flip( $ids );
		foreach ( $items as $id => $bytes ) {
			if ( ! isset( $asked[ $id ] ) ) {
				if ( isset( $this->used[ $id ] ) || isset( $this->waiting[ $id ] ) || $this->is_changing( $id ) || isset( $this->ahead[ $id ] ) || array_key_exists( $id, $this->ahead ) ) {
					continue;
				}
				$this->unforeseen[ $id ] = true;
			}
			$this->ahead[ $id ]  = $bytes;
			$this->leases[ $id ] = $this->store->counter;
		}
		$this->note_missing();
		// What did not fit into the answer. Each has at least one value.
		$later = array_keys( array_intersect_key( $this->ahead, $asked ), false, true );
		return array() === $later || $this->ask( array_map( 'strval', $later ) );
	}

	/**
	 * Whether values may be read. A process that runs for long reads the fence again, so it notices a change by one without the store.
	 */
	protected function is_current(): bool {
		if ( microtime( true ) - $this->checked <= self::RECHECK_AFTER ) {
			return $this->may_read;
		}
		$this->checked       = microtime( true );
		$value               = $this->fence->read();
		$this->may_read      = null !== $value;
		$this->store->filter = '';
		if ( $value === $this->who['fence'] || $this->fence->is_blocked ) {
			return $this->may_read;
		}
		$this->finish();
		$this->store->close();
		if ( null !== $value ) {
			$this->who['fence'] = $value;
			$this->store        = new Object_Store();
			$this->open();
			$this->rows_from = 0;
		}
		if ( ! $this->store->is_open() ) {
			$this->use_database();
		}
		return $this->store->is_open();
	}

	// Shared_Cache has these.
	abstract public function finish(): void;
	abstract protected function lose( bool $writes ): void;
	abstract protected function use_database(): void;
}
