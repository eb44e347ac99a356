//! The model, and how each step is done to it and to the store.

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

use super::steps::{Damage, End, Log, PAGES, Page, Place, Step, reaches, split};
use super::{DAY, DiskClock, Room, Run, SITE, at, files, plenty, wall, whole};

/// A request that was sent, and what it brings.
#[derive(Clone, Debug)]
struct Sent {
    page: Page,
    length: usize,
    born: u64,
    /// How many orders there were when it was sent.
    purges: usize,
}

/// What the disk holds of a page.
#[derive(Clone, Debug)]
struct Kept {
    sent: usize,
    /// The rules it was stored under.
    fingerprint: u64,
    /// Whether it has to be found: nothing that was done could have cost it.
    is_sure: bool,
    /// When it was last used, in seconds.
    used: u64,
}

pub struct World {
    dir: tempfile::TempDir,
    room: Room,
    /// `None` within a restart only.
    run: Option<Run>,
    second: u64,
    fingerprint: u64,
    sent: Vec<Sent>,
    /// Those whose answers have not come.
    under_way: Vec<usize>,
    /// What the log knows.
    purges: Vec<Purge>,
    memory: BTreeMap<Page, usize>,
    disk: BTreeMap<Page, Kept>,
    /// Pages whose files were copied: an earlier entry may be put back into its place. It is an entry like any other, because purges are
    /// compared with its own `born`.
    copied: BTreeSet<Page>,
    /// How many were begun without a restart.
    generations: u64,
    /// Whether the disk's entries are of the generation that the log will have after a restart.
    is_of_the_log: bool,
}

impl World {
    pub fn play(room: Room, steps: &[Step]) {
        let dir = tempfile::tempdir().unwrap();
        let run = Run::new(dir.path(), room, at(0));
        run.scan();
        let mut world = Self {
            dir,
            room,
            run: Some(run),
            second: 0,
            fingerprint: 0,
            sent: Vec::new(),
            under_way: Vec::new(),
            purges: Vec::new(),
            memory: BTreeMap::new(),
            disk: BTreeMap::new(),
            copied: BTreeSet::new(),
            generations: 0,
            is_of_the_log: true,
        };
        for step in steps {
            world.step(step);
        }
        for page in 0..PAGES.len() {
            world.look(page);
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Send(page, length) => self.send(*page, *length),
            Step::Land(at, place) => self.land(*at, *place),
            Step::Get(page) => self.look(*page),
            Step::Purge(purge) => self.purge(purge),
            Step::Later(seconds) => self.second += seconds,
            Step::Evict(page) => {
                self.run().memory.remove(&key(*page));
                self.memory.remove(page);
            }
            Step::Remove(page) => {
                let site = self.run().site(self.fingerprint);
                self.run().disk.remove(site, &key(*page));
                self.disk.remove(page);
            }
            Step::Sweep => self.sweep(),
            Step::ChangeRules => self.fingerprint += 1,
            Step::Damage(how, one, other) => self.damage(*how, *one, *other),
            Step::BeginGeneration(number) => {
                // Never one that was there: the log draws them at random.
                let mut generation = [*number; 16];
                generation[..8].copy_from_slice(&self.generations.to_le_bytes());
                self.generations += 1;
                self.run().disk.begin_generation(generation).unwrap();
                self.disk.clear();
                self.copied.clear();
                self.is_of_the_log = false;
            }
            Step::Restart(end, log, scans) => self.restart(*end, *log, *scans),
        }
    }

    fn run(&self) -> &Run {
        self.run.as_ref().unwrap()
    }

    fn now(&self) -> DiskClock {
        at(self.second)
    }

    fn is_ample(&self) -> bool {
        matches!(self.room, Room::Ample)
    }

    fn send(&mut self, page: Page, length: usize) {
        self.under_way.push(self.sent.len());
        self.sent.push(Sent {
            page,
            length,
            born: self.run().table.current(),
            purges: self.purges.len(),
        });
    }

    fn land(&mut self, at: Index, place: Place) {
        if self.under_way.is_empty() {
            return;
        }
        let sent = self.under_way.remove(at.index(self.under_way.len()));
        let entry = Arc::new(self.entry(sent));
        if place != Place::Disk {
            self.put_in_memory(sent, &entry);
        }
        if place != Place::Memory {
            self.put_on_disk(sent, &entry);
        }
    }

    fn put_in_memory(&mut self, sent: usize, entry: &Arc<Entry>) {
        let page = self.sent[sent].page;
        let there = self.memory.get(&page).map(|&there| self.sent[there].born);
        match self.run().memory.put(Arc::clone(entry)) {
            Ok(()) => {
                assert!(
                    !self.is_ample() || there.is_none_or(|there| there <= entry.born),
                    "in memory an older entry took a newer one's place"
                );
                self.memory.insert(page, sent);
            }
            Err(PutRefused::Superseded) => assert!(there.is_some_and(|there| there > entry.born)),
            Err(full) => assert!(!self.is_ample(), "{full}"),
        }
    }

