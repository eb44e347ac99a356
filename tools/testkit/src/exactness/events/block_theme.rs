//! Events under the block theme: edits of templates, and the most common edits of the classic theme again.

use super::{Event, LINK, REST, VISITOR, comments::comment, event};

pub(super) const EVENTS: &[Event] = &[
    event("template-part", REST, "template part: the footer", |e| {
        e.rest(
            "POST",
            "template-parts/twentytwentythree//footer",
            r#"{"content":"<!-- wp:paragraph --><p>Moored at pier four.</p><!-- /wp:paragraph -->"}"#,
        )
    }),
    event("template", REST, "template of single posts", |e| {
        e.rest(
            "POST",
            "templates/twentytwentythree//single",
            r#"{"content":"<!-- wp:template-part {\"slug\":\"header\",\"tagName\":\"header\"} /--><!-- wp:post-title {\"level\":1} /--><!-- wp:post-content /--><!-- wp:post-author-name /--><!-- wp:post-terms {\"term\":\"category\"} /-->"}"#,
        )
    }),
    event(
        "template-reset",
        REST,
        "template of single posts reset to the theme's",
        |e| {
            e.rest(
                "DELETE",
                "templates/twentytwentythree//single?force=true",
                "",
            )
        },
    ),
    event("navigation", REST, "navigation of the header", |e| {
        e.rest(
            "POST",
            "navigation/[[wp_navigation.navigation]]",
            r#"{"content":"<!-- wp:navigation-link {\"label\":\"Write to us\",\"url\":\"/write-to-us/\",\"kind\":\"custom\"} /-->"}"#,
        )
    }),
    event("pattern", REST, "a synced pattern on two pages", |e| {
        e.rest(
            "POST",
            "blocks/[[wp_block.opening-hours]]",
            r#"{"content":"<!-- wp:paragraph --><p>Open from ten to four.</p><!-- /wp:paragraph -->"}"#,
        )
    }),
    event("global-styles", REST, "global styles", |e| {
        e.rest(
            "POST",
            "global-styles/[[styles]]",
            r##"{"styles":{"color":{"background":"#f4efe6"}},"settings":{}}"##,
        )
    })
    // WordPress up to 6.1 stores the style sheet for a minute, even if the styles are saved during that time.
    .before_reference(
        "delete_transient( 'global_styles_' . get_stylesheet() ); delete_transient( 'global_styles_svg_filters_' . get_stylesheet() );",
    ),
    event("block-body", REST, "text of a post", |e| {
        e.rest(
            "POST",
            "posts/[[post.20]]",
            r#"{"content":"A new text under the block theme."}"#,
        )
    }),
    event("block-title", REST, "title of a post", |e| {
        e.rest(
            "POST",
            "posts/[[post.4]]",
            r#"{"title":"Knots, all eleven"}"#,
        )
    }),
    event("block-publish", REST, "a new post", |e| {
        e.rest(
            "POST",
            "posts",
            r#"{"title":"Nothing here any more","slug":"nothing-here","status":"publish","content":"Now there is.","date":"2024-06-25T12:00:00","categories":[ [[category.workshop]] ],"tags":[ [[post_tag.bread]] ]}"#,
        )
    }),
    event(
        "block-comment",
        VISITOR,
        "a comment published without approval",
        |e| {
            comment(
                e,
                "[[post.3]]",
                "Anneke",
                "anneke@example.org",
                "FetchedPage under the new theme.",
            )
        },
    ),
    event("block-trash", LINK, "a post moved to the trash", |e| {
        e.link(
            "/wp-admin/post.php?post=[[post.16]]&action=trash",
            "trash-post_[[post.16]]",
        )
    }),
    event("block-category", REST, "name of a category", |e| {
        e.rest(
            "POST",
            "categories/[[category.kitchen]]",
            r#"{"name":"Galley kitchen"}"#,
        )
    }),
    event("block-page", REST, "title of a page", |e| {
        e.rest(
            "POST",
            "pages/[[page.history]]",
            r#"{"title":"History of the place"}"#,
        )
    }),
];
