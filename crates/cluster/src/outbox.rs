//! Purges that other nodes may not have, in a file next to the stored pages. After a restart they are sent again.
//!
//! A purge is written before its publisher is informed that it is in effect on this node only. The file is emptied when all
//! members have applied its contents. After a crash purges may be sent twice, which does no harm.
//!
//! ```text
//! length of the record (u32, little-endian), then for each field: length of its name, name, length of its value (u32), value
//! ```

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::inbox::whole_site;
use crate::message::{Fields, Message, RemotePurge};
use crate::record_file::RecordFile;

/// The file, if there is a disk.
pub(crate) struct Outbox {
    file: Option<RecordFile>,
    /// The sites of the purges in the file.
    sites: BTreeSet<String>,
}

impl Outbox {
    /// An outbox. Reads nothing.
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self {
            file: path.map(RecordFile::new),
            sites: BTreeSet::new(),
        }
    }

    /// Whether the file is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.file.as_ref().is_none_or(RecordFile::is_empty)
    }

    /// The purges of an earlier run. Bytes after the first incomplete record were never acknowledged, and are ignored.
    pub(crate) fn read(&mut self) -> Vec<RemotePurge> {
        let Some(file) = &mut self.file else {
            return Vec::new();
        };
        let bytes = file.read().unwrap_or_else(|error| {
            tracing::warn!(%error, "purges of an earlier run that wait for the cluster cannot be read");
            Vec::new()
        });
        let (mut purges, mut rest, mut whole) = (Vec::new(), bytes.as_slice(), 0);
        while let Some(purge) = read_record(&mut rest) {
            self.sites.insert(purge.site.clone());
            purges.push(purge);
            whole = bytes.len() - rest.len();
        }
        file.keep_whole(whole);
        purges
    }

    /// Writes purges and waits until they are on the disk. A failure is logged: then they are lost when the process ends.
    pub(crate) fn keep<'p>(&mut self, purges: impl Iterator<Item = &'p RemotePurge>) {
        let Some(file) = &mut self.file else {
            return;
        };
        let mut bytes = Vec::new();
        for purge in purges {
            write_record(purge, &mut bytes);
            self.sites.insert(purge.site.clone());
        }
        if bytes.is_empty() {
            return;
        }
        let written = if file.has_room_for(bytes.len()) {
            file.append(&bytes)
        } else {
            // Replaces the whole file by one purge for each site.
            bytes.clear();
            for site in &self.sites {
                write_record(&whole_site(site), &mut bytes);
            }
            file.replace(&bytes)
        };
        if let Err(error) = written {
            tracing::warn!(%error, path = %file.path().display(), "purges that wait for the cluster cannot be written: a restart forgets them");
        }
    }

    /// Empties the file, because all members have its contents.
    pub(crate) fn clear(&mut self) {
        self.sites.clear();
        if let Some(Err(error)) = self.file.as_mut().map(RecordFile::remove) {
            // After a restart they are sent again, which purges nothing new.
            tracing::debug!(%error, "the purges that waited for the cluster cannot be removed");
        }
    }
}

fn write_record(purge: &RemotePurge, out: &mut Vec<u8>) {
    let message = Message {
        node: String::new(),
        sequence: 0,
        content: Some(purge.clone()),
    };
    let mut record = Vec::new();
    for (name, value) in message.fields() {
        record.push(u8::try_from(name.len()).unwrap_or(0));
        record.extend_from_slice(name.as_bytes());
        record.extend_from_slice(&length(value.len()).to_le_bytes());
        record.extend_from_slice(&value);
    }
    out.extend_from_slice(&length(record.len()).to_le_bytes());
    out.extend_from_slice(&record);
}

/// The first complete record; `None`: there is none.
fn read_record(rest: &mut &[u8]) -> Option<RemotePurge> {
    let mut record = take(rest)?;
    let mut fields = Fields::new();
    while let Some((&name_length, behind)) = record.split_first() {
        let (name, behind) = behind.split_at_checked(usize::from(name_length))?;
        let name = std::str::from_utf8(name).ok()?.to_owned();
        record = behind;
        fields.insert(name, take(&mut record)?.to_vec());
    }
    Message::read(fields)?.content
}

/// The bytes after a length.
fn take<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, behind) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (taken, behind) = behind.split_at_checked(length)?;
    *rest = behind;
    Some(taken)
}

/// Texts of a purge have at most 64 KiB.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use galley_policy::purge::{Purge, Scope, Strength};
    use proptest::prelude::*;

    use super::*;

    fn tag(site: &str, name: &str) -> RemotePurge {
        RemotePurge {
            site: site.to_owned(),
            purge: Purge {
                scope: Scope::Tag(name.to_owned()),
                strength: Strength::Soft,
            },
        }
    }

    #[test]
    fn purges_are_read_in_their_order_until_they_are_cleared() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cluster-outbox");
        let open = || Outbox::new(Some(path.clone()));
        let mut outbox = open();
        assert_eq!(outbox.read(), []);
        let all = [tag("a.test", "one"), tag("b.test", "two"), whole_site("c")];
        outbox.keep(all[..2].iter());
        outbox.keep(all[2..].iter());
        assert_eq!(open().read(), all);
        // A crash while a record was written.
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let mut after_crash = open();
        assert_eq!(after_crash.read(), all[..2]);
        after_crash.keep([tag("d.test", "four")].iter());
        let read = open().read();
        assert_eq!(read[..2], all[..2]);
        assert_eq!(read[2..], [tag("d.test", "four")]);
        outbox.clear();
        assert_eq!(open().read(), []);
        assert!(outbox.is_empty());
    }

    #[test]
    fn a_full_file_becomes_one_purge_for_each_site() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cluster-outbox");
        let mut outbox = Outbox::new(Some(path.clone()));
        let long = "x".repeat(60_000);
        for number in 0..100 {
            outbox.keep([tag(&format!("s{}", number % 2), &long)].iter());
        }
        let read = Outbox::new(Some(path)).read();
        assert_eq!(&read[..2], [whole_site("s0"), whole_site("s1")]);
        assert!(read.len() < 100);
    }

    proptest! {
        #[test]
        fn foreign_bytes_never_panic(bytes: Vec<u8>) {
            let mut rest = bytes.as_slice();
            while read_record(&mut rest).is_some() {}
        }
    }
}
