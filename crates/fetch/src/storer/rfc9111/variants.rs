//! Variants of one address, for sites without a preset (RFC 9111 §4.1).
//!
//! The key of an address leads to a page, or to a marker with the newest `Vary` and the stored selections. A variant is stored
//! under the address's key extended with its selection. When the list of names in `Vary` changes, variants of the old list are
//! removed; above a limit the oldest variant is removed. The site's number remains at the end of each key.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use galley_cache::body::StoredBody;
use galley_cache::entry::{Entry, EntryKind, EntryParts};
use galley_cache::key::Key;
use galley_cache::memory::Memory;
use galley_policy::storable::Lifetime;
use galley_policy::vary::{Selecting, Vary};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::PageJob;
use crate::entry_parts::scopes;
use crate::in_progress::InProgressFetch;
use crate::storer::Storer;

/// The fields of a request as they are sent to the upstream.
pub type ForwardedFields = [(HeaderName, HeaderValue)];

/// The fields as names and values, as rules read them.
pub fn lines(sent: &ForwardedFields) -> impl Iterator<Item = (&str, &[u8])> + Clone {
    sent.iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
}

/// The names by which responses with these fields vary, without those that the key covers.
pub fn names(fields: &HeaderMap) -> Vec<HeaderName> {
    let mut names = Vary::of(fields).names();
    names.retain(|name| *name != header::ACCEPT_ENCODING && *name != header::COOKIE);
    names
}

/// The entry in memory for a request, found through a marker.
pub fn find(memory: &Memory, marker: &Entry, sent: &ForwardedFields) -> Option<Arc<Entry>> {
    let mut keys = candidates(marker, sent).into_iter();
    keys.find_map(|key| memory.get(&key))
}

/// The keys to look up for a request, given a marker: that of its exact variant, then that of the language that it prefers.
pub fn candidates(marker: &Entry, sent: &ForwardedFields) -> Vec<Vec<u8>> {
    let names = names(&marker.fields);
    let selecting = Selecting::new(&names);
    let primary = marker.key.bytes();
    let Some(own) = selecting.of(lines(sent)) else {
        return Vec::new();
    };
    let in_language = || {
        let language = Selecting::most_wanted(lines(sent))?;
        selecting.in_language(lines(sent), &language)
    };
    [Some(own), in_language()]
        .into_iter()
        .flatten()
        .map(|selection| key(primary, &selection))
        .collect()
}

/// The key under which a response to this request would be stored, as far as known before the fetch.
pub fn fetch_key(memory: &Memory, primary: &Key, sent: &ForwardedFields) -> Key {
    let Some(marker) = memory
        .get(primary.bytes())
        .filter(|entry| entry.kind == EntryKind::Varies)
    else {
        return primary.clone();
    };
    Selecting::new(&names(&marker.fields))
        .of(lines(sent))
        .map_or_else(
            || primary.clone(),
            |selection| Key::new(&key(primary.bytes(), &selection)),
        )
}

/// The selections of a response to a request with `sent`: that of the request, and that of clients that prefer the language of the
/// response, if it has exactly one. `None`: too long to be stored.
pub fn selections(
    names: &[HeaderName],
    sent: &ForwardedFields,
    fields: &HeaderMap,
) -> Option<Vec<Vec<u8>>> {
    let selecting = Selecting::new(names);
    let mut selections = vec![selecting.of(lines(sent))?];
    let mut languages = fields.get_all(header::CONTENT_LANGUAGE).iter();
    if let (Some(language), None) = (languages.next(), languages.next())
        && !language.as_bytes().contains(&b',')
    {
        let language = language.as_bytes().trim_ascii();
        selections.extend(selecting.in_language(lines(sent), language));
    }
    Some(selections)
}

/// The key of a variant: that of the address, with the selection before the site's number.
pub fn key(primary: &[u8], selection: &[u8]) -> Vec<u8> {
    with_part(primary, VARIANT, selection)
}

/// The key of a stored partial response: that of the address, with the requested `Range`.
pub fn part_key(primary: &[u8], range: &[u8]) -> Vec<u8> {
    with_part(primary, PART, range)
}

/// The key of combined parts.
pub fn joined_key(primary: &[u8]) -> Vec<u8> {
    with_part(primary, JOINED, b"")
}

fn with_part(primary: &[u8], kind: u8, part: &[u8]) -> Vec<u8> {
    let end = primary.len().saturating_sub(SITE_NUMBER);
    let (address, site) = primary.split_at(end);
    let mut out = Vec::with_capacity(primary.len() + part.len() + 1);
    out.extend_from_slice(address);
    out.push(kind);
    out.extend_from_slice(part);
    out.extend_from_slice(site);
    out
}

/// The marker's list with `added` at its end, and the selections that are removed from it.
pub fn listed(
    marker: Option<&Entry>,
    names: &[HeaderName],
    added: &[Vec<u8>],
) -> (Bytes, Vec<Vec<u8>>) {
    let mut kept = Vec::new();
    let mut removed = Vec::new();
    if let Some(marker) = marker {
        let list = of_marker(marker);
        if self::names(&marker.fields) == names {
            kept = list;
        } else {
            removed = list;
        }
    }
    kept.retain(|selection| !added.contains(selection));
    kept.extend(added.iter().cloned());
    if kept.len() > MAX_VARIANTS {
        removed.extend(kept.drain(..kept.len() - MAX_VARIANTS));
    }
    (write(&kept), removed)
}

