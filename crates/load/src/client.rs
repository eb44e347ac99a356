//! The client: holds connections to one server, and runs workloads on them.

use std::{
    cell::RefCell,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::{
    net::TcpStream,
    runtime::{Builder, LocalOptions, LocalRuntime},
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

#[cfg(feature = "http3")]
use crate::http3::Http3Sender;
use crate::{
    LoadError,
    connect::{Connections, Dialer, Stream, Target, TargetProtocol},
    http1,
    multiplexed::{self, Multiplexed},
    outcome::LoadOutcome,
    requests::Requests,
    run::{RequestSource, Run, RunBounds},
    schedule::Pace,
};

/// Requests of one kind, with separate connections.
pub struct Workload {
    /// The source of the requests.
    pub requests: Box<dyn Requests>,
    /// The number of connections.
    pub connections: usize,
    /// When requests are sent.
    pub pace: Pace,
}

/// When a run ends.
#[derive(Debug, Clone, Copy)]
pub enum Limit {
    /// After this time. Responses to requests that are in flight by then are awaited and counted.
    Time(Duration),
    /// After this number of requests of each workload, when their responses have been received.
    Requests(u64),
}

/// The time that a run may take beyond its limit.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For responses to requests in flight at the end of a run that is limited by time: 30 seconds.
    pub responses: Duration,
    /// For a run that is limited by the number of requests: 300 seconds.
    pub run: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            responses: Duration::from_secs(30),
            run: Duration::from_secs(300),
        }
    }
}

/// Connections to one server. It stays in the thread that created it.
pub struct LoadClient {
    runtime: LocalRuntime,
    link: Rc<Dialer>,
    loads: Vec<ConnectedWorkload>,
    idle: Vec<TcpStream>,
    stop: Arc<AtomicBool>,
    timeouts: Timeouts,
    progress: Option<LoadObserver>,
}

/// Called with the outcome of the first workload so far.
type LoadObserver = Box<dyn FnMut(&LoadOutcome, Duration)>;

/// A workload between two runs.
struct ConnectedWorkload {
    source: RequestSource,
    pace: Pace,
    open: Vec<Option<Open>>,
}

enum Open {
    Http1(Stream),
    Http2(SendRequest<Bytes>),
    #[cfg(feature = "http3")]
    Http3(Http3Sender),
}

impl LoadClient {
    /// Opens the connections of all workloads, unless each is for one request only. Setting `stop` ends any run.
    ///
    /// # Errors
    /// [`LoadError::Connect`] when the server does not accept a connection within ten seconds, [`LoadError::Tls`],
    /// [`LoadError::Stopped`].
    pub fn connect(
        target: Target,
        workloads: Vec<Workload>,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, LoadError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .event_interval(TASKS_PER_POLL)
            .build_local(LocalOptions::default())?;
        let link = Rc::new(Dialer::new(target)?);
        let mut client = Self {
            runtime,
            link,
            loads: Vec::new(),
            idle: Vec::new(),
            stop,
            timeouts: Timeouts::default(),
            progress: None,
        };
        for workload in workloads {
            let mut open = Vec::new();
            for _ in 0..workload.connections {
                open.push(match client.link.target.connections {
                    Connections::Kept => Some(client.open()?),
                    Connections::PerRequest => None,
                });
            }
            client.loads.push(ConnectedWorkload {
                source: Rc::new(RefCell::new(workload.requests)),
                pace: workload.pace,
                open,
            });
        }
        Ok(client)
    }