    fn put_on_disk(&mut self, sent: usize, entry: &Entry) {
        let page = self.sent[sent].page;
        let there = self.disk.get(&page).map(|kept| self.sent[kept.sent].born);
        let is_sure = self.disk.get(&page).is_some_and(|kept| kept.is_sure);
        let site = self.run().site(self.fingerprint);
        match self.run().disk.put(site, entry, self.now()) {
            Ok(()) => {
                assert!(
                    !is_sure || there.is_none_or(|there| there <= entry.born),
                    "on disk an older entry took a newer one's place"
                );
                let kept = Kept {
                    sent,
                    fingerprint: self.fingerprint,
                    is_sure: self.is_ample(),
                    used: self.second,
                };
                self.disk.insert(page, kept);
            }
            Err(NotStored::Superseded) => assert!(
                self.copied.contains(&page) || there.is_some_and(|there| there > entry.born)
            ),
            Err(why) => {
                assert!(!self.is_ample() || why == NotStored::Scanning, "{why}");
                // What is older has gone, so that it does not come back.
                if there.is_some_and(|there| there <= entry.born) {
                    self.disk.remove(&page);
                }
            }
        }
    }

    /// As a request looks a page up.
    fn look(&mut self, page: Page) {
        if let Some(entry) = self.run().memory.get(&key(page)) {
            let sent = self.memory.get(&page).copied();
            let standing = self.check(&entry, entry.body().unwrap(), sent, "memory");
            if standing != Validity::Purged {
                return;
            }
            self.run().memory.remove_if_same(&entry);
            self.memory.remove(&page);
        } else {
            let lost = self.memory.remove(&page);
            assert!(!self.is_ample() || lost.is_none(), "memory lost {lost:?}");
        }
        self.look_on_disk(page);
    }

    fn look_on_disk(&mut self, page: Page) {
        let (now, site) = (self.now(), self.run().site(self.fingerprint));
        let kept = self.disk.get(&page).cloned();
        let kept = kept.filter(|kept| kept.fingerprint == self.fingerprint);
        let found = whole(self.run().disk.get(site, &key(page), now, &plenty()));
        let Some((entry, body)) = found else {
            let lost = kept.filter(|kept| kept.is_sure);
            assert!(lost.is_none(), "the disk lost {lost:?}");
            // What was met under other rules, or damaged, has been removed.
            self.disk.remove(&page);
            return;
        };
        let put_back = self.copied.contains(&page).then(|| number_of(&entry));
        let sent = put_back.or(kept.map(|kept| kept.sent));
        let standing = self.check(&entry, &body, sent, "the disk");
        if standing == Validity::Purged {
            self.run().disk.remove_older(site, &key(page), entry.born);
            self.disk.remove(&page);
            return;
        }
        if let Some(kept) = self.disk.get_mut(&page) {
            kept.used = self.second;
        }
        if let (Some(sent), true) = (sent, entry.pieces().is_none()) {
            self.put_in_memory(sent, &entry);
        }
    }

    /// What was found is what was put, and stands as the orders since say.
    fn check(&self, entry: &Entry, body: &[u8], sent: Option<usize>, place: &str) -> Validity {
        let Some(number) = sent else {
            panic!("{place} gave {entry:?}, which is not there");
        };
        let sent = &self.sent[number];
        assert_eq!(
            entry.key.bytes(),
            key(sent.page),
            "another page's, from {place}"
        );
        assert_eq!(
            entry.fields["sent"],
            number.to_string(),
            "another entry, from {place}"
        );
        assert_eq!(entry.born, sent.born);
        assert!(body == content(number, sent.length), "torn, from {place}");
        let standing = self.run().table.prove_waiting(entry);
        assert_eq!(
            standing,
            self.standing(sent),
            "from {place}: {sent:?}, {:?}",
            self.purges
        );
        standing
    }

    fn standing(&self, sent: &Sent) -> Validity {
        let touching = self.purges[sent.purges..]
            .iter()
            .filter(|purge| reaches(&purge.scope, sent.page));
        touching.fold(Validity::Valid, |standing, purge| {
            match (purge.strength, standing) {
                (Strength::Hard, _) | (_, Validity::Purged) => Validity::Purged,
                (Strength::Soft, _) => Validity::SoftPurged,
            }
        })
    }

    fn purge(&mut self, purge: &Purge) {
        let Run { opened, table, .. } = self.run();
        let published = opened.log.publish(SITE, table, purge, wall(self.second));
        assert_eq!(published.ticket.wait(), Durability::Kept);
        self.purges.push(purge.clone());
    }

