//! A temporary directory for one test or one run of a program, removed at the end.
//!
//! If its test fails, the directory is kept and its path is printed. Its name contains the process id, so that a later process
//! can remove the directories of killed ones. Other users can enter it, because PHP and the database may run as other users.
//! It is created exclusively, so that no other user can create it first.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process,
    sync::{
        Once,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use crate::{
    account,
    error::{Context, TestkitError},
};

/// A temporary directory; dropping the value removes it, unless the thread is panicking.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Creates a new, empty directory.
    ///
    /// # Errors
    /// [`TestkitError::Io`] if it cannot be created.
    pub fn new() -> Result<Self, TestkitError> {
        let parent = parent();
        REMOVE_ABANDONED.call_once(|| remove_abandoned(&parent));
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{PREFIX}{}-{number}", process::id()));
            match fs::create_dir(&path) {
                Ok(()) => {
                    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).context(
                        format_args!("make {} readable for all users", path.display()),
                    )?;
                    return Ok(Self { path });
                }
                // A kept directory of an earlier process with the same id.
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && number < MAX_NUMBER => {}
                Err(e) => return Err(e).context(format_args!("create {}", path.display())),
            }
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path in the directory.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// Creates a subdirectory.
    pub fn dir(&self, name: &str) -> Result<PathBuf, TestkitError> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).context(format_args!("create {}", path.display()))?;
        Ok(path)
    }

    /// Writes a file, creates its parent folders, and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf, TestkitError> {
        let path = self.path.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).context(format_args!("create {}", folder.display()))?;
        }
        fs::write(&path, content).context(format_args!("write {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if thread::panicking() {
            // The marker prevents later runs from removing the directory.
            let _ = fs::write(
                self.path.join(KEEP_MARKER),
                "kept because its test failed\n",
            );
            eprintln!("testkit: kept {}", self.path.display());
        } else {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// The system's directory for temporary files, or `/tmp` if `www-data` and `mysql` cannot enter that.
fn parent() -> PathBuf {
    let temp_dir = std::env::temp_dir();
    if account::require_reachable(&temp_dir).is_ok() {
        temp_dir
    } else {
        PathBuf::from("/tmp")
    }
}

/// Removes directories of ended processes.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next())
        else {
            continue;
        };
        let is_running = Path::new("/proc").join(pid).exists();
        if !is_running && !entry.path().join(KEEP_MARKER).exists() {
            // Fails if another user owns the directory or another process is removing it; neither is an error.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

const PREFIX: &str = "galley-test-";
const KEEP_MARKER: &str = ".kept";
/// Limit of the search for a free name: far more directories than one process creates.
const MAX_NUMBER: u32 = 100_000;
static NEXT: AtomicU32 = AtomicU32::new(0);
static REMOVE_ABANDONED: Once = Once::new();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_removed_on_drop_and_kept_after_a_panic() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().to_owned();
        scratch.write("a/b.txt", "x").unwrap();
        drop(scratch);
        assert!(!path.exists());

        let kept = thread::spawn(|| {
            let scratch = Scratch::new().unwrap();
            let path = scratch.path().to_owned();
            let _scratch = scratch;
            std::panic::panic_any(path);
        })
        .join()
        .unwrap_err();
        let kept = kept.downcast::<PathBuf>().unwrap();
        assert!(kept.join(KEEP_MARKER).exists());
        fs::remove_dir_all(*kept).unwrap();
    }

    #[test]
    fn directories_of_ended_processes_are_removed_unless_kept() {
        let scratch = Scratch::new().unwrap();
        // Above the maximum process id of Linux.
        let abandoned = scratch.dir("galley-test-99999999-0").unwrap();
        let kept = scratch.dir("galley-test-99999999-1").unwrap();
        scratch.write("galley-test-99999999-1/.kept", "").unwrap();
        let in_use = scratch
            .dir(&format!("galley-test-{}-7", process::id()))
            .unwrap();
        let foreign = scratch.dir("something-else").unwrap();
        remove_abandoned(scratch.path());
        assert!(!abandoned.exists());
        assert!(kept.exists() && in_use.exists() && foreign.exists());
    }
}
