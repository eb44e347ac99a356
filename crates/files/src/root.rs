//! A site's root: the configured directory, and the one that is currently open.
//!
//! A deployment often changes a symbolic link from one release to the next. So the configured path is checked at most once a
//! second, and if it leads to another directory, that one is opened. Requests in progress keep the former one. If the path
//! does not exist for a moment, the open directory stays in use.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use galley_policy::cgi::Script;
use galley_sys::Lock;

use crate::open_root::OpenRoot;
use crate::options::Options;
use crate::path::RelPath;
use crate::recheck::RECHECK;
use crate::resolve::{PathLookup, Resolved};
use crate::sent_file::SentFile;

/// The directory with a site's files. All threads share it. Every function except [`Root::resolve_script`] may block on the disk.
pub struct Root {
    configured: PathBuf,
    options: Options,
    state: Lock<RootState>,
}

struct RootState {
    current: Arc<OpenRoot>,
    checked: Instant,
}

impl Root {
    /// Opens `path`, which must be a directory.
    pub fn open(path: &Path, options: Options) -> io::Result<Self> {
        let current = Arc::new(OpenRoot::open(path, &options)?);
        Ok(Self {
            configured: std::path::absolute(path)?,
            options,
            state: Lock::new(RootState {
                current,
                checked: Instant::now(),
            }),
        })
    }

    /// Resolves a decoded request path, as `try_files` does for WordPress. Blocks on the disk. Accepts any bytes.
    pub fn resolve(&self, decoded_path: &[u8]) -> Resolved {
        self.resolve_at(decoded_path, Instant::now())
    }

    /// As [`Root::resolve`], for a site with a separate FastCGI server for programs: such a file is found, not denied.
    pub fn resolve_beside_programs(&self, decoded_path: &[u8]) -> Resolved {
        let now = Instant::now();
        let current = self.current(now);
        let lookup = PathLookup::new(&current, &self.options, now);
        lookup.with_programs().find(decoded_path)
    }

    /// The script for a decoded request path, if the kernel or Galley has everything necessary in memory: then most requests
    /// for pages that are not stored need no helper thread. `None`: call [`Root::resolve`], which has the same rules. Never
    /// waits for the disk.
    pub fn resolve_script(&self, decoded_path: &[u8]) -> Option<Script> {
        let now = Instant::now();
        let current = self.current_in_memory(now)?;
        PathLookup::new(&current, &self.options, now).find_script(decoded_path)
    }

    /// Resolves a decoded request path for a separate FastCGI server (such as `fcgiwrap`): the program is the first prefix of
    /// the path that is a regular file with any extension; the rest becomes its `PATH_INFO`. The deny list and `.htaccess`
    /// apply as for scripts. Never returns [`Resolved::File`]. Blocks on the disk.
    pub fn program(&self, decoded_path: &[u8]) -> Resolved {
        let now = Instant::now();
        let current = self.current(now);
        PathLookup::new(&current, &self.options, now).find_program(decoded_path)
    }

    /// The file that a response of the upstream names by its decoded path. Blocks on the disk.
    pub(crate) fn sent(&self, path: &RelPath) -> SentFile {
        let now = Instant::now();
        let current = self.current(now);
        PathLookup::new(&current, &self.options, now).find_sent(path)
    }

    /// The path below the root that an absolute path names, with the root as configured or with its links resolved.
    pub(crate) fn below(&self, absolute: &[u8]) -> Option<RelPath> {
        let current = self.current(Instant::now());
        RelPath::parse(current.tree.inside(absolute)?)
    }

    pub(crate) fn resolve_at(&self, decoded_path: &[u8], now: Instant) -> Resolved {
        let current = self.current(now);
        current.names.refresh(&current.tree, now);
        PathLookup::new(&current, &self.options, now).find(decoded_path)
    }

    /// The open directory, if the last check of the configured path is still valid.
    fn current_in_memory(&self, now: Instant) -> Option<Arc<OpenRoot>> {
        let state = self.state.try_lock()?;
        let is_due = now.saturating_duration_since(state.checked) >= RECHECK;
        (!is_due).then(|| Arc::clone(&state.current))
    }

    /// The open directory. Checks the configured path if the last check is older than a second.
    pub(crate) fn current(&self, now: Instant) -> Arc<OpenRoot> {
        let mut state = self.state.lock();
        let current = Arc::clone(&state.current);
        if now.saturating_duration_since(state.checked) < RECHECK {
            return current;
        }
        state.checked = now;
        drop(state);
        // Outside the lock: a hanging disk then blocks only this request.
        let is_same = std::fs::metadata(&self.configured)
            .map_or(true, |metadata| current.tree.is(&metadata))
            && current.tree.is_current(&self.options.link_targets);
        if is_same {
            return current;
        }
        let Ok(opened) = OpenRoot::open(&self.configured, &self.options).map(Arc::new) else {
            return current;
        };
        let mut state = self.state.lock();
        state.current = Arc::clone(&opened);
        opened
    }
}

#[cfg(test)]
mod tests;
