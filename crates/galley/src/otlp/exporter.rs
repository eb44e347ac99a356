//! The thread that sends spans to the collector.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Ended, sync_channel};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use galley_config::HttpUpstream;
use http::{Request, header};
use http_body_util::Full;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout};

use super::encode;
use super::failure::{self, ExportFailure};
use galley_sys::Lock;
use galley_telemetry::errors::LogInterval;
use galley_telemetry::trace::{FinishedSpan, TraceStats, Tracer, TracerSettings};
use galley_tls::service_client::ServiceClient;

/// A handle to the exporter thread.
#[derive(Debug)]
pub struct Exporter {
    tracer: Arc<Tracer>,
    closing: oneshot::Sender<()>,
    /// Disconnected when the thread has ended.
    ended: Lock<Ended<()>>,
}

/// Starts the thread, which ends when the last tracer is dropped, or at [`Exporter::close`].
pub fn start(server: &HttpUpstream, settings: TracerSettings) -> io::Result<Exporter> {
    let (sender, spans) = mpsc::channel(MAX_QUEUED);
    let stats = Arc::new(TraceStats::default());
    let (closing, close) = oneshot::channel();
    let (ending, ended) = sync_channel(0);
    let worker = ExportWorker {
        server: server.clone(),
        client: None,
        stats: Arc::clone(&stats),
        instance: format!("{:016x}", u64::from_ne_bytes(galley_sys::random_bytes())),
        warnings: LogInterval::new(WARNING_EVERY_S),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()?;
    std::thread::Builder::new()
        .name("otlp".to_owned())
        .spawn(move || {
            runtime.block_on(worker.run(spans, close));
            drop(ending);
        })?;
    Ok(Exporter {
        tracer: Arc::new(Tracer::new(
            sender,
            stats,
            settings,
            galley_sys::random_bytes,
        )),
        closing,
        ended: Lock::new(ended),
    })
}

impl Exporter {
    /// The tracer whose spans the thread sends.
    pub fn tracer(&self) -> &Arc<Tracer> {
        &self.tracer
    }

    /// Sends the remaining spans, with a short time limit, and ends the thread.
    pub fn close(self) {
        // The thread may have ended.
        let _ = self.closing.send(());
        let ended = self.ended.lock();
        let _ = ended.recv_timeout(LAST_EXPORT + LAST_EXPORT);
    }
}

struct ExportWorker {
    server: HttpUpstream,
    /// `None`: not created yet.
    client: Option<ServiceClient>,
    stats: Arc<TraceStats>,
    instance: String,
    warnings: LogInterval,
}

impl ExportWorker {
    async fn run(mut self, mut spans: mpsc::Receiver<FinishedSpan>, close: oneshot::Receiver<()>) {
        tokio::pin! {
            // Dropping the handle without `close` does not end the thread: others have the tracer.
            let closed = async { if close.await.is_err() { std::future::pending().await } };
        }
        let mut batch = Vec::new();
        loop {
            batch.clear();
            tokio::select! {
                () = &mut closed => break,
                is_over = gather(&mut spans, &mut batch) => if is_over { break },
            }
            tokio::select! {
                () = &mut closed => break,
                () = self.export(&batch) => {}
            }
        }
        self.export_rest(batch, spans).await;
    }

    /// Sends the remaining spans, once and with a short timeout.
    async fn export_rest(
        &mut self,
        mut rest: Vec<FinishedSpan>,
        mut spans: mpsc::Receiver<FinishedSpan>,
    ) {
        spans.close();
        while let Ok(span) = spans.try_recv() {
            rest.push(span);
        }
        if rest.is_empty() {
            return;
        }
        let body = self.body(&rest);
        match timeout(LAST_EXPORT, self.attempt(&body)).await {
            Ok(Ok(rejected)) => self.count(rest.len(), rejected),
            Ok(Err(_)) | Err(_) => self.stats.add_dropped(rest.len() as u64),
        }
    }

    /// Sends a batch until the collector accepts or rejects it, or the time limit is reached.
    async fn export(&mut self, batch: &[FinishedSpan]) {
        let body = self.body(batch);
        let deadline = Instant::now() + MAX_RETRY;
        let mut pause = FIRST_PAUSE;
        loop {
            let failure = match self.attempt(&body).await {
                Ok(rejected) => return self.count(batch.len(), rejected),
                Err(failure) => failure,
            };
            let wait = failure.retry_after.unwrap_or_else(|| jittered(pause));
            if !failure.may_retry || Instant::now() + wait > deadline {
                self.stats.add_dropped(batch.len() as u64);
                return self.warn(&failure.why);
            }
            sleep(wait).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    /// Sends a batch once. Returns the number of spans that the collector has rejected.
    async fn attempt(&mut self, body: &Bytes) -> Result<u64, ExportFailure> {
        if self.client.is_none() {
            let server = self.server.clone();
            // This reads the certificates that the system trusts.
            let made = tokio::task::spawn_blocking(move || ServiceClient::new(&server)).await;
            let made = made.map_err(|panic| ExportFailure::unreachable(&panic))?;
            self.client = Some(made.map_err(|why| ExportFailure::unreachable(&why))?);
        }
        let Some(client) = &self.client else {
            return Err(ExportFailure::unreachable(&"no client"));
        };
        let request = Request::post("/v1/traces")
            .header(header::HOST, client.authority())
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::CONNECTION, "close")
            .body(Full::from(body.clone()))
            .map_err(|why| ExportFailure::unreachable(&why))?;
        let response = client.send(request).await;
        let response = response.map_err(|why| ExportFailure::unreachable(&why))?;
        failure::rejected(&response, SystemTime::now())
    }

    fn body(&self, spans: &[FinishedSpan]) -> Bytes {
        encode::body(spans, &self.instance).into()
    }

    fn count(&self, sent: usize, rejected: u64) {
        let sent = sent as u64;
        let rejected = rejected.min(sent);
        self.stats.add_exported(sent - rejected);
        if rejected > 0 {
            self.stats.add_dropped(rejected);
            self.warn("it has rejected spans");
        }
    }

    fn warn(&self, why: &str) {
        if self.warnings.admit() {
            let (collector, dropped) = (self.server.to_string(), self.stats.dropped());
            tracing::warn!(collector, dropped, "cannot export spans: {why}");
        }
    }
}

/// Collects a batch of spans; true if the channel has closed.
async fn gather(spans: &mut mpsc::Receiver<FinishedSpan>, batch: &mut Vec<FinishedSpan>) -> bool {
    match spans.recv().await {
        Some(span) => batch.push(span),
        None => return true,
    }
    let more = async {
        while batch.len() < MAX_IN_BATCH {
            let free = MAX_IN_BATCH - batch.len();
            if spans.recv_many(batch, free).await == 0 {
                return;
            }
        }
    };
    // A batch that is not full after this time is sent nevertheless.
    let _ = timeout(BATCH_TIME, more).await;
    false
}

/// A random duration between half of a pause and all of it, so that many rejected clients do not retry at the same time.
fn jittered(pause: Duration) -> Duration {
    let [random, ..] = galley_sys::random_bytes();
    pause / 2 + pause / 2 * u32::from(random) / 255
}

/// The maximum number of queued spans: the default of OpenTelemetry's processors.
const MAX_QUEUED: usize = 2048;

/// The maximum number of spans in a request: also their default.
const MAX_IN_BATCH: usize = 512;

/// How long the first span of a batch waits for others.
const BATCH_TIME: Duration = Duration::from_secs(1);

/// The first pause, and the longest one, unless the collector requests another.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// How long a batch is retried. The channel fills during this time.
const MAX_RETRY: Duration = Duration::from_secs(60);

/// The timeout for the remaining spans at the end.
const LAST_EXPORT: Duration = Duration::from_secs(1);

const WARNING_EVERY_S: u32 = 60;

const USER_AGENT: &str = concat!("galley/", env!("CARGO_PKG_VERSION"));
