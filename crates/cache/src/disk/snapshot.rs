//! The index as a file, written at a clean stop so that the next start does not have to count the entries.
//!
//! ```text
//!    0   8  magic with version, "GLYIDX1\n"
//!    8  16  generation of the purge log
//!   24   4  second at which it was written, in the index's unit
//!   28   4  0
//!   32   8  N, number of rows
//!   40      N rows, in the order of directories and names: name 16, blocks 4, second of last use 4
//!   ...  8  checksum of all before
//! ```
//!
//! The file is removed before it is used, so it is never used twice. If it contains anything unexpected, the disk is scanned.

use std::hash::Hasher as _;
use std::io::{self, Write};

use super::index::{Index, IndexEntry, IndexLimits};
use super::seal::{BUCKETS, DirectoryKey};

/// Writes the index. `out` should be buffered.
pub(super) fn write(
    out: &mut impl Write,
    index: &Index,
    generation: [u8; 16],
    second: u32,
    seal: &DirectoryKey,
) -> io::Result<()> {
    let mut sum = seal.sum();
    let mut put = |bytes: &[u8]| {
        sum.write(bytes);
        out.write_all(bytes)
    };
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(&MAGIC);
    head[8..24].copy_from_slice(&generation);
    head[24..28].copy_from_slice(&second.to_le_bytes());
    head[32..].copy_from_slice(&index.rows().to_le_bytes());
    put(&head)?;
    for row in index.all() {
        let (name, blocks, used) = row.packed();
        let mut packed = [0; ROW];
        packed[..16].copy_from_slice(&name);
        packed[16..20].copy_from_slice(&blocks.to_le_bytes());
        packed[20..].copy_from_slice(&used.to_le_bytes());
        put(&packed)?;
    }
    let sum = sum.finish();
    out.write_all(&sum.to_le_bytes())?;
    out.flush()
}

/// Reads an index; `None`: the disk must be scanned. The times of last use keep their distance from `second`, even if the clock
/// was set back in the meantime.
pub(super) fn read(
    bytes: &[u8],
    limits: IndexLimits,
    generation: [u8; 16],
    second: u32,
    seal: &DirectoryKey,
) -> Option<Index> {
    let (rest, sum) = bytes.split_last_chunk::<8>()?;
    let (head, rows) = rest.split_first_chunk::<HEAD>()?;
    let count = u64::from_le_bytes(*head.last_chunk()?);
    let closed = u32::from_le_bytes(*head[24..].first_chunk()?);
    let is_ours = head[..8] == MAGIC && head[8..24] == generation;
    let (rows, over) = rows.as_chunks::<ROW>();
    let is_whole = rows.len() as u64 == count && over.is_empty();
    if !is_ours || !is_whole || seal.sum_of(rest) != u64::from_le_bytes(*sum) {
        return None;
    }
    let set_back = closed.saturating_sub(second);
    let mut index = Index::new(limits, BUCKETS);
    let mut last = None;
    for packed in rows {
        let blocks = u32::from_le_bytes(*packed[16..].first_chunk()?);
        let used = u32::from_le_bytes(*packed.last_chunk()?);
        let row = IndexEntry::unpack(
            *packed.first_chunk()?,
            blocks,
            used.saturating_sub(set_back),
        );
        let place = Some((row.name.bucket(), row.name));
        if place <= last {
            return None;
        }
        last = place;
        index.insert(row);
    }
    Some(index)
}

const MAGIC: [u8; 8] = *b"GLYIDX1\n";
const HEAD: usize = 40;
const ROW: usize = 24;

#[cfg(test)]
mod tests {
    use super::super::index::IndexLookup;
    use super::super::seal::FileName;
    use super::*;

    const ROOM: IndexLimits = IndexLimits {
        total: u64::MAX,
        site: u64::MAX,
    };

    fn written(rows: u32) -> Vec<u8> {
        let seal = DirectoryKey::new([3; 16]);
        let mut index = Index::new(ROOM, BUCKETS);
        for row in 0..rows {
            let name = seal.name(seal.site("a"), &row.to_le_bytes());
            index.insert(IndexEntry::new(name, row + 1, 900 + row));
        }
        let mut out = Vec::new();
        write(&mut out, &index, [1; 16], 1_000, &seal).unwrap();
        out
    }

    fn reread(bytes: &[u8], second: u32) -> Option<Index> {
        read(bytes, ROOM, [1; 16], second, &DirectoryKey::new([3; 16]))
    }

    #[test]
    fn it_reads_back() {
        let index = reread(&written(50), 2_000).unwrap();
        assert!(index.is_whole());
        assert_eq!((index.rows(), index.resident()), (50, 1275));
        let seal = DirectoryKey::new([3; 16]);
        let site = seal.site("a");
        let name: FileName = seal.name(site, &7_u32.to_le_bytes());
        assert_eq!(
            index.find(&name),
            IndexLookup::Resident(IndexEntry::new(name, 8, 907))
        );
        assert_eq!(index.of_site(site), 1275);
        let set_back = reread(&written(50), 600).unwrap();
        assert_eq!(
            set_back.find(&name),
            IndexLookup::Resident(IndexEntry::new(name, 8, 507))
        );
    }

    #[test]
    fn an_unexpected_snapshot_is_rejected() {
        let whole = written(3);
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            assert!(reread(&flipped, 0).is_none(), "byte {at} flipped");
            assert!(reread(&whole[..at], 0).is_none(), "cut at {at}");
        }
        let longer = [&whole[..], &[0; 24]].concat();
        assert!(reread(&longer, 0).is_none());
        let seal = DirectoryKey::new([3; 16]);
        assert!(
            read(&whole, ROOM, [2; 16], 0, &seal).is_none(),
            "generation"
        );
        let other = DirectoryKey::new([4; 16]);
        assert!(read(&whole, ROOM, [1; 16], 0, &other).is_none(), "key");
    }
}
