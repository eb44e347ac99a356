//! What is done to terms, menus, widgets, people and pictures.

use super::{AJAX, Act, FORM, LINK, REST, act};

pub(super) const ACTS: &[Act] = &[
    act("category-name", FORM, "name of a category", |e| {
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
    act("category-slug", FORM, "address of a category", |e| {
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
    act("tag-delete", AJAX, "a tag deleted", |e| {
        e.form(
            "/wp-admin/admin-ajax.php",
            "delete-tag_[[post_tag.walks]]",
            &[("action", "delete-tag"), ("taxonomy", "post_tag"), ("tag_ID", "[[post_tag.walks]]")],
        )
    }),
    act("tag-new", AJAX, "a new tag without posts", |e| {
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
    act("menu-label", FORM, "label of an item of the main menu", |e| {
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
    act("menu-item", LINK, "an item of the main menu removed", |e| {
        e.link(
            "/wp-admin/nav-menus.php?action=delete-menu-item&menu-item=[[item.8]]",
            "delete-menu_item_[[item.8]]",
        )
    }),
    act("widget", REST, "text of a widget", |e| {
        e.rest(
            "POST",
            "widgets/custom_html-2",
            r#"{"instance":{"raw":{"title":"Notice","content":"<p>The slipway is closed.</p>"}}}"#,
        )
    }),
    act("sidebar", REST, "a widget taken out of the sidebar", |e| {
        e.rest(
            "POST",
            "sidebars/sidebar-1",
            r#"{"widgets":["search-2","recent-posts-2","recent-comments-2","categories-2","custom_html-2","nav_menu-2"]}"#,
        )
    }),
    act("user-name", FORM, "name of an author", |e| {
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
    act("user-text", REST, "what an author says about herself", |e| {
        e.rest("POST", "users/[[user.ines]]", r#"{"description":"Ines has moved to the lighthouse."}"#)
    }),
    act("picture", REST, "title, caption and alternative text of a picture", |e| {
        e.rest(
            "POST",
            "media/[[media.0]]",
            r#"{"title":"The pier","caption":"The pier at noon","alt_text":"A pier"}"#,
        )
    }),
    act("picture-delete", REST, "a picture deleted", |e| {
        e.rest("DELETE", "media/[[media.2]]?force=true", "")
    }),
];
