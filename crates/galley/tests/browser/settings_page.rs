//! Forms of the plugin's settings page and their effect on visitors: purge log, purge by URL, lifetimes and exclusions, development
//! mode, preloading, and the cache column of post lists.

use galley_testkit::client::{Browser, Request};
use galley_testkit::wait_for;
use serde_json::{Value, json};

use super::site::{AssertStatus as _, PluginSite, TIMEOUT, shared, text_between};

const PAGE: &str = "/wp-admin/options-general.php?page=galley";

fn page(browser: &mut Browser) -> String {
    browser.get(PAGE).unwrap().expect_status(200).text()
}

/// Submits a form of the settings page with its nonce, and returns the redirect location.
#[track_caller]
fn submit(
    site: &PluginSite,
    browser: &mut Browser,
    action: &str,
    fields: &[(&str, &str)],
) -> String {
    let text = page(browser);
    let form = text_between(
        &text,
        &format!("name=\"action\" value=\"{action}\""),
        "</form>",
    );
    let nonce = text_between(form, "name=\"_wpnonce\" value=\"", "\"").to_owned();
    let mut all = vec![("action", action), ("_wpnonce", nonce.as_str())];
    all.extend(fields);
    let response = browser.post("/wp-admin/admin-post.php", &all).unwrap();
    assert_eq!(
        response.status,
        302,
        "{}\n{}",
        response.excerpt(),
        site.galley.log()
    );
    // Without a nonce the request is rejected.
    let without_nonce: Vec<_> = all.iter().filter(|f| f.0 != "_wpnonce").copied().collect();
    browser
        .post("/wp-admin/admin-post.php", &without_nonce)
        .unwrap()
        .assert_status(403);
    response.field("location").unwrap_or_default().to_owned()
}

/// Returns the stored page that anonymous visitors get.
fn stored_page(site: &PluginSite, target: &str) -> String {
    site.wait_until_stored(target);
    site.get(target).text()
}

/// Changes title and content of a post over the REST API.
fn edit(browser: &mut Browser, post: u32, title: &str) {
    let nonce = browser
        .get("/wp-admin/admin-ajax.php?action=rest-nonce")
        .unwrap()
        .text();
    let body = json!({ "title": title, "content": "Other text." }).to_string();
    let request = Request::post(
        &format!("/wp-json/wp/v2/posts/{post}"),
        "application/json",
        body,
    );
    let response = browser
        .send(request.field("X-WP-Nonce", nonce.trim()))
        .unwrap();
    response.assert_status(200);
}

#[test]
fn the_purge_log_lists_what_an_edit_purged() {
    let site = &*shared();
    let post = site.publish("logged-edit");
    let mut admin = site.admin();
    site.wait_until_stored("/logged-edit/");
    edit(&mut admin, post, "Hello <b>& \u{201c}you\u{201d}");
    assert!(!site.get("/logged-edit/").is_hit());
    let text = page(&mut admin);
    let log = text_between(&text, "galley-log", "</table>");
    let row = text_between(log, "<tbody><tr>", "</tr>");
    assert!(row.contains("Your edit of") && row.contains("you"), "{row}");
    assert!(!row.contains("<b>"), "{row}");
    let pages = text_between(row, " purged ", " page");
    assert!(pages.parse::<u32>().is_ok_and(|pages| pages > 0), "{row}");
    assert!(text.contains("No purge is pending"), "{text}");
    // The dashboard widget shows the same.
    let dashboard = admin.get("/wp-admin/index.php").unwrap().text();
    let widget = text_between(&dashboard, "galley-widget", "</ul>");
    assert!(
        widget.contains("Your edit of") && widget.contains("galley-state-line"),
        "{widget}"
    );
}

#[test]
fn the_purge_form_purges_one_url() {
    let site = &*shared();
    for slug in ["by-address", "not-purged"] {
        site.publish(slug);
    }
    let mut admin = site.admin();
    for (input, result) in [
        (site.url("/by-address/"), "galley=purged-page"),
        ("/by-address/".to_owned(), "galley=purged-page"),
        (
            "http://elsewhere.test/by-address/".to_owned(),
            "galley=not-own",
        ),
        ("javascript:alert(1)".to_owned(), "galley=not-own"),
    ] {
        for path in ["/by-address/", "/not-purged/"] {
            site.wait_until_stored(path);
        }
        let redirect = submit(site, &mut admin, "galley_purge_url", &[("url", &input)]);
        assert!(redirect.contains(result), "{input}: {redirect}");
        assert_eq!(
            site.get("/by-address/").is_hit(),
            result.ends_with("own"),
            "{input}"
        );
        assert!(site.get("/not-purged/").is_hit());
    }
    let text = page(&mut admin);
    assert!(
        text.contains("Purge this page\u{201d} (/by-address/)"),
        "{text}"
    );
}

