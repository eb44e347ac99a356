//! The changes of `galley setup`, so that `--undo` can revert them.
//!
//! Each step is on the disk before it is made. The file is next to the configuration and readable only by its owner: its
//! contents are executed with the rights of the user who runs `--undo`, so that only a user with these rights may write it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// One step, with the data for undoing it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum UndoStep {
    /// A file was written.
    File {
        /// The path of the file.
        path: PathBuf,
        /// The previous text; `None`: the file did not exist.
        before: Option<String>,
        /// The previous permissions.
        mode: u32,
        /// SHA-256 of the written file, to detect later changes.
        written: String,
    },
    /// A file or an empty folder was created that is useless without the rest.
    Made {
        /// The path.
        path: PathBuf,
    },
    /// A unit of systemd was started, stopped, enabled or disabled.
    Unit {
        /// The name of the unit.
        unit: String,
        /// Whether the unit was running.
        was_active: bool,
        /// Whether the unit was enabled.
        was_enabled: bool,
    },
    /// The plugin was installed.
    Plugin {
        /// The folder of WordPress.
        root: PathBuf,
    },
}

/// The result of undoing a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoResult {
    /// The previous state was restored.
    Restored,
    /// The file was changed by another program since, so that it was kept.
    Kept,
}

/// The steps so far.
#[derive(Debug)]
pub struct SetupJournal {
    path: PathBuf,
    steps: Vec<UndoStep>,
    /// The number of steps from earlier runs.
    earlier: usize,
}

impl SetupJournal {
    /// Opens the journal of a configuration file; it is empty if it does not exist.
    ///
    /// Error: it cannot be read, or another user could have written it.
    pub fn open(configuration: &Path) -> io::Result<Self> {
        let mut name = configuration.file_name().unwrap_or_default().to_owned();
        name.push(".undo");
        let path = configuration.with_file_name(name);
        let mut steps: Vec<UndoStep> = Vec::new();
        if let Some(found) = existing(fs::symlink_metadata(&path))? {
            let own_uid = rustix::process::geteuid().as_raw();
            if !found.is_file() || found.uid() != own_uid || found.mode() & 0o022 != 0 {
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

    /// Records a step before it is made. A step that is recorded already is not recorded again. Changes of units are
    /// recorded in each run, because a run that fails is undone separately.
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

    /// Removes the last step, which has been undone. Removing the first step also removes the file.
    pub fn forget_last(&mut self) -> io::Result<()> {
        self.steps.pop();
        if self.steps.is_empty() {
            return fs::remove_file(&self.path);
        }
        self.save()
    }

    /// Whether the file is unchanged since this journal's last step for it.
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

    /// Writes a file atomically, after recording the previous one.
    pub fn write(&mut self, path: &Path, text: &str, mode: u32) -> io::Result<()> {
        let before = match fs::read_to_string(path) {
            Ok(before) => Some(before),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if before.as_deref() == Some(text) {
            return Ok(());
        }
        let present = fs::metadata(path).map(|found| found.mode() & 0o7777);
        self.record(UndoStep::File {
            path: path.to_owned(),
            mode: present.unwrap_or(mode),
            before,
            written: sha256(text.as_bytes()),
        })?;
        replace(path, text.as_bytes(), mode)
    }

    /// Writes the journal. Its folder is that of the configuration, which without a package does not exist at first.
    fn save(&self) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        replace(&self.path, &serde_json::to_vec_pretty(&self.steps)?, 0o600)
    }
}

impl UndoStep {
    /// Restores a file or removes a created one. Other steps are undone by programs.
    pub fn undo_file(&self) -> io::Result<UndoResult> {
        match self {
            Self::File {
                path,
                before,
                mode,
                written,
            } => {
                let content = existing(fs::read(path))?;
                // A crash between the record and the change leaves the previous state, which also counts as restored.
                let is_before = content.as_deref() == before.as_ref().map(String::as_bytes);
                if !is_before && content.is_some_and(|content| sha256(&content) != *written) {
                    return Ok(UndoResult::Kept);
                }
                match before {
                    _ if is_before => {}
                    Some(text) => replace(path, text.as_bytes(), *mode)?,
                    None => remove(path)?,
                }
                Ok(UndoResult::Restored)
            }
            Self::Made { path } => undo_made(path),
            Self::Unit { .. } | Self::Plugin { .. } => Ok(UndoResult::Kept),
        }
    }
}

/// Removes a created file or folder, unless the folder is not empty.
fn undo_made(path: &Path) -> io::Result<UndoResult> {
    let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    if !is_folder {
        remove(path)?;
    } else if fs::remove_dir(path).is_err() {
        return Ok(UndoResult::Kept);
    }
    Ok(UndoResult::Restored)
}

fn remove(path: &Path) -> io::Result<()> {
    existing(fs::remove_file(path)).map(drop)
}

/// `None` if the file does not exist.
fn existing<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a temporary file in the same folder and renames it, so that a reader sees either the old or the new file.
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

    fn undo(configuration: &Path) -> Vec<UndoResult> {
        let mut journal = SetupJournal::open(configuration).unwrap();
        let mut all = Vec::new();
        while let Some(step) = journal.steps().last().cloned() {
            all.push(step.undo_file().unwrap());
            journal.forget_last().unwrap();
        }
        all
    }

    #[test]
    fn the_folder_of_the_configuration_is_created() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("etc/galley/galley.toml");
        let mut journal = SetupJournal::open(&config).unwrap();
        journal.write(&config, "text", 0o644).unwrap();
        assert_eq!(fs::read_to_string(&config).unwrap(), "text");
        assert_eq!(undo(&config), [UndoResult::Restored]);
        assert!(!config.exists());
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
        // A second run continues after the first one.
        let mut journal = SetupJournal::open(&config).unwrap();
        assert!(journal.has_written(&config));
        journal.write(&config, "two", 0o644).unwrap();
        assert_eq!(undo(&config), [UndoResult::Restored; 4]);
        assert_eq!(fs::read_to_string(&config).unwrap(), "before");
        assert_eq!(fs::metadata(&config).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn changes_of_units_are_recorded_in_each_run() {
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
    fn a_file_that_was_changed_since_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("galley.toml");
        SetupJournal::open(&config)
            .unwrap()
            .write(&config, "ours", 0o644)
            .unwrap();
        fs::write(&config, "theirs").unwrap();
        assert!(!SetupJournal::open(&config).unwrap().has_written(&config));
        assert_eq!(undo(&config), [UndoResult::Kept]);
        assert_eq!(fs::read_to_string(&config).unwrap(), "theirs");
    }

    #[test]
    fn a_journal_that_others_may_write_is_rejected() {
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
