//! The changes of `galley setup`, so that `--undo` can revert them.
//!
//! Each step is on the disk before it is taken. The file is beside the configuration and readable by its owner only: its
//! contents are executed with the rights of the user who runs `--undo`, so only somebody with these rights may write it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// One step, with what restores the state before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum UndoStep {
    /// A file was written.
    File {
        /// Which.
        path: PathBuf,
        /// Its text before; none: it did not exist.
        before: Option<String>,
        /// Its permissions before.
        mode: u32,
        /// SHA-256 of the written file, to detect changes since.
        written: String,
    },
    /// A file or an empty folder was made that means nothing without the rest.
    Made {
        /// Which.
        path: PathBuf,
    },
    /// A unit of systemd was started, stopped, enabled or disabled.
    Unit {
        /// Which.
        unit: String,
        /// Whether it ran before.
        was_active: bool,
        /// Whether it started with the machine.
        was_enabled: bool,
    },
    /// The plugin was installed.
    Plugin {
        /// The folder of WordPress.
        root: PathBuf,
    },
}

/// What became of a step that was to be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undone {
    /// As before.
    Restored,
    /// The file was changed by somebody since, so it stays.
    Kept,
}

/// The steps so far.
#[derive(Debug)]
pub struct SetupJournal {
    path: PathBuf,
    steps: Vec<UndoStep>,
    /// How many of them are of earlier runs.
    earlier: usize,
}

impl SetupJournal {
    /// That of a configuration file; empty if there is none.
    ///
    /// Error: it cannot be read, or somebody else could have written it.
    pub fn open(configuration: &Path) -> io::Result<Self> {
        let mut name = configuration.file_name().unwrap_or_default().to_owned();
        name.push(".undo");
        let path = configuration.with_file_name(name);
        let mut steps: Vec<UndoStep> = Vec::new();
        if let Some(found) = existing(fs::symlink_metadata(&path))? {
            let own = rustix::process::geteuid().as_raw();
            if !found.is_file() || found.uid() != own || found.mode() & 0o022 != 0 {
                let path = path.display();
                let why = format!("`{path}` must be a file that only you may write");
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
            }
            steps = serde_json::from_str(&fs::read_to_string(&path)?)?;
        }
        Ok(Self {
            path,
            earlier: steps.len(),
            steps,
        })
    }

    /// The steps, the oldest first.
    pub fn steps(&self) -> &[UndoStep] {
        &self.steps
    }

    /// Records a step before it is taken. One that does not change what is restored is recorded once. A change of a unit is
    /// recorded in each run, because a run that fails is undone alone.
    pub fn record(&mut self, step: UndoStep) -> io::Result<()> {
        let since = match step {
            UndoStep::Unit { .. } => self.earlier.min(self.steps.len()),
            _ => 0,
        };
        if self.steps.iter().skip(since).any(|noted| *noted == step) {
            return Ok(());
        }
        self.steps.push(step);
        self.save()
    }

    /// Removes the last step, which has been undone; the file goes with the first.
    pub fn forget_last(&mut self) -> io::Result<()> {
        self.steps.pop();
        if self.steps.is_empty() {
            return fs::remove_file(&self.path);
        }
        self.save()
    }

    /// Whether the file is as this journal's last step about it has left it.
    pub fn has_written(&self, path: &Path) -> bool {
        let last = self.steps.iter().rev().find_map(|step| match step {
            UndoStep::File {
                path: own, written, ..
            } if own == path => Some(written),
            _ => None,
        });
        let text = fs::read(path).ok();
        last.zip(text)
            .is_some_and(|(written, text)| *written == sha256(&text))
    }

