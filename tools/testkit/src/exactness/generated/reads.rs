//! The ways in which generated plugins read: PHP and SQL, with the object of WordPress or of the database that they read.
//!
//! PHP code gets `$n`, the number of an object, `$wpdb`, and the variables of its [`Store`]. `PRE` becomes the prefix of the plugin, and
//! `SQL(...)` a PHP string with the statement in a random spelling, see [`super::sql`].

/// What is read and written together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Store {
    Setting,
    LateSetting,
    LoadedSetting,
    ArraySetting,
    ThemeMod,
    PostMeta,
    HiddenMeta,
    TermMeta,
    UserMeta,
    CommentMeta,
    Rows,
    Posts,
    Terms,
    Comments,
    Users,
    Transient,
    ObjectCache,
    Roles,
    Tasks,
}

impl Store {
    /// PHP statements before the code of a read or a write.
    pub(super) fn variables(self) -> &'static str {
        match self {
            Self::Setting => "$name = \"PRE_opt_$n\";",
            Self::LateSetting => "$name = \"PRE_lazy_$n\";",
            Self::LoadedSetting => "$name = 'PRE_load';",
            Self::ArraySetting => "$name = 'PRE_arr';",
            Self::ThemeMod => "$name = \"PRE_mod_$n\";",
            Self::PostMeta => {
                "$type = 'post'; $object = PRE_id( 'post', $n ); $key = 'PRE_meta'; $table = $wpdb->postmeta; $column = 'post_id';"
            }
            Self::HiddenMeta => {
                "$type = 'post'; $object = PRE_id( 'post', $n ); $key = '_PRE_meta'; $table = $wpdb->postmeta; $column = 'post_id';"
            }
            Self::TermMeta => {
                "$type = 'term'; $object = PRE_id( 'term', $n ); $key = 'PRE_meta'; $table = $wpdb->termmeta; $column = 'term_id';"
            }
            Self::UserMeta => {
                "$type = 'user'; $object = PRE_id( 'user', $n ); $key = '_PRE_meta'; $table = $wpdb->usermeta; $column = 'user_id';"
            }
            Self::CommentMeta => {
                "$type = 'comment'; $object = PRE_id( 'comment', $n ); $key = 'PRE_meta'; $table = $wpdb->commentmeta; $column = 'comment_id';"
            }
            Self::Rows => {
                "$item = \"{$wpdb->prefix}PRE_item\"; $part = \"{$wpdb->prefix}PRE_part\";"
            }
            Self::Transient | Self::ObjectCache => {
                "$item = \"{$wpdb->prefix}PRE_item\"; $name = \"PRE_kept_$n\"; $other = \"PRE_long_$n\";"
            }
            Self::Posts
            | Self::Terms
            | Self::Comments
            | Self::Users
            | Self::Roles
            | Self::Tasks => {
                "$post = PRE_id( 'post', $n ); $term = PRE_id( 'term', $n ); $comment = PRE_id( 'comment', $n ); $user = PRE_id( 'user', $n );"
            }
        }
    }
}

/// A way of reading.
#[derive(Debug, Clone, Copy)]
pub(super) struct Read {
    /// The name in tables.
    pub(super) name: &'static str,
    pub(super) store: Store,
    /// The body of a function that returns what is read.
    pub(super) php: &'static str,
}

const fn read(store: Store, name: &'static str, php: &'static str) -> Read {
    Read { name, store, php }
}

use Store::{
    ArraySetting, CommentMeta, Comments, HiddenMeta, LateSetting, LoadedSetting, ObjectCache,
    PostMeta, Posts, Roles, Rows, Setting, Tasks, TermMeta, Terms, ThemeMod, Transient, UserMeta,
    Users,
};

