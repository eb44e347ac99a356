<?php
/**
 * The part that all generated plugins share; PRE becomes the prefix of one plugin. Below it come its readers: functions that read
 * something and return it. Each is shown by a shortcode, a block, a widget, a REST route, a sitemap, a filter of the content, or at
 * an address of its own. A reader gets the number of an object from 1 to 3.
 */

/** Shows what a reader reads, between marks by which the run knows the part of the page. */
function PRE_show( string $reader, int $n ): string {
	$read = "PRE_$reader";
	$text = PRE_flat( $read( $n ) );
	\Galley\Exactness\Scripts\wait_for_edit();
	return '{{' . $reader . ':' . $text . ':' . $reader . '}}';
}

/** Rows, objects and single values as text. */
function PRE_flat( $value ): string {
	if ( is_array( $value ) || is_object( $value ) ) {
		return implode( ' ', array_map( 'PRE_flat', array_values( (array) $value ) ) );
	}
	return (string) $value;
}

/** Id of an object of the setup. */
function PRE_id( string $kind, int $n ): int {
	static $ids = null;
	$ids        = $ids ?? ( is_file( __DIR__ . '/ids.php' ) ? require __DIR__ . '/ids.php' : array() );
	return (int) ( $ids[ "$kind $n" ] ?? 0 );
}

/** What a careful plugin does after it has changed the table of options itself. */
function PRE_forget_options( string $name ): void {
	wp_cache_delete( 'alloptions', 'options' );
	wp_cache_delete( 'notoptions', 'options' );
	wp_cache_delete( $name, 'options' );
}

class PRE_Widget extends WP_Widget {

	public function __construct( string $reader ) {
		parent::__construct( "PRE_$reader", "PRE $reader" );
	}

	public function widget( $args, $instance ) {
		echo $args['before_widget'] . PRE_show( substr( $this->id_base, strlen( 'PRE_' ) ), 1 ) . $args['after_widget'];
	}
}

class PRE_Sitemap extends WP_Sitemaps_Provider {

	private string $reader;

	public function __construct( string $reader ) {
		$this->reader      = $reader;
		$this->name        = PRE_sitemap_name( $reader );
		$this->object_type = $this->name;
	}

	public function get_url_list( $page_num, $object_subtype = '' ) {
		return array( array( 'loc' => home_url( '/?shown=' . rawurlencode( PRE_show( $this->reader, 1 ) ) ) ) );
	}

	public function get_max_num_pages( $object_subtype = '' ) {
		return 1;
	}
}

/** WordPress allows letters only. */
function PRE_sitemap_name( string $reader ): string {
	return 'gen' . chr( 97 + (int) substr( $reader, 1 ) );
}

function PRE_register( string $reader, string $surface ): void {
	if ( 'shortcode' === $surface ) {
		add_shortcode(
			"PRE_$reader",
			static function ( $values ) use ( $reader ): string {
				return PRE_show( $reader, (int) $values['n'] );
			}
		);
	} elseif ( 'block' === $surface ) {
		add_action(
			'init',
			static function () use ( $reader ): void {
				$render = static function ( $values ) use ( $reader ): string {
					return '<p>' . PRE_show( $reader, (int) ( $values['n'] ?? 1 ) ) . '</p>';
				};
				register_block_type( "PRE/$reader", array( 'attributes' => array( 'n' => array( 'type' => 'integer' ) ), 'render_callback' => $render ) );
			}
		);
	} elseif ( 'widget' === $surface ) {
		add_action(
			'widgets_init',
			static function () use ( $reader ): void {
				register_widget( new PRE_Widget( $reader ) );
			}
		);
	} elseif ( 'sitemap' === $surface ) {
		add_action(
			'init',
			static function () use ( $reader ): void {
				wp_register_sitemap_provider( PRE_sitemap_name( $reader ), new PRE_Sitemap( $reader ) );
			}
		);
	} else {
		PRE_register_address( $reader, $surface );
	}
}

