//! A purge is final: by whatever way it comes, whatever is under way, nothing older is served afterwards.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use galley_testkit::client::{Request, Response};

use crate::support::{AssertStatus, SiteBuilder, TestSite, page_value, with_host};

fn tagged() -> TestSite {
    let stage = SiteBuilder::php().workers(4).start();
    stage.head("/a", &["Galley-Tags: p1, front"]);
    stage.head("/b", &["Galley-Tags: p2, front"]);
    stage.head("/blog/one", &["X-LiteSpeed-Tag: p3"]);
    stage.head("/blog/two", &["Cache-Tag: p4"]);
    fill(&stage);
    stage
}

const PAGES: [&str; 6] = ["/a", "/b", "/blog/one", "/blog/two", "/blogger", "/a?x=1"];

fn fill(stage: &TestSite) {
    for page in PAGES {
        stage.get(page);
        assert!(stage.get(page).is_hit(), "{page}");
    }
}

/// Which pages the cache still has, asked without fetching anything.
fn left(stage: &TestSite) -> Vec<&'static str> {
    PAGES
        .into_iter()
        .filter(|page| {
            stage
                .send(Request::get(page).field("Cache-Control", "only-if-cached"))
                .status
                == 200
        })
        .collect()
}

fn without(gone: &[&str]) -> Vec<&'static str> {
    PAGES
        .into_iter()
        .filter(|page| !gone.contains(page))
        .collect()
}

#[test]
fn the_command_purges_what_it_names_and_nothing_else() {
    let stage = tagged();
    for (arguments, gone) in [
        (&["--url", "http://example.test/a"][..], &["/a"][..]),
        (&["--url", "/a"], &["/a"]),
        (&["--url", "https://EXAMPLE.test:443/%61"], &["/a"]),
        (
            &["--url", "http://example.test/a?x=1&utm_source=q"],
            &["/a?x=1"],
        ),
        (&["--url", "http://example.test/nothing"], &[]),
        (&["--tag", "p1"], &["/a", "/a?x=1"]),
        (&["--tag", "front"], &["/a", "/b", "/a?x=1"]),
        (&["--tag", "p3", "--tag", "p4"], &["/blog/one", "/blog/two"]),
        (&["--tag", "p"], &[]),
        (&["--prefix", "/blog"], &["/blog/one", "/blog/two"]),
        (&["--prefix", "/blog/"], &["/blog/one", "/blog/two"]),
        (
            &["--pattern", "^/blog"],
            &["/blog/one", "/blog/two", "/blogger"],
        ),
        (&["--pattern", "o$"], &["/blog/two"]),
        (&["--all"], &PAGES),
        (&["--site", "example.test", "--all"], &PAGES),
    ] {
        stage.purge(arguments);
        assert_eq!(left(&stage), without(gone), "{arguments:?}");
        for page in PAGES {
            assert_eq!(
                stage.get(page).is_hit(),
                !gone.contains(&page),
                "{arguments:?} {page}"
            );
        }
        fill(&stage);
    }
}

#[test]
fn invalid_purges_are_refused_and_change_nothing() {
    let stage = tagged();
    for arguments in [
        &["purge"][..],
        &["purge", "--url", "not a url"],
        &["purge", "--pattern", "(unclosed"],
        &["purge", "--site", "nobody.test", "--all"],
        &["purge", "--url", "http://nobody.test/a"],
        &["purge", "--everything"],
    ] {
        let output = stage.galley.cli(arguments).unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(
            !output.stderr.is_empty() && output.stdout.is_empty(),
            "{arguments:?}"
        );
    }
    assert_eq!(left(&stage), PAGES);
}

