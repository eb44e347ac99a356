//! Stores responses to requests that bypass the cache, on sites without a preset.
//!
//! A partial response serves the same `Range` again (RFC 9111 §3.3) and is combined with others; a response to `POST` may
//! equal that of a `GET` (RFC 9110 §9.3.3); the head of a `HEAD` response updates a stored response (RFC 9111 §4.3.5).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use galley_cache::body::{ReceivedBody, StoredBody};
use galley_cache::entry::{Entry, EntryKind, EntryParts};
use galley_cache::purge_table::{FillPurgeState, Validity};
use galley_policy::range;
use galley_policy::storable::{self, Lifetime, ResponseHead, Storability};
use galley_policy::tags;
use http::header::HeaderMap;
use http::{StatusCode, header};

use super::revalidate::ValidatingExchange;
use crate::entry_parts::{finish_head, scopes};
use crate::jobs::PassedResponseKind;
use crate::storer::Storer;
use crate::{Acknowledgement, ExchangePurges, PassJob, write_to_disk};
use galley_upstream::IncomingResponse;

/// A copy of a body that is made for the cache while the body is forwarded.
pub(crate) struct BodyCopy {
    status: StatusCode,
    fields: HeaderMap,
    lifetime: Lifetime,
    /// `None`: it became too large, or there is no memory for it.
    body: Option<ReceivedBody>,
}

impl BodyCopy {
    /// Adds the next piece. Discards the copy if it becomes too large, or there is no memory: a slow client may need it for long.
    pub(crate) fn push(&mut self, chunk: &Bytes) {
        let fits = |body: &ReceivedBody| body.length() + chunk.len() as u64 <= MAX_COPY_BYTES;
        self.body = self.body.take().filter(fits).and_then(|mut body| {
            body.push(chunk.clone()).ok()?;
            Some(body)
        });
    }
}

impl Storer {
    /// Evaluates the head of a response. `Some`: the body should be copied and stored, too.
    pub(crate) fn start_copy(
        &self,
        job: &PassJob,
        incoming: &IncomingResponse,
        born: u64,
        delay: Duration,
    ) -> Option<BodyCopy> {
        let learn = job.learn.as_ref()?;
        let policy = &job.site.policy;
        let response_head = ResponseHead {
            status: incoming.status,
            fields: &incoming.fields,
            response_delay: delay,
            now: self.clock.wall(),
        };
        let verdict = match &learn.kind {
            PassedResponseKind::Part(_) => storable::judge_part(&job.info, &response_head, policy),
            PassedResponseKind::DerivedGet(reader) => {
                storable::judge_taught(reader, &response_head, policy)
            }
            PassedResponseKind::Head(held) => {
                let is_usable = incoming.status == StatusCode::OK
                    && incoming.check_storable().is_ok()
                    && job.site.purges.validity_waiting(held) != Validity::Purged;
                if is_usable {
                    let exchange = ValidatingExchange {
                        site: &job.site,
                        info: &job.info,
                        delay,
                        born,
                    };
                    self.learn_head(&exchange, held, &incoming.fields);
                }
                return None;
            }
        };
        let Storability::Store(lifetime) = verdict else {
            return None;
        };
        let mut fields = storable::stored_fields(&incoming.fields, policy, job.info.rule());
        finish_head(&mut fields, self.clock);
        Some(BodyCopy {
            status: incoming.status,
            fields,
            lifetime,
            body: Some(ReceivedBody::new(self.memory.budget().try_reserve(0)?)),
        })
    }

    /// Stores a completely copied response with the purge number `born`.
    pub(crate) fn store_copy(
        &self,
        job: &PassJob,
        incoming: &IncomingResponse,
        copy: Option<BodyCopy>,
        born: u64,
    ) {
        let (Some(learn), Some(copy)) = (&job.learn, copy) else {
            return;
        };
        let Some(body) = copy.body.filter(|_| incoming.check_whole().is_ok()) else {
            return;
        };
        if !fits_range(&copy.fields, body.length()) {
            return;
        }
        let (body, room) = body.joined();
        let tags = tags::collect(&incoming.fields);
        let entry = Arc::new(Entry::new(EntryParts {
            key: learn.key.clone(),
            kind: EntryKind::Page,
            status: copy.status,
            fields: copy.fields,
            body: StoredBody::reserved(body, room),
            stored_at: self.clock.tick(),
            lifetime: copy.lifetime,
            scopes: scopes(&job.info, tags.ids),
            tags: tags.names,
            born,
        }));
        if job.site.purges.validity_waiting(&entry) == Validity::Purged {
            return;
        }
        if let PassedResponseKind::Part(address) = &learn.kind {
            self.join_part(job, address, &entry);
        }
        let outcome = self.memory.put(Arc::clone(&entry));
        write_to_disk(&job.site, &entry, outcome);
    }
}

/// Publishes the purges of an exchange. Returns the purge number after them if no other purge has touched the address since
/// `since`: then the response is valid after its own purges, too.
pub(crate) fn publish_purges(
    job: &PassJob,
    incoming: &IncomingResponse,
    purges: &ExchangePurges,
    since: Option<u64>,
) -> (Option<u64>, Acknowledgement) {
    let site_purges = &job.site.purges;
    let before = site_purges.current();
    let is_undisturbed = since.filter(|_| job.learn.is_some()).is_some_and(|since| {
        let scopes = scopes(&job.info, tags::collect(&incoming.fields).ids);
        site_purges.newer_than(since, scopes.touch()) == FillPurgeState::No
    });
    let (acknowledgement, own_purges) = purges.publish(&job.site);
    let after = site_purges.current();
    let valid_at = (is_undisturbed && after == before.saturating_add(own_purges)).then_some(after);
    (valid_at, acknowledgement)
}

/// Whether a part is not longer than its range. The origin may send a shorter one for this `Range`; the framing detects truncation.
fn fits_range(fields: &HeaderMap, length: u64) -> bool {
    let Some(range) = fields.get(header::CONTENT_RANGE) else {
        return true;
    };
    range::held(range.as_bytes()).is_some_and(|held| length <= held.span.length())
}

/// The maximum size of a copied body, in bytes: partial responses and responses to forms.
const MAX_COPY_BYTES: u64 = 1024 * 1024;
