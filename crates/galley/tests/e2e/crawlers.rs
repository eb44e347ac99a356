//! Good crawlers: proof by published lists and by names in DNS, their pace, and rules by name. Clients are loopback addresses;
//! the DNS server is a real one, which Galley's resolver uses in a mount namespace of its own.

use std::process::Command;

use galley_testkit::client::{Request, Response};
use galley_testkit::{Galley, Knot, Launch, runs_as_root, skip, wait_for};

use crate::access_control::{assert_refused, get_from, send_from};
use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite, binary, output_text};

const GOOGLEBOT: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
const CHROME: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/142.0.0.0";

fn get_as(site: &TestSite, number: u8, agent: &str, target: &str) -> Response {
    send_from(
        site,
        number,
        Request::get(target).field("User-Agent", agent),
    )
}

/// What `galley why` says about the client that would request a page that is not stored: the proven crawler, and the class.
fn client(site: &TestSite, number: u8, agent: &str) -> (Option<String>, String) {
    let url = format!("http://{HOST}/nothing/?x=1");
    let from = format!("127.0.0.{number}");
    let agent = format!("User-Agent: {agent}");
    let arguments = ["why", &url, "--from", &from, "-H", &agent, "--json"];
    let output = site.galley.cli(&arguments).unwrap();
    let why: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let request = &why["now"]["upstream"];
    let crawler = request["crawler"].as_str().map(str::to_owned);
    (crawler, request["class"].as_str().unwrap().to_owned())
}

/// A list in Google's form with 127.0.0.9.
const LIST: &str = r#"{"creationTime": "2026-11-01T00:00:00.000000", "prefixes": [{"ipv6Prefix": "2001:4860:4801:10::/64"}, {"ipv4Prefix": "127.0.0.9/32"}]}"#;

fn with_list(site: SiteBuilder) -> SiteBuilder {
    // Served as a file, too, but nobody asks for it.
    site.file("list.json", LIST)
        .server("crawlers = { Googlebot = \"{dir}/root/list.json\" }")
}

#[test]
fn a_listed_crawler_is_proven_and_keeps_to_the_pace_of_robots_txt() {
    let robots =
        "User-agent: *\nDisallow: /wp-admin/\n\nUser-agent: Googlebot\nCrawl-delay: 3600\n";
    let site = with_list(SiteBuilder::php())
        .file("robots.txt", robots)
        .start();
    assert_eq!(client(&site, 9, CHROME).0.as_deref(), Some("Googlebot"));
    assert_eq!(client(&site, 9, CHROME).1, "crawler");
    assert_eq!(client(&site, 10, GOOGLEBOT).0, None);
    // The file is read when a crawler comes, so the first page may not be paced yet.
    let mut number = 0;
    wait_for("the pace of `robots.txt`", TIMEOUT, || {
        number += 1;
        get_as(&site, 9, GOOGLEBOT, &format!("/first-{number}/")).status == 429
    });
    let refused = get_as(&site, 9, GOOGLEBOT, "/second/");
    assert_refused(&refused, 429, "crawl-delay");
    let seconds: u64 = refused.field("retry-after").unwrap().parse().unwrap();
    assert!((3_000..=3_600).contains(&seconds), "{seconds}");
    assert_eq!(site.runs("/second/"), 0);
    // Not stored pages of others, stored pages, and files.
    get_as(&site, 10, GOOGLEBOT, "/second/").assert_status(200);
    get_as(&site, 10, GOOGLEBOT, "/third/").assert_status(200);
    let stored = get_as(&site, 9, GOOGLEBOT, "/second/");
    assert!(stored.is_hit(), "{}", stored.excerpt());
    for _ in 0..2 {
        let found = get_as(&site, 9, GOOGLEBOT, "/robots.txt");
        assert_eq!(found.text(), robots);
    }
}

#[test]
fn an_option_sets_the_pace_and_another_the_treatment_of_names() {
    let site = with_list(SiteBuilder::php())
        .site("crawl_delay = \"1h\"\ncrawler_rules = { Bytespider = \"refuse\", GPTBot = \"1h\" }")
        .start();
    get_as(&site, 9, GOOGLEBOT, "/a/").assert_status(200);
    assert_refused(&get_as(&site, 9, GOOGLEBOT, "/b/"), 429, "crawl-delay");
    // WordPress's own `robots.txt` is a page, and never delayed.
    get_as(&site, 9, GOOGLEBOT, "/robots.txt").assert_status(200);
    // A name that is not proven is slowed together with all of this name.
    get_as(&site, 20, "GPTBot/1.2", "/c/").assert_status(200);
    assert_refused(&get_as(&site, 21, "gptbot/1.3", "/d/"), 429, "crawl-delay");
    get_as(&site, 21, CHROME, "/d/").assert_status(200);
    // A refused name gets no stored page and no file either.
    for target in ["/a/", "/e/", "/list.json"] {
        let refused = get_as(&site, 20, "Mozilla/5.0 (compatible; bytespider)", target);
        assert_refused(&refused, 403, "crawler");
    }
    get_as(&site, 20, "Bytespider", "/robots.txt").assert_status(200);
    get_from(&site, 20, "/a/").assert_status(200);
    let url = format!("http://{HOST}/a/");
    let why = site
        .galley
        .cli(&["why", &url, "-H", "User-Agent: Bytespider"]);
    let why = output_text(&why.unwrap());
    assert!(why.contains("`crawler_rules` refuses the crawler"), "{why}");
}

