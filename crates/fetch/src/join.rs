//! Request coalescing: one fetch for each response. A request joins the fetch in progress, or starts one.
//!
//! At most one request per key is at the upstream, and one more if a purge has invalidated the first, or if it has fallen
//! silent. A request does not join a fetch that a purge from before the request concerns. With RFC 9111 it gets a
//! response only if it selects it; otherwise it is passed (section 4).

use std::rc::Rc;
use std::sync::Arc;

use galley_cache::entry::EntryKind;
use galley_cache::fill::{self, FillError, FillHead, FillSharing, FillWriter};
use galley_cache::key::Key;
use galley_cache::purge_table::{FillPurgeState, PurgeSubject};
use galley_policy::site::VaryPolicy;
use galley_policy::storable::SharedWith;
use galley_policy::time::Tick;
use galley_policy::vary::Selecting;
use http::header::HeaderMap;
use tokio::sync::oneshot;

use super::compress::EncodedBody;
use super::entry_parts::scopes;
use super::in_progress::{
    HeadUse, InProgressFetch, WaitRole, WaiterEvent, WaiterSlot, WaitingRequest,
};
use super::revalidate::{self, RefreshReason};
use super::rfc9111::variants;
use super::spool::WINDOW;
use super::wait::FetchFor;
use super::waiters::NOT_SENT;
use super::{FetchResult, FetchWorker, PageJob};

/// The parameters of a fetch to start: its key, and the silent fetch that it replaces.
struct FetchStart {
    wait: WaitingRequest,
    key: Key,
    overtaken: Option<Rc<InProgressFetch>>,
}

/// How a request continues after the table was checked for a fetch in progress.
enum JoinOutcome {
    /// It has joined one.
    Wait,
    /// It must start a fetch, which replaces this silent one if there is one.
    Lead(Option<Rc<InProgressFetch>>),
    /// Too many requests are waiting.
    Rejected,
}

impl FetchWorker {
    pub(super) async fn page(
        self: Rc<Self>,
        job: Box<PageJob>,
        since: Option<Tick>,
        reply: oneshot::Sender<Result<FetchResult, FillError>>,
    ) {
        let mut wait = WaitingRequest::new(reply);
        if since.is_some_and(|since| self.coalescer.has_failed_since(&job.key, since)) {
            wait.note_failure();
        }
        let Some(FetchStart {
            wait,
            key,
            overtaken,
        }) = self.wait_for_head(&job, wait).await
        else {
            return;
        };
        let before = self.coalescer.find(&key);
        let (in_progress, writer) = self.start_fetch(&job, key, overtaken.as_deref());
        if job.needs_new_response {
            in_progress.set_former(before);
        }
        let wait = wait.leading(&in_progress);
        if let Some(overtaken) = overtaken {
            overtaken.set_overtaken(&job.site.name);
        }
        // The fetch outlives the wait: its response is stored even if the client has disconnected. Its future is written in place:
        // `Box::pin` would copy all of it.
        let memory = Box::new_uninit();
        let lead = self.lead(&job, &in_progress, writer, FetchFor::Visitors);
        let lead = Box::into_pin(Box::write(memory, lead));
        let fetching = async { tokio::join!(lead, self.wait_for_head(&job, wait)) };
        in_progress.record_waiters(fetching).await;
    }

    /// Refreshes a response in the background, unless that is in progress. Returns whether a request was sent.
    pub(super) async fn refresh(self: Rc<Self>, job: PageJob, when: RefreshReason) -> bool {
        let key = self.storer.fetch_key(&job);
        let current = self.coalescer.find(&key);
        let overtaken = current.filter(|in_progress| !in_progress.fill.has_ended());
        // A refresh that a purge concerns does not delay the next one.
        let is_busy = overtaken.as_ref().is_some_and(|in_progress| {
            !in_progress.is_silent() && touched(in_progress, &job, None) != FillPurgeState::Yes
        });
        let is_missing = || self.storer.usable_entry(&job).is_none();
        let is_ending = || {
            let entry = self.storer.peek(key.bytes());
            entry.is_some_and(|entry| revalidate::is_ending(&entry, self.clock.tick()))
        };
        let is_wanted = match when {
            RefreshReason::Stale => is_missing(),
            RefreshReason::Spare => self.upstreams.has_spare_slots(job.pool) && is_missing(),
            RefreshReason::Early => self.upstreams.has_spare_slots(job.pool) && is_ending(),
        };
        let is_paused = self.coalescer.failed_recently(&job.key, self.clock.tick());
        if is_busy || !is_wanted || is_paused {
            return false;
        }
        let (in_progress, writer) = self.start_fetch(&job, key, overtaken.as_deref());
        if let Some(overtaken) = overtaken {
            overtaken.set_overtaken(&job.site.name);
        }
        let fetching = Box::pin(self.lead(&job, &in_progress, writer, FetchFor::Later));
        in_progress.record_waiters(fetching).await;
        in_progress.born.get() != NOT_SENT
    }