function PRE_register_address( string $reader, string $surface ): void {
	if ( 'rest' === $surface ) {
		add_action(
			'rest_api_init',
			static function () use ( $reader ): void {
				$answer = static function ( $request ) use ( $reader ) {
					// Galley stores no response of another plugin's route without a tag or a lifetime.
					if ( function_exists( 'galley_tag' ) ) {
						galley_tag( 'PRE-rest' );
					}
					return array( 'shown' => PRE_show( $reader, (int) $request['n'] ) );
				};
				register_rest_route( 'PRE/v1', "/$reader/(?P<n>\d+)", array( 'methods' => 'GET', 'permission_callback' => '__return_true', 'callback' => $answer ) );
			}
		);
	} elseif ( 'content' === $surface ) {
		add_filter(
			'the_content',
			static function ( $content ) use ( $reader ) {
				for ( $n = 1; $n <= 3; $n++ ) {
					if ( is_singular( 'post' ) && get_the_ID() === PRE_id( 'post', $n ) ) {
						return $content . '<p>' . PRE_show( $reader, $n ) . '</p>';
					}
				}
				return $content;
			}
		);
	} elseif ( 'address' === $surface ) {
		add_action(
			'parse_request',
			static function () use ( $reader ): void {
				if ( preg_match( "~^/PRE-$reader-at-(\d)/?$~", $_SERVER['REQUEST_URI'], $found ) ) {
					status_header( 200 );
					header( 'Content-Type: text/html; charset=utf-8' );
					echo '<!doctype html><html><title>PRE</title><body><p>' . PRE_show( $reader, (int) $found[1] ) . '</p></body></html>';
					exit;
				}
			}
		);
	}
}

/** Makes what the readers read, and the pages; prints ids and addresses. */
function PRE_setup(): void {
	wp_set_current_user( 1 );
	$posts = PRE_setup_objects();
	PRE_setup_tables( $posts );
	for ( $n = 1; $n <= 3; $n++ ) {
		add_option( "PRE_opt_$n", "opt-$n" );
		add_option( "PRE_lazy_$n", "lazy-$n", '', 'no' );
		set_theme_mod( "PRE_mod_$n", "mod-$n" );
	}
	add_option( 'PRE_load', 'load' );
	add_option( 'PRE_arr', array( 'k1' => array( 'text' => 'one' ), 'k2' => array( 'text' => 'two' ), 'k3' => array( 'text' => 'three' ) ) );
	get_role( 'author' )->add_cap( 'PRE_sail' );
	wp_schedule_single_event( time() + 10 * YEAR_IN_SECONDS, 'PRE_task', array( 1 ) );
	foreach ( PRE_readers() as $reader => $surface ) {
		PRE_setup_pages( $reader, $surface );
	}
	foreach ( array( '/', '/feed/', '/wp-sitemap.xml', '/category/PRE-term-1/', '/author/PRE-user-1/', '/PRE-post-1/', '/PRE-post-2/', '/PRE-post-3/' ) as $target ) {
		echo "page core $target\n";
	}
}

function PRE_setup_objects(): array {
	$posts = array();
	for ( $n = 1; $n <= 3; $n++ ) {
		$user = wp_insert_user( array( 'user_login' => "PRE-user-$n", 'user_pass' => 'none', 'user_email' => "PRE$n@example.org", 'display_name' => "Sailor $n", 'role' => 'author' ) );
		$term = wp_insert_term( "PRE term $n", 'category', array( 'slug' => "PRE-term-$n" ) )['term_id'];
		$post = wp_insert_post( array( 'post_title' => "PRE title $n", 'post_name' => "PRE-post-$n", 'post_content' => "Text $n.", 'post_status' => 'publish', 'post_author' => $user, 'post_category' => array( $term ), 'post_date' => "2023-03-0$n 10:00:00" ) );
		$comment = wp_insert_comment( array( 'comment_post_ID' => $post, 'comment_author' => "Guest $n", 'comment_content' => "Remark $n.", 'comment_approved' => 1, 'comment_date' => "2023-04-0$n 10:00:00" ) );
		foreach ( array( 'post' => $post, 'term' => $term, 'user' => $user, 'comment' => $comment ) as $type => $id ) {
			add_metadata( $type, $id, 'PRE_meta', "meta-$n" );
			add_metadata( $type, $id, '_PRE_meta', "hidden-$n" );
			echo "id $type-$n $id\n";
		}
		$posts[ $n ] = $post;
	}
	return $posts;
}

