//! Pages with ESI tags: what is sent, what is stored, and what a purge or a lifetime that ends changes.

use galley_testkit::client::Request;
use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::wait_for;
use serde_json::Value;

use crate::esi_stage::{Esi, LONG, TAGS, include, inner, optional, plan, plan_without_esi, whole};
use crate::http2::client::Client;
use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, with_host};

const HIT: &str = "galley; hit; detail=esi";

#[test]
fn a_page_is_put_together_and_its_parts_are_stored_on_their_own() {
    let site = plan().start();
    site.page(
        "/page",
        "a<esi:include src=\"/part?x=1&amp;y=2\"/>b<esi:remove>c</esi:remove><esi:comment text=\"d\"/><!--esi e<esi:include src='/part'></esi:include>-->f",
    );
    site.part("/part", "[{query}]");
    let first = site.get("/page").expect_status(200);
    assert_eq!(inner(&first), "a[x=1&y=2]b e[]f");
    assert_eq!(
        first.cache_status(),
        "galley; fwd=uri-miss; stored; detail=esi"
    );
    assert!(!first.has("surrogate-control"), "{}", first.beginning());
    let second = site.get("/page").expect_status(200);
    assert_eq!((second.cache_status(), &second.body), (HIT, &first.body));
    assert_eq!((site.runs("/page"), site.runs("/part")), (1, 2));
    // By its own address, and in another page.
    assert!(site.get("/part").is_hit());
    site.page("/other", &include("part"));
    assert_eq!(site.text("/other"), "[]");
    assert_eq!(site.runs("/part"), 2);
    // It is a page like any other.
    let etag = second.field("etag").unwrap().to_owned();
    let same = site.send(Request::get("/page").field("If-None-Match", &etag));
    same.assert_status(304);
    let head = site.send(Request::head("/page")).expect_status(200);
    assert_eq!(head.field("content-length"), Some("23"));
    let part = site.send(Request::get("/page").field("Range", "bytes=1-4"));
    assert_eq!((part.status, part.text().as_str()), (206, "[x=1"));
}

#[test]
fn pieces_of_tags_are_tags_when_they_are_put_together() {
    let site = plan().start();
    site.page(
        "/page",
        "a<{flush}esi:inc{flush}lude src=\"/pa{flush}rt\"{flush}/{flush}>b<esi:remove>{flush}c</esi:{flush}remove>",
    );
    site.part("/part", "p{flush}q");
    assert_eq!(site.text("/page"), "apqb");
}

#[test]
fn only_pages_that_announce_tags_on_sites_that_have_any_are_parsed() {
    let body = "a<esi:include src=\"/part\"/><!--esi b--></html>";
    let site = plan().start();
    site.part("/part", "p");
    site.print("/quiet", &[LONG], body);
    site.print("/text", &[TAGS, LONG, "Content-Type: text/plain"], body);
    site.print("/gone", &[TAGS, "Status: 404"], body);
    for path in ["/quiet", "/text", "/gone"] {
        assert_eq!(site.get(path).text(), body, "{path}");
    }
    assert_eq!(site.get("/quiet").cache_status(), "galley; hit");
    assert_eq!(site.runs("/part"), 0);
    site.part("/can", "{can}");
    let capability = site.text("/can");
    assert!(capability.contains("galley=\"ESI/1.0\""), "{capability}");

    let site = plan_without_esi().start();
    site.page("/page", body);
    site.part("/can", "{can}");
    assert_eq!(site.get("/page").text(), whole(body));
    assert!(!site.text("/can").contains("ESI"));
}

