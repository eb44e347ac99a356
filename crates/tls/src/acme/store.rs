//! The files that survive a restart: the account and the certificates, readable only by Galley's user.
//!
//! ```text
//! <storage>/<directory>/account.json       the account's address, its key, what it was registered with
//! <storage>/<directory>/sites/<name>.pem   private key, then the chain: one file, so that they cannot come apart
//! ```
//!
//! A file is written under a temporary name, synced, and renamed, so that after a crash either the old or the new version is
//! complete. A file that cannot be parsed is renamed to `.broken` and replaced by its next version. These calls block, so
//! that front threads must not use them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use galley_certs::file;
use galley_config::AcmeConfig;

/// The folder of one directory's account and certificates.
pub(super) struct Store {
    folder: PathBuf,
    sites: PathBuf,
}

impl Store {
    /// Opens the storage: creates missing folders, and removes incomplete files from a crash.
    pub(super) fn open(storage: &Path, directory: &str) -> io::Result<Self> {
        let store = Self::of(storage, directory);
        let (folder, sites) = (&store.folder, &store.sites);
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("`{}`: {error}", sites.display()))
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(sites)
            .map_err(named)?;
        is_ours(folder).map_err(named)?;
        for folder in [folder, sites] {
            clear(folder).map_err(|error| {
                io::Error::new(error.kind(), format!("`{}`: {error}", folder.display()))
            })?;
        }
        Ok(store)
    }

    /// The paths of the storage, without creating or removing anything.
    pub(super) fn of(storage: &Path, directory: &str) -> Self {
        let folder = storage.join(file_name(directory));
        let sites = folder.join("sites");
        Self { folder, sites }
    }

    /// The path of the account's file.
    pub(super) fn account(&self) -> PathBuf {
        self.folder.join("account.json")
    }

    /// The path of the certificate with this first name.
    pub(super) fn certificate(&self, name: &str) -> PathBuf {
        self.sites.join(format!("{}.pem", file_name(name)))
    }
}

/// Checks that other users cannot replace files in the folder, before private keys are written there.
fn is_ours(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    let me = rustix::process::geteuid().as_raw();
    if found.is_dir() && found.uid() == me && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        "its folder belongs to another user, or others may write to it",
    ))
}

fn clear(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "tmp") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// The file's text; `None` if it does not exist.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    match file::read_text(path, galley_certs::MAX_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(unread) if unread.is_missing() => Ok(None),
        Err(unread) => Err(unread.into()),
    }
}

/// Replaces the file by `text`, durably, readable by the owner only.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    let temporary = with_suffix(path, "tmp");
    let written = write_temporary(path, &temporary, text);
    if written.is_err() {
        // The file may not exist.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn write_temporary(path: &Path, temporary: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(temporary, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Renames a file that cannot be used, and keeps it for examination.
pub(super) fn set_aside(path: &Path) -> io::Result<()> {
    fs::rename(path, with_suffix(path, "broken"))
}

fn with_suffix(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(end);
    PathBuf::from(name)
}

/// A file name from a text: `ca.test-dir` from `https://ca.test/dir`.
fn file_name(text: &str) -> String {
    let text = text.strip_prefix("https://").unwrap_or(text);
    let plain = text.chars().map(|c| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' | '_' => c,
        // The file of a wildcard must differ from that of the name without it.
        '*' => '_',
        _ => '-',
    });
    let name: String = plain.take(MAX_NAME).collect();
    name.trim_matches(['.', '-']).to_owned()
}

/// The maximum length. A host name has at most 253 bytes, a file name 255.
const MAX_NAME: usize = 240;

/// The path of the certificate with this first name: its private key, then the chain.
pub fn file_of(settings: &AcmeConfig, name: &str) -> PathBuf {
    Store::of(&settings.storage, &settings.directory).certificate(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn written_files_are_complete_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("a/b"), "https://ca.test:14000/dir").unwrap();
        let place = store.certificate("example.com");
        assert!(
            place.ends_with("a/b/ca.test-14000-dir/sites/example.com.pem"),
            "{place:?}"
        );
        assert_eq!(read(&place).unwrap(), None);
        write(&place, "one").unwrap();
        write(&place, "two").unwrap();
        assert_eq!(read(&place).unwrap().as_deref(), Some("two"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&place), 0o600);
        assert_eq!(mode(place.parent().unwrap()), 0o700);
        assert_eq!(fs::read_dir(place.parent().unwrap()).unwrap().count(), 1);
        set_aside(&place).unwrap();
        assert_eq!(read(&place).unwrap(), None);
        assert_eq!(mode(&with_suffix(&place, "broken")), 0o600);
    }

    #[test]
    fn incomplete_files_of_a_crash_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Store::open(dir.path(), "https://ca.test/dir").unwrap();
        let place = open().certificate("example.com");
        write(&place, "kept").unwrap();
        fs::write(with_suffix(&place, "tmp"), "torn").unwrap();
        fs::write(with_suffix(&open().account(), "tmp"), "torn").unwrap();
        let store = open();
        assert!(!with_suffix(&place, "tmp").exists());
        assert!(!with_suffix(&store.account(), "tmp").exists());
        assert_eq!(read(&place).unwrap().as_deref(), Some("kept"));
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), "https://ca.test/dir").unwrap();
        fs::set_permissions(&store.folder, fs::Permissions::from_mode(0o770)).unwrap();
        let refused = Store::open(dir.path(), "https://ca.test/dir").err();
        assert_eq!(
            refused.map(|e| e.kind()),
            Some(io::ErrorKind::PermissionDenied)
        );
    }

    #[test]
    fn a_failed_write_keeps_the_old_file_and_no_temporary_one() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("x.pem");
        fs::create_dir(&place).unwrap();
        assert!(write(&place, "new").is_err());
        assert!(place.is_dir());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn names_of_files_stay_in_their_folder() {
        for (text, want) in [
            ("example.com", "example.com"),
            (
                "https://acme-v02.api.letsencrypt.org/directory",
                "acme-v02.api.letsencrypt.org-directory",
            ),
            ("../../etc/passwd", "etc-passwd"),
            ("..", ""),
            ("a/\0b", "a--b"),
        ] {
            assert_eq!(file_name(text), want, "{text:?}");
        }
    }
}
