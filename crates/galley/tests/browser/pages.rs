//! The pages that people see, as WordPress makes them, without a browser.

use galley_testkit::client::{Browser, Request};
use galley_testkit::wait_for;
use serde_json::Value;

use super::stack::{Is as _, Stack, TIMEOUT, between, shared};

/// Addresses in attributes.
fn unescaped(text: &str) -> String {
    text.replace("&#038;", "&").replace("&amp;", "&")
}

/// What the script of the admin bar asks and gets.
fn state_of(stack: &Stack, browser: &mut Browser, page: &str, url: &str) -> Value {
    let nonce = between(page, "var galleyBar = ", ";");
    let nonce = between(nonce, "\"nonce\":\"", "\"").to_owned();
    let answer = browser
        .post(
            "/wp-admin/admin-ajax.php",
            &[
                ("action", "galley_page_state"),
                ("_ajax_nonce", &nonce),
                ("url", url),
            ],
        )
        .unwrap();
    serde_json::from_str(&answer.text())
        .unwrap_or_else(|_| panic!("{}\n{}", answer.beginning(), stack.galley.log()))
}

fn rest_nonce(browser: &mut Browser) -> String {
    let page = browser
        .get("/wp-admin/admin-ajax.php?action=rest-nonce")
        .unwrap();
    page.expect_status(200).text().trim().to_owned()
}

#[test]
fn the_admin_bar_tells_how_a_page_is_cached_and_purges_it() {
    let stack = &*shared();
    stack.publish("in-the-bar");
    stack.publish("beside-the-bar");
    let mut admin = stack.admin();
    let page = admin.get("/in-the-bar/").unwrap().text();
    let url = stack.url("/in-the-bar/");
    let state = state_of(stack, &mut admin, &page, &url);
    assert_eq!(state["data"]["state"], "miss", "{state}");
    for path in ["/in-the-bar/", "/beside-the-bar/"] {
        stack.warm(path);
    }
    let state = state_of(stack, &mut admin, &page, &format!("{url}#there"));
    assert_eq!(state["data"]["state"], "hit", "{state}");
    assert!(
        state["data"]["label"]
            .as_str()
            .is_some_and(|l| l.contains("cached")),
        "{state}"
    );

    let elsewhere = state_of(stack, &mut admin, &page, "http://elsewhere.test/");
    assert_eq!(elsewhere["success"], false);

    let item = between(&page, "id='wp-admin-bar-galley-purge-page'", "</li>");
    let link = unescaped(between(item, "href='", "'"));
    let link = link.strip_prefix(&stack.url("")).unwrap();
    let back = admin.get(link).unwrap().expect_status(302);
    assert_eq!(back.field("location"), Some(url.as_str()));
    assert!(!stack.get("/in-the-bar/").is_hit());
    assert!(stack.get("/beside-the-bar/").is_hit());

    let item = between(&page, "id='wp-admin-bar-galley-purge-all'", "</li>");
    let all = unescaped(between(item, "href='", "'"));
    let all = all.strip_prefix(&stack.url("")).unwrap();
    admin.get(all).unwrap().is(302);
    assert!(!stack.get("/beside-the-bar/").is_hit());
}

#[test]
fn who_may_not_gets_nothing() {
    let stack = &*shared();
    stack.publish("of-the-admin");
    stack.warm("/of-the-admin/");
    let page = stack.get("/of-the-admin/").text();
    assert!(!page.contains("galleyBar") && !page.contains("wp-admin-bar-galley"));
    let mut admin = stack.admin();
    let shown = admin.get("/of-the-admin/").unwrap().text();
    let item = between(&shown, "id='wp-admin-bar-galley-purge-page'", "</li>");
    let link = unescaped(between(item, "href='", "'"));
    let link = link.strip_prefix(&stack.url("")).unwrap();
    // Without the nonce, with a stranger's login, and without any.
    let bare = link.split("&_wpnonce").next().unwrap();
    admin.get(bare).unwrap().is(403);
    stack.php("wp_insert_user(['user_login' => 'sub', 'user_pass' => 'galley-test', 'role' => 'subscriber']);");
    let mut subscriber = stack.person("sub");
    subscriber.get(link).unwrap().is(403);
    let settings = subscriber
        .get("/wp-admin/options-general.php?page=galley")
        .unwrap();
    assert_eq!(settings.status, 403);
    let anonymous = stack.get(link);
    assert!(anonymous.status >= 300, "{}", anonymous.beginning());
    assert!(
        stack.get("/of-the-admin/").is_hit(),
        "{}",
        stack.galley.log()
    );
    // An editor may purge a post that is theirs to edit, and not everything.
    let mut editor = stack.person("editor");
    let shown = editor.get("/of-the-admin/").unwrap().text();
    assert!(shown.contains("wp-admin-bar-galley-purge-page"));
    assert!(!shown.contains("wp-admin-bar-galley-purge-all"));
    let item = between(&shown, "id='wp-admin-bar-galley-purge-page'", "</li>");
    let own = unescaped(between(item, "href='", "'"));
    let own = own.strip_prefix(&stack.url("")).unwrap().to_owned();
    let other = own.replace("of-the-admin%2F", "feed%2F");
    assert_ne!(other, own);
    editor.get(&other).unwrap().is(403);
    editor.get(&own).unwrap().is(302);
    assert!(!stack.get("/of-the-admin/").is_hit());
}

