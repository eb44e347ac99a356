//! Denials that need no rule: Galley refuses every path that they match, whether the file exists or not.

use galley_files::{Options, Resolved, Root};
use galley_import::{ServerKind, StatementOutcome};

use super::{fate, imported};

/// Patterns, and paths that they match.
const DENIALS: &[(&str, &[&str])] = &[
    ("~ /\\.ht", &["/.htaccess", "/a/.htpasswd", "/.ht/x"]),
    ("~* /\\.git", &["/.git/config", "/a/.GIT/HEAD"]),
    (
        "~ /\\.(?!well-known)",
        &["/.env", "/a/.b/c", "/.well-known/.x"],
    ),
    (
        "~ /wp-config\\.php$",
        &["/wp-config.php", "/blog/wp-config.php"],
    ),
    (
        "~* /wp-content/uploads/.*\\.php$",
        &[
            "/wp-content/uploads/a.php",
            "/b/WP-content/uploads/2024/x.PHP",
        ],
    ),
    (
        "~* ^/wp-content/cache/.*\\.(php|phtml|phar)$",
        &[
            "/wp-content/cache/a.php",
            "/wp-content/cache/b/a.phtml",
            "/wp-content/cache/a.phar",
        ],
    ),
    (
        "~ ^/wp-content/(uploads|cache)/.*\\.(php|phtml)$",
        &["/wp-content/uploads/x.phtml", "/wp-content/cache/x.php"],
    ),
    ("~ ^/wp-content/(uploads|themes)/.*\\.php$", &[]),
    ("~ ^/uploads/.*\\.php$", &["/uploads/a.php"]),
    ("~ ^/files/.*\\.php$", &["/files/a/b.php"]),
    ("~ /app/uploads/.*\\.php$", &["/web/app/uploads/b.php"]),
    (
        "~ /wp-content/blogs\\.dir/.*\\.php$",
        &["/wp-content/blogs.dir/1/b.php"],
    ),
];

#[test]
fn paths_that_need_no_rule_are_never_sent() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        php: true,
        wordpress: true,
        ..Options::default()
    };
    for (_, paths) in DENIALS {
        for path in *paths {
            let file = folder.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "x").unwrap();
        }
    }
    let root = Root::open(folder.path(), options).unwrap();
    for (pattern, paths) in DENIALS {
        let text = format!(
            "server {{ listen 80; server_name a.test; root /srv/a; location {pattern} {{ deny all; }} location ~ \\.php$ {{ fastcgi_pass b:9000; }} }}"
        );
        let imported = imported(ServerKind::Nginx, &text);
        let is_silent = fate(&imported, "deny all") == Some(super::Fate::NotNeeded);
        assert_eq!(
            is_silent,
            !paths.is_empty(),
            "{pattern}: {:?}",
            imported.statements
        );
        for path in *paths {
            let resolved = root.resolve(path.as_bytes());
            assert!(matches!(resolved, Resolved::Denied), "{pattern}: {path}");
        }
    }
}

#[test]
fn scripts_of_wordpress_are_closed_with_the_two_that_run() {
    let text = "server { listen 80; server_name a.test; root /srv/a; location ~ ^/(wp-content/(uploads|cache)|wp-includes)/.*\\.(php|phtml)$ { deny all; } }";
    let imported = imported(ServerKind::Nginx, text);
    assert_eq!(
        fate(&imported, "deny all"),
        Some(super::Fate::Carried),
        "{:?}",
        imported.statements
    );
    for path in [
        "/wp-includes/ms-files.php",
        "/wp-includes/js/tinymce/wp-tinymce.php",
    ] {
        assert!(
            imported.configuration.contains(path),
            "{}",
            imported.configuration
        );
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("wp-includes/a")).unwrap();
    for name in ["version.php", "a/b.php", "a/b.phtml"] {
        std::fs::write(folder.path().join("wp-includes").join(name), "x").unwrap();
    }
    let options = Options {
        php: true,
        wordpress: true,
        ..Options::default()
    };
    let root = Root::open(folder.path(), options).unwrap();
    for name in ["version.php", "a/b.php", "a/b.phtml", "none.php"] {
        let resolved = root.resolve(format!("/wp-includes/{name}").as_bytes());
        assert!(matches!(resolved, Resolved::Denied), "{name}");
    }
}

#[test]
fn a_draft_that_answers_otherwise_is_found() {
    // The first location of these requests is another one, so the draft serves them, as nginx does; the report says so.
    let text = "server { listen 80; server_name a.test; root /srv/a; location ~ \\.html$ { expires 1h; } location ~ /(a|b).*\\.(html|php)$ { deny all; } }";
    let imported = imported(ServerKind::Nginx, text);
    let found = imported
        .statements
        .iter()
        .find(|one| one.text.starts_with("location ~ /(a|b)"))
        .unwrap();
    let StatementOutcome::NotCarried(remedy) = &found.outcome else {
        panic!("{found:?}");
    };
    assert!(remedy.contains("is served with this draft"), "{remedy}");
    assert!(found.is_open);
}
