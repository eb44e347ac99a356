//! Tests: changes over time, with a simulated clock, and the behavior without `openat2`.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

fn site(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn open(path: &Path) -> Root {
    Root::open(
        path,
        Options {
            php: true,
            ..Options::default()
        },
    )
    .unwrap()
}

fn content(found: Resolved) -> String {
    match found {
        Resolved::File(asset) => std::io::read_to_string(asset.plain.file).unwrap(),
        other => format!("{other:?}"),
    }
}

fn resolve(root: &Root, path: &str, now: Instant) -> String {
    content(root.resolve_at(path.as_bytes(), now))
}

#[test]
fn a_replaced_root_is_opened_within_a_second() {
    let dir = site(&[
        ("1/a.txt", "one"),
        ("2/a.txt", "two"),
        ("2/.htaccess", "<Files b.txt>\nDeny from all\n</Files>"),
        ("2/b.txt", "b"),
    ]);
    let current = dir.path().join("current");
    symlink("1", &current).unwrap();
    let root = open(&current);
    let start = Instant::now();
    assert_eq!(resolve(&root, "/a.txt", start), "one");
    fs::remove_file(&current).unwrap();
    assert_eq!(
        resolve(&root, "/a.txt", start + 2 * RECHECK),
        "one",
        "a moment without a root keeps the old one"
    );
    symlink("2", &current).unwrap();
    assert_eq!(
        resolve(&root, "/a.txt", start + 2 * RECHECK + RECHECK / 2),
        "one"
    );
    assert_eq!(resolve(&root, "/a.txt", start + 3 * RECHECK), "two");
    assert_eq!(
        resolve(&root, "/b.txt", start + 3 * RECHECK),
        "Denied",
        "with the rules of the new one"
    );
}

#[test]
fn a_replaced_directory_is_detected() {
    let dir = site(&[("site/a.txt", "one"), ("next/a.txt", "two")]);
    let root = open(&dir.path().join("site"));
    let start = Instant::now();
    fs::rename(dir.path().join("site"), dir.path().join("old")).unwrap();
    fs::rename(dir.path().join("next"), dir.path().join("site")).unwrap();
    assert_eq!(resolve(&root, "/a.txt", start + 2 * RECHECK), "two");
}

#[test]
fn a_htaccess_is_checked_again_after_a_second() {
    let dir = site(&[("d/a.txt", "a")]);
    let htaccess = dir.path().join("d/.htaccess");
    let root = open(dir.path());
    let start = Instant::now();
    let after = |halves: u32| start + RECHECK / 2 * halves;
    assert_eq!(resolve(&root, "/d/a.txt", start), "a");
    fs::write(&htaccess, "Deny from all").unwrap();
    assert_eq!(
        resolve(&root, "/d/a.txt", after(1)),
        "a",
        "absence holds for a second"
    );
    assert_eq!(resolve(&root, "/d/a.txt", after(3)), "Denied");
    fs::write(&htaccess, "# Deny from all").unwrap();
    assert_eq!(resolve(&root, "/d/a.txt", after(4)), "Denied");
    assert_eq!(resolve(&root, "/d/a.txt", after(6)), "a", "another size");
    fs::write(dir.path().join("new"), "Deny from all\n#").unwrap();
    fs::rename(dir.path().join("new"), &htaccess).unwrap();
    assert_eq!(
        resolve(&root, "/d/a.txt", after(8)),
        "Denied",
        "another inode of the same size"
    );
    fs::remove_file(&htaccess).unwrap();
    assert_eq!(resolve(&root, "/d/a.txt", after(10)), "a", "absent again");
    assert_eq!(resolve(&root, "/d/a.txt", after(12)), "a");
    fs::write(&htaccess, "Deny from all").unwrap();
    assert_eq!(
        resolve(&root, "/d/a.txt", after(13)),
        "a",
        "a look that found no change holds for a second too"
    );
    assert_eq!(resolve(&root, "/d/a.txt", after(14)), "Denied");
    fs::remove_dir_all(dir.path().join("d")).unwrap();
    fs::write(dir.path().join("d"), "file").unwrap();
    assert_eq!(
        resolve(&root, "/d", after(16)),
        "file",
        "no directory any more"
    );
}

#[test]
fn only_directories_that_exist_are_cached() {
    let dir = site(&[("index.php", ""), ("a/b/c.txt", "c")]);
    let root = open(dir.path());
    let now = Instant::now();
    for n in 0..50 {
        resolve(&root, &format!("/nothing-{n}/x/y"), now);
        resolve(&root, &format!("/a/nothing-{n}/y"), now);
    }
    resolve(&root, "/a/b/c.txt", now);
    assert_eq!(root.current(now).htaccess.len(), 3);
}

#[test]
fn results_are_the_same_without_openat2() {
    let dir = site(&[
        ("out/secret.txt", "secret"),
        ("site/d/a.txt", "a"),
        ("site/d/e/b.txt", "b"),
        ("site/index.php", ""),
    ]);
    let base = dir.path().join("site");
    symlink("d", base.join("link")).unwrap();
    symlink("a.txt", base.join("d/file-link.txt")).unwrap();
    symlink("../../d/a.txt", base.join("d/e/up.txt")).unwrap();
    symlink("../out", base.join("leaving")).unwrap();
    symlink(dir.path().join("out/secret.txt"), base.join("leaving.txt")).unwrap();
    symlink(base.join("d/e"), base.join("absolute")).unwrap();
    symlink("loop", base.join("loop")).unwrap();
    let [with, without] = [open(&base), open(&base)];
    let now = Instant::now();
    without.current(now).tree.forget_openat2();
    for (path, expected) in [
        ("/d/a.txt", "a"),
        ("/d/e/b.txt", "b"),
        ("/link/a.txt", "a"),
        ("/link/e/b.txt", "b"),
        ("/d/file-link.txt", "a"),
        ("/link/file-link.txt", "a"),
        ("/d/e/up.txt", "a"),
        ("/absolute/b.txt", "b"),
        ("/absolute/up.txt", "a"),
        ("/leaving/secret.txt", "Missing"),
        ("/leaving.txt", "Missing"),
        ("/leaving/nothing.txt", "Missing"),
    ] {
        assert_eq!(resolve(&with, path, now), expected, "{path}");
        assert_eq!(resolve(&without, path, now), expected, "{path}");
    }
    for path in ["/loop", "/loop/x", "/d/a.txt/x", "/d/nothing"] {
        assert!(resolve(&with, path, now).starts_with("Script"), "{path}");
        assert!(resolve(&without, path, now).starts_with("Script"), "{path}");
    }
}

/// The kernel does not cache a name that was not looked up before; the names of the root do, until one is added.
#[test]
fn the_first_request_for_a_page_needs_no_disk_and_a_new_file_is_found_immediately() {
    let dir = site(&[("index.php", "<?php"), ("wp-content/a.txt", "a")]);
    // Names are cached only if the directory has been unchanged for a while.
    std::thread::sleep(RECHECK + RECHECK / 10);
    let root = open(dir.path());
    let start = Instant::now();
    let page = resolve(&root, "/", start);
    if !root.current(start).tree.is_local() {
        return;
    }
    for path in ["/hello/", "/2026/11/hello", "/a/b/c/"] {
        let script = root.resolve_script(path.as_bytes()).expect(path);
        assert_eq!(format!("{:?}", Resolved::Script(script)), page, "{path}");
    }
    fs::write(dir.path().join("hello"), "text").unwrap();
    assert_eq!(root.resolve_script(b"/hello"), None);
    assert_eq!(resolve(&root, "/hello", start), "text");
}
