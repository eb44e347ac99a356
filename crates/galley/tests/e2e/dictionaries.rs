//! Pages as the difference to a compression dictionary (RFC 9842), decoded by the program `zstd`.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use galley_testkit::wait_for;
use sha2::{Digest as _, Sha256};

use crate::dictionary_support::{Dictionary, Pages, Visitor, navigation, page, start, visitor};
use crate::support::{SiteBuilder, TIMEOUT, TestSite};
use crate::tls_support::{Authority, over_tls};

#[test]
fn a_second_page_is_sent_as_the_difference_to_a_dictionary() {
    let pages = Pages::start();
    for server in ["fast_path = true", "fast_path = false"] {
        let site = start(&pages, server);
        let visitor = visitor(&site);
        let dictionary = visitor.wait_for_dictionary(&["/a/", "/b/", "/c/"], None);
        let bytes = String::from_utf8(dictionary.bytes.clone()).unwrap();
        let known = ["/a/", "/b/", "/c/"].map(|path| page(path, ""));
        assert!(known.contains(&bytes), "a page as it was sent");
        let reply = &dictionary.reply;
        let field = |name| reply.field(name).unwrap_or_default();
        assert_eq!(
            field("use-as-dictionary"),
            "match=\"/*\", match-dest=(\"document\")"
        );
        assert_eq!(field("cache-control"), "private, max-age=86400, immutable");
        assert!(field("age").parse::<u64>().is_ok_and(|age| age < 3600));
        let hash: String = Sha256::digest(&dictionary.bytes)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert_eq!(dictionary.path, format!("/galley-dictionary/{hash}"));
        wait_for("the dictionary as br", TIMEOUT, || {
            let coded = visitor.read(&dictionary.path);
            coded.status == 200 && coded.coding() == "br"
        });

        for protocol in ["--http1.1", "--http2"] {
            let visitor = Visitor {
                site: &site,
                protocol,
            };
            for path in ["/a/", "/b/", "/c/"] {
                let reply = visitor.wait_for_dcz(path, &dictionary);
                assert!(dictionary.decode(&site, &reply) == page(path, ""), "{path}");
                let plain = visitor.read(path);
                assert!(reply.body.len() * 2 < plain.body.len());
                assert_eq!(
                    reply.field("cache-status"),
                    Some("galley; hit; detail=dictionary")
                );
                assert_eq!(
                    reply.fields("vary").join(", "),
                    "Accept-Encoding, Available-Dictionary"
                );
                assert_eq!(plain.field("vary"), Some("Accept-Encoding"));
                assert_eq!(reply.dictionary(), Some(dictionary.path.as_str()));

                let etag = reply.field("etag").unwrap();
                assert!(etag.starts_with("\"v1-dcz-"), "{etag}");
                let value = dictionary.hash();
                let mut fields = navigation(&value).to_vec();
                let head = visitor.ask(&["--head"], path, &fields);
                assert_eq!(head.field("content-length"), reply.field("content-length"));
                assert_eq!((head.coding(), head.body.len()), ("dcz", 0));
                fields.push(("If-None-Match", etag));
                assert_eq!(visitor.get(path, &fields).status, 304);
                fields.pop();
                fields.push(("Range", "bytes=0-9"));
                let part = visitor.get(path, &fields);
                assert_eq!((part.status, part.coding()), (206, "identity"));
                assert_eq!(part.body, page(path, "").as_bytes()[..10]);
            }
        }
    }
}

