//! Sites without a preset: RFC 9111 unbent, from a request to its answer.
//!
//! The same steps as with the preset - look, serve, fetch - with what only the RFC knows: variants, the client's own
//! directives, validation before use, requests with credentials, stored parts. Behind it `compositor::unbent` asks.

use std::sync::Arc;
use std::time::Instant;

use galley_rules::cgi::Script;
use galley_rules::class::Class;
use galley_rules::facts::{Facts, Gate, Method};
use galley_rules::forward::{self, BodyLength, Credentials, UpstreamRequest};
use galley_rules::freshness;
use galley_rules::lookup::{self, Plan};
use galley_rules::outcome::{MissWhy, Outcome, PassWhy, RefusedWhy, StaleWhy};
use galley_rules::site::Preset;
use galley_rules::storable::SharedWith;
use galley_store::entry::{Entry, Kind};
use galley_store::epochs::Standing;
use galley_store::fill::{Failure, FillHead, Share};
use galley_store::key::Key;
use http::header::{self, HeaderValue};

use super::answer::Answer;
use super::exchange::Exchange;
use super::site::Services;
use super::{fetch, file, page};
use crate::body::RequestBody;
use crate::compositor::renewal::{self, When};
use crate::compositor::unbent::search::Asked;
use crate::compositor::unbent::{Fetch, Learn, Lesson, variants};
use crate::compositor::{Composed, PageOrder, PassOrder};
use crate::fault::Fault;
use crate::upstream::Ask;

/// Answers a request.
pub async fn respond(services: &Services, exchange: &mut Exchange<'_>) -> Result<Answer, Fault> {
    if forward::is_loop(exchange.head.fields(), &services.identity) {
        return Err(Fault::new(
            RefusedWhy::Loop,
            "the upstream has sent this request back to us",
        ));
    }
    exchange.write_key();
    let found = look(services, exchange).await;
    let has_credentials = exchange.facts.has_authorization();
    match found.plan {
        Plan::Fresh | Plan::ServeStale | Plan::ServeStaleAndRefresh
            if !(has_credentials && found.plan == Plan::ServeStaleAndRefresh) =>
        {
            if let Some(entry) = found.entry.clone() {
                if found.is_ending {
                    refresh(services, exchange, &entry, When::Early).await;
                }
                return Ok(from_stored(services, exchange, entry, found.plan).await);
            }
        }
        _ => {}
    }
    if let Some(answer) = stored_part(services, exchange, &found).await {
        return Ok(answer);
    }
    let script = match file::find(exchange).await? {
        file::Found::Answer(answer) => return Ok(answer),
        file::Found::Script(script) => Some(script),
        file::Found::Missing => None,
    };
    if exchange.facts.only_if_cached() {
        return Err(Fault::new(
            RefusedWhy::OnlyIfCached,
            "only-if-cached, and not in the cache",
        ));
    }
    match reason_to_pass(exchange, &found) {
        Some(why) => whole(services, exchange, script, found, Outcome::Pass(why)).await,
        None => fetched(services, exchange, script, found).await,
    }
}

/// What memory holds for a request, and what it may be used for.
struct Found {
    /// A page, not hard-purged, that this request may have.
    entry: Option<Arc<Entry>>,
    /// Whether that is to be renewed before it expires.
    is_ending: bool,
    travels_whole: bool,
    plan: Plan,
}

async fn look(services: &Services, exchange: &Exchange<'_>) -> Found {
    let mut found = look_at_address(services, exchange).await;
    if exchange.facts.gate() == Gate::Open
        && found.entry.is_none()
        && !found.travels_whole
        && let Some(entry) = equivalent(services, exchange)
    {
        found.entry = Some(entry);
        found.plan = Plan::Fresh;
    }
    found
}

/// A fresh page of another address that says that this one's difference does not matter (`No-Vary-Search`). A stale one is
/// left alone: this address is then asked, and gets an entry of its own.
fn equivalent(services: &Services, exchange: &Exchange<'_>) -> Option<Arc<Entry>> {
    let asked = Asked {
        facts: &exchange.facts,
        key: &exchange.key,
    };
    asked.find(
        &services.memory,
        || request(exchange, Credentials::OfClient).fields,
        |entry| {
            is_fresh_for(services, exchange, entry)
                && asked.is_untouched(&exchange.site.core.epochs, entry)
        },
    )
}

