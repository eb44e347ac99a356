//! Reads a log.
//!
//! There are three results: complete; complete except for a truncated last record (the file ends inside it, and it was never
//! acknowledged, because otherwise the mark or the record's own end would be there); or [`LogError`]. Nothing is ever
//! skipped: one bad byte anywhere makes the whole log unreadable, and the caller then treats everything as purged hard.

use std::collections::HashMap;

use galley_policy::purge::{Purge, PurgePattern, Scope, Strength};

use super::format::{
    Chain, GENERATION_AT, Generation, HEADER_BYTES, HEADER_CHECK_AT, HOST, HOST_GIVEN, LoggedPurge,
    MAGIC, MARK_AT, MAX_RECORD, PATTERN, PREFIX, PURGE, QUERY_GIVEN, RECORD_BYTES, RunStart, SITE,
    START, TAG, TEXTS_AT, URL, VERSION, length_at, mark, time, u64_at,
};

/// A log that was read to its end.
#[derive(Clone, Debug)]
pub(super) struct Scanned {
    pub(super) generation: Generation,
    /// The last start record.
    pub(super) start: RunStart,
    /// The purges in the order of the file. The numbers of each site rise.
    pub(super) purges: Vec<LoggedPurge>,
    /// The end of the last complete record.
    pub(super) end: usize,
    /// The highest number.
    pub(super) highest: u64,
}

/// Why a log is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LogError {
    #[error("its header is damaged")]
    Header,
    #[error("it is of version {0}, which this program does not know")]
    Version(u32),
    #[error("it is shorter than what was acknowledged")]
    Short,
    #[error("the record at byte {0} has an impossible length")]
    Length(usize),
    #[error("the record at byte {0} is damaged")]
    Check(usize),
    #[error("the record at byte {0} has an unknown type")]
    Record(usize),
    #[error("the number at byte {0} does not rise")]
    NotRising(usize),
    #[error("it has no start")]
    NoStart,
}

/// Reads a whole file.
pub(super) fn scan(bytes: &[u8]) -> Result<Scanned, LogError> {
    let header = read_header(bytes)?;
    let mut reader = RecordReader {
        chain: header,
        numbers: Numbers::default(),
        purges: Vec::new(),
        start: None,
    };
    let mut end = HEADER_BYTES;
    while let Some(record) = cut(bytes, end, &reader.chain)? {
        reader.take(record).map_err(|wrong| wrong.at(end))?;
        end += record.len();
    }
    let acknowledged = u64_at(bytes, MARK_AT).ok_or(LogError::Header)?;
    if (end as u64) < acknowledged {
        return Err(LogError::Short);
    }
    Ok(Scanned {
        generation: header.generation,
        start: reader.start.ok_or(LogError::NoStart)?,
        purges: reader.purges,
        end,
        highest: reader.numbers.highest,
    })
}

/// The first link of the chain, from a valid header.
fn read_header(bytes: &[u8]) -> Result<Chain, LogError> {
    let header = bytes.get(..HEADER_BYTES).ok_or(LogError::Header)?;
    let generation = header[GENERATION_AT..]
        .first_chunk()
        .ok_or(LogError::Header)?;
    let mut chain = Chain::new(Generation::from_bytes(*generation));
    let check = chain.sum(&header[..HEADER_CHECK_AT]);
    if header[..MAGIC.len()] != MAGIC || u64_at(header, HEADER_CHECK_AT) != Some(check) {
        return Err(LogError::Header);
    }
    let version = header[8..12].first_chunk().map(|&v| u32::from_le_bytes(v));
    match version {
        Some(VERSION) if length_at(header, 12) == Some(HEADER_BYTES) => {}
        version => return Err(LogError::Version(version.unwrap_or_default())),
    }
    chain.link = check;
    let acknowledged = u64_at(header, MARK_AT).ok_or(LogError::Header)?;
    if header[MARK_AT..] != mark(&chain, acknowledged) {
        return Err(LogError::Header);
    }
    Ok(chain)
}

/// The record at `at`, with verified checks; `None` if the file ends before or inside it.
fn cut<'a>(bytes: &'a [u8], at: usize, chain: &Chain) -> Result<Option<&'a [u8]>, LogError> {
    let rest = bytes.get(at..).unwrap_or_default();
    let Some((&length, behind)) = rest.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let Some(check) = behind.first_chunk::<4>() else {
        return Ok(None);
    };
    let whole = length_at(&length, 0).unwrap_or(usize::MAX);
    if *check != chain.sum_of_length(length) || !(RECORD_BYTES..=MAX_RECORD).contains(&whole) {
        return Err(LogError::Length(at));
    }
    let Some(record) = rest.get(..whole) else {
        return Ok(None);
    };
    let (body, check) = record.split_at(whole - size_of::<u64>());
    if u64_at(check, 0) != Some(chain.sum(body)) {
        return Err(LogError::Check(at));
    }
    Ok(Some(record))
}

