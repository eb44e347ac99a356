//! How orders travel, and what becomes of those that are lost.

use std::fs;

use serde_json::json;

use super::super::stack::{Kind, Stack, assert_text};
use super::{Around, id_of, rest, start, turn};

fn pending(stack: &Stack) -> String {
    stack
        .php("global $wpdb; echo implode(' ', $wpdb->get_col(\"SELECT option_value FROM $wpdb->options WHERE option_name LIKE 'galley\\\\_pending\\\\_%'\"));")
        .trim()
        .to_owned()
}

#[test]
fn purges_in_a_response_are_acknowledged() {
    let (stack, _turn) = turn();
    let id = id_of(stack, "salt-smoke-and-patience");
    rest(
        stack,
        "POST",
        &format!("/wp/v2/posts/{id}"),
        &json!({ "content": "Once more." }),
    );
    // The next request tells WordPress what was heard.
    let _ = stack
        .admin()
        .get("/wp-admin/profile.php")
        .unwrap()
        .expect_status(200);
    assert_eq!(pending(stack), "");
}

#[test]
fn what_was_lost_is_sent_again_by_the_next_request() {
    let stack = start(Kind::Fpm);
    let id = id_of(&stack, "salt-smoke-and-patience");
    let connection = stack
        .wordpress
        .root
        .join("wp-content/galley-connection.php");
    let was = fs::read_to_string(&connection).unwrap();
    let path = "/salt-smoke-and-patience/";
    stack.get(path);
    assert!(stack.get(path).is_hit());
    fs::write(&connection, "<?php return null;").unwrap();
    stack.php(&format!(
        "wp_update_post(['ID' => {id}, 'post_content' => 'Nobody was told.']);"
    ));
    assert!(stack.get(path).is_hit(), "nobody could tell");
    assert!(
        pending(&stack).contains(&format!("\"p{id}\"")),
        "{}",
        pending(&stack)
    );
    // Any page that PHP generates brings it along.
    stack.get("/never-asked-before/");
    let page = stack.get(path);
    assert!(!page.is_hit());
    assert_text(&page, "Nobody was told.");
    stack.get("/never-asked-either/");
    assert_eq!(pending(&stack), "");
    fs::write(&connection, was).unwrap();
}

#[test]
fn a_request_that_died_purges_everything() {
    let stack = start(Kind::Fpm);
    let around = Around {
        changed: &["/", "/about/", "/feed/"],
        kept: &[],
    };
    around.edit(&stack, || {
        stack.php(
            "global $wpdb; $wpdb->insert($wpdb->options, ['option_name' => 'galley_pending_0123456789abcdef', \
             'option_value' => json_encode(['at' => time() - 3600, 'orders' => null]), 'autoload' => 'yes']);",
        );
        stack.get("/never-asked-before/");
    });
    stack.get("/never-asked-either/");
    assert_eq!(pending(&stack), "");
}

#[test]
fn switching_off_takes_all_pages_along() {
    let stack = start(Kind::Fpm);
    let around = Around {
        changed: &["/", "/about/", "/feed/"],
        kept: &[],
    };
    around.edit(&stack, || {
        { stack.php("require_once ABSPATH . 'wp-admin/includes/plugin.php'; deactivate_plugins('galley/galley.php');"); }
    });
    assert!(!stack.get("/about/").has("galley-tags"));
}

#[test]
fn apache_forwards_tags_and_purges_as_well() {
    let stack = start(Kind::Apache);
    let id = id_of(&stack, "salt-smoke-and-patience");
    let around = Around {
        changed: &["/salt-smoke-and-patience/"],
        kept: &["/", "/about/", "/feed/", "/market-day-in-the-rain/"],
    };
    let pages = around.edit(&stack, || {
        let text = stack.php(&format!("echo get_post({id})->post_content;"));
        rest(
            &stack,
            "POST",
            &format!("/wp/v2/posts/{id}"),
            &json!({ "content": format!("{text}<p>Behind Apache.</p>") }),
        );
    });
    assert_text(&pages[0], "Behind Apache.");
    around.edit(&stack, || {
        stack.rewrite(u32::try_from(id).unwrap(), "Behind Apache, by a program.");
    });
}
