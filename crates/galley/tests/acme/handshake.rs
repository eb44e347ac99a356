//! What is issued is shown to visitors: HTTPS with clients that know nothing of Galley.

use std::process::Command;

use galley_testkit::Pebble;

use crate::stage::{HOST, OTHER, Plan, TIMEOUT, await_state};

/// Asks for the page over HTTPS, as a browser that trusts Pebble would.
pub fn page(plan: &Plan, pebble: &Pebble, host: &str) -> Result<String, String> {
    let root = pebble.root().unwrap();
    let root = plan.scratch.write("issuer.pem", root).unwrap();
    let port = plan.tls_port;
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "20"])
        .args(["--resolve", &format!("{host}:{port}:127.0.0.1")])
        .arg("--cacert")
        .arg(root)
        .arg(format!("https://{host}:{port}/index.html"))
        .output()
        .unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8(output.stderr).unwrap())
    }
}

fn shown(plan: &Plan) -> String {
    shown_at(plan.tls_port)
}

/// The certificate that a visitor is shown, in PEM; empty where the handshake fails.
pub fn shown_at(port: u16) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-servername", HOST, "-connect"])
        .arg(format!("127.0.0.1:{port}"))
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    first(&String::from_utf8_lossy(&output.stdout))
}

/// The first certificate in a text.
fn first(text: &str) -> String {
    let end = "-----END CERTIFICATE-----";
    let begin = text.find("-----BEGIN CERTIFICATE-----");
    let block = begin.and_then(|at| text[at..].split_once(end));
    block.map_or_else(String::new, |(block, _)| format!("{block}{end}"))
}

#[test]
fn a_certificate_is_issued_by_handshake_and_shown_to_visitors() {
    let plan = Plan::new().acme("challenge = [\"tls-alpn-01\"]");
    // Its root is known before it issues anything: this one goes, and its successor has another.
    drop(plan.pebble());
    let mut galley = plan.galley();
    assert_eq!(shown(&plan), "", "there is no stand-in");

    let pebble = plan.pebble();
    await_state(&galley, "a certificate", |state| state["issued"] == 1);
    for host in [HOST, OTHER] {
        assert_eq!(
            page(&plan, &pebble, host).as_deref(),
            Ok("<html>plain</html>")
        );
    }
    plan.await_chain("");
    assert_eq!(first(&plan.chain()), shown(&plan));
    galley.stop();

    let _galley = plan.galley();
    assert_eq!(first(&plan.chain()), shown(&plan), "at once after a start");
}

#[test]
fn visitors_are_shown_the_old_one_until_there_is_a_new_one() {
    let mut plan = Plan::new();
    plan.pebble.validity_s = 6;
    let mut pebble = plan.pebble();
    let galley = plan.galley();
    plan.await_chain("");
    pebble.kill();
    let old = first(&plan.chain());
    await_state(&galley, "failures", |state| {
        state["failures_in_a_row"].as_u64() >= Some(2)
    });
    assert_eq!(shown(&plan), old);
    galley.wait_for_log("the old certificate remains in use", TIMEOUT);

    let _pebble = plan.pebble();
    await_state(&galley, "a certificate", |state| {
        state["failures_in_a_row"] == 0
    });
    let new = shown(&plan);
    assert!(!new.is_empty() && new != old, "{new}");
}

#[test]
fn after_a_failure_the_other_way_of_proving_is_tried() {
    let mut plan = Plan::new().acme("challenge = [\"http-01\", \"tls-alpn-01\"]");
    // Nobody listens where Pebble asks by HTTP.
    plan.pebble.http_port = galley_testkit::free_port().unwrap();
    let _pebble = plan.pebble();
    let galley = plan.galley();
    let state = await_state(&galley, "a certificate", |state| state["issued"] == 1);
    assert_eq!(state["failures"], 1, "{state}");
}
