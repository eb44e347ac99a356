//! What a site's owner does on the plugin's page, and what visitors get then: the log of purges, purge by address, lifetimes and
//! exclusions, development mode, preloading, the column of the lists.

use galley_testkit::client::{Browser, Request};
use galley_testkit::wait_for;
use serde_json::{Value, json};

use super::stack::{Is as _, Stack, TIMEOUT, between, shared};

const PAGE: &str = "/wp-admin/options-general.php?page=galley";

fn page(browser: &mut Browser) -> String {
    browser.get(PAGE).unwrap().expect_status(200).text()
}

/// Sends one of the page's forms, with the nonce that stands in it.
#[track_caller]
fn submit(stack: &Stack, browser: &mut Browser, action: &str, fields: &[(&str, &str)]) -> String {
    let text = page(browser);
    let form = between(
        &text,
        &format!("name=\"action\" value=\"{action}\""),
        "</form>",
    );
    let nonce = between(form, "name=\"_wpnonce\" value=\"", "\"").to_owned();
    let mut all = vec![("action", action), ("_wpnonce", nonce.as_str())];
    all.extend(fields);
    let answer = browser.post("/wp-admin/admin-post.php", &all).unwrap();
    assert_eq!(
        answer.status,
        302,
        "{}\n{}",
        answer.beginning(),
        stack.galley.log()
    );
    // Without the nonce nothing happens.
    let bare: Vec<_> = all.iter().filter(|f| f.0 != "_wpnonce").copied().collect();
    browser
        .post("/wp-admin/admin-post.php", &bare)
        .unwrap()
        .is(403);
    answer.field("location").unwrap_or_default().to_owned()
}

/// A page as strangers get it from the cache.
fn stored(stack: &Stack, target: &str) -> String {
    stack.warm(target);
    stack.get(target).text()
}

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
    let answer = browser
        .send(request.field("X-WP-Nonce", nonce.trim()))
        .unwrap();
    answer.is(200);
}

#[test]
fn the_log_says_what_an_edit_purged() {
    let stack = &*shared();
    let post = stack.publish("logged-edit");
    let mut admin = stack.admin();
    stack.warm("/logged-edit/");
    edit(&mut admin, post, "Hello <b>& \u{201c}you\u{201d}");
    assert!(!stack.get("/logged-edit/").is_hit());
    let text = page(&mut admin);
    let log = between(&text, "galley-log", "</table>");
    let row = between(log, "<tbody><tr>", "</tr>");
    assert!(row.contains("Your edit of") && row.contains("you"), "{row}");
    assert!(!row.contains("<b>"), "{row}");
    let pages = between(row, " purged ", " page");
    assert!(pages.parse::<u32>().is_ok_and(|pages| pages > 0), "{row}");
    assert!(text.contains("No purge is pending"), "{text}");
    // Another user reads whose edit it was, and the dashboard shows the same.
    let dashboard = admin.get("/wp-admin/index.php").unwrap().text();
    let widget = between(&dashboard, "galley-widget", "</ul>");
    assert!(
        widget.contains("Your edit of") && widget.contains("galley-state-line"),
        "{widget}"
    );
}

#[test]
fn a_page_is_purged_by_its_address() {
    let stack = &*shared();
    for slug in ["by-address", "beside-it"] {
        stack.publish(slug);
    }
    let mut admin = stack.admin();
    for (typed, said) in [
        (stack.url("/by-address/"), "galley=purged-page"),
        ("/by-address/".to_owned(), "galley=purged-page"),
        (
            "http://elsewhere.test/by-address/".to_owned(),
            "galley=not-own",
        ),
        ("javascript:alert(1)".to_owned(), "galley=not-own"),
    ] {
        for path in ["/by-address/", "/beside-it/"] {
            stack.warm(path);
        }
        let back = submit(stack, &mut admin, "galley_purge_url", &[("url", &typed)]);
        assert!(back.contains(said), "{typed}: {back}");
        assert_eq!(
            stack.get("/by-address/").is_hit(),
            said.ends_with("own"),
            "{typed}"
        );
        assert!(stack.get("/beside-it/").is_hit());
    }
    let text = page(&mut admin);
    assert!(
        text.contains("Purge this page\u{201d} (/by-address/)"),
        "{text}"
    );
}

