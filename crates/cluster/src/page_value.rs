//! A shared page as the engine has it. All numbers are little-endian.
//!
//! ```text
//!   1  version
//!   8  for how many milliseconds the engine was told to keep it
//!   2  length of the point
//!      point: see [`crate::point`]
//!      record, which only the server reads
//!  32  MAC of the page's name and of all before
//! ```

use std::ops::Range;
use std::time::Duration;

use crate::cluster_key::{ClusterKey, MAC, PageName};
use crate::point::StreamPoint;

/// A value that a node has stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageValue {
    pub(crate) point: StreamPoint,
    pub(crate) lifetime: Duration,
    /// Where the record is in the value.
    pub(crate) record: Range<usize>,
}

/// The bytes to be stored; `None`: the point is longer than any is.
pub(crate) fn seal(
    key: &ClusterKey,
    page: PageName<'_>,
    point: &StreamPoint,
    lifetime: Duration,
    record: &[u8],
) -> Option<Vec<u8>> {
    let point = point.to_string();
    let length = u16::try_from(point.len()).ok()?;
    let mut value = Vec::with_capacity(HEAD + point.len() + record.len() + MAC);
    value.push(VERSION);
    value.extend_from_slice(&milliseconds(lifetime).to_le_bytes());
    value.extend_from_slice(&length.to_le_bytes());
    value.extend_from_slice(point.as_bytes());
    value.extend_from_slice(record);
    key.seal(page, &mut value);
    Some(value)
}

/// Reads a value, its MAC first; `None`: no node of this version has stored it under this name.
pub(crate) fn open(key: &ClusterKey, page: PageName<'_>, sealed: &[u8]) -> Option<PageValue> {
    parse(key.open(page, sealed)?)
}

/// What a MAC has covered.
fn parse(value: &[u8]) -> Option<PageValue> {
    let (&version, rest) = value.split_first()?;
    if version != VERSION {
        return None;
    }
    let (lifetime, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let length = usize::from(u16::from_le_bytes(*length));
    let (point, _record) = rest.split_at_checked(length)?;
    Some(PageValue {
        point: StreamPoint::parse(std::str::from_utf8(point).ok()?)?,
        lifetime: Duration::from_millis(u64::from_le_bytes(*lifetime)),
        record: HEAD + length..value.len(),
    })
}

/// Reads arbitrary bytes as a value, and as one with a correct MAC.
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
        let again = seal(&key, page, &value.point, value.lifetime, record);
        // One spelling, but for zeros before the numbers of a point.
        assert!(again.is_some_and(|again| again.len() <= sealed.len()));
    }
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

const VERSION: u8 = 1;

/// Before the point.
const HEAD: usize = 1 + 8 + 2;

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

    fn point() -> StreamPoint {
        StreamPoint::parse("run/history/epoch 12-3").unwrap()
    }

    proptest! {
        #[test]
        fn a_value_is_read_as_it_was_written(record: Vec<u8>, lifetime: u64) {
            let lifetime = Duration::from_millis(lifetime);
            let sealed = seal(&key(), PAGE, &point(), lifetime, &record).unwrap();
            let read = open(&key(), PAGE, &sealed).unwrap();
            prop_assert_eq!(&sealed[read.record.clone()], &record[..]);
            prop_assert_eq!((read.point, read.lifetime), (point(), lifetime));
        }

        #[test]
        fn any_change_is_noticed(record: Vec<u8>, at: usize, bit in 0_u8..8) {
            let mut sealed = seal(&key(), PAGE, &point(), Duration::ZERO, &record).unwrap();
            let at = at % sealed.len();
            sealed[at] ^= 1 << bit;
            prop_assert_eq!(open(&key(), PAGE, &sealed), None);
        }

        #[test]
        fn foreign_bytes_are_no_value(bytes: Vec<u8>) {
            prop_assert_eq!(open(&key(), PAGE, &bytes), None);
        }

        #[test]
        fn whatever_a_mac_covers_is_read_without_harm(mut bytes: Vec<u8>) {
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            if let Some(value) = parse(&bytes) {
                prop_assert!(bytes.get(value.record).is_some());
            }
        }
    }

    #[test]
    fn a_value_of_another_version_is_none() {
        let mut value = vec![VERSION + 1; 40];
        key().seal(PAGE, &mut value);
        assert_eq!(open(&key(), PAGE, &value), None);
    }
}
