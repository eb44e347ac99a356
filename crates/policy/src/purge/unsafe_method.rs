//! The purges that unsafe requests cause without being purge requests.
//!
//! RFC 9111 section 4.4 requires a cache to invalidate the URL of each successful unsafe request. Anyone can send such
//! a request, with any cookie and any `Authorization`, which only WordPress can verify. So with the WordPress preset no such
//! request purges hard, and none purges if the plugin reports changes. The caller limits how often this may happen.

use http::{HeaderMap, HeaderName};

use super::scope::Strength;
use crate::request_info::{Method, RequestInfo};
use crate::site::{Policy, UnsafeMethodPurges};

/// The strength with which a successful request with this response purges its URL, and those of `Location` and
/// `Content-Location`. `None`: not at all.
pub fn invalidation(info: &RequestInfo, response: &HeaderMap, policy: &Policy) -> Option<Strength> {
    if !may_change(info, policy.unsafe_methods) {
        return None;
    }
    match policy.unsafe_methods {
        UnsafeMethodPurges::Always => Some(Strength::Hard),
        UnsafeMethodPurges::Softly => {
            (!response.contains_key(GALLEY_PLUGIN)).then_some(Strength::Soft)
        }
    }
}

/// Whether a method may change stored responses. Departs: RFC 9111 section 4.4 counts unknown methods as well. The
/// WordPress preset does not, because anyone can invent one.
fn may_change(info: &RequestInfo, purges: UnsafeMethodPurges) -> bool {
    match info.method() {
        Method::Post | Method::Put | Method::Patch | Method::Delete => true,
        Method::Get | Method::Head | Method::Options | Method::Query | Method::Trace => false,
        Method::Purge | Method::Ban | Method::Connect | Method::Other => {
            purges == UnsafeMethodPurges::Always && !SAFE_EXTENSIONS.contains(&info.method_text())
        }
    }
}

/// The field by which the plugin announces that it was running: it reports what this request changed.
const GALLEY_PLUGIN: HeaderName = HeaderName::from_static("galley-plugin");

/// Methods that are registered as safe (RFC 4918, RFC 3253, RFC 5323).
const SAFE_EXTENSIONS: &[&str] = &["PROPFIND", "REPORT", "SEARCH"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_info::RequestLineInfo;
    use crate::testing::{LINE, parsed};

    fn info(method: &str, fields: &[(&str, &str)], policy: &Policy) -> RequestInfo {
        parsed(&RequestLineInfo { method, ..LINE }, fields, policy)
    }

    #[test]
    fn no_session_that_wordpress_has_not_confirmed_purges_hard() {
        use Strength::{Hard, Soft};
        let cookie: &[(&str, &str)] = &[("cookie", "wordpress_logged_in_x=1")];
        let comment: &[(&str, &str)] = &[("cookie", "comment_author_x=1")];
        let cart: &[(&str, &str)] = &[("cookie", "woocommerce_items_in_cart=1")];
        let basic: &[(&str, &str)] = &[("authorization", "Basic eA==")];
        let bearer: &[(&str, &str)] = &[("authorization", "Bearer x")];
        let (wordpress, none) = (Policy::default(), Policy::rfc9111());
        let mut plugin = HeaderMap::new();
        plugin.insert(GALLEY_PLUGIN, http::HeaderValue::from_static("0.3.0"));
        // method, fields, without the plugin, with it, without a preset
        let table = [
            ("POST", &[][..], Some(Soft), None, Some(Hard)),
            ("DELETE", &[], Some(Soft), None, Some(Hard)),
            ("POST", cookie, Some(Soft), None, Some(Hard)),
            ("POST", comment, Some(Soft), None, Some(Hard)),
            ("PUT", cart, Some(Soft), None, Some(Hard)),
            ("PATCH", basic, Some(Soft), None, Some(Hard)),
            ("DELETE", bearer, Some(Soft), None, Some(Hard)),
            ("GET", cookie, None, None, None),
            ("OPTIONS", &[], None, None, None),
            ("FOO", cookie, None, None, Some(Hard)),
            ("get", &[], None, None, Some(Hard)),
            ("PROPFIND", &[], None, None, None),
        ];
        for (method, fields, plain, reported, unset) in table {
            let found = |policy: &Policy, response: &HeaderMap| {
                invalidation(&info(method, fields, policy), response, policy)
            };
            assert_eq!(found(&wordpress, &HeaderMap::new()), plain, "{method}");
            assert_eq!(found(&wordpress, &plugin), reported, "{method}");
            assert_eq!(found(&none, &HeaderMap::new()), unset, "{method}");
        }
    }
}
