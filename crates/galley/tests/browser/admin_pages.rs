//! The plugin in wp-admin, the admin bar and WP-CLI, without a browser.

use galley_testkit::client::{Browser, Request};
use galley_testkit::wait_for;
use serde_json::Value;

use super::site::{AssertStatus as _, PluginSite, TIMEOUT, shared, text_between};

/// Decodes the ampersands of a URL in an attribute.
fn unescape_url(text: &str) -> String {
    text.replace("&#038;", "&").replace("&amp;", "&")
}

/// Sends the request of the admin bar script and returns its JSON response.
fn page_state(site: &PluginSite, browser: &mut Browser, page: &str, url: &str) -> Value {
    let nonce = text_between(page, "var galleyBar = ", ";");
    let nonce = text_between(nonce, "\"nonce\":\"", "\"").to_owned();
    let response = browser
        .post(
            "/wp-admin/admin-ajax.php",
            &[
                ("action", "galley_page_state"),
                ("_ajax_nonce", &nonce),
                ("url", url),
            ],
        )
        .unwrap();
    serde_json::from_str(&response.text())
        .unwrap_or_else(|_| panic!("{}\n{}", response.excerpt(), site.galley.log()))
}

fn rest_nonce(browser: &mut Browser) -> String {
    let page = browser
        .get("/wp-admin/admin-ajax.php?action=rest-nonce")
        .unwrap();
    page.expect_status(200).text().trim().to_owned()
}

#[test]
fn the_admin_bar_shows_the_cache_state_and_purges() {
    let site = &*shared();
    site.publish("in-the-bar");
    site.publish("other-page");
    let mut admin = site.admin();
    let page = admin.get("/in-the-bar/").unwrap().text();
    let url = site.url("/in-the-bar/");
    let state = page_state(site, &mut admin, &page, &url);
    assert_eq!(state["data"]["state"], "miss", "{state}");
    for path in ["/in-the-bar/", "/other-page/"] {
        site.wait_until_stored(path);
    }
    let state = page_state(site, &mut admin, &page, &format!("{url}#there"));
    assert_eq!(state["data"]["state"], "hit", "{state}");
    assert!(
        state["data"]["label"]
            .as_str()
            .is_some_and(|l| l.contains("cached")),
        "{state}"
    );

    let elsewhere = page_state(site, &mut admin, &page, "http://elsewhere.test/");
    assert_eq!(elsewhere["success"], false);

    let item = text_between(&page, "id='wp-admin-bar-galley-purge-page'", "</li>");
    let link = unescape_url(text_between(item, "href='", "'"));
    let link = link.strip_prefix(&site.url("")).unwrap();
    let back = admin.get(link).unwrap().expect_status(302);
    assert_eq!(back.field("location"), Some(url.as_str()));
    assert!(!site.get("/in-the-bar/").is_hit());
    assert!(site.get("/other-page/").is_hit());

    let item = text_between(&page, "id='wp-admin-bar-galley-purge-all'", "</li>");
    let all = unescape_url(text_between(item, "href='", "'"));
    let all = all.strip_prefix(&site.url("")).unwrap();
    admin.get(all).unwrap().assert_status(302);
    assert!(!site.get("/other-page/").is_hit());
}

#[test]
fn users_without_permission_cannot_purge() {
    let site = &*shared();
    site.publish("of-the-admin");
    site.wait_until_stored("/of-the-admin/");
    let page = site.get("/of-the-admin/").text();
    assert!(!page.contains("galleyBar") && !page.contains("wp-admin-bar-galley"));
    let mut admin = site.admin();
    let shown = admin.get("/of-the-admin/").unwrap().text();
    let item = text_between(&shown, "id='wp-admin-bar-galley-purge-page'", "</li>");
    let link = unescape_url(text_between(item, "href='", "'"));
    let link = link.strip_prefix(&site.url("")).unwrap();
    // Without a nonce, as a user without permission, and without a login.
    let without_nonce = link.split("&_wpnonce").next().unwrap();
    admin.get(without_nonce).unwrap().assert_status(403);
    site.php("wp_insert_user(['user_login' => 'sub', 'user_pass' => 'galley-test', 'role' => 'subscriber']);");
    let mut subscriber = site.user("sub");
    subscriber.get(link).unwrap().assert_status(403);
    let settings = subscriber
        .get("/wp-admin/options-general.php?page=galley")
        .unwrap();
    assert_eq!(settings.status, 403);
    let anonymous = site.get(link);
    assert!(anonymous.status >= 300, "{}", anonymous.excerpt());
    assert!(site.get("/of-the-admin/").is_hit(), "{}", site.galley.log());
    // An editor may purge posts that they can edit, but not all pages.
    let mut editor = site.user("editor");
    let shown = editor.get("/of-the-admin/").unwrap().text();
    assert!(shown.contains("wp-admin-bar-galley-purge-page"));
    assert!(!shown.contains("wp-admin-bar-galley-purge-all"));
    let item = text_between(&shown, "id='wp-admin-bar-galley-purge-page'", "</li>");
    let allowed = unescape_url(text_between(item, "href='", "'"));
    let allowed = allowed.strip_prefix(&site.url("")).unwrap().to_owned();
    let forbidden = allowed.replace("of-the-admin%2F", "feed%2F");
    assert_ne!(forbidden, allowed);
    editor.get(&forbidden).unwrap().assert_status(403);
    editor.get(&allowed).unwrap().assert_status(302);
    assert!(!site.get("/of-the-admin/").is_hit());
}

