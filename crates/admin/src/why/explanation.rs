//! Gathers the facts about a request.

use std::borrow::Cow;

use galley_cache::purge_table::{MatchingPurge, PurgeSubject};
use galley_cluster::ClusterPublisher;
use galley_policy::site::Policy;
use tokio::runtime::Handle;

use super::below::PathExplanation;
use super::question::WhyRequest;
use crate::{AdminState, entry};
use galley_fetch::counters::UncachedPage;
use galley_fetch::hit_for_pass::{self, PassReason};
use galley_fetch::shared::SharedLookup;
use galley_request::Exchange;
use galley_request::lookup::{LookupPurpose, LookupResult, lookup};

/// The facts about a request.
pub(super) struct Explanation<'s, 'h> {
    pub(super) state: &'s AdminState,
    pub(super) exchange: Exchange<'h>,
    /// The lookup result.
    pub(super) found: LookupResult,
    /// The reason in a hit-for-pass entry.
    pub(super) reason: Option<PassReason>,
    pub(super) last_not_stored: Option<UncachedPage>,
    /// The newest purge that matches the entry and its includes since it was born, or the URL if there is no entry.
    pub(super) touching: Option<MatchingPurge>,
    pub(super) below: PathExplanation,
    /// Whether the URL was given with `https://`.
    pub(super) is_https: bool,
}

impl<'s, 'h> Explanation<'s, 'h> {
    /// Gathers the facts. Blocks on the disk.
    pub(super) fn of(
        state: &'s AdminState,
        mut exchange: Exchange<'h>,
        wanted: &WhyRequest,
    ) -> Self {
        exchange.write_key();
        let pending = lookup(&state.services, &exchange, LookupPurpose::Explain);
        let found = Handle::current().block_on(pending);
        let core = &exchange.site.core;
        let entry = found.entry.as_ref().map(|(entry, _)| entry);
        let touching = match entry {
            Some(entry) => entry::newest_match(&exchange.site, entry),
            None => touching(&exchange),
        };
        Self {
            state,
            reason: entry.and_then(|entry| hit_for_pass::reason(entry)),
            last_not_stored: core.counters.last_not_stored(&exchange.key),
            touching,
            below: PathExplanation::resolve(&exchange),
            is_https: wanted.url.starts_with("https://"),
            found,
            exchange,
        }
    }

    /// Whether another node has the page, so that no request is sent upstream. Queries the engine of the cluster, within its
    /// deadline.
    pub(super) fn is_shared(&self) -> bool {
        let services = &self.state.services;
        let cluster = services.cluster.as_ref();
        let Some(pages) = cluster.and_then(ClusterPublisher::pages) else {
            return false;
        };
        let (core, info) = (&self.exchange.site.core, &self.exchange.info);
        if !core.keys_identify_responses() || info.directives().no_cache {
            return false;
        }
        let lookup = SharedLookup {
            site: core,
            key: &self.exchange.key,
            memory: &services.memory,
            lease: &services.lease,
            clock: services.clock,
        };
        let peek = pages.peek(lookup.name(), |found| lookup.accept(info, &found));
        Handle::current().block_on(peek).is_some()
    }

    /// The site's policy. A request for a URL with `https://` counts as one over TLS, without a proxy's field that says so.
    pub(super) fn policy(&self) -> Cow<'_, Policy> {
        let mut policy = Cow::Borrowed(&self.exchange.site.core.policy);
        if self.is_https {
            policy.to_mut().home.https = None;
        }
        policy
    }
}

/// The newest purge that matches the request's URL; only stored entries have tags.
fn touching(exchange: &Exchange<'_>) -> Option<MatchingPurge> {
    let mut path_query = Vec::new();
    exchange.info.path_query(&mut path_query);
    let touch = PurgeSubject {
        host: exchange.info.host_id(),
        url: exchange.info.url_id(),
        path_query: &path_query,
        tags: None,
    };
    exchange.site.core.purges.newest_match(0, &touch)
}
