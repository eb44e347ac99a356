//! The qualified forms `no-cache="a, b"` and `private="a"` (RFC 9111 §5.2.2.4 and §5.2.2.7).
//!
//! These forms restrict only the use of the named fields, so a cache may store the rest. A cache that does not split responses
//! treats them as the plain forms. One plain form among them makes all plain, and so does a list with anything other than
//! field names: in doubt, the whole response is restricted.

use http::HeaderName;

use crate::fields;

/// The names in the directives read so far.
#[derive(Default)]
pub(super) struct QualifiedNames {
    names: Vec<HeaderName>,
    has_plain: bool,
}

impl QualifiedNames {
    /// Reads one directive.
    pub(super) fn read(&mut self, member: &[u8]) {
        let (name, value) = fields::name_value(member);
        let restricts =
            name.eq_ignore_ascii_case(b"no-cache") || name.eq_ignore_ascii_case(b"private");
        if !restricts {
            // `private; x` and similar: an invalid name still restricts, as in `CacheControl::read_member`.
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
                Ok(listed) if self.names.len() < MAX_NAMES => self.names.push(listed),
                _ => is_readable = false,
            }
        }
        self.has_plain |= !is_readable || self.names.len() == before;
    }

    /// The names in all directives; empty if one of them was a plain form.
    pub(super) fn names(self) -> Vec<HeaderName> {
        if self.has_plain {
            Vec::new()
        } else {
            self.names
        }
    }
}

/// The maximum number of names. With more, the directives count as plain.
const MAX_NAMES: usize = 32;

#[cfg(test)]
mod tests {
    use crate::cache_control::CacheControl;

    #[test]
    fn a_plain_or_invalid_form_makes_all_plain() {
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
