//! Files that must never be sent: outside the document root, denied by name or `.htaccess`, and sources of scripts.

use std::fs;
use std::os::unix::fs::symlink;

use galley_testkit::client::Request;
use galley_testkit::origin::Origin;
use galley_testkit::wait_for;

use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite};

const SECRET: &str = "the secret beside the root";

fn site_with_secrets(builder: SiteBuilder) -> TestSite {
    builder.scratch.write("secret.txt", SECRET).unwrap();
    builder
        .scratch
        .write("rootless/secret.txt", SECRET)
        .unwrap();
    let builder = builder
        .file("a.txt", "a")
        .file("dir/b.txt", "b")
        .file(".env", SECRET)
        .file(".git/config", SECRET)
        .file(
            "wp-config.php",
            format!("<?php /* {SECRET} */ echo 'config ran';"),
        )
        .file("wp-config.php.bak", SECRET)
        .file("wp-config.php~", SECRET)
        .file("dump.sql", SECRET)
        .file("wp-content/debug.log", SECRET)
        .file(
            "wp-content/uploads/shell.php",
            format!("<?php /* {SECRET} */ echo '{SECRET}';"),
        );
    let root = builder.scratch.join("root");
    symlink(builder.scratch.join("secret.txt"), root.join("link.txt")).unwrap();
    symlink(builder.scratch.path(), root.join("up")).unwrap();
    symlink("/etc", root.join("etc")).unwrap();
    symlink("../secret.txt", root.join("relative.txt")).unwrap();
    builder.start()
}

#[test]
fn files_outside_the_root_and_denied_files_are_never_sent() {
    for site in [
        site_with_secrets(SiteBuilder::files()),
        site_with_secrets(SiteBuilder::php()),
    ] {
        let mut targets: Vec<String> = FORBIDDEN
            .iter()
            .map(|target| (*target).to_owned())
            .collect();
        targets.push(format!("/{}secret.txt", "../".repeat(40)));
        targets.push(format!("/{}etc/passwd", "%2e%2e/".repeat(40)));
        targets.push(format!("/{}", site.scratch.join("secret.txt").display()));
        for target in &targets {
            assert_nothing_disclosed(&site, target);
        }
    }
}

fn assert_nothing_disclosed(site: &TestSite, target: &str) {
    let bytes = format!("GET {target} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
    let response = site.send_raw(bytes.as_bytes());
    let text = String::from_utf8_lossy(&response);
    let status: u16 = text
        .get(9..12)
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0);
    assert!(
        !text.contains(SECRET) && !text.contains("root:x:"),
        "{target}\n{text}"
    );
    assert!(
        !text.contains("<?php") && !text.contains("config ran"),
        "{target}\n{text}"
    );
    // Paths without a file go to the front controller; a site without PHP has none.
    let allowed = if site.fpm.is_some() {
        200..500
    } else {
        301..500
    };
    assert!(
        allowed.contains(&status) || target.contains("a.txt?"),
        "{target}\n{text}"
    );
    if target.contains("%00") || target.contains('\\') || target.to_lowercase().contains("%5c") {
        assert_eq!(status, 400, "{target}\n{text}");
    }
}

const FORBIDDEN: &[&str] = &[
    "/../secret.txt",
    "/%2e%2e/secret.txt",
    "/%2E%2E/secret.txt",
    "/.%2e/secret.txt",
    "/%2e./secret.txt",
    "/..%2fsecret.txt",
    "/%2e%2e%2fsecret.txt",
    "/..%5csecret.txt",
    "/..\\secret.txt",
    "/%5c../secret.txt",
    "/dir/../../secret.txt",
    "/dir/%2e%2e/%2e%2e/secret.txt",
    "/dir/..%2f..%2fsecret.txt",
    "/./../secret.txt",
    "//../secret.txt",
    "/a.txt/../../secret.txt",
    "/..;/secret.txt",
    "/%252e%252e/secret.txt",
    "/%c0%ae%c0%ae/secret.txt",
    "/%uff0e%uff0e/secret.txt",
    "/..%00/secret.txt",
    "/a.txt%00.html",
    "/%00",
    "/%2e%2e%00/secret.txt",
    "/link.txt",
    "/relative.txt",
    "/up/secret.txt",
    "/up/rootless/secret.txt",
    "/etc/passwd",
    "/etc/hostname",
    "/.env",
    "/.git/config",
    "/%2egit/config",
    "/.GIT/config",
    "/wp-config.php",
    "/wp-config.php.bak",
    "/wp-config.php~",
    "/wp-config.php/",
    "/WP-CONFIG.PHP",
    "/dump.sql",
    "/dump.sql/",
    "/wp-content/debug.log",
    "/wp-content/uploads/shell.php",
    "/wp-content/uploads/shell.php/x.jpg",
    "/wp-content//uploads/shell.php",
    "/wp-content/./uploads/shell.php",
    "/wp-content/uploads/shell%2ephp",
    "/wp-content/uploads%2fshell.php",
    "/dir/../wp-content/uploads/shell.php",
    "http://example.test/../secret.txt",
    "/../rootless/secret.txt",
    "/../root/../secret.txt",
    "/a.txt/../../rootless/secret.txt",
    "/%2e%2e/notes/",
    "/?x=/../secret.txt",
    "/a.txt?../../secret.txt",
];

