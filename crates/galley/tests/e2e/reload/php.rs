//! Reloads beside PHP that Galley runs: pools whose settings are the same go on, others come and go.

use std::collections::BTreeSet;

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use super::{config, reload_with, reloaded};
use crate::support::{
    AssertStatus, SiteBuilder, TEST_PAGE, TIMEOUT, TestSite, children, is_running, output_text,
};

fn managed() -> TestSite {
    SiteBuilder::upstream_line("php = \"managed\"\nphp_workers = 2")
        .file("index.php", TEST_PAGE)
        .start()
}

/// The masters of PHP-FPM.
fn masters(site: &TestSite) -> BTreeSet<u32> {
    let all = children(site.galley.pid()).into_iter();
    all.filter(|(_, line)| line.contains("php-fpm"))
        .map(|(pid, _)| pid)
        .collect()
}

/// Masters and their workers.
fn processes(site: &TestSite) -> BTreeSet<u32> {
    let masters = masters(site);
    let workers = masters.iter().flat_map(|master| children(*master));
    let workers: BTreeSet<u32> = workers.map(|(pid, _)| pid).collect();
    masters.union(&workers).copied().collect()
}

fn form(site: &TestSite, host: &str) -> u16 {
    let form = Request::form("/page", &[("a", "b")]).host(host);
    form.send(site.addr()).unwrap().status
}

#[test]
fn pools_that_are_the_same_keep_their_processes() {
    let site = managed();
    site.get("/one").assert_status(200);
    let before = processes(&site);
    assert_eq!(before.len(), 3);
    for _ in 0..3 {
        reloaded(&site, &config(&site));
        assert_eq!(form(&site, "example.test"), 200);
    }
    let changed = config(&site).replace("[[site]]\n", "[[site]]\nqueue = 50\n");
    reloaded(&site, &changed);
    assert_eq!(form(&site, "example.test"), 200);
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
    reloaded(&site, &more);
    assert_eq!(form(&site, "other.test"), 200);
    assert_eq!(masters(&site).len(), 2);
    assert!(processes(&site).is_superset(&before));
    // A request to the pool that is changed goes on meanwhile.
    site.hold("/slow");
    let slow = Request::form("/slow", &[("a", "b")]).host("example.test");
    let mut connection = site.connect();
    connection.send(&slow).unwrap();
    site.wait_until_held("/slow");
    let changed = more.replace("php_workers = 2", "php_workers = 3");
    let said = reloaded(&site, &changed);
    assert!(said.contains("site `example.test`: PHP changed"), "{said}");
    assert_eq!(form(&site, "example.test"), 200);
    assert!(
        before.iter().all(|pid| is_running(*pid)),
        "PHP ended under a request"
    );
    site.release("/slow");
    connection.receive("POST").unwrap().assert_status(200);
    wait_for("the pool before to end", TIMEOUT, || {
        !before.iter().any(|pid| is_running(*pid))
    });
    assert_eq!(processes(&site).len(), 6);
    reloaded(&site, &changed.replace(&more[first.len()..], ""));
    wait_for("the removed pool to end", TIMEOUT, || {
        masters(&site).len() == 1
    });
    assert_eq!(form(&site, "example.test"), 200);
}

#[test]
fn php_that_does_not_start_changes_nothing() {
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
    let output = reload_with(&site, &wrong);
    assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
    assert!(
        output_text(&output).contains("php_binary"),
        "{}",
        output_text(&output)
    );
    assert_eq!(form(&site, "example.test"), 200);
    assert_eq!(processes(&site), before);
    reloaded(&site, &first);
}
