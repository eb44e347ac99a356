//! Numbers of a user, from `/etc/passwd`: for programs that, unlike PHP-FPM, do not change their user themselves.

/// A user and his first group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// The account of this name; `None` where there is none.
pub(super) fn named(name: &str) -> Option<Account> {
    find(&std::fs::read_to_string("/etc/passwd").ok()?, name)
}

/// A line is `name:password:uid:gid:...` (passwd(5)).
fn find(accounts: &str, name: &str) -> Option<Account> {
    let mut rows = accounts.lines().map(|line| line.split(':'));
    rows.find_map(|mut row| {
        let is_it = row.next()? == name;
        let uid = row.nth(1)?.parse().ok()?;
        let gid = row.next()?.parse().ok()?;
        is_it.then_some(Account { uid, gid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_their_name() {
        let file = "root:x:0:0:root:/root:/bin/sh\nodd\nwww:x:a:b\nwww-data:x:33:34::/:\n";
        assert_eq!(find(file, "www-data"), Some(Account { uid: 33, gid: 34 }));
        for name in ["", "odd", "www", "x", "nobody"] {
            assert_eq!(find(file, name), None, "{name}");
        }
    }
}
