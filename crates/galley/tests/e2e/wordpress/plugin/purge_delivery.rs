//! Delivery of purges from PHP to Galley, and redelivery of lost ones.

use std::fs;

use galley_testkit::wait_for;
use serde_json::json;

use super::super::stack::{TIMEOUT, UpstreamKind, WordPressStack, assert_text};
use super::{ExpectedPurges, post_id, rest_api, shared_stack, start};

fn pending_purges(stack: &WordPressStack) -> String {
    stack
        .php("global $wpdb; echo implode(' ', $wpdb->get_col(\"SELECT option_value FROM $wpdb->options WHERE option_name LIKE 'galley\\\\_pending\\\\_%'\"));")
        .trim()
        .to_owned()
}

#[test]
fn purges_in_a_response_are_acknowledged() {
    let (stack, _lock) = shared_stack();
    let id = post_id(stack, "salt-smoke-and-patience");
    rest_api(
        stack,
        "POST",
        &format!("/wp/v2/posts/{id}"),
        &json!({ "content": "Once more." }),
    );
    // The next request tells WordPress which purges Galley has acknowledged.
    let _ = stack
        .admin()
        .get("/wp-admin/profile.php")
        .unwrap()
        .expect_status(200);
    assert_eq!(pending_purges(stack), "");
}

#[test]
fn undelivered_purges_are_sent_with_the_next_request() {
    let stack = start(UpstreamKind::Fpm);
    let id = post_id(&stack, "salt-smoke-and-patience");
    let connection = stack
        .wordpress
        .root
        .join("wp-content/galley-connection.php");
    let original = fs::read_to_string(&connection).unwrap();
    let path = "/salt-smoke-and-patience/";
    fs::write(&connection, "<?php return null;").unwrap();
    let is_pending = || pending_purges(&stack).contains(&format!("\"p{id}\""));
    let mut edits = 0;
    // Again, if a page that Galley fetches in the background delivers the purge: the first pages of a site purge what they change.
    wait_for("an edit that is not delivered", TIMEOUT, || {
        edits += 1;
        stack.get(path);
        stack.php(&format!(
            "wp_update_post(['ID' => {id}, 'post_content' => 'Not delivered {edits}.']);"
        ));
        stack.get(path).is_hit() && is_pending()
    });
    // The next page that PHP generates delivers the purge.
    stack.get("/not-requested-before/");
    let page = stack.get(path);
    assert!(!page.is_hit());
    assert_text(&page, &format!("Not delivered {edits}."));
    stack.get("/another-new-page/");
    assert_eq!(pending_purges(&stack), "");
    fs::write(&connection, original).unwrap();
}

#[test]
fn an_aborted_request_purges_the_whole_site() {
    let stack = start(UpstreamKind::Fpm);
    let expected = ExpectedPurges {
        purged: &["/", "/about/", "/feed/"],
        unaffected: &[],
    };
    expected.check_after(&stack, || {
        stack.php(
            "global $wpdb; $wpdb->insert($wpdb->options, ['option_name' => 'galley_pending_0123456789abcdef', \
             'option_value' => json_encode(['at' => time() - 3600, 'orders' => null]), 'autoload' => 'yes']);",
        );
        stack.get("/not-requested-before/");
    });
    stack.get("/another-new-page/");
    assert_eq!(pending_purges(&stack), "");
}

/// The database loses the connection of a process that dies, so the next request need not wait for two minutes.
#[test]
fn a_request_has_died_when_its_connection_is_closed() {
    let stack = start(UpstreamKind::Fpm);
    let expected = ExpectedPurges {
        purged: &["/", "/about/", "/feed/"],
        unaffected: &[],
    };
    expected.check_after(&stack, || {
        let state = stack.php(
            "global $wpdb; Galley\\write_pending('00000000000000aa', null, time() - 5); \
             $row = json_decode($wpdb->get_var(\"SELECT option_value FROM $wpdb->options WHERE option_name = 'galley_pending_00000000000000aa'\"), true); \
             echo Galley\\has_died('00000000000000aa', $row['by']) ? 'died' : 'runs';",
        );
        assert_eq!(state.trim(), "runs");
        stack.get("/not-requested-before/");
    });
    stack.get("/another-new-page/");
    assert_eq!(pending_purges(&stack), "");
}

#[test]
fn deactivating_the_plugin_purges_all_pages() {
    let stack = start(UpstreamKind::Fpm);
    let expected = ExpectedPurges {
        purged: &["/", "/about/", "/feed/"],
        unaffected: &[],
    };
    expected.check_after(&stack, || {
        stack.php("require_once ABSPATH . 'wp-admin/includes/plugin.php'; deactivate_plugins('galley/galley.php');");
    });
    assert!(!stack.get("/about/").has("galley-tags"));
}

#[test]
fn tags_and_purges_work_behind_apache() {
    let stack = start(UpstreamKind::Apache);
    let id = post_id(&stack, "salt-smoke-and-patience");
    let expected = ExpectedPurges {
        purged: &["/salt-smoke-and-patience/"],
        unaffected: &["/", "/about/", "/feed/", "/market-day-in-the-rain/"],
    };
    let pages = expected.check_after(&stack, || {
        let text = stack.php(&format!("echo get_post({id})->post_content;"));
        rest_api(
            &stack,
            "POST",
            &format!("/wp/v2/posts/{id}"),
            &json!({ "content": format!("{text}<p>Behind Apache.</p>") }),
        );
    });
    assert_text(&pages[0], "Behind Apache.");
    expected.check_after(&stack, || {
        stack.update_post(u32::try_from(id).unwrap(), "Behind Apache, by a program.");
    });
}
