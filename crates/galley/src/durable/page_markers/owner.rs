//! The user who must be able to remove files from a folder.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A user and a group that a folder is given to.
#[derive(Clone, Copy, Debug)]
pub struct FolderOwner {
    /// The user's number.
    pub user: u32,
    /// The group's number.
    pub group: u32,
}

impl FolderOwner {
    /// The owner of a site's root, who is usually the user of PHP; `None` if Galley may not change owners.
    pub fn of_root(root: Option<&Path>) -> io::Result<Option<Self>> {
        let root = root.filter(|_| rustix::process::geteuid().is_root());
        root.map(|root| {
            let found = fs::metadata(root)?;
            Ok(Self {
                user: found.uid(),
                group: found.gid(),
            })
        })
        .transpose()
    }
}
