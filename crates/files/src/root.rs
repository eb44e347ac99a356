//! A site's root: the directory as configured, and the one that is open now.
//!
//! A deployment often swaps a symbolic link from one release to the next. So the configured path is
//! looked at again, at most once a second, and the directory behind it is opened anew when it has
//! become another one; requests under way keep the old one. When the path names nothing for a
//! moment, the directory that is open stays.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use galley_policy::cgi::Script;
use galley_policy::site::NamePattern;

use crate::path::RelPath;
use crate::resolve::{self, Programs, Resolved};
use crate::tree::Tree;

/// What kind of site lives below a root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Scripts run here, over FastCGI. `false`: the upstream speaks HTTP, or there is none.
    pub php: bool,
    /// WordPress multisite in sub-directories: `/site2/wp-admin/` means `/wp-admin/`.
    pub multisite: bool,
    /// Whether the folders of WordPress are known: where archives may be downloaded, and where they are somebody's backup.
    pub wordpress: bool,
    /// Decoded paths whose private names are open all the same.
    pub allowed: Vec<NamePattern>,
}

impl Options {
    /// Whether the site opens this path.
    pub(crate) fn allows(&self, path: &RelPath) -> bool {
        !self.allowed.is_empty() && {
            let path = path.absolute();
            self.allowed.iter().any(|pattern| pattern.matches(&path))
        }
    }
}

/// The directory that a site's files come from. Shared by all threads; every call may block on the
/// disk.
pub struct Root {
    configured: PathBuf,
    options: Options,
    state: Mutex<RootState>,
}

struct RootState {
    tree: Arc<Tree>,
    checked: Instant,
}

impl Root {
    /// Opens `path`, which must be a directory.
    pub fn open(path: &Path, options: Options) -> io::Result<Self> {
        let tree = Arc::new(Tree::open(path)?);
        Ok(Self {
            configured: std::path::absolute(path)?,
            options,
            state: Mutex::new(RootState {
                tree,
                checked: Instant::now(),
            }),
        })
    }

    /// Finds what a decoded request path means here, as `try_files` does for WordPress. Blocks on
    /// the disk; total over any bytes.
    pub fn resolve(&self, decoded_path: &[u8]) -> Resolved {
        self.resolve_at(decoded_path, Instant::now())
    }

    /// The same where a FastCGI server of its own runs what is a program by its ending: such a file is found, not refused.
    pub fn resolve_beside_programs(&self, decoded_path: &[u8]) -> Resolved {
        let now = Instant::now();
        let options = (&self.options, Programs::Run);
        resolve::resolve(&self.tree(now), options, decoded_path, now)
    }

    /// The script that a decoded request path means, if all that is needed to know it is in the kernel's memory and in ours:
    /// most requests for pages that are not stored need no helper thread then. `None`: [`Root::resolve`] decides, with the
    /// same rules. Never waits for the disk.
    pub fn resolve_script(&self, decoded_path: &[u8]) -> Option<Script> {
        let now = Instant::now();
        let tree = self.tree_in_memory(now)?;
        resolve::resolve_script(&tree, &self.options, decoded_path, now)
    }

    /// Finds the program that a decoded request path means for a FastCGI server of its own (`fcgiwrap`, say): the first
    /// prefix of the path that is a regular file, of whatever ending, with the rest as its `PATH_INFO`. The deny list
    /// and `.htaccess` hold as for scripts. Never [`Resolved::File`]. Blocks on the disk.
    pub fn program(&self, decoded_path: &[u8]) -> Resolved {
        let now = Instant::now();
        resolve::program(&self.tree(now), &self.options, decoded_path, now)
    }

    pub(crate) fn resolve_at(&self, decoded_path: &[u8], now: Instant) -> Resolved {
        let options = (&self.options, Programs::Refused);
        resolve::resolve(&self.tree(now), options, decoded_path, now)
    }

    /// The directory that is open now, if no look at the configured path is due.
    fn tree_in_memory(&self, now: Instant) -> Option<Arc<Tree>> {
        let state = self.state.try_lock().ok()?;
        let is_due = now.saturating_duration_since(state.checked) >= RECHECK;
        (!is_due).then(|| Arc::clone(&state.tree))
    }

    /// The directory that is open now, after a look at the configured path when one is due.
    pub(crate) fn tree(&self, now: Instant) -> Arc<Tree> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let tree = Arc::clone(&state.tree);
        if now.saturating_duration_since(state.checked) < RECHECK {
            return tree;
        }
        state.checked = now;
        drop(state);
        // Outside the lock: a hanging disk then holds this request only.
        if std::fs::metadata(&self.configured).map_or(true, |metadata| tree.is(&metadata)) {
            return tree;
        }
        let Ok(renewed) = Tree::open(&self.configured).map(Arc::new) else {
            return tree;
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.tree = Arc::clone(&renewed);
        renewed
    }
}

/// How long a look at the configured path, or at a `.htaccess`, holds.
pub(crate) const RECHECK: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
