//! The seal of an entry of the stream: which node's run has written it, as which of its entries, and at which id.
//!
//! The id is a part, so a copy of an entry under another id is no entry of a node. A missing entry shows by the numbers.
//!
//! ```text
//!   1  format
//!  16  the id of the entry before, in the same run; 0: it is the first one, or the entries before are lost
//!  32  MAC of the context, the id, the 17 bytes above, and all other fields of the entry, sorted by name
//! ```

use std::collections::BTreeMap;

use crate::cluster_key::{ClusterKey, MAC};
use crate::message::Fields;
use crate::stream_id::StreamId;

/// The value of [`FIELD`] for an entry.
pub(crate) fn seal(
    key: &ClusterKey,
    id: StreamId,
    previous: StreamId,
    fields: &[(&str, Vec<u8>)],
) -> Vec<u8> {
    let fields = fields
        .iter()
        .map(|(name, value)| (*name, value.as_slice()))
        .collect();
    let mut seal = head(previous);
    let mac = key.sign_purge(parts(&id.to_bytes(), &seal, &fields));
    seal.extend_from_slice(&mac);
    seal
}

/// The id of the entry before, if a node has written these fields at this id.
pub(crate) fn open(key: &ClusterKey, id: StreamId, fields: &Fields) -> Option<StreamId> {
    let (head, mac) = fields.get(FIELD)?.split_last_chunk::<MAC>()?;
    let (&format, previous) = head.split_first()?;
    if format != FORMAT {
        return None;
    }
    let others = fields.iter().filter(|(name, _)| *name != FIELD);
    let others = others
        .map(|(name, value)| (name.as_str(), value.as_slice()))
        .collect();
    let is_ours = key.is_purge_signed(parts(&id.to_bytes(), head, &others), mac);
    is_ours.then_some(StreamId::from_bytes(previous.try_into().ok()?))
}

fn head(previous: StreamId) -> Vec<u8> {
    let mut head = Vec::with_capacity(1 + 16 + MAC);
    head.push(FORMAT);
    head.extend_from_slice(&previous.to_bytes());
    head
}

fn parts<'p>(
    id: &'p [u8],
    head: &'p [u8],
    fields: &'p BTreeMap<&'p str, &'p [u8]>,
) -> impl Iterator<Item = &'p [u8]> {
    let fields = fields
        .iter()
        .flat_map(|(name, value)| [name.as_bytes(), *value]);
    [CONTEXT, id, head].into_iter().chain(fields)
}

/// The name of the field.
pub(crate) const FIELD: &str = "seal";

const FORMAT: u8 = 1;

const CONTEXT: &[u8] = b"entry";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(secret: u8) -> ClusterKey {
        ClusterKey::derive(&[secret; 32], "test").unwrap()
    }

    fn id(text: &str) -> StreamId {
        StreamId::parse(text).unwrap()
    }

    #[test]
    fn an_entry_is_accepted_only_as_a_node_has_written_it() {
        let fields = [("node", b"n".to_vec()), ("seq", b"1".to_vec())];
        let sealed = seal(&key(1), id("5-0"), id("4-0"), &fields);
        let mut all: Fields = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        assert_eq!(open(&key(1), id("5-0"), &all), None);
        all.insert(FIELD.to_owned(), sealed.clone());
        assert_eq!(open(&key(1), id("5-0"), &all), Some(id("4-0")));
        assert_eq!(open(&key(1), id("5-1"), &all), None);
        assert_eq!(open(&key(2), id("5-0"), &all), None);
        for at in 0..sealed.len() {
            let mut changed = all.clone();
            changed.get_mut(FIELD).unwrap()[at] ^= 1;
            assert_eq!(open(&key(1), id("5-0"), &changed), None, "{at}");
        }
        for (name, value) in [("seq", "2"), ("site", "a"), ("nod", "en")] {
            let mut changed = all.clone();
            changed.insert(name.to_owned(), value.as_bytes().to_vec());
            assert_eq!(open(&key(1), id("5-0"), &changed), None, "{name}");
        }
        all.remove("seq");
        assert_eq!(open(&key(1), id("5-0"), &all), None);
    }

    proptest! {
        #[test]
        fn arbitrary_seals_are_rejected(seal: Vec<u8>) {
            let fields = Fields::from([(FIELD.to_owned(), seal)]);
            prop_assert_eq!(open(&key(1), id("5-0"), &fields), None);
        }
    }
}