#[test]
fn the_settings_page_shows_connection_ratio_and_chart() {
    let site = &*shared();
    site.wait_until_stored("/");
    let page = site
        .admin()
        .get("/wp-admin/options-general.php?page=galley")
        .unwrap()
        .expect_status(200)
        .text();
    for expected in [
        "is-fine",
        "admin.sock",
        "galley plugin install",
        "<svg class=\"galley-chart\"",
        "<rect ",
        "galley-ratio",
        "Purge all pages",
        "galley-state-line is-",
        "The chart as a table",
        "What costs PHP time",
        "Recent purges",
        "Never store these paths",
    ] {
        assert!(
            page.contains(expected),
            "no `{expected}` in\n{}",
            text_between(&page, "galley-settings", "wpfooter")
        );
    }
    // The state of the site is shown first, the connection last and collapsed.
    let position = |text: &str| {
        page.find(text)
            .unwrap_or_else(|| panic!("no `{text}` in the page"))
    };
    assert!(position("galley-state-line") < position("galley-ratio"));
    assert!(position("galley-ratio") < position("admin.sock"));
    assert!(page.contains("<details class=\"galley-end\">"));
    let token = site.install_report["token_file"].as_str().unwrap();
    let token = std::fs::read_to_string(token).unwrap();
    assert!(!page.contains(token.trim()), "the page contains the token");
    // The connection form is hidden, because the command made the connection.
    assert!(!page.contains("galley-address"));
}

#[test]
fn site_health_reports_the_page_cache_and_the_connection() {
    let site = &*shared();
    let mut admin = site.admin();
    let page = admin.get("/wp-admin/post-new.php").unwrap().text();
    let nonce = text_between(&page, "createNonceMiddleware( \"", "\"").to_owned();
    let request =
        Request::get("/wp-json/wp-site-health/v1/tests/page-cache").field("X-WP-Nonce", nonce);
    let response = admin.send(request).unwrap().expect_status(200).text();
    let result: Value = serde_json::from_str(&response).unwrap();
    assert_eq!(result["status"], "good", "{response}");
    let page = admin.get("/wp-admin/site-health.php").unwrap().text();
    let results = text_between(&page, "var SiteHealth = ", "</script>");
    let result = text_between(results, "\"test\":\"galley_purges\"", "}");
    assert!(result.contains("\"status\":\"good\""), "{result}");
    // WordPress runs the tests that send requests to Galley after the page has loaded, over the REST API.
    for test in ["connection", "defeats"] {
        let path = format!("/wp-json/galley/v1/health/{test}");
        // WordPress escapes slashes up to 6.9.
        assert!(results.replace("\\/", "/").contains(&path), "{results}");
        let anonymous = site.get(&path);
        assert_eq!(anonymous.status, 401, "{}", anonymous.excerpt());
        let request = Request::get(&path).field("X-WP-Nonce", rest_nonce(&mut admin));
        let result: Value =
            serde_json::from_str(&admin.send(request).unwrap().expect_status(200).text()).unwrap();
        assert_eq!(result["test"], format!("galley_{test}"), "{result}");
        if test == "connection" {
            assert_eq!(result["status"], "good", "{result}");
        }
    }
    let info = admin.get("/wp-admin/site-health.php?tab=debug").unwrap();
    let text = info.text();
    let galley = text_between(
        &text,
        "id=\"health-check-accordion-block-galley\"",
        "</table>",
    );
    assert!(galley.contains("Pending purges"), "{galley}");
}

#[test]
fn a_page_is_fresh_no_longer_than_its_nonces() {
    let site = &*shared();
    let lifetime = |slug: &str| {
        site.publish(slug);
        site.wait_until_stored(&format!("/{slug}/"));
        let why = site.why(&format!("/{slug}/"));
        why["entry"]["lifetime_s"]
            .as_u64()
            .unwrap_or_else(|| panic!("{why}"))
    };
    let hour = 3600;
    assert!(lifetime("without-nonce") > 24 * hour);
    for slug in ["with-nonce", "with-rest"] {
        let seconds = lifetime(slug);
        assert!(
            (10 * hour..24 * hour).contains(&seconds),
            "{slug}: {seconds}"
        );
    }
    let seconds = lifetime("with-short-nonce");
    assert!(seconds > 0 && seconds <= 2 * hour, "{seconds}");
}

