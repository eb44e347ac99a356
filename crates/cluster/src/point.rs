//! Points of the stream, and which purges of a site were published before them, so that a page of another node can be compared
//! with the purges that this node knows.
//!
//! A page contains a point that was in the stream before its request was sent, so every purge up to that point had been published
//! before. A node regularly records that all purges that it has numbered so far are in the stream up to a point. A page with that
//! point or a later one contains the effect of all of them.
//!
//! Conversely, a response that was generated after all purges up to a number contains the effect of all purges of the stream up to
//! a point, if none of these has a higher number. So a part of a page that was stored earlier gets a point when the page is shared.

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

    /// Parses a point; `None`: invalid.
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

/// A number of a node's purges, and a point: a page that was generated at that node after all purges up to the number was
/// generated after all purges up to the point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BornPoint {
    /// The number, at the node that shares a page.
    pub born: u64,
    /// The point, for all nodes.
    pub point: StreamPoint,
}

/// A node's knowledge of its purges and the stream at one time.
#[derive(Clone, Debug)]
pub struct NotedPoints {
    /// All purges that the node has numbered are in the stream up to this point; `None`: one may be missing.
    pub published: Option<StreamPoint>,
    /// All purges in the stream up to this point have a number at the node; `None`: not known.
    pub applied: Option<StreamPoint>,
}

/// For one site: the points at which all purges up to a number were in the stream, the oldest first.
#[derive(Debug, Default)]
pub struct PurgePoints {
    data: Option<Arc<str>>,
    points: VecDeque<(StreamId, u64)>,
    /// Numbers, with the newest entry up to which no purge of the stream has a higher number.
    applied: VecDeque<(u64, StreamId)>,
}

impl PurgePoints {
    /// Records points while `number` is the newest.
    pub fn note(&mut self, points: &NotedPoints, number: u64) {
        if let Some(point) = &points.published {
            self.note_published(point, number);
        }
        if let Some(point) = &points.applied {
            self.note_applied(point, number);
        }
    }

    fn begin(&mut self, data: &Arc<str>) {
        if self.data.as_ref() != Some(data) {
            *self = Self {
                data: Some(Arc::clone(data)),
                ..Self::default()
            };
        }
    }

    /// Records that no purge in the stream up to `point` has a number above `number`.
    fn note_applied(&mut self, point: &StreamPoint, number: u64) {
        self.begin(&point.data);
        match self.applied.back_mut() {
            Some((known, last)) if *known == number => *last = point.last,
            Some((known, _)) if *known > number => {}
            _ => {
                if self.applied.len() >= MAX_POINTS {
                    self.applied.pop_front();
                }
                self.applied.push_back((number, point.last));
            }
        }
    }

    /// The point for a page that was generated after all purges up to `born`: it was generated after all purges of the stream
    /// up to that point. `None`: unknown.
    pub fn of_born(&self, born: u64) -> Option<BornPoint> {
        let later = self.applied.partition_point(|(known, _)| *known <= born);
        let (_, last) = self.applied.get(later.checked_sub(1)?)?;
        let point = StreamPoint::new(self.data.as_ref()?, *last);
        Some(BornPoint { born, point })
    }

    /// Records that all purges up to `number` are in the stream up to `point`.
    fn note_published(&mut self, point: &StreamPoint, number: u64) {
        self.begin(&point.data);
        // With the same purges, the older point permits more pages. If a stream begins again in the same data, it was deleted:
        // older pages may have later points, until the stream has passed the last point.
        let is_known = |(last, noted): &(StreamId, u64)| *noted >= number || *last > point.last;
        if self.points.back().is_some_and(is_known) {
            return;
        }
        if self.points.len() >= MAX_POINTS {
            self.points.pop_front();
        }
        self.points.push_back((point.last, number));
    }

    /// A number such that a page with `point` contains the effect of all purges up to it; `None`: unknown.
    pub fn number_at(&self, point: &StreamPoint) -> Option<u64> {
        if self.data.as_ref() != Some(&point.data) {
            return None;
        }
        let later = self.points.partition_point(|(last, _)| *last <= point.last);
        let (_, number) = self.points.get(later.checked_sub(1)?)?;
        Some(*number)
    }
}

/// The maximum number of points of a site, at most one for each purge. Pages from before as many purges are not used.
const MAX_POINTS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(data: &str, last: &str) -> StreamPoint {
        StreamPoint::parse(&format!("{data} {last}")).unwrap()
    }

    #[test]
    fn a_point_covers_the_purges_before_it() {
        let mut points = PurgePoints::default();
        assert_eq!(points.number_at(&at("a", "5-0")), None);
        points.note_published(&at("a", "5-0"), 10);
        points.note_published(&at("a", "7-0"), 10);
        points.note_published(&at("a", "9-0"), 12);
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
        points.note_published(&at("a", "5-0"), 10);
        points.note_published(&at("b", "1-0"), 11);
        assert_eq!(points.number_at(&at("a", "5-0")), None);
        assert_eq!(points.number_at(&at("b", "5-0")), Some(11));
        // A deleted stream.
        points.note_published(&at("b", "0-1"), 12);
        assert_eq!(points.number_at(&at("b", "5-0")), Some(11));
        assert_eq!(points.number_at(&at("b", "0-1")), None);
        points.note_published(&at("b", "9-0"), 12);
        assert_eq!(points.number_at(&at("b", "9-0")), Some(12));
    }

    #[test]
    fn a_born_number_has_the_point_of_the_purges_before_it() {
        let mut points = PurgePoints::default();
        let point_of = |points: &PurgePoints, born| points.of_born(born).map(|found| found.point);
        assert_eq!(point_of(&points, 10), None);
        points.note_applied(&at("a", "5-0"), 10);
        points.note_applied(&at("a", "9-0"), 12);
        // Purges of other sites.
        points.note_applied(&at("a", "11-0"), 12);
        for (born, wanted) in [
            (9, None),
            (10, Some("5-0")),
            (11, Some("5-0")),
            (12, Some("11-0")),
            (99, Some("11-0")),
        ] {
            assert_eq!(point_of(&points, born), wanted.map(|last| at("a", last)));
        }
        points.note_applied(&at("b", "1-0"), 13);
        assert_eq!(point_of(&points, 12), None);
        assert_eq!(point_of(&points, 13), Some(at("b", "1-0")));
    }

    #[test]
    fn the_oldest_points_are_removed() {
        let mut points = PurgePoints::default();
        let id = |number: u64| at("a", &format!("{number}-0"));
        for number in 1..=2000 {
            points.note_published(&id(number), number);
        }
        assert_eq!(points.points.len(), MAX_POINTS);
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
