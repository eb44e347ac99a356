//! Fetch threads: the threads that own the upstream side.
//!
//! One thread per few cores, each with its own runtime, owns whole sites: their pools, the limit that fits PHP's workers, the
//! fills under way. Front cores send an order and get a reader of the fill. Because one thread owns a key, one
//! composition per page needs no lock: the table of flights is plain memory of this thread.
//!
//! An exchange with the upstream belongs to the fetch thread, not to the client: unsafe methods run to their end, so that
//! what they change is heard of also when the client has gone.

pub mod acknowledged;
mod compress;
pub mod counters;
pub mod cron;
pub mod hit_for_pass;
pub mod in_progress;
mod invalidation;
mod join;
mod lead;
mod pass;
pub mod patch;
mod registry;
pub mod revalidate;
pub mod rfc9111;
mod spool;
mod store;
mod wait;
mod waiters;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use galley_cache::entry::{Entry, EntryKind};
use galley_cache::fill::{FillError, FillReader, FillWriter};
use galley_cache::fragment_table::FragmentTable;
use galley_cache::key::Key;
use galley_cache::memory::{Memory, PutRefused};
use galley_policy::purge::Purge;
use galley_policy::request_info::RequestInfo;
use galley_policy::site::{Preset, SiteRules};
use galley_policy::time::Tick;
use http::HeaderMap;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::LocalSet;

use crate::body::spools::Spools;
use crate::clock::Clock;
use crate::compress::Compressing;
use crate::durable::{Receipt, Recorder, Shelved, SitePurges};
use crate::sys;
use crate::sys::sandbox::{self, Sandbox};
use crate::upstream::{
    Gauge, IncomingResponse, PoolSpec, QueueIdentity, UpstreamCall, UpstreamPool,
};
use registry::UnderWay;
use spool::{ResponseSpool, Way};

/// What composing needs to know of a site.
pub struct FetchSite {
    /// The site's name: its first host.
    pub name: String,
    /// Its caching rules.
    pub rules: SiteRules,
    /// Its purge orders.
    pub epochs: SitePurges,
    /// Its pages on the disk, where there is one.
    pub shelved: Option<Shelved>,
    /// Its pages in other codings.
    pub compressing: Compressing,
    /// What was composed for it.
    pub tally: counters::FetchCounters,
    /// What its flights may do.
    pub flights: in_progress::FetchLimits,
    /// The plugin's orders that have arrived.
    pub heard: acknowledged::AcknowledgedPurges,
    /// What became of its scheduled tasks.
    pub cron: cron::CronRuns,
    /// The parts that its pages share.
    pub fragments: FragmentTable,
}

/// A cacheable page that is wanted.
pub struct PageOrder {
    /// Whose page.
    pub site: Arc<FetchSite>,
    /// Which of the fetch thread's pools.
    pub pool: usize,
    /// Its key.
    pub key: Key,
    /// The request that wants it.
    pub facts: RequestInfo,
    /// The request for the upstream.
    pub ask: UpstreamCall,
    /// The stored response that may not be sent as it is, to be revalidated (RFC 9111 section 4.3).
    pub held: Option<Arc<Entry>>,
    /// The fragment that is wanted of it, in place of the page.
    pub fragment: Option<patch::WantedFragment>,
}

impl PageOrder {
    fn preset(&self) -> Preset {
        self.site.rules.preset
    }
}

/// A request that travels whole.
pub struct PassOrder {
    /// Whose.
    pub site: Arc<FetchSite>,
    /// Which of the fetch thread's pools.
    pub pool: usize,
    /// The request.
    pub facts: RequestInfo,
    /// The whole request for the upstream.
    pub ask: UpstreamCall,
    /// What the store may learn from it.
    pub learn: Option<rfc9111::Learn>,
}

/// What a page order gives.
pub enum Composed {
    /// A fill to read from; `collapsed` when somebody else's order had begun it.
    Fill {
        /// The reader.
        reader: FillReader,
        /// A reader of the same page in a coding that this request takes, where that is being made.
        coded: Option<FillReader>,
        /// Whether this order joined a fill under way.
        collapsed: bool,
    },
    /// It was stored while the order travelled.
    Entry(Arc<Entry>),
    /// It was stored by somebody else's order, for which this request has waited.
    Awaited(Arc<Entry>),
    /// It was found not storable while the order travelled: ask whole.
    TravelsWhole,
}

