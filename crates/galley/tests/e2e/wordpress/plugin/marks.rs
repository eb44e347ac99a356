//! Marks and blocks that authors and commenters write: they move no fragment, and show members nothing on pages of others.

use galley_testkit::client::Response;
use galley_testkit::wait_for;
use serde_json::json;

use super::super::stack::{Stack, TIMEOUT, assert_no_text, assert_text, assert_way};
use super::members::{ASSEMBLED, PATH, member, start, store, visit};
use super::pages::explained;
use super::rest;

const MARK: &str = "0123456789abcdef0123456789abcdef";

/// What an author puts around the text of a post.
fn forged() -> Vec<String> {
    let mark = |what: &str| format!("<!--galley-{MARK}-{what}-->");
    vec![
        format!("{}theft{}", mark("begin0"), mark("end0")),
        format!("{}theft{}", mark("end9000"), mark("begin9000")),
        format!("{}{}theft", mark("begin1"), mark("begin9001")),
        format!("&lt;!--galley-{MARK}-begin9000--&gt;theft"),
        format!("<a href=\"/?{}\">theft</a>", mark("begin9000")),
        format!("<!--galley-{}{MARK}-begin0-->theft", mark("begin0")),
        format!("&lt;!--galley-&lt;!--galley-{MARK}-begin0--&gt;{MARK}-begin0--&gt;theft"),
        mark("begin0").repeat(300) + "theft",
        "../../etc/passwd \u{202e}\u{1f600} theft".to_owned(),
        "<!-- wp:galley/private {\"name\":\"../../x\",\"scope\":\"session\"} --><p>theft</p>".to_owned(),
        "<!-- wp:galley/private {\"name\":\"a b\\nc\",\"scope\":\"all\"} --><p>theft</p><!-- /wp:galley/private -->"
            .to_owned(),
    ]
}

/// A post of its own minute: of those of one second WordPress may call either the next one.
fn publish(stack: &Stack, title: &str, content: &str) -> String {
    let minute: u32 = title.bytes().map(u32::from).sum::<u32>() % 60;
    let date = format!("2026-01-02T03:{minute:02}:00");
    let post = rest(
        stack,
        "POST",
        "/wp/v2/posts",
        &json!({ "title": title, "slug": title, "content": content, "date": date, "status": "publish" }),
    );
    assert!(post["id"].is_u64(), "{post}");
    format!("/{title}/")
}

/// There are neither marks of a request, whose number nobody knows, nor fields.
fn assert_no_marks(page: &Response) {
    for rest in page.text().split("!--galley-").skip(1) {
        let is_forged = rest.starts_with(MARK) || rest.starts_with("<!--galley-");
        assert!(is_forged, "{rest:.80}");
    }
    for (name, _) in &page.fields {
        let name = name.to_ascii_lowercase();
        assert!(!name.starts_with("galley-"), "{}", page.beginning());
    }
}

/// Two pages are equal; else what differs first is shown.
#[track_caller]
fn assert_same(path: &str, one: &Response, other: &Response) {
    let (texts, ways) = (
        [one.text(), other.text()],
        [one.cache_status(), other.cache_status()],
    );
    let mut lines = texts[0].lines().zip(texts[1].lines());
    let differs = lines.find(|(one, other)| one != other);
    assert_eq!(differs, None, "{path}: {ways:?}");
}

/// The names of a stored page's fragments.
fn parts(stack: &Stack, path: &str) -> Vec<String> {
    let page = explained(stack, path);
    let parts = page["entry"]["fragments"].as_array().cloned();
    let labels = parts.unwrap_or_default().into_iter();
    let labels = labels.map(|part| part["label"].as_str().unwrap_or_default().to_owned());
    labels
        .filter(|label| !label.starts_with("core/") && !label.starts_with("post-"))
        .collect()
}

#[test]
fn marks_of_authors_and_commenters_mean_nothing() {
    let stack = &start("twentytwentyone");
    let plain = publish(stack, "plain", "plain");
    store(stack, &plain);
    let wanted = parts(stack, &plain);
    assert!(
        wanted.iter().any(|label| label.starts_with("widget/")),
        "{wanted:?}"
    );
    let mut ann = member(stack, "ann");
    let mut bob = member(stack, "bob");
    let mut pages = Vec::new();
    for (number, text) in forged().iter().enumerate() {
        let path = publish(stack, &format!("forged-{number}"), text);
        // The sidebar of every page shows it.
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
        assert_no_marks(&public);
        assert_text(&public, "theft");
        assert_no_text(&public, "Dear");
        let found = parts(stack, path);
        let of_widgets = |labels: &[String]| {
            labels
                .iter()
                .filter(|label| label.starts_with("widget/"))
                .count()
        };
        assert_eq!(of_widgets(&found), of_widgets(&wanted), "{path}: {found:?}");

        let first = visit(&mut ann, path);
        let again = visit(&mut ann, path);
        let other = visit(&mut bob, path);
        assert_same(path, &again, &first);
        for (page, own, foreign) in [
            (&again, "Dear ann", "Dear bob"),
            (&other, "Dear bob", "Dear ann"),
        ] {
            assert_no_marks(page);
            assert_text(page, own);
            assert_no_text(page, foreign);
        }
        assert_no_text(&stack.get(path), "Dear");
    }
    // Nothing of them is on another page.
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
fn a_private_block_in_a_post_changes_no_other_page() {
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
        for (path, own, foreign) in [
            (&evil, "evil words", "good words"),
            (&good, "good words", "evil words"),
        ] {
            let page = visit(&mut ann, path);
            assert_text(&page, own);
            assert_no_text(&page, foreign);
        }
    }
    assert_way(&visit(&mut ann, &good), ASSEMBLED);
}