/// Whether an entry is alive and may answer this request without anybody being asked.
fn is_fresh_for(services: &Services, exchange: &Exchange<'_>, entry: &Entry) -> bool {
    let facts = &exchange.facts;
    let core = &exchange.site.core;
    let standing = lookup::Standing {
        age: entry.age(services.clock.tick()),
        life: &entry.life,
        soft_purged: false,
        fields: &entry.fields,
    };
    core.epochs.prove_waiting(entry) == Standing::Alive
        && lookup::plan(facts, Some(&standing)) == Plan::Fresh
        && !(facts.has_authorization()
            && SharedWith::of(&entry.fields, &core.rules) == SharedWith::Anonymous)
}

async fn look_at_address(services: &Services, exchange: &Exchange<'_>) -> Found {
    let mut found = Found {
        entry: None,
        is_ending: false,
        travels_whole: false,
        plan: lookup::plan(&exchange.facts, None),
    };
    if exchange.facts.gate() != Gate::Open {
        return found;
    }
    let site = &exchange.site;
    let Some(mut entry) = site.stored(&services.memory, &exchange.key).await else {
        return found;
    };
    if entry.kind == Kind::Varies {
        let sent = request(exchange, Credentials::OfClient).fields;
        let mut variant = None;
        for key in variants::candidates(&entry, &sent) {
            variant = site.stored(&services.memory, &key).await;
            if variant.is_some() {
                break;
            }
        }
        let Some(variant) = variant else {
            return found;
        };
        entry = variant;
    }
    let soft_purged = match exchange.site.core.epochs.prove_waiting(&entry) {
        Standing::Alive => false,
        Standing::Soft => true,
        Standing::Dead | Standing::Busy => {
            services.memory.remove_if_same(&entry);
            return found;
        }
    };
    let rules = &exchange.site.core.rules;
    if exchange.facts.has_authorization()
        && SharedWith::of(&entry.fields, rules) == SharedWith::Anonymous
    {
        return found;
    }
    let now = services.clock.tick();
    let age = entry.age(now);
    let standing = lookup::Standing {
        age,
        life: &entry.life,
        soft_purged,
        fields: &entry.fields,
    };
    let plan = lookup::plan(&exchange.facts, Some(&standing));
    if entry.kind == Kind::Page {
        found.plan = plan;
        found.is_ending = plan == Plan::Fresh
            && !exchange.facts.has_authorization()
            && renewal::is_due(&entry, age, now);
        found.entry = Some(entry);
    } else {
        found.travels_whole = plan == Plan::Fresh;
    }
    found
}

async fn from_stored(
    services: &Services,
    exchange: &Exchange<'_>,
    entry: Arc<Entry>,
    plan: Plan,
) -> Answer {
    let outcome = match plan {
        Plan::ServeStaleAndRefresh => {
            refresh(services, exchange, &entry, When::Stale).await;
            Outcome::Stale(StaleWhy::Revalidating)
        }
        Plan::ServeStale => Outcome::Stale(StaleWhy::MaxStale),
        Plan::Fresh | Plan::Fetch { .. } | Plan::OnlyIfCachedMiss => Outcome::Hit,
    };
    page::from_entry(services, exchange, entry, outcome)
}

/// The stored part for this very `Range`, or what lies in the parts that were put together, where nothing whole could be
/// cut.
async fn stored_part(
    services: &Services,
    exchange: &Exchange<'_>,
    found: &Found,
) -> Option<Answer> {
    let facts = &exchange.facts;
    let range = facts.range()?;
    let may_look = facts.gate() == Gate::Open
        && facts.method() == Method::Get
        && found.entry.is_none()
        && facts.if_range().is_none();
    if !may_look {
        return None;
    }
    let site = &exchange.site;
    let own = variants::part_key(&exchange.key, range);
    if let Some(part) = site.stored(&services.memory, &own).await
        && is_fresh_for(services, exchange, &part)
    {
        return Some(page::from_entry(services, exchange, part, Outcome::Hit));
    }
    let joined = variants::joined_key(&exchange.key);
    let joined = site.stored(&services.memory, &joined).await?;
    if !is_fresh_for(services, exchange, &joined) {
        return None;
    }
    page::from_stretch(services, exchange, joined, range)
}

fn reason_to_pass(exchange: &Exchange<'_>, found: &Found) -> Option<PassWhy> {
    if let Gate::Pass(why) = exchange.facts.gate() {
        return Some(why);
    }
    let is_part = exchange.facts.range().is_some() && found.entry.is_none();
    match exchange.facts.method() {
        _ if found.travels_whole => Some(PassWhy::Remembered),
        Method::Head => Some(PassWhy::Head),
        _ if is_part => Some(PassWhy::Range),
        _ => None,
    }
}

