//! Settings, widgets, menus and templates: what all pages share, and what only some do.

use serde_json::json;

use super::super::stack::{Kind, assert_text};
use super::{Around, nonce_in, rest, start, turn};

#[test]
fn a_settings_page_changes_what_reads_the_setting() {
    let (stack, _turn) = turn();
    let mut admin = stack.admin();
    let form = "/wp-admin/options-reading.php";
    let nonce = nonce_in(&mut admin, form, "name=\"_wpnonce\" value=\"");
    let around = Around {
        changed: &["/feed/", "/category/harbour/feed/"],
        kept: &[
            "/",
            "/about/",
            "/wp-sitemap.xml",
            "/salt-smoke-and-patience/",
        ],
    };
    around.edit(stack, || {
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
        let answer = admin.post("/wp-admin/options.php", &fields).unwrap();
        assert_eq!(answer.status, 302, "{}", answer.beginning());
    });
}

#[test]
fn a_name_changes_all_that_show_it() {
    let (stack, _turn) = turn();
    let around = Around {
        changed: &["/", "/about/", "/feed/", "/wp-json/"],
        kept: &["/wp-sitemap-posts-page-1.xml", "/wp-json/wp/v2/pages"],
    };
    let pages = around.edit(stack, || {
        rest(
            stack,
            "POST",
            "/wp/v2/settings",
            &json!({ "title": "A Name Written Anew" }),
        );
    });
    assert_text(&pages[0], "A Name Written Anew");
}

#[test]
fn a_widget_changes_where_it_is_shown() {
    let (stack, _turn) = turn();
    let around = Around {
        changed: &["/", "/about/"],
        kept: &["/feed/", "/wp-json/wp/v2/pages", "/wp-sitemap.xml"],
    };
    let pages = around.edit(stack, || {
        let widget = json!({ "id": "search-2", "sidebar": "sidebar-1", "instance": { "raw": { "title": "Look it up" } } });
        rest(stack, "PUT", "/wp/v2/widgets/search-2", &widget);
    });
    assert_text(&pages[1], "Look it up");
}

#[test]
fn a_menu_item_changes_where_its_menu_is_shown() {
    let (stack, _turn) = turn();
    let item = stack.php(
        "$menu = get_nav_menu_locations()['primary']; echo wp_get_nav_menu_items($menu)[0]->ID;",
    );
    let around = Around {
        changed: &["/", "/about/"],
        kept: &["/feed/", "/wp-json/wp/v2/pages", "/wp-sitemap.xml"],
    };
    let pages = around.edit(stack, || {
        rest(
            stack,
            "POST",
            &format!("/wp/v2/menu-items/{}", item.trim()),
            &json!({ "title": "Called otherwise" }),
        );
    });
    assert_text(&pages[1], "Called otherwise");
}

#[test]
fn records_of_plugins_change_nothing() {
    let (stack, _turn) = turn();
    let around = Around {
        changed: &[],
        kept: &["/", "/about/", "/feed/", "/nowhere/"],
    };
    around.edit(stack, || {
        stack.php(
            "update_option('some_plugin_log', microtime()); set_transient('x', microtime(), 60); set_site_transient('y', 1, 60); \
             update_user_meta(1, 'session_tokens', get_user_meta(1, 'session_tokens', true)); update_option('rewrite_rules', '');",
        );
    });
}

/// Another theme, and templates of a block theme: a stack of its own, since all pages change.
#[test]
fn templates_change_what_is_made_with_them() {
    let stack = start(Kind::Fpm);
    let theme = Around {
        changed: &["/", "/about/", "/feed/", "/salt-smoke-and-patience/"],
        kept: &[],
    };
    theme.edit(&stack, || {
        stack.php("switch_theme('twentytwentythree');");
    });
    let text = "<!-- wp:template-part {\"slug\":\"header\"} /--><!-- wp:paragraph --><p>A page of its own.</p><!-- /wp:paragraph -->";
    let page = Around {
        changed: &["/about/"],
        kept: &["/salt-smoke-and-patience/", "/", "/nowhere/", "/feed/"],
    };
    // The first change of a template makes it; the second finds it.
    for round in ["one", "two"] {
        let pages = page.edit(&stack, || {
            let body = json!({ "content": format!("{text}<!-- wp:paragraph --><p>Round {round}.</p><!-- /wp:paragraph -->") });
            rest(&stack, "POST", "/wp/v2/templates/twentytwentythree//page", &body);
        });
        assert_text(&pages[0], &format!("Round {round}."));
    }
    let part = Around {
        changed: &["/about/", "/salt-smoke-and-patience/", "/"],
        kept: &["/feed/", "/wp-json/wp/v2/pages"],
    };
    let pages = part.edit(&stack, || {
        let body = json!({ "content": "<!-- wp:paragraph --><p>A head for all.</p><!-- /wp:paragraph -->" });
        rest(&stack, "POST", "/wp/v2/template-parts/twentytwentythree//header", &body);
    });
    assert_text(&pages[1], "A head for all.");
    // A pattern that one page shows.
    let pattern = rest(
        &stack,
        "POST",
        "/wp/v2/blocks",
        &json!({ "title": "P", "status": "publish", "content": "<p>Pattern one</p>" }),
    );
    let id = super::id_of(&stack, "salt-smoke-and-patience");
    rest(
        &stack,
        "POST",
        &format!("/wp/v2/posts/{id}"),
        &json!({ "content": format!("<!-- wp:block {{\"ref\":{}}} /-->", pattern["id"]) }),
    );
    let shown = Around {
        changed: &["/salt-smoke-and-patience/"],
        kept: &["/about/", "/nowhere/"],
    };
    let pages = shown.edit(&stack, || {
        rest(
            &stack,
            "POST",
            &format!("/wp/v2/blocks/{}", pattern["id"]),
            &json!({ "content": "<p>Pattern two</p>" }),
        );
    });
    assert_text(&pages[0], "Pattern two");
}
