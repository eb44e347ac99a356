//! One ESI include: its stored response, or a fetch as for a visitor without cookies.
//!
//! Includes are stored and looked up under separate keys, so pages share them. Only a response that may be stored can be part of
//! a page, so no content that the upstream marks as private is included.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use galley_cache::entry::{Entry, EntryKind};
use galley_cache::fill::{FillError, FillHead, FillSharing};
use galley_cache::includes::{IncludedPart, IncludedResponses};
use galley_policy::esi::MAX_DEPTH;
use galley_policy::esi::target::IncludeRefused;
use galley_policy::esi::template::IncludeSource;
use galley_policy::outcome::NotStored;
use galley_policy::storable::{self, Lifetime, ResponseHead};
use http::{HeaderMap, StatusCode, header};
use tokio::sync::oneshot;

use super::entry_parts::scopes;
use super::jobs::{IncludeFound, IncludingPage};
use super::{FetchResult, FetchSite, FetchWorker, PageJob};

/// The bytes of an include.
#[derive(Debug, Default)]
pub(super) struct IncludedBody {
    pub(super) bytes: Bytes,
    /// The include and its nested includes. `depth` is 0 if there are none.
    pub(super) inclusions: IncludedResponses,
    /// The remaining lifetime of the include.
    pub(super) left: Lifetime,
}

/// Why an include failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IncludeFailure {
    /// The page may not include the address.
    Refused(IncludeRefused),
    /// The include would be nested too deeply.
    Depth,
    /// The page has too many includes.
    Number,
    /// The status of the response is not 200, or the response is encoded.
    Response,
    /// The response may not be shared.
    NotShared,
    /// The include makes the page too large.
    Size,
    /// The response was not received.
    Upstream(FillError),
}

impl IncludeFailure {
    pub(super) fn word(self) -> String {
        match self {
            Self::Refused(why) => why.word().to_owned(),
            Self::Depth => "depth".to_owned(),
            Self::Number => "number".to_owned(),
            Self::Response => "response".to_owned(),
            Self::NotShared => "not shared".to_owned(),
            Self::Size => "size".to_owned(),
            Self::Upstream(failure) => failure.to_string(),
        }
    }
}

impl FetchWorker {
    /// The response of the first of the two addresses that has one.
    pub(super) async fn include(
        self: Rc<Self>,
        page: Rc<IncludingPage>,
        source: Arc<IncludeSource>,
    ) -> Result<IncludedBody, IncludeFailure> {
        let failure = match self.included(&page, &source.src).await {
            Ok(body) => return Ok(body),
            Err(failure) => failure,
        };
        note_failure(&page, &source.src, failure);
        let Some(alt) = &source.alt else {
            return Err(failure);
        };
        let included = self.included(&page, alt).await;
        included
            // The first address is tried again soon.
            .map(|body| IncludedBody {
                left: body.left.fresh_for(body.left.fresh.min(RETRY)),
                ..body
            })
            .inspect_err(|failure| note_failure(&page, alt, *failure))
    }

    async fn included(
        self: &Rc<Self>,
        page: &Rc<IncludingPage>,
        address: &str,
    ) -> Result<IncludedBody, IncludeFailure> {
        if page.depth >= MAX_DEPTH {
            return Err(IncludeFailure::Depth);
        }
        // Before the lookup and the request: the response may lack the effect of later purges.
        let born = page.site.purges.current();
        let lookup = page.lookup.as_ref();
        let lookup = lookup.ok_or(IncludeFailure::Upstream(FillError::Aborted))?;
        let found = lookup.look_up(page, address).await;
        match found.map_err(IncludeFailure::Refused)? {
            IncludeFound::Stored(entry) => {
                page.site.counters.include_stored();
                self.body_of_entry(&page.site, &entry)
            }
            IncludeFound::Fetch { mut job, stale } => {
                job.depth = page.depth + 1;
                page.site.counters.include_fetched();
                let fetched = self.fetched(job, born).await;
                match stale {
                    Some(stale) if fetched.is_err() => {
                        let body = self.body_of_entry(&page.site, &stale)?;
                        let left = until_retry(body.left);
                        Ok(IncludedBody { left, ..body })
                    }
                    _ => fetched,
                }
            }
        }
    }

