//! The last purge of each run of a node, which shows that an entry of the stream is missing.
//!
//! A run numbers its entries without gaps, and each contains the id of the one before. So a node that has read the stream from
//! some entry on knows whether it has all of them, in spite of runs of which it has never heard.

use std::collections::BTreeMap;

use crate::stream_id::StreamId;

/// The last entry of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceEnd {
    pub(crate) run: u128,
    pub(crate) sequence: u64,
    pub(crate) id: StreamId,
}

/// Whether entries are missing before an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryOrder {
    Follows,
    Missing,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sequences {
    /// Entries up to this one do not matter; `None`: no entry was read.
    begin: Option<StreamId>,
    /// The newest end that was forgotten.
    forgotten: StreamId,
    runs: BTreeMap<u128, (u64, StreamId)>,
}

impl Sequences {
    /// Entries that were read before.
    pub(crate) fn restored(
        begin: StreamId,
        forgotten: StreamId,
        ends: impl Iterator<Item = SequenceEnd>,
    ) -> Self {
        let mut sequences = Self {
            begin: Some(begin),
            forgotten,
            runs: ends.map(|end| (end.run, (end.sequence, end.id))).collect(),
        };
        sequences.bound();
        sequences
    }

    /// The entry after which none is missing; `None`: no entry was read.
    pub(crate) const fn begin(&self) -> Option<StreamId> {
        self.begin
    }

    /// The newest end that was forgotten, because there were too many runs.
    pub(crate) const fn forgotten(&self) -> StreamId {
        self.forgotten
    }

    /// Adds the ends that another node knows, so that this one knows what both know. It must lack none of them.
    pub(crate) fn learn(&mut self, ends: &[SequenceEnd], forgotten: StreamId) {
        self.forgotten = self.forgotten.max(forgotten);
        for end in ends {
            let entry = self.runs.entry(end.run);
            entry.or_insert((end.sequence, end.id));
        }
        self.bound();
    }

    /// The last entries of the runs.
    pub(crate) fn ends(&self) -> impl Iterator<Item = SequenceEnd> {
        let runs = self.runs.iter();
        runs.map(|(&run, &(sequence, id))| SequenceEnd { run, sequence, id })
    }

    /// Records an entry. `previous`: the id of the one before, in the same run.
    pub(crate) fn note(&mut self, entry: SequenceEnd, previous: StreamId) -> EntryOrder {
        let SequenceEnd { run, sequence, id } = entry;
        let begin = *self.begin.get_or_insert(id);
        let is_missing = match self.runs.get(&run) {
            // What is missing may be from before the beginning; another node that was slower has told the last number.
            Some((last, _)) => {
                let is_later = previous > begin || previous == StreamId::START;
                sequence > last.saturating_add(1) && is_later
            }
            None => previous > begin,
        };
        let newest = self.runs.entry(run).or_insert((sequence, id));
        // A publisher that got no reply appends again: then numbers repeat.
        if sequence >= newest.0 {
            *newest = (sequence, id.max(newest.1));
        }
        self.bound();
        if is_missing && id > begin {
            EntryOrder::Missing
        } else {
            EntryOrder::Follows
        }
    }

    /// Whether a run has published more than was read.
    pub(crate) fn lacks(&self, end: &SequenceEnd) -> bool {
        let is_known = self.runs.get(&end.run);
        self.begin.is_some_and(|begin| end.id > begin)
            && is_known.is_none_or(|(sequence, _)| *sequence < end.sequence)
    }

    /// Ignores all entries up to `begin`, because everything that they purge was purged, or because publishers publish them again.
    pub(crate) fn restart(&mut self, begin: StreamId) {
        self.begin = self.begin.max(Some(begin));
        self.runs.clear();
    }

    /// Forgets the runs that have not published for the longest time.
    fn bound(&mut self) {
        while self.runs.len() > MAX_RUNS {
            let oldest = self.runs.iter().min_by_key(|(_, (_, id))| *id);
            let Some((&run, &(_, id))) = oldest else {
                return;
            };
            self.runs.remove(&run);
            self.begin = self.begin.max(Some(id));
            self.forgotten = self.forgotten.max(id);
        }
    }
}

