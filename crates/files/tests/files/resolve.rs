//! What paths resolve to on real directories: files, scripts, redirects and denials.

use std::fs;
use std::os::unix::fs::symlink;

use crate::site::{self, MULTISITE, PHP, STATIC, TestSite};
use galley_files::Resolved;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

/// The files of a WordPress installation that matter here.
const WORDPRESS: &[(&str, &str)] = &[
    ("index.php", "<?php"),
    ("wp-login.php", "<?php"),
    ("wp-config.php", "<?php secret"),
    ("readme.html", "readme"),
    ("license.txt", "license"),
    ("robots.txt", "robots"),
    (".env", "secret"),
    (".well-known/acme-challenge/token", "proof"),
    ("wp-admin/index.php", "<?php"),
    ("wp-admin/admin-ajax.php", "<?php"),
    ("wp-includes/version.php", "<?php"),
    ("wp-includes/ms-files.php", "<?php"),
    ("wp-includes/js/tinymce/wp-tinymce.php", "<?php"),
    ("wp-includes/js/x.js", "x"),
    ("wp-content/index.php", "<?php"),
    ("wp-content/debug.log", "secret"),
    ("wp-content/uploads/a.jpg", "jpg"),
    ("wp-content/uploads/a b\u{e9}.txt", "name"),
    ("wp-content/uploads/x.php", "<?php"),
    ("wp-content/plugins/p/x.phtml", "<?php"),
    ("wp-content/plugins/p/index.php", "<?php"),
    ("static/index.html", "index"),
    ("empty/keep.txt", ""),
    ("backup.sql", "secret"),
];

#[test]
fn wordpress_paths_with_php() {
    let site = TestSite::new(WORDPRESS);
    let root = site.root(PHP);
    for (path, expected) in [
        ("/", "script /index.php"),
        ("/index.php", "script /index.php"),
        ("/2020/01/post/", "script /index.php"),
        ("/my-account/x.css", "script /index.php"),
        ("/wp-content/uploads/nothing.jpg", "script /index.php"),
        ("/wp-login.php", "script /wp-login.php"),
        ("/wp-admin/", "script /wp-admin/index.php"),
        ("/wp-admin", "redirect /wp-admin/"),
        ("//wp-admin", "redirect /wp-admin/"),
        (
            "/wp-admin/admin-ajax.php",
            "script /wp-admin/admin-ajax.php",
        ),
        (
            "/index.php/2020/01/post",
            "script /index.php info /2020/01/post",
        ),
        ("/index.php/2020/01/", "script /index.php info /2020/01/"),
        ("/index.php/", "script /index.php info /"),
        (
            "/wp-login.php/a.php/b",
            "script /wp-login.php info /a.php/b",
        ),
        ("/nothing.php/wp-login.php", "script /index.php"),
        ("/nothing.php", "script /index.php"),
        ("/robots.txt", "file robots"),
        ("/robots.txt/", "script /index.php"),
        ("/robots.txt/x.php", "script /index.php"),
        ("/readme.html", "file readme"),
        ("/license.txt", "file license"),
        ("/.well-known/acme-challenge/token", "file proof"),
        ("/wp-includes/js/x.js", "file x"),
        (
            "/wp-includes/ms-files.php",
            "script /wp-includes/ms-files.php",
        ),
        (
            "/wp-includes/js/tinymce/wp-tinymce.php",
            "script /wp-includes/js/tinymce/wp-tinymce.php",
        ),
        ("/wp-content/uploads/a.jpg", "file jpg"),
        ("/wp-content/uploads/a b\u{e9}.txt", "file name"),
        ("/static/", "file index"),
        ("/static", "redirect /static/"),
        ("/empty/", "script /index.php"),
        ("/empty", "script /index.php"),
        ("/wp-includes/", "script /index.php"),
        ("/site2/wp-admin/", "script /index.php"),
        ("/wp-config.php", "denied"),
        ("/wp-config.php/x", "denied"),
        ("/wp-includes/version.php", "denied"),
        ("/wp-content/debug.log", "denied"),
        ("/wp-content/uploads/x.php", "denied"),
        ("/wp-content/uploads/a.jpg/x.php", "denied"),
        ("/wp-content/plugins/p/x.phtml", "denied"),
        ("/.env", "denied"),
        ("/.git/config", "denied"),
        ("/backup.sql", "denied"),
        ("/no-backup.sql", "denied"),
    ] {
        assert_eq!(site::resolved(&root, path.as_bytes()), expected, "{path}");
    }
}

