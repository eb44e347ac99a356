//! Requests that travel whole: one client, one exchange, nothing stored.
//!
//! A safe request ends with its client. An unsafe one runs to its end, because what it changed must be heard of: when it
//! succeeded, its target and the page it redirects to on the same host are purged (RFC 9111 §4.4), once when the head arrives
//! and once more when the exchange has ended, since PHP may commit late.

use std::rc::Rc;

use galley_rules::purge::{self, Order as Purge, Scope, Strength};
use galley_store::fill::{self, Failure, FillHead, FillReader, FillWriter, Share};
use http::header;
use tokio::sync::oneshot;

use super::{Desk, PassOrder, publish, relay};
use crate::upstream::Incoming;

impl Desk {
    pub(super) async fn pass(self: Rc<Self>, order: PassOrder, reply: oneshot::Sender<FillReader>) {
        let (mut writer, fill) = fill::fill(WINDOW, None);
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

    async fn exchange(&self, order: &PassOrder, writer: &mut FillWriter) -> Result<(), Failure> {
        let pool = self.pool(order.pool)?;
        let mut incoming = if order.ask.is_safe() {
            tokio::select! {
                incoming = pool.send(&order.ask, &|| ()) => incoming?,
                () = writer.readers_gone() => return Err(Failure::Aborted),
            }
        } else {
            pool.send(&order.ask, &|| ()).await?
        };
        let ordered = ordered(order, &incoming);
        publish(&order.site, &ordered);
        let mut fields = incoming.fields.clone();
        for name in purge::PURGE_FIELDS {
            fields.remove(*name);
        }
        writer.head(FillHead {
            status: incoming.status,
            fields,
            share: Share::Private,
            length: incoming.length(),
        });
        if order.ask.is_safe() {
            relay(&mut incoming, writer).await?;
        } else {
            // A client that left does not end an unsafe exchange: the rest is read and dropped.
            while let Some(chunk) = incoming.chunk().await? {
                let _ = writer.push(chunk).await;
            }
        }
        publish(&order.site, &ordered);
        Ok(())
    }
}

/// The orders that an answer carries, and what a successful unsafe request has changed for certain.
fn ordered(order: &PassOrder, incoming: &Incoming) -> Vec<Purge> {
    let mut orders = purge::from_answer(&incoming.fields, &order.site.rules);
    let succeeded = incoming.status.is_success() || incoming.status.is_redirection();
    if order.ask.is_safe() || !succeeded {
        return orders;
    }
    let own = |path, query| Scope::Url {
        host: Some(order.facts.host().to_owned()),
        path,
        query,
    };
    let mut scopes = vec![own(
        order.facts.path().to_vec(),
        order.facts.query().map(<[u8]>::to_vec),
    )];
    for name in [header::LOCATION, header::CONTENT_LOCATION] {
        let text = incoming
            .fields
            .get(name)
            .and_then(|value| value.to_str().ok());
        if let Some(Ok(Scope::Url { host, path, query })) =
            text.map(|t| purge::url_scope(t, &order.site.rules))
        {
            // Another host's pages are not this site's to purge (RFC 9111 §4.4).
            if host
                .as_deref()
                .is_none_or(|host| host == order.facts.host())
            {
                scopes.push(own(path, query));
            }
        }
    }
    orders.extend(scopes.into_iter().map(|scope| Purge {
        scope,
        strength: Strength::Hard,
    }));
    orders
}

/// What a slow client may lag behind PHP: any page, so that its worker is free at once; a download goes at the client's pace.
const WINDOW: usize = 256 * 1024;