/// The selections of a marker; a marker always has its body in memory.
pub fn of_marker(marker: &Entry) -> Vec<Vec<u8>> {
    marker.body().map_or_else(Vec::new, |list| read(list))
}

fn read(mut list: &[u8]) -> Vec<Vec<u8>> {
    let mut selections = Vec::new();
    while let Some((length, rest)) = list.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length));
        let Some((selection, rest)) = rest.split_at_checked(length) else {
            break;
        };
        selections.push(selection.to_vec());
        list = rest;
    }
    selections
}

/// The inverse of [`read`].
pub(super) fn write(selections: &[Vec<u8>]) -> Bytes {
    let mut out = Vec::new();
    for selection in selections {
        // Longer selections are not stored in the first place.
        let length = u16::try_from(selection.len()).unwrap_or_default();
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(selection.get(..usize::from(length)).unwrap_or_default());
    }
    out.into()
}

/// The `Vary` fields of a marker.
pub fn vary(names: &[HeaderName]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for name in names {
        if let Ok(value) = HeaderValue::from_str(name.as_str()) {
            fields.append(header::VARY, value);
        }
    }
    fields
}

impl Storer {
    /// Writes the marker of an address whose responses vary, and removes variants that it no longer lists. Returns the key of the
    /// variant that is being received.
    pub(crate) fn note_variants(
        &self,
        job: &PageJob,
        in_progress: &InProgressFetch,
        names: &[HeaderName],
        selections: &[Vec<u8>],
    ) -> Option<Key> {
        let primary = &job.key;
        let resident = self
            .memory
            .get(primary.bytes())
            .filter(|entry| entry.kind == EntryKind::Varies);
        let (list, removed) = listed(resident.as_deref(), names, selections);
        for selection in removed {
            let key = key(primary.bytes(), &selection);
            self.memory.remove(&key);
            if let Some(disk) = &job.site.disk {
                disk.forget(&Key::new(&key), in_progress.born.get());
            }
        }
        let marker = self.marker(job, primary.clone(), in_progress.born.get());
        let marker = EntryParts {
            fields: vary(names),
            body: list.into(),
            ..marker
        };
        self.store(job, in_progress, marker);
        let selection = selections.first()?;
        Some(Key::new(&key(primary.bytes(), selection)))
    }

    /// Removes all variants, because the new response does not vary.
    pub(crate) fn forget_variants(&self, job: &PageJob) {
        let Some(marker) = self
            .memory
            .get(job.key.bytes())
            .filter(|entry| entry.kind == EntryKind::Varies)
        else {
            return;
        };
        for selection in of_marker(&marker) {
            self.memory.remove(&key(job.key.bytes(), &selection));
        }
        self.memory.remove_if_same(&marker);
    }

    /// An empty list of the variants of an address.
    pub(super) fn marker(&self, job: &PageJob, key: Key, born: u64) -> EntryParts {
        EntryParts {
            key,
            kind: EntryKind::Varies,
            status: StatusCode::OK,
            fields: HeaderMap::new(),
            body: StoredBody::default(),
            stored_at: self.clock.tick(),
            lifetime: Lifetime {
                fresh: MARKER_LIFETIME,
                ..Lifetime::default()
            },
            scopes: scopes(&job.info, Vec::new()),
            tags: Vec::new(),
            born,
        }
    }
}

/// The maximum number of variants of one address.
pub const MAX_VARIANTS: usize = 32;

/// The length of the site's number at the end of a key, in bytes.
pub(super) const SITE_NUMBER: usize = 4;

/// The lifetime of a marker, which is longer than that of its variants; unused markers are evicted from the memory.
const MARKER_LIFETIME: Duration = Duration::from_secs(365 * 86_400);

// The type of the key part that follows: a selection, a range, or nothing.
const VARIANT: u8 = 1;
const PART: u8 = 2;
const JOINED: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_variants_keep_the_site_at_their_end() {
        let primary = b"address\0\0\0\x07";
        assert_eq!(key(primary, b"s"), b"address\x01s\0\0\0\x07");
        assert_ne!(key(primary, b"s"), part_key(primary, b"s"));
    }

    #[test]
    fn the_oldest_variants_are_removed_above_the_limit() {
        let names = [HeaderName::from_static("foo")];
        let one = |number: usize| number.to_string().into_bytes();
        let mut list = Bytes::new();
        for number in 0..MAX_VARIANTS + 3 {
            let marker = marker(&names, list.clone());
            let (next, removed) = listed(Some(&marker), &names, &[one(number)]);
            let wanted: Vec<_> = number
                .checked_sub(MAX_VARIANTS)
                .map(one)
                .into_iter()
                .collect();
            assert_eq!(removed, wanted, "{number}");
            list = next;
        }
        assert_eq!(read(&list).len(), MAX_VARIANTS);
        let (again, removed) = listed(Some(&marker(&names, list.clone())), &names, &[one(9)]);
        assert!(removed.is_empty());
        assert_eq!(read(&again).last(), Some(&one(9)));
        let other = [HeaderName::from_static("bar")];
        let (fresh, removed) = listed(Some(&marker(&names, list)), &other, &[one(1)]);
        assert_eq!((read(&fresh), removed.len()), (vec![one(1)], MAX_VARIANTS));
    }

    fn marker(names: &[HeaderName], list: Bytes) -> Entry {
        use galley_cache::testing;

        Entry::new(EntryParts {
            kind: EntryKind::Varies,
            fields: vary(names),
            body: list.into(),
            ..testing::page()
        })
    }
}
