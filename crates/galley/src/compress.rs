//! Stored pages and files in other codings, made beside requests: quickly when a page was stored, densely when it proved hot.
//!
//! A few threads of low priority behind a bounded queue. A fill never waits for them, a hit never compresses: it takes what is
//! there. What they make takes the page's place only if the page is still there, and counts against the memory.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::sync::{Mutex, PoisonError};

use flate2::Compression;
use flate2::write::GzEncoder;
use galley_rules::compress::{Compress, coded_fields, vary_on_coding};
use galley_rules::encoding::Coding;
use galley_store::body::Body;
use galley_store::entry::{Coded, Entry, Kind, Press};
use galley_store::memory::Memory;
use http::{HeaderMap, StatusCode};

use crate::sys;

/// The threads that compress.
pub struct Compressor {
    jobs: SyncSender<Job>,
    counts: Arc<Counts>,
}

struct Job {
    /// Where the entry is.
    memory: Arc<Memory>,
    /// Not held: what left the memory meanwhile need not be compressed, and must not take room there.
    entry: Weak<Entry>,
    settings: Arc<Compress>,
    step: Press,
}

#[derive(Debug, Default)]
struct Counts {
    pages: AtomicU64,
    bytes: AtomicU64,
    made: AtomicU64,
    put_off: AtomicU64,
}

/// What was done since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Pages compressed, in whatever codings.
    pub pages: u64,
    /// Plain bytes taken in, once for each coding.
    pub bytes: u64,
    /// Coded bytes made.
    pub made: u64,
    /// Pages that found the queue full; they are offered again with a later hit.
    pub put_off: u64,
}

impl Compressor {
    /// Starts `threads` threads. They end with the last clone of what this returns.
    pub fn start(threads: usize) -> io::Result<Arc<Self>> {
        let (jobs, taken) = sync_channel(MOST_JOBS);
        let taken = Arc::new(Mutex::new(taken));
        let counts = Arc::new(Counts::default());
        for number in 0..threads.max(1) {
            let (taken, counts) = (Arc::clone(&taken), Arc::clone(&counts));
            std::thread::Builder::new()
                .name(format!("compress-{number}"))
                .spawn(move || {
                    sys::lower_priority();
                    while let Some(job) = next(&taken) {
                        job.work(&counts);
                    }
                })?;
        }
        Ok(Arc::new(Self { jobs, counts }))
    }

    /// What was done since the start.
    pub fn counted(&self) -> Counted {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counted {
            pages: load(&self.counts.pages),
            bytes: load(&self.counts.bytes),
            made: load(&self.counts.made),
            put_off: load(&self.counts.put_off),
        }
    }

