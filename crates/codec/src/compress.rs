//! Compresses stored pages and files in the background: at a fast level when a page has been stored, at a dense level when it
//! is requested often. The plain body of a compressed page is dropped; [`Compressing::unpack`] restores it for clients that
//! need it.
//!
//! A few threads of low priority process a bounded queue. A fetch never waits for them, and a hit never compresses: it uses
//! the compressed forms that exist. A compressed form is stored only if the page is still stored. It counts against the
//! memory limit, as do the buffers in use during compression. This module also selects the coding of responses that are not
//! stored, and limits how many large files helper threads compress at one time while they are sent.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use galley_cache::body::StoredBody;
use galley_cache::budget::MemoryBudget;
use galley_cache::entry::{CompressionStep, EncodedEntry, Entry, EntryKind};
use galley_cache::memory::Memory;
use galley_policy::compress::{Compress, coded_fields, vary_on_coding};
use galley_policy::encoding::Coding;
use galley_policy::request_info::RequestInfo;
use galley_policy::time::Tick;
use galley_sys::Lock;
use http::{HeaderMap, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use crate::dictionaries::Dictionaries;
use crate::dictionary_job::{DictionaryJob, is_worth_it};
use crate::encode;
use crate::forms::forms_with;
use crate::unpack::{self, UnpackError};

/// The compression threads.
pub struct Compressor {
    jobs: SyncSender<Job>,
    /// Pages in the queue.
    waiting: Arc<AtomicUsize>,
    counts: Arc<CompressionCounters>,
    /// Permits for compressing parts of large files while they are sent.
    permits: Arc<Semaphore>,
}

enum Job {
    Compression(CompressionJob),
    Dictionary(DictionaryJob),
}

impl Job {
    fn work(self, counts: &CompressionCounters) {
        match self {
            Self::Compression(job) => job.work(counts),
            Self::Dictionary(job) => {
                if let Some((plain, made)) = job.work() {
                    counts.bytes.fetch_add(plain, Ordering::Relaxed);
                    counts.made.fetch_add(made, Ordering::Relaxed);
                }
            }
        }
    }

    /// Lets a later hit queue the page.
    fn release(&self) {
        match self {
            Self::Compression(job) => {
                if let Some(entry) = job.entry.upgrade() {
                    entry.release_compression();
                }
            }
            Self::Dictionary(job) => job.release(),
        }
    }
}

struct CompressionJob {
    /// The cache that stores the entry.
    memory: Arc<Memory>,
    /// Weak: an entry that has been evicted need not be compressed, and must not use memory.
    entry: Weak<Entry>,
    settings: Arc<Compress>,
    step: CompressionStep,
}

#[derive(Debug, Default)]
struct CompressionCounters {
    pages: AtomicU64,
    bytes: AtomicU64,
    made: AtomicU64,
    put_off: AtomicU64,
}

/// The work of the compression threads since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionTotals {
    /// Pages that were compressed, in any coding.
    pub pages: u64,
    /// Bytes before compression, once for each coding.
    pub bytes: u64,
    /// Bytes after compression.
    pub made: u64,
    /// Pages that were not queued because the queue was full; the next hits queue them again.
    pub put_off: u64,
}

impl Compressor {
    /// Starts `threads` threads, which end when the last clone of the result is dropped.
    pub fn start(threads: usize) -> io::Result<Arc<Self>> {
        let (jobs, queue) = sync_channel(MAX_JOBS);
        let queue = Arc::new(Lock::new(queue));
        let counts = Arc::new(CompressionCounters::default());
        let waiting = Arc::new(AtomicUsize::new(0));
        for number in 0..threads.max(1) {
            let (queue, counts) = (Arc::clone(&queue), Arc::clone(&counts));
            let waiting = Arc::clone(&waiting);
            std::thread::Builder::new()
                .name(format!("compress-{number}"))
                .spawn(move || {
                    galley_sys::lower_priority(TIME_SLICE);
                    while let Some(job) = next(&queue) {
                        waiting.fetch_sub(1, Ordering::Relaxed);
                        job.work(&counts);
                    }
                })?;
        }
        Ok(Arc::new(Self {
            jobs,
            waiting,
            counts,
            permits: Arc::new(Semaphore::new(2 * threads.max(1))),
        }))
    }

