//! Whether a file has changed, without reading it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Device, inode, length, and when content and owner changed last. A link's target counts: `certbot` renews by links.
pub type FileStamp = [i128; 5];

/// What the file system says about a file; `None`: there is none, or it is not accessible.
pub fn stamp(path: &Path) -> Option<FileStamp> {
    let found = fs::metadata(path).ok()?;
    let at = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    Some([
        i128::from(found.dev()),
        i128::from(found.ino()),
        i128::from(found.len()),
        at(found.mtime(), found.mtime_nsec()),
        at(found.ctime(), found.ctime_nsec()),
    ])
}
