//! Pages and purges survive a clean stop and a kill; what was purged before never comes back after.

use std::fs;

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::Origin;
use galley_testkit::{Galley, Trouble};

use crate::support::{HOST, Is, Plan, Stage, binary, said};

#[derive(Clone, Copy, Debug)]
enum End {
    Stop,
    Kill,
}

const ENDS: [End; 2] = [End::Stop, End::Kill];

impl Stage {
    fn again(&mut self, end: End) {
        if let End::Stop = end {
            assert!(self.galley.stop().success());
        }
        self.restart();
    }
}

/// Which run of the page this is.
fn run(response: &Response) -> String {
    said(&response.text(), "run").to_owned()
}

#[test]
fn pages_survive_the_end_of_the_server_with_their_age() {
    for end in ENDS {
        let mut stage = Plan::php().disk().start();
        stage.head("/aged", &["Cache-Control: max-age=600", "Age: 300"]);
        let before: Vec<Response> = ["/a", "/a?x=1", "/aged"].map(|p| stage.get(p)).into();
        stage.wait_for_disk(3);
        stage.again(end);
        for (page, before) in ["/a", "/a?x=1", "/aged"].into_iter().zip(&before) {
            let after = stage.get(page);
            assert!(after.is_hit(), "{end:?} {page}: {}", after.cache_status());
            assert_eq!(after.body, before.body, "{page}");
            assert_eq!(run(&after), run(before));
            let kept = ["date", "content-type", "cache-control"];
            assert!(kept.iter().all(|f| after.field(f) == before.field(f)));
            assert!(after.age() >= before.age(), "{page}: {:?}", after.age());
        }
        assert_eq!(stage.runs("/aged"), 1);
        assert!(stage.get("/aged").age() >= Some(300));
        // Found on the disk once, then in memory.
        let status = stage.status();
        assert!(status.contains("\"found\":3"), "{status}");
    }
}

#[test]
fn every_way_of_purging_holds_after_a_restart() {
    type Way = fn(&Stage);
    let ways: [(&str, Way); 8] = [
        ("url", |stage| {
            stage.purge(&["--url", "http://example.test/a"]);
        }),
        ("tag", |stage| {
            stage.purge(&["--tag", "p1"]);
        }),
        ("prefix", |stage| {
            stage.purge(&["--prefix", "/a"]);
        }),
        ("pattern", |stage| {
            stage.purge(&["--pattern", "^/a$"]);
        }),
        ("site", |stage| {
            stage.purge(&["--all"]);
        }),
        ("PURGE", |stage| {
            stage.ask(Request::new("PURGE", "/a")).is(200);
        }),
        ("an answer", |stage| {
            stage.head(
                "/edit",
                &["X-LiteSpeed-Purge: p1", "Cache-Control: no-store"],
            );
            stage.ask(Request::form("/edit", &[("a", "b")])).is(200);
        }),
        ("an unsafe request", |stage| {
            let session = "wordpress_logged_in_0123=editor|1|x";
            stage
                .ask(Request::form("/a", &[("a", "b")]).cookie(session))
                .is(200);
        }),
    ];
    for end in ENDS {
        for (name, way) in ways {
            let mut stage = Plan::php().disk().start();
            stage.head("/a", &["X-LiteSpeed-Tag: p1"]);
            let before = run(&stage.get("/a"));
            stage.get("/b");
            stage.wait_for_disk(2);
            way(&stage);
            stage.again(end);
            let after = stage.get("/a");
            assert!(!after.is_hit(), "{end:?} {name}");
            assert_ne!(run(&after), before, "{end:?} {name}");
            assert_eq!(stage.get("/b").is_hit(), name != "site", "{end:?} {name}");
        }
    }
}

#[test]
fn a_page_generated_during_a_purge_is_not_stored_for_the_next_run() {
    let mut stage = Plan::php().workers(3).disk().start();
    stage.hold("/a");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| stage.get("/a"));
        stage.wait_until_held("/a");
        stage.purge(&["--url", "http://example.test/a"]);
        stage.release("/a");
        first.join().unwrap().is(200);
    });
    stage.unhold("/a");
    stage.again(End::Kill);
    let after = stage.get("/a");
    assert!(!after.is_hit(), "{}", after.cache_status());
}

#[test]
fn soft_purged_pages_are_stale_after_a_restart_and_not_gone() {
    let mut stage = Plan::php().disk().start();
    stage.get("/a");
    stage.wait_for_disk(1);
    stage.purge(&["--url", "http://example.test/a", "--soft"]);
    stage.again(End::Kill);
    let after = stage.get("/a");
    assert_eq!(run(&after), "1");
    assert!(
        after.cache_status().contains("revalidating"),
        "{}",
        after.cache_status()
    );
}

#[test]
fn what_may_no_longer_be_kept_does_not_come_back() {
    let mut stage = Plan::php().disk().start();
    stage.head("/a", &["Cache-Control: max-age=1, stale-if-error=600"]);
    stage.get("/a");
    stage.wait_for_disk(1);
    stage.head("/a", &["Cache-Control: private"]);
    galley_testkit::wait_for(
        "the page to be asked for again",
        crate::support::PATIENCE,
        || !stage.get("/a").cache_status().contains("hit"),
    );
    galley_testkit::wait_for("its copy to leave", crate::support::PATIENCE, || {
        stage.status().contains("\"disk\":{") && stage.status_disk("entries") == 0
    });
    stage.again(End::Kill);
    stage.fpm = None;
    assert!(
        stage.get("/a").status >= 500,
        "no copy is left to fall back on"
    );
}

