//! Conditions of WordPress post queries: a change that affects the result of a query purges the pages that show it.
//!
//! Each probe page prints only the IDs of the posts that one query finds, so only tags derived from the query can purge it. The
//! expected result is what the same query finds on the command line after the change.

use std::fmt::Write as _;

use galley_testkit::wait_for;
use serde_json::json;

use super::super::stack::{
    HOUR, StackOptions, TIMEOUT, UpstreamKind, WordPressStack, assert_no_text, assert_text,
    text_between,
};
use super::{PLUGIN, TOKEN, install, post_id, rest_api, shared_stack};

/// The must-use plugin with the pages `/probe-<name>/`.
const PROBES: &str = include_str!("probes.php");

/// A query of probes.php, and a change of one of its posts. The posts are too old for lists of the newest.
struct QueryCase {
    query: &'static str,
    change: &'static str,
}

const CASES: &[QueryCase] = &[
    case(
        "category-and-author",
        "wp_update_post(['ID' => $id, 'post_author' => $other]);",
    ),
    case(
        "category-and-tag",
        "wp_set_object_terms($id, 'probe-tag', 'post_tag', true);",
    ),
    case(
        "two-tags",
        "wp_set_object_terms($id, 'probe-tag', 'post_tag', true);",
    ),
    case(
        "category-without-tag",
        "wp_set_object_terms($id, 'probe-tag', 'post_tag', true);",
    ),
    case(
        "category-alone",
        "wp_set_object_terms($id, 'probe-category', 'category', true);",
    ),
    case(
        "numbers-and-tag",
        "wp_set_object_terms($id, 'probe-tag', 'post_tag', true);",
    ),
    case(
        "numbers-and-author",
        "wp_update_post(['ID' => $id, 'post_author' => $other]);",
    ),
    case(
        "numbers-sold-out",
        "wp_remove_object_terms($id, 'outofstock', 'product_visibility');",
    ),
    case(
        "slugs-sold-out",
        "wp_remove_object_terms($id, 'outofstock', 'product_visibility');",
    ),
    case(
        "terms-by-number",
        "wp_set_object_terms($id, 'probe-empty', 'category', true);",
    ),
    case(
        "terms-by-slug",
        "foreach (get_objects_in_term(get_cat_ID('probe-empty'), 'category') as $one) { wp_set_object_terms($one, 'probe-common', 'category'); }",
    ),
    case(
        "terms-by-field",
        "update_term_meta(get_cat_ID('probe-field'), 'probe_term', '1');",
    ),
    case(
        "users-by-number",
        "update_user_meta($other, 'probe_user', '1');",
    ),
    case(
        "users-by-field",
        "update_user_meta($other, 'probe_user', '2');",
    ),
    case(
        "users-by-role",
        "get_userdata($other)->add_role('contributor');",
    ),
    case(
        "not-by-author",
        "wp_update_post(['ID' => $id, 'post_author' => $other]);",
    ),
    case(
        "hour",
        "wp_update_post(['ID' => $id, 'post_date' => '2019-01-01 03:30:00', 'post_date_gmt' => '2019-01-01 03:30:00', 'edit_date' => true]);",
    ),
    case(
        "menu-order",
        "wp_update_post(['ID' => $id, 'menu_order' => 7]);",
    ),
    case(
        "closed",
        "wp_update_post(['ID' => $id, 'comment_status' => 'closed']);",
    ),
    case(
        "protected-in-category",
        "wp_update_post(['ID' => $id, 'post_password' => 'oar']);",
    ),
    case(
        "search",
        "wp_update_post(['ID' => $id, 'post_password' => 'oar']);",
    ),
    case(
        "search-in-category",
        "wp_set_object_terms($id, 'probe-search', 'category', true);",
    ),
    case(
        "search-by-author",
        "wp_update_post(['ID' => $id, 'post_author' => $other]);",
    ),
    case(
        "scheduled",
        "wp_update_post(['ID' => $later, 'post_author' => $other]);",
    ),
    case(
        "hidden-type",
        "wp_update_post(['ID' => $slide, 'post_status' => 'publish']);",
    ),
    case("stickies-first", "stick_post($id);"),
    case(
        "any-field",
        "update_post_meta($id, 'probe_field', 'probe-value');",
    ),
    case(
        "filtered-title",
        "wp_update_post(['ID' => $id, 'post_title' => 'Zz a filtered title']);",
    ),
    case(
        "filtered-field",
        "update_post_meta($id, 'probe_join', '1');",
    ),
    case(
        "filtered-rank",
        "wp_set_object_terms($id, 'probe-tag', 'post_tag', true);",
    ),
    case(
        "term-by-slug",
        "wp_update_term(get_term_by('slug', 'probe-moving', 'post_tag')->term_id, 'post_tag', ['slug' => 'probe-moved']);",
    ),
    case(
        "no-such-term",
        "wp_update_term(get_term_by('slug', 'probe-moved', 'post_tag')->term_id, 'post_tag', ['slug' => 'probe-awaited']);",
    ),
    case("members-leave", "wp_trash_post($id);"),
    case(
        "members-change-term",
        "wp_set_object_terms($id, 'probe-search', 'category');",
    ),
    case(
        "members-enter",
        "wp_set_object_terms($id, 'probe-entered', 'category');",
    ),
    case(
        "pages-in-order",
        "wp_update_post(['ID' => $page, 'menu_order' => -5]);",
    ),
    case(
        "pages-by-field",
        "update_post_meta($page, 'probe_page', '1');",
    ),
    case(
        "pages-by-author",
        "wp_update_post(['ID' => $page, 'post_author' => $other]);",
    ),
];

