//! The unix socket of the admin interface: its folder, its mode, and whether its path is free.

use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use crate::sys::sockets;

/// Which users may connect to a unix socket; [`super::auth`] decides what they may do then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Openness {
    /// The server's own user and root.
    Own,
    /// Everybody: there are tokens to come in with, and PHP usually runs as another user.
    Tokens,
}

/// Binds a socket in place of one that a dead server left behind.
pub(super) fn bind_unix(
    path: &Path,
    openness: Openness,
) -> io::Result<std::os::unix::net::UnixListener> {
    if let Some(folder) = path.parent() {
        private_folder(folder)?;
    }
    if sockets::is_abandoned(path)? {
        std::fs::remove_file(path)?;
    }
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    set_openness(path, openness)?;
    Ok(listener)
}

/// Lets others connect from now on, or no longer.
pub(super) fn set_openness(path: &Path, openness: Openness) -> io::Result<()> {
    let mode = match openness {
        Openness::Own => 0o600,
        Openness::Tokens => 0o666,
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Creates a folder that others may pass through but neither list nor write to, so that the socket's own mode decides. One
/// that exists must belong to this user, since it may be below `/tmp`.
fn private_folder(folder: &Path) -> io::Result<()> {
    if !folder.exists() {
        return std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o711)
            .create(folder);
    }
    is_trusted(folder, rustix::process::geteuid().as_raw())
}

/// Whether the user with this number may put its socket here, as far as can be seen without doing it.
///
/// Errors: somebody answers there, a file exists there, or the folder is another user's.
pub fn is_free(path: &Path, uid: u32) -> io::Result<()> {
    match path.parent() {
        Some(folder) if folder.exists() => is_trusted(folder, uid)?,
        _ => {}
    }
    sockets::is_abandoned(path).map(drop)
}

fn is_trusted(folder: &Path, uid: u32) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let owner = std::fs::symlink_metadata(folder)?.uid();
    if owner == uid || owner == 0 {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        "its folder belongs to another user",
    ))
}
