//! Edge Side Includes: assembled pages, stored parts, purges, expiry and failures of parts.

use galley_testkit::client::Request;
use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::wait_for;
use serde_json::Value;

use crate::esi_support::{
    EsiSite, MAX_AGE, SURROGATE_CONTROL, builder_without_esi, esi_builder, include,
    optional_include, with_end_tag, without_end_tag,
};
use crate::http2::client::Client;
use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, with_host};

const HIT: &str = "galley; hit; detail=esi";

#[test]
fn a_page_is_assembled_and_its_parts_are_stored_separately() {
    let site = esi_builder().start();
    site.add_page(
        "/page",
        "a<esi:include src=\"/part?x=1&amp;y=2\"/>b<esi:remove>c</esi:remove><esi:comment text=\"d\"/><!--esi e<esi:include src='/part'></esi:include>-->f",
    );
    site.add_part("/part", "[{query}]");
    let first = site.get("/page").expect_status(200);
    assert_eq!(without_end_tag(&first), "a[x=1&y=2]b e[]f");
    assert_eq!(
        first.cache_status(),
        "galley; fwd=uri-miss; stored; detail=esi"
    );
    assert!(!first.has("surrogate-control"), "{}", first.excerpt());
    let second = site.get("/page").expect_status(200);
    assert_eq!((second.cache_status(), &second.body), (HIT, &first.body));
    assert_eq!((site.runs("/page"), site.runs("/part")), (1, 2));
    // The part is a hit at its own URL and in another page.
    assert!(site.get("/part").is_hit());
    site.add_page("/other", &include("part"));
    assert_eq!(site.get_text("/other"), "[]");
    assert_eq!(site.runs("/part"), 2);
    // Conditional, HEAD and range requests apply to the assembled page.
    let etag = second.field("etag").unwrap().to_owned();
    let not_modified = site.send(Request::get("/page").field("If-None-Match", &etag));
    not_modified.assert_status(304);
    let head = site.send(Request::head("/page")).expect_status(200);
    assert_eq!(head.field("content-length"), Some("23"));
    let part = site.send(Request::get("/page").field("Range", "bytes=1-4"));
    assert_eq!((part.status, part.text().as_str()), (206, "[x=1"));
}

#[test]
fn tags_split_across_flushes_are_recognized() {
    let site = esi_builder().start();
    site.add_page(
        "/page",
        "a<{flush}esi:inc{flush}lude src=\"/pa{flush}rt\"{flush}/{flush}>b<esi:remove>{flush}c</esi:{flush}remove>",
    );
    site.add_part("/part", "p{flush}q");
    assert_eq!(site.get_text("/page"), "apqb");
}

#[test]
fn only_html_pages_with_surrogate_control_on_esi_sites_are_parsed() {
    let body = "a<esi:include src=\"/part\"/><!--esi b--></html>";
    let site = esi_builder().start();
    site.add_part("/part", "p");
    site.set_response("/quiet", &[MAX_AGE], body);
    site.set_response(
        "/text",
        &[SURROGATE_CONTROL, MAX_AGE, "Content-Type: text/plain"],
        body,
    );
    site.set_response("/gone", &[SURROGATE_CONTROL, "Status: 404"], body);
    for path in ["/quiet", "/text", "/gone"] {
        assert_eq!(site.get(path).text(), body, "{path}");
    }
    assert_eq!(site.get("/quiet").cache_status(), "galley; hit");
    assert_eq!(site.runs("/part"), 0);
    site.add_part("/can", "{can}");
    let capability = site.get_text("/can");
    assert!(capability.contains("galley=\"ESI/1.0\""), "{capability}");

    let site = builder_without_esi().start();
    site.add_page("/page", body);
    site.add_part("/can", "{can}");
    assert_eq!(site.get("/page").text(), with_end_tag(body));
    assert!(!site.get_text("/can").contains("ESI"));
}

