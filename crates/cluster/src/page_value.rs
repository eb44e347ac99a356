//! The format of a shared page in the engine. All numbers are little-endian.
//!
//! ```text
//!   1  version
//!   8  the lifetime with which it was stored, in milliseconds
//!   1  number of points; for each of them:
//!   8    a `born` of parts of the page, at the node that stored the record
//!   2    length of the point
//!        the point: those parts were generated after all purges up to it, see [`crate::point`]
//!      record, which only the server reads
//!  32  MAC of the page's name and of all before
//! ```

use std::ops::Range;
use std::time::Duration;

use crate::cluster_key::{ClusterKey, MAC, PageName};
use crate::point::{BornPoint, StreamPoint};

/// A value that a node has stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageValue {
    pub(crate) points: Vec<BornPoint>,
    pub(crate) lifetime: Duration,
    /// The position of the record in the value.
    pub(crate) record: Range<usize>,
}

/// The bytes to be stored; `None`: there are more or longer points than the format permits.
pub(crate) fn seal(
    key: &ClusterKey,
    page: PageName<'_>,
    points: &[BornPoint],
    lifetime: Duration,
    record: &[u8],
) -> Option<Vec<u8>> {
    let mut value = Vec::with_capacity(HEAD + points.len() * POINT + record.len() + MAC);
    value.push(VERSION);
    value.extend_from_slice(&milliseconds(lifetime).to_le_bytes());
    value.push(u8::try_from(points.len()).ok()?);
    for BornPoint { born, point } in points {
        let point = point.to_string();
        value.extend_from_slice(&born.to_le_bytes());
        value.extend_from_slice(&u16::try_from(point.len()).ok()?.to_le_bytes());
        value.extend_from_slice(point.as_bytes());
    }
    value.extend_from_slice(record);
    key.seal(page, &mut value);
    Some(value)
}

/// Verifies the MAC and parses the value; `None`: no node of this version has stored it under this name.
pub(crate) fn open(key: &ClusterKey, page: PageName<'_>, sealed: &[u8]) -> Option<PageValue> {
    parse(key.open(page, sealed)?)
}

/// Parses an authenticated value.
fn parse(value: &[u8]) -> Option<PageValue> {
    let (&version, rest) = value.split_first()?;
    if version != VERSION {
        return None;
    }
    let (lifetime, rest) = rest.split_first_chunk()?;
    let (&count, mut rest) = rest.split_first()?;
    let mut points = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let (born, after) = rest.split_first_chunk()?;
        let (length, after) = after.split_first_chunk()?;
        let (point, after) = after.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        points.push(BornPoint {
            born: u64::from_le_bytes(*born),
            point: StreamPoint::parse(std::str::from_utf8(point).ok()?)?,
        });
        rest = after;
    }
    Some(PageValue {
        points,
        lifetime: Duration::from_millis(u64::from_le_bytes(*lifetime)),
        record: value.len() - rest.len()..value.len(),
    })
}

/// Parses arbitrary bytes as a value, and as a value with a correct MAC.
#[cfg(fuzzing)]
pub fn fuzz(bytes: &[u8]) {
    let Some(key) = ClusterKey::derive(&[7; 32], "fuzz") else {
        return;
    };
    let page = PageName {
        site: "a.test",
        key: b"/",
    };
    assert!(open(&key, page, bytes).is_none(), "a MAC was guessed");
    let mut sealed = bytes.to_vec();
    key.seal(page, &mut sealed);
    if let Some(value) = open(&key, page, &sealed) {
        let record = sealed.get(value.record).unwrap_or_default();
        let again = seal(&key, page, &value.points, value.lifetime, record);
        // Values are unambiguous, except for zeros before the numbers of a point.
        assert!(again.is_some_and(|again| again.len() <= sealed.len()));
    }
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Version 2 could have points of entries without a seal.
const VERSION: u8 = 3;

/// The length of the part before the points.
const HEAD: usize = 1 + 8 + 1;

/// The maximum length of most points.
const POINT: usize = 8 + 2 + 160;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGE: PageName<'_> = PageName {
        site: "a.test",
        key: b"/page",
    };

    fn key() -> ClusterKey {
        ClusterKey::derive(&[1; 32], "test").unwrap()
    }

    fn points(count: u8) -> Vec<BornPoint> {
        let point = |born: u8| BornPoint {
            born: u64::from(born),
            point: StreamPoint::parse(&format!("run/history/epoch 12-{born}")).unwrap(),
        };
        (0..count).map(point).collect()
    }

    proptest! {
        #[test]
        fn a_value_is_read_as_it_was_written(record: Vec<u8>, lifetime: u64, count: u8) {
            let lifetime = Duration::from_millis(lifetime);
            let sealed = seal(&key(), PAGE, &points(count), lifetime, &record).unwrap();
            let read = open(&key(), PAGE, &sealed).unwrap();
            prop_assert_eq!(&sealed[read.record.clone()], &record[..]);
            prop_assert_eq!((read.points, read.lifetime), (points(count), lifetime));
        }

        #[test]
        fn any_change_is_detected(record: Vec<u8>, at: usize, bit in 0_u8..8) {
            let mut sealed = seal(&key(), PAGE, &points(3), Duration::ZERO, &record).unwrap();
            let at = at % sealed.len();
            sealed[at] ^= 1 << bit;
            prop_assert_eq!(open(&key(), PAGE, &sealed), None);
        }

        #[test]
        fn arbitrary_bytes_are_rejected(bytes: Vec<u8>) {
            prop_assert_eq!(open(&key(), PAGE, &bytes), None);
        }

        #[test]
        fn authenticated_bytes_never_panic(mut bytes: Vec<u8>) {
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            if let Some(value) = parse(&bytes) {
                prop_assert!(bytes.get(value.record).is_some());
            }
        }
    }

    #[test]
    fn a_value_of_another_version_is_rejected() {
        let mut value = vec![VERSION + 1; 40];
        key().seal(PAGE, &mut value);
        assert_eq!(open(&key(), PAGE, &value), None);
    }
}
