//! The bytes of the purge log, version 1. All numbers are little-endian.
//!
//! ```text
//! file header                                        record
//!  0   8  "galleypl"                                  0   4  length of the whole record
//!  8   4  version, 1                                  4   4  length check: sum(link, length), the low half
//! 12   4  length of this header, 56                   8   1  type: 1 purge, 2 start
//! 16  16  generation                                  9   1  strength: 0 soft, 1 hard
//! 32   8  check: sum(0, bytes 0..32)                 10   1  scope: 0 site, 1 host, 2 url, 3 prefix, 4 tag, 5 pattern
//! 40   8  mark: this much has been acknowledged      11   1  bit 0: a host is given, bit 1: a query is given
//! 48   8  mark check: sum(check, mark)               12   4  bytes of the site's name
//! 56      records, one after another                 16   4  bytes of the host
//!                                                    20   4  bytes of the text: path, prefix, tag or pattern
//! sum(link, bytes): SipHash-1-3 of link and bytes,   24   4  bytes of the query
//! its key the generation. The first record's link    28   4  0
//! is the header's check, every other record's link   32   8  number
//! is the check of the record before it.              40   8  milliseconds since 1970
//!                                                    48   n  site, host, text, query, one after another
//!                                                  48+n   8  check: sum(link, bytes 0..48+n)
//! ```
//! The length has a separate check, because a record with a damaged length must not look like a truncated one. The mark is
//! written after each fdatasync, without a separate sync: it may be behind the acknowledged records, never ahead of them.

use std::fmt;
use std::hash::Hasher as _;
use std::io;
use std::time::{Duration, SystemTime};

use galley_policy::purge::{Purge, Scope, Strength};
use siphasher::sip::SipHasher13;

/// The identity of a log. Entries of another generation count as purged, because their purges may have been lost.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Generation([u8; 16]);

impl Generation {
    /// The bytes, as in entry files.
    pub fn bytes(self) -> [u8; 16] {
        self.0
    }

    pub(super) const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// A new, random generation.
    pub(super) fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        let filled =
            rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
        if filled < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Self(bytes))
    }
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Generation({:032x})", u128::from_be_bytes(self.0))
    }
}

/// A purge in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedPurge {
    /// The name of the site to whose counter `number` belongs.
    pub site: String,
    /// The number of the purge.
    pub number: u64,
    /// The time at which it was published, in milliseconds precision.
    pub at: SystemTime,
    /// The purge.
    pub purge: Purge,
}

impl LoggedPurge {
    /// The size of its record.
    pub(super) fn record_bytes(&self) -> usize {
        RECORD_BYTES + self.site.len() + self.purge.scope.text_bytes()
    }
}

/// The chain of checks. Each check covers the previous one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    pub(super) generation: Generation,
    pub(super) link: u64,
}

impl Chain {
    pub(super) fn new(generation: Generation) -> Self {
        Self {
            generation,
            link: 0,
        }
    }

    pub(super) fn sum(&self, bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.generation.0);
        hasher.write(&self.link.to_le_bytes());
        hasher.write(bytes);
        hasher.finish()
    }

    /// The check of a record's length.
    pub(super) fn sum_of_length(&self, length: [u8; 4]) -> [u8; 4] {
        let [a, b, c, d, ..] = self.sum(&length).to_le_bytes();
        [a, b, c, d]
    }

    /// Fills in the checks of `records`, which must be complete.
    pub(super) fn seal(&mut self, records: &mut [u8]) {
        let mut rest = records;
        while let Some(&length) = rest.first_chunk::<4>() {
            let whole = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
            let (record, after) = rest.split_at_mut(whole.clamp(RECORD_BYTES, rest.len()));
            record[4..8].copy_from_slice(&self.sum_of_length(length));
            let at = record.len() - CHECK_BYTES;
            self.link = self.sum(&record[..at]);
            record[at..].copy_from_slice(&self.link.to_le_bytes());
            rest = after;
        }
    }
}

/// The contents of a whole file.
pub(super) struct Image {
    pub(super) bytes: Vec<u8>,
    /// The chain after the last record, for the next record.
    pub(super) chain: Chain,
    pub(super) records: usize,
}

impl Image {
    /// `purges` must be in the order of numbers. The start record is inserted at the position of its number.
    pub(super) fn new(generation: Generation, start: RunStart, purges: &[LoggedPurge]) -> Self {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + 2 * RECORD_BYTES * (purges.len() + 1));
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&length_of(HEADER_BYTES).to_le_bytes());
        bytes.extend_from_slice(&generation.0);
        let mut chain = Chain::new(generation);
        chain.link = chain.sum(&bytes);
        let header = chain;
        bytes.extend_from_slice(&chain.link.to_le_bytes());
        bytes.resize(HEADER_BYTES, 0);
        let before = purges.partition_point(|logged| logged.number < start.number);
        for logged in &purges[..before] {
            push_logged(&mut bytes, logged);
        }
        push_start(&mut bytes, start);
        for logged in &purges[before..] {
            push_logged(&mut bytes, logged);
        }
        chain.seal(&mut bytes[HEADER_BYTES..]);
        let mark = mark(&header, bytes.len() as u64);
        bytes[MARK_AT..HEADER_BYTES].copy_from_slice(&mark);
        Self {
            bytes,
            chain,
            records: purges.len() + 1,
        }
    }

    /// The first link, which marks are made from.
    pub(super) fn header(&self) -> Chain {
        let mut chain = self.chain;
        chain.link = u64_at(&self.bytes, HEADER_CHECK_AT).unwrap_or_default();
        chain
    }
}

/// The start record of a run: the counters begin at `number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunStart {
    pub(super) number: u64,
    pub(super) at: SystemTime,
}

