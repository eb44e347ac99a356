//! HTML that widgets and other code keep in the object cache, in transients and in options: it has no markers, and pages that show it have
//! the tags of what it shows.

use std::fs;

use serde_json::json;

use galley_testkit::client::{Request, Response};
use galley_testkit::wait_for;

use super::super::stack::{TIMEOUT, WordPressStack, assert_no_text, assert_text};
use super::members::{ASSEMBLED, PATH, member, start_with, store, visit};
use super::rest_api;

const PATHS: [&str; 2] = ["/about/", PATH];

/// The ways in which the widget of kept-html.php keeps its HTML.
const WAYS: [&str; 3] = ["widget", "group", "transient"];

/// Starts a stack with a widget that keeps its HTML, with or without a persistent object cache.
fn start(has_object_cache: bool) -> WordPressStack {
    let stack = start_with("twentytwentyone", include_str!("kept-html.php"));
    if has_object_cache {
        let file = stack.wordpress.root.join("wp-content/object-cache.php");
        fs::write(file, include_str!("object-cache.php")).unwrap();
    }
    stack.php(
        "update_option('widget_kept', [2 => [], '_multiwidget' => 1]); $all = wp_get_sidebars_widgets(); \
         $name = current(array_diff(array_keys(array_filter($all)), ['wp_inactive_widgets'])); \
         array_unshift($all[$name], 'kept-2'); wp_set_sidebars_widgets($all);",
    );
    stack
}

fn assert_no_marker(page: &Response) {
    assert_no_text(page, "!--galley-");
}

/// Asserts that neither the database nor the object cache contains markers.
#[track_caller]
fn assert_no_marker_is_kept(stack: &WordPressStack) {
    let rows = stack.php(
        "global $wpdb; echo json_encode($wpdb->get_col(\"SELECT option_name FROM $wpdb->options WHERE option_value LIKE '%!--galley-%'\")), \
         json_encode(is_array(get_option('kept_option')));",
    );
    assert_eq!(rows.trim(), "[]true");
    let folder = fs::read_dir(stack.wordpress.root.join("wp-content/kept"));
    for entry in folder.into_iter().flatten() {
        let path = entry.unwrap().path();
        let text = fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        assert!(!text.contains("!--galley-"), "{}: {text}", path.display());
    }
}

/// Asserts that all pages show a title in all kept lists.
#[track_caller]
fn assert_shown(stack: &WordPressStack, title: &str) {
    for path in PATHS {
        let page = stack.get(path);
        for way in WAYS {
            assert_text(&page, &format!("{way}: {title}"));
        }
        assert_no_marker(&page);
    }
}

#[test]
fn kept_html_has_no_markers_and_pages_have_the_tags_of_what_it_shows() {
    for has_object_cache in [true, false] {
        let stack = &start(has_object_cache);
        for path in PATHS {
            store(stack, path);
        }
        // PHP sends the header of such a page after it has destroyed the object cache.
        assert_eq!(stack.get("/about").status, 301);
        let new = json!({ "title": "Kept title 0", "status": "publish" });
        let post = rest_api(stack, "POST", "/wp/v2/posts", &new);
        let id = &post["id"];
        assert_shown(stack, "Kept title 0");
        for number in 1..4 {
            let title = format!("Kept title {number}");
            for path in PATHS {
                store(stack, path);
            }
            let path = format!("/wp/v2/posts/{id}");
            rest_api(stack, "POST", &path, &json!({ "title": title }));
            assert_shown(stack, &title);
        }
        assert_no_marker_is_kept(stack);

        // Members, and a visitor whose page PHP generates without a description.
        let mut ann = member(stack, "ann");
        wait_for("private fragments from memory", TIMEOUT, || {
            let page = visit(&mut ann, PATH);
            assert_no_marker(&page);
            page.cache_status() == ASSEMBLED
        });
        let page = stack.send(Request::get(PATH).field("Cookie", "comment_author_a=Eve"));
        assert!(!page.is_hit(), "{}", page.excerpt());
        assert_text(&page, "kept-file");
        assert_text(&page, "group: Kept title 3");
        assert_no_marker(&page);
        assert_no_marker_is_kept(stack);
    }
}

#[test]
fn pages_that_lack_what_a_task_keeps_live_for_a_moment() {
    for has_object_cache in [true, false] {
        let stack = &start(has_object_cache);
        stack.php("set_transient('kept_by_task', '<p>Text by a task</p>', 3600);");
        for path in PATHS {
            wait_for("a stored page with the text", TIMEOUT, || {
                let page = stack.get(path);
                page.is_hit() && page.text().contains("Text by a task")
            });
        }
    }
}
