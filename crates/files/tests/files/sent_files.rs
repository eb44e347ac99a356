//! Files that a response of the upstream names, and paths that are closed to visitors.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use galley_files::{Root, SentFile, SentFiles};
use galley_policy::send_file::{InternalFolder, SendTarget};

use crate::site::{PHP, STATIC, TestSite};

fn internal(path: &str, folder: Option<&Path>) -> InternalFolder {
    InternalFolder {
        path: path.to_owned(),
        folder: folder.map(Path::to_owned),
    }
}

fn found(sent: &SentFiles, root: Option<&Root>, target: &SendTarget) -> String {
    match sent.find(root, target) {
        SentFile::File(asset) => std::io::read_to_string(asset.plain.file).unwrap(),
        SentFile::Missing => "missing".to_owned(),
        SentFile::Forbidden => "forbidden".to_owned(),
        SentFile::Outside => "outside".to_owned(),
        SentFile::Failed(error) => error.to_string(),
    }
}

fn site() -> TestSite {
    TestSite::new(&[
        ("index.php", "<?php"),
        ("a.txt", "a"),
        ("wp-config.php", "<?php password"),
        ("wp-config.php.bak", "password"),
        ("page.phtml", "<?php"),
        ("lib.inc", "<?php"),
        (".env", "secret"),
        (".git/config", "secret"),
        ("wp-content/uploads/shop/.htaccess", "Deny from all"),
        ("wp-content/uploads/shop/plugin.zip", "shop"),
        ("wp-content/uploads/shop/my file 100%.zip", "percent"),
        ("backup.zip", "backup"),
        ("private/a.txt", "private"),
        ("dir/a.txt", "dir"),
    ])
}

#[test]
fn a_closed_folder_below_a_root_that_is_a_link_is_closed() {
    let site = site();
    let current = site.path().parent().unwrap().join("current");
    symlink(site.path(), &current).unwrap();
    let folders = [internal("/protected/", Some(&site.path().join("private")))];
    for root in [site.path(), current.as_path()] {
        let sent = SentFiles::open(&folders, Some(root));
        assert!(sent.closes(b"/private/a.txt"), "{}", root.display());
        assert!(!sent.closes(b"/dir/a.txt"));
    }
}

#[test]
fn responses_name_files_that_visitors_do_not_get() {
    let site = site();
    let outside = site.path().parent().unwrap().join("files");
    fs::create_dir_all(outside.join("sub")).unwrap();
    fs::write(outside.join("sub/b.zip"), "outside").unwrap();
    fs::write(outside.join("b.php"), "<?php").unwrap();
    fs::write(site.path().parent().unwrap().join("secret.txt"), "secret").unwrap();
    symlink("../../secret.txt", site.path().join("dir/link.txt")).unwrap();
    symlink("../secret.txt", outside.join("link.txt")).unwrap();
    symlink("../wp-config.php", site.path().join("dir/source.txt")).unwrap();
    let folders = [
        internal("/private/", None),
        internal("/protected/", Some(&outside)),
    ];
    let sent = SentFiles::open(&folders, Some(site.path()));
    for options in [PHP, STATIC] {
        let root = site.root(options);
        for (path, expected) in [
            ("/a.txt", "a"),
            ("//a.txt", "a"),
            ("/wp-content/uploads/shop/plugin.zip", "shop"),
            ("/wp-content/uploads/shop/my file 100%.zip", "percent"),
            ("/backup.zip", "backup"),
            ("/private/a.txt", "private"),
            ("/protected/sub/b.zip", "outside"),
            ("/protected//sub//b.zip", "outside"),
            ("/protected/../a.txt", "forbidden"),
            ("/protected/../../site/a.txt", "forbidden"),
            ("/protected/b.php", "forbidden"),
            ("/protected/link.txt", "outside"),
            ("/protected/", "missing"),
            ("/protected", "missing"),
            ("/protectedx/sub/b.zip", "missing"),
            ("/protected/sub/", "missing"),
            ("/protected/nothing", "missing"),
            ("/dir/link.txt", "outside"),
            ("/dir/source.txt", "forbidden"),
            ("/dir", "missing"),
            ("/", "missing"),
            ("/index.php", "forbidden"),
            ("/a.txt/index.php", "forbidden"),
            ("/wp-config.php", "forbidden"),
            ("/wp-config.php.bak", "forbidden"),
            ("/page.phtml", "forbidden"),
            ("/lib.inc", "forbidden"),
            ("/.env", "forbidden"),
            ("/.git/config", "forbidden"),
            ("/../secret.txt", "forbidden"),
            ("/dir/../a.txt", "forbidden"),
            ("/a.txt\0", "forbidden"),
            ("/a\n.txt", "forbidden"),
            ("/dir\\a.txt", "forbidden"),
            ("a.txt", "forbidden"),
            ("@named", "forbidden"),
            ("http://example.test/a.txt", "forbidden"),
            ("", "forbidden"),
            ("/%2e%2e/secret.txt", "missing"),
        ] {
            let target = SendTarget::Uri(path.into());
            assert_eq!(found(&sent, Some(&root), &target), expected, "{path}");
        }
    }
    assert_eq!(
        found(
            &sent,
            None,
            &SendTarget::Uri(b"/protected/sub/b.zip".to_vec())
        ),
        "outside"
    );
    assert_eq!(
        found(&sent, None, &SendTarget::Uri(b"/a.txt".to_vec())),
        "outside"
    );
}

