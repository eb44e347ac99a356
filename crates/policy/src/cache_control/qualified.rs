//! The qualified forms `no-cache="a, b"` and `private="a"` (RFC 9111 §5.2.2.4 and §5.2.2.7).
//!
//! They forbid only the use of the named fields, so a cache may keep the rest. A cache that does not split responses treats
//! them as the plain forms. One plain form among them makes all plain, and so does a list that does not consist of field
//! names: if in doubt, the whole response is meant.

use http::HeaderName;

use crate::fields;

/// The names found so far.
#[derive(Default)]
pub(super) struct Confined {
    names: Vec<HeaderName>,
    has_plain: bool,
}

impl Confined {
    /// Looks at one directive.
    pub(super) fn take(&mut self, member: &[u8]) {
        let (name, value) = fields::name_value(member);
        let restricts =
            name.eq_ignore_ascii_case(b"no-cache") || name.eq_ignore_ascii_case(b"private");
        if !restricts {
            // `private; x` and similar: an invalid name still restricts, see `CacheControl::take`.
            let begins = |text: &[u8]| {
                name.get(..text.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(text))
            };
            self.has_plain |= begins(b"no-cache") || begins(b"private");
            return;
        }
        let before = self.names.len();
        let mut is_readable = member.ends_with(b"\"");
        for listed in value.unwrap_or_default().split(|&byte| byte == b',') {
            match HeaderName::from_bytes(listed.trim_ascii()) {
                Ok(listed) if self.names.len() < MOST_NAMES => self.names.push(listed),
                _ => is_readable = false,
            }
        }
        self.has_plain |= !is_readable || self.names.len() == before;
    }

    /// All of them; empty where a plain form was among the directives.
    pub(super) fn names(self) -> Vec<HeaderName> {
        if self.has_plain {
            Vec::new()
        } else {
            self.names
        }
    }
}

/// A response that names more is not worth taking apart.
const MOST_NAMES: usize = 32;

#[cfg(test)]
mod tests {
    use crate::cache_control::CacheControl;

    #[test]
    fn fields_are_named_or_all_is_meant() {
        let table: &[(&[&str], &[&str])] = &[
            (&["max-age=1"], &[]),
            (&["no-cache=\"a\""], &["a"]),
            (&["No-Cache=\"A, b\", max-age=1"], &["a", "b"]),
            (&["no-cache=\"a\"", "private=\"c\""], &["a", "c"]),
            (&["no-cache=\"a\", no-cache"], &[]),
            (&["private, no-cache=\"a\""], &[]),
            (&["no-cache=a"], &[]),
            (&["no-cache=\"\""], &[]),
            (&["no-cache=\"a b\""], &[]),
            (&["no-cache=\"a,\""], &[]),
            (&["private; x, no-cache=\"a\""], &[]),
            (&["x-no-cache=\"a\""], &[]),
        ];
        for (lines, wanted) in table {
            let control = CacheControl::parse(lines.iter().map(|line| line.as_bytes()));
            let names: Vec<&str> = control
                .confined_to
                .iter()
                .map(http::HeaderName::as_str)
                .collect();
            assert_eq!(names, *wanted, "{lines:?}");
        }
    }
}
