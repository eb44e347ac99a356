//! A site's settings for the files below its root.

use galley_policy::images::ImageSiblings;
use galley_policy::site::NamePattern;

use crate::path::RelPath;

/// What kind of site lives below a root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Scripts run here, over FastCGI. `false`: the upstream speaks HTTP, or there is none.
    pub php: bool,
    /// WordPress multisite in sub-directories: `/site2/wp-admin/` means `/wp-admin/`.
    pub multisite: bool,
    /// Whether the folders of WordPress are known: where archives may be downloaded, and where they are backups.
    pub wordpress: bool,
    /// Decoded paths whose private names are open all the same.
    pub allowed: Vec<NamePattern>,
    /// Which files beside a picture are other forms of it.
    pub images: ImageSiblings,
}

impl Options {
    /// Whether the site opens this path.
    pub(crate) fn allows(&self, path: &RelPath) -> bool {
        !self.allowed.is_empty() && {
            let path = path.absolute();
            self.allowed.iter().any(|pattern| pattern.matches(&path))
        }
    }
}