    fn offer(&self, job: Job) {
        if let Err(error) = self.jobs.try_send(job) {
            let (std::sync::mpsc::TrySendError::Full(job)
            | std::sync::mpsc::TrySendError::Disconnected(job)) = error;
            if let Some(entry) = job.entry.upgrade() {
                entry.release_press();
            }
            self.counts.put_off.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A site's wishes, and who fulfils them.
#[derive(Clone)]
pub struct Compressing {
    compressor: Arc<Compressor>,
    memory: Arc<Memory>,
    settings: Arc<Compress>,
}

impl Compressing {
    /// For what a site has in `memory`.
    pub fn new(compressor: Arc<Compressor>, memory: Arc<Memory>, settings: Compress) -> Self {
        Self {
            compressor,
            memory,
            settings: Arc::new(settings),
        }
    }

    /// Says in the head of a page that is arriving that its coding is chosen, if it is going to be: its first visitor hears the
    /// same as all others. `length` where it is known.
    pub fn announce(&self, status: StatusCode, fields: &mut HeaderMap, length: Option<u64>) {
        let length = length.unwrap_or(self.settings.min_bytes);
        if self.settings.is_for(status, fields, length) {
            vary_on_coding(fields);
        }
    }

    /// Has an entry compressed, if it is due: called with each hit, and cheap when there is nothing to do. Never waits.
    pub fn offer(&self, entry: &Arc<Entry>) {
        let step = if !entry.is_pressed() {
            Press::Tried
        } else if self.settings.dense_after > 0 && entry.hits() >= self.settings.dense_after {
            Press::Dense
        } else {
            return;
        };
        if !entry.claim_press(step) {
            return;
        }
        let is_page = entry.kind == Kind::Page && entry.pieces().is_none();
        if is_page
            && self
                .settings
                .is_for(entry.status, &entry.fields, entry.length())
        {
            self.compressor.offer(Job {
                memory: Arc::clone(&self.memory),
                entry: Arc::downgrade(entry),
                settings: Arc::clone(&self.settings),
                step,
            });
        }
    }
}

fn next(taken: &Mutex<Receiver<Job>>) -> Option<Job> {
    taken
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .recv()
        .ok()
}

impl Job {
    fn work(self, counts: &Counts) {
        let Some(entry) = self.entry.upgrade() else {
            return;
        };
        let is_dense = self.step == Press::Dense;
        // What lies beside a file is what its owner wants to be sent.
        let given = entry.coded().iter().filter(|coded| coded.is_given);
        let mut coded: Vec<Coded> = given.cloned().collect();
        let given = coded.len();
        for coding in &self.settings.codings {
            if coded.iter().any(|coded| coded.coding == *coding) {
                continue;
            }
            let Some(bytes) = self.code(&entry.body, *coding, is_dense) else {
                continue;
            };
            counts.bytes.fetch_add(entry.length(), Ordering::Relaxed);
            counts.made.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            if !is_gain(entry.length(), bytes.len() as u64) {
                continue;
            }
            let Some(paid) = self.memory.budget().try_reserve(bytes.len() as u64) else {
                continue;
            };
            let fields = coded_fields(&entry.fields, *coding);
            coded.push(Coded::new(*coding, &fields, Body::reserved(bytes, paid)));
        }
        if coded.len() == given {
            return;
        }
        let reached = if is_dense { Press::Dense } else { Press::Quick };
        let mut fields = entry.fields.clone();
        vary_on_coding(&mut fields);
        let denser = Arc::new(entry.with_coded(&fields, coded, reached));
        // Purged, renewed or gone meanwhile: then so is this.
        if self.memory.put_if_same(&entry, denser).is_ok() {
            counts.pages.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn code(&self, body: &[u8], coding: Coding, is_dense: bool) -> Option<Vec<u8>> {
        match coding {
            Coding::Gzip if is_dense => gzip(body, DENSE_GZIP),
            Coding::Gzip => gzip(body, self.settings.gzip_level),
            Coding::Brotli if is_dense => brotli(body, DENSE_BROTLI),
            Coding::Brotli => brotli(body, self.settings.brotli_level),
            Coding::Identity | Coding::Zstd => None,
        }
    }
}

/// A coded copy costs memory and a decoder's time: a tenth less is the least.
fn is_gain(plain: u64, coded: u64) -> bool {
    coded < plain - plain / 10
}

fn gzip(body: &[u8], level: u32) -> Option<Vec<u8>> {
    let out = Vec::with_capacity(body.len() / 3);
    let mut encoder = GzEncoder::new(out, Compression::new(level));
    encoder.write_all(body).ok()?;
    encoder.finish().ok()
}

fn brotli(body: &[u8], level: u32) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(body.len() / 3);
    // A window no larger than the body: it is scratch memory here and in the client.
    let bits = (usize::BITS - body.len().leading_zeros()).clamp(16, 22);
    let parameters = brotli::enc::BrotliEncoderParams {
        quality: i32::try_from(level).ok()?,
        lgwin: i32::try_from(bits).ok()?,
        size_hint: body.len(),
        ..Default::default()
    };
    brotli::BrotliCompress(&mut io::Cursor::new(body), &mut out, &parameters).ok()?;
    Some(out)
}

/// Pages that may wait.
const MOST_JOBS: usize = 1024;

/// The levels beyond which a page of WordPress gets hardly smaller for many times the work.
const DENSE_GZIP: u32 = 9;
const DENSE_BROTLI: u32 = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn what_is_coded_is_what_was_there() {
        let body: Vec<u8> = (0..20_000_u32)
            .flat_map(|n| format!("<p>{}</p>", n % 97).into_bytes())
            .collect();
        for level in [1, 5, 9] {
            let coded = gzip(&body, level).unwrap();
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(&coded[..])
                .read_to_end(&mut plain)
                .unwrap();
            assert!(plain == body && is_gain(body.len() as u64, coded.len() as u64));
        }
        for level in [0, 4, 9] {
            let coded = brotli(&body, level).unwrap();
            let mut plain = Vec::new();
            brotli::BrotliDecompress(&mut io::Cursor::new(&coded), &mut plain).unwrap();
            assert!(plain == body && is_gain(body.len() as u64, coded.len() as u64));
        }
    }

    #[test]
    fn a_tenth_is_the_least_gain() {
        assert!(is_gain(1000, 899));
        assert!(!is_gain(1000, 900));
        assert!(!is_gain(0, 0));
    }
}
