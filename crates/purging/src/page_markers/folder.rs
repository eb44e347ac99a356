//! The folder of a site's markers, and its events.

use std::fs::DirBuilder;
use std::io::{self, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, lchown};
use std::path::{Path, PathBuf};

use md5::{Digest, Md5};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid, fchmod, fchown, fstat, linkat, mkdirat, open,
    openat, statat, unlinkat,
};
use rustix::io::Errno;

use super::owner::FolderOwner;

/// See the module. Opened again if the folder itself was removed.
pub(super) struct MarkerFolder {
    root: OwnedFd,
    /// `.galley`: a file for each marker, which contains its key.
    keys: OwnedFd,
    owner: Option<FolderOwner>,
    /// The watch descriptor of the folder itself.
    root_watch: i32,
}

/// The removals since the last call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RemovedFiles {
    /// Names of removed files, which may have been markers.
    pub(super) names: Vec<String>,
    /// Whether a folder was removed, or more files than the events list.
    pub(super) is_everything: bool,
    /// Whether the folder itself was renamed or removed. If it was removed, its contents were removed before.
    pub(super) is_root_gone: bool,
}

/// The name of a key's marker: MD5, as in nginx.
pub(super) fn marker_name(key: &str) -> String {
    let digest = Md5::digest(key.as_bytes());
    let mut name = String::with_capacity(2 * digest.len());
    galley_policy::trace_context::push_hex(&digest, &mut name);
    name
}

/// The descriptor from which events are read.
pub(super) fn events() -> io::Result<OwnedFd> {
    Ok(inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?)
}

impl MarkerFolder {
    /// Opens or creates the folder and watches it. Returns whether `.galley` is new: then any earlier markers were removed.
    pub(super) fn open(
        path: &Path,
        owner: Option<FolderOwner>,
        events: BorrowedFd<'_>,
    ) -> io::Result<(Self, bool)> {
        match DirBuilder::new().mode(FOLDER_MODE).create(path) {
            Ok(()) => {
                if let Some(owner) = owner {
                    lchown(path, Some(owner.user), Some(owner.group))?;
                }
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let root = open(path, FOLDER, Mode::empty())?;
        let root_watch = watch(
            events,
            &root,
            WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF,
        )?;
        let (keys, is_new) = subfolder(&root, KEYS, owner)?;
        let folder = Self {
            root,
            keys,
            owner,
            root_watch,
        };
        folder.watch_all(events)?;
        Ok((folder, is_new))
    }

    /// Watches the existing folders of markers.
    fn watch_all(&self, events: BorrowedFd<'_>) -> io::Result<()> {
        for first in names(&self.root)?.iter().filter(|name| name.len() == 1) {
            let Ok(outer) = openat(&self.root, first.as_str(), FOLDER, Mode::empty()) else {
                continue;
            };
            watch(events, &outer, WatchFlags::empty())?;
            for second in names(&outer)?.iter().filter(|name| name.len() == 2) {
                if let Ok(inner) = openat(&outer, second.as_str(), FOLDER, Mode::empty()) {
                    watch(events, &inner, WatchFlags::empty())?;
                }
            }
        }
        Ok(())
    }

    /// Creates the marker of a key, if it does not exist. Returns whether it is new.
    pub(super) fn put(&self, key: &str, events: BorrowedFd<'_>) -> io::Result<bool> {
        let name = marker_name(key);
        let mut last = Errno::NOENT;
        // If a folder is removed in the meantime, start again.
        for _ in 0..ATTEMPTS {
            match self.try_put(&name, key, events) {
                Err(Errno::NOENT) => {}
                Err(Errno::EXIST) => last = Errno::EXIST,
                put => return Ok(put?),
            }
        }
        Err(last.into())
    }

    fn try_put(&self, name: &str, key: &str, events: BorrowedFd<'_>) -> Result<bool, Errno> {
        let is_new = match statat(&self.keys, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if found.st_nlink > 1 => return Ok(false),
            Ok(_) => false,
            Err(Errno::NOENT) => {
                self.write_key(name, key)?;
                true
            }
            Err(error) => return Err(error),
        };
        let (first, second) = levels(name).ok_or(Errno::INVAL)?;
        let (outer, _) = subfolder(&self.root, first, self.owner)?;
        watch(events, &outer, WatchFlags::empty())?;
        let (inner, _) = subfolder(&outer, second, self.owner)?;
        // Watched before the marker exists and could be removed.
        watch(events, &inner, WatchFlags::empty())?;
        match linkat(&self.keys, name, &inner, name, AtFlags::empty()) {
            Err(Errno::EXIST) => {
                // A file of nginx, or one that was put there by hand.
                unlinkat(&inner, name, AtFlags::empty())?;
                Err(Errno::EXIST)
            }
            linked => linked.map(|()| is_new),
        }
    }

    fn write_key(&self, name: &str, key: &str) -> Result<(), Errno> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(&self.keys, name, flags, Mode::from_raw_mode(FILE_MODE))?;
        let written = std::fs::File::from(file).write_all(format!("KEY: {key}\n").as_bytes());
        if written.is_err() {
            let _ = unlinkat(&self.keys, name, AtFlags::empty());
            return Err(Errno::IO);
        }
        Ok(())
    }

    /// The key of a removed marker; `None`: the file was no marker, or Galley has removed it.
    pub(super) fn removed(&self, name: &str) -> Option<String> {
        levels(name)?;
        let key = self.key(name)?;
        let stat = statat(&self.keys, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        // A link means that the marker was created again in the meantime.
        if stat.st_nlink == 1 {
            let _ = unlinkat(&self.keys, name, AtFlags::empty());
        }
        Some(key)
    }

    fn key(&self, name: &str) -> Option<String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.keys, name, flags, Mode::empty()).ok()?;
        let is_file = FileType::from_raw_mode(fstat(&file).ok()?.st_mode) == FileType::RegularFile;
        let mut text = String::new();
        let file = std::fs::File::from(file);
        let read = file.take(MAX_KEY).read_to_string(&mut text);
        let line = text.lines().next()?.strip_prefix("KEY: ")?;
        (is_file && read.is_ok()).then(|| line.to_owned())
    }

