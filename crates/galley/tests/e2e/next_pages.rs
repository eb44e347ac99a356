//! Pages name the stored pages that visitors most often open from them, and Chromium loads these in advance.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use galley_testkit::origin::Origin;
use galley_testkit::{Chromium, Scratch, wait_for};
use rcgen::{KeyPair, PublicKeyData as _};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::dictionary_support::{Reply, Visitor, visitor};
use crate::support::{HOST, SiteBuilder, TIMEOUT, TestSite};
use crate::tls_support::{Authority, over_tls, tls_addr};

/// Links of the page `/a/`.
const LINKS: &str = "<a href=\"/b/\">b</a> <a href=\"/c/#part\">c</a> <a href=\"/d/\">d</a> <a href=\"/d/?x=1\">x</a> <a href=\"/e/\">e</a> \
    <a href=\"/private/\">p</a> <a href=\"/no/\" rel=\"nofollow\">n</a> <a href=\"/file.html\">f</a>";

/// A page that the head of another names.
fn rules(reply: &Reply) -> Vec<String> {
    let own = reply.fields("speculation-rules");
    let Some(text) = own
        .iter()
        .find_map(|text| text.strip_prefix("\"data:application/speculationrules+json,"))
    else {
        return Vec::new();
    };
    let text = percent_encoding::percent_decode_str(text.trim_end_matches('"'));
    let rules: Value = serde_json::from_str(&text.decode_utf8().unwrap()).unwrap();
    let urls = rules["prefetch"][0]["urls"].as_array().unwrap().iter();
    urls.map(|url| url.as_str().unwrap().to_owned()).collect()
}

/// An origin whose pages have [`LINKS`]; those below `/private/` are not stored.
fn origin() -> Origin {
    Origin::start(|request, writer| {
        let cache = match request.path() {
            "/private/" => "private",
            _ => "max-age=6000",
        };
        let fields = [("Content-Type", "text/html"), ("Cache-Control", cache)];
        let text = format!(
            "<!doctype html><title>{}</title><body>{LINKS}{}",
            request.path(),
            "<p>text</p>".repeat(200)
        );
        writer.respond(200, &fields, text.as_bytes());
    })
    .unwrap()
}

fn start(origin: &Origin, options: &str) -> TestSite {
    let line = format!("upstream = [\"{}\"]", origin.url());
    over_tls(
        SiteBuilder::upstream_line(&line).site(options),
        &Authority::new(),
    )
    .start()
}

/// Visits a page from another one so often.
fn visit(visitor: &Visitor<'_>, page: &str, referer: &str, times: usize) {
    for _ in 0..times {
        visitor.get(page, &[("Referer", referer)]);
    }
}

const FROM_A: &str = "https://example.test/a/";

/// Reads `/a/` until it names these pages, and no others.
fn wait_until_named(visitor: &Visitor<'_>, wanted: &[&str]) {
    let mut found = Vec::new();
    wait_for(&format!("/a/ to name {wanted:?}"), TIMEOUT, || {
        found = rules(&visitor.read("/a/"));
        let wanted = wanted
            .iter()
            .map(|path| format!("https://example.test{path}"));
        found.iter().cloned().eq(wanted)
    });
}

#[test]
fn a_page_names_the_stored_pages_that_visitors_open_from_it() {
    let origin = origin();
    let site = start(&origin, "next_pages = true");
    let visitor = visitor(&site);
    for path in ["/a/", "/b/", "/c/", "/d/", "/e/", "/secret/", "/no/"] {
        visitor.read(path);
    }
    visit(&visitor, "/b/", FROM_A, 30);
    visit(&visitor, "/c/", FROM_A, 20);
    // Less than a fifth; not visited from this page; too few from this page.
    visit(&visitor, "/d/", FROM_A, 9);
    visit(&visitor, "/e/", "https://example.test/b/", 40);
    // Forged: pages to which `/a/` does not link or may not lead, other sites, requests that no visitor makes.
    visit(&visitor, "/secret/", FROM_A, 40);
    visit(&visitor, "/no/", FROM_A, 40);
    visit(&visitor, "/private/", FROM_A, 40);
    visit(&visitor, "/d/?x=1", FROM_A, 40);
    visit(&visitor, "/e/", "https://other.test/a/", 40);
    for _ in 0..40 {
        visitor.get("/e/", &[("Referer", FROM_A), ("Sec-Purpose", "prefetch")]);
        visitor.get(
            "/e/",
            &[("Referer", FROM_A), ("Cookie", "wordpress_logged_in_1=x")],
        );
    }
    wait_until_named(&visitor, &["/b/", "/c/"]);
    for protocol in ["--http1.1", "--http2"] {
        let visitor = Visitor {
            site: &site,
            protocol,
        };
        let hit = visitor.read("/a/");
        assert!(
            hit.field("cache-status").unwrap().contains("hit"),
            "{}",
            hit.head
        );
        assert_eq!(rules(&hit).len(), 2);
    }
    // Other pages have the same links, and nobody has followed them. Without TLS nothing is named.
    assert!(rules(&visitor.read("/c/")).is_empty());
    assert!(!site.get("/a/").has("Speculation-Rules"));
    // A page that is no more stored is not named when pages choose again.
    site.purge(&["--url", "https://example.test/b/"]);
    wait_until_named(&visitor, &["/c/"]);
}

#[test]
fn without_the_option_pages_name_nothing() {
    let origin = origin();
    let site = start(&origin, "");
    let visitor = visitor(&site);
    for path in ["/a/", "/b/"] {
        visitor.read(path);
    }
    visit(&visitor, "/b/", FROM_A, 30);
    let reply = visitor.read("/a/");
    assert!(reply.field("speculation-rules").is_none(), "{}", reply.head);
}

/// The pin of the site's key (RFC 7469 section 2.4).
fn pin(site: &TestSite) -> String {
    let key = fs::read_to_string(site.scratch.join("site.key")).unwrap();
    let key = KeyPair::from_pem(&key).unwrap();
    STANDARD.encode(Sha256::digest(key.subject_public_key_info()))
}

#[test]
fn chromium_has_the_named_page_before_the_visitor_follows_the_link() {
    let origin = origin();
    let site = start(&origin, "next_pages = true");
    let visitor = visitor(&site);
    for path in ["/a/", "/b/"] {
        visitor.read(path);
    }
    visit(&visitor, "/b/", FROM_A, 20);
    wait_until_named(&visitor, &["/b/"]);
    let scratch = Scratch::new().unwrap();
    let profile = scratch.join("chromium");
    let mut browser =
        Chromium::start_trusting_at(&profile, &pin(&site), HOST, tls_addr(&site)).unwrap();
    let mut tab = browser.new_tab().unwrap();
    // Follows the link `/b/` of `/a/` until the page has been loaded in advance: the browser needs a moment for it.
    wait_for("a page that was loaded in advance", TIMEOUT, || {
        tab.navigate(FROM_A).unwrap();
        tab.evaluate("new Promise(after => setTimeout(after, 500))")
            .unwrap();
        tab.evaluate("document.querySelector('a').click()").unwrap();
        tab.wait("location.pathname === '/b/' && document.readyState === 'complete'")
            .unwrap();
        let how = tab
            .evaluate("performance.getEntriesByType('navigation')[0].deliveryType")
            .unwrap();
        how == "navigational-prefetch"
    });
}
