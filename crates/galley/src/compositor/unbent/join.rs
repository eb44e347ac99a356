//! Parts of one representation, put together (RFC 9110 §15.3.7.3, RFC 9111 §3.4).
//!
//! One stretch of bytes is kept per address, besides the parts for their very `Range`; ranges that lie in it are cut from
//! it. A new part that overlaps or touches it makes it longer, if both have the same strong `ETag` and the same whole
//! length; any other takes its place. When nothing is missing any more it is a whole response, stored as one. The head is
//! the new part's, the tags are both's, and it is as old for purges as the older of the two.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use galley_rules::range::{self, Held, Span};
use galley_rules::tags::Tags;
use galley_store::entry::{Entry, Kind, Parts, Scopes};
use galley_store::epochs::Standing;
use galley_store::key::Key;
use http::{HeaderValue, StatusCode, header};

use super::{freshen, variants};
use crate::compositor::{Desk, PassOrder};

/// A part whose bytes are known for certain.
struct Stretch<'e> {
    entry: &'e Entry,
    span: Span,
    complete: u64,
    /// The validator, where it is a strong one.
    etag: Option<&'e [u8]>,
}

impl<'e> Stretch<'e> {
    /// `None`: no whole length, or other bytes than it says.
    fn of(entry: &'e Entry) -> Option<Self> {
        let Held { span, complete } =
            range::held(entry.fields.get(header::CONTENT_RANGE)?.as_bytes())?;
        let is_exact = span.length() == entry.body.len() as u64;
        // A weak tag begins with `W/`, and says nothing about bytes (RFC 9110 §8.8.1).
        let etag = entry.etag().filter(|etag| etag.starts_with(b"\""));
        is_exact.then_some(Self {
            entry,
            span,
            complete: complete?,
            etag,
        })
    }

    /// The bytes of both; where they overlap they are equal, by their validator.
    fn joined(&self, new: &Self) -> Option<(Span, Bytes)> {
        let span = self.span.union(new.span)?;
        let is_same = self.etag.is_some() && self.etag == new.etag && self.complete == new.complete;
        if !is_same || span.length() > MOST_JOINED {
            return None;
        }
        let (first, second) = if self.span.start <= new.span.start {
            (self, new)
        } else {
            (new, self)
        };
        let mut bytes = BytesMut::from(&*first.entry.body);
        let known = usize::try_from(first.span.end.checked_sub(second.span.start)?).ok()?;
        bytes.extend_from_slice(second.entry.body.get(known..).unwrap_or_default());
        Some((span, bytes.freeze()))
    }
}

impl Desk {
    /// Joins a part that came for `address` with what is there.
    pub(super) fn join_part(&self, order: &PassOrder, address: &Key, part: &Arc<Entry>) {
        let Some(new) = Stretch::of(part) else { return };
        let place = variants::joined_key(address.bytes());
        let held = self
            .memory
            .peek(&place)
            .filter(|held| order.site.epochs.prove_waiting(held) == Standing::Alive);
        let joined = held.as_ref().and_then(|held| {
            let (span, body) = Stretch::of(held)?.joined(&new)?;
            Some((held, span, body))
        });
        let (span, body, tags, born) = match joined {
            Some((held, span, body)) => (
                span,
                body,
                freshen::both(held, tags_of(part)),
                held.born.min(part.born),
            ),
            None => (new.span, part.body.clone(), tags_of(part), part.born),
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
            if resident.is_some_and(|resident| resident.kind == Kind::Varies) {
                return;
            }
            (address.clone(), StatusCode::OK)
        } else {
            (Key::new(&place), StatusCode::PARTIAL_CONTENT)
        };
        let entry = Arc::new(Entry::new(Parts {
            key,
            kind: Kind::Page,
            status,
            fields,
            body: body.into(),
            stored_at: part.stored_at,
            life: part.life,
            scopes: Scopes {
                tags: tags.ids.into(),
                ..part.scopes.clone()
            },
            tags: tags.names,
            born,
        }));
        if order.site.epochs.prove_waiting(&entry) == Standing::Dead {
            return;
        }
        let stored = self.memory.put(entry);
        if is_whole && stored.is_ok() {
            self.memory.remove(&place);
        }
    }
}

fn tags_of(entry: &Entry) -> Tags {
    Tags {
        ids: entry.scopes.tags.to_vec(),
        names: entry.tags.clone(),
    }
}

/// Bytes of what is put together: each part that comes copies all of it.
const MOST_JOINED: u64 = 4 * 1024 * 1024;
