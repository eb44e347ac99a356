//! Updates a stored response from a 304 or the head of a `HEAD` response (RFC 9111 §4.3.4, §4.3.5).
//!
//! The new entry shares the stored bytes, has the tags of both heads and the purge number from the start of this exchange, and
//! replaces only the entry that was validated.

use std::sync::Arc;
use std::time::Duration;

use galley_cache::body::StoredBody;
use galley_cache::entry::{Entry, EntryParts};
use galley_cache::fill::{FillError, FillHead, FillSharing, FillWriter};
use galley_cache::includes::IncludedResponses;
use galley_policy::storable::{self, ResponseHead, Storability};
use galley_policy::tags::{self, MAX_TAGS, Tags};
use http::header::{self, HeaderMap};

use crate::entry_parts::{finish_head, private_head, scopes};
use crate::in_progress::InProgressFetch;
use crate::storer::Storer;
use crate::{FetchSite, PageJob, revalidate, write_to_disk};
use galley_upstream::IncomingResponse;

/// A head that updates a stored response.
pub(crate) struct HeadUpdate {
    pub(crate) incoming: IncomingResponse,
    pub(crate) delay: Duration,
}

/// A stored response that is being validated, with the plain body that a 304 refers to.
pub(crate) struct Validated<'h> {
    pub(crate) held: &'h Arc<Entry>,
    plain: StoredBody,
}

impl<'h> Validated<'h> {
    /// `None`: the body is on the disk, or there is no memory to unpack it. The complete response has to be fetched then.
    pub(crate) fn new(site: &FetchSite, held: &'h Arc<Entry>) -> Option<Self> {
        let plain = plain(site, held)?;
        Some(Self { held, plain })
    }
}

impl Storer {
    /// Sends the stored response, updated by a 304.
    pub(crate) async fn freshen(
        &self,
        page: &PageJob,
        in_progress: &InProgressFetch,
        writer: &mut FillWriter,
        validated: &Validated<'_>,
        mut update: HeadUpdate,
    ) -> Result<(), FillError> {
        // Read to its end, so that the connection can be used again.
        while update.incoming.chunk().await?.is_some() {}
        let Validated { held, plain } = validated;
        let policy = &page.site.policy;
        let merged = merged(held, &update.incoming.fields);
        let response_head = ResponseHead {
            status: held.status,
            fields: &merged,
            response_delay: update.delay,
            now: self.clock.wall(),
        };
        let seed = revalidate::seed(&page.key);
        let verdict = storable::judge_spread(&page.info, &response_head, policy, seed);
        let (fields, share) = match verdict {
            Storability::Store(lifetime) => {
                let mut fields = storable::stored_fields(&merged, policy, page.info.rule());
                finish_head(&mut fields, self.clock);
                let tags = merged_tags(held, tags::collect(&update.incoming.fields));
                let share = FillSharing::Shared {
                    lifetime,
                    tags: tags.ids.clone(),
                    inclusions: IncludedResponses::default(),
                };
                let entry = Entry::new(EntryParts {
                    key: held.key.clone(),
                    kind: held.kind,
                    status: held.status,
                    fields: fields.clone(),
                    body: plain.clone(),
                    stored_at: self.clock.tick(),
                    lifetime,
                    scopes: scopes(&page.info, tags.ids),
                    tags: tags.names,
                    born: in_progress.born.get(),
                });
                let entry = Arc::new(page.site.compressing.inherit(entry, held));
                // If another entry has replaced it, or there is no memory, the response is sent but not stored.
                if self.memory.put_if_same(held, Arc::clone(&entry)).is_ok() {
                    write_to_disk(&page.site, &entry, Ok(()));
                }
                self.note_equivalents(page, in_progress, &fields);
                (fields, share)
            }
            Storability::Skip(why) => {
                in_progress.set_not_stored(why);
                self.drop_held(&page.site, held);
                (private_head(&merged, self.clock), FillSharing::Private)
            }
        };
        writer.head(FillHead {
            status: held.status,
            fields,
            share,
            length: Some(held.length()),
        });
        let _ = writer.push(plain.bytes().clone()).await;
        Ok(())
    }

    /// Updates a stored response from the head of a response to `HEAD`, or removes it if the origin has another one or it cannot
    /// be updated.
    pub(super) fn learn_head(
        &self,
        job: &ValidatingExchange<'_>,
        held: &Arc<Entry>,
        head: &HeaderMap,
    ) {
        let length = head
            .get(header::CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        let differs = |name| {
            head.get(&name)
                .is_some_and(|new| held.fields.get(&name) != Some(new))
        };
        if differs(header::ETAG)
            || differs(header::LAST_MODIFIED)
            || length.is_some_and(|length| length != held.length())
        {
            return self.drop_held(job.site, held);
        }
        let policy = &job.site.policy;
        let merged = merged(held, head);
        let response_head = ResponseHead {
            status: held.status,
            fields: &merged,
            response_delay: job.delay,
            now: self.clock.wall(),
        };
        let Storability::Store(lifetime) = storable::judge(job.info, &response_head, policy) else {
            return self.drop_held(job.site, held);
        };
        let Some(body) = plain(job.site, held) else {
            return self.drop_held(job.site, held);
        };
        let mut fields = storable::stored_fields(&merged, policy, job.info.rule());
        finish_head(&mut fields, self.clock);
        let tags = merged_tags(held, tags::collect(head));
        let entry = Entry::new(EntryParts {
            key: held.key.clone(),
            kind: held.kind,
            status: held.status,
            fields,
            body,
            stored_at: self.clock.tick(),
            lifetime,
            scopes: scopes(job.info, tags.ids),
            tags: tags.names,
            born: job.born,
        });
        let entry = Arc::new(job.site.compressing.inherit(entry, held));
        if self.memory.put_if_same(held, Arc::clone(&entry)).is_ok() {
            write_to_disk(job.site, &entry, Ok(()));
        }
    }

    /// Removes a stored response that may no longer be used.
    fn drop_held(&self, site: &FetchSite, held: &Arc<Entry>) {
        self.memory.remove_if_same(held);
        if let Some(disk) = &site.disk {
            disk.forget(&held.key, held.born);
        }
    }
}

/// The plain stored body, with its reservation.
fn plain(site: &FetchSite, held: &Arc<Entry>) -> Option<StoredBody> {
    site.compressing.unpacked(held)?.stored_body().cloned()
}

/// An exchange that updates a stored response.
pub(super) struct ValidatingExchange<'o> {
    pub(super) site: &'o FetchSite,
    pub(super) info: &'o galley_policy::request_info::RequestInfo,
    pub(super) delay: Duration,
    pub(super) born: u64,
}

/// The stored head with the changes of the new one. The date is that of the new head, because the age is calculated from it.
fn merged(held: &Entry, update: &HeaderMap) -> HeaderMap {
    let mut stored = held.fields.clone();
    stored.remove(header::DATE);
    storable::updated_fields(&stored, update)
}

/// The tags of both responses, or the tag of everything if there are too many.
pub(super) fn merged_tags(held: &Entry, new: Tags) -> Tags {
    let mut ids: Vec<u64> = held.scopes.tags.iter().copied().chain(new.ids).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() > MAX_TAGS {
        return Tags::everything();
    }
    let mut names = held.tags.clone();
    for name in new.names {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Tags { ids, names }
}