enum FetchCommand {
    /// With when the request for a page was sent that has fallen silent since, where this one has waited for that.
    Page(
        Box<PageOrder>,
        Option<Tick>,
        oneshot::Sender<Result<Composed, FillError>>,
    ),
    Pass(Box<PassOrder>, oneshot::Sender<FillReader>),
    Refresh(Box<PageOrder>, revalidate::When),
    /// With the stored page whose fragments were purged.
    Patch(
        Box<PageOrder>,
        Arc<Entry>,
        oneshot::Sender<Option<Arc<Entry>>>,
    ),
    Cron(
        Box<cron::CronOrder>,
        oneshot::Sender<Result<(), cron::CronTrouble>>,
    ),
}

/// Sends orders to one fetch thread. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    orders: mpsc::Sender<FetchCommand>,
    gauges: Arc<[Arc<Gauge>]>,
    under_way: Arc<UnderWay>,
}

impl Handle {
    /// Whether `who` is turned away here and now: the queue of the pool number `pool` has no room for its requests, and nobody
    /// composes the page `key`, which it could join. The fetch thread would say the same; under a crawl it would do so a thousand
    /// times a second, and wake who asked each time. `key`: none for what travels whole. Where it is so, that is counted.
    pub fn turns_away(&self, pool: usize, who: QueueIdentity, key: Option<&[u8]>) -> bool {
        let Some(gauge) = self.gauges.get(pool) else {
            return false;
        };
        let is_turned_away = gauge.is_shut_for(who)
            && !key.is_some_and(|key| self.under_way.may_have(&Key::new(key)));
        if is_turned_away {
            gauge.turned_away(who.class);
        }
        is_turned_away
    }

    /// Orders a page and returns how to read it; `since` as in [`FetchCommand::Page`]. Cancel-safe: the fill goes on without this reader.
    async fn order(&self, order: PageOrder, since: Option<Tick>) -> Result<Composed, FillError> {
        let (reply, answer) = oneshot::channel();
        self.orders
            .try_send(FetchCommand::Page(Box::new(order), since, reply))
            .map_err(|_| FillError::Overload)?;
        answer.await.map_err(|_| FillError::Aborted)?
    }

    /// Sends a request through, whole.
    pub async fn pass(&self, order: PassOrder) -> Result<FillReader, FillError> {
        let (reply, answer) = oneshot::channel();
        self.orders
            .try_send(FetchCommand::Pass(Box::new(order), reply))
            .map_err(|_| FillError::Overload)?;
        answer.await.map_err(|_| FillError::Aborted)
    }

    /// Asks for a page to be composed anew in the background; nothing happens when it is under way or nobody has room.
    pub fn refresh(&self, order: PageOrder, when: revalidate::When) {
        let _ = self
            .orders
            .try_send(FetchCommand::Refresh(Box::new(order), when));
    }

    /// Has the purged fragments of a stored page replaced. Nothing: the page has to be fetched. Cancel-safe.
    pub async fn patch(&self, page: PageOrder, held: Arc<Entry>) -> Option<Arc<Entry>> {
        let (reply, answer) = oneshot::channel();
        let command = FetchCommand::Patch(Box::new(page), held, reply);
        self.orders.try_send(command).ok()?;
        answer.await.ok()?
    }

    /// What each of its pools is busy with.
    pub fn gauges(&self) -> &[Arc<Gauge>] {
        &self.gauges
    }
}

