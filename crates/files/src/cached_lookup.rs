//! A path lookup below a root that must not wait for the disk.

use std::cell::Cell;
use std::sync::Arc;

use crate::open_root::OpenRoot;
use crate::root_names::RootListing;
use crate::tree::Node;

/// A path lookup that uses only memory. See the module.
pub(crate) struct CachedLookup<'t> {
    root: &'t OpenRoot,
    /// Whether all lookups so far were in memory. Otherwise their results are not valid.
    is_valid: Cell<bool>,
    /// The names in the root's own directory, if they are valid.
    names: Option<Arc<RootListing>>,
}

impl<'t> CachedLookup<'t> {
    pub(crate) fn begin(root: &'t OpenRoot) -> Self {
        Self {
            root,
            is_valid: Cell::new(true),
            names: root.names.current(&root.tree),
        }
    }

    /// Whether the results are valid.
    pub(crate) fn is_valid(&self) -> bool {
        self.is_valid.get()
    }

    /// Invalidates all results.
    pub(crate) fn fail(&self) {
        self.is_valid.set(false);
    }

    /// The node at a path; `None` if this lookup or an earlier one needs the disk.
    pub(crate) fn node(&self, relative: &[u8]) -> Option<Node> {
        let node = self.is_valid().then(|| self.look(relative)).flatten();
        if node.is_none() {
            self.fail();
        }
        node
    }

    fn look(&self, relative: &[u8]) -> Option<Node> {
        let listed = self.names.as_ref().and_then(|names| names.node(relative));
        listed.or_else(|| self.root.tree.lookup_cached(relative))
    }
}
