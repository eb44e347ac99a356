//! Events on translations, menus of a language, and languages.

use super::{CLI, Event, LINK, REST, event};

pub(super) const EVENTS: &[Event] = &[
    event("german-text", REST, "text of a translation", |e| {
        e.rest(
            "POST",
            "posts/[[german.20]]",
            r#"{"content":"Neu geschrieben."}"#,
        )
    }),
    event("german-title", REST, "title of a translation", |e| {
        e.rest(
            "POST",
            "posts/[[german.21]]",
            r#"{"title":"Neue Nachricht"}"#,
        )
    }),
    event(
        "original-text",
        REST,
        "text of a post that has a translation",
        |e| {
            e.rest(
                "POST",
                "posts/[[post.22]]",
                r#"{"content":"Written anew."}"#,
            )
        },
    ),
    event("german-new", CLI, "a new translation", |e| {
        e.command_line(
            "$id = wp_insert_post( array( 'post_title' => 'Die Fähre', 'post_name' => 'die-faehre', 'post_content' => 'Sie fährt.', 'post_status' => 'draft', 'post_author' => 1, 'post_date' => '2022-04-01 12:00:00' ) ); \
             pll_set_post_language( $id, 'de' ); pll_save_post_translations( array( 'en' => [[post.28]], 'de' => $id ) ); wp_publish_post( $id );",
        )
    }),
    event(
        "german-publish",
        REST,
        "a translation that was a draft",
        |e| e.rest("POST", "posts/[[german.26]]", r#"{"status":"publish"}"#),
    ),
    event(
        "german-linked",
        CLI,
        "a German post that becomes a translation",
        |e| {
            e.command_line("pll_save_post_translations( array( 'en' => [[post.40]], 'de' => [[german.alone]] ) );")
        },
    ),
    event(
        "german-trash",
        LINK,
        "a translation moved to the trash",
        |e| {
            e.link(
                "/wp-admin/post.php?post=[[german.23]]&action=trash",
                "trash-post_[[german.23]]",
            )
        },
    ),
    event(
        "german-delete",
        REST,
        "a translation deleted for good",
        |e| e.rest("DELETE", "posts/[[german.24]]?force=true", ""),
    ),
    event("german-page", REST, "title of a German page", |e| {
        e.rest(
            "POST",
            "pages/[[page.kontakt]]",
            r#"{"title":"So finden Sie uns"}"#,
        )
    }),
    event("german-category", REST, "name of a German category", |e| {
        e.rest(
            "POST",
            "categories/[[category.hafen]]",
            r#"{"name":"Alter Hafen"}"#,
        )
    }),
    event(
        "category-linked",
        CLI,
        "a category that becomes a translation",
        |e| {
            e.command_line("pll_save_term_translations( array( 'en' => [[category.kitchen]], 'de' => [[category.kueche]] ) );")
        },
    ),
    event(
        "german-string",
        CLI,
        "translation of the site's title",
        |e| {
            e.command_line(
            "update_term_meta( [[language.de]], '_pll_strings_translations', array( array( get_option( 'blogname' ), 'Die Gezeitentafel' ) ) );",
        )
        },
    ),
    event("language-new", CLI, "a new language without posts", |e| {
        e.command_line("exact_languages_add( 'nl', 'Nederlands' ); flush_rewrite_rules( false );")
    }),
    event("language-first", CLI, "the first post of a language", |e| {
        e.command_line(
            "$id = wp_insert_post( array( 'post_title' => 'Le bac', 'post_content' => 'Il va.', 'post_status' => 'draft', 'post_author' => 1, 'post_date' => '2022-04-02 12:00:00' ) ); \
             pll_set_post_language( $id, 'fr' ); wp_publish_post( $id );",
        )
    }),
    event("language-name", CLI, "name of a language", |e| {
        e.command_line(
            "wp_update_term( [[language.de]], 'language', array( 'name' => 'German' ) );",
        )
    }),
];

/// Only for classic themes: block themes have no menu locations.
pub(super) const CLASSIC: &[Event] = &[
    event(
        "german-menu-item",
        REST,
        "label in the menu of a language",
        |e| e.rest("POST", "menu-items/[[item.start]]", r#"{"title":"Anfang"}"#),
    ),
    event("german-menu", CLI, "another menu of a language", |e| {
        e.command_line(
            "$all = get_option( 'polylang' ); $all['nav_menus']['twentytwentyone']['primary']['de'] = [[nav_menu.anderes-menu]]; update_option( 'polylang', $all );",
        )
    }),
];

/// The last event, because it moves every page.
pub(super) const LAST: &[Event] = &[event(
    "language-default",
    CLI,
    "the default language",
    |e| {
        e.command_line(
            "$all = get_option( 'polylang' ); $all['default_lang'] = 'de'; update_option( 'polylang', $all ); flush_rewrite_rules( false );",
        )
    },
)];
