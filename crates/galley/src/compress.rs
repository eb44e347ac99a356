//! Stored pages and files in other codings, made beside requests: quickly when a page was stored, densely when it proved hot.
//!
//! A few threads of low priority behind a bounded queue. A fill never waits for them, a hit never compresses: it takes what is
//! there. What they make takes the page's place only if the page is still there, and counts against the memory, as does the
//! room that they work in. What an answer that is not stored is coded in on its way is asked here too.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use galley_cache::body::StoredBody;
use galley_cache::entry::{EncodedEntry, Entry, EntryKind, Press};
use galley_cache::memory::Memory;
use galley_policy::compress::{Compress, coded_fields, vary_on_coding};
use galley_policy::encoding::Coding;
use galley_policy::request_info::RequestInfo;
use http::{HeaderMap, StatusCode};
use tokio::time::sleep;

use crate::codec::encode;
use crate::sys;

/// The threads that compress.
pub struct Compressor {
    jobs: SyncSender<CompressionJob>,
    /// Pages in the queue.
    waiting: Arc<AtomicUsize>,
    counts: Arc<CompressionCounters>,
}

struct CompressionJob {
    /// Where the entry is.
    memory: Arc<Memory>,
    /// Not held: what left the memory meanwhile need not be compressed, and must not take room there.
    entry: Weak<Entry>,
    settings: Arc<Compress>,
    step: Press,
}

#[derive(Debug, Default)]
struct CompressionCounters {
    pages: AtomicU64,
    bytes: AtomicU64,
    made: AtomicU64,
    put_off: AtomicU64,
}

/// What was done since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionTotals {
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
        let counts = Arc::new(CompressionCounters::default());
        let waiting = Arc::new(AtomicUsize::new(0));
        for number in 0..threads.max(1) {
            let (taken, counts) = (Arc::clone(&taken), Arc::clone(&counts));
            let waiting = Arc::clone(&waiting);
            std::thread::Builder::new()
                .name(format!("compress-{number}"))
                .spawn(move || {
                    sys::lower_priority(TURN);
                    while let Some(job) = next(&taken) {
                        waiting.fetch_sub(1, Ordering::Relaxed);
                        job.work(&counts);
                    }
                })?;
        }
        Ok(Arc::new(Self {
            jobs,
            waiting,
            counts,
        }))
    }

    /// What was done since the start.
    pub fn counted(&self) -> CompressionTotals {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        CompressionTotals {
            pages: load(&self.counts.pages),
            bytes: load(&self.counts.bytes),
            made: load(&self.counts.made),
            put_off: load(&self.counts.put_off),
        }
    }

    fn offer(&self, job: CompressionJob) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = self.jobs.try_send(job) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
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
        if self.settings.is_for_live(status, fields, length) {
            vary_on_coding(fields);
        }
    }

    /// The coding in which a body that is arriving is sent to a client, if that is not the plain one. Parts are parts of the
    /// plain body.
    pub fn live(
        &self,
        info: &RequestInfo,
        status: StatusCode,
        fields: &HeaderMap,
        length: Option<u64>,
    ) -> Option<Coding> {
        let may = info.range().is_none() && self.settings.is_for_live(status, fields, length);
        may.then(|| self.settings.choose_live(info.codings()))
            .flatten()
    }

    /// Whether answers for one client alone are coded.
    pub fn is_for_passed(&self) -> bool {
        self.settings.passed
    }

    /// The site's wishes.
    pub fn settings(&self) -> &Compress {
        &self.settings
    }

    /// The new entry with the codings of `held`, if it has the same body and may be coded: a page that was renewed and has not
    /// changed is not coded again. Bodies and what pays for them are shared; the heads are the new one's.
    #[must_use]
    pub fn inherit(&self, new: Entry, held: &Entry) -> Entry {
        let is_same = !held.coded().is_empty()
            && new.kind == EntryKind::Page
            && new.pieces().is_none()
            && new.body == held.body
            && self.settings.is_for(new.status, &new.fields, new.length());
        if !is_same {
            return new;
        }
        let coded = held.coded().iter().map(|one| {
            let fields = coded_fields(&new.fields, one.coding);
            EncodedEntry::new(one.coding, &fields, one.body.clone())
        });
        let mut fields = new.fields.clone();
        vary_on_coding(&mut fields);
        new.with_coded(&fields, coded.collect(), held.pressed())
    }

    /// Waits until the queue has room again, for a while: for who has many pages compressed and no client.
    pub async fn keep_up(&self) {
        for _ in 0..MOST_LOOKS {
            if self.compressor.waiting.load(Ordering::Relaxed) < MOST_JOBS / 2 {
                break;
            }
            sleep(LOOK).await;
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
        let is_page = entry.kind == EntryKind::Page && entry.pieces().is_none();
        if is_page
            && self
                .settings
                .is_for(entry.status, &entry.fields, entry.length())
        {
            self.compressor.offer(CompressionJob {
                memory: Arc::clone(&self.memory),
                entry: Arc::downgrade(entry),
                settings: Arc::clone(&self.settings),
                step,
            });
        }
    }
}

