//! Events on posts, pages and a custom post type.

use super::{AJAX, Event, FORM, LINK, REST, event};
use crate::client::Request;

pub(super) const EVENTS: &[Event] = &[
    event("edit-body", REST, "text of an old post", |e| {
        e.rest("POST", "posts/[[post.30]]", r#"{"content":"<!-- wp:paragraph --><p>Written anew.</p><!-- /wp:paragraph -->"}"#)
    })
    .short(),
    event("edit-title", REST, "title of the newest post", |e| {
        e.rest("POST", "posts/[[post.0]]", r#"{"title":"The ferry runs twice"}"#)
    }),
    event("publish", REST, "a new post with category and tag", |e| {
        e.rest(
            "POST",
            "posts",
            r#"{"title":"Fresh fish","slug":"fresh-fish","status":"publish","content":"Caught today.","date":"2024-06-10T12:00:00","categories":[ [[category.kitchen]] ],"tags":[ [[post_tag.fish]] ]}"#,
        )
    })
    .short(),
    event("quick-edit", AJAX, "quick edit: categories of a post", |e| {
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
    event("bulk-edit", LINK, "bulk edit: a tag for three posts", |e| {
        e.link(
            "/wp-admin/edit.php?post_type=post&bulk_edit=Update&action=edit&action2=-1&post%5B%5D=[[post.40]]&post%5B%5D=[[post.41]]\
             &post%5B%5D=[[post.45]]&tax_input%5Bpost_tag%5D=winter&_status=-1&post_author=-1&comment_status=&ping_status=&sticky=-1&post_view=list",
            "bulk-posts",
        )
    }),
    event("slug", FORM, "classic editor: slug of a post", |e| {
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
    event("unpublish", REST, "a post back to draft", |e| {
        e.rest("POST", "posts/[[post.5]]", r#"{"status":"draft"}"#)
    }),
    event("private", FORM, "classic editor: a post made private", |e| {
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
    event("password", REST, "a password for a post", |e| {
        e.rest("POST", "posts/[[post.7]]", r#"{"password":"oar"}"#)
    }),
    event("sticky", REST, "a post made sticky", |e| {
        e.rest("POST", "posts/[[post.9]]", r#"{"sticky":true}"#)
    }),
    event("thumbnail", REST, "featured image of a post", |e| {
        e.rest("POST", "posts/[[post.8]]", r#"{"featured_media":[[media.3]]}"#)
    }),
    event("author", REST, "author of a post", |e| {
        e.rest("POST", "posts/[[post.10]]", r#"{"author":[[user.ines]]}"#)
    }),
    event("date", REST, "date of a post, another month", |e| {
        e.rest("POST", "posts/[[post.50]]", r#"{"date":"2023-12-12T12:00:00"}"#)
    }),
    event("excerpt", REST, "excerpt of a post", |e| {
        e.rest("POST", "posts/[[post.17]]", r#"{"excerpt":"In short: it works."}"#)
    }),
    event("custom-field", AJAX, "a custom field of a post", |e| {
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
    event("trash", LINK, "a post moved to the trash", |e| {
        e.link("/wp-admin/post.php?post=[[post.2]]&action=trash", "trash-post_[[post.2]]")
    })
    .short(),
    event("delete", REST, "a post deleted for good", |e| {
        e.rest("DELETE", "posts/[[post.12]]?force=true", "")
    }),
    event("page-body", REST, "text of a page in a menu", |e| {
        e.rest("POST", "pages/[[page.about]]", r#"{"content":"About us, again."}"#)
    })
    .short(),
    event("page-title", REST, "title of a page in a menu", |e| {
        e.rest("POST", "pages/[[page.contact]]", r#"{"title":"Where to find us"}"#)
    }),
    event("page-parent", REST, "parent of a page: its address moves", |e| {
        e.rest("POST", "pages/[[page.where-to-stay]]", r#"{"parent":[[page.about]]}"#)
    }),
    event("new-page", REST, "a new page below another", |e| {
        e.rest(
            "POST",
            "pages",
            r#"{"title":"Below two","slug":"below-two","status":"publish","content":"Another child.","date":"2024-06-01T12:00:00","parent":[[page.below]]}"#,
        )
    }),
    event("draft-edit", REST, "text of a draft", |e| {
        e.rest("POST", "posts/[[post.unfinished]]", r#"{"content":"More about eels."}"#)
    })
    .short()
    .changes_nothing(),
    event("autosave", REST, "an autosave of a published post", |e| {
        e.rest("POST", "posts/[[post.18]]/autosaves", r#"{"content":"Half a sent"}"#)
    })
    .changes_nothing(),
    event("boat", REST, "title of an entry of a custom post type", |e| {
        e.rest("POST", "boat/[[boat.bittern]]", r#"{"title":"Great bittern"}"#)
    }),
    event("xml-rpc", "XML-RPC", "title of a post", |e| {
        e.xml_rpc(
            "wp.editPost",
            &[
                "<int>[[post.13]]</int>",
                "<struct><member><name>post_title</name><value><string>Two boats, two names</string></value></member></struct>",
            ],
        )
    }),
    event("command-line", "PHP CLI", "text and tags of a post", |e| {
        e.command_line(
            "wp_update_post( array( 'ID' => [[post.14]], 'post_content' => 'From the shell.', 'tags_input' => array( 'bread', 'fish' ) ) );",
        )
    }),
    event("cron", "wp-cron.php", "a scheduled post is published", |e| {
        // The post's date is in the past and its task is in ten years: a new task makes it due.
        e.command_line(
            "_set_cron_array( array() ); wp_schedule_single_event( time() - 60, 'publish_future_post', array( [[post.next-week]] ) );",
        )?;
        e.send_as_visitor(Request::get("/wp-cron.php?doing_wp_cron"))?;
        e.site.wait_for_cron()
    })
    .short(),
];
