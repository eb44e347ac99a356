//! Reads files that a configuration names; all such reads use [`read`].
//!
//! A path in a configuration can refer to anything: a FIFO without a writer, an endless device, a disk image. So a file is opened
//! without blocking, must be a regular file, and has a size limit. The opened file is checked, so it cannot be replaced
//! between the check and the read.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// The contents of a file.
#[derive(Debug)]
pub struct Contents {
    /// The content.
    pub bytes: Vec<u8>,
    /// The permission bits when it was opened.
    pub mode: u32,
    /// The user id of the owner when it was opened.
    pub owner: u32,
}

/// Why a file was not read. Each text continues after the name of the file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// An error of the system.
    #[error("which cannot be read: {0}")]
    System(#[from] io::Error),
    /// The file is not a regular file.
    #[error("which is {0}, not a regular file")]
    NotRegular(&'static str),
    /// The file is larger than its limit.
    #[error("which is larger than {}", FileSize(*.0))]
    TooLarge(u64),
    /// The file is not UTF-8.
    #[error("whose line {0} is not UTF-8")]
    NotText(usize),
}

impl FileError {
    /// Whether this user may not read the file.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::System(error) if error.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Whether the file does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::System(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl From<FileError> for io::Error {
    fn from(unread: FileError) -> Self {
        match unread {
            FileError::System(error) => error,
            other => Self::new(io::ErrorKind::InvalidData, other),
        }
    }
}

/// Reads a regular file of at most `most` bytes. Only waits for the disk.
///
/// Errors: the file does not exist, may not be read, is not a regular file, or is larger.
pub fn read(path: &Path, most: u64) -> Result<Contents, FileError> {
    let (file, found) = open(path)?;
    if found.len() > most {
        return Err(FileError::TooLarge(most));
    }
    let mut bytes = Vec::new();
    // The file may have grown since its size was read.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(FileError::TooLarge(most));
    }
    Ok(Contents {
        bytes,
        mode: found.mode() & 0o7777,
        owner: found.uid(),
    })
}

/// As [`read`], as text.
///
/// Errors: also if the file is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String, FileError> {
    String::from_utf8(read(path, most)?.bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let before = error.as_bytes().iter().take(good);
        FileError::NotText(before.filter(|byte| **byte == b'\n').count() + 1)
    })
}

/// Opens a regular file for reading.
///
/// Errors: as [`read`].
pub fn open(path: &Path) -> Result<(File, std::fs::Metadata), FileError> {
    // Does not wait for a FIFO's writer, and does not make a terminal the controlling one.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(opened.map_err(io::Error::from)?);
    let found = file.metadata()?;
    let kind = found.file_type();
    if kind.is_file() {
        return Ok((file, found));
    }
    Err(FileError::NotRegular(if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a named pipe"
    } else {
        "a device"
    }))
}

/// Formats a size in the notation of the configuration.
struct FileSize(u64);

impl std::fmt::Display for FileSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            bytes if bytes > 0 && bytes % (1 << 20) == 0 => write!(f, "{}MiB", bytes >> 20),
            bytes if bytes > 0 && bytes % (1 << 10) == 0 => write!(f, "{}KiB", bytes >> 10),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_within_their_limit_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "12345\n\u{e4}").unwrap();
        assert_eq!(read(&path, 8).unwrap().bytes.len(), 8);
        assert_eq!(read_text(&path, 8).unwrap(), "12345\n\u{e4}");
        let why = |path: &Path, most| read_text(path, most).unwrap_err().to_string();
        assert_eq!(why(&path, 7), "which is larger than 7 bytes");
        std::fs::write(&path, b"a\nb\xff").unwrap();
        assert_eq!(why(&path, 1 << 20), "whose line 2 is not UTF-8");
        assert_eq!(why(dir.path(), 9), "which is a folder, not a regular file");
        assert_eq!(
            why(Path::new("/dev/zero"), 9),
            "which is a device, not a regular file"
        );
        let missing = read(&dir.path().join("b"), 9).unwrap_err();
        assert!(missing.is_missing(), "{missing}");
        // Files in `/proc` report the size 0, but have content.
        assert_eq!(
            why(Path::new("/proc/self/status"), 1 << 10),
            "which is larger than 1KiB"
        );
    }
}