    /// Returns the work since the start.
    pub fn counted(&self) -> CompressionTotals {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        CompressionTotals {
            pages: load(&self.counts.pages),
            bytes: load(&self.counts.bytes),
            made: load(&self.counts.made),
            put_off: load(&self.counts.put_off),
        }
    }

    fn offer(&self, job: Job) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = self.jobs.try_send(job) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            let (std::sync::mpsc::TrySendError::Full(job)
            | std::sync::mpsc::TrySendError::Disconnected(job)) = error;
            job.release();
            self.counts.put_off.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A site's compression settings, with the threads that apply them.
#[derive(Clone)]
pub struct Compressing {
    compressor: Arc<Compressor>,
    memory: Arc<Memory>,
    settings: Arc<Compress>,
}

impl Compressing {
    /// Creates the compression of a site whose pages are in `memory`.
    pub fn new(compressor: Arc<Compressor>, memory: Arc<Memory>, settings: Compress) -> Self {
        Self {
            compressor,
            memory,
            settings: Arc::new(settings),
        }
    }

    /// Sets `Vary` in the head of a page that is being received, if its coding will be negotiated: the first client gets the same
    /// head as all others. `length`: the length of the body, if known.
    pub fn announce(&self, status: StatusCode, fields: &mut HeaderMap, length: Option<u64>) {
        if self.settings.is_for_live(status, fields, length) {
            vary_on_coding(fields);
        }
    }

    /// Selects the coding in which a body that is being received is sent to a client; `None`: identity. Ranges refer to the
    /// uncompressed body, so a range request gets no coding.
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

    /// The memory budget for compression.
    pub fn budget(&self) -> &MemoryBudget {
        self.memory.budget()
    }

    /// Whether the maximum number of large files is being compressed.
    pub fn is_busy(&self) -> bool {
        self.compressor.permits.available_permits() == 0
    }

    /// Waits for a permit to compress a part of a large file; dropping it returns it. Cancel-safe.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.compressor.permits)
            .acquire_owned()
            .await
            .ok()
    }

    /// The site's settings.
    pub fn settings(&self) -> &Compress {
        &self.settings
    }

    /// Adds the codings of `held` to the new entry if it has the same body and may be compressed: an unchanged page is not
    /// compressed again after a refresh. The bodies and their memory reservations are shared; the heads are those of `new`.
    #[must_use]
    pub fn inherit(&self, new: Entry, held: &Entry) -> Entry {
        let is_same = !held.coded().is_empty()
            && new.kind == EntryKind::Page
            && self.settings.is_for(new.status, &new.fields, new.length())
            && new
                .body()
                .is_some_and(|body| held.body() == Some(body) || held.is_packed_form_of(body));
        if !is_same {
            return new;
        }
        // The difference to a dictionary is made again, because the head of the page does not name the dictionary yet.
        let coded = forms_with(&new.fields, held);
        let mut fields = new.fields.clone();
        vary_on_coding(&mut fields);
        let new = new.with_coded(&fields, coded, held.compression_step());
        if held.is_packed() { new.packed() } else { new }
    }

    /// Returns the page with its plain body, which is decompressed if the page is packed. `None`: there is no memory for it, or the
    /// page is damaged and was removed from the cache. The cost is proportional to the size of the body.
    pub fn unpacked(&self, entry: &Arc<Entry>) -> Option<Arc<Entry>> {
        if !entry.is_packed() {
            return Some(Arc::clone(entry));
        }
        match unpack::unpack(entry, self.memory.budget()) {
            Ok(unpacked) => Some(Arc::new(unpacked)),
            Err(UnpackError::NoMemory) => None,
            Err(UnpackError::Damaged) => {
                tracing::error!(error = %UnpackError::Damaged, "a page has left the memory");
                self.memory.remove_if_same(entry);
                None
            }
        }
    }