/// All ways.
pub(super) const READS: &[Read] = &[
    read(Setting, "option", "return get_option( $name );"),
    read(
        Setting,
        "all options",
        "$all = wp_load_alloptions(); return $all[ $name ] ?? '';",
    ),
    read(
        Setting,
        "option by SQL",
        "return $wpdb->get_var( $wpdb->prepare( SQL(SELECT option_value FROM {options} WHERE option_name = %s), $name ) );",
    ),
    read(
        Setting,
        "options by SQL with LIKE",
        "return $wpdb->get_col( SQL(SELECT option_value FROM {options} WHERE option_name LIKE 'PRE\\\\_opt\\\\_%' ORDER BY option_name) );",
    ),
    read(
        LateSetting,
        "option without autoload",
        "return get_option( $name, 'none' );",
    ),
    read(
        LoadedSetting,
        "option while the plugin loads",
        "return $GLOBALS['PRE_loaded'];",
    ),
    read(
        ArraySetting,
        "option with an array",
        "$all = (array) get_option( $name ); return $all[ \"k$n\" ] ?? '';",
    ),
    read(
        ThemeMod,
        "theme mod",
        "return get_theme_mod( $name, 'none' );",
    ),
    read(
        PostMeta,
        "post meta",
        "return get_post_meta( $object, $key, true );",
    ),
    read(
        PostMeta,
        "all post meta",
        "$all = get_post_meta( $object ); return $all[ $key ] ?? '';",
    ),
    read(
        PostMeta,
        "posts ordered by meta",
        "$found = get_posts( array( 'post_type' => 'post', 'meta_key' => $key, 'orderby' => 'meta_value', 'order' => 'ASC', 'numberposts' => 5, 'suppress_filters' => false ) ); return wp_list_pluck( $found, 'post_title' );",
    ),
    read(
        PostMeta,
        "post meta by SQL",
        "return $wpdb->get_var( $wpdb->prepare( SQL(SELECT meta_value FROM {postmeta} WHERE post_id = %d AND meta_key = %s), $object, $key ) );",
    ),
    read(
        PostMeta,
        "post meta and posts by SQL",
        "return $wpdb->get_results( $wpdb->prepare( SQL(SELECT p.post_title, m.meta_value FROM {posts} p JOIN {postmeta} m ON m.post_id = p.ID WHERE m.meta_key = %s ORDER BY m.meta_value, p.ID), $key ) );",
    ),
    read(
        PostMeta,
        "posts with meta",
        "$found = get_posts( array( 'meta_query' => array( array( 'key' => $key, 'value' => 'meta-1', 'compare' => '!=' ) ), 'suppress_filters' => false ) ); return wp_list_pluck( $found, 'post_title' );",
    ),
    read(
        HiddenMeta,
        "hidden post meta",
        "return get_post_meta( $object, $key, true );",
    ),
    read(
        HiddenMeta,
        "hidden meta by SQL",
        "return $wpdb->get_results( SQL(SELECT post_id, meta_value FROM {postmeta} WHERE meta_key = '_PRE_meta' ORDER BY post_id, meta_id), ARRAY_N );",
    ),
    read(
        TermMeta,
        "term meta",
        "return get_term_meta( $object, $key, true );",
    ),
    read(
        UserMeta,
        "hidden user meta",
        "return get_user_meta( $object, $key, true );",
    ),
    read(
        TermMeta,
        "terms with meta",
        // The database chooses the order of terms with one value.
        "$ties = static function ( $clauses ) { $clauses['order'] .= ', t.term_id'; return $clauses; }; add_filter( 'terms_clauses', $ties ); $found = get_terms( array( 'taxonomy' => 'category', 'hide_empty' => false, 'meta_key' => $key, 'orderby' => 'meta_value', 'fields' => 'names' ) ); remove_filter( 'terms_clauses', $ties ); return $found;",
    ),
    read(
        UserMeta,
        "users with meta",
        "return get_users( array( 'meta_key' => $key, 'orderby' => 'meta_value', 'fields' => 'display_name' ) );",
    ),
    read(
        CommentMeta,
        "comments with meta",
        "return wp_list_pluck( get_comments( array( 'meta_key' => $key, 'orderby' => 'meta_value', 'status' => 'approve' ) ), 'comment_content' );",
    ),
    read(
        CommentMeta,
        "comment meta",
        "return get_comment_meta( $object, $key, true );",
    ),
    read(
        Rows,
        "table: list",
        "return $wpdb->get_results( SQL(SELECT name, amount FROM {item} WHERE status = 'on' ORDER BY amount, id) );",
    ),
    read(
        Rows,
        "table: by id",
        "return $wpdb->get_row( $wpdb->prepare( SQL(SELECT name, amount FROM {item} WHERE id = %d), $n ), ARRAY_A );",
    ),
    read(
        Rows,
        "table: by name",
        "return $wpdb->get_var( $wpdb->prepare( SQL(SELECT amount FROM {item} WHERE name = %s), \"item-$n\" ) );",
    ),
    read(
        Rows,
        "table: IN",
        "return $wpdb->get_results( $wpdb->prepare( SQL(SELECT name, amount FROM {item} WHERE id IN (%d, %d) ORDER BY id), $n, $n + 1 ), ARRAY_N );",
    ),
    read(
        Rows,
        "table: raw value",
        "return $wpdb->get_col( SQL(SELECT amount FROM {item} WHERE id = $n) );",
    ),
    read(
        Rows,
        "table: count",
        "return $wpdb->get_row( SQL(SELECT COUNT(*), COALESCE(SUM(amount), 0) FROM {item} WHERE status = 'on'), ARRAY_N );",
    ),
    read(
        Rows,
        "table: LIKE and LIMIT",
        "return $wpdb->get_col( SQL(SELECT name FROM {item} WHERE name LIKE 'item%' ORDER BY amount DESC, id LIMIT 2) );",
    ),
    read(
        Rows,
        "table: GROUP BY",
        "return $wpdb->get_results( SQL(SELECT status, COUNT(*) FROM {item} GROUP BY status ORDER BY status), ARRAY_N );",
    ),
    read(
        Rows,
        "table: HAVING",
        "return $wpdb->get_results( SQL(SELECT status, SUM(amount) AS total FROM {item} GROUP BY status HAVING total > 40 ORDER BY status), ARRAY_N );",
    ),
    read(
        Rows,
        "table: WITH",
        "return $wpdb->get_col( SQL(WITH t AS (SELECT name, amount FROM {item} WHERE status = 'on') SELECT t.name FROM t ORDER BY t.amount, t.name) );",
    ),
    read(
        Rows,
        "table: window",
        "return $wpdb->get_results( SQL(SELECT name, RANK() OVER (ORDER BY amount DESC, id) FROM {item} ORDER BY id), ARRAY_N );",
    ),
    read(
        Rows,
        "table: SHOW COLUMNS",
        "return $wpdb->get_col( SQL(SHOW COLUMNS FROM {item}) );",
    ),
    read(
        Rows,
        "table: by another connection",
        "$own = new wpdb( DB_USER, DB_PASSWORD, DB_NAME, DB_HOST ); return $own->get_col( SQL(SELECT amount FROM {item} WHERE id <> $n ORDER BY id) );",
    ),
    read(
        Rows,
        "tables: EXISTS",
        "return $wpdb->get_col( SQL(SELECT i.name FROM {item} i WHERE EXISTS (SELECT 1 FROM {part} p WHERE p.item_id = i.id) ORDER BY i.id) );",
    ),
    read(
        Rows,
        "tables: JOIN",
        "return $wpdb->get_results( $wpdb->prepare( SQL(SELECT i.name, p.label FROM {item} i JOIN {part} p ON p.item_id = i.id WHERE i.id = %d ORDER BY p.id), $n ) );",
    ),
    read(
        Rows,
        "tables: comma",
        "return $wpdb->get_results( SQL(SELECT i.amount, p.label FROM {item} AS i, {part} AS p WHERE p.item_id = i.id AND i.status = 'on' ORDER BY p.id) );",
    ),
    read(
        Rows,
        "tables: subquery",
        "return $wpdb->get_col( $wpdb->prepare( SQL(SELECT name FROM {item} WHERE id IN (SELECT item_id FROM {part} WHERE label = %s) ORDER BY id), \"label-$n\" ) );",
    ),
    read(
        Rows,
        "tables: UNION",
        "return $wpdb->get_col( $wpdb->prepare( SQL((SELECT name AS t FROM {item} WHERE id = %d) UNION ALL (SELECT label AS t FROM {part} WHERE item_id = %d) ORDER BY t), $n, $n ) );",
    ),
    read(
        Rows,
        "tables: rows after rows",
        "$out = array(); foreach ( $wpdb->get_col( SQL(SELECT item_id FROM {part} ORDER BY id) ) as $id ) { $out[] = $wpdb->get_var( $wpdb->prepare( SQL(SELECT amount FROM {item} WHERE id = %d), $id ) ); } return $out;",
    ),
    read(
        Rows,
        "derived table",
        "return $wpdb->get_col( SQL(SELECT t.name FROM (SELECT name, amount FROM {item} WHERE status = 'on') t ORDER BY t.amount, t.name) );",
    ),
    read(
        Rows,
        "view",
        "return $wpdb->get_results( SQL(SELECT name, amount FROM {shown} ORDER BY amount, id) );",
    ),
    read(
        Rows,
        "table and posts: JOIN",
        "return $wpdb->get_results( SQL(SELECT i.amount, p.post_title FROM {item} i INNER JOIN {posts} p ON p.ID = i.post_id WHERE i.status = 'on' AND p.post_status = 'publish' ORDER BY i.amount, i.id) );",
    ),
    read(
        Rows,
        "table and users: JOIN",
        "return $wpdb->get_row( $wpdb->prepare( SQL(SELECT i.name, u.display_name FROM {item} i LEFT JOIN {users} u ON u.ID = i.user_id WHERE i.id = %d), $n ), ARRAY_N );",
    ),
    read(
        Posts,
        "post by SQL",
        "return $wpdb->get_var( $wpdb->prepare( SQL(SELECT post_title FROM {posts} WHERE ID = %d), $post ) );",
    ),
    read(
        Posts,
        "posts by SQL",
        "return $wpdb->get_col( SQL(SELECT post_title FROM {posts} WHERE post_status = 'publish' AND post_type = 'post' AND post_name LIKE 'PRE-%' ORDER BY post_title) );",
    ),
    read(
        Posts,
        "WP_Query with properties",
        "return wp_list_pluck( get_posts( array( 'category' => PRE_id( 'term', $n ), 'suppress_filters' => false ) ), 'post_title' );",
    ),
    read(
        Posts,
        "count_user_posts",
        "return count_user_posts( $user );",
    ),
    read(Posts, "wp_count_posts", "return wp_count_posts()->publish;"),
    read(
        Posts,
        "wp_get_archives",
        "return wp_get_archives( array( 'echo' => false, 'show_post_count' => true ) );",
    ),
    read(Posts, "get_the_title", "return get_the_title( $post );"),
    read(
        Terms,
        "terms by SQL",
        "return $wpdb->get_col( $wpdb->prepare( SQL(SELECT t.name FROM {terms} t JOIN {term_taxonomy} x ON x.term_id = t.term_id JOIN {term_relationships} r ON r.term_taxonomy_id = x.term_taxonomy_id WHERE r.object_id = %d ORDER BY t.name), $post ) );",
    ),
    read(
        Terms,
        "get_the_terms",
        "return wp_list_pluck( (array) get_the_terms( $post, 'category' ), 'name' );",
    ),
    read(
        Terms,
        "get_terms",
        "return get_terms( array( 'taxonomy' => 'category', 'fields' => 'names' ) );",
    ),
    read(
        Comments,
        "get_comments_number",
        "return get_comments_number( $post );",
    ),
    read(
        Comments,
        "comments by SQL",
        "return $wpdb->get_var( $wpdb->prepare( SQL(SELECT COUNT(*) FROM {comments} WHERE comment_post_ID = %d AND comment_approved = '1'), $post ) );",
    ),
    read(
        Comments,
        "get_comments",
        "return wp_list_pluck( get_comments( array( 'post_id' => $post, 'status' => 'approve' ) ), 'comment_content' );",
    ),
    read(
        Users,
        "user by SQL",
        "return $wpdb->get_var( $wpdb->prepare( SQL(SELECT display_name FROM {users} WHERE ID = %d), $user ) );",
    ),
    read(
        Users,
        "get_userdata",
        "return get_userdata( $user )->display_name;",
    ),
    read(
        Transient,
        "transient that expires",
        "$kept = get_transient( $name ); if ( false === $kept ) { $kept = (string) $wpdb->get_var( $wpdb->prepare( SQL(SELECT amount FROM {item} WHERE id = %d), $n ) ); set_transient( $name, $kept, DAY_IN_SECONDS ); } return $kept;",
    ),
    read(
        Transient,
        "transient without end",
        "$kept = get_transient( $other ); if ( false === $kept ) { $kept = PRE_flat( $wpdb->get_results( SQL(SELECT name, amount FROM {item} ORDER BY id) ) ); set_transient( $other, $kept ); } return $kept;",
    ),
    read(
        ObjectCache,
        "object cache",
        "$kept = wp_cache_get( $name, 'PRE' ); if ( false === $kept ) { $kept = (string) $wpdb->get_var( $wpdb->prepare( SQL(SELECT amount FROM {item} WHERE id = %d), $n ) ); wp_cache_set( $name, $kept, 'PRE' ); } return $kept;",
    ),
    read(
        ObjectCache,
        "object cache with a salt",
        "$salt = wp_cache_get( 'last_changed', 'PRE' ); if ( false === $salt ) { $salt = '0'; wp_cache_set( 'last_changed', $salt, 'PRE' ); } $kept = wp_cache_get( \"$name:$salt\", 'PRE' ); if ( false === $kept ) { $kept = (string) $wpdb->get_var( $wpdb->prepare( SQL(SELECT amount FROM {item} WHERE id = %d), $n ) ); wp_cache_set( \"$name:$salt\", $kept, 'PRE' ); } return $kept;",
    ),
    read(
        Roles,
        "capabilities of a role",
        "return preg_grep( '/^PRE_/', array_keys( array_filter( get_role( 'author' )->capabilities ) ) );",
    ),
    read(Roles, "roles", "return wp_roles()->get_names();"),
    read(
        Roles,
        "users of a role",
        "return get_users( array( 'role' => 'author', 'fields' => 'display_name', 'orderby' => 'ID' ) );",
    ),
    read(
        Roles,
        "whether a user may",
        "return user_can( $user, 'PRE_sail' ) ? 'may sail' : 'may not sail';",
    ),
    read(
        Tasks,
        "scheduled task",
        "return wp_next_scheduled( 'PRE_task', array( $n ) ) ? 'planned' : 'not planned';",
    ),
];
