//! What is stored from requests that bypass the cache, on sites without a preset.
//!
//! A partial response serves the same `Range` again (RFC 9111 §3.3) and is combined with others; a response to `POST` may
//! equal that of a `GET` (RFC 9110 §9.3.3); the head of a `HEAD` response updates a stored response (RFC 9111 §4.3.5).

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use galley_cache::entry::{Entry, EntryKind, EntryParts};
use galley_cache::purge_table::{Touched, Validity};
use galley_policy::purge::Purge;
use galley_policy::range;
use galley_policy::storable::{self, Lifetime, ResponseHead, Storability};
use galley_policy::tags;
use http::header::HeaderMap;
use http::{StatusCode, header};

use super::super::jobs::PassLesson;
use super::revalidate::Noted;
use crate::fetch::entry_parts::scopes;
use crate::fetch::{Acknowledgement, FetchWorker, PassJob, publish, write_to_disk};
use crate::upstream::IncomingResponse;

/// A body that is copied for the store while it is forwarded.
pub(in crate::fetch) struct BodyCopy {
    status: StatusCode,
    fields: HeaderMap,
    life: Lifetime,
    body: BytesMut,
    is_whole: bool,
}

impl BodyCopy {
    /// Takes the next piece; too much of it and nothing is learnt.
    pub(in crate::fetch) fn push(&mut self, chunk: &Bytes) {
        if self.body.len().saturating_add(chunk.len()) > MOST_TAUGHT {
            self.is_whole = false;
            self.body = BytesMut::new();
        }
        if self.is_whole {
            self.body.extend_from_slice(chunk);
        }
    }
}

impl FetchWorker {
    /// Evaluates the head of a response; a result means that the body is wanted, too.
    pub(in crate::fetch) fn start_copy(
        &self,
        job: &PassJob,
        incoming: &IncomingResponse,
        born: u64,
        delay: Duration,
    ) -> Option<BodyCopy> {
        let learn = job.learn.as_ref()?;
        let rules = &job.site.rules;
        let response_head = ResponseHead {
            status: incoming.status,
            fields: &incoming.fields,
            response_delay: delay,
            now: self.clock.wall(),
        };
        let verdict = match &learn.lesson {
            PassLesson::Part(_) => storable::judge_part(&job.info, &response_head, rules),
            PassLesson::Taught(reader) => storable::judge_taught(reader, &response_head, rules),
            PassLesson::Head(held) => {
                let is_usable = incoming.status == StatusCode::OK
                    && job.site.purges.prove_waiting(held) != Validity::Purged;
                if is_usable {
                    let noted = Noted {
                        site: &job.site,
                        info: &job.info,
                        delay,
                        born,
                    };
                    self.learn_head(&noted, held, &incoming.fields);
                }
                return None;
            }
        };
        let Storability::Store(life) = verdict else {
            return None;
        };
        let mut fields = storable::stored_fields(&incoming.fields, rules, job.info.rule());
        self.finish_head(&mut fields);
        Some(BodyCopy {
            status: incoming.status,
            fields,
            life,
            body: BytesMut::new(),
            is_whole: true,
        })
    }

    /// Stores the result of a whole body, which holds after the purge `born`.
    pub(in crate::fetch) fn store_copy(
        &self,
        job: &PassJob,
        incoming: &IncomingResponse,
        pupil: Option<BodyCopy>,
        born: u64,
    ) {
        let (Some(learn), Some(pupil)) = (&job.learn, pupil) else {
            return;
        };
        if !pupil.is_whole || !incoming.ended_well() {
            return;
        }
        if !is_as_long_as_said(&pupil) {
            return;
        }
        let tags = tags::collect(&incoming.fields);
        let entry = Arc::new(Entry::new(EntryParts {
            key: learn.key.clone(),
            kind: EntryKind::Page,
            status: pupil.status,
            fields: pupil.fields,
            body: Bytes::copy_from_slice(&pupil.body).into(),
            stored_at: self.clock.tick(),
            life: pupil.life,
            scopes: scopes(&job.info, tags.ids),
            tags: tags.names,
            born,
        }));
        if job.site.purges.prove_waiting(&entry) == Validity::Purged {
            return;
        }
        if let PassLesson::Part(address) = &learn.lesson {
            self.join_part(job, address, &entry);
        }
        let outcome = self.memory.put(Arc::clone(&entry));
        write_to_disk(&job.site, &entry, outcome);
    }
}

/// Publishes the purges of an exchange. Returns the counter after them if no other purge has touched the address since the
/// counter was at `since`: then the response is valid after its own purges, too.
pub(in crate::fetch) fn publish_purges(
    job: &PassJob,
    incoming: &IncomingResponse,
    purges: &[Purge],
    since: Option<u64>,
) -> (Option<u64>, Acknowledgement) {
    let site_purges = &job.site.purges;
    let before = site_purges.current();
    let is_calm = since.filter(|_| job.learn.is_some()).is_some_and(|since| {
        let scopes = scopes(&job.info, tags::collect(&incoming.fields).ids);
        site_purges.newer_than(since, scopes.touch()) == Touched::No
    });
    let acknowledgement = publish(&job.site, purges);
    let after = site_purges.current();
    let own_purges = u64::try_from(purges.len()).unwrap_or(u64::MAX);
    let calm = (is_calm && after == before.saturating_add(own_purges)).then_some(after);
    (calm, acknowledgement)
}

/// Whether a part has no more bytes than its range; a shorter one is what the origin gave for this `Range`, and is framed.
fn is_as_long_as_said(pupil: &BodyCopy) -> bool {
    let Some(range) = pupil.fields.get(header::CONTENT_RANGE) else {
        return true;
    };
    range::held(range.as_bytes()).is_some_and(|held| pupil.body.len() as u64 <= held.span.length())
}

/// The longest body that is stored on the way: partial responses and responses to forms.
const MOST_TAUGHT: usize = 1024 * 1024;
