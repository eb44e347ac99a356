//! Shared fragments: what only a sidebar shows is replaced in stored pages, and the pages are not generated again.

use serde_json::json;

use galley_testkit::client::Response;
use galley_testkit::wait_for;

use super::super::stack::{HOUR, Kind, PATIENCE, Plan, Stack, assert_text};
use super::pages::explained;
use super::{PLUGIN, TOKEN, install, is_patched, rest, turn};

/// What visitors see: without what the probe of these tests tells of the request.
fn shown(page: &Response) -> String {
    let text = page.text();
    let lines = text.lines().filter(|line| !line.starts_with("HTTP_"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The page as PHP generates it now.
fn generated(stack: &Stack, path: &str) -> Response {
    stack.php(&format!(
        "do_action('galley_purge_url', home_url('{path}'));"
    ));
    let page = stack.get(path);
    assert!(!page.is_hit(), "{path}: {}", page.beginning());
    page
}

#[test]
fn a_new_post_is_patched_into_the_sidebars_of_stored_pages() {
    let (stack, _turn) = turn();
    let paths = ["/about/", "/salt-smoke-and-patience/"];
    for path in paths {
        stack.get(path);
    }
    let title = "Patched Into Every Sidebar";
    let post = rest(
        stack,
        "POST",
        "/wp/v2/posts",
        &json!({ "title": title, "status": "publish" }),
    );
    for path in paths {
        let page = stack.get(path);
        assert!(is_patched(&page), "{path}: {}", page.beginning());
        assert_text(&page, title);
        assert!(stack.get(path).is_hit());
        assert_eq!(shown(&page), shown(&generated(stack, path)), "{path}");
    }
    let id = post["id"].as_u64().unwrap();
    rest(
        stack,
        "DELETE",
        &format!("/wp/v2/posts/{id}?force=true"),
        &json!({}),
    );
}

/// Background requests leave visitors half of the slots, so that with one slot they often find none.
#[test]
fn every_fragment_is_tried_again_while_php_is_busy() {
    let mut plan = Plan::new([(PLUGIN, format!("in_flight = 1\n{HOUR}"))]);
    plan.token = Some(TOKEN);
    let stack = Stack::start(Kind::Fpm, &plan);
    install(&stack);
    stack.get("/about/");
    wait_for("the shared fragments of the page", PATIENCE, || {
        let page = explained(&stack, "/about/");
        let parts = page["entry"]["fragments"].as_array().cloned();
        let parts = parts.unwrap_or_default();
        parts.len() > 3 && parts.iter().filter(|part| part["shared"] == true).count() > 3
    });
}
