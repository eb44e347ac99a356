//! Purges that other nodes may not have, in a file beside the stored pages: a restart sends them again.
//!
//! A purge is written before its publisher is told that it holds on this node only. The file is emptied when all members have
//! applied what is in it. What a crash leaves behind may be sent twice, which does no harm.
//!
//! ```text
//! length of the record (u32, little-endian), then for each field: length of its name, name, length of its value (u32), value
//! ```

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::inbox::whole_site;
use crate::message::{Fields, Message, RemotePurge};

/// The file, if there is a disk.
pub(crate) struct Outbox {
    path: Option<PathBuf>,
    file: Option<File>,
    bytes: usize,
    /// Of the purges in it.
    sites: BTreeSet<String>,
}

impl Outbox {
    /// Connects to nothing, and reads nothing.
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self {
            path,
            file: None,
            bytes: 0,
            sites: BTreeSet::new(),
        }
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// What an earlier run left. The part behind a record that is not whole was never promised to anybody.
    pub(crate) fn read(&mut self) -> Vec<RemotePurge> {
        let Some(path) = &self.path else {
            return Vec::new();
        };
        let mut bytes = Vec::new();
        let most = u64::try_from(MOST_BYTES * 2).unwrap_or(u64::MAX);
        match File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => {
                tracing::warn!(%error, "purges of an earlier run that wait for the cluster cannot be read");
                return Vec::new();
            }
        }
        let mut purges = Vec::new();
        let mut rest = bytes.as_slice();
        let mut torn = rest;
        while let Some(purge) = read_record(&mut rest) {
            purges.push(purge);
            torn = rest;
        }
        self.bytes = bytes.len() - torn.len();
        if !torn.is_empty()
            && let Err(error) = truncate(path, self.bytes)
        {
            tracing::warn!(%error, path = %path.display(), "a torn record cannot be removed: a second crash forgets the purges behind it");
        }
        self.sites
            .extend(purges.iter().map(|purge| purge.site.clone()));
        purges
    }

    /// Writes purges, and waits until they are on the disk. A failure is logged: then they live as long as the process.
    pub(crate) fn keep<'p>(&mut self, purges: impl Iterator<Item = &'p RemotePurge>) {
        let Some(path) = self.path.clone() else {
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
        let written = if self.bytes + bytes.len() > MOST_BYTES {
            self.replace()
        } else {
            self.append(&path, &bytes)
        };
        if let Err(error) = written {
            self.file = None;
            tracing::warn!(%error, path = %path.display(), "purges that wait for the cluster cannot be written: a restart forgets them");
        }
    }

    fn append(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            closed => {
                let open = File::options().create(true).append(true).open(path)?;
                closed.insert(open)
            }
        };
        if let Err(error) = file.write_all(bytes).and_then(|()| file.sync_data()) {
            // A part of a record would hide the records that are appended behind it.
            truncate(path, self.bytes)?;
            return Err(error);
        }
        self.bytes += bytes.len();
        Ok(())
    }

    /// One purge of everything for each site, in the place of all that is in the file.
    fn replace(&mut self) -> io::Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let mut bytes = Vec::new();
        for site in &self.sites {
            write_record(&whole_site(site), &mut bytes);
        }
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&bytes)?;
        file.sync_data()?;
        fs::rename(&new, path)?;
        self.file = None;
        self.bytes = bytes.len();
        Ok(())
    }

    /// All members have what is in it.
    pub(crate) fn clear(&mut self) {
        let Some(path) = &self.path else { return };
        self.file = None;
        self.bytes = 0;
        self.sites.clear();
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                // They are sent again after a restart, which purges what is purged already.
                tracing::debug!(%error, "the purges that waited for the cluster cannot be removed");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

/// Cuts a file off behind its last whole record.
fn truncate(path: &Path, bytes: usize) -> io::Result<()> {
    let length = u64::try_from(bytes).unwrap_or(u64::MAX);
    let file = File::options().write(true).open(path)?;
    file.set_len(length)?;
    file.sync_data()
}

fn write_record(purge: &RemotePurge, out: &mut Vec<u8>) {
    let message = Message {
        node: String::new(),
        sequence: 0,
        content: purge.clone(),
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

/// The first record; `None`: there is none that is whole.
fn read_record(rest: &mut &[u8]) -> Option<RemotePurge> {
    let mut record = take(rest)?;
    let mut fields = Fields::new();
    while let Some((&name_length, behind)) = record.split_first() {
        let (name, behind) = behind.split_at_checked(usize::from(name_length))?;
        let name = std::str::from_utf8(name).ok()?.to_owned();
        record = behind;
        fields.insert(name, take(&mut record)?.to_vec());
    }
    Some(Message::read(fields)?.content)
}

/// The bytes behind a length.
fn take<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, behind) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (taken, behind) = behind.split_at_checked(length)?;
    *rest = behind;
    Some(taken)
}

/// Texts of a purge have 64 KiB at most.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// More is replaced by one purge for each site.
const MOST_BYTES: usize = 4 << 20;

#[cfg(test)]
mod tests {
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
        // A crash in the middle of a record.
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
