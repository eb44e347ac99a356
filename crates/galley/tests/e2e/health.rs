//! `/livez` and `/readyz`: for probes without a token, and true.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::{Redis, Scratch, wait_for};

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite};

const TOKEN: &str = "a-token-of-the-server-0123456789";

/// On a port, with a token for the server.
fn on_a_port(plan: SiteBuilder) -> TestSite {
    let file = plan.scratch.write("server.token", TOKEN).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let file = file.display();
    plan.admin(&format!(
        "listen = \"127.0.0.1:0\"\ntoken_file = \"{file}\""
    ))
    .start()
}

fn send(site: &TestSite, path: &str, token: Option<&str>) -> Response {
    let admin = site.galley.admin().unwrap();
    let addr = admin.trim_start_matches("http://").trim_end_matches('/');
    let mut request = Request::get(path);
    if let Some(token) = token {
        request = request.field("Authorization", format!("Bearer {token}"));
    }
    request.send(addr.parse().unwrap()).unwrap()
}

#[test]
fn a_server_is_ready_once_its_upstream_has_responded() {
    let works = Arc::new(AtomicBool::new(false));
    let is_up = Arc::clone(&works);
    let origin = Origin::start(
        move |_: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            let status = if is_up.load(Ordering::SeqCst) {
                200
            } else {
                500
            };
            writer.answer(status, &[], b"page");
        },
    )
    .unwrap();
    let site = on_a_port(SiteBuilder::origin(&origin, "wordpress"));
    assert_eq!(
        send(&site, "/livez", None).expect_status(200).text(),
        "ok\n"
    );
    let unready = send(&site, "/readyz", None);
    assert_eq!(
        (unready.status, unready.text().as_str()),
        (503, "{\"ready\":false}")
    );
    assert_eq!(send(&site, "/readyz", Some("wrong")).text(), unready.text());
    let reasons = send(&site, "/readyz", Some(TOKEN)).text();
    assert!(reasons.contains("responded with status 500"), "{reasons}");
    works.store(true, Ordering::SeqCst);
    let ready = send(&site, "/readyz", None);
    assert_eq!(
        (ready.status, ready.text().as_str()),
        (200, "{\"ready\":true}")
    );
    // It was asked for the front page of its own host, and is not asked again.
    let seen = origin.requests();
    assert!(seen.iter().all(|seen| seen.target == "/"), "{seen:?}");
    works.store(false, Ordering::SeqCst);
    send(&site, "/readyz", None).assert_status(200);
    assert_eq!(origin.requests().len(), seen.len());
}

#[test]
fn a_server_with_php_is_ready_when_php_has_responded() {
    let site = on_a_port(SiteBuilder::php());
    send(&site, "/readyz", None).assert_status(200);
    assert_eq!(site.runs("/"), 1);
    let plan =
        SiteBuilder::upstream_line("php = \"unix:/nowhere/php.sock\"").file("index.php", "<?php");
    let site = on_a_port(plan);
    let reasons = send(&site, "/readyz", Some(TOKEN));
    assert_eq!(reasons.status, 503);
    assert!(
        reasons.text().contains("example.test"),
        "{}",
        reasons.text()
    );
}

#[test]
fn a_server_of_files_is_ready_at_once() {
    send(&on_a_port(SiteBuilder::files()), "/readyz", None).assert_status(200);
}

#[test]
fn a_node_is_ready_while_it_reads_the_purges_of_its_cluster() {
    let scratch = Scratch::new().unwrap();
    let mut redis = Redis::start(&scratch.join("redis")).unwrap();
    let cluster = format!("[cluster]\nengine = \"{}\"\n", redis.url());
    let site = on_a_port(SiteBuilder::files().more(&cluster));
    let status = || send(&site, "/readyz", None).status;
    wait_for("the node to be ready", TIMEOUT, || status() == 200);
    redis.kill();
    wait_for("the node to be unready", TIMEOUT, || status() == 503);
    let reasons = send(&site, "/readyz", Some(TOKEN)).text();
    assert!(reasons.contains("does not read the purges"), "{reasons}");
    redis.restart().unwrap();
    wait_for("the node to be ready again", TIMEOUT, || status() == 200);
    send(&site, "/livez", None).assert_status(200);
}
