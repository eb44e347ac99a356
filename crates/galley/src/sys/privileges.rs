//! Giving up root, once what only root may do is done.
//!
//! It happens while the process has one thread, so that every later one is the user's. There is no way back, and it is tried.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::chown;
use rustix::process::{Gid, Uid};

use super::account::{self, Account};

/// Becomes `user`, of `group` where one is named, with his further groups. `files` become his before. Nothing is done where
/// the process is the user's already.
pub fn become_user<'f>(
    user: &str,
    group: Option<&str>,
    files: impl Iterator<Item = &'f Path>,
) -> io::Result<()> {
    let unknown =
        |what: &str| io::Error::new(io::ErrorKind::NotFound, format!("there is no such {what}"));
    let account = account::named(user).ok_or_else(|| unknown("user"))?;
    let gid = match group {
        Some(name) => account::group(name).ok_or_else(|| unknown("group"))?,
        None => account.gid,
    };
    let now = rustix::process::geteuid();
    if now.as_raw() == account.uid {
        return Ok(());
    }
    if !now.is_root() {
        let why = "galley was not started as root, which alone may become somebody else";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    if account.uid == 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is root by another name",
        ));
    }
    let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(gid));
    for file in files {
        chown(file, Some(uid), Some(gid))?;
    }
    change(&account, uid, gid)
}

/// Makes a folder for the user's sockets where there is none; later he may not.
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
    // The calls below change the thread that makes them.
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("other threads are running already"));
    }
    let mut groups: Vec<Gid> = account.groups.iter().copied().map(Gid::from_raw).collect();
    groups.push(gid);
    rustix::thread::set_thread_groups(&groups)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    if rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).is_ok() {
        return Err(io::Error::other("root could be had back"));
    }
    Ok(())
}
