//! What is done to posts, pages and a post type of the site's own.

use super::{AJAX, Act, FORM, LINK, REST, act};
use crate::client::Request;

pub(super) const ACTS: &[Act] = &[
    act("edit-body", REST, "text of an old post", |e| {
        e.rest("POST", "posts/[[post.30]]", r#"{"content":"<!-- wp:paragraph --><p>Written anew.</p><!-- /wp:paragraph -->"}"#)
    })
    .short(),
    act("edit-title", REST, "title of the newest post", |e| {
        e.rest("POST", "posts/[[post.0]]", r#"{"title":"The ferry runs twice"}"#)
    }),
    act("publish", REST, "a new post with category and tag", |e| {
        e.rest(
            "POST",
            "posts",
            r#"{"title":"Fresh fish","slug":"fresh-fish","status":"publish","content":"Caught today.","date":"2024-06-10T12:00:00","categories":[ [[category.kitchen]] ],"tags":[ [[post_tag.fish]] ]}"#,
        )
    })
    .short(),
    act("quick-edit", AJAX, "quick edit: categories of a post", |e| {
        e.form_with(
            "/wp-admin/admin-ajax.php",
            ("_inline_edit", "inlineeditnonce"),
            &[
                ("action", "inline-save"),
                ("screen", "edit-post"),
                ("post_view", "list"),
                ("post_type", "post"),
                ("post_ID", "[[post.31]]"),
                ("post_title", "Night watch on the breakwater"),
                ("post_name", "night-watch-on-the-breakwater"),
                ("post_category[]", "0"),
                ("post_category[]", "[[category.workshop]]"),
                ("comment_status", "open"),
                ("ping_status", "open"),
                ("_status", "publish"),
            ],
        )
    }),
    act("bulk-edit", LINK, "bulk edit: a tag for three posts", |e| {
        e.link(
            "/wp-admin/edit.php?post_type=post&bulk_edit=Update&action=edit&action2=-1&post%5B%5D=[[post.40]]&post%5B%5D=[[post.41]]\
             &post%5B%5D=[[post.45]]&tax_input%5Bpost_tag%5D=winter&_status=-1&post_author=-1&comment_status=&ping_status=&sticky=-1&post_view=list",
            "bulk-posts",
        )
    }),
    act("slug", FORM, "classic editor: address of a post", |e| {
        e.form(
            "/wp-admin/post.php",
            "update-post_[[post.1]]",
            &[
                ("action", "editpost"),
                ("post_type", "post"),
                ("post_ID", "[[post.1]]"),
                ("post_title", "A slipway mended in five days"),
                ("post_name", "a-slipway-mended"),
                ("post_status", "publish"),
                ("original_post_status", "publish"),
                ("comment_status", "open"),
                ("ping_status", "open"),
            ],
        )
    }),
    act("unpublish", REST, "a post back to draft", |e| {
        e.rest("POST", "posts/[[post.5]]", r#"{"status":"draft"}"#)
    }),
    act("private", FORM, "classic editor: a post made private", |e| {
        e.form(
            "/wp-admin/post.php",
            "update-post_[[post.6]]",
            &[
                ("action", "editpost"),
                ("post_type", "post"),
                ("post_ID", "[[post.6]]"),
                ("visibility", "private"),
                ("post_status", "private"),
                ("original_post_status", "publish"),
                ("comment_status", "open"),
                ("ping_status", "open"),
            ],
        )
    }),
    act("password", REST, "a password for a post", |e| {
        e.rest("POST", "posts/[[post.7]]", r#"{"password":"oar"}"#)
    }),
    act("sticky", REST, "a post made sticky", |e| {
        e.rest("POST", "posts/[[post.9]]", r#"{"sticky":true}"#)
    }),
    act("thumbnail", REST, "featured image of a post", |e| {
        e.rest("POST", "posts/[[post.8]]", r#"{"featured_media":[[media.3]]}"#)
    }),
    act("author", REST, "author of a post", |e| {
        e.rest("POST", "posts/[[post.10]]", r#"{"author":[[user.ines]]}"#)
    }),
    act("date", REST, "date of a post, another month", |e| {
        e.rest("POST", "posts/[[post.50]]", r#"{"date":"2023-12-12T12:00:00"}"#)
    }),
    act("excerpt", REST, "excerpt of a post", |e| {
        e.rest("POST", "posts/[[post.17]]", r#"{"excerpt":"In short: it works."}"#)
    }),
    act("custom-field", AJAX, "a custom field of a post", |e| {
        e.form_with(
            "/wp-admin/admin-ajax.php",
            ("_ajax_nonce-add-meta", "add-meta"),
            &[
                ("action", "add-meta"),
                ("post_id", "[[post.41]]"),
                ("metakeyinput", "catch"),
                ("metavalue", "Three herrings"),
            ],
        )
    }),
    act("trash", LINK, "a post into the trash", |e| {
        e.link("/wp-admin/post.php?post=[[post.2]]&action=trash", "trash-post_[[post.2]]")
    })
    .short(),
    act("delete", REST, "a post deleted for good", |e| {
        e.rest("DELETE", "posts/[[post.12]]?force=true", "")
    }),
    act("page-body", REST, "text of a page that a menu names", |e| {
        e.rest("POST", "pages/[[page.about]]", r#"{"content":"About us, again."}"#)
    })
    .short(),
    act("page-title", REST, "title of a page that a menu names", |e| {
        e.rest("POST", "pages/[[page.contact]]", r#"{"title":"Where to find us"}"#)
    }),
    act("page-parent", REST, "parent of a page: its address moves", |e| {
        e.rest("POST", "pages/[[page.where-to-stay]]", r#"{"parent":[[page.about]]}"#)
    }),
    act("new-page", REST, "a new page below another", |e| {
        e.rest(
            "POST",
            "pages",
            r#"{"title":"Below two","slug":"below-two","status":"publish","content":"Another child.","date":"2024-06-01T12:00:00","parent":[[page.below]]}"#,
        )
    }),
    act("draft-edit", REST, "text of a draft", |e| {
        e.rest("POST", "posts/[[post.unfinished]]", r#"{"content":"More about eels."}"#)
    })
    .short()
    .changes_nothing(),
    act("autosave", REST, "an autosave of a published post", |e| {
        e.rest("POST", "posts/[[post.18]]/autosaves", r#"{"content":"Half a sent"}"#)
    })
    .changes_nothing(),
    act("boat", REST, "title of an entry of a post type of its own", |e| {
        e.rest("POST", "boat/[[boat.bittern]]", r#"{"title":"Great bittern"}"#)
    }),
    act("xml-rpc", "XML-RPC", "title of a post", |e| {
        e.xml_rpc(
            "wp.editPost",
            &[
                "<int>[[post.13]]</int>",
                "<struct><member><name>post_title</name><value><string>Two boats, two names</string></value></member></struct>",
            ],
        )
    }),
    act("command-line", "PHP CLI", "text and tags of a post", |e| {
        e.command_line(
            "wp_update_post( array( 'ID' => [[post.14]], 'post_content' => 'From the shell.', 'tags_input' => array( 'bread', 'fish' ) ) );",
        )
    }),
    act("cron", "wp-cron.php", "a scheduled post goes live", |e| {
        // Its date is in the past and its task in ten years: the time comes.
        e.command_line(
            "_set_cron_array( array() ); wp_schedule_single_event( time() - 60, 'publish_future_post', array( [[post.next-week]] ) );",
        )?;
        e.stranger(Request::get("/wp-cron.php?doing_wp_cron"))?;
        e.site.wait_for_cron()
    })
    .short(),
];
