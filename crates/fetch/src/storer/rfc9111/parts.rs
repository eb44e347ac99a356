//! Combines partial responses of one representation (RFC 9110 §15.3.7.3, RFC 9111 §3.4).
//!
//! For each address, one range of bytes is stored in addition to the partial responses for their exact `Range`; requested ranges
//! within it are served from it. A new part that overlaps or touches it extends it, if both have the same strong `ETag` and the
//! same complete length; any other part replaces it. When it is complete, it is stored as a whole response. The head is that of
//! the new part, the tags are those of both, and its purge number is the older of the two.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use galley_cache::entry::{Entry, EntryKind, EntryParts, Scopes};
use galley_cache::key::Key;
use galley_cache::purge_table::Validity;
use galley_policy::range::{self, ByteSpan, PartialContent};
use galley_policy::tags::Tags;
use http::{HeaderValue, StatusCode, header};

use super::{revalidate, variants};
use crate::storer::Storer;
use crate::{PassJob, write_to_disk};

/// A partial response whose range is certain.
struct ExactPart<'e> {
    entry: &'e Entry,
    span: ByteSpan,
    complete: u64,
    /// The validator, if it is strong.
    etag: Option<&'e [u8]>,
}

impl<'e> ExactPart<'e> {
    /// `None`: the complete length is unknown, or the body does not have the length of its range.
    fn of(entry: &'e Entry) -> Option<Self> {
        let PartialContent { span, complete } =
            range::held(entry.fields.get(header::CONTENT_RANGE)?.as_bytes())?;
        let is_exact = span.length() == entry.length();
        // A weak tag begins with `W/`, and does not guarantee equal bytes (RFC 9110 §8.8.1).
        let etag = entry.etag().filter(|etag| etag.starts_with(b"\""));
        is_exact.then_some(Self {
            entry,
            span,
            complete: complete?,
            etag,
        })
    }

    /// The combined bytes. The strong validator guarantees that both have the same bytes where they overlap.
    fn joined(&self, new: &Self) -> Option<(ByteSpan, Bytes)> {
        let span = self.span.union(new.span)?;
        let is_same = self.etag.is_some() && self.etag == new.etag && self.complete == new.complete;
        if !is_same || span.length() > MAX_JOINED_BYTES {
            return None;
        }
        let (first, second) = if self.span.start <= new.span.start {
            (self, new)
        } else {
            (new, self)
        };
        let mut bytes = BytesMut::from(&first.entry.body()?[..]);
        let overlap = usize::try_from(first.span.end.checked_sub(second.span.start)?).ok()?;
        bytes.extend_from_slice(second.entry.body()?.get(overlap..).unwrap_or_default());
        Some((span, bytes.freeze()))
    }
}

impl Storer {
    /// Combines a part that was received for `address` with the stored one.
    pub(super) fn join_part(&self, job: &PassJob, address: &Key, part: &Arc<Entry>) {
        let Some(new) = ExactPart::of(part) else {
            return;
        };
        // A part has no compressed forms, so it is not packed.
        let Some(received) = part.body() else { return };
        let joined_key = variants::joined_key(address.bytes());
        let held = self
            .memory
            .peek(&joined_key)
            .filter(|held| job.site.purges.validity_waiting(held) == Validity::Valid);
        let joined = held.as_ref().and_then(|held| {
            let (span, body) = ExactPart::of(held)?.joined(&new)?;
            Some((held, span, body))
        });
        let (span, body, tags, born) = match joined {
            Some((held, span, body)) => (
                span,
                body,
                revalidate::merged_tags(held, tags_of(part)),
                held.born.min(part.born),
            ),
            None => (new.span, received.clone(), tags_of(part), part.born),
        };
        let is_whole = span.length() == new.complete;
        let mut fields = part.fields.clone();
        fields.remove(header::CONTENT_RANGE);
        if !is_whole {
            let (last, complete) = (span.end.saturating_sub(1), new.complete);
            let text = format!("bytes {}-{last}/{complete}", span.start);
            let Ok(value) = HeaderValue::from_str(&text) else {
                return;
            };
            fields.insert(header::CONTENT_RANGE, value);
        }
        let (key, status) = if is_whole {
            let resident = self.memory.peek(address.bytes());
            if resident.is_some_and(|resident| resident.kind == EntryKind::Varies) {
                return;
            }
            (address.clone(), StatusCode::OK)
        } else {
            (Key::new(&joined_key), StatusCode::PARTIAL_CONTENT)
        };
        let entry = Arc::new(Entry::new(EntryParts {
            key,
            kind: EntryKind::Page,
            status,
            fields,
            body: body.into(),
            stored_at: part.stored_at,
            lifetime: part.lifetime,
            scopes: Scopes {
                tags: tags.ids.into(),
                ..part.scopes.clone()
            },
            tags: tags.names,
            born,
        }));
        if job.site.purges.validity_waiting(&entry) == Validity::Purged {
            return;
        }
        let stored = self.memory.put(Arc::clone(&entry));
        write_to_disk(&job.site, &entry, stored);
        if is_whole && stored.is_ok() {
            self.memory.remove(&joined_key);
            if let Some(disk) = &job.site.disk {
                disk.forget(&Key::new(&joined_key), born);
            }
        }
    }
}

