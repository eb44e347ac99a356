//! Events on the settings of the site and of the classic theme.

use super::{AJAX, Event, FORM, event};

pub(super) const EVENTS: &[Event] = &[
    event("site-title", FORM, "title of the site", |e| {
        e.form(
            "/wp-admin/options.php",
            "general-options",
            &[
                ("option_page", "general"),
                ("action", "update"),
                ("blogname", "The New Tide Table"),
                (
                    "blogdescription",
                    "News, tides and recipes from a small harbour",
                ),
                ("new_admin_email", "admin@example.org"),
                ("default_role", "subscriber"),
                ("timezone_string", "UTC"),
                ("date_format", "F j, Y"),
                ("time_format", "g:i a"),
                ("start_of_week", "1"),
                ("WPLANG", ""),
            ],
        )
    }),
    event("posts-per-page", FORM, "posts per page", |e| {
        e.form(
            "/wp-admin/options.php",
            "reading-options",
            &[
                ("option_page", "reading"),
                ("action", "update"),
                ("posts_per_page", "8"),
                ("posts_per_rss", "10"),
                ("rss_use_excerpt", "0"),
                ("show_on_front", "posts"),
                ("page_on_front", "0"),
                ("page_for_posts", "0"),
                ("blog_public", "1"),
            ],
        )
    }),
    event(
        "customizer",
        AJAX,
        "background color in the customizer",
        |e| {
            e.form_with(
                "/wp-admin/admin-ajax.php",
                ("nonce", "save-customize_twentytwentyone"),
                &[
                    ("action", "customize_save"),
                    ("wp_customize", "on"),
                    ("customize_theme", "twentytwentyone"),
                    (
                        "customize_changeset_uuid",
                        "6f1c2a8e-4d37-4b3f-9a55-0c8d7e21b6f4",
                    ),
                    ("customize_changeset_status", "publish"),
                    ("customized", r##"{"background_color":"#e4d1d1"}"##),
                ],
            )
        },
    ),
    event("permalinks", FORM, "category base of permalinks", |e| {
        e.form(
            "/wp-admin/options-permalink.php",
            "update-permalink",
            &[
                ("selection", "/%postname%/"),
                ("permalink_structure", "/%postname%/"),
                ("category_base", "topics"),
                ("tag_base", ""),
                ("submit", "Save Changes"),
            ],
        )
    }),
    event(
        "permalinks-back",
        FORM,
        "category base reset, another tag base",
        |e| {
            e.form(
                "/wp-admin/options-permalink.php",
                "update-permalink",
                &[
                    ("selection", "/%postname%/"),
                    ("permalink_structure", "/%postname%/"),
                    ("category_base", ""),
                    ("tag_base", "labels"),
                    ("submit", "Save Changes"),
                ],
            )
        },
    ),
];
