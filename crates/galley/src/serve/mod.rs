//! From a request to its answer: the page to read first.
//!
//! [`admit`] refuses or normalises a head and finds its site, [`enter`] lets it in; the front then takes the body in; [`handle`]
//! answers, from memory, from a file, or from the upstream. Any fault on the way becomes an answer here, once: stale if allowed, else a status
//! page. Nothing in here knows sockets; the front writes what an [`Answer`] says.

mod answer;
mod cron;
mod door;
mod error_page;
mod exchange;
mod fetch;
mod file;
mod folder;
mod heal;
mod hit;
mod page;
mod parts;
mod purge;
mod redirect;
mod site;
mod unbent;

use std::sync::Arc;

use galley_rules::facts::{Gate, Method};
use galley_rules::lookup::{self, Plan};
use galley_rules::outcome::{Outcome, PassWhy, RefusedWhy, StaleWhy};
use galley_rules::site::Preset;
use galley_store::entry::{Entry, Kind};

use crate::compositor::renewal::{self, When};
use crate::fault::Fault;

pub use answer::{Answer, Body, CACHE_STATUS, Fields};
pub use cron::run_cron;
pub use door::{Door, enter};
pub use error_page::{ErrorPage, ErrorPages};
pub use exchange::{Admission, Exchange, admit, asked, site_mark};
pub use folder::{Folder, SmallFiles, TRUSTED, Wanted};
pub use heal::Healing;
pub use hit::{Hit, Keys, hit, hit_again};
pub use site::{Cron, Pool, Services, Site, Sites, Upstream, UpstreamWarnings};

/// Answers an exchange whose body has arrived. Never fails: what goes wrong is told to the client.
pub async fn handle(services: &Services, exchange: &mut Exchange<'_>) -> Answer {
    let mut answer = match respond(services, exchange).await {
        Ok(answer) => answer,
        Err(fault) => {
            // That an upstream is left alone is told once, when it begins.
            if fault.is_upstream() && fault.why != RefusedWhy::UpstreamPaused {
                services.upstream_warnings.warn(
                    &exchange.site.core.name,
                    &exchange.request_id,
                    &fault.note,
                );
            }
            Answer::site_fault(&fault, &exchange.site, &exchange.request_id)
        }
    };
    if answer.status == 404 {
        // Boxed: it is rare, and its room would be part of every idle connection.
        Box::pin(heal::missed(services, exchange)).await;
    }
    answer.change(
        exchange.site.heads.of(exchange.facts.rule()),
        exchange.facts.scheme(),
    );
    answer
}

async fn respond(services: &Services, exchange: &mut Exchange<'_>) -> Result<Answer, Fault> {
    enter(services, exchange).await?;
    if let Some(answer) = door::look_into(exchange).await? {
        return Ok(answer);
    }
    if let Some(answer) = purge::answer(exchange).await? {
        return Ok(answer);
    }
    match exchange.facts.method() {
        Method::Options if exchange.facts.path() == b"*" => return Ok(Answer::methods()),
        Method::Trace | Method::Connect => {
            return Err(Fault::new(RefusedWhy::Method, "TRACE or CONNECT"));
        }
        _ => {}
    }
    if let Some(answer) = redirect::answer(services, exchange)? {
        return Ok(answer);
    }
    if exchange.site.core.rules.preset == Preset::None {
        return unbent::respond(services, exchange).await;
    }
    let kept = look(services, exchange).await;
    let why = match (exchange.facts.gate(), &kept) {
        (Gate::Pass(why), _) => Some(why),
        (Gate::Open, Kept::TravelsWhole) => Some(PassWhy::Remembered),
        (Gate::Open, _) => None,
    };
    let stale = match kept {
        Kept::Fresh(entry) => return Ok(page::from_entry(services, exchange, entry, Outcome::Hit)),
        Kept::Ending(entry) => {
            fetch::refresh(services, exchange, When::Early).await;
            return Ok(page::from_entry(services, exchange, entry, Outcome::Hit));
        }
        Kept::Usable(entry) => {
            fetch::refresh(services, exchange, When::Stale).await;
            return Ok(page::from_entry(
                services,
                exchange,
                entry,
                Outcome::Stale(StaleWhy::Revalidating),
            ));
        }
        Kept::OnError(entry) => Some(entry),
        Kept::Nothing | Kept::TravelsWhole => None,
    };
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
    match why {
        Some(why) => fetch::whole(services, exchange, script, Outcome::Pass(why)).await,
        None => fetch::page(services, exchange, script, stale).await,
    }
}

/// What is stored for a request.
enum Kept {
    Nothing,
    /// Known as not storable.
    TravelsWhole,
    Fresh(Arc<Entry>),
    /// Fresh, and to be renewed before it expires.
    Ending(Arc<Entry>),
    /// Stale, to be sent while one refresh runs.
    Usable(Arc<Entry>),
    /// Stale, to be sent only if the upstream fails.
    OnError(Arc<Entry>),
}

async fn look(services: &Services, exchange: &mut Exchange<'_>) -> Kept {
    use galley_store::epochs::Standing;
    if !matches!(exchange.facts.gate(), Gate::Open) {
        return Kept::Nothing;
    }
    exchange.write_key();
    let Some(entry) = exchange.site.stored(&services.memory, &exchange.key).await else {
        return Kept::Nothing;
    };
    let epochs = &exchange.site.core.epochs;
    let standing = match epochs.prove(&entry) {
        // A purge is being written at this moment: this is the slow way, so it may wait for it.
        Standing::Busy => epochs.prove_waiting(&entry),
        standing => standing,
    };
    let soft_purged = match standing {
        Standing::Alive => false,
        Standing::Soft => true,
        Standing::Dead | Standing::Busy => {
            services.memory.remove_if_same(&entry);
            return Kept::Nothing;
        }
    };
    let now = services.clock.tick();
    let age = entry.age(now);
    let standing = lookup::Standing {
        age,
        life: &entry.life,
        soft_purged,
        fields: &entry.fields,
    };
    match lookup::plan(&exchange.facts, Some(&standing)) {
        Plan::Fresh if entry.kind == Kind::TravelsWhole => Kept::TravelsWhole,
        _ if entry.kind != Kind::Page => Kept::Nothing,
        Plan::Fresh if renewal::is_due(&entry, age, now) => Kept::Ending(entry),
        Plan::Fresh => Kept::Fresh(entry),
        Plan::ServeStaleAndRefresh => Kept::Usable(entry),
        Plan::Fetch {
            stale_on_error: true,
        } => Kept::OnError(entry),
        Plan::Fetch {
            stale_on_error: false,
        }
        // A client's wish for a stale copy counts only without the preset.
        | Plan::ServeStale
        | Plan::OnlyIfCachedMiss => Kept::Nothing,
    }
}
