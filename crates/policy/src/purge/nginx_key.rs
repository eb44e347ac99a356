//! The key under which nginx stores a page in the usual configuration for WordPress:
//! `fastcgi_cache_key "$scheme$request_method$host$request_uri"`. Plugins compute the names of nginx's files from it.

use crate::request_info::RequestInfo;

/// The keys of a request's URL; the first is the canonical form. The second has lower-case hexadecimal digits, as WordPress
/// writes non-ASCII paths and browsers send its links.
pub fn nginx_keys(info: &RequestInfo) -> Vec<String> {
    let mut target = Vec::new();
    info.path_query(&mut target);
    let target = String::from_utf8_lossy(&target);
    let key = |target: &str| format!("{}GET{}{target}", info.scheme().as_str(), info.host());
    let lower = lower_case_escapes(&target);
    let mut keys = vec![key(&target)];
    if lower != target {
        keys.push(key(&lower));
    }
    keys
}

/// The URL of a key.
pub fn nginx_key_url(key: &str) -> Option<String> {
    ["http", "https"].into_iter().find_map(|scheme| {
        let rest = key.strip_prefix(scheme)?.strip_prefix("GET")?;
        let has_host = rest.find('/').is_some_and(|slash| slash > 0);
        has_host.then(|| format!("{scheme}://{rest}"))
    })
}

/// A target with lower-case hexadecimal digits after each `%`.
fn lower_case_escapes(target: &str) -> String {
    let mut digits = 0_u32;
    let letter = |letter: char| {
        if letter == '%' {
            digits = 2;
            return letter;
        }
        let is_digit = digits > 0;
        digits = digits.saturating_sub(1);
        if is_digit {
            letter.to_ascii_lowercase()
        } else {
            letter
        }
    };
    target.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_info::{RequestLineInfo, Scheme};
    use crate::site::Policy;
    use crate::testing::{LINE, parsed};

    #[test]
    fn a_url_has_the_keys_that_plugins_compute() {
        let keys = |target: &'static str, scheme| {
            let line = RequestLineInfo {
                target: target.as_bytes(),
                scheme,
                ..LINE
            };
            nginx_keys(&parsed(&line, &[], &Policy::default()))
        };
        assert_eq!(keys("/a/", Scheme::Http), ["httpGETexample.com/a/"]);
        assert_eq!(
            keys("/a/?utm_source=x&b=c", Scheme::Https),
            ["httpsGETexample.com/a/?b=c"]
        );
        let cyrillic = keys("/%d0%BF%d1%80/X/", Scheme::Https);
        assert_eq!(
            cyrillic,
            [
                "httpsGETexample.com/%D0%BF%D1%80/X/",
                "httpsGETexample.com/%d0%bf%d1%80/X/"
            ]
        );
    }

    #[test]
    fn a_key_names_a_url() {
        for (key, url) in [
            ("httpGETa.test/", Some("http://a.test/")),
            ("httpsGETa.test/b?c=d", Some("https://a.test/b?c=d")),
            ("httpsHEADa.test/", None),
            ("httpsGET/b", None),
            ("httpsGETa.test", None),
            ("ftpGETa.test/", None),
            ("", None),
        ] {
            assert_eq!(nginx_key_url(key).as_deref(), url, "{key}");
        }
    }
}
