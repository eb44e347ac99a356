//! The root directory that is currently open, and its caches.

use std::io;
use std::path::Path;

use crate::htaccess::HtaccessCache;
use crate::pictures::PictureNames;
use crate::recheck::LastSeen;
use crate::root_names::RootNames;
use crate::tree::Tree;

/// An open root directory. Replaced as a whole when the root changes.
pub(crate) struct OpenRoot {
    pub(crate) tree: Tree,
    /// The parsed `.htaccess` files.
    pub(crate) htaccess: HtaccessCache,
    /// When the front controller was last found to be a regular file without links in its path.
    pub(crate) front: LastSeen,
    /// The known siblings of pictures.
    pub(crate) pictures: PictureNames,
    /// The names in the root's own directory.
    pub(crate) names: RootNames,
}

impl OpenRoot {
    /// Opens the directory that `configured` currently names.
    pub(crate) fn open(configured: &Path) -> io::Result<Self> {
        Ok(Self {
            tree: Tree::open(configured)?,
            htaccess: HtaccessCache::default(),
            front: LastSeen::default(),
            pictures: PictureNames::default(),
            names: RootNames::default(),
        })
    }
}