/// The 16 bytes of a mark.
pub(super) fn mark(header: &Chain, acknowledged: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&acknowledged.to_le_bytes());
    let check = header.sum(&bytes[..8]).to_le_bytes();
    bytes[8..].copy_from_slice(&check);
    bytes
}

/// Appends a purge, with empty checks. A purge whose texts are longer than [`TEXT_BYTES`] in total is written as a purge of the
/// whole site.
pub(super) fn push_purge(out: &mut Vec<u8>, site: &str, stamp: RecordStamp, purge: &Purge) {
    let mut fields = ScopeFields::of(&purge.scope);
    if fields.host.map_or(0, str::len) + fields.text.len() + fields.query.map_or(0, <[u8]>::len)
        > TEXT_BYTES
    {
        fields = ScopeFields::of(&Scope::Site);
    }
    let strength = match purge.strength {
        Strength::Soft => 0,
        Strength::Hard => 1,
    };
    let kind = [PURGE, strength, fields.scope, fields.given()];
    push(
        out,
        kind,
        stamp,
        [
            site.as_bytes(),
            fields.host.unwrap_or_default().as_bytes(),
            fields.text,
            fields.query.unwrap_or_default(),
        ],
    );
}

/// The number and time of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordStamp {
    pub(super) number: u64,
    pub(super) at: SystemTime,
}

fn push_logged(out: &mut Vec<u8>, logged: &LoggedPurge) {
    let stamp = RecordStamp {
        number: logged.number,
        at: logged.at,
    };
    push_purge(out, &logged.site, stamp, &logged.purge);
}

fn push_start(out: &mut Vec<u8>, start: RunStart) {
    let stamp = RecordStamp {
        number: start.number,
        at: start.at,
    };
    push(out, [START, 0, 0, 0], stamp, [b"", b"", b"", b""]);
}

fn push(out: &mut Vec<u8>, kind: [u8; 4], stamp: RecordStamp, texts: [&[u8]; 4]) {
    let length = RECORD_BYTES + texts.iter().map(|text| text.len()).sum::<usize>();
    out.extend_from_slice(&length_of(length).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&kind);
    for text in texts {
        out.extend_from_slice(&length_of(text.len()).to_le_bytes());
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&stamp.number.to_le_bytes());
    out.extend_from_slice(&millis(stamp.at).to_le_bytes());
    for text in texts {
        out.extend_from_slice(text);
    }
    out.extend_from_slice(&[0; CHECK_BYTES]);
}

/// The fields of a record that contain its scope.
struct ScopeFields<'a> {
    scope: u8,
    host: Option<&'a str>,
    text: &'a [u8],
    query: Option<&'a [u8]>,
}

impl<'a> ScopeFields<'a> {
    fn of(scope: &'a Scope) -> Self {
        let (scope, host, text, query): (_, _, &[u8], _) = match scope {
            Scope::Site => (SITE, None, b"", None),
            Scope::Host(host) => (HOST, Some(host.as_str()), b"", None),
            Scope::Url { host, path, query } => (URL, host.as_deref(), path, query.as_deref()),
            Scope::Prefix(path) => (PREFIX, None, path, None),
            Scope::Tag(tag) => (TAG, None, tag.as_bytes(), None),
            Scope::Pattern(pattern) => (PATTERN, None, pattern.text().as_bytes(), None),
        };
        Self {
            scope,
            host,
            text,
            query,
        }
    }

    fn given(&self) -> u8 {
        (if self.host.is_some() { HOST_GIVEN } else { 0 })
            | (if self.query.is_some() { QUERY_GIVEN } else { 0 })
    }
}

/// The eight bytes at `at` as a number.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The four bytes at `at` as a length.
pub(super) fn length_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?)).ok()
}

/// Times before 1970 are written as 1970.
fn millis(at: SystemTime) -> u64 {
    let since = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis())
        .unwrap_or(MAX_MILLIS)
        .min(MAX_MILLIS)
}

/// The time that was written as `millis`. Limited to [`MAX_MILLIS`].
pub(super) fn time(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis.min(MAX_MILLIS))
}

/// A length field. Only texts above 4 GiB do not fit; their record gets an invalid length, which makes it unreadable.
fn length_of(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

pub(super) const MAGIC: [u8; 8] = *b"galleypl";
pub(super) const VERSION: u32 = 1;
pub(super) const HEADER_BYTES: usize = 56;
pub(super) const GENERATION_AT: usize = 16;
pub(super) const HEADER_CHECK_AT: usize = 32;
pub(super) const MARK_AT: usize = 40;
/// The length of a record without texts.
pub(super) const RECORD_BYTES: usize = TEXTS_AT + CHECK_BYTES;
pub(super) const TEXTS_AT: usize = 48;
pub(super) const CHECK_BYTES: usize = 8;
/// The maximum length of host, text and query of one record together: more than a request head can contain.
pub(super) const TEXT_BYTES: usize = 64 * 1024;
/// The maximum length of a valid record.
pub(super) const MAX_RECORD: usize = 2 * TEXT_BYTES;

pub(super) const PURGE: u8 = 1;
pub(super) const START: u8 = 2;

pub(super) const SITE: u8 = 0;
pub(super) const HOST: u8 = 1;
pub(super) const URL: u8 = 2;
pub(super) const PREFIX: u8 = 3;
pub(super) const TAG: u8 = 4;
pub(super) const PATTERN: u8 = 5;

pub(super) const HOST_GIVEN: u8 = 1;
pub(super) const QUERY_GIVEN: u8 = 2;

/// About the year 10889. Every `SystemTime` can represent it.
const MAX_MILLIS: u64 = 1 << 48;
