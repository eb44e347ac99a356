//! Shared fragments: what only a sidebar shows is replaced in stored pages, and the pages are not generated again.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use galley_testkit::client::{Request, Response};
use galley_testkit::wait_for;

use super::super::stack::{HOUR, Kind, SiteBuilder, Stack, TIMEOUT, assert_text};
use super::pages::explained;
use super::{PLUGIN, TOKEN, births, install, is_patched, rest, start};

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
    // Of its own: what other tests do to their WordPress may have switched fragments off.
    let stack = &start(Kind::Fpm);
    let paths = ["/about/", "/salt-smoke-and-patience/"];
    store_with_parts(stack, &paths);
    let title = "Patched Into Every Sidebar";
    let post = rest(
        stack,
        "POST",
        "/wp/v2/posts",
        &json!({ "title": title, "status": "publish" }),
    );
    for path in paths {
        let page = stack.get(path);
        assert!(page.is_hit(), "{path}: {}", page.beginning());
        assert_text(&page, title);
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

#[test]
fn pages_are_patched_before_a_visitor_requests_them() {
    let stack = start(Kind::Fpm);
    let paths = ["/about/", "/salt-smoke-and-patience/"];
    store_with_parts(&stack, &paths);
    let before = requests_to_php(&stack);
    let title = "Nobody Waits For It";
    let new = json!({ "title": title, "status": "publish" });
    rest(&stack, "POST", "/wp/v2/posts", &new);
    for path in paths {
        wait_for("the patched page", TIMEOUT, || {
            let entry = &explained(&stack, path)["entry"];
            entry["standing"] == "valid" && entry["fragments"].to_string().contains("widget/")
        });
        let page = stack.get(path);
        assert!(page.is_hit() && !is_patched(&page), "{}", page.beginning());
        assert_text(&page, title);
    }
    let requests = requests_to_php(&stack) - before;
    assert!(
        requests <= 2,
        "{requests} requests for all fragments of two pages"
    );
}

/// Another title of an item of the menu and another name of a category: pages with different current items are patched.
#[test]
fn menus_and_lists_of_categories_are_patched() {
    let stack = start(Kind::Fpm);
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
            let page = explained(&stack, path);
            let parts = page["entry"]["fragments"].as_array().cloned();
            parts.unwrap_or_default().iter().any(|part| {
                part["label"]
                    .as_str()
                    .is_some_and(|label| label.starts_with("menu/"))
                    && part["shared"] == true
            })
        });
    }
    wait_until_quiet(&stack);
    assert_text(&stack.get("/about/"), "current-menu-item");
    let edits: [&dyn Fn(); 2] = [
        &|| {
            let title = format!(
                "wp_update_post(array('ID' => {item}, 'post_title' => 'Called Otherwise'));"
            );
            stack.php(&title);
        },
        &|| {
            // It keeps its place among the categories of each post, and so in the CSS classes of the post.
            let name = format!(
                "wp_update_term({category}, 'category', array('name' => get_term({category})->name . ' Otherwise'));"
            );
            stack.php(&name);
        },
    ];
    for edit in edits {
        let before: Vec<_> = posts.iter().map(|path| births(&stack, path)[0]).collect();
        edit();
        for (path, before) in posts.iter().zip(before) {
            let page = stack.get(path);
            assert!(page.is_hit(), "{path}: {}", page.beginning());
            assert_eq!(births(&stack, path)[0], before, "{path} was generated");
            assert_eq!(shown(&page), shown(&generated(&stack, path)), "{path}");
        }
    }
    let post = stack.get(posts[1]);
    assert_text(&post, "Called Otherwise");
    assert_text(&post, " Otherwise</a>");
}

