//! A simulated directory that knows which data would survive a power failure, and that fails on request.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::log::files::{LogDirectory, LogFile};
use crate::log::format::HEADER_BYTES;

/// Operations that change the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Op {
    Create,
    Write,
    SyncFile,
    Rename,
    Remove,
    Empty,
    SyncNames,
}

/// The unsynced changes that survive a crash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    /// Whether the names are those at the time of the crash, instead of those of the last sync.
    pub(super) names: bool,
    /// The part of the appended bytes that survives, in eighths.
    pub(super) eighths: usize,
    /// Whether overwritten bytes survive.
    pub(super) overwritten: bool,
}

impl Left {
    /// `kill -9`: the system continues and writes everything.
    pub(super) const ALL: Self = Self {
        names: true,
        eighths: 8,
        overwritten: true,
    };
    /// A power failure after which only synced data exists.
    pub(super) const SYNCED: Self = Self {
        names: false,
        eighths: 0,
        overwritten: false,
    };

    pub(super) fn every() -> impl Iterator<Item = Self> {
        [true, false].into_iter().flat_map(|names| {
            [0, 1, 5, 8].into_iter().flat_map(move |eighths| {
                [true, false].map(|overwritten| Self {
                    names,
                    eighths,
                    overwritten,
                })
            })
        })
    }
}

#[derive(Clone, Default)]
pub(super) struct Sim(Arc<(Mutex<World>, Condvar)>);

#[derive(Default)]
struct World {
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    files: Vec<Inode>,
    done: usize,
    /// The operation at which the power fails.
    ends_at: Option<usize>,
    faults: BTreeSet<Op>,
    panics: bool,
    /// Whether syncs of files wait.
    closed: bool,
    syncing: usize,
    synced: usize,
}

#[derive(Clone, Default)]
struct Inode {
    now: Vec<u8>,
    durable: Vec<u8>,
}

impl Sim {
    pub(super) fn ends_at(self, operation: usize) -> Self {
        self.lock().ends_at = Some(operation);
        self
    }

    /// Whether the power has failed.
    pub(super) fn is_out(&self) -> bool {
        let world = self.lock();
        world.ends_at.is_some_and(|at| world.done > at)
    }

    pub(super) fn operations(&self) -> usize {
        self.lock().done
    }

    pub(super) fn fail(&self, faults: &[Op]) {
        self.lock().faults = faults.iter().copied().collect();
    }

    pub(super) fn panic_from_now(&self) {
        self.lock().panics = true;
    }

    /// Makes syncs of files wait, or lets them continue.
    pub(super) fn close(&self, closed: bool) {
        self.lock().closed = closed;
        self.0.1.notify_all();
    }

    /// Waits until a sync of a file waits.
    pub(super) fn wait_for_sync(&self) {
        let timeout = std::time::Duration::from_secs(10);
        let waited = self
            .0
            .1
            .wait_timeout_while(self.lock(), timeout, |world| world.syncing == 0)
            .unwrap();
        assert!(!waited.1.timed_out(), "no file sync came");
    }

    /// The number of successful syncs of files.
    pub(super) fn synced(&self) -> usize {
        self.lock().synced
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.lock().names.contains_key(name)
    }

    /// The bytes of a file that would survive a power failure.
    pub(super) fn durable(&self, name: &str) -> Option<Vec<u8>> {
        let world = self.lock();
        let file = *world.durable_names.get(name)?;
        Some(world.files[file].durable.clone())
    }

    /// The directory as the next start finds it.
    pub(super) fn reboot(&self, left: Left) -> Self {
        let world = self.lock();
        let names = if left.names {
            &world.names
        } else {
            &world.durable_names
        };
        let files = world.files.iter().map(|inode| {
            let bytes = inode.left(left);
            Inode {
                now: bytes.clone(),
                durable: bytes,
            }
        });
        let after = World {
            names: names.clone(),
            durable_names: names.clone(),
            files: files.collect(),
            ..World::default()
        };
        Self(Arc::new((Mutex::new(after), Condvar::new())))
    }

