<?php
/**
 * The part of the object cache that begins with the store in Galley and reads from it: first answer, misses, leases.
 * docs/internals/object-cache.md explains the rules.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/**
 * Asks the store.
 */
abstract class Reading_Cache extends Local_Cache {

	/**
	 * Groups whose values WordPress reads from the database. A value that the request already had is deleted instead of replaced, because the
	 * order of two writes in the database and here may differ.
	 */
	const READ_FROM_DATABASE = '/^(?:options|site-options|notoptions|posts|post_meta|terms|term_meta|users|user_meta|userlogins|useremail|userslugs|comment|comment_meta|counts|blog-details|blog-id-cache|blog-lookup|blog_meta|sites|networks|site-details|.*_relationships|.*-queries)$/D';

	/** The value of an option that does not exist: a codec without a value. */
	const IS_MISSING = 'n';

	/** Seconds after which a long request reads the fence again. */
	const RECHECK_AFTER = 1.0;

	/**
	 * The connection.
	 *
	 * @var Object_Store
	 */
	protected $store;

	/**
	 * The fence.
	 *
	 * @var Fence
	 */
	protected $fence;

	/**
	 * The first message.
	 *
	 * @var string[]
	 */
	protected $who = array();

	/**
	 * Whether values may be read: no process writes without the store.
	 *
	 * @var bool
	 */
	protected $may_read = true;

	/**
	 * The path of the socket.
	 *
	 * @var string
	 */
	protected $path = '';

	/**
	 * When the fence was read.
	 *
	 * @var float
	 */
	protected $checked = 0.0;

	/**
	 * Bytes of values by their keys in the store; null: there is none; false: it has to be asked for.
	 *
	 * @var array
	 */
	protected $ahead = array();

	/**
	 * The counter of the store when the request began.
	 *
	 * @var int
	 */
	protected $began = 0;

	/**
	 * The beginnings of keys whose names are numbers.
	 *
	 * @var true[]
	 */
	protected $numbered = array();

	/**
	 * Changes that nobody waits for, by key in the store.
	 *
	 * @var string[]
	 */
	protected $waiting = array();

	/**
	 * The counter at which a key was found missing, by key in the store.
	 *
	 * @var int[]
	 */
	protected $missed = array();

	/**
	 * The counter at which a value was read, by key in the store, if that was after the beginning.
	 *
	 * @var int[]
	 */
	protected $leases = array();

	/**
	 * Keys in the store that the request has read, and the number of those that it was sent at the start.
	 *
	 * @var true[]
	 */
	protected $used = array();

	/**
	 * The number of keys in the first answer, of those that were used, and of those that were not in it.
	 *
	 * @var int[]
	 */
	protected $foreseen = array( 0, 0, 0 );

	/**
	 * The number of statements that write, so far.
	 *
	 * @var int
	 */
	protected $writes = 0;

	/**
	 * The value of `$writes` when a key was found missing or filled, by key in the store.
	 *
	 * @var int[]
	 */
	protected $filled = array();

	/**
	 * Whether the process has announced that it writes to the database.
	 *
	 * @var bool
	 */
	protected $is_announced = false;

