//! Runs of WordPress's scheduler: the exchange with the upstream, and the results of the runs of one site.
//!
//! A run uses a separate pool with one slot, so it neither waits behind visitors nor occupies one of their slots, and a site
//! never has two runs at once. Its purges are published like those of any response, when its head arrives and when it has
//! ended. PHP-FPM ends the response before the work begins; the pool then waits until the worker is free (see
//! `galley_upstream::fastcgi`). `app::cron` decides when to start a run.

use std::cell::Cell;
use std::time::Duration;

use galley_cache::fill::FillError;
use galley_policy::purge;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use super::cron_runs::{CronError, CronRuns, CronState, CronTransition, LastRun};
pub use super::jobs::CronJob;
use super::{FetchWorker, acknowledged, publish_labeled};
use galley_upstream::IncomingResponse;

impl FetchWorker {
    pub(super) async fn cron(
        &self,
        job: CronJob,
        mut reply: oneshot::Sender<Result<(), CronError>>,
    ) {
        let ended = tokio::select! {
            ended = tokio::time::timeout(MAX_RUN_TIME, self.run_scheduler(&job)) => ended,
            () = reply.closed() => return,
        };
        let late = CronError::Upstream(FillError::Timeout);
        let _ = reply.send(ended.unwrap_or(Err(late)));
    }

    async fn run_scheduler(&self, job: &CronJob) -> Result<(), CronError> {
        let sent = Cell::new(Instant::now());
        let exchange = async {
            let pool = self.upstreams.pool(job.pool)?;
            let turn = galley_upstream::QueuePosition::default();
            let slot = pool.acquire(job.call.queue_identity(), &turn).await?;
            pool.send(slot, &job.call, &|| sent.set(Instant::now()))
                .await
        };
        let mut incoming = exchange.await.map_err(CronError::Upstream)?;
        let delay = sent.get().elapsed();
        job.site.cron.read_appointments(&incoming.fields, delay);
        let purges = purge::from_response(&incoming.fields, &job.site.policy);
        let label = purge::label(&incoming.fields);
        publish_labeled(&job.site, &purges, label.as_ref())
            .wait(&job.site)
            .await;
        let ended = read_to_end(&mut incoming).await;
        // Once more at the end: PHP may commit the announced changes only then.
        if publish_labeled(&job.site, &purges, label.as_ref())
            .wait(&job.site)
            .await
        {
            job.site
                .acknowledged
                .note(acknowledged::names(&incoming.fields));
        }
        ended.map_err(CronError::Upstream)?;
        if incoming.status.is_success() {
            Ok(())
        } else {
            Err(CronError::Status(incoming.status))
        }
    }
}

/// Reads the response to its end and discards it: only its end matters.
async fn read_to_end(incoming: &mut IncomingResponse) -> Result<(), FillError> {
    while incoming.chunk().await?.is_some() {}
    if incoming.ended_well() {
        Ok(())
    } else {
        Err(FillError::Closed)
    }
}

/// The time after which a run is no longer waited for. WordPress itself lets another run begin after a minute.
pub const MAX_RUN_TIME: Duration = Duration::from_secs(600);