    /// Waits until a fetch has a head, and joins those that start in the meantime. The result says how to start one.
    async fn wait_for_head(&self, job: &PageJob, mut wait: WaitingRequest) -> Option<FetchStart> {
        loop {
            if let Some(entry) = self.storer.usable_entry(job) {
                let is_shared = wait.has_found(&entry);
                wait.finish(Ok(match entry.kind {
                    EntryKind::Page if is_shared => FetchResult::Shared(entry),
                    EntryKind::Page => FetchResult::Entry(entry),
                    EntryKind::HitForPass | EntryKind::Varies => FetchResult::HitForPass,
                }));
                return None;
            }
            let key = self.storer.fetch_key(job);
            match self.join_or_lead(job, &key, &mut wait) {
                JoinOutcome::Lead(overtaken) if wait.may_lead() => {
                    return Some(FetchStart {
                        wait,
                        key,
                        overtaken,
                    });
                }
                // The fetch on another thread may still answer.
                JoinOutcome::Lead(_) if wait.is_new() => {
                    wait.finish(Err(FillError::Aborted));
                    return None;
                }
                JoinOutcome::Rejected => {
                    wait.finish(Err(FillError::Overload));
                    return None;
                }
                JoinOutcome::Wait | JoinOutcome::Lead(_) => {}
            }
            let (index, head) = match wait.event().await {
                WaiterEvent::Head(index, head) => (index, head),
                WaiterEvent::Changed => continue,
                WaiterEvent::Disconnected => {
                    wait.cancel();
                    return None;
                }
            };
            if let Some(entry) = wait
                .slot(index)
                .and_then(|slot| self.storer.found_for(job, slot))
            {
                wait.finish(Ok(FetchResult::Shared(entry)));
                return None;
            }
            let verdict = wait
                .slot(index)
                .map_or(HeadUse::Reject, |slot| self.judge(slot, job, &key, &head));
            let coded = match (&verdict, &head) {
                (HeadUse::Use, Ok(head)) => {
                    self.code_for(&job.site, &job.info, &mut wait, index, head)
                }
                _ => EncodedBody::default(),
            };
            let Some(remaining) = wait.take(index, &verdict, coded.reader) else {
                if let Some(coder) = coded.coder {
                    Box::pin(coder.run()).await;
                }
                return None;
            };
            wait = remaining;
        }
    }

    /// Checks for a fetch in progress, and joins it if there is one.
    fn join_or_lead(&self, job: &PageJob, key: &Key, wait: &mut WaitingRequest) -> JoinOutcome {
        let current = self.coalescer.find(key);
        // A fetch leaves the table at the moment it ends; one that did not has panicked.
        let Some(in_progress) =
            current.filter(|in_progress| joins(job) && !in_progress.fill.has_ended())
        else {
            return JoinOutcome::Lead(None);
        };
        let has_missed = job.needs_new_response
            && in_progress.born.get() != NOT_SENT
            && !wait.is_at(&in_progress);
        if has_missed || wait.has_rejected(&in_progress) {
            return JoinOutcome::Lead(None);
        }
        let is_silent = in_progress.is_silent();
        let is_joinable = !(is_silent && in_progress.fill.has_head());
        if is_joinable && !wait.is_at(&in_progress) {
            let terms = match touched(&in_progress, job, None) {
                FillPurgeState::No => WaitRole::Joined,
                FillPurgeState::OnlyTags => WaitRole::ToCheck,
                FillPurgeState::Yes => return JoinOutcome::Lead(None),
            };
            let admission = in_progress.waiters.admission();
            if !is_silent
                && wait.is_new()
                && in_progress.waiters.readers() >= job.site.limits.waiters
            {
                return JoinOutcome::Rejected;
            }
            if !wait.join(&in_progress, terms) {
                return JoinOutcome::Lead(None);
            }
            drop(admission);
            self.promote(job, &in_progress);
        }
        if is_silent {
            JoinOutcome::Lead(Some(in_progress))
        } else {
            JoinOutcome::Wait
        }
    }