/// Asks for what may be stored, about what is stored where something is.
async fn fetched(
    services: &Services,
    exchange: &mut Exchange<'_>,
    script: Option<Script>,
    found: Found,
) -> Result<Answer, Fault> {
    let began = Instant::now();
    let (pool, own_script) = fetch::upstream(exchange, script.clone())?;
    let mut order = Fetch {
        page: order(
            services,
            exchange,
            pool.index,
            own_script,
            Credentials::OfClient,
        ),
        held: in_memory(&found),
    };
    // To the one whose request it is; those who join get none.
    order.page.ask.interim = exchange.interim();
    let composed = pool.compositor.fetch(order).await;
    let (mut reader, collapsed) = match composed {
        Ok(Composed::Entry(entry) | Composed::Awaited(entry)) => {
            return Ok(page::from_entry(services, exchange, entry, Outcome::Hit));
        }
        Ok(Composed::TravelsWhole) => {
            let outcome = Outcome::Pass(PassWhy::Remembered);
            return whole(services, exchange, script, found, outcome).await;
        }
        Ok(Composed::Fill {
            reader,
            coded,
            collapsed,
        }) => (coded.unwrap_or(reader), collapsed),
        Err(failure) => return fall_back(services, exchange, &found, pool.fault(failure)),
    };
    let head = match reader.head().await {
        Ok(head) => head,
        Err(Failure::Unstorable(_)) => {
            let outcome = Outcome::Pass(PassWhy::Remembered);
            return whole(services, exchange, script, found, outcome).await;
        }
        Err(failure) => return fall_back(services, exchange, &found, pool.fault(failure)),
    };
    let upstream_time = began.elapsed();
    let may_fall_back = may_fall_back(&found);
    if may_fall_back && is_failure(&head) {
        return fall_back(services, exchange, &found, Failure::Closed.into());
    }
    let outcome = Outcome::Miss {
        why: found
            .entry
            .as_ref()
            .map_or(MissWhy::Uri, |_| MissWhy::Stale),
        kept: fetch::kept(&head),
        collapsed,
    };
    let mut answer = if may_fall_back {
        // A copy exists: the new response is taken whole before its first byte leaves, so that no failure is met.
        match fetch::collect(services, reader).await {
            Ok(body) => page::from_whole(exchange, &head, body, outcome),
            Err(failure) => return fall_back(services, exchange, &found, pool.fault(failure)),
        }
    } else {
        page::from_fill(exchange, &head, reader, outcome)
    };
    if let Share::Shared { life, .. } = &head.share
        && life.initial_age.as_secs() > 0
    {
        answer
            .extra
            .push((header::AGE, HeaderValue::from(life.initial_age.as_secs())));
    }
    answer.upstream_time = Some(upstream_time);
    Ok(answer)
}

/// The stored response, to ask about it. What is on the disk alone is asked for anew: a 304 would have to give it another head
/// there.
fn in_memory(found: &Found) -> Option<Arc<Entry>> {
    found.entry.clone().filter(|entry| entry.pieces().is_none())
}

fn may_fall_back(found: &Found) -> bool {
    matches!(found.plan, Plan::Fetch { stale_on_error } if stale_on_error)
}

/// The statuses of RFC 5861 §4.
fn is_failure(head: &FillHead) -> bool {
    matches!(head.status.as_u16(), 500 | 502 | 503 | 504)
}

/// Sends a request through, whole; the store may learn from the answer.
async fn whole(
    services: &Services,
    exchange: &mut Exchange<'_>,
    script: Option<Script>,
    found: Found,
    outcome: Outcome,
) -> Result<Answer, Fault> {
    let (pool, script) = fetch::upstream(exchange, script)?;
    let began = Instant::now();
    let learn = lesson(exchange, &found);
    let body = std::mem::take(&mut exchange.body);
    let length = match body.length() {
        0 if !fetch::method_has_body(exchange.facts.method()) => BodyLength::None,
        length => BodyLength::Known(length),
    };
    let client = fetch::client(exchange);
    let mut request = forward::whole(&exchange.facts, exchange.fields(), &client, length);
    forward::announce(&mut request, &services.identity);
    let order = PassOrder {
        site: Arc::clone(&exchange.site.core),
        pool: pool.index,
        facts: exchange.facts.clone(),
        ask: Ask {
            interim: exchange.interim(),
            switch: fetch::switch(services, exchange)?,
            ..fetch::ask(exchange, request, script, body, Class::of(&exchange.facts))
        },
        learn,
    };
    let mut reader = match pool.compositor.pass(order).await {
        Ok(reader) => reader,
        Err(failure) => return fall_back(services, exchange, &found, pool.fault(failure)),
    };
    let head = match reader.head().await {
        Ok(head) => head,
        Err(failure) => return fall_back(services, exchange, &found, pool.fault(failure)),
    };
    // Also for one who waited for another's answer, which was an error and nobody else's.
    if may_fall_back(&found) && is_failure(&head) {
        return fall_back(services, exchange, &found, Failure::Closed.into());
    }
    let mut answer = page::from_fill_whole(exchange, &head, reader, outcome);
    answer.upstream_time = Some(began.elapsed());
    Ok(answer)
}

