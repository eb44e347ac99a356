//! The end of a session, in every way that WordPress and plugins have: stolen cookies get nothing of the member from then on.

use std::fs;

use galley_testkit::client::Browser;
use galley_testkit::wait_for;

use super::super::stack::{TIMEOUT, WordPressStack, assert_no_text, assert_text};
use super::members::{ASSEMBLED, PATH, member, start, start_with, store, visit};

/// Code that ends the sessions of the user `$id`, and whether it ends those of all other users, too.
const ENDS: &[(&str, bool)] = &[
    ("reset_password(get_userdata($id), 'other');", false),
    ("wp_set_password('other', $id);", false),
    (
        "wp_update_user(['ID' => $id, 'user_pass' => 'other']);",
        false,
    ),
    // What a plugin that replaces `wp_set_password()` does.
    (
        "$wpdb->update($wpdb->users, ['user_pass' => 'other'], ['ID' => $id]); wp_cache_delete($id, 'users');",
        false,
    ),
    (
        "$wpdb->query(\"UPDATE $wpdb->users SET user_pass = MD5('other') WHERE user_login = '$name'\");",
        true,
    ),
    (
        "$wpdb->query(\"UPDATE $wpdb->users SET user_login = 'renamed' WHERE ID = $id\");",
        false,
    ),
    (
        "WP_Session_Tokens::get_instance($id)->destroy_all();",
        false,
    ),
    ("WP_Session_Tokens::destroy_all_for_all_users();", true),
    (
        "$wpdb->delete($wpdb->usermeta, ['user_id' => $id, 'meta_key' => 'session_tokens']);",
        false,
    ),
    (
        "$wpdb->query(\"DELETE FROM $wpdb->usermeta WHERE meta_key = 'session_tokens'\");",
        true,
    ),
    ("$wpdb->delete($wpdb->users, ['ID' => $id]);", false),
    (
        "require_once ABSPATH . 'wp-admin/includes/user.php'; wp_delete_user($id);",
        false,
    ),
];

/// Code that changes what the user `$id` may do.
const ROLES: &[&str] = &[
    "get_userdata($id)->set_role('editor');",
    "get_userdata($id)->add_cap('edit_posts');",
    "get_role('subscriber')->add_cap('edit_posts');",
];

/// Creates a user and returns a browser whose next visit gets private fragments from memory.
fn known_member(stack: &WordPressStack, name: &str) -> Browser {
    let password = &stack.wordpress.password;
    stack.php(&format!(
        "wp_insert_user(['user_login' => '{name}', 'user_pass' => '{password}', 'user_email' => '{name}@example.org', \
         'display_name' => 'Dear {name}', 'role' => 'subscriber']);"
    ));
    let mut browser = member(stack, name);
    assembled(&mut browser, name);
    browser
}

#[track_caller]
fn assembled(browser: &mut Browser, name: &str) {
    wait_for("private fragments from memory", TIMEOUT, || {
        let page = visit(browser, PATH);
        assert_text(&page, &format!("Dear {name}"));
        page.cache_status() == ASSEMBLED
    });
}

fn run_for(stack: &WordPressStack, name: &str, code: &str) {
    stack.php(&format!(
        "global $wpdb; $name = '{name}'; $id = get_user_by('login', $name)->ID; {code}"
    ));
}

#[test]
fn whatever_ends_a_session_ends_its_private_fragments() {
    let stack = &start("twentytwentyone");
    store(stack, PATH);
    let mut other = known_member(stack, "other");
    for (number, (code, ends_all)) in ENDS.iter().enumerate() {
        let name = format!("carl{number}");
        let mut stolen = known_member(stack, &name);
        assembled(&mut other, "other");
        run_for(stack, &name, code);
        for path in [PATH, "/"] {
            let page = visit(&mut stolen, path);
            assert!(page.cache_status() != ASSEMBLED, "{code}");
            assert_no_text(&page, &format!("Dear {name}"));
        }
        let page = visit(&mut other, PATH);
        assert_eq!(page.cache_status() == ASSEMBLED, !ends_all, "{code}");
        if *ends_all {
            other = member(stack, "other");
        }
    }
}

#[test]
fn members_get_new_private_fragments_when_roles_change() {
    let stack = &start("twentytwentyone");
    store(stack, PATH);
    for (number, code) in ROLES.iter().enumerate() {
        let name = format!("dora{number}");
        let mut dora = known_member(stack, &name);
        run_for(stack, &name, code);
        let page = visit(&mut dora, PATH);
        assert!(page.cache_status() != ASSEMBLED, "{code}");
        assert_text(&page, "wp-admin/post-new.php");
    }
}

#[test]
fn new_salts_end_private_fragments_with_the_next_request_to_php() {
    let stack = &start("twentytwentyone");
    store(stack, PATH);
    let mut stolen = known_member(stack, "carl");
    let path = stack.wordpress.root.join("wp-config.php");
    let text = fs::read_to_string(&path).unwrap();
    let new = text.replace("_SALT', '", "_SALT', 'new");
    assert_ne!(new, text);
    fs::write(&path, new).unwrap();
    // PHP checks every two seconds whether a file has changed.
    wait_for("the new salts", TIMEOUT, || {
        let response = stolen.get("/wp-admin/profile.php").unwrap();
        response.status == 302
    });
    // The redirect may arrive before the purge.
    wait_for("the end of the private parts", TIMEOUT, || {
        let page = visit(&mut stolen, PATH);
        page.cache_status() != ASSEMBLED && !page.text().contains("Dear carl")
    });
}

/// Must-use plugins: sessions that end in a moment, and sessions outside of user meta.
const UNOBSERVED: &[&str] = &[
    "<?php add_filter('auth_cookie_expiration', fn() => 240);",
    "<?php class Other_Tokens extends WP_User_Meta_Session_Tokens {} add_filter('session_token_manager', fn() => 'Other_Tokens');",
];

#[test]
fn no_private_fragments_are_kept_of_sessions_whose_end_would_remain_unnoticed() {
    for code in UNOBSERVED {
        let stack = &start_with("twentytwentyone", code);
        store(stack, PATH);
        let mut ann = member(stack, "ann");
        for _ in 0..3 {
            let page = visit(&mut ann, PATH);
            assert_text(&page, "Dear ann");
            assert!(page.cache_status() != ASSEMBLED, "{code}");
        }
    }
}
