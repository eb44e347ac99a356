//! Pages that one process passes to another: a sequence of pages, each in the format of the disk's files.
//!
//! The writing process has compared every page with all purges that it knows. The reading process uses the first number of its
//! own purge counters as `born` of each page, so only later purges touch it, as in the first process. Other codings of a page
//! are not written; the reading process compresses again.
//!
//! The nodes of a cluster share pages in the same format. There the shared store supplies the time since a page was written,
//! because machines have different clocks since boot.
//!
//! Checksums detect a truncated or damaged file. They do not protect from a file that was written by an attacker.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use galley_policy::storable::Lifetime;

use super::format::{self, StoredOrigin};
use super::layout::{self, FIXED, InvalidFile, Layout};
use super::moment::{BootClock, DiskClock, StoredTime, since_wall};
use super::seal::{DirectoryKey, FileName};
use crate::body::StoredBody;
use crate::budget::MemoryBudget;
use crate::entry::{Entry, EntryParts};
use crate::includes::{Assembly, IncludedPart, IncludedResponses};

/// Writes pages for another process of this machine.
pub struct PageWriter<W> {
    out: W,
    key: DirectoryKey,
    boot: BootClock,
    now: DiskClock,
}

impl<W: Write> PageWriter<W> {
    /// A writer of pages with their age at `now`.
    pub fn new(out: W, now: DiskClock) -> Self {
        Self {
            out,
            key: key(),
            boot: BootClock::current(now),
            now,
        }
    }

    /// Writes one page and returns its size in bytes; 0: the page does not fit the format, or its plain body is not in memory.
    pub fn write(&mut self, entry: &Entry) -> io::Result<u64> {
        let origin = StoredOrigin {
            generation: GENERATION,
            name: NAME,
            fingerprint: 0,
            stamp: self.boot.stamp(self.now),
            age: entry.age(self.now.tick),
        };
        let (Some(body), Some(mut header)) = (entry.body(), format::header(entry, &origin)) else {
            return Ok(0);
        };
        let layout = Layout {
            header: header.len(),
            body: body.len() as u64,
        };
        let table = layout::table(body, &self.key);
        layout::seal_header(&mut header, layout.body, &table, &self.key);
        for part in [&header[..], body, &table] {
            self.out.write_all(part)?;
        }
        Ok(layout.total())
    }

    /// Returns the output.
    pub fn into_inner(self) -> W {
        self.out
    }
}

/// One page for another machine; `None`: it does not fit the format, or its plain body is not in memory.
pub fn write_record(entry: &Entry, now: DiskClock) -> Option<Vec<u8>> {
    let capacity = entry.body()?.len().saturating_add(RECORD_HEAD);
    let mut writer = PageWriter::new(Vec::with_capacity(capacity), now);
    let written = writer.write(entry).ok()?;
    (written > 0).then(|| writer.into_inner())
}

/// Reads a page of another machine that was written `since` ago. `born` maps a purge number of that machine to one of this
/// machine. `None`: the page is damaged, a number has no counterpart, or the memory limit is reached.
pub fn read_record(
    record: &[u8],
    born: &dyn Fn(u64) -> Option<u64>,
    since: Duration,
    now: DiskClock,
    budget: &MemoryBudget,
) -> Option<Arc<Entry>> {
    let mut reader = PageReader {
        from: record,
        key: key(),
        clock: PageClock::Since(since),
        now,
        born_numbers: BornNumbers::Each(born),
    };
    let entry = reader.next(budget)?;
    reader.from.is_empty().then_some(entry)
}

/// The source of the time since a page was written.
enum PageClock {
    /// This machine's clock since its boot.
    Boot(BootClock),
    /// The time that another process measured, or the wall clock if that shows more time.
    Since(Duration),
}

impl PageClock {
    fn age(&self, then: &StoredTime, lifetime: &Lifetime, now: DiskClock) -> Duration {
        match self {
            Self::Boot(boot) => boot.age(then, lifetime.initial_age, lifetime, now),
            Self::Since(since) => {
                let by_wall = since_wall(then, now).unwrap_or_default();
                lifetime.initial_age.saturating_add(by_wall.max(*since))
            }
        }
    }
}

/// Reads the output of a [`PageWriter`].
pub struct PageReader<'b, R> {
    from: R,
    key: DirectoryKey,
    clock: PageClock,
    now: DiskClock,
    born_numbers: BornNumbers<'b>,
}

/// The purge numbers that become `born` of the pages.
enum BornNumbers<'b> {
    /// One number for all pages.
    All(u64),
    /// Maps each number of the writer to one of this process, if it has one.
    Each(&'b dyn Fn(u64) -> Option<u64>),
}

