//! Comments of visitors: seen by their author at once, by others when approved, and at once by all when approved at once.

use galley_testkit::client::{Browser, Response};

use galley_testkit::wait_for;

use super::stack::{
    HIT, Stack, TIMEOUT, assert_no_text, assert_refetched, assert_text, assert_way,
};

both! {
    a_pending_comment_is_shown_to_its_author_by_the_address,
    a_pending_comment_is_shown_to_its_author_by_the_cookie,
    an_approved_comment_is_shown_to_all_soon,
    a_comment_of_an_editor_is_shown_to_all_at_once,
}

struct Comment<'a> {
    post: u32,
    author: &'a str,
    text: &'a str,
    consents: bool,
}

/// Sends a comment as the form does.
fn send(browser: &mut Browser, comment: &Comment<'_>) -> Response {
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
    if comment.consents {
        fields.push(("wp-comment-cookies-consent", "yes"));
    }
    let answer = browser
        .post("/wp-comments-post.php", &fields)
        .unwrap()
        .expect_status(302);
    assert_way(&answer, "galley; fwd=method; detail=method");
    answer
}

/// Where a browser goes next: path and query.
fn target_of(answer: &Response) -> String {
    let location = answer.field("location").unwrap();
    let target = location.strip_prefix("http://wp.test").unwrap_or(location);
    target.split('#').next().unwrap().to_owned()
}

fn a_pending_comment_is_shown_to_its_author_by_the_address(stack: &Stack) {
    let [post] = stack.publish(["pending-address"]);
    stack.get("/pending-address/");
    let mut author = stack.visitor();
    let comment = Comment {
        post,
        author: "Ann",
        text: "Waiting by the address.",
        consents: false,
    };
    let target = target_of(&send(&mut author, &comment));
    assert!(
        target.starts_with("/pending-address/?unapproved=") && target.contains("&moderation-hash="),
        "{target}"
    );
    let page = author.get(&target).unwrap().expect_status(200);
    assert_way(&page, "galley; fwd=bypass; detail=query");
    assert_text(&page, comment.text);
    assert_text(&page, "awaiting moderation");
    let before = stack.runs("/pending-address/");
    let again = author.get(&target).unwrap();
    assert_text(&again, comment.text);
    assert_eq!(stack.runs("/pending-address/"), before + 1, "not stored");
    for _ in 0..2 {
        let stranger = stack.get("/pending-address/");
        assert_no_text(&stranger, comment.text);
    }
    let guess = target.replace("moderation-hash=", "moderation-hash=0");
    assert_no_text(&stack.get(&guess), comment.text);
    assert_no_text(&author.get("/pending-address/").unwrap(), comment.text);
}

fn a_pending_comment_is_shown_to_its_author_by_the_cookie(stack: &Stack) {
    let [post] = stack.publish(["pending-cookie"]);
    stack.get("/pending-cookie/");
    let mut author = stack.visitor();
    let comment = Comment {
        post,
        author: "Bea",
        text: "Waiting by the cookie.",
        consents: true,
    };
    let answer = send(&mut author, &comment);
    assert_eq!(target_of(&answer), "/pending-cookie/");
    assert_eq!(
        author.jar.starting_with("comment_author_email_"),
        Some("Bea%40visitors.example")
    );
    for _ in 0..2 {
        let page = author.get("/pending-cookie/").unwrap().expect_status(200);
        assert_way(&page, "galley; fwd=bypass; detail=cookie");
        assert_text(&page, comment.text);
        assert_text(&page, "awaiting moderation");
        // The form is filled in.
        assert_text(&page, "value=\"Bea@visitors.example\"");
        let stranger = stack.get("/pending-cookie/");
        assert_no_text(&stranger, comment.text);
        assert_no_text(&stranger, "Bea");
    }
    // The comment has purged the page softly; the background fetch may still be in progress.
    wait_for("the page to be fetched again", TIMEOUT, || {
        stack.get("/pending-cookie/").field("cache-status") == Some(HIT)
    });
    // Approved past the server; the purge is what tells it.
    stack.php(&format!(
        "foreach (get_comments(['post_id' => {post}, 'status' => 'hold']) as $comment) {{ wp_set_comment_status($comment, 'approve'); }}"
    ));
    stack.purge(&["--url", "http://wp.test/pending-cookie/"]);
    let page = stack.get("/pending-cookie/");
    assert_refetched(&page);
    assert_text(&page, comment.text);
    assert_no_text(&page, "Bea@visitors.example");
}

fn an_approved_comment_is_shown_to_all_soon(stack: &Stack) {
    let [post, other] = stack.publish(["approved", "approved-before"]);
    // Who had a comment approved once is not moderated any more.
    stack.php(&format!(
        "wp_insert_comment(['comment_post_ID' => {other}, 'comment_author' => 'Cem', 'comment_approved' => 1, \
         'comment_author_email' => 'Cem@visitors.example', 'comment_content' => 'An earlier one.']);"
    ));
    for (consents, text) in [(false, "Seen by all, one."), (true, "Seen by all, two.")] {
        stack.get("/approved/");
        assert_way(&stack.get("/approved/"), HIT);
        let mut author = stack.visitor();
        let comment = Comment {
            post,
            author: "Cem",
            text,
            consents,
        };
        let answer = send(&mut author, &comment);
        assert!(
            answer
                .field("location")
                .is_some_and(|to| to.contains("/approved/#comment-")),
            "{}",
            answer.beginning()
        );
        // A visitor's form purges softly: the page answers as it was until it is refreshed.
        wait_for("the comment to be shown", TIMEOUT, || {
            stack.get("/approved/").text().contains(text)
        });
        let stranger = stack.get("/approved/");
        assert_way(&stranger, HIT);
        assert_no_text(&stranger, "Cem@visitors.example");
        let own = author.get("/approved/").unwrap();
        assert_text(&own, text);
        assert_eq!(own.is_hit(), !consents, "{}", own.beginning());
    }
}

fn a_comment_of_an_editor_is_shown_to_all_at_once(stack: &Stack) {
    let [post] = stack.publish(["editors-word"]);
    stack.get("/editors-word/");
    let text = "A word of the editor.";
    let comment = Comment {
        post,
        author: "ignored",
        text,
        consents: false,
    };
    let answer = send(&mut stack.editor(), &comment);
    assert_eq!(target_of(&answer), "/editors-word/");
    let page = stack.get("/editors-word/");
    assert_refetched(&page);
    assert_text(&page, text);
    assert_text(&page, "Edda Editor");
    assert_no_text(&page, "wpadminbar");
}
