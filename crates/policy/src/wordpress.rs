//! The data of the WordPress preset: cookies, parameters and paths, as sorted tables.
//!
//! They follow the consensus of the page caches for WordPress. Passing too much only costs speed, so requests pass in doubt. PHP
//! never gets an ignored name on a cacheable fetch, so only names that PHP does not use are ignored. Sites add to these
//! lists in their configuration ([`crate::site::Policy`]).

mod lists;
mod varying;

pub use varying::{MASKS, masked};

use lists::{BYPASS_COOKIES, BYPASS_PARAMETERS, BYPASS_SEGMENTS, TRACKING, VARY_COOKIES};

/// Whether a cookie with this name identifies a person, whose requests bypass the cache.
pub fn is_bypass_cookie(name: &[u8]) -> bool {
    may_be_listed(name) && (BYPASS_COOKIES.contains(name) || is_auth_cookie(name))
}

/// Whether a cookie with this name selects a variant of a page (currency, theme for phones), so that its value is in the key.
pub fn is_vary_cookie(name: &[u8]) -> bool {
    may_be_listed(name) && VARY_COOKIES.contains(name)
}

/// Whether any listed name begins with the same byte. Most cookies of analytics and consent banners do not.
fn may_be_listed(name: &[u8]) -> bool {
    name.first().is_some_and(|first| {
        BYPASS_COOKIES.begins(*first) || VARY_COOKIES.begins(*first) || *first == b'w'
    })
}

/// Whether a cookie with this name is the one that `is_user_logged_in()` uses.
pub fn is_login_cookie(name: &[u8]) -> bool {
    name.starts_with(b"wordpress_logged_in_")
}

/// Whether a cookie with this name identifies only a member or a cart: the plugin knows which parts of a page depend on it.
pub fn is_member_cookie(name: &[u8]) -> bool {
    is_login_cookie(name)
        || name.starts_with(b"wordpress_sec_")
        || name.starts_with(b"wp_woocommerce_session_")
        || is_auth_cookie(name)
        || CART_COOKIES.contains(&name)
}

/// Cookies of visitors with a non-empty cart.
const CART_COOKIES: [&[u8]; 3] = [
    b"edd_items_in_cart",
    b"woocommerce_cart_hash",
    b"woocommerce_items_in_cart",
];

/// Whether a name is `wordpress_` and an MD5: the admin cookie (`AUTH_COOKIE`). Other names with this prefix, such as
/// `wordpress_test_cookie` and those of consent banners, identify nobody.
fn is_auth_cookie(name: &[u8]) -> bool {
    name.strip_prefix(b"wordpress_")
        .is_some_and(|hash| hash.len() == 32 && hash.iter().all(u8::is_ascii_hexdigit))
}

/// Whether a query parameter only informs analytics about the source of a visit. `name` is decoded.
pub fn is_tracking(name: &[u8]) -> bool {
    // Nearly all tracking parameters.
    name.starts_with(b"utm_") || TRACKING.contains(name)
}

/// Whether a query parameter makes the request bypass the cache. `variable` is PHP's name for it.
pub fn is_bypass_parameter(variable: &[u8], value: impl Iterator<Item = u8>) -> bool {
    match variable {
        b"action" => value.eq(b"elementor".iter().copied()),
        b"rest_route" => is_private_route(value),
        _ => BYPASS_PARAMETERS.contains(variable),
    }
}

/// Whether a route is in the WooCommerce Store API (`/wc/store/...`), whose responses depend on the visitor's cart.
fn is_private_route(mut route: impl Iterator<Item = u8>) -> bool {
    let mut segments = b"wc/store".iter();
    let Some(first) = route.find(|&byte| byte != b'/') else {
        return false;
    };
    segments.next() == Some(&first) && segments.all(|&byte| route.next() == Some(byte))
}

/// Whether a path is dynamic for each visitor: administration, login, scripts called directly, private APIs.
///
/// `path` is decoded with `//` merged. Segments count at any depth, since WordPress may be in a directory and a
/// network may have sites in directories (`/site2/wp-admin/`).
pub fn is_bypass_path(path: &[u8]) -> bool {
    let mut before: &[u8] = b"";
    for (depth, segment) in path.split(|&b| b == b'/').skip(1).enumerate() {
        // The length excludes nearly every segment without a comparison.
        let is_named = match segment.len() {
            5 => segment == b"store" && before == b"wc",
            6 | 8 => BYPASS_SEGMENTS.contains(&segment),
            14 => segment == b"acme-challenge" && before == b".well-known",
            _ => false,
        };
        if is_named || (is_script(segment) && !is_front_page(segment, before, depth)) {
            return true;
        }
        before = segment;
    }
    false
}

fn is_script(segment: &[u8]) -> bool {
    segment
        .last_chunk::<4>()
        .is_some_and(|ending| ending.eq_ignore_ascii_case(b".php"))
}

/// Whether a script is the front page: `/index.php` and `/site2/index.php` are, `/wp-content/index.php` is not.
fn is_front_page(segment: &[u8], before: &[u8], depth: usize) -> bool {
    segment == b"index.php" && depth <= 1 && !before.starts_with(b"wp-")
}

