//! Compares the disk cache with a model, under random operations, clean restarts and kills.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::disk::moment::BootClock;
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Op {
    Put {
        page: u8,
        born: u64,
        length: usize,
    },
    Stream {
        page: u8,
        born: u64,
        length: usize,
        announced: bool,
        ends: bool,
    },
    Get {
        page: u8,
    },
    Remove {
        page: u8,
    },
    RemoveOlder {
        page: u8,
        born: u64,
    },
    Later {
        s: u64,
    },
    Sweep {
        dead: u8,
    },
    Scan {
        steps: usize,
    },
    Kill,
    Stop,
}

fn op() -> impl Strategy<Value = Op> {
    let page = 0..12_u8;
    let born = 0..8_u64;
    let length = prop_oneof![Just(0_usize), 1..20_000_usize, 60_000..200_000_usize];
    prop_oneof![
        6 => (page.clone(), born.clone(), length.clone())
            .prop_map(|(page, born, length)| Op::Put { page, born, length }),
        3 => (page.clone(), born.clone(), length, any::<bool>(), prop::bool::weighted(0.8))
            .prop_map(|(page, born, length, announced, ends)| Op::Stream { page, born, length, announced, ends }),
        6 => page.clone().prop_map(|page| Op::Get { page }),
        1 => page.clone().prop_map(|page| Op::Remove { page }),
        1 => (page, born).prop_map(|(page, born)| Op::RemoveOlder { page, born }),
        1 => (0..400_000_u64).prop_map(|s| Op::Later { s }),
        1 => (0..12_u8).prop_map(|dead| Op::Sweep { dead }),
        2 => (0..80_usize).prop_map(|steps| Op::Scan { steps }),
        1 => Just(Op::Kill),
        1 => Just(Op::Stop),
    ]
}

/// The possible contents of the disk under a page's name.
#[derive(Clone, Debug)]
struct There {
    born: u64,
    body: Vec<u8>,
    stored_s: u64,
    used_s: u64,
}

struct World<'a> {
    dir: &'a Path,
    limits: DiskLimits,
    /// `None` only during a restart.
    open: Option<(Disk, SiteName)>,
    model: BTreeMap<u8, There>,
    now_s: u64,
    /// Whether entries may have been evicted: then the disk may lack entries of the model.
    lossy: bool,
    stored: u64,
}

impl World<'_> {
    fn disk(&self) -> (&Disk, SiteName) {
        let (disk, site) = self.open.as_ref().unwrap();
        (disk, *site)
    }

    fn now(&self) -> DiskClock {
        at(self.now_s * 1000)
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Put { page, born, length } => {
                self.stored += 1;
                let body = content(self.stored, length);
                let entry = self.entry(page, born, &body);
                let (disk, site) = self.disk();
                let outcome = disk.put(site, &entry, self.now());
                self.note(page, born, body, outcome);
            }
            Op::Stream {
                page,
                born,
                length,
                announced,
                ends,
            } => {
                self.stream(page, born, length, announced, ends);
            }
            Op::Get { page } => self.check(page),
            Op::Remove { page } => {
                let (disk, site) = self.disk();
                disk.remove(site, path(page).as_bytes());
                self.model.remove(&page);
                self.check(page);
            }
            Op::RemoveOlder { page, born } => {
                let (disk, site) = self.disk();
                disk.remove_older(site, path(page).as_bytes(), born);
                self.model
                    .retain(|other, there| *other != page || there.born > born);
                self.check(page);
            }
            Op::Later { s } => self.now_s += s,
            Op::Sweep { dead } => self.sweep(dead),
            Op::Scan { steps } => {
                for _ in 0..steps {
                    self.disk().0.scan_step();
                }
            }
            Op::Kill => self.restart(),
            Op::Stop => {
                self.disk().0.close().unwrap();
                self.restart();
            }
        }
        let usage = self.disk().0.usage();
        assert!(
            usage.bytes + usage.reserved <= self.limits.bytes,
            "{usage:?}"
        );
        assert_eq!(usage.reserved, 0, "nobody is writing");
        self.lossy |= usage.evictions > 0;
    }

    fn entry(&self, number: u8, born: u64, body: &[u8]) -> Entry {
        let mut entry = page(&path(number), born, body);
        entry.stored_at = self.now().tick;
        entry
    }

    fn stream(&mut self, page: u8, born: u64, length: usize, announced: bool, ends: bool) {
        self.stored += 1;
        let body = content(self.stored, length);
        let head = self.entry(page, born, b"");
        let announced = announced.then_some(length as u64 + u64::from(!ends));
        let (disk, site) = self.disk();
        let Ok(mut writer) = disk.begin(site, &head, announced, self.now()) else {
            // The existing entry stays, because the body may remain incomplete.
            return self.check(page);
        };
        for piece in body.chunks(7_001) {
            if writer.write(piece).is_err() {
                break;
            }
        }
        if ends {
            let outcome = writer.commit();
            self.note(page, born, body, outcome);
        } else if announced.is_some() {
            let outcome = writer.commit();
            assert!(outcome.is_err());
            if outcome != Err(NotStored::Incomplete) {
                self.note(page, born, body, outcome);
            }
        } else {
            drop(writer);
        }
    }

    fn note(&mut self, page: u8, born: u64, body: Vec<u8>, outcome: Result<(), NotStored>) {
        let now_s = self.now_s;
        self.lossy |= self.disk().0.usage().evictions > 0;
        match outcome {
            Ok(()) => {
                if let Some(there) = self.model.get(&page) {
                    assert!(self.lossy || there.born <= born, "older landed on newer");
                }
                self.model.insert(
                    page,
                    There {
                        born,
                        body,
                        stored_s: now_s,
                        used_s: now_s,
                    },
                );
            }
            Err(NotStored::Superseded) => {
                assert!(self.model.get(&page).is_some_and(|there| there.born > born));
            }
            Err(_) => self
                .model
                .retain(|other, there| *other != page || there.born > born),
        }
        self.check(page);
    }

    fn check(&mut self, page: u8) {
        let (disk, site) = self.disk();
        let budget = MemoryBudget::new(if page.is_multiple_of(2) { u64::MAX } else { 0 });
        let found = whole(disk.get(site, path(page).as_bytes(), self.now(), &budget));
        match (found, self.model.get(&page)) {
            (Some((entry, body)), Some(there)) => {
                assert_eq!(entry.born, there.born);
                assert!(body == there.body, "wrong bytes");
                let age = entry.age(self.now().tick);
                assert_eq!(age, Duration::from_secs(2 + self.now_s - there.stored_s));
            }
            (None, None) => {}
            (None, Some(_)) => {
                assert!(self.lossy, "page {page} was lost");
                self.model.remove(&page);
                return;
            }
            (Some((entry, _)), None) => panic!("page {page} came back, born {}", entry.born),
        }
        let now_s = self.now_s;
        if let Some(there) = self.model.get_mut(&page) {
            there.used_s = now_s;
        }
    }

    fn sweep(&mut self, dead: u8) {
        let (disk, _) = self.disk();
        loop {
            let is_dead = |view: &HeaderView| view.entry.key.bytes() == path(dead).as_bytes();
            if disk.sweep_step(self.now(), is_dead).ends_round {
                break;
            }
        }
        if disk.usage().counted == DiskUsage::DIRECTORIES {
            self.model.remove(&dead);
            self.check(dead);
        } else {
            // The sweeper does not see entries that are not counted yet.
            self.lossy = true;
        }
        // A kill loses the times of last use, so files may be removed slightly early or late.
        self.lossy |= self
            .model
            .values()
            .any(|there| self.now_s - there.used_s > 600_000);
    }

    fn restart(&mut self) {
        self.open = None;
        self.open = Some(open_with(self.dir, self.limits, self.now()));
    }
}

