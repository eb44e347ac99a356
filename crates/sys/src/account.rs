//! The ids of a user and of the user's groups, from `/etc/passwd` and `/etc/group`, for a process that switches to the user.

use serde::{Deserialize, Serialize};

/// A user and the user's groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The user id.
    pub uid: u32,
    /// The id of the primary group.
    pub gid: u32,
    /// The ids of the supplementary groups.
    pub groups: Vec<u32>,
}

/// Finds an account by name.
pub fn named(name: &str) -> Option<Account> {
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    find(&accounts, &groups, name)
}

/// The name of a user, or `with the id N` if no account has the id or nothing may be read.
pub fn name_of(uid: u32) -> String {
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    find_name(&accounts, uid).unwrap_or_else(|| format!("with the id {uid}"))
}

/// Searches lines of passwd(5) by id.
pub(crate) fn find_name(accounts: &str, uid: u32) -> Option<String> {
    let mut rows = accounts.lines().map(|line| line.split(':'));
    rows.find_map(|mut row| {
        let name = row.next()?;
        let number: u32 = row.nth(1)?.parse().ok()?;
        (number == uid).then(|| name.to_owned())
    })
}

/// Finds the id of a group by name.
pub fn group(name: &str) -> Option<u32> {
    find_group(&std::fs::read_to_string("/etc/group").ok()?, name)
}

/// Searches lines `name:password:uid:gid:...` (passwd(5)) and `name:password:gid:user,user` (group(5)).
fn find(accounts: &str, groups: &str, name: &str) -> Option<Account> {
    let mut rows = accounts.lines().map(|line| line.split(':'));
    let (uid, gid) = rows.find_map(|mut row| {
        let is_it = row.next()? == name;
        let uid = row.nth(1)?.parse().ok()?;
        let gid = row.next()?.parse().ok()?;
        is_it.then_some((uid, gid))
    })?;
    let further = groups.lines().filter_map(|line| {
        let mut row = line.split(':');
        let number = row.nth(2)?.parse().ok()?;
        let is_member = row.next()?.split(',').any(|member| member == name);
        is_member.then_some(number)
    });
    Some(Account {
        uid,
        gid,
        groups: further.collect(),
    })
}

fn find_group(groups: &str, name: &str) -> Option<u32> {
    let mut rows = groups.lines().map(|line| line.split(':'));
    rows.find_map(|mut row| {
        let is_it = row.next()? == name;
        let number = row.nth(1)?.parse().ok()?;
        is_it.then_some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_their_name() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\nodd\nwww:x:a:b\nwww-data:x:33:34::/:\n";
        let groups = "odd\nmail:x:8:www-data\nnone:x:9:\nssl:x:11:other,www-data\nx:x:y:www-data\n";
        let found = Account {
            uid: 33,
            gid: 34,
            groups: vec![8, 11],
        };
        assert_eq!(find(accounts, groups, "www-data"), Some(found));
        for name in ["", "odd", "www", "x", "nobody"] {
            assert_eq!(find(accounts, groups, name), None, "{name}");
        }
        assert_eq!(find_group(groups, "ssl"), Some(11));
        assert_eq!(find_group(groups, "x"), None);
    }
}