    /// As [`Self::unpacked`], for a client. The cache keeps the plain body if it was needed recently and there is enough memory.
    pub fn unpack(&self, entry: &Arc<Entry>, now: Tick) -> Option<Arc<Entry>> {
        let unpacked = self.unpacked(entry)?;
        if entry.is_packed() && entry.claim_plain(now, RECENT) && !self.is_memory_short() {
            // If the entry was replaced or removed, only this client gets the plain body.
            let _ = self.memory.put_if_same(entry, Arc::clone(&unpacked));
        }
        Some(unpacked)
    }

    /// Whether the memory for plain bodies is needed for other pages.
    fn is_memory_short(&self) -> bool {
        let budget = self.memory.budget();
        budget.used() > budget.limit() / 8 * 5
    }

    /// Waits, for a limited time, until the queue is less than half full. For callers that queue many pages without a client
    /// waiting.
    pub async fn wait_for_queue(&self) {
        for _ in 0..MAX_CHECKS {
            if self.compressor.waiting.load(Ordering::Relaxed) < MAX_JOBS / 2 {
                break;
            }
            sleep(CHECK_INTERVAL).await;
        }
    }

    /// Queues an entry if it should be compressed. Called at each hit, and cheap if there is nothing to do. Never waits.
    pub fn offer(&self, entry: &Arc<Entry>) {
        let step = if !entry.is_compression_tried() {
            CompressionStep::Tried
        } else if entry.is_packable() && self.is_memory_short() {
            CompressionStep::Packed
        } else if self.settings.dense_after > 0 && entry.hits() >= self.settings.dense_after {
            CompressionStep::Dense
        } else {
            return;
        };
        if !entry.claim_compression(step) {
            return;
        }
        let is_page = entry.kind == EntryKind::Page && entry.pieces().is_none();
        let settings = &self.settings;
        if is_page && settings.is_for(entry.status, &entry.fields, entry.length()) {
            self.compressor.offer(Job::Compression(CompressionJob {
                memory: Arc::clone(&self.memory),
                entry: Arc::downgrade(entry),
                settings: Arc::clone(&self.settings),
                step,
            }));
        }
    }

    /// Queues a page that has not been compared with the present dictionaries of its site. Called at each hit, and cheap if there is
    /// nothing to do. Never waits. `is_for_everyone` is as in [`galley_policy::dictionary::is_for_everyone`].
    pub fn offer_dictionary(
        &self,
        entry: &Arc<Entry>,
        dictionaries: &Arc<Dictionaries>,
        now: Tick,
        is_for_everyone: impl FnOnce() -> bool,
    ) {
        let state = dictionaries.state();
        if entry.dictionaries() == state
            || !entry.is_compression_tried()
            || !entry.claim_dictionaries(state)
        {
            return;
        }
        self.compressor.offer(Job::Dictionary(DictionaryJob {
            memory: Arc::clone(&self.memory),
            entry: Arc::downgrade(entry),
            dictionaries: Arc::clone(dictionaries),
            is_for_everyone: is_for_everyone(),
            now,
        }));
    }
}

fn next(queue: &Lock<Receiver<Job>>) -> Option<Job> {
    queue.lock().recv().ok()
}

