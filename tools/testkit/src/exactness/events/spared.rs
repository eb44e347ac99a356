//! Events that change little, under both themes: what they must not purge is most of the site.

use super::{Act, CLI, LINK, REST, act};

pub(super) const CLASSIC: &[Act] = &[
    act("old-trash", LINK, "an old post into the trash", |e| {
        e.link(
            "/wp-admin/post.php?post=[[post.36]]&action=trash",
            "trash-post_[[post.36]]",
        )
    }),
    act("old-delete", REST, "an old post deleted for good", |e| {
        e.rest("DELETE", "posts/[[post.38]]?force=true", "")
    }),
    act("old-unpublish", REST, "an old post back to draft", |e| {
        e.rest("POST", "posts/[[post.34]]", r#"{"status":"draft"}"#)
    }),
    act("picture-title", REST, "title of a picture", |e| {
        e.rest("POST", "media/[[media.1]]", r#"{"title":"Quayside"}"#)
    }),
    act(
        "foreign-setting",
        CLI,
        "a setting of a theme that this one does not read",
        |e| e.command_line("set_theme_mod( 'accent_hue_active', 'custom' );"),
    )
    .changes_nothing(),
];

pub(super) const BLOCK: &[Act] = &[
    act("block-old-trash", LINK, "an old post into the trash", |e| {
        e.link(
            "/wp-admin/post.php?post=[[post.37]]&action=trash",
            "trash-post_[[post.37]]",
        )
    }),
    act(
        "block-old-delete",
        REST,
        "an old post deleted for good",
        |e| e.rest("DELETE", "posts/[[post.39]]?force=true", ""),
    ),
    act(
        "block-old-unpublish",
        REST,
        "an old post back to draft",
        |e| e.rest("POST", "posts/[[post.35]]", r#"{"status":"draft"}"#),
    ),
    act("block-delete", REST, "a new post deleted for good", |e| {
        e.rest("DELETE", "posts/[[post.21]]?force=true", "")
    }),
    act("block-author", REST, "author of a post", |e| {
        e.rest("POST", "posts/[[post.19]]", r#"{"author":[[user.ines]]}"#)
    }),
    act("block-excerpt", REST, "excerpt of a post", |e| {
        e.rest(
            "POST",
            "posts/[[post.22]]",
            r#"{"excerpt":"In short: it holds."}"#,
        )
    }),
    act(
        "block-user-text",
        REST,
        "what an author says about herself",
        |e| {
            e.rest(
                "POST",
                "users/[[user.mara]]",
                r#"{"description":"Mara keeps the log."}"#,
            )
        },
    ),
    act("block-picture-title", REST, "title of a picture", |e| {
        e.rest("POST", "media/[[media.4]]", r#"{"title":"Lower deck"}"#)
    }),
    act(
        "block-foreign-setting",
        CLI,
        "a classic theme's background colour",
        |e| e.command_line("set_theme_mod( 'background_color', 'd1e4dd' );"),
    )
    .changes_nothing(),
];
