//! Pages with ESI tags: what is sent, what is stored, and what a purge or a lifetime that ends changes.

use galley_testkit::client::Request;
use galley_testkit::origin::{Origin, Seen, Wire};
use galley_testkit::wait_for;
use serde_json::Value;

use crate::esi_stage::{Esi, LONG, TAGS, include, inner, optional, plan, plan_without_esi, whole};
use crate::http2::ask::Client;
use crate::support::{Is, PATIENCE, Plan, hosted};

const HIT: &str = "galley; hit; detail=esi";

#[test]
fn a_page_is_put_together_and_its_parts_are_stored_on_their_own() {
    let stage = plan().start();
    stage.page(
        "/page",
        "a<esi:include src=\"/part?x=1&amp;y=2\"/>b<esi:remove>c</esi:remove><esi:comment text=\"d\"/><!--esi e<esi:include src='/part'></esi:include>-->f",
    );
    stage.part("/part", "[{query}]");
    let first = stage.get("/page").expect_status(200);
    assert_eq!(inner(&first), "a[x=1&y=2]b e[]f");
    assert_eq!(
        first.cache_status(),
        "galley; fwd=uri-miss; stored; detail=esi"
    );
    assert!(!first.has("surrogate-control"), "{}", first.beginning());
    let second = stage.get("/page").expect_status(200);
    assert_eq!((second.cache_status(), &second.body), (HIT, &first.body));
    assert_eq!((stage.runs("/page"), stage.runs("/part")), (1, 2));
    // By its own address, and in another page.
    assert!(stage.get("/part").is_hit());
    stage.page("/other", &include("part"));
    assert_eq!(stage.text("/other"), "[]");
    assert_eq!(stage.runs("/part"), 2);
    // It is a page like any other.
    let etag = second.field("etag").unwrap().to_owned();
    let same = stage.ask(Request::get("/page").field("If-None-Match", &etag));
    same.is(304);
    let head = stage.ask(Request::head("/page")).expect_status(200);
    assert_eq!(head.field("content-length"), Some("23"));
    let part = stage.ask(Request::get("/page").field("Range", "bytes=1-4"));
    assert_eq!((part.status, part.text().as_str()), (206, "[x=1"));
}

#[test]
fn pieces_of_tags_are_tags_when_they_are_put_together() {
    let stage = plan().start();
    stage.page(
        "/page",
        "a<{flush}esi:inc{flush}lude src=\"/pa{flush}rt\"{flush}/{flush}>b<esi:remove>{flush}c</esi:{flush}remove>",
    );
    stage.part("/part", "p{flush}q");
    assert_eq!(stage.text("/page"), "apqb");
}

#[test]
fn only_pages_that_announce_tags_on_sites_that_have_any_are_parsed() {
    let body = "a<esi:include src=\"/part\"/><!--esi b--></html>";
    let stage = plan().start();
    stage.part("/part", "p");
    stage.print("/quiet", &[LONG], body);
    stage.print("/text", &[TAGS, LONG, "Content-Type: text/plain"], body);
    stage.print("/gone", &[TAGS, "Status: 404"], body);
    for path in ["/quiet", "/text", "/gone"] {
        assert_eq!(stage.get(path).text(), body, "{path}");
    }
    assert_eq!(stage.get("/quiet").cache_status(), "galley; hit");
    assert_eq!(stage.runs("/part"), 0);
    stage.part("/can", "{can}");
    let capability = stage.text("/can");
    assert!(capability.contains("galley=\"ESI/1.0\""), "{capability}");

    let stage = plan_without_esi().start();
    stage.page("/page", body);
    stage.part("/can", "{can}");
    assert_eq!(stage.get("/page").text(), whole(body));
    assert!(!stage.text("/can").contains("ESI"));
}

#[test]
fn a_purge_of_a_part_is_one_of_the_pages_that_have_it() {
    let stage = plan().start();
    let page = format!(
        "{}|{}|{}",
        include("/part/a"),
        include("/part/b"),
        include("/nest")
    );
    stage.page("/page", &page);
    stage.print("/part/a", &[LONG, "Galley-Tags: one"], "a{run}");
    stage.print("/part/b", &[LONG, "Galley-Tags: two"], "b{run}");
    stage.page("/nest", &include("/deep"));
    stage.print("/deep", &[LONG, "Galley-Tags: three"], "c{run}");
    assert_eq!(stage.text("/page"), "a1|b1|c1");
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
        stage.purge(purge);
        let after = stage.get("/page").expect_status(200);
        assert_eq!(inner(&after), expected, "{purge:?}");
        assert_eq!(stage.get("/page").cache_status(), HIT, "{purge:?}");
    }
    assert_eq!(stage.runs("/page"), 1, "the rest of the page stays");
    assert_eq!(stage.runs("/nest"), 2);
    stage.purge(&["--url", "http://example.test/page"]);
    assert_eq!(stage.text("/page"), "a3|b3|c3");
    assert_eq!((stage.runs("/page"), stage.runs("/part/a")), (2, 3));
}