#[test]
fn the_settings_page_shows_connection_ratio_and_chart() {
    let stack = &*shared();
    stack.warm("/");
    let page = stack
        .admin()
        .get("/wp-admin/options-general.php?page=galley")
        .unwrap()
        .expect_status(200)
        .text();
    for wanted in [
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
            page.contains(wanted),
            "no `{wanted}` in\n{}",
            between(&page, "galley-settings", "wpfooter")
        );
    }
    // The state of the site comes first, the connection last and closed.
    let at = |text: &str| {
        page.find(text)
            .unwrap_or_else(|| panic!("no `{text}` in the page"))
    };
    assert!(at("galley-state-line") < at("galley-ratio") && at("galley-ratio") < at("admin.sock"));
    assert!(page.contains("<details class=\"galley-end\">"));
    let token = stack.installed["token_file"].as_str().unwrap();
    let token = std::fs::read_to_string(token).unwrap();
    assert!(!page.contains(token.trim()), "a secret is not shown");
    // Not by hand, where the command has done it.
    assert!(!page.contains("galley-address"));
}

#[test]
fn site_health_sees_the_page_cache_and_the_connection() {
    let stack = &*shared();
    let mut admin = stack.admin();
    let page = admin.get("/wp-admin/post-new.php").unwrap().text();
    let nonce = between(&page, "createNonceMiddleware( \"", "\"").to_owned();
    let ask =
        Request::get("/wp-json/wp-site-health/v1/tests/page-cache").field("X-WP-Nonce", nonce);
    let answer = admin.send(ask).unwrap().expect_status(200).text();
    let result: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(result["status"], "good", "{answer}");
    let page = admin.get("/wp-admin/site-health.php").unwrap().text();
    let results = between(&page, "var SiteHealth = ", "</script>");
    let result = between(results, "\"test\":\"galley_purges\"", "}");
    assert!(result.contains("\"status\":\"good\""), "{result}");
    // What asks the server comes after the page, over REST.
    for test in ["connection", "defeats"] {
        let path = format!("/wp-json/galley/v1/health/{test}");
        assert!(results.contains(&path.replace('/', "\\/")), "{results}");
        let anonymous = stack.get(&path);
        assert_eq!(anonymous.status, 401, "{}", anonymous.beginning());
        let ask = Request::get(&path).field("X-WP-Nonce", rest_nonce(&mut admin));
        let result: Value =
            serde_json::from_str(&admin.send(ask).unwrap().expect_status(200).text()).unwrap();
        assert_eq!(result["test"], format!("galley_{test}"), "{result}");
        if test == "connection" {
            assert_eq!(result["status"], "good", "{result}");
        }
    }
    let info = admin.get("/wp-admin/site-health.php?tab=debug").unwrap();
    let text = info.text();
    let galley = between(
        &text,
        "id=\"health-check-accordion-block-galley\"",
        "</table>",
    );
    assert!(galley.contains("Pending purges"), "{galley}");
}

#[test]
fn a_page_lives_no_longer_than_its_nonces() {
    let stack = &*shared();
    let lifetime = |slug: &str| {
        stack.publish(slug);
        stack.warm(&format!("/{slug}/"));
        let why = stack.why(&format!("/{slug}/"));
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
fn an_ended_nonce_of_nobody_is_no_nonce() {
    let stack = &*shared();
    let target = "/wp-json/wp/v2/posts?per_page=1";
    let ask = |browser: &mut Browser, nonce: &str| {
        let request = Request::get(target).field("X-WP-Nonce", nonce);
        browser.send(request).unwrap().status
    };
    let mut visitor = Browser::new(stack.addr(), &stack.authority());
    assert_eq!(ask(&mut visitor, "0123456789"), 200);
    let mut admin = stack.admin();
    assert_eq!(
        ask(&mut admin, "0123456789"),
        403,
        "for a login it still counts"
    );
    let cookie = admin
        .jar
        .starting_with("wordpress_logged_in_")
        .unwrap()
        .to_owned();
    assert!(!cookie.is_empty());
}

#[test]
fn a_cookie_on_a_page_for_everybody_is_named_with_its_plugin() {
    let stack = &*shared();
    stack.publish("with-cookie");
    stack.get("/with-cookie/");
    wait_for("the cookie to be noted", TIMEOUT, || {
        stack
            .php("echo wp_json_encode(get_option('galley_cookies'));")
            .contains("visited_before")
    });
    let mut admin = stack.admin();
    let page = admin.get("/wp-admin/plugins.php").unwrap().text();
    let notice = between(&page, "galley-notice", "</div>");
    assert!(
        notice.contains("visited_before") && notice.contains("visits.php"),
        "{notice}"
    );
    assert!(notice.contains("/with-cookie/"), "{notice}");
    let link = unescaped(between(notice, "href=\"", "\""));
    admin
        .get(link.strip_prefix(&stack.url("")).unwrap())
        .unwrap()
        .is(302);
    let page = admin.get("/wp-admin/plugins.php").unwrap().text();
    assert!(!page.contains("galley-notice"), "dismissed");
}

#[test]
fn the_commands_of_wp_cli_ask_and_order() {
    let stack = &*shared();
    stack.publish("by-command");
    stack.warm("/by-command/");
    let url = stack.url("/by-command/");
    // Debian has no WP-CLI: as much of its class as the commands use, in the WordPress of the real command line.
    let run = |call: &str| {
        stack.php(&format!(
            "class WP_CLI {{ static function add_command($n, $c) {{}} static function line($t) {{ echo $t, PHP_EOL; }} \
             static function success($t) {{ echo 'ok ', $t; }} static function error($t) {{ echo 'error ', $t; }} }} \
             add_filter('home_url', function ($u) {{ return str_replace('http://localhost', '{}', $u); }}); \
             require WP_PLUGIN_DIR . '/galley/admin/cli.php'; {call}",
            stack.url("")
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
    assert!(!stack.get("/by-command/").is_hit());
}
