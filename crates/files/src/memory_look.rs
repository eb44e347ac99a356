//! A lookup below a root that must not wait for the disk.

use std::cell::Cell;
use std::sync::Arc;

use crate::open_root::OpenRoot;
use crate::root_names::RootListing;
use crate::tree::Node;

/// See the module.
pub(crate) struct MemoryLook<'t> {
    root: &'t OpenRoot,
    /// Whether everything so far was in memory. Once it was not, the results do not count.
    holds: Cell<bool>,
    /// The names in the root's own directory, if they hold.
    names: Option<Arc<RootListing>>,
}

impl<'t> MemoryLook<'t> {
    pub(crate) fn begin(root: &'t OpenRoot) -> Self {
        Self {
            root,
            holds: Cell::new(true),
            names: root.names.current(&root.tree),
        }
    }

    /// Whether the results count.
    pub(crate) fn holds(&self) -> bool {
        self.holds.get()
    }

    /// Nothing that was found counts.
    pub(crate) fn fail(&self) {
        self.holds.set(false);
    }

    /// What a path names; `None`: the disk would have to say it, now or for something before.
    pub(crate) fn node(&self, relative: &[u8]) -> Option<Node> {
        let found = self.holds().then(|| self.found(relative)).flatten();
        if found.is_none() {
            self.fail();
        }
        found
    }

    fn found(&self, relative: &[u8]) -> Option<Node> {
        let listed = self.names.as_ref().and_then(|names| names.node(relative));
        listed.or_else(|| self.root.tree.look_cached(relative))
    }
}
