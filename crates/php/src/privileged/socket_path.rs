//! Access to a socket that PHP's own user has created, in a folder of that user.
//!
//! Only that user and Galley have access: the user by a path through a folder that is closed to all others, Galley by the
//! descriptor of the inner folder, which it opened as root. Group memberships therefore do not matter.
//!
//! A script of the site may replace the socket, for example by a link to another site's socket, and Galley
//! would then have that site's PHP run this site's script. Galley therefore does not connect by name: it opens the socket without
//! following a link, checks its owner, and connects by that descriptor, whose number does not change as long as the pool
//! exists.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use galley_sys::Lock;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, statat};
use rustix::io::DupFlags;

/// The path to one socket, whichever process creates it.
#[derive(Debug)]
pub(crate) struct SocketPath {
    folder: OwnedFd,
    name: &'static str,
    owner: u32,
    /// The last socket that passed the check; before that the folder, to which connecting fails.
    seen: Lock<OwnedFd>,
    path: PathBuf,
}

impl SocketPath {
    /// The path to the socket `name` in `folder`, owned by the user with the id `owner`.
    pub(super) fn new(folder: OwnedFd, name: &'static str, owner: u32) -> io::Result<Self> {
        let seen = folder.try_clone()?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", seen.as_raw_fd()));
        Ok(Self {
            folder,
            name,
            owner,
            seen: Lock::new(seen),
            path,
        })
    }

    /// The folder of the socket.
    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// The id of the user who owns the socket.
    pub(super) fn owner(&self) -> u32 {
        self.owner
    }

    /// The path to connect to, which never changes.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks the current socket, and uses it from now on. Three system calls.
    pub(crate) fn look(&self) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = openat(&self.folder, self.name, flags, Mode::empty())?;
        let about = statat(&found, "", AtFlags::EMPTY_PATH)?;
        let is_socket = FileType::from_raw_mode(about.st_mode) == FileType::Socket;
        if !is_socket || about.st_uid != self.owner {
            return Err(io::Error::other("it is not PHP's own socket"));
        }
        let mut seen = self.seen.lock();
        Ok(rustix::io::dup3(&found, &mut seen, DupFlags::CLOEXEC)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn only_the_users_own_socket_is_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let own = rustix::process::geteuid().as_raw();
        let folder = || fs::File::open(dir.path()).unwrap().into();
        let socket_path = SocketPath::new(folder(), "s", own).unwrap();
        let connects = || UnixStream::connect(socket_path.path()).is_ok();
        assert!(socket_path.look().is_err() && !connects());
        let socket = dir.path().join("s");
        let other = dir.path().join("other");
        let _other = UnixListener::bind(&other).unwrap();
        symlink(&other, &socket).unwrap();
        assert!(socket_path.look().is_err() && !connects());
        fs::remove_file(&socket).unwrap();
        fs::write(&socket, "").unwrap();
        assert!(socket_path.look().is_err() && !connects());
        fs::remove_file(&socket).unwrap();
        let first = UnixListener::bind(&socket).unwrap();
        assert!(!connects());
        socket_path.look().unwrap();
        assert!(connects());
        // Replacing the file does not affect the checked socket.
        fs::remove_file(&socket).unwrap();
        symlink(&other, &socket).unwrap();
        assert!(socket_path.look().is_err() && connects());
        drop(first);
        assert!(!connects());
        fs::remove_file(&socket).unwrap();
        let path = socket_path.path().to_owned();
        let _second = UnixListener::bind(&socket).unwrap();
        socket_path.look().unwrap();
        assert!(connects() && socket_path.path() == path);
        let stranger = SocketPath::new(folder(), "s", own + 1).unwrap();
        assert!(stranger.look().is_err());
    }
}