/// Opens the cache with the test's clock as the machine's clock, which continues across restarts.
fn open_with(dir: &Path, limits: DiskLimits, now: DiskClock) -> (Disk, SiteName) {
    let boot = BootClock::of([1; 16], 0);
    let disk = Disk::open_in(dir, limits, [1; 16], now, boot).unwrap();
    let site = disk.site("a.test", 7);
    (disk, site)
}

/// Bytes that differ at every position and for every seed, so that any mix-up is detected.
fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
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

/// The entry and its whole body, read in one piece or in several.
fn whole(found: DiskLookup) -> Option<(Arc<Entry>, Vec<u8>)> {
    match found {
        DiskLookup::Absent => None,
        DiskLookup::Found(OnDisk::Whole(entry)) => {
            let body = entry.body().unwrap().to_vec();
            Some((entry, body))
        }
        DiskLookup::Found(OnDisk::Pieces(entry, pieces)) => {
            let mut body = Vec::new();
            while (body.len() as u64) < pieces.length() {
                let rest = body.len() as u64..pieces.length();
                body.extend_from_slice(&pieces.read(&rest).unwrap());
            }
            Some((entry, body))
        }
    }
}

fn path(page: u8) -> String {
    format!("/page-{page}")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn it_matches_the_model(
        ops in proptest::collection::vec(op(), 1..60),
        small in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let limits = DiskLimits {
            bytes: if small { 400 << 10 } else { 64 << 20 },
            in_memory_bytes: 100_000,
            inactive: Duration::from_secs(700_000),
            ..LIMITS
        };
        let mut world = World {
            dir: dir.path(),
            limits,
            open: Some(open_with(dir.path(), limits, at(0))),
            model: BTreeMap::new(),
            now_s: 0,
            lossy: false,
            stored: 0,
        };
        for op in ops {
            world.run(&op);
        }
        while world.disk().0.scan_step() == ScanProgress::More {}
        for page in 0..12 {
            world.check(page);
        }
        let usage = world.disk().0.usage();
        prop_assert_eq!(usage.entries, files(&dir.path().join("entries")).len() as u64, "a row for each file");
        let sizes = files(&dir.path().join("entries")).into_iter().map(|path| {
            path.metadata().unwrap().len().div_ceil(4096) * 4096
        });
        prop_assert_eq!(usage.bytes, sizes.sum::<u64>());
        prop_assert_eq!(usage.damaged, 0);
    }
}