    async fn fetched(
        self: &Rc<Self>,
        job: Box<PageJob>,
        born: u64,
    ) -> Result<IncludedBody, IncludeFailure> {
        let (site, info) = (Arc::clone(&job.site), job.info.clone());
        let (reply, response) = oneshot::channel();
        tokio::task::spawn_local(Rc::clone(self).page(job, None, reply));
        let fetched = response
            .await
            .map_err(|_| IncludeFailure::Upstream(FillError::Aborted))?;
        match fetched {
            Ok(
                FetchResult::Entry(entry)
                | FetchResult::Shared(entry)
                | FetchResult::Awaited(entry),
            ) => self.body_of_entry(&site, &entry),
            Ok(FetchResult::HitForPass) | Err(FillError::Unstorable(_)) => {
                Err(IncludeFailure::NotShared)
            }
            Ok(FetchResult::Fill { mut reader, .. }) => {
                let head = reader.head().await.map_err(failed)?;
                let (part, left) = shared(&head)?;
                let itself = IncludedPart {
                    scopes: scopes(&info, part.tags),
                    born,
                };
                let room = self.storer.room().map_err(failed)?;
                let whole = reader.whole(room, self.storer.max_object());
                let bytes = whole.await.map_err(|failure| match failure {
                    FillError::Unstorable(NotStored::TooLarge) => IncludeFailure::Size,
                    other => failed(other),
                })?;
                let head = ResponseHead {
                    status: head.status,
                    fields: &head.fields,
                    response_delay: Duration::ZERO,
                    now: self.clock.wall(),
                };
                // The same check as before storing: the page would be stored longer than the include.
                storable::judge_include(&head, &site.policy, &bytes)
                    .map_err(|_| IncludeFailure::Response)?;
                Ok(IncludedBody {
                    bytes,
                    inclusions: joined(itself, &part.inclusions)?,
                    left,
                })
            }
            Err(failure) => Err(failed(failure)),
        }
    }

    fn body_of_entry(
        &self,
        site: &FetchSite,
        entry: &Arc<Entry>,
    ) -> Result<IncludedBody, IncludeFailure> {
        let is_page = entry.kind == EntryKind::Page && entry.pieces().is_none();
        if !is_page || !is_plain(entry.status, &entry.fields) {
            return Err(IncludeFailure::Response);
        }
        let itself = IncludedPart {
            scopes: entry.scopes.clone(),
            born: entry.born,
        };
        let assembly = entry.assembly();
        let nested = assembly.map(|assembly| IncludedResponses {
            // Pages with omitted includes are stored only if they were requested directly.
            is_cut: false,
            ..assembly.inclusions.clone()
        });
        let unpacked = site.compressing.unpacked(entry);
        let plain = unpacked.as_ref().and_then(|entry| entry.body());
        Ok(IncludedBody {
            bytes: plain.ok_or(failed(FillError::Memory))?.clone(),
            inclusions: joined(itself, &nested.unwrap_or_default())?,
            left: entry.lifetime.left(entry.age(self.clock.tick())),
        })
    }
}

/// The properties of a response that may be shared, from its head.
struct SharedPart {
    tags: Vec<u64>,
    inclusions: IncludedResponses,
}

fn shared(head: &FillHead) -> Result<(SharedPart, Lifetime), IncludeFailure> {
    if !is_plain(head.status, &head.fields) {
        return Err(IncludeFailure::Response);
    }
    let FillSharing::Shared {
        lifetime,
        tags,
        inclusions,
    } = &head.share
    else {
        return Err(IncludeFailure::NotShared);
    };
    let part = SharedPart {
        tags: tags.clone(),
        inclusions: inclusions.clone(),
    };
    Ok((part, lifetime.left(lifetime.initial_age)))
}

fn is_plain(status: StatusCode, fields: &HeaderMap) -> bool {
    status == StatusCode::OK && !fields.contains_key(header::CONTENT_ENCODING)
}

/// An include together with its nested includes.
fn joined(
    own: IncludedPart,
    nested: &IncludedResponses,
) -> Result<IncludedResponses, IncludeFailure> {
    if nested.depth >= MAX_DEPTH {
        return Err(IncludeFailure::Depth);
    }
    Ok(IncludedResponses {
        parts: std::iter::once(own)
            .chain(nested.parts.iter().cloned())
            .collect(),
        depth: nested.depth + 1,
        is_cut: nested.is_cut,
    })
}

const fn failed(failure: FillError) -> IncludeFailure {
    IncludeFailure::Upstream(failure)
}

fn note_failure(page: &IncludingPage, address: &str, failure: IncludeFailure) {
    tracing::debug!(
        site = page.site.name,
        page = %String::from_utf8_lossy(page.info.path()).escape_debug(),
        address = %address.escape_debug(),
        why = failure.word(),
        "an ESI include failed"
    );
}

/// The time after which a page that lacks an include, or has another in its place, is assembled again.
const RETRY: Duration = Duration::from_secs(10);

/// The minimum of that time. Without it the page would be assembled again for each request.
const SHORTEST_RETRY: Duration = Duration::from_secs(1);

/// The lifetime of a stale include whose upstream fails: it is tried again soon, and not used for longer than it may be.
fn until_retry(left: Lifetime) -> Lifetime {
    let usable = left.fresh.saturating_add(left.stale_if_error);
    left.fresh_for(RETRY.min(usable).max(SHORTEST_RETRY))
}

/// What a page is without a failed include: assembled again soon, and stale for as long as the page itself may be.
pub(super) const UNTIL_RETRY: Lifetime = Lifetime {
    fresh: RETRY,
    stale_while_revalidate: Duration::MAX,
    stale_if_error: Duration::MAX,
    initial_age: Duration::ZERO,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_include_is_not_used_for_longer_than_it_may_be() {
        for (stale_if_error, expected) in [(0, 1), (3, 3), (600, 10)] {
            let left = Lifetime {
                stale_if_error: Duration::from_secs(stale_if_error),
                ..Lifetime::default()
            };
            assert_eq!(until_retry(left).fresh, Duration::from_secs(expected));
        }
    }
}
