//! `/livez` and `/readyz`: for probes without a token, and true.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::{Origin, Seen, Wire};
use galley_testkit::{Redis, Scratch, wait_for};

use crate::support::{Is, PATIENCE, Plan, Stage};

const TOKEN: &str = "a-token-of-the-server-0123456789";

/// On a port, with a token for the server.
fn on_a_port(plan: Plan) -> Stage {
    let file = plan.scratch.write("server.token", TOKEN).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let file = file.display();
    plan.admin(&format!(
        "listen = \"127.0.0.1:0\"\ntoken_file = \"{file}\""
    ))
    .start()
}

fn ask(stage: &Stage, path: &str, token: Option<&str>) -> Response {
    let admin = stage.galley.admin().unwrap();
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
    let origin = Origin::start(move |_: &Seen, wire: &mut Wire<'_>| {
        let status = if is_up.load(Ordering::SeqCst) {
            200
        } else {
            500
        };
        wire.answer(status, &[], b"page");
    })
    .unwrap();
    let stage = on_a_port(Plan::origin(&origin, "wordpress"));
    assert_eq!(
        ask(&stage, "/livez", None).expect_status(200).text(),
        "ok\n"
    );
    let unready = ask(&stage, "/readyz", None);
    assert_eq!(
        (unready.status, unready.text().as_str()),
        (503, "{\"ready\":false}")
    );
    assert_eq!(ask(&stage, "/readyz", Some("wrong")).text(), unready.text());
    let reasons = ask(&stage, "/readyz", Some(TOKEN)).text();
    assert!(reasons.contains("responded with status 500"), "{reasons}");
    works.store(true, Ordering::SeqCst);
    let ready = ask(&stage, "/readyz", None);
    assert_eq!(
        (ready.status, ready.text().as_str()),
        (200, "{\"ready\":true}")
    );
    // It was asked for the front page of its own host, and is not asked again.
    let seen = origin.seen();
    assert!(seen.iter().all(|seen| seen.target == "/"), "{seen:?}");
    works.store(false, Ordering::SeqCst);
    ask(&stage, "/readyz", None).is(200);
    assert_eq!(origin.seen().len(), seen.len());
}

#[test]
fn a_server_with_php_is_ready_when_php_has_responded() {
    let stage = on_a_port(Plan::php());
    ask(&stage, "/readyz", None).is(200);
    assert_eq!(stage.runs("/"), 1);
    let plan = Plan::behind("php = \"unix:/nowhere/php.sock\"").file("index.php", "<?php");
    let stage = on_a_port(plan);
    let reasons = ask(&stage, "/readyz", Some(TOKEN));
    assert_eq!(reasons.status, 503);
    assert!(
        reasons.text().contains("example.test"),
        "{}",
        reasons.text()
    );
}

#[test]
fn a_server_of_files_is_ready_at_once() {
    ask(&on_a_port(Plan::files()), "/readyz", None).is(200);
}

#[test]
fn a_node_is_ready_while_it_reads_the_purges_of_its_cluster() {
    let scratch = Scratch::new().unwrap();
    let mut redis = Redis::start(&scratch.join("redis")).unwrap();
    let cluster = format!("[cluster]\nengine = \"{}\"\n", redis.url());
    let stage = on_a_port(Plan::files().more(&cluster));
    let status = || ask(&stage, "/readyz", None).status;
    wait_for("the node to be ready", PATIENCE, || status() == 200);
    redis.kill();
    wait_for("the node to be unready", PATIENCE, || status() == 503);
    let reasons = ask(&stage, "/readyz", Some(TOKEN)).text();
    assert!(reasons.contains("does not read the purges"), "{reasons}");
    redis.restart().unwrap();
    wait_for("the node to be ready again", PATIENCE, || status() == 200);
    ask(&stage, "/livez", None).is(200);
}
