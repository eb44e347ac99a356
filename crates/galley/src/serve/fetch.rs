//! Asking the upstream: a page for everyone, or one request whole.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use galley_rules::cgi::Script;
use galley_rules::class::{Class, Network};
use galley_rules::facts::Method;
use galley_rules::forward::{self, BodyLength, Client, UpstreamRequest};
use galley_rules::outcome::{Kept, MissWhy, NotStored, Outcome, PassWhy, RefusedWhy, StaleWhy};
use galley_rules::storable::{self, Answered};
use galley_store::entry::Entry;
use galley_store::fill::{Failure, FillHead, FillReader, Share};
use galley_store::key::Key;

use super::answer::{Answer, Body};
use super::exchange::Exchange;
use super::page;
use super::site::{Pool, Services, Upstream};
use crate::body::RequestBody;
use crate::compositor::renewal::When;
use crate::compositor::{Composed, PageOrder, PassOrder};
use crate::fault::Fault;
use crate::upstream::switch::Switch;
use crate::upstream::{Ask, Who};

/// A cacheable page that is not in memory, or only as a copy to fall back on.
pub async fn page(
    services: &Services,
    exchange: &mut Exchange<'_>,
    script: Option<Script>,
    stale: Option<Arc<Entry>>,
) -> Result<Answer, Fault> {
    let (pool, script) = upstream(exchange, script)?;
    let key = Some(exchange.key.as_slice());
    let class = Class::of(&exchange.facts);
    if pool
        .compositor
        .turns_away(pool.index, who(exchange, class), key)
    {
        return fall_back(services, exchange, stale, pool.fault(Failure::Overload));
    }
    let began = Instant::now();
    let (site, facts) = (&exchange.site.core, &exchange.facts);
    let order = || page_order(exchange, &pool, script.clone(), class);
    let composed = pool.compositor.page((site, facts, &exchange.key), order);
    let composed = composed.await;
    let why = if stale.is_some() {
        MissWhy::Stale
    } else {
        MissWhy::Uri
    };
    let (reader, coded, head, collapsed) = match composed {
        Ok(Composed::Entry(entry)) => {
            return Ok(page::from_entry(services, exchange, entry, Outcome::Hit));
        }
        Ok(Composed::Awaited(entry)) => {
            return Ok(awaited(services, exchange, entry, (why, began)));
        }
        Ok(Composed::TravelsWhole) => {
            let outcome = Outcome::Pass(PassWhy::Remembered);
            return whole(services, exchange, script, outcome).await;
        }
        Ok(Composed::Fill {
            mut reader,
            coded,
            collapsed,
        }) => match reader.head().await {
            Ok(head) => (reader, coded, head, collapsed),
            Err(Failure::Unstorable(kept)) => {
                let outcome = Outcome::Miss {
                    why,
                    kept: Kept::NotStored(kept),
                    collapsed: false,
                };
                return whole(services, exchange, script, outcome).await;
            }
            Err(failure) => return fall_back(services, exchange, stale, pool.fault(failure)),
        },
        Err(failure) => return fall_back(services, exchange, stale, pool.fault(failure)),
    };
    let upstream_time = began.elapsed();
    let outcome = Outcome::Miss {
        why,
        kept: kept(&head),
        collapsed,
    };
    let mut answer = match stale {
        None => match in_coding(coded).await {
            Some((head, coded)) => page::from_fill(exchange, &head, coded, outcome),
            None => page::from_fill(exchange, &head, reader, outcome),
        },
        // A copy exists: the new page is taken whole before its first byte leaves, so that no failure is met.
        Some(entry) if head.status.is_server_error() => {
            return Ok(page::from_entry(
                services,
                exchange,
                entry,
                Outcome::Stale(StaleWhy::UpstreamError),
            ));
        }
        Some(entry) => match collect(services, reader).await {
            Ok(body) if is_broken(exchange, &head, &body) => {
                return fall_back(services, exchange, Some(entry), Failure::Closed.into());
            }
            Ok(body) => {
                let (head, body) = whole_in_coding(services, coded)
                    .await
                    .unwrap_or((head, body));
                page::from_whole(exchange, &head, body, outcome)
            }
            Err(failure) => {
                return fall_back(services, exchange, Some(entry), pool.fault(failure));
            }
        },
    };
    answer.upstream_time = Some(upstream_time);
    Ok(answer)
}

