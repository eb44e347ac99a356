//! The root directory that is currently open, and its caches.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::htaccess::HtaccessCache;
use crate::options::Options;
use crate::pictures::PictureNames;
use crate::recheck::LastSeen;
use crate::root_names::RootNames;
use crate::tree::{RealPath, Tree};

/// An open root directory. Replaced as a whole when the root changes.
pub(crate) struct OpenRoot {
    pub(crate) tree: Arc<Tree>,
    /// The folders outside the root to which links may lead, in the order of [`Tree::linked`].
    linked: Vec<OpenRoot>,
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
    pub(crate) fn open(configured: &Path, options: &Options) -> io::Result<Self> {
        let tree = Tree::open_with(configured, &options.link_targets)?;
        let linked = tree.linked().iter();
        let linked = linked.map(|tree| Self::of(Arc::clone(tree), Vec::new()));
        let linked = linked.collect();
        Ok(Self::of(Arc::new(tree), linked))
    }

    /// The directory that contains a link-free path.
    pub(crate) fn home(&self, real: &RealPath) -> &Self {
        let linked = real.linked.and_then(|index| self.linked.get(index));
        linked.unwrap_or(self)
    }

    fn of(tree: Arc<Tree>, linked: Vec<Self>) -> Self {
        Self {
            tree,
            linked,
            htaccess: HtaccessCache::default(),
            front: LastSeen::default(),
            pictures: PictureNames::default(),
            names: RootNames::default(),
        }
    }
}
