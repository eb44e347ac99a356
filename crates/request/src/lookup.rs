//! The cache lookup of a request.
//!
//! With the WordPress preset the entry is stored under the request's key. With RFC 9111 the key may lead to a variant
//! (section 4.1). If no variant can be selected, a stored response of an equivalent address (`No-Vary-Search`) or a stored
//! partial response (section 3.3) may be used.

use std::sync::Arc;

use galley_cache::entry::{Entry, EntryKind};
use galley_cache::private::OwnFragments;
use galley_policy::decide::{
    Decision, StoredResponse, Validity, decide, decide_partitioned, may_select,
};
use galley_policy::forward::{self, Credentials};
use galley_policy::request_info::{Cacheability, Method, RequestInfo};
use galley_policy::site::{Policy, VaryPolicy};
use galley_policy::time::Tick;

use super::exchange::{EarlierLookup, Exchange};
use super::page;
use super::site::Services;
use galley_fetch::revalidate::{self, stored};
use galley_fetch::rfc9111::equivalents::EquivalentQuery;
use galley_fetch::rfc9111::variants;

/// The purpose of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupPurpose {
    /// To answer a client: counts a hit, and removes purged entries.
    Serve,
    /// To explain the decision: changes nothing, and blocks on the disk.
    Explain,
}

/// The stored entry that a request selects, at one moment.
#[derive(Clone, Debug)]
pub struct LookupResult {
    /// The entry and its validity. It may be purged or a marker; see [`LookupResult::stored`].
    pub entry: Option<(Arc<Entry>, Validity)>,
    /// The time of the lookup.
    now: Tick,
    /// Whether the entry consists of several partial responses, which may answer a request for a range.
    pub is_joined: bool,
    /// Whether nothing was looked up because purges of other nodes may be missing.
    is_partitioned: bool,
    /// The private fragments of the member who sent the request.
    pub(super) own: OwnFragments,
}

impl LookupResult {
    fn nothing(now: Tick) -> Self {
        Self {
            entry: None,
            now,
            is_joined: false,
            is_partitioned: false,
            own: OwnFragments::default(),
        }
    }

    /// Decides how to answer the request.
    pub fn decide(&self, info: &RequestInfo, policy: &Policy) -> Decision {
        if self.is_partitioned {
            return decide_partitioned(info);
        }
        decide(info, policy, self.stored().as_ref())
    }

    /// The entry in the form that the decision needs; `None` if it is neither a response nor a hit-for-pass marker.
    pub fn stored(&self) -> Option<StoredResponse<'_>> {
        let (entry, validity) = self.entry.as_ref()?;
        let stored = stored(entry, *validity, entry.age(self.now))?;
        Some(StoredResponse {
            private: self.own.state,
            ..stored
        })
    }

    /// The response that may answer this request now or after a revalidation, as far as purges allow.
    pub fn response(&self) -> Option<&Arc<Entry>> {
        let (entry, validity) = self.entry.as_ref()?;
        let is_usable = matches!(validity, Validity::Valid | Validity::SoftPurged);
        (entry.kind == EntryKind::Page && is_usable).then_some(entry)
    }

    /// Whether nothing was looked up because purges of other nodes may be missing.
    pub(super) fn is_partitioned(&self) -> bool {
        self.is_partitioned
    }

    /// Whether no fresh page is stored although the page is known to be storable: the public page of a member.
    pub(super) fn is_missing(&self) -> bool {
        let is_fresh = |(entry, validity): &(Arc<Entry>, Validity)| {
            *validity == Validity::Outdated
                || (*validity == Validity::Valid && entry.lifetime.fresh > entry.age(self.now))
        };
        !self.is_partitioned && !self.entry.as_ref().is_some_and(is_fresh)
    }

    /// Claims the background refresh of the entry; true for one caller at a time.
    pub fn claims_refresh(&self) -> bool {
        self.response()
            .is_some_and(|entry| revalidate::is_due(entry, entry.age(self.now), self.now))
    }
}

/// Looks up the entry of a request whose key is written.
pub async fn lookup(
    services: &Services,
    exchange: &Exchange<'_>,
    purpose: LookupPurpose,
) -> LookupResult {
    let reader = LookupContext {
        services,
        exchange,
        purpose,
        now: services.clock.tick(),
    };
    let is_member = exchange.info.is_member();
    if exchange.info.cacheability() != Cacheability::Cacheable && !is_member {
        return LookupResult::nothing(reader.now);
    }
    if !services.lease.holds(reader.now) {
        return LookupResult {
            is_partitioned: true,
            ..LookupResult::nothing(reader.now)
        };
    }
    let found = match &exchange.earlier {
        _ if is_member => return reader.for_member().await,
        EarlierLookup::None => reader.under(&exchange.key).await,
        EarlierLookup::NotInMemory => reader.on_disk(&exchange.key).await,
        EarlierLookup::Nothing => LookupResult::nothing(reader.now),
        EarlierLookup::Found(entry) => reader.checked(Arc::clone(entry)),
    };
    match exchange.policy().storage.vary {
        VaryPolicy::CoveredByKey => found,
        VaryPolicy::Variants => reader.by_rfc9111(found).await,
    }
}

struct LookupContext<'r, 'h> {
    services: &'r Services,
    exchange: &'r Exchange<'h>,
    purpose: LookupPurpose,
    now: Tick,
}