#[test]
fn a_purge_of_a_part_is_one_of_the_pages_that_have_it() {
    let site = plan().start();
    let page = format!(
        "{}|{}|{}",
        include("/part/a"),
        include("/part/b"),
        include("/nest")
    );
    site.page("/page", &page);
    site.print("/part/a", &[LONG, "Galley-Tags: one"], "a{run}");
    site.print("/part/b", &[LONG, "Galley-Tags: two"], "b{run}");
    site.page("/nest", &include("/deep"));
    site.print("/deep", &[LONG, "Galley-Tags: three"], "c{run}");
    assert_eq!(site.text("/page"), "a1|b1|c1");
    let steps: [(&[&str], &str); 7] = [
        (&["--tag", "one"], "a2|b1|c1"),
        (&["--url", "http://example.test/part/b"], "a2|b2|c1"),
        (&["--prefix", "/part/"], "a3|b3|c1"),
        (&["--tag", "three"], "a3|b3|c2"),
        (&["--pattern", "^/de"], "a3|b3|c3"),
        (&["--url", "http://example.test/nest"], "a3|b3|c3"),
        (&["--tag", "nobody"], "a3|b3|c3"),
    ];
    for (purge, expected) in steps {
        site.purge(purge);
        let after = site.get("/page").expect_status(200);
        assert_eq!(inner(&after), expected, "{purge:?}");
        assert_eq!(site.get("/page").cache_status(), HIT, "{purge:?}");
    }
    assert_eq!(site.runs("/page"), 1, "the rest of the page stays");
    assert_eq!(site.runs("/nest"), 2);
    site.purge(&["--url", "http://example.test/page"]);
    assert_eq!(site.text("/page"), "a3|b3|c3");
    assert_eq!((site.runs("/page"), site.runs("/part/a")), (2, 3));
}

