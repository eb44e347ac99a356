//! The last applied entry of the stream, for the next start: one line in a file next to the stored pages.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;

use crate::stream_id::StreamId;

/// The engine's identity and the last entry whose purge is on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) engine: String,
    pub(crate) last: StreamId,
}

impl Position {
    /// Parses a position; `None`: invalid.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (engine, last) = text.trim_end().split_once(' ')?;
        Some(Self {
            engine: engine.to_owned(),
            last: StreamId::parse(last)?,
        })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.engine, self.last)
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

const MAX_BYTES: u64 = 512;

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
        };
        file.write(&position).unwrap();
        assert_eq!(file.read(), Some(position));
        for wrong in ["", "x", "a/b five", "a/b 5-1 6"] {
            fs::write(&file.0, wrong).unwrap();
            assert_eq!(file.read(), None, "{wrong}");
        }
        fs::write(&file.0, vec![b'a'; 1000]).unwrap();
        assert_eq!(file.read(), None);
    }
}