#[test]
fn a_soft_purge_lets_the_old_page_answer_once_more() {
    let stage = tagged();
    stage.purge(&["--soft", "--url", "/a"]);
    let stale = stage.get("/a");
    assert!(
        stale.cache_status().contains("detail=revalidating"),
        "{}",
        stale.cache_status()
    );
    assert_eq!(page_value(&stale.text(), "run"), "1");
    galley_testkit::wait_for("the new page", crate::support::TIMEOUT, || {
        page_value(&stage.get("/a").text(), "run") != "1"
    });
    // A hard one that follows is stronger, and one that came before stays.
    stage.purge(&["--url", "/a"]);
    stage.purge(&["--soft", "--url", "/a"]);
    assert_eq!(left(&stage), without(&["/a"]));
}

fn token_file(plan: &SiteBuilder, name: &str, token: &str) -> String {
    let path = plan.scratch.write(name, token).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}

fn order(stage: &TestSite, token: Option<&str>, body: &str) -> Response {
    let admin = stage.galley.admin().unwrap();
    let addr = admin.trim_start_matches("http://").parse().unwrap();
    let request = Request::post("/purge", "application/json", body).host("localhost");
    let request = match token {
        Some(token) => request.field("Authorization", format!("Bearer {token}")),
        None => request,
    };
    request.send(addr).unwrap()
}

#[test]
fn the_admin_interface_asks_for_a_token_and_keeps_to_its_site() {
    let plan = SiteBuilder::php();
    let (all, own) = (
        "a-token-of-the-server-0123456789",
        "a-token-of-the-site-0123456789",
    );
    let server = token_file(&plan, "server.token", all);
    let site = token_file(&plan, "site.token", &format!("{own}\n"));
    let stage = plan
        .admin(&format!("listen = \"127.0.0.1:0\"\ntoken_file = \"{server}\""))
        .more(&format!("[[site]]\nhosts = [\"other.test\"]\nroot = \"{{root}}\"\nphp = \"{{php}}\"\ntoken_file = \"{site}\"\n"))
        .start();
    let ours = || stage.get("/page").is_hit();
    let theirs = || {
        stage
            .send(Request::get("/page").host("other.test"))
            .is_hit()
    };
    let fill = || while !(ours() && theirs()) {};
    fill();
    for token in [
        None,
        Some(""),
        Some("wrong"),
        Some(&all[1..]),
        Some("a-token-of-the-server-012345678"),
    ] {
        let answer = order(&stage, token, "{\"all\": true}").expect_status(401);
        assert!(!answer.text().contains(all) && !answer.text().contains(own));
        assert!(ours() && theirs(), "{token:?}");
    }
    order(&stage, Some(own), "{\"all\": true}").assert_status(200);
    assert!(ours(), "a site's token reached another site");
    assert!(!theirs());
    fill();
    order(
        &stage,
        Some(own),
        "{\"site\": \"example.test\", \"all\": true}",
    )
    .assert_status(403);
    order(
        &stage,
        Some(own),
        "{\"urls\": [\"http://example.test/page\"]}",
    );
    assert!(ours() && theirs());
    order(
        &stage,
        Some(all),
        "{\"urls\": [\"http://example.test/page\"]}",
    )
    .assert_status(200);
    assert!(!ours() && theirs());
    fill();
    order(&stage, Some(all), "{\"all\": true}").assert_status(200);
    assert!(!ours() && !theirs());
    malformed_purges_are_rejected(&stage, all);
    // Of several orders all hold or none.
    fill();
    let mixed = order(
        &stage,
        Some(all),
        "{\"urls\": [\"/page\"], \"patterns\": [\"(\"]}",
    );
    assert!((400..500).contains(&mixed.status));
    assert!(
        ours() && theirs(),
        "an order that was refused was obeyed in part"
    );
    the_command_needs_the_token(&stage, &server);
    assert!(!ours());
}

fn malformed_purges_are_rejected(stage: &TestSite, token: &str) {
    for body in [
        "",
        "{}",
        "[]",
        "{\"al\": true}",
        "{\"urls\": [\"http://example.test/a\", \"::\"]}",
        "{\"patterns\": [\"(\"]}",
        "\u{0}",
    ] {
        let answer = order(stage, Some(token), body);
        assert!(
            (400..500).contains(&answer.status),
            "{body}: {}",
            answer.beginning()
        );
    }
}

