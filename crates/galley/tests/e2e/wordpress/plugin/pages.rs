//! What pages say of themselves: tags and lifetimes reach the server and nobody else.

use std::process::{Command, Output};

use galley_testkit::client::Request;
use serde_json::Value;

use super::super::stack::{Stack, TIMEOUT};
use super::{Around, assert_hit, id_of, turn};

/// What the server stored for an address.
pub(super) fn explained(stack: &Stack, path: &str) -> Value {
    let url = format!("http://plugin.test{path}");
    let output = why(stack, &url);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn why(stack: &Stack, url: &str) -> Output {
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

/// All values of a name, anywhere.
fn values<'v>(value: &'v Value, name: &str, found: &mut Vec<&'v Value>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                if key == name {
                    found.push(inner);
                }
                values(inner, name, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|inner| values(inner, name, found)),
        _ => {}
    }
}

fn tags(stack: &Stack, path: &str) -> Vec<String> {
    assert_hit(stack, path);
    let explained = explained(stack, path);
    let mut found = Vec::new();
    values(&explained, "tags", &mut found);
    found
        .into_iter()
        .flat_map(|list| list.as_array().cloned().unwrap_or_default())
        .filter_map(|tag| tag.as_str().map(str::to_owned))
        .collect()
}

/// The fragments of a stored page.
fn labels(stack: &Stack, path: &str) -> Vec<String> {
    let explained = explained(stack, path);
    let mut found = Vec::new();
    values(&explained, "label", &mut found);
    let labels = found.into_iter().filter_map(Value::as_str);
    labels.map(str::to_owned).collect()
}

#[test]
fn pages_name_what_they_are_made_of() {
    let (stack, _turn) = turn();
    let id = id_of(stack, "salt-smoke-and-patience");
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
    for (path, wanted) in table {
        let found = tags(stack, path);
        for tag in *wanted {
            assert!(found.contains(tag), "{path} lacks {tag}: {found:?}");
        }
        assert!(
            !stack.get(path).has("galley-tags") && !stack.get(path).has("galley-cache-control")
        );
    }
    let labels = labels(stack, "/salt-smoke-and-patience/");
    assert!(labels.contains(&"widget/search-2".to_owned()), "{labels:?}");
    // Menus and archives hold many posts' links; the text of none of them.
    let front = tags(stack, "/about/");
    assert!(!front.contains(&format!("p{id}")), "{front:?}");
}

#[test]
fn pages_live_long_and_some_not_at_all() {
    let (stack, _turn) = turn();
    for (path, seconds) in [
        ("/about/", 604_800),
        ("/nowhere/", 3600),
        ("/?s=harbour", 3600),
    ] {
        assert_hit(stack, path);
        let said = explained(stack, path).to_string();
        assert!(said.contains(&seconds.to_string()), "{path}: {said}");
    }
    for path in ["/members-only/", "/wp-login.php"] {
        stack.get(path);
        assert!(!stack.get(path).is_hit(), "{path}");
    }
}

#[test]
fn a_download_that_outgrows_the_buffer_is_not_held_in_memory() {
    let (stack, _turn) = turn();
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
    let answer = stack.send(Request::get("/?download=1").timeout(TIMEOUT));
    assert_eq!(answer.body.len(), (40 << 20) + 1);
    assert_eq!(
        answer.body.last(),
        Some(&b'1'),
        "the download lay in memory"
    );
    std::fs::remove_file(file).unwrap();
}

#[test]
fn others_may_purge_and_tag() {
    let (stack, _turn) = turn();
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
    let around = Around {
        changed: &["/about/history/"],
        kept: &["/about/", "/contact/"],
    };
    around.edit(stack, || {
        stack.php("do_action('galley_purge_tags', ['x:own']);");
    });
    around.edit(stack, || {
        stack.php(
            "do_action('galley_purge_url', 'http://plugin.test/about/history/?utm_source=x');",
        );
    });
    let around = Around {
        changed: &["/about/", "/contact/", "/feed/", "/nowhere/"],
        kept: &[],
    };
    around.edit(stack, || {
        stack.php("do_action('galley_purge_all');");
    });
    std::fs::remove_file(file).unwrap();
}

/// The actions are those that the plugins run after they looked for files to remove, found or not.
#[test]
fn purges_of_plugins_that_delete_nginx_files_are_purges_here() {
    let (stack, _turn) = turn();
    stack.php("do_action('galley_purge_all');");
    let one = Around {
        changed: &["/about/history/"],
        kept: &["/about/", "/contact/"],
    };
    one.edit(stack, || {
        stack.php("do_action('spinupwp_url_purged', 'http://plugin.test/about/history/', false);");
    });
    let all = Around {
        changed: &["/about/", "/contact/", "/feed/", "/nowhere/"],
        kept: &[],
    };
    all.edit(stack, || {
        stack.php("do_action('spinupwp_site_purged', false);");
    });
    all.edit(stack, || {
        stack.php("do_action('rt_nginx_helper_after_fastcgi_purge_all');");
    });
    // SpinupWP purges everything with each change of a post; the change itself purges what shows it.
    let none = Around {
        changed: &[],
        kept: &["/about/", "/contact/"],
    };
    none.edit(stack, || {
        stack.php(
            "add_action('delete_post', function () { do_action('spinupwp_site_purged', false); }); \
             do_action('delete_post', 0, null);",
        );
    });
}
