//! Issued certificates in TLS handshakes, as curl and openssl see them.

use std::process::Command;

use galley_testkit::Pebble;

use crate::site::{AcmeSite, HOST, TIMEOUT, WWW_HOST, await_state};

/// Requests the page over HTTPS with a client that trusts Pebble.
pub fn get_https_page(site: &AcmeSite, pebble: &Pebble, host: &str) -> Result<String, String> {
    let root = pebble.root().unwrap();
    let root = site.scratch.write("issuer.pem", root).unwrap();
    let port = site.tls_port;
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

fn served_certificate(site: &AcmeSite) -> String {
    served_certificate_at(site.tls_port)
}

/// The certificate that the server sends, in PEM; empty if the handshake fails.
pub fn served_certificate_at(port: u16) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-servername", HOST, "-connect"])
        .arg(format!("127.0.0.1:{port}"))
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    first_certificate(&String::from_utf8_lossy(&output.stdout))
}

/// The first PEM certificate in a text.
fn first_certificate(text: &str) -> String {
    let end = "-----END CERTIFICATE-----";
    let begin = text.find("-----BEGIN CERTIFICATE-----");
    let block = begin.and_then(|at| text[at..].split_once(end));
    block.map_or_else(String::new, |(block, _)| format!("{block}{end}"))
}

#[test]
fn a_tls_alpn_01_certificate_is_served_and_survives_a_restart() {
    let site = AcmeSite::new().acme("challenge = [\"tls-alpn-01\"]");
    // Writes Pebble's TLS certificate, which the configuration names. This Pebble issues nothing.
    drop(site.start_pebble());
    let mut galley = site.start_galley();
    assert_eq!(
        served_certificate(&site),
        "",
        "no placeholder certificate is served"
    );

    let pebble = site.start_pebble();
    await_state(&galley, "a certificate", |state| state["issued"] == 1);
    for host in [HOST, WWW_HOST] {
        assert_eq!(
            get_https_page(&site, &pebble, host).as_deref(),
            Ok("<html>plain</html>")
        );
    }
    site.await_new_chain("");
    assert_eq!(
        first_certificate(&site.stored_chain()),
        served_certificate(&site)
    );
    galley.stop();

    let _galley = site.start_galley();
    assert_eq!(
        first_certificate(&site.stored_chain()),
        served_certificate(&site),
        "served immediately after a restart"
    );
}

#[test]
fn the_old_certificate_is_served_until_renewal_succeeds() {
    let mut site = AcmeSite::new();
    site.pebble.validity_s = 6;
    let mut pebble = site.start_pebble();
    let galley = site.start_galley();
    site.await_new_chain("");
    pebble.kill();
    let old = first_certificate(&site.stored_chain());
    await_state(&galley, "failures", |state| {
        state["failures_in_a_row"].as_u64() >= Some(2)
    });
    assert_eq!(served_certificate(&site), old);
    galley.wait_for_log("the old certificate remains in use", TIMEOUT);

    let _pebble = site.start_pebble();
    await_state(&galley, "a certificate", |state| {
        state["failures_in_a_row"] == 0
    });
    let new = served_certificate(&site);
    assert!(!new.is_empty() && new != old, "{new}");
}

#[test]
fn after_a_failure_the_next_challenge_type_is_tried() {
    let mut site = AcmeSite::new().acme("challenge = [\"http-01\", \"tls-alpn-01\"]");
    // Nothing listens on the port that Pebble uses for http-01.
    site.pebble.http_port = galley_testkit::free_port().unwrap();
    let _pebble = site.start_pebble();
    let galley = site.start_galley();
    let state = await_state(&galley, "a certificate", |state| state["issued"] == 1);
    assert_eq!(state["failures"], 1, "{state}");
}
