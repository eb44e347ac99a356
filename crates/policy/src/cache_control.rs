//! Cache directives of a response or request, read strictly: an ambiguous directive counts as the stricter one.
//!
//! [`CacheControl::parse`] reads `Cache-Control` (RFC 9111 §5.2) and fields of the same form;
//! [`CacheControl::parse_targeted`] reads the targeted fields of RFC 9213, which are structured fields and are ignored as a
//! whole when malformed. Names match whole tokens (`x-private` is not `private`), commas inside quoted strings do not
//! separate, the smallest of several lifetimes counts, and a lifetime that is not a number is zero. [`crate::storable`] and
//! [`crate::freshness`] evaluate the directives.

pub(crate) mod dictionary;
mod qualified;

use http::HeaderName;
use std::time::Duration;

use crate::classes;

/// The directives that Galley knows, of all lines of one field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheControl {
    /// The response must not be stored.
    pub no_store: bool,
    /// The response must be validated before each use; the qualified form `no-cache="x"` counts as well.
    pub no_cache: bool,
    /// The response is not for shared caches; the qualified form counts as well.
    pub private: bool,
    /// The fields to which every `no-cache` and `private` is confined (RFC 9111 §5.2.2.4, §5.2.2.7); empty if one of them is
    /// plain, or has a list with anything other than field names.
    pub confined_to: Vec<HeaderName>,
    /// The response may be stored although another rule would forbid it.
    pub public: bool,
    /// The response must never be used stale, not even on errors.
    pub must_revalidate: bool,
    /// As `must_revalidate`, for shared caches.
    pub proxy_revalidate: bool,
    /// Store only if the status is understood, and then in spite of `no-store` (RFC 9111 §5.2.2.3).
    pub must_understand: bool,
    /// The response must be a stored one (in requests).
    pub only_if_cached: bool,
    /// The lifetime.
    pub max_age: Option<Duration>,
    /// The lifetime for shared caches.
    pub s_maxage: Option<Duration>,
    /// How long the response may be used stale while it is refreshed (RFC 5861 §3).
    pub stale_while_revalidate: Option<Duration>,
    /// How long the response may be used stale on errors (RFC 5861 §4).
    pub stale_if_error: Option<Duration>,
}

