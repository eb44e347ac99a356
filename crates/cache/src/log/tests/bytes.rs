//! The format, byte by byte: the bytes are as documented, and damaged bytes are never accepted.

use proptest::prelude::*;

use super::*;
use crate::log::format::{
    Chain, HEADER_BYTES, Image, MARK_AT, RecordStamp, RunStart, mark, push_purge,
};
use crate::log::scan::{LogError, Scanned, scan};
use galley_policy::purge::Scope;
use std::time::SystemTime;

const GENERATION: Generation = Generation::from_bytes(*b"0123456789abcdef");
const START: RunStart = RunStart {
    number: 7,
    at: SystemTime::UNIX_EPOCH,
};

fn logged(number: u64, scope: Scope) -> LoggedPurge {
    LoggedPurge {
        site: SITE.into(),
        number,
        at: now(),
        purge: hard(scope),
    }
}

/// A file with a start and the records `appended`. All of it except for the last `unacknowledged` bytes is acknowledged.
fn file(appended: &[LoggedPurge], unacknowledged: usize) -> Vec<u8> {
    let image = Image::new(GENERATION, START, &[]);
    let (header, mut chain, mut bytes) = (image.header(), image.chain, image.bytes);
    let mut acknowledged = bytes.len();
    for (n, logged) in appended.iter().enumerate() {
        let mut record = Vec::new();
        let stamp = RecordStamp {
            number: logged.number,
            at: logged.at,
        };
        push_purge(&mut record, &logged.site, stamp, &logged.purge);
        chain.seal(&mut record);
        bytes.extend_from_slice(&record);
        if n + unacknowledged < appended.len() {
            acknowledged = bytes.len();
        }
    }
    bytes[MARK_AT..HEADER_BYTES].copy_from_slice(&mark(&header, acknowledged as u64));
    bytes
}

fn three() -> [LoggedPurge; 3] {
    [
        logged(8, Scope::Site),
        logged(9, Scope::Tag("t".into())),
        logged(
            10,
            Scope::Url {
                host: Some("h".into()),
                path: b"/p".to_vec(),
                query: Some(b"q".to_vec()),
            },
        ),
    ]
}

/// Literal bytes, so that no change of code breaks the files of existing installations.
#[test]
fn the_bytes_match_the_documented_format() {
    let bytes = file(&three()[2..], 0);
    let text = bytes.escape_ascii().to_string();
    assert_eq!(text, GOLDEN);
}

const GOLDEN: &str = "galleypl\\x01\\x00\\x00\\x008\\x00\\x00\\x000123456789abcdef\\x81\\x92F\\xe2\\xd37\\x93O\\xb2\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x9b\\x85\\x97Gn\\x92\\x19\\xc9\
    8\\x00\\x00\\x00\\xef\\x0b\\x82^\\x02\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x07\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00X\\xc9\\xa5\\xcd\\xab.l\\xcf\
    B\\x00\\x00\\x009\\xd7>\\x10\\x01\\x01\\x02\\x03\\x06\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x02\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\n\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00P\\\\\\x18\\xa3\\x01\\x00\\x00a.testh/pq\\xf4\\x83\\xbc\\x88\\xfb\\xe2\\xc6\\x84";

#[test]
fn no_flipped_bit_is_accepted() {
    let whole = file(&three(), 0);
    assert_eq!(scan(&whole).unwrap().purges, three());
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            assert!(scan(&damaged).is_err(), "byte {at} bit {bit}");
        }
    }
}

#[test]
fn a_flipped_bit_in_an_unacknowledged_record_loses_no_acknowledged_purge() {
    let whole = file(&three(), 1);
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            assert!(scan(&damaged).is_err(), "byte {at} bit {bit}");
        }
    }
}

#[test]
fn a_truncated_record_is_removed_only_if_it_was_not_acknowledged() {
    let (acknowledged, whole) = (file(&three()[..2], 0).len(), file(&three(), 1));
    for end in 0..whole.len() {
        let cut = scan(&whole[..end]);
        if end < acknowledged {
            assert!(cut.is_err(), "{end}");
        } else {
            let Scanned { purges, end, .. } = cut.unwrap();
            assert_eq!((purges, end), (three()[..2].to_vec(), acknowledged));
        }
    }
    let acknowledged = file(&three(), 0);
    for end in 0..acknowledged.len() {
        assert!(scan(&acknowledged[..end]).is_err(), "{end}");
    }
}

