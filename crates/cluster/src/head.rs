//! The head of a node: what it knows of the ends of all runs, and which heads of the others it has seen.
//!
//! Each node writes its head to the engine, at least once a second while there are few nodes. A head that names a beat of this node was written after
//! that beat, so an older one that somebody puts back is recognized without a clock.
//!
//! All numbers are little-endian.
//!
//! ```text
//!   1  format
//!  16  run
//!   8  beat: the number of the head in this run
//!  16  the entry after which this node has seen all entries
//!  16  the newest end that it has forgotten
//!   1  number of lineages, see [`crate::ledger`], 0 while the node starts; each of them (16)
//!   1  number of ends; for each of them: run (16), sequence number (8), entry (16)
//!   1  number of beats seen; for each of them: run (16), beat (8)
//!  32  MAC of the context and of all before
//! ```

use crate::cluster_key::{ClusterKey, MAC};
use crate::sequences::{MAX_RUNS, SequenceEnd};
use crate::stream_id::StreamId;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeHead {
    pub(crate) run: u128,
    pub(crate) beat: u64,
    pub(crate) begin: StreamId,
    pub(crate) forgotten: StreamId,
    pub(crate) lineages: Vec<u128>,
    pub(crate) ends: Vec<SequenceEnd>,
    pub(crate) seen: Vec<(u128, u64)>,
}

impl NodeHead {
    pub(crate) fn seal(&self, key: &ClusterKey) -> Vec<u8> {
        let mut value = vec![FORMAT];
        value.extend_from_slice(&self.run.to_le_bytes());
        value.extend_from_slice(&self.beat.to_le_bytes());
        value.extend_from_slice(&self.begin.to_bytes());
        value.extend_from_slice(&self.forgotten.to_bytes());
        value.push(u8::try_from(self.lineages.len()).unwrap_or(u8::MAX));
        for lineage in self.lineages.iter().take(usize::from(u8::MAX)) {
            value.extend_from_slice(&lineage.to_le_bytes());
        }
        value.push(u8::try_from(self.ends.len()).unwrap_or(u8::MAX));
        for end in self.ends.iter().take(usize::from(u8::MAX)) {
            value.extend_from_slice(&end.run.to_le_bytes());
            value.extend_from_slice(&end.sequence.to_le_bytes());
            value.extend_from_slice(&end.id.to_bytes());
        }
        value.push(u8::try_from(self.seen.len()).unwrap_or(u8::MAX));
        for (run, beat) in self.seen.iter().take(usize::from(u8::MAX)) {
            value.extend_from_slice(&run.to_le_bytes());
            value.extend_from_slice(&beat.to_le_bytes());
        }
        let mac = key.sign_purge([CONTEXT, &value].into_iter());
        value.extend_from_slice(&mac);
        value
    }

    /// The head, if a node has written it.
    pub(crate) fn open(key: &ClusterKey, sealed: &[u8]) -> Option<Self> {
        let (value, mac) = sealed.split_last_chunk::<MAC>()?;
        let is_ours = key.is_purge_signed([CONTEXT, value].into_iter(), mac);
        is_ours.then(|| Self::parse(value))?
    }

    /// Whether its writer vouches for what it knows. One that has just started does not yet.
    pub(crate) const fn confirms(&self) -> bool {
        !self.lineages.is_empty()
    }

    fn parse(mut value: &[u8]) -> Option<Self> {
        let rest = &mut value;
        let [format] = take(rest)?;
        if format != FORMAT {
            return None;
        }
        Some(Self {
            run: u128::from_le_bytes(take(rest)?),
            beat: u64::from_le_bytes(take(rest)?),
            begin: StreamId::from_bytes(take(rest)?),
            forgotten: StreamId::from_bytes(take(rest)?),
            lineages: list(rest, |rest| Some(u128::from_le_bytes(take(rest)?)))?,
            ends: list(rest, |rest| {
                Some(SequenceEnd {
                    run: u128::from_le_bytes(take(rest)?),
                    sequence: u64::from_le_bytes(take(rest)?),
                    id: StreamId::from_bytes(take(rest)?),
                })
            })?,
            seen: list(rest, |rest| {
                let run = u128::from_le_bytes(take(rest)?);
                Some((run, u64::from_le_bytes(take(rest)?)))
            })?,
        })
    }
}

fn list<T>(rest: &mut &[u8], one: impl Fn(&mut &[u8]) -> Option<T>) -> Option<Vec<T>> {
    let [count] = take(rest)?;
    (0..count).map(|_| one(rest)).collect()
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*taken)
}

const FORMAT: u8 = 1;

const CONTEXT: &[u8] = b"head";

/// The maximum number of lineages.
pub(crate) const MAX_LINEAGES: usize = 8;

/// The maximum number of beats in a head. Of more nodes, those are seen less often that have been seen last.
pub(crate) const MAX_SEEN: usize = 128;

/// The maximum size in bytes.
pub(crate) const MAX_HEAD: usize =
    60 + MAX_LINEAGES * 16 + (MAX_RUNS + 1) * 40 + MAX_SEEN * 24 + MAC;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(secret: u8) -> ClusterKey {
        ClusterKey::derive(&[secret; 32], "test").unwrap()
    }

    fn head(ends: usize, seen: usize) -> NodeHead {
        let id = StreamId::parse("5-1").unwrap();
        let end = SequenceEnd {
            run: u128::MAX,
            sequence: 3,
            id,
        };
        NodeHead {
            run: 1,
            beat: 2,
            begin: id,
            forgotten: id.next(),
            lineages: vec![u128::MAX - 1; ends.min(MAX_LINEAGES)],
            ends: vec![end; ends],
            seen: vec![(7, 8); seen],
        }
    }

    #[test]
    fn a_head_is_read_as_it_was_written() {
        for (ends, seen) in [(0, 0), (1, 2), (MAX_RUNS + 1, MAX_SEEN)] {
            let head = head(ends, seen);
            let sealed = head.seal(&key(1));
            assert!(sealed.len() <= MAX_HEAD);
            assert_eq!(NodeHead::open(&key(1), &sealed), Some(head));
            assert_eq!(NodeHead::open(&key(2), &sealed), None);
        }
    }

    proptest! {
        #[test]
        fn any_change_is_detected(at: proptest::sample::Index, bit in 0_u8..8) {
            let mut sealed = head(2, 1).seal(&key(1));
            let at = at.index(sealed.len());
            sealed[at] ^= 1 << bit;
            prop_assert_eq!(NodeHead::open(&key(1), &sealed), None);
        }

        #[test]
        fn authenticated_bytes_never_panic(mut bytes: Vec<u8>) {
            prop_assert_eq!(NodeHead::open(&key(1), &bytes), None);
            if let Some(first) = bytes.first_mut() {
                *first = FORMAT;
            }
            let _ = NodeHead::parse(&bytes);
        }
    }
}
