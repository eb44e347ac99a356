//! A site's files, and the cache of small files in memory.
//!
//! A file in memory is valid for two seconds after a check found it unchanged. Each check covers everything: path, permissions,
//! deny list, `.htaccess`, links and siblings (compressed files, or images in other formats); a helper thread runs it. After
//! the first second a request starts the next check and is answered from memory; after the second, requests wait for the
//! check. So a change takes effect within about a second for a file that is requested often, and immediately for other files.
//!
//! A file is cached only if it was the same before and after it was read, and has not changed for so long that any later
//! change will be detected (`galley_files::Asset::is_settled`). Until then it is read for each request, as large files are.
//! A file above [`SMALL`] also has to be requested twice within an hour ([`crate::asked_twice`]), so that a crawl of a media
//! library displaces nothing. The key is the path, so a file with several paths has several entries; the memory limit bounds
//! their number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use galley_cache::body::StoredBody;
use galley_cache::entry::{EncodedEntry, Entry, EntryKind, EntryParts, Scopes};
use galley_cache::key::Key;
use galley_cache::memory::{Memory, MemoryLookup, MemoryUsage};
use galley_cache::source::EntrySource;
use galley_files as files;
use galley_files::{Asset, FileForm, Root};
use galley_policy::cgi::Script;
use galley_policy::encoding::Coding;
use galley_policy::request_info::{Method, RequestInfo};
use galley_policy::storable::Lifetime;
use galley_policy::time::Tick;
use http::{HeaderMap, StatusCode};
use tokio::task::spawn_blocking;

use crate::asked_twice::AskedTwice;
use galley_codec::compress::Compressing;
use galley_sys::clock::Clock;

/// The files of one site.
pub struct SiteFiles {
    root: Root,
    /// The site's mark, a part of every key.
    mark: u32,
    small: Option<Arc<SmallFiles>>,
    compressing: Compressing,
}

/// The files of all sites that are in memory: small ones, and larger ones that are requested often.
pub struct SmallFiles {
    memory: Arc<Memory>,
    clock: Clock,
    most_bytes: u64,
    asked: AskedTwice,
    looks: AtomicU64,
    reads: AtomicU64,
}

/// Counters of small files since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallFileTotals {
    /// Files in memory.
    pub usage: MemoryUsage,
    /// Lookups that found the file in memory.
    pub looks: u64,
    /// Files that were read into memory.
    pub reads: u64,
}

/// A requested path.
pub struct WantedFile {
    path: Vec<u8>,
    runs_program: bool,
    /// Whether the request asks for the whole file.
    is_whole: bool,
}

/// The result of resolving a path on the disk.
pub enum FileLookup {
    /// A file that is now in memory.
    Kept(Arc<Entry>),
    /// Another file.
    File(Asset),
    /// No file.
    Other(files::Resolved),
}

impl SmallFiles {
    /// A cache in `memory` for files of at most `most_bytes`, or less if so large a file does not fit into it.
    pub fn new(memory: Memory, most_bytes: u64, clock: Clock) -> Self {
        Self {
            most_bytes: most_bytes.min(memory.max_object()),
            memory: Arc::new(memory),
            clock,
            asked: AskedTwice::default(),
            looks: AtomicU64::new(0),
            reads: AtomicU64::new(0),
        }
    }

    /// The memory that holds the files.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// The counters.
    pub fn counted(&self) -> SmallFileTotals {
        SmallFileTotals {
            usage: self.memory.usage(),
            looks: self.looks.load(Ordering::Relaxed),
            reads: self.reads.load(Ordering::Relaxed),
        }
    }
}

impl WantedFile {
    /// The path of a request. `runs_program`: whether a rule sends the request to a FastCGI program that the path names.
    pub fn of(info: &RequestInfo, runs_program: bool) -> Self {
        Self {
            path: info.decoded_path().to_vec(),
            runs_program,
            is_whole: info.method() == Method::Get && info.range().is_none(),
        }
    }
}

impl SiteFiles {
    /// The files below `root`. `small` caches small files; `compressing` compresses those and larger ones.
    pub fn new(
        root: Root,
        mark: u32,
        small: Option<Arc<SmallFiles>>,
        compressing: Compressing,
    ) -> Self {
        Self {
            root,
            mark,
            small,
            compressing,
        }
    }

    /// A valid file in memory. Starts the next check when it is due. Never waits, and allocates only for a check. The key is written
    /// to `key`.
    pub fn file_in_memory(
        self: &Arc<Self>,
        info: &RequestInfo,
        runs_program: bool,
        now: Tick,
        key: &mut Vec<u8>,
    ) -> Option<Arc<Entry>> {
        let small = self.small.as_ref()?;
        write_key(self.mark, info.decoded_path(), runs_program, key);
        let MemoryLookup::Found(entry) = small.memory.try_get(key) else {
            return None;
        };
        let source = entry.source()?;
        let age = source.age(now);
        if age >= TRUSTED {
            return None;
        }
        if age >= DUE && source.claim(now, DUE) {
            let (folder, wanted) = (Arc::clone(self), WantedFile::of(info, runs_program));
            // The check confirms, replaces or removes the entry.
            spawn_blocking(move || drop(folder.look(&wanted)));
        }
        self.compressing.offer(&entry);
        (!self.is_coding_due(&entry)).then_some(entry)
    }