impl CompressionJob {
    fn work(self, counts: &CompressionCounters) {
        let Some(entry) = self.entry.upgrade() else {
            return;
        };
        if self.step == CompressionStep::Packed {
            let _ = self.memory.put_if_same(&entry, Arc::new(entry.packed()));
            return;
        }
        let Some(mut coded) = self.coded(&entry, counts) else {
            return;
        };
        let reached = if self.step == CompressionStep::Dense {
            CompressionStep::Dense
        } else {
            CompressionStep::Quick
        };
        let is_complete = coded.len() == self.settings.codings.len();
        let mut fields = entry.fields.clone();
        vary_on_coding(&mut fields);
        let mut denser = entry.with_coded(&fields, coded.clone(), reached);
        // The difference to a dictionary does not depend on the level of the others. They may have become too small for it.
        let by_dictionary = entry.coded().iter().find(|form| form.coding == Coding::Dcz);
        if let Some(form) = by_dictionary {
            if is_worth_it(form, &denser) {
                coded.push(form.clone());
                denser = entry.with_coded(&fields, coded, reached);
            } else {
                denser = denser.with_difference_share(None);
            }
        }
        // A plain body next to a compressed one is stored because clients need it.
        let is_kept = entry.is_packable() || entry.source().is_some();
        if is_complete && !is_kept && unpack::is_packable(denser.coded()) {
            denser = denser.packed();
        }
        // The result is dropped if the page has been purged, refreshed or removed.
        if self.memory.put_if_same(&entry, Arc::new(denser)).is_ok() {
            counts.pages.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The precompressed files of a static file, and the codings that are produced now. `None`: none could be produced.
    fn coded(&self, entry: &Arc<Entry>, counts: &CompressionCounters) -> Option<Vec<EncodedEntry>> {
        let unpacked = entry
            .is_packed()
            .then(|| unpack::unpack(entry, self.memory.budget()));
        let body = match &unpacked {
            None => entry.body(),
            Some(unpacked) => unpacked.as_ref().ok().and_then(Entry::body),
        }?;
        // The site's owner provided the precompressed file.
        let provided = entry.coded().iter().filter(|coded| coded.is_given);
        let mut coded: Vec<EncodedEntry> = provided.cloned().collect();
        let provided = coded.len();
        for coding in &self.settings.codings {
            if coded.iter().any(|coded| coded.coding == *coding) {
                continue;
            }
            if let Some(paid) = self.encode(body, *coding, counts) {
                let fields = coded_fields(&entry.fields, *coding);
                coded.push(EncodedEntry::new(*coding, &fields, paid));
            }
        }
        (coded.len() > provided).then_some(coded)
    }

    /// Compresses a body. `None`: there is no memory, or the gain is too small.
    fn encode(
        &self,
        body: &[u8],
        coding: Coding,
        counts: &CompressionCounters,
    ) -> Option<StoredBody> {
        let budget = self.memory.budget();
        let level = self.level(coding);
        // The encoder's buffers count against the memory limit; without memory for them the page stays uncompressed.
        let reserved = budget.try_reserve(encode::working_memory(body.len(), coding, level))?;
        let bytes = encode::whole(body, coding, level, &galley_sys::yield_processor)?;
        drop(reserved);
        let (plain, made) = (body.len() as u64, bytes.len() as u64);
        counts.bytes.fetch_add(plain, Ordering::Relaxed);
        counts.made.fetch_add(made, Ordering::Relaxed);
        if !is_gain(plain, made) {
            return None;
        }
        Some(StoredBody::reserved(bytes, budget.try_reserve(made)?))
    }

    fn level(&self, coding: Coding) -> u32 {
        let (quick, dense) = match coding {
            Coding::Identity | Coding::Dcz => (0, 0),
            Coding::Gzip => (self.settings.gzip_level, DENSE_GZIP),
            Coding::Brotli => (self.settings.brotli_level, DENSE_BROTLI),
            Coding::Zstd => (self.settings.zstd_level, DENSE_ZSTD),
        };
        if self.step == CompressionStep::Dense {
            quick.max(dense)
        } else {
            quick
        }
    }
}

/// A compressed copy costs memory, and time in the client's decoder, so it must save a tenth.
fn is_gain(plain: u64, coded: u64) -> bool {
    coded < plain - plain / 10
}

/// The time slice of a compression thread, the smallest possible. After each piece of a page it also yields to waiting threads.
const TIME_SLICE: Duration = Duration::from_micros(100);

/// The interval between two checks of the queue, and their maximum number.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
const MAX_CHECKS: usize = 100;

/// A plain body that is needed twice within this time is kept.
const RECENT: Duration = Duration::from_secs(600);

/// The maximum number of queued pages.
const MAX_JOBS: usize = 1024;

/// Beyond these levels a WordPress page hardly gets smaller, at many times the processor time or the memory: br at 9 uses 34 MiB
/// for a page that is a thousandth smaller than at 6, which uses 3. Levels 10 and 11 of br would save another seventh at twenty
/// and fifty times the processor time.
const DENSE_GZIP: u32 = 9;
const DENSE_BROTLI: u32 = 6;
const DENSE_ZSTD: u32 = 9;

#[cfg(test)]
mod tests;