#[test]
fn a_purge_of_a_part_applies_to_the_pages_that_include_it() {
    let site = esi_builder().start();
    let page = format!(
        "{}|{}|{}",
        include("/part/a"),
        include("/part/b"),
        include("/nest")
    );
    site.add_page("/page", &page);
    site.set_response("/part/a", &[MAX_AGE, "Galley-Tags: one"], "a{run}");
    site.set_response("/part/b", &[MAX_AGE, "Galley-Tags: two"], "b{run}");
    site.add_page("/nest", &include("/deep"));
    site.set_response("/deep", &[MAX_AGE, "Galley-Tags: three"], "c{run}");
    assert_eq!(site.get_text("/page"), "a1|b1|c1");
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
        assert_eq!(without_end_tag(&after), expected, "{purge:?}");
        assert_eq!(site.get("/page").cache_status(), HIT, "{purge:?}");
    }
    assert_eq!(site.runs("/page"), 1, "the page itself stays stored");
    assert_eq!(site.runs("/nest"), 2);
    site.purge(&["--url", "http://example.test/page"]);
    assert_eq!(site.get_text("/page"), "a3|b3|c3");
    assert_eq!((site.runs("/page"), site.runs("/part/a")), (2, 3));
}

#[test]
fn requests_after_a_purge_of_a_part_never_get_the_old_part() {
    let site = esi_builder().workers(3).start();
    for page in ["/one", "/two"] {
        site.add_page(page, &format!("<{}>", include("/part")));
    }
    let print = |number: usize| {
        site.set_response(
            "/part",
            &[MAX_AGE, "Galley-Tags: part"],
            &number.to_string(),
        );
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
                assert_eq!(site.get_text(page), format!("<{number}>"), "{page}");
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    for page in ["/one", "/two"] {
        assert!(site.runs(page) <= 2, "{page}: {}", site.runs(page));
    }
}

#[test]
fn an_expired_part_is_fetched_without_its_page() {
    let site = esi_builder().start();
    site.add_page(
        "/page",
        &format!("{{run}} {} {}", include("/short"), include("/long")),
    );
    site.set_response("/short", &["Cache-Control: s-maxage=2"], "{run}");
    site.add_part("/long", "{run}");
    assert_eq!(site.get_text("/page"), "1 1 1");
    wait_for("the short part to expire", TIMEOUT, || {
        site.get_text("/page") == "1 2 1"
    });
    // When the page expires, its parts stay fresh.
    site.set_response(
        "/page",
        &[SURROGATE_CONTROL, "Cache-Control: s-maxage=1"],
        &include("/long"),
    );
    site.purge(&["--url", "http://example.test/page"]);
    let runs = site.runs("/page");
    wait_for("the page to expire", TIMEOUT, || {
        site.get("/page").assert_status(200);
        site.runs("/page") > runs + 1
    });
    assert_eq!(site.runs("/long"), 1);
}

#[test]
fn a_page_is_sent_stale_only_while_all_of_its_parts_may_be() {
    let site = esi_builder().start();
    let windows = "Cache-Control: max-age=600, stale-while-revalidate=600, stale-if-error=600";
    for name in ["never", "always"] {
        let page = with_end_tag(&include(&format!("/part/{name}")));
        site.set_response(&format!("/{name}"), &[SURROGATE_CONTROL, windows], &page);
    }
    let never = "Cache-Control: max-age=1, stale-while-revalidate=0, stale-if-error=0";
    site.set_response("/part/never", &[never], "{run}");
    let always = "Cache-Control: max-age=1, stale-while-revalidate=600, stale-if-error=600";
    site.set_response("/part/always", &[always], "{run}");
    let is_stale = |path| {
        let response = site.get(path).expect_status(200);
        response.cache_status().contains("revalidating")
    };
    wait_for("the first part to be fetched three times", TIMEOUT, || {
        assert!(!is_stale("/never"));
        site.runs("/part/never") == 3
    });
    wait_for("the second page to be stale", TIMEOUT, || {
        is_stale("/always")
    });
    // The windows for errors.
    for name in ["never", "always"] {
        site.set_response(&format!("/part/{name}"), &["Status: 500"], "failed");
    }
    wait_for("the first page to fail", TIMEOUT, || {
        site.get("/never").status == 502
    });
    assert_eq!(site.get("/always").status, 200);
    assert_eq!((site.runs("/never"), site.runs("/always")), (1, 1));
}

#[test]
fn alt_and_onerror_replace_a_failed_part_otherwise_the_page_fails() {
    let site = esi_builder().start();
    site.add_part("/b", "b");
    let with = |alt: &str, tail: &str| format!("<esi:include src=\"/a\" alt=\"{alt}\"{tail}/>.");
    site.add_page("/alt", &with("/b", ""));
    site.add_page("/both", &with("/c", ""));
    site.add_page("/both-continue", &with("/c", " onerror=\"continue\""));
    site.add_page("/continue", &format!("{}.", optional_include("/a")));
    site.add_page("/fail", &include("/a"));
    assert_eq!(site.get_text("/alt"), "b.");
    assert_eq!(site.get_text("/both-continue"), ".");
    assert_eq!(site.get_text("/continue"), ".");
    for path in ["/both", "/fail"] {
        let failed = site.get(path);
        failed.assert_status(502);
        assert!(!failed.text().contains("esi"), "{}", failed.text());
    }
    // A part needs a successful status and a cacheable response.
    for head in [
        "Status: 500",
        "Status: 301",
        "Cache-Control: private",
        "Cache-Control: no-store",
        "Set-Cookie: a=b",
    ] {
        site.set_response("/odd", &[head], "odd");
        site.add_page("/page", &format!("{}.", optional_include("/odd")));
        site.purge(&["--all"]);
        assert_eq!(site.get_text("/page"), ".", "{head}");
    }
    // A part that works again is soon included, although its page is fresh.
    site.add_part("/a", "a");
    site.purge(&["--url", "http://example.test/a"]);
    wait_for("the part to be in the page", TIMEOUT, || {
        site.get_text("/continue") == "a."
    });
}

#[test]
fn a_stale_part_is_sent_while_its_refresh_fails() {
    let site = esi_builder()
        .more("[site.ttl]\nstale_while_revalidate = \"1s\"")
        .start();
    site.add_page("/page", &include("/part"));
    site.set_response("/part", &["Cache-Control: max-age=1"], "part");
    assert_eq!(site.get_text("/page"), "part");
    site.set_response("/part", &["Status: 500"], "broken");
    let began = std::time::Instant::now();
    while began.elapsed() < std::time::Duration::from_secs(4) {
        assert_eq!(site.get_text("/page"), "part");
    }
    assert!(site.runs("/part") > 1);
    site.purge(&["--url", "http://example.test/part"]);
    site.get("/page").assert_status(502);
}

#[test]
fn responses_to_members_and_forms_are_assembled() {
    let site = esi_builder().start();
    site.add_page(
        "/page",
        &format!("{{method}} {{cookie}} {}", include("/part")),
    );
    site.add_part("/part", "[{cookie}]");
    let member = site.get_logged_in("/page").expect_status(200);
    assert_eq!(
        without_end_tag(&member),
        "GET wordpress_logged_in_1=secret [none]"
    );
    assert_eq!(member.cache_status(), "galley; fwd=bypass; detail=cookie");
    assert!(!member.has("surrogate-control"));
    let posted = site.send(Request::form("/page", &[("a", "b")]));
    assert_eq!(
        without_end_tag(&posted.expect_status(200)),
        "POST none [none]"
    );
    let head = Request::head("/page").cookie("wordpress_logged_in_1=secret");
    let head = site.send(head).expect_status(200);
    assert!(head.body.is_empty() && !head.has("surrogate-control"));
    assert_eq!(site.get_text("/page"), "GET none [none]");
    site.add_page("/broken", &include("/nothing"));
    site.get_logged_in("/broken").assert_status(502);
}

#[test]
fn why_and_metrics_report_includes() {
    let site = esi_builder().start();
    site.add_page("/page", &(include("/part") + &optional_include("/nothing")));
    site.set_response("/part", &[MAX_AGE, "Galley-Tags: part"], "part");
    site.add_page("/other", &(include("/part") + "<esi:try>"));
    let texts = site.get_text("/page") + &site.get_text("/other");
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
fn assembled_pages_and_purges_of_their_parts_survive_a_restart() {
    let mut site = esi_builder().disk().start();
    site.add_page("/page", &include("/part"));
    site.set_response("/part", &[MAX_AGE, "Galley-Tags: part"], "{run}");
    assert_eq!(site.get_text("/page"), "1");
    site.wait_for_disk(2);
    site.restart();
    assert_eq!(site.get_text("/page"), "1");
    assert_eq!((site.runs("/page"), site.runs("/part")), (1, 1));
    site.purge(&["--tag", "part"]);
    assert_eq!(site.get_text("/page"), "2");
    assert_eq!((site.runs("/page"), site.runs("/part")), (1, 2));
    site.wait_for_disk(2);
    site.purge(&["--tag", "part"]);
    site.restart();
    // Purged parts are not loaded from disk.
    assert_eq!(site.get_text("/page"), "3");
    assert_eq!((site.runs("/page"), site.runs("/part")), (2, 3));
}

/// An HTTP origin with a page and a part.
fn http_origin() -> Origin {
    Origin::start(
        |request: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            let html = ("Content-Type", "text/html");
            let long = ("Cache-Control", "max-age=600");
            match request.target.as_str() {
                "/page" => {
                    let body =
                        include("/part") + &optional_include("http://other.test/part") + ".</html>";
                    let control = ("Surrogate-Control", "max-age=500, content=\"ESI/1.0\"");
                    let fields = [
                        html,
                        long,
                        control,
                        ("ETag", "\"page\""),
                        ("Last-Modified", "Tue, 01 Oct 2024 10:00:00 GMT"),
                    ];
                    writer.respond(200, &fields, body.as_bytes());
                }
                "/part" => {
                    let capability = request.field("surrogate-capability").unwrap_or("none");
                    let fields = [html, long, ("ETag", "\"part\"")];
                    writer.respond(200, &fields, format!("[{capability}]").as_bytes());
                }
                _ => {
                    writer.respond(404, &[], b"");
                }
            }
        },
    )
    .unwrap()
}

#[test]
fn http_upstreams_and_http_2_clients_get_the_same_pages() {
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
        assert!(!first.has("last-modified"), "{}", first.excerpt());
        let client = Client::open(site.addr());
        let over_http2 = client.send(&with_host(Request::get("/page")));
        let over_http1 = site.get("/page");
        assert_eq!(
            (over_http1.cache_status(), over_http2.cache_status()),
            (HIT, HIT),
            "{preset}"
        );
        assert_eq!(
            (&over_http1.body, &over_http2.body),
            (&first.body, &first.body)
        );
        site.purge(&["--url", "http://example.test/part"]);
        assert_eq!(
            client.send(&with_host(Request::get("/page"))).body,
            first.body
        );
        let requests = |path: &str| {
            origin
                .requests()
                .iter()
                .filter(|request| request.target == path)
                .count()
        };
        assert_eq!((requests("/page"), requests("/part")), (1, 2), "{preset}");
    }
}

/// The code blocks of `docs/how-to/esi.md` in a language.
fn manual_blocks(language: &str) -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/how-to/esi.md");
    let text = std::fs::read_to_string(path).unwrap();
    let fence = format!("```{language}\n");
    let blocks = text.split(&fence).skip(1);
    blocks
        .filter_map(|block| Some(block.split_once("```")?.0.to_owned()))
        .collect()
}

#[test]
fn the_example_in_the_manual_works() {
    let [page, part] = manual_blocks("php").try_into().unwrap();
    let site = SiteBuilder::php()
        .file("news.php", page)
        .file("latest.php", part)
        .site("preset = \"none\"\nesi = true")
        .start();
    let expected = manual_blocks("html").remove(0);
    assert_eq!(site.get("/news.php").expect_status(200).text(), expected);
    assert_eq!(site.get("/news.php").cache_status(), HIT);
    site.purge(&["--tag", "headlines"]);
    let after = site.get("/news.php").expect_status(200);
    assert_eq!(
        (after.text(), after.cache_status()),
        (expected, "galley; fwd=stale; stored; detail=purged")
    );
}