#[test]
fn without_php_scripts_are_left_to_the_upstream() {
    let site = TestSite::new(WORDPRESS);
    let root = site.root(STATIC);
    for (path, expected) in [
        ("/", "missing"),
        ("/2020/01/post/", "missing"),
        ("/wp-login.php", "missing"),
        ("/index.php/a", "missing"),
        ("/wp-admin/", "missing"),
        ("/wp-admin", "redirect /wp-admin/"),
        ("/robots.txt", "file robots"),
        ("/static/", "file index"),
        ("/wp-content/plugins/p/x.phtml", "missing"),
        ("/wp-content/uploads/x.php", "denied"),
        ("/wp-config.php", "denied"),
    ] {
        assert_eq!(site::resolved(&root, path.as_bytes()), expected, "{path}");
    }
}

#[test]
fn a_script_has_its_full_path() {
    let site = TestSite::new(WORDPRESS);
    let base = fs::canonicalize(site.path()).unwrap();
    let Resolved::Script(script) = site.root(PHP).resolve(b"/wp-login.php/x/") else {
        panic!("no script");
    };
    let base = base.to_str().unwrap();
    assert_eq!(script.filename, format!("{base}/wp-login.php").into_bytes());
    assert_eq!(script.document_root, base.as_bytes());
    assert_eq!(script.name, b"/wp-login.php");
    assert_eq!(script.path_info.as_deref(), Some(b"/x/".as_slice()));
}

/// Letters whose lower case has another length shift a split position that was found in a lower-case copy (CVE-2026-27590).
#[test]
fn non_ascii_letters_do_not_shift_the_end_of_the_script_name() {
    let site = TestSite::new(WORDPRESS);
    for name in [
        "\u{23a}\u{23a}\u{23a}\u{23a}shell.txt",
        "\u{130}.txt",
        "\u{212a}.txt",
    ] {
        site.write(name, "<?php");
        for tail in [".php", ".php/x.php", "/x.php", ".PHP.php", ".ph\u{17f}"] {
            let path = format!("/{name}{tail}");
            if let Resolved::Script(script) = site.root(PHP).resolve(path.as_bytes()) {
                assert!(
                    script.filename.ends_with(b"/index.php"),
                    "{path}: {script:?}"
                );
            }
        }
    }
}

#[test]
fn without_a_front_controller_unknown_paths_are_missing() {
    let site = TestSite::new(&[("a.txt", "a"), ("d/index.htm", "htm")]);
    let root = site.root(PHP);
    for (path, expected) in [
        ("/", "missing"),
        ("/x", "missing"),
        ("/a.txt", "file a"),
        ("/d/", "file htm"),
    ] {
        assert_eq!(site::resolved(&root, path.as_bytes()), expected, "{path}");
    }
}

#[test]
fn multisite_in_subdirectories() {
    let site = TestSite::new(WORDPRESS);
    let root = site.root(MULTISITE);
    for (path, expected) in [
        ("/site2/", "script /index.php"),
        ("/site2/2020/post/", "script /index.php"),
        ("/site2/wp-admin/", "script /wp-admin/index.php"),
        ("/site2/wp-admin", "redirect /site2/wp-admin/"),
        ("/site_2-x/wp-login.php", "script /wp-login.php"),
        ("/site2/wp-content/uploads/a.jpg", "file jpg"),
        ("/site2/wp-includes/js/x.js", "file x"),
        ("/site2/robots.txt", "script /index.php"),
        ("/a.b/wp-admin/", "script /index.php"),
        ("/a/b/wp-admin/", "script /index.php"),
        ("/wp-admin/", "script /wp-admin/index.php"),
        ("/site2/wp-config.php", "denied"),
        ("/site2/wp-content/uploads/x.php", "denied"),
        ("/site2/wp-content/debug.log", "denied"),
        ("/site2/files/x.php", "denied"),
        ("/site2/composer.json", "script /index.php"),
    ] {
        assert_eq!(site::resolved(&root, path.as_bytes()), expected, "{path}");
    }
}