#[test]
fn the_explain_form_shows_the_cache_state_of_a_url() {
    let site = &*shared();
    site.publish("explained");
    site.wait_until_stored("/explained/");
    let mut admin = site.admin();
    let mut explain = |input: &str| {
        let url = format!("{PAGE}&galley_url={input}");
        let text = admin.get(&url).unwrap().expect_status(200).text();
        text_between(&text, "class=\"galley-answer\"", "galley-buttons").to_owned()
    };
    assert!(explain("/explained/").contains("Galley: cached"));
    assert!(explain("/wp-login.php").contains("Galley: not cached"));
    let hostile = explain("http://elsewhere.test/%22%3E%3Cscript%3Ealert(1)%3C/script%3E");
    assert!(
        hostile.contains("not on this site") && !hostile.contains("<script>alert"),
        "{hostile}"
    );
}

#[test]
fn exclusions_and_lifetimes_take_effect() {
    let site = &*shared();
    site.publish("kept-apart");
    site.publish("for-everybody");
    for path in ["/kept-apart/", "/for-everybody/"] {
        site.wait_until_stored(path);
    }
    let mut admin = site.admin();
    let fields = [("lifetime", "300"), ("paths", "/kept-*\r\nno path")];
    let redirect = submit(site, &mut admin, "galley_choose", &fields);
    assert!(redirect.contains("galley=chosen"), "{redirect}");
    for _ in 0..3 {
        assert!(!site.get("/kept-apart/").is_hit());
    }
    site.wait_until_stored("/for-everybody/");
    let lifetime = &site.why("/for-everybody/")["entry"]["lifetime_s"];
    assert_eq!(lifetime, 300);
    let text = page(&mut admin);
    assert!(text.contains(">/kept-*</textarea>"), "{text}");
    // A post type.
    submit(site, &mut admin, "galley_choose", &[("types[]", "post")]);
    for _ in 0..3 {
        assert!(!site.get("/for-everybody/").is_hit());
    }
    site.wait_until_stored("/");
    submit(site, &mut admin, "galley_choose", &[]);
    for path in ["/kept-apart/", "/for-everybody/"] {
        site.wait_until_stored(path);
    }
}

#[test]
fn anonymous_visitors_get_the_selected_speculation_rules() {
    let site = &*shared();
    site.publish("speculated");
    let mut admin = site.admin();
    let has_rules = |text: &str| text.contains("<script type=\"speculationrules\">");
    // WordPress before 6.8 prints no speculation rules, later ones print rules of their own. From 7.1 on, Galley sets their default.
    let reads_default = site.php("echo function_exists('wp_get_speculative_loading_override');");
    let eagerness = if reads_default.trim() == "1" {
        "moderate"
    } else {
        "conservative"
    };
    let is_default = |text: &str| {
        !has_rules(text)
            || text_between(text, "<script type=\"speculationrules\">", "</script>")
                .contains(&format!("\"eagerness\":\"{eagerness}\""))
    };
    assert!(is_default(&stored_page(site, "/speculated/")));
    let fields = [("speculation", "prefetch-eager"), ("paths", "/kept-away/*")];
    submit(site, &mut admin, "galley_choose", &fields);
    let text = stored_page(site, "/speculated/");
    assert!(has_rules(&text), "{text}");
    let found = text_between(&text, "<script type=\"speculationrules\">", "</script>");
    let found: Value = serde_json::from_str(found.trim()).unwrap();
    let rule = &found["prefetch"][0];
    assert_eq!(rule["eagerness"], "eager");
    let excluded = rule["where"]["and"][1]["not"]["href_matches"].to_string();
    for path in [
        "/wp-admin/*",
        "/wp-*.php",
        "/cart/*",
        "/kept-away/*",
        "/*\\\\?(.+)",
    ] {
        assert!(excluded.contains(path), "{path}: {excluded}");
    }
    assert!(!has_rules(&admin.get("/speculated/").unwrap().text()));
    assert!(page(&mut admin).contains("value=\"prefetch-eager\" selected"));
    submit(site, &mut admin, "galley_choose", &[]);
    assert!(is_default(&stored_page(site, "/speculated/")));
}

#[test]
fn development_mode_stores_nothing_and_expires() {
    let site = &*shared();
    site.publish("in-development");
    site.wait_until_stored("/in-development/");
    let mut admin = site.admin();
    submit(site, &mut admin, "galley_development", &[]);
    for _ in 0..3 {
        assert!(!site.get("/in-development/").is_hit());
    }
    let text = page(&mut admin);
    assert!(
        text.contains("galley-state-line is-amber") && text.contains("Development mode is on"),
        "{text}"
    );
    // The end is scheduled, and then simulated.
    assert!(
        site.php(
            "echo wp_next_scheduled('galley_development_end') - get_option('galley_development');"
        )
        .trim()
            == "0"
    );
    site.php(
        "update_option('galley_development', time() - 1); do_action('galley_development_end');",
    );
    site.wait_until_stored("/in-development/");
    assert!(!page(&mut admin).contains("Development mode is on"));
    submit(site, &mut admin, "galley_development", &[]);
    submit(site, &mut admin, "galley_development_off", &[]);
    site.wait_until_stored("/in-development/");
}

