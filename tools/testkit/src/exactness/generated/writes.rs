//! The ways in which generated edits write: through WordPress's functions for the object, or past them with `wpdb` and SQL.
//!
//! PHP code gets `$n`, the number of an object, a new text `$v`, a new number `$m`, `$wpdb`, and the variables of its [`Store`].

use super::{
    reads::Store,
    row_writes::{OBJECT_CACHE, ROWS, TRANSIENT},
};

/// Which way an edit takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    /// WordPress's functions for the object, whose actions a plugin can hook.
    Through,
    /// Rows of a table.
    Past,
}

/// A way of writing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write {
    /// The name in tables.
    pub(super) name: &'static str,
    pub(super) path: Path,
    pub(super) php: &'static str,
}

pub(super) const fn through(name: &'static str, php: &'static str) -> Write {
    Write {
        name,
        path: Path::Through,
        php,
    }
}

pub(super) const fn past(name: &'static str, php: &'static str) -> Write {
    Write {
        name,
        path: Path::Past,
        php,
    }
}

/// The ways of writing to a store.
pub(super) fn writes(store: Store) -> &'static [Write] {
    match store {
        Store::Setting | Store::LateSetting | Store::LoadedSetting => OPTION,
        Store::ArraySetting => ARRAY_OPTION,
        Store::ThemeMod => THEME_MOD,
        Store::PostMeta
        | Store::HiddenMeta
        | Store::TermMeta
        | Store::UserMeta
        | Store::CommentMeta => META,
        Store::Rows => ROWS,
        Store::Posts => POSTS,
        Store::Terms => TERMS,
        Store::Comments => COMMENTS,
        Store::Users => USERS,
        Store::Transient => TRANSIENT,
        Store::ObjectCache => OBJECT_CACHE,
        Store::Roles => ROLES,
        Store::Tasks => TASKS,
    }
}

const OPTION: &[Write] = &[
    through("update_option", "update_option( $name, $v );"),
    through(
        "update_option, same value",
        "update_option( $name, get_option( $name ) );",
    ),
    through(
        "update_option, there and back",
        "$old = get_option( $name ); update_option( $name, $v ); update_option( $name, $old );",
    ),
    through("delete_option", "delete_option( $name );"),
    through(
        "update_option at shutdown",
        "add_action( 'shutdown', static function () use ( $name, $v ) { update_option( $name, $v ); }, 1000 );",
    ),
    through(
        "delete_option, add_option",
        "delete_option( $name ); add_option( $name, $v );",
    ),
    past(
        "wpdb->update options",
        "$wpdb->update( $wpdb->options, array( 'option_value' => $v ), array( 'option_name' => $name ) ); PRE_forget_options( $name );",
    ),
    past(
        "UPDATE options",
        "$wpdb->query( $wpdb->prepare( SQL(UPDATE {options} SET option_value = %s WHERE option_name = %s), $v, $name ) ); PRE_forget_options( $name );",
    ),
    past(
        "UPDATE options, caches kept",
        "$wpdb->query( $wpdb->prepare( SQL(UPDATE {options} SET option_value = %s WHERE option_name = %s), $v, $name ) );",
    ),
    past(
        "REPLACE options",
        "$wpdb->query( $wpdb->prepare( SQL(REPLACE INTO {options} (option_name, option_value, autoload) VALUES (%s, %s, 'yes')), $name, $v ) ); PRE_forget_options( $name );",
    ),
    past(
        "INSERT options ON DUPLICATE KEY",
        "$wpdb->query( $wpdb->prepare( SQL(INSERT INTO {options} (option_name, option_value, autoload) VALUES (%s, %s, 'yes') ON DUPLICATE KEY UPDATE option_value = VALUES(option_value)), $name, $v ) ); PRE_forget_options( $name );",
    ),
    past(
        "DELETE options",
        "$wpdb->query( $wpdb->prepare( SQL(DELETE FROM {options} WHERE option_name = %s), $name ) ); PRE_forget_options( $name );",
    ),
];

