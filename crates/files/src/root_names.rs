//! The names in the root's own directory. They show without access to the disk that a permalink is not a file.
//!
//! The kernel caches failed lookups of names. But the first request for a page has a name that was not looked up before,
//! and then only the disk shows that no such file exists. WordPress has few files and directories at the top, so their
//! names are cached: a path that begins with another name is absent, and a regular file at the top, such as `wp-login.php`,
//! needs no separate lookup. The cached names are valid as long as the directory's change time is the same, which takes one
//! `statx` of an inode that the kernel has in memory.
//!
//! Names are only cached if the change time is reliable: on local, case-sensitive file systems, with ASCII names (others
//! may have several forms), and if the directory had not changed for a while when it was read, because the kernel's clock
//! is coarse.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::FileType;

use crate::recheck::LastSeen;
use crate::tree::{DirectoryStamp, FileLocation, Node, Tree};
use galley_sys::Lock;

/// The cached names of a root directory. See the module.
#[derive(Default)]
pub(crate) struct RootNames {
    cached: Lock<Option<Arc<RootListing>>>,
    checked: LastSeen,
}

/// The names in a directory at one time.
pub(crate) struct RootListing {
    stamp: DirectoryStamp,
    names: HashMap<Vec<u8>, FileType>,
}

impl RootNames {
    /// The names, if they are still valid. Never waits for the disk.
    pub(crate) fn current(&self, tree: &Tree) -> Option<Arc<RootListing>> {
        let cached = Arc::clone(self.cached.try_lock()?.as_ref()?);
        (tree.root_stamp() == Some(cached.stamp)).then_some(cached)
    }

    /// Reads the names if they are not valid any more. Checks once a second. Blocks on the disk.
    pub(crate) fn refresh(&self, tree: &Tree, now: Instant) {
        if self.checked.is_recent(now) {
            return;
        }
        self.checked.record(now);
        if self.current(tree).is_none() {
            let read = RootListing::read(tree).map(Arc::new);
            *self.cached.lock() = read;
        }
    }
}

impl RootListing {
    fn read(tree: &Tree) -> Option<Self> {
        let before = SystemTime::now();
        let stamp = tree.root_stamp()?;
        if !tree.is_local() || !stamp.is_older_than(before.checked_sub(SETTLING)?) {
            return None;
        }
        let names = tree.root_names(MAX_NAMES)?;
        let list = Self { stamp, names };
        let is_usable = list.names.keys().all(|name| name.is_ascii())
            && list.is_case_sensitive(tree)
            && tree.root_stamp() == Some(stamp);
        is_usable.then_some(list)
    }

    /// Whether the file system is case-sensitive; `false` if no name contains letters.
    fn is_case_sensitive(&self, tree: &Tree) -> bool {
        let swapped = self.names.keys().find_map(|name| {
            let other = swap_case(name);
            (!self.names.contains_key(&other)).then_some(other)
        });
        swapped.is_some_and(|other| matches!(tree.look(&other), Node::Absent))
    }

    /// The node of a relative path, if its first segment determines it: no such name in the directory, or a regular file that is
    /// the whole path. `None`: only the kernel knows.
    pub(crate) fn node(&self, relative: &[u8]) -> Option<Node> {
        let first = relative.split(|byte| *byte == b'/').next()?;
        match self.names.get(first) {
            None if first.is_empty() => None,
            None => Some(Node::Absent),
            Some(FileType::RegularFile) if first.len() == relative.len() => {
                Some(Node::Regular(FileLocation { real: None }))
            }
            Some(_) => None,
        }
    }
}

fn swap_case(name: &[u8]) -> Vec<u8> {
    let swap = |byte: &u8| match byte {
        b'a'..=b'z' => byte.to_ascii_uppercase(),
        _ => byte.to_ascii_lowercase(),
    };
    name.iter().map(swap).collect()
}

/// The maximum number of cached names. A WordPress root has some twenty; a larger root is looked up on the disk.
const MAX_NAMES: usize = 4096;

/// How long a directory must be unchanged before its names are read: many times the resolution of the kernel's clock.
const SETTLING: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Reads the names of a directory after it has been unchanged for long enough.
    fn settled(names: &RootNames, tree: &Tree) -> bool {
        std::thread::sleep(SETTLING + Duration::from_millis(50));
        names.refresh(tree, Instant::now());
        names.current(tree).is_some()
    }

    #[test]
    fn names_are_valid_until_the_directory_changes() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("index.php"), "").unwrap();
        fs::create_dir(dir.path().join("wp-content")).unwrap();
        std::os::unix::fs::symlink("index.php", dir.path().join("link.php")).unwrap();
        let tree = Tree::open(dir.path()).unwrap();
        let names = RootNames::default();
        names.refresh(&tree, Instant::now());
        assert!(names.current(&tree).is_none(), "it has just changed");
        if !tree.is_local() {
            return;
        }
        assert!(settled(&names, &tree));
        let list = names.current(&tree).unwrap();
        for (path, meaning) in [
            ("", "unknown"),
            ("index.php", "regular"),
            ("index.php/", "unknown"),
            ("wp-content", "unknown"),
            ("wp-content/x", "unknown"),
            ("link.php", "unknown"),
            ("hello", "absent"),
            ("hello/world", "absent"),
            ("INDEX.PHP", "absent"),
            ("wp-conten", "absent"),
        ] {
            let found = match list.node(path.as_bytes()) {
                None => "unknown",
                Some(Node::Absent) => "absent",
                Some(Node::Regular(FileLocation { real: None })) => "regular",
                Some(_) => "something else",
            };
            assert_eq!(found, meaning, "{path}");
        }
        fs::write(dir.path().join("wp-content/x"), "").unwrap();
        assert!(names.current(&tree).is_some(), "changes below do not count");
        fs::write(dir.path().join("hello"), "").unwrap();
        assert!(names.current(&tree).is_none(), "a new name");
        assert!(settled(&names, &tree));
        let found = names.current(&tree).unwrap().node(b"hello");
        assert!(matches!(found, Some(Node::Regular(_))));
        fs::rename(dir.path().join("hello"), dir.path().join("bye")).unwrap();
        assert!(names.current(&tree).is_none(), "another name");
        assert!(settled(&names, &tree));
        fs::rename(dir.path().join("link.php"), dir.path().join("index.php")).unwrap();
        assert!(names.current(&tree).is_none(), "a link in place of a file");
        assert!(settled(&names, &tree));
        let found = names.current(&tree).unwrap().node(b"index.php");
        assert!(found.is_none(), "the kernel has to follow it");
    }

    #[test]
    fn names_are_not_cached_if_the_change_time_is_unreliable() {
        for unusable in [&["größe.html", "a"][..], &["1", "2"], &[]] {
            let dir = tempfile::tempdir().unwrap();
            for name in unusable {
                fs::write(dir.path().join(name), "").unwrap();
            }
            let tree = Tree::open(dir.path()).unwrap();
            assert!(!settled(&RootNames::default(), &tree), "{unusable:?}");
        }
    }

    #[test]
    fn more_names_than_the_limit_are_not_cached() {
        let dir = tempfile::tempdir().unwrap();
        // `.` and `..` are names, too.
        for number in 0..MAX_NAMES - 2 {
            fs::write(dir.path().join(format!("a{number}")), "").unwrap();
        }
        let tree = Tree::open(dir.path()).unwrap();
        if !tree.is_local() {
            return;
        }
        assert!(settled(&RootNames::default(), &tree));
        fs::write(dir.path().join("one-more"), "").unwrap();
        assert!(!settled(&RootNames::default(), &tree));
    }
}