#[test]
fn a_typed_address_is_explained() {
    let stack = &*shared();
    stack.publish("explained");
    stack.warm("/explained/");
    let mut admin = stack.admin();
    let mut ask = |typed: &str| {
        let url = format!("{PAGE}&galley_url={typed}");
        let text = admin.get(&url).unwrap().expect_status(200).text();
        between(&text, "class=\"galley-answer\"", "galley-buttons").to_owned()
    };
    assert!(ask("/explained/").contains("Galley: cached"));
    assert!(ask("/wp-login.php").contains("Galley: not cached"));
    let hostile = ask("http://elsewhere.test/%22%3E%3Cscript%3Ealert(1)%3C/script%3E");
    assert!(
        hostile.contains("not on this site") && !hostile.contains("<script>alert"),
        "{hostile}"
    );
}

#[test]
fn excluded_pages_are_not_stored_and_lifetimes_hold() {
    let stack = &*shared();
    stack.publish("kept-apart");
    stack.publish("for-everybody");
    for path in ["/kept-apart/", "/for-everybody/"] {
        stack.warm(path);
    }
    let mut admin = stack.admin();
    let fields = [("lifetime", "300"), ("paths", "/kept-*\r\nno path")];
    let back = submit(stack, &mut admin, "galley_choose", &fields);
    assert!(back.contains("galley=chosen"), "{back}");
    for _ in 0..3 {
        assert!(!stack.get("/kept-apart/").is_hit());
    }
    stack.warm("/for-everybody/");
    let lifetime = &stack.why("/for-everybody/")["entry"]["lifetime_s"];
    assert_eq!(lifetime, 300);
    let text = page(&mut admin);
    assert!(text.contains(">/kept-*</textarea>"), "{text}");
    // A kind of content.
    submit(stack, &mut admin, "galley_choose", &[("types[]", "post")]);
    for _ in 0..3 {
        assert!(!stack.get("/for-everybody/").is_hit());
    }
    stack.warm("/");
    submit(stack, &mut admin, "galley_choose", &[]);
    for path in ["/kept-apart/", "/for-everybody/"] {
        stack.warm(path);
    }
}

#[test]
fn strangers_get_the_chosen_speculation_rules() {
    let stack = &*shared();
    stack.publish("speculated");
    let mut admin = stack.admin();
    let rules = |text: &str| text.contains("<script type=\"speculationrules\">");
    // WordPress before 6.8 has none of its own.
    assert!(!rules(&stored(stack, "/speculated/")));
    let fields = [("speculation", "prefetch-eager"), ("paths", "/kept-away/*")];
    submit(stack, &mut admin, "galley_choose", &fields);
    let text = stored(stack, "/speculated/");
    assert!(rules(&text), "{text}");
    let found = between(&text, "<script type=\"speculationrules\">", "</script>");
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
    assert!(!rules(&admin.get("/speculated/").unwrap().text()));
    assert!(page(&mut admin).contains("value=\"prefetch-eager\" selected"));
    submit(stack, &mut admin, "galley_choose", &[]);
    assert!(!rules(&stored(stack, "/speculated/")));
}

#[test]
fn development_mode_stores_nothing_and_ends_by_itself() {
    let stack = &*shared();
    stack.publish("in-development");
    stack.warm("/in-development/");
    let mut admin = stack.admin();
    submit(stack, &mut admin, "galley_development", &[]);
    for _ in 0..3 {
        assert!(!stack.get("/in-development/").is_hit());
    }
    let text = page(&mut admin);
    assert!(
        text.contains("galley-state-line is-amber") && text.contains("Development mode is on"),
        "{text}"
    );
    // Its time is over.
    assert!(
        stack.php("echo wp_next_scheduled('galley_development_end') - get_option('galley_development');").trim() == "0"
    );
    stack.php(
        "update_option('galley_development', time() - 1); do_action('galley_development_end');",
    );
    stack.warm("/in-development/");
    assert!(!page(&mut admin).contains("Development mode is on"));
    submit(stack, &mut admin, "galley_development", &[]);
    submit(stack, &mut admin, "galley_development_off", &[]);
    stack.warm("/in-development/");
}

