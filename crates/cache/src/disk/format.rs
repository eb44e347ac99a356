//! The format of an entry's file, version 3. All numbers are little-endian, all times in milliseconds.
//!
//! ```text
//!    0   4  magic, "GLYE"
//!    4   2  format version
//!    6   1  kind: 1 page, 2 bypasses the cache, 3 varies
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
//!  178   2  number of fragments; 0 in version 1
//!  180   4  number of includes, of the parts that they consist of: 2 each; 0 before version 3
//!  184   8  checksum of bytes 0 to 184 and of the head
//!  192   H  head: key | path and query | tag ids, 8 each | tag names | fields | fragments | includes
//!           a tag name: length 4, bytes. a field: length of the name 4, of the value 4, name, value
//!           a fragment: see `format::fragments`. includes: see `format::assembly`
//!  192+H B  body
//!  ...      table: checksum, 8 each, of every 64 KiB of the body; the last one may be of less
//! ```
//!
//! A `Vary` list is among the fields. The header's checksum covers the table's, which covers the blocks', so any damage is
//! found before the data is used. Reading is total: any bytes give an entry or [`InvalidFile`].

mod assembly;
mod fragments;

use std::sync::Arc;
use std::time::Duration;

use galley_policy::storable::Lifetime;
use galley_policy::time::Tick;
use http::StatusCode;

use self::assembly::AssemblyCounts;
use super::layout::{
    Cursor, FIXED, InvalidFile, MAGIC, MAX_HEADER, VERSION, header_sum, milliseconds,
};
use super::moment::StoredTime;
use super::seal::{DirectoryKey, FileName};
use crate::body::StoredBody;
use crate::entry::{Entry, EntryKind, EntryParts, Scopes};
use crate::fragments::PageFragment;
use crate::includes::Assembly;
use crate::key::Key;

/// The identity and times in the fixed part that an [`Entry`] does not contain.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredOrigin {
    pub(super) generation: [u8; 16],
    pub(super) name: FileName,
    pub(super) fingerprint: u64,
    pub(super) stamp: StoredTime,
    pub(super) age: Duration,
}

/// The fixed part and head of `entry`'s file, without checksums. `None`: longer than [`MAX_HEADER`].
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
        milliseconds(entry.lifetime.fresh),
        milliseconds(entry.lifetime.stale_while_revalidate),
        milliseconds(entry.lifetime.stale_if_error),
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
    let fragments = u16::try_from(entry.fragments().len()).ok()?;
    let assembly = entry.assembly().map(|assembly| &**assembly);
    let counts = AssemblyCounts::of(assembly)?;
    for count in [fragments, counts.includes, counts.parts] {
        out.extend_from_slice(&count.to_le_bytes());
    }
    out.resize(FIXED, 0);
    head(entry, &mut out)?;
    fragments::write(entry.fragments(), &mut out)?;
    if let Some(assembly) = assembly {
        assembly::write(assembly, entry.born, &mut out)?;
    }
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

/// A parsed header: an entry without its body. Its lifetimes are those of the time at which it was stored.
#[derive(Debug)]
pub(super) struct StoredHeader {
    /// `initial_age` is the age when the entry was stored. `stored_at` is not set.
    pub(super) parts: EntryParts,
    pub(super) composition: PageComposition,
    pub(super) stamp: StoredTime,
}

/// The parts of a page that have separate purges.
#[derive(Debug)]
pub(super) struct PageComposition {
    pub(super) fragments: Vec<PageFragment>,
    pub(super) assembly: Option<Arc<Assembly>>,
}

impl PageComposition {
    /// The page with its parts.
    pub(super) fn of(self, entry: Entry) -> Entry {
        let entry = entry.with_fragments(self.fragments);
        entry.with_assembly(self.assembly)
    }
}

/// Reads a whole header, checksum first.
pub(super) fn stored(header: &[u8], seal: &DirectoryKey) -> Result<StoredHeader, InvalidFile> {
    let sum: [u8; 8] = Cursor(header.get(184..).ok_or(InvalidFile)?).array()?;
    if header_sum(header, seal) != Some(u64::from_le_bytes(sum)) {
        return Err(InvalidFile);
    }
    let kind = match header.get(6) {
        Some(1) => EntryKind::Page,
        Some(2) => EntryKind::HitForPass,
        Some(3) => EntryKind::Varies,
        _ => return Err(InvalidFile),
    };
    let born = Cursor(header.get(48..).ok_or(InvalidFile)?).number()?;
    let mut cursor = Cursor(header.get(72..FIXED).ok_or(InvalidFile)?);
    let stamp = StoredTime {
        boot: cursor.array()?,
        boot_ms: cursor.number()?,
        wall_ms: cursor.number()?,
    };
    let initial_age = Duration::from_millis(cursor.number()?);
    let lifetime = Lifetime {
        initial_age,
        fresh: Duration::from_millis(cursor.number()?),
        stale_while_revalidate: Duration::from_millis(cursor.number()?),
        stale_if_error: Duration::from_millis(cursor.number()?),
    };
    let (host, url) = (cursor.number()?, cursor.number()?);
    let (key, path_query) = (cursor.count()?, cursor.count()?);
    let (tag_ids, tag_names, fields) = (cursor.count()?, cursor.count()?, cursor.count()?);
    cursor.count()?;
    let status =
        StatusCode::from_u16(u16::from_le_bytes(cursor.array()?)).map_err(|_| InvalidFile)?;
    let fragments = u16::from_le_bytes(cursor.array()?);
    let counts = AssemblyCounts {
        includes: u16::from_le_bytes(cursor.array()?),
        parts: u16::from_le_bytes(cursor.array()?),
    };

    let mut head = Cursor(header.get(FIXED..).ok_or(InvalidFile)?);
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
        lifetime,
        born,
    };
    let composition = PageComposition {
        fragments: fragments::read(usize::from(fragments), &mut head)?,
        assembly: assembly::read(counts, lifetime, &mut head)?,
    };
    if !head.0.is_empty() {
        return Err(InvalidFile);
    }
    Ok(StoredHeader {
        parts,
        composition,
        stamp,
    })
}

fn kind_byte(kind: EntryKind) -> u8 {
    match kind {
        EntryKind::Page => 1,
        EntryKind::HitForPass => 2,
        EntryKind::Varies => 3,
    }
}

#[cfg(test)]
mod tests;