#[test]
fn requests_that_a_dictionary_does_not_answer_get_what_they_got_before() {
    let pages = Pages::start();
    let site = start(&pages, "");
    let visitor = visitor(&site);
    let dictionary = visitor.wait_for_dictionary(&["/a/", "/b/"], None);
    visitor.wait_for_dcz("/b/", &dictionary);
    let hash = dictionary.hash();
    let good = navigation(&hash);
    let other = format!(":{}:", STANDARD.encode([7; 32]));
    let text = hash.trim_matches(':');
    let long = format!(":{}:", "A".repeat(4000));
    let without = |name: &str| -> Vec<(&str, &str)> {
        good.into_iter().filter(|(one, _)| *one != name).collect()
    };
    let with = |name: &'static str, value: &'static str| {
        let mut fields = without(name);
        fields.push((name, value));
        fields
    };
    let mut cases = vec![
        without("Available-Dictionary"),
        without("Sec-Fetch-Site"),
        with("Accept-Encoding", "gzip, br, zstd"),
        with("Accept-Encoding", "br, *"),
        with("Accept-Encoding", "br, dcz;q=0.5"),
        with("Accept-Encoding", "br, dcz;q=0"),
    ];
    let wrong = [
        other,
        text.to_owned(),
        format!("\"{text}\""),
        format!(":{text}"),
        format!("{hash}, {hash}"),
        long,
        ":".to_owned(),
        ";".to_owned(),
        "::".to_owned(),
    ];
    for value in &wrong {
        let mut fields = without("Available-Dictionary");
        fields.push(("Available-Dictionary", value));
        cases.push(fields);
    }
    let mut twice = good.to_vec();
    twice.push(("Available-Dictionary", &hash));
    cases.push(twice);
    for (origin, mode) in [
        ("cross-site", "navigate"),
        ("cross-site", "no-cors"),
        ("same-site", "cors"),
        ("cross-site", "cors"),
    ] {
        let mut fields = without("Sec-Fetch-Site");
        fields.retain(|(name, _)| *name != "Sec-Fetch-Mode");
        fields.extend([("Sec-Fetch-Site", origin), ("Sec-Fetch-Mode", mode)]);
        cases.push(fields);
    }
    for fields in cases {
        let reply = visitor.get("/b/", &fields);
        assert_eq!((reply.status, reply.coding()), (200, "br"), "{fields:?}");
        assert_eq!(reply.field("vary"), Some("Accept-Encoding"));
    }
    let identity = visitor.get("/b/", &with("Accept-Encoding", "*;q=0, identity"));
    assert_eq!(identity.body, page("/b/", "").as_bytes());
    assert_eq!(
        (identity.coding(), identity.field("etag")),
        ("identity", Some("\"v1\""))
    );
    // Typed, or from a bookmark.
    let typed = with("Sec-Fetch-Site", "none");
    assert_eq!(visitor.get("/b/", &typed).coding(), "dcz");
    others_get_no_dictionary(&pages, &site, &visitor, &dictionary);
}

/// Without TLS, for a visitor who is logged in, and for addresses that are none of a dictionary.
fn others_get_no_dictionary(
    pages: &Pages,
    site: &TestSite,
    visitor: &Visitor<'_>,
    dictionary: &Dictionary,
) {
    let hash = dictionary.hash();
    let good = navigation(&hash);
    let mut request = galley_testkit::client::Request::get("/b/");
    for (name, value) in good {
        request = request.field(name, value);
    }
    for _ in 0..3 {
        let reply = site.send(request.clone());
        assert!(reply.field("content-encoding") != Some("dcz") && !reply.has("link"));
    }
    let mut session = good.to_vec();
    session.push(("Cookie", "wordpress_logged_in_1=x"));
    assert_ne!(visitor.get("/b/", &session).coding(), "dcz");
    let plain = site.send(galley_testkit::client::Request::get(&dictionary.path));
    assert_eq!(plain.status, 404);
    for path in [
        "/galley-dictionary/00",
        &dictionary.path.to_uppercase(),
        &dictionary.path.replace(hash.trim_matches(':'), "x"),
    ] {
        assert_eq!(visitor.get(&format!("{path}x"), &[]).dictionary(), None);
    }
    let unknown = format!("/galley-dictionary/{}", "0".repeat(64));
    assert_eq!(visitor.get(&unknown, &[]).status, 404);
    assert_eq!(pages.origin.count(&unknown), 0, "the upstream is not asked");
}

#[test]
fn a_purge_ends_a_dictionary_and_the_pages_made_with_it() {
    let pages = Pages::start();
    let site = start(&pages, "");
    let visitor = visitor(&site);
    let paths = ["/a/", "/b/", "/c/"];
    let old = visitor.wait_for_dictionary(&paths, None);
    for path in paths {
        visitor.wait_for_dcz(path, &old);
    }
    let source = paths
        .into_iter()
        .find(|path| page(path, "").as_bytes() == old.bytes);
    let source = source.expect("the dictionary is one of the pages");
    let other = paths.into_iter().find(|path| *path != source).unwrap();

    // A purge of another page leaves the dictionary.
    pages.edit("<p>first edit</p>");
    site.purge(&["--url", &format!("https://example.test{other}")]);
    let reply = visitor.navigate(other, &old);
    assert_ne!(reply.coding(), "dcz", "the first form of the new page");
    let reply = visitor.wait_for_dcz(other, &old);
    assert!(old.decode(&site, &reply) == page(other, "<p>first edit</p>"));

    // From the acknowledgment on, nothing is made with the purged page.
    pages.edit("<p>second edit</p>");
    site.purge(&["--url", &format!("https://example.test{source}")]);
    assert_eq!(visitor.get(&old.path, &[]).status, 404);
    for path in paths {
        assert_ne!(visitor.navigate(path, &old).coding(), "dcz", "{path}");
    }
    let new = visitor.wait_for_dictionary(&paths, Some(&old));
    assert_ne!(new.hash(), old.hash());
    for path in paths {
        let reply = visitor.wait_for_dcz(path, &new);
        let plain = visitor.get(path, &[("Accept-Encoding", "identity")]);
        assert_eq!(new.decode(&site, &reply).as_bytes(), plain.body);
        assert_ne!(visitor.navigate(path, &old).coding(), "dcz");
    }
    // A purge of everything.
    site.purge(&["--all"]);
    assert_eq!(visitor.get(&new.path, &[]).status, 404);
    let reply = visitor.navigate("/b/", &new);
    assert_ne!(reply.coding(), "dcz");
}