/// What the store may learn from a request that travels whole.
fn lesson(exchange: &Exchange<'_>, found: &Found) -> Option<Learn> {
    let facts = &exchange.facts;
    let key = || Key::new(&exchange.key);
    match (facts.method(), facts.gate()) {
        (Method::Head, Gate::Open) => in_memory(found).map(|held| Learn {
            key: key(),
            lesson: Lesson::Head(held),
        }),
        (Method::Get, Gate::Open) if found.entry.is_none() => facts.range().map(|range| Learn {
            key: Key::new(&variants::part_key(&exchange.key, range)),
            lesson: Lesson::Part(key()),
        }),
        (Method::Post, Gate::Pass(PassWhy::Method)) => reader(exchange).map(|reader| Learn {
            key: key(),
            lesson: Lesson::Taught(Box::new(reader)),
        }),
        _ => None,
    }
}

/// The facts of a request that could take what is stored for this address.
fn reader(exchange: &Exchange<'_>) -> Option<Facts> {
    let reader = exchange.facts_of_get()?;
    (reader.gate() == Gate::Open && !reader.has_authorization()).then_some(reader)
}

/// Asks about an entry that answers, without this visitor waiting for it.
async fn refresh(services: &Services, exchange: &Exchange<'_>, entry: &Arc<Entry>, when: When) {
    let script = match file::find(exchange).await {
        Ok(file::Found::Script(script)) => Some(script),
        Ok(file::Found::Missing) => None,
        Ok(file::Found::Answer(_)) | Err(_) => return,
    };
    let Ok((pool, script)) = fetch::upstream(exchange, script) else {
        return;
    };
    let held = entry.pieces().is_none().then(|| Arc::clone(entry));
    let mut page = order(services, exchange, pool.index, script, Credentials::None);
    page.ask.client_address = exchange.own_address();
    page.ask.class = Class::Background;
    page.ask.request_id = format!("{}-refresh", exchange.request_id);
    pool.compositor.refetch(Fetch { page, held }, when);
}

fn order(
    services: &Services,
    exchange: &Exchange<'_>,
    pool: usize,
    script: Option<Script>,
    credentials: Credentials,
) -> PageOrder {
    let mut request = request(exchange, credentials);
    forward::address(&mut request, &fetch::client(exchange));
    forward::announce(&mut request, &services.identity);
    let class = Class::of(&exchange.facts);
    PageOrder {
        site: Arc::clone(&exchange.site.core),
        pool,
        key: Key::new(&exchange.key),
        facts: exchange.facts.clone(),
        ask: fetch::ask(exchange, request, script, RequestBody::Empty, class),
    }
}

fn request(exchange: &Exchange<'_>, credentials: Credentials) -> UpstreamRequest {
    forward::fetch(&exchange.facts, exchange.fields(), credentials)
}

/// The copy, where there is one that may be used; 504 where there is one that may not (RFC 9111 §5.2.2.2); else the failure.
fn fall_back(
    services: &Services,
    exchange: &Exchange<'_>,
    found: &Found,
    fault: Fault,
) -> Result<Answer, Fault> {
    let Some(entry) = found.entry.clone() else {
        return Err(fault);
    };
    let stale = Outcome::Stale(fault.stale_why());
    match found.plan {
        Plan::Fetch {
            stale_on_error: true,
        } => Ok(page::from_entry(services, exchange, entry, stale)),
        _ if freshness::forbids_stale(&entry.fields, Preset::None) => Err(Fault::new(
            RefusedWhy::MustRevalidate,
            "the upstream does not answer, and what is stored must not be used without asking",
        )),
        _ => Err(fault),
    }
}