impl CacheControl {
    /// Reads all lines of `Cache-Control`, or of a field of the same form. Never fails.
    pub fn parse<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut control = Self::default();
        let mut confined = qualified::QualifiedNames::default();
        for line in lines {
            for_each_member(line, |member| {
                control.read_member(member);
                confined.read(member);
            });
        }
        control.confined_to = confined.names();
        control
    }

    /// Reads all lines of `Surrogate-Control` (Edge Architecture 1.0): `max-age=60+30` is a lifetime, and how long the response may
    /// be used stale while it is refreshed. A directive for any surrogate (`;name`) counts as one for this cache.
    pub fn parse_surrogate<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut control = Self::default();
        for line in lines {
            for_each_member(line, |member| {
                let mut parts = member
                    .split(|&byte| byte == b';')
                    .next()
                    .unwrap_or_default()
                    .splitn(2, |&b| b == b'+');
                control.read_member(parts.next().unwrap_or_default().trim_ascii());
                if let Some(extension) = parts.next() {
                    smallest(
                        &mut control.stale_while_revalidate,
                        delta_seconds(extension.trim_ascii()).unwrap_or_default(),
                    );
                }
            });
        }
        control
    }

    /// As [`Self::parse_surrogate`], but by the specification: a directive for another surrogate is ignored, and directives for
    /// this cache by name take precedence over those for all. `None`: there are none for this cache.
    pub fn parse_surrogate_for(lines: &[&[u8]], name: &[u8]) -> Option<Self> {
        let addressed = |wanted: Option<&[u8]>| {
            let mut control = None;
            for line in lines {
                for_each_member(line, |member| {
                    let mut parts = member.splitn(2, |&byte| byte == b';');
                    let directive = parts.next().unwrap_or_default().trim_ascii();
                    if parts.next().map(<[u8]>::trim_ascii) == wanted && !directive.is_empty() {
                        control
                            .get_or_insert_with(Self::default)
                            .read_member(directive);
                    }
                });
            }
            control
        };
        addressed(Some(name)).or_else(|| addressed(None))
    }

    /// Whether all `no-cache` and `private` directives are confined to the fields that they name.
    pub fn is_confined(&self) -> bool {
        !self.confined_to.is_empty()
    }

    /// Reads all lines of a targeted field (RFC 9213 §2.1). `None`: the field is absent, empty or malformed, and counts as absent.
    pub fn parse_targeted<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let mut joined = Vec::new();
        for line in lines {
            if !joined.is_empty() {
                joined.extend_from_slice(b", ");
            }
            joined.extend_from_slice(line);
        }
        let members = dictionary::parse(&joined)?;
        let mut control = Self::default();
        for (name, value) in &members {
            match value {
                dictionary::DictionaryValue::Flag(false) => {}
                dictionary::DictionaryValue::Flag(true) => control.set(name.as_bytes(), None),
                dictionary::DictionaryValue::Integer(n) => {
                    control.set(
                        name.as_bytes(),
                        Some(Duration::from_secs(
                            u64::try_from(*n).unwrap_or(0).min(MAX_SECONDS),
                        )),
                    );
                }
                // A lifetime of the wrong type counts as zero; a restriction applies whatever its value.
                dictionary::DictionaryValue::Text(_)
                | dictionary::DictionaryValue::Texts(_)
                | dictionary::DictionaryValue::Other => {
                    control.set(name.as_bytes(), Some(Duration::ZERO));
                }
            }
        }
        (!members.is_empty()).then_some(control)
    }

    /// The lifetime for a shared cache: `s-maxage`, otherwise `max-age` (RFC 9111 §4.2.1).
    pub fn shared_lifetime(&self) -> Option<Duration> {
        self.s_maxage.or(self.max_age)
    }

    fn read_member(&mut self, member: &[u8]) {
        let end = member
            .iter()
            .position(|&byte| !classes::is_token_byte(byte))
            .unwrap_or(member.len());
        let (name, rest) = member.split_at(end);
        let value = match rest {
            [b'=', value @ ..] => delta_seconds(value),
            // `max-age` without a value, or with a blank before its `=`.
            _ => None,
        };
        self.set(name, value);
    }

    /// Sets one directive. `value`: the value of a lifetime; `None` if it is not a number.
    fn set(&mut self, name: &[u8], value: Option<Duration>) {
        let mut lower = [0; MAX_NAME];
        let Some(lower) = lower.get_mut(..name.len()) else {
            return;
        };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let lifetime = value.unwrap_or_default();
        match &*lower {
            b"no-store" => self.no_store = true,
            b"no-cache" => self.no_cache = true,
            b"private" => self.private = true,
            b"public" => self.public = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"must-understand" => self.must_understand = true,
            b"only-if-cached" => self.only_if_cached = true,
            b"max-age" => smallest(&mut self.max_age, lifetime),
            b"s-maxage" => smallest(&mut self.s_maxage, lifetime),
            b"stale-while-revalidate" => smallest(&mut self.stale_while_revalidate, lifetime),
            b"stale-if-error" => smallest(&mut self.stale_if_error, lifetime),
            _ => {}
        }
    }
}

