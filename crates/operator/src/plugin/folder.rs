//! A folder below a WordPress, held open: every operation in it uses its descriptor, and no symbolic link is followed.
//!
//! The command often runs as root in folders that PHP may write to. With paths, an attacker who replaces a folder by a link at
//! the right moment could make root write elsewhere.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Uid, fchmod, fchown, fstat, mkdirat,
    openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

/// User and group of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileOwner {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// An open folder.
pub(super) struct PluginFolder {
    fd: OwnedFd,
    /// The path for messages.
    path: PathBuf,
}

impl PluginFolder {
    /// Opens the folder that the caller has named. Follows links.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            fd: openat(CWD, path, flags, Mode::empty())?,
            path: path.to_owned(),
        })
    }

    /// Opens a subfolder. Does not follow links.
    pub(super) fn enter(&self, name: &str) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self {
            fd: openat(&self.fd, name, flags, Mode::empty())?,
            path: self.path.join(name),
        })
    }

    /// Opens a subfolder, and creates it if it is missing.
    pub(super) fn make(&self, name: &str, owner: Option<FileOwner>) -> io::Result<Self> {
        match mkdirat(&self.fd, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => {
                let made = self.enter(name)?;
                fchmod(&made.fd, Mode::from_raw_mode(0o755))?;
                chown(&made.fd, owner)?;
                Ok(made)
            }
            Err(Errno::EXIST) => self.enter(name),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn owner(&self) -> io::Result<FileOwner> {
        let stat = fstat(&self.fd)?;
        Ok(FileOwner {
            uid: stat.st_uid,
            gid: stat.st_gid,
        })
    }

    /// The type of an entry, without following links; `None` if it does not exist.
    pub(super) fn kind(&self, name: &str) -> io::Result<Option<FileType>> {
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(FileType::from_raw_mode(found.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The beginning of a file, at most `most` bytes.
    pub(super) fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        // Does not block if the name is a pipe or a device.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.fd, name, flags, Mode::empty())?);
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes a file that must not exist yet.
    pub(super) fn write_new(
        &self,
        name: &str,
        bytes: &[u8],
        mode: u32,
        owner: Option<FileOwner>,
    ) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        // The file is private until it has its owner; only then it gets its final mode.
        let fd = openat(&self.fd, name, flags, Mode::from_raw_mode(0o600))?;
        let mut file = File::from(fd);
        file.write_all(bytes)?;
        chown(&file, owner)?;
        fchmod(&file, Mode::from_raw_mode(mode))?;
        file.sync_data()
    }

    /// Replaces a file atomically.
    pub(super) fn write(
        &self,
        name: &str,
        bytes: &[u8],
        mode: u32,
        owner: Option<FileOwner>,
    ) -> io::Result<()> {
        let new = temporary(name)?;
        let put = self
            .write_new(&new, bytes, mode, owner)
            .and_then(|()| Ok(renameat(&self.fd, &new, &self.fd, name)?));
        if put.is_err() {
            let _ = unlinkat(&self.fd, &new, AtFlags::empty());
        }
        put
    }

    /// Replaces the folder `name` by `new`, atomically if the file system supports it, and removes the previous folder.
    pub(super) fn replace(&self, new: &str, name: &str) -> io::Result<()> {
        if self.kind(name)?.is_none() {
            return Ok(renameat(&self.fd, new, &self.fd, name)?);
        }
        match renameat_with(&self.fd, new, &self.fd, name, RenameFlags::EXCHANGE) {
            Ok(()) => return self.remove_tree(new),
            Err(Errno::INVAL | Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
        let old = temporary(name)?;
        renameat(&self.fd, name, &self.fd, &old)?;
        if let Err(error) = renameat(&self.fd, new, &self.fd, name) {
            let _ = renameat(&self.fd, &old, &self.fd, name);
            return Err(error.into());
        }
        self.remove_tree(&old)
    }

    /// Removes a folder with its contents; removes links in it without following them.
    pub(super) fn remove_tree(&self, name: &str) -> io::Result<()> {
        // By descriptor, because the path may refer to another folder by now.
        let here = PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()));
        std::fs::remove_dir_all(here.join(name))
    }

    /// Removes a file; returns false if it did not exist.
    pub(super) fn remove_file(&self, name: &str) -> io::Result<bool> {
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// A random temporary name for the entry `name`.
pub(super) fn temporary(name: &str) -> io::Result<String> {
    Ok(format!(".{name}-{}", random_hex(8)?))
}

/// Random bytes as hexadecimal digits.
pub(super) fn random_hex(bytes: usize) -> io::Result<String> {
    use std::fmt::Write as _;
    let mut random = vec![0_u8; bytes];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let mut text = String::with_capacity(bytes * 2);
    for byte in random {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

fn chown(fd: impl AsFd, owner: Option<FileOwner>) -> io::Result<()> {
    if let Some(owner) = owner {
        let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
        fchown(fd, Some(uid), Some(gid))?;
    }
    Ok(())
}

/// The user with this name in `/etc/passwd`.
pub(super) fn user(name: impl AsRef<OsStr>) -> Option<FileOwner> {
    let text = std::fs::read_to_string("/etc/passwd").ok()?;
    let name = name.as_ref().to_str()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_named = fields.next()? == name;
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        is_named.then_some(FileOwner { uid, gid })
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn links_are_never_followed() {
        let place = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("kept"), "kept").unwrap();
        symlink(outside.path(), place.path().join("out")).unwrap();
        symlink(outside.path().join("kept"), place.path().join("file")).unwrap();
        let folder = PluginFolder::open(place.path()).unwrap();
        assert!(folder.enter("out").is_err());
        assert!(folder.make("out", None).is_err());
        assert!(folder.read("file", 100).is_err());
        assert_eq!(folder.kind("out").unwrap(), Some(FileType::Symlink));
        folder.write("file", b"new", 0o600, None).unwrap();
        let inner = folder.make("tree", None).unwrap();
        symlink(outside.path(), place.path().join("tree/out")).unwrap();
        inner.write_new("a", b"a", 0o644, None).unwrap();
        folder.remove_tree("tree").unwrap();
        let kept = std::fs::read_to_string(outside.path().join("kept")).unwrap();
        assert_eq!(kept, "kept");
        let new = place.path().join("file");
        assert_eq!(std::fs::read_to_string(&new).unwrap(), "new");
        let mode = new.symlink_metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_replaced_folder_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let folder = PluginFolder::open(place.path()).unwrap();
        for text in ["one", "two"] {
            let new = temporary("galley").unwrap();
            let inner = folder.make(&new, None).unwrap();
            inner.write_new("a", text.as_bytes(), 0o644, None).unwrap();
            folder.replace(&new, "galley").unwrap();
            let names: Vec<_> = std::fs::read_dir(place.path()).unwrap().collect();
            assert_eq!(names.len(), 1, "{names:?}");
            let inner = folder.enter("galley").unwrap();
            assert_eq!(inner.read("a", 100).unwrap(), text.as_bytes());
        }
        assert!(folder.remove_file("b").is_ok_and(|was_there| !was_there));
    }
}
