//! A site's settings for the files below its root.

use std::path::PathBuf;

use galley_policy::images::ImageSiblings;
use galley_policy::site::NamePattern;

use crate::path::RelPath;

/// The kind of site below a root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether scripts run over FastCGI. `false`: the upstream uses HTTP, or there is none.
    pub php: bool,
    /// WordPress multisite in sub-directories: `/site2/wp-admin/` means `/wp-admin/`.
    pub multisite: bool,
    /// Whether the site has the directories of WordPress, which determine where archives are downloads and where they are backups.
    pub wordpress: bool,
    /// Decoded paths at which private names are permitted.
    pub allowed: Vec<NamePattern>,
    /// Which siblings of a picture are other formats of it.
    pub images: ImageSiblings,
    /// Absolute paths of folders outside the root to which links below it may lead.
    pub link_targets: Vec<PathBuf>,
}

impl Options {
    /// Whether the site permits private names at this path.
    pub(crate) fn allows(&self, path: &RelPath) -> bool {
        !self.allowed.is_empty() && {
            let path = path.absolute();
            self.allowed.iter().any(|pattern| pattern.matches(&path))
        }
    }
}