    /// Whether a large text is in memory and not compressed yet. Until then each client gets it compressed while it is sent.
    fn is_coding_due(&self, entry: &Entry) -> bool {
        let length = entry.length();
        length > SMALL
            && entry.coded().is_empty()
            && self
                .compressing
                .settings()
                .is_for_live(entry.status, &entry.fields, Some(length))
    }

    /// The file in memory, and the time since its last check, for inspection.
    pub fn peek(&self, info: &RequestInfo, runs_program: bool) -> Option<(Arc<Entry>, Duration)> {
        let small = self.small.as_ref()?;
        let mut key = Vec::new();
        write_key(self.mark, info.decoded_path(), runs_program, &mut key);
        let entry = small.memory.peek(&key)?;
        let age = entry.source()?.age(small.clock.tick());
        Some((entry, age))
    }

    /// The time of the clock that dates the checks.
    pub fn now(&self) -> Tick {
        self.small
            .as_ref()
            .map_or(Tick(0), |small| small.clock.tick())
    }

    /// Resolves a path on the disk. Stores small files in memory, confirms those that are unchanged, and removes those that no longer
    /// exist. Blocks on the disk.
    pub fn look(&self, wanted: &WantedFile) -> FileLookup {
        let Some(small) = &self.small else {
            return match self.below(wanted) {
                files::Resolved::File(asset) => FileLookup::File(asset),
                other => FileLookup::Other(other),
            };
        };
        let began = Began {
            tick: small.clock.tick(),
            wall: small.clock.wall(),
        };
        let resolved = self.below(wanted);
        let mut key = Vec::new();
        write_key(self.mark, &wanted.path, wanted.runs_program, &mut key);
        let held = small.memory.peek(&key);
        let asset = match resolved {
            files::Resolved::File(asset) => asset,
            failed @ files::Resolved::Failed(_) => return FileLookup::Other(failed),
            other => {
                forget(small, held.as_ref());
                return FileLookup::Other(other);
            }
        };
        let stamp = asset.stamp();
        if let Some(entry) = &held
            && let Some(source) = entry.source()
            && *source.stamp() == *stamp
        {
            source.confirm(began.tick);
            small.looks.fetch_add(1, Ordering::Relaxed);
            if self.is_coding_due(entry) {
                return FileLookup::File(asset);
            }
            return FileLookup::Kept(Arc::clone(entry));
        }
        let source = EntrySource::new(stamp, began.tick);
        let may_hold = small.may_hold(&asset, wanted, &key, began);
        let taken = may_hold.then(|| self.take(small, &asset, began, Key::new(&key), source));
        let Some(entry) = taken.flatten() else {
            forget(small, held.as_ref());
            return FileLookup::File(asset);
        };
        small.reads.fetch_add(1, Ordering::Relaxed);
        // There is no memory for the file: this entry serves only this request.
        let _ = small.memory.put(Arc::clone(&entry));
        if self.is_coding_due(&entry) {
            self.compressing.offer(&entry);
            return FileLookup::File(asset);
        }
        FileLookup::Kept(entry)
    }

    /// The script for a path, if it is known without access to the disk; see [`Root::resolve_script`].
    pub fn script(&self, info: &RequestInfo, runs_program: bool) -> Option<Script> {
        if runs_program {
            return None;
        }
        self.root.resolve_script(info.decoded_path())
    }

    /// The site's root.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Resolves a path. Blocks on the disk.
    pub fn below(&self, wanted: &WantedFile) -> files::Resolved {
        if wanted.runs_program {
            let found = self.root.resolve_beside_programs(&wanted.path);
            program(&self.root, &wanted.path, found)
        } else {
            self.root.resolve(&wanted.path)
        }
    }

    /// The fields of a 200 with a complete form of the file.
    pub fn fields(&self, asset: &Asset, form: &FileForm) -> HeaderMap {
        let mut fields = asset.fields(form);
        self.compressing
            .announce(StatusCode::OK, &mut fields, Some(form.length));
        fields
    }

    /// The coding in which a large file is compressed while it is sent to a client; `None`: it is sent unchanged. `fields` are the
    /// fields of the file.
    pub fn live_coding(
        &self,
        asset: &Asset,
        fields: &HeaderMap,
        info: &RequestInfo,
    ) -> Option<Coding> {
        let is_small = self.small.as_ref().is_some_and(|s| s.is_small(asset));
        let length = Some(asset.plain.length);
        let coding = || self.compressing.live(info, StatusCode::OK, fields, length);
        (!is_small && asset.plain.length > 0).then(coding).flatten()
    }

    /// The compressor of the files.
    pub fn compressing(&self) -> &Compressing {
        &self.compressing
    }

