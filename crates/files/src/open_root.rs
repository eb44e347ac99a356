//! The root's directory that is open now, and what is remembered about it.

use std::io;
use std::path::Path;

use crate::htaccess::HtaccessCache;
use crate::pictures::PictureNames;
use crate::recheck::LastSeen;
use crate::root_names::RootNames;
use crate::tree::Tree;

/// Replaced whole when the root is.
pub(crate) struct OpenRoot {
    pub(crate) tree: Tree,
    /// The `.htaccess` files read so far.
    pub(crate) htaccess: HtaccessCache,
    /// The front controller, seen as a regular file behind no link.
    pub(crate) front: LastSeen,
    /// Other forms of pictures, seen beside them.
    pub(crate) pictures: PictureNames,
    /// The names in the directory itself.
    pub(crate) names: RootNames,
}

impl OpenRoot {
    /// Opens the directory that `configured` names now.
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
