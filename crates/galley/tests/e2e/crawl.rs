//! A crawl from many addresses beside people: who is refused, and what proves a visit. The tests check decisions, not times.

use std::net::Ipv4Addr;

use galley_testkit::client::{Connection, Request, Response};

use crate::support::{AssertStatus, SiteBuilder, TEST_PAGE, TIMEOUT, TestSite, with_host};

/// An address of the crawl.
fn crawler(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 8, 0, number)
}

const PERSON: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 5);
const EDITOR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 6);
const PROXY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

const LOGIN: &str = "wordpress_logged_in_0123=nobody|1|x";

/// Sends its page to the cookie that WordPress would accept, and redirects others to the login.
const ADMIN: &str = "<?php if (!str_contains($_SERVER['HTTP_COOKIE'] ?? '', '|real')) { header('Location: /wp-login.php', true, 302); exit; } ?>ok";

fn site(lines: &str, server: &str) -> TestSite {
    SiteBuilder::php()
        .file("index.php", TEST_PAGE)
        .file("wp-login.php", TEST_PAGE)
        .file("wp-admin/edit.php", ADMIN)
        .file("style.css", "body{}")
        .file("robots.txt", "")
        .workers(3)
        .server(server)
        .site(&format!(
            "in_flight = 2\nqueue_timeout = \"30m\"\nlock_age = \"30m\"\nlogin_limit = \"off\"\n{lines}"
        ))
        .start()
}

fn ask(site: &TestSite, from: Ipv4Addr, request: Request) -> Response {
    site.connect_from(from)
        .exchange(&with_host(request))
        .unwrap()
}

fn get(site: &TestSite, from: Ipv4Addr, target: &str) -> Response {
    ask(site, from, Request::get(target))
}

/// Occupies the slot that clients without proof may have; the result is the connection that waits for the page.
fn crawl(site: &TestSite) -> Connection {
    site.hold("/held");
    let mut first = site.connect_from(crawler(1));
    first
        .send(&with_host(Request::get("/held?filter_color=red")))
        .unwrap();
    site.wait_until_held("/held");
    first
}

fn end_crawl(site: &TestSite, mut first: Connection) {
    site.release("/held");
    first.receive("GET").unwrap().assert_status(200);
}

#[track_caller]
fn assert_unseen(response: &Response) {
    assert_eq!(response.status, 429, "{}", response.excerpt());
    assert_eq!(response.field("retry-after"), Some("10"));
    let status = response.field("cache-status").unwrap_or_default();
    assert!(status.contains("unseen"), "{status}");
}

/// Whether the address has proved a visit, by what a page with a query gets while the crawl has its slot.
fn is_proven(site: &TestSite, from: Ipv4Addr) -> bool {
    let response = get(
        site,
        from,
        &format!("/shop?filter_size={}", from.octets()[3]),
    );
    if response.status != 200 {
        assert_unseen(&response);
    }
    response.status == 200
}

#[test]
fn a_crawl_is_refused_while_people_get_their_pages() {
    let site = site("", "");
    get(&site, PERSON, "/style.css").assert_status(200);
    let first = crawl(&site);
    for number in 2..20 {
        let target = format!("/shop?filter_color=red&filter_size={number}");
        assert_unseen(&get(&site, crawler(number), &target));
    }
    // A person who has a page of the site open, and one who is new.
    get(&site, PERSON, "/shop?filter_color=blue").assert_status(200);
    get(&site, STRANGER, "/new").assert_status(200);
    assert_unseen(&get(&site, STRANGER, "/shop?filter_color=green"));
    // The same page is a hit for everybody.
    get(&site, crawler(20), "/shop?filter_color=blue").assert_status(200);
    // A tracking parameter is not in the key.
    get(&site, STRANGER, "/other?utm_source=mail").assert_status(200);
    // What programs request is excepted.
    for target in [
        "/feed/?x=1",
        "/wp-json/wp/v2/posts?page=2",
        "/?rest_route=/x",
        "/robots.txt?y=1",
    ] {
        get(&site, STRANGER, target).assert_status(200);
    }
    ask(&site, STRANGER, Request::form("/send?x=1", &[("a", "b")])).assert_status(200);
    // The name of a crawler needs proof of its own.
    let bot = Request::get("/page").field("User-Agent", "Googlebot/2.1");
    assert_unseen(&ask(&site, PERSON, bot));
    // The console command explains it, for an address that has not visited the site.
    let why = site.why("/shop?filter_color=green");
    assert!(why.contains("\"class\":\"unseen\""), "{why}");
    // It sends no `Accept-Language`, as no browser does; for a feed that means nothing.
    assert!(site.why("/newer").contains("\"doubtful\":true"));
    assert!(site.why("/feed/?y=2").contains("\"doubtful\":false"));
    end_crawl(&site, first);
    galley_testkit::wait_for("the end of the rest after that page", TIMEOUT, || {
        get(&site, crawler(30), "/shop?filter_color=black").status == 200
    });
}

