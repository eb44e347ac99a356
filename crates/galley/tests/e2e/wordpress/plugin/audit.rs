//! The audit finds what neither tags nor observed reads can describe.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::super::stack::{WordPressStack, assert_text};
use super::{PLUGIN, assert_hit, shared_stack};

const PAGES: [&str; 7] = [
    "/audited-a/",
    "/audited-b/",
    "/audited-c/",
    "/audited-random/",
    "/about/",
    "/",
    "/wp-json/wp/v2/categories",
];

/// Runs `galley audit`. Returns its exit code, and the addresses that are out of date and that vary.
fn audit(stack: &WordPressStack) -> (i32, [Vec<String>; 2], Value) {
    let (admin, token) = (
        stack.galley.admin().unwrap(),
        stack.scratch.join("admin.token"),
    );
    let output = Command::new(env!("CARGO_BIN_EXE_galley"))
        .args(["audit", "--json", "--site", PLUGIN, "--admin", &admin])
        .arg("--token-file")
        .arg(token)
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let site = report["sites"][0].clone();
    let found = ["changed", "varies"].map(|result| {
        let all = site["findings"].as_array().unwrap().iter();
        let urls = all.filter(|one| one["result"] == result);
        let mut paths: Vec<String> = urls
            .filter_map(|one| {
                let (_, rest) = one["url"].as_str()?.split_once("//")?;
                Some(rest.get(rest.find('/')?..)?.to_owned())
            })
            .collect();
        paths.sort_unstable();
        paths
    });
    (output.status.code().unwrap(), found, site)
}

#[test]
fn an_audit_finds_a_dependency_on_a_file_and_purges_its_pages() {
    let (stack, _lock) = shared_stack();
    let content = stack.wordpress.root.join("wp-content");
    let (plugin, hours) = (
        content.join("mu-plugins/audit.php"),
        content.join("hours.txt"),
    );
    fs::write(&plugin, include_str!("audit.php")).unwrap();
    fs::write(&hours, "nine to five").unwrap();
    stack.php(
        "foreach (['a', 'b', 'c', 'random'] as $what) { \
             get_page_by_path(\"audited-$what\") || wp_insert_post(['post_type' => 'page', 'post_name' => \"audited-$what\", \
                 'post_title' => $what, 'post_content' => \"[audited what='$what']\", 'post_status' => 'publish']); \
         } \
         do_action('galley_purge_all');",
    );
    for path in PAGES {
        assert_hit(stack, path);
    }
    let varies = ["/audited-random/"];
    let (code, [changed, varied], report) = audit(stack);
    assert_eq!(code, 0, "{report}");
    assert!(changed.is_empty() && varied == varies, "{report}");
    assert!(
        report["pass"]["results"]["same"].as_u64() >= Some(6),
        "{report}"
    );
    fs::write(&hours, "ten to six").unwrap();
    let (code, [changed, varied], report) = audit(stack);
    assert_eq!(code, 1, "{report}");
    let wanted = ["/audited-a/", "/audited-b/", "/audited-c/"];
    assert!(changed == wanted && varied == varies, "{report}");
    assert!(report.to_string().contains("hours: ten to six"), "{report}");
    for path in ["/about/", "/", "/wp-json/wp/v2/categories"] {
        assert!(stack.get(path).is_hit(), "{path} was purged");
    }
    for path in wanted {
        let page = stack.get(path);
        assert!(!page.is_hit(), "{path} was not purged");
        assert_text(&page, "ten to six");
    }
    let (code, [changed, _], report) = audit(stack);
    assert_eq!((code, changed.len()), (0, 0), "{report}");
    fs::remove_file(&plugin).unwrap();
    fs::remove_file(&hours).unwrap();
    stack.php("do_action('galley_purge_all');");
}