    /// Stores a complete, durable file.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) {
        let mut world = self.lock();
        let file = world.files.len();
        world.files.push(Inode {
            now: bytes.to_vec(),
            durable: bytes.to_vec(),
        });
        world.names.insert(name.to_owned(), file);
        world.durable_names.insert(name.to_owned(), file);
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        // A requested panic must not spread to the test.
        self.0
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl World {
    fn step(&mut self, op: Op) -> io::Result<()> {
        assert!(!self.panics, "told to");
        let this = self.done;
        self.done += 1;
        if self.ends_at.is_some_and(|at| this >= at) {
            return Err(io::Error::other("the power is out"));
        }
        if self.faults.contains(&op) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl Inode {
    fn left(&self, left: Left) -> Vec<u8> {
        let kept = self.durable.len().min(self.now.len());
        if kept < self.durable.len() {
            // The file was truncated.
            return if left.eighths == 8 {
                self.now.clone()
            } else {
                self.durable.clone()
            };
        }
        let mut bytes = if left.overwritten {
            self.now[..kept].to_vec()
        } else {
            self.durable.clone()
        };
        let appended = &self.now[kept..];
        bytes.extend_from_slice(&appended[..appended.len() * left.eighths / 8]);
        bytes
    }
}

impl LogDirectory for Sim {
    fn read(&self, name: &str, limit: usize) -> io::Result<Vec<u8>> {
        let world = self.lock();
        let file = world.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        let bytes = world.files[*file].now.clone();
        if bytes.len() > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn LogFile>> {
        let mut world = self.lock();
        world.step(Op::Create)?;
        let file = world.files.len();
        world.files.push(Inode::default());
        world.names.insert(name.to_owned(), file);
        Ok(Box::new(SimFile {
            sim: self.clone(),
            file,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut world = self.lock();
        world.step(Op::Rename)?;
        let file = world.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        world.names.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut world = self.lock();
        if !std::thread::panicking() {
            world.step(Op::Remove)?;
        }
        world.names.remove(name);
        Ok(())
    }

    fn empty(&self, name: &str) -> io::Result<()> {
        let mut world = self.lock();
        if !std::thread::panicking() {
            world.step(Op::Empty)?;
        }
        let file = *world.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        world.files[file] = Inode::default();
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.lock();
        if !std::thread::panicking() {
            world.step(Op::SyncNames)?;
        }
        world.durable_names = world.names.clone();
        Ok(())
    }
}

struct SimFile {
    sim: Sim,
    file: usize,
}

impl LogFile for SimFile {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut world = self.sim.lock();
        let done = world.step(Op::Write);
        let offset = usize::try_from(offset).unwrap();
        // A failed write leaves a part of the bytes. Within the header, which is one sector, it leaves none.
        let part = match (&done, offset < HEADER_BYTES) {
            (Ok(()), _) => bytes,
            (Err(_), true) => &[],
            (Err(_), false) => &bytes[..bytes.len() / 2],
        };
        let file = &mut world.files[self.file].now;
        file.resize(file.len().max(offset + part.len()), 0);
        file[offset..offset + part.len()].copy_from_slice(part);
        done
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut world = self.sim.lock();
        world.syncing += 1;
        // Bytes written while the sync waits are not part of it.
        let pending = world.files[self.file].now.clone();
        self.sim.0.1.notify_all();
        // A test that fails while syncs wait must still end.
        let timeout = std::time::Duration::from_secs(10);
        let gate = &self.sim.0.1;
        let waited = gate.wait_timeout_while(world, timeout, |world| world.closed);
        let mut world = waited.unwrap().0;
        world.syncing -= 1;
        world.step(Op::SyncFile)?;
        world.synced += 1;
        world.files[self.file].durable = pending;
        Ok(())
    }
}
