//! The last applied entry of the stream, and the ends of the runs, for the next start: one line in a file next to the stored pages.
//!
//! ```text
//! engine entry [2 lineage,.. run is-alone horizon begin forgotten run=number=entry,..]
//! ```
//!
//! Without a cluster key, and in files of earlier versions, only the first two words are there.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;

use crate::kept_ledger::KeptLedger;
use crate::sequences::{SequenceEnd, Sequences};
use crate::stream_id::StreamId;

/// The engine's identity and the last entry whose purge is on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) engine: String,
    pub(crate) last: StreamId,
    pub(crate) ledger: Option<KeptLedger>,
}

impl Position {
    /// Parses a position; `None`: invalid.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.trim_end().split(' ');
        Some(Self {
            engine: words.next()?.to_owned(),
            last: StreamId::parse(words.next()?)?,
            ledger: match words.next() {
                None => None,
                Some(FORMAT) => Some(parse_ledger(&mut words)?),
                Some(_) => return None,
            },
        })
    }
}

fn parse_ledger<'w>(words: &mut impl Iterator<Item = &'w str>) -> Option<KeptLedger> {
    let number = |word: &str| u128::from_str_radix(word, 16).ok();
    let lineages = words.next()?.split(',').map(number);
    let lineages: Vec<u128> = lineages.collect::<Option<_>>()?;
    let run = number(words.next()?)?;
    let is_alone = words.next()? == "1";
    let mut entry = || StreamId::parse(words.next()?);
    let (horizon, begin, forgotten) = (entry()?, entry()?, entry()?);
    let ends = words.next().unwrap_or_default().split(',');
    let ends = ends.filter(|end| !end.is_empty()).map(|end| {
        let mut parts = end.split('=');
        Some(SequenceEnd {
            run: number(parts.next()?)?,
            sequence: parts.next()?.parse().ok()?,
            id: StreamId::parse(parts.next()?)?,
        })
    });
    let ends: Vec<SequenceEnd> = ends.collect::<Option<_>>()?;
    let sequences = Sequences::restored(begin, forgotten, ends.into_iter());
    let is_end = words.next().is_none();
    is_end.then_some(KeptLedger {
        lineages,
        run,
        is_alone,
        horizon,
        sequences,
    })
}

impl fmt::Display for Position {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.engine, self.last)?;
        let Some(ledger) = &self.ledger else {
            return Ok(());
        };
        // Without an entry, the ledger says nothing.
        let Some(begin) = ledger.sequences.begin() else {
            return Ok(());
        };
        let KeptLedger { run, horizon, .. } = ledger;
        let lineages: Vec<String> = (ledger.lineages.iter())
            .map(|lineage| format!("{lineage:x}"))
            .collect();
        let (lineages, forgotten) = (lineages.join(","), ledger.sequences.forgotten());
        let is_alone = u8::from(ledger.is_alone);
        write!(
            out,
            " {FORMAT} {lineages} {run:x} {is_alone} {horizon} {begin} {forgotten} "
        )?;
        for end in ledger.sequences.ends() {
            write!(out, "{:x}={}={},", end.run, end.sequence, end.id)?;
        }
        Ok(())
    }
}

/// The file. It may be older than the purges on the disk, never newer. If it is older, entries are applied twice, which does no
/// harm.
#[derive(Clone, Debug)]
pub(crate) struct PositionFile(PathBuf);

impl PositionFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// `None`: there is no file, or it is invalid.
    pub(crate) fn read(&self) -> Option<Position> {
        if fs::metadata(&self.0).ok()?.len() > MAX_BYTES {
            return None;
        }
        Position::parse(&fs::read_to_string(&self.0).ok()?)
    }

    pub(crate) fn write(&self, position: &Position) -> io::Result<()> {
        let new = self.0.with_extension("new");
        fs::write(&new, format!("{position}\n"))?;
        fs::rename(&new, &self.0)
    }
}

/// 64 runs have less than 8 KiB.
const MAX_BYTES: u64 = 32 * 1024;

/// The format of the ledger.
const FORMAT: &str = "2";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = PositionFile::new(dir.path().join("cluster-position"));
        assert_eq!(file.read(), None);
        let position = Position {
            engine: "a/b".to_owned(),
            last: StreamId::parse("5-1").unwrap(),
            ledger: None,
        };
        file.write(&position).unwrap();
        assert_eq!(file.read(), Some(position.clone()));
        let end = |run| SequenceEnd {
            run,
            sequence: u64::MAX,
            id: position.last,
        };
        for runs in [0, 1, 64] {
            let ledger = KeptLedger {
                lineages: vec![u128::MAX, 1],
                run: 7,
                is_alone: runs == 1,
                horizon: position.last.next(),
                sequences: Sequences::restored(position.last, position.last, (0..runs).map(end)),
            };
            let position = Position {
                ledger: Some(ledger),
                ..position.clone()
            };
            file.write(&position).unwrap();
            assert_eq!(file.read(), Some(position));
        }
        for wrong in [
            "",
            "x",
            "a/b five",
            "a/b 5-1 6",
            "a/b 5-1 2",
            "a/b 5-1 3 1 1 1 1-0 1-0 0-0 ",
            "a/b 5-1 2 1 1 1 1-0 1-0 0-0 5=1",
            "a/b 5-1 2 1, 1 1 1-0 1-0 0-0 ",
        ] {
            fs::write(&file.0, wrong).unwrap();
            assert_eq!(file.read(), None, "{wrong}");
        }
        fs::write(&file.0, vec![b'a'; 40_000]).unwrap();
        assert_eq!(file.read(), None);
    }
}
