//! Shared fragments: changed sidebars and menus are replaced in stored pages, and PHP does not generate the pages again.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use galley_testkit::client::{Request, Response};
use galley_testkit::exactness::{KEPT_WIDGET, diff};
use galley_testkit::wait_for;

use super::super::stack::{HOUR, StackOptions, TIMEOUT, UpstreamKind, WordPressStack, assert_text};
use super::tags_and_lifetimes::why_report;
use super::{PLUGIN, TOKEN, generations, install, is_patched, rest_api, start};

/// Returns the page without the request data that lab.php prints, and without the link that proves visits: pages have it from the moment at
/// which Galley asks for it, when many were generated.
fn visible_text(page: &Response) -> String {
    let text = page.text();
    let is_page =
        |line: &&str| !line.starts_with("HTTP_") && !line.contains("/galley-visit/style.css");
    let lines = text.lines().filter(is_page);
    lines.collect::<Vec<_>>().join("\n")
}

/// Purges the page and returns the one that PHP generates.
fn generated(stack: &WordPressStack, path: &str) -> Response {
    stack.php(&format!(
        "do_action('galley_purge_url', home_url('{path}'));"
    ));
    let page = stack.get(path);
    assert!(!page.is_hit(), "{path}: {}", page.excerpt());
    page
}

/// Compares a stored page with the one that PHP generates.
fn assert_as_generated(stack: &WordPressStack, path: &str, stored: &Response) {
    let (stored, generated) = (visible_text(stored), visible_text(&generated(stack, path)));
    let difference = diff::lines(&stored, &generated);
    assert!(
        stored == generated,
        "{path}, generated again (+):\n{difference}"
    );
}

#[test]
fn a_new_post_is_patched_into_the_sidebars_of_stored_pages() {
    // A separate stack: other tests may have switched fragments off in the shared WordPress.
    let stack = &start(UpstreamKind::Fpm);
    let paths = ["/about/", "/salt-smoke-and-patience/"];
    store_with_fragments(stack, &paths);
    let title = "Patched Into Every Sidebar";
    let post = rest_api(
        stack,
        "POST",
        "/wp/v2/posts",
        &json!({ "title": title, "status": "publish" }),
    );
    for path in paths {
        let page = stack.get(path);
        assert!(page.is_hit(), "{path}: {}", page.excerpt());
        assert_text(&page, title);
        assert_as_generated(stack, path, &page);
    }
    let id = post["id"].as_u64().unwrap();
    rest_api(
        stack,
        "DELETE",
        &format!("/wp/v2/posts/{id}?force=true"),
        &json!({}),
    );
}

#[test]
fn pages_are_patched_before_a_visitor_requests_them() {
    let stack = start(UpstreamKind::Fpm);
    let paths = ["/about/", "/salt-smoke-and-patience/"];
    store_with_fragments(&stack, &paths);
    let before = fetch_count(&stack);
    let title = "Patched In The Background";
    let new = json!({ "title": title, "status": "publish" });
    rest_api(&stack, "POST", "/wp/v2/posts", &new);
    for path in paths {
        wait_for("the patched page", TIMEOUT, || {
            let entry = &why_report(&stack, path)["entry"];
            entry["validity"] == "valid" && entry["fragments"].to_string().contains("widget/")
        });
        let page = stack.get(path);
        assert!(page.is_hit() && !is_patched(&page), "{}", page.excerpt());
        assert_text(&page, title);
    }
    let requests = fetch_count(&stack) - before;
    assert!(
        requests <= 2,
        "{requests} requests for all fragments of two pages"
    );
}

/// Renames a menu item and a category. Pages with different current menu items are patched.
#[test]
fn menus_and_lists_of_categories_are_patched() {
    let stack = start(UpstreamKind::Fpm);
    let posts = ["/about/", "/salt-smoke-and-patience/"];
    let item = stack.php(
        "$page = get_page_by_path('about')->ID; $menu = get_nav_menu_locations()['primary']; \
         wp_update_nav_menu_item($menu, 0, array('menu-item-object-id' => $page, 'menu-item-object' => 'page', \
         'menu-item-type' => 'post_type', 'menu-item-status' => 'publish')); \
         echo wp_get_nav_menu_items($menu)[0]->ID;",
    );
    let category = stack.php("echo get_the_category(get_page_by_path('salt-smoke-and-patience', OBJECT, 'post')->ID)[0]->term_id;");
    for path in posts {
        stack.get(path);
        wait_for("the shared menu of the page", TIMEOUT, || {
            let page = why_report(&stack, path);
            let fragments = page["entry"]["fragments"].as_array().cloned();
            fragments.unwrap_or_default().iter().any(|fragment| {
                fragment["label"]
                    .as_str()
                    .is_some_and(|label| label.starts_with("menu/"))
                    && fragment["shared"] == true
            })
        });
    }
    wait_until_idle(&stack);
    assert_text(&stack.get("/about/"), "current-menu-item");
    let edits: [&dyn Fn(); 2] = [
        &|| {
            let title = format!(
                "wp_update_post(array('ID' => {item}, 'post_title' => 'Called Otherwise'));"
            );
            stack.php(&title);
        },
        &|| {
            // The new name sorts like the old one, so the CSS classes of the posts keep their order.
            let name = format!(
                "wp_update_term({category}, 'category', array('name' => get_term({category})->name . ' Otherwise'));"
            );
            stack.php(&name);
        },
    ];
    for edit in edits {
        let before: Vec<_> = posts
            .iter()
            .map(|path| generations(&stack, path)[0])
            .collect();
        edit();
        for (path, before) in posts.iter().zip(before) {
            let page = stack.get(path);
            assert!(page.is_hit(), "{path}: {}", page.excerpt());
            assert_eq!(
                generations(&stack, path)[0],
                before,
                "{path} was generated again"
            );
            assert_as_generated(&stack, path, &page);
        }
    }
    let post = stack.get(posts[1]);
    assert_text(&post, "Called Otherwise");
    assert_text(&post, " Otherwise</a>");
}