#[test]
fn what_begins_after_a_purge_of_a_part_has_nothing_older() {
    let stage = plan().workers(3).start();
    for page in ["/one", "/two"] {
        stage.page(page, &format!("<{}>", include("/part")));
    }
    let print = |number: usize| {
        stage.print("/part", &[LONG, "Galley-Tags: part"], &number.to_string());
    };
    print(0);
    let done = std::sync::atomic::AtomicBool::new(false);
    let load = |page: &str| {
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            stage.get(page).is(200);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| load("/one"));
        scope.spawn(|| load("/two"));
        for number in 1..40 {
            print(number);
            stage.purge(&["--tag", "part"]);
            for page in ["/one", "/two"] {
                assert_eq!(stage.text(page), format!("<{number}>"), "{page}");
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    for page in ["/one", "/two"] {
        assert!(stage.runs(page) <= 2, "{page}: {}", stage.runs(page));
    }
}

#[test]
fn a_part_that_ends_is_fetched_alone() {
    let stage = plan().start();
    stage.page(
        "/page",
        &format!("{{run}} {} {}", include("/short"), include("/long")),
    );
    stage.print("/short", &["Cache-Control: s-maxage=2"], "{run}");
    stage.part("/long", "{run}");
    assert_eq!(stage.text("/page"), "1 1 1");
    wait_for("the short part to end", PATIENCE, || {
        stage.text("/page") == "1 2 1"
    });
    // The page ends as well, and its parts do not.
    stage.print(
        "/page",
        &[TAGS, "Cache-Control: s-maxage=1"],
        &include("/long"),
    );
    stage.purge(&["--url", "http://example.test/page"]);
    let runs = stage.runs("/page");
    wait_for("the page to end", PATIENCE, || {
        stage.get("/page").is(200);
        stage.runs("/page") > runs + 1
    });
    assert_eq!(stage.runs("/long"), 1);
}

#[test]
fn a_part_that_fails_has_another_or_none_or_fails_the_page() {
    let stage = plan().start();
    stage.part("/b", "b");
    let with = |alt: &str, tail: &str| format!("<esi:include src=\"/a\" alt=\"{alt}\"{tail}/>.");
    stage.page("/alt", &with("/b", ""));
    stage.page("/both", &with("/c", ""));
    stage.page("/both-continue", &with("/c", " onerror=\"continue\""));
    stage.page("/continue", &format!("{}.", optional("/a")));
    stage.page("/fail", &include("/a"));
    assert_eq!(stage.text("/alt"), "b.");
    assert_eq!(stage.text("/both-continue"), ".");
    assert_eq!(stage.text("/continue"), ".");
    for path in ["/both", "/fail"] {
        let failed = stage.get(path);
        failed.is(502);
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
        stage.print("/odd", &[head], "odd");
        stage.page("/page", &format!("{}.", optional("/odd")));
        stage.purge(&["--all"]);
        assert_eq!(stage.text("/page"), ".", "{head}");
    }
    // One that comes back is there soon, although its page is fresh.
    stage.part("/a", "a");
    stage.purge(&["--url", "http://example.test/a"]);
    wait_for("the part to be in the page", PATIENCE, || {
        stage.text("/continue") == "a."
    });
}

#[test]
fn a_failure_stays_invisible_while_what_is_stored_may_be_sent() {
    let stage = plan()
        .more("[site.ttl]\nstale_while_revalidate = \"1s\"")
        .start();
    stage.page("/page", &include("/part"));
    stage.print("/part", &["Cache-Control: max-age=1"], "part");
    assert_eq!(stage.text("/page"), "part");
    stage.print("/part", &["Status: 500"], "broken");
    let began = std::time::Instant::now();
    while began.elapsed() < std::time::Duration::from_secs(4) {
        assert_eq!(stage.text("/page"), "part");
    }
    assert!(stage.runs("/part") > 1);
    stage.purge(&["--url", "http://example.test/part"]);
    stage.get("/page").is(502);
}

#[test]
fn members_and_forms_get_pages_that_are_put_together() {
    let stage = plan().start();
    stage.page(
        "/page",
        &format!("{{method}} {{cookie}} {}", include("/part")),
    );
    stage.part("/part", "[{cookie}]");
    let member = stage.as_member("/page").expect_status(200);
    assert_eq!(inner(&member), "GET wordpress_logged_in_1=secret [none]");
    assert_eq!(member.cache_status(), "galley; fwd=bypass; detail=cookie");
    assert!(!member.has("surrogate-control"));
    let posted = stage.ask(Request::form("/page", &[("a", "b")]));
    assert_eq!(inner(&posted.expect_status(200)), "POST none [none]");
    let head = Request::head("/page").cookie("wordpress_logged_in_1=secret");
    let head = stage.ask(head).expect_status(200);
    assert!(head.body.is_empty() && !head.has("surrogate-control"));
    assert_eq!(stage.text("/page"), "GET none [none]");
    stage.page("/broken", &include("/nothing"));
    stage.as_member("/broken").is(502);
}

#[test]
fn it_is_explained_and_counted() {
    let stage = plan().start();
    stage.page("/page", &(include("/part") + &optional("/nothing")));
    stage.print("/part", &[LONG, "Galley-Tags: part"], "part");
    stage.page("/other", &(include("/part") + "<esi:try>"));
    let texts = stage.text("/page") + &stage.text("/other");
    assert_eq!(texts, "partpart<esi:try>");
    let why: Value = serde_json::from_str(&stage.why("/page")).unwrap();
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
    let metrics = crate::http2::attacks::metrics(&stage);
    for (result, count) in [("stored", 1), ("fetched", 2), ("failed", 1)] {
        let line = format!(
            "galley_esi_includes_total{{site=\"example.test\",result=\"{result}\"}} {count}"
        );
        assert!(metrics.contains(&line), "{line}");
    }
    let line = "galley_esi_tags_left_total{site=\"example.test\"} 1";
    assert!(metrics.contains(line), "{line}");
    stage.purge(&["--tag", "part"]);
    let why: Value = serde_json::from_str(&stage.why("/page")).unwrap();
    assert_eq!(
        (&why["now"]["what"], &why["entry"]["purged_by"]["kind"]),
        (&"miss".into(), &"tag".into()),
        "{why}"
    );
}

#[test]
fn pages_that_are_put_together_survive_a_restart_with_the_purges_of_their_parts() {
    let mut stage = plan().disk().start();
    stage.page("/page", &include("/part"));
    stage.print("/part", &[LONG, "Galley-Tags: part"], "{run}");
    assert_eq!(stage.text("/page"), "1");
    stage.wait_for_disk(2);
    stage.restart();
    assert_eq!(stage.text("/page"), "1");
    assert_eq!((stage.runs("/page"), stage.runs("/part")), (1, 1));
    stage.purge(&["--tag", "part"]);
    assert_eq!(stage.text("/page"), "2");
    assert_eq!((stage.runs("/page"), stage.runs("/part")), (1, 2));
    stage.wait_for_disk(2);
    stage.purge(&["--tag", "part"]);
    stage.restart();
    // What is purged is not taken from the disk.
    assert_eq!(stage.text("/page"), "3");
    assert_eq!((stage.runs("/page"), stage.runs("/part")), (2, 3));
}

/// An HTTP server with a page, a part and what it was asked for.
fn http_origin() -> Origin {
    Origin::start(|seen: &Seen, wire: &mut Wire<'_>| {
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
                wire.answer(200, &fields, body.as_bytes());
            }
            "/part" => {
                let capability = seen.field("surrogate-capability").unwrap_or("none");
                let fields = [html, long, ("ETag", "\"part\"")];
                wire.answer(200, &fields, format!("[{capability}]").as_bytes());
            }
            _ => {
                wire.answer(404, &[], b"");
            }
        }
    })
    .unwrap()
}