#[test]
fn an_invalid_nonce_without_a_login_is_ignored() {
    let site = &*shared();
    let target = "/wp-json/wp/v2/posts?per_page=1";
    let status = |browser: &mut Browser, nonce: &str| {
        let request = Request::get(target).field("X-WP-Nonce", nonce);
        browser.send(request).unwrap().status
    };
    let mut visitor = Browser::new(site.addr(), &site.authority());
    assert_eq!(status(&mut visitor, "0123456789"), 200);
    let mut admin = site.admin();
    assert_eq!(
        status(&mut admin, "0123456789"),
        403,
        "a nonce with a login must be valid"
    );
    let cookie = admin
        .jar
        .starting_with("wordpress_logged_in_")
        .unwrap()
        .to_owned();
    assert!(!cookie.is_empty());
}

#[test]
fn a_cookie_on_a_public_page_is_reported_with_its_plugin() {
    let site = &*shared();
    site.publish("with-cookie");
    site.get("/with-cookie/");
    wait_for("the plugin to record the cookie", TIMEOUT, || {
        site.php("echo wp_json_encode(get_option('galley_cookies'));")
            .contains("visited_before")
    });
    let mut admin = site.admin();
    let page = admin.get("/wp-admin/plugins.php").unwrap().text();
    let notice = text_between(&page, "galley-notice", "</div>");
    assert!(
        notice.contains("visited_before") && notice.contains("visits.php"),
        "{notice}"
    );
    assert!(notice.contains("/with-cookie/"), "{notice}");
    let link = unescape_url(text_between(notice, "href=\"", "\""));
    admin
        .get(link.strip_prefix(&site.url("")).unwrap())
        .unwrap()
        .assert_status(302);
    let page = admin.get("/wp-admin/plugins.php").unwrap().text();
    assert!(
        !page.contains("galley-notice"),
        "the notice was not dismissed"
    );
}

#[test]
fn wp_cli_commands_show_status_and_purge() {
    let site = &*shared();
    site.publish("by-command");
    site.wait_until_stored("/by-command/");
    let url = site.url("/by-command/");
    // Debian has no WP-CLI package, so a fake class provides the functions that the commands use.
    let run = |call: &str| {
        site.php(&format!(
            "class WP_CLI {{ static function add_command($n, $c) {{}} static function line($t) {{ echo $t, PHP_EOL; }} \
             static function success($t) {{ echo 'ok ', $t; }} static function error($t) {{ echo 'error ', $t; }} }} \
             add_filter('home_url', function ($u) {{ return str_replace('http://localhost', '{}', $u); }}); \
             require WP_PLUGIN_DIR . '/galley/admin/cli.php'; {call}",
            site.url("")
        ))
    };
    let status = run("Galley\\cli_status();");
    assert!(
        status.contains("hit ratio") && status.contains("site       localhost"),
        "{status}"
    );
    let why = run(&format!("Galley\\cli_why(['{url}']);"));
    assert!(why.contains("cached") && why.contains("memory"), "{why}");
    let elsewhere = run("Galley\\cli_why(['http://elsewhere.test/']);");
    assert!(elsewhere.starts_with("error"), "{elsewhere}");
    let purged = run(&format!("Galley\\cli_purge(['{url}'], []);"));
    assert!(purged.starts_with("ok"), "{purged}");
    assert!(!site.get("/by-command/").is_hit());
}

/// Titles that a visitor cannot read, and users, stay in WordPress.
#[test]
fn purges_are_named_without_titles_that_are_not_public() {
    let site = &*shared();
    let post = site.publish("public-title");
    let edit = |fields: &str| {
        site.php(&format!("wp_update_post(['ID' => {post}, {fields}]);"));
        site.purge_labels().first().cloned().unwrap_or_default()
    };
    assert_eq!(
        edit("'post_title' => 'Open secret'"),
        "Edit of “Open secret”"
    );
    assert_eq!(
        edit("'post_title' => 'Hidden plan', 'post_password' => 'x'"),
        "Edit of a post"
    );
    assert_eq!(
        edit("'post_title' => 'Hidden plan 2', 'post_password' => '', 'post_status' => 'private'"),
        "Removal of a post"
    );
    site.php("wp_update_user(['ID' => 1, 'display_name' => 'Hidden Name']);");
    assert_eq!(site.purge_labels()[0], "Change of a user");
    let labels = format!("{:?}", site.purge_labels());
    assert!(!labels.contains("Hidden"), "{labels}");
    let log = site.galley.log();
    assert!(!log.contains("Open secret") && !log.contains("Hidden"));
    site.php(&format!(
        "wp_delete_post({post}, true); wp_update_user(['ID' => 1, 'display_name' => 'admin']);"
    ));
}