const ARRAY_OPTION: &[Write] = &[
    through(
        "update_option, one key",
        "$all = get_option( $name ); $all[ \"k$n\" ]['text'] = $v; update_option( $name, $all );",
    ),
    through(
        "update_option, unread key",
        "$all = get_option( $name ); $all['k9'] = $v; update_option( $name, $all );",
    ),
    through(
        "update_option, there and back",
        "$old = get_option( $name ); update_option( $name, array( $v ) ); update_option( $name, $old );",
    ),
    past(
        "UPDATE options",
        "$all = get_option( $name ); $all[ \"k$n\" ]['text'] = $v; $wpdb->query( $wpdb->prepare( SQL(UPDATE {options} SET option_value = %s WHERE option_name = %s), serialize( $all ), $name ) ); PRE_forget_options( $name );",
    ),
];

const THEME_MOD: &[Write] = &[
    through("set_theme_mod", "set_theme_mod( $name, $v );"),
    through(
        "set_theme_mod, same value",
        "set_theme_mod( $name, get_theme_mod( $name ) );",
    ),
    through("remove_theme_mod", "remove_theme_mod( $name );"),
    through(
        "update_option of theme mods",
        "$all = get_theme_mods(); $all[ $name ] = $v; update_option( 'theme_mods_' . get_stylesheet(), $all );",
    ),
];

const META: &[Write] = &[
    through(
        "update_metadata",
        "update_metadata( $type, $object, $key, $v );",
    ),
    through(
        "update_metadata, same value",
        "update_metadata( $type, $object, $key, get_metadata( $type, $object, $key, true ) );",
    ),
    through(
        "update_metadata, there and back",
        "$old = get_metadata( $type, $object, $key, true ); update_metadata( $type, $object, $key, $v ); update_metadata( $type, $object, $key, $old );",
    ),
    through(
        "delete_metadata",
        "delete_metadata( $type, $object, $key );",
    ),
    through(
        "delete_metadata, add_metadata",
        "delete_metadata( $type, $object, $key ); add_metadata( $type, $object, $key, $v );",
    ),
    through(
        "add_metadata, another value",
        "add_metadata( $type, $object, $key, $v );",
    ),
    through(
        "delete_metadata of all objects",
        "delete_metadata( $type, 0, $key, '', true );",
    ),
    through(
        "update_metadata_by_mid",
        "$mids = $wpdb->get_results( SQL(SELECT * FROM {table} WHERE {column} = $object AND meta_key = '$key'), ARRAY_N ); if ( $mids ) { update_metadata_by_mid( $type, $mids[0][0], $v ); }",
    ),
    through(
        "update_metadata of an unread key",
        "update_metadata( $type, $object, '_edit_lock', $v );",
    ),
    past(
        "wpdb->update meta",
        "$wpdb->update( $table, array( 'meta_value' => $v ), array( $column => $object, 'meta_key' => $key ) ); wp_cache_delete( $object, \"{$type}_meta\" );",
    ),
    past(
        "UPDATE meta",
        "$wpdb->query( $wpdb->prepare( SQL(UPDATE {table} SET meta_value = %s WHERE {column} = %d AND meta_key = %s), $v, $object, $key ) ); wp_cache_delete( $object, \"{$type}_meta\" );",
    ),
    past(
        "UPDATE meta, caches kept",
        "$wpdb->query( $wpdb->prepare( SQL(UPDATE {table} SET meta_value = %s WHERE {column} = %d AND meta_key = %s), $v, $object, $key ) );",
    ),
    past(
        "UPDATE meta of all objects",
        "$wpdb->query( $wpdb->prepare( SQL(UPDATE {table} SET meta_value = CONCAT(meta_value, %s) WHERE meta_key = %s), $v, $key ) ); wp_cache_flush();",
    ),
    past(
        "DELETE and INSERT meta",
        "$wpdb->delete( $table, array( $column => $object, 'meta_key' => $key ) ); $wpdb->insert( $table, array( $column => $object, 'meta_key' => $key, 'meta_value' => $v ) ); wp_cache_delete( $object, \"{$type}_meta\" );",
    ),
];