/// The answer of a page that was stored while this request waited for it, since `began`.
fn awaited(
    services: &Services,
    exchange: &Exchange<'_>,
    entry: Arc<Entry>,
    (why, began): (MissWhy, Instant),
) -> Answer {
    let outcome = Outcome::Miss {
        why,
        kept: Kept::Stored,
        collapsed: true,
    };
    let mut answer = page::from_entry(services, exchange, entry, outcome);
    answer.upstream_time = Some(began.elapsed());
    answer
}

/// A request that travels whole, with the outcome that says why.
pub async fn whole(
    services: &Services,
    exchange: &mut Exchange<'_>,
    script: Option<Script>,
    outcome: Outcome,
) -> Result<Answer, Fault> {
    let (pool, script) = upstream(exchange, script)?;
    let class = Class::of(&exchange.facts);
    if pool
        .compositor
        .turns_away(pool.index, who(exchange, class), None)
    {
        return Err(pool.fault(Failure::Overload));
    }
    let began = Instant::now();
    let body = std::mem::take(&mut exchange.body);
    let length = match body.length() {
        0 if !method_has_body(exchange.facts.method()) => BodyLength::None,
        length => BodyLength::Known(length),
    };
    let mut request = forward::whole(
        &exchange.facts,
        exchange.fields(),
        &client(exchange),
        length,
    );
    forward::capabilities(&mut request, &exchange.site.core.rules);
    forward::for_plugin(&mut request, &exchange.site.core.heard.line());
    forward::schedule(&mut request, exchange.site.schedule());
    let order = PassOrder {
        site: Arc::clone(&exchange.site.core),
        pool: pool.index,
        facts: exchange.facts.clone(),
        ask: Ask {
            interim: exchange.interim(),
            switch: switch(services, exchange)?,
            ..ask(exchange, request, script, body, class)
        },
        learn: None,
    };
    let fault = |failure| pool.fault(failure);
    let mut reader = pool.compositor.pass(order).await.map_err(fault)?;
    let head = reader.head().await.map_err(fault)?;
    let mut answer = page::from_fill_whole(exchange, &head, reader, outcome);
    answer.upstream_time = Some(began.elapsed());
    Ok(answer)
}

/// Asks for a page to be composed anew, without this visitor waiting for it.
pub async fn refresh(services: &Services, exchange: &Exchange<'_>, when: When) {
    let script = match super::file::find(exchange).await {
        Ok(super::file::Found::Script(script)) => Some(script),
        Ok(super::file::Found::Missing) => None,
        // What is a file now is no page any more; the entry lives out its time.
        Ok(super::file::Found::Answer(_)) | Err(_) => return,
    };
    let Ok((pool, script)) = upstream(exchange, script) else {
        return;
    };
    let mut order = page_order(exchange, &pool, script, Class::Background);
    // Galley's own address and id: nothing of this visitor goes along, since what is not in the key is not seen.
    order.ask.client_address = exchange.own_address();
    order.ask.request_id = format!("{}-refresh", exchange.request_id);
    let _ = services;
    pool.compositor.refresh(order, when);
}

/// In whose name it waits for a place at the upstream.
fn who(exchange: &Exchange<'_>, class: Class) -> Who {
    Who {
        class,
        client: Network::of(exchange.client.ip()),
    }
}

fn page_order(
    exchange: &Exchange<'_>,
    pool: &Pool,
    script: Option<Script>,
    class: Class,
) -> PageOrder {
    let mut request = forward::trimmed(&exchange.facts);
    forward::address(&mut request, &client(exchange));
    forward::capabilities(&mut request, &exchange.site.core.rules);
    forward::heard(&mut request, &exchange.site.core.heard.line());
    forward::schedule(&mut request, exchange.site.schedule());
    PageOrder {
        site: Arc::clone(&exchange.site.core),
        pool: pool.index,
        key: Key::new(&exchange.key),
        facts: exchange.facts.clone(),
        ask: ask(exchange, request, script, RequestBody::Empty, class),
    }
}

pub(super) fn ask(
    exchange: &Exchange<'_>,
    request: UpstreamRequest,
    script: Option<Script>,
    body: RequestBody,
    class: Class,
) -> Ask {
    Ask {
        request,
        script,
        class,
        client_address: exchange.client.ip(),
        client_port: exchange.client.port(),
        request_id: exchange.request_id.clone(),
        server_port: exchange.local.port(),
        server_address: Some(exchange.local.ip()).filter(|ip| !ip.is_unspecified()),
        body,
        patience: exchange
            .rule()
            .map(|rule| rule.patience)
            .unwrap_or_default(),
        interim: None,
        switch: None,
    }
}

