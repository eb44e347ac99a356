//! Gives up root, or the capabilities that are not needed, when everything that needs root is done.
//!
//! This happens while the process has one thread, so every later thread has the user's rights. It cannot be undone, which is
//! verified.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, chown};
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::account::{self, Account};

/// Switches to `user` and its supplementary groups, with `group` as the primary group if given. Changes the owner of `files` before
/// that. Does nothing if the process already has this user.
pub fn become_user<'f>(
    user: &str,
    group: Option<&str>,
    files: impl Iterator<Item = &'f Path>,
) -> io::Result<()> {
    let account = account_of(user, group)?;
    let gid = account.gid;
    let now = rustix::process::geteuid();
    if now.as_raw() == account.uid {
        return Ok(());
    }
    if !now.is_root() {
        let why = "Galley was not started as root, so it cannot switch to another user";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    if account.uid == 0 {
        let why = "it has the user id of root";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(gid));
    for file in files {
        chown(file, Some(uid), Some(gid))?;
    }
    change(&account, uid, gid)
}

/// The account of `user`, with `group` as the primary group if given.
pub fn account_of(user: &str, group: Option<&str>) -> io::Result<Account> {
    let unknown =
        |what: &str| io::Error::new(io::ErrorKind::NotFound, format!("there is no such {what}"));
    let mut account = account::named(user).ok_or_else(|| unknown("user"))?;
    if let Some(name) = group {
        account.gid = account::group(name).ok_or_else(|| unknown("group"))?;
    }
    Ok(account)
}

/// Checks that a path is an executable file.
///
/// Errors: the reason why it is not.
pub fn is_program(path: &Path) -> io::Result<()> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a file",
        ));
    }
    Ok(rustix::fs::access(path, rustix::fs::Access::EXEC_OK)?)
}

/// Whether the process runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Switches to this account, with its groups, permanently. Requires root and a single thread.
pub fn become_account(account: &Account) -> io::Result<()> {
    if account.uid == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is root"));
    }
    change(
        account,
        Uid::from_raw(account.uid),
        Gid::from_raw(account.gid),
    )
}

/// Opens a directory that was just created for root alone in a directory where other users may write, and which they could have
/// replaced since, for example by a link.
pub fn own_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path, flags, Mode::empty())?;
    let about = rustix::fs::fstat(&folder)?;
    let others = Mode::RWXG | Mode::RWXO;
    if about.st_uid != 0 || Mode::from_raw_mode(about.st_mode).intersects(others) {
        return Err(io::Error::other("another file has replaced it"));
    }
    Ok(folder)
}

/// Gives an open file or pipe to an account, so that it can be opened again by its descriptor.
pub fn chown_open(file: impl AsFd, account: &Account) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
    Ok(rustix::fs::fchown(file, Some(uid), Some(gid))?)
}

/// Keeps the capabilities that are needed to start processes of other users, to signal them and to clean up after them, and drops
/// the rest.
///
/// This limits the effect of mistakes, not of an attacker with control of the process: a process that may become any user may
/// become root.
pub fn keep_starting() -> io::Result<()> {
    let kept = CapabilitySet::SETUID
        | CapabilitySet::SETGID
        | CapabilitySet::KILL
        // The user owns the pipe of the process's output, and the directory of its socket.
        | CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE;
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// Creates a directory for the user's sockets, which the user could not create later, if it does not exist.
pub fn folder_for(user: &str, folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    if folder.exists() || !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let Some(account) = account::named(user) else {
        return Ok(());
    };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o711).create(folder)?;
    let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
    Ok(chown(folder, Some(uid), Some(gid))?)
}

fn change(account: &Account, uid: Uid, gid: Gid) -> io::Result<()> {
    // The calls below only change the calling thread.
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("other threads are running already"));
    }
    let mut groups: Vec<Gid> = account.groups.iter().copied().map(Gid::from_raw).collect();
    groups.push(gid);
    rustix::thread::set_thread_groups(&groups)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    if rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).is_ok() {
        return Err(io::Error::other("root privileges could be regained"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn only_private_folders_of_root_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a");
        fs::create_dir(&folder).unwrap();
        let mode = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o700);
        assert_eq!(own_folder(&folder).is_ok(), is_root());
        mode(0o710);
        assert!(own_folder(&folder).is_err());
        mode(0o700);
        let link = dir.path().join("link");
        symlink(&folder, &link).unwrap();
        assert!(own_folder(&link).is_err());
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(own_folder(&dir.path().join("file")).is_err());
    }
}
