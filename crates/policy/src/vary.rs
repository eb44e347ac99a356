//! `Vary`: whether the key already distinguishes all fields on which a response depends.
//!
//! Only responses to trimmed requests are stored, and the fields of these depend only on the key. So a field is covered if its
//! value in a trimmed request depends only on the key. Any other field, and `*` anywhere in the list, is not covered (RFC 9111
//! §4.1, RFC 9110 §12.5.5). With the WordPress preset there are no variants by other fields; such a response is not stored.
//! Without a preset each variant has an entry, found by the selection that [`Selecting`] writes.

mod selecting;

use smallvec::SmallVec;

pub use self::selecting::{MAX_SELECTION, Selecting};
use crate::site::VaryPolicy;

/// All `Vary` lines of a response, as one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vary {
    /// `*`, or a member that is not a field name: no other request may use the response.
    Any,
    /// The named fields in their order, in lower case; empty without `Vary`.
    Fields(SmallVec<[http::HeaderName; 4]>),
}

impl Vary {
    /// Parses all lines. Never fails: an invalid field name counts as `*`.
    pub fn parse<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut names = SmallVec::new();
        for member in lines
            .flat_map(|line| line.split(|&byte| byte == b','))
            .map(<[u8]>::trim_ascii)
        {
            if member.is_empty() {
                continue;
            }
            // `*` is a valid token, so the member must be compared with it as well.
            match http::HeaderName::from_bytes(member) {
                Ok(name) if member != b"*" => names.push(name),
                _ => return Self::Any,
            }
        }
        Self::Fields(names)
    }

    /// Parses the `Vary` of a response.
    pub fn of(fields: &http::HeaderMap) -> Self {
        Self::parse(
            fields
                .get_all(http::header::VARY)
                .iter()
                .map(http::HeaderValue::as_bytes),
        )
    }

    /// The names in the order in which variants are stored: sorted, without duplicates. Empty for `*`, and without `Vary`.
    pub fn names(&self) -> Vec<http::HeaderName> {
        let Self::Fields(names) = self else {
            return Vec::new();
        };
        let mut names = names.to_vec();
        names.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        names
    }

    /// Whether variants can be selected by the named fields: not with `*`, nor with a field that Galley sets for each client,
    /// nor with `User-Agent`, which has about as many values as there are clients.
    pub fn is_selectable(&self) -> bool {
        match self {
            Self::Any => false,
            Self::Fields(names) => !names
                .iter()
                .any(|name| CLIENT_FIELDS.contains(&name.as_str())),
        }
    }

    /// Whether requests with the same key have equal values of every named field.
    ///
    /// Departs: RFC 9111 §4.1 compares the fields of the two clients' requests. Galley compares those of the trimmed requests
    /// that were sent, which are equal for equal keys.
    pub fn is_covered_by_key(&self, policy: VaryPolicy) -> bool {
        let covered: &[http::HeaderName] = match policy {
            VaryPolicy::CoveredByKey => COVERED_FOR_WORDPRESS,
            VaryPolicy::Variants => COVERED_ALWAYS,
        };
        match self {
            Self::Any => false,
            Self::Fields(names) => names.iter().all(|name| covered.contains(name)),
        }
    }
}

/// Galley sends `Accept-Encoding: identity` to upstreams, and selects codings itself.
const COVERED_ALWAYS: &[http::HeaderName] = &[http::header::ACCEPT_ENCODING];

/// Fields that identify the client of the fetch, or nearly.
const CLIENT_FIELDS: &[&str] = &["user-agent", "x-forwarded-for", "x-real-ip", "x-request-id"];

/// `Cookie`: only vary cookies are sent upstream, and they are in the key. `User-Agent`: one per device class. `Accept`: one per
/// class. `Origin`: never sent, and requests with a foreign one pass.
const COVERED_FOR_WORDPRESS: &[http::HeaderName] = &[
    http::header::ACCEPT_ENCODING,
    http::header::COOKIE,
    http::header::USER_AGENT,
    http::header::ACCEPT,
    http::header::ORIGIN,
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_are_covered_or_not() {
        // lines, covered for WordPress, covered without a preset
        let table: &[(&[&str], bool, bool)] = &[
            (&[], true, true),
            (&[""], true, true),
            (&["Accept-Encoding"], true, true),
            (&["accept-encoding, Cookie"], true, false),
            (
                &["Accept-Encoding,User-Agent", "Accept , ORIGIN"],
                true,
                false,
            ),
            (&["Cookie"], true, false),
            (&["*"], false, false),
            (&["*, *"], false, false),
            (&[", *"], false, false),
            (&["Accept-Encoding, *"], false, false),
            (&["Accept-Encoding", "*"], false, false),
            (&["Accept-Language"], false, false),
            (&["Accept-Encoding, X-Forwarded-Proto"], false, false),
            (&["Accept Encoding"], false, false),
            (&["\"Accept-Encoding\""], false, false),
        ];
        for (lines, wordpress, none) in table {
            let vary = Vary::parse(lines.iter().map(|line| line.as_bytes()));
            assert_eq!(
                vary.is_covered_by_key(VaryPolicy::CoveredByKey),
                *wordpress,
                "{lines:?}"
            );
            assert_eq!(
                vary.is_covered_by_key(VaryPolicy::Variants),
                *none,
                "{lines:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_star_is_never_covered(before in "[a-z, -]{0,20}", after in "[a-z, -]{0,20}") {
            let line = format!("{before},*,{after}");
            prop_assert_eq!(Vary::parse(std::iter::once(line.as_bytes())), Vary::Any);
        }

        #[test]
        fn never_panics(line in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Vary::parse(std::iter::once(&line[..])).is_covered_by_key(VaryPolicy::Variants);
        }
    }
}
