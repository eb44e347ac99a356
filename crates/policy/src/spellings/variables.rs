//! WordPress's public query variables, and the pages that each of them selects.

/// The pages that a query variable selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// None: the variable sets, for example, an order or a page of a list.
    Nothing,
    /// One page or post whose path the variable does not contain.
    AnyPage,
    /// A page by its path.
    Page,
    /// A route of the REST API.
    Rest,
    /// The page below this path by default.
    Below(&'static [u8]),
    /// Posts by their date.
    Date,
    /// The feed of the path.
    Feed,
    /// All posts of a type.
    Type,
    /// A taxonomy, whose terms have paths below its name.
    Taxonomy,
}

/// The pages that a variable selects; `None` if WordPress itself does not know the variable.
pub(super) fn meaning(variable: &[u8]) -> Option<Meaning> {
    let at = ALL.binary_search_by(|(name, _)| (*name).cmp(variable));
    let known = at.ok().and_then(|at| ALL.get(at));
    known.map(|(_, meaning)| *meaning)
}

/// Sorted by name: `WP::$public_query_vars`, variables of the REST API and the sitemaps, and WooCommerce's taxonomies.
pub(super) const ALL: &[(&[u8], Meaning)] = &[
    (b"attachment", Meaning::AnyPage),
    (b"attachment_id", Meaning::AnyPage),
    (b"author", Meaning::Below(b"/author/")),
    (b"author_name", Meaning::Below(b"/author/")),
    (b"cat", Meaning::Below(b"/category/")),
    (b"category_name", Meaning::Below(b"/category/")),
    (b"cpage", Meaning::Nothing),
    (b"day", Meaning::Date),
    (b"embed", Meaning::Nothing),
    (b"favicon", Meaning::Below(b"/favicon.ico")),
    (b"feed", Meaning::Feed),
    (b"hour", Meaning::Date),
    (b"m", Meaning::Date),
    (b"minute", Meaning::Date),
    (b"monthnum", Meaning::Date),
    (b"name", Meaning::AnyPage),
    (b"order", Meaning::Nothing),
    (b"orderby", Meaning::Nothing),
    (b"p", Meaning::AnyPage),
    (b"page", Meaning::Nothing),
    (b"page_id", Meaning::AnyPage),
    (b"paged", Meaning::Nothing),
    (b"pagename", Meaning::Page),
    (b"post_format", Meaning::Below(b"/type/")),
    (b"post_type", Meaning::Type),
    (b"product_cat", Meaning::Below(b"/product-category/")),
    (b"product_tag", Meaning::Below(b"/product-tag/")),
    (b"rest_route", Meaning::Rest),
    (b"robots", Meaning::Below(b"/robots.txt")),
    (b"s", Meaning::Below(b"/search/")),
    (b"second", Meaning::Date),
    (b"sitemap", Meaning::Below(b"/wp-sitemap")),
    (b"sitemap-stylesheet", Meaning::Below(b"/wp-sitemap")),
    (b"sitemap-subtype", Meaning::Nothing),
    (b"subpost", Meaning::AnyPage),
    (b"subpost_id", Meaning::AnyPage),
    (b"tag", Meaning::Below(b"/tag/")),
    (b"tag_id", Meaning::Below(b"/tag/")),
    (b"taxonomy", Meaning::Taxonomy),
    (b"term", Meaning::Nothing),
    (b"w", Meaning::Date),
    (b"year", Meaning::Date),
];

/// Scripts in the root folder of every WordPress.
pub(super) const SCRIPTS: [&[u8]; 4] = [
    b"wp-comments-post.php",
    b"wp-cron.php",
    b"wp-login.php",
    b"xmlrpc.php",
];

/// Scripts in `wp-admin` of every WordPress that have parameters of these names, sorted; and the folder itself.
pub(super) const ADMIN_SCRIPTS: &[&[u8]] = &[
    b"",
    b"admin-ajax.php",
    b"admin-post.php",
    b"admin.php",
    b"async-upload.php",
    b"comment.php",
    b"customize.php",
    b"edit-comments.php",
    b"edit-tags.php",
    b"edit.php",
    b"export.php",
    b"index.php",
    b"load-scripts.php",
    b"load-styles.php",
    b"media-new.php",
    b"media-upload.php",
    b"nav-menus.php",
    b"options-general.php",
    b"options.php",
    b"plugins.php",
    b"post-new.php",
    b"post.php",
    b"profile.php",
    b"revision.php",
    b"site-editor.php",
    b"term.php",
    b"themes.php",
    b"tools.php",
    b"upload.php",
    b"user-edit.php",
    b"users.php",
    b"widgets.php",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        assert!(ALL.is_sorted_by(|a, b| a.0 < b.0));
        assert!(ADMIN_SCRIPTS.is_sorted_by(|a, b| a < b));
        assert!(
            ALL.iter()
                .all(|(name, wanted)| meaning(name) == Some(*wanted))
        );
        assert_eq!(meaning(b"pagenam"), None);
    }
}
