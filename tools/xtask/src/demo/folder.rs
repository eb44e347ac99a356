//! The demo's folder: where it is, whose it is, and that only one demo uses it at a time.
//!
//! Without `--dir` it is `demo-data` below the current directory; where root starts the demo in a place that PHP's user cannot
//! enter (a clone in /root), it is /var/tmp/galley-demo. A marker file tells the demo's folders from all others: only those
//! are ever removed.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use galley_testkit::require_reachable;
use rustix::fs::{FlockOperation, flock};

use super::CommandError;

/// A folder that is locked for this process.
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Opens or makes the folder and locks it.
    pub(super) fn open(wanted: Option<&Path>) -> Result<Self, CommandError> {
        let path = match wanted {
            Some(path) => make(path)?,
            None => default_place()?,
        };
        require_reachable(&path)?;
        let marker = path.join(MARKER);
        let new = !marker.exists();
        if new
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
            .map_err(|e| cannot("look at", &marker, &e))?
            .uid();
        let me = rustix::process::geteuid().as_raw();
        if owner != me {
            return Err(format!(
                "`{}` was made by the user with id {owner}, and you are {me}: run the demo as that user, or choose another folder with --dir",
                path.display()
            )
            .into());
        }
        Ok(Self { path, _lock: lock })
    }

    /// The folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The password of the demo's users: made by chance the first time, then kept.
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

    /// Removes the demo's folder, or both default places; returns what was there.
    pub(super) fn remove(wanted: Option<&Path>) -> Result<Vec<PathBuf>, CommandError> {
        let places = wanted.map_or_else(
            || vec![PathBuf::from(USUAL), PathBuf::from(ELSEWHERE)],
            |path| vec![path.to_owned()],
        );
        let mut removed = Vec::new();
        for path in places.into_iter().filter(|path| path.exists()) {
            let marker = path.join(MARKER);
            if !marker.exists() {
                return Err(format!(
                    "`{}` is not a folder of the demo: nothing in it was changed",
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

fn default_place() -> Result<PathBuf, CommandError> {
    let usual = make(Path::new(USUAL))?;
    if require_reachable(&usual).is_ok() {
        return Ok(usual);
    }
    // Only an empty folder goes: what somebody put there stays.
    let _ = fs::remove_dir(&usual);
    make(Path::new(ELSEWHERE))
}

fn make(path: &Path) -> Result<PathBuf, CommandError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path)
        .map_err(|e| cannot("make", path, &e))?;
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
        format!("a demo already runs with the folder `{folder}`: end it first, or choose another with --dir")
    })?;
    Ok(file)
}

fn cannot(verb: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {verb} `{}`: {error}", path.display())
}

/// Letters and digits that are not mistaken for one another.
fn letter(byte: u8) -> char {
    const LETTERS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz23456789_";
    char::from(LETTERS[usize::from(byte % 32)])
}

const USUAL: &str = "demo-data";
const ELSEWHERE: &str = "/var/tmp/galley-demo";
const MARKER: &str = ".galley-demo";

#[cfg(test)]
mod tests {
    use galley_testkit::Scratch;

    use super::*;

    #[test]
    fn one_demo_at_a_time_and_only_in_its_own_folder() {
        let scratch = Scratch::new().unwrap();
        let place = scratch.join("demo");
        let folder = Folder::open(Some(&place)).unwrap();
        let password = folder.password().unwrap();
        assert_eq!((password.len(), folder.password().unwrap()), (12, password));
        assert!(
            Folder::open(Some(&place))
                .err()
                .unwrap()
                .to_string()
                .contains("already runs")
        );
        assert!(
            Folder::remove(Some(&place))
                .unwrap_err()
                .to_string()
                .contains("already runs")
        );
        drop(folder);
        drop(Folder::open(Some(&place)).unwrap());
        assert_eq!(Folder::remove(Some(&place)).unwrap().len(), 1);
        assert!(!place.exists());
        assert!(
            Folder::remove(Some(&place)).unwrap().is_empty(),
            "nothing to remove is fine"
        );
    }

    #[test]
    fn a_foreign_folder_is_left_alone() {
        let scratch = Scratch::new().unwrap();
        scratch.write("mine/letter.txt", "dear").unwrap();
        let place = scratch.join("mine");
        assert!(
            Folder::open(Some(&place))
                .err()
                .unwrap()
                .to_string()
                .contains("not empty")
        );
        assert!(Folder::remove(Some(&place)).is_err());
        assert!(place.join("letter.txt").exists());
    }
}