#[test]
fn pages_that_are_not_for_everyone_take_no_part() {
    let pages = Pages::start();
    let rules = "[[site.rule]]\npath = \"/closed/*\"\nallow = [\"127.0.0.0/8\"]\n\
                 [[site.rule]]\npath = \"/secret/*\"\nbasic_auth = \"{dir}/users\"\n";
    let line = format!("upstream = [\"{}\"]", pages.origin.url());
    let builder = SiteBuilder::upstream_line(&line).site("esi = true\nvary_cookies = [\"lang\"]");
    builder
        .scratch
        .write("users", "me:{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=\n")
        .unwrap();
    let site = over_tls(builder, &Authority::new()).more(rules).start();
    let visitor = visitor(&site);
    let mut closed: Vec<(&str, &[(&str, &str)])> = Vec::new();
    for path in [
        "/closed/a/",
        "/closed/b/",
        "/json/a/",
        "/json/b/",
        "/esi/a/",
        "/esi/b/",
    ] {
        closed.push((path, &[]));
    }
    let password = [("Authorization", "Basic bWU6dGVzdA==")];
    closed.extend([("/secret/a/", &password[..]), ("/secret/b/", &password[..])]);
    let cookie = [("Cookie", "lang=de")];
    closed.extend([
        ("/in-german/a/", &cookie[..]),
        ("/in-german/b/", &cookie[..]),
    ]);
    let read = |(path, more): (&str, &[(&str, &str)])| {
        let mut fields = vec![("Accept-Encoding", "br")];
        fields.extend_from_slice(more);
        let reply = visitor.get(path, &fields);
        assert_eq!(reply.status, 200, "{path}: {}", reply.head);
        reply
    };
    // Twice what an open page needs: it is compared with the new dictionaries at its next hit.
    for name in ["/open/a/", "/later/a/"] {
        let open = [name, &name.replace("/a/", "/b/")];
        for _ in 0..4 {
            for one in &closed {
                drop(read(*one));
            }
        }
        let dictionary = visitor.wait_for_dictionary(&open, None);
        let hash = dictionary.hash();
        for one in &closed {
            let reply = read(*one);
            assert_eq!(reply.dictionary(), None, "{}", one.0);
            let mut fields = navigation(&hash).to_vec();
            fields.extend_from_slice(one.1);
            assert_ne!(visitor.get(one.0, &fields).coding(), "dcz", "{}", one.0);
        }
    }
    let hits = visitor.read("/closed/a/");
    assert_eq!(
        hits.field("cache-status"),
        Some("galley; hit"),
        "stored all the same"
    );
}

#[test]
fn a_site_without_dictionaries_names_none_also_after_a_reload() {
    let pages = Pages::start();
    let site = start(&pages, "");
    let visitor = visitor(&site);
    let dictionary = visitor.wait_for_dictionary(&["/a/", "/b/"], None);
    visitor.wait_for_dcz("/a/", &dictionary);
    let config = site.galley.config();
    let text = fs::read_to_string(config).unwrap();
    fs::write(
        config,
        text.replace("dictionaries = true", "dictionaries = false"),
    )
    .unwrap();
    assert!(site.galley.cli(&["reload"]).unwrap().status.success());
    wait_for("the dictionary to end", TIMEOUT, || {
        let reply = visitor.get(&dictionary.path, &[]);
        reply.field("use-as-dictionary").is_none() && reply.body != dictionary.bytes
    });
    assert_ne!(visitor.navigate("/a/", &dictionary).coding(), "dcz");
    wait_for("the page to name no dictionary", TIMEOUT, || {
        visitor.read("/a/").dictionary().is_none()
    });
    let page = visitor.read("/a/");
    assert_eq!(
        page.field("cache-status"),
        Some("galley; hit"),
        "the page is kept"
    );
}
