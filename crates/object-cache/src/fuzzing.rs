//! What the fuzz targets call: bytes of PHP, of other nodes, and of the previous process. Each panics if a guarantee is violated.

use std::sync::Arc;

use crate::announcement;
use crate::site::{ObjectCacheSettings, ObjectCacheSite};
use crate::sites::{ObjectSites, PhpSession};
use crate::store::ChangeKind;

/// Messages of a process, each with its length in two bytes: damaged ones end it, and no store exceeds its limit.
pub fn messages(data: &[u8]) {
    let mut sites = sites();
    let mut session = PhpSession::default();
    session.receive(&mut sites, &start(), 0).expect("a start");
    let mut rest = data;
    while let Some((&[low, high], behind)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(behind.len());
        let (message, behind) = behind.split_at(length);
        rest = behind;
        let answer = session.receive(&mut sites, message, 7);
        check(&sites);
        let Ok(answer) = answer else {
            break;
        };
        let announced = answer.announcement.as_deref();
        assert!(announced.is_none(), "without other nodes: {announced:?}");
    }
    let _ = session.close(&mut sites);
    check(&sites);
}

/// An announcement removes what it names, and everything if it cannot be read.
pub fn announcement(data: &[u8]) {
    let (family, changes) = announcement::read(data);
    assert!(!changes.is_empty());
    let removes_all = changes.iter().any(|one| one.kind == ChangeKind::Flush);
    let length: usize = changes.iter().map(|one| 3 + one.key.len()).sum();
    assert!(removes_all || family.len() + length == data.len());
    let mut sites = sites();
    let mut session = PhpSession::default();
    session.receive(&mut sites, &start(), 0).expect("a start");
    let keys = changes.iter().filter(|one| !one.key.is_empty()).take(20);
    let keys: Vec<&[u8]> = keys.map(|one| one.key).collect();
    for key in &keys {
        session.receive(&mut sites, &set(key), 0).expect("a change");
    }
    sites.apply(Some(("site", data)));
    let store = &mut sites.by_name.get_mut("site").expect("configured").databases[0].store;
    if family.is_empty() || family == &NAMESPACE[..8] {
        for change in &changes {
            assert!(change.kind != ChangeKind::Delete || store.find(change.key, 0).is_none());
        }
        assert!(!removes_all || store.is_empty());
    }
}

/// A state of another process is taken over whole or not at all, and can be handed over once more.
pub fn handover(data: &[u8]) {
    let mut sites = sites();
    let Some(processes) = sites.take_over(data, 9) else {
        let mut stores = sites.by_name.values();
        assert!(stores.all(|site| site.databases.is_empty()));
        return;
    };
    check(&sites);
    let count = processes.len();
    let again = sites.hand_over(processes, 9);
    let mut other = self::sites();
    let taken = other.take_over(&again, 9).expect("a whole state");
    assert_eq!(taken.len(), count);
    for mut process in taken {
        let _ = process.receive(&mut other, &set(b"\x01gk"), 9);
        let _ = process.close(&mut other);
    }
    check(&other);
}

fn check(sites: &ObjectSites) {
    let databases = sites.by_name.values().flat_map(|site| &site.databases);
    let bytes: usize = databases.map(|one| one.store.bytes()).sum();
    assert!(bytes <= sites.limit);
}

fn sites() -> ObjectSites {
    let mut sites = ObjectSites::default();
    sites.configure(&ObjectCacheSettings {
        sites: vec![ObjectCacheSite {
            name: "site".to_owned(),
            token: "token".to_owned(),
            limit: LIMIT,
            figures: Arc::default(),
        }],
        limit: LIMIT,
    });
    sites
}

/// The first message of a process, which adopts fence and stamp.
fn start() -> Vec<u8> {
    let head = [1, crate::wire::VERSION, 1, 5];
    [&head[..], b"token", &[0, 0], &NAMESPACE, &[2; 32]].concat()
}

fn set(key: &[u8]) -> Vec<u8> {
    let length = u32::try_from(key.len()).unwrap_or(0).to_le_bytes();
    let head = [&[4, 1, 0, 0, 0, 1][..], &[0; 12], &length, &[1, 0, 0, 0]];
    [&head.concat(), key, b"v"].concat()
}

const NAMESPACE: [u8; 16] = *b"databasehostname";
const LIMIT: usize = 1 << 16;