#[test]
fn denied_files_get_403_whether_or_not_they_exist() {
    let site = site_with_secrets(SiteBuilder::files());
    for (existing, missing) in [
        ("/.env", "/.missing"),
        ("/.git/config", "/.git/nothing"),
        ("/dump.sql", "/other.sql"),
        ("/wp-content/debug.log", "/wp-content/other.log"),
    ] {
        let (first, second) = (site.get(existing), site.get(missing));
        assert_eq!(first.status, 403, "{existing}");
        assert_eq!(
            first.status, second.status,
            "{existing} and {missing} differ"
        );
        assert!(
            !first.text().contains(site.scratch.path().to_str().unwrap()),
            "{}",
            first.text()
        );
    }
}

#[test]
fn script_sources_are_never_sent() {
    let source = "<?php /* source */ echo 'ran';";
    let with_scripts = |builder: SiteBuilder| {
        [
            "x.php",
            "x.php.bak",
            "X.PHP",
            "x.phtml",
            "x.php5",
            "x.phar",
            "x.Php",
            "x.php.txt",
            "x.php~",
            "x.php.swp",
            "x.inc.php",
        ]
        .into_iter()
        .fold(builder, |builder, name| builder.file(name, source))
    };
    let targets = [
        "/x.php",
        "/x.php/",
        "/x.php/info",
        "/x.php.bak",
        "/X.PHP",
        "/x.phtml",
        "/x.php5",
        "/x.phar",
        "/x.Php",
        "/x.php.txt",
        "/x.php~",
        "/x.php.swp",
        "/x.php%00.txt",
        "/x.php%20",
        "/x.php.",
        "/x.php::$DATA",
        "/x%2ephp",
        "/x.php?y",
        "/x.php%2f",
        "/x.inc.php",
        "/./x.php",
        "//x.php",
        "/x.ph%70",
        "/x.php;.txt",
        "/x.php%0a",
    ];
    let origin = Origin::constant(&[("Content-Type", "text/plain")], "upstream").unwrap();
    let sites = [
        with_scripts(SiteBuilder::files()).start(),
        with_scripts(SiteBuilder::php()).start(),
        with_scripts(SiteBuilder::upstream_line(&format!(
            "upstream = [\"{}\"]",
            origin.url()
        )))
        .start(),
    ];
    for site in &sites {
        for target in targets {
            for method in ["GET", "HEAD", "POST"] {
                for accepts in ["identity", "gzip, br"] {
                    let response =
                        site.send(Request::new(method, target).field("Accept-Encoding", accepts));
                    assert!(
                        !response.text().contains("source"),
                        "{method} {target}: {}",
                        response.excerpt()
                    );
                }
            }
        }
    }
    let php = &sites[1];
    assert_eq!(php.get("/x.php").expect_status(200).text(), "ran");
    assert_eq!(php.get("/x.php/info").expect_status(200).text(), "ran");
}

#[test]
fn htaccess_rules_apply_and_changes_are_noticed() {
    let site = SiteBuilder::files()
        .file("private/a.txt", "private")
        .file("private/.htaccess", "Require all denied\n")
        .start();
    site.get("/private/a.txt").assert_status(403);
    let rules = site.scratch.join("root/private/.htaccess");
    fs::write(&rules, "# open\n").unwrap();
    wait_for("access to be allowed", TIMEOUT, || {
        site.get("/private/a.txt").status == 200
    });
    fs::write(&rules, "Order deny,allow\nDeny from all\n").unwrap();
    wait_for("access to be denied", TIMEOUT, || {
        site.get("/private/a.txt").status == 403
    });
    fs::remove_file(&rules).unwrap();
    wait_for("access without rules", TIMEOUT, || {
        site.get("/private/a.txt").status == 200
    });
    assert_eq!(site.get("/private/.htaccess").status, 403);
}
