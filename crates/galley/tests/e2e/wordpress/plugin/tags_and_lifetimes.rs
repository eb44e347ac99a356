//! Tags and lifetimes that the plugin sends with pages: Galley uses them and removes them from responses.

use std::process::{Command, Output};

use galley_testkit::client::Request;
use serde_json::Value;

use super::super::stack::{TIMEOUT, WordPressStack};
use super::{ExpectedPurges, assert_hit, post_id, shared_stack};

/// Returns the JSON output of `galley why` for a path.
pub(super) fn why_report(stack: &WordPressStack, path: &str) -> Value {
    let url = format!("http://plugin.test{path}");
    let output = run_why(stack, &url);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn run_why(stack: &WordPressStack, url: &str) -> Output {
    let token = stack.scratch.join("admin.token");
    Command::new(env!("CARGO_BIN_EXE_galley"))
        .args([
            "why",
            url,
            "--json",
            "--admin",
            &stack.galley.admin().unwrap(),
        ])
        .arg("--token-file")
        .arg(token)
        .output()
        .unwrap()
}

/// Collects all values of a key at any depth.
fn collect_values<'v>(value: &'v Value, key: &str, found: &mut Vec<&'v Value>) {
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                if name == key {
                    found.push(inner);
                }
                collect_values(inner, key, found);
            }
        }
        Value::Array(list) => list
            .iter()
            .for_each(|inner| collect_values(inner, key, found)),
        _ => {}
    }
}

/// Returns the tags of a stored page and its fragments.
fn stored_tags(stack: &WordPressStack, path: &str) -> Vec<String> {
    assert_hit(stack, path);
    let report = why_report(stack, path);
    let mut found = Vec::new();
    collect_values(&report, "tags", &mut found);
    found
        .into_iter()
        .flat_map(|list| list.as_array().cloned().unwrap_or_default())
        .filter_map(|tag| tag.as_str().map(str::to_owned))
        .collect()
}

/// Returns the labels of the fragments of a stored page.
fn fragment_labels(stack: &WordPressStack, path: &str) -> Vec<String> {
    let report = why_report(stack, path);
    let mut found = Vec::new();
    collect_values(&report, "label", &mut found);
    let labels = found.into_iter().filter_map(Value::as_str);
    labels.map(str::to_owned).collect()
}

#[test]
fn pages_have_tags_for_their_contents() {
    let (stack, _lock) = shared_stack();
    let id = post_id(stack, "salt-smoke-and-patience");
    let table: &[(&str, &[String])] = &[
        (
            "/salt-smoke-and-patience/",
            &[
                format!("p{id}"),
                format!("ad{id}"),
                format!("c{id}"),
                "b".into(),
                "sb.sidebar-1".into(),
            ],
        ),
        (
            "/",
            &[
                "home".into(),
                "st".into(),
                "l.post.q".into(),
                "l.post.r0".into(),
                "l.post.r9".into(),
                "l.post.n".into(),
            ],
        ),
        ("/feed/", &["f".into(), "l.post.q".into()]),
        (
            "/?s=harbour",
            &[
                "sw".into(),
                "l.post.s.harbour".into(),
                "l.page.s.harbour".into(),
            ],
        ),
        (
            "/nowhere/",
            &["e404".into(), "n.nowhere".into(), "g.now".into()],
        ),
        (
            "/wp-json/wp/v2/categories",
            &["ltc.category".into(), "lta.category".into()],
        ),
        ("/wp-sitemap-posts-post-1.xml", &["sm.post".into()]),
    ];
    for (path, expected) in table {
        let found = stored_tags(stack, path);
        for tag in *expected {
            assert!(found.contains(tag), "{path} has no tag {tag}: {found:?}");
        }
        assert!(
            !stack.get(path).has("galley-tags") && !stack.get(path).has("galley-cache-control")
        );
    }
    let labels = fragment_labels(stack, "/salt-smoke-and-patience/");
    assert!(labels.contains(&"widget/search-2".to_owned()), "{labels:?}");
    // A page that links to a post does not have the tag of its text.
    let linking = stored_tags(stack, "/about/");
    assert!(!linking.contains(&format!("p{id}")), "{linking:?}");
}

