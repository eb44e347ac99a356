//! Front cores: the threads that talk to clients.
//!
//! Each has its own runtime, its own listeners (`SO_REUSEPORT`), its own timers and log buffer. A connection never leaves its
//! core. Where descriptors run out, or the limit of connections is reached, those that ask nothing give way to new ones.

mod accept;
mod batch;
mod close;
mod ends;
mod exchange;
mod fast_path;
mod handshake;
mod http1;
mod http2;
mod io;
mod moments;
mod pool;
mod proxy_protocol;
mod record;
mod socket;
mod span;
mod speed;
mod tick;
mod timer;
mod tunnel;
mod write;

use std::cell::{Cell, RefCell};
use std::io as std_io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::request::{Services, Sites};
use crate::sys;
use crate::sys::sandbox::{self, Sandbox};
use crate::sys::sockets::Listening;
use crate::telemetry::access::LogWriter;
use crate::telemetry::counters::CoreCounters;
use crate::telemetry::errors::Seldom;
use crate::tls::Acceptor;
use io::HttpDate;
use moments::Moments;
use pool::{BufferPool, Spare};
pub use speed::Speed;
use tick::Beat;
use timer::{SWEEP, Timers};

/// Limits on clients; from `[server]`.
#[derive(Clone, Debug)]
pub struct ClientLimits {
    /// Bytes of a request head.
    pub head_bytes: usize,
    /// For a whole head, from its first byte.
    pub head_timeout: Duration,
    /// For the first byte of the next request.
    pub idle_timeout: Duration,
    /// How fast a body must come.
    pub coming: Speed,
    /// How fast an answer must be taken.
    pub leaving: Speed,
    /// For exchanges under way when the server is told to end.
    pub drain_timeout: Duration,
    /// Connections per core.
    pub connections: usize,
    /// Whether hits may take the fast path.
    pub lane: bool,
    /// Whether HTTP/2 is spoken in the clear.
    pub h2c: bool,
}

/// A listening socket, and what is reached by it.
pub struct BoundListener {
    /// Where connections come in.
    pub socket: Listening,
    /// The sites that answer there.
    pub sites: Arc<Sites>,
    /// Whether each connection begins with a header of the PROXY protocol.
    pub speaks_proxy: bool,
    /// How handshakes are answered; `None`: clients come in plain.
    pub tls: Option<Acceptor>,
}

/// A core's share of the listeners.
pub type Listeners = Vec<BoundListener>;

/// What one front core is started with.
pub struct CoreSpec {
    /// Its number, for the thread's name and request ids.
    pub index: usize,
    /// Its listeners.
    pub listeners: Listeners,
    /// Limits.
    pub limits: ClientLimits,
    /// Shared services.
    pub services: Arc<Services>,
    /// Its access log buffers: the server's, then those of sites with their own.
    pub logs: Vec<LogWriter>,
    /// Its counters.
    pub counters: CoreCounters,
    /// Start of all request ids of this process.
    pub id_prefix: String,
    /// Becomes `true` when the server is to drain.
    pub stop: watch::Receiver<bool>,
    /// What confines its thread.
    pub sandbox: Option<Sandbox>,
}

/// A core's own state; lives on its thread.
struct Core {
    limits: ClientLimits,
    services: Arc<Services>,
    timers: Rc<Timers>,
    /// Renewed with each sweep, so that no request reads a clock for it.
    date: Rc<Cell<HttpDate>>,
    /// The wall clock and when it was read; renewed with each sweep too.
    wall: Cell<(Instant, SystemTime)>,
    moments: Moments,
    /// Never borrowed over an await.
    room: RefCell<fast_path::FastPathBuffers>,
    /// Buffers of idle connections.
    pool: Rc<BufferPool>,
    spare: Rc<Spare>,
    logs: RefCell<Vec<LogWriter>>,
    counters: CoreCounters,
    ids: RefCell<Ids>,
    connections: Cell<usize>,
    connection_ended: Notify,
    stopping: Cell<bool>,
    /// Limits what is said of connections that the PROXY protocol shuts out.
    strangers: Seldom,
}