function PRE_setup_tables( array $posts ): void {
	global $wpdb;
	$item  = "{$wpdb->prefix}PRE_item";
	$part  = "{$wpdb->prefix}PRE_part";
	$queue = "{$wpdb->prefix}PRE_queue";
	$wpdb->query( "CREATE TABLE $item (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, name varchar(40) NOT NULL UNIQUE, status varchar(10) NOT NULL, amount int NOT NULL, post_id bigint NOT NULL DEFAULT 0, user_id bigint NOT NULL DEFAULT 1, note varchar(60) NOT NULL DEFAULT '', KEY status (status)) DEFAULT CHARSET=utf8mb4" );
	$wpdb->query( "CREATE TABLE $part (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, item_id bigint NOT NULL, label varchar(40) NOT NULL) DEFAULT CHARSET=utf8mb4" );
	$wpdb->query( "CREATE TABLE $queue (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, item_id bigint NOT NULL) DEFAULT CHARSET=utf8mb4" );
	for ( $n = 1; $n <= 5; $n++ ) {
		$wpdb->insert( $item, array( 'name' => "item-$n", 'status' => 4 === $n ? 'off' : 'on', 'amount' => 10 * $n, 'post_id' => $posts[ 1 + ( $n - 1 ) % 3 ], 'user_id' => get_post( $posts[ 1 + ( $n - 1 ) % 3 ] )->post_author ) );
		$wpdb->insert( $part, array( 'item_id' => $n, 'label' => "label-$n" ) );
	}
	$wpdb->query( "CREATE VIEW {$wpdb->prefix}PRE_shown AS SELECT id, name, amount FROM $item WHERE status = 'on'" );
	$wpdb->query( "CREATE TRIGGER {$wpdb->prefix}PRE_raise AFTER INSERT ON $queue FOR EACH ROW UPDATE $item SET amount = amount + 1000 WHERE id = NEW.item_id" );
}

function PRE_setup_pages( string $reader, string $surface ): void {
	if ( 'sitemap' === $surface ) {
		echo "page $reader /wp-sitemap-" . PRE_sitemap_name( $reader ) . "-1.xml\n";
	} elseif ( 'widget' === $surface ) {
		update_option( "widget_PRE_$reader", array( 2 => array( 'title' => '' ), '_multiwidget' => 1 ) );
		$sidebars                = get_option( 'sidebars_widgets' );
		$sidebars['sidebar-1'][] = "PRE_$reader-2";
		update_option( 'sidebars_widgets', $sidebars );
	}
	for ( $n = 1; $n <= 3; $n++ ) {
		if ( 'rest' === $surface ) {
			echo "page $reader /wp-json/PRE/v1/$reader/$n\n";
		} elseif ( 'address' === $surface ) {
			echo "page $reader /PRE-$reader-at-$n/\n";
		} elseif ( 'shortcode' === $surface || 'block' === $surface ) {
			$content = 'block' === $surface ? "<!-- wp:PRE/$reader {\"n\":$n} /-->" : "<p>[PRE_$reader n=$n]</p>";
			wp_insert_post( array( 'post_type' => 'page', 'post_title' => "PRE $reader $n", 'post_name' => "PRE-$reader-$n", 'post_content' => $content, 'post_status' => 'publish', 'post_author' => 1, 'post_date' => '2023-01-01 10:00:00' ) );
			echo "page $reader /PRE-$reader-$n/\n";
		}
	}
}

foreach ( PRE_readers() as $PRE_reader => $PRE_surface ) {
	PRE_register( $PRE_reader, $PRE_surface );
}