    /// Removes a marker and returns its key.
    pub(super) fn remove_marker(&self, name: &str) -> Option<String> {
        let key = self.key(name);
        if let Some((first, second)) = levels(name)
            && let Ok(outer) = openat(&self.root, first, FOLDER, Mode::empty())
            && let Ok(inner) = openat(&outer, second, FOLDER, Mode::empty())
        {
            let _ = unlinkat(&inner, name, AtFlags::empty());
        }
        let _ = unlinkat(&self.keys, name, AtFlags::empty());
        key
    }

    /// All markers, the oldest first. Adds the keys of removed ones to `lost`, at most one more than [`MAX_REMOVALS`].
    ///
    /// Errors: as `names`.
    pub(super) fn scan(&self, lost: &mut Vec<String>) -> io::Result<Vec<String>> {
        let mut kept = Vec::new();
        for name in names(&self.keys)? {
            match statat(&self.keys, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) if found.st_nlink > 1 => kept.push((found.st_mtime, name)),
                Ok(_) => {
                    let key = self.removed(&name);
                    lost.extend(key.filter(|_| lost.len() <= MAX_REMOVALS));
                }
                Err(_) => {}
            }
        }
        kept.sort_unstable();
        Ok(kept.into_iter().map(|(_, name)| name).collect())
    }

    /// Reads all pending events; `WouldBlock` if there are none.
    pub(super) fn read(&self, events: BorrowedFd<'_>) -> io::Result<RemovedFiles> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut reader = Reader::new(events, &mut buffer);
        let mut removed: Option<RemovedFiles> = None;
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return removed.ok_or(ErrorKind::WouldBlock.into()),
                Err(error) => return Err(error.into()),
            };
            let removals = removed.get_or_insert_default();
            let flags = event.events();
            let ends = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED;
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                removals.is_everything = true;
            } else if flags.intersects(ends) {
                removals.is_root_gone |= event.wd() == self.root_watch;
            } else if flags.contains(ReadFlags::ISDIR) || removals.names.len() >= MAX_REMOVALS {
                removals.is_everything = true;
            } else if let Some(name) = event.file_name().and_then(|name| name.to_str().ok()) {
                removals.names.push(name.to_owned());
            }
        }
    }
}

/// Opens a subfolder, which is created if needed. Returns whether it is new.
fn subfolder(
    parent: &OwnedFd,
    name: &str,
    owner: Option<FolderOwner>,
) -> Result<(OwnedFd, bool), Errno> {
    let is_new = match mkdirat(parent, name, Mode::from_raw_mode(FOLDER_MODE)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(error),
    };
    let folder = openat(parent, name, FOLDER, Mode::empty())?;
    if is_new {
        // The mode does not depend on the process's umask. The setgid bit is preserved.
        let mode = fstat(&folder)?.st_mode & 0o7777;
        fchmod(&folder, Mode::from_raw_mode(mode | FOLDER_MODE))?;
        if let Some(owner) = owner {
            let (user, group) = (Uid::from_raw(owner.user), Gid::from_raw(owner.group));
            fchown(&folder, Some(user), Some(group))?;
        }
    }
    Ok((folder, is_new))
}

/// Watches an open folder, even if its name now refers to another one.
fn watch(events: BorrowedFd<'_>, folder: &OwnedFd, more: WatchFlags) -> Result<i32, Errno> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd()));
    let removals = WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::ONLYDIR;
    inotify::add_watch(events, path, removals | more)
}

/// The subfolders of a marker: the last digit, and the two before it. `None`: the name is not that of a marker.
fn levels(name: &str) -> Option<(&str, &str)> {
    let is_hex = name
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_name = name.len() == 32 && is_hex;
    is_name.then(|| Some((name.get(31..)?, name.get(29..31)?)))?
}

/// The names in a folder. PHP may write to it.
///
/// Errors: `QuotaExceeded` if there are more than [`MAX_NAMES`].
fn names(folder: &OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        if let Ok(name) = entry?.file_name().to_str()
            && !matches!(name, "." | "..")
        {
            if names.len() >= MAX_NAMES {
                return Err(ErrorKind::QuotaExceeded.into());
            }
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Symbolic links are not followed.
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

const KEYS: &str = ".galley";

/// For owner and group. PHP is one of them.
const FOLDER_MODE: u32 = 0o770;
const FILE_MODE: u32 = 0o640;

/// The maximum length of a key. Longer than any stored address.
const MAX_KEY: u64 = 16 * 1024;

const ATTEMPTS: u32 = 4;

/// More names than a folder of markers has: twice the limit of markers, because removed ones stay until they are read.
const MAX_NAMES: usize = if cfg!(test) { 5_000 } else { 200_000 };

/// More removals at a time than a plugin makes one by one.
pub(super) const MAX_REMOVALS: usize = 1000;

/// Enough for dozens of events. A full queue takes some rounds.
const BUFFER: usize = 4096;

#[cfg(test)]
mod tests;
