//! Pages and purges survive a clean stop and a kill. Purged pages never return after a restart.

use std::fs;

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::Origin;
use galley_testkit::{Galley, TestkitError};

use crate::support::{AssertStatus, HOST, SiteBuilder, TestSite, binary, page_value};

#[derive(Clone, Copy, Debug)]
enum Shutdown {
    Stop,
    Kill,
}

const SHUTDOWNS: [Shutdown; 2] = [Shutdown::Stop, Shutdown::Kill];

impl TestSite {
    fn restart_after(&mut self, shutdown: Shutdown) {
        if let Shutdown::Stop = shutdown {
            assert!(self.galley.stop().success());
        }
        self.restart();
    }
}

/// The run of the page that generated this response.
fn run(response: &Response) -> String {
    page_value(&response.text(), "run").to_owned()
}

#[test]
fn pages_keep_their_age_over_a_restart() {
    for shutdown in SHUTDOWNS {
        let mut site = SiteBuilder::php().disk().start();
        site.head("/aged", &["Cache-Control: max-age=600", "Age: 300"]);
        let before: Vec<Response> = ["/a", "/a?x=1", "/aged"].map(|p| site.get(p)).into();
        site.wait_for_disk(3);
        site.restart_after(shutdown);
        for (page, before) in ["/a", "/a?x=1", "/aged"].into_iter().zip(&before) {
            let after = site.get(page);
            assert!(
                after.is_hit(),
                "{shutdown:?} {page}: {}",
                after.cache_status()
            );
            assert_eq!(after.body, before.body, "{page}");
            assert_eq!(run(&after), run(before));
            let fields = ["date", "content-type", "cache-control"];
            assert!(fields.iter().all(|f| after.field(f) == before.field(f)));
            assert!(after.age() >= before.age(), "{page}: {:?}", after.age());
        }
        assert_eq!(site.runs("/aged"), 1);
        assert!(site.get("/aged").age() >= Some(300));
        // Each entry is read from the disk once, then served from memory.
        let status = site.status();
        assert!(status.contains("\"found\":3"), "{status}");
    }
}

