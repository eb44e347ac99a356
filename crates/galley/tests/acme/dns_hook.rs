//! Wildcard certificates with dns-01: a hook program of the site owner sets the DNS records.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use galley_testkit::{Pebble, wait_for};

use crate::handshake::get_https_page;
use crate::site::{AcmeSite, HOST, TIMEOUT, await_state};

pub const WILDCARD: &str = "*.example.test";

pub fn site_with_hook() -> AcmeSite {
    let site = AcmeSite::new();
    let hook = site.scratch.write("hook", "#!/bin/sh\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let lines = format!(
        "challenge = [\"dns-01\"]\ndns_hook = \"{}\"\ndns_wait = \"0s\"",
        hook.display()
    );
    site.acme(&lines).hosts(&[WILDCARD, HOST])
}

/// Writes the hook program: it updates Pebble's DNS server and records its arguments.
fn write_hook(site: &AcmeSite, pebble: &Pebble, begin: &str) {
    let text = format!(
        "#!/bin/sh\n{begin}\necho \"$@\" >>'{calls}'\n\
         case $1 in\n\
         set) curl -sf --data \"{{\\\"host\\\":\\\"$2.\\\",\\\"value\\\":\\\"$3\\\"}}\" http://127.0.0.1:{port}/set-txt ;;\n\
         remove) curl -sf --data \"{{\\\"host\\\":\\\"$2.\\\"}}\" http://127.0.0.1:{port}/clear-txt ;;\n\
         esac\n",
        calls = site.scratch.join("calls").display(),
        port = pebble.names(),
    );
    site.scratch.write("hook", text).unwrap();
}

fn hook_calls(site: &AcmeSite) -> Vec<String> {
    let text = fs::read_to_string(site.scratch.join("calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_wildcard_and_its_domain_share_a_certificate() {
    let site = site_with_hook();
    let pebble = site.start_pebble();
    write_hook(&site, &pebble, "");
    let galley = site.start_galley();
    let issued = await_state(&galley, "a certificate", |state| state["issued"] == 1);
    assert_eq!(issued["names"], serde_json::json!([HOST, WILDCARD]));
    for host in [HOST, "shop.example.test"] {
        let page = get_https_page(&site, &pebble, host);
        assert_eq!(page.as_deref(), Ok("<html>plain</html>"), "{host}");
    }
    // Both names use the same record name, each with its own value. All records are removed.
    wait_for("the records to be removed", TIMEOUT, || {
        hook_calls(&site).len() == 4
    });
    let calls = hook_calls(&site);
    assert!(
        calls[..2]
            .iter()
            .all(|call| call.starts_with("set _acme-challenge.example.test "))
    );
    assert_ne!(calls[0], calls[1]);
    let values = |verb: &str| {
        let of_verb = calls.iter().filter_map(|call| call.strip_prefix(verb));
        let mut values: Vec<&str> = of_verb.collect();
        values.sort_unstable();
        values.join("\n")
    };
    assert_eq!(values("set "), values("remove "));
}

#[test]
fn a_failing_hook_is_reported_in_the_status() {
    let site = site_with_hook();
    let pebble = site.start_pebble();
    write_hook(
        &site,
        &pebble,
        "[ \"$1\" = set ] && { echo 'no such zone' >&2; exit 3; }",
    );
    let galley = site.start_galley();
    let failed = await_state(&galley, "a failure", |state| {
        state["failures"].as_u64() >= Some(1)
    });
    let trouble = failed["error"].as_str().unwrap();
    assert!(trouble.contains("hook set` failed"), "{trouble}");
    assert!(trouble.ends_with("no such zone"), "{trouble}");
    // After the hook works again, the next order succeeds.
    write_hook(&site, &pebble, "");
    await_state(&galley, "a certificate", |state| state["issued"] == 1);
}