/// The command finds the token in the configuration; the port is passed to it.
fn the_command_needs_the_token(stage: &TestSite, token_file: &str) {
    let admin = stage.galley.admin().unwrap();
    let output = std::process::Command::new(crate::support::binary())
        .args([
            "purge",
            "--admin",
            &admin,
            "--token-file",
            token_file,
            "--all",
        ])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        crate::support::output_text(&output)
    );
    let output = std::process::Command::new(crate::support::binary())
        .args(["purge", "--admin", &admin, "--all"])
        .output()
        .unwrap();
    assert_eq!(
        output.status.code(),
        Some(1),
        "without a token: {}",
        crate::support::output_text(&output)
    );
}

#[test]
fn the_purge_method_works_from_allowed_addresses() {
    let stage = tagged();
    let purge = |target: &str, fields: &[(&str, &str)]| {
        let request = fields
            .iter()
            .fold(Request::new("PURGE", target), |request, (name, value)| {
                request.field(name, value)
            });
        let answer = stage.send(request).expect_status(200);
        assert_eq!(answer.cache_status(), "galley; detail=purge");
    };
    purge("/a", &[]);
    assert_eq!(left(&stage), without(&["/a"]));
    fill(&stage);
    purge("/blog/.*", &[("X-Purge-Method", "regex")]);
    assert_eq!(left(&stage), without(&["/blog/one", "/blog/two"]));
    fill(&stage);
    purge("/", &[("X-Purge-Method", "tags"), ("X-Cache-Tags", "p1")]);
    assert_eq!(left(&stage), without(&["/a", "/a?x=1"]));
    fill(&stage);
    purge("/.*", &[]);
    assert_eq!(left(&stage), Vec::<&str>::new());
    fill(&stage);
    stage.send(Request::new("BAN", "/blog")).assert_status(200);
    assert!(!left(&stage).contains(&"/blog/one"));
}

#[test]
fn the_method_does_not_exist_for_others() {
    let stage = SiteBuilder::php()
        .site("purge_allow = [\"10.0.0.0/8\"]")
        .start();
    stage.get("/page");
    for method in ["PURGE", "BAN"] {
        for target in ["/page", "/.*"] {
            let plain = Request::new(method, target);
            let claiming = plain.clone().field("X-Forwarded-For", "10.0.0.1");
            for request in [plain, claiming] {
                let answer = stage.send(request);
                assert_eq!(
                    answer.status,
                    405,
                    "{method} {target}: {}",
                    answer.beginning()
                );
                assert!(answer.has("allow"));
            }
        }
    }
    assert!(stage.get("/page").is_hit());
    assert_eq!(stage.runs("/page"), 1, "PHP does not see it either");
}

#[test]
fn what_a_proxy_passed_on_is_no_order() {
    let stage = SiteBuilder::php().start();
    stage.get("/page");
    for name in ["X-Forwarded-For", "Forwarded", "Via", "x-real-ip"] {
        let passed_on = Request::new("PURGE", "/page").field(name, "192.0.2.1");
        stage.send(passed_on).assert_status(405);
        assert!(stage.get("/page").is_hit(), "{name}");
    }
    stage
        .send(Request::new("PURGE", "/page"))
        .assert_status(200);
    assert!(!stage.get("/page").is_hit());
}

