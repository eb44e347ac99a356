//! Requests that bypass the cache: one client, one exchange, nothing stored.
//!
//! A safe request ends when its client disconnects. An unsafe request runs to its end, so that Galley notices its changes: it
//! publishes the purges of `invalidation` once when the head arrives, and again when the exchange has ended, since PHP may
//! commit late.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;

use bytes::Bytes;
use galley_cache::fill::{FillError, FillWriter};
use galley_policy::purge::{self, Purge, Scope, Strength};
use galley_policy::site::AddressedFields;
use galley_policy::storable;
use galley_policy::tags;
use http::header::HeaderMap;

use super::compress::Outlet;
use super::entry_parts::private_head;
use super::rfc9111::{BodyCopy, publish_purges};
use super::{ExchangePurges, FetchWorker, PassJob, acknowledged, buffering_mode};
use galley_upstream::{IncomingResponse, QueuePosition};

impl FetchWorker {
    pub(super) async fn pass(self: Rc<Self>, job: PassJob, mut writer: FillWriter) {
        let exchanged = self.exchange(&job, &mut writer).await;
        if let Some(session) = &job.session {
            session.end();
        }
        match exchanged {
            Ok(()) => {
                writer.finish();
            }
            Err(failure) => writer.fail(failure),
        }
    }

    async fn exchange(
        self: &Rc<Self>,
        job: &PassJob,
        writer: &mut FillWriter,
    ) -> Result<(), FillError> {
        let pool = self.upstreams.pool(job.pool)?;
        let began = Cell::new((job.site.purges.current(), self.clock.tick()));
        let sending = || began.set((job.site.purges.current(), self.clock.tick()));
        let turn = QueuePosition::default();
        let mut incoming = {
            let exchange = pin!(async {
                let waiting = job.call.begin_span("queue");
                let slot = pool.acquire(job.call.queue_identity(), &turn).await?;
                drop(waiting);
                pool.send(slot, &job.call, &sending).await
            });
            // An unsafe request also stays in the queue when its client disconnects: WordPress starts its scheduler with a request
            // that it does not wait for.
            tokio::select! {
                incoming = exchange => incoming?,
                () = writer.all_readers_dropped(), if job.call.is_safe() => return Err(FillError::Aborted),
                // Without its body the request cannot run to its end.
                () = job.call.body.broken() => return Err(FillError::Aborted),
            }
        };
        let (born, sent) = began.get();
        let delay = self.clock.tick().since(sent);
        job.site.cron.read_appointments(&incoming.fields, delay);
        let plugin = &job.site.counters.plugin;
        plugin.note(&incoming.fields, false, self.clock.tick());
        let invalidation = self.invalidations.of(job, &incoming, self.clock.tick());
        let purges = ExchangePurges {
            reported: carried(job, &incoming),
            of_method: invalidation.now,
            label: purge::label(&incoming.fields),
        };
        let (valid_at, acknowledgement) = publish_purges(job, &incoming, &purges, Some(born));
        acknowledgement.wait(&job.site).await;
        // The stored copy would lack the purges of its includes.
        let mut copy = match Box::pin(self.assemble_passed(job, &mut incoming)).await {
            Ok(true) => None,
            Ok(false) => self.storer.start_copy(job, &incoming, born, delay),
            Err(failure) => {
                let (_, acknowledgement) = publish_purges(job, &incoming, &purges, valid_at);
                self.invalidations.delay(&job.site, invalidation.later);
                acknowledgement.wait(&job.site).await;
                return Err(failure);
            }
        };
        let (head, stream) = self.passed(job, &incoming);
        // A short response is complete at once: its client's thread is woken once for all of its parts.
        writer.hold();
        writer.head(head);
        let mut spool = self.upstreams.spool();
        spool.set_mode(buffering_mode(&job.site, &job.info, &incoming.fields));
        let mut outlet = Outlet::new(writer, spool, stream);
        if job.call.is_safe() && copy.is_none() && purges.is_empty() {
            return outlet.relay(&mut incoming).await;
        }
        let received = receive(&mut incoming, &mut outlet, copy.as_mut(), &purges).await;
        outlet.release();
        let (valid_at, acknowledgement) = publish_purges(job, &incoming, &purges, valid_at);
        self.invalidations.delay(&job.site, invalidation.later);
        if acknowledgement.wait(&job.site).await {
            job.site
                .acknowledged
                .note(acknowledged::names(&incoming.fields));
        }
        if let Some(last) = received? {
            let _ = outlet.push(last).await;
        }
        let _ = outlet.finish().await;
        self.storer
            .store_copy(job, &incoming, copy, valid_at.unwrap_or(born));
        Ok(())
    }

    /// The head of a response as the client receives it, except for its coding.
    pub(super) fn passed_head(&self, job: &PassJob, incoming: &IncomingResponse) -> HeaderMap {
        match job.site.policy.storage.fields {
            _ if job.is_read_here => storable::forwarded_fields(&incoming.fields),
            AddressedFields::Standard => private_head(&incoming.fields, self.clock),
            AddressedFields::OfPlugins => {
                storable::passed_fields(&incoming.fields, &job.site.policy)
            }
        }
    }
}

/// Receives a response to its end even if its client has disconnected, because the request is unsafe, or a short response is
/// stored. If the response carries purges and has a known length, its last piece is returned instead of sent, so that a client
/// with the complete response also sees the purges that are published at its end. Without a known length, the end marks the
/// response as complete.
async fn receive(
    incoming: &mut IncomingResponse,
    outlet: &mut Outlet<'_>,
    mut copy: Option<&mut BodyCopy>,
    purges: &ExchangePurges,
) -> Result<Option<Bytes>, FillError> {
    let mut last = None;
    loop {
        let next = outlet.wait(pin!(incoming.chunk())).await?;
        let Some(chunk) = next else { break };
        if let Some(copy) = &mut copy {
            copy.push(&chunk);
        }
        if !purges.is_empty() && incoming.has_all() {
            last = Some(chunk);
        } else {
            let _ = outlet.push(chunk).await;
        }
    }
    Ok(last)
}

/// The purges that a response carries: for this site, and the groups that a successful unsafe request invalidates
/// (RFC 9875 section 2.2).
fn carried(job: &PassJob, incoming: &IncomingResponse) -> Vec<Purge> {
    let mut purges = purge::from_response(&incoming.fields, &job.site.policy);
    let succeeded = incoming.status.is_success() || incoming.status.is_redirection();
    if !job.call.is_safe() && succeeded {
        let groups = tags::invalidated_groups(&incoming.fields);
        let scopes = groups.map_or_else(
            || vec![Scope::Site],
            |groups| {
                let scope = |group: &String| purge::tag_scope(group).unwrap_or(Scope::Site);
                groups.iter().map(scope).collect()
            },
        );
        purges.extend(scopes.into_iter().map(|scope| Purge {
            scope,
            strength: Strength::Hard,
        }));
    }
    purges
}
