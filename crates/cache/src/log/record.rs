//! One purge as bytes, for another process: a record of the log without its number and chain.

use std::time::UNIX_EPOCH;

use galley_policy::purge::Purge;

use super::format::{RECORD_BYTES, RecordStamp, push_purge};
use super::scan::read_purge;

/// A purge with its site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeRecord {
    /// The name of the site, at most 1,024 bytes.
    pub site: String,
    /// The scope of the purge.
    pub purge: Purge,
}

impl PurgeRecord {
    /// The bytes. A purge with very long texts becomes a purge of its whole site.
    pub fn bytes(&self) -> Vec<u8> {
        let nowhere = RecordStamp {
            number: 0,
            at: UNIX_EPOCH,
        };
        let mut record = Vec::new();
        push_purge(&mut record, &self.site, nowhere, &self.purge);
        record
    }

    /// Parses the result of [`PurgeRecord::bytes`].
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < RECORD_BYTES {
            return None;
        }
        let (site, purge) = read_purge(bytes)?;
        Some(Self { site, purge })
    }
}

#[cfg(test)]
mod tests {
    use galley_policy::purge::{Scope, Strength};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_purge_reads_back() {
        let record = PurgeRecord {
            site: "a.test".to_owned(),
            purge: Purge {
                scope: Scope::Url {
                    host: None,
                    path: b"/a".to_vec(),
                    query: Some(b"b=1".to_vec()),
                },
                strength: Strength::Hard,
            },
        };
        assert_eq!(PurgeRecord::read(&record.bytes()), Some(record));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = PurgeRecord::read(&bytes);
        }
    }
}
