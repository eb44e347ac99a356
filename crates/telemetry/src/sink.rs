//! The destination of log lines: a standard stream, or a file that can be reopened after it was renamed.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use galley_config::LogTarget;

/// An open target. Every write contains one or several complete lines.
#[derive(Debug)]
pub(super) enum LogSink {
    Stdout,
    Stderr,
    File { path: PathBuf, file: File },
}

impl LogSink {
    /// Opens a target; `None` for [`LogTarget::Off`].
    pub(super) fn open(target: &LogTarget) -> io::Result<Option<Self>> {
        Ok(match target {
            LogTarget::Stdout => Some(Self::Stdout),
            LogTarget::Stderr => Some(Self::Stderr),
            LogTarget::Off => None,
            LogTarget::File(path) => {
                let file = append_to(path)?;
                Some(Self::File {
                    path: path.clone(),
                    file,
                })
            }
        })
    }

    /// Reopens the file at its path. On an error the open file stays in use: lines in a renamed file are better than no lines.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Self::File { path, file } = self {
            *file = append_to(path)?;
        }
        Ok(())
    }

    /// Writes all bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(bytes)?;
                out.flush()
            }
            Self::Stderr => io::stderr().lock().write_all(bytes),
            Self::File { file, .. } => file.write_all(bytes),
        }
    }
}

/// Opens with `O_APPEND`, so that several processes and `copytruncate` do not overwrite each other's lines.
fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}