fn tags_of(entry: &Entry) -> Tags {
    Tags {
        ids: entry.scopes.tags.to_vec(),
        names: entry.tags.clone(),
    }
}

/// The maximum size of combined parts, in bytes: each new part copies all of it.
const MAX_JOINED_BYTES: u64 = 4 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use galley_cache::testing;

    use http::HeaderMap;

    fn part(etag: &'static str, range: &str, body: &[u8]) -> Entry {
        let mut fields = HeaderMap::new();
        fields.insert(header::ETAG, HeaderValue::from_static(etag));
        let range = HeaderValue::from_str(&format!("bytes {range}")).unwrap();
        fields.insert(header::CONTENT_RANGE, range);
        Entry::new(EntryParts {
            status: StatusCode::PARTIAL_CONTENT,
            fields,
            body: Bytes::copy_from_slice(body).into(),
            ..testing::page()
        })
    }

    fn joined(one: &Entry, other: &Entry) -> Option<(ByteSpan, Bytes)> {
        ExactPart::of(one)?.joined(&ExactPart::of(other)?)
    }

    #[test]
    fn parts_that_touch_or_overlap_are_joined_if_they_have_the_same_strong_etag() {
        let whole = b"0123456789";
        let part_2_to_5 = part("\"a\"", "2-5/10", b"2345");
        let table = [
            (part("\"a\"", "6-9/10", b"6789"), Some(2..10)),
            (part("\"a\"", "4-9/10", b"456789"), Some(2..10)),
            (part("\"a\"", "0-1/10", b"01"), Some(0..6)),
            (part("\"a\"", "0-9/10", whole), Some(0..10)),
            (part("\"a\"", "3-4/10", b"34"), Some(2..6)),
            (part("\"a\"", "7-9/10", b"789"), None),
            (part("\"a\"", "6-9/11", b"6789"), None),
            (part("\"a\"", "6-9/*", b"6789"), None),
            (part("\"a\"", "6-9/10", b"678"), None),
            (part("\"b\"", "6-9/10", b"6789"), None),
            (part("W/\"a\"", "6-9/10", b"6789"), None),
        ];
        for (other, wanted) in table {
            for found in [joined(&part_2_to_5, &other), joined(&other, &part_2_to_5)] {
                let range = found.as_ref().map(|(span, bytes)| {
                    let range =
                        usize::try_from(span.start).unwrap()..usize::try_from(span.end).unwrap();
                    assert_eq!(bytes, &whole[range.clone()], "{other:?}");
                    range
                });
                assert_eq!(range, wanted, "{:?}", other.fields);
            }
        }
        let weak = part("W/\"a\"", "2-5/10", b"2345");
        assert!(joined(&weak, &part("W/\"a\"", "6-9/10", b"6789")).is_none());
    }

    #[test]
    fn parts_that_would_become_too_large_are_not_joined() {
        let most = usize::try_from(MAX_JOINED_BYTES).unwrap();
        let body = vec![b'x'; most];
        let range =
            |first: usize, length: usize| format!("{first}-{}/99999999", first + length - 1);
        let first = part("\"a\"", &range(0, most - 1), &body[1..]);
        let fits = part("\"a\"", &range(most - 1, 1), b"x");
        let exceeds = part("\"a\"", &range(most - 1, 2), b"xx");
        assert!(joined(&first, &fits).is_some());
        assert!(joined(&first, &exceeds).is_none());
    }
}