    /// The verdict on the head of a slot's fetch, for the request that waits.
    fn judge(
        &self,
        slot: &WaiterSlot,
        job: &PageJob,
        key: &Key,
        head: &Result<Arc<FillHead>, FillError>,
    ) -> HeadUse {
        let head = match (head, slot.terms) {
            // The reader of a response that may not be stored reports the reason, and the request is passed.
            (Ok(_), WaitRole::Leads)
            | (Err(FillError::Unstorable(_)), WaitRole::Leads | WaitRole::Joined) => {
                return HeadUse::Use;
            }
            // The page is looked up again.
            (Err(_), WaitRole::ToCheck) => return HeadUse::Reject,
            (Err(_), _) if slot.in_progress.shared.entry().is_some() => return HeadUse::Reject,
            (Err(failure), _) => return HeadUse::Failed(*failure),
            (Ok(head), _) => head,
        };
        let FillSharing::Shared {
            lifetime,
            tags,
            inclusions,
        } = &head.share
        else {
            return HeadUse::HitForPass;
        };
        let purges = job.site.purges.table();
        let is_purged = slot.terms == WaitRole::ToCheck
            && (touched(&slot.in_progress, job, Some(tags)) != FillPurgeState::No
                || purges.newer_than_parts(slot.in_progress.born.get(), inclusions));
        if is_purged {
            return HeadUse::Reject;
        }
        if job.storage().vary == VaryPolicy::CoveredByKey {
            return HeadUse::Use;
        }
        let names = variants::names(&head.fields);
        let selecting = Selecting::new(&names);
        let own_selection = selecting.of(variants::lines(&job.call.request.fields));
        if own_selection.is_none()
            || own_selection != selecting.of(variants::lines(&slot.in_progress.sent))
        {
            return if self.storer.fetch_key(job) == *key {
                HeadUse::HitForPass
            } else {
                HeadUse::Reject
            };
        }
        let is_for_all = !slot.in_progress.is_confined.get()
            && lifetime.fresh > lifetime.initial_age
            && may_answer_credentials(job, &head.fields);
        if is_for_all {
            HeadUse::Use
        } else {
            HeadUse::HitForPass
        }
    }

    /// Adds a fetch to the table. There must be no await between the check of the table and this.
    fn start_fetch(
        &self,
        job: &PageJob,
        key: Key,
        overtaken: Option<&InProgressFetch>,
    ) -> (Rc<InProgressFetch>, FillWriter) {
        let (writer, fill) = fill::fill(WINDOW, Some(self.storer.retention()));
        let sent = match job.storage().vary {
            VaryPolicy::CoveredByKey => Vec::new(),
            VaryPolicy::Variants => job.call.request.fields.clone(),
        };
        let limits = &job.site.limits;
        let in_progress = Rc::new(InProgressFetch::new(fill, sent, limits, overtaken));
        self.coalescer.insert(key, &in_progress);
        (in_progress, writer)
    }
}

/// Whether a request may join fetches. With `no-cache` it may not, except if every fetch that it can join is sent after it arrived.
fn joins(job: &PageJob) -> bool {
    job.needs_new_response || !job.info.directives().no_cache
}

/// Whether a response with these fields may answer a request with credentials.
fn may_answer_credentials(job: &PageJob, fields: &HeaderMap) -> bool {
    !job.info.has_authorization()
        || SharedWith::of(fields, &job.site.policy) == SharedWith::Everyone
}

fn touched(in_progress: &InProgressFetch, job: &PageJob, tags: Option<&[u64]>) -> FillPurgeState {
    let born = in_progress.born.get();
    if born == NOT_SENT {
        return FillPurgeState::No;
    }
    let scopes = scopes(&job.info, Vec::new());
    let touch = PurgeSubject {
        tags,
        ..scopes.touch()
    };
    job.site.purges.newer_than(born, touch)
}
