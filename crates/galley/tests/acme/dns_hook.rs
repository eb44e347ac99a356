//! Wildcards, by records in the DNS that a program of the site owner sets.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use galley_testkit::{Pebble, wait_for};

use crate::handshake::page;
use crate::stage::{HOST, Plan, TIMEOUT, await_state};

const WILDCARD: &str = "*.example.test";

fn plan() -> Plan {
    let plan = Plan::new();
    let hook = plan.scratch.write("hook", "#!/bin/sh\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let lines = format!(
        "challenge = [\"dns-01\"]\ndns_hook = \"{}\"\ndns_wait = \"0s\"",
        hook.display()
    );
    plan.acme(&lines).hosts(&[WILDCARD, HOST])
}

/// What the program does: it changes the DNS server of Pebble, and notes its arguments.
fn write_hook(plan: &Plan, pebble: &Pebble, begin: &str) {
    let text = format!(
        "#!/bin/sh\n{begin}\necho \"$@\" >>'{calls}'\n\
         case $1 in\n\
         set) curl -sf --data \"{{\\\"host\\\":\\\"$2.\\\",\\\"value\\\":\\\"$3\\\"}}\" http://127.0.0.1:{port}/set-txt ;;\n\
         remove) curl -sf --data \"{{\\\"host\\\":\\\"$2.\\\"}}\" http://127.0.0.1:{port}/clear-txt ;;\n\
         esac\n",
        calls = plan.scratch.join("calls").display(),
        port = pebble.names(),
    );
    plan.scratch.write("hook", text).unwrap();
}

fn calls(plan: &Plan) -> Vec<String> {
    let text = fs::read_to_string(plan.scratch.join("calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_wildcard_and_its_domain_share_a_certificate() {
    let plan = plan();
    let pebble = plan.pebble();
    write_hook(&plan, &pebble, "");
    let galley = plan.galley();
    let issued = await_state(&galley, "a certificate", |state| state["issued"] == 1);
    assert_eq!(issued["names"], serde_json::json!([WILDCARD, HOST]));
    for host in [HOST, "shop.example.test"] {
        let page = page(&plan, &pebble, host);
        assert_eq!(page.as_deref(), Ok("<html>plain</html>"), "{host}");
    }
    // One record for each name, both of the same name, with values of their own; all are removed.
    wait_for("the records to be removed", TIMEOUT, || {
        calls(&plan).len() == 4
    });
    let calls = calls(&plan);
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
fn a_program_that_fails_is_named_in_the_state() {
    let plan = plan();
    let pebble = plan.pebble();
    write_hook(
        &plan,
        &pebble,
        "[ \"$1\" = set ] && { echo 'no such zone' >&2; exit 3; }",
    );
    let galley = plan.galley();
    let failed = await_state(&galley, "a failure", |state| {
        state["failures"].as_u64() >= Some(1)
    });
    let trouble = failed["trouble"].as_str().unwrap();
    assert!(trouble.contains("hook set` failed"), "{trouble}");
    assert!(trouble.ends_with("no such zone"), "{trouble}");
    // Once the program works, so does the next order.
    write_hook(&plan, &pebble, "");
    await_state(&galley, "a certificate", |state| state["issued"] == 1);
}
