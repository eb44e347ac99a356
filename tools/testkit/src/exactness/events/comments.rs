//! Events on comments.

use super::{AJAX, Event, FORM, LINK, REST, VISITOR, event};
use crate::{TestkitError, client::Request, exactness::editor::Editor};

pub(super) const EVENTS: &[Event] = &[
    event(
        "comment",
        VISITOR,
        "a comment published without approval",
        |e| {
            comment(
                e,
                "[[post.8]]",
                "Anneke",
                "anneke@example.org",
                "I was there on Sunday.",
            )
        },
    )
    .short(),
    event(
        "comment-held",
        VISITOR,
        "a comment that waits for approval",
        |e| {
            comment(
                e,
                "[[post.8]]",
                "Nobody",
                "nobody@visitors.example",
                "Let me in.",
            )
        },
    )
    .changes_nothing(),
    event("comment-approve", LINK, "a pending comment approved", |e| {
        e.link(
            "/wp-admin/comment.php?action=approvecomment&c=[[comment.pending]]",
            "approve-comment_[[comment.pending]]",
        )
    }),
    event("comment-edit", FORM, "text of a comment", |e| {
        e.form(
            "/wp-admin/comment.php",
            "update-comment_[[comment.0]]",
            &[
                ("action", "editedcomment"),
                ("comment_ID", "[[comment.0]]"),
                ("comment_post_ID", "[[comment.0.post]]"),
                ("newcomment_author", "Anneke B."),
                ("newcomment_author_email", "anneke@example.org"),
                ("newcomment_author_url", ""),
                ("content", "What I meant was this."),
                ("comment_status", "1"),
            ],
        )
    })
    .short(),
    event("comment-reply", AJAX, "a reply of the editor", |e| {
        e.form_with(
            "/wp-admin/admin-ajax.php",
            ("_ajax_nonce-replyto-comment", "replyto-comment"),
            &[
                ("action", "replyto-comment"),
                ("mode", "detail"),
                ("position", "-1"),
                ("checkbox", "0"),
                ("comment_post_ID", "[[comment.1.post]]"),
                ("comment_ID", "[[comment.1]]"),
                ("content", "Thank you for this."),
            ],
        )
    }),
    event("comment-trash", AJAX, "a comment moved to the trash", |e| {
        e.form(
            "/wp-admin/admin-ajax.php",
            "delete-comment_[[comment.2]]",
            &[
                ("action", "delete-comment"),
                ("id", "[[comment.2]]"),
                ("trash", "1"),
            ],
        )
    }),
    event("comment-spam", REST, "a comment marked as spam", |e| {
        e.rest("POST", "comments/[[comment.3]]", r#"{"status":"spam"}"#)
    }),
    event("comment-delete", REST, "a comment deleted for good", |e| {
        e.rest("DELETE", "comments/[[comment.4]]?force=true", "")
    })
    .short(),
];

/// Submits the comment form of a post without cookies.
pub(super) fn comment(
    editor: &Editor<'_>,
    post: &str,
    author: &str,
    email: &str,
    text: &str,
) -> Result<(), TestkitError> {
    let post = editor.site.substitute_ids(post)?;
    let fields = [
        ("comment_post_ID", post.as_str()),
        ("comment_parent", "0"),
        ("author", author),
        ("email", email),
        ("url", ""),
        ("comment", text),
    ];
    editor
        .send_as_visitor(Request::form("/wp-comments-post.php", &fields))
        .map(drop)
}