#[test]
fn http_servers_and_http_2_are_alike() {
    for preset in ["wordpress", "none"] {
        let origin = http_origin();
        let stage = Plan::origin(&origin, preset)
            .server("h2c = true")
            .site("esi = true")
            .start();
        let first = stage.get("/page").expect_status(200);
        assert!(
            first.text().contains("ESI/1.0") && first.text().ends_with("].</html>"),
            "{}",
            first.text()
        );
        assert_ne!(first.field("etag"), Some("\"page\""));
        assert!(!first.has("last-modified"), "{}", first.beginning());
        let client = Client::open(stage.addr());
        let by_2 = client.ask(&hosted(Request::get("/page")));
        let by_1 = stage.get("/page");
        assert_eq!(
            (by_1.cache_status(), by_2.cache_status()),
            (HIT, HIT),
            "{preset}"
        );
        assert_eq!((&by_1.body, &by_2.body), (&first.body, &first.body));
        stage.purge(&["--url", "http://example.test/part"]);
        assert_eq!(client.ask(&hosted(Request::get("/page"))).body, first.body);
        let requests = |path: &str| {
            origin
                .seen()
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
    let stage = Plan::php()
        .file("news.php", page)
        .file("latest.php", part)
        .site("preset = \"none\"\nesi = true")
        .start();
    let expected = manual("html").remove(0);
    assert_eq!(stage.get("/news.php").expect_status(200).text(), expected);
    assert_eq!(stage.get("/news.php").cache_status(), HIT);
    stage.purge(&["--tag", "headlines"]);
    let after = stage.get("/news.php").expect_status(200);
    assert_eq!(
        (after.text(), after.cache_status()),
        (expected, "galley; fwd=stale; stored; detail=purged")
    );
}
