//! Events that change few pages, under both themes. They must not purge most of the site.

use super::{CLI, Event, LINK, REST, event};

pub(super) const CLASSIC: &[Event] = &[
    event("old-trash", LINK, "an old post moved to the trash", |e| {
        e.link(
            "/wp-admin/post.php?post=[[post.36]]&action=trash",
            "trash-post_[[post.36]]",
        )
    }),
    event("old-delete", REST, "an old post deleted for good", |e| {
        e.rest("DELETE", "posts/[[post.38]]?force=true", "")
    }),
    event("old-unpublish", REST, "an old post back to draft", |e| {
        e.rest("POST", "posts/[[post.34]]", r#"{"status":"draft"}"#)
    }),
    event("picture-title", REST, "title of an image", |e| {
        e.rest("POST", "media/[[media.1]]", r#"{"title":"Quayside"}"#)
    }),
    event(
        "foreign-setting",
        CLI,
        "a theme setting that this theme does not read",
        |e| e.command_line("set_theme_mod( 'accent_hue_active', 'custom' );"),
    )
    .changes_nothing(),
];

pub(super) const BLOCK: &[Event] = &[
    event(
        "block-old-trash",
        LINK,
        "an old post moved to the trash",
        |e| {
            e.link(
                "/wp-admin/post.php?post=[[post.37]]&action=trash",
                "trash-post_[[post.37]]",
            )
        },
    ),
    event(
        "block-old-delete",
        REST,
        "an old post deleted for good",
        |e| e.rest("DELETE", "posts/[[post.39]]?force=true", ""),
    ),
    event(
        "block-old-unpublish",
        REST,
        "an old post back to draft",
        |e| e.rest("POST", "posts/[[post.35]]", r#"{"status":"draft"}"#),
    ),
    event("block-delete", REST, "a new post deleted for good", |e| {
        e.rest("DELETE", "posts/[[post.21]]?force=true", "")
    }),
    event("block-author", REST, "author of a post", |e| {
        e.rest("POST", "posts/[[post.19]]", r#"{"author":[[user.ines]]}"#)
    }),
    event("block-excerpt", REST, "excerpt of a post", |e| {
        e.rest(
            "POST",
            "posts/[[post.22]]",
            r#"{"excerpt":"In short: it holds."}"#,
        )
    }),
    event("block-user-text", REST, "description of an author", |e| {
        e.rest(
            "POST",
            "users/[[user.mara]]",
            r#"{"description":"Mara keeps the log."}"#,
        )
    }),
    event("block-picture-title", REST, "title of an image", |e| {
        e.rest("POST", "media/[[media.4]]", r#"{"title":"Lower deck"}"#)
    }),
    event(
        "block-foreign-setting",
        CLI,
        "a classic theme's background color",
        |e| e.command_line("set_theme_mod( 'background_color', 'd1e4dd' );"),
    )
    .changes_nothing(),
];
