//! `/livez` and `/readyz`, with and without a token.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::{Redis, Scratch, wait_for};

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite};

const TOKEN: &str = "a-token-of-the-server-0123456789";

/// Starts the site with its admin interface on a port, with a token for the server.
fn start_with_admin_port(builder: SiteBuilder) -> TestSite {
    let file = builder.scratch.write("server.token", TOKEN).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let file = file.display();
    builder
        .admin(&format!(
            "listen = \"127.0.0.1:0\"\ntoken_file = \"{file}\""
        ))
        .start()
}

fn send_to_admin(site: &TestSite, path: &str, token: Option<&str>) -> Response {
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
    let is_up = Arc::new(AtomicBool::new(false));
    let origin_is_up = Arc::clone(&is_up);
    let origin = Origin::start(
        move |_: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            let status = if origin_is_up.load(Ordering::SeqCst) {
                200
            } else {
                500
            };
            writer.respond(status, &[], b"page");
        },
    )
    .unwrap();
    let site = start_with_admin_port(SiteBuilder::origin(&origin, "wordpress"));
    assert_eq!(
        send_to_admin(&site, "/livez", None)
            .expect_status(200)
            .text(),
        "ok\n"
    );
    let not_ready = send_to_admin(&site, "/readyz", None);
    assert_eq!(
        (not_ready.status, not_ready.text().as_str()),
        (503, "{\"ready\":false}")
    );
    assert_eq!(
        send_to_admin(&site, "/readyz", Some("wrong")).text(),
        not_ready.text()
    );
    let reasons = send_to_admin(&site, "/readyz", Some(TOKEN)).text();
    assert!(reasons.contains("responded with status 500"), "{reasons}");
    is_up.store(true, Ordering::SeqCst);
    let ready = send_to_admin(&site, "/readyz", None);
    assert_eq!(
        (ready.status, ready.text().as_str()),
        (200, "{\"ready\":true}")
    );
    // Galley requests the front page, and no more once the upstream has responded.
    let requests = origin.requests();
    assert!(
        requests.iter().all(|request| request.target == "/"),
        "{requests:?}"
    );
    is_up.store(false, Ordering::SeqCst);
    send_to_admin(&site, "/readyz", None).assert_status(200);
    assert_eq!(origin.requests().len(), requests.len());
}

#[test]
fn a_server_with_php_is_ready_when_php_has_responded() {
    let site = start_with_admin_port(SiteBuilder::php());
    send_to_admin(&site, "/readyz", None).assert_status(200);
    assert_eq!(site.runs("/"), 1);
    let builder =
        SiteBuilder::upstream_line("php = \"unix:/nowhere/php.sock\"").file("index.php", "<?php");
    let site = start_with_admin_port(builder);
    let reasons = send_to_admin(&site, "/readyz", Some(TOKEN));
    assert_eq!(reasons.status, 503);
    assert!(
        reasons.text().contains("example.test"),
        "{}",
        reasons.text()
    );
}

#[test]
fn a_server_without_upstream_is_ready_at_once() {
    send_to_admin(
        &start_with_admin_port(SiteBuilder::files()),
        "/readyz",
        None,
    )
    .assert_status(200);
}

#[test]
fn a_node_is_ready_while_it_reads_the_purges_of_its_cluster() {
    let scratch = Scratch::new().unwrap();
    let mut redis = Redis::start(&scratch.join("redis")).unwrap();
    let cluster = format!("[cluster]\nengine = \"{}\"\n", redis.url());
    let site = start_with_admin_port(SiteBuilder::files().more(&cluster));
    let status = || send_to_admin(&site, "/readyz", None).status;
    wait_for("the node to be ready", TIMEOUT, || status() == 200);
    redis.kill();
    wait_for("the node to be unready", TIMEOUT, || status() == 503);
    let reasons = send_to_admin(&site, "/readyz", Some(TOKEN)).text();
    assert!(reasons.contains("does not read the purges"), "{reasons}");
    redis.restart().unwrap();
    wait_for("the node to be ready again", TIMEOUT, || status() == 200);
    send_to_admin(&site, "/livez", None).assert_status(200);
}