#[test]
fn preloading_stores_the_pages_of_the_sitemaps() {
    let stack = &*shared();
    stack.publish("preloaded");
    let mut admin = stack.admin();
    submit(stack, &mut admin, "galley_purge_all", &[]);
    submit(stack, &mut admin, "galley_preload", &[]);
    let state = || {
        let text = stack.php("echo wp_json_encode(get_option('galley_preload'));");
        serde_json::from_str::<Value>(&text).unwrap()
    };
    wait_for("all pages to be preloaded", TIMEOUT * 3, || {
        stack.get("/wp-cron.php?doing_wp_cron");
        let state = state();
        assert_ne!(state["state"], "failed", "{state}");
        state["state"] == "done"
    });
    assert!(
        state()["total"].as_u64().is_some_and(|pages| pages > 3),
        "{}",
        state()
    );
    assert!(stack.get("/preloaded/").is_hit());
    let text = page(&mut admin);
    assert!(text.contains("Preloading is complete"), "{text}");
}

#[test]
fn the_lists_of_posts_say_what_is_cached() {
    let stack = &*shared();
    stack.publish("listed-as-cached");
    let mut admin = stack.admin();
    stack.warm("/listed-as-cached/");
    let row = |browser: &mut Browser| {
        let list = browser
            .get("/wp-admin/edit.php?s=listed-as-cached")
            .unwrap()
            .expect_status(200)
            .text();
        between(&list, "galley_cached column-galley_cached' data", "</td>").to_owned()
    };
    assert!(row(&mut admin).contains("is-hit"), "{}", row(&mut admin));
    admin
        .get("/wp-admin/edit.php?post_type=page")
        .unwrap()
        .is(200);
    submit(
        stack,
        &mut admin,
        "galley_purge_url",
        &[("url", "/listed-as-cached/")],
    );
    // It is kept for some seconds.
    wait_for("the list to see the purge", TIMEOUT, || {
        row(&mut admin).contains("is-miss")
    });
}

#[test]
fn tags_of_plugins_are_on_their_pages_and_purge_them() {
    let stack = &*shared();
    stack.publish("with-own-tag");
    stack.publish("without-own-tag");
    for path in ["/with-own-tag/", "/without-own-tag/"] {
        stack.warm(path);
    }
    let tags = stack.why("/with-own-tag/")["entry"]["tags"].to_string();
    assert!(tags.contains("people:list"), "{tags}");
    stack.php("galley_purge('people:list');");
    assert!(!stack.get("/with-own-tag/").is_hit());
    assert!(stack.get("/without-own-tag/").is_hit());
    stack.php("galley_purge(['/without-own-tag/']);");
    assert!(!stack.get("/without-own-tag/").is_hit());
}

#[test]
fn the_page_speaks_the_language_of_its_reader() {
    let stack = &*shared();
    let mut admin = stack.admin();
    for (locale, state, chart) in [
        ("de_DE", "Letzte Leerungen", "Das Diagramm als Tabelle"),
        (
            "fr_FR",
            "Purges récentes",
            "Le graphique sous forme de tableau",
        ),
        ("ja", "最近のパージ", "グラフを表で見る"),
    ] {
        // WordPress takes a locale only where its own translation is there.
        stack.php(&format!(
            "wp_mkdir_p(WP_LANG_DIR); touch(WP_LANG_DIR . '/{locale}.mo'); update_user_meta(1, 'locale', '{locale}');"
        ));
        let text = page(&mut admin);
        stack.php("delete_user_meta(1, 'locale');");
        assert!(
            text.contains(state) && text.contains(chart),
            "{locale}: {text}"
        );
    }
    assert!(page(&mut admin).contains("Recent purges"));
}

#[test]
fn the_reasons_of_the_server_are_in_the_language_of_the_reader() {
    let stack = &*shared();
    let mut admin = stack.admin();
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
        stack.php(&format!(
            "wp_mkdir_p(WP_LANG_DIR); touch(WP_LANG_DIR . '/{locale}.mo'); update_user_meta(1, 'locale', '{locale}');"
        ));
        let text = admin.get(&url).unwrap().expect_status(200).text();
        stack.php("delete_user_meta(1, 'locale');");
        let answer = between(&text, "class=\"galley-answer\"", "</div>");
        assert!(answer.contains(reason), "{locale}: {answer}");
    }
}
