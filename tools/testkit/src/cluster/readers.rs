//! Clients that read the pages of each node continuously and record the results.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::edited_post::HOST;
use crate::client::{Request, Response};

/// A completed read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) node: usize,
    pub(super) target: String,
    pub(super) started: Instant,
    pub(super) outcome: ReadOutcome,
}

/// The result of a read.
#[derive(Debug)]
pub(super) enum ReadOutcome {
    /// A page, with the oldest version among its parts.
    Page {
        oldest: u64,
        is_hit: bool,
        status: String,
    },
    /// A truncated page, or one without a version.
    Torn(String),
    /// No page, although the node was up during the whole request.
    Failed(String),
}

/// The reading threads, one per node. They end when this is dropped.
pub(super) struct Readers {
    reads: Arc<Mutex<Vec<Read>>>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(super) fn start(
        nodes: impl Iterator<Item = (SocketAddr, Arc<AtomicU64>)>,
        targets: &[String],
    ) -> Self {
        let reads = Arc::new(Mutex::new(Vec::new()));
        let is_over = Arc::new(AtomicBool::new(false));
        let threads = nodes
            .enumerate()
            .map(|(node, (addr, state))| {
                let reader = Reader {
                    node,
                    addr,
                    state,
                    targets: targets.to_vec(),
                };
                let (reads, is_over) = (Arc::clone(&reads), Arc::clone(&is_over));
                thread::spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        for read in reader.read() {
                            reads
                                .lock()
                                .unwrap_or_else(PoisonError::into_inner)
                                .push(read);
                        }
                        thread::sleep(PAUSE);
                    }
                })
            })
            .collect();
        Self {
            reads,
            is_over,
            threads,
        }
    }

    /// The reads since the previous call.
    pub(super) fn take(&self) -> Vec<Read> {
        std::mem::take(&mut *self.reads.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

struct Reader {
    node: usize,
    addr: SocketAddr,
    state: Arc<AtomicU64>,
    targets: Vec<String>,
}

impl Reader {
    fn read(&self) -> impl Iterator<Item = Read> {
        self.targets.iter().filter_map(|target| {
            let before = self.state.load(Ordering::SeqCst);
            let started = Instant::now();
            let request = Request::get(target).host(HOST).timeout(TIMEOUT);
            let response = request.send(self.addr);
            let was_up = before.is_multiple_of(2) && self.state.load(Ordering::SeqCst) == before;
            let outcome = match response {
                Ok(response) if response.status == 200 => classify(&response),
                // A node that was killed or paused during the request need not respond.
                _ if !was_up => return None,
                Ok(response) => ReadOutcome::Failed(response.excerpt()),
                Err(error) => ReadOutcome::Failed(error.to_string()),
            };
            Some(Read {
                node: self.node,
                target: target.clone(),
                started,
                outcome,
            })
        })
    }
}

fn classify(response: &Response) -> ReadOutcome {
    let text = response.text();
    let oldest = versions(&text).min();
    match oldest {
        Some(oldest) if text.trim_end().ends_with("</html>") || text.ends_with('}') => {
            ReadOutcome::Page {
                oldest,
                is_hit: response.is_hit(),
                status: response.cache_status().to_owned(),
            }
        }
        _ => ReadOutcome::Torn(format!("{} bytes, version {oldest:?}", text.len())),
    }
}

/// All versions that a page contains.
fn versions(text: &str) -> impl Iterator<Item = u64> {
    text.split("version-").skip(1).filter_map(|rest| {
        let (number, _) = rest.split_once('-')?;
        number.parse().ok()
    })
}

const PAUSE: Duration = Duration::from_millis(4);
const TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_in_a_page_is_parsed() {
        let parsed: Vec<u64> =
            versions("a version-12- b version-x- version-3-c version-").collect();
        assert_eq!(parsed, [12, 3]);
    }
}