/// Returns how many pages and fragments Galley has fetched.
fn fetch_count(stack: &WordPressStack) -> u64 {
    let admin = stack.galley.admin().unwrap();
    let address = admin.trim_start_matches("http://").trim_end_matches('/');
    let metrics = Request::get("/metrics")
        .field("Authorization", format!("Bearer {TOKEN}"))
        .send(address.parse().unwrap())
        .unwrap();
    let metrics = metrics.text();
    let lines = metrics
        .lines()
        .filter(|line| line.starts_with("galley_fills_total{"));
    let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    counts.sum()
}

/// Background requests use at most half of the slots, so with one slot they often find none free.
#[test]
fn fragment_requests_are_retried_while_php_is_busy() {
    let mut options = StackOptions::new([(PLUGIN, format!("in_flight = 1\n{HOUR}"))]);
    options.admin_token = Some(TOKEN);
    let stack = WordPressStack::start(UpstreamKind::Fpm, &options);
    install(&stack);
    stack.get("/about/");
    wait_for("the shared fragments of the page", TIMEOUT, || {
        fragments_with(&stack, "/about/", "shared") > 3
    });
}

/// Stores pages, and waits until Galley knows which of their fragments are shared.
fn store_with_fragments(stack: &WordPressStack, paths: &[&str]) {
    for path in paths {
        wait_for("the shared fragments of the page", TIMEOUT, || {
            stack.get(path);
            fragments_with(stack, path, "shared") > 3
        });
    }
    wait_until_idle(stack);
}

/// Waits until Galley sends no more requests. It collects the new fragments of several pages before it has them rendered.
fn wait_until_idle(stack: &WordPressStack) {
    let mut last = (fetch_count(stack), Instant::now());
    wait_for("no more requests to PHP", TIMEOUT, || {
        let now = fetch_count(stack);
        if now != last.0 {
            last = (now, Instant::now());
        }
        last.1.elapsed() > IDLE_TIME
    });
}

/// Longer than Galley collects fragments, and longer than a request takes.
const IDLE_TIME: Duration = Duration::from_secs(2);

/// Returns how many fragments of a stored page have a property.
fn fragments_with(stack: &WordPressStack, path: &str, property: &str) -> usize {
    let page = why_report(stack, path);
    let fragments = page["entry"]["fragments"].as_array().cloned();
    let has = |fragment: &&Value| fragment[property] == true;
    fragments.unwrap_or_default().iter().filter(has).count()
}

/// Functions for [`KEPT_WIDGET`], which each page of a listed post shows in a context of its own.
const KEPT: &str = include_str!("kept_comments.php");

#[test]
fn a_widget_that_keeps_its_html_is_patched_on_every_page() {
    let mut options = StackOptions::new([(PLUGIN, HOUR.to_owned())]);
    options.admin_token = Some(TOKEN);
    for (name, text) in [
        ("kept_widget.php", KEPT_WIDGET),
        ("kept_comments.php", KEPT),
    ] {
        let file = (name.to_owned(), text.to_owned());
        options.wordpress.mu_plugins.push(file);
    }
    let stack = &WordPressStack::start(UpstreamKind::Fpm, &options);
    install(stack);
    let posts = ["kept-one", "kept-two", "kept-three", "kept-four"];
    stack.php(&format!("show_kept_comments('{}');", posts.join("', '")));
    let mut paths: Vec<_> = posts.iter().map(|post| format!("/{post}/")).collect();
    paths.extend(["/about/".to_owned(), "/contact/".to_owned()]);
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    // The first requests are close together, so one request to PHP renders the widget for several pages.
    for path in &paths {
        stack.get(path);
    }
    store_with_fragments(stack, &paths);
    for round in 1..4 {
        let text = format!("Approved in round {round}.");
        stack.php(&format!("approve_comment('{}', '{text}');", posts[0]));
        for path in &paths {
            assert_text(&stack.get(path), &text);
        }
        wait_until_idle(stack);
    }
    for path in paths {
        assert_as_generated(stack, path, &stack.get(path));
    }
}