    /// Writes a file in one step, after recording the former one.
    pub fn write(&mut self, path: &Path, text: &str, mode: u32) -> io::Result<()> {
        let before = match fs::read_to_string(path) {
            Ok(before) => Some(before),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if before.as_deref() == Some(text) {
            return Ok(());
        }
        let found = fs::metadata(path).map(|found| found.mode() & 0o7777);
        self.record(UndoStep::File {
            path: path.to_owned(),
            mode: found.unwrap_or(mode),
            before,
            written: sha256(text.as_bytes()),
        })?;
        replace(path, text.as_bytes(), mode)
    }

    fn save(&self) -> io::Result<()> {
        replace(&self.path, &serde_json::to_vec_pretty(&self.steps)?, 0o600)
    }
}

impl UndoStep {
    /// Restores a file or removes a created one; other steps are those of programs.
    pub fn undo_file(&self) -> io::Result<Undone> {
        match self {
            Self::File {
                path,
                before,
                mode,
                written,
            } => {
                let found = existing(fs::read(path))?;
                // Created again by a crash between the record and the file: that is as before, too.
                let is_before = found.as_deref() == before.as_ref().map(String::as_bytes);
                if !is_before && found.is_some_and(|found| sha256(&found) != *written) {
                    return Ok(Undone::Kept);
                }
                match before {
                    _ if is_before => {}
                    Some(text) => replace(path, text.as_bytes(), *mode)?,
                    None => remove(path)?,
                }
                Ok(Undone::Restored)
            }
            Self::Made { path } => undo_made(path),
            Self::Unit { .. } | Self::Plugin { .. } => Ok(Undone::Kept),
        }
    }
}

/// Removes what was created, but no folder that others use by now.
fn undo_made(path: &Path) -> io::Result<Undone> {
    let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    if !is_folder {
        remove(path)?;
    } else if fs::remove_dir(path).is_err() {
        return Ok(Undone::Kept);
    }
    Ok(Undone::Restored)
}

fn remove(path: &Path) -> io::Result<()> {
    existing(fs::remove_file(path)).map(drop)
}

/// `None` if there is no such file.
fn existing<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes beside the place and renames: a reader sees the old file or the new one.
fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file()
        .set_permissions(fs::Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undo(configuration: &Path) -> Vec<Undone> {
        let mut journal = SetupJournal::open(configuration).unwrap();
        let mut all = Vec::new();
        while let Some(step) = journal.steps().last().cloned() {
            all.push(step.undo_file().unwrap());
            journal.forget_last().unwrap();
        }
        all
    }

    #[test]
    fn files_are_restored_with_their_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let (config, other) = (dir.path().join("galley.toml"), dir.path().join("sub"));
        fs::write(&config, "before").unwrap();
        fs::set_permissions(&config, fs::Permissions::from_mode(0o640)).unwrap();
        let mut journal = SetupJournal::open(&config).unwrap();
        journal
            .record(UndoStep::Made {
                path: other.clone(),
            })
            .unwrap();
        fs::create_dir(&other).unwrap();
        journal.write(&config, "one", 0o644).unwrap();
        journal.write(&other.join("new"), "new", 0o600).unwrap();
        // A second run continues where the first ended.
        let mut journal = SetupJournal::open(&config).unwrap();
        assert!(journal.has_written(&config));
        journal.write(&config, "two", 0o644).unwrap();
        assert_eq!(undo(&config), [Undone::Restored; 4]);
        assert_eq!(fs::read_to_string(&config).unwrap(), "before");
        assert_eq!(fs::metadata(&config).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn changes_of_units_are_noted_in_each_run() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("galley.toml");
        let step = UndoStep::Unit {
            unit: "galley.socket".to_owned(),
            was_active: false,
            was_enabled: true,
        };
        for run in 1..=2 {
            let mut journal = SetupJournal::open(&config).unwrap();
            journal.record(step.clone()).unwrap();
            journal.record(step.clone()).unwrap();
            assert_eq!(journal.steps().len(), run);
        }
    }

    #[test]
    fn a_file_that_somebody_has_changed_stays() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("galley.toml");
        SetupJournal::open(&config)
            .unwrap()
            .write(&config, "ours", 0o644)
            .unwrap();
        fs::write(&config, "theirs").unwrap();
        assert!(!SetupJournal::open(&config).unwrap().has_written(&config));
        assert_eq!(undo(&config), [Undone::Kept]);
        assert_eq!(fs::read_to_string(&config).unwrap(), "theirs");
    }

    #[test]
    fn a_journal_that_others_may_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("galley.toml");
        let file = dir.path().join("galley.toml.undo");
        fs::write(&file, "[]").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(SetupJournal::open(&config).is_err());
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &file).unwrap();
        assert!(SetupJournal::open(&config).is_err());
    }
}