fn next(taken: &Mutex<Receiver<CompressionJob>>) -> Option<CompressionJob> {
    taken
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .recv()
        .ok()
}

impl CompressionJob {
    fn work(self, counts: &CompressionCounters) {
        let Some(entry) = self.entry.upgrade() else {
            return;
        };
        let is_dense = self.step == Press::Dense;
        // What lies beside a file is what its owner wants to be sent.
        let given = entry.coded().iter().filter(|coded| coded.is_given);
        let mut coded: Vec<EncodedEntry> = given.cloned().collect();
        let given = coded.len();
        for coding in &self.settings.codings {
            if coded.iter().any(|coded| coded.coding == *coding) {
                continue;
            }
            let level = self.level(*coding, is_dense);
            let room = encode::working_memory(entry.body.len(), *coding, level);
            // Who holds no more than this works on; a page without room for it stays as it is.
            let Some(room) = self.memory.budget().try_reserve(room) else {
                continue;
            };
            let Some(bytes) = encode::whole(&entry.body, *coding, level, &sys::let_others_go)
            else {
                continue;
            };
            drop(room);
            counts.bytes.fetch_add(entry.length(), Ordering::Relaxed);
            counts.made.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            if !is_gain(entry.length(), bytes.len() as u64) {
                continue;
            }
            let Some(paid) = self.memory.budget().try_reserve(bytes.len() as u64) else {
                continue;
            };
            let fields = coded_fields(&entry.fields, *coding);
            coded.push(EncodedEntry::new(
                *coding,
                &fields,
                StoredBody::reserved(bytes, paid),
            ));
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

    fn level(&self, coding: Coding, is_dense: bool) -> u32 {
        let (quick, dense) = match coding {
            Coding::Identity => (0, 0),
            Coding::Gzip => (self.settings.gzip_level, DENSE_GZIP),
            Coding::Brotli => (self.settings.brotli_level, DENSE_BROTLI),
            Coding::Zstd => (self.settings.zstd_level, DENSE_ZSTD),
        };
        if is_dense { quick.max(dense) } else { quick }
    }
}

/// A coded copy costs memory and a decoder's time: a tenth less is the least.
fn is_gain(plain: u64, coded: u64) -> bool {
    coded < plain - plain / 10
}

/// What a thread asks the kernel for, and gives up where others wait when a piece of a page is done: the least there is.
const TURN: Duration = Duration::from_micros(100);

/// Between two looks at a queue that is half full, and how many of them.
const LOOK: Duration = Duration::from_millis(10);
const MOST_LOOKS: usize = 100;

/// Pages that may wait.
const MOST_JOBS: usize = 1024;

/// The levels beyond which a page of WordPress gets hardly smaller for many times the work or the memory: br at 9 takes 34
/// MiB for a page that is one in a thousand smaller than at 6, which takes 3. Its levels 10 and 11 would save another seventh for
/// twenty and fifty times the work.
const DENSE_GZIP: u32 = 9;
const DENSE_BROTLI: u32 = 6;
const DENSE_ZSTD: u32 = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use galley_cache::entry::{EntryParts, Scopes};
    use galley_cache::key::Key;
    use galley_policy::storable::Lifetime;
    use galley_policy::time::Tick;
    use http::header::{self, HeaderValue};

    fn settings() -> Compress {
        Compress {
            codings: vec![Coding::Brotli, Coding::Gzip, Coding::Zstd],
            types: vec!["text/*".to_owned()],
            min_bytes: 100,
            gzip_level: 5,
            brotli_level: 4,
            zstd_level: 6,
            dense_after: 0,
            passed: true,
        }
    }

    fn entry(body: &str, lines: &[(header::HeaderName, &'static str)]) -> Entry {
        let mut fields = HeaderMap::new();
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html"));
        for (name, value) in lines {
            fields.insert(name, HeaderValue::from_static(value));
        }
        Entry::new(EntryParts {
            key: Key::new(b"k"),
            kind: EntryKind::Page,
            status: StatusCode::OK,
            fields,
            body: Bytes::copy_from_slice(body.as_bytes()).into(),
            stored_at: Tick(0),
            life: Lifetime::default(),
            scopes: Scopes {
                host: 0,
                url: 0,
                path_query: Box::default(),
                tags: Box::default(),
            },
            tags: Vec::new(),
            born: 0,
        })
    }

    fn work(memory: &Arc<Memory>, entry: &Arc<Entry>, step: Press) -> CompressionCounters {
        let counts = CompressionCounters::default();
        let job = CompressionJob {
            memory: Arc::clone(memory),
            entry: Arc::downgrade(entry),
            settings: Arc::new(settings()),
            step,
        };
        job.work(&counts);
        counts
    }

    #[test]
    fn a_tenth_is_the_least_gain() {
        assert!(is_gain(1000, 899));
        assert!(!is_gain(1000, 900));
        assert!(!is_gain(0, 0));
    }

    #[test]
    fn a_page_is_coded_in_all_codings_and_everything_is_paid_for() {
        let memory = Arc::new(Memory::new(64 << 20, 1 << 20));
        let page = Arc::new(entry(&"<p>row</p>".repeat(2000), &[]));
        memory.put(Arc::clone(&page)).unwrap();
        let plain_alone = memory.budget().used();
        work(&memory, &page, Press::Tried);
        let coded = memory.peek(b"k").unwrap();
        let codings: Vec<_> = coded.coded().iter().map(|one| one.coding).collect();
        assert_eq!(codings, settings().codings);
        drop(page);
        let bodies: usize = coded.coded().iter().map(|one| one.body.bytes().len()).sum();
        assert!(memory.budget().used() > plain_alone + bodies as u64);
        assert!(
            memory.budget().used() < plain_alone + bodies as u64 + 8192,
            "room is given back"
        );
        memory.remove(b"k");
        drop(coded);
        assert_eq!(memory.budget().used(), 0);
    }

    #[test]
    fn without_room_to_work_in_the_page_stays_plain() {
        let memory = Arc::new(Memory::new(64 << 20, 1 << 20));
        let page = Arc::new(entry(&"<p>row</p>".repeat(2000), &[]));
        memory.put(Arc::clone(&page)).unwrap();
        let free = memory.budget().limit() - memory.budget().used();
        let held = memory.budget().try_reserve(free - 600 * 1024).unwrap();
        let counts = work(&memory, &page, Press::Tried);
        // There is room for gzip alone.
        assert_eq!(counts.bytes.into_inner(), page.length());
        let codings = memory.peek(b"k").unwrap();
        assert_eq!(codings.coded().len(), 1);
        drop(held);
    }

    #[test]
    fn what_was_coded_is_carried_over_to_the_same_body() {
        let memory = Arc::new(Memory::new(64 << 20, 1 << 20));
        let body = "<p>row</p>".repeat(2000);
        let page = Arc::new(entry(&body, &[]));
        memory.put(Arc::clone(&page)).unwrap();
        work(&memory, &page, Press::Dense);
        let held = memory.peek(b"k").unwrap();
        let compressing = Compressing::new(Compressor::start(1).unwrap(), memory, settings());
        let renewed = compressing.inherit(entry(&body, &[(header::ETAG, "\"new\"")]), &held);
        assert_eq!(
            (renewed.coded().len(), renewed.pressed()),
            (3, Press::Dense)
        );
        for (new, old) in renewed.coded().iter().zip(held.coded()) {
            assert_eq!(
                new.fields[header::ETAG],
                format!("\"new-{}\"", new.coding.token())
            );
            assert_eq!(
                new.body.bytes().as_ptr(),
                old.body.bytes().as_ptr(),
                "shared"
            );
        }
        assert_eq!(renewed.fields[header::VARY], "Accept-Encoding");
        assert!(!renewed.claim_press(Press::Tried), "nothing is left to do");
        let changed = compressing.inherit(entry(&body[1..], &[]), &held);
        assert!(changed.coded().is_empty());
        let forbidden = entry(&body, &[(header::CACHE_CONTROL, "no-transform")]);
        let forbidden = compressing.inherit(forbidden, &held);
        assert!(forbidden.coded().is_empty());
    }
}