const fn case(query: &'static str, change: &'static str) -> QueryCase {
    QueryCase { query, change }
}

/// Starts a stack with the plugin and the probe pages.
fn start_with_probes() -> WordPressStack {
    let mut options = StackOptions::new([(PLUGIN, HOUR.to_owned())]);
    options.admin_token = Some(TOKEN);
    let probes = ("probes.php".to_owned(), PROBES.to_owned());
    options.wordpress.mu_plugins.push(probes);
    let stack = WordPressStack::start(UpstreamKind::Fpm, &options);
    install(&stack);
    stack.php("probe_fillers();");
    stack
}

/// Returns the post IDs that a probe page printed.
fn found_ids(text: &str) -> &str {
    text_between(text, "found:[", "]")
}

#[test]
fn a_change_of_query_results_purges_the_page() {
    let stack = start_with_probes();
    let mut wrong = String::new();
    for QueryCase { query, change } in CASES {
        let path = format!("/probe-{query}/");
        let subjects = stack.php(&format!("echo serialize(probe_subjects('{query}'));"));
        wait_for("a stored page", TIMEOUT, || stack.get(&path).is_hit());
        let before = stack.get(&path).text();
        stack.php(&format!(
            "$other = username_exists('editor'); extract(unserialize('{subjects}')); {change}"
        ));
        let page = stack.get(&path).text();
        let expected = stack.php(&format!("echo probe('{query}');"));
        assert_ne!(
            found_ids(&before),
            found_ids(&expected),
            "{query}: the change does not affect the result"
        );
        if found_ids(&page) != found_ids(&expected) {
            let _ = writeln!(
                wrong,
                "{query}: {} instead of {}",
                found_ids(&page),
                found_ids(&expected)
            );
        }
    }
    assert!(wrong.is_empty(), "stale lists:\n{wrong}");
}

