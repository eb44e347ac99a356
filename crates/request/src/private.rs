//! Stored pages for members and visitors with a cart: the public page with their private fragments.
//!
//! The private fragments come from a page that PHP generates for the member alone. Galley compares that page with the public
//! one. Only if both are equal outside of the private fragments do members of the same class get the public page from then on.
//! The shared cache stores nothing of the member's page: it is received here, its fragments are stored in the [`PrivateStore`](galley_cache::private::PrivateStore), and
//! the complete page is sent to the member.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use galley_cache::body::StoredBody;
use galley_cache::budget::Reservation;
use galley_cache::entry::{Entry, EntryKind, EntryParts, Scopes};
use galley_cache::fill::{FillError, FillHead, FillSharing};
use galley_cache::key::Key;
use galley_cache::private::{OwnFragment, SessionTicket};
use galley_cache::purge_table::Validity;
use galley_cache::splice::splice;
use galley_policy::class::Standing;
use galley_policy::forward::Credentials;
use galley_policy::fragments::{self, FragmentPart};
use galley_policy::outcome::{Outcome, PassWhy};
use galley_policy::private::{self, PageDifference, PrivateScope};
use galley_policy::storable::{Lifetime, passed_fields};
use galley_policy::time::Tick;
use http::header::SET_COOKIE;
use http::{HeaderMap, StatusCode};

use super::exchange::Exchange;
use super::forward::{admitted_pool, member_request, page_job, pass_job, pool};
use super::lookup::LookupResult;
use super::miss::Miss;
use super::page;
use super::response::{Response, ResponseBody};
use super::site::Services;
use crate::fault::Fault;
use galley_fetch::revalidate::RefreshReason;

/// The stored page with the member's private fragments. The response shares the bytes of both.
pub(super) async fn assembled(
    services: &Services,
    exchange: &Exchange<'_>,
    found: &LookupResult,
) -> Option<Response> {
    let page = Arc::clone(found.response()?);
    let page = Box::pin(page::unpack(services, exchange, page)).await?;
    let fragments = found.own.fragments.iter();
    let fragments: Option<Vec<_>> = fragments
        .map(|(hole, fragment)| Some((hole, Some(page::shared_body(fragment)?))))
        .collect();
    let spliced = splice(page.body()?, fragments?.into_iter())?;
    if let Some(store) = &exchange.site.core.private {
        store.note_assembled();
    }
    Some(Response::new(
        page.status.as_u16(),
        private::own_fields(&page.fields),
        ResponseBody::Pieces(spliced.pieces),
        Outcome::Assembled,
    ))
}

/// A page that PHP generated for a member.
struct MemberPage {
    head: Arc<FillHead>,
    body: Bytes,
    /// Taken before the page was requested.
    ticket: SessionTicket,
    born: u64,
    upstream_time: Duration,
}

