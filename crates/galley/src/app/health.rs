//! Health checks: a task for each server of a site with `health_check`, on the control thread.
//!
//! The checks write their results into the state of the server, which the fetch threads read. One generation checks at a
//! time. The first check runs at once, the others at intervals; those of many servers are spread over the interval.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use galley_upstream::{CheckTarget, HealthChange, HealthCheck, ServerState};

/// A server and the settings of its check.
#[derive(Clone, Debug)]
pub(super) struct CheckedServer {
    pub(super) site: String,
    pub(super) target: CheckTarget,
    pub(super) state: Arc<ServerState>,
    /// `None`: it is not checked.
    pub(super) check: Option<Arc<HealthCheck>>,
}

/// Starts the checks of all servers that have one; they end when the result is dropped.
pub(super) fn start(servers: &[CheckedServer]) -> JoinSet<()> {
    let mut checks = JoinSet::new();
    for server in servers {
        match &server.check {
            Some(check) => {
                let task = CheckTask {
                    site: server.site.clone(),
                    target: server.target.clone(),
                    state: Arc::downgrade(&server.state),
                };
                checks.spawn(keep(task, Arc::clone(check)));
            }
            None => server.state.forget_checks(),
        }
    }
    checks
}

struct CheckTask {
    site: String,
    target: CheckTarget,
    state: Weak<ServerState>,
}

async fn keep(task: CheckTask, check: Arc<HealthCheck>) {
    let mut next = Instant::now();
    let mut is_first = true;
    loop {
        let outcome = check.run(&task.target).await;
        let Some(state) = task.state.upgrade() else {
            return;
        };
        let change = state.checked(outcome.is_ok(), &check.config, Instant::now());
        match (change, outcome) {
            (HealthChange::TakenOut, Err(why)) => {
                let (site, upstream) = (&task.site, &state.address);
                tracing::error!(site, upstream, %why, "the upstream failed its health checks and gets no requests");
            }
            (HealthChange::BroughtBack, _) => {
                let (site, upstream) = (&task.site, &state.address);
                tracing::info!(
                    site,
                    upstream,
                    "the upstream passes its health checks again"
                );
            }
            (HealthChange::None | HealthChange::TakenOut, _) => {}
        }
        drop(state);
        // A check that takes longer than the interval delays the next one; missed checks are not repeated.
        next = (next + wait(check.config.interval, is_first)).max(Instant::now());
        is_first = false;
        tokio::time::sleep_until(next).await;
    }
}

/// The time until the next check. After the first check: a random part of the interval, so that the checks of many servers
/// and nodes do not coincide.
fn wait(interval: Duration, is_first: bool) -> Duration {
    if !is_first {
        return interval;
    }
    let parts = u32::from(galley_sys::random_bytes()[0]) + 1;
    interval * parts / (u32::from(u8::MAX) + 1)
}
