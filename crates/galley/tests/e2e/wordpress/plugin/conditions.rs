//! Each condition by which WordPress picks posts for visitors: a change of it reaches the lists that ask for it.
//!
//! A page prints the numbers of the posts that one query finds, and nothing else of them, so that only what the plugin knows of
//! the query can purge it. The truth is what the same query finds on the command line after the change.

use std::fmt::Write as _;

use galley_testkit::wait_for;
use serde_json::json;

use super::super::stack::{
    HOUR, Kind, SiteBuilder, Stack, TIMEOUT, assert_no_text, assert_text, between,
};
use super::{PLUGIN, TOKEN, id_of, install, rest, turn};

/// `/probe-<name>/` prints what a query finds.
const PROBES: &str = include_str!("probes.php");

/// A query of probes.php, and what is done to one of its posts, old ones that no list of the newest reaches.
struct Row {
    query: &'static str,
    change: &'static str,
}

const ROWS: &[Row] = &[
    row(
        "category-and-author",
        "wp_update_post(['ID' => $id, 'post_author' => $other]);",
    ),
    row(
        "category-and-tag",
        "wp_set_object_terms($id, 'probe-tag', 'post_tag', true);",
    ),
    row(
        "two-tags",
        "wp_set_object_terms($id, 'probe-tag', 'post_tag', true);",
    ),
    row(
        "category-without-tag",
        "wp_set_object_terms($id, 'probe-tag', 'post_tag', true);",
    ),
    row(
        "category-alone",
        "wp_set_object_terms($id, 'probe-category', 'category', true);",
    ),
    row(
        "numbers-and-tag",
        "wp_set_object_terms($id, 'probe-tag', 'post_tag', true);",
    ),
    row(
        "not-by-author",
        "wp_update_post(['ID' => $id, 'post_author' => $other]);",
    ),
    row(
        "hour",
        "wp_update_post(['ID' => $id, 'post_date' => '2019-01-01 03:30:00', 'post_date_gmt' => '2019-01-01 03:30:00', 'edit_date' => true]);",
    ),
    row(
        "menu-order",
        "wp_update_post(['ID' => $id, 'menu_order' => 7]);",
    ),
    row(
        "closed",
        "wp_update_post(['ID' => $id, 'comment_status' => 'closed']);",
    ),
    row(
        "protected-in-category",
        "wp_update_post(['ID' => $id, 'post_password' => 'oar']);",
    ),
    row(
        "search",
        "wp_update_post(['ID' => $id, 'post_password' => 'oar']);",
    ),
    row(
        "search-in-category",
        "wp_set_object_terms($id, 'probe-search', 'category', true);",
    ),
    row(
        "search-by-author",
        "wp_update_post(['ID' => $id, 'post_author' => $other]);",
    ),
    row(
        "scheduled",
        "wp_update_post(['ID' => $later, 'post_author' => $other]);",
    ),
    row(
        "hidden-type",
        "wp_update_post(['ID' => $slide, 'post_status' => 'publish']);",
    ),
    row("stickies-first", "stick_post($id);"),
    row(
        "any-field",
        "update_post_meta($id, 'probe_field', 'probe-value');",
    ),
    row(
        "filtered-title",
        "wp_update_post(['ID' => $id, 'post_title' => 'Zz a filtered title']);",
    ),
    row(
        "filtered-field",
        "update_post_meta($id, 'probe_join', '1');",
    ),
    row(
        "filtered-rank",
        "wp_set_object_terms($id, 'probe-tag', 'post_tag', true);",
    ),
    row(
        "term-by-slug",
        "wp_update_term(get_term_by('slug', 'probe-moving', 'post_tag')->term_id, 'post_tag', ['slug' => 'probe-moved']);",
    ),
    row(
        "no-such-term",
        "wp_update_term(get_term_by('slug', 'probe-moved', 'post_tag')->term_id, 'post_tag', ['slug' => 'probe-awaited']);",
    ),
    row("members-leave", "wp_trash_post($id);"),
    row(
        "members-change-term",
        "wp_set_object_terms($id, 'probe-search', 'category');",
    ),
    row(
        "members-enter",
        "wp_set_object_terms($id, 'probe-entered', 'category');",
    ),
    row(
        "pages-in-order",
        "wp_update_post(['ID' => $page, 'menu_order' => -5]);",
    ),
    row(
        "pages-by-field",
        "update_post_meta($page, 'probe_page', '1');",
    ),
    row(
        "pages-by-author",
        "wp_update_post(['ID' => $page, 'post_author' => $other]);",
    ),
];

const fn row(query: &'static str, change: &'static str) -> Row {
    Row { query, change }
}

/// The numbers that a page printed.
fn found(text: &str) -> &str {
    between(text, "found:[", "]")
}

