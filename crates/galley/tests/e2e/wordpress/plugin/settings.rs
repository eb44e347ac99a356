//! Purges after changes of settings, widgets, menus and templates.

use serde_json::json;

use super::super::stack::{UpstreamKind, assert_text};
use super::{ExpectedPurges, nonce_in, rest_api, shared_stack, start};

#[test]
fn saving_a_settings_page_purges_pages_that_use_the_setting() {
    let (stack, _lock) = shared_stack();
    let mut admin = stack.admin();
    let form = "/wp-admin/options-reading.php";
    let nonce = nonce_in(&mut admin, form, "name=\"_wpnonce\" value=\"");
    let expected = ExpectedPurges {
        purged: &["/feed/", "/category/harbour/feed/"],
        unaffected: &[
            "/",
            "/about/",
            "/wp-sitemap.xml",
            "/salt-smoke-and-patience/",
        ],
    };
    expected.check_after(stack, || {
        let fields = [
            ("option_page", "reading"),
            ("action", "update"),
            ("_wpnonce", nonce.as_str()),
            ("_wp_http_referer", form),
            ("show_on_front", "posts"),
            ("page_on_front", "0"),
            ("page_for_posts", "0"),
            ("posts_per_page", "10"),
            ("posts_per_rss", "10"),
            ("rss_use_excerpt", "1"),
            ("blog_charset", "UTF-8"),
            ("blog_public", "1"),
        ];
        let response = admin.post("/wp-admin/options.php", &fields).unwrap();
        assert_eq!(response.status, 302, "{}", response.excerpt());
    });
}

#[test]
fn renaming_the_site_purges_pages_that_show_the_name() {
    let (stack, _lock) = shared_stack();
    let expected = ExpectedPurges {
        purged: &["/", "/about/", "/feed/", "/wp-json/"],
        unaffected: &["/wp-sitemap-posts-page-1.xml", "/wp-json/wp/v2/pages"],
    };
    let pages = expected.check_after(stack, || {
        rest_api(
            stack,
            "POST",
            "/wp/v2/settings",
            &json!({ "title": "A Name Written Anew" }),
        );
    });
    assert_text(&pages[0], "A Name Written Anew");
}

#[test]
fn a_widget_change_purges_pages_that_show_it() {
    let (stack, _lock) = shared_stack();
    let expected = ExpectedPurges {
        purged: &["/", "/about/"],
        unaffected: &["/feed/", "/wp-json/wp/v2/pages", "/wp-sitemap.xml"],
    };
    let pages = expected.check_after(stack, || {
        let widget = json!({ "id": "search-2", "sidebar": "sidebar-1", "instance": { "raw": { "title": "Look it up" } } });
        rest_api(stack, "PUT", "/wp/v2/widgets/search-2", &widget);
    });
    assert_text(&pages[1], "Look it up");
}

#[test]
fn a_menu_change_purges_pages_that_show_the_menu() {
    let (stack, _lock) = shared_stack();
    let item = stack.php(
        "$menu = get_nav_menu_locations()['primary']; echo wp_get_nav_menu_items($menu)[0]->ID;",
    );
    let expected = ExpectedPurges {
        purged: &["/", "/about/"],
        unaffected: &["/feed/", "/wp-json/wp/v2/pages", "/wp-sitemap.xml"],
    };
    let pages = expected.check_after(stack, || {
        rest_api(
            stack,
            "POST",
            &format!("/wp/v2/menu-items/{}", item.trim()),
            &json!({ "title": "Called otherwise" }),
        );
    });
    assert_text(&pages[1], "Called otherwise");
}

#[test]
fn internal_options_of_plugins_purge_nothing() {
    let (stack, _lock) = shared_stack();
    let expected = ExpectedPurges {
        purged: &[],
        unaffected: &["/", "/about/", "/feed/", "/nowhere/"],
    };
    expected.check_after(stack, || {
        stack.php(
            "update_option('some_plugin_log', microtime()); set_transient('x', microtime(), 60); set_site_transient('y', 1, 60); \
             update_user_meta(1, 'session_tokens', get_user_meta(1, 'session_tokens', true)); update_option('rewrite_rules', '');",
        );
    });
}

/// Uses a separate stack, because switching the theme purges all pages.
#[test]
fn template_changes_purge_pages_that_use_the_template() {
    let stack = start(UpstreamKind::Fpm);
    let theme = ExpectedPurges {
        purged: &["/", "/about/", "/feed/", "/salt-smoke-and-patience/"],
        unaffected: &[],
    };
    theme.check_after(&stack, || {
        stack.php("switch_theme('twentytwentythree');");
    });
    let text = "<!-- wp:template-part {\"slug\":\"header\"} /--><!-- wp:paragraph --><p>A page of its own.</p><!-- /wp:paragraph -->";
    let page = ExpectedPurges {
        purged: &["/about/"],
        unaffected: &["/salt-smoke-and-patience/", "/", "/nowhere/", "/feed/"],
    };
    // The first change creates the template post, the second updates it.
    for round in ["one", "two"] {
        let pages = page.check_after(&stack, || {
            let body = json!({ "content": format!("{text}<!-- wp:paragraph --><p>Round {round}.</p><!-- /wp:paragraph -->") });
            rest_api(&stack, "POST", "/wp/v2/templates/twentytwentythree//page", &body);
        });
        assert_text(&pages[0], &format!("Round {round}."));
    }
    let part = ExpectedPurges {
        purged: &["/about/", "/salt-smoke-and-patience/", "/"],
        unaffected: &["/feed/", "/wp-json/wp/v2/pages"],
    };
    let pages = part.check_after(&stack, || {
        let body = json!({ "content": "<!-- wp:paragraph --><p>A head for all.</p><!-- /wp:paragraph -->" });
        rest_api(&stack, "POST", "/wp/v2/template-parts/twentytwentythree//header", &body);
    });
    assert_text(&pages[1], "A head for all.");
    // A synced pattern that one page shows.
    let pattern = rest_api(
        &stack,
        "POST",
        "/wp/v2/blocks",
        &json!({ "title": "P", "status": "publish", "content": "<p>Pattern one</p>" }),
    );
    let id = super::post_id(&stack, "salt-smoke-and-patience");
    rest_api(
        &stack,
        "POST",
        &format!("/wp/v2/posts/{id}"),
        &json!({ "content": format!("<!-- wp:block {{\"ref\":{}}} /-->", pattern["id"]) }),
    );
    let shown = ExpectedPurges {
        purged: &["/salt-smoke-and-patience/"],
        unaffected: &["/about/", "/nowhere/"],
    };
    let pages = shown.check_after(&stack, || {
        rest_api(
            &stack,
            "POST",
            &format!("/wp/v2/blocks/{}", pattern["id"]),
            &json!({ "content": "<p>Pattern two</p>" }),
        );
    });
    assert_text(&pages[0], "Pattern two");
}
