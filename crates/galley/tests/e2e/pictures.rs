//! AVIF and WebP files in place of pictures, from the disk and from memory.

use std::fs;

use galley_testkit::client::{Request, Response};
use galley_testkit::wait_for;

use crate::support::{SiteBuilder, TIMEOUT, TestSite};

const BROWSER: &str = "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8";

fn pictures() -> SiteBuilder {
    SiteBuilder::files()
        .file("a.jpg", "original".repeat(40))
        .file("a.jpg.webp", "webp".repeat(30))
        .file("a-jpg.avif", "avif".repeat(20))
        // Larger than what is kept in memory.
        .file("large.png", "original".repeat(80_000))
        .file("large.png.webp", "webp".repeat(100_000))
        .file("alone.png", "original".repeat(40))
}

fn send(site: &TestSite, target: &str, accept: &str) -> Response {
    site.send(Request::get(target).field("Accept", accept))
}

fn type_of(answer: &Response) -> &str {
    answer.field("content-type").unwrap_or_default()
}

/// The same whether the disk is looked at or not.
fn assert_chosen(site: &TestSite) {
    let mut tags = Vec::new();
    for (accept, kind, text) in [
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
        let answer = send(site, "/a.jpg", accept).expect_status(200);
        assert_eq!((type_of(&answer), answer.text()), (kind, text), "{accept}");
        assert_eq!(answer.field("vary"), Some("accept"), "{accept}");
        assert!(!answer.has("content-encoding"));
        let tag = answer.field("etag").unwrap().to_owned();
        let known = Request::get("/a.jpg").field("Accept", accept);
        let known = site
            .send(known.field("If-None-Match", &tag))
            .expect_status(304);
        assert_eq!(known.field("vary"), Some("accept"));
        let part = Request::get("/a.jpg").field("Accept", accept);
        let part = site
            .send(part.field("Range", "bytes=0-3"))
            .expect_status(206);
        assert_eq!(part.text(), answer.text()[..4]);
        assert_eq!(type_of(&part), kind);
        // A part of another form is not this one's.
        let other = Request::get("/a.jpg").field("Accept", accept);
        let other = other
            .field("Range", "bytes=0-3")
            .field("If-Range", "\"other\"");
        assert_eq!(site.send(other).expect_status(200).text(), answer.text());
        let head = Request::new("HEAD", "/a.jpg").field("Accept", accept);
        let length = answer.body.len().to_string();
        assert_eq!(
            site.send(head).field("content-length"),
            Some(length.as_str())
        );
        tags.push(tag);
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 3, "one for each form");
}

#[test]
fn a_picture_is_sent_in_the_format_that_its_client_prefers() {
    let site = pictures().start();
    assert_chosen(&site);
    wait_for("the picture in memory", TIMEOUT, || {
        site.get("/a.jpg");
        site.why("/a.jpg").contains("is sent, from memory\"")
    });
    assert_chosen(&site);
    let alone = send(&site, "/alone.png", BROWSER);
    assert_eq!((type_of(&alone), alone.field("vary")), ("image/png", None));
    let large = send(&site, "/large.png", BROWSER);
    assert_eq!(
        (type_of(&large), large.field("vary")),
        ("image/webp", Some("accept"))
    );
    assert_eq!(large.text(), "webp".repeat(100_000));
    let original = send(&site, "/large.png", "*/*");
    assert_eq!(
        (type_of(&original), original.field("vary")),
        ("image/png", Some("accept"))
    );
}

#[test]
fn forms_come_and_go_with_their_files() {
    let site = pictures().start();
    wait_for("the picture in memory", TIMEOUT, || {
        site.get("/a.jpg");
        site.why("/a.jpg").contains("is sent, from memory\"")
    });
    fs::remove_file(site.scratch.join("root/a-jpg.avif")).unwrap();
    wait_for("the other form", TIMEOUT, || {
        type_of(&send(&site, "/a.jpg", BROWSER)) == "image/webp"
    });
    fs::write(site.scratch.join("root/a.jpg.avif"), "new").unwrap();
    wait_for("the new form", TIMEOUT, || {
        send(&site, "/a.jpg", BROWSER).text() == "new"
    });
    // A form of what the picture was before is not sent.
    fs::write(site.scratch.join("root/a.jpg"), "another".repeat(40)).unwrap();
    wait_for("the new original", TIMEOUT, || {
        let answer = send(&site, "/a.jpg", BROWSER);
        answer.text() == "another".repeat(40) && !answer.has("vary")
    });
}

#[test]
fn a_site_chooses_which_files_are_forms() {
    let plan = |word: &str| {
        SiteBuilder::files()
            .file("a.jpg", "original".repeat(40))
            .file("a.webp", "webp")
            .site(&format!("image_siblings = \"{word}\""))
    };
    let types = ["off", "full-name", "all"].map(|word| {
        let site = plan(word).start();
        type_of(&send(&site, "/a.jpg", BROWSER).expect_status(200)).to_owned()
    });
    assert_eq!(types, ["image/jpeg", "image/jpeg", "image/webp"]);
}
