//! The unix socket of the admin interface: its folder, its mode, and whether its path is free.

use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use galley_sys::sockets;

/// The users with permission to connect to a unix socket; [`super::auth`] decides their access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdminSocketAccess {
    /// The server's own user and root.
    Own,
    /// All users: clients need a token, and PHP usually runs as another user.
    Tokens,
}

/// Binds a socket, and replaces an abandoned one.
pub(super) fn bind_unix(
    path: &Path,
    access: AdminSocketAccess,
) -> io::Result<std::os::unix::net::UnixListener> {
    if let Some(folder) = path.parent() {
        private_folder(folder)?;
    }
    if sockets::is_abandoned(path)? {
        std::fs::remove_file(path)?;
    }
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    set_access(path, access)?;
    Ok(listener)
}

/// Sets which users may connect.
pub(super) fn set_access(path: &Path, access: AdminSocketAccess) -> io::Result<()> {
    let mode = match access {
        AdminSocketAccess::Own => 0o600,
        AdminSocketAccess::Tokens => 0o666,
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Creates a folder that other users may search but neither list nor write to, so that the socket's own mode decides. An existing
/// folder must belong to this user or root, since it may be below `/tmp`.
fn private_folder(folder: &Path) -> io::Result<()> {
    if !folder.exists() {
        return std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o711)
            .create(folder);
    }
    is_trusted(folder, rustix::process::geteuid().as_raw())
}

/// Checks that a user may create the socket at this path, as far as that is possible without creating it.
///
/// Errors: a process listens there, a file exists there, or the folder belongs to another user.
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