#[test]
fn a_stale_copy_on_the_disk_answers_when_php_is_down_after_a_restart() {
    let mut stage = Plan::php().disk().start();
    stage.head("/a", &["Cache-Control: max-age=1, stale-if-error=600"]);
    let before = stage.get("/a");
    stage.wait_for_disk(1);
    stage.galley.kill();
    stage.fpm = None;
    stage.restart();
    galley_testkit::wait_for("the copy to be stale", crate::support::PATIENCE, || {
        let after = stage.get("/a");
        assert_eq!(after.body, before.body);
        after.cache_status().contains("ttl=-")
    });
}

#[test]
fn a_site_set_in_front_leaves_the_others_what_they_have() {
    let mut stage = Plan::php().disk().start();
    stage.get("/a");
    stage.wait_for_disk(1);
    let config = fs::read_to_string(stage.galley.config()).unwrap();
    let another = "[[site]]\nhosts = [\"another.test\"]\nroot = \"";
    let root = format!(
        "{another}{}\"\n\n[[site]]\nhosts",
        stage.scratch.join("root").display()
    );
    stage.restart_with(&config.replacen("[[site]]\nhosts", &root, 1));
    assert!(stage.get("/a").is_hit());
}

#[test]
fn rules_that_shape_keys_leave_nothing_that_was_stored_under_others() {
    let mut stage = Plan::php().disk().start();
    stage.get("/a");
    stage.wait_for_disk(1);
    let config = fs::read_to_string(stage.galley.config()).unwrap();
    let changed = config.replacen("[[site]]\n", "[[site]]\nignore_query = [\"ref\"]\n", 1);
    stage.restart_with(&changed);
    assert!(!stage.get("/a").is_hit());
}

#[test]
fn variants_survive_without_a_preset() {
    let origin = Origin::start(|seen, wire| {
        let language = seen.field("accept-language").unwrap_or("none").to_owned();
        let fields = [
            ("Cache-Control", "max-age=600"),
            ("Vary", "Accept-Language"),
            ("Content-Language", language.as_str()),
        ];
        wire.answer(200, &fields, language.as_bytes());
    })
    .unwrap();
    let line = format!("upstream = [\"{}\"]", origin.url());
    let mut stage = Plan::behind(&line).site("preset = \"none\"").disk().start();
    let ask = |stage: &Stage, language: &str| {
        stage.ask(Request::get("/a").field("Accept-Language", language))
    };
    for language in ["de", "fr"] {
        ask(&stage, language).is(200);
    }
    // The marker and both variants.
    stage.wait_for_disk(3);
    stage.again(End::Kill);
    for language in ["fr", "de"] {
        let after = ask(&stage, language);
        assert!(after.is_hit(), "{}", after.cache_status());
        assert_eq!(after.text(), language);
    }
    assert_eq!(origin.count("/a"), 2);
}

#[test]
fn a_folder_that_cannot_be_used_keeps_nobody_from_serving() {
    let plan = Plan::php().cache("memory = \"64MiB\"\ndisk = \"{dir}/file/cache\"");
    plan.scratch.write("file", "no folder").unwrap();
    let stage = plan.start();
    stage
        .galley
        .wait_for_log("cannot use `cache.disk`", crate::support::PATIENCE);
    stage.get("/a");
    assert!(stage.get("/a").is_hit());
    stage.purge(&["--all"]);
    assert!(!stage.get("/a").is_hit());
    assert!(stage.status().contains("\"state\":\"off\""));
}

#[test]
fn two_servers_do_not_share_a_folder() {
    let stage = Plan::php().disk().start();
    let config = fs::read_to_string(stage.galley.config()).unwrap();
    let config = config.replace("galley/admin.sock", "second/admin.sock");
    let second = Galley::start_binary(binary(), &stage.scratch.join("second"), &config);
    match second {
        Err(Trouble::Ended { log, .. }) => {
            assert!(log.contains("another process uses it"), "{log}");
        }
        other => panic!("it started, or said something else: {other:?}"),
    }
    assert_eq!(stage.ask(Request::get("/a").host(HOST)).status, 200);
}

#[test]
fn why_knows_what_is_on_the_disk() {
    let mut stage = Plan::php().disk().start();
    stage.get("/a");
    stage.wait_for_disk(1);
    stage.again(End::Kill);
    let output = stage
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
    let mut stage = Plan::behind(&line).disk().start();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let stage = &stage;
            scope.spawn(move || {
                let mut connection = stage.connect();
                for page in (thread..PAGES).step_by(8) {
                    let request = Request::get(&format!("/{page}")).host(HOST);
                    connection.exchange(&request).unwrap().is(200);
                }
            });
        }
    });
    stage.wait_for_disk(PAGES as u64);
    stage.again(End::Kill);
    for page in (0..PAGES).step_by(100) {
        assert!(stage.get(&format!("/{page}")).is_hit(), "{page}");
    }
}
