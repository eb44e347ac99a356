//! AVIF and WebP files that are sent in place of an image (`image_siblings`), from the disk and from memory.

use std::fs;

use galley_testkit::client::{Request, Response};
use galley_testkit::wait_for;

use crate::support::{SiteBuilder, TIMEOUT, TestSite};

const BROWSER: &str = "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8";

fn image_site() -> SiteBuilder {
    SiteBuilder::files()
        .file("a.jpg", "original".repeat(40))
        .file("a.jpg.webp", "webp".repeat(30))
        .file("a-jpg.avif", "avif".repeat(20))
        // Too large for the small files in memory.
        .file("large.png", "original".repeat(80_000))
        .file("large.png.webp", "webp".repeat(100_000))
        .file("alone.png", "original".repeat(40))
}

fn get_with_accept(site: &TestSite, target: &str, accept: &str) -> Response {
    site.send(Request::get(target).field("Accept", accept))
}

fn content_type(response: &Response) -> &str {
    response.field("content-type").unwrap_or_default()
}

fn wait_until_in_memory(site: &TestSite) {
    wait_for("the image in memory", TIMEOUT, || {
        site.get("/a.jpg");
        site.why("/a.jpg").contains("is sent, from memory\"")
    });
}

/// Checks the variant for several `Accept` values. The choice is the same from the disk and from memory.
fn assert_negotiated(site: &TestSite) {
    let mut tags = Vec::new();
    for (accept, expected_type, text) in [
        (BROWSER, "image/avif", "avif".repeat(20)),
        ("image/webp", "image/webp", "webp".repeat(30)),
        (
            "image/avif;q=0,image/webp;q=0.1",
            "image/webp",
            "webp".repeat(30),
        ),
        ("*/*", "image/jpeg", "original".repeat(40)),
        ("image/webp;q=0", "image/jpeg", "original".repeat(40)),
    ] {
        let response = get_with_accept(site, "/a.jpg", accept).expect_status(200);
        assert_eq!(
            (content_type(&response), response.text()),
            (expected_type, text),
            "{accept}"
        );
        assert_eq!(response.field("vary"), Some("accept"), "{accept}");
        assert!(!response.has("content-encoding"));
        let tag = response.field("etag").unwrap().to_owned();
        let not_modified = Request::get("/a.jpg").field("Accept", accept);
        let not_modified = site
            .send(not_modified.field("If-None-Match", &tag))
            .expect_status(304);
        assert_eq!(not_modified.field("vary"), Some("accept"));
        let partial = Request::get("/a.jpg").field("Accept", accept);
        let partial = site
            .send(partial.field("Range", "bytes=0-3"))
            .expect_status(206);
        assert_eq!(partial.text(), response.text()[..4]);
        assert_eq!(content_type(&partial), expected_type);
        // `If-Range` with the tag of another variant.
        let other = Request::get("/a.jpg").field("Accept", accept);
        let other = other
            .field("Range", "bytes=0-3")
            .field("If-Range", "\"other\"");
        assert_eq!(site.send(other).expect_status(200).text(), response.text());
        let head = Request::new("HEAD", "/a.jpg").field("Accept", accept);
        let length = response.body.len().to_string();
        assert_eq!(
            site.send(head).field("content-length"),
            Some(length.as_str())
        );
        tags.push(tag);
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 3, "each variant has its own tag");
}

#[test]
fn an_image_is_sent_in_the_best_format_that_the_client_accepts() {
    let site = image_site().start();
    assert_negotiated(&site);
    wait_until_in_memory(&site);
    assert_negotiated(&site);
    let without_siblings = get_with_accept(&site, "/alone.png", BROWSER);
    assert_eq!(
        (
            content_type(&without_siblings),
            without_siblings.field("vary")
        ),
        ("image/png", None)
    );
    let large = get_with_accept(&site, "/large.png", BROWSER);
    assert_eq!(
        (content_type(&large), large.field("vary")),
        ("image/webp", Some("accept"))
    );
    assert_eq!(large.text(), "webp".repeat(100_000));
    let original = get_with_accept(&site, "/large.png", "*/*");
    assert_eq!(
        (content_type(&original), original.field("vary")),
        ("image/png", Some("accept"))
    );
}

#[test]
fn variants_follow_changes_of_their_files() {
    let site = image_site().start();
    wait_until_in_memory(&site);
    fs::remove_file(site.scratch.join("root/a-jpg.avif")).unwrap();
    wait_for("the other variant", TIMEOUT, || {
        content_type(&get_with_accept(&site, "/a.jpg", BROWSER)) == "image/webp"
    });
    fs::write(site.scratch.join("root/a.jpg.avif"), "new").unwrap();
    wait_for("the new variant", TIMEOUT, || {
        get_with_accept(&site, "/a.jpg", BROWSER).text() == "new"
    });
    // A variant that is older than the original is not sent.
    fs::write(site.scratch.join("root/a.jpg"), "another".repeat(40)).unwrap();
    wait_for("the new original", TIMEOUT, || {
        let response = get_with_accept(&site, "/a.jpg", BROWSER);
        response.text() == "another".repeat(40) && !response.has("vary")
    });
}

#[test]
fn image_siblings_selects_the_names_of_variants() {
    let builder = |value: &str| {
        SiteBuilder::files()
            .file("a.jpg", "original".repeat(40))
            .file("a.webp", "webp")
            .site(&format!("image_siblings = \"{value}\""))
    };
    let types = ["off", "full-name", "all"].map(|value| {
        let site = builder(value).start();
        content_type(&get_with_accept(&site, "/a.jpg", BROWSER).expect_status(200)).to_owned()
    });
    assert_eq!(types, ["image/jpeg", "image/jpeg", "image/webp"]);
}