/// Pages and fragments that the server has fetched.
fn requests_to_php(stack: &Stack) -> u64 {
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

/// Background requests leave visitors half of the slots, so that with one slot they often find none.
#[test]
fn every_fragment_is_tried_again_while_php_is_busy() {
    let mut plan = SiteBuilder::new([(PLUGIN, format!("in_flight = 1\n{HOUR}"))]);
    plan.token = Some(TOKEN);
    let stack = Stack::start(Kind::Fpm, &plan);
    install(&stack);
    stack.get("/about/");
    wait_for("the shared fragments of the page", TIMEOUT, || {
        parts_with(&stack, "/about/", "shared") > 3
    });
}

/// Stores pages, and waits until PHP has shown which of their parts other pages share.
fn store_with_parts(stack: &Stack, paths: &[&str]) {
    for path in paths {
        wait_for("the shared fragments of the page", TIMEOUT, || {
            stack.get(path);
            parts_with(stack, path, "shared") > 3
        });
    }
    wait_until_quiet(stack);
}

/// Waits until the server requests nothing any more: it gathers the new parts of several pages before it has them rendered.
fn wait_until_quiet(stack: &Stack) {
    let mut last = (requests_to_php(stack), Instant::now());
    wait_for("the server to request nothing", TIMEOUT, || {
        let now = requests_to_php(stack);
        if now != last.0 {
            last = (now, Instant::now());
        }
        last.1.elapsed() > QUIET
    });
}

/// Longer than the server gathers, and than a request takes.
const QUIET: Duration = Duration::from_secs(2);

/// How many fragments of a stored page have this property.
fn parts_with(stack: &Stack, path: &str, property: &str) -> usize {
    let page = explained(stack, path);
    let parts = page["entry"]["fragments"].as_array().cloned();
    let has = |part: &&Value| part[property] == true;
    parts.unwrap_or_default().iter().filter(has).count()
}

/// A plugin of the site that prints what is in a file into each widget.
const CHANGING: &str = "<?php add_filter('dynamic_sidebar_params', function ($params) { \
    $params[0]['before_widget'] .= file_get_contents(WP_CONTENT_DIR . '/quotation.txt'); return $params; });";

#[test]
fn parts_that_change_without_a_purge_are_switched_off() {
    let stack = start(Kind::Fpm);
    let content = stack.wordpress.root.join("wp-content");
    let quote = |text: &str| fs::write(content.join("quotation.txt"), text).unwrap();
    fs::create_dir_all(content.join("mu-plugins")).unwrap();
    fs::write(content.join("mu-plugins/changing.php"), CHANGING).unwrap();
    quote("first quotation");
    // The parts are rendered for the first page, so that a purge of its address purges what was rendered.
    let paths = ["/about/", "/salt-smoke-and-patience/"];
    store_with_parts(&stack, &paths);
    wait_for("a second difference", TIMEOUT, || {
        for text in ["second quotation", "first quotation"] {
            quote(text);
            assert_text(&generated(&stack, paths[1]), text);
        }
        parts_with(&stack, paths[0], "switched_off") > 3
    });
    assert!(stack.get(paths[0]).is_hit(), "a purge comes first");
    quote("third quotation");
    let new = json!({ "title": "Posted Meanwhile", "status": "publish" });
    rest(&stack, "POST", "/wp/v2/posts", &new);
    let why = explained(&stack, paths[0])["advice"]["why"].to_string();
    assert!(why.contains("changes without a purge"), "{why}");
    let page = stack.get(paths[0]);
    assert!(!page.is_hit(), "{}", page.beginning());
    assert_text(&page, "third quotation");
    let settings = stack
        .admin()
        .get("/wp-admin/options-general.php?page=galley");
    assert_text(&settings.unwrap(), "widget/search-2");
}

/// A plugin of the site that fails wherever a widget is rendered without its page, and counts that.
const FAILING: &str = "<?php if (isset($_SERVER['HTTP_GALLEY_FRAGMENT'])) { \
    file_put_contents(WP_CONTENT_DIR . '/renderings.txt', '.', FILE_APPEND); \
    add_filter('dynamic_sidebar_params', function ($params) { throw new \\Exception('not without its page'); }); }";

#[test]
fn a_part_that_cannot_be_rendered_is_named() {
    let stack = start(Kind::Fpm);
    let content = stack.wordpress.root.join("wp-content");
    let failing = content.join("mu-plugins/failing.php");
    fs::create_dir_all(content.join("mu-plugins")).unwrap();
    let path = "/about/";
    store_with_parts(&stack, &[path]);
    fs::write(&failing, FAILING).unwrap();
    let title = "Posted While It Fails";
    let new = json!({ "title": title, "status": "publish" });
    rest(&stack, "POST", "/wp/v2/posts", &new);
    wait_for("a failure", TIMEOUT, || {
        parts_with(&stack, path, "failed") > 0
    });
    assert_text(&stack.get(path), title);
    assert!(parts_with(&stack, path, "failed") > 0);
    let settings = stack
        .admin()
        .get("/wp-admin/options-general.php?page=galley");
    assert_text(
        &settings.unwrap(),
        "could not be rendered without their page",
    );
}

#[test]
fn a_part_that_cannot_be_rendered_is_not_tried_with_every_page() {
    let stack = start(Kind::Fpm);
    let content = stack.wordpress.root.join("wp-content");
    fs::create_dir_all(content.join("mu-plugins")).unwrap();
    fs::write(content.join("mu-plugins/failing.php"), FAILING).unwrap();
    let tried = || fs::read(content.join("renderings.txt")).map_or(0, |all| all.len());
    let began = Instant::now();
    stack.get("/about/");
    let parts = explained(&stack, "/about/")["entry"]["fragments"].clone();
    let parts = parts.as_array().map_or(0, Vec::len);
    assert!(parts > 3, "{parts}");
    wait_for("a rendering", TIMEOUT, || tried() > 0);
    for _ in 0..20 {
        generated(&stack, "/about/");
        generated(&stack, "/salt-smoke-and-patience/");
    }
    // At 0, 2, 6, 14, 30 seconds and so on.
    let pauses = (began.elapsed().as_secs() / 2 + 1).ilog2();
    let most = parts * (1 + usize::try_from(pauses).unwrap());
    assert!(tried() <= most, "{} for {parts} parts", tried());
}
