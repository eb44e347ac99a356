//! Purges by plugins that remove files of nginx's cache (`nginx_cache_path`). Galley keeps a marker file for each page.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use galley_testkit::client::Request;
use galley_testkit::{runs_as_root, wait_for};

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite};

/// The deletions of Nginx Helper with "delete local server cache files" and of `SpinupWP`.
const PLUGINS: &str = r#"<?php
header('Content-Type: text/plain');
$cache = $_POST['cache'];
function unlink_recursive($dir, $and_itself) {
    if (!is_dir($dir) || !($handle = opendir($dir))) {
        return;
    }
    while (false !== ($name = readdir($handle))) {
        if ('.' === $name || '..' === $name) {
            continue;
        }
        if (!@unlink("$dir/$name")) {
            unlink_recursive("$dir/$name", true);
        }
    }
    if ($and_itself) {
        rmdir($dir);
    }
    closedir($handle);
}
if ($_POST['do'] === 'all') {
    unlink_recursive($cache, false);
    exit('done');
}
if ($_POST['do'] === 'folder') {
    unlink_recursive($cache, true);
    exit('done');
}
$url = parse_url($_POST['url']);
$query = isset($url['query']) ? '?' . $url['query'] : '';
$hash = md5($url['scheme'] . 'GET' . $url['host'] . $url['path'] . $query);
$file = "$cache/" . substr($hash, -1) . '/' . substr($hash, -3, 2) . "/$hash";
if (!file_exists($file)) {
    exit('is currently not cached');
}
exit(unlink($file) ? 'purged' : 'cannot unlink');
"#;

fn site_with_markers() -> SiteBuilder {
    let builder = SiteBuilder::php()
        .file("plugins.php", PLUGINS)
        .site("nginx_cache_path = \"{dir}/nginx/cache\"");
    let parent = builder.scratch.dir("nginx").unwrap();
    if runs_as_root() {
        // Galley gives the folder to the owner of the document root, which is also PHP's user and may remove the folder itself.
        for folder in [&parent, &builder.scratch.join("root")] {
            let status = Command::new("chown").arg("www-data").arg(folder).status();
            assert!(status.unwrap().success());
        }
    }
    builder
}

fn marker_folder(site: &TestSite) -> PathBuf {
    site.scratch.join("nginx/cache")
}

/// Output of the plugin after an action.
fn run_plugin(site: &TestSite, action: &str, target: &str) -> String {
    let folder = marker_folder(site).display().to_string();
    let url = format!("http://example.test{target}");
    let form = [("do", action), ("url", &url), ("cache", &folder)];
    let response = site.send(Request::form("/plugins.php", &form));
    response.expect_status(200).text()
}

/// Stores a page.
fn store_page(site: &TestSite, target: &str) {
    site.get(target).assert_status(200);
    let runs = site.runs(target);
    site.get(target).assert_status(200);
    assert_eq!(site.runs(target), runs, "{target} is not stored");
}

/// Waits until the page is generated again.
fn wait_until_purged(site: &TestSite, target: &str) {
    let runs = site.runs(target);
    wait_for(&format!("{target} to be purged"), TIMEOUT, || {
        site.get(target).assert_status(200);
        site.runs(target) > runs
    });
}

#[test]
fn removing_the_file_of_a_page_purges_the_page() {
    let site = site_with_markers().start();
    assert_eq!(run_plugin(&site, "url", "/a/"), "is currently not cached");
    store_page(&site, "/a/");
    store_page(&site, "/b/");
    for _ in 0..3 {
        assert_eq!(run_plugin(&site, "url", "/a/"), "purged");
        wait_until_purged(&site, "/a/");
    }
    let runs = site.runs("/b/");
    site.get("/b/").assert_status(200);
    assert_eq!(site.runs("/b/"), runs, "another page was purged");
    // WordPress writes lower-case percent-encoding, whatever a client sends.
    store_page(&site, "/%D0%BF/");
    assert_eq!(run_plugin(&site, "url", "/%d0%bf/"), "purged");
    wait_until_purged(&site, "/%D0%BF/");
    store_page(&site, "/b/?c=d");
    assert_eq!(run_plugin(&site, "url", "/b/?c=d"), "purged");
}

#[test]
fn a_page_can_be_purged_during_its_generation() {
    let site = site_with_markers().start();
    site.hold("/page");
    let waiting = site.start_request("/page");
    site.wait_until_held("/page");
    assert_eq!(run_plugin(&site, "url", "/page"), "purged");
    wait_for("the purge", TIMEOUT, || site.status_number("purges") >= 1);
    site.release("/page");
    drop(waiting);
    site.unhold("/page");
    site.get("/page").assert_status(200);
    assert_eq!(
        site.runs("/page"),
        2,
        "the response from before the purge was stored"
    );
}

#[test]
fn removing_all_files_or_the_folder_purges_the_site() {
    for action in ["all", "folder"] {
        let site = site_with_markers().start();
        for _ in 0..2 {
            let targets: Vec<String> = (0..20).map(|number| format!("/page{number}")).collect();
            for target in &targets {
                store_page(&site, target);
            }
            let before: Vec<usize> = targets.iter().map(|target| site.runs(target)).collect();
            assert_eq!(run_plugin(&site, action, "/"), "done");
            wait_until_purged(&site, "/page0");
            for (target, before) in targets.iter().zip(before) {
                site.get(target).assert_status(200);
                assert!(site.runs(target) > before, "{action}: {target}");
            }
            wait_for("the folder", TIMEOUT, || {
                fs::exists(marker_folder(&site).join(".galley")).unwrap()
            });
        }
    }
}

#[test]
fn files_removed_during_downtime_purge_their_pages_at_the_start() {
    let mut site = site_with_markers().disk().start();
    store_page(&site, "/a/");
    store_page(&site, "/b/");
    site.wait_for_disk(2);
    assert!(site.galley.stop().success());
    // As a scheduled task of WordPress in a separate process does.
    let marker = markers(&site)
        .into_iter()
        .find(|path| fs::read_to_string(path).unwrap() == "KEY: httpGETexample.test/a/\n");
    fs::remove_file(marker.unwrap()).unwrap();
    site.restart();
    let runs = (site.runs("/a/"), site.runs("/b/"));
    site.get("/a/").assert_status(200);
    site.get("/b/").assert_status(200);
    assert_eq!(site.runs("/a/"), runs.0 + 1);
    assert_eq!(site.runs("/b/"), runs.1, "another page was purged");
}

/// Marker files of all pages.
fn markers(site: &TestSite) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![marker_folder(site)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if path.file_name().unwrap() != ".galley" {
                    folders.push(path);
                }
            } else {
                found.push(path);
            }
        }
    }
    found
}