/// Starts a front core. It ends when told to stop and its connections are done, or when the drain takes too long.
///
/// Errors: the runtime, its timer or the thread cannot be made.
pub fn start(spec: CoreSpec) -> std_io::Result<JoinHandle<()>> {
    // The runtime cannot leave its thread, and its failure is the caller's.
    let (tell, told) = sync_channel(1);
    let thread = std::thread::Builder::new()
        .name(format!("front-{}", spec.index))
        .spawn(move || match runtime() {
            Ok((runtime, of_it)) => {
                let _ = tell.send(Ok(()));
                sys::raise_priority(TURN);
                sandbox::enter(spec.sandbox.as_ref());
                runtime.block_on(run(spec, of_it));
            }
            Err(error) => {
                let _ = tell.send(Err(error));
            }
        })?;
    // A thread that tells nothing has panicked, which whoever joins it hears.
    told.recv().unwrap_or(Ok(()))?;
    Ok(thread)
}

/// What the tasks of one thread run on. Tasks that never leave it need no set of their own, which would be one task more to wake
/// and to poll at each turn.
fn runtime() -> std_io::Result<(LocalRuntime, (Beat, Moments))> {
    let has_waited = Arc::new(AtomicBool::new(true));
    let waits = Arc::clone(&has_waited);
    let runtime = Builder::new_current_thread()
        .enable_all()
        .event_interval(TASKS_OF_A_TURN)
        // The runtime's helpers, which read files, are begun by the core.
        .max_blocking_threads(sys::HELPERS)
        .on_thread_start(sys::usual_priority)
        .on_thread_park(move || waits.store(true, Ordering::Relaxed))
        .build_local(LocalOptions::default())?;
    let entered = runtime.enter();
    let beat = Beat::every(SWEEP)?;
    drop(entered);
    Ok((runtime, (beat, Moments::new(has_waited))))
}

async fn run(spec: CoreSpec, (beat, moments): (Beat, Moments)) {
    let mut stop = spec.stop;
    let clock = spec.services.clock;
    let drain_timeout = spec.limits.drain_timeout;
    let core = Rc::new(Core {
        limits: spec.limits,
        services: spec.services,
        timers: Rc::new(Timers::default()),
        date: Rc::new(Cell::new(http_date(clock.wall()))),
        wall: Cell::new((Instant::now(), clock.wall())),
        moments,
        room: RefCell::default(),
        pool: Rc::default(),
        spare: Rc::default(),
        logs: RefCell::new(spec.logs),
        counters: spec.counters,
        ids: RefCell::new(Ids::after(format!("{}{:x}-", spec.id_prefix, spec.index))),
        connections: Cell::new(0),
        connection_ended: Notify::new(),
        stopping: Cell::new(false),
        strangers: Seldom::new(STRANGERS_EVERY_S),
    });
    let sweeping = tokio::task::spawn_local(sweep(Rc::clone(&core), beat));
    let mut accepting = JoinSet::new();
    for listener in spec.listeners {
        accepting.spawn_local(accept::run(Rc::clone(&core), listener, stop.clone()));
    }
    // An error means that the sender is gone, and with it whoever could end us properly.
    let _ = stop.wait_for(|stop| *stop).await;
    core.stopping.set(true);
    core.connection_ended.notify_waiters();
    let drained = async {
        while accepting.join_next().await.is_some() {}
        // What clients have sent by now is heard of before their connections count as idle.
        tokio::time::sleep(LAST_WORD).await;
        core.timers.end_idle();
        core.all_ended().await;
    };
    let _ = tokio::time::timeout(drain_timeout, drained).await;
    sweeping.abort();
    core.flush_logs();
}

