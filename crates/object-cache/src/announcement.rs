//! What a change tells other stores that may have a value of the same key: those of other nodes, and those of the same database under another
//! name of its host. They only remove; no value is in it.
//!
//! ```text
//! family     8: the database. Fewer bytes: everything of the site
//! n times    u8 1 a key, 2 a group, 3 everything; u16 length, key or group
//! ```

use std::pin::Pin;

use tokio::sync::{mpsc, oneshot};

use crate::store::{ChangeKind, ChangeOutcome, MAX_KEY, ValueChange};

/// A change of another node: the site, and the announcement; `None`: changes may be missing.
pub type RemoteChange = Option<(String, Vec<u8>)>;

/// Applies changes of other nodes. Clones share it.
#[derive(Clone, Debug)]
pub struct RemoteChanges(pub(crate) mpsc::Sender<RemoteBatch>);

/// Changes, and who waits for them.
pub(crate) type RemoteBatch = (Vec<RemoteChange>, oneshot::Sender<()>);

impl RemoteChanges {
    /// Applies changes. When this returns, nobody reads the former values any more. Blocks for a moment; not for use in tasks.
    pub fn apply(&self, changes: Vec<RemoteChange>) {
        let (done, wait) = oneshot::channel();
        // Without the thread, no values exist.
        if self.0.blocking_send((changes, done)).is_ok() {
            let _ = wait.blocking_recv();
        }
    }
}

/// The other nodes of a cluster.
pub trait OtherNodes: Send + Sync {
    /// Called before the first value is stored: from now on, changes of other nodes must be applied here before they are acknowledged.
    fn connect(&self, changes: RemoteChanges);

    /// Whether all changes that other nodes have acknowledged are applied here.
    fn is_current(&self) -> bool;

    /// Tells them of changes that are in effect here, at once. The result says whether no node can read the former values any more.
    fn announce(&self, site: &str, announcement: Vec<u8>) -> PendingAnnouncement;
}

/// The future result of [`OtherNodes::announce`].
pub type PendingAnnouncement = Pin<Box<dyn Future<Output = bool> + Send>>;

/// The announcement of changes; `None`: they removed or replaced nothing.
pub(crate) fn of_changes(
    namespace: &[u8; 16],
    changes: &[ValueChange<'_>],
    outcomes: &[ChangeOutcome],
) -> Option<Vec<u8>> {
    let mut bytes = family(namespace).to_vec();
    for (change, outcome) in changes.iter().zip(outcomes) {
        let (word, key) = match (change.kind, outcome) {
            (ChangeKind::Add | ChangeKind::Increment, ChangeOutcome::Refused) => continue,
            (ChangeKind::Flush, _) => return Some(everything(namespace)),
            (ChangeKind::FlushGroup, _) => (GROUP, change.key),
            _ => (KEY, change.key),
        };
        // No store has a value of a longer key.
        if let Ok(length) = u16::try_from(key.len())
            && key.len() <= MAX_KEY
        {
            bytes.push(word);
            bytes.extend(length.to_le_bytes());
            bytes.extend(key);
        }
    }
    match bytes.len() {
        FAMILY => None,
        0..=MAX_BYTES => Some(bytes),
        _ => Some(everything(namespace)),
    }
}

/// The announcement that everything of a database was removed.
pub(crate) fn everything(namespace: &[u8; 16]) -> Vec<u8> {
    [family(namespace), &[EVERYTHING, 0, 0]].concat()
}

/// The family, and what to remove. What cannot be read removes everything.
pub(crate) fn read(bytes: &[u8]) -> (&[u8], Vec<ValueChange<'_>>) {
    let (family, mut rest) = bytes.split_at_checked(FAMILY).unwrap_or_default();
    let mut changes = Vec::new();
    while let Some(change) = next(&mut rest) {
        changes.push(change);
    }
    if !rest.is_empty() || changes.is_empty() {
        changes = vec![removal(ChangeKind::Flush, b"")];
    }
    (family, changes)
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<ValueChange<'a>> {
    let (&[word, low, high], behind) = rest.split_first_chunk()?;
    let (key, behind) = behind.split_at_checked(usize::from(u16::from_le_bytes([low, high])))?;
    let kind = match word {
        KEY => ChangeKind::Delete,
        GROUP => ChangeKind::FlushGroup,
        EVERYTHING => ChangeKind::Flush,
        _ => return None,
    };
    *rest = behind;
    Some(removal(kind, key))
}

fn removal(kind: ChangeKind, key: &[u8]) -> ValueChange<'_> {
    ValueChange {
        kind,
        lease: 0,
        ttl: 0,
        key,
        value: b"",
    }
}

/// The part of a namespace that does not depend on the name of the database's host.
pub(crate) fn family(namespace: &[u8; 16]) -> &[u8] {
    namespace.split_at(FAMILY).0
}

const FAMILY: usize = 8;

const KEY: u8 = 1;
const GROUP: u8 = 2;
const EVERYTHING: u8 = 3;

/// More becomes the removal of everything: the stream of a cluster keeps the entries of minutes.
const MAX_BYTES: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn changes_that_change_nothing_are_not_announced() {
        let change = |kind| removal(kind, b"\x01gk");
        let refused = [ChangeKind::Add, ChangeKind::Increment].map(change);
        assert_eq!(
            of_changes(&[7; 16], &refused, &[ChangeOutcome::Refused; 2]),
            None
        );
        let deleted = [change(ChangeKind::Delete)];
        let bytes = of_changes(&[7; 16], &deleted, &[ChangeOutcome::Refused]).unwrap();
        let (family, read) = read(&bytes);
        assert_eq!((family, read[0].key), (&[7; 8][..], &b"\x01gk"[..]));
    }

    proptest! {
        #[test]
        fn what_cannot_be_read_removes_everything(bytes: Vec<u8>) {
            let (_, changes) = read(&bytes);
            prop_assert!(!changes.is_empty());
            let is_whole = changes.iter().all(|change| change.kind != ChangeKind::Flush);
            let length: usize = changes.iter().map(|change| 3 + change.key.len()).sum();
            prop_assert!(!is_whole || length + FAMILY == bytes.len());
        }

        #[test]
        fn announcements_read_back(keys in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..600), 1..99)) {
            let changes: Vec<_> = keys.iter().map(|key| removal(ChangeKind::Delete, key)).collect();
            let outcomes = vec![ChangeOutcome::Done; keys.len()];
            let Some(bytes) = of_changes(&[1; 16], &changes, &outcomes) else {
                prop_assert!(keys.iter().all(|key| key.len() > MAX_KEY));
                return Ok(());
            };
            prop_assert!(bytes.len() <= MAX_BYTES);
            let (_, read) = read(&bytes);
            let all = read.iter().any(|change| change.kind == ChangeKind::Flush);
            let short: Vec<_> = keys.iter().map(Vec::as_slice).filter(|key| key.len() <= MAX_KEY).collect();
            prop_assert!(all || read.iter().map(|change| change.key).eq(short));
        }
    }
}
