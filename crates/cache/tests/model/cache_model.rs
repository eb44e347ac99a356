//! The model, and how each step is applied to it and to the caches.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use galley_cache::disk::NotStored;
use galley_cache::entry::{Entry, EntryKind, EntryParts, Scopes};
use galley_cache::key::Key;
use galley_cache::log::Durability;
use galley_cache::memory::PutRefused;
use galley_cache::purge_table::Validity;
use galley_policy::key::{host_id, tag_id, url_id};
use galley_policy::purge::{Purge, Strength};
use galley_policy::storable::Lifetime;
use http::{HeaderMap, HeaderValue, StatusCode};
use proptest::sample::Index;

use super::blocking::Wait as _;
use super::steps::{Damage, LogState, PAGES, Page, ProcessEnd, Step, Target, covers, split};
use super::support::{content, read_body};
use super::{CacheSize, DAY, DiskClock, Process, SITE, at, files, unlimited_budget, wall};

/// A request to the upstream, and its response.
#[derive(Clone, Debug)]
struct SentRequest {
    page: Page,
    length: usize,
    born: u64,
    /// The number of purges before the request.
    purges: usize,
}

/// The entry of a page on disk.
#[derive(Clone, Debug)]
struct StoredEntry {
    sent: usize,
    /// The fingerprint of the rules when the entry was stored.
    fingerprint: u64,
    /// Whether a lookup must find it, because no step may have removed it.
    must_exist: bool,
    /// Second of the last use.
    used: u64,
}

pub struct CacheModel {
    dir: tempfile::TempDir,
    size: CacheSize,
    /// `None` only during a restart.
    process: Option<Process>,
    second: u64,
    fingerprint: u64,
    sent: Vec<SentRequest>,
    /// Requests without a response yet.
    in_progress: Vec<usize>,
    /// The purges in the log.
    purges: Vec<Purge>,
    memory: BTreeMap<Page, usize>,
    disk: BTreeMap<Page, StoredEntry>,
    /// Pages whose files were copied, so that an older entry may be restored. It is like any other entry, because purges are compared with
    /// its own `born`.
    copied: BTreeSet<Page>,
    /// The number of generations that began without a restart.
    generations: u64,
    /// Whether the entries on disk have the generation that the log will have after a restart.
    has_generation_of_log: bool,
}