/// A must-use plugin that prints the content of a file into each widget.
const CHANGING: &str = "<?php add_filter('dynamic_sidebar_params', function ($params) { \
    $params[0]['before_widget'] .= file_get_contents(WP_CONTENT_DIR . '/quotation.txt'); return $params; });";

#[test]
fn fragments_that_change_without_a_purge_are_switched_off() {
    let stack = start(UpstreamKind::Fpm);
    let content = stack.wordpress.root.join("wp-content");
    let quote = |text: &str| fs::write(content.join("quotation.txt"), text).unwrap();
    fs::create_dir_all(content.join("mu-plugins")).unwrap();
    fs::write(content.join("mu-plugins/changing.php"), CHANGING).unwrap();
    quote("first quotation");
    // The fragments are rendered for the first page, so a purge of its URL purges the rendered fragments.
    let paths = ["/about/", "/salt-smoke-and-patience/"];
    store_with_fragments(&stack, &paths);
    wait_for("a second difference", TIMEOUT, || {
        for text in ["second quotation", "first quotation"] {
            quote(text);
            assert_text(&generated(&stack, paths[1]), text);
        }
        fragments_with(&stack, paths[0], "switched_off") > 3
    });
    assert!(
        stack.get(paths[0]).is_hit(),
        "the page was purged too early"
    );
    quote("third quotation");
    let new = json!({ "title": "Posted During The Test", "status": "publish" });
    rest_api(&stack, "POST", "/wp/v2/posts", &new);
    let why = why_report(&stack, paths[0])["advice"]["why"].to_string();
    assert!(why.contains("changes without a purge"), "{why}");
    let page = stack.get(paths[0]);
    assert!(!page.is_hit(), "{}", page.excerpt());
    assert_text(&page, "third quotation");
    let settings = stack
        .admin()
        .get("/wp-admin/options-general.php?page=galley");
    assert_text(&settings.unwrap(), "widget/search-2");
}

/// A must-use plugin that fails when a widget is rendered without its page, and counts the attempts.
const FAILING: &str = "<?php if (isset($_SERVER['HTTP_GALLEY_FRAGMENT'])) { \
    file_put_contents(WP_CONTENT_DIR . '/renderings.txt', '.', FILE_APPEND); \
    add_filter('dynamic_sidebar_params', function ($params) { throw new \\Exception('not without its page'); }); }";

#[test]
fn a_fragment_that_fails_to_render_is_reported() {
    let stack = start(UpstreamKind::Fpm);
    let content = stack.wordpress.root.join("wp-content");
    let failing = content.join("mu-plugins/failing.php");
    fs::create_dir_all(content.join("mu-plugins")).unwrap();
    let path = "/about/";
    store_with_fragments(&stack, &[path]);
    fs::write(&failing, FAILING).unwrap();
    let title = "Posted While It Fails";
    let new = json!({ "title": title, "status": "publish" });
    rest_api(&stack, "POST", "/wp/v2/posts", &new);
    wait_for("a failure", TIMEOUT, || {
        fragments_with(&stack, path, "failed") > 0
    });
    assert_text(&stack.get(path), title);
    assert!(fragments_with(&stack, path, "failed") > 0);
    let settings = stack
        .admin()
        .get("/wp-admin/options-general.php?page=galley");
    assert_text(
        &settings.unwrap(),
        "could not be rendered without their page",
    );
}

#[test]
fn a_failing_fragment_is_retried_with_backoff() {
    let stack = start(UpstreamKind::Fpm);
    let content = stack.wordpress.root.join("wp-content");
    fs::create_dir_all(content.join("mu-plugins")).unwrap();
    fs::write(content.join("mu-plugins/failing.php"), FAILING).unwrap();
    let attempts = || fs::read(content.join("renderings.txt")).map_or(0, |all| all.len());
    let start = Instant::now();
    stack.get("/about/");
    let fragments = why_report(&stack, "/about/")["entry"]["fragments"].clone();
    let fragments = fragments.as_array().map_or(0, Vec::len);
    assert!(fragments > 3, "{fragments}");
    wait_for("a rendering", TIMEOUT, || attempts() > 0);
    for _ in 0..20 {
        generated(&stack, "/about/");
        generated(&stack, "/salt-smoke-and-patience/");
    }
    // Attempts are made after 0, 2, 6, 14, 30 seconds and so on.
    let retries = (start.elapsed().as_secs() / 2 + 1).ilog2();
    let limit = fragments * (1 + usize::try_from(retries).unwrap());
    assert!(
        attempts() <= limit,
        "{} attempts for {fragments} fragments",
        attempts()
    );
}