#[test]
fn every_condition_of_a_query_is_known() {
    let mut plan = SiteBuilder::new([(PLUGIN, HOUR.to_owned())]);
    plan.token = Some(TOKEN);
    let probes = ("probes.php".to_owned(), PROBES.to_owned());
    plan.options.mu_plugins.push(probes);
    let stack = Stack::start(Kind::Fpm, &plan);
    install(&stack);
    stack.php("probe_fillers();");
    let mut wrong = String::new();
    for Row { query, change } in ROWS {
        let path = format!("/probe-{query}/");
        let subjects = stack.php(&format!("echo serialize(probe_subjects('{query}'));"));
        wait_for("a warm page", TIMEOUT, || stack.get(&path).is_hit());
        let before = stack.get(&path).text();
        stack.php(&format!(
            "$other = username_exists('editor'); extract(unserialize('{subjects}')); {change}"
        ));
        let page = stack.get(&path).text();
        let truth = stack.php(&format!("echo probe('{query}');"));
        assert_ne!(found(&before), found(&truth), "{query}: changes nothing");
        if found(&page) != found(&truth) {
            let _ = writeln!(
                wrong,
                "{query}: {} instead of {}",
                found(&page),
                found(&truth)
            );
        }
    }
    assert!(wrong.is_empty(), "stale lists:\n{wrong}");
}

/// A list without ranks is purged by posts that leave it or come in, not by such as it did not show.
#[test]
fn what_leaves_a_list_that_did_not_show_it_purges_nothing() {
    let mut plan = SiteBuilder::new([(PLUGIN, HOUR.to_owned())]);
    plan.token = Some(TOKEN);
    let probes = ("probes.php".to_owned(), PROBES.to_owned());
    plan.options.mu_plugins.push(probes);
    let stack = Stack::start(Kind::Fpm, &plan);
    install(&stack);
    stack.php("probe_fillers();");
    let name = "members-leave";
    let make = "extract(probe_subjects('members-leave')); echo $id;";
    let ids = [0; 5].map(|_| stack.php(make).trim().to_owned());
    let path = format!("/probe-{name}/");
    let warm = || wait_for("a warm page", TIMEOUT, || stack.get(&path).is_hit());
    warm();
    let shown = found(&stack.get(&path).text()).to_owned();
    assert!(
        !shown.contains(&ids[0]) && shown.contains(&ids[4]),
        "{shown}"
    );
    stack.php(&format!("wp_trash_post({});", ids[0]));
    assert!(stack.get(&path).is_hit());
    stack.php(&format!("wp_trash_post({});", ids[4]));
    assert!(!found(&stack.get(&path).text()).contains(&ids[4]));
    warm();
    stack.php(&format!(
        "wp_untrash_post({0}); wp_publish_post({0});",
        ids[0]
    ));
    assert!(!stack.get(&path).is_hit());
}

#[test]
fn a_password_takes_a_post_out_of_searches_and_its_removal_brings_it_back() {
    let (stack, _turn) = turn();
    let id = stack.publish(["quagga-sighted"])[0];
    stack.php(&format!(
        "wp_insert_comment(['comment_post_ID' => {id}, 'comment_content' => 'A striped comment', 'comment_author' => 'Ann', 'comment_approved' => 1]);"
    ));
    let search = "/?s=quagga-sighted";
    let comments = "/wp-json/wp/v2/comments?per_page=3";
    let edit = |password: &str| {
        for path in [search, comments] {
            stack.get(path);
            assert!(stack.get(path).is_hit(), "{path} cannot be warmed");
        }
        rest(
            stack,
            "POST",
            &format!("/wp/v2/posts/{id}"),
            &json!({ "password": password }),
        );
    };
    let nothing = "no-results not-found";
    assert_no_text(&stack.get(search), nothing);
    edit("oar");
    assert_text(&stack.get(search), nothing);
    assert_no_text(&stack.get(comments), "A striped comment");
    edit("");
    assert_no_text(&stack.get(search), nothing);
    assert_text(&stack.get(comments), "A striped comment");
}

#[test]
fn pictures_are_seen_as_long_as_their_post_is() {
    let (stack, _turn) = turn();
    let id = id_of(stack, "salt-smoke-and-patience");
    let picture = stack.php(&format!(
        "echo wp_insert_attachment(['post_title' => 'A smoked eel', 'post_name' => 'smoked-eel', 'post_mime_type' => 'image/png', 'post_status' => 'inherit', 'post_author' => 1], false, {id});"
    ));
    let of_picture = format!("/?attachment_id={}", picture.trim());
    let paths = [
        of_picture.as_str(),
        "/salt-smoke-and-patience/smoked-eel/",
        "/wp-json/wp/v2/media?search=smoked",
    ];
    let status = |wanted: &str| {
        for path in paths {
            stack.get(path);
            wait_for("a warm page", TIMEOUT, || stack.get(path).is_hit());
        }
        stack.php(&format!(
            "wp_update_post(['ID' => {id}, 'post_status' => '{wanted}']);"
        ));
    };
    status("private");
    assert_eq!(stack.get(paths[1]).status, 404);
    assert_eq!(stack.get(paths[0]).status, 404);
    assert_no_text(&stack.get(paths[2]), "smoked eel");
    status("publish");
    assert_eq!(stack.get(paths[1]).status, 200);
    assert_text(&stack.get(paths[2]), "smoked eel");
    for path in paths {
        stack.get(path);
        wait_for("a warm page", TIMEOUT, || stack.get(path).is_hit());
    }
    stack.php(&format!(
        "wp_update_post(['ID' => {id}, 'post_name' => 'salt-and-smoke']);"
    ));
    assert_text(&stack.get(paths[2]), "salt-and-smoke\\/smoked-eel");
    stack.php(&format!(
        "wp_update_post(['ID' => {id}, 'post_name' => 'salt-smoke-and-patience']);"
    ));
}
