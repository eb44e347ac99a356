//! Chromium negotiates HTTP/2 over TLS and uses it for a page and its resources.

use std::fs;
use std::path::Path;

use galley_testkit::{Chromium, Scratch, wait_for};
use serde_json::{Value, json};

use super::site::{TIMEOUT, shared};

/// Number of concurrently requested files, more than the permitted streams per connection.
const FILES: usize = 150;

/// Returns the paths and sizes of the first scripts of WordPress in alphabetical order.
fn scripts(root: &Path) -> Vec<(String, u64)> {
    let directory = "wp-includes/js";
    let mut scripts: Vec<(String, u64)> = fs::read_dir(root.join(directory))
        .unwrap()
        .chain(fs::read_dir(root.join(directory).join("dist")).unwrap())
        .map(Result::unwrap)
        .filter(|entry| {
            entry
                .path()
                .extension()
                .is_some_and(|extension| extension == "js")
        })
        .map(|entry| {
            let path = entry.path();
            let relative = path.strip_prefix(root).unwrap();
            (
                format!("/{}", relative.display()),
                fs::metadata(&path).unwrap().len(),
            )
        })
        .collect();
    scripts.sort();
    scripts.truncate(FILES);
    scripts
}

#[test]
fn chromium_reads_a_site_over_http2() {
    let site = &*shared();
    site.publish("read-over-http2");
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start_trusting(&scratch.join("chromium"), &site.pin).unwrap();
    let mut tab = browser.new_tab().unwrap();
    tab.navigate(&site.tls_url("/read-over-http2/")).unwrap();

    // The length of each decoded body must match the file.
    let scripts = scripts(&site.wordpress.root);
    assert!(scripts.len() > 100, "{} scripts", scripts.len());
    let paths: Vec<&str> = scripts.iter().map(|(path, _)| path.as_str()).collect();
    let fetch = format!(
        "performance.setResourceTimingBufferSize(1000); \
         Promise.all({}.map(path => fetch(path).then(response => response.blob() \
         .then(body => [path, response.status, body.size]))))",
        json!(paths)
    );
    let expected: Vec<Value> = scripts
        .iter()
        .map(|(path, length)| json!([path, 200, length]))
        .collect();
    assert_eq!(tab.evaluate(&fetch).unwrap(), Value::from(expected));

    let entries = "performance.getEntries().filter(entry => 'nextHopProtocol' in entry && \
                   entry.name.startsWith(location.origin)) \
                   .map(entry => [entry.name, entry.nextHopProtocol, entry.responseStatus])";
    let all_loaded = format!("{entries}.length > {}", scripts.len());
    tab.wait(&all_loaded).unwrap();
    let entries = tab.evaluate(entries).unwrap();
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
    wait_for("the access log line of the page", TIMEOUT, || {
        let log = fs::read_to_string(&site.access_log).unwrap_or_default();
        log.lines()
            .any(|line| line.contains("\"GET /read-over-http2/ HTTP/2.0\" 200 "))
    });
}
