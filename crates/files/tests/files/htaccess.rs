//! `.htaccess` files on real directories: where they are read, what they cover, and unreadable files.

use std::os::unix::fs::symlink;

use crate::site::{self, PHP, STATIC, TestSite, resolved};

const DENY: &str = "Require all denied";

#[test]
fn a_denied_directory_includes_its_subdirectories() {
    let site = TestSite::new(&[
        ("index.php", ""),
        ("private/.htaccess", DENY),
        ("private/a.txt", "a"),
        ("private/x.php", ""),
        ("private/index.html", "index"),
        ("private/deep/er/b.txt", "b"),
        ("private/open/.htaccess", "Require all granted"),
        ("private/open/c.txt", "c"),
        ("public/a.txt", "a"),
    ]);
    let root = site.root(PHP);
    for (path, expected) in [
        ("/private", "denied"),
        ("/private/", "denied"),
        ("/private/a.txt", "denied"),
        ("/private/x.php", "denied"),
        ("/private/x.php/info", "denied"),
        ("/private/nothing", "denied"),
        ("/private/nothing/at/all.jpg", "denied"),
        ("/private/deep/er/b.txt", "denied"),
        ("/private/open/c.txt", "file c"),
        ("/private/open/nothing", "script /index.php"),
        ("/public/a.txt", "file a"),
        ("/private2", "script /index.php"),
    ] {
        assert_eq!(resolved(&root, path.as_bytes()), expected, "{path}");
    }
}

#[test]
fn a_denied_root_also_denies_pages() {
    let site = TestSite::new(&[
        ("index.php", ""),
        ("a.txt", "a"),
        (".htaccess", "AuthType Basic\nRequire valid-user"),
    ]);
    for path in ["/", "/2020/post/", "/a.txt", "/index.php"] {
        assert_eq!(
            resolved(&site.root(PHP), path.as_bytes()),
            "denied",
            "{path}"
        );
    }
    // Without PHP, the upstream can request the password.
    for path in ["/", "/2020/post/", "/a.txt", "/index.php"] {
        assert_eq!(
            resolved(&site.root(STATIC), path.as_bytes()),
            "missing",
            "{path}"
        );
    }
    let site = TestSite::new(&[("a.txt", "a"), (".htaccess", DENY)]);
    assert_eq!(resolved(&site.root(STATIC), b"/a.txt"), "denied");
}

#[test]
fn files_sections_match_names() {
    let site = TestSite::new(&[
        ("index.php", ""),
        ("xmlrpc.php", ""),
        ("a.inc", "a"),
        ("d/b.inc", "b"),
        ("d/b.txt", "b"),
        (
            ".htaccess",
            "<FilesMatch \"\\.inc$\">\nOrder allow,deny\nDeny from all\n</FilesMatch>\n<Files xmlrpc.php>\nRequire all denied\n</Files>",
        ),
    ]);
    let root = site.root(PHP);
    for (path, expected) in [
        ("/a.inc", "denied"),
        ("/d/b.inc", "denied"),
        ("/d/nothing.inc", "denied"),
        ("/d/b.txt", "file b"),
        ("/xmlrpc.php", "denied"),
        ("/xmlrpc.php/x", "denied"),
        ("/post/", "script /index.php"),
    ] {
        assert_eq!(resolved(&root, path.as_bytes()), expected, "{path}");
    }
}

#[test]
fn rewrite_rules_deny_paths_relative_to_their_directory() {
    let site = TestSite::new(&[
        ("index.php", ""),
        (
            "d/.htaccess",
            "RewriteEngine On\nRewriteRule ^e/.*\\.txt$ - [F]",
        ),
        ("d/e/a.txt", "a"),
        ("d/e/a.jpg", "a"),
        ("d/a.txt", "a"),
        (
            "guarded/.htaccess",
            "RewriteRule ^(.*)$ /index.php?guarded=$1 [L]",
        ),
        ("guarded/a.pdf", "a"),
    ]);
    let root = site.root(PHP);
    for (path, expected) in [
        ("/d/e/a.txt", "denied"),
        ("/d/e/nothing.txt", "denied"),
        ("/d/e/a.jpg", "file a"),
        ("/d/a.txt", "file a"),
        ("/guarded/a.pdf", "denied"),
        ("/guarded/nothing.pdf", "script /index.php"),
    ] {
        assert_eq!(resolved(&root, path.as_bytes()), expected, "{path}");
    }
}

#[test]
fn symlinks_are_subject_to_the_rules_of_link_and_target() {
    let site = TestSite::new(&[
        ("index.php", ""),
        ("private/.htaccess", DENY),
        ("private/a.txt", "a"),
        ("private/sub/b.txt", "b"),
        ("public/a.txt", "a"),
        ("closed/.htaccess", DENY),
    ]);
    symlink("private", site.path().join("dir")).unwrap();
    symlink("private/sub", site.path().join("sub")).unwrap();
    symlink("private/a.txt", site.path().join("file.txt")).unwrap();
    symlink("../public/a.txt", site.path().join("closed/link.txt")).unwrap();
    symlink("public", site.path().join("open")).unwrap();
    let root = site.root(PHP);
    for (path, expected) in [
        ("/dir/a.txt", "denied"),
        ("/sub/b.txt", "denied"),
        ("/file.txt", "denied"),
        ("/closed/link.txt", "denied"),
        ("/open/a.txt", "file a"),
    ] {
        assert_eq!(resolved(&root, path.as_bytes()), expected, "{path}");
    }
}

#[test]
fn an_unreadable_htaccess_denies_the_directory() {
    let site = TestSite::new(&[
        ("index.php", ""),
        ("large/a.txt", "a"),
        ("fits/a.txt", "a"),
        ("unreadable/.htaccess", "# nothing"),
        ("unreadable/a.txt", "a"),
        ("directory/.htaccess/x", ""),
        ("directory/a.txt", "a"),
        ("fifo/a.txt", "a"),
        ("linked/a.txt", "a"),
        ("dangling/a.txt", "a"),
    ]);
    site.write("large/.htaccess", "#".repeat(65_537));
    site.write("fits/.htaccess", "#".repeat(65_536));
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    let fifo = site.path().join("fifo/.htaccess");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    // Deployments share one file between releases. It may be outside the root, because its content is never sent.
    std::fs::write(site.path().parent().unwrap().join("shared"), DENY).unwrap();
    symlink("../../shared", site.path().join("linked/.htaccess")).unwrap();
    symlink("nothing", site.path().join("dangling/.htaccess")).unwrap();
    site.forbid("unreadable/.htaccess");
    site::without_root_capabilities(|| {
        let root = site.root(PHP);
        for _ in 0..2 {
            for (path, expected) in [
                ("/large/a.txt", "denied"),
                ("/fits/a.txt", "file a"),
                ("/unreadable/a.txt", "denied"),
                ("/directory/a.txt", "denied"),
                ("/fifo/a.txt", "denied"),
                ("/linked/a.txt", "denied"),
                ("/dangling/a.txt", "file a"),
            ] {
                assert_eq!(resolved(&root, path.as_bytes()), expected, "{path}");
            }
        }
    });
}