#[test]
fn a_broken_list_is_an_error_and_a_reload_keeps_the_old_one() {
    let site = with_list(SiteBuilder::php()).start();
    let list = site.scratch.join("root/list.json");
    std::fs::write(&list, &LIST[..90]).unwrap();
    let reload = output_text(&site.galley.cli(&["reload"]).unwrap());
    assert!(
        reload.contains("which is no list of addresses: it "),
        "{reload}"
    );
    assert_eq!(client(&site, 9, CHROME).0.as_deref(), Some("Googlebot"));
    std::fs::write(&list, "127.0.0.8\n127.0.0.11/32 # another form\n").unwrap();
    let reload = site.galley.cli(&["reload"]).unwrap();
    assert!(reload.status.success(), "{}", output_text(&reload));
    assert_eq!(client(&site, 9, CHROME).0, None);
    assert_eq!(client(&site, 11, CHROME).0.as_deref(), Some("Googlebot"));
    let of = |arguments: &[&str]| {
        let all = [&["crawlers"], arguments].concat();
        let output = site.galley.cli(&all).unwrap();
        (output.status.code(), output_text(&output))
    };
    let (code, text) = of(&[]);
    assert!(
        code == Some(0) && text.contains("Googlebot: 2 networks in"),
        "{text}"
    );
    let (code, text) = of(&["127.0.0.11", "--json"]);
    assert!(
        code == Some(0) && text.contains("\"by\":\"list\""),
        "{text}"
    );
    let (code, text) = of(&["127.0.0.9"]);
    assert!(code == Some(1) && text.contains("is on no list"), "{text}");
    std::fs::write(&list, "127.0.0.0/4\n").unwrap();
    let (code, text) = of(&[]);
    assert!(code == Some(2) && text.contains("is wider than"), "{text}");
}

/// The address of the DNS server. The resolver of the system uses port 53 only.
const DNS: &str = "127.53.0.53:53";

const ZONES: &[(&str, &str)] = &[
    (
        "googlebot.com",
        "crawl-127-0-0-9 A 127.0.0.9\ncrawl-127-0-0-12 A 127.0.0.99\n",
    ),
    (
        "127.in-addr.arpa",
        "9.0.0 PTR crawl-127-0-0-9.googlebot.com.\n10.0.0 PTR crawl-127-0-0-9.googlebot.com.\n\
         11.0.0 PTR crawl-127-0-0-9.googlebot.com.evil.test.\n12.0.0 PTR crawl-127-0-0-12.googlebot.com.\n",
    ),
];

/// A prefix for commands that use the DNS server.
fn with_resolver(file: &str) -> Vec<String> {
    let script = format!("mount --bind {file} /etc/resolv.conf && exec \"$0\" \"$@\"");
    let words = ["unshare", "--mount", "sh", "-c", &script];
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn names_in_dns_prove_a_crawler_in_the_background() {
    if !runs_as_root() {
        skip("needs root, for port 53 and a mount namespace");
        return;
    }
    let (scratch, fpm, text) = SiteBuilder::php().site("crawl_delay = \"1h\"").prepare();
    let _knot = Knot::start_at(&scratch.join("knot"), DNS.parse().unwrap(), ZONES).unwrap();
    let resolver = format!(
        "nameserver {}\noptions timeout:1\n",
        DNS.trim_end_matches(":53")
    );
    let resolver = scratch.write("resolv.conf", resolver).unwrap();
    let through = with_resolver(resolver.to_str().unwrap());
    let dir = scratch.dir("galley").unwrap();
    let config = scratch.write("galley/galley.toml", text).unwrap();
    let launch = Launch {
        through: through.clone(),
        ..Launch::default()
    };
    let galley = Galley::start_under(binary(), &dir, &config, &launch).unwrap();
    let site = TestSite {
        galley,
        fpm,
        scratch,
    };
    // A question causes no lookup, and a request does not wait for its own.
    assert_eq!(client(&site, 9, GOOGLEBOT).0, None);
    for number in 9..=12 {
        get_as(&site, number, GOOGLEBOT, &format!("/from-{number}/")).assert_status(200);
    }
    wait_for("the name of the crawler", TIMEOUT, || {
        client(&site, 9, GOOGLEBOT).0.as_deref() == Some("Googlebot")
    });
    get_as(&site, 9, GOOGLEBOT, "/paced/1/").assert_status(200);
    assert_refused(
        &get_as(&site, 9, GOOGLEBOT, "/paced/2/"),
        429,
        "crawl-delay",
    );
    // The proof is for the name: another name, or none, has no part in it.
    assert_eq!(client(&site, 9, CHROME).0, None);
    assert_eq!(client(&site, 9, "bingbot/2.0").0, None);
    let verdict = |number: u8| {
        let mut command = Command::new(&through[0]);
        command.args(&through[1..]).arg(binary());
        let address = format!("127.0.0.{number}");
        command.args(["crawlers", &address, "--agent", GOOGLEBOT, "--config"]);
        let output = command.arg(&config).output().unwrap();
        (output.status.code(), output_text(&output))
    };
    for (number, code, wanted) in [
        (
            9,
            0,
            "is Googlebot: its name is `crawl-127-0-0-9.googlebot.com`",
        ),
        (10, 1, "does not lead back to the address"),
        (11, 1, "which is not below `googlebot.com`, `google.com`"),
        (12, 1, "does not lead back to the address"),
        (13, 1, "cannot be looked up"),
    ] {
        let (exit, text) = verdict(number);
        assert!(
            exit == Some(code) && text.contains(wanted),
            "{number}: {exit:?} {text}"
        );
    }
    for number in 10..=12 {
        assert_eq!(client(&site, number, GOOGLEBOT).0, None, "{number}");
        get_as(&site, number, GOOGLEBOT, &format!("/again-{number}/")).assert_status(200);
    }
}
