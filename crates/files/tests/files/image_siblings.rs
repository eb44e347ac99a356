//! AVIF and WebP variants of images.

use std::fs;
use std::os::unix::fs::symlink;

use galley_files::{Asset, Options, Resolved};
use galley_policy::encoding::AcceptedCodings;
use galley_policy::images::{AcceptedImages, ImageSiblings, OriginalFormat};

use crate::site::{PHP, STATIC, TestSite};

const BOTH: &str = "image/avif,image/webp,image/*,*/*;q=0.8";

/// Describes the selected variant: content type, content, and `Vary`.
fn selected(site: &TestSite, options: &Options, path: &str, accept: &str) -> String {
    let Resolved::File(asset) = site.root(options.clone()).resolve(path.as_bytes()) else {
        return "no file".to_owned();
    };
    let mut images = AcceptedImages::default();
    if let Some(original) = OriginalFormat::of_path(path.as_bytes()) {
        images.read(accept.as_bytes(), original);
    }
    describe(&asset, images)
}

fn describe(asset: &Asset, images: AcceptedImages) -> String {
    let form = asset.best(AcceptedCodings::default(), images);
    let fields = asset.fields(form);
    let content = String::from_utf8(form.read_whole().unwrap().unwrap()).unwrap();
    let vary = fields.get("vary").map_or("", |vary| vary.to_str().unwrap());
    let name = fields["content-type"].to_str().unwrap();
    format!("{name} {} {vary}", content.trim_end_matches('.'))
        .trim_end()
        .to_owned()
}

/// Content of an original, which is larger than its variants.
fn original(text: &str) -> String {
    format!("{text}....................")
}

#[test]
fn variants_are_selected_by_name_and_accept() {
    let a = original("a");
    let site = TestSite::new(&[
        ("a.jpg", &a),
        ("a.jpg.avif", "appended avif"),
        ("a-jpg.webp", "dashed webp"),
        ("a.webp", "another picture"),
        ("b.png", &a),
        ("b.webp", "replaced webp"),
        ("c.gif", &a),
        ("c.GIF", &a),
        ("d.webp", &a),
        ("d.webp.avif", "avif of webp"),
        ("d.webp.webp", "nonsense"),
        ("e.css", &a),
        ("e.css.webp", "no picture"),
    ]);
    let full_names = STATIC;
    let all = Options {
        images: ImageSiblings::All,
        ..STATIC
    };
    let off = Options {
        images: ImageSiblings::Off,
        ..STATIC
    };
    for (options, path, accept, expected) in [
        (
            &full_names,
            "/a.jpg",
            BOTH,
            "image/avif appended avif accept",
        ),
        (
            &full_names,
            "/a.jpg",
            "image/webp",
            "image/webp dashed webp accept",
        ),
        (
            &full_names,
            "/a.jpg",
            "image/avif;q=0, image/webp",
            "image/webp dashed webp accept",
        ),
        (&full_names, "/a.jpg", "*/*", "image/jpeg a accept"),
        (
            &full_names,
            "/a.jpg",
            "image/webp;q=0",
            "image/jpeg a accept",
        ),
        (&full_names, "/a.jpg", "", "image/jpeg a accept"),
        (&full_names, "/b.png", BOTH, "image/png a"),
        (&all, "/b.png", BOTH, "image/webp replaced webp accept"),
        (
            &all,
            "/a.jpg",
            "image/webp",
            "image/webp dashed webp accept",
        ),
        (&off, "/a.jpg", BOTH, "image/jpeg a"),
        (&full_names, "/c.gif", BOTH, "image/gif a"),
        (
            &full_names,
            "/d.webp",
            BOTH,
            "image/avif avif of webp accept",
        ),
        (&full_names, "/d.webp", "image/webp", "image/webp a accept"),
        (&full_names, "/e.css", BOTH, "text/css; charset=utf-8 a"),
        (&full_names, "/a.jpg.avif", BOTH, "image/avif appended avif"),
    ] {
        assert_eq!(
            selected(&site, options, path, accept),
            expected,
            "{path} {accept}"
        );
    }
}

#[test]
fn variants_are_found_in_the_folders_of_plugins() {
    let a = original("a");
    for folder in [
        "uploads-webpc/uploads",
        "compressx-nextgen/uploads",
        "webp-express/webp-images/uploads",
        "webp-express/webp-images/doc-root/wp-content/uploads",
    ] {
        let variant = format!("wp-content/{folder}/2024/a.jpg.webp");
        let site = TestSite::new(&[
            ("wp-content/uploads/2024/a.jpg", &a),
            (&variant, "mirrored"),
        ]);
        let path = "/wp-content/uploads/2024/a.jpg";
        let expected = "image/webp mirrored accept";
        assert_eq!(selected(&site, &PHP, path, BOTH), expected, "{folder}");
        let without_wordpress = Options {
            wordpress: false,
            ..PHP
        };
        assert_eq!(
            selected(&site, &without_wordpress, path, BOTH),
            "image/jpeg a",
            "{folder}"
        );
    }
}

#[test]
fn unusable_variants_are_ignored() {
    let a = original("a");
    let long = original("longer than the original");
    let site = TestSite::new(&[
        ("older.jpg", &a),
        ("older.jpg.webp", "older"),
        ("larger.jpg", &a),
        ("larger.jpg.webp", &long),
        ("empty.jpg", &a),
        ("empty.jpg.webp", ""),
        ("linked.jpg", &a),
        ("secret.txt", "secret"),
        ("folder.jpg", &a),
        ("wp-content/uploads/denied.jpg", &a),
        ("wp-content/uploads-webpc/.htaccess", "Require all denied"),
        ("wp-content/uploads-webpc/uploads/denied.jpg.webp", "denied"),
        ("named.jpg", &a),
        ("named.jpg.webp", "named"),
        (
            ".htaccess",
            "<Files \"named.jpg.webp\">\nRequire all denied\n</Files>",
        ),
        ("second.jpg", &a),
        ("second.jpg.avif", ""),
        ("second-jpg.avif", "second"),
    ]);
    symlink("secret.txt", site.path().join("linked.jpg.webp")).unwrap();
    fs::create_dir(site.path().join("folder.jpg.webp")).unwrap();
    site.set_modified("older.jpg.webp", 10);
    for path in [
        "/older.jpg",
        "/larger.jpg",
        "/empty.jpg",
        "/linked.jpg",
        "/folder.jpg",
        "/wp-content/uploads/denied.jpg",
        "/named.jpg",
    ] {
        assert_eq!(selected(&site, &PHP, path, BOTH), "image/jpeg a", "{path}");
    }
    assert_eq!(
        selected(&site, &PHP, "/second.jpg", BOTH),
        "image/avif second accept"
    );
}

#[test]
fn a_removed_variant_is_not_sent_and_changes_the_stamp() {
    let a = original("a");
    let site = TestSite::new(&[("a.jpg", &a), ("a.jpg.webp", "form")]);
    let root = site.root(PHP);
    let asset = |path: &str| match root.resolve(path.as_bytes()) {
        Resolved::File(asset) => asset,
        other => panic!("{other:?}"),
    };
    let before = asset("/a.jpg");
    assert_eq!(before.siblings.len(), 1);
    // Within the second for which names are cached.
    fs::remove_file(site.path().join("a.jpg.webp")).unwrap();
    let after = asset("/a.jpg");
    assert_eq!(after.siblings.len(), 0);
    assert_ne!(before.stamp(), after.stamp());
}