    fn open(&self) -> Result<Open, LoadError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(LoadError::Stopped);
        }
        let opened = async {
            match self.link.streams() {
                None => self.link.open().await.map(Open::Http1),
                #[cfg(feature = "http3")]
                Some(_) if self.link.target.is_http3() => {
                    Http3Sender::open(&self.link).await.map(Open::Http3)
                }
                Some(_) => SendRequest::open(&self.link).await.map(Open::Http2),
            }
        };
        let addr = self.link.target.addr;
        let opened = self.runtime.block_on(opened);
        opened.map_err(|source| LoadError::Connect { addr, source })
    }

    /// Opens `count` further connections that never send anything.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn hold_idle(&mut self, count: usize) -> Result<(), LoadError> {
        for _ in 0..count {
            if self.stop.load(Ordering::Relaxed) {
                return Err(LoadError::Stopped);
            }
            let opened = self.runtime.block_on(self.link.connect());
            let addr = self.link.target.addr;
            let opened = opened.map_err(|source| LoadError::Connect { addr, source })?;
            self.idle.push(opened);
        }
        Ok(())
    }

    /// The number of idle connections that the server has closed.
    pub fn idle_closed(&self) -> usize {
        let is_closed = |stream: &&TcpStream| {
            let read = stream.try_read(&mut [0]);
            !matches!(read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        };
        self.idle.iter().filter(is_closed).count()
    }

    /// Changes the timeouts of later runs.
    pub fn set_timeouts(&mut self, timeouts: Timeouts) {
        self.timeouts = timeouts;
    }

    /// Watches later runs: `progress` is called 20 times a second with the outcome of the first workload so far and the time
    /// since the start. Outcomes then have slices, and a run that ends early, because the caller requests it or because most
    /// requests fail, is not an error: it reports its results.
    pub fn watch(&mut self, progress: impl FnMut(&LoadOutcome, Duration) + 'static) {
        self.progress = Some(Box::new(progress));
    }

    /// Runs all workloads at the same time; returns the outcome of each, in their order.
    ///
    /// # Errors
    ///
    /// [`LoadError::Stopped`]; [`LoadError::Connect`] when a broken connection of HTTP/2 or HTTP/3 cannot be opened again;
    /// [`LoadError::Rate`]; [`LoadError::TooManyBroken`] after 1,000 requests of a workload without a response;
    /// [`LoadError::Unfinished`] when a run limited by the number of requests exceeds [`Timeouts::run`].
    pub fn run(&mut self, limit: Limit) -> Result<Vec<LoadOutcome>, LoadError> {
        for (load, at) in self.closed() {
            let open = self.open()?;
            if let Some(place) = self.loads.get_mut(load).and_then(|it| it.open.get_mut(at)) {
                *place = Some(open);
            }
        }
        self.link.wrong_handshakes.set(0);
        let began = Instant::now();
        let (end, deadline, requests) = match limit {
            Limit::Time(time) => (began + time, began + time + self.timeouts.responses, None),
            Limit::Requests(count) => {
                let end = began + self.timeouts.run;
                (end, end, Some(count))
            }
        };
        let bounds = RunBounds {
            began,
            end,
            requests,
            is_watched: self.progress.is_some(),
        };
        let runs = self.runs(bounds)?;
        self.work(&runs, began, deadline)?;
        let outcomes: Result<Vec<LoadOutcome>, LoadError> =
            runs.iter().map(|run| run.finish()).collect();
        let mut outcomes = outcomes?;
        if let Some(first) = outcomes.first_mut() {
            for _ in 0..self.link.wrong_handshakes.get() {
                first.record_wrong_handshake();
            }
        }
        Ok(outcomes)
    }

    /// Waits until connections of HTTP/3 have acknowledged what they received in the last run. Otherwise the server would send
    /// it again while the client rests.
    #[cfg(feature = "http3")]
    pub fn acknowledge(&mut self) {
        if self.link.target.is_http3() {
            self.runtime
                .block_on(async { tokio::time::sleep(ACKNOWLEDGED).await });
        }
    }

    fn runs(&self, bounds: RunBounds) -> Result<Vec<Rc<Run>>, LoadError> {
        let _within = self.runtime.enter();
        let runs = self.loads.iter().map(|load| {
            let source = Rc::clone(&load.source);
            Run::new(source, load.pace, bounds).map(Rc::new)
        });
        runs.collect()
    }

    /// The connections of HTTP/2 and HTTP/3 that broke in an earlier run; those of HTTP/1.1 are opened when they are needed.
    fn closed(&self) -> Vec<(usize, usize)> {
        let mut closed = Vec::new();
        for (number, load) in self.loads.iter().enumerate() {
            let places = load.open.iter().enumerate();
            let broken = places.filter(|(_, open)| open.is_none() && self.link.streams().is_some());
            closed.extend(broken.map(|(at, _)| (number, at)));
        }
        closed
    }

    fn work(
        &mut self,
        runs: &[Rc<Run>],
        began: Instant,
        deadline: Instant,
    ) -> Result<(), LoadError> {
        let (link, loads, stop) = (&self.link, &mut self.loads, &self.stop);
        let progress = &mut self.progress;
        self.runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for (number, (load, run)) in loads.iter_mut().zip(runs).enumerate() {
                for (at, place) in load.open.iter_mut().enumerate() {
                    let (run, link, open) = (Rc::clone(run), Rc::clone(link), place.take());
                    tasks.spawn_local(async move { (number, at, one(run, link, open).await) });
                }
            }
            let mut ticks = interval(CHECK_INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    ended = tasks.join_next() => match ended {
                        None => return Ok(()),
                        Some(Ok((number, at, open))) => {
                            let load = loads.get_mut(number);
                            if let Some(place) = load.and_then(|load| load.open.get_mut(at)) {
                                *place = open;
                            }
                        }
                        Some(Err(error)) => return Err(LoadError::Runtime(error.into())),
                    },
                    _ = ticks.tick() => {
                        if stop.load(Ordering::Relaxed) {
                            for run in runs {
                                run.stop();
                            }
                            return match progress {
                                Some(_) => Ok(()),
                                None => Err(LoadError::Stopped),
                            };
                        }
                        if let (Some(progress), Some(run)) = (progress.as_mut(), runs.first()) {
                            progress(&run.outcome.borrow(), began.elapsed());
                        }
                        // Requests in flight count as broken, and their connections are closed.
                        if Instant::now() > deadline {
                            return Ok(());
                        }
                    }
                }
            }
        })
    }
}

async fn one(run: Rc<Run>, link: Rc<Dialer>, open: Option<Open>) -> Option<Open> {
    match (open, link.streams()) {
        (Some(Open::Http2(send)), Some(streams)) => {
            let send = multiplexed::work(run, link, send, streams).await;
            send.map(Open::Http2)
        }
        #[cfg(feature = "http3")]
        (Some(Open::Http3(open)), Some(streams)) => {
            let open = multiplexed::work(run, link, open, streams).await;
            open.map(Open::Http3)
        }
        (Some(Open::Http1(stream)), _) => {
            let stream = http1::work(run, link, Some(stream)).await;
            stream.map(Open::Http1)
        }
        (_, _) => http1::work(run, link, None).await.map(Open::Http1),
    }
}

impl Dialer {
    /// The number of concurrent requests on each connection of HTTP/2 and HTTP/3.
    fn streams(&self) -> Option<usize> {
        match self.target.tls.as_ref()?.protocol {
            TargetProtocol::Http1 => None,
            TargetProtocol::Http2 { streams } => Some(streams),
            #[cfg(feature = "http3")]
            TargetProtocol::Http3 { streams } => Some(streams),
        }
    }
}

/// The number of tasks that run before the next `epoll_wait`.
const TASKS_PER_POLL: u32 = 256;
/// More than the time by which an acknowledgement is delayed.
#[cfg(feature = "http3")]
const ACKNOWLEDGED: Duration = Duration::from_millis(40);
/// The interval at which the caller's `stop` flag is checked and `progress` is called.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