/// Starts fetch thread number `index` with its pools. It ends, after the exchanges under way, when all handles are gone.
pub fn start(
    index: usize,
    pools: Vec<PoolSpec>,
    (memory, spools): (Arc<Memory>, Arc<Spools>),
    (clock, sandbox): (Clock, Option<Sandbox>),
) -> io::Result<(Handle, JoinHandle<()>)> {
    let (orders, incoming) = mpsc::channel(MOST_ORDERS);
    let gauges: Arc<[Arc<Gauge>]> = pools
        .iter()
        .map(|spec| Arc::new(Gauge::new(spec)))
        .collect();
    let under_way = Arc::new(UnderWay::new());
    let handle = Handle {
        orders,
        gauges: Arc::clone(&gauges),
        under_way: Arc::clone(&under_way),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(sys::HELPERS)
        .on_thread_start(sys::usual_priority)
        .build()?;
    let thread = std::thread::Builder::new()
        .name(format!("fetch-{index}"))
        .spawn(move || {
            // As the front cores: below theirs it would be put off with each waiter whom it wakes.
            sys::raise_priority(TURN);
            // Opens what the limit asks later, when this thread may not any more.
            let _ = sys::running_processes();
            sandbox::enter(sandbox.as_ref());
            let desk = Rc::new(FetchWorker {
                pools: pools
                    .iter()
                    .zip(gauges.iter())
                    .map(|(spec, gauge)| UpstreamPool::new(spec, gauge))
                    .collect(),
                memory,
                spools,
                clock,
                under_way,
                flights: RefCell::new(HashMap::new()),
                failed: RefCell::new(HashMap::new()),
                invalidations: Rc::default(),
            });
            // As a task among the others: what a `LocalSet` blocks on is polled at each turn.
            let work = async { tokio::task::spawn_local(work(desk, incoming)).await };
            if let Err(failed) = LocalSet::new().block_on(&runtime, work)
                && failed.is_panic()
            {
                std::panic::resume_unwind(failed.into_panic());
            }
        })?;
    Ok((handle, thread))
}

/// A fetch thread's own state; lives on its thread.
struct FetchWorker {
    pools: Vec<UpstreamPool>,
    memory: Arc<Memory>,
    spools: Arc<Spools>,
    clock: Clock,
    /// What others may know of `flights`.
    under_way: Arc<UnderWay>,
    /// Fetches in progress, by RFC 9111 also under the keys of variants.
    flights: RefCell<HashMap<Key, Rc<in_progress::InProgressFetch>>>,
    /// Pages whose refresh failed, and when: they are left alone for a moment.
    failed: RefCell<HashMap<Key, Tick>>,
    /// Purges that unsafe requests cause.
    invalidations: Rc<invalidation::Invalidations>,
}

async fn work(desk: Rc<FetchWorker>, mut incoming: mpsc::Receiver<FetchCommand>) {
    tokio::task::spawn_local(pulse());
    let exchanges = Rc::new(Exchanges::default());
    let invalidations = Rc::clone(&desk.invalidations);
    while let Some(order) = incoming.recv().await {
        let counted = Exchanges::count(&exchanges);
        let exchange = Rc::clone(&desk).take(order);
        tokio::task::spawn_local(async move {
            let _counted = counted;
            exchange.await;
        });
    }
    exchanges.all_ended().await;
    invalidations.flush().await;
}

/// Keeps a timer that is due soon, for ever. The runtime writes to its own event descriptor whenever a new timer is due before
/// all others, and so wakes itself at once and for nothing; each exchange has some, of many seconds, which most never see.
async fn pulse() {
    let mut pulse = tokio::time::interval(PULSE);
    pulse.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        pulse.tick().await;
    }
}

/// How many orders are being carried out.
#[derive(Default)]
struct Exchanges {
    count: Cell<usize>,
    ended: Notify,
}

/// One of them.
struct CountedRequest(Rc<Exchanges>);

impl Exchanges {
    fn count(all: &Rc<Self>) -> CountedRequest {
        all.count.set(all.count.get() + 1);
        CountedRequest(Rc::clone(all))
    }

    async fn all_ended(&self) {
        while self.count.get() > 0 {
            self.ended.notified().await;
        }
    }
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("an exchange with the upstream ended in a panic");
        }
        self.0.count.set(self.0.count.get().saturating_sub(1));
        // Kept for who does not wait yet.
        self.0.ended.notify_one();
    }
}

