//! Starts a front core: its thread, its runtime, its clock, and its end.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::accept;
use super::core::{Core, Ids, RETIRING_IDLE};
use super::http3;
use super::io::HttpDate;
use super::run_slices::RunSlices;
use super::spec::{CoreSpec, Phase};
use super::tick::Ticks;
use super::timer::{SWEEP, Timers};
use galley_sys::sandbox;
use galley_telemetry::errors::LogInterval;

/// Starts a front core. It ends when its phase requires it and its connections have ended, or when the drain times out.
///
/// Errors: the runtime, its timer or the thread cannot be created.
pub fn start(spec: CoreSpec) -> io::Result<JoinHandle<()>> {
    // The runtime cannot leave its thread, so the thread creates it and reports a failure.
    let (result_sender, result) = sync_channel(1);
    let thread = std::thread::Builder::new()
        .name(format!("front-{}", spec.index))
        .spawn(move || match runtime() {
            Ok((runtime, ticks, slices)) => {
                let _ = result_sender.send(Ok(()));
                galley_sys::raise_priority(TURN);
                sandbox::enter(spec.sandbox.as_ref());
                runtime.block_on(run(spec, ticks, slices));
            }
            Err(error) => {
                let _ = result_sender.send(Err(error));
            }
        })?;
    // A thread that reports nothing has panicked; joining it shows that.
    result.recv().unwrap_or(Ok(()))?;
    Ok(thread)
}

/// The runtime of one thread. Its tasks never leave the thread, so they need no `LocalSet`, which would be one more task to wake
/// and to poll at each turn.
fn runtime() -> io::Result<(LocalRuntime, Ticks, RunSlices)> {
    let has_waited = Arc::new(AtomicBool::new(true));
    let waits = Arc::clone(&has_waited);
    let runtime = Builder::new_current_thread()
        .enable_all()
        .event_interval(TASKS_OF_A_TURN)
        // The core starts the helper threads, which read files. They must not inherit its priority.
        .max_blocking_threads(galley_sys::HELPERS)
        .on_thread_start(galley_sys::usual_priority)
        .on_thread_park(move || waits.store(true, Ordering::Relaxed))
        .build_local(LocalOptions::default())?;
    let entered = runtime.enter();
    let ticks = Ticks::every(SWEEP)?;
    drop(entered);
    Ok((runtime, ticks, RunSlices::new(has_waited)))
}

async fn run(spec: CoreSpec, ticks: Ticks, slices: RunSlices) {
    let mut phase = spec.phase;
    let clock = spec.services.clock;
    let drain_timeout = spec.limits.drain_timeout;
    let core = Rc::new(Core {
        limits: spec.limits,
        services: spec.services,
        timers: Rc::new(Timers::default()),
        date: Rc::new(Cell::new(http_date(clock.wall()))),
        wall: Cell::new((Instant::now(), clock.wall())),
        slices,
        buffers: RefCell::default(),
        pool: Rc::default(),
        spare: Rc::default(),
        logs: RefCell::new(spec.logs),
        logged: spec.logged,
        countries: spec.countries,
        counters: spec.counters,
        ids: RefCell::new(Ids::after(format!("{}{:x}-", spec.id_prefix, spec.index))),
        connections: Cell::new(0),
        connection_ended: Notify::new(),
        stopping: Cell::new(false),
        phase: Cell::new(Phase::Running),
        ends_tunnels: Cell::new(false),
        refused_connections: LogInterval::new(REFUSED_LOG_INTERVAL_S),
    });
    let sweeping = tokio::task::spawn_local(sweep(Rc::clone(&core), ticks));
    let mut accepting = JoinSet::new();
    for listener in spec.listeners {
        accepting.spawn_local(accept::run(Rc::clone(&core), listener, phase.clone()));
    }
    for listener in spec.quic {
        accepting.spawn_local(http3::run(Rc::clone(&core), listener, phase.clone()));
    }
    // An error means that the sender has been dropped, and with it everything that could stop this thread in an orderly way.
    let now = phase.wait_for(|phase| *phase != Phase::Running).await;
    core.phase.set(now.map_or(Phase::Stopping, |now| *now));
    core.stopping.set(true);
    core.connection_ended.notify_waiters();
    while accepting.join_next().await.is_some() {}
    drop(spec.accepting);
    if core.phase.get() == Phase::Retiring {
        let stopped = async {
            let stopped = phase.wait_for(|phase| *phase == Phase::Stopping);
            stopped.await.is_err()
        };
        tokio::select! {
            () = retire(&core) => {}
            _ = stopped => core.phase.set(Phase::Stopping),
        }
    }
    // A core that has retired has no connections left.
    let _ = tokio::time::timeout(drain_timeout, stop(&core)).await;
    sweeping.abort();
    core.flush_logs();
}

