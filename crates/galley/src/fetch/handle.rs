//! The way from other threads to one fetch thread: commands in a bounded channel, and the fetches in progress to wait for.

use std::pin::pin;
use std::sync::Arc;

use galley_cache::entry::Entry;
use galley_cache::fill::{FillError, FillReader};
use galley_cache::key::Key;
use galley_policy::request_info::RequestInfo;
use galley_policy::site::VaryPolicy;
use galley_policy::time::Tick;
use tokio::sync::{mpsc, oneshot};

use super::cron_runs::CronTrouble;
use super::order::{Composed, CronOrder, PageOrder, PassOrder, When};
use super::registry::UnderWay;
use super::site::FetchSite;
use super::waiters::WaitResult;
use crate::upstream::{Gauge, QueueIdentity};

pub(super) enum FetchCommand {
    /// With when the request for a page was sent that has fallen silent since, where this one has waited for that.
    Page(
        Box<PageOrder>,
        Option<Tick>,
        oneshot::Sender<Result<Composed, FillError>>,
    ),
    Pass(Box<PassOrder>, oneshot::Sender<FillReader>),
    Refresh(Box<PageOrder>, When),
    /// With the stored page whose fragments were purged.
    Patch(
        Box<PageOrder>,
        Arc<Entry>,
        oneshot::Sender<Option<Arc<Entry>>>,
    ),
    Cron(Box<CronOrder>, oneshot::Sender<Result<(), CronTrouble>>),
}

/// Sends orders to one fetch thread. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(super) orders: mpsc::Sender<FetchCommand>,
    pub(super) gauges: Arc<[Arc<Gauge>]>,
    pub(super) under_way: Arc<UnderWay>,
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
    pub fn refresh(&self, order: PageOrder, when: When) {
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

    /// The page of `key` for a request with these facts: waits for it where somebody else has it composed and that is possible
    /// here, else has it ordered. Cancel-safe: the fill goes on without this reader.
    pub async fn page(
        &self,
        site: &FetchSite,
        facts: &RequestInfo,
        key: &[u8],
        order: impl FnOnce() -> PageOrder,
    ) -> Result<Composed, FillError> {
        // By RFC 9111 the fetch that is in progress for a key may be for another variant.
        let crowd = match site.rules.storage.vary {
            VaryPolicy::CoveredByKey => self.under_way.crowd(&Key::new(key)),
            VaryPolicy::Variants => None,
        };
        let Some(waiter) = crowd.and_then(|crowd| crowd.join(site.epochs.current())) else {
            return self.order(order(), None).await;
        };
        let silent = match waiter.wait(site, facts).await {
            WaitResult::Composed(composed) => return Ok(composed),
            WaitResult::Nothing(silent) => silent,
        };
        let ordered = self.order(order(), silent.as_ref().map(|silent| silent.sent_at));
        let composed = match silent {
            Some(silent) => either(silent.reader, ordered).await,
            None => ordered.await,
        };
        composed.map(Composed::after_a_wait)
    }

    /// Has the scheduler run and returns when that has ended. Dropping it gives the run up.
    pub async fn cron(&self, order: CronOrder) -> Result<(), CronTrouble> {
        let (reply, answer) = oneshot::channel();
        self.orders
            .try_send(FetchCommand::Cron(Box::new(order), reply))
            .map_err(|_| CronTrouble::Upstream(FillError::Overload))?;
        let gone = CronTrouble::Upstream(FillError::Aborted);
        answer.await.unwrap_or(Err(gone))
    }
}

/// What comes first: the head of a page that has fallen silent, or what was ordered since. Where both fail, what failed last.
pub(super) async fn either(
    mut silent: FillReader,
    ordered: impl Future<Output = Result<Composed, FillError>>,
) -> Result<Composed, FillError> {
    let mut ordered = pin!(ordered);
    tokio::select! {
        biased;
        composed = &mut ordered => match composed {
            Ok(composed) => return Ok(composed),
            Err(_) => silent.head().await.map(drop)?,
        },
        head = silent.head() => if head.is_err() {
            return ordered.await;
        },
    }
    Ok(Composed::Fill {
        reader: silent,
        coded: None,
        collapsed: true,
    })
}
