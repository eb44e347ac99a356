//! The folder of the demo: its path, its owner, and a lock, so that only one demo uses it at a time.
//!
//! Without `--dir` it is `demo-data` below the current directory, or /var/tmp/galley-demo if root starts the demo in a directory that
//! PHP's user cannot access, such as a clone in /root. A marker file identifies the folders of the demo: only these are removed.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use galley_testkit::require_reachable;
use rustix::fs::{FlockOperation, flock};

use crate::error::CommandError;

/// A folder that this process has locked.
pub(super) struct DemoFolder {
    path: PathBuf,
    _lock: File,
}

impl DemoFolder {
    /// Opens or creates the folder and locks it.
    pub(super) fn open(given: Option<&Path>) -> Result<Self, CommandError> {
        let path = match given {
            Some(path) => create(path)?,
            None => default_dir()?,
        };
        require_reachable(&path)?;
        let marker = path.join(MARKER);
        let is_new = !marker.exists();
        if is_new
            && fs::read_dir(&path)
                .map_err(|e| cannot("read", &path, &e))?
                .next()
                .is_some()
        {
            return Err(format!(
                "`{}` is not empty and not a folder of the demo: choose another with --dir",
                path.display()
            )
            .into());
        }
        let lock = lock(&marker)?;
        let owner = lock
            .metadata()
            .map_err(|e| cannot("stat", &marker, &e))?
            .uid();
        let uid = rustix::process::geteuid().as_raw();
        if owner != uid {
            return Err(format!(
                "`{}` belongs to the user with id {owner}, and you are {uid}: run the demo as that user, or choose another folder with --dir",
                path.display()
            )
            .into());
        }
        Ok(Self { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The password of the demo's users, generated in the first run and then stored in the folder.
    pub(super) fn password(&self) -> Result<String, CommandError> {
        let file = self.path.join("password");
        if let Ok(password) = fs::read_to_string(&file) {
            return Ok(password.trim().to_owned());
        }
        let mut bytes = [0; 12];
        File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes))?;
        let password: String = bytes.iter().map(|byte| letter(*byte)).collect();
        let mut out = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&file)
            .map_err(|e| cannot("write", &file, &e))?;
        out.write_all(password.as_bytes())?;
        Ok(password)
    }

    /// Removes the given folder, or both default folders; returns those that existed.
    pub(super) fn remove(given: Option<&Path>) -> Result<Vec<PathBuf>, CommandError> {
        let paths = given.map_or_else(
            || vec![PathBuf::from(DEFAULT_DIR), PathBuf::from(FALLBACK_DIR)],
            |path| vec![path.to_owned()],
        );
        let mut removed = Vec::new();
        for path in paths.into_iter().filter(|path| path.exists()) {
            let marker = path.join(MARKER);
            if !marker.exists() {
                return Err(format!(
                    "`{}` is not a folder of the demo: it was not changed",
                    path.display()
                )
                .into());
            }
            let _lock = lock(&marker)?;
            fs::remove_dir_all(&path).map_err(|e| cannot("remove", &path, &e))?;
            removed.push(path);
        }
        Ok(removed)
    }
}

fn default_dir() -> Result<PathBuf, CommandError> {
    let path = create(Path::new(DEFAULT_DIR))?;
    if require_reachable(&path).is_ok() {
        return Ok(path);
    }
    // This removes only an empty folder.
    let _ = fs::remove_dir(&path);
    create(Path::new(FALLBACK_DIR))
}

fn create(path: &Path) -> Result<PathBuf, CommandError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path)
        .map_err(|e| cannot("create", path, &e))?;
    fs::canonicalize(path).map_err(|e| cannot("find", path, &e).into())
}

fn lock(marker: &Path) -> Result<File, CommandError> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(marker)
        .map_err(|e| cannot("open", marker, &e))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        let folder = marker.parent().unwrap_or(marker).display();
        format!("a demo already runs with the folder `{folder}`: stop it first, or choose another with --dir")
    })?;
    Ok(file)
}

fn cannot(verb: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {verb} `{}`: {error}", path.display())
}

/// Maps a byte to a letter or digit, without those that are easily confused.
fn letter(byte: u8) -> char {
    const LETTERS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz23456789_";
    char::from(LETTERS[usize::from(byte % 32)])
}

const DEFAULT_DIR: &str = "demo-data";
const FALLBACK_DIR: &str = "/var/tmp/galley-demo";
const MARKER: &str = ".galley-demo";

#[cfg(test)]
mod tests {
    use galley_testkit::Scratch;

    use super::*;

    #[test]
    fn only_one_demo_can_use_a_folder() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.join("demo");
        let folder = DemoFolder::open(Some(&path)).unwrap();
        let password = folder.password().unwrap();
        assert_eq!((password.len(), folder.password().unwrap()), (12, password));
        assert!(
            DemoFolder::open(Some(&path))
                .err()
                .unwrap()
                .to_string()
                .contains("already runs")
        );
        assert!(
            DemoFolder::remove(Some(&path))
                .unwrap_err()
                .to_string()
                .contains("already runs")
        );
        drop(folder);
        drop(DemoFolder::open(Some(&path)).unwrap());
        assert_eq!(DemoFolder::remove(Some(&path)).unwrap().len(), 1);
        assert!(!path.exists());
        assert!(
            DemoFolder::remove(Some(&path)).unwrap().is_empty(),
            "a missing folder is not an error"
        );
    }

    #[test]
    fn a_folder_without_the_marker_is_not_changed() {
        let scratch = Scratch::new().unwrap();
        scratch.write("mine/letter.txt", "dear").unwrap();
        let path = scratch.join("mine");
        assert!(
            DemoFolder::open(Some(&path))
                .err()
                .unwrap()
                .to_string()
                .contains("not empty")
        );
        assert!(DemoFolder::remove(Some(&path)).is_err());
        assert!(path.join("letter.txt").exists());
    }
}
