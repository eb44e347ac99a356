//! The queue of purges for one target, and the task that sends them.
//!
//! Purges are sent in batches and in order, and remain in the queue until the target has accepted them. A batch consists of
//! several requests; a request that was accepted is not sent again when a later one of the batch fails. After a failure the task
//! pauses, longer each time, and at least as long as the target requests. A request that the target rejects permanently, and a
//! full queue, become one purge of everything. Written by the task and by the worker of the site, which share a thread; read
//! by the admin interface.

use std::collections::VecDeque;
use std::time::Duration;

use galley_policy::purge::Purge;
use galley_sys::Lock;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::client::{Connector, MAX_PAUSE, SendError};
use super::everything;
use super::target::{ForwardTarget, TargetRequest};

/// The queue of one target; see the module.
pub(super) struct TargetQueue {
    target: ForwardTarget,
    state: Lock<QueueState>,
    filled: Notify,
    closed: Notify,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<WaitingPurge>,
    /// The number of purges in `waiting` that are being sent.
    sending: usize,
    sent: u64,
    failures: u64,
    overflows: u64,
    trouble: Option<String>,
    failures_in_a_row: u32,
    next: Option<Instant>,
}

struct WaitingPurge {
    purge: Purge,
    /// The publishers that wait until the target has accepted the purge.
    waiters: Vec<oneshot::Sender<()>>,
}

/// The statistics of a target.
#[derive(Clone, Debug)]
pub struct TargetStats {
    /// The name of the target.
    pub name: String,
    /// Queued purges.
    pub pending: usize,
    /// Accepted purges.
    pub sent: u64,
    /// Failed attempts.
    pub failures: u64,
    /// How often the queue was full.
    pub overflows: u64,
    /// Why the last attempt failed; `None`: it succeeded.
    pub trouble: Option<String>,
    /// The time until the next attempt, after a failure.
    pub retry_in: Option<Duration>,
}

impl TargetQueue {
    /// An empty queue, or one with the queued purges of `before`.
    pub(super) fn new(target: ForwardTarget, before: Option<&Self>) -> Self {
        let waiting = before.map(|before| std::mem::take(&mut before.state.lock().waiting));
        Self {
            target,
            state: Lock::new(QueueState {
                waiting: waiting.unwrap_or_default(),
                ..QueueState::default()
            }),
            filled: Notify::new(),
            closed: Notify::new(),
        }
    }

    /// The target.
    pub(super) fn target(&self) -> &ForwardTarget {
        &self.target
    }

    /// The statistics of the target.
    pub(super) fn stats(&self) -> TargetStats {
        let state = self.state.lock();
        let now = Instant::now();
        TargetStats {
            name: self.target.name(),
            pending: state.waiting.len(),
            sent: state.sent,
            failures: state.failures,
            overflows: state.overflows,
            trouble: state.trouble.clone(),
            retry_in: state.next.map(|next| next.saturating_duration_since(now)),
        }
    }

    /// Whether no purges are queued.
    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().waiting.is_empty()
    }

    /// Whether the last attempt failed, so that publishers should not wait for the next.
    pub(super) fn is_failing(&self) -> bool {
        self.state.lock().failures_in_a_row > 0
    }

    /// Adds purges. The result is notified when the target has accepted all of them.
    pub(super) fn push(&self, purges: &[Purge]) -> oneshot::Receiver<()> {
        let (notify, accepted) = oneshot::channel();
        let mut state = self.state.lock();
        for purge in purges {
            let waiters = Vec::new();
            let purge = purge.clone();
            state.waiting.push_back(WaitingPurge { purge, waiters });
        }
        if state.waiting.len() > MAX_WAITING {
            state.overflow();
        }
        if let Some(last) = state.waiting.back_mut() {
            last.waiters.push(notify);
        }
        drop(state);
        self.filled.notify_one();
        accepted
    }

    /// Ends the task, because the configuration has removed or changed the target.
    pub(super) fn close(&self) {
        self.closed.notify_one();
    }

    /// Sends queued purges until the queue is closed. `taken` is called after each batch, before waiting publishers are
    /// notified; `removed`, when the batch is no longer queued.
    pub(super) async fn work(&self, taken: impl AsyncFn(&[Purge]), removed: impl Fn()) {
        tokio::select! {
            () = self.closed.notified() => {}
            () = self.send_all(taken, removed) => {}
        }
    }

    async fn send_all(&self, taken: impl AsyncFn(&[Purge]), removed: impl Fn()) {
        loop {
            let batch = self.state.lock().batch();
            if batch.is_empty() {
                self.filled.notified().await;
                // Purges arrive in groups: this makes one request of all purges of an edit.
                if !self.target.is_behind() {
                    tokio::time::sleep(GATHERING).await;
                }
                continue;
            }
            self.send(&batch).await;
            taken(&batch).await;
            let waiters = self.state.lock().taken();
            for notify in waiters {
                let _ = notify.send(());
            }
            removed();
        }
    }

    /// Sends a batch, with as many attempts as necessary.
    async fn send(&self, purges: &[Purge]) {
        let mut calls = VecDeque::from(self.target.calls(purges));
        let mut may_purge_everything = true;
        while let Some(call) = calls.front() {
            let Err(error) = self.send_once(call).await else {
                calls.pop_front();
                self.state.lock().recovered();
                continue;
            };
            let target = self.target.name();
            if error.is_rejected && may_purge_everything {
                may_purge_everything = false;
                calls = self.target.calls(&[everything()]).into();
                self.state.lock().rejected(&error);
                tracing::warn!(
                    target,
                    why = error.why,
                    "a purge was rejected: everything is purged there"
                );
                continue;
            }
            let pause = self.state.lock().failed(&error);
            tracing::warn!(
                target,
                why = error.why,
                retry_in_s = pause.as_secs(),
                "a purge could not be forwarded"
            );
            tokio::time::sleep(pause).await;
        }
    }

    async fn send_once(&self, call: &TargetRequest) -> Result<(), SendError> {
        let connector = Connector::new(&self.target.cache.server)?;
        connector.send(&self.target, call).await
    }
}