#[test]
fn preloading_stores_the_pages_of_the_sitemaps() {
    let site = &*shared();
    site.publish("preloaded");
    let mut admin = site.admin();
    submit(site, &mut admin, "galley_purge_all", &[]);
    submit(site, &mut admin, "galley_preload", &[]);
    let state = || {
        let text = site.php("echo wp_json_encode(get_option('galley_preload'));");
        serde_json::from_str::<Value>(&text).unwrap()
    };
    wait_for("all pages to be preloaded", TIMEOUT * 3, || {
        site.get("/wp-cron.php?doing_wp_cron");
        let state = state();
        assert_ne!(state["state"], "failed", "{state}");
        state["state"] == "done"
    });
    assert!(
        state()["total"].as_u64().is_some_and(|pages| pages > 3),
        "{}",
        state()
    );
    assert!(site.get("/preloaded/").is_hit());
    let text = page(&mut admin);
    assert!(text.contains("Preloading is complete"), "{text}");
}

#[test]
fn post_lists_show_the_cache_state() {
    let site = &*shared();
    site.publish("listed-as-cached");
    let mut admin = site.admin();
    site.wait_until_stored("/listed-as-cached/");
    let row = |browser: &mut Browser| {
        let list = browser
            .get("/wp-admin/edit.php?s=listed-as-cached")
            .unwrap()
            .expect_status(200)
            .text();
        text_between(&list, "galley_cached column-galley_cached' data", "</td>").to_owned()
    };
    assert!(row(&mut admin).contains("is-hit"), "{}", row(&mut admin));
    admin
        .get("/wp-admin/edit.php?post_type=page")
        .unwrap()
        .assert_status(200);
    submit(
        site,
        &mut admin,
        "galley_purge_url",
        &[("url", "/listed-as-cached/")],
    );
    // The list caches the state for some seconds.
    wait_for("the list to see the purge", TIMEOUT, || {
        row(&mut admin).contains("is-miss")
    });
}

#[test]
fn tags_added_by_plugins_can_be_purged() {
    let site = &*shared();
    site.publish("with-own-tag");
    site.publish("without-own-tag");
    for path in ["/with-own-tag/", "/without-own-tag/"] {
        site.wait_until_stored(path);
    }
    let tags = site.why("/with-own-tag/")["entry"]["tags"].to_string();
    assert!(tags.contains("people:list"), "{tags}");
    site.php("galley_purge('people:list');");
    assert!(!site.get("/with-own-tag/").is_hit());
    assert!(site.get("/without-own-tag/").is_hit());
    site.php("galley_purge(['/without-own-tag/']);");
    assert!(!site.get("/without-own-tag/").is_hit());
}

#[test]
fn the_settings_page_uses_the_locale_of_the_user() {
    let site = &*shared();
    let mut admin = site.admin();
    for (locale, state, chart) in [
        ("de_DE", "Letzte Leerungen", "Das Diagramm als Tabelle"),
        (
            "fr_FR",
            "Purges récentes",
            "Le graphique sous forme de tableau",
        ),
        ("ja", "最近のパージ", "グラフを表で見る"),
    ] {
        // WordPress uses a locale only if a translation file for it exists.
        site.php(&format!(
            "wp_mkdir_p(WP_LANG_DIR); touch(WP_LANG_DIR . '/{locale}.mo'); update_user_meta(1, 'locale', '{locale}');"
        ));
        let text = page(&mut admin);
        site.php("delete_user_meta(1, 'locale');");
        assert!(
            text.contains(state) && text.contains(chart),
            "{locale}: {text}"
        );
    }
    assert!(page(&mut admin).contains("Recent purges"));
}

#[test]
fn server_reasons_use_the_locale_of_the_user() {
    let site = &*shared();
    let mut admin = site.admin();
    let url = format!("{PAGE}&galley_url=/wp-login.php");
    for (locale, reason) in [
        (
            "",
            "Administration, login and scripts called directly are never cached.",
        ),
        (
            "de_DE",
            "Verwaltung, Anmeldung und direkt aufgerufene Skripte kommen nie in den Cache.",
        ),
        (
            "fr_FR",
            "L’administration, la connexion et les scripts appelés directement ne sont jamais mis en cache.",
        ),
        (
            "ja",
            "管理画面、ログイン、直接呼び出されるスクリプトはキャッシュされません。",
        ),
    ] {
        site.php(&format!(
            "wp_mkdir_p(WP_LANG_DIR); touch(WP_LANG_DIR . '/{locale}.mo'); update_user_meta(1, 'locale', '{locale}');"
        ));
        let text = admin.get(&url).unwrap().expect_status(200).text();
        site.php("delete_user_meta(1, 'locale');");
        let response = text_between(&text, "class=\"galley-answer\"", "</div>");
        assert!(response.contains(reason), "{locale}: {response}");
    }
}
