//! Purges that remove files of nginx's cache, done by PHP as the plugins do them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use galley_testkit::client::Request;
use galley_testkit::{runs_as_root, wait_for};

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite};

/// Nginx Helper with "delete local server cache files", `SpinupWP`, and a script of the kind that looks for `KEY:`.
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

fn plan() -> SiteBuilder {
    let plan = SiteBuilder::php()
        .file("plugins.php", PLUGINS)
        .site("nginx_cache_path = \"{dir}/nginx/cache\"");
    let parent = plan.scratch.dir("nginx").unwrap();
    if runs_as_root() {
        // Galley gives the folder to the owner of the root, as whom PHP runs; that one may also remove the folder itself.
        for folder in [&parent, &plan.scratch.join("root")] {
            let status = Command::new("chown").arg("www-data").arg(folder).status();
            assert!(status.unwrap().success());
        }
    }
    plan
}

fn cache(site: &TestSite) -> PathBuf {
    site.scratch.join("nginx/cache")
}

/// What the plugin says.
fn plugin(site: &TestSite, what: &str, target: &str) -> String {
    let folder = cache(site).display().to_string();
    let url = format!("http://example.test{target}");
    let form = [("do", what), ("url", &url), ("cache", &folder)];
    let answer = site.send(Request::form("/plugins.php", &form));
    answer.expect_status(200).text()
}

/// The page is stored.
fn store(site: &TestSite, target: &str) {
    site.get(target).assert_status(200);
    let runs = site.runs(target);
    site.get(target).assert_status(200);
    assert_eq!(site.runs(target), runs, "{target} is not stored");
}

/// The page is generated again, in a moment.
fn wait_until_purged(site: &TestSite, target: &str) {
    let runs = site.runs(target);
    wait_for(&format!("{target} to be purged"), TIMEOUT, || {
        site.get(target).assert_status(200);
        site.runs(target) > runs
    });
}

#[test]
fn a_plugin_removes_the_file_of_a_page() {
    let site = plan().start();
    assert_eq!(plugin(&site, "url", "/a/"), "is currently not cached");
    store(&site, "/a/");
    store(&site, "/b/");
    for _ in 0..3 {
        assert_eq!(plugin(&site, "url", "/a/"), "purged");
        wait_until_purged(&site, "/a/");
    }
    let runs = site.runs("/b/");
    site.get("/b/").assert_status(200);
    assert_eq!(site.runs("/b/"), runs, "it was not meant");
    // WordPress writes small digits, whatever a client sends.
    store(&site, "/%D0%BF/");
    assert_eq!(plugin(&site, "url", "/%d0%bf/"), "purged");
    wait_until_purged(&site, "/%D0%BF/");
    store(&site, "/b/?c=d");
    assert_eq!(plugin(&site, "url", "/b/?c=d"), "purged");
}

#[test]
fn a_page_that_is_being_generated_can_be_purged() {
    let site = plan().start();
    site.hold("/page");
    let waiting = site.start_request("/page");
    site.wait_until_held("/page");
    assert_eq!(plugin(&site, "url", "/page"), "purged");
    wait_for("the purge", TIMEOUT, || site.status_number("purges") >= 1);
    site.release("/page");
    drop(waiting);
    site.unhold("/page");
    site.get("/page").assert_status(200);
    assert_eq!(site.runs("/page"), 2, "the first one was from before");
}

#[test]
fn a_plugin_removes_everything() {
    for what in ["all", "folder"] {
        let site = plan().start();
        for _ in 0..2 {
            let targets: Vec<String> = (0..20).map(|number| format!("/page{number}")).collect();
            for target in &targets {
                store(&site, target);
            }
            let before: Vec<usize> = targets.iter().map(|target| site.runs(target)).collect();
            assert_eq!(plugin(&site, what, "/"), "done");
            wait_until_purged(&site, "/page0");
            for (target, before) in targets.iter().zip(before) {
                site.get(target).assert_status(200);
                assert!(site.runs(target) > before, "{what}: {target}");
            }
            wait_for("the folder", TIMEOUT, || {
                fs::exists(cache(&site).join(".galley")).unwrap()
            });
        }
    }
}

#[test]
fn what_was_removed_while_galley_was_not_running_is_purged() {
    let mut site = plan().disk().start();
    store(&site, "/a/");
    store(&site, "/b/");
    site.wait_for_disk(2);
    assert!(site.galley.stop().success());
    // As a scheduled task of WordPress would, in a process of its own.
    let marker = markers(&site)
        .into_iter()
        .find(|path| fs::read_to_string(path).unwrap() == "KEY: httpGETexample.test/a/\n");
    fs::remove_file(marker.unwrap()).unwrap();
    site.restart();
    let runs = (site.runs("/a/"), site.runs("/b/"));
    site.get("/a/").assert_status(200);
    site.get("/b/").assert_status(200);
    assert_eq!(site.runs("/a/"), runs.0 + 1);
    assert_eq!(site.runs("/b/"), runs.1, "it is still on the disk");
}

/// All files that have the name of one of nginx's.
fn markers(site: &TestSite) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![cache(site)];
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