/// The part of the log that has been read.
struct RecordReader {
    chain: Chain,
    numbers: Numbers,
    purges: Vec<LoggedPurge>,
    start: Option<RunStart>,
}

impl RecordReader {
    fn take(&mut self, record: &[u8]) -> Result<(), RecordError> {
        let number = u64_at(record, 32).ok_or(RecordError::Record)?;
        let at = time(u64_at(record, 40).ok_or(RecordError::Record)?);
        match record[8] {
            PURGE => {
                let (site, purge) = read_purge(record).ok_or(RecordError::Record)?;
                self.numbers.advance(&site, number)?;
                self.purges.push(LoggedPurge {
                    site,
                    number,
                    at,
                    purge,
                });
            }
            START => {
                self.numbers.start(number)?;
                self.start = Some(RunStart { number, at });
            }
            _ => return Err(RecordError::Record),
        }
        let check = record.len() - size_of::<u64>();
        self.chain.link = u64_at(record, check).ok_or(RecordError::Record)?;
        Ok(())
    }
}

/// The error of a record with correct checksums.
enum RecordError {
    Record,
    NotRising,
}

impl RecordError {
    fn at(self, at: usize) -> LogError {
        match self {
            Self::Record => LogError::Record(at),
            Self::NotRising => LogError::NotRising(at),
        }
    }
}

/// The numbers so far. A start must be above all earlier numbers, a purge above the last start and the last purge of its site.
#[derive(Default)]
struct Numbers {
    start: u64,
    highest: u64,
    sites: HashMap<String, u64>,
}

impl Numbers {
    fn start(&mut self, number: u64) -> Result<(), RecordError> {
        if number <= self.highest || number > MAX_NUMBER {
            return Err(RecordError::NotRising);
        }
        (self.start, self.highest) = (number, number);
        Ok(())
    }

    fn advance(&mut self, site: &str, number: u64) -> Result<(), RecordError> {
        let last = self.sites.get(site).copied().unwrap_or_default();
        if number <= last.max(self.start) || number > MAX_NUMBER {
            return Err(RecordError::NotRising);
        }
        match self.sites.get_mut(site) {
            Some(last) => *last = number,
            None => drop(self.sites.insert(site.to_owned(), number)),
        }
        self.highest = self.highest.max(number);
        Ok(())
    }
}

pub(super) fn read_purge(record: &[u8]) -> Option<(String, Purge)> {
    let mut rest = record.get(TEXTS_AT..record.len() - size_of::<u64>())?;
    let mut text = |at: usize| {
        let (text, after) = rest.split_at_checked(length_at(record, at)?)?;
        rest = after;
        Some(text)
    };
    let (site, host, text, query) = (text(12)?, text(16)?, text(20)?, text(24)?);
    if !rest.is_empty() {
        return None;
    }
    let string = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let given = record[11];
    let scope = match record[10] {
        SITE => Scope::Site,
        HOST => Scope::Host(string(host)?),
        URL => Scope::Url {
            host: match given & HOST_GIVEN {
                0 => None,
                _ => Some(string(host)?),
            },
            path: text.to_vec(),
            query: (given & QUERY_GIVEN != 0).then(|| query.to_vec()),
        },
        PREFIX => Scope::Prefix(text.to_vec()),
        TAG => Scope::Tag(string(text)?),
        // Not compiled: the table keeps only the newest. One that is no longer supported purges everything rather than nothing.
        PATTERN => PurgePattern::accepted(&string(text)?).map_or(Scope::Site, Scope::Pattern),
        _ => return None,
    };
    let strength = match record[9] {
        0 => Strength::Soft,
        1 => Strength::Hard,
        _ => return None,
    };
    Some((string(site)?, Purge { scope, strength }))
}

/// An entry stores a number and one bit in 64 bits. Half of the range remains for future numbers.
const MAX_NUMBER: u64 = 1 << 62;

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::log::format::{RecordStamp, push_purge};
    use crate::purge_table::{PurgeTable, Validity};
    use crate::testing::entry;

    #[test]
    fn a_pattern_that_cannot_be_read_any_more_purges_everything() {
        let purge = Purge {
            scope: Scope::Pattern(PurgePattern::parse("^").unwrap()),
            strength: Strength::Soft,
        };
        let stamp = RecordStamp {
            number: 1,
            at: UNIX_EPOCH,
        };
        let mut record = Vec::new();
        push_purge(&mut record, "a.test", stamp, &purge);
        assert_eq!(read_purge(&record), Some(("a.test".to_owned(), purge)));
        record[TEXTS_AT + "a.test".len()] = b'(';
        let (_, purge) = read_purge(&record).unwrap();
        let table = PurgeTable::new();
        table.replay(1, &purge);
        assert_eq!(
            table.validity(&entry("a.test", "/b", &[], 0)),
            Validity::SoftPurged
        );
    }
}