#[test]
fn traversal_and_unusual_bytes_are_denied_or_passed_to_wordpress() {
    let site = TestSite::new(WORDPRESS);
    fs::write(site.path().parent().unwrap().join("outside.txt"), "outside").unwrap();
    let root = site.root(PHP);
    let denied: &[&[u8]] = &[
        b"",
        b"*",
        b"index.php",
        b"../outside.txt",
        b"/..",
        b"/../outside.txt",
        b"/static/../../outside.txt",
        b"/static/..",
        b"/./outside.txt",
        b"/..\\outside.txt",
        b"/\\..\\outside.txt",
        b"/robots.txt\0",
        b"/robots.txt\0.php",
        b"/a\nb.php/x",
        b"/index.php/\n",
        b"/index.php\r",
        b"/...",
        b"/..;/outside.txt",
        b"/.../outside.txt",
        b"/\x01",
    ];
    for path in denied {
        assert_eq!(site::resolved(&root, path), "denied", "{path:?}");
    }
    let to_wordpress: &[&[u8]] = &[
        b"/%2e%2e/outside.txt",
        b"/%2e%2e%2foutside.txt",
        b"/\xc0\xae\xc0\xae/outside.txt",
        b"/\xe0\x80\xae/outside.txt",
        b"/~/outside.txt",
        b"/;/outside.txt",
        b"/c:/outside.txt",
        b"/proc/self/environ",
        b"/etc/passwd",
        b"/\xff\xfe",
    ];
    for path in to_wordpress {
        assert_eq!(site::resolved(&root, path), "script /index.php", "{path:?}");
    }
    let long = [b"/".as_slice(), &b"a".repeat(5000)].concat();
    assert_eq!(site::resolved(&root, &long), "script /index.php");
    let deep = b"/a".repeat(4000);
    assert_eq!(site::resolved(&root, &deep), "script /index.php");
}

#[test]
fn symlinks_may_not_lead_outside_the_root() {
    let site = TestSite::new(WORDPRESS);
    let base = site.path();
    fs::create_dir(base.parent().unwrap().join("out")).unwrap();
    fs::write(base.parent().unwrap().join("out/x.txt"), "outside").unwrap();
    fs::write(base.parent().unwrap().join("out/x.php"), "<?php").unwrap();
    for (target, link) in [
        ("robots.txt", "in.txt"),
        ("wp-includes/js", "in-dir"),
        ("../../robots.txt", "wp-includes/js/up.txt"),
        ("../out/x.txt", "out.txt"),
        ("../out", "out-dir"),
        ("../out/x.php", "out.php"),
        ("/etc/passwd", "people.txt"),
        ("/proc/self/root/etc/passwd", "magic.txt"),
        ("wp-config.php", "config.txt"),
        ("wp-login.php", "login.txt"),
        ("robots.txt", "robots.php"),
        ("wp-login.php", "entry.php"),
        (".env", "env.txt"),
        ("nothing", "dangling.txt"),
        ("loop-b", "loop-a"),
        ("loop-a", "loop-b"),
    ] {
        symlink(target, base.join(link)).unwrap();
    }
    symlink(base.join("robots.txt"), base.join("absolute.txt")).unwrap();
    // Not below the root, although its path starts with the path of the root.
    site.write("2/near.txt", "wrong");
    let near = format!("{}2/near.txt", base.to_str().unwrap());
    symlink(near, base.join("near.txt")).unwrap();
    let root = site.root(PHP);
    for (path, expected) in [
        ("/in.txt", "file robots"),
        ("/in-dir/x.js", "file x"),
        ("/in-dir/up.txt", "file robots"),
        ("/absolute.txt", "file robots"),
        ("/entry.php", "script /entry.php"),
        ("/near.txt", "missing"),
        ("/out.txt", "missing"),
        ("/out-dir/x.txt", "missing"),
        ("/out-dir/", "missing"),
        ("/people.txt", "missing"),
        ("/magic.txt", "missing"),
        ("/out.php", "missing"),
        ("/config.txt", "denied"),
        ("/login.txt", "denied"),
        ("/robots.php", "denied"),
        ("/env.txt", "denied"),
        ("/dangling.txt", "script /index.php"),
        ("/loop-a", "script /index.php"),
    ] {
        assert_eq!(site::resolved(&root, path.as_bytes()), expected, "{path}");
    }
}

#[test]
fn special_files_are_never_opened() {
    let site = TestSite::new(WORDPRESS);
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    for name in ["fifo.txt", "fifo.php", "d/index.php", "d/index.html"] {
        let path = site.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }
    let _socket = std::os::unix::net::UnixListener::bind(site.path().join("socket.txt")).unwrap();
    let root = site.root(PHP);
    for path in ["/fifo.txt", "/fifo.php", "/socket.txt"] {
        assert_eq!(site::resolved(&root, path.as_bytes()), "denied", "{path}");
    }
    assert_eq!(site::resolved(&root, b"/d/"), "script /index.php");
    assert_eq!(site::resolved(&root, b"/fifo.php/x"), "script /index.php");
}

#[test]
fn unreadable_files_are_denied() {
    let site = TestSite::new(WORDPRESS);
    site.forbid("robots.txt");
    site.forbid("static");
    site.forbid("wp-login.php");
    site::without_root_capabilities(|| {
        let root = site.root(PHP);
        assert_eq!(site::resolved(&root, b"/robots.txt"), "denied");
        assert_eq!(site::resolved(&root, b"/static/index.html"), "denied");
        // PHP may run as another user, which can read the file.
        assert_eq!(
            site::resolved(&root, b"/wp-login.php"),
            "script /wp-login.php"
        );
        assert_eq!(site::resolved(&root, b"/readme.html"), "file readme");
    });
    site.allow("static");
}