/// Parses `delta-seconds` (RFC 9111 §1.2.2), plain or in double quotes; larger values are 2^31. `None` for anything else.
pub(crate) fn delta_seconds(value: &[u8]) -> Option<Duration> {
    let digits = match value {
        [b'"', quoted @ .., b'"'] => quoted,
        plain => plain,
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let seconds = digits.iter().fold(0_u64, |sum, digit| {
        sum.saturating_mul(10)
            .saturating_add(u64::from(digit.saturating_sub(b'0')))
    });
    Some(Duration::from_secs(seconds.min(MAX_SECONDS)))
}

/// Calls `each` with every member between commas, trimmed. A comma inside a quoted string does not separate, unless the
/// string is malformed: a directive could hide in it, so its quotes are ignored.
fn for_each_member<'a>(line: &'a [u8], mut each: impl FnMut(&'a [u8])) {
    let mut rest = line;
    while !rest.is_empty() {
        let end = member_end(rest)
            .unwrap_or_else(|| rest.iter().position(|&b| b == b',').unwrap_or(rest.len()));
        let (member, after) = rest.split_at(end);
        each(member.trim_ascii());
        rest = after.get(1..).unwrap_or_default();
    }
}

/// The end of the first member; `None` if a quoted string in it has no end, or invalid text before or after it.
fn member_end(rest: &[u8]) -> Option<usize> {
    let mut position = 0;
    loop {
        match rest.get(position) {
            None | Some(b',') => return Some(position),
            Some(b'"') => {
                let opens_value =
                    position.checked_sub(1).and_then(|before| rest.get(before)) == Some(&b'=');
                position = string_end(rest, position.checked_add(1)?).filter(|_| opens_value)?;
            }
            Some(_) => position = position.checked_add(1)?,
        }
    }
}

/// The position after the closing quote of a quoted string whose content begins at `start`, if a member may end there.
fn string_end(rest: &[u8], start: usize) -> Option<usize> {
    let mut bytes = rest.iter().enumerate().skip(start);
    while let Some((position, &byte)) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'"' => {
                let after = rest.get(position.checked_add(1)?..)?;
                let next = after.trim_ascii_start().first();
                return matches!(next, None | Some(b',' | b';'))
                    .then(|| position.saturating_add(1));
            }
            _ => {}
        }
    }
    None
}

fn smallest(slot: &mut Option<Duration>, value: Duration) {
    *slot = Some(slot.map_or(value, |before| before.min(value)));
}

/// 2^31, the value for all larger ones (RFC 9111 §1.2.2).
pub(crate) const MAX_SECONDS: u64 = 1 << 31;

