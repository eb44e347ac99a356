//! Pages and purges survive a clean stop and a kill; what was purged before never comes back after.

use std::fs;

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::Origin;
use galley_testkit::{Galley, TestkitError};

use crate::support::{AssertStatus, HOST, SiteBuilder, TestSite, binary, page_value};

#[derive(Clone, Copy, Debug)]
enum End {
    Stop,
    Kill,
}

const ENDS: [End; 2] = [End::Stop, End::Kill];

impl TestSite {
    fn again(&mut self, end: End) {
        if let End::Stop = end {
            assert!(self.galley.stop().success());
        }
        self.restart();
    }
}

/// Which run of the page this is.
fn run(response: &Response) -> String {
    page_value(&response.text(), "run").to_owned()
}

#[test]
fn pages_survive_the_end_of_the_server_with_their_age() {
    for end in ENDS {
        let mut site = SiteBuilder::php().disk().start();
        site.head("/aged", &["Cache-Control: max-age=600", "Age: 300"]);
        let before: Vec<Response> = ["/a", "/a?x=1", "/aged"].map(|p| site.get(p)).into();
        site.wait_for_disk(3);
        site.again(end);
        for (page, before) in ["/a", "/a?x=1", "/aged"].into_iter().zip(&before) {
            let after = site.get(page);
            assert!(after.is_hit(), "{end:?} {page}: {}", after.cache_status());
            assert_eq!(after.body, before.body, "{page}");
            assert_eq!(run(&after), run(before));
            let kept = ["date", "content-type", "cache-control"];
            assert!(kept.iter().all(|f| after.field(f) == before.field(f)));
            assert!(after.age() >= before.age(), "{page}: {:?}", after.age());
        }
        assert_eq!(site.runs("/aged"), 1);
        assert!(site.get("/aged").age() >= Some(300));
        // Found on the disk once, then in memory.
        let status = site.status();
        assert!(status.contains("\"found\":3"), "{status}");
    }
}

#[test]
fn every_way_of_purging_holds_after_a_restart() {
    type Way = fn(&TestSite);
    let ways: [(&str, Way); 8] = [
        ("url", |site| {
            site.purge(&["--url", "http://example.test/a"]);
        }),
        ("tag", |site| {
            site.purge(&["--tag", "p1"]);
        }),
        ("prefix", |site| {
            site.purge(&["--prefix", "/a"]);
        }),
        ("pattern", |site| {
            site.purge(&["--pattern", "^/a$"]);
        }),
        ("site", |site| {
            site.purge(&["--all"]);
        }),
        ("PURGE", |site| {
            site.send(Request::new("PURGE", "/a")).assert_status(200);
        }),
        ("an answer", |site| {
            site.head(
                "/edit",
                &["X-LiteSpeed-Purge: p1", "Cache-Control: no-store"],
            );
            site.send(Request::form("/edit", &[("a", "b")]))
                .assert_status(200);
        }),
        ("an unsafe request", |site| {
            let session = "wordpress_logged_in_0123=editor|1|x";
            site.send(Request::form("/a", &[("a", "b")]).cookie(session))
                .assert_status(200);
        }),
    ];
    for end in ENDS {
        for (name, way) in ways {
            let mut site = SiteBuilder::php().disk().start();
            site.head("/a", &["X-LiteSpeed-Tag: p1"]);
            let before = run(&site.get("/a"));
            site.get("/b");
            site.wait_for_disk(2);
            way(&site);
            site.again(end);
            let after = site.get("/a");
            assert!(!after.is_hit(), "{end:?} {name}");
            assert_ne!(run(&after), before, "{end:?} {name}");
            assert_eq!(site.get("/b").is_hit(), name != "site", "{end:?} {name}");
        }
    }
}

#[test]
fn a_page_generated_during_a_purge_is_not_stored_for_the_next_run() {
    let mut site = SiteBuilder::php().workers(3).disk().start();
    site.hold("/a");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| site.get("/a"));
        site.wait_until_held("/a");
        site.purge(&["--url", "http://example.test/a"]);
        site.release("/a");
        first.join().unwrap().assert_status(200);
    });
    site.unhold("/a");
    site.again(End::Kill);
    let after = site.get("/a");
    assert!(!after.is_hit(), "{}", after.cache_status());
}

#[test]
fn soft_purged_pages_are_stale_after_a_restart_and_not_gone() {
    let mut site = SiteBuilder::php().disk().start();
    site.get("/a");
    site.wait_for_disk(1);
    site.purge(&["--url", "http://example.test/a", "--soft"]);
    site.again(End::Kill);
    let after = site.get("/a");
    assert_eq!(run(&after), "1");
    assert!(
        after.cache_status().contains("revalidating"),
        "{}",
        after.cache_status()
    );
}

#[test]
fn what_may_no_longer_be_kept_does_not_come_back() {
    let mut site = SiteBuilder::php().disk().start();
    site.head("/a", &["Cache-Control: max-age=1, stale-if-error=600"]);
    site.get("/a");
    site.wait_for_disk(1);
    site.head("/a", &["Cache-Control: private"]);
    galley_testkit::wait_for(
        "the page to be asked for again",
        crate::support::TIMEOUT,
        || !site.get("/a").cache_status().contains("hit"),
    );
    galley_testkit::wait_for("its copy to leave", crate::support::TIMEOUT, || {
        site.status().contains("\"disk\":{") && site.status_disk("entries") == 0
    });
    site.again(End::Kill);
    site.fpm = None;
    assert!(
        site.get("/a").status >= 500,
        "no copy is left to fall back on"
    );
}

