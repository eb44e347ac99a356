//! File names that scanners request from every site: secrets and source code are denied, downloads are sent.

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{SiteBuilder, TIMEOUT, TestSite};

const SECRET: &str = "SECRET";

/// Denied with and without the preset.
const DENIED: &[&str] = &[
    "x.inc",
    "x.inc.txt",
    "x.phps",
    "x.php.",
    "x.php_bak",
    "x.php.gz",
    "x.php.2024-01-01",
    "site.wpress",
    "wp-content/ai1wm-backups/site.wpress",
    "backup.zip",
    "site.tar.gz",
    "SITE.TGZ",
    "backup.zip.001",
    "id_rsa",
    "id_rsa.gz",
    "Dockerfile",
    "server.key",
    "privkey.pem",
    "auth.json",
    "env.txt",
    "env",
    "prod.env",
    ".env",
    ".env.local",
    "web.config",
    "config.ini",
    "docker-compose.yml",
    "dump.sql.7z",
    "dump.sql-2024-01-01",
    "style.css.old",
    "index.html~",
    "error_log.1",
    "wp-config.php.gz",
    "wp-content/updraft/log.txt",
    "wp-content/backups-dup-lite/index.html",
    "wp-content/uploads/backwpup-1a-backups/list.txt",
    "wp-content/uploads/dump.sql.gz",
    "wp-content/uploads/site.wpress",
];

/// Sent with and without the preset.
const OPEN: &[&str] = &[
    "robots.txt",
    "ads.txt",
    "readme.txt",
    "license.txt",
    ".well-known/security.txt",
    "sitemap.xml.gz",
    "a.css.gz",
    "wp-content/uploads/2024/05/a.zip",
    "wp-content/uploads/a.tar.gz",
    "wp-content/uploads/notes.txt",
    "wp-content/plugins/p/demo.zip",
    "wp-content/plugins/p/package.json",
    "wp-content/plugins/updraftplus/a.css",
];

fn with_files(builder: SiteBuilder) -> SiteBuilder {
    let builder = DENIED
        .iter()
        .fold(builder, |builder, name| builder.file(name, SECRET));
    OPEN.iter()
        .fold(builder, |builder, name| builder.file(name, "open"))
}

fn assert_denied(site: &TestSite, name: &str) {
    for coding in ["identity", "br, zstd, gzip"] {
        for method in ["GET", "HEAD"] {
            let target = format!("/{name}");
            let request = Request::new(method, &target).field("Accept-Encoding", coding);
            let response = site.send(request);
            assert_eq!(response.status, 403, "{method} {target}");
            assert_eq!(response.cache_status(), "galley; detail=denied", "{target}");
            assert!(!response.text().contains(SECRET), "{target}");
        }
    }
}

#[test]
fn secrets_and_sources_are_refused_and_downloads_are_sent() {
    let builders = [
        SiteBuilder::files(),
        SiteBuilder::php(),
        SiteBuilder::files().site("preset = \"none\""),
    ];
    for builder in builders {
        let site = with_files(builder).start();
        for name in DENIED {
            assert_denied(&site, name);
        }
        for name in OPEN {
            let target = format!("/{name}");
            let response = site.get(&target).expect_status(200);
            assert_eq!(response.text(), "open", "{target}");
        }
        // The fast path, which sends files from memory, behaves the same.
        for name in OPEN {
            let target = format!("/{name}");
            wait_for(&format!("{target} in memory"), TIMEOUT, || {
                assert_eq!(site.get(&target).text(), "open", "{target}");
                site.why(&target).contains("is sent, from memory\"")
            });
        }
        for name in DENIED {
            assert_denied(&site, name);
        }
    }
}

#[test]
fn denied_names_that_are_no_files_are_pages() {
    let site = with_files(SiteBuilder::php()).start();
    for target in [
        "/id_ed25519",
        "/id_rsa/",
        "/dockerfile/",
        "/passwords-2",
        "/credentials/",
    ] {
        let response = site.get(target);
        assert_ne!(response.status, 403, "{target}");
        assert_ne!(response.cache_status(), "galley; detail=denied", "{target}");
    }
}

#[test]
fn allow_files_permits_denied_names() {
    let site = with_files(SiteBuilder::files())
        .file("downloads/a.zip", "open")
        .file("downloads/x.inc", SECRET)
        .file("downloads/.env", SECRET)
        .site("allow_files = [\"/downloads/*\", \"/backup.zip\", \"/id_rsa\"]")
        .start();
    for (target, text) in [
        ("/downloads/a.zip", "open"),
        ("/backup.zip", SECRET),
        ("/id_rsa", SECRET),
    ] {
        assert_eq!(site.get(target).expect_status(200).text(), text, "{target}");
    }
    for name in [
        "downloads/x.inc",
        "downloads/.env",
        "site.tar.gz",
        "server.key",
        "backup.zip.001",
    ] {
        assert_denied(&site, name);
    }
}
