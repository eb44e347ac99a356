//! Reloads that change nothing, and what they say: wrong files, listeners that cannot be had, options that need a restart.

use std::net::TcpListener;

use super::{config, reload_with, reloaded};
use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, output_text};

#[test]
fn an_invalid_file_changes_nothing_and_is_reported_with_file_and_line() {
    let stage = SiteBuilder::files().file("a.txt", "a").start();
    let good = config(&stage);
    let wrong = good.replace("[cache]", "[cache]\nmemroy = \"1MiB\"\nmax_object = \"-1\"");
    let line = wrong
        .lines()
        .position(|line| line.starts_with("memroy"))
        .unwrap()
        + 1;
    let output = reload_with(&stage, &wrong);
    assert_eq!(output.status.code(), Some(2), "{}", output_text(&output));
    let said = output_text(&output);
    let place = format!("galley.toml:{line}");
    for word in ["memroy", "memory", "max_object", &place] {
        assert!(said.contains(word), "`{word}` is not in\n{said}");
    }
    stage
        .galley
        .wait_for_log("the old configuration remains in use", TIMEOUT);
    assert!(stage.galley.log().contains(&place));
    stage.get("/a.txt").assert_status(200);
    let status = reload_status(&stage, &good);
    assert!(
        status.contains("\"ok\":false") && status.contains("memroy"),
        "{status}"
    );
    reloaded(&stage, &good);
    let status = reload_status(&stage, &good);
    assert!(status.contains("\"ok\":true"), "{status}");
}

/// What the status says of the last reload. The file is put right for that.
fn reload_status(stage: &crate::support::TestSite, good: &str) -> String {
    std::fs::write(stage.galley.config(), good).unwrap();
    let status = stage.status();
    let last = status.split("\"last_reload\":").nth(1).unwrap();
    last.split('}').next().unwrap().to_owned()
}

#[test]
fn a_listener_that_cannot_be_had_changes_nothing() {
    let stage = SiteBuilder::files().file("a.txt", "a").start();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let good = config(&stage);
    let wrong = good.replace(
        "listen = [\"127.0.0.1:0\"]",
        &format!("listen = [\"127.0.0.1:0\", \"{address}\"]"),
    );
    let output = reload_with(&stage, &wrong);
    assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
    assert!(
        output_text(&output).contains(&address),
        "{}",
        output_text(&output)
    );
    stage.get("/a.txt").assert_status(200);
}

#[test]
fn options_that_need_a_restart_are_named_and_the_rest_is_in_force() {
    let stage = SiteBuilder::files().file("a.txt", "a").start();
    let changed = config(&stage)
        .replace("memory = \"64MiB\"", "memory = \"65MiB\"")
        .replace("[server]\n", "[server]\nworkers = 7\n")
        .replace("head_timeout = \"10m\"", "head_timeout = \"9s\"");
    let said = reloaded(&stage, &changed);
    assert!(
        said.contains("these changes need a restart: server.workers, cache.memory"),
        "{said}"
    );
    assert!(said.contains("[server]: head_timeout changed"), "{said}");
    stage.get("/a.txt").assert_status(200);
}

#[test]
fn check_shows_what_a_reload_would_change() {
    let stage = SiteBuilder::files().file("a.txt", "a").start();
    let good = config(&stage);
    let diff = |arguments: &[&str]| {
        let output = stage
            .galley
            .cli(&[&["check", "--diff"], arguments].concat());
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(diff(&[]), "no difference\n");
    let changed = good
        .replace("memory = \"64MiB\"", "memory = \"65MiB\"")
        .replace("[[site]]\n", "[[site]]\nqueue = 3\n");
    std::fs::write(stage.galley.config(), &changed).unwrap();
    let memory = "  [cache] memory: \"64MiB\" -> \"65MiB\"\n";
    let expected = format!(
        "site `example.test`: limits changed\ncache.memory: needs a restart\n{memory}  \
         [[site]] queue of site `example.test`: 200 (default) -> 3\n"
    );
    assert_eq!(diff(&[]), expected);
    let json = diff(&["--json"]);
    assert!(json.contains("\"restart\":[\"cache.memory\"]"), "{json}");
    // Nothing was changed by asking.
    assert_eq!(diff(&[]), expected);
    reloaded(&stage, &changed);
    let left = format!("cache.memory: needs a restart\n{memory}");
    assert_eq!(diff(&[]), left);
    let other = stage.scratch.write("other.toml", &changed).unwrap();
    let output = std::process::Command::new(crate::support::binary())
        .args(["check", "--diff", "--config"])
        .arg(&other)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
    assert!(
        output_text(&output).contains("galley.toml"),
        "{}",
        output_text(&output)
    );
}

#[test]
fn without_a_server_the_command_says_so() {
    let mut stage = SiteBuilder::files().start();
    stage.galley.stop();
    let output = stage.galley.cli(&["reload"]).unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
    let wrong = config(&stage).replace("[cache]", "[cache]\nmemroy = 1");
    assert_eq!(reload_with(&stage, &wrong).status.code(), Some(2));
}
