//! The options of a site that are `true` or `false`, whatever other options say.
//!
//! A new one costs its row in the option table, its field here, and the code that reads the field. What shapes keys is named in
//! [`super::KeyShape`], too.

/// Declares the fields and how their options are read.
macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The flags of a site. Each has the name of its option.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct SiteFlags {
            $($(#[$doc])* pub $name: bool,)*
        }

        impl SiteFlags {
            /// The flags with the values that `of` returns for the names of their options.
            pub fn read(of: impl Fn(&str) -> bool) -> Self {
                Self { $($name: of(stringify!($name)),)* }
            }
        }
    };
}

flags! {
    /// Whether PHP gets the name and password with which the client was authenticated.
    basic_auth_forward,
    /// Whether responses that are not stored are compressed.
    compress_passed,
    /// Whether clients that have not visited the site get a page that proves a visit, in place of a refusal.
    crawl_challenge,
    /// Whether clients that have not visited the site get a part of PHP only for pages with a query.
    crawl_shield,
    /// Whether phones and desktops get separate entries.
    device_variants,
    /// Whether `103 Early Hints` are sent while a page is being generated.
    early_hints,
    /// Whether the names of users are hidden from clients without a login.
    hide_authors,
    /// Whether the site is served over HTTP/3, if it has a certificate.
    http3,
    /// Whether Galley tells the `LiteSpeed` plugin that it is a cache that the plugin supports.
    litespeed,
    /// Whether WordPress is a multisite in sub-directories.
    multisite,
    /// Whether stored pages name the pages that visitors most often open next.
    next_pages,
    /// Whether `GET /purge/...` purges.
    purge_get,
}