/// A list without tags for ranks is purged by posts that it shows or that enter it, not by posts beyond its end.
#[test]
fn posts_outside_the_visible_part_of_a_list_do_not_purge_it() {
    let stack = start_with_probes();
    let name = "members-leave";
    let create = "extract(probe_subjects('members-leave')); echo $id;";
    let ids = [0; 5].map(|_| stack.php(create).trim().to_owned());
    let path = format!("/probe-{name}/");
    let wait_for_hit = || wait_for("a stored page", TIMEOUT, || stack.get(&path).is_hit());
    wait_for_hit();
    let shown = found_ids(&stack.get(&path).text()).to_owned();
    assert!(
        !shown.contains(&ids[0]) && shown.contains(&ids[4]),
        "{shown}"
    );
    stack.php(&format!("wp_trash_post({});", ids[0]));
    assert!(stack.get(&path).is_hit());
    stack.php(&format!("wp_trash_post({});", ids[4]));
    assert!(!found_ids(&stack.get(&path).text()).contains(&ids[4]));
    wait_for_hit();
    stack.php(&format!(
        "wp_untrash_post({0}); wp_publish_post({0});",
        ids[0]
    ));
    assert!(!stack.get(&path).is_hit());
}

#[test]
fn a_post_password_purges_searches_and_comment_lists() {
    let (stack, _lock) = shared_stack();
    let id = stack.publish(["quagga-sighted"])[0];
    stack.php(&format!(
        "wp_insert_comment(['comment_post_ID' => {id}, 'comment_content' => 'A striped comment', 'comment_author' => 'Ann', 'comment_approved' => 1]);"
    ));
    let search = "/?s=quagga-sighted";
    let comments = "/wp-json/wp/v2/comments?per_page=3";
    let edit = |password: &str| {
        for path in [search, comments] {
            stack.get(path);
            assert!(stack.get(path).is_hit(), "{path} is not stored");
        }
        rest_api(
            stack,
            "POST",
            &format!("/wp/v2/posts/{id}"),
            &json!({ "password": password }),
        );
    };
    let no_results = "no-results not-found";
    assert_no_text(&stack.get(search), no_results);
    edit("oar");
    assert_text(&stack.get(search), no_results);
    assert_no_text(&stack.get(comments), "A striped comment");
    edit("");
    assert_no_text(&stack.get(search), no_results);
    assert_text(&stack.get(comments), "A striped comment");
}

#[test]
fn attachments_follow_the_visibility_of_their_post() {
    let (stack, _lock) = shared_stack();
    let id = post_id(stack, "salt-smoke-and-patience");
    let attachment = stack.php(&format!(
        "echo wp_insert_attachment(['post_title' => 'A smoked eel', 'post_name' => 'smoked-eel', 'post_mime_type' => 'image/png', 'post_status' => 'inherit', 'post_author' => 1], false, {id});"
    ));
    let by_id = format!("/?attachment_id={}", attachment.trim());
    let paths = [
        by_id.as_str(),
        "/salt-smoke-and-patience/smoked-eel/",
        "/wp-json/wp/v2/media?search=smoked",
    ];
    let set_status = |status: &str| {
        for path in paths {
            stack.get(path);
            wait_for("a stored page", TIMEOUT, || stack.get(path).is_hit());
        }
        stack.php(&format!(
            "wp_update_post(['ID' => {id}, 'post_status' => '{status}']);"
        ));
    };
    set_status("private");
    assert_eq!(stack.get(paths[1]).status, 404);
    assert_eq!(stack.get(paths[0]).status, 404);
    assert_no_text(&stack.get(paths[2]), "smoked eel");
    set_status("publish");
    assert_eq!(stack.get(paths[1]).status, 200);
    assert_text(&stack.get(paths[2]), "smoked eel");
    for path in paths {
        stack.get(path);
        wait_for("a stored page", TIMEOUT, || stack.get(path).is_hit());
    }
    stack.php(&format!(
        "wp_update_post(['ID' => {id}, 'post_name' => 'salt-and-smoke']);"
    ));
    assert_text(&stack.get(paths[2]), "salt-and-smoke\\/smoked-eel");
    stack.php(&format!(
        "wp_update_post(['ID' => {id}, 'post_name' => 'salt-smoke-and-patience']);"
    ));
}