#[test]
fn a_file_proves_a_visit_and_nothing_else_that_anybody_can_send() {
    let site = site("", "");
    get(&site, PERSON, "/style.css").assert_status(200);
    let first = crawl(&site);
    let addresses = |number| Ipv4Addr::new(127, 9, number, 1);
    let forged: [(&str, Request); 7] = [
        ("a missing file", Request::get("/missing.css")),
        ("another kind of file", Request::get("/robots.txt")),
        ("HEAD", Request::new("HEAD", "/style.css")),
        (
            "a proxy that is not trusted",
            Request::get("/style.css").field("X-Forwarded-For", "192.0.2.1"),
        ),
        (
            "a cache that names itself",
            Request::get("/style.css").field("Via", "1.1 cdn"),
        ),
        (
            "a forged cookie",
            Request::get("/wp-admin/edit.php").cookie(LOGIN),
        ),
        (
            "forged fields of a browser",
            Request::get("/page")
                .field("Referer", "http://example.com/")
                .field("Sec-Fetch-Site", "same-origin"),
        ),
    ];
    for (number, (what, request)) in (1..).zip(forged) {
        let from = addresses(number);
        ask(&site, from, request);
        assert!(!is_proven(&site, from), "{what}");
    }
    let proofs: [(&str, Request, u16); 3] = [
        ("a file", Request::get("/style.css"), 200),
        (
            "a part of a file",
            Request::get("/style.css").field("Range", "bytes=0-1"),
            206,
        ),
        (
            "a session of the administration",
            Request::get("/wp-admin/edit.php").cookie("wordpress_logged_in_0123=editor|1|real"),
            200,
        ),
    ];
    for (number, (what, request, status)) in (100..).zip(proofs) {
        let from = addresses(number);
        ask(&site, from, request).assert_status(status);
        assert!(is_proven(&site, from), "{what}");
    }
    end_crawl(&site, first);
}

#[test]
fn a_trusted_proxy_names_the_visitor_and_proves_nothing_for_itself() {
    let site = site("", "trusted_proxies = [\"127.0.0.9\"]");
    let through = |target: &str, client: Option<&str>| {
        let request = Request::get(target);
        let request = match client {
            Some(client) => request.field("X-Forwarded-For", client),
            None => request,
        };
        ask(&site, PROXY, request)
    };
    through("/style.css", Some("192.0.2.1")).assert_status(200);
    through("/style.css", None).assert_status(200);
    let first = crawl(&site);
    through("/shop?filter_a=1", Some("192.0.2.1")).assert_status(200);
    assert_unseen(&through("/shop?filter_a=2", Some("192.0.2.2")));
    assert_unseen(&through("/shop?filter_a=3", None));
    end_crawl(&site, first);
}

#[test]
fn password_guesses_do_not_delay_an_editor() {
    let site = site("", "");
    get(&site, EDITOR, "/style.css").assert_status(200);
    site.hold("/wp-login.php");
    let guess = |number| {
        let mut connection = site.connect_from(crawler(number));
        let form = Request::form("/wp-login.php", &[("log", "admin"), ("pwd", "x")]);
        connection.send(&with_host(form)).unwrap();
        connection
    };
    let mut guesses = vec![guess(1)];
    site.wait_until_held("/wp-login.php");
    guesses.extend((2..40).map(guess));
    galley_testkit::wait_for("the guesses in the queue", TIMEOUT, || {
        site.status_number("waiting") == 38
    });
    // The other slot is free for the editor, who has loaded the files of the login page.
    site.unhold("/wp-login.php");
    let login = || Request::form("/wp-login.php", &[("log", "editor"), ("pwd", "y")]);
    ask(&site, EDITOR, login()).assert_status(200);
    ask(
        &site,
        EDITOR,
        Request::get("/wp-admin/edit.php").cookie(LOGIN),
    )
    .assert_status(302);
    get(&site, STRANGER, "/page").assert_status(200);
    assert_eq!(site.status_number("waiting"), 38, "the guesses still wait");
    site.release("/wp-login.php");
    for mut connection in guesses {
        connection.receive("POST").unwrap().assert_status(200);
    }
}

