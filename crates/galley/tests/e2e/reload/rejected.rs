//! Rejected and partial reloads and their messages: invalid files, unavailable addresses, options that require a restart.

use std::net::TcpListener;

use super::{config, reload, try_reload};
use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, output_text};

#[test]
fn an_invalid_file_is_rejected_with_file_and_line() {
    let site = SiteBuilder::files().file("a.txt", "a").start();
    let good = config(&site);
    let wrong = good.replace("[cache]", "[cache]\nmemroy = \"1MiB\"\nmax_object = \"-1\"");
    let line = wrong
        .lines()
        .position(|line| line.starts_with("memroy"))
        .unwrap()
        + 1;
    let output = try_reload(&site, &wrong);
    assert_eq!(output.status.code(), Some(2), "{}", output_text(&output));
    let output = output_text(&output);
    let location = format!("galley.toml:{line}");
    for word in ["memroy", "memory", "max_object", &location] {
        assert!(output.contains(word), "`{word}` is not in\n{output}");
    }
    site.galley
        .wait_for_log("the old configuration remains in use", TIMEOUT);
    assert!(site.galley.log().contains(&location));
    site.get("/a.txt").assert_status(200);
    let status = reload_status(&site, &good);
    assert!(
        status.contains("\"ok\":false") && status.contains("memroy"),
        "{status}"
    );
    reload(&site, &good);
    let status = reload_status(&site, &good);
    assert!(status.contains("\"ok\":true"), "{status}");
}

/// The last reload in the status. Restores the valid file first, because the command reads it.
fn reload_status(site: &crate::support::TestSite, good: &str) -> String {
    std::fs::write(site.galley.config(), good).unwrap();
    let status = site.status();
    let last = status.split("\"last_reload\":").nth(1).unwrap();
    last.split('}').next().unwrap().to_owned()
}

#[test]
fn a_reload_is_rejected_if_a_listen_address_is_in_use() {
    let site = SiteBuilder::files().file("a.txt", "a").start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let good = config(&site);
    let wrong = good.replace(
        "listen = [\"127.0.0.1:0\"]",
        &format!("listen = [\"127.0.0.1:0\", \"{address}\"]"),
    );
    let output = try_reload(&site, &wrong);
    assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
    assert!(
        output_text(&output).contains(&address),
        "{}",
        output_text(&output)
    );
    site.get("/a.txt").assert_status(200);
}

#[test]
fn options_that_require_a_restart_are_listed_and_all_others_take_effect() {
    let site = SiteBuilder::files().file("a.txt", "a").start();
    let changed = config(&site)
        .replace("memory = \"64MiB\"", "memory = \"65MiB\"")
        .replace("[server]\n", "[server]\nworkers = 7\n")
        .replace("head_timeout = \"10m\"", "head_timeout = \"9s\"");
    let output = reload(&site, &changed);
    assert!(
        output.contains("these changes need a restart: server.workers, cache.memory"),
        "{output}"
    );
    assert!(
        output.contains("[server]: head_timeout changed"),
        "{output}"
    );
    site.get("/a.txt").assert_status(200);
}

#[test]
fn check_diff_lists_the_changes_of_a_reload() {
    let site = SiteBuilder::files().file("a.txt", "a").start();
    let good = config(&site);
    let diff = |arguments: &[&str]| {
        let output = site.galley.cli(&[&["check", "--diff"], arguments].concat());
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(diff(&[]), "no difference\n");
    let changed = good
        .replace("memory = \"64MiB\"", "memory = \"65MiB\"")
        .replace("[[site]]\n", "[[site]]\nqueue = 3\n");
    std::fs::write(site.galley.config(), &changed).unwrap();
    let memory = "  [cache] memory: \"64MiB\" -> \"65MiB\"\n";
    let expected = format!(
        "site `example.test`: queue changed\ncache.memory: needs a restart\n{memory}  \
         [[site]] queue of site `example.test`: 200 (default) -> 3\n"
    );
    assert_eq!(diff(&[]), expected);
    let json = diff(&["--json"]);
    assert!(json.contains("\"restart\":[\"cache.memory\"]"), "{json}");
    // The command does not change anything.
    assert_eq!(diff(&[]), expected);
    reload(&site, &changed);
    let remaining = format!("cache.memory: needs a restart\n{memory}");
    assert_eq!(diff(&[]), remaining);
    let other = site.scratch.write("other.toml", &changed).unwrap();
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
fn reload_fails_if_no_server_is_running() {
    let mut site = SiteBuilder::files().start();
    site.galley.stop();
    let output = site.galley.cli(&["reload"]).unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
    let wrong = config(&site).replace("[cache]", "[cache]\nmemroy = 1");
    assert_eq!(try_reload(&site, &wrong).status.code(), Some(2));
}