impl LookupContext<'_, '_> {
    /// The public page, and the private fragments of this member for it.
    async fn for_member(&self) -> LookupResult {
        let mut found = self.under(&self.exchange.key).await;
        let core = &self.exchange.site.core;
        if let Some(page) = found.response()
            && let Some(store) = &core.private
            && let Some(visitor) = self.exchange.visitor(store)
        {
            let counts = self.purpose == LookupPurpose::Serve;
            let is_valid = |own: &Entry| core.purges.validity_waiting(own) == Validity::Valid;
            found.own = store.look(&visitor, page, self.now, counts, is_valid);
        }
        found
    }

    /// The entry of a key, checked against purges.
    async fn under(&self, key: &[u8]) -> LookupResult {
        let (memory, site) = (&self.services.memory, &self.exchange.site);
        let entry = match self.purpose {
            LookupPurpose::Serve => site.stored(memory, key).await,
            LookupPurpose::Explain => {
                let on_disk = || site.core.disk.as_ref()?.peek(key);
                memory.peek(key).or_else(on_disk)
            }
        };
        self.checked_if_any(entry)
    }

    /// The entry of a key that is not in memory, checked against purges.
    async fn on_disk(&self, key: &[u8]) -> LookupResult {
        self.checked_if_any(self.exchange.site.on_disk(key).await)
    }

    fn checked_if_any(&self, entry: Option<Arc<Entry>>) -> LookupResult {
        entry.map_or_else(
            || LookupResult::nothing(self.now),
            |entry| self.checked(entry),
        )
    }

    fn checked(&self, entry: Arc<Entry>) -> LookupResult {
        let purges = &self.exchange.site.core.purges;
        // A purge may be in progress. This is not the fast path, so it waits for the lock.
        let validity = purges.validity_waiting(&entry);
        // A page stays until it is replaced, because the next one is compared with it and may have the same compressed forms.
        let is_of_no_use = validity == Validity::Purged && entry.kind != EntryKind::Page;
        if is_of_no_use && self.purpose == LookupPurpose::Serve {
            self.services.memory.remove_if_same(&entry);
        }
        LookupResult {
            entry: Some((entry, validity)),
            ..LookupResult::nothing(self.now)
        }
    }

    async fn by_rfc9111(&self, mut found: LookupResult) -> LookupResult {
        if let Some((marker, _)) = &found.entry
            && marker.kind == EntryKind::Varies
        {
            let sent = self.sent();
            for key in variants::candidates(marker, &sent) {
                let variant = self.under(&key).await;
                if variant.entry.is_some() {
                    found = variant;
                    break;
                }
            }
        }
        let (info, policy) = (&self.exchange.info, &self.exchange.site.core.policy);
        let is_selected = found
            .stored()
            .is_some_and(|stored| may_select(info, policy, &stored));
        let is_response = is_selected && found.response().is_some();
        let is_remembered = is_selected && matches!(self.decide(&found), Decision::Pass(_));
        if !is_response
            && !is_remembered
            && let Some(equivalent) = self.equivalent()
        {
            return equivalent;
        }
        if !is_response && let Some(part) = self.part().await {
            return part;
        }
        found
    }

    fn decide(&self, found: &LookupResult) -> Decision {
        found.decide(&self.exchange.info, &self.exchange.site.core.policy)
    }

    fn is_hit(&self, found: &LookupResult) -> bool {
        let decision = self.decide(found);
        matches!(decision, Decision::Hit | Decision::HitAndRefresh)
    }

    /// The request's fields as they would be forwarded.
    fn sent(&self) -> Vec<(http::HeaderName, http::HeaderValue)> {
        let exchange = self.exchange;
        forward::fetch(&exchange.info, exchange.fields(), Credentials::OfClient).fields
    }

    /// A fresh response of an equivalent address, by its `No-Vary-Search`. A stale one is not used: Galley then fetches the requested
    /// address, which gets a separate entry.
    fn equivalent(&self) -> Option<LookupResult> {
        let exchange = self.exchange;
        let query = EquivalentQuery {
            info: &exchange.info,
            key: &exchange.key,
        };
        let memory = &self.services.memory;
        let entry = query.find(
            memory,
            || self.sent(),
            |entry| {
                query.is_untouched(exchange.site.core.purges.table(), entry) && self.is_fresh(entry)
            },
        )?;
        if self.purpose == LookupPurpose::Serve {
            // Counts the hit.
            let _ = memory.get(entry.key.bytes());
        }
        Some(self.checked(entry))
    }

    fn is_fresh(&self, entry: &Entry) -> bool {
        let validity = self.exchange.site.core.purges.validity_waiting(entry);
        let (info, policy) = (&self.exchange.info, &self.exchange.site.core.policy);
        let stored = stored(entry, validity, entry.age(self.now));
        validity == Validity::Valid
            && matches!(
                decide(info, policy, stored.as_ref()),
                Decision::Hit | Decision::HitAndRefresh
            )
    }

    /// The stored part for exactly this `Range`, or combined parts that contain it.
    async fn part(&self) -> Option<LookupResult> {
        let exchange = self.exchange;
        let info = &exchange.info;
        let range = info.range()?;
        if info.method() != Method::Get || info.if_range().is_some() {
            return None;
        }
        let part = self.under(&variants::part_key(&exchange.key, range)).await;
        if self.is_hit(&part) {
            return Some(part);
        }
        let joined = self.under(&variants::joined_key(&exchange.key)).await;
        let holds = joined
            .response()
            .is_some_and(|entry| page::span_of(entry, range).is_some());
        (holds && self.is_hit(&joined)).then_some(LookupResult {
            is_joined: true,
            ..joined
        })
    }
}
