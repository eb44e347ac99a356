//! WordPress's public query variables, and the pages that each of them selects.

/// The pages that a query variable selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VariableMeaning {
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
pub(super) fn meaning(variable: &[u8]) -> Option<VariableMeaning> {
    let at = ALL.binary_search_by(|(name, _)| (*name).cmp(variable));
    let variable = at.ok().and_then(|at| ALL.get(at));
    variable.map(|(_, meaning)| *meaning)
}

/// Sorted by name: `WP::$public_query_vars`, variables of the REST API and the sitemaps, and WooCommerce's taxonomies.
pub(super) const ALL: &[(&[u8], VariableMeaning)] = &[
    (b"attachment", VariableMeaning::AnyPage),
    (b"attachment_id", VariableMeaning::AnyPage),
    (b"author", VariableMeaning::Below(b"/author/")),
    (b"author_name", VariableMeaning::Below(b"/author/")),
    (b"cat", VariableMeaning::Below(b"/category/")),
    (b"category_name", VariableMeaning::Below(b"/category/")),
    (b"cpage", VariableMeaning::Nothing),
    (b"day", VariableMeaning::Date),
    (b"embed", VariableMeaning::Nothing),
    (b"favicon", VariableMeaning::Below(b"/favicon.ico")),
    (b"feed", VariableMeaning::Feed),
    (b"hour", VariableMeaning::Date),
    (b"m", VariableMeaning::Date),
    (b"minute", VariableMeaning::Date),
    (b"monthnum", VariableMeaning::Date),
    (b"name", VariableMeaning::AnyPage),
    (b"order", VariableMeaning::Nothing),
    (b"orderby", VariableMeaning::Nothing),
    (b"p", VariableMeaning::AnyPage),
    (b"page", VariableMeaning::Nothing),
    (b"page_id", VariableMeaning::AnyPage),
    (b"paged", VariableMeaning::Nothing),
    (b"pagename", VariableMeaning::Page),
    (b"post_format", VariableMeaning::Below(b"/type/")),
    (b"post_type", VariableMeaning::Type),
    (
        b"product_cat",
        VariableMeaning::Below(b"/product-category/"),
    ),
    (b"product_tag", VariableMeaning::Below(b"/product-tag/")),
    (b"rest_route", VariableMeaning::Rest),
    (b"robots", VariableMeaning::Below(b"/robots.txt")),
    (b"s", VariableMeaning::Below(b"/search/")),
    (b"second", VariableMeaning::Date),
    (b"sitemap", VariableMeaning::Below(b"/wp-sitemap")),
    (
        b"sitemap-stylesheet",
        VariableMeaning::Below(b"/wp-sitemap"),
    ),
    (b"sitemap-subtype", VariableMeaning::Nothing),
    (b"subpost", VariableMeaning::AnyPage),
    (b"subpost_id", VariableMeaning::AnyPage),
    (b"tag", VariableMeaning::Below(b"/tag/")),
    (b"tag_id", VariableMeaning::Below(b"/tag/")),
    (b"taxonomy", VariableMeaning::Taxonomy),
    (b"term", VariableMeaning::Nothing),
    (b"w", VariableMeaning::Date),
    (b"year", VariableMeaning::Date),
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
