//! Which paths a user may write to, determined without writing.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, StatVfsMountFlags};

use super::account::Account;

/// The user of this process, or the one that it is going to become.
#[derive(Clone, Debug)]
pub struct UserIdentity(Option<Account>);

impl UserIdentity {
    /// The user of this process.
    pub fn this() -> Self {
        Self(None)
    }

    /// The account that a process of root will switch to; otherwise the user of this process, which cannot switch.
    pub fn becoming(account: Account) -> Self {
        Self(Some(account).filter(|_| rustix::process::geteuid().is_root()))
    }

    /// The user id.
    pub fn uid(&self) -> u32 {
        let own_uid = || rustix::process::geteuid().as_raw();
        self.0.as_ref().map_or_else(own_uid, |account| account.uid)
    }

    /// Checks that a file, or files in a directory, may be written. For another user, only owner and mode are considered, not other
    /// rules of the system.
    ///
    /// Errors: the reason why not; `Unsupported` for a file system that holds no files of programs.
    pub fn may_write(&self, path: &Path) -> io::Result<()> {
        let path = fs::canonicalize(path)?;
        let is_folder = path.is_dir();
        if is_folder {
            holds_files(&path)?;
        }
        let Some(account) = &self.0 else {
            let walk = if is_folder {
                Access::EXEC_OK
            } else {
                Access::empty()
            };
            return Ok(rustix::fs::accessat(
                CWD,
                &path,
                Access::WRITE_OK | walk,
                AtFlags::EACCESS,
            )?);
        };
        for above in path.ancestors().skip(1) {
            allows(account, above, 0o1)?;
        }
        allows(account, &path, if is_folder { 0o3 } else { 0o2 })
    }
}

/// Whether a folder is on a file system that holds files, and is not mounted read-only.
fn holds_files(folder: &Path) -> io::Result<()> {
    let kind = u64::try_from(rustix::fs::statfs(folder)?.f_type).unwrap_or_default();
    if let Some((_, name)) = KERNEL_FILE_SYSTEMS.iter().find(|(known, _)| *known == kind) {
        let why = format!("`{name}` is a view into the kernel, which holds no files");
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let flags = rustix::fs::statvfs(folder)?.f_flag;
    if flags.contains(StatVfsMountFlags::RDONLY) {
        return Err(rustix::io::Errno::ROFS.into());
    }
    Ok(())
}

/// File systems of the kernel without storage, by their numbers in linux/magic.h.
const KERNEL_FILE_SYSTEMS: &[(u64, &str)] = &[
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x1cd1, "devpts"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0xcafe_4a11, "bpf"),
    (0x6265_6570, "configfs"),
    (0x6165_676c, "pstore"),
    (0xde5e_81e4, "efivarfs"),
    (0x1980_0202, "mqueue"),
    (0x6573_5543, "fusectl"),
    (0x4249_4e4d, "binfmt_misc"),
];

/// `wanted`: permission bits of one class, 2 to write and 1 to search.
fn allows(account: &Account, path: &Path, wanted: u32) -> io::Result<()> {
    let metadata = fs::metadata(path)?;
    let class = if metadata.uid() == account.uid {
        metadata.mode() >> 6
    } else if metadata.gid() == account.gid || account.groups.contains(&metadata.gid()) {
        metadata.mode() >> 3
    } else {
        metadata.mode()
    };
    if class & wanted == wanted {
        return Ok(());
    }
    Err(rustix::io::Errno::ACCESS.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn owner_group_and_others_have_separate_bits() {
        let dir = tempfile::tempdir().unwrap();
        let found = fs::metadata(dir.path()).unwrap();
        let account = |uid, gid, groups: &[u32]| Account {
            uid,
            gid,
            groups: groups.to_owned(),
        };
        let (uid, gid) = (found.uid(), found.gid());
        let (owner, stranger) = (account(uid, gid + 1, &[]), account(uid + 1, gid + 1, &[]));
        let (member, further) = (
            account(uid + 1, gid, &[]),
            account(uid + 1, gid + 1, &[gid]),
        );
        for (mode, wanted) in [
            (0o700, [true, false, false, false]),
            (0o070, [false, true, true, false]),
            (0o007, [false, false, false, true]),
            (0o600, [false, false, false, false]),
            (0o755, [true, false, false, false]),
            (0o777, [true, true, true, true]),
        ] {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
            let may = [&owner, &member, &further, &stranger]
                .map(|account| allows(account, dir.path(), 0o3).is_ok());
            assert_eq!(may, wanted, "{mode:o}");
        }
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(UserIdentity::this().may_write(dir.path()).is_ok());
        assert!(
            UserIdentity::this()
                .may_write(&dir.path().join("none"))
                .is_err()
        );
    }
}
