//! Comments: the author sees a pending comment immediately, all visitors see it after its approval.

use galley_testkit::client::{Browser, Response};
use galley_testkit::wait_for;

use super::stack::{
    HIT, TIMEOUT, WordPressStack, assert_cache_status, assert_no_text, assert_refetched,
    assert_text,
};

test_with_shared_stacks! {
    a_pending_comment_is_shown_to_its_author_with_the_moderation_hash,
    a_pending_comment_is_shown_to_its_author_with_the_comment_cookie,
    an_approved_comment_is_shown_to_all_after_a_soft_purge,
    an_editors_comment_purges_the_page_softly,
}

struct Comment<'a> {
    post: u32,
    author: &'a str,
    text: &'a str,
    saves_cookie: bool,
}

/// Submits the comment form.
fn submit(browser: &mut Browser, comment: &Comment<'_>) -> Response {
    let (post, email) = (
        comment.post.to_string(),
        format!("{}@visitors.example", comment.author),
    );
    let mut fields = vec![
        ("comment", comment.text),
        ("author", comment.author),
        ("email", &email),
        ("url", ""),
        ("submit", "Post Comment"),
        ("comment_post_ID", &post),
        ("comment_parent", "0"),
    ];
    if comment.saves_cookie {
        fields.push(("wp-comment-cookies-consent", "yes"));
    }
    let response = browser
        .post("/wp-comments-post.php", &fields)
        .unwrap()
        .expect_status(302);
    assert_cache_status(&response, "galley; fwd=method; detail=method");
    response
}

/// Returns path and query of the redirect.
fn redirect_target(response: &Response) -> String {
    let location = response.field("location").unwrap();
    let target = location.strip_prefix("http://wp.test").unwrap_or(location);
    target.split('#').next().unwrap().to_owned()
}

fn a_pending_comment_is_shown_to_its_author_with_the_moderation_hash(stack: &WordPressStack) {
    let [post] = stack.publish(["pending-address"]);
    stack.get("/pending-address/");
    let mut author = stack.visitor();
    let comment = Comment {
        post,
        author: "Ann",
        text: "Waiting by the address.",
        saves_cookie: false,
    };
    let target = redirect_target(&submit(&mut author, &comment));
    assert!(
        target.starts_with("/pending-address/?unapproved=") && target.contains("&moderation-hash="),
        "{target}"
    );
    let page = author.get(&target).unwrap().expect_status(200);
    assert_cache_status(&page, "galley; fwd=bypass; detail=query");
    assert_text(&page, comment.text);
    assert_text(&page, "awaiting moderation");
    let before = stack.php_runs("/pending-address/");
    let again = author.get(&target).unwrap();
    assert_text(&again, comment.text);
    assert_eq!(
        stack.php_runs("/pending-address/"),
        before + 1,
        "the page was not generated again"
    );
    for _ in 0..2 {
        let anonymous = stack.get("/pending-address/");
        assert_no_text(&anonymous, comment.text);
    }
    let guess = target.replace("moderation-hash=", "moderation-hash=0");
    assert_no_text(&stack.get(&guess), comment.text);
    assert_no_text(&author.get("/pending-address/").unwrap(), comment.text);
}

fn a_pending_comment_is_shown_to_its_author_with_the_comment_cookie(stack: &WordPressStack) {
    let [post] = stack.publish(["pending-cookie"]);
    stack.get("/pending-cookie/");
    let mut author = stack.visitor();
    let comment = Comment {
        post,
        author: "Bea",
        text: "Waiting by the cookie.",
        saves_cookie: true,
    };
    let response = submit(&mut author, &comment);
    assert_eq!(redirect_target(&response), "/pending-cookie/");
    assert_eq!(
        author.jar.starting_with("comment_author_email_"),
        Some("Bea%40visitors.example")
    );
    for _ in 0..2 {
        let page = author.get("/pending-cookie/").unwrap().expect_status(200);
        assert_cache_status(&page, "galley; fwd=bypass; detail=cookie");
        assert_text(&page, comment.text);
        assert_text(&page, "awaiting moderation");
        // WordPress fills in the comment form.
        assert_text(&page, "value=\"Bea@visitors.example\"");
        let anonymous = stack.get("/pending-cookie/");
        assert_no_text(&anonymous, comment.text);
        assert_no_text(&anonymous, "Bea");
    }
    // The comment soft-purged the page, and the background fetch may still be in progress.
    wait_for("the page to be fetched again", TIMEOUT, || {
        stack.get("/pending-cookie/").field("cache-status") == Some(HIT)
    });
    // PHP approves the comment without a request to Galley, so the page must be purged.
    stack.php(&format!(
        "foreach (get_comments(['post_id' => {post}, 'status' => 'hold']) as $comment) {{ wp_set_comment_status($comment, 'approve'); }}"
    ));
    stack.purge(&["--url", "http://wp.test/pending-cookie/"]);
    let page = stack.get("/pending-cookie/");
    assert_refetched(&page);
    assert_text(&page, comment.text);
    assert_no_text(&page, "Bea@visitors.example");
}

fn an_approved_comment_is_shown_to_all_after_a_soft_purge(stack: &WordPressStack) {
    let [post, other] = stack.publish(["approved", "approved-before"]);
    // WordPress does not moderate authors with an approved comment.
    stack.php(&format!(
        "wp_insert_comment(['comment_post_ID' => {other}, 'comment_author' => 'Cem', 'comment_approved' => 1, \
         'comment_author_email' => 'Cem@visitors.example', 'comment_content' => 'An earlier one.']);"
    ));
    for (saves_cookie, text) in [(false, "Seen by all, one."), (true, "Seen by all, two.")] {
        stack.get("/approved/");
        assert_cache_status(&stack.get("/approved/"), HIT);
        let mut author = stack.visitor();
        let comment = Comment {
            post,
            author: "Cem",
            text,
            saves_cookie,
        };
        let response = submit(&mut author, &comment);
        assert!(
            response
                .field("location")
                .is_some_and(|to| to.contains("/approved/#comment-")),
            "{}",
            response.excerpt()
        );
        // A form submitted by a visitor soft-purges the page: the stale page is served until it is refreshed.
        wait_for("the comment to be shown", TIMEOUT, || {
            stack.get("/approved/").text().contains(text)
        });
        let anonymous = stack.get("/approved/");
        assert_cache_status(&anonymous, HIT);
        assert_no_text(&anonymous, "Cem@visitors.example");
        let page = author.get("/approved/").unwrap();
        assert_text(&page, text);
        assert_eq!(page.is_hit(), !saves_cookie, "{}", page.excerpt());
    }
}

fn an_editors_comment_purges_the_page_softly(stack: &WordPressStack) {
    let [post] = stack.publish(["editors-word"]);
    stack.get("/editors-word/");
    let text = "A word of the editor.";
    let comment = Comment {
        post,
        author: "ignored",
        text,
        saves_cookie: false,
    };
    let response = submit(&mut stack.editor(), &comment);
    assert_eq!(redirect_target(&response), "/editors-word/");
    // Without the plugin nobody says whether the session is genuine.
    wait_for("the comment to be shown", TIMEOUT, || {
        stack.get("/editors-word/").text().contains(text)
    });
    let page = stack.get("/editors-word/");
    assert_text(&page, "Edda Editor");
    assert_no_text(&page, "wpadminbar");
}