async fn sweep(core: Rc<Core>, beat: Beat) {
    loop {
        // At once, too: the core's clock stands at the process's start until then.
        core.timers.sweep(core.services.clock.tick());
        let wall = core.services.clock.wall();
        core.date.set(http_date(wall));
        core.wall.set((Instant::now(), wall));
        core.flush_logs();
        if let Err(error) = beat.next().await {
            tracing::error!(%error, "a front core has no clock any more: nobody is too slow for it");
            return;
        }
    }
}

fn http_date(now: std::time::SystemTime) -> HttpDate {
    let mut text = Vec::with_capacity(29);
    galley_policy::time::write_date(now, &mut text);
    // A clock beyond the year 9999 gives another length; then the epoch is as good.
    text.try_into().unwrap_or(*b"Thu, 01 Jan 1970 00:00:00 GMT")
}

impl Core {
    fn request_id(&self) -> String {
        let mut id = String::new();
        self.write_request_id(&mut id);
        id
    }

    /// The next request's id, in room that is there.
    fn write_request_id(&self, out: &mut String) {
        let mut ids = self.ids.borrow_mut();
        ids.next.clone_into(out);
        ids.advance();
    }

    /// The wall clock at `at`, a moment ago: no clock is read for it.
    fn wall(&self, at: Instant) -> SystemTime {
        let (read, wall) = self.wall.get();
        wall + at.saturating_duration_since(read)
    }

    fn flush_logs(&self) {
        self.logs.borrow_mut().iter_mut().for_each(LogWriter::flush);
    }

    async fn all_ended(&self) {
        while self.connections.get() > 0 {
            let ended = self.connection_ended.notified();
            if self.connections.get() == 0 {
                return;
            }
            ended.await;
        }
    }
}

/// The ids of a core's requests: one start, then a number in hexadecimal, counted up in its text.
struct Ids {
    /// Bytes of the start.
    start: usize,
    next: String,
}

impl Ids {
    fn after(start: String) -> Self {
        let mut next = start;
        let start = next.len();
        next.push('0');
        Self { start, next }
    }

    fn advance(&mut self) {
        let mut zeros = 0;
        let raised = loop {
            if self.next.len() == self.start {
                break '1';
            }
            match self.next.pop() {
                Some('f') => zeros += 1,
                Some('9') => break 'a',
                Some(digit) => break char::from_u32(u32::from(digit) + 1).unwrap_or('0'),
                None => break '1',
            }
        };
        self.next.push(raised);
        (0..zeros).for_each(|_| self.next.push('0'));
    }
}

/// Seconds between two messages about connections that are shut out: one tells the operator which address to look at.
const STRANGERS_EVERY_S: u32 = 10;

/// What a core asks the kernel for each time that it gets a processor: the least there is. A hit takes a tenth of it.
const TURN: Duration = Duration::from_micros(100);

/// Tasks that run before the kernel is asked again what is ready. As many as it tells at once in a busy moment: the usual 61 make
/// it two questions where 64 connections are ready together.
const TASKS_OF_A_TURN: u32 = 256;

/// Some turns of the runtime: between the end of accepting and the end of idle connections.
const LAST_WORD: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Condvar, Mutex};

    use super::*;

    #[test]
    fn a_core_has_so_many_helpers_and_no_more() {
        let (runtime, _of_it) = runtime().unwrap();
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
        let helpers: Vec<_> = (0..sys::HELPERS * 2).map(|_| helper()).collect();
        while at_work.load(Ordering::SeqCst) < sys::HELPERS {
            std::thread::yield_now();
        }
        // More would have begun by now, or would soon.
        std::thread::sleep(Duration::from_millis(50));
        let most = at_work.load(Ordering::SeqCst);
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
        for helper in helpers {
            runtime.block_on(helper).unwrap();
        }
        assert_eq!(most, sys::HELPERS);
        assert_eq!(at_work.load(Ordering::SeqCst), sys::HELPERS * 2);
    }

    #[test]
    fn ids_are_counted_in_hexadecimal() {
        let mut ids = Ids::after("f9-".to_owned());
        for number in 0..70_000 {
            assert_eq!(ids.next, format!("f9-{number:x}"));
            ids.advance();
        }
    }
}
