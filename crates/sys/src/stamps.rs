//! Detects changes of a file without reading it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Device, inode, length, and the times of the last changes of content and metadata. Links are followed: `certbot` renews by links.
pub type FileStamp = [i128; 5];

/// The stamp of a file; `None`: it does not exist, or is not accessible.
pub fn stamp(path: &Path) -> Option<FileStamp> {
    let metadata = fs::metadata(path).ok()?;
    let at = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    Some([
        i128::from(metadata.dev()),
        i128::from(metadata.ino()),
        i128::from(metadata.len()),
        at(metadata.mtime(), metadata.mtime_nsec()),
        at(metadata.ctime(), metadata.ctime_nsec()),
    ])
}