impl FetchWorker {
    /// What asks the upstream is boxed: of those who only wait there may be thousands, each with a future as large as the
    /// largest below.
    async fn take(self: Rc<Self>, order: FetchCommand) {
        match order {
            FetchCommand::Page(order, since, reply) => self.page(order, since, reply).await,
            FetchCommand::Pass(order, reply) => Box::pin(self.pass(*order, reply)).await,
            FetchCommand::Refresh(order, when) => Box::pin(self.refresh(*order, when)).await,
            FetchCommand::Patch(order, held, reply) => self.patch(*order, held, reply).await,
            FetchCommand::Cron(order, reply) => Box::pin(self.cron(*order, reply)).await,
        }
    }

    fn pool(&self, index: usize) -> Result<&UpstreamPool, FillError> {
        self.pools.get(index).ok_or(FillError::Connect)
    }
}

/// Hands a body on to its end, or until nobody wants it any more: an upstream that is silent must not hold its place for a
/// client that has left. What is being written to the disk is wanted. `beat` is called with each piece. What slow clients
/// have not had then is still in the passage.
async fn relay(
    incoming: &mut IncomingResponse,
    (writer, passage): (&mut FillWriter, &mut ResponseSpool),
    recorder: &mut Recorder,
    beat: &dyn Fn(),
) -> Result<(), FillError> {
    let mut is_read = true;
    loop {
        let chunk = tokio::select! {
            biased;
            chunk = incoming.chunk() => chunk?,
            failure = passage.attend(writer), if is_read => {
                if !recorder.is_writing() {
                    return Err(failure);
                }
                is_read = false;
                continue;
            }
        };
        let Some(chunk) = chunk else { return Ok(()) };
        beat();
        let copy = recorder.is_on().then(|| chunk.clone());
        if is_read {
            is_read = passage.give(writer, chunk).await.is_ok();
        }
        if let Some(copy) = copy {
            recorder.push(copy, writer.is_kept()).await;
        }
        if !is_read && !recorder.is_writing() {
            return Err(FillError::Aborted);
        }
    }
}

/// How an answer with these fields is passed on. `X-Accel-Buffering: no` is how applications ask nginx for the same.
fn way(site: &FetchSite, facts: &RequestInfo, fields: &HeaderMap) -> Way {
    let rule = facts.rule().and_then(|index| site.rules.rules.get(index));
    let is_asked_for = fields
        .get("x-accel-buffering")
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"no"));
    if is_asked_for || rule.is_some_and(|rule| rule.stream) {
        Way::Streamed
    } else {
        Way::Spooled
    }
}

/// Sees to what was offered to the memory: has it compressed, and written to the disk; what may not be kept takes the older copy away there, too.
fn shelve(site: &FetchSite, entry: &Arc<Entry>, outcome: Result<(), PutRefused>) {
    if outcome.is_ok() {
        site.compressing.offer(entry);
    }
    let Some(shelved) = &site.shelved else { return };
    match entry.kind {
        EntryKind::TravelsWhole => shelved.forget(&entry.key, entry.born),
        EntryKind::Page | EntryKind::Varies if outcome == Err(PutRefused::Superseded) => {}
        EntryKind::Page | EntryKind::Varies => shelved.keep(entry),
    }
}

/// Obeys orders for one site; what they touch is dead when this returns.
fn publish(site: &FetchSite, orders: &[Purge]) -> Acknowledgement {
    let receipts = orders.iter().map(|order| site.epochs.publish(order));
    Acknowledgement(receipts.last())
}

/// What an answer that carries orders waits for before it goes on.
#[must_use = "an answer is the acknowledgement of the orders it carries"]
struct Acknowledgement(Option<Receipt>);

impl Acknowledgement {
    /// Waits until the orders are on the disk, or known not to come there; the client of an answer cannot be told which.
    async fn given(self, site: &FetchSite) {
        if let Some(receipt) = self.0 {
            receipt.told().await.log(&site.name);
        }
    }
}

/// What a fetch thread asks the kernel for each time that it gets a processor: less than PHP has, more than a front core, which
/// it does not interrupt.
const TURN: Duration = Duration::from_micros(200);

/// Less than what exchanges may take, as people set it.
const PULSE: Duration = Duration::from_millis(500);

/// Orders that may lie in a fetch thread's inbox; beyond it the upstream is overloaded by any measure.
const MOST_ORDERS: usize = 16_384;
