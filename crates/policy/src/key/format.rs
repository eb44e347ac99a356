//! The version of the key format, by which a version of Galley recognizes whether it can read stored pages.

/// Increase this when the same request under the same rules gets another key, or when the contents of an entry change. Pages
/// in another format are not read.
pub const KEY_FORMAT: u32 = 1;

#[cfg(test)]
mod tests {
    use std::hash::Hasher;

    use siphasher::sip::SipHasher13;

    use super::*;
    use crate::key::write_key;
    use crate::request_info::{RequestLineInfo, Scheme};
    use crate::site::{NamePattern, Policy, SiteFlags};
    use crate::testing::{LINE, parsed};

    /// The format, and a hash of the keys of the requests below.
    const KEYS_OF_FORMAT: (u32, u64) = (1, 1_648_400_862_667_565_307);

    #[test]
    fn other_keys_need_another_format() {
        let policies = [
            Policy::default(),
            Policy {
                flags: SiteFlags {
                    device_variants: true,
                    ..SiteFlags::default()
                },
                vary_cookies: vec![NamePattern::parse("lang")],
                ..Policy::default()
            },
            Policy {
                ignore_query: vec![NamePattern::parse("ref*")],
                ..Policy::default()
            },
        ];
        let mut hasher = SipHasher13::new();
        for policy in &policies {
            for target in TARGETS {
                for fields in FIELDS {
                    hasher.write(&key(policy, target, fields));
                }
            }
        }
        let found = (KEY_FORMAT, hasher.finish());
        assert_eq!(
            found, KEYS_OF_FORMAT,
            "requests get other keys: increase KEY_FORMAT, then record the hash here"
        );
    }

    fn key(policy: &Policy, target: &str, fields: &[(&str, &str)]) -> Vec<u8> {
        let line = RequestLineInfo {
            target: target.as_bytes(),
            scheme: Scheme::Https,
            ..LINE
        };
        let info = parsed(&line, fields, policy);
        let mut key = Vec::new();
        write_key(&info, &mut key);
        key
    }

    const TARGETS: [&str; 7] = [
        "/",
        "/a%20b/%C3%A9/?b=2&a=1",
        "/?utm_source=x&gclid=1&fbclid=2&s=word",
        "/shop/?ref=1&refer=2&add-to-cart=3&orderby=price",
        "/wp-json/wp/v2/posts?per_page=5&_fields=id",
        "/feed/?cat=3&paged=2&lang=de",
        "/a//b/../c?q=%41+b&q=&z",
    ];

    const FIELDS: [&[(&str, &str)]; 5] = [
        &[("host", "example.com")],
        &[("host", "Example.COM:8443"), ("accept", "application/json")],
        &[
            ("host", "example.com"),
            ("cookie", "lang=de; _ga=1; x=2"),
            ("sec-ch-ua-mobile", "?1"),
        ],
        &[
            ("host", "example.com"),
            (
                "cookie",
                "wordpress_logged_in_0=a; woocommerce_items_in_cart=1",
            ),
        ],
        &[
            ("host", "example.com"),
            ("accept", "image/avif,image/webp,*/*"),
            (
                "user-agent",
                "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Mobile",
            ),
        ],
    ];
}