impl CacheModel {
    pub fn run(size: CacheSize, steps: &[Step]) {
        let dir = tempfile::tempdir().unwrap();
        let process = Process::new(dir.path(), size, at(0));
        process.scan();
        let mut model = Self {
            dir,
            size,
            process: Some(process),
            second: 0,
            fingerprint: 0,
            sent: Vec::new(),
            in_progress: Vec::new(),
            purges: Vec::new(),
            memory: BTreeMap::new(),
            disk: BTreeMap::new(),
            copied: BTreeSet::new(),
            generations: 0,
            has_generation_of_log: true,
        };
        for step in steps {
            model.apply(step);
        }
        for page in 0..PAGES.len() {
            model.look_up(page);
        }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Send(page, length) => self.send(*page, *length),
            Step::Store(at, target) => self.store(*at, *target),
            Step::Get(page) => self.look_up(*page),
            Step::Purge(purge) => self.purge(purge),
            Step::Later(seconds) => self.second += seconds,
            Step::Evict(page) => {
                self.process().memory.remove(&key(*page));
                self.memory.remove(page);
            }
            Step::Remove(page) => {
                let site = self.process().site(self.fingerprint);
                self.process().disk.remove(site, &key(*page));
                self.disk.remove(page);
            }
            Step::Sweep => self.sweep(),
            Step::ChangeRules => self.fingerprint += 1,
            Step::Damage(how, one, other) => self.damage(*how, *one, *other),
            Step::BeginGeneration(number) => {
                // Never one of the log, which chooses them at random.
                let mut generation = [*number; 16];
                generation[..8].copy_from_slice(&self.generations.to_le_bytes());
                self.generations += 1;
                self.process().disk.begin_generation(generation).unwrap();
                self.disk.clear();
                self.copied.clear();
                self.has_generation_of_log = false;
            }
            Step::Restart(end, log, scans) => self.restart(*end, *log, *scans),
        }
    }

    fn process(&self) -> &Process {
        self.process.as_ref().unwrap()
    }

    fn now(&self) -> DiskClock {
        at(self.second)
    }

    fn has_large_limits(&self) -> bool {
        matches!(self.size, CacheSize::Large)
    }

    fn send(&mut self, page: Page, length: usize) {
        self.in_progress.push(self.sent.len());
        self.sent.push(SentRequest {
            page,
            length,
            born: self.process().table.current(),
            purges: self.purges.len(),
        });
    }

    fn store(&mut self, at: Index, target: Target) {
        if self.in_progress.is_empty() {
            return;
        }
        let number = self.in_progress.remove(at.index(self.in_progress.len()));
        let entry = Arc::new(self.entry(number));
        if target != Target::Disk {
            self.put_in_memory(number, &entry);
        }
        if target != Target::Memory {
            self.put_on_disk(number, &entry);
        }
    }

    fn put_in_memory(&mut self, sent: usize, entry: &Arc<Entry>) {
        let page = self.sent[sent].page;
        let existing = self.memory.get(&page).map(|&number| self.sent[number].born);
        match self.process().memory.put(Arc::clone(entry)) {
            Ok(()) => {
                assert!(
                    !self.has_large_limits()
                        || existing.is_none_or(|existing| existing <= entry.born),
                    "in memory, an older entry replaced a newer one"
                );
                self.memory.insert(page, sent);
            }
            Err(PutRefused::Superseded) => {
                assert!(existing.is_some_and(|existing| existing > entry.born));
            }
            Err(full) => assert!(!self.has_large_limits(), "{full}"),
        }
    }

    fn put_on_disk(&mut self, sent: usize, entry: &Entry) {
        let page = self.sent[sent].page;
        let existing = self
            .disk
            .get(&page)
            .map(|stored| self.sent[stored.sent].born);
        let must_exist = self.disk.get(&page).is_some_and(|stored| stored.must_exist);
        let site = self.process().site(self.fingerprint);
        match self.process().disk.put(site, entry, self.now()) {
            Ok(()) => {
                assert!(
                    !must_exist || existing.is_none_or(|existing| existing <= entry.born),
                    "on disk, an older entry replaced a newer one"
                );
                let stored = StoredEntry {
                    sent,
                    fingerprint: self.fingerprint,
                    must_exist: self.has_large_limits(),
                    used: self.second,
                };
                self.disk.insert(page, stored);
            }
            Err(NotStored::Superseded) => assert!(
                self.copied.contains(&page)
                    || existing.is_some_and(|existing| existing > entry.born)
            ),
            Err(why) => {
                assert!(
                    !self.has_large_limits() || why == NotStored::Scanning,
                    "{why}"
                );
                // The older entry was removed, so that it does not reappear.
                if existing.is_some_and(|existing| existing <= entry.born) {
                    self.disk.remove(&page);
                }
            }
        }
    }

    /// Looks up a page like a request.
    fn look_up(&mut self, page: Page) {
        if let Some(entry) = self.process().memory.get(&key(page)) {
            let sent = self.memory.get(&page).copied();
            let validity = self.check(&entry, entry.body().unwrap(), sent, "memory");
            if validity != Validity::Purged {
                return;
            }
            self.process().memory.remove_if_same(&entry);
            self.memory.remove(&page);
        } else {
            let lost = self.memory.remove(&page);
            assert!(
                !self.has_large_limits() || lost.is_none(),
                "memory lost {lost:?}"
            );
        }
        self.look_up_on_disk(page);
    }

    fn look_up_on_disk(&mut self, page: Page) {
        let (now, site) = (self.now(), self.process().site(self.fingerprint));
        let stored = self.disk.get(&page).cloned();
        let stored = stored.filter(|stored| stored.fingerprint == self.fingerprint);
        let found = read_body(
            self.process()
                .disk
                .get(site, &key(page), now, &unlimited_budget()),
        );
        let Some((entry, body)) = found else {
            let lost = stored.filter(|stored| stored.must_exist);
            assert!(lost.is_none(), "the disk lost {lost:?}");
            // An entry of other rules, or a damaged one, was removed by the lookup.
            self.disk.remove(&page);
            return;
        };
        let restored = self.copied.contains(&page).then(|| number_of(&entry));
        let sent = restored.or(stored.map(|stored| stored.sent));
        let validity = self.check(&entry, &body, sent, "the disk");
        if validity == Validity::Purged {
            self.process()
                .disk
                .remove_older(site, &key(page), entry.born);
            self.disk.remove(&page);
            return;
        }
        if let Some(stored) = self.disk.get_mut(&page) {
            stored.used = self.second;
        }
        if let (Some(sent), true) = (sent, entry.pieces().is_none()) {
            self.put_in_memory(sent, &entry);
        }
    }

    /// Checks that a lookup returned the stored entry, with the validity that later purges give it.
    fn check(&self, entry: &Entry, body: &[u8], sent: Option<usize>, place: &str) -> Validity {
        let Some(number) = sent else {
            panic!("{place} returned {entry:?}, which does not exist");
        };
        let sent = &self.sent[number];
        assert_eq!(
            entry.key.bytes(),
            key(sent.page),
            "entry of another page, from {place}"
        );
        assert_eq!(
            entry.fields["sent"],
            number.to_string(),
            "another entry, from {place}"
        );
        assert_eq!(entry.born, sent.born);
        assert!(
            body == content(number as u64, sent.length),
            "wrong bytes, from {place}"
        );
        let validity = self.process().table.validity_waiting(entry);
        assert_eq!(
            validity,
            self.validity(sent),
            "from {place}: {sent:?}, {:?}",
            self.purges
        );
        validity
    }

    fn validity(&self, sent: &SentRequest) -> Validity {
        let matching = self.purges[sent.purges..]
            .iter()
            .filter(|purge| covers(&purge.scope, sent.page));
        matching.fold(Validity::Valid, |validity, purge| {
            match (purge.strength, validity) {
                (Strength::Hard, _) | (_, Validity::Purged) => Validity::Purged,
                (Strength::Soft, _) => Validity::SoftPurged,
            }
        })
    }

    fn purge(&mut self, purge: &Purge) {
        let Process { opened, table, .. } = self.process();
        let published = opened.log.publish(SITE, table, purge, wall(self.second));
        assert_eq!(published.ticket.wait(), Durability::Kept);
        self.purges.push(purge.clone());
    }

    fn sweep(&mut self) {
        let now = self.now();
        let Process {
            memory,
            disk,
            table,
            ..
        } = self.process();
        let is_purged = |entry: &Entry| table.validity_waiting(entry) == Validity::Purged;
        memory.sweep(is_purged);
        while !disk
            .sweep_step(now, |view| is_purged(&view.entry))
            .ends_round
        {}
        let is_purged = |sent: usize| self.validity(&self.sent[sent]) == Validity::Purged;
        let remaining = self.memory.iter().filter(|&(_, &sent)| !is_purged(sent));
        let remaining = remaining.map(|(&page, &sent)| (page, sent)).collect();
        let uncertain: Vec<Page> = self
            .disk
            .iter()
            .filter(|(_, stored)| is_purged(stored.sent) || self.second - stored.used > 5 * DAY)
            .map(|(&page, _)| page)
            .collect();
        self.memory = remaining;
        for page in uncertain {
            self.allow_miss(page);
        }
    }

    /// Allows a lookup to miss the page from now on.
    fn allow_miss(&mut self, page: Page) {
        if let Some(stored) = self.disk.get_mut(&page) {
            stored.must_exist = false;
        }
    }

    fn damage(&mut self, how: Damage, one: Index, other: Index) {
        let files = files(self.dir.path());
        if files.is_empty() {
            return;
        }
        let (one, position) = (one.get(&files), other);
        let other = other.get(&files);
        let bytes = std::fs::read(one).unwrap();
        self.allow_misses_of(&bytes);
        if matches!(how, Damage::Swap | Damage::Copy) {
            self.copied.extend(pages_in(&bytes));
        }
        match how {
            Damage::Flip => {
                let mut bytes = bytes;
                let position = position.index(bytes.len().max(1));
                bytes
                    .iter_mut()
                    .skip(position)
                    .take(1)
                    .for_each(|byte| *byte ^= 0x55);
                std::fs::write(one, bytes).unwrap();
            }
            Damage::Truncate => {
                std::fs::write(one, &bytes[..position.index(bytes.len().max(1))]).unwrap();
            }
            Damage::Lengthen => std::fs::write(one, [&bytes[..], b"more"].concat()).unwrap(),
            Damage::Remove => std::fs::remove_file(one).unwrap(),
            Damage::Swap | Damage::Copy => {
                let others = std::fs::read(other).unwrap();
                self.allow_misses_of(&others);
                self.copied.extend(pages_in(&others));
                std::fs::write(other, &bytes).unwrap();
                if matches!(how, Damage::Swap) {
                    std::fs::write(one, others).unwrap();
                }
            }
        }
    }

    fn allow_misses_of(&mut self, bytes: &[u8]) {
        match pages_in(bytes).next() {
            Some(page) => self.allow_miss(page),
            // The file was damaged before, so its page is unknown.
            None => (0..PAGES.len()).for_each(|page| self.allow_miss(page)),
        }
    }

    fn restart(&mut self, end: ProcessEnd, log: LogState, scans: bool) {
        let process = self.process.take().unwrap();
        if matches!(end, ProcessEnd::Closed) {
            process.disk.close().unwrap();
        }
        let before = process.opened.log.generation();
        drop(process);
        self.damage_log(log);
        let process = Process::new(self.dir.path(), self.size, self.now());
        let is_lost = log != LogState::Intact;
        assert_eq!(
            process.opened.generation != before,
            is_lost,
            "{:?}",
            process.opened.found
        );
        if scans {
            process.scan();
        }
        self.process = Some(process);
        if is_lost {
            self.purges.clear();
        }
        if is_lost || !self.has_generation_of_log {
            self.disk.clear();
            self.copied.clear();
        }
        self.has_generation_of_log = true;
        self.memory.clear();
        self.in_progress.clear();
    }

    fn damage_log(&self, log: LogState) {
        let path: PathBuf = self.dir.path().join("log/purges.log");
        match log {
            LogState::Intact => {}
            LogState::Missing => std::fs::remove_file(path).unwrap(),
            LogState::Flipped => {
                let mut bytes = std::fs::read(&path).unwrap();
                let position = self.sent.len() * 7 % bytes.len();
                bytes[position] ^= 0x10;
                std::fs::write(path, bytes).unwrap();
            }
        }
    }

    fn entry(&self, number: usize) -> Entry {
        let sent = &self.sent[number];
        let (host, path_query, tags) = PAGES[sent.page];
        let (path, query) = split(path_query);
        let mut fields = HeaderMap::new();
        fields.insert("sent", HeaderValue::from(number));
        Entry::new(EntryParts {
            key: Key::new(&key(sent.page)),
            kind: EntryKind::Page,
            status: StatusCode::OK,
            fields,
            body: Bytes::from(content(number as u64, sent.length)).into(),
            stored_at: self.now().tick,
            lifetime: Lifetime::default(),
            scopes: Scopes {
                host: host_id(host),
                url: url_id(host, path.as_bytes(), query.map(str::as_bytes)),
                path_query: path_query.as_bytes().into(),
                tags: tags.iter().map(|tag| tag_id(tag)).collect(),
            },
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            born: sent.born,
        })
    }
}

/// The pages whose keys are in a file.
fn pages_in(bytes: &[u8]) -> impl Iterator<Item = Page> {
    (0..PAGES.len()).filter(|page| {
        let key = key(*page);
        bytes.windows(key.len()).any(|window| window == key)
    })
}

fn number_of(entry: &Entry) -> usize {
    entry.fields["sent"].to_str().unwrap().parse().unwrap()
}

/// The key of a page, which occurs only in the file of the page.
fn key(page: Page) -> Vec<u8> {
    let (host, path_query, _) = PAGES[page];
    format!("key of page {page}: {host}{path_query}").into_bytes()
}