impl Miss<'_, '_> {
    /// Lets PHP generate the page for this member, compares it with the public page, and stores the member's fragments.
    pub(super) async fn compare(self) -> Result<Response, Fault> {
        let core = Arc::clone(&self.exchange.site.core);
        let (Some(store), Some(public)) = (&core.private, self.found.response()) else {
            return self.pass(Outcome::Pass(PassWhy::Cookie)).await;
        };
        let Some(visitor) = self.exchange.visitor(store) else {
            return self.pass(Outcome::Pass(PassWhy::Cookie)).await;
        };
        let plain = Box::pin(page::unpack(
            self.services,
            self.exchange,
            Arc::clone(public),
        ));
        let plain = plain.await;
        let Some(plain) = plain.as_ref().and_then(|entry| entry.body()) else {
            // There is no memory for the comparison.
            return self.pass(Outcome::Pass(PassWhy::Cookie)).await;
        };
        let Some(room) = self.room_like(public) else {
            // There is no memory for the member's page, which may be sent slowly.
            return self.pass(Outcome::Pass(PassWhy::Cookie)).await;
        };
        let ticket = store.ticket(&visitor);
        let has_link = memchr::memmem::find(plain, VISIT_LINK).is_some();
        let Some(page) = self.generate(ticket, room, has_link).await? else {
            // The response is a file, or larger than the largest object that may be stored, or than the memory that is free: PHP generates it
            // again, and the next request is not compared.
            let now = self.services.clock.tick();
            store.keep(&visitor, ticket, None, public, Vec::new(), now);
            return self.pass(Outcome::Pass(PassWhy::Cookie)).await;
        };
        let now = self.services.clock.tick();
        let fields = &page.head.fields;
        let Some(class) = private::class(fields) else {
            store.keep(&visitor, page.ticket, None, public, Vec::new(), now);
            return self.pass(Outcome::Pass(PassWhy::Cookie)).await;
        };
        let (parts, difference) = match parts(public, &page) {
            Ok(parts) => {
                let difference = difference(public, plain, &page.body, &parts);
                (Some(parts), difference)
            }
            Err(difference) => (None, Some(difference)),
        };
        if core.purges.validity_waiting(public) == Validity::Valid {
            store.judge(public, class, difference, now);
        }
        let Some(parts) = parts else {
            // The fetch did not forward everything that the member sent, so this page must not be sent to the member.
            return self.pass(Outcome::Pass(PassWhy::Differs)).await;
        };
        let fragments = own_fragments(self.exchange, &page, &parts, now);
        store.keep(&visitor, page.ticket, Some(class), public, fragments, now);
        let mut response = Response::new(
            page.head.status.as_u16(),
            private::own_fields(&passed_fields(fields, &core.policy)),
            ResponseBody::Bytes(page.body),
            Outcome::Pass(PassWhy::Compared),
        );
        response.upstream_time = Some(page.upstream_time);
        Ok(response)
    }

    /// Memory for a member's page, which has about the length of the public one.
    fn room_like(&self, public: &Entry) -> Option<Reservation> {
        let mut room = self.services.memory.budget().try_reserve(0)?;
        room.try_grow_for_client(public.length()).ok()?;
        Some(room)
    }

    /// `room`: the memory for the page; it grows if the page is longer. `has_link`: see [`member_request`].
    async fn generate(
        &self,
        ticket: SessionTicket,
        room: Reservation,
        has_link: bool,
    ) -> Result<Option<MemberPage>, Fault> {
        let exchange = &*self.exchange;
        let standing = self.standing();
        let pool = admitted_pool(exchange, standing, None)?;
        let began = Instant::now();
        let born = exchange.site.core.purges.current();
        let request = member_request(exchange, has_link);
        let mut job = pass_job(exchange, &pool, request, self.script.clone(), standing);
        job.is_read_here = true;
        let fault = |failure| pool.fault(failure);
        let mut reader = pool.fetch_thread.pass(job).map_err(fault)?;
        let head = reader.head().await.map_err(fault)?;
        let upstream_time = began.elapsed();
        if let FillSharing::File(_) = head.share {
            return Ok(None);
        }
        match reader.whole(room, self.services.memory.max_object()).await {
            Ok(body) => Ok(Some(MemberPage {
                head,
                body,
                ticket,
                born,
                upstream_time,
            })),
            Err(FillError::Unstorable(_) | FillError::Memory) => Ok(None),
            Err(failure) => Err(fault(failure)),
        }
    }

    /// Fetches a page in the background as an anonymous visitor if members request it and it is not stored, so that the next members
    /// get the stored page.
    pub(super) fn fetch_for_members(&self) {
        let exchange = &*self.exchange;
        let Some(stranger) = exchange.info.without_member() else {
            return;
        };
        if !self.found.is_missing() {
            return;
        }
        let Ok(pool) = pool(exchange) else {
            return;
        };
        let (standing, credentials) = (Standing::BACKGROUND, Credentials::None);
        let script = self.script.clone();
        let mut page = page_job(
            self.services,
            exchange,
            &pool,
            script,
            standing,
            credentials,
        );
        page.info = stranger;
        page.call.trace = None;
        page.call.client_address = exchange.own_address();
        page.call.request_id = format!("{}-public", exchange.request_id);
        pool.fetch_thread.refresh(page, RefreshReason::Spare);
    }
}

