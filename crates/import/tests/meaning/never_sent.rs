//! Denials that need no rule: Galley refuses every path that they match, whether the file exists or not.

use galley_files::{Options, Resolved, Root};
use galley_import::ServerKind;

use super::{fate, imported};

/// Patterns, and paths that they match.
const DENIALS: &[(&str, &[&str])] = &[
    ("~ /\\.ht", &["/.htaccess", "/a/.htpasswd", "/.ht/x"]),
    ("~* /\\.git", &["/.git/config", "/a/.GIT/HEAD"]),
    (
        "~ /\\.(git|ht|svn)",
        &["/.git/config", "/a/.svn/x", "/.hta"],
    ),
    ("~ /\\.env", &["/.env", "/a/.env.local"]),
    ("~ /\\.user\\.ini", &["/.user.ini", "/a/.user.ini"]),
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
        "~* ^/wp-content/cache/.*\\.php$",
        &["/wp-content/cache/a.php"],
    ),
    (
        "~ ^/wp-content/uploads/.*\\.(php|phtml)$",
        &["/wp-content/uploads/x.phtml", "/wp-content/uploads/x.php"],
    ),
    (
        "~ ^/wp-content/(uploads|cache)/.*\\.php$",
        &["/wp-content/uploads/b/x.php", "/wp-content/cache/x.php"],
    ),
    ("~ /app/uploads/.*\\.php$", &["/web/app/uploads/b.php"]),
    ("~ ^/wp-content/(uploads|themes)/.*\\.php$", &[]),
    ("~ ^/uploads/.*\\.php$", &[]),
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
