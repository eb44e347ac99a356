//! Fragment markers and blocks written by authors and commenters: they move no fragment, and disclose no private fragments.

use galley_testkit::client::Response;
use galley_testkit::wait_for;
use serde_json::json;

use super::super::stack::{
    TIMEOUT, WordPressStack, assert_cache_status, assert_no_text, assert_text,
};
use super::members::{ASSEMBLED, PATH, member, start, store, visit};
use super::rest_api;
use super::tags_and_lifetimes::why_report;

const MARKER_ID: &str = "0123456789abcdef0123456789abcdef";

/// Returns post texts with forged markers and blocks.
fn forged_texts() -> Vec<String> {
    let marker = |kind: &str| format!("<!--galley-{MARKER_ID}-{kind}-->");
    vec![
        format!("{}theft{}", marker("begin0"), marker("end0")),
        format!("{}theft{}", marker("end9000"), marker("begin9000")),
        format!("{}{}theft", marker("begin1"), marker("begin9001")),
        format!("&lt;!--galley-{MARKER_ID}-begin9000--&gt;theft"),
        format!("<a href=\"/?{}\">theft</a>", marker("begin9000")),
        format!("<!--galley-{}{MARKER_ID}-begin0-->theft", marker("begin0")),
        format!("&lt;!--galley-&lt;!--galley-{MARKER_ID}-begin0--&gt;{MARKER_ID}-begin0--&gt;theft"),
        marker("begin0").repeat(300) + "theft",
        "../../etc/passwd \u{202e}\u{1f600} theft".to_owned(),
        "<!-- wp:galley/private {\"name\":\"../../x\",\"scope\":\"session\"} --><p>theft</p>".to_owned(),
        "<!-- wp:galley/private {\"name\":\"a b\\nc\",\"scope\":\"all\"} --><p>theft</p><!-- /wp:galley/private -->"
            .to_owned(),
    ]
}

/// Publishes a post. Its minute depends on the title, because the order of posts with the same second is undefined in WordPress.
fn publish(stack: &WordPressStack, title: &str, content: &str) -> String {
    let minute: u32 = title.bytes().map(u32::from).sum::<u32>() % 60;
    let date = format!("2026-01-02T03:{minute:02}:00");
    let post = rest_api(
        stack,
        "POST",
        "/wp/v2/posts",
        &json!({ "title": title, "slug": title, "content": content, "date": date, "status": "publish" }),
    );
    assert!(post["id"].is_u64(), "{post}");
    format!("/{title}/")
}

/// Asserts that a page contains no real markers, whose ID is secret, and no `Galley-` fields.
fn assert_no_markers(page: &Response) {
    for rest in page.text().split("!--galley-").skip(1) {
        let is_forged = rest.starts_with(MARKER_ID) || rest.starts_with("<!--galley-");
        assert!(is_forged, "{rest:.80}");
    }
    for (name, _) in &page.fields {
        let name = name.to_ascii_lowercase();
        assert!(!name.starts_with("galley-"), "{}", page.excerpt());
    }
}

/// Asserts that two pages are equal. The message shows the first difference.
#[track_caller]
fn assert_same(path: &str, one: &Response, other: &Response) {
    let (texts, statuses) = (
        [one.text(), other.text()],
        [one.cache_status(), other.cache_status()],
    );
    let mut lines = texts[0].lines().zip(texts[1].lines());
    let differs = lines.find(|(one, other)| one != other);
    assert_eq!(differs, None, "{path}: {statuses:?}");
}

/// Returns the labels of a stored page's fragments, except those of core blocks and posts.
fn fragment_labels(stack: &WordPressStack, path: &str) -> Vec<String> {
    let page = why_report(stack, path);
    let fragments = page["entry"]["fragments"].as_array().cloned();
    let labels = fragments.unwrap_or_default().into_iter();
    let labels = labels.map(|fragment| fragment["label"].as_str().unwrap_or_default().to_owned());
    labels
        .filter(|label| !label.starts_with("core/") && !label.starts_with("post-"))
        .collect()
}

#[test]
fn forged_markers_in_posts_and_comments_are_ignored() {
    let stack = &start("twentytwentyone");
    let plain = publish(stack, "plain", "plain");
    store(stack, &plain);
    let expected = fragment_labels(stack, &plain);
    assert!(
        expected.iter().any(|label| label.starts_with("widget/")),
        "{expected:?}"
    );
    let mut ann = member(stack, "ann");
    let mut bob = member(stack, "bob");
    let mut pages = Vec::new();
    for (number, text) in forged_texts().iter().enumerate() {
        let path = publish(stack, &format!("forged-{number}"), text);
        // The sidebar of every page shows the comment.
        let text = text.replace("theft", "words");
        let comment = json!({
            "comment_post_ID": 0, "comment_author": text, "comment_content": text, "comment_approved": 1,
        });
        let slug = path.trim_matches('/');
        stack.php(&format!(
            "$c = json_decode('{}', true); $c['comment_post_ID'] = get_page_by_path('{slug}', OBJECT, 'post')->ID; \
             wp_insert_comment($c);",
            comment.to_string().replace('\\', "\\\\").replace('\'', "\\'")
        ));
        pages.push(path);
    }
    for path in &pages {
        store(stack, path);
        let public = stack.get(path);
        assert_no_markers(&public);
        assert_text(&public, "theft");
        assert_no_text(&public, "Dear");
        let labels = fragment_labels(stack, path);
        let widget_count = |labels: &[String]| {
            labels
                .iter()
                .filter(|label| label.starts_with("widget/"))
                .count()
        };
        assert_eq!(
            widget_count(&labels),
            widget_count(&expected),
            "{path}: {labels:?}"
        );

        let first = visit(&mut ann, path);
        let again = visit(&mut ann, path);
        let other = visit(&mut bob, path);
        assert_same(path, &again, &first);
        for (page, expected, foreign) in [
            (&again, "Dear ann", "Dear bob"),
            (&other, "Dear bob", "Dear ann"),
        ] {
            assert_no_markers(page);
            assert_text(page, expected);
            assert_no_text(page, foreign);
        }
        assert_no_text(&stack.get(path), "Dear");
    }
    // The texts do not appear on other pages.
    store(stack, PATH);
    for browser in [&mut ann, &mut bob] {
        wait_for("an assembled page", TIMEOUT, || {
            let page = visit(browser, PATH);
            assert_no_text(&page, "theft");
            page.cache_status() == ASSEMBLED
        });
    }
}

#[test]
fn a_private_block_does_not_affect_other_pages() {
    let stack = &start("twentytwentythree");
    let block = |text: &str| {
        format!(
            "<!-- wp:galley/private {{\"name\":\"greeting\",\"scope\":\"session\"}} --><p>{text}</p><!-- /wp:galley/private -->"
        )
    };
    let good = publish(stack, "good", &block("good words"));
    let evil = publish(stack, "evil", &block("evil words"));
    store(stack, &good);
    store(stack, &evil);
    let mut ann = member(stack, "ann");
    for _ in 0..2 {
        for (path, expected, foreign) in [
            (&evil, "evil words", "good words"),
            (&good, "good words", "evil words"),
        ] {
            let page = visit(&mut ann, path);
            assert_text(&page, expected);
            assert_no_text(&page, foreign);
        }
    }
    assert_cache_status(&visit(&mut ann, &good), ASSEMBLED);
}