#[cfg(test)]
mod tests {
    use super::lists::NameList;
    use super::*;

    #[test]
    fn tables_are_sorted_and_prefixes_do_not_nest() {
        for names in [
            &BYPASS_COOKIES,
            &VARY_COOKIES,
            &TRACKING,
            &BYPASS_PARAMETERS,
        ] {
            assert!(names.exact.all.is_sorted_by(|a, b| a < b));
            assert!(
                names
                    .prefixes
                    .all
                    .is_sorted_by(|a, b| a < b && !b.starts_with(a))
            );
            // The lookup must find each entry; the order alone is not sufficient.
            assert!(
                names
                    .exact
                    .all
                    .iter()
                    .chain(names.prefixes.all)
                    .all(|name| names.contains(name))
            );
        }
        assert!(BYPASS_SEGMENTS.is_sorted_by(|a, b| a < b));
        // `is_bypass_path` compares only segments of these lengths.
        let is_known = |segment: &&[u8]| {
            is_bypass_path(&[b"/", *segment].concat())
                && is_bypass_path(&[b"/a/", *segment, b"/b"].concat())
        };
        assert!(BYPASS_SEGMENTS.iter().all(is_known));
    }

    #[test]
    fn no_tracking_parameter_is_a_reason_to_pass() {
        let all = |names: &NameList| {
            names
                .exact
                .all
                .iter()
                .chain(names.prefixes.all)
                .copied()
                .collect::<Vec<_>>()
        };
        assert!(
            !all(&TRACKING)
                .iter()
                .any(|name| BYPASS_PARAMETERS.contains(name))
        );
        assert!(
            !all(&BYPASS_PARAMETERS)
                .iter()
                .any(|name| TRACKING.contains(name))
        );
        assert!(!all(&VARY_COOKIES).iter().any(|name| is_bypass_cookie(name)));
    }

    #[test]
    fn cookies_are_classified() {
        for name in [
            "wordpress_logged_in_0123",
            "wordpress_0123456789abcdef0123456789abcdef",
            "wordpress_sec_x",
            "wp-postpass_x",
            "comment_author_email_x",
            "woocommerce_cart_hash",
            "wp_woocommerce_session_x",
            "SimpleSAMLAuthToken",
        ] {
            assert!(is_bypass_cookie(name.as_bytes()), "{name}");
        }
        for name in [
            "wordpress_test_cookie",
            "wordpress_gdpr_terms",
            "wordpress_0123456789abcdef0123456789abcdeg",
            "wp-settings-1",
            "wp-settings-time-1",
            "PHPSESSID",
            "_ga",
            "woocommerce_recently_viewed",
            "tk_ai",
            "",
        ] {
            assert!(
                !is_bypass_cookie(name.as_bytes()) && !is_vary_cookie(name.as_bytes()),
                "{name}"
            );
        }
        assert!(is_vary_cookie(b"woocs_current") && is_vary_cookie(b"akm_mobile"));
    }

    #[test]
    fn paths_are_classified() {
        for path in [
            "/wp-admin",
            "/wp-admin/",
            "/wp-admin/admin-ajax.php",
            "/site2/wp-admin/x",
            "/wp/wp-login.php",
            "/wp-login.php",
            "/wp-login.php/x",
            "/xmlrpc.php",
            "/wp-cron.php",
            "/XMLRPC.PHP",
            "/wp-content/index.php",
            "/a/b/index.php",
            "/wp-content/plugins/x/y.php",
            "/.well-known/acme-challenge/t",
            "/wc-api/x/",
            "/edd-sl/",
            "/wp-json/wc/store/v1/cart",
        ] {
            assert!(is_bypass_path(path.as_bytes()), "{path}");
        }
        for path in [
            "/",
            "*",
            "",
            "/index.php",
            "/index.php/2020/hello/",
            "/site2/index.php",
            "/wp-json/wp/v2/posts",
            "/feed/",
            "/about-wp-admin/",
            "/php",
            "/.well-known/security.txt",
            "/wp-sitemap.xml",
            "/store/",
            "/acme-challenge",
        ] {
            assert!(!is_bypass_path(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn parameters_are_classified() {
        let passes = |name: &str, value: &str| is_bypass_parameter(name.as_bytes(), value.bytes());
        assert!(
            passes("preview", "true") && passes("preview_id", "") && passes("customize_theme", "x")
        );
        assert!(
            passes("action", "elementor")
                && !passes("action", "x")
                && !passes("action", "elementor2")
        );
        assert!(passes("rest_route", "/wc/store/v1/cart") && passes("rest_route", "wc/store"));
        assert!(
            !passes("rest_route", "/wp/v2/posts")
                && !passes("rest_route", "/")
                && !passes("rest_route", "/wc/v3")
        );
        assert!(!passes("s", "x") && !passes("paged", "2") && !passes("", ""));
        for name in [
            "utm_source",
            "utm_",
            "fbclid",
            "mtm_group",
            "_bta_tid",
            "__hssc",
        ] {
            assert!(is_tracking(name.as_bytes()), "{name}");
        }
        for name in ["utm", "ref", "replytocom", "s", "fbclid2", "v", ""] {
            assert!(!is_tracking(name.as_bytes()), "{name}");
        }
    }
}