#[test]
fn every_kind_of_purge_survives_a_restart() {
    type SendPurge = fn(&TestSite);
    let purges: [(&str, SendPurge); 7] = [
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
        ("a response", |site| {
            site.head(
                "/edit",
                &["X-LiteSpeed-Purge: p1", "Cache-Control: no-store"],
            );
            site.send(Request::form("/edit", &[("a", "b")]))
                .assert_status(200);
        }),
    ];
    for shutdown in SHUTDOWNS {
        for (name, send_purge) in purges {
            let mut site = SiteBuilder::php().disk().start();
            site.head("/a", &["X-LiteSpeed-Tag: p1"]);
            let before = run(&site.get("/a"));
            site.get("/b");
            site.wait_for_disk(2);
            send_purge(&site);
            site.restart_after(shutdown);
            let after = site.get("/a");
            assert!(!after.is_hit(), "{shutdown:?} {name}");
            assert_ne!(run(&after), before, "{shutdown:?} {name}");
            assert_eq!(
                site.get("/b").is_hit(),
                name != "site",
                "{shutdown:?} {name}"
            );
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
    site.restart_after(Shutdown::Kill);
    let after = site.get("/a");
    assert!(!after.is_hit(), "{}", after.cache_status());
}

#[test]
fn soft_purged_pages_are_stale_after_a_restart() {
    let mut site = SiteBuilder::php().disk().start();
    site.get("/a");
    site.wait_for_disk(1);
    site.purge(&["--url", "http://example.test/a", "--soft"]);
    site.restart_after(Shutdown::Kill);
    let after = site.get("/a");
    assert_eq!(run(&after), "1");
    assert!(
        after.cache_status().contains("revalidating"),
        "{}",
        after.cache_status()
    );
}

#[test]
fn pages_that_are_no_longer_storable_are_removed_from_disk() {
    let mut site = SiteBuilder::php().disk().start();
    site.head("/a", &["Cache-Control: max-age=1, stale-if-error=600"]);
    site.get("/a");
    site.wait_for_disk(1);
    site.head("/a", &["Cache-Control: private"]);
    galley_testkit::wait_for(
        "the page to be fetched again",
        crate::support::TIMEOUT,
        || !site.get("/a").cache_status().contains("hit"),
    );
    galley_testkit::wait_for("its copy to be removed", crate::support::TIMEOUT, || {
        site.status().contains("\"disk\":{") && site.status_disk("entries") == 0
    });
    site.restart_after(Shutdown::Kill);
    site.fpm = None;
    assert!(site.get("/a").status >= 500, "a stale copy was served");
}

#[test]
fn a_stale_copy_on_disk_is_served_while_php_is_down_after_a_restart() {
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
fn adding_a_site_before_others_keeps_their_stored_pages() {
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
fn pages_stored_under_other_cache_key_rules_are_not_used() {
    let mut site = SiteBuilder::php().disk().start();
    site.get("/a");
    site.wait_for_disk(1);
    let config = fs::read_to_string(site.galley.config()).unwrap();
    let changed = config.replacen("[[site]]\n", "[[site]]\nignore_query = [\"ref\"]\n", 1);
    site.restart_with(&changed);
    assert!(!site.get("/a").is_hit());
}

#[test]
fn vary_variants_survive_a_restart_without_a_preset() {
    let origin = Origin::start(|request, writer| {
        let language = request
            .field("accept-language")
            .unwrap_or("none")
            .to_owned();
        let fields = [
            ("Cache-Control", "max-age=600"),
            ("Vary", "Accept-Language"),
            ("Content-Language", language.as_str()),
        ];
        writer.respond(200, &fields, language.as_bytes());
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
    // The variant list and both variants.
    site.wait_for_disk(3);
    site.restart_after(Shutdown::Kill);
    for language in ["fr", "de"] {
        let after = send(&site, language);
        assert!(after.is_hit(), "{}", after.cache_status());
        assert_eq!(after.text(), language);
    }
    assert_eq!(origin.count("/a"), 2);
}

#[test]
fn the_server_works_without_disk_if_the_cache_directory_is_unusable() {
    let builder = SiteBuilder::php().cache("memory = \"64MiB\"\ndisk = \"{dir}/file/cache\"");
    builder.scratch.write("file", "no folder").unwrap();
    let site = builder.start();
    site.galley
        .wait_for_log("cannot use `cache.disk`", crate::support::TIMEOUT);
    site.get("/a");
    assert!(site.get("/a").is_hit());
    site.purge(&["--all"]);
    assert!(!site.get("/a").is_hit());
    assert!(site.status().contains("\"state\":\"off\""));
}

#[test]
fn two_servers_cannot_use_the_same_cache_directory() {
    let site = SiteBuilder::php().disk().start();
    let config = fs::read_to_string(site.galley.config()).unwrap();
    let config = config.replace("galley/admin.sock", "second/admin.sock");
    let second = Galley::start_binary(binary(), &site.scratch.join("second"), &config);
    match second {
        Err(TestkitError::Ended { log, .. }) => {
            assert!(log.contains("another process uses it"), "{log}");
        }
        other => panic!("the second server started or failed otherwise: {other:?}"),
    }
    assert_eq!(site.send(Request::get("/a").host(HOST)).status, 200);
}

#[test]
fn why_reports_a_hit_for_pages_on_disk() {
    let mut site = SiteBuilder::php().disk().start();
    site.get("/a");
    site.wait_for_disk(1);
    site.restart_after(Shutdown::Kill);
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
fn pages_generated_faster_than_the_disk_writes_are_written_later() {
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
    site.restart_after(Shutdown::Kill);
    for page in (0..PAGES).step_by(100) {
        assert!(site.get(&format!("/{page}")).is_hit(), "{page}");
    }
}