#[test]
fn what_begins_after_a_purge_of_a_part_has_nothing_older() {
    let site = plan().workers(3).start();
    for page in ["/one", "/two"] {
        site.page(page, &format!("<{}>", include("/part")));
    }
    let print = |number: usize| {
        site.print("/part", &[LONG, "Galley-Tags: part"], &number.to_string());
    };
    print(0);
    let done = std::sync::atomic::AtomicBool::new(false);
    let load = |page: &str| {
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            site.get(page).assert_status(200);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| load("/one"));
        scope.spawn(|| load("/two"));
        for number in 1..40 {
            print(number);
            site.purge(&["--tag", "part"]);
            for page in ["/one", "/two"] {
                assert_eq!(site.text(page), format!("<{number}>"), "{page}");
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    for page in ["/one", "/two"] {
        assert!(site.runs(page) <= 2, "{page}: {}", site.runs(page));
    }
}

#[test]
fn a_part_that_ends_is_fetched_alone() {
    let site = plan().start();
    site.page(
        "/page",
        &format!("{{run}} {} {}", include("/short"), include("/long")),
    );
    site.print("/short", &["Cache-Control: s-maxage=2"], "{run}");
    site.part("/long", "{run}");
    assert_eq!(site.text("/page"), "1 1 1");
    wait_for("the short part to end", TIMEOUT, || {
        site.text("/page") == "1 2 1"
    });
    // The page ends as well, and its parts do not.
    site.print(
        "/page",
        &[TAGS, "Cache-Control: s-maxage=1"],
        &include("/long"),
    );
    site.purge(&["--url", "http://example.test/page"]);
    let runs = site.runs("/page");
    wait_for("the page to end", TIMEOUT, || {
        site.get("/page").assert_status(200);
        site.runs("/page") > runs + 1
    });
    assert_eq!(site.runs("/long"), 1);
}

#[test]
fn a_part_that_fails_has_another_or_none_or_fails_the_page() {
    let site = plan().start();
    site.part("/b", "b");
    let with = |alt: &str, tail: &str| format!("<esi:include src=\"/a\" alt=\"{alt}\"{tail}/>.");
    site.page("/alt", &with("/b", ""));
    site.page("/both", &with("/c", ""));
    site.page("/both-continue", &with("/c", " onerror=\"continue\""));
    site.page("/continue", &format!("{}.", optional("/a")));
    site.page("/fail", &include("/a"));
    assert_eq!(site.text("/alt"), "b.");
    assert_eq!(site.text("/both-continue"), ".");
    assert_eq!(site.text("/continue"), ".");
    for path in ["/both", "/fail"] {
        let failed = site.get(path);
        failed.assert_status(502);
        assert!(!failed.text().contains("esi"), "{}", failed.text());
    }
    // A status of success is needed, and a response that may be shared.
    for head in [
        "Status: 500",
        "Status: 301",
        "Cache-Control: private",
        "Cache-Control: no-store",
        "Set-Cookie: a=b",
    ] {
        site.print("/odd", &[head], "odd");
        site.page("/page", &format!("{}.", optional("/odd")));
        site.purge(&["--all"]);
        assert_eq!(site.text("/page"), ".", "{head}");
    }
    // One that comes back is there soon, although its page is fresh.
    site.part("/a", "a");
    site.purge(&["--url", "http://example.test/a"]);
    wait_for("the part to be in the page", TIMEOUT, || {
        site.text("/continue") == "a."
    });
}

#[test]
fn a_failure_stays_invisible_while_what_is_stored_may_be_sent() {
    let site = plan()
        .more("[site.ttl]\nstale_while_revalidate = \"1s\"")
        .start();
    site.page("/page", &include("/part"));
    site.print("/part", &["Cache-Control: max-age=1"], "part");
    assert_eq!(site.text("/page"), "part");
    site.print("/part", &["Status: 500"], "broken");
    let began = std::time::Instant::now();
    while began.elapsed() < std::time::Duration::from_secs(4) {
        assert_eq!(site.text("/page"), "part");
    }
    assert!(site.runs("/part") > 1);
    site.purge(&["--url", "http://example.test/part"]);
    site.get("/page").assert_status(502);
}

#[test]
fn members_and_forms_get_pages_that_are_put_together() {
    let site = plan().start();
    site.page(
        "/page",
        &format!("{{method}} {{cookie}} {}", include("/part")),
    );
    site.part("/part", "[{cookie}]");
    let member = site.as_member("/page").expect_status(200);
    assert_eq!(inner(&member), "GET wordpress_logged_in_1=secret [none]");
    assert_eq!(member.cache_status(), "galley; fwd=bypass; detail=cookie");
    assert!(!member.has("surrogate-control"));
    let posted = site.send(Request::form("/page", &[("a", "b")]));
    assert_eq!(inner(&posted.expect_status(200)), "POST none [none]");
    let head = Request::head("/page").cookie("wordpress_logged_in_1=secret");
    let head = site.send(head).expect_status(200);
    assert!(head.body.is_empty() && !head.has("surrogate-control"));
    assert_eq!(site.text("/page"), "GET none [none]");
    site.page("/broken", &include("/nothing"));
    site.as_member("/broken").assert_status(502);
}

#[test]
fn it_is_explained_and_counted() {
    let site = plan().start();
    site.page("/page", &(include("/part") + &optional("/nothing")));
    site.print("/part", &[LONG, "Galley-Tags: part"], "part");
    site.page("/other", &(include("/part") + "<esi:try>"));
    let texts = site.text("/page") + &site.text("/other");
    assert_eq!(texts, "partpart<esi:try>");
    let why: Value = serde_json::from_str(&site.why("/page")).unwrap();
    assert_eq!(
        (&why["now"]["what"], &why["now"]["why"]),
        (&"hit".into(), &"esi".into()),
        "{why}"
    );
    let includes = &why["entry"]["includes"];
    assert_eq!(
        (&includes[0]["src"], &includes[0]["bytes"]),
        (&"/part".into(), &4.into()),
        "{why}"
    );
    assert_eq!(includes[1]["bytes"], 0, "{why}");
    let metrics = site.metrics();
    for (result, count) in [("stored", 1), ("fetched", 2), ("failed", 1)] {
        let line = format!(
            "galley_esi_includes_total{{site=\"example.test\",result=\"{result}\"}} {count}"
        );
        assert!(metrics.contains(&line), "{line}");
    }
    let line = "galley_esi_tags_left_total{site=\"example.test\"} 1";
    assert!(metrics.contains(line), "{line}");
    site.purge(&["--tag", "part"]);
    let why: Value = serde_json::from_str(&site.why("/page")).unwrap();
    assert_eq!(
        (&why["now"]["what"], &why["entry"]["purged_by"]["kind"]),
        (&"miss".into(), &"tag".into()),
        "{why}"
    );
}

#[test]
fn pages_that_are_put_together_survive_a_restart_with_the_purges_of_their_parts() {
    let mut site = plan().disk().start();
    site.page("/page", &include("/part"));
    site.print("/part", &[LONG, "Galley-Tags: part"], "{run}");
    assert_eq!(site.text("/page"), "1");
    site.wait_for_disk(2);
    site.restart();
    assert_eq!(site.text("/page"), "1");
    assert_eq!((site.runs("/page"), site.runs("/part")), (1, 1));
    site.purge(&["--tag", "part"]);
    assert_eq!(site.text("/page"), "2");
    assert_eq!((site.runs("/page"), site.runs("/part")), (1, 2));
    site.wait_for_disk(2);
    site.purge(&["--tag", "part"]);
    site.restart();
    // What is purged is not taken from the disk.
    assert_eq!(site.text("/page"), "3");
    assert_eq!((site.runs("/page"), site.runs("/part")), (2, 3));
}

/// An HTTP server with a page, a part and what it was asked for.
fn http_origin() -> Origin {
    Origin::start(|seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
        let html = ("Content-Type", "text/html");
        let long = ("Cache-Control", "max-age=600");
        match seen.target.as_str() {
            "/page" => {
                let body = include("/part") + &optional("http://other.test/part") + ".</html>";
                let control = ("Surrogate-Control", "max-age=500, content=\"ESI/1.0\"");
                let fields = [
                    html,
                    long,
                    control,
                    ("ETag", "\"page\""),
                    ("Last-Modified", "Tue, 01 Oct 2024 10:00:00 GMT"),
                ];
                writer.answer(200, &fields, body.as_bytes());
            }
            "/part" => {
                let capability = seen.field("surrogate-capability").unwrap_or("none");
                let fields = [html, long, ("ETag", "\"part\"")];
                writer.answer(200, &fields, format!("[{capability}]").as_bytes());
            }
            _ => {
                writer.answer(404, &[], b"");
            }
        }
    })
    .unwrap()
}

#[test]
fn http_servers_and_http_2_are_alike() {
    for preset in ["wordpress", "none"] {
        let origin = http_origin();
        let site = SiteBuilder::origin(&origin, preset)
            .server("h2c = true")
            .site("esi = true")
            .start();
        let first = site.get("/page").expect_status(200);
        assert!(
            first.text().contains("ESI/1.0") && first.text().ends_with("].</html>"),
            "{}",
            first.text()
        );
        assert_ne!(first.field("etag"), Some("\"page\""));
        assert!(!first.has("last-modified"), "{}", first.beginning());
        let client = Client::open(site.addr());
        let by_2 = client.send(&with_host(Request::get("/page")));
        let by_1 = site.get("/page");
        assert_eq!(
            (by_1.cache_status(), by_2.cache_status()),
            (HIT, HIT),
            "{preset}"
        );
        assert_eq!((&by_1.body, &by_2.body), (&first.body, &first.body));
        site.purge(&["--url", "http://example.test/part"]);
        assert_eq!(
            client.send(&with_host(Request::get("/page"))).body,
            first.body
        );
        let requests = |path: &str| {
            origin
                .requests()
                .iter()
                .filter(|seen| seen.target == path)
                .count()
        };
        assert_eq!((requests("/page"), requests("/part")), (1, 2), "{preset}");
    }
}

/// The blocks of the manual's page that are in this language.
fn manual(language: &str) -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/how-to/esi.md");
    let text = std::fs::read_to_string(path).unwrap();
    let fence = format!("```{language}\n");
    let blocks = text.split(&fence).skip(1);
    blocks
        .filter_map(|block| Some(block.split_once("```")?.0.to_owned()))
        .collect()
}

#[test]
fn the_example_of_the_manual_is_right() {
    let [page, part] = manual("php").try_into().unwrap();
    let site = SiteBuilder::php()
        .file("news.php", page)
        .file("latest.php", part)
        .site("preset = \"none\"\nesi = true")
        .start();
    let expected = manual("html").remove(0);
    assert_eq!(site.get("/news.php").expect_status(200).text(), expected);
    assert_eq!(site.get("/news.php").cache_status(), HIT);
    site.purge(&["--tag", "headlines"]);
    let after = site.get("/news.php").expect_status(200);
    assert_eq!(
        (after.text(), after.cache_status()),
        (expected, "galley; fwd=stale; stored; detail=purged")
    );
}
