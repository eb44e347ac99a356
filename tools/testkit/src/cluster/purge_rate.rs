//! Measures the latency of sequential purges on three nodes, and the throughput of concurrent ones.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::PoisonError,
    thread,
    time::{Duration, Instant},
};

use super::{
    ClusterTestSettings, NETWORK_LOCK,
    test_cluster::{NODES, TestCluster},
};
use crate::{TestkitError, error::Context, wait::poll_until};

/// The measured latency and throughput of purges.
#[derive(Debug, Clone, Default)]
pub struct PurgeRates {
    /// Times from request to receipt of purges sent one after another.
    pub latencies: Vec<Duration>,
    /// Concurrent clients, spread over the nodes.
    pub clients: usize,
    /// Purges of these clients that every node had applied when they were acknowledged.
    pub acknowledged: u64,
    /// Purges of these clients that one node acknowledged alone.
    pub local: u64,
    /// How long the clients sent purges.
    pub time: Duration,
}

/// Starts a cluster and measures purges.
///
/// # Errors
/// If a process does not start or a purge is rejected.
pub fn purge_rates(settings: &ClusterTestSettings) -> Result<PurgeRates, TestkitError> {
    let _lock = NETWORK_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = TestCluster::start(settings)?;
    let sockets: Vec<PathBuf> = (0..NODES)
        .map(|number| cluster.admin_socket(number))
        .collect();
    for socket in &sockets {
        // A node that has just started waits for a while before it treats a missing node as absent.
        let is_ready = poll_until(READY_WITHIN, || {
            Admin(socket).purge().is_ok_and(|is_final| is_final)
        });
        if !is_ready {
            return Err(TestkitError::Refused(
                "no purge is final on all nodes".to_owned(),
            ));
        }
    }
    let mut rates = PurgeRates {
        clients: NODES * CLIENTS,
        latencies: measure_latencies(&sockets)?,
        ..PurgeRates::default()
    };
    let started = Instant::now();
    let clients = sockets.iter().flat_map(|socket| [socket; CLIENTS]);
    let threads: Vec<_> = clients
        .map(|socket| {
            let socket = socket.clone();
            thread::spawn(move || purge_for(&socket, CONCURRENT_TIME))
        })
        .collect();
    for thread in threads {
        let joined = thread.join();
        let (acknowledged, local) =
            joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        rates.acknowledged += acknowledged;
        rates.local += local;
    }
    rates.time = started.elapsed();
    Ok(rates)
}

/// Sends purges one after another, first to one node, then to the next.
fn measure_latencies(sockets: &[PathBuf]) -> Result<Vec<Duration>, TestkitError> {
    let mut times = Vec::with_capacity(sockets.len() * SEQUENTIAL_PURGES);
    for socket in sockets {
        let admin = Admin(socket);
        for _ in 0..SEQUENTIAL_PURGES {
            let started = Instant::now();
            if admin.purge()? {
                times.push(started.elapsed());
            }
        }
    }
    Ok(times)
}

/// Purges for this time; returns how many purges every node has applied, and how many only one node.
fn purge_for(socket: &Path, time: Duration) -> Result<(u64, u64), TestkitError> {
    let admin = Admin(socket);
    let (mut acknowledged, mut local) = (0, 0);
    let started = Instant::now();
    while started.elapsed() < time {
        if admin.purge()? {
            acknowledged += 1;
        } else {
            local += 1;
        }
    }
    Ok((acknowledged, local))
}

/// The socket of a node's admin interface, which takes one request for each connection.
struct Admin<'s>(&'s Path);

impl Admin<'_> {
    fn connect(&self) -> Result<UnixStream, TestkitError> {
        let stream = UnixStream::connect(self.0).context("connect to the admin interface")?;
        stream
            .set_read_timeout(Some(TIMEOUT))
            .context("set a time limit")?;
        Ok(stream)
    }

    /// Purges one tag; returns whether every node has applied it.
    fn purge(&self) -> Result<bool, TestkitError> {
        let request = format!(
            "POST /purge HTTP/1.1\r\nHost: galley\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{PURGE}",
            PURGE.len()
        );
        let mut stream = self.connect()?;
        stream
            .write_all(request.as_bytes())
            .context("send a purge")?;
        let receipt = response(&mut stream)?;
        if !receipt.starts_with("HTTP/1.1 200") {
            return Err(TestkitError::Refused(format!(
                "a purge was rejected: {receipt}"
            )));
        }
        Ok(receipt.contains("\"reach\":\"cluster\""))
    }
}

/// Reads the head and the body up to the end of its JSON object.
fn response(stream: &mut UnixStream) -> Result<String, TestkitError> {
    let mut received = Vec::new();
    let mut buffer = [0; 2048];
    loop {
        let count = stream.read(&mut buffer).context("read a receipt")?;
        received.extend_from_slice(buffer.get(..count).unwrap_or_default());
        let text = String::from_utf8_lossy(&received);
        if count == 0
            || text
                .split_once("\r\n\r\n")
                .is_some_and(|(_, body)| is_complete(body))
        {
            return Ok(text.into_owned());
        }
    }
}

fn is_complete(body: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(body).is_ok()
}

const PURGE: &str = r#"{"tags": ["p1"]}"#;
/// Per node.
const SEQUENTIAL_PURGES: usize = 1000;
/// Per node.
const CLIENTS: usize = 8;
const CONCURRENT_TIME: Duration = Duration::from_secs(10);
const READY_WITHIN: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(20);
