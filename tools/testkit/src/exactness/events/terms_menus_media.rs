//! Events on terms, menus, widgets, users and media.

use super::{AJAX, Event, FORM, LINK, REST, event};

pub(super) const EVENTS: &[Event] = &[
    event("category-name", FORM, "name of a category", |e| {
        e.form(
            "/wp-admin/edit-tags.php",
            "update-tag_[[category.harbour]]",
            &[
                ("action", "editedtag"),
                ("taxonomy", "category"),
                ("tag_ID", "[[category.harbour]]"),
                ("name", "Old harbour"),
                ("slug", "harbour"),
                ("parent", "-1"),
                ("description", ""),
            ],
        )
    })
    .short(),
    event("category-slug", FORM, "address of a category", |e| {
        e.form(
            "/wp-admin/edit-tags.php",
            "update-tag_[[category.people]]",
            &[
                ("action", "editedtag"),
                ("taxonomy", "category"),
                ("tag_ID", "[[category.people]]"),
                ("name", "People"),
                ("slug", "folk"),
                ("parent", "[[category.town]]"),
                ("description", ""),
            ],
        )
    }),
    event("tag-delete", AJAX, "a tag deleted", |e| {
        e.form(
            "/wp-admin/admin-ajax.php",
            "delete-tag_[[post_tag.walks]]",
            &[("action", "delete-tag"), ("taxonomy", "post_tag"), ("tag_ID", "[[post_tag.walks]]")],
        )
    }),
    event("tag-new", AJAX, "a new tag without posts", |e| {
        e.form_with(
            "/wp-admin/admin-ajax.php",
            ("_wpnonce_add-tag", "add-tag"),
            &[
                ("action", "add-tag"),
                ("screen", "edit-post_tag"),
                ("taxonomy", "post_tag"),
                ("post_type", "post"),
                ("tag-name", "anchors"),
                ("slug", "anchors"),
                ("description", ""),
            ],
        )
    }),
    event("menu-label", FORM, "label of an item of the main menu", |e| {
        let form = e.get("/wp-admin/admin-ajax.php?action=exact_menu&menu=[[nav_menu.main]]&item=[[item.4]]&title=Come%20and%20see")?;
        e.form_with(
            "/wp-admin/nav-menus.php",
            ("update-nav-menu-nonce", "update-nav_menu"),
            &[
                ("action", "update"),
                ("menu", "[[nav_menu.main]]"),
                ("nav-menu-data", &form.text()),
            ],
        )
    })
    .short(),
    event("menu-item", LINK, "an item of the main menu removed", |e| {
        e.link(
            "/wp-admin/nav-menus.php?action=delete-menu-item&menu-item=[[item.8]]",
            "delete-menu_item_[[item.8]]",
        )
    }),
    event("widget", REST, "text of a widget", |e| {
        e.rest(
            "POST",
            "widgets/custom_html-2",
            r#"{"instance":{"raw":{"title":"Notice","content":"<p>The slipway is closed.</p>"}}}"#,
        )
    }),
    event("sidebar", REST, "a widget removed from the sidebar", |e| {
        e.rest(
            "POST",
            "sidebars/sidebar-1",
            r#"{"widgets":["search-2","recent-posts-2","recent-comments-2","categories-2","custom_html-2","nav_menu-2","kept-comments-2"]}"#,
        )
    }),
    event("user-name", FORM, "name of an author", |e| {
        e.form(
            "/wp-admin/user-edit.php",
            "update-user_[[user.mara]]",
            &[
                ("action", "update"),
                ("user_id", "[[user.mara]]"),
                ("nickname", "mara"),
                ("first_name", "Mara"),
                ("last_name", "Lind"),
                ("display_name", "Mara Lind"),
                ("email", "mara@example.org"),
                ("url", ""),
                ("role", "author"),
                ("description", "Writes about the harbour."),
            ],
        )
    }),
    event("user-text", REST, "description of an author", |e| {
        e.rest("POST", "users/[[user.ines]]", r#"{"description":"Ines has moved to the lighthouse."}"#)
    }),
    event("picture", REST, "title, caption and alternative text of an image", |e| {
        e.rest(
            "POST",
            "media/[[media.0]]",
            r#"{"title":"The pier","caption":"The pier at noon","alt_text":"A pier"}"#,
        )
    }),
    event("picture-delete", REST, "an image deleted", |e| {
        e.rest("DELETE", "media/[[media.2]]?force=true", "")
    }),
];
