//! A fake wall clock for one process, by libfaketime. Tests can change it while the process runs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Launch, TestkitError, error::Context};

/// The wall clock of a server.
pub(crate) struct WallClock {
    library: PathBuf,
    file: PathBuf,
}

impl WallClock {
    /// Creates a clock that stores its offset in `file`. It starts with the machine's time.
    pub(crate) fn new(file: PathBuf, library: &Path) -> Result<Self, TestkitError> {
        let clock = Self {
            library: library.to_owned(),
            file,
        };
        clock.set(0)?;
        Ok(clock)
    }

    /// Sets the offset from the machine's clock.
    pub(crate) fn set(&self, seconds: i64) -> Result<(), TestkitError> {
        let fresh = self.file.with_extension("new");
        fs::write(&fresh, format!("{seconds:+}\n")).context("set the wall clock")?;
        fs::rename(fresh, &self.file).context("set the wall clock")
    }

    /// Launch options for a server with this clock.
    pub(crate) fn launch(&self) -> Launch {
        let pair = |name: &str, value: String| (name.to_owned(), value);
        Launch {
            env: vec![
                pair("LD_PRELOAD", self.library.display().to_string()),
                pair("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
                pair("FAKETIME_NO_CACHE", "1".to_owned()),
                pair("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ],
            ..Launch::default()
        }
    }
}

/// The path of libfaketime in Debian's multiarch directories.
pub(crate) fn library() -> Option<PathBuf> {
    let mut folders = fs::read_dir("/usr/lib").ok()?.flatten();
    folders.find_map(|folder| {
        let path = folder.path().join("faketime/libfaketimeMT.so.1");
        path.is_file().then_some(path)
    })
}