    /// Reads all forms of a file; `None`: the file must not be cached, or changed while it was read.
    fn take(
        &self,
        small: &SmallFiles,
        asset: &Asset,
        began: Began,
        key: Key,
        source: EntrySource,
    ) -> Option<Arc<Entry>> {
        let read = |form: &FileForm| {
            let mut paid = small.memory.budget().try_reserve(0)?;
            // A slow client keeps a file in memory after the cache has dropped it.
            let reserved = match form.length {
                ..=SMALL => paid.try_grow(form.length),
                _ => paid.try_grow_for_client(form.length),
            };
            reserved.ok()?;
            let bytes = form.read_whole().ok().flatten()?;
            Some(StoredBody::in_pages(bytes, paid))
        };
        let given = asset.siblings.iter().map(|form| {
            let fields = asset.fields(form);
            let body = read(form)?;
            Some(match form.format {
                None => EncodedEntry::given(form.coding, &fields, body),
                Some(_) => EncodedEntry::picture(form.format, &fields, body),
            })
        });
        let given = given.collect::<Option<Vec<EncodedEntry>>>()?;
        let entry = Entry::new(EntryParts {
            key,
            kind: EntryKind::Page,
            status: StatusCode::OK,
            fields: self.fields(asset, &asset.plain),
            body: read(&asset.plain)?,
            stored_at: began.tick,
            lifetime: ENDLESS,
            scopes: Scopes {
                host: 0,
                url: 0,
                path_query: Box::default(),
                tags: Box::default(),
            },
            tags: Vec::new(),
            // A later check replaces an earlier one.
            born: began.tick.0,
        });
        Some(Arc::new(entry.of_file(source, given)))
    }
}

impl SmallFiles {
    fn is_small(&self, asset: &Asset) -> bool {
        longest(asset) <= self.most_bytes.min(SMALL)
    }

    /// Whether a file may enter the memory now.
    fn may_hold(&self, asset: &Asset, wanted: &WantedFile, key: &[u8], began: Began) -> bool {
        // All forms together are one entry.
        let total: u64 = asset.forms().map(|form| form.length).sum();
        let again = || wanted.is_whole && self.asked.again(Key::new(key).hash(), began.tick);
        longest(asset) <= self.most_bytes
            && total < self.memory.largest_weight()
            && asset.is_settled(began.wall)
            && (self.is_small(asset) || again())
    }
}

/// The length of the longest form of a file, in bytes.
fn longest(asset: &Asset) -> u64 {
    asset.forms().map(|form| form.length).max().unwrap_or(0)
}

/// The time before a check.
#[derive(Clone, Copy)]
struct Began {
    tick: Tick,
    wall: SystemTime,
}

fn forget(small: &SmallFiles, held: Option<&Arc<Entry>>) {
    if let Some(entry) = held {
        small.memory.remove_if_same(entry);
    }
}

/// ```text
/// runs program u8 | mark of the site u32 | decoded path
/// ```
fn write_key(mark: u32, path: &[u8], runs_program: bool, out: &mut Vec<u8>) {
    out.clear();
    out.push(u8::from(runs_program));
    out.extend_from_slice(&mark.to_be_bytes());
    out.extend_from_slice(path);
}

/// If a rule names a separate FastCGI server, a file that is not a page asset is a program of that server, so its source is never
/// sent. Style sheets and images next to it are sent as usual.
fn program(root: &Root, path: &[u8], found: files::Resolved) -> files::Resolved {
    match found {
        files::Resolved::File(asset) if asset.has_known_type() => files::Resolved::File(asset),
        files::Resolved::File(_) | files::Resolved::Missing => root.program(path),
        // The front controller handles paths that do not exist; a program with a PATH_INFO exists.
        files::Resolved::Script(script) if !path.starts_with(&script.name) => {
            match root.program(path) {
                files::Resolved::Missing => files::Resolved::Script(script),
                found => found,
            }
        }
        found => found,
    }
}

/// Files up to this size, in bytes, enter the memory with their first request.
const SMALL: u64 = 256 * 1024;

/// Age of a check at which a request starts the next one.
const DUE: Duration = Duration::from_secs(1);

/// Age of a check up to which the file is sent while the next check is in progress. A slower check delays requests.
pub const TRUSTED: Duration = Duration::from_secs(2);

/// The checks determine how long the file is valid.
const ENDLESS: Lifetime = Lifetime {
    fresh: Duration::MAX,
    stale_while_revalidate: Duration::ZERO,
    stale_if_error: Duration::ZERO,
    initial_age: Duration::ZERO,
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_are_equal_only_for_equal_files(
            one in (any::<bool>(), any::<u32>(), proptest::collection::vec(any::<u8>(), 0..8)),
            two in (any::<bool>(), any::<u32>(), proptest::collection::vec(any::<u8>(), 0..8)),
        ) {
            let key = |(runs, mark, path): &(bool, u32, Vec<u8>)| {
                let mut key = vec![1, 2, 3];
                write_key(*mark, path, *runs, &mut key);
                key
            };
            prop_assert_eq!(key(&one) == key(&two), one == two);
        }
    }
}