impl QueueState {
    /// The oldest purges without duplicates. They remain in the queue.
    fn batch(&mut self) -> Vec<Purge> {
        self.sending = self.waiting.len().min(MAX_BATCH);
        let mut batch: Vec<Purge> = Vec::new();
        for one in self.waiting.iter().take(self.sending) {
            if !batch.contains(&one.purge) {
                batch.push(one.purge.clone());
            }
        }
        batch
    }

    fn taken(&mut self) -> Vec<oneshot::Sender<()>> {
        let taken = self.sending.min(self.waiting.len());
        self.sent += u64::try_from(taken).unwrap_or(u64::MAX);
        self.sending = 0;
        self.waiting
            .drain(..taken)
            .flat_map(|one| one.waiters)
            .collect()
    }

    fn recovered(&mut self) {
        (self.trouble, self.next, self.failures_in_a_row) = (None, None, 0);
    }

    fn rejected(&mut self, error: &SendError) {
        self.failures += 1;
        self.trouble = Some(error.why.clone());
    }

    fn failed(&mut self, error: &SendError) -> Duration {
        let pause = FIRST_PAUSE * 2_u32.saturating_pow(self.failures_in_a_row.min(10));
        let pause = pause.min(DEFAULT_MAX_PAUSE);
        let pause = pause
            .max(error.retry_after.unwrap_or_default())
            .min(MAX_PAUSE);
        self.failures += 1;
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        self.trouble = Some(error.why.clone());
        self.next = Some(Instant::now() + pause);
        pause
    }

    /// Replaces the queue by a purge of everything. The batch that is being sent remains at the front, because it is removed
    /// when it is accepted.
    fn overflow(&mut self) {
        let mut rest = self.waiting.split_off(self.sending.min(self.waiting.len()));
        let waiters = rest
            .iter_mut()
            .flat_map(|one| one.waiters.drain(..))
            .collect();
        self.overflows += 1;
        self.waiting.push_back(WaitingPurge {
            purge: everything(),
            waiters,
        });
    }
}

/// The maximum number of queued purges for one target: some megabytes.
const MAX_WAITING: usize = 10_000;

/// The maximum number of purges in one batch.
const MAX_BATCH: usize = 500;

/// The time for which purges are gathered, to send fewer requests.
const GATHERING: Duration = Duration::from_millis(200);

/// The first pause after a failure, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const DEFAULT_MAX_PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use galley_policy::purge::{Scope, Strength};

    use super::*;

    fn waiting(count: usize) -> QueueState {
        let purges = (0..count).map(|n| WaitingPurge {
            purge: Purge {
                scope: Scope::Tag(format!("p{n}")),
                strength: Strength::Hard,
            },
            waiters: Vec::new(),
        });
        QueueState {
            waiting: purges.collect(),
            ..QueueState::default()
        }
    }

    #[test]
    fn a_full_queue_becomes_a_purge_of_everything_after_the_current_batch() {
        let mut state = waiting(2000);
        assert_eq!(state.batch().len(), MAX_BATCH);
        state.overflow();
        assert_eq!(state.waiting.len(), MAX_BATCH + 1);
        state.taken();
        assert_eq!(state.batch()[0].scope, Scope::Site);
        assert_eq!((state.sent, state.overflows), (500, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_are_as_long_as_requested() {
        let mut state = waiting(1);
        let error = |retry_after| SendError {
            why: "status 429".to_owned(),
            retry_after,
            is_rejected: false,
        };
        let pauses: Vec<u128> = (0..9)
            .map(|_| state.failed(&error(None)).as_millis())
            .collect();
        assert_eq!(pauses[..4], [500, 1000, 2000, 4000]);
        assert_eq!(pauses[8], 60_000);
        let requested = Duration::from_secs(90);
        assert_eq!(state.failed(&error(Some(requested))), requested);
        state.recovered();
        assert_eq!(state.failed(&error(None)), FIRST_PAUSE);
    }
}