/// Does `work`, which lets PHP go on, while PHP is held before the head of `/page`, or in the middle of its body with the head
/// already out; the response to the request that it was held for.
fn while_fetched(
    stage: &TestSite,
    held: bool,
    work: impl FnOnce(&std::thread::ScopedJoinHandle<'_, Response>),
) -> Response {
    if held {
        stage.hold("/page");
    } else {
        stage.pause("/page");
    }
    std::thread::scope(|scope| {
        let early = scope.spawn(|| stage.get("/page"));
        if held {
            stage.wait_until_held("/page");
        } else {
            stage.wait_until_paused("/page");
        }
        work(&early);
        early.join().unwrap().expect_status(200)
    })
}

#[test]
fn a_page_generated_during_a_purge_is_not_served_after_it() {
    for arguments in [
        &["--url", "/page"][..],
        &["--all"],
        &["--prefix", "/"],
        &["--pattern", "page"],
        &["--tag", "t1"],
    ] {
        for held in [true, false] {
            let stage = SiteBuilder::php().workers(4).start();
            stage.head("/page", &["Galley-Tags: t1, t2"]);
            let early = while_fetched(&stage, held, |_| {
                stage.purge(arguments);
                stage.release("/page");
                stage.resume("/page");
            });
            assert_eq!(page_value(&early.text(), "run"), "1");
            let after = stage.get("/page").expect_status(200);
            assert!(
                !after.is_hit(),
                "{arguments:?} held={held}: {}",
                after.cache_status()
            );
            assert_eq!(
                page_value(&after.text(), "run"),
                "2",
                "{arguments:?} held={held}"
            );
            assert!(
                stage.get("/page").is_hit(),
                "{arguments:?}: the new one is kept"
            );
        }
    }
}

#[test]
fn who_comes_after_a_purge_does_not_join_what_began_before_it() {
    for arguments in [&["--url", "/page"][..], &["--all"], &["--tag", "t1"]] {
        for held in [true, false] {
            if held && arguments.contains(&"--tag") {
                // Which tags the running page has is known with its head only: that one is waited for.
                continue;
            }
            let stage = SiteBuilder::php().workers(4).start();
            stage.head("/page", &["Galley-Tags: t1"]);
            let early = while_fetched(&stage, held, |early| {
                stage.purge(arguments);
                if held {
                    stage.unhold("/page");
                } else {
                    stage.unpause("/page");
                }
                let late = stage.get("/page").expect_status(200);
                assert_eq!(
                    page_value(&late.text(), "run"),
                    "2",
                    "{arguments:?} held={held}"
                );
                assert!(!early.is_finished());
                stage.release("/page");
                stage.resume("/page");
            });
            assert_eq!(page_value(&early.text(), "run"), "1");
            // And the older one, which ended later, did not take the place of the newer.
            let after = stage.get("/page");
            assert_eq!(
                page_value(&after.text(), "run"),
                "2",
                "{arguments:?} held={held}: {}",
                after.cache_status()
            );
        }
    }
}

#[test]
fn a_tag_purge_waits_for_the_head_of_what_is_under_way() {
    let stage = SiteBuilder::php().workers(4).start();
    stage.head("/page", &["Galley-Tags: t1"]);
    stage.hold("/page");
    std::thread::scope(|scope| {
        let early = scope.spawn(|| stage.get("/page"));
        stage.wait_until_held("/page");
        stage.purge(&["--tag", "t1"]);
        let late = scope.spawn(|| stage.get("/page"));
        stage.release("/page");
        assert_eq!(page_value(&early.join().unwrap().text(), "run"), "1");
        assert_eq!(page_value(&late.join().unwrap().text(), "run"), "2");
    });
    assert_eq!(page_value(&stage.get("/page").text(), "run"), "2");
}

#[test]
fn a_refresh_that_raced_a_purge_is_not_kept() {
    let stage = SiteBuilder::php()
        .workers(4)
        .more("[site.ttl]\ndefault = \"1s\"\nstale_while_revalidate = \"1h\"\n")
        .start();
    stage.get("/page");
    stage.hold("/page");
    galley_testkit::wait_for("the refresh", crate::support::TIMEOUT, || {
        stage.get("/page");
        stage.notes().join("held_page").exists()
    });
    stage.purge(&["--url", "/page"]);
    stage.unhold("/page");
    let after = stage.get("/page");
    assert!(!after.is_hit());
    assert_eq!(page_value(&after.text(), "run"), "3");
    stage.release("/page");
    galley_testkit::wait_for("the old refresh to end", crate::support::TIMEOUT, || {
        stage.status_number("in_flight") == 0
    });
    assert_ne!(
        page_value(&stage.get("/page").text(), "run"),
        "2",
        "the refresh that began before the purge"
    );
}

#[test]
fn a_response_may_purge_its_own_site() {
    let stage = tagged();
    stage.head("/save", &["X-LiteSpeed-Purge: tag=p1", "Galley-Purge: p3"]);
    let answer = stage
        .send(Request::form("/save", &[("a", "b")]))
        .expect_status(200);
    assert!(
        !answer.has("x-litespeed-purge") && !answer.has("galley-purge"),
        "{}",
        answer.beginning()
    );
    assert_eq!(left(&stage), without(&["/a", "/a?x=1", "/blog/one"]));
    fill(&stage);
    stage.head("/everything", &["X-LiteSpeed-Purge: *"]);
    stage
        .send(with_host(Request::form("/everything", &[("a", "b")])))
        .assert_status(200);
    assert_eq!(left(&stage), Vec::<&str>::new());
}

#[test]
fn purges_under_load_never_let_an_old_page_through() {
    let stage = SiteBuilder::php().workers(4).start();
    let ending = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (stage, ending) = (&stage, &ending);
        for _ in 0..4 {
            scope.spawn(move || {
                let mut connection = stage.connect();
                while !ending.load(std::sync::atomic::Ordering::SeqCst) {
                    connection
                        .exchange(&with_host(Request::get("/page")))
                        .unwrap();
                }
            });
        }
        for round in 0..60 {
            let before = stage.runs("/page");
            stage
                .send(Request::new("PURGE", "/page"))
                .assert_status(200);
            let run: usize = page_value(&stage.get("/page").text(), "run")
                .parse()
                .unwrap();
            // What had been begun when the purge was acknowledged may not answer; `before` was begun before it.
            assert!(
                run > before,
                "{round}: run {run} answered after a purge that saw {before}"
            );
        }
        ending.store(true, std::sync::atomic::Ordering::SeqCst);
    });
}