/// The address of the style sheet by which browsers prove their visit, as the plugin prints it.
const VISIT_LINK: &[u8] = b"/galley-visit/style.css";

/// The private fragments of a response.
fn private_parts(parts: &[FragmentPart]) -> impl Iterator<Item = (&FragmentPart, PrivateScope)> {
    let scope = |part: &FragmentPart| PrivateScope::of(&part.definition);
    parts
        .iter()
        .filter_map(move |part| Some((part, scope(part)?)))
}

/// The fragments of a member's page that may be sent and stored; else the reason why the page differs from the public one.
fn parts(public: &Entry, page: &MemberPage) -> Result<Vec<FragmentPart>, PageDifference> {
    let head = &page.head;
    if head.status != public.status {
        return Err(PageDifference::Status(head.status.as_u16()));
    }
    if head.fields.contains_key(SET_COOKIE) {
        return Err(PageDifference::Cookie);
    }
    fragments::parse(&head.fields).map_err(|_| PageDifference::Fragments(String::new()))
}

/// The difference of the two pages outside of the private fragments. `plain` is the body of `public`.
fn difference(
    public: &Entry,
    plain: &[u8],
    body: &[u8],
    parts: &[FragmentPart],
) -> Option<PageDifference> {
    let hole = |fragment: &galley_cache::fragments::PageFragment| -> Option<(String, Range<u32>)> {
        fragment.version.private_scope()?;
        Some((fragment.version.label.to_string(), fragment.range.clone()))
    };
    let holes: Vec<_> = public.fragments().iter().filter_map(hole).collect();
    let holes = holes.iter().map(|(name, hole)| (&**name, hole.clone()));
    let parts: Vec<FragmentPart> = private_parts(parts).map(|(part, _)| part.clone()).collect();
    private::compare(plain, holes, body, &parts)
}

fn own_fragments(
    exchange: &Exchange<'_>,
    page: &MemberPage,
    parts: &[FragmentPart],
    now: Tick,
) -> Vec<OwnFragment> {
    let private: Vec<FragmentPart> = private_parts(parts).map(|(part, _)| part.clone()).collect();
    let fragment = |(part, scope): (&FragmentPart, PrivateScope)| {
        if private::is_repeated(&page.body, &private, part) {
            return None;
        }
        let end = part.start.checked_add(part.length)?;
        let bytes = page.body.get(part.start..end)?;
        let (url, path_query) = match scope {
            PrivateScope::Session => (0, Vec::new()),
            PrivateScope::Page => {
                let mut path_query = Vec::new();
                exchange.info.path_query(&mut path_query);
                (exchange.info.url_id(), path_query)
            }
        };
        let entry = Entry::new(EntryParts {
            // The entry is in no table, so it needs no key.
            key: Key::new(b""),
            kind: EntryKind::Page,
            status: StatusCode::OK,
            fields: HeaderMap::new(),
            // Copied, so that the fragment does not keep the whole page in memory.
            body: StoredBody::from(Bytes::copy_from_slice(bytes)),
            stored_at: now,
            lifetime: Lifetime {
                fresh: LIFETIME,
                ..Lifetime::default()
            },
            scopes: Scopes {
                host: exchange.info.host_id(),
                url,
                path_query: path_query.into(),
                tags: part.tags.ids.clone().into(),
            },
            tags: Vec::new(),
            born: page.born,
        });
        Some(OwnFragment {
            name: part.label.clone(),
            scope,
            entry,
        })
    };
    private_parts(parts).filter_map(fragment).collect()
}

/// Lifetime of private fragments. Their dependencies purge them; this limits the effect of changes that are not reported.
const LIFETIME: Duration = Duration::from_secs(300);