#[test]
fn absolute_paths_are_in_the_root_or_an_internal_folder() {
    let site = site();
    let base = site.path().parent().unwrap();
    let outside = base.join("files");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("b.zip"), "outside").unwrap();
    fs::write(base.join("secret.txt"), "secret").unwrap();
    // The root as configured has a link in its path, and PHP sends either path.
    symlink(site.path(), base.join("current")).unwrap();
    let root = Root::open(&base.join("current"), PHP).unwrap();
    let sent = SentFiles::open(
        &[internal("/protected/", Some(&outside))],
        Some(site.path()),
    );
    let at = |name: &str| format!("{}/{name}", base.display());
    for (path, expected) in [
        (at("current/a.txt"), "a"),
        (at("site/a.txt"), "a"),
        (at("files/b.zip"), "outside"),
        (at("site/wp-config.php"), "forbidden"),
        (at("site/../secret.txt"), "outside"),
        (at("files/../secret.txt"), "outside"),
        (at("files/../files/b.zip"), "outside"),
        (at("filesystem/b.zip"), "outside"),
        (at("secret.txt"), "outside"),
        ("/etc/passwd".to_owned(), "outside"),
        ("files/b.zip".to_owned(), "outside"),
    ] {
        let target = SendTarget::File(path.clone().into());
        let found = found(&sent, Some(&root), &target);
        let is_refused = path.contains("..") && matches!(found.as_str(), "forbidden" | "outside");
        assert!(is_refused || found == expected, "{path}: {found}");
    }
    // LiteSpeed's field contains either.
    for path in ["/a.txt".to_owned(), at("site/a.txt")] {
        let target = SendTarget::UriOrFile(path.clone().into());
        assert_eq!(found(&sent, Some(&root), &target), "a", "{path}");
    }
}

#[test]
fn internal_paths_are_closed_in_every_spelling() {
    let site = site();
    let folders = [
        internal("/private/", None),
        internal("/wp-content/uploads/shop/", None),
        internal("/protected/", Some(&site.path().join("dir"))),
    ];
    let sent = SentFiles::open(&folders, Some(site.path()));
    for path in [
        "/private/a.txt",
        "/private/",
        "/private",
        "//private//a.txt",
        "/private/index.php",
        "/private/x/y/",
        "/protected/a.txt",
        "/dir/a.txt",
        "/dir/",
        "/wp-content/uploads/shop/plugin.zip",
        "/site2/wp-content/uploads/shop/plugin.zip",
    ] {
        assert!(sent.closes(path.as_bytes()), "{path}");
    }
    for path in [
        "/",
        "/private2/a.txt",
        "/a.txt",
        "/wp-content/uploads/a.txt",
        "/x/private/a.txt",
        "/directory/",
    ] {
        assert!(!sent.closes(path.as_bytes()), "{path}");
    }
    assert!(!SentFiles::open(&[], Some(site.path())).closes(b"/private/"));
}
