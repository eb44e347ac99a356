//! Compressed variants next to a file, and entity tags of files.

use std::fs;
use std::os::unix::fs::symlink;

use galley_files::Resolved;
use galley_policy::encoding::Coding;
use galley_policy::images::AcceptedImages;

use crate::site::{self, STATIC, TestSite};

#[test]
fn compressed_siblings_are_selected_by_accept_encoding() {
    let site = site_with_siblings();
    let root = site.root(STATIC);
    let mut tags = Vec::new();
    for (path, accept, content, coding, vary) in [
        ("/a.css", "gzip, br, zstd", "brotli", Coding::Brotli, true),
        ("/a.css", "gzip, zstd;q=0.1", "gzip", Coding::Gzip, true),
        ("/a.css", "zstd", "zstd", Coding::Zstd, true),
        ("/a.css", "", "identity", Coding::Identity, true),
        ("/b.css", "gzip", "identity", Coding::Identity, false),
        ("/c.png", "gzip", "identity", Coding::Identity, false),
        ("/d.js", "gzip", "identity", Coding::Identity, false),
        ("/e.js", "br", "identity", Coding::Identity, false),
        ("/f.js", "gzip", "identity", Coding::Identity, false),
    ] {
        let Resolved::File(asset) = root.resolve(path.as_bytes()) else {
            panic!("{path} is not a file");
        };
        let form = asset.best(site::codings(accept), AcceptedImages::default());
        let fields = asset.fields(form);
        assert_eq!(
            (form.coding, fields.contains_key("vary")),
            (coding, vary),
            "{path} {accept}"
        );
        assert_eq!(
            fields.contains_key("content-encoding"),
            coding != Coding::Identity
        );
        assert_eq!(form.length, u64::try_from(content.len()).unwrap());
        assert!(asset.content_type.starts_with(content_type(path)), "{path}");
        let tag = fields["etag"].to_str().unwrap().to_owned();
        assert!(tag.starts_with('"') && tag.ends_with('"'));
        tags.push(tag);
        assert_eq!(
            form.read_whole().unwrap().as_deref(),
            Some(content.as_bytes()),
            "{path} {accept}"
        );
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 9);
    // Requested by its own name, a sibling is a normal file.
    assert_eq!(site::resolved(&root, b"/a.css.gz"), "file gzip");
}

fn site_with_siblings() -> TestSite {
    let site = TestSite::new(&[
        ("a.css", "identity"),
        ("a.css.br", "brotli"),
        ("a.css.gz", "gzip"),
        ("a.css.zst", "zstd"),
        ("b.css", "identity"),
        ("b.css.gz", "old"),
        ("c.png", "identity"),
        ("c.png.gz", "gzip"),
        ("d.js", "identity"),
        ("d.js.gz", ""),
        ("e.js", "identity"),
        ("secret.txt", "secret"),
        ("f.js", "identity"),
    ]);
    symlink("secret.txt", site.path().join("e.js.br")).unwrap();
    fs::create_dir(site.path().join("f.js.gz")).unwrap();
    for (name, seconds) in [
        ("a.css", 10),
        ("a.css.br", 10),
        ("a.css.gz", 11),
        ("a.css.zst", 10),
        ("b.css", 20),
        ("b.css.gz", 19),
    ] {
        site.set_modified(name, seconds);
    }
    site
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("png") => "image/png",
        Some("css") => "text/css",
        _ => "text/javascript",
    }
}

#[test]
fn changed_content_has_another_etag() {
    let site = TestSite::new(&[("a.txt", "one")]);
    let root = site.root(STATIC);
    let tag = || match root.resolve(b"/a.txt") {
        Resolved::File(asset) => asset.fields(&asset.plain)["etag"].clone(),
        other => panic!("{other:?}"),
    };
    site.set_modified("a.txt", 10);
    let first = tag();
    assert_eq!(tag(), first);
    site.set_modified("a.txt", 11);
    let second = tag();
    fs::write(site.path().join("b"), "two").unwrap();
    fs::rename(site.path().join("b"), site.path().join("a.txt")).unwrap();
    site.set_modified("a.txt", 11);
    let third = tag();
    assert!(first != second && second != third && first != third);
}