const POSTS: &[Write] = &[
    through(
        "wp_update_post",
        "wp_update_post( array( 'ID' => $post, 'post_title' => \"Title $v\" ) );",
    ),
    through(
        "wp_update_post, same value",
        "wp_update_post( array( 'ID' => $post ) );",
    ),
    through("wp_trash_post", "wp_trash_post( $post );"),
    through(
        "wp_untrash_post",
        "wp_trash_post( $post ); wp_untrash_post( $post ); wp_publish_post( $post );",
    ),
    through("wp_delete_post", "wp_delete_post( $post, true );"),
    through(
        "wp_update_post, private",
        "wp_update_post( array( 'ID' => $post, 'post_status' => 'private' ) );",
    ),
    through(
        "wp_update_post, date",
        "wp_update_post( array( 'ID' => $post, 'post_date' => '2023-03-05 10:00:00', 'edit_date' => true ) );",
    ),
    through(
        "wp_publish_post of a scheduled post",
        "$new = wp_insert_post( array( 'post_title' => \"Title $v\", 'post_name' => \"PRE-$v\", 'post_status' => 'future', 'post_content' => $v, 'post_category' => array( $term ), 'post_date' => '2033-03-09 10:00:00' ) ); wp_update_post( array( 'ID' => $new, 'post_date' => '2023-03-08 10:00:00', 'edit_date' => true ) ); wp_publish_post( $new );",
    ),
    through(
        "wp_insert_post",
        "wp_insert_post( array( 'post_title' => \"Title $v\", 'post_name' => \"PRE-$v\", 'post_status' => 'publish', 'post_content' => $v, 'post_category' => array( $term ), 'post_date' => '2023-03-09 10:00:00' ) );",
    ),
    through(
        "wp_insert_post of a draft",
        "wp_insert_post( array( 'post_title' => \"Title $v\", 'post_content' => $v ) );",
    ),
    past(
        "wpdb->update posts",
        "$wpdb->update( $wpdb->posts, array( 'post_title' => \"Title $v\" ), array( 'ID' => $post ) ); clean_post_cache( $post );",
    ),
    past(
        "UPDATE posts",
        "$wpdb->query( $wpdb->prepare( SQL(UPDATE {posts} SET post_title = %s WHERE ID = %d), \"Title $v\", $post ) ); clean_post_cache( $post );",
    ),
    past(
        "UPDATE posts, caches kept",
        "$wpdb->query( $wpdb->prepare( SQL(UPDATE {posts} SET post_title = %s WHERE ID = %d), \"Title $v\", $post ) );",
    ),
    past(
        "INSERT posts",
        "$wpdb->query( $wpdb->prepare( SQL(INSERT INTO {posts} (post_author, post_date, post_date_gmt, post_content, post_title, post_excerpt, post_status, post_name, to_ping, pinged, post_content_filtered) SELECT post_author, post_date, post_date_gmt, post_content, %s, '', post_status, %s, '', '', '' FROM {posts} WHERE ID = %d), \"Title $v\", \"PRE-$v\", $post ) ); wp_cache_flush();",
    ),
];

const TERMS: &[Write] = &[
    through(
        "wp_set_object_terms",
        "wp_set_object_terms( $post, array( PRE_id( 'term', 1 + $m % 3 ) ), 'category' );",
    ),
    through(
        "wp_update_term",
        "wp_update_term( $term, 'category', array( 'name' => \"Term $v\" ) );",
    ),
    through(
        "wp_remove_object_terms",
        "wp_remove_object_terms( $post, array( $term ), 'category' );",
    ),
    through("wp_delete_term", "wp_delete_term( $term, 'category' );"),
    past(
        "UPDATE terms",
        "$wpdb->query( $wpdb->prepare( SQL(UPDATE {terms} SET name = %s WHERE term_id = %d), \"Term $v\", $term ) ); clean_term_cache( $term, 'category' );",
    ),
    past(
        "INSERT term_relationships",
        "$wpdb->query( SQL(INSERT IGNORE INTO {term_relationships} (object_id, term_taxonomy_id) SELECT $post, term_taxonomy_id FROM {term_taxonomy} WHERE term_id = 1 OR taxonomy = 'category' AND term_id = $term + 1) ); clean_object_term_cache( $post, 'post' );",
    ),
];

