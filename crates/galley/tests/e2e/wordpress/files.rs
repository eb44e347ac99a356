//! Files of WordPress: uploads, assets, and what must neither run nor leave.

use std::fs;

use galley_testkit::client::{Part, Request};
use serde_json::Value;

use super::stack::{HIT, STORED, Stack, assert_no_text, assert_text, assert_way, between};

both! {
    a_picture_is_uploaded_and_served,
    assets_never_reach_php,
    every_file_of_wordpress_that_is_no_script_is_sent,
    scripts_in_uploads_neither_run_nor_leave,
    private_files_do_not_leave,
    the_administration_without_its_slash,
}

/// One pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\xdac\xfc\xcf\
                     \xf0\xbf\x1e\0\x06\x83\x02\x7f\x94\xad\xd0\xeb\0\0\0\0IEND\xaeB`\x82";

const FILE: &str = "galley; detail=file";

fn a_picture_is_uploaded_and_served(stack: &Stack) {
    let mut admin = stack.admin();
    let screen = admin.get("/wp-admin/media-new.php").unwrap().text();
    let nonce = between(&screen, "name=\"_wpnonce\" value=\"", "\"").to_owned();
    let field = |name: &'static str, content: &'static [u8]| Part {
        name,
        file: None,
        content,
    };
    let parts = [
        field("name", b"pixel.png"),
        field("action", b"upload-attachment"),
        Part {
            name: "_wpnonce",
            file: None,
            content: nonce.as_bytes(),
        },
        Part {
            name: "async-upload",
            file: Some(("pixel.png", "image/png")),
            content: PNG,
        },
    ];
    let answer = admin
        .upload("/wp-admin/async-upload.php", &parts)
        .unwrap()
        .expect_status(200);
    assert_way(&answer, "galley; fwd=method; detail=method");
    let said: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(said["success"], true, "{said}");
    let path = |name: &str| {
        let url = said["data"][name].as_str().unwrap();
        url.strip_prefix("http://wp.test").unwrap().to_owned()
    };
    let (file, page) = (path("url"), path("link"));

    let picture = stack.get(&file).expect_status(200);
    assert_way(&picture, FILE);
    assert_eq!(picture.body, PNG);
    assert_eq!(picture.field("content-type"), Some("image/png"));
    let etag = picture.field("etag").unwrap().to_owned();
    let same = stack.send(Request::get(&file).field("If-None-Match", etag.as_bytes()));
    assert_eq!(same.status, 304);
    let part = stack.send(Request::get(&file).field("Range", "bytes=1-3"));
    assert_eq!((part.status, part.text().as_str()), (206, "PNG"));
    for _ in 0..2 {
        let page = stack.get(&page).expect_status(200);
        assert_text(&page, &file);
    }
    assert_way(&stack.get(&page), HIT);
    // Replaced in place, as plugins for pictures do.
    let at = stack.wordpress.root.join(file.trim_start_matches('/'));
    fs::write(at, [PNG, b"more"].concat()).unwrap();
    let replaced = stack.get(&file).expect_status(200);
    assert_eq!(replaced.body.len(), PNG.len() + 4);
    assert_ne!(replaced.field("etag"), Some(etag.as_str()));
}

fn assets_never_reach_php(stack: &Stack) {
    for (target, content_type) in [
        (
            "/wp-includes/css/dist/block-library/style.min.css?ver=6",
            "text/css",
        ),
        ("/wp-includes/js/jquery/jquery.min.js?ver=3", "javascript"),
        ("/wp-admin/css/login.min.css", "text/css"),
        ("/wp-includes/images/media/default.png", "image/png"),
        ("/wp-content/themes/twentytwentyone/style.css", "text/css"),
        ("/readme.html", "text/html"),
    ] {
        let answer = stack.get(target).expect_status(200);
        assert_way(&answer, FILE);
        let found = answer.field("content-type").unwrap_or_default();
        assert!(found.contains(content_type), "{target}: {found}");
        let disk = target.split('?').next().unwrap().trim_start_matches('/');
        assert_eq!(
            answer.body,
            fs::read(stack.wordpress.root.join(disk)).unwrap()
        );
        assert!(!answer.has("x-powered-by") && !answer.has("x-lab-run"));
    }
    let mut editor = stack.editor();
    let logged_in = editor.get("/wp-admin/css/login.min.css").unwrap();
    assert_way(&logged_in, FILE);
}

/// All of core's, the themes' and the plugins' files but scripts, as they lie on the disk.
fn every_file_of_wordpress_that_is_no_script_is_sent(stack: &Stack) {
    let root = &stack.wordpress.root;
    let mut folders: Vec<_> = ["wp-includes", "wp-admin", "wp-content"]
        .map(|folder| root.join(folder))
        .into();
    let mut sent = 0;
    while let Some(folder) = folders.pop() {
        // A plugin says itself which of its files are for visitors.
        if folder.join(".htaccess").exists() {
            continue;
        }
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if name.starts_with('.') || path.extension().is_some_and(|ending| ending == "php") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let inner = path.strip_prefix(root).unwrap().to_str().unwrap();
            let answer = stack.get(&format!("/{inner}"));
            assert_eq!(answer.status, 200, "{inner}: {}", answer.beginning());
            assert_way(&answer, FILE);
            assert_eq!(answer.body, fs::read(&path).unwrap(), "{inner}");
            sent += 1;
        }
    }
    assert!(sent > 1_000, "{sent} files only");
}

fn scripts_in_uploads_neither_run_nor_leave(stack: &Stack) {
    let uploads = stack.wordpress.root.join("wp-content/uploads");
    let script = "<?php /* SOURCE */ echo 'RAN', 6 * 7;";
    for name in [
        "evil.php",
        "evil.phtml",
        "evil.php5",
        "evil.phar",
        "evil.php.bak",
        "evil.PHP",
    ] {
        fs::write(uploads.join(name), script).unwrap();
    }
    fs::create_dir_all(uploads.join("deep")).unwrap();
    fs::write(uploads.join("deep/index.php"), script).unwrap();
    fs::write(uploads.join("picture.php.jpg"), script).unwrap();
    for target in [
        "/wp-content/uploads/evil.php",
        "/wp-content/uploads/evil.php?x=1",
        "/wp-content/uploads/evil.php/",
        "/wp-content/uploads/evil.php/x.png",
        "/wp-content/uploads/%65vil.php",
        "/wp-content/uploads/evil%2ephp",
        "/wp-content//uploads/evil.php",
        "/wp-content/./uploads/evil.php",
        "/x/../wp-content/uploads/evil.php",
        "/wp-content%2Fuploads%2Fevil.php",
        "/wp-content/uploads/evil.phtml",
        "/wp-content/uploads/evil.php5",
        "/wp-content/uploads/evil.phar",
        "/wp-content/uploads/evil.php.bak",
        "/wp-content/uploads/evil.PHP",
        "/wp-content/uploads/evil.php%00.png",
        "/wp-content/uploads/evil.php%20",
        "/wp-content/uploads/deep/",
        "/wp-content/uploads/deep/index.php",
        "/wp-content/uploads/picture.php.jpg/x.php",
    ] {
        for request in [Request::get(target), Request::form(target, &[("a", "b")])] {
            let answer = stack.send(request);
            let text = answer.text();
            assert!(
                !text.contains("RAN42") && !text.contains("SOURCE"),
                "{target}: {}",
                answer.beginning()
            );
            assert!(
                answer.status >= 400 || text.is_empty(),
                "{target}: {}",
                answer.beginning()
            );
        }
    }
    // A picture by its name: sent as one, and not run.
    let picture = stack.get("/wp-content/uploads/picture.php.jpg");
    assert_no_text(&picture, "RAN42");
}

fn private_files_do_not_leave(stack: &Stack) {
    let root = &stack.wordpress.root;
    for name in [
        "wp-content/debug.log",
        "wp-config.php~",
        "wp-config.php.bak",
        ".env",
        "dump.sql",
        "wp-content/database/.ht.sqlite",
        ".git/config",
    ] {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "PRIVATE").unwrap();
    }
    for target in [
        "/wp-config.php",
        "/wp-config.php?x",
        "/WP-CONFIG.PHP",
        "/wp-config%2ephp",
        "//wp-config.php",
        "/.htaccess",
        "/%2ehtaccess",
        "/wp-content/debug.log",
        "/wp-config.php~",
        "/wp-config.php.bak",
        "/.env",
        "/dump.sql",
        "/wp-content/database/.ht.sqlite",
        "/.git/config",
        "/wp-includes/version.php",
        "/wp-content/../.htaccess",
        "/wp-content/..%2f.htaccess",
    ] {
        let answer = stack.send(Request::get(target));
        assert!(
            [400, 403, 404].contains(&answer.status),
            "{target}: {}",
            answer.beginning()
        );
        let text = answer.text();
        assert!(
            !text.contains("PRIVATE") && !text.contains("DB_PASSWORD") && !text.contains("Rewrite"),
            "{target}: {text}"
        );
    }
    for target in ["/wp-config.php", "/.htaccess", "/wp-content/debug.log"] {
        let answer = stack.get(target).expect_status(403);
        assert_way(&answer, "galley; detail=denied");
    }
}

fn the_administration_without_its_slash(stack: &Stack) {
    let answer = stack.get("/wp-admin").expect_status(301);
    let location = answer.field("location").unwrap();
    assert!(
        ["/wp-admin/", "http://wp.test/wp-admin/"].contains(&location),
        "{location}"
    );
    let answer = stack.get("/wp-admin/").expect_status(302);
    let location = answer.field("location").unwrap().to_owned();
    assert!(
        location.starts_with(
            "http://wp.test/wp-login.php?redirect_to=http%3A%2F%2Fwp.test%2Fwp-admin%2F"
        ),
        "{location}"
    );
    assert_way(&answer, "galley; fwd=bypass; detail=path");
    let mut editor = stack.editor();
    let _ = editor.get("/wp-admin/").unwrap().expect_status(200);
    assert_eq!(
        stack.get("/wp-admin/").field("location"),
        Some(location.as_str())
    );
    // Shorter ways that WordPress knows; where they lead to depends on the user.
    for path in ["/admin", "/login"] {
        let answer = stack.get(path);
        assert_eq!(answer.status, 302, "{path}: {}", answer.beginning());
        assert_ne!(answer.cache_status(), STORED);
    }
}
