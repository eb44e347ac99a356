//! Starts a fetch thread, receives its jobs, and ends it after the exchanges in progress.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use galley_cache::memory::Memory;
use galley_cluster::ClusterPublisher;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::activity::Activity;
use super::coalescer::Coalescer;
use super::handle::{FetchCommand, Handle, QueuedCommand};
use super::registry::FetchRegistry;
use super::renderer::Renderer;
use super::storer::Storer;
use super::upstreams::Upstreams;
use super::worker::FetchWorker;
use galley_sys::clock::Clock;
use galley_sys::sandbox::{self, Sandbox};
use galley_upstream::body::body_spools::BodySpools;
use galley_upstream::{PoolSpec, UpstreamStats};

/// Starts fetch thread number `index` with its pools. The thread ends after the exchanges in progress when all handles are dropped.
pub fn start(
    index: usize,
    pools: Vec<PoolSpec>,
    memory: Arc<Memory>,
    spools: Arc<BodySpools>,
    clock: Clock,
    cluster: Option<&ClusterPublisher>,
    sandbox: Option<Sandbox>,
) -> io::Result<(Handle, JoinHandle<()>)> {
    let (commands, incoming) = mpsc::channel(MAX_COMMANDS);
    let stats: Arc<[Arc<UpstreamStats>]> = pools
        .iter()
        .map(|spec| Arc::new(UpstreamStats::new(spec)))
        .collect();
    let registry = Arc::new(FetchRegistry::new());
    let activity = Arc::new(Activity::default());
    let handle = Handle {
        commands,
        activity: Arc::clone(&activity),
        upstream_stats: Arc::clone(&stats),
        registry: Arc::clone(&registry),
    };
    let storer = Storer::new(memory, cluster, clock);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(galley_sys::HELPERS)
        .on_thread_start(galley_sys::usual_priority)
        .build()?;
    let thread = std::thread::Builder::new()
        .name(format!("fetch-{index}"))
        .spawn(move || {
            // As for the front cores: with a lower priority, each waiter that the thread wakes would delay it.
            galley_sys::raise_priority(TIME_SLICE);
            // Opens files that the concurrency limit reads later, when the sandbox no longer permits this thread to open them.
            let _ = galley_sys::running_processes();
            sandbox::enter(sandbox.as_ref());
            let worker = Rc::new(FetchWorker {
                clock,
                activity,
                upstreams: Upstreams::new(&pools, &stats, spools),
                coalescer: Coalescer::new(registry),
                storer,
                renderer: Renderer::default(),
                invalidations: Rc::default(),
            });
            // As a separate task: a `LocalSet` polls the future that it blocks on at each turn.
            let work = async { tokio::task::spawn_local(work(worker, incoming)).await };
            if let Err(failed) = LocalSet::new().block_on(&runtime, work)
                && failed.is_panic()
            {
                std::panic::resume_unwind(failed.into_panic());
            }
        })?;
    Ok((handle, thread))
}

async fn work(worker: Rc<FetchWorker>, mut incoming: mpsc::Receiver<QueuedCommand>) {
    tokio::task::spawn_local(keep_timer_pending());
    tokio::task::spawn_local(Rc::clone(&worker).patch_in_background());
    let activity = Arc::clone(&worker.activity);
    let invalidations = Rc::clone(&worker.invalidations);
    while let Some(QueuedCommand { command, work }) = incoming.recv().await {
        let worker = Rc::clone(&worker);
        // Boxed: the runtime copies the memory of a task once when the task starts, and twice when it ends.
        let exchange = Box::write(Box::new_uninit(), async move {
            let _work = work;
            worker.execute(command).await;
        });
        tokio::task::spawn_local(Box::into_pin(exchange));
    }
    activity.jobs_ended().await;
    invalidations.flush().await;
}

/// Keeps a timer that always expires soon. Whenever a new timer expires before all others, the runtime writes to its own event
/// descriptor and so wakes itself at once without need. Each exchange has some timers of many seconds that rarely expire.
async fn keep_timer_pending() {
    let mut timer = tokio::time::interval(PULSE);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        timer.tick().await;
    }
}

impl FetchWorker {
    /// Executes a command. The future of a request to the upstream is boxed: thousands of them may only wait, each as large as the
    /// largest future below. `Box::pin` would copy all of that memory once.
    async fn execute(self: Rc<Self>, command: FetchCommand) {
        match command {
            FetchCommand::Page(job, since, reply) => self.page(job, since, reply).await,
            FetchCommand::Pass(job, writer) => {
                let memory = Box::new_uninit();
                Box::into_pin(Box::write(memory, self.pass(*job, writer))).await;
            }
            FetchCommand::Refresh(job, when) => {
                Box::pin(self.refresh(*job, when)).await;
            }
            FetchCommand::Patch(job, held, reply) => {
                Box::pin(self.patch(*job, held, reply)).await;
            }
            FetchCommand::Cron(job, reply) => Box::pin(self.cron(*job, reply)).await,
        }
    }
}

/// The time slice of a fetch thread: shorter than that of PHP, longer than that of a front core, which it does not interrupt.
const TIME_SLICE: Duration = Duration::from_micros(200);

/// Less than the usual timeouts of an exchange.
const PULSE: Duration = Duration::from_millis(500);

/// The maximum number of commands in the queue of a fetch thread. A longer queue means that the upstream is overloaded by any
/// measure.
const MAX_COMMANDS: usize = 16_384;
