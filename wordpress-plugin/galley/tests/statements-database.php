<?php
/**
 * A database for tests: one row of one table, and the table of statements. Something else can happen before one of the statements.
 *
 * @package Galley
 */

final class Statements_Result extends mysqli_result {

	private $found;

	public function __construct( array $found ) {
		$this->found = $found;
	}

	#[\ReturnTypeWillChange]
	public function fetch_assoc() {
		return array_shift( $this->found );
	}

	#[\ReturnTypeWillChange]
	public function fetch_object( $name = 'stdClass', $arguments = array() ) {
		$row = array_shift( $this->found );
		return null === $row ? null : (object) $row;
	}

	#[\ReturnTypeWillChange]
	public function free() {}
}

final class Statements_Database extends mysqli {

	const SQL = 'SELECT a FROM wp_t WHERE b = 1';

	public $value    = 'old';
	public $registry = array();
	public $time     = 0;
	public $fails    = false;
	public $slow     = false;
	public $purged_at;
	public $found     = array();
	public $asked     = null;
	public $announced = array();
	private $interrupt_at;
	private $interruption;

	public function __construct() {
		$GLOBALS['wpdb']            = (object) array( 'dbh' => $this, 'base_prefix' => 'wp_', 'dbname' => 'db', 'options' => 'wp_options', 'users' => 'wp_users', 'usermeta' => 'wp_usermeta' );
		$GLOBALS['galley_tags']     = array();
		$GLOBALS['galley_reads']    = array();
		$GLOBALS['galley_purge_id'] = 'test';
		$GLOBALS['galley_purges']   = array( 'hard' => array(), 'soft' => array() );

		$GLOBALS['galley_unverified'] = array();
		$GLOBALS['galley_open_read']  = null;
	}

	public function rows(): array {
		return array( (object) array( 'a' => $this->value ) );
	}

	public function prepare_registry( string $registered ): void {
		if ( ! in_array( $registered, array( 'nothing', 'late' ), true ) ) {
			$digest = Galley\digest_of( array( (object) array( 'a' => 'unconfirmed' === $registered ? 'old' : $registered ) ) );

			$this->registry[ md5( self::SQL ) ] = array( 'id' => md5( self::SQL ), 'digest' => $digest, 'known' => 'old' === $registered, 'statement' => self::SQL );
		}
	}

	/**
	 * Lets something happen before the statement with this number.
	 */
	public function interrupt( int $step, callable $what ): void {
		$this->interrupt_at = $this->time + $step;
		$this->interruption = $what;
	}

	/**
	 * Lets it happen now if there were fewer statements.
	 */
	public function finish( callable $what ): void {
		if ( null !== $this->interruption ) {
			$this->interruption = null;
			$what();
		}
	}

	public function close_test(): void {
		$GLOBALS['galley_purges'] = array( 'hard' => array(), 'soft' => array() );
		$GLOBALS['galley_tags']   = array();
		$GLOBALS['galley_reads']  = array();
		unset( $GLOBALS['wpdb'], $GLOBALS['galley_purge_id'] );
	}

	#[\ReturnTypeWillChange]
	public function query( $sql, $mode = 0 ) {
		if ( null !== $this->interruption && $this->time === $this->interrupt_at ) {
			$what               = $this->interruption;
			$this->interruption = null;
			$what();
		}
		++$this->time;
		return $this->fails ? false : $this->answer( $sql );
	}

	private function answer( string $sql ) {
		preg_match_all( "/\(id = '(\w+)' AND digest = '(\w+)'\)/", $sql, $pairs, PREG_SET_ORDER );
		if ( 0 === strpos( $sql, 'SELECT a FROM wp_t' ) ) {
			$this->slow && usleep( 2000 );
			return new Statements_Result( array( array( 'a' => $this->value ) ) );
		} elseif ( 0 === strpos( $sql, 'SELECT DISTINCT' ) ) {
			$this->asked = $sql;
			return new Statements_Result( $this->found );
		} elseif ( 0 === strpos( $sql, 'SELECT names' ) ) {
			return new Statements_Result(
				array_values(
					array_filter(
						$this->announced,
						static function ( array $row ) use ( $sql ): bool {
							return false !== strpos( $sql, $row['id'] );
						}
					)
				)
			);
		} elseif ( 0 === strpos( $sql, 'INSERT IGNORE' ) ) {
			preg_match_all( "/\('(\w+)', '', 0, 0x(\w+), ''\)/", $sql, $rows, PREG_SET_ORDER );
			foreach ( $rows as list( , $id, $name ) ) {
				$this->announced[] = array( 'id' => $id, 'names' => hex2bin( $name ) );
			}
		} elseif ( 0 === strpos( $sql, 'SELECT COUNT' ) ) {
			return new Statements_Result( array( array( 'n' => count( $this->registry ), 'n0' => count( $this->registry ) ) ) );
		} elseif ( 0 === strpos( $sql, 'SELECT' ) ) {
			preg_match_all( '/[0-9a-f]{32}/', preg_replace( '/LOCATE\(\w+/', '', $sql ), $ids );
			$rows = $ids[0] ? array_intersect_key( $this->registry, array_flip( $ids[0] ) ) : $this->registry;
			foreach ( $rows as $id => $row ) {
				if ( ! $row['known'] && false !== strpos( $sql, 'known = 1' ) ) {
					unset( $rows[ $id ] );
					continue;
				}
				$rows[ $id ]['known'] = (string) (int) $row['known'];
			}
			return new Statements_Result( array_values( $rows ) );
		} elseif ( 0 === strpos( $sql, 'INSERT' ) ) {
			preg_match_all( "/\('(\w+)', '(\w+)', 0, 0x\w+, 0x(\w+)\)/", $sql, $rows, PREG_SET_ORDER );
			foreach ( $rows as list( , $id, $digest, $statement ) ) {
				$kept = $this->registry[ $id ] ?? array( 'known' => false );

				$this->registry[ $id ] = $kept['known'] ? $kept : array( 'id' => $id, 'digest' => $digest, 'known' => false, 'statement' => hex2bin( $statement ) );
			}
		} else {
			$this->change( $sql, $pairs );
		}
		return true;
	}

	private function change( string $sql, array $pairs ): void {
		foreach ( $pairs as list( , $id, $digest ) ) {
			$row = $this->registry[ $id ] ?? array( 'digest' => '', 'known' => false );
			if ( $row['digest'] === $digest && 0 === strpos( $sql, 'UPDATE' ) ) {
				$this->registry[ $id ]['known'] = true;
			} elseif ( $row['digest'] === $digest && ( false === strpos( $sql, 'known = 0' ) || ! $row['known'] ) ) {
				unset( $this->registry[ $id ] );
			}
		}
		if ( ! $pairs && 0 === strpos( $sql, 'DELETE' ) ) {
			$this->registry = array();
		}
	}
}