impl BornNumbers<'_> {
    fn of(&self, number: u64) -> Result<u64, InvalidFile> {
        match self {
            Self::All(born) => Ok(*born),
            Self::Each(born) => born(number).ok_or(InvalidFile),
        }
    }

    /// The page's parts with their numbers mapped.
    fn of_assembly(&self, assembly: &Assembly) -> Result<Assembly, InvalidFile> {
        let parts = assembly.inclusions.parts.iter().map(|part| {
            Ok(IncludedPart {
                born: self.of(part.born)?,
                ..part.clone()
            })
        });
        let inclusions = IncludedResponses {
            parts: parts.collect::<Result<_, InvalidFile>>()?,
            ..assembly.inclusions.clone()
        };
        Ok(Assembly {
            inclusions,
            ..assembly.clone()
        })
    }
}

impl<R: Read> PageReader<'_, R> {
    /// A reader of pages. `born`: the first number of this process's purge counters.
    pub fn new(from: R, born: u64, now: DiskClock) -> Self {
        Self {
            from,
            key: key(),
            clock: PageClock::Boot(BootClock::current(now)),
            now,
            born_numbers: BornNumbers::All(born),
        }
    }

    /// The next page, with its body reserved from `budget`. `None`: the end, damaged data, or the memory limit is reached.
    pub fn next(&mut self, budget: &MemoryBudget) -> Option<Arc<Entry>> {
        self.read(budget).ok()
    }

    fn read(&mut self, budget: &MemoryBudget) -> Result<Arc<Entry>, InvalidFile> {
        let mut header = vec![0; FIXED];
        self.from.read_exact(&mut header).map_err(|_| InvalidFile)?;
        let fixed = layout::fixed(&header)?;
        if fixed.generation != GENERATION || fixed.name != NAME {
            return Err(InvalidFile);
        }
        header.resize(fixed.layout.header, 0);
        let rest = header.get_mut(FIXED..).ok_or(InvalidFile)?;
        self.from.read_exact(rest).map_err(|_| InvalidFile)?;
        let stored = format::stored(&header, &self.key)?;
        let reservation = budget.try_reserve(fixed.layout.body).ok_or(InvalidFile)?;
        let body = self.bytes(fixed.layout.body)?;
        let table = self.bytes(fixed.layout.blocks() * 8)?;
        layout::check(&body, &layout::sums(&table, &fixed, &self.key)?, &self.key)?;
        let mut parts = stored.parts;
        parts.lifetime.initial_age = self.clock.age(&stored.stamp, &parts.lifetime, self.now);
        let parts = EntryParts {
            body: StoredBody::reserved(body, reservation),
            stored_at: self.now.tick,
            born: self.born_numbers.of(parts.born)?,
            ..parts
        };
        let mut composition = stored.composition;
        for fragment in &mut composition.fragments {
            fragment.born = self.born_numbers.of(fragment.born)?;
        }
        if let Some(assembly) = &mut composition.assembly {
            *assembly = Arc::new(self.born_numbers.of_assembly(assembly)?);
        }
        Ok(Arc::new(composition.of(Entry::new(parts))))
    }

    /// Reads bytes. The buffer grows with the bytes received, because the length has not been verified yet.
    fn bytes(&mut self, length: u64) -> Result<Vec<u8>, InvalidFile> {
        let mut bytes = Vec::new();
        let read = self.from.by_ref().take(length).read_to_end(&mut bytes);
        match read {
            Ok(read) if read as u64 == length => Ok(bytes),
            _ => Err(InvalidFile),
        }
    }
}

/// Upper limit of a record's size without the body, for most pages.
const RECORD_HEAD: usize = 4096;

/// A fixed key: the two processes trust each other, so nothing has to be unpredictable.
fn key() -> DirectoryKey {
    DirectoryKey::new(GENERATION)
}

