//! The format of an entry's file, version 1. All numbers are little-endian, all times in milliseconds.
//!
//! ```text
//!    0   4  magic, "GLYE"
//!    4   2  format version
//!    6   1  kind: 1 page, 2 travels whole, 3 varies
//!    7   1  0
//!    8  16  generation of the purge log
//!   24  16  the file's own name
//!   40   8  fingerprint of the site's rules
//!   48   8  born
//!   56   8  B, length of the body
//!   64   8  checksum of the table
//!   72  16  id of the machine's boot in which it was stored
//!   88   8  clock since that boot when it was stored
//!   96   8  wall clock when it was stored, since 1970
//!  104   8  age when it was stored
//!  112  24  fresh, stale-while-revalidate, stale-if-error: 8 each
//!  136  16  ids of host and URL: 8 each
//!  152  20  bytes of the key, bytes of path and query, number of tag ids, of tag names, of fields: 4 each
//!  172   4  H, length of the head
//!  176   2  status
//!  178   6  0
//!  184   8  checksum of bytes 0 to 184 and of the head
//!  192   H  head: key | path and query | tag ids, 8 each | tag names | fields
//!           a tag name: length 4, bytes. a field: length of the name 4, of the value 4, name, value
//!  192+H B  body
//!  ...      table: checksum, 8 each, of every 64 KiB of the body; the last one may be of less
//! ```
//!
//! A `Vary` list is among the fields. The header's checksum covers the table's, which covers the blocks': whatever is
//! damaged is found before it is used. Reading is total: any bytes give an entry or [`Bad`].

use std::hash::Hasher as _;
use std::time::Duration;

use galley_policy::storable::Lifetime;
use galley_policy::time::Tick;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::moment::StoredTime;
use super::seal::{DirectoryKey, FileName};
use crate::body::StoredBody;
use crate::entry::{Entry, EntryKind, EntryParts, Scopes};
use crate::key::Key;

/// Not a file we wrote, or not as we wrote it, or of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bad;

/// The numbers of the fixed part that reading goes by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fixed {
    pub(super) generation: [u8; 16],
    pub(super) name: FileName,
    pub(super) fingerprint: u64,
    pub(super) table_sum: u64,
    pub(super) layout: Layout,
}

/// Where the parts of a file lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Length of fixed part and head; where the body begins.
    pub(super) header: usize,
    /// Length of the body.
    pub(super) body: u64,
}

impl Layout {
    /// Where the table begins.
    pub(super) fn table_at(&self) -> u64 {
        (self.header as u64).saturating_add(self.body)
    }

    pub(super) fn blocks(&self) -> u64 {
        self.body.div_ceil(BLOCK as u64)
    }

    /// Length of the file.
    pub(super) fn total(&self) -> u64 {
        self.table_at()
            .saturating_add(self.blocks().saturating_mul(8))
    }
}

/// Who and when, for the fixed part: what an [`Entry`] does not say itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredOrigin {
    pub(super) generation: [u8; 16],
    pub(super) name: FileName,
    pub(super) fingerprint: u64,
    pub(super) stamp: StoredTime,
    pub(super) age: Duration,
}

/// Fixed part and head of `entry`'s file, not yet sealed. `None`: longer than [`MAX_HEADER`].
pub(super) fn header(entry: &Entry, origin: &StoredOrigin) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(FIXED + 1024);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&[kind_byte(entry.kind), 0]);
    out.extend_from_slice(&origin.generation);
    out.extend_from_slice(&origin.name.0);
    for number in [origin.fingerprint, entry.born, 0, 0] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&origin.stamp.boot);
    for number in [
        origin.stamp.boot_ms,
        origin.stamp.wall_ms,
        milliseconds(origin.age),
        milliseconds(entry.life.fresh),
        milliseconds(entry.life.stale_while_revalidate),
        milliseconds(entry.life.stale_if_error),
        entry.scopes.host,
        entry.scopes.url,
    ] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for count in [
        entry.key.bytes().len(),
        entry.scopes.path_query.len(),
        entry.scopes.tags.len(),
        entry.tags.len(),
        entry.fields.len(),
        0,
    ] {
        out.extend_from_slice(&u32::try_from(count).ok()?.to_le_bytes());
    }
    out.extend_from_slice(&entry.status.as_u16().to_le_bytes());
    out.resize(FIXED, 0);
    head(entry, &mut out)?;
    if out.len() > MAX_HEADER {
        return None;
    }
    let length = u32::try_from(out.len() - FIXED).ok()?;
    out[172..176].copy_from_slice(&length.to_le_bytes());
    Some(out)
}

