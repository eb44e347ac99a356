//! Reloads with managed PHP: pools with unchanged settings keep running; others are started and stopped.

use std::collections::BTreeSet;

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use super::{config, reload, try_reload};
use crate::managed_php::managed;
use crate::support::{AssertStatus, TIMEOUT, TestSite, children, is_running, output_text};

/// The PHP-FPM master processes.
fn masters(site: &TestSite) -> BTreeSet<u32> {
    let processes = children(site.galley.pid()).into_iter();
    processes
        .filter(|(_, line)| line.contains("php-fpm"))
        .map(|(pid, _)| pid)
        .collect()
}

/// The PHP-FPM masters and their workers.
fn processes(site: &TestSite) -> BTreeSet<u32> {
    let masters = masters(site);
    let workers = masters.iter().flat_map(|master| children(*master));
    let workers: BTreeSet<u32> = workers.map(|(pid, _)| pid).collect();
    masters.union(&workers).copied().collect()
}

/// Sends a form, which is never cached; returns the status.
fn form_status(site: &TestSite, host: &str) -> u16 {
    let form = Request::form("/page", &[("a", "b")]).host(host);
    form.send(site.addr()).unwrap().status
}

#[test]
fn unchanged_pools_keep_their_processes() {
    let site = managed();
    site.get("/one").assert_status(200);
    let before = processes(&site);
    assert_eq!(before.len(), 3);
    for _ in 0..3 {
        reload(&site, &config(&site));
        assert_eq!(form_status(&site, "example.test"), 200);
    }
    let changed = config(&site).replace("[[site]]\n", "[[site]]\nqueue = 50\n");
    reload(&site, &changed);
    assert_eq!(form_status(&site, "example.test"), 200);
    assert_eq!(processes(&site), before);
    assert!(site.get("/one").is_hit());
}

#[test]
fn pools_are_added_changed_and_removed() {
    let site = managed();
    let before = processes(&site);
    let first = config(&site);
    let root = site.scratch.join("root");
    let more = format!(
        "{first}\n[[site]]\nhosts = [\"other.test\"]\nroot = \"{}\"\ncron = \"off\"\nphp = \"managed\"\nphp_workers = 1\n",
        root.display()
    );
    reload(&site, &more);
    assert_eq!(form_status(&site, "other.test"), 200);
    assert_eq!(masters(&site).len(), 2);
    assert!(processes(&site).is_superset(&before));
    // A request to the changed pool is in progress during the reload.
    site.hold("/slow");
    let slow = Request::form("/slow", &[("a", "b")]).host("example.test");
    let mut connection = site.connect();
    connection.send(&slow).unwrap();
    site.wait_until_held("/slow");
    let changed = more.replace("php_workers = 2", "php_workers = 3");
    let output = reload(&site, &changed);
    assert!(
        output.contains("site `example.test`: php_workers changed"),
        "{output}"
    );
    assert_eq!(form_status(&site, "example.test"), 200);
    assert!(
        before.iter().all(|pid| is_running(*pid)),
        "PHP exited during a request"
    );
    site.release("/slow");
    connection.receive("POST").unwrap().assert_status(200);
    wait_for("the old pool to exit", TIMEOUT, || {
        !before.iter().any(|pid| is_running(*pid))
    });
    assert_eq!(processes(&site).len(), 6);
    reload(&site, &changed.replace(&more[first.len()..], ""));
    wait_for("the removed pool to exit", TIMEOUT, || {
        masters(&site).len() == 1
    });
    assert_eq!(form_status(&site, "example.test"), 200);
}

#[test]
fn a_reload_is_rejected_if_php_does_not_start() {
    let site = managed();
    let before = processes(&site);
    let first = config(&site);
    let broken = site.scratch.write("broken", "#!/bin/sh\nexit 3\n").unwrap();
    std::process::Command::new("chmod")
        .arg("+x")
        .arg(&broken)
        .status()
        .unwrap();
    let wrong = first.replace(
        "php = \"managed\"",
        &format!("php = \"managed\"\nphp_binary = \"{}\"", broken.display()),
    );
    let output = try_reload(&site, &wrong);
    assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
    assert!(
        output_text(&output).contains("php_binary"),
        "{}",
        output_text(&output)
    );
    assert_eq!(form_status(&site, "example.test"), 200);
    assert_eq!(processes(&site), before);
    reload(&site, &first);
}
