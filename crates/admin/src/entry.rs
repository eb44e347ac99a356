//! A stored entry in JSON, for listings and explanations. Read-only: it counts no hit and removes nothing.

use galley_cache::entry::{Entry, EntryKind};
use galley_cache::fragments::PageFragment;
use galley_cache::includes::PageInclude;
use galley_cache::purge_table::{MatchingPurge, Validity};
use galley_policy::key::{KeyParts, read_key};
use serde_json::{Value, json};

use super::why::words;
use galley_fetch::hit_for_pass;
use galley_request::Site;
use galley_sys::clock::Clock;

/// The members that a listing shows.
pub(super) fn brief(clock: Clock, site: &Site, entry: &Entry) -> Value {
    let age_s = entry.age(clock.tick()).as_secs();
    let fresh_s = entry.lifetime.fresh.as_secs();
    let not_stored = hit_for_pass::reason(entry).map(|reason| {
        let mut advice = words::not_stored(reason.why, Some(&reason)).value();
        advice["word"] = json!(reason.why.word());
        advice
    });
    json!({
        "url": url(entry),
        "kind": kind(entry.kind),
        "status": entry.status.as_u16(),
        "age_s": age_s,
        "lifetime_s": fresh_s,
        "left_s": signed(fresh_s) - signed(age_s),
        "bytes": entry.length(),
        "tags": entry.tags,
        "hits": entry.hits(),
        // The reason of a hit-for-pass entry.
        "not_stored": not_stored,
        "validity": validity(site.core.purges.validity_waiting(entry)),
    })
}

/// All members: also lifetimes, size, born sequence and relevant fields.
pub(super) fn whole(clock: Clock, site: &Site, entry: &Entry) -> Value {
    let mut value = brief(clock, site, entry);
    let touching = newest_match(site, entry);
    let more = json!({
        "stale_while_revalidate_s": entry.lifetime.stale_while_revalidate.as_secs(),
        "stale_if_error_s": entry.lifetime.stale_if_error.as_secs(),
        "initial_age_s": entry.lifetime.initial_age.as_secs(),
        "memory_bytes": entry.weight(),
        "codings": entry.coded().iter().map(|coded| coded.coding.token()).collect::<Vec<_>>(),
        "in_memory": entry.pieces().is_none(),
        "born": entry.born,
        "audited_ago_s": site.core.audits.audited(entry.key.hash()).map(|at| clock.tick().since(at).as_secs()),
        "purged_by": touching.map(matching_purge),
        "includes": entry.assembly().map_or_else(Vec::new, |assembly| {
            assembly.includes.iter().map(include).collect::<Vec<_>>()
        }),
        "fragments": entry.fragments().iter().map(fragment).collect::<Vec<_>>(),
        // A hit-for-pass entry contains the reason as fields of the upstream, which are shown as the reason.
        "fields": if entry.kind == EntryKind::Page { fields(entry) } else { Vec::new() },
    });
    if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
        value.extend(more);
    }
    value
}

/// The relevant header fields.
fn fields(entry: &Entry) -> Vec<Value> {
    RELEVANT_FIELDS
        .iter()
        .flat_map(|name| entry.fields.get_all(*name).iter().map(move |v| (*name, v)))
        .map(|(name, value)| json!([name, String::from_utf8_lossy(value.as_bytes())]))
        .collect()
}

/// A fragment of a page.
fn fragment(fragment: &PageFragment) -> Value {
    json!({
        "label": &*fragment.version.label,
        "bytes": fragment.range.end.saturating_sub(fragment.range.start),
        // Each member gets a separate version instead.
        "private": fragment.version.private_scope().is_some(),
        // Otherwise the fragment belongs to its page: a purge of the fragment purges the page.
        "shared": fragment.version.is_shared(),
        // The fragment changes without a purge, so every purge purges the page.
        "switched_off": fragment.version.is_switched_off(),
        // The fragment could not be rendered separately, so a purge purges the page until another attempt succeeds.
        "failed": fragment.version.has_failed(),
        "born": fragment.born,
    })
}

/// An ESI include of a page.
fn include(include: &PageInclude) -> Value {
    json!({
        "src": &*include.source.src,
        "alt": include.source.alt.as_deref(),
        "bytes": include.range.end.saturating_sub(include.range.start),
    })
}

/// The newest purge that touches a page or its includes.
pub(super) fn newest_match(site: &Site, entry: &Entry) -> Option<MatchingPurge> {
    let purges = &site.core.purges;
    let of_page = purges.newest_match(entry.born, &entry.scopes.touch());
    let parts = entry.assembly().map(|assembly| &*assembly.inclusions.parts);
    let parts = parts.unwrap_or_default().iter();
    parts
        .filter_map(|part| purges.newest_match(part.born, &part.scopes.touch()))
        .chain(of_page)
        .max_by_key(|touching| touching.number)
}

/// A purge that matches an entry.
pub(super) fn matching_purge(touching: MatchingPurge) -> Value {
    let strength = touching.strength().word();
    json!({ "number": touching.number, "kind": touching.kind.word(), "strength": strength })
}

/// The URL of an entry; ASCII, because keys are canonical.
fn url(entry: &Entry) -> String {
    url_of(entry.key.bytes())
}

/// The URL of a key.
pub(super) fn url_of(key: &[u8]) -> String {
    let Some(parts) = read_key(key) else {
        return String::new();
    };
    let KeyParts {
        scheme,
        authority,
        path,
        query,
        ..
    } = parts;
    let text = String::from_utf8_lossy;
    let query = query.map_or_else(String::new, |query| format!("?{}", text(query)));
    format!(
        "{}://{}{}{query}",
        scheme.as_str(),
        text(authority),
        text(path)
    )
}

/// The word in responses, which does not change.
pub(super) const fn kind(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Page => "page",
        EntryKind::HitForPass => "hit-for-pass",
        EntryKind::Varies => "varies",
    }
}

/// The word in responses, which does not change.
pub(super) const fn validity(validity: Validity) -> &'static str {
    match validity {
        Validity::Valid => "valid",
        Validity::SoftPurged => "soft-purged",
        Validity::Outdated => "outdated",
        Validity::Purged => "purged",
        Validity::Unknown => "busy",
    }
}

/// Converts seconds to a number that can be subtracted.
pub(super) fn signed(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// Stored fields that affect caching or identify the entry.
const RELEVANT_FIELDS: &[&str] = &[
    "content-type",
    "content-encoding",
    "date",
    "etag",
    "last-modified",
    "cache-control",
    "expires",
    "vary",
    "location",
];
