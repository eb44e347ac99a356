//! Chromium over TLS: it agrees on HTTP/2 by itself, and a page and everything that belongs to it come by it.

use std::fs;
use std::path::Path;

use galley_testkit::{Chromium, Scratch, wait_for};
use serde_json::{Value, json};

use super::stack::{TIMEOUT, shared};

/// So many files of WordPress's own are asked for at once: more than streams that one connection may have.
const FILES: usize = 150;

/// Scripts below the root with their lengths, smallest names first.
fn scripts(root: &Path) -> Vec<(String, u64)> {
    let folder = "wp-includes/js";
    let mut found: Vec<(String, u64)> = fs::read_dir(root.join(folder))
        .unwrap()
        .chain(fs::read_dir(root.join(folder).join("dist")).unwrap())
        .map(Result::unwrap)
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "js"))
        .map(|entry| {
            let path = entry.path();
            let below = path.strip_prefix(root).unwrap();
            (
                format!("/{}", below.display()),
                fs::metadata(&path).unwrap().len(),
            )
        })
        .collect();
    found.sort();
    found.truncate(FILES);
    found
}

#[test]
fn chromium_reads_a_site_over_http2() {
    let stack = &*shared();
    stack.publish("read-over-http2");
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start_trusting(&scratch.join("chromium"), &stack.pin).unwrap();
    let mut tab = browser.person().unwrap();
    tab.go(&stack.tls_url("/read-over-http2/")).unwrap();

    // Bodies are compared by their decoded length.
    let scripts = scripts(&stack.wordpress.root);
    assert!(scripts.len() > 100, "{} scripts", scripts.len());
    let paths: Vec<&str> = scripts.iter().map(|(path, _)| path.as_str()).collect();
    let fetch = format!(
        "performance.setResourceTimingBufferSize(1000); \
         Promise.all({}.map(path => fetch(path).then(answer => answer.blob() \
         .then(body => [path, answer.status, body.size]))))",
        json!(paths)
    );
    let wanted: Vec<Value> = scripts
        .iter()
        .map(|(path, length)| json!([path, 200, length]))
        .collect();
    assert_eq!(tab.say(&fetch).unwrap(), Value::from(wanted));

    let entries = "performance.getEntries().filter(entry => 'nextHopProtocol' in entry && \
                   entry.name.startsWith(location.origin)) \
                   .map(entry => [entry.name, entry.nextHopProtocol, entry.responseStatus])";
    let enough = format!("{entries}.length > {}", scripts.len());
    tab.wait(&enough).unwrap();
    let entries = tab.say(entries).unwrap();
    let entries = entries.as_array().unwrap();
    assert!(
        entries[0][0]
            .as_str()
            .unwrap()
            .ends_with("/read-over-http2/")
    );
    for entry in entries {
        assert_eq!(
            (&entry[1], &entry[2]),
            (&json!("h2"), &json!(200)),
            "{entry}"
        );
    }
    wait_for("the line of the page", TIMEOUT, || {
        let log = fs::read_to_string(&stack.access).unwrap_or_default();
        log.lines()
            .any(|line| line.contains("\"GET /read-over-http2/ HTTP/2.0\" 200 "))
    });
}
