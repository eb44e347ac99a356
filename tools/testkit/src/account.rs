//! The user accounts that services run as. If this process runs as root, PHP and Apache workers run as `www-data` and the
//! database as `mysql`, as on a real machine; otherwise all services run as the current user. The accounts come from
//! `/etc/passwd`, where Debian's packages add them.

use std::{
    fs,
    os::unix::fs::{MetadataExt, chown},
    path::Path,
};

use crate::error::{Context, TestkitError};

/// A user of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    /// Login name.
    pub(crate) name: String,
    /// User id.
    pub(crate) uid: u32,
    /// Id of the primary group.
    pub(crate) gid: u32,
}

/// True if this process may start services as another user.
pub fn runs_as_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The account of PHP and Apache workers: `www-data` if this process is root; `None` means the current user.
pub(crate) fn web_user() -> Option<Account> {
    if runs_as_root() {
        named("www-data")
    } else {
        None
    }
}

/// The account of the database: `mysql` if this process is root; `None` means the current user.
pub(crate) fn database_user() -> Option<Account> {
    if runs_as_root() { named("mysql") } else { None }
}

fn named(name: &str) -> Option<Account> {
    find(&fs::read_to_string("/etc/passwd").ok()?, name)
}

fn find(passwd: &str, name: &str) -> Option<Account> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(Account {
            name: name.to_owned(),
            uid,
            gid,
        })
    })
}

impl Account {
    /// Changes the owner of `path`, and of everything below it, to this account. Does not follow symbolic links.
    pub(crate) fn chown(&self, path: &Path) -> Result<(), TestkitError> {
        let metadata =
            fs::symlink_metadata(path).context(format_args!("stat {}", path.display()))?;
        if metadata.is_symlink() {
            return Ok(());
        }
        chown(path, Some(self.uid), Some(self.gid)).context(format_args!(
            "change the owner of {} to {}",
            path.display(),
            self.name
        ))?;
        if metadata.is_dir() {
            for entry in fs::read_dir(path).context(format_args!("read {}", path.display()))? {
                self.chown(&entry.context("read a directory")?.path())?;
            }
        }
        Ok(())
    }
}

/// If this process runs as root, checks that other users can access `path`. Otherwise all services run as the current user.
///
/// # Errors
/// [`TestkitError::Unreachable`] with the directory that other users cannot enter.
pub fn require_reachable(path: &Path) -> Result<(), TestkitError> {
    if !runs_as_root() {
        return Ok(());
    }
    let full = fs::canonicalize(path).context(format_args!("find {}", path.display()))?;
    for ancestor in full.ancestors() {
        let mode = fs::metadata(ancestor)
            .context(format_args!("stat {}", ancestor.display()))?
            .mode();
        if mode & 0o001 == 0 {
            return Err(TestkitError::Unreachable(format!(
                "other users cannot enter `{}`, but PHP runs as `www-data` and the database as `mysql` when started by root: \
                 choose another directory, or run as an ordinary user",
                ancestor.display()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read_from_passwd_lines() {
        let text = "root:x:0:0:root:/root:/bin/bash\nwww-data:x:33:34:www:/var/www:/usr/sbin/nologin\nbroken:x\n";
        let rows = [
            ("root", Some((0, 0))),
            ("www-data", Some((33, 34))),
            ("broken", None),
            ("www", None),
            ("", None),
        ];
        for (name, expected) in rows {
            assert_eq!(
                find(text, name).map(|account| (account.uid, account.gid)),
                expected,
                "{name}"
            );
        }
    }
}