/// Closes the connections: idle ones and tunnels at once, all others after their response.
async fn stop(core: &Core) {
    if core.connections.get() == 0 {
        return;
    }
    // Requests that clients have sent by now are received before their connections count as idle.
    tokio::time::sleep(LAST_REQUESTS).await;
    core.ends_tunnels.set(true);
    core.timers.end_idle();
    core.all_ended().await;
}

/// As [`stop`], but waits for requests that are in transit, and for responses however long they take: a reload interrupts none.
async fn retire(core: &Core) {
    let drain = core.limits.drain_timeout;
    let idle = RETIRING_IDLE.min(drain / 2);
    if tokio::time::timeout(idle, core.all_ended()).await.is_ok() {
        return;
    }
    core.timers.end_idle();
    if tokio::time::timeout(drain.saturating_sub(idle), core.all_ended())
        .await
        .is_ok()
    {
        return;
    }
    core.ends_tunnels.set(true);
    core.timers.end_idle();
    core.all_ended().await;
}

async fn sweep(core: Rc<Core>, ticks: Ticks) {
    loop {
        // Also at the start: until the first sweep the core's clock shows the start of the process.
        core.timers.sweep(core.services.clock.tick());
        let wall = core.services.clock.wall();
        core.date.set(http_date(wall));
        core.wall.set((Instant::now(), wall));
        core.flush_logs();
        if let Err(error) = ticks.next().await {
            tracing::error!(%error, "the timer of a front thread has stopped: its timeouts do not apply any longer");
            return;
        }
    }
}

fn http_date(now: SystemTime) -> HttpDate {
    let mut text = Vec::with_capacity(29);
    galley_policy::time::write_date(now, &mut text);
    // A date beyond the year 9999 has another length; the epoch replaces it.
    text.try_into().unwrap_or(*b"Thu, 01 Jan 1970 00:00:00 GMT")
}

/// Minimum interval between two messages about refused connections, in seconds: one message shows the operator the address.
const REFUSED_LOG_INTERVAL_S: u32 = 10;

/// The time slice of a core: the smallest possible. A hit takes a tenth of it.
const TURN: Duration = Duration::from_micros(100);

/// Tasks that run before the next `epoll_wait`: as many as it reports at once in a busy moment. The default of 61 makes two calls
/// when 64 connections are ready together.
const TASKS_OF_A_TURN: u32 = 256;

/// Time between the end of accepting and the end of idle connections: some turns of the runtime.
const LAST_REQUESTS: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Condvar, Mutex};

    use super::*;

    #[test]
    fn a_core_has_so_many_helpers_and_no_more() {
        let (runtime, _ticks, _slices) = runtime().unwrap();
        let at_work = Arc::new(AtomicUsize::new(0));
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let helper = || {
            let (at_work, gate) = (Arc::clone(&at_work), Arc::clone(&gate));
            runtime.spawn_blocking(move || {
                at_work.fetch_add(1, Ordering::SeqCst);
                let is_shut = |open: &mut bool| !*open;
                drop(gate.1.wait_while(gate.0.lock().unwrap(), is_shut));
            })
        };
        let helpers: Vec<_> = (0..galley_sys::HELPERS * 2).map(|_| helper()).collect();
        while at_work.load(Ordering::SeqCst) < galley_sys::HELPERS {
            std::thread::yield_now();
        }
        // Additional threads would have started by now.
        std::thread::sleep(Duration::from_millis(50));
        let most = at_work.load(Ordering::SeqCst);
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
        for helper in helpers {
            runtime.block_on(helper).unwrap();
        }
        assert_eq!(most, galley_sys::HELPERS);
        assert_eq!(at_work.load(Ordering::SeqCst), galley_sys::HELPERS * 2);
    }
}