fn head(entry: &Entry, out: &mut Vec<u8>) -> Option<()> {
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).ok().map(u32::to_le_bytes);
    out.extend_from_slice(entry.key.bytes());
    out.extend_from_slice(&entry.scopes.path_query);
    for id in &entry.scopes.tags {
        out.extend_from_slice(&id.to_le_bytes());
    }
    for tag in &entry.tags {
        out.extend_from_slice(&length(tag.as_bytes())?);
        out.extend_from_slice(tag.as_bytes());
    }
    for (name, value) in &entry.fields {
        let name = name.as_str().as_bytes();
        out.extend_from_slice(&length(name)?);
        out.extend_from_slice(&length(value.as_bytes())?);
        out.extend_from_slice(name);
        out.extend_from_slice(value.as_bytes());
    }
    Some(())
}

/// The bytes that every file begins with.
#[cfg(fuzzing)]
pub(super) fn fuzzing_beginning() -> [u8; 6] {
    let mut bytes = [0; 6];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// Completes what [`header`] made, once the body is known.
pub(super) fn seal_header(header: &mut [u8], body: u64, table: &[u8], seal: &DirectoryKey) {
    header[56..64].copy_from_slice(&body.to_le_bytes());
    header[64..72].copy_from_slice(&seal.sum_of(table).to_le_bytes());
    let sum = header_sum(header, seal).unwrap_or(0);
    header[184..192].copy_from_slice(&sum.to_le_bytes());
}

fn header_sum(header: &[u8], seal: &DirectoryKey) -> Option<u64> {
    let mut sum = seal.sum();
    sum.write(header.get(..184)?);
    sum.write(header.get(FIXED..)?);
    Some(sum.finish())
}

/// Reads the fixed part far enough to know what else to read. Nothing of it is trusted yet.
pub(super) fn fixed(bytes: &[u8]) -> Result<Fixed, Bad> {
    let mut cursor = Cursor(bytes.get(..FIXED).ok_or(Bad)?);
    if cursor.array()? != MAGIC || u16::from_le_bytes(cursor.array()?) != VERSION {
        return Err(Bad);
    }
    cursor.take(2)?;
    let generation = cursor.array()?;
    let name = FileName(cursor.array()?);
    let fingerprint = cursor.number()?;
    cursor.number()?;
    let body = cursor.number()?;
    let table_sum = cursor.number()?;
    let mut cursor = Cursor(bytes.get(172..176).ok_or(Bad)?);
    let header = FIXED.checked_add(cursor.count()?).ok_or(Bad)?;
    if header > MAX_HEADER || body > MAX_BODY {
        return Err(Bad);
    }
    Ok(Fixed {
        generation,
        name,
        fingerprint,
        table_sum,
        layout: Layout { header, body },
    })
}

/// What a header says: an entry without its body, whose lifetimes are still those of the moment it was stored.
#[derive(Debug)]
pub(super) struct StoredHeader {
    /// `initial_age` is the age when it was stored; `stored_at` means nothing.
    pub(super) parts: EntryParts,
    pub(super) stamp: StoredTime,
}

/// Reads a whole header, checksum first.
pub(super) fn stored(header: &[u8], seal: &DirectoryKey) -> Result<StoredHeader, Bad> {
    let sum: [u8; 8] = Cursor(header.get(184..).ok_or(Bad)?).array()?;
    if header_sum(header, seal) != Some(u64::from_le_bytes(sum)) {
        return Err(Bad);
    }
    let kind = match header.get(6) {
        Some(1) => EntryKind::Page,
        Some(2) => EntryKind::TravelsWhole,
        Some(3) => EntryKind::Varies,
        _ => return Err(Bad),
    };
    let born = Cursor(header.get(48..).ok_or(Bad)?).number()?;
    let mut cursor = Cursor(header.get(72..FIXED).ok_or(Bad)?);
    let stamp = StoredTime {
        boot: cursor.array()?,
        boot_ms: cursor.number()?,
        wall_ms: cursor.number()?,
    };
    let initial_age = Duration::from_millis(cursor.number()?);
    let life = Lifetime {
        initial_age,
        fresh: Duration::from_millis(cursor.number()?),
        stale_while_revalidate: Duration::from_millis(cursor.number()?),
        stale_if_error: Duration::from_millis(cursor.number()?),
    };
    let (host, url) = (cursor.number()?, cursor.number()?);
    let (key, path_query) = (cursor.count()?, cursor.count()?);
    let (tag_ids, tag_names, fields) = (cursor.count()?, cursor.count()?, cursor.count()?);
    cursor.count()?;
    let status = StatusCode::from_u16(u16::from_le_bytes(cursor.array()?)).map_err(|_| Bad)?;

    let mut head = Cursor(header.get(FIXED..).ok_or(Bad)?);
    let parts = EntryParts {
        key: Key::new(head.take(key)?),
        kind,
        status,
        scopes: Scopes {
            host,
            url,
            path_query: head.take(path_query)?.into(),
            tags: head.numbers(tag_ids)?,
        },
        tags: head.texts(tag_names)?,
        fields: head.fields(fields)?,
        body: StoredBody::default(),
        stored_at: Tick(0),
        life,
        born,
    };
    if !head.0.is_empty() {
        return Err(Bad);
    }
    Ok(StoredHeader { parts, stamp })
}

/// The table of a body: one checksum for each block.
pub(super) fn table(body: &[u8], seal: &DirectoryKey) -> Vec<u8> {
    body.chunks(BLOCK)
        .flat_map(|block| seal.sum_of(block).to_le_bytes())
        .collect()
}

/// Checks a table as it was read against the header.
pub(super) fn sums(table: &[u8], fixed: &Fixed, seal: &DirectoryKey) -> Result<Box<[u64]>, Bad> {
    let is_whole = table.len() as u64 == fixed.layout.blocks() * 8;
    if !is_whole || seal.sum_of(table) != fixed.table_sum {
        return Err(Bad);
    }
    let mut cursor = Cursor(table);
    cursor.numbers(table.len() / 8)
}

/// Checks blocks of a body against their sums.
pub(super) fn check(body: &[u8], sums: &[u64], seal: &DirectoryKey) -> Result<(), Bad> {
    let blocks = body.chunks(BLOCK);
    let is_right = blocks.len() == sums.len()
        && blocks
            .zip(sums)
            .all(|(block, sum)| seal.sum_of(block) == *sum);
    if is_right { Ok(()) } else { Err(Bad) }
}

/// Takes numbers and bytes off the front.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Bad> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Bad)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Bad> {
        self.take(N)?.try_into().map_err(|_| Bad)
    }

    fn number(&mut self) -> Result<u64, Bad> {
        self.array().map(u64::from_le_bytes)
    }

    fn count(&mut self) -> Result<usize, Bad> {
        usize::try_from(u32::from_le_bytes(self.array()?)).map_err(|_| Bad)
    }

    fn numbers(&mut self, count: usize) -> Result<Box<[u64]>, Bad> {
        let mut taken = Cursor(self.take(count.checked_mul(8).ok_or(Bad)?)?);
        (0..count).map(|_| taken.number()).collect()
    }

    fn texts(&mut self, count: usize) -> Result<Vec<String>, Bad> {
        // Not reserved ahead: the count is not proved by bytes that are there.
        let mut texts = Vec::new();
        for _ in 0..count {
            let length = self.count()?;
            let text = std::str::from_utf8(self.take(length)?).map_err(|_| Bad)?;
            texts.push(text.to_owned());
        }
        Ok(texts)
    }

    fn fields(&mut self, count: usize) -> Result<HeaderMap, Bad> {
        if count > MAX_FIELDS {
            return Err(Bad);
        }
        let mut fields = HeaderMap::new();
        for _ in 0..count {
            let (name, value) = (self.count()?, self.count()?);
            let name = HeaderName::from_bytes(self.take(name)?).map_err(|_| Bad)?;
            let value = HeaderValue::from_bytes(self.take(value)?).map_err(|_| Bad)?;
            fields.try_append(name, value).map_err(|_| Bad)?;
        }
        Ok(fields)
    }
}

fn kind_byte(kind: EntryKind) -> u8 {
    match kind {
        EntryKind::Page => 1,
        EntryKind::TravelsWhole => 2,
        EntryKind::Varies => 3,
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

const MAGIC: [u8; 4] = *b"GLYE";
/// Any other version is a miss; the file is removed.
pub(super) const VERSION: u16 = 1;
/// Length of the fixed part.
pub(super) const FIXED: usize = 192;
/// What one checksum covers: small enough to verify before the first byte leaves, large enough for few sums.
pub const BLOCK: usize = 64 * 1024;
/// Far above what limits on heads and tags let through; bounds what a damaged length makes us read.
pub(super) const MAX_HEADER: usize = 1024 * 1024;
/// As large as an index row can count, so that no sum of lengths overflows.
pub(super) const MAX_BODY: u64 = 1 << 40;
/// More than any head that was let in has; `HeaderMap` panics far above.
const MAX_FIELDS: usize = 4096;

#[cfg(test)]
mod tests;
