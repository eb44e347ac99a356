//! The user with permission to remove files from a folder.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The user and group that must own a folder.
#[derive(Clone, Copy, Debug)]
pub struct FolderOwner {
    /// The user id.
    pub user: u32,
    /// The group id.
    pub group: u32,
}

impl FolderOwner {
    /// The owner of a site's root, usually the user of PHP; `None` if Galley may not change owners.
    pub fn of_root(root: Option<&Path>) -> io::Result<Option<Self>> {
        let root = root.filter(|_| rustix::process::geteuid().is_root());
        root.map(|root| {
            let metadata = fs::metadata(root)?;
            Ok(Self {
                user: metadata.uid(),
                group: metadata.gid(),
            })
        })
        .transpose()
    }
}
