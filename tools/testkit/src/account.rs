//! Who runs what. As root, PHP and Apache children run as `www-data` and the database as `mysql`, as on a real
//! machine; as an ordinary user everything runs as oneself. Users are looked up in /etc/passwd, where Debian's packages
//! put them.

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
    /// Id of the user's own group.
    pub(crate) gid: u32,
}

/// True if this process may start others as somebody else.
pub fn runs_as_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whom PHP and Apache workers should run as: `www-data` when this process is root, else nobody else than oneself.
pub(crate) fn for_web() -> Option<Account> {
    if runs_as_root() {
        named("www-data")
    } else {
        None
    }
}

/// Whom the database should run as: `mysql` when this process is root, else oneself.
pub(crate) fn for_database() -> Option<Account> {
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
    /// Gives `path`, and all that is below it, to this account. Symbolic links are not followed.
    pub(crate) fn own(&self, path: &Path) -> Result<(), TestkitError> {
        let there =
            fs::symlink_metadata(path).context(format_args!("look at {}", path.display()))?;
        if there.is_symlink() {
            return Ok(());
        }
        chown(path, Some(self.uid), Some(self.gid)).context(format_args!(
            "give {} to {}",
            path.display(),
            self.name
        ))?;
        if there.is_dir() {
            for entry in fs::read_dir(path).context(format_args!("read {}", path.display()))? {
                self.own(&entry.context("read a directory")?.path())?;
            }
        }
        Ok(())
    }
}

/// Checks that other users may walk down to `path`. As an ordinary user nobody else needs to: always fine.
///
/// # Errors
/// [`TestkitError::Unreachable`] names the directory that is closed.
pub fn require_reachable(path: &Path) -> Result<(), TestkitError> {
    if !runs_as_root() {
        return Ok(());
    }
    let full = fs::canonicalize(path).context(format_args!("find {}", path.display()))?;
    for step in full.ancestors() {
        let mode = fs::metadata(step)
            .context(format_args!("look at {}", step.display()))?
            .mode();
        if mode & 0o001 == 0 {
            return Err(TestkitError::Unreachable(format!(
                "`{}` is closed to other users, but PHP runs as `www-data` and the database as `mysql` when started by root: \
                 choose a directory elsewhere, or run as an ordinary user",
                step.display()
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
        for (name, wanted) in rows {
            assert_eq!(
                find(text, name).map(|account| (account.uid, account.gid)),
                wanted,
                "{name}"
            );
        }
    }
}
