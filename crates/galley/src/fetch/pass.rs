//! Requests that bypass the cache: one client, one exchange, nothing stored.
//!
//! A safe request ends with its client. An unsafe one runs to its end, because what it changed must be heard of: what
//! `invalidation` says is purged once when the head arrives, and once more when the exchange has ended, since PHP may commit
//! late.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use galley_cache::fill::{self, FillError, FillReader, FillWriter};
use galley_policy::purge::{self, Purge, Scope, Strength};
use galley_policy::site::AddressedFields;
use galley_policy::storable;
use galley_policy::tags;
use http::header::HeaderMap;
use tokio::sync::oneshot;

use super::compress::Outlet;
use super::rfc9111::{Pupil, publish_own};
use super::spool::{AHEAD, ResponseSpool};
use super::{FetchWorker, PassOrder, acknowledged, way};
use crate::upstream::{IncomingResponse, QueueTurn};

impl FetchWorker {
    pub(super) async fn pass(self: Rc<Self>, order: PassOrder, reply: oneshot::Sender<FillReader>) {
        let (mut writer, fill) = fill::fill(AHEAD, None);
        let Some(reader) = fill.reader() else { return };
        drop(fill);
        let _ = reply.send(reader);
        match self.exchange(&order, &mut writer).await {
            Ok(()) => {
                writer.finish();
            }
            Err(failure) => writer.fail(failure),
        }
    }

    async fn exchange(&self, order: &PassOrder, writer: &mut FillWriter) -> Result<(), FillError> {
        let pool = self.pool(order.pool)?;
        let began = Cell::new((order.site.epochs.current(), self.clock.tick()));
        let sending = || began.set((order.site.epochs.current(), self.clock.tick()));
        let turn = QueueTurn::default();
        let sent_up = async {
            let place = pool.enter(order.ask.who(), &turn).await?;
            pool.send(place, &order.ask, &sending).await
        };
        // An unsafe one does not leave the queue with its client either: WordPress starts its own scheduler by a request that
        // it does not wait for.
        let mut incoming = if order.ask.is_safe() {
            tokio::select! {
                incoming = sent_up => incoming?,
                () = writer.readers_gone() => return Err(FillError::Aborted),
            }
        } else {
            sent_up.await?
        };
        let (born, sent) = began.get();
        let delay = self.clock.tick().since(sent);
        order.site.cron.read_appointments(&incoming.fields);
        let mut ordered = carried(order, &incoming);
        let invalidation = self.invalidations.of(order, &incoming, self.clock.tick());
        ordered.extend(invalidation.now);
        let (calm, obeyed) = publish_own(order, &incoming, &ordered, Some(born));
        obeyed.given(&order.site).await;
        let mut pupil = self.begin_lesson(order, &incoming, born, delay);
        let (head, stream) = self.passed(order, &incoming);
        writer.head(head);
        let mut passage = ResponseSpool::new(&self.spools, AHEAD);
        passage.goes(way(&order.site, &order.facts, &incoming.fields));
        let mut outlet = Outlet::new(writer, passage, stream);
        if order.ask.is_safe() && pupil.is_none() && ordered.is_empty() {
            return outlet.relay(&mut incoming).await;
        }
        let received = receive(&mut incoming, &mut outlet, pupil.as_mut(), &ordered).await;
        let (calm, obeyed) = publish_own(order, &incoming, &ordered, calm);
        self.invalidations.delay(&order.site, invalidation.later);
        if obeyed.given(&order.site).await {
            order.site.heard.note(acknowledged::names(&incoming.fields));
        }
        if let Some(last) = received? {
            let _ = outlet.push(last).await;
        }
        let _ = outlet.finish().await;
        self.end_lesson(order, &incoming, pupil, calm.unwrap_or(born));
        Ok(())
    }

    /// The head of an answer as its client gets it, but for its coding.
    pub(super) fn passed_head(&self, order: &PassOrder, incoming: &IncomingResponse) -> HeaderMap {
        match order.site.rules.storage.fields {
            AddressedFields::Standard => self.private_head(&incoming.fields),
            AddressedFields::OfPlugins => {
                storable::passed_fields(&incoming.fields, &order.site.rules)
            }
        }
    }
}

/// Takes an answer to its end also when its client has left: it is unsafe, or something is learnt from it, which is short.
/// Where it carries orders its last piece is given back instead of sent, so that who has all of it has also the orders
/// that are published when it ends.
async fn receive(
    incoming: &mut IncomingResponse,
    outlet: &mut Outlet<'_>,
    mut pupil: Option<&mut Pupil>,
    ordered: &[Purge],
) -> Result<Option<Bytes>, FillError> {
    let mut held = None;
    while let Some(chunk) = outlet.wait(incoming.chunk()).await? {
        if let Some(pupil) = &mut pupil {
            pupil.push(&chunk);
        }
        let ready = if ordered.is_empty() {
            Some(chunk)
        } else {
            held.replace(chunk)
        };
        if let Some(chunk) = ready {
            let _ = outlet.push(chunk).await;
        }
    }
    Ok(held)
}

/// The orders that a response carries: for this site, and the groups that a successful unsafe request invalidates
/// (RFC 9875 section 2.2).
fn carried(order: &PassOrder, incoming: &IncomingResponse) -> Vec<Purge> {
    let mut orders = purge::from_response(&incoming.fields, &order.site.rules);
    let succeeded = incoming.status.is_success() || incoming.status.is_redirection();
    if !order.ask.is_safe() && succeeded {
        let groups = tags::invalidated_groups(&incoming.fields).into_iter();
        orders.extend(groups.map(|group| Purge {
            scope: Scope::Tag(group),
            strength: Strength::Hard,
        }));
    }
    orders
}