#[test]
fn without_visits_or_with_the_option_off_nobody_is_unseen() {
    for lines in ["", "crawl_shield = false"] {
        let site = site(lines, "");
        if !lines.is_empty() {
            get(&site, PERSON, "/style.css").assert_status(200);
        }
        let first = crawl(&site);
        get(&site, crawler(2), "/shop?filter_color=red").assert_status(200);
        end_crawl(&site, first);
    }
}

#[test]
fn a_challenge_opens_the_page_without_script_and_cookie() {
    let site = site("crawl_challenge = true", "");
    assert!(site.status().contains("\"crawl_shield\":\"no-visits\""));
    get(&site, PERSON, "/style.css").assert_status(200);
    assert!(site.status().contains("\"crawl_shield\":\"on\""));
    let first = crawl(&site);
    let target = "/shop?filter_color=red";
    let in_german = || Request::get(target).field("Accept-Language", "x-y, de-AT;q=0.9, en;q=0.8");
    let page = ask(&site, STRANGER, in_german());
    assert_unseen(&page);
    let text = page.text();
    assert!(text.len() < 2048, "{} bytes", text.len());
    assert!(
        text.contains("<html lang=\"de\">") && text.contains("http-equiv=\"refresh\""),
        "{text}"
    );
    assert!(
        !text.contains("<script") && !page.has("Set-Cookie"),
        "{text}"
    );
    let sheet = text
        .split("href=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let sheet = sheet.unwrap_or_else(|| panic!("{text}")).to_owned();
    // The ticket is for this client.
    get(&site, crawler(40), &sheet).assert_status(404);
    get(&site, STRANGER, "/galley-visit/0-0.css").assert_status(404);
    assert_unseen(&ask(&site, STRANGER, in_german()));
    let css = get(&site, STRANGER, &sheet);
    css.assert_status(200);
    assert_eq!(css.field("content-type"), Some("text/css; charset=utf-8"));
    assert_eq!(css.field("cache-control"), Some("no-store"));
    ask(&site, STRANGER, in_german()).assert_status(200);
    // Programs never get the page.
    let head = ask(&site, crawler(41), Request::new("HEAD", target));
    head.assert_status(200);
    let head = ask(
        &site,
        crawler(41),
        Request::new("HEAD", "/shop?filter_color=blue"),
    );
    assert_unseen(&head);
    get(&site, crawler(42), "/feed/?a=1").assert_status(200);
    end_crawl(&site, first);
}

/// A shop whose pages depend on two parameters and on no other.
const SHOP: &str = "<?php if (strncmp($_SERVER['REQUEST_URI'], '/filters', 8) === 0) { exit('<html>' . ($_GET['color'] ?? '') . '|' . ($_GET['size'] ?? '') . '</html>'); } ?>";

#[test]
fn facets_are_learned_proposed_and_limited() {
    let site = SiteBuilder::php()
        .file("index.php", format!("{SHOP}{TEST_PAGE}"))
        .file("style.css", "body{}")
        .workers(3)
        .site("in_flight = 2\nqueue_timeout = \"30m\"\nlock_age = \"30m\"")
        .start();
    get(&site, PERSON, "/style.css").assert_status(200);
    for number in 0..60 {
        let target = format!("/filters?color={number}&size={}", number % 5);
        get(&site, PERSON, &target).assert_status(200);
        get(&site, PERSON, &format!("/filters?ref={number}")).assert_status(200);
    }
    galley_testkit::wait_for("the proposal", TIMEOUT, || {
        let why = site.why("/filters?ref=1");
        why.contains(r#""line":"ignore_query = [\"ref\"]""#)
    });
    let all = site.admin("GET /not-cached", None, "");
    assert!(
        all.contains(r#""path":"/filters""#) && all.contains(r#"[\"ref\"]"#),
        "{all}"
    );
    // One combination after another soon exceeds a page a second, and waits like a client without proof.
    let first = crawl(&site);
    let combined = |number| {
        let target = format!("/filters?color={number}&size=x{number}");
        get(&site, PERSON, &target)
    };
    let refused = (0..1_000).map(combined).find(|one| one.status != 200);
    assert_unseen(&refused.unwrap());
    get(&site, PERSON, "/filters?color=new").assert_status(200);
    get(&site, PERSON, "/other?color=1&size=1").assert_status(200);
    end_crawl(&site, first);
}

#[test]
fn pages_get_a_link_that_proves_visits_where_files_do_not() {
    let site = site("", "");
    let page = |number: u32| get(&site, STRANGER, &format!("/page-{number}")).text();
    let is_linked = |body: &str| body.contains("HTTP_GALLEY_VISIT=link");
    assert!(!is_linked(&page(0)), "too early");
    let linked = (1..1_000).map(page).position(|body| is_linked(&body));
    assert!(linked.is_some_and(|at| at >= 190), "{linked:?}");
    let status = site.status();
    assert!(
        status.contains(r#""crawl_shield_link":"not-loaded""#),
        "{status}"
    );
    let sheet = get(&site, PERSON, "/galley-visit/style.css");
    sheet.assert_status(200);
    assert_eq!(sheet.field("content-type"), Some("text/css; charset=utf-8"));
    assert_eq!(sheet.field("cache-control"), Some("private, max-age=600"));
    let status = site.status();
    assert!(
        status.contains(r#""crawl_shield_link":"loaded""#)
            && status.contains(r#""crawl_shield":"on""#),
        "{status}"
    );
    let first = crawl(&site);
    assert!(is_proven(&site, PERSON) && !is_proven(&site, STRANGER));
    end_crawl(&site, first);
}

#[test]
fn a_challenge_replaces_the_503_of_a_page_without_a_query() {
    let site = site("crawl_challenge = true\nqueue = 1", "");
    get(&site, PERSON, "/style.css").assert_status(200);
    let pages = ["/held-1", "/held-2", "/held-3"];
    let start = |(number, page): (u8, &&str)| {
        site.hold(page);
        let mut connection = site.connect_from(Ipv4Addr::new(127, 0, number, 9));
        let request = Request::get(page).field("Accept-Language", "en");
        connection.send(&with_host(request)).unwrap();
        connection
    };
    let waiting: Vec<Connection> = (20..).zip(&pages).map(start).collect();
    galley_testkit::wait_for("a full queue", TIMEOUT, || {
        site.status_number("waiting") == 1
    });
    let is_challenge = |response: &Response| {
        response.status == 503 && response.text().contains("http-equiv=\"refresh\"")
    };
    let page = get(&site, STRANGER, "/new");
    assert!(is_challenge(&page), "{}", page.excerpt());
    for program in ["/feed/", "/wp-json/wp/v2/posts"] {
        let response = get(&site, STRANGER, program);
        assert!(
            response.status == 503 && !is_challenge(&response),
            "{program}"
        );
    }
    let sheet = page.text();
    let sheet = sheet.split("href=\"").nth(1).unwrap().split('"').next();
    get(&site, STRANGER, sheet.unwrap()).assert_status(200);
    // Now it takes the place of a client without proof.
    site.hold("/new");
    let rejected = || {
        let status: serde_json::Value = serde_json::from_str(&site.status()).unwrap();
        let visitors = &status["sites"][0]["upstreams"][0]["classes"]["visitor"];
        visitors["rejected"].as_u64().unwrap()
    };
    let before = rejected();
    let mut proven = site.connect_from(STRANGER);
    proven.send(&with_host(Request::get("/new"))).unwrap();
    galley_testkit::wait_for("the end of another request", TIMEOUT, || {
        rejected() == before + 1
    });
    let mut statuses = Vec::new();
    for (page, mut connection) in pages.iter().zip(waiting) {
        site.release(page);
        statuses.push(connection.receive("GET").unwrap().status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 503]);
    site.release("/new");
    proven.receive("GET").unwrap().assert_status(200);
}
