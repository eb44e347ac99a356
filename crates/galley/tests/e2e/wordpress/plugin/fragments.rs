//! Shared fragments: what only a sidebar shows is replaced in stored pages, and the pages are not generated again.

use serde_json::json;

use super::super::stack::{Stack, assert_text};
use super::{is_patched, rest, turn};
use galley_testkit::client::Response;

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