    fn sweep(&mut self) {
        let now = self.now();
        let Run {
            memory,
            disk,
            table,
            ..
        } = self.run();
        let is_dead = |entry: &Entry| table.prove_waiting(entry) == Validity::Purged;
        memory.sweep(is_dead);
        while !disk.sweep_step(now, |view| is_dead(&view.entry)).ends_round {}
        let dead = |sent: usize| self.standing(&self.sent[sent]) == Validity::Purged;
        let left = self.memory.iter().filter(|&(_, &sent)| !dead(sent));
        let left = left.map(|(&page, &sent)| (page, sent)).collect();
        let is_doubtful: Vec<Page> = self
            .disk
            .iter()
            .filter(|(_, kept)| dead(kept.sent) || self.second - kept.used > 5 * DAY)
            .map(|(&page, _)| page)
            .collect();
        self.memory = left;
        for page in is_doubtful {
            self.doubt(page);
        }
    }

    /// From now on it may be there or not.
    fn doubt(&mut self, page: Page) {
        if let Some(kept) = self.disk.get_mut(&page) {
            kept.is_sure = false;
        }
    }

    fn damage(&mut self, how: Damage, one: Index, other: Index) {
        let files = files(self.dir.path());
        if files.is_empty() {
            return;
        }
        let (one, place) = (one.get(&files), other);
        let other = other.get(&files);
        let bytes = std::fs::read(one).unwrap();
        self.doubt_what_is_in(&bytes);
        if matches!(how, Damage::Swap | Damage::Copy) {
            self.copied.extend(pages_in(&bytes));
        }
        match how {
            Damage::Flip => {
                let mut bytes = bytes;
                let place = place.index(bytes.len().max(1));
                bytes
                    .iter_mut()
                    .skip(place)
                    .take(1)
                    .for_each(|byte| *byte ^= 0x55);
                std::fs::write(one, bytes).unwrap();
            }
            Damage::Cut => {
                std::fs::write(one, &bytes[..place.index(bytes.len().max(1))]).unwrap();
            }
            Damage::Lengthen => std::fs::write(one, [&bytes[..], b"more"].concat()).unwrap(),
            Damage::Remove => std::fs::remove_file(one).unwrap(),
            Damage::Swap | Damage::Copy => {
                let others = std::fs::read(other).unwrap();
                self.doubt_what_is_in(&others);
                self.copied.extend(pages_in(&others));
                std::fs::write(other, &bytes).unwrap();
                if matches!(how, Damage::Swap) {
                    std::fs::write(one, others).unwrap();
                }
            }
        }
    }

    fn doubt_what_is_in(&mut self, bytes: &[u8]) {
        match pages_in(bytes).next() {
            Some(page) => self.doubt(page),
            // Damaged before.
            None => (0..PAGES.len()).for_each(|page| self.doubt(page)),
        }
    }

    fn restart(&mut self, end: End, log: Log, scans: bool) {
        let run = self.run.take().unwrap();
        if matches!(end, End::Closed) {
            run.disk.close().unwrap();
        }
        let before = run.opened.log.generation();
        drop(run);
        self.lose(log);
        let run = Run::new(self.dir.path(), self.room, self.now());
        let is_lost = log != Log::Whole;
        assert_eq!(
            run.opened.generation != before,
            is_lost,
            "{:?}",
            run.opened.found
        );
        if scans {
            run.scan();
        }
        self.run = Some(run);
        if is_lost {
            self.purges.clear();
        }
        if is_lost || !self.is_of_the_log {
            self.disk.clear();
            self.copied.clear();
        }
        self.is_of_the_log = true;
        self.memory.clear();
        self.under_way.clear();
    }

    fn lose(&self, log: Log) {
        let path: PathBuf = self.dir.path().join("log/purges.log");
        match log {
            Log::Whole => {}
            Log::Gone => std::fs::remove_file(path).unwrap(),
            Log::Flipped => {
                let mut bytes = std::fs::read(&path).unwrap();
                let place = self.sent.len() * 7 % bytes.len();
                bytes[place] ^= 0x10;
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
            body: Bytes::from(content(number, sent.length)).into(),
            stored_at: self.now().tick,
            life: Lifetime::default(),
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

/// Found in the page's file and in no other.
fn key(page: Page) -> Vec<u8> {
    let (host, path_query, _) = PAGES[page];
    format!("key of page {page}: {host}{path_query}").into_bytes()
}

/// Bytes that differ at every place and for every entry.
fn content(sent: usize, length: usize) -> Vec<u8> {
    let mut state = (sent as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| next()).collect();
    bytes.truncate(length);
    bytes
}
