//! The entry for a response that could not be stored.
//!
//! A hit-for-pass entry replaces the page for a while, so that requests for it bypass the cache at once. For `galley why` it
//! contains the reason and the response fields that caused it; of cookies only the names. Requests do not read it.

use galley_cache::body::StoredBody;
use galley_cache::entry::{Entry, EntryKind, EntryParts};
use galley_policy::outcome::NotStored;
use galley_policy::site::Policy;
use galley_policy::storable::Lifetime;
use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue, SET_COOKIE};

use super::Storer;
use crate::PageJob;
use crate::entry_parts::scopes;
use crate::in_progress::InProgressFetch;

/// Why an address bypasses the cache.
pub struct PassReason {
    /// The reason.
    pub why: NotStored,
    /// The status of the response.
    pub status: StatusCode,
    /// The names of the cookies that were the reason, at most [`MAX_COOKIES`].
    pub cookies: Vec<String>,
    /// The fields that may be the reason, without cookies.
    pub fields: Vec<(String, String)>,
}

/// The contents of a hit-for-pass entry; `None` for another entry.
pub fn reason(entry: &Entry) -> Option<PassReason> {
    if entry.kind != EntryKind::HitForPass {
        return None;
    }
    let word = entry.fields.get(&WHY)?.as_bytes();
    let why = NotStored::ALL
        .iter()
        .copied()
        .find(|why| why.word().as_bytes() == word)?;
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let cookies = entry.fields.get_all(SET_COOKIE).iter();
    let fields = entry.fields.iter();
    Some(PassReason {
        why,
        status: entry.status,
        cookies: cookies.map(text).collect(),
        fields: fields
            .filter(|(name, _)| **name != WHY && **name != SET_COOKIE)
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect(),
    })
}

/// A response that could not be stored.
pub(crate) struct Uncacheable<'a> {
    pub(crate) why: NotStored,
    pub(crate) status: StatusCode,
    pub(crate) fields: &'a HeaderMap,
}

impl Storer {
    /// Records that the page may not be stored, so that the next request for it bypasses the cache at once.
    pub(crate) fn store_hit_for_pass(
        &self,
        job: &PageJob,
        in_progress: &InProgressFetch,
        uncacheable: &Uncacheable<'_>,
    ) {
        in_progress.set_not_stored(uncacheable.why);
        let lifetime = job.storage().hit_for_pass;
        self.store(
            job,
            in_progress,
            EntryParts {
                key: self.fetch_key(job),
                kind: EntryKind::HitForPass,
                status: uncacheable.status,
                fields: evidence(uncacheable.why, uncacheable.fields, &job.site.policy),
                body: StoredBody::default(),
                stored_at: self.clock.tick(),
                lifetime: Lifetime {
                    fresh: lifetime,
                    ..Lifetime::default()
                },
                scopes: scopes(&job.info, Vec::new()),
                tags: Vec::new(),
                born: in_progress.born.get(),
            },
        );
    }
}

/// The fields of the entry, which give the reason. Their size is limited for any response.
fn evidence(why: NotStored, response: &HeaderMap, policy: &Policy) -> HeaderMap {
    let mut fields = HeaderMap::new();
    fields.insert(WHY, HeaderValue::from_static(why.word()));
    for name in REASON_FIELDS {
        if let Some(value) = response.get(*name).and_then(|value| cut(value.as_bytes())) {
            fields.insert(HeaderName::from_static(name), value);
        }
    }
    let names = COOKIES
        .iter()
        .flat_map(|name| response.get_all(*name))
        .map(|value| cookie_name(value.as_bytes()));
    let reasons = names.filter(|name| !policy.harmless_cookies.iter().any(|p| p.matches(name)));
    for name in reasons.take(MAX_COOKIES) {
        let is_new = fields
            .get_all(SET_COOKIE)
            .iter()
            .all(|known| known.as_bytes() != name);
        if let Some(name) = cut(name).filter(|_| is_new) {
            fields.append(SET_COOKIE, name);
        }
    }
    fields
}

/// The name of a cookie; its value is confidential.
fn cookie_name(line: &[u8]) -> &[u8] {
    let end = line.iter().position(|byte| matches!(byte, b'=' | b';'));
    line.get(..end.unwrap_or(line.len()))
        .unwrap_or_default()
        .trim_ascii()
}

fn cut(value: &[u8]) -> Option<HeaderValue> {
    HeaderValue::from_bytes(value.get(..MAX_BYTES).unwrap_or(value)).ok()
}

/// The reason, in the entry only; never sent.
const WHY: HeaderName = HeaderName::from_static("galley-not-stored");

/// The fields that may be the reason.
const REASON_FIELDS: &[&str] = &[
    "cache-control",
    "content-length",
    "content-range",
    "content-type",
    "expires",
    "location",
    "retry-after",
    "vary",
    "galley-cache-control",
    "cdn-cache-control",
    "surrogate-control",
    "x-litespeed-cache-control",
    "x-accel-expires",
];

/// The fields that set cookies, as in `galley_policy::storable`.
const COOKIES: &[&str] = &["set-cookie", "set-cookie2", "lsc-cookie"];

/// The maximum number of recorded cookie names; the first few identify the plugin.
pub const MAX_COOKIES: usize = 8;

/// The maximum size of a recorded field value, in bytes.
const MAX_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use galley_policy::site::NamePattern;
    use http::header::{CACHE_CONTROL, SERVER, VARY};

    #[test]
    fn only_the_names_of_cookies_are_recorded() {
        let mut response = HeaderMap::new();
        for line in ["PHPSESSID=secret; path=/", "theme=dark", "PHPSESSID=other"] {
            response.append(SET_COOKIE, HeaderValue::from_static(line));
        }
        response.insert(CACHE_CONTROL, HeaderValue::from_static("private"));
        response.insert(SERVER, HeaderValue::from_static("x"));
        let site = Policy {
            harmless_cookies: vec![NamePattern::parse("theme")],
            ..Policy::default()
        };
        let fields = evidence(NotStored::SetCookie, &response, &site);
        let to_store: Vec<(&str, &str)> = fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        assert_eq!(
            to_store,
            [
                ("galley-not-stored", "set-cookie"),
                ("cache-control", "private"),
                ("set-cookie", "PHPSESSID"),
            ]
        );
    }

    #[test]
    fn a_hit_for_pass_entry_is_small_for_any_response() {
        let mut response = HeaderMap::new();
        for number in 0..100 {
            let line = format!("{}{number}=x", "n".repeat(400));
            response.append(SET_COOKIE, line.parse().unwrap());
        }
        response.insert(VARY, "v".repeat(5_000).parse().unwrap());
        let fields = evidence(NotStored::Vary, &response, &Policy::default());
        assert!(fields.len() <= MAX_COOKIES + REASON_FIELDS.len() + 1);
        assert!(fields.values().all(|value| value.len() <= MAX_BYTES));
    }
}
