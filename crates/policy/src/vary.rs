//! `Vary`: whether the key already distinguishes everything on which a response says that it depends.
//!
//! Only responses to trimmed requests are stored, and what those carry is a function of the key. So a field that a trimmed
//! request sends as a constant of its key is covered. Any other field, and `*` anywhere in the list, is not (RFC 9111 §4.1,
//! RFC 9110 §12.5.5). With the WordPress preset there are no variants by other fields; such a response is not stored.
//! Without a preset each variant has an entry, found by what [`Selecting`] writes.

mod selecting;

use smallvec::SmallVec;

pub use self::selecting::{LONGEST_SELECTION, Selecting};
use crate::site::VaryPolicy;

/// All `Vary` lines of a response as one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vary {
    /// `*`, or a member that is not a field name: no other request is like the one that was asked.
    Any,
    /// The named fields, in order, lower case; empty without `Vary`.
    Fields(SmallVec<[http::HeaderName; 4]>),
}

impl Vary {
    /// Reads all lines. Never fails: an invalid field name counts as `*`.
    pub fn parse<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut names = SmallVec::new();
        for member in lines
            .flat_map(|line| line.split(|&byte| byte == b','))
            .map(<[u8]>::trim_ascii)
        {
            if member.is_empty() {
                continue;
            }
            // `*` is a token too, so it has to be looked for before names are.
            match http::HeaderName::from_bytes(member) {
                Ok(name) if member != b"*" => names.push(name),
                _ => return Self::Any,
            }
        }
        Self::Fields(names)
    }

    /// The same, from a response's fields.
    pub fn of(fields: &http::HeaderMap) -> Self {
        Self::parse(
            fields
                .get_all(http::header::VARY)
                .iter()
                .map(http::HeaderValue::as_bytes),
        )
    }

    /// The names in the order in which variants are stored: sorted, each once. Empty for `*`, and if there is none.
    pub fn names(&self) -> Vec<http::HeaderName> {
        let Self::Fields(names) = self else {
            return Vec::new();
        };
        let mut names = names.to_vec();
        names.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        names
    }

    /// Whether requests differ in the fields that they send upstream: not if `*` or Galley's own name for a client is among
    /// them, and not by `User-Agent`, of which there are as many as clients.
    pub fn is_selectable(&self) -> bool {
        match self {
            Self::Any => false,
            Self::Fields(names) => !names
                .iter()
                .any(|name| OF_ONE_CLIENT.contains(&name.as_str())),
        }
    }

    /// Whether equal keys mean equal values of every named field.
    ///
    /// Departs: RFC 9111 §4.1 compares the fields of the two clients' requests; we compare those of the trimmed
    /// requests that were really sent, which equal keys make equal.
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

/// Upstream requests accept identity only, and Galley chooses codings.
const COVERED_ALWAYS: &[http::HeaderName] = &[http::header::ACCEPT_ENCODING];

/// What names the client that happened to ask first, or nearly.
const OF_ONE_CLIENT: &[&str] = &["user-agent", "x-forwarded-for", "x-real-ip", "x-request-id"];

/// Cookies: the vary class alone goes up, and is in the key. User-Agent: one per device class. Accept: one per class.
/// Origin: never sent, requests with a foreign one pass.
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
    fn covered_or_not() {
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