/// Constants in place of the log's generation and the file's name, which pages have only on the disk.
const GENERATION: [u8; 16] = *b"galley handover\0";
const NAME: FileName = FileName([0; 16]);

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use galley_policy::esi::template::{IncludeSource, OnError};
    use galley_policy::time::Tick;
    use proptest::prelude::*;

    use super::*;
    use crate::includes::PageInclude;
    use crate::testing;

    fn at(tick: u64) -> DiskClock {
        DiskClock {
            tick: Tick(tick),
            wall: SystemTime::now(),
        }
    }

    fn written(bodies: &[&[u8]], now: DiskClock) -> Vec<u8> {
        let mut writer = PageWriter::new(Vec::new(), now);
        for (number, body) in bodies.iter().enumerate() {
            let parts = EntryParts {
                body: bytes::Bytes::copy_from_slice(body).into(),
                ..testing::parts(&format!("/{number}"), 7)
            };
            let bytes = writer.write(&Entry::new(parts)).unwrap();
            assert!(bytes > body.len() as u64);
        }
        writer.into_inner()
    }

    #[test]
    fn pages_are_unchanged_except_for_born() {
        let long = vec![7; 200_000];
        let bodies: [&[u8]; 3] = [b"", b"one", &long];
        let file = written(&bodies, at(5000));
        let budget = MemoryBudget::new(1 << 20);
        let mut reader = PageReader::new(&file[..], 40, at(5000));
        let read: Vec<_> = std::iter::from_fn(|| reader.next(&budget)).collect();
        assert_eq!(read.len(), 3);
        for (number, (entry, body)) in read.iter().zip(bodies).enumerate() {
            assert_eq!(entry.key.bytes(), format!("/{number}").as_bytes());
            assert_eq!((&entry.body().unwrap()[..], entry.born), (body, 40));
            assert!(entry.age(Tick(5000)) < Duration::from_secs(60));
        }
    }

    #[test]
    fn a_full_memory_ends_the_reading() {
        let file = written(&[&[1; 1000], &[2; 1000]], at(0));
        let budget = MemoryBudget::new(1500);
        let mut reader = PageReader::new(&file[..], 0, at(0));
        let first = reader.next(&budget);
        assert!(first.is_some() && reader.next(&budget).is_none());
    }

    #[test]
    fn a_record_ages_by_the_greater_of_two_clocks() {
        let seconds = Duration::from_secs;
        let stored = |tick, wall| DiskClock {
            tick: Tick(tick),
            wall: SystemTime::UNIX_EPOCH + seconds(wall),
        };
        let entry = Entry::new(testing::parts("/", 7));
        let age = entry.age(Tick(0));
        let record = write_record(&entry, stored(0, 1000)).unwrap();
        let budget = MemoryBudget::new(1 << 20);
        for (since, wall, wanted) in [(5, 1000, 5), (5, 1009, 9), (5, 990, 5), (0, 1000, 0)] {
            let now = stored(7, wall);
            let born = |number| (number == entry.born).then_some(3);
            let read = read_record(&record, &born, seconds(since), now, &budget).unwrap();
            assert_eq!(read.age(Tick(7)), age + seconds(wanted), "{since} {wall}");
            assert_eq!(
                (read.born, &read.body().unwrap()[..]),
                (3, &entry.body().unwrap()[..])
            );
        }
        let unknown = |_| None;
        assert!(read_record(&record, &unknown, seconds(0), stored(0, 1000), &budget).is_none());
        let longer = [&record[..], b"x"].concat();
        for wrong in [&record[..record.len() - 1], &longer] {
            let read = read_record(wrong, &Some, seconds(0), stored(0, 1000), &budget);
            assert!(read.is_none());
        }
    }

    #[test]
    fn each_part_of_a_page_with_includes_gets_a_new_born() {
        let part = |born| IncludedPart {
            scopes: testing::scopes("a.test", "/part", &["part"]),
            born,
        };
        let source = Arc::new(IncludeSource {
            src: "/part".into(),
            alt: None,
            on_error: OnError::Fail,
        });
        let range = 0..0;
        let assembly = Assembly {
            own: Lifetime::default(),
            includes: [PageInclude { range, source }].into(),
            inclusions: IncludedResponses {
                parts: [part(9), part(12)].into(),
                depth: 1,
                is_cut: false,
            },
        };
        let page = Entry::new(testing::parts("/", 7)).with_assembly(Some(Arc::new(assembly)));
        let record = write_record(&page, at(0)).unwrap();
        let budget = MemoryBudget::new(1 << 20);
        let read = |born: &dyn Fn(u64) -> Option<u64>| {
            read_record(&record, born, Duration::ZERO, at(0), &budget)
        };
        let read_there = read(&|number| Some(number + 100)).unwrap();
        let parts = &read_there.assembly().unwrap().inclusions.parts;
        let born: Vec<u64> = parts.iter().map(|part| part.born).collect();
        assert_eq!((read_there.born, &born[..]), (107, &[109, 112][..]));
        assert!(read(&|number| (number != 12).then_some(number)).is_none());
    }

    proptest! {
        #[test]
        fn a_damaged_page_is_none(at_byte in 0_usize..4000, bit in 0_u8..8) {
            let mut file = written(&[&[3; 3000]], at(0));
            let at_byte = at_byte % file.len();
            file[at_byte] ^= 1 << bit;
            let budget = MemoryBudget::new(1 << 20);
            let read = PageReader::new(&file[..], 0, at(0)).next(&budget);
            prop_assert!(read.is_none());
            prop_assert_eq!(budget.used(), 0);
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let budget = MemoryBudget::new(1 << 20);
            prop_assert!(PageReader::new(&bytes[..], 0, at(0)).next(&budget).is_none());
        }
    }
}