/// The maximum length of a known directive.
const MAX_NAME: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(lines: &[&str]) -> CacheControl {
        CacheControl::parse(lines.iter().map(|line| line.as_bytes()))
    }

    fn targeted(text: &str) -> Option<CacheControl> {
        CacheControl::parse_targeted(std::iter::once(text.as_bytes()))
    }

    #[test]
    fn lifetimes_are_parsed() {
        let table: &[(&[&str], Option<u64>)] = &[
            (&[], None),
            (&["max-age=60"], Some(60)),
            (&["MAX-AGE=60"], Some(60)),
            (&["  max-age=60  "], Some(60)),
            (&["public,max-age=60,foo"], Some(60)),
            (&["max-age=0060"], Some(60)),
            (&["max-age=\"60\""], Some(60)),
            (&["max-age=60, max-age=30"], Some(30)),
            (&["max-age=30", "max-age=60"], Some(30)),
            (&["max-age=60, max-age=x"], Some(0)),
            (&["max-age"], Some(0)),
            (&["max-age="], Some(0)),
            (&["max-age=-1"], Some(0)),
            (&["max-age=1.5"], Some(0)),
            (&["max-age='60'"], Some(0)),
            (&["max-age=60s"], Some(0)),
            (&["max-age =60"], Some(0)),
            (&["max-age= 60"], Some(0)),
            (&["max-age=60;private"], Some(0)),
            (&["max-age=2147483649"], Some(1 << 31)),
            (&["max-age=99999999999999999999999999"], Some(1 << 31)),
            (&["x-max-age=60"], None),
            (&["max-agex=60"], None),
            (&["foo=\"max-age=60\""], None),
            (&["foo=\"a, max-age=60, b\""], None),
            (&["foo=\"a\\\", max-age=60, b\""], None),
        ];
        for (lines, wanted) in table {
            assert_eq!(
                parse(lines).max_age,
                wanted.map(Duration::from_secs),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn restrictions_are_parsed() {
        let table: &[(&str, bool, bool, bool)] = &[
            ("no-store", true, false, false),
            ("No-Store, PRIVATE", true, false, true),
            ("no-cache", false, true, false),
            ("no-cache=\"set-cookie, foo\"", false, true, false),
            ("private=\"x\"", false, false, true),
            (
                "x-private-foo, no-storefront, xno-cache",
                false,
                false,
                false,
            ),
            ("foo=\"private, no-store\"", false, false, false),
            ("foo=\"bar, no-store", true, false, false),
            ("foo=\"bar, x=\"y\", private, z=\"", false, false, true),
            ("foo=\"a\" \"b, private\"", false, false, true),
            ("\"a, private\"", false, false, true),
            ("private; max-age=60", false, false, true),
            ("no-store=1", true, false, false),
            (",, ,no-store,,", true, false, false),
        ];
        for (text, no_store, no_cache, private) in table {
            let found = parse(&[text]);
            assert_eq!(
                (found.no_store, found.no_cache, found.private),
                (*no_store, *no_cache, *private),
                "{text}"
            );
        }
    }

    #[test]
    fn every_directive_sets_its_field() {
        let text = "public, must-revalidate, proxy-revalidate, must-understand, only-if-cached, s-maxage=2, \
                    stale-while-revalidate=3, stale-if-error=4, no-store, no-cache, private, max-age=1";
        let wanted = CacheControl {
            no_store: true,
            no_cache: true,
            private: true,
            public: true,
            must_revalidate: true,
            proxy_revalidate: true,
            must_understand: true,
            only_if_cached: true,
            max_age: Some(Duration::from_secs(1)),
            s_maxage: Some(Duration::from_secs(2)),
            stale_while_revalidate: Some(Duration::from_secs(3)),
            stale_if_error: Some(Duration::from_secs(4)),
            confined_to: Vec::new(),
        };
        assert_eq!(parse(&[text]), wanted);
        assert_eq!(targeted(text).as_ref(), Some(&wanted));
        assert_eq!(wanted.shared_lifetime(), Some(Duration::from_secs(2)));
    }

    #[test]
    fn surrogate_extensions_are_parsed() {
        let parse = |text: &str| CacheControl::parse_surrogate(std::iter::once(text.as_bytes()));
        let plain = parse("content=\"ESI/1.0\", max-age=60");
        assert_eq!(
            (plain.max_age, plain.stale_while_revalidate),
            (Some(Duration::from_secs(60)), None)
        );
        let extended = parse("max-age=60+30;edge, no-store");
        assert_eq!(extended.max_age, Some(Duration::from_secs(60)));
        assert_eq!(
            extended.stale_while_revalidate,
            Some(Duration::from_secs(30))
        );
        assert!(extended.no_store);
        assert_eq!(
            parse("max-age=60+x").stale_while_revalidate,
            Some(Duration::ZERO)
        );
    }

    #[test]
    fn targeted_fields_are_structured_fields() {
        let age = |seconds| CacheControl {
            max_age: Some(Duration::from_secs(seconds)),
            ..CacheControl::default()
        };
        let table = [
            ("max-age=60", Some(age(60))),
            ("max-age=60;x=\"y\", foo=?0, bar=(1 2)", Some(age(60))),
            ("max-age=60, max-age=90", Some(age(90))),
            ("max-age=\"60\"", Some(age(0))),
            ("max-age=-5", Some(age(0))),
            ("max-age=1.5", Some(age(0))),
            ("no-store=?0, max-age=60", Some(age(60))),
            (
                "no-store",
                Some(CacheControl {
                    no_store: true,
                    ..CacheControl::default()
                }),
            ),
            ("", None),
            ("  ", None),
            ("MAX-AGE=60", None),
            ("max-age=60,", None),
            ("max-age=60 no-store", None),
            ("max-age==60", None),
            ("max-age=\"60", None),
            ("max-age=9999999999999999", None),
        ];
        for (text, wanted) in table {
            assert_eq!(targeted(text), wanted, "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(line in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = CacheControl::parse(std::iter::once(&line[..]));
            let _ = CacheControl::parse_targeted(std::iter::once(&line[..]));
        }

        /// A plain restriction on a separate line is found whatever the line before it contains.
        #[test]
        fn no_store_on_its_own_line_always_counts(line in "[a-z=\",\\\\ ;0-9-]{0,40}") {
            let found = CacheControl::parse([line.as_bytes(), b"no-store"].into_iter());
            prop_assert!(found.no_store);
        }
    }
}