/// The protocol that a client asks for in place of HTTP, where it may have it from this upstream.
pub(super) fn switch(
    services: &Services,
    exchange: &mut Exchange<'_>,
) -> Result<Option<Switch>, Fault> {
    let Some(protocol) = exchange.upgrade.take() else {
        return Ok(None);
    };
    if !matches!(exchange.upstream(), Upstream::Http(_)) {
        return Ok(None);
    }
    let full = "as many connections as `max_upgrades` allows have changed to another protocol";
    let offered = services.tunnels.offer(protocol);
    let (switch, awaited) = offered.ok_or_else(|| Fault::new(RefusedWhy::NoRoom, full))?;
    exchange.awaited = Some(awaited);
    Ok(Some(switch))
}

pub(super) fn client<'a>(exchange: &'a Exchange<'_>) -> Client<'a> {
    Client {
        address: exchange.client.ip(),
        port: exchange.client.port(),
        request_id: &exchange.request_id,
    }
}

/// Who composes this request, with the script where it needs one.
pub(super) fn upstream(
    exchange: &Exchange<'_>,
    script: Option<Script>,
) -> Result<(Pool, Option<Script>), Fault> {
    match exchange.upstream() {
        Upstream::Http(pool) => Ok((pool.clone(), None)),
        Upstream::Php(pool) if script.is_some() => Ok((pool.clone(), script)),
        Upstream::Php(_) | Upstream::Files => Err(Fault::new(RefusedWhy::NotFound, "no such file")),
    }
}

pub(super) fn kept(head: &FillHead) -> Kept {
    match &head.share {
        Share::Shared { .. } if !head.status.is_server_error() => Kept::Stored,
        Share::Shared { .. } | Share::Private => Kept::NotStored(NotStored::ErrorPage),
    }
}

/// The page as it is being coded for this client, if it is.
async fn in_coding(coded: Option<FillReader>) -> Option<(Arc<FillHead>, FillReader)> {
    let mut coded = coded?;
    let head = coded.head().await.ok()?;
    Some((head, coded))
}

/// The same to its end.
async fn whole_in_coding(
    services: &Services,
    coded: Option<FillReader>,
) -> Option<(Arc<FillHead>, Bytes)> {
    let (head, coded) = in_coding(coded).await?;
    Some((head, collect(services, coded).await.ok()?))
}

/// Whether PHP died over a page that began well.
fn is_broken(exchange: &Exchange<'_>, head: &FillHead, body: &[u8]) -> bool {
    let answered = Answered {
        status: head.status,
        fields: &head.fields,
        response_delay: Duration::ZERO,
        now: SystemTime::UNIX_EPOCH,
    };
    storable::judge_body(&answered, &exchange.site.core.rules, body).is_err()
}

/// The copy, where there is one; the failure otherwise.
fn fall_back(
    services: &Services,
    exchange: &Exchange<'_>,
    stale: Option<Arc<Entry>>,
    fault: Fault,
) -> Result<Answer, Fault> {
    let why = fault.stale_why();
    match stale {
        Some(entry) => Ok(page::from_entry(
            services,
            exchange,
            entry,
            Outcome::Stale(why),
        )),
        None => Err(fault),
    }
}

/// All of a body that may be stored; a longer one fails, as memory has no room for it.
pub(super) async fn collect(services: &Services, mut reader: FillReader) -> Result<Bytes, Failure> {
    let most = services.memory.max_object();
    let mut whole = BytesMut::new();
    while let Some(chunk) = reader.next().await? {
        if (whole.len() + chunk.len()) as u64 > most {
            return Err(Failure::Unstorable(NotStored::TooLarge));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.freeze())
}

pub(super) fn method_has_body(method: Method) -> bool {
    matches!(method, Method::Post | Method::Put | Method::Patch)
}

impl Body {
    /// For HEAD: the length stays, the bytes do not.
    pub(crate) fn unsent(self) -> Self {
        match self {
            Self::None => Self::None,
            Self::Bytes(bytes) => Self::Unsent(Some(bytes.len() as u64)),
            Self::Unsent(length) | Self::Fill(_, length) => Self::Unsent(length),
            Self::File { length, .. } | Self::Stored { length, .. } => Self::Unsent(Some(length)),
        }
    }
}
