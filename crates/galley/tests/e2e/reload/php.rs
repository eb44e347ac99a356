//! Reloads beside PHP that Galley runs: pools whose settings are the same go on, others come and go.

use std::collections::BTreeSet;

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use super::{config, reload_with, reloaded};
use crate::managed::{children, lives};
use crate::support::{Is, LAB, PATIENCE, Plan, Stage, words};

fn managed() -> Stage {
    Plan::behind("php = \"managed\"\nphp_workers = 2")
        .file("index.php", LAB)
        .start()
}

/// The masters of PHP-FPM.
fn masters(stage: &Stage) -> BTreeSet<u32> {
    let all = children(stage.galley.pid()).into_iter();
    all.filter(|(_, line)| line.contains("php-fpm"))
        .map(|(pid, _)| pid)
        .collect()
}

/// Masters and their workers.
fn processes(stage: &Stage) -> BTreeSet<u32> {
    let masters = masters(stage);
    let workers = masters.iter().flat_map(|master| children(*master));
    let workers: BTreeSet<u32> = workers.map(|(pid, _)| pid).collect();
    masters.union(&workers).copied().collect()
}

fn form(stage: &Stage, host: &str) -> u16 {
    let form = Request::form("/page", &[("a", "b")]).host(host);
    form.send(stage.addr()).unwrap().status
}

#[test]
fn pools_that_are_the_same_keep_their_processes() {
    let stage = managed();
    stage.get("/one").is(200);
    let before = processes(&stage);
    assert_eq!(before.len(), 3);
    for _ in 0..3 {
        reloaded(&stage, &config(&stage));
        assert_eq!(form(&stage, "example.test"), 200);
    }
    let changed = config(&stage).replace("[[site]]\n", "[[site]]\nqueue = 50\n");
    reloaded(&stage, &changed);
    assert_eq!(form(&stage, "example.test"), 200);
    assert_eq!(processes(&stage), before);
    assert!(stage.get("/one").is_hit());
}

#[test]
fn pools_are_added_changed_and_removed() {
    let stage = managed();
    let before = processes(&stage);
    let first = config(&stage);
    let root = stage.scratch.join("root");
    let more = format!(
        "{first}\n[[site]]\nhosts = [\"other.test\"]\nroot = \"{}\"\ncron = \"off\"\nphp = \"managed\"\nphp_workers = 1\n",
        root.display()
    );
    reloaded(&stage, &more);
    assert_eq!(form(&stage, "other.test"), 200);
    assert_eq!(masters(&stage).len(), 2);
    assert!(processes(&stage).is_superset(&before));
    // A request to the pool that is changed goes on meanwhile.
    stage.hold("/slow");
    let slow = Request::form("/slow", &[("a", "b")]).host("example.test");
    let mut connection = stage.connect();
    connection.send(&slow).unwrap();
    stage.wait_until_held("/slow");
    let changed = more.replace("php_workers = 2", "php_workers = 3");
    let said = reloaded(&stage, &changed);
    assert!(said.contains("site `example.test`: PHP changed"), "{said}");
    assert_eq!(form(&stage, "example.test"), 200);
    assert!(
        before.iter().all(|pid| lives(*pid)),
        "PHP ended under a request"
    );
    stage.release("/slow");
    connection.receive("POST").unwrap().is(200);
    wait_for("the pool before to end", PATIENCE, || {
        !before.iter().any(|pid| lives(*pid))
    });
    assert_eq!(processes(&stage).len(), 6);
    reloaded(&stage, &changed.replace(&more[first.len()..], ""));
    wait_for("the removed pool to end", PATIENCE, || {
        masters(&stage).len() == 1
    });
    assert_eq!(form(&stage, "example.test"), 200);
}

#[test]
fn php_that_does_not_start_changes_nothing() {
    let stage = managed();
    let before = processes(&stage);
    let first = config(&stage);
    let broken = stage
        .scratch
        .write("broken", "#!/bin/sh\nexit 3\n")
        .unwrap();
    std::process::Command::new("chmod")
        .arg("+x")
        .arg(&broken)
        .status()
        .unwrap();
    let wrong = first.replace(
        "php = \"managed\"",
        &format!("php = \"managed\"\nphp_binary = \"{}\"", broken.display()),
    );
    let output = reload_with(&stage, &wrong);
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    assert!(words(&output).contains("php_binary"), "{}", words(&output));
    assert_eq!(form(&stage, "example.test"), 200);
    assert_eq!(processes(&stage), before);
    reloaded(&stage, &first);
}