#[test]
fn a_stale_copy_on_the_disk_answers_when_php_is_down_after_a_restart() {
    let mut site = SiteBuilder::php().disk().start();
    site.head("/a", &["Cache-Control: max-age=1, stale-if-error=600"]);
    let before = site.get("/a");
    site.wait_for_disk(1);
    site.galley.kill();
    site.fpm = None;
    site.restart();
    galley_testkit::wait_for("the copy to be stale", crate::support::TIMEOUT, || {
        let after = site.get("/a");
        assert_eq!(after.body, before.body);
        after.cache_status().contains("ttl=-")
    });
}

#[test]
fn a_site_set_in_front_leaves_the_others_what_they_have() {
    let mut site = SiteBuilder::php().disk().start();
    site.get("/a");
    site.wait_for_disk(1);
    let config = fs::read_to_string(site.galley.config()).unwrap();
    let another = "[[site]]\nhosts = [\"another.test\"]\nroot = \"";
    let root = format!(
        "{another}{}\"\n\n[[site]]\nhosts",
        site.scratch.join("root").display()
    );
    site.restart_with(&config.replacen("[[site]]\nhosts", &root, 1));
    assert!(site.get("/a").is_hit());
}

#[test]
fn rules_that_shape_keys_leave_nothing_that_was_stored_under_others() {
    let mut site = SiteBuilder::php().disk().start();
    site.get("/a");
    site.wait_for_disk(1);
    let config = fs::read_to_string(site.galley.config()).unwrap();
    let changed = config.replacen("[[site]]\n", "[[site]]\nignore_query = [\"ref\"]\n", 1);
    site.restart_with(&changed);
    assert!(!site.get("/a").is_hit());
}

#[test]
fn variants_survive_without_a_preset() {
    let origin = Origin::start(|seen, writer| {
        let language = seen.field("accept-language").unwrap_or("none").to_owned();
        let fields = [
            ("Cache-Control", "max-age=600"),
            ("Vary", "Accept-Language"),
            ("Content-Language", language.as_str()),
        ];
        writer.answer(200, &fields, language.as_bytes());
    })
    .unwrap();
    let line = format!("upstream = [\"{}\"]", origin.url());
    let mut site = SiteBuilder::upstream_line(&line)
        .site("preset = \"none\"")
        .disk()
        .start();
    let send = |site: &TestSite, language: &str| {
        site.send(Request::get("/a").field("Accept-Language", language))
    };
    for language in ["de", "fr"] {
        send(&site, language).assert_status(200);
    }
    // The marker and both variants.
    site.wait_for_disk(3);
    site.again(End::Kill);
    for language in ["fr", "de"] {
        let after = send(&site, language);
        assert!(after.is_hit(), "{}", after.cache_status());
        assert_eq!(after.text(), language);
    }
    assert_eq!(origin.count("/a"), 2);
}

#[test]
fn a_folder_that_cannot_be_used_keeps_nobody_from_serving() {
    let plan = SiteBuilder::php().cache("memory = \"64MiB\"\ndisk = \"{dir}/file/cache\"");
    plan.scratch.write("file", "no folder").unwrap();
    let site = plan.start();
    site.galley
        .wait_for_log("cannot use `cache.disk`", crate::support::TIMEOUT);
    site.get("/a");
    assert!(site.get("/a").is_hit());
    site.purge(&["--all"]);
    assert!(!site.get("/a").is_hit());
    assert!(site.status().contains("\"state\":\"off\""));
}

#[test]
fn two_servers_do_not_share_a_folder() {
    let site = SiteBuilder::php().disk().start();
    let config = fs::read_to_string(site.galley.config()).unwrap();
    let config = config.replace("galley/admin.sock", "second/admin.sock");
    let second = Galley::start_binary(binary(), &site.scratch.join("second"), &config);
    match second {
        Err(TestkitError::Ended { log, .. }) => {
            assert!(log.contains("another process uses it"), "{log}");
        }
        other => panic!("it started, or said something else: {other:?}"),
    }
    assert_eq!(site.send(Request::get("/a").host(HOST)).status, 200);
}

#[test]
fn why_knows_what_is_on_the_disk() {
    let mut site = SiteBuilder::php().disk().start();
    site.get("/a");
    site.wait_for_disk(1);
    site.again(End::Kill);
    let output = site
        .galley
        .cli(&["why", "--json", "http://example.test/a"])
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("\"what\":\"hit\"") || text.contains("\"what\": \"hit\""),
        "{text}"
    );
}

#[test]
fn what_came_faster_than_the_disk_is_written_when_it_has_time() {
    const PAGES: usize = 1500;
    let origin = Origin::constant(&[("Cache-Control", "max-age=600")], "<html></html>").unwrap();
    let line = format!("upstream = [\"{}\"]\nin_flight = 64", origin.url());
    let mut site = SiteBuilder::upstream_line(&line).disk().start();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let site = &site;
            scope.spawn(move || {
                let mut connection = site.connect();
                for page in (thread..PAGES).step_by(8) {
                    let request = Request::get(&format!("/{page}")).host(HOST);
                    connection.exchange(&request).unwrap().assert_status(200);
                }
            });
        }
    });
    site.wait_for_disk(PAGES as u64);
    site.again(End::Kill);
    for page in (0..PAGES).step_by(100) {
        assert!(site.get(&format!("/{page}")).is_hit(), "{page}");
    }
}
