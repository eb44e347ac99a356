//! Files of WordPress: uploads, static assets, and files that must be neither executed nor served.

use std::fs;

use galley_testkit::client::{Part, Request};
use serde_json::Value;

use super::stack::{
    HIT, STORED, WordPressStack, assert_cache_status, assert_no_text, assert_text, text_between,
};

test_with_shared_stacks! {
    an_uploaded_image_is_served_as_a_file,
    static_assets_are_served_without_php,
    every_non_php_file_of_wordpress_is_served,
    scripts_in_uploads_are_neither_executed_nor_served,
    private_files_are_not_served,
    wp_admin_without_a_trailing_slash_redirects,
}

/// An image of one pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\xdac\xfc\xcf\
                     \xf0\xbf\x1e\0\x06\x83\x02\x7f\x94\xad\xd0\xeb\0\0\0\0IEND\xaeB`\x82";

const FILE: &str = "galley; detail=file";

fn an_uploaded_image_is_served_as_a_file(stack: &WordPressStack) {
    let mut admin = stack.admin();
    let screen = admin.get("/wp-admin/media-new.php").unwrap().text();
    let nonce = text_between(&screen, "name=\"_wpnonce\" value=\"", "\"").to_owned();
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
    let response = admin
        .upload("/wp-admin/async-upload.php", &parts)
        .unwrap()
        .expect_status(200);
    assert_cache_status(&response, "galley; fwd=method; detail=method");
    let upload: Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(upload["success"], true, "{upload}");
    let path = |name: &str| {
        let url = upload["data"][name].as_str().unwrap();
        url.strip_prefix("http://wp.test").unwrap().to_owned()
    };
    let (file, page) = (path("url"), path("link"));

    let image = stack.get(&file).expect_status(200);
    assert_cache_status(&image, FILE);
    assert_eq!(image.body, PNG);
    assert_eq!(image.field("content-type"), Some("image/png"));
    let etag = image.field("etag").unwrap().to_owned();
    let not_modified = stack.send(Request::get(&file).field("If-None-Match", etag.as_bytes()));
    assert_eq!(not_modified.status, 304);
    let partial = stack.send(Request::get(&file).field("Range", "bytes=1-3"));
    assert_eq!((partial.status, partial.text().as_str()), (206, "PNG"));
    for _ in 0..2 {
        let page = stack.get(&page).expect_status(200);
        assert_text(&page, &file);
    }
    assert_cache_status(&stack.get(&page), HIT);
    // Image plugins replace files in place.
    let disk_path = stack.wordpress.root.join(file.trim_start_matches('/'));
    fs::write(disk_path, [PNG, b"more"].concat()).unwrap();
    let replaced = stack.get(&file).expect_status(200);
    assert_eq!(replaced.body.len(), PNG.len() + 4);
    assert_ne!(replaced.field("etag"), Some(etag.as_str()));
}

fn static_assets_are_served_without_php(stack: &WordPressStack) {
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
        let response = stack.get(target).expect_status(200);
        assert_cache_status(&response, FILE);
        let received = response.field("content-type").unwrap_or_default();
        assert!(received.contains(content_type), "{target}: {received}");
        let disk_path = target.split('?').next().unwrap().trim_start_matches('/');
        assert_eq!(
            response.body,
            fs::read(stack.wordpress.root.join(disk_path)).unwrap()
        );
        assert!(!response.has("x-powered-by") && !response.has("x-lab-run"));
    }
    let mut editor = stack.editor();
    let logged_in = editor.get("/wp-admin/css/login.min.css").unwrap();
    assert_cache_status(&logged_in, FILE);
}

/// Checks all files of core, themes and plugins except PHP files against the disk.
fn every_non_php_file_of_wordpress_is_served(stack: &WordPressStack) {
    let root = &stack.wordpress.root;
    let mut directories: Vec<_> = ["wp-includes", "wp-admin", "wp-content"]
        .map(|directory| root.join(directory))
        .into();
    let mut served = 0;
    while let Some(directory) = directories.pop() {
        // A plugin with an .htaccess restricts access to its files.
        if directory.join(".htaccess").exists() {
            continue;
        }
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if name.starts_with('.') || path.extension().is_some_and(|ending| ending == "php") {
                continue;
            }
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let relative = path.strip_prefix(root).unwrap().to_str().unwrap();
            let response = stack.get(&format!("/{relative}"));
            assert_eq!(response.status, 200, "{relative}: {}", response.excerpt());
            assert_cache_status(&response, FILE);
            assert_eq!(response.body, fs::read(&path).unwrap(), "{relative}");
            served += 1;
        }
    }
    assert!(served > 1_000, "only {served} files");
}

fn scripts_in_uploads_are_neither_executed_nor_served(stack: &WordPressStack) {
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
            let response = stack.send(request);
            let text = response.text();
            assert!(
                !text.contains("RAN42") && !text.contains("SOURCE"),
                "{target}: {}",
                response.excerpt()
            );
            assert!(
                response.status >= 400 || text.is_empty(),
                "{target}: {}",
                response.excerpt()
            );
        }
    }
    // A file with an image extension is served as an image and not executed.
    let image = stack.get("/wp-content/uploads/picture.php.jpg");
    assert_no_text(&image, "RAN42");
}

fn private_files_are_not_served(stack: &WordPressStack) {
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
        let response = stack.send(Request::get(target));
        assert!(
            [400, 403, 404].contains(&response.status),
            "{target}: {}",
            response.excerpt()
        );
        let text = response.text();
        assert!(
            !text.contains("PRIVATE") && !text.contains("DB_PASSWORD") && !text.contains("Rewrite"),
            "{target}: {text}"
        );
    }
    for target in ["/wp-config.php", "/.htaccess", "/wp-content/debug.log"] {
        let response = stack.get(target).expect_status(403);
        assert_cache_status(&response, "galley; detail=denied");
    }
}

fn wp_admin_without_a_trailing_slash_redirects(stack: &WordPressStack) {
    let response = stack.get("/wp-admin").expect_status(301);
    let location = response.field("location").unwrap();
    assert!(
        ["/wp-admin/", "http://wp.test/wp-admin/"].contains(&location),
        "{location}"
    );
    let response = stack.get("/wp-admin/").expect_status(302);
    let location = response.field("location").unwrap().to_owned();
    assert!(
        location.starts_with(
            "http://wp.test/wp-login.php?redirect_to=http%3A%2F%2Fwp.test%2Fwp-admin%2F"
        ),
        "{location}"
    );
    assert_cache_status(&response, "galley; fwd=bypass; detail=path");
    let mut editor = stack.editor();
    let _ = editor.get("/wp-admin/").unwrap().expect_status(200);
    assert_eq!(
        stack.get("/wp-admin/").field("location"),
        Some(location.as_str())
    );
    // WordPress redirects these short URLs depending on the user.
    for path in ["/admin", "/login"] {
        let response = stack.get(path);
        assert_eq!(response.status, 302, "{path}: {}", response.excerpt());
        assert_ne!(response.cache_status(), STORED);
    }
}
