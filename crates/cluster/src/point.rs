//! Points of the stream, and which purges of a site came before them: so that a page of another node can be compared with the purges
//! that this node knows.
//!
//! A page carries a point that was in the stream before its request was sent, so every purge up to that point had been published. A
//! node notes again and again that all purges which it has numbered so far are in the stream at a point or before. A page of that
//! point or a later one contains the effect of all of them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::stream_id::StreamId;

/// An entry of the stream, in one history of the engine's data. Points of two histories cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPoint {
    /// The engine's run and replication id, and the epoch.
    data: Arc<str>,
    last: StreamId,
}

impl StreamPoint {
    pub(crate) fn new(data: &Arc<str>, last: StreamId) -> Self {
        Self {
            data: Arc::clone(data),
            last,
        }
    }

    /// `None`: it cannot be understood.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (data, last) = text.rsplit_once(' ')?;
        Some(Self {
            data: data.into(),
            last: StreamId::parse(last)?,
        })
    }
}

impl fmt::Display for StreamPoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.data, self.last)
    }
}

/// For one site: the points at which all purges up to a number were in the stream, the oldest first.
#[derive(Debug, Default)]
pub struct PurgePoints {
    data: Option<Arc<str>>,
    points: VecDeque<(StreamId, u64)>,
}

impl PurgePoints {
    /// Notes that all purges up to `number` are in the stream at `point` or before.
    pub fn note(&mut self, point: &StreamPoint, number: u64) {
        if self.data.as_ref() != Some(&point.data) {
            self.points.clear();
            self.data = Some(Arc::clone(&point.data));
        }
        // With the same purges, the older point permits more pages. A stream that begins anew in the same data was deleted by
        // somebody: pages of before may have points behind it, until it has come past the last point.
        let is_known = |(last, noted): &(StreamId, u64)| *noted >= number || *last > point.last;
        if self.points.back().is_some_and(is_known) {
            return;
        }
        if self.points.len() >= MOST_POINTS {
            self.points.pop_front();
        }
        self.points.push_back((point.last, number));
    }

    /// A number up to which a page of `point` contains all purges; `None`: none is known.
    pub fn number_at(&self, point: &StreamPoint) -> Option<u64> {
        if self.data.as_ref() != Some(&point.data) {
            return None;
        }
        let later = self.points.partition_point(|(last, _)| *last <= point.last);
        let (_, number) = self.points.get(later.checked_sub(1)?)?;
        Some(*number)
    }
}

/// Points of a site, one for each purge at most: pages that are older than so many purges are not used.
const MOST_POINTS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(data: &str, last: &str) -> StreamPoint {
        StreamPoint::parse(&format!("{data} {last}")).unwrap()
    }

    #[test]
    fn a_point_stands_for_the_purges_before_it() {
        let mut points = PurgePoints::default();
        assert_eq!(points.number_at(&at("a", "5-0")), None);
        points.note(&at("a", "5-0"), 10);
        points.note(&at("a", "7-0"), 10);
        points.note(&at("a", "9-0"), 12);
        for (last, wanted) in [
            ("4-9", None),
            ("5-0", Some(10)),
            ("8-9", Some(10)),
            ("9-0", Some(12)),
            ("99-0", Some(12)),
        ] {
            assert_eq!(points.number_at(&at("a", last)), wanted, "{last}");
        }
        assert_eq!(points.number_at(&at("b", "9-0")), None);
    }

    #[test]
    fn after_a_loss_of_data_no_older_point_is_known() {
        let mut points = PurgePoints::default();
        points.note(&at("a", "5-0"), 10);
        points.note(&at("b", "1-0"), 11);
        assert_eq!(points.number_at(&at("a", "5-0")), None);
        assert_eq!(points.number_at(&at("b", "5-0")), Some(11));
        // A stream that somebody has deleted.
        points.note(&at("b", "0-1"), 12);
        assert_eq!(points.number_at(&at("b", "5-0")), Some(11));
        assert_eq!(points.number_at(&at("b", "0-1")), None);
        points.note(&at("b", "9-0"), 12);
        assert_eq!(points.number_at(&at("b", "9-0")), Some(12));
    }

    #[test]
    fn the_oldest_points_are_forgotten() {
        let mut points = PurgePoints::default();
        let id = |number: u64| at("a", &format!("{number}-0"));
        for number in 1..=2000 {
            points.note(&id(number), number);
        }
        assert_eq!(points.points.len(), MOST_POINTS);
        assert_eq!(points.number_at(&id(10)), None);
        assert_eq!(points.number_at(&id(1500)), Some(1500));
    }

    #[test]
    fn points_read_back() {
        let point = at("run/history epoch", "5-1");
        assert_eq!(StreamPoint::parse(&point.to_string()), Some(point));
        assert_eq!(StreamPoint::parse("5-1"), None);
    }
}