#[test]
fn on_the_socket_others_need_a_token_and_come_in_only_where_there_is_one() {
    let token = "a-token-of-the-site-0123456789";
    let mode = |stage: &TestSite| {
        let admin = stage.galley.admin().unwrap();
        let socket = admin.strip_prefix("unix:").unwrap().to_owned();
        let found = fs::metadata(&socket).unwrap().permissions().mode();
        (found & 0o777, socket)
    };
    let without = SiteBuilder::php().start();
    assert_eq!(mode(&without).0, 0o600);
    let plan = SiteBuilder::php();
    let file = token_file(&plan, "site.token", token);
    let stage = plan.site(&format!("token_file = \"{file}\"")).start();
    let (mode, socket) = mode(&stage);
    assert_eq!(mode, 0o666);
    let send = |user: Option<u32>, token: &str| {
        let mut curl = std::process::Command::new("curl");
        curl.args([
            "-s",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "--unix-socket",
            &socket,
        ]);
        if !token.is_empty() {
            curl.args(["-H", &format!("Authorization: Bearer {token}")]);
        }
        if let Some(user) = user {
            std::os::unix::process::CommandExt::uid(&mut curl, user);
        }
        let output = curl.arg("http://galley/status").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(send(None, ""), "200", "who started it");
    assert_eq!(send(None, token), "200");
    assert_eq!(send(None, "wrong"), "401");
    if galley_testkit::runs_as_root() {
        assert_eq!(send(Some(NOBODY), ""), "401");
        assert_eq!(send(Some(NOBODY), "wrong"), "401");
        assert_eq!(send(Some(NOBODY), token), "200");
    }
}

/// A user other than root and the one who runs the tests.
const NOBODY: u32 = 65_534;
