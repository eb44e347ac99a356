//! The positions of the parts of an entry's file, and the checksums that cover them; see [`super::format`].

use std::hash::Hasher as _;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::seal::{DirectoryKey, FileName};

/// A file that this process did not write, that is damaged, or that is obsolete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidFile;

/// The fields of the fixed part that are needed for reading the rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct FixedHeader {
    pub(super) generation: [u8; 16],
    pub(super) name: FileName,
    pub(super) fingerprint: u64,
    pub(super) table_sum: u64,
    pub(super) layout: Layout,
}

/// The positions of the parts of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The length of fixed part and head: the position of the body.
    pub(super) header: usize,
    /// The length of the body.
    pub(super) body: u64,
}

impl Layout {
    /// The position of the table.
    pub(super) fn table_at(&self) -> u64 {
        (self.header as u64).saturating_add(self.body)
    }

    pub(super) fn blocks(&self) -> u64 {
        self.body.div_ceil(BLOCK as u64)
    }

    /// The length of the file.
    pub(super) fn total(&self) -> u64 {
        self.table_at()
            .saturating_add(self.blocks().saturating_mul(8))
    }
}

/// Parses the fixed part far enough to read the rest. Nothing is verified yet.
pub(super) fn fixed(bytes: &[u8]) -> Result<FixedHeader, InvalidFile> {
    let mut cursor = Cursor(bytes.get(..FIXED).ok_or(InvalidFile)?);
    if cursor.array()? != MAGIC {
        return Err(InvalidFile);
    }
    let version = u16::from_le_bytes(cursor.array()?);
    if !(OLDEST_VERSION..=VERSION).contains(&version) {
        return Err(InvalidFile);
    }
    cursor.take(2)?;
    let generation = cursor.array()?;
    let name = FileName(cursor.array()?);
    let fingerprint = cursor.number()?;
    cursor.number()?;
    let body = cursor.number()?;
    let table_sum = cursor.number()?;
    let mut cursor = Cursor(bytes.get(172..176).ok_or(InvalidFile)?);
    let header = FIXED.checked_add(cursor.count()?).ok_or(InvalidFile)?;
    if header > MAX_HEADER || body > MAX_BODY {
        return Err(InvalidFile);
    }
    Ok(FixedHeader {
        generation,
        name,
        fingerprint,
        table_sum,
        layout: Layout { header, body },
    })
}

/// The first bytes of every file.
#[cfg(fuzzing)]
pub(super) fn fuzzing_beginning() -> [u8; 6] {
    let mut bytes = [0; 6];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// Completes the result of `format::header` when the body is known.
pub(super) fn seal_header(header: &mut [u8], body: u64, table: &[u8], seal: &DirectoryKey) {
    header[56..64].copy_from_slice(&body.to_le_bytes());
    header[64..72].copy_from_slice(&seal.sum_of(table).to_le_bytes());
    let sum = header_sum(header, seal).unwrap_or(0);
    header[184..192].copy_from_slice(&sum.to_le_bytes());
}

pub(super) fn header_sum(header: &[u8], seal: &DirectoryKey) -> Option<u64> {
    let mut sum = seal.sum();
    sum.write(header.get(..184)?);
    sum.write(header.get(FIXED..)?);
    Some(sum.finish())
}

/// A duration in the unit of the file format.
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The table of a body: one checksum for each block.
pub(super) fn table(body: &[u8], seal: &DirectoryKey) -> Vec<u8> {
    body.chunks(BLOCK)
        .flat_map(|block| seal.sum_of(block).to_le_bytes())
        .collect()
}

/// Verifies a table against the header, and returns the checksums.
pub(super) fn sums(
    table: &[u8],
    fixed: &FixedHeader,
    seal: &DirectoryKey,
) -> Result<Box<[u64]>, InvalidFile> {
    let is_whole = table.len() as u64 == fixed.layout.blocks() * 8;
    if !is_whole || seal.sum_of(table) != fixed.table_sum {
        return Err(InvalidFile);
    }
    let mut cursor = Cursor(table);
    cursor.numbers(table.len() / 8)
}

/// Verifies blocks of a body against their checksums.
pub(super) fn check(body: &[u8], sums: &[u64], seal: &DirectoryKey) -> Result<(), InvalidFile> {
    let blocks = body.chunks(BLOCK);
    let is_right = blocks.len() == sums.len()
        && blocks
            .zip(sums)
            .all(|(block, sum)| seal.sum_of(block) == *sum);
    if is_right { Ok(()) } else { Err(InvalidFile) }
}

/// Reads numbers and bytes from the beginning of a slice.
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], InvalidFile> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(InvalidFile)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], InvalidFile> {
        self.take(N)?.try_into().map_err(|_| InvalidFile)
    }

    pub(super) fn number(&mut self) -> Result<u64, InvalidFile> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn count(&mut self) -> Result<usize, InvalidFile> {
        usize::try_from(u32::from_le_bytes(self.array()?)).map_err(|_| InvalidFile)
    }

    pub(super) fn flag(&mut self) -> Result<bool, InvalidFile> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(InvalidFile),
        }
    }

    pub(super) fn text(&mut self, length: usize) -> Result<&'a str, InvalidFile> {
        std::str::from_utf8(self.take(length)?).map_err(|_| InvalidFile)
    }

    pub(super) fn numbers(&mut self, count: usize) -> Result<Box<[u64]>, InvalidFile> {
        let mut taken = Cursor(self.take(count.checked_mul(8).ok_or(InvalidFile)?)?);
        (0..count).map(|_| taken.number()).collect()
    }

    pub(super) fn texts(&mut self, count: usize) -> Result<Vec<String>, InvalidFile> {
        // Nothing is reserved in advance: the bytes may not contain as many texts.
        let mut texts = Vec::new();
        for _ in 0..count {
            let length = self.count()?;
            texts.push(self.text(length)?.to_owned());
        }
        Ok(texts)
    }

    pub(super) fn fields(&mut self, count: usize) -> Result<HeaderMap, InvalidFile> {
        if count > MAX_FIELDS {
            return Err(InvalidFile);
        }
        let mut fields = HeaderMap::new();
        for _ in 0..count {
            let (name, value) = (self.count()?, self.count()?);
            let name = HeaderName::from_bytes(self.take(name)?).map_err(|_| InvalidFile)?;
            let value = HeaderValue::from_bytes(self.take(value)?).map_err(|_| InvalidFile)?;
            fields.try_append(name, value).map_err(|_| InvalidFile)?;
        }
        Ok(fields)
    }
}

pub(super) const MAGIC: [u8; 4] = *b"GLYE";

/// The version that is written.
pub(super) const VERSION: u16 = 3;

/// The oldest version that is read. Version 1 has no fragments, versions 1 and 2 have no includes; both have zeros in place of
/// later counts. A file of another version is a miss and is removed.
pub(super) const OLDEST_VERSION: u16 = 1;

/// Length of the fixed part.
pub(super) const FIXED: usize = 192;

/// The size of the part that one checksum covers: small enough to verify before the first byte is sent, large enough for few
/// checksums.
pub const BLOCK: usize = 64 * 1024;

/// Far above the limits on heads and tags. Bounds the memory that a damaged length can allocate.
pub(super) const MAX_HEADER: usize = 1024 * 1024;

/// The maximum that an index row can count, so that no sum of lengths overflows.
pub(super) const MAX_BODY: u64 = 1 << 40;

/// More fields than any accepted head has. `HeaderMap` panics far above.
pub(super) const MAX_FIELDS: usize = 4096;