	public function __construct() {
		parent::__construct();
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
		register_shutdown_function( array( $this, 'end_last' ) );
		if ( null !== $value ) {
			$this->path = $target['path'];
			$this->who  = array(
				'token'     => $target['token'],
				'stamp'     => $this->stamp(),
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
		$items  = array();
		$status = $this->store->connect( $this->path ) ? $this->store->start( $this->who, false, $items ) : null;
		if ( Object_Store::BEHIND === $status ) {
			if ( ! $this->is_network && ! $this->store->has_nodes ) {
				$this->fence->delete_transients();
			}
			$status = $this->store->start( $this->who, true, $items );
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
		$this->began    = $this->store->counter;
		$this->ahead    = $this->may_read ? $items : array();
		$this->missed   = array();
		$this->leases   = array();
		$this->foreseen = array( count( $items ), 0, 0 );
		array_map( array( $this, 'note_number' ), array_map( 'strval', array_keys( $items ) ) );
	}

	/**
	 * The files of the drop-in. If they were away for a while, other code has written without the store: moving a file changes its time.
	 */
	protected function stamp(): string {
		$times = '';
		foreach ( array( WP_CONTENT_DIR . '/object-cache.php', dirname( __DIR__ ), __FILE__ ) as $file ) {
			$times .= filectime( $file ) . '.' . fileinode( $file ) . '.';
		}
		return $times;
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

	protected function lease( string $id, int $otherwise ): int {
		return $this->missed[ $id ] ?? $this->leases[ $id ] ?? $otherwise;
	}

	protected function forget( string $group, string $name ): void {
		$id = $this->id( $group, $name );
		unset( $this->cache[ $group ][ $name ], $this->ahead[ $id ], $this->missed[ $id ] );
	}

	/**
	 * Loads values from the store into this request. Returns whether the first one exists.
	 *
	 * @param string[] $names Names in the group that this request does not have.
	 */
	protected function load( string $group, array $names ): bool {
		if ( ! $this->is_shared( $group ) || ( ! $this->may_read && ! $this->is_current() ) ) {
			return false;
		}
		$ask = array();
		foreach ( $names as $name ) {
			$id = $this->id( $group, $name );
			if ( ! isset( $this->ahead[ $id ] ) && ! isset( $this->missed[ $id ] ) && ! array_key_exists( $id, $this->ahead ) ) {
				$ask[] = $id;
				++$this->foreseen[2];
			} elseif ( false === ( $this->ahead[ $id ] ?? null ) ) {
				// One question for all values that did not fit into the first answer.
				$ask = array_merge( $ask, array_keys( $this->ahead, false, true ) );
			}
		}
		$own = array_flip( array_map( 'strval', $ask ) );
		if ( 1 === count( $ask ) && ctype_digit( $names[0] ) ) {
			$ask = array_merge( $ask, $this->companions( $names[0] ) );
		}
		if ( array() !== $ask && ! $this->ask( array_values( array_unique( array_map( 'strval', $ask ) ) ), $own ) ) {
			return false;
		}
		foreach ( $names as $name ) {
			$this->take( $group, $name );
		}
		return $this->has( $group, $names[0] );
	}

	/**
	 * Makes a value that the store has sent one of this request.
	 */
	protected function take( string $group, string $name ): void {
		$id = $this->id( $group, $name );
		if ( ! array_key_exists( $id, $this->ahead ) ) {
			return;
		}
		if ( ! isset( $this->used[ $id ] ) ) {
			$this->used[ $id ] = true;
			++$this->foreseen[1];
		}
		$bytes = $this->ahead[ $id ];
		unset( $this->ahead[ $id ] );
		$value = is_string( $bytes ) ? decode_object( $bytes, $found ) : false;
		if ( self::IS_MISSING === $bytes ) {
			$prefix = $this->prefix_of( $group, $name );
			$this->cache[ $group ][ $prefix . 'notoptions' ][ substr( $name, strlen( $prefix ) ) ] = true;
		}
		if ( is_string( $bytes ) && $found ) {
			$this->leases[ $id ]            = $this->leases[ $id ] ?? $this->began;
			$this->cache[ $group ][ $name ] = $value;
		} else {
			$this->missed[ $id ] = $this->leases[ $id ] ?? $this->began;
			$this->filled[ $id ] = $this->writes;
		}
	}

	/**
	 * Whether a key is WordPress's list of options that do not exist. It stays in the request: two processes that change it would lose names
	 * or keep wrong ones. Each name is in the store for itself.
	 */
	protected static function lists_missing( string $group, string $name ): bool {
		return ( 'options' === $group || 'site-options' === $group ) && 'notoptions' === substr( $name, -10 );
	}

	/**
	 * Adds the names that the first answer contains to the list.
	 */
	protected function load_missing( string $group, string $list ): void {
		$start = $this->id( $group, substr( $list, 0, -10 ) );
		foreach ( array_keys( $this->ahead, self::IS_MISSING, true ) as $id ) {
			if ( 0 === strncmp( (string) $id, $start, strlen( $start ) ) ) {
				$this->take( $group, substr( (string) $id, 1 + strlen( $group ) ) );
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
	 * Returns the unknown keys with the same number in all groups with numbers: who reads a post reads its fields and terms next.
	 *
	 * @return string[]
	 */
	protected function companions( string $number ): array {
		$ids = array();
		foreach ( array_keys( $this->numbered ) as $start ) {
			$id = $start . $number;
			if ( ! array_key_exists( $id, $this->ahead ) && ! isset( $this->missed[ $id ] ) && ! isset( $this->used[ $id ] ) && ! isset( $this->waiting[ $id ] ) ) {
				$ids[] = $id;
			}
		}
		return $ids;
	}

	/**
	 * Notes the group of a key whose name is a number.
	 */
	protected function note_number( string $id ): void {
		$start = 1 + ord( $id[0] );
		if ( ctype_digit( substr( $id, $start ) ) ) {
			$this->numbered[ substr( $id, 0, $start ) ] = true;
		}
	}

	/**
	 * Asks the store for keys.
	 *
	 * @param string[] $ids Keys in the store.
	 * @param int[]    $own The keys among them that the request reads now. It may have rows of the others from earlier statements, so that their lease
	 *                      stays that of the beginning.
	 */
	protected function ask( array $ids, array $own ): bool {
		if ( ! $this->is_current() ) {
			return false;
		}
		$items = $this->store->get( $ids );
		if ( null === $items ) {
			$this->lose( $this->is_announced );
			return false;
		}
		foreach ( $items as $id => $bytes ) {
			$this->note_number( (string) $id );
			$this->ahead[ $id ]  = $bytes;
			$this->leases[ $id ] = isset( $own[ $id ] ) ? $this->store->counter : ( $this->leases[ $id ] ?? $this->began );
		}
		return true;
	}

	/**
	 * Whether values may be read. A process that runs for long reads the fence again, so it notices a change by one without the store.
	 */
	protected function is_current(): bool {
		if ( microtime( true ) - $this->checked <= self::RECHECK_AFTER ) {
			return $this->may_read;
		}
		$this->checked  = microtime( true );
		$value          = $this->fence->read();
		$this->may_read = null !== $value;
		if ( $value === $this->who['fence'] || $this->fence->is_blocked ) {
			return $this->may_read;
		}
		$this->finish();
		$this->store->close();
		if ( null !== $value ) {
			$this->who['fence'] = $value;
			$this->store        = new Object_Store();
			$this->open();
			// Rows that the request has read before have no lease in the emptied store.
			$this->leases = array_fill_keys( array_keys( $this->ahead ), $this->began );
			$this->began  = 0;
		}
		if ( ! $this->store->is_open() ) {
			$this->use_database();
		}
		return $this->store->is_open();
	}

	/**
	 * Sends what waits for the end of the request.
	 */
	abstract public function finish(): void;

	/**
	 * Goes on without the store.
	 *
	 * @param bool $writes Whether this process has written, so that nobody may use the store before it is emptied.
	 */
	abstract protected function lose( bool $writes ): void;

	/**
	 * Lets WordPress keep transients in the database.
	 */
	abstract protected function use_database(): void;
}