#[test]
fn programs_of_other_fastcgi_servers() {
    let site = TestSite::new(&[
        ("cgi-bin/hello.pl", "#!/usr/bin/perl"),
        ("cgi-bin/.htsecret", "secret"),
        ("cgi-bin/closed/x.pl", "#!/usr/bin/perl"),
        ("cgi-bin/closed/.htaccess", "Require all denied\n"),
        ("index.php", "<?php"),
    ]);
    symlink("/etc/passwd", site.path().join("cgi-bin/out.pl")).unwrap();
    let root = site.root(STATIC);
    for (path, expected) in [
        ("/cgi-bin/hello.pl", "script /cgi-bin/hello.pl"),
        (
            "/cgi-bin/hello.pl/a/b",
            "script /cgi-bin/hello.pl info /a/b",
        ),
        ("/cgi-bin/hello.pl/", "script /cgi-bin/hello.pl info /"),
        ("/cgi-bin/none.pl", "missing"),
        ("/cgi-bin/", "missing"),
        ("/cgi-bin/out.pl", "missing"),
        ("/cgi-bin/.htsecret", "denied"),
        ("/cgi-bin/closed/x.pl", "denied"),
        ("/cgi-bin/../index.php", "denied"),
    ] {
        let found = root.program(path.as_bytes());
        assert_eq!(site::describe(found), expected, "{path}");
    }
}

/// After one lookup on the disk, `resolve_script` knows the scripts of pages. It never knows files and denied paths.
#[test]
fn only_scripts_are_resolved_without_the_disk() {
    let site = TestSite::new(WORDPRESS);
    site.write("wp-content/plugins/p/.htaccess", "Require all denied");
    let root = site.root(PHP);
    for path in ["/", "/index.php", "/a/post/", "/wp-login.php", "/wp-admin/"] {
        let Resolved::Script(script) = root.resolve(path.as_bytes()) else {
            panic!("{path} is not a script");
        };
        // On kernels before 5.12, and on file systems without cached names, only `resolve` knows the script.
        if let Some(known) = root.resolve_script(path.as_bytes()) {
            assert_eq!(known, script, "{path}");
        }
    }
    for path in [
        "/robots.txt",
        "/wp-includes/js/x.js",
        "/wp-config.php",
        "/.env",
        "/wp-content/plugins/p/index.php",
        "/wp-content/uploads/x.php",
        "/wp-admin",
        "/a\0b",
    ] {
        root.resolve(path.as_bytes());
        assert_eq!(root.resolve_script(path.as_bytes()), None, "{path}");
    }
    let static_root = site.root(STATIC);
    static_root.resolve(b"/a/post/");
    assert_eq!(static_root.resolve_script(b"/a/post/"), None);
}

/// The path of a page does not exist on the disk. If the kernel has cached that, the script is known without a helper thread.
#[test]
fn nonexistent_page_paths_are_resolved_without_the_disk() {
    let site = TestSite::new(WORDPRESS);
    let root = site.root(PHP);
    let is_cached = |name: &str| {
        let at = std::fs::File::open(site.path()).unwrap();
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let found = openat2(at, name, flags, Mode::empty(), ResolveFlags::CACHED);
        found.err() == Some(Errno::NOENT)
    };
    for (path, name) in [("/hello/", "hello"), ("/2026/05/post/", "2026")] {
        // The kernel may drop the name at any time, so not every lookup must succeed without the disk.
        let mut lookups = (0..1000).map(|_| {
            let Resolved::Script(script) = root.resolve(path.as_bytes()) else {
                panic!("{path} is not a script");
            };
            let is_cached = is_cached(name);
            let known = root.resolve_script(path.as_bytes());
            assert!(known.iter().all(|known| *known == script), "{path}");
            (is_cached, known.is_some())
        });
        let known = lookups.find(|(is_cached, is_known)| !is_cached || *is_known);
        assert!(known.is_some(), "{path}");
    }
}

/// `resolve_script` checks the front controller once per second; `resolve` notices its removal immediately.
#[test]
fn a_removed_front_controller_is_used_for_at_most_a_second() {
    let site = TestSite::new(WORDPRESS);
    let root = site.root(PHP);
    root.resolve(b"/hello/");
    std::fs::remove_file(site.path().join("index.php")).unwrap();
    assert_eq!(site::describe(root.resolve(b"/hello/")), "missing");
    while root.resolve_script(b"/hello/").is_some() {
        std::thread::yield_now();
    }
}
