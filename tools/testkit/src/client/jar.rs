//! The cookies of one host, stored by name and path as in a browser, and deleted by `Max-Age=0`.

use std::collections::BTreeMap;

use super::Response;

/// The cookies of one host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CookieJar {
    /// (path, name) to value.
    cookies: BTreeMap<(String, String), String>,
}

impl CookieJar {
    /// Creates an empty jar.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies the `Set-Cookie` fields of a response.
    pub fn store(&mut self, response: &Response) {
        for line in response.all("set-cookie") {
            self.store_line(line);
        }
    }

    fn store_line(&mut self, line: &str) {
        let mut parts = line.split(';').map(str::trim);
        let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else {
            return;
        };
        let (mut path, mut is_expired) = ("/".to_owned(), false);
        for attribute in parts {
            let (key, value) = attribute.split_once('=').unwrap_or((attribute, ""));
            if key.eq_ignore_ascii_case("path") && value.starts_with('/') {
                value.clone_into(&mut path);
            } else if key.eq_ignore_ascii_case("max-age") {
                is_expired = value.parse::<i64>().is_ok_and(|seconds| seconds <= 0);
            }
        }
        let key = (path, name.to_owned());
        if is_expired {
            self.cookies.remove(&key);
        } else {
            self.cookies.insert(key, value.to_owned());
        }
    }

    /// Sets a cookie for all paths.
    pub fn set(&mut self, name: &str, value: &str) {
        self.cookies
            .insert(("/".to_owned(), name.to_owned()), value.to_owned());
    }

    /// The value of the first cookie whose name starts with `prefix`: WordPress appends a hash to its cookie names.
    pub fn starting_with(&self, prefix: &str) -> Option<&str> {
        self.cookies
            .iter()
            .find(|((_, name), _)| name.starts_with(prefix))
            .map(|(_, value)| value.as_str())
    }

    /// The `Cookie` field for a target; `None` if no cookie matches it. Longer paths are first (RFC 6265 section 5.4).
    pub fn field(&self, target: &str) -> Option<String> {
        let path = target.split('?').next().unwrap_or(target);
        let mut all: Vec<_> = self
            .cookies
            .iter()
            .filter(|((cookie_path, _), _)| path_matches(cookie_path, path))
            .collect();
        all.sort_by_key(|((cookie_path, _), _)| std::cmp::Reverse(cookie_path.len()));
        let pairs: Vec<String> = all
            .into_iter()
            .map(|((_, name), value)| format!("{name}={value}"))
            .collect();
        if pairs.is_empty() {
            None
        } else {
            Some(pairs.join("; "))
        }
    }
}

/// Path matching of RFC 6265 section 5.1.4.
fn path_matches(cookie_path: &str, path: &str) -> bool {
    path.strip_prefix(cookie_path)
        .is_some_and(|rest| rest.is_empty() || cookie_path.ends_with('/') || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_stored_sent_and_deleted() {
        let mut jar = CookieJar::new();
        jar.store_line("a=1; path=/; HttpOnly");
        jar.store_line("b=2; Path=/wp-admin");
        jar.store_line("c=x=y");
        jar.store_line("nonsense");
        let rows = [
            ("/", Some("a=1; c=x=y")),
            ("/wp-admin", Some("b=2; a=1; c=x=y")),
            ("/wp-admin/post.php?x=/wp", Some("b=2; a=1; c=x=y")),
            ("/wp-administrator", Some("a=1; c=x=y")),
        ];
        for (target, expected) in rows {
            assert_eq!(jar.field(target).as_deref(), expected, "{target}");
        }
        jar.store_line("a=+; expires=Thu, 01-Jan-1970 00:00:01 GMT; Max-Age=0; path=/");
        jar.store_line("c=; Max-Age=-5");
        assert_eq!(jar.field("/"), None);
        assert_eq!(jar.starting_with("b"), Some("2"));
    }
}