const COMMENTS: &[Write] = &[
    through(
        "wp_insert_comment",
        "wp_insert_comment( array( 'comment_post_ID' => $post, 'comment_author' => 'Guest', 'comment_content' => \"Remark $v.\", 'comment_approved' => 1, 'comment_date' => '2023-05-01 10:00:00' ) );",
    ),
    through(
        "wp_set_comment_status",
        // It clones the comment, which an earlier edit may have deleted.
        "get_comment( $comment ) && wp_set_comment_status( $comment, 'hold' );",
    ),
    through("wp_delete_comment", "wp_delete_comment( $comment, true );"),
    through(
        "wp_update_comment",
        "wp_update_comment( array( 'comment_ID' => $comment, 'comment_content' => \"Remark $v.\" ) );",
    ),
    past(
        "UPDATE comments",
        "$wpdb->query( SQL(UPDATE {comments} SET comment_approved = '0' WHERE comment_ID = $comment) ); clean_comment_cache( $comment );",
    ),
    past(
        "INSERT comments",
        "$wpdb->insert( $wpdb->comments, array( 'comment_post_ID' => $post, 'comment_author' => 'Guest', 'comment_content' => \"Remark $v.\", 'comment_approved' => '1', 'comment_date' => '2023-05-02 10:00:00', 'comment_date_gmt' => '2023-05-02 10:00:00' ) ); wp_cache_flush();",
    ),
];

const USERS: &[Write] = &[
    through(
        "wp_update_user",
        "wp_update_user( array( 'ID' => $user, 'display_name' => \"Sailor $v\" ) );",
    ),
    through(
        "wp_update_user, same value",
        "wp_update_user( array( 'ID' => $user, 'display_name' => get_userdata( $user )->display_name ) );",
    ),
    through(
        "wp_delete_user",
        "require_once ABSPATH . 'wp-admin/includes/user.php'; wp_delete_user( $user, 1 );",
    ),
    past(
        "UPDATE users",
        "$wpdb->query( $wpdb->prepare( SQL(UPDATE {users} SET display_name = %s WHERE ID = %d), \"Sailor $v\", $user ) ); clean_user_cache( $user );",
    ),
];

const ROLES: &[Write] = &[
    through(
        "add_cap",
        "get_role( 'author' )->add_cap( 'PRE_' . str_replace( '-', '_', $v ) );",
    ),
    through(
        "remove_cap",
        "get_role( 'author' )->remove_cap( 'PRE_sail' );",
    ),
    through("add_role", "add_role( \"PRE_$v\", \"Role $v\" );"),
    through(
        "set_role",
        "get_userdata( $user )->set_role( 'subscriber' );",
    ),
    through(
        "add_cap of a user",
        "get_userdata( $user )->add_cap( 'PRE_sail', false );",
    ),
    through(
        "wp_insert_user",
        "wp_insert_user( array( 'user_login' => \"PRE-$v\", 'user_pass' => 'none', 'user_email' => \"$v@example.org\", 'display_name' => \"Sailor $v\", 'role' => 'author' ) );",
    ),
    past(
        "UPDATE of user_roles",
        "$all = get_option( \"{$wpdb->prefix}user_roles\" ); $all['author']['capabilities']['PRE_row'] = true; $wpdb->update( $wpdb->options, array( 'option_value' => serialize( $all ) ), array( 'option_name' => \"{$wpdb->prefix}user_roles\" ) ); PRE_forget_options( \"{$wpdb->prefix}user_roles\" );",
    ),
];

const TASKS: &[Write] = &[
    through(
        "wp_schedule_single_event",
        "wp_schedule_single_event( time() + YEAR_IN_SECONDS, 'PRE_task', array( $n ) );",
    ),
    through(
        "wp_clear_scheduled_hook",
        "wp_clear_scheduled_hook( 'PRE_task', array( $n ) );",
    ),
    through(
        "wp_schedule_single_event of another task",
        "wp_schedule_single_event( time() + YEAR_IN_SECONDS, 'PRE_other', array( $n ) );",
    ),
];