/// The maximum number of runs.
pub(crate) const MAX_RUNS: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(number: u64) -> StreamId {
        StreamId::parse(&format!("{number}-0")).unwrap()
    }

    fn from(begin: u64) -> Sequences {
        Sequences::restored(id(begin), StreamId::START, std::iter::empty())
    }

    fn end(run: u128, sequence: u64, at: u64) -> SequenceEnd {
        SequenceEnd {
            run,
            sequence,
            id: id(at),
        }
    }

    /// An entry with the id of the one before.
    type Entry = (SequenceEnd, StreamId);

    /// The stream that these runs write, one entry at each id.
    fn stream(runs: &[u8]) -> Vec<Entry> {
        let mut last: BTreeMap<u8, (u64, u64)> = BTreeMap::new();
        let entries = (10..).zip(runs).map(|(at, run)| {
            let (sequence, before) = last.get(run).copied().unwrap_or_default();
            last.insert(*run, (sequence + 1, at));
            (end(u128::from(*run), sequence + 1, at), id(before))
        });
        entries.collect()
    }

    /// The ends that a node knows which has read everything.
    fn ends(stream: &[Entry]) -> Vec<SequenceEnd> {
        let mut all = from(0);
        for (entry, previous) in stream {
            assert_eq!(all.note(*entry, *previous), EntryOrder::Follows);
        }
        all.ends().collect()
    }

    /// Whether a reader sees that something is missing, by the entries or by the ends of another node.
    fn sees(mut reader: Sequences, entries: &[Entry], ends: &[SequenceEnd]) -> bool {
        let orders: Vec<_> = entries
            .iter()
            .map(|(entry, previous)| reader.note(*entry, *previous))
            .collect();
        orders.contains(&EntryOrder::Missing) || ends.iter().any(|end| reader.lacks(end))
    }

    #[test]
    fn a_missing_first_entry_of_an_unknown_run_is_seen() {
        let stream = stream(b"aba");
        let ends = ends(&stream);
        let begin = from(9);
        assert!(sees(begin.clone(), &stream[1..], &[]));
        assert!(sees(begin.clone(), &[stream[0], stream[2]], &ends));
        assert!(!sees(begin, &stream, &ends));
        // Without any entry before, a reader begins with the first that it reads.
        assert!(!sees(Sequences::default(), &stream[1..2], &[]));
        assert!(sees(Sequences::default(), &stream[1..2], &ends));
    }

    #[test]
    fn repeated_numbers_are_no_gap() {
        let mut reader = from(9);
        for (sequence, at, previous) in [
            (1, 10, 0),
            (2, 11, 10),
            (1, 12, 0),
            (2, 13, 12),
            (3, 14, 13),
        ] {
            let order = reader.note(end(1, sequence, at), id(previous));
            assert_eq!(order, EntryOrder::Follows, "{at}");
        }
    }

    #[test]
    fn after_a_restart_only_later_entries_count() {
        let mut reader = from(1);
        assert_eq!(reader.note(end(1, 5, 10), id(9)), EntryOrder::Missing);
        reader.restart(id(20));
        assert!(!reader.lacks(&end(2, 7, 20)) && reader.lacks(&end(2, 8, 21)));
        assert_eq!(reader.note(end(1, 9, 15), id(14)), EntryOrder::Follows);
        assert_eq!(reader.note(end(2, 8, 21), id(20)), EntryOrder::Follows);
        assert_eq!(reader.note(end(2, 10, 23), id(22)), EntryOrder::Missing);
    }

    #[test]
    fn entries_before_the_beginning_are_not_missing_after_what_others_tell() {
        let mut reader = from(30);
        reader.learn(&[end(1, 6, 20)], StreamId::START);
        assert_eq!(reader.note(end(1, 8, 35), id(25)), EntryOrder::Follows);
        assert_eq!(reader.note(end(1, 10, 39), id(37)), EntryOrder::Missing);
    }

    #[test]
    fn old_runs_are_forgotten_without_an_alarm() {
        let mut reader = from(1);
        for run in 0..100 {
            let at = 10 + u64::try_from(run).unwrap();
            assert_eq!(reader.note(end(run, 1, at), id(0)), EntryOrder::Follows);
        }
        assert_eq!(reader.ends().count(), MAX_RUNS);
        assert!(!reader.lacks(&end(0, 1, 10)));
        assert_eq!(reader.forgotten(), id(45));
        assert_eq!(reader.note(end(0, 2, 200), id(10)), EntryOrder::Follows);
    }

    proptest! {
        /// Whatever entries somebody removes, a node sees it that has read everything up to some entry, and reads the rest.
        #[test]
        fn every_removal_is_seen(
            runs in proptest::collection::vec(b'a'..b'f', 1..30),
            at: proptest::sample::Index,
            removed in proptest::collection::vec(any::<bool>(), 30),
        ) {
            let stream = stream(&runs);
            let ends = ends(&stream);
            let (before, after) = stream.split_at(at.index(stream.len()));
            let mut reader = from(1);
            for (entry, previous) in before {
                reader.note(*entry, *previous);
            }
            let left: Vec<Entry> = after
                .iter()
                .zip(&removed)
                .filter(|(_, removed)| !**removed)
                .map(|(entry, _)| *entry)
                .collect();
            prop_assert_eq!(sees(reader.clone(), &left, &ends), left.len() < after.len());
            // A node that was started later and has learned the ends tells the same.
            let mut later = from(1000);
            later.learn(&ends, StreamId::START);
            let learned: Vec<SequenceEnd> = later.ends().collect();
            prop_assert_eq!(sees(reader.clone(), &left, &learned), left.len() < after.len());
            // Reading the entries of before once more is no alarm, in any order.
            let again: Vec<Entry> = before.iter().rev().chain(after).copied().collect();
            prop_assert!(!sees(reader, &again, &ends));
        }
    }
}