#[test]
fn page_lifetimes_depend_on_the_kind_of_page() {
    let (stack, _lock) = shared_stack();
    for (path, seconds) in [
        ("/about/", 604_800),
        ("/nowhere/", 3600),
        ("/?s=harbour", 3600),
    ] {
        assert_hit(stack, path);
        let report = why_report(stack, path).to_string();
        assert!(report.contains(&seconds.to_string()), "{path}: {report}");
    }
    for path in ["/members-only/", "/wp-login.php"] {
        stack.get(path);
        assert!(!stack.get(path).is_hit(), "{path}");
    }
}

#[test]
fn a_large_download_is_not_buffered_in_memory() {
    let (stack, _lock) = shared_stack();
    let file = stack
        .wordpress
        .root
        .join("wp-content/mu-plugins/download.php");
    std::fs::write(
        &file,
        "<?php if (isset($_GET['download'])) { header('Content-Type: application/octet-stream'); \
         for ($i = 0; $i < 40; $i++) { echo str_repeat('x', 1 << 20); } echo (int) (memory_get_peak_usage() < 32 << 20); exit; }",
    )
    .unwrap();
    let response = stack.send(Request::get("/?download=1").timeout(TIMEOUT));
    assert_eq!(response.body.len(), (40 << 20) + 1);
    assert_eq!(
        response.body.last(),
        Some(&b'1'),
        "PHP buffered the download"
    );
    std::fs::remove_file(file).unwrap();
}

#[test]
fn other_plugins_can_purge_and_add_tags() {
    let (stack, _lock) = shared_stack();
    let file = stack
        .wordpress
        .root
        .join("wp-content/mu-plugins/tagging.php");
    std::fs::write(
        &file,
        "<?php add_filter('galley_tags', function ($tags) { if (strpos($_SERVER['REQUEST_URI'], '/about/history/') === 0) { $tags[] = 'x:own'; } return $tags; });",
    )
    .unwrap();
    stack.php("do_action('galley_purge_all');");
    let expected = ExpectedPurges {
        purged: &["/about/history/"],
        unaffected: &["/about/", "/contact/"],
    };
    expected.check_after(stack, || {
        stack.php("do_action('galley_purge_tags', ['x:own']);");
    });
    expected.check_after(stack, || {
        stack.php(
            "do_action('galley_purge_url', 'http://plugin.test/about/history/?utm_source=x');",
        );
    });
    let expected = ExpectedPurges {
        purged: &["/about/", "/contact/", "/feed/", "/nowhere/"],
        unaffected: &[],
    };
    expected.check_after(stack, || {
        stack.php("do_action('galley_purge_all');");
    });
    std::fs::remove_file(file).unwrap();
}

/// The plugins call these actions after each purge, whether they found a file to delete or not.
#[test]
fn purge_actions_of_nginx_cache_plugins_purge_galley() {
    let (stack, _lock) = shared_stack();
    stack.php("do_action('galley_purge_all');");
    let one = ExpectedPurges {
        purged: &["/about/history/"],
        unaffected: &["/about/", "/contact/"],
    };
    one.check_after(stack, || {
        stack.php("do_action('spinupwp_url_purged', 'http://plugin.test/about/history/', false);");
    });
    let all = ExpectedPurges {
        purged: &["/about/", "/contact/", "/feed/", "/nowhere/"],
        unaffected: &[],
    };
    all.check_after(stack, || {
        stack.php("do_action('spinupwp_site_purged', false);");
    });
    all.check_after(stack, || {
        stack.php("do_action('rt_nginx_helper_after_fastcgi_purge_all');");
    });
    // SpinupWP purges everything after each change of a post. Galley ignores that, because the change itself purges the pages.
    let none = ExpectedPurges {
        purged: &[],
        unaffected: &["/about/", "/contact/"],
    };
    none.check_after(stack, || {
        stack.php(
            "add_action('delete_post', function () { do_action('spinupwp_site_purged', false); }); \
             do_action('delete_post', 0, null);",
        );
    });
}