#[test]
fn invalid_logs_are_rejected() {
    let bytes = file(&three(), 0);
    let start = |number| Image::new(GENERATION, RunStart { number, ..START }, &[]);
    let mut zeros = bytes.clone();
    zeros.resize(bytes.len() + 512, 0);
    let mut foreign = file(&three()[..1], 0);
    let mut other = Vec::new();
    let stamp = RecordStamp {
        number: 9,
        at: now(),
    };
    push_purge(&mut other, SITE, stamp, &tag("t"));
    let mut chain = start(7).chain;
    chain.seal(&mut other);
    let not_next = foreign.len();
    foreign.extend_from_slice(&other);
    let table: Vec<(Vec<u8>, LogError)> = vec![
        (Vec::new(), LogError::Header),
        (vec![0; 4096], LogError::Header),
        (bytes[..HEADER_BYTES].to_vec(), LogError::Short),
        (zeros, LogError::Length(bytes.len())),
        (foreign, LogError::Length(not_next)),
        (file(&[logged(7, Scope::Site)], 0), LogError::NotRising(112)),
        (
            file(&[logged(8, Scope::Site), logged(8, Scope::Site)], 0),
            LogError::NotRising(174),
        ),
        (start(0).bytes, LogError::NotRising(56)),
        (start((1 << 62) + 1).bytes, LogError::NotRising(56)),
        (with_version(2), LogError::Version(2)),
        (resealed(|record| record[8] = 3), LogError::Record(56)),
        (resealed(|record| record[10] = 6), LogError::Record(56)),
        (resealed(|record| record[9] = 2), LogError::Record(56)),
        (resealed(|record| record[12] = 200), LogError::Record(56)),
        (resealed(|record| record[12] = 0), LogError::Record(56)),
        (resealed(|record| record[48] = 0xff), LogError::Record(56)),
        (no_start(), LogError::NoStart),
    ];
    for (bytes, why) in table {
        assert_eq!(scan(&bytes).err(), Some(why), "{}", bytes.escape_ascii());
    }
}

fn with_version(version: u8) -> Vec<u8> {
    let mut bytes = file(&[], 0);
    bytes[8] = version;
    let check = Chain::new(GENERATION).sum(&bytes[..32]);
    bytes[32..40].copy_from_slice(&check.to_le_bytes());
    bytes
}

/// A header and one purge record, to which `change` was applied before the checks were computed.
fn resealed(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let image = Image::new(GENERATION, START, &[]);
    let mut bytes = image.bytes[..HEADER_BYTES].to_vec();
    let mut record = Vec::new();
    let stamp = RecordStamp {
        number: 1,
        at: now(),
    };
    push_purge(&mut record, SITE, stamp, &tag("t"));
    change(&mut record);
    image.header().seal(&mut record);
    bytes.extend_from_slice(&record);
    bytes
}

fn no_start() -> Vec<u8> {
    let mut bytes = resealed(|_| {});
    let header = Image::new(GENERATION, START, &[]).header();
    bytes[MARK_AT..HEADER_BYTES].copy_from_slice(&mark(&header, 56));
    bytes
}

#[test]
fn texts_too_long_for_a_record_purge_the_whole_site() {
    let long = logged(8, Scope::Tag("t".repeat(64 * 1024 + 1)));
    assert_eq!(
        scan(&file(&[long], 0)).unwrap().purges,
        [logged(8, Scope::Site)]
    );
    let longest = logged(8, Scope::Tag("t".repeat(64 * 1024)));
    assert_eq!(
        scan(&file(std::slice::from_ref(&longest), 0))
            .unwrap()
            .purges,
        [longest]
    );
}

proptest! {
    #[test]
    fn scanning_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..400), at in any::<prop::sample::Index>()) {
        let _ = scan(&bytes);
        let mut damaged = file(&three(), 1);
        let at = at.index(damaged.len());
        damaged.truncate(at);
        damaged.extend_from_slice(&bytes);
        if let Ok(read) = scan(&damaged) {
            assert_eq!(read.purges, three()[..read.purges.len()]);
            assert!(read.purges.len() >= 2);
        }
    }
}
