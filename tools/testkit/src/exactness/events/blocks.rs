//! The same site under a block theme: its templates, and the commonest edits once more.

use super::{Act, LINK, REST, VISITOR, act, comments::comment};

pub(super) const ACTS: &[Act] = &[
    act("template-part", REST, "template part: the footer", |e| {
        e.rest(
            "POST",
            "template-parts/twentytwentythree//footer",
            r#"{"content":"<!-- wp:paragraph --><p>Moored at pier four.</p><!-- /wp:paragraph -->"}"#,
        )
    }),
    act("template", REST, "template of single posts", |e| {
        e.rest(
            "POST",
            "templates/twentytwentythree//single",
            r#"{"content":"<!-- wp:template-part {\"slug\":\"header\",\"tagName\":\"header\"} /--><!-- wp:post-title {\"level\":1} /--><!-- wp:post-content /--><!-- wp:post-author-name /--><!-- wp:post-terms {\"term\":\"category\"} /-->"}"#,
        )
    }),
    act(
        "template-reset",
        REST,
        "that template back to the theme's",
        |e| {
            e.rest(
                "DELETE",
                "templates/twentytwentythree//single?force=true",
                "",
            )
        },
    ),
    act("navigation", REST, "navigation of the header", |e| {
        e.rest(
            "POST",
            "navigation/[[wp_navigation.navigation]]",
            r#"{"content":"<!-- wp:navigation-link {\"label\":\"Write to us\",\"url\":\"/write-to-us/\",\"kind\":\"custom\"} /-->"}"#,
        )
    }),
    act("pattern", REST, "a synced pattern on two pages", |e| {
        e.rest(
            "POST",
            "blocks/[[wp_block.opening-hours]]",
            r#"{"content":"<!-- wp:paragraph --><p>Open from ten to four.</p><!-- /wp:paragraph -->"}"#,
        )
    }),
    act("global-styles", REST, "global styles", |e| {
        e.rest(
            "POST",
            "global-styles/[[styles]]",
            r##"{"styles":{"color":{"background":"#f4efe6"}},"settings":{}}"##,
        )
    })
    // Up to 6.1 the style sheet is kept for a minute, whatever is saved meanwhile.
    .later(
        "delete_transient( 'global_styles_' . get_stylesheet() ); delete_transient( 'global_styles_svg_filters_' . get_stylesheet() );",
    ),
    act("block-body", REST, "text of a post", |e| {
        e.rest(
            "POST",
            "posts/[[post.20]]",
            r#"{"content":"A new text under the block theme."}"#,
        )
    }),
    act("block-title", REST, "title of a post", |e| {
        e.rest(
            "POST",
            "posts/[[post.4]]",
            r#"{"title":"Knots, all eleven"}"#,
        )
    }),
    act("block-publish", REST, "a new post", |e| {
        e.rest(
            "POST",
            "posts",
            r#"{"title":"Nothing here any more","slug":"nothing-here","status":"publish","content":"Now there is.","date":"2024-06-25T12:00:00","categories":[ [[category.workshop]] ],"tags":[ [[post_tag.bread]] ]}"#,
        )
    }),
    act(
        "block-comment",
        VISITOR,
        "a comment that is shown at once",
        |e| {
            comment(
                e,
                "[[post.3]]",
                "Anneke",
                "anneke@example.org",
                "Seen under the new theme.",
            )
        },
    ),
    act("block-trash", LINK, "a post into the trash", |e| {
        e.link(
            "/wp-admin/post.php?post=[[post.16]]&action=trash",
            "trash-post_[[post.16]]",
        )
    }),
    act("block-category", REST, "name of a category", |e| {
        e.rest(
            "POST",
            "categories/[[category.kitchen]]",
            r#"{"name":"Galley kitchen"}"#,
        )
    }),
    act("block-page", REST, "title of a page", |e| {
        e.rest(
            "POST",
            "pages/[[page.history]]",
            r#"{"title":"History of the place"}"#,
        )
    }),
];
