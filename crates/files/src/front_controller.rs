//! The front controller of a path that is no file: that of the site, or that of a WordPress in a folder of the path.

use crate::path::RelPath;
use crate::resolve::{PathLookup, Resolved};
use crate::tree::{FileLocation, Node};

impl PathLookup<'_> {
    pub(crate) fn front_controller(&self, path: &RelPath) -> Resolved {
        if let Some(script) = self.inner_front_controller(path) {
            return script;
        }
        let at = RelPath::from_relative(b"index.php");
        match at.map(|at| (self.front_node(at.text()), at)) {
            Some((Node::Regular(located), at)) if self.options.php => {
                self.script(&at, located.real.as_ref(), None)
            }
            _ => Resolved::Missing,
        }
    }

    /// The front controller of a WordPress in the nearest folder above the path (`/blog/index.php` for `/blog/2026/hello/`). An
    /// `index.php` alone is none: WordPress and plugins put empty ones into their folders. Most paths of pages name no folder at
    /// all, which the first look-up shows.
    fn inner_front_controller(&self, path: &RelPath) -> Option<Resolved> {
        if !self.options.php || !self.options.wordpress {
            return None;
        }
        let is_core = |name: &[u8]| name.len() > 3 && name.starts_with(b"wp-");
        let outside_core = path.segments().take_while(|name| !is_core(name)).count();
        let is_folder = |count: &usize| matches!(self.node(path.first(*count)), Node::Directory);
        let folders = (1..=outside_core.min(MAX_FRONT_FOLDERS)).take_while(is_folder);
        (1..=folders.count()).rev().find_map(|count| {
            let folder = path.up_to(count);
            let Node::Regular(_) = self.node(folder.child(b"wp-blog-header.php").text()) else {
                return None;
            };
            let at = folder.child(b"index.php");
            match self.node(at.text()) {
                Node::Regular(located) => Some(self.script(&at, located.real.as_ref(), None)),
                _ => None,
            }
        })
    }

    /// The node of the front controller. In a lookup that must not wait, results of the last second are valid, as for
    /// `.htaccess` files: nearly every page that is not stored needs it.
    fn front_node(&self, relative: &[u8]) -> Node {
        if self.in_memory.is_some() && self.root.front.is_recent(self.now) {
            return Node::Regular(FileLocation { real: None });
        }
        let node = self.node(relative);
        if matches!(node, Node::Regular(FileLocation { real: None })) {
            self.root.front.record(self.now);
        }
        node
    }
}

/// The maximum number of folders on a path that are searched for a front controller.
const MAX_FRONT_FOLDERS: usize = 4;
