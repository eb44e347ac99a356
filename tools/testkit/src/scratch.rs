//! A directory of its own for one test or one program run, removed at the end.
//!
//! It stays, and its path is printed, when the test that owns it fails. What a killed process left behind is removed by
//! the next one that makes a scratch directory: the name carries the process id. Others may walk into it, since PHP and
//! the database may run as other users; its name cannot be guessed into existence by them, because it is created
//! exclusively.

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

/// A directory that goes away with this value, unless its thread is panicking.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes a new, empty directory.
    ///
    /// # Errors
    /// [`TestkitError::Io`] when it cannot be made.
    pub fn new() -> Result<Self, TestkitError> {
        let parent = parent();
        SWEEP.call_once(|| sweep(&parent));
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{PREFIX}{}-{number}", process::id()));
            match fs::create_dir(&path) {
                Ok(()) => {
                    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
                        .context(format_args!("open {} to others", path.display()))?;
                    return Ok(Self { path });
                }
                // An older process with our id left it, and it was kept for somebody to look at.
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && number < MOST => {}
                Err(e) => return Err(e).context(format_args!("make {}", path.display())),
            }
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of something in it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// Makes a directory in it.
    pub fn dir(&self, name: &str) -> Result<PathBuf, TestkitError> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).context(format_args!("make {}", path.display()))?;
        Ok(path)
    }

    /// Writes a file in it (folders on the way are made) and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf, TestkitError> {
        let path = self.path.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).context(format_args!("make {}", folder.display()))?;
        }
        fs::write(&path, content).context(format_args!("write {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if thread::panicking() {
            // A file that tells later runs to leave this directory alone.
            let _ = fs::write(
                self.path.join(KEPT),
                "kept for a look because its test failed\n",
            );
            eprintln!("testkit: kept {}", self.path.display());
        } else {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// The machine's place for temporary files, or /tmp where that is closed to the users that root's children run as.
fn parent() -> PathBuf {
    let usual = std::env::temp_dir();
    if account::require_reachable(&usual).is_ok() {
        usual
    } else {
        PathBuf::from("/tmp")
    }
}

/// Removes what processes that no longer live left behind.
fn sweep(parent: &Path) {
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
        let lives = Path::new("/proc").join(pid).exists();
        if !lives && !entry.path().join(KEPT).exists() {
            // Another user's, or removed at the same time by another process: not our concern.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

const PREFIX: &str = "galley-test-";
const KEPT: &str = ".kept";
/// Names tried before giving up: far more than one process makes.
const MOST: u32 = 100_000;
static NEXT: AtomicU32 = AtomicU32::new(0);
static SWEEP: Once = Once::new();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_away_with_the_value_and_stays_after_a_panic() {
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
        assert!(kept.join(KEPT).exists());
        fs::remove_dir_all(*kept).unwrap();
    }

    #[test]
    fn what_dead_processes_left_is_swept_unless_kept() {
        let scratch = Scratch::new().unwrap();
        // Above the highest process id that Linux gives out.
        let dead = scratch.dir("galley-test-99999999-0").unwrap();
        let kept = scratch.dir("galley-test-99999999-1").unwrap();
        scratch.write("galley-test-99999999-1/.kept", "").unwrap();
        let alive = scratch
            .dir(&format!("galley-test-{}-7", process::id()))
            .unwrap();
        let foreign = scratch.dir("something-else").unwrap();
        sweep(scratch.path());
        assert!(!dead.exists());
        assert!(kept.exists() && alive.exists() && foreign.exists());
    }
}
