//! How soon purges are acknowledged on three nodes, one after the other, and how many in a second.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::PoisonError,
    thread,
    time::{Duration, Instant},
};

use super::{
    ALONE, Setting,
    stage::{NODES, Stage},
};
use crate::{TestkitError, error::Context, wait::poll_until};

/// What was measured.
#[derive(Debug, Clone, Default)]
pub struct PurgeRates {
    /// How long each of these took, from the request to the receipt.
    pub one_by_one: Vec<Duration>,
    /// Clients that purged at the same time, spread over the nodes.
    pub clients: usize,
    /// Purges of these clients that every node had applied.
    pub acknowledged: u64,
    /// Those that were acknowledged by one node only.
    pub local: u64,
    /// How long they purged.
    pub time: Duration,
}

/// Starts a cluster and purges.
///
/// # Errors
/// When a part does not start, or a purge is refused.
pub fn purge_rates(setting: &Setting) -> Result<PurgeRates, TestkitError> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::start(setting)?;
    let sockets: Vec<PathBuf> = (0..NODES)
        .map(|number| stage.admin_socket(number))
        .collect();
    for socket in &sockets {
        // A node that has just started believes an absent one only after a while.
        let is_ready = poll_until(READY_WITHIN, || {
            Admin::connect(socket)
                .is_ok_and(|mut admin| admin.purge().is_ok_and(|is_final| is_final))
        });
        if !is_ready {
            return Err(TestkitError::Refused(
                "no purge is final on all nodes".to_owned(),
            ));
        }
    }
    let mut rates = PurgeRates {
        clients: NODES * CLIENTS,
        one_by_one: one_by_one(&sockets)?,
        ..PurgeRates::default()
    };
    let began = Instant::now();
    let clients = sockets.iter().flat_map(|socket| [socket; CLIENTS]);
    let purging: Vec<_> = clients
        .map(|socket| {
            let socket = socket.clone();
            thread::spawn(move || purge_for(&socket, AT_ONCE_TIME))
        })
        .collect();
    for client in purging {
        let joined = client.join();
        let (acknowledged, local) =
            joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        rates.acknowledged += acknowledged;
        rates.local += local;
    }
    rates.time = began.elapsed();
    Ok(rates)
}

/// One purge after the other, at each node in turn.
fn one_by_one(sockets: &[PathBuf]) -> Result<Vec<Duration>, TestkitError> {
    let mut times = Vec::with_capacity(sockets.len() * ONE_BY_ONE);
    for socket in sockets {
        let mut admin = Admin::connect(socket)?;
        for _ in 0..ONE_BY_ONE {
            let began = Instant::now();
            if admin.purge()? {
                times.push(began.elapsed());
            }
        }
    }
    Ok(times)
}

/// Purges for this time; how many every node has applied, and how many one node only.
fn purge_for(socket: &Path, time: Duration) -> Result<(u64, u64), TestkitError> {
    let mut admin = Admin::connect(socket)?;
    let (mut acknowledged, mut local) = (0, 0);
    let began = Instant::now();
    while began.elapsed() < time {
        if admin.purge()? {
            acknowledged += 1;
        } else {
            local += 1;
        }
    }
    Ok((acknowledged, local))
}

/// A connection to the admin interface of a node.
struct Admin(UnixStream);

impl Admin {
    fn connect(socket: &Path) -> Result<Self, TestkitError> {
        let stream = UnixStream::connect(socket).context("connect to the admin interface")?;
        stream
            .set_read_timeout(Some(TIMEOUT))
            .context("set a time limit")?;
        Ok(Self(stream))
    }

    /// Purges one tag; whether every node has applied it.
    fn purge(&mut self) -> Result<bool, TestkitError> {
        let request = format!(
            "POST /purge HTTP/1.1\r\nHost: galley\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{PURGE}",
            PURGE.len()
        );
        self.0
            .write_all(request.as_bytes())
            .context("request a purge")?;
        let receipt = self.response()?;
        if !receipt.starts_with("HTTP/1.1 200") {
            return Err(TestkitError::Refused(format!(
                "a purge was refused: {receipt}"
            )));
        }
        Ok(receipt.contains("\"reach\":\"cluster\""))
    }

    /// Head and body, which ends with its object.
    fn response(&mut self) -> Result<String, TestkitError> {
        let mut received = Vec::new();
        let mut piece = [0; 2048];
        loop {
            let count = self.0.read(&mut piece).context("read a receipt")?;
            received.extend_from_slice(piece.get(..count).unwrap_or_default());
            let text = String::from_utf8_lossy(&received);
            if count == 0
                || text
                    .split_once("\r\n\r\n")
                    .is_some_and(|(_, body)| is_whole(body))
            {
                return Ok(text.into_owned());
            }
        }
    }
}

fn is_whole(body: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(body).is_ok()
}

const PURGE: &str = r#"{"tags": ["p1"]}"#;
/// At each node.
const ONE_BY_ONE: usize = 1000;
/// Of each node.
const CLIENTS: usize = 8;
const AT_ONCE_TIME: Duration = Duration::from_secs(10);
const READY_WITHIN: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(20);
