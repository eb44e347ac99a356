//! Files that a response of the upstream names, to be sent in its place (`X-Accel-Redirect`, `X-Sendfile`).
//!
//! The program has decided that its client may have the file, so `.htaccess` files and the list of private names do not apply:
//! shops close their folders to visitors by these. What no program means to send is refused nevertheless: sources, hidden files,
//! anything outside the root, the folders of [`InternalFolder`] and the permitted targets of links.

use std::path::Path;

use galley_policy::send_file::{InternalFolder, SendTarget};

use crate::options::Options;
use crate::path::RelPath;
use crate::root::Root;
use crate::sent_file::SentFile;

/// The files that responses of a site's upstream may name. All threads share it.
pub struct SentFiles {
    folders: Vec<(RelPath, Place)>,
    /// Further paths below the root that are closed: those of folders that are also named by another path.
    closed: Vec<RelPath>,
}

/// Where the files of a closed path are.
enum Place {
    BelowRoot,
    Folder(Root),
    /// A folder that could not be opened.
    Unusable,
}

impl SentFiles {
    /// Opens the folders. `root`: the site's root.
    pub fn open(folders: &[InternalFolder], root: Option<&Path>) -> Self {
        let below_root = |folder: &Path| {
            let root = root?;
            let below = |folder: &Path, root: &Path| {
                let inner = folder.strip_prefix(root).ok()?;
                RelPath::from_relative(inner.as_os_str().as_encoded_bytes())
            };
            // `root` or the folder may be named by a link.
            let real = || below(&folder.canonicalize().ok()?, &root.canonicalize().ok()?);
            below(folder, root).or_else(real)
        };
        let mut opened = Vec::new();
        for entry in folders {
            let place = entry.folder.as_deref().map_or(Place::BelowRoot, |folder| {
                let opened = Root::open(folder, Options::default());
                opened.map_or(Place::Unusable, Place::Folder)
            });
            opened.extend(RelPath::parse(entry.path.as_bytes()).map(|path| (path, place)));
        }
        // The longest path decides.
        opened.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        let closed = folders.iter();
        let closed = closed.filter_map(|entry| below_root(entry.folder.as_deref()?));
        Self {
            folders: opened,
            closed: closed.collect(),
        }
    }

    /// Whether visitors must not request the decoded path. Allocates only if the site has such folders.
    pub fn closes(&self, decoded_path: &[u8]) -> bool {
        if self.folders.is_empty() {
            return false;
        }
        let Some(path) = RelPath::parse(decoded_path) else {
            return false;
        };
        let is_in = |path: &RelPath| {
            let folders = self.folders.iter().map(|(folder, _)| folder);
            folders.chain(&self.closed).any(|folder| path.is_in(folder))
        };
        // On a multisite in sub-directories, `/site/wp-content/...` is `/wp-content/...`.
        is_in(&path) || path.without_site().is_some_and(|inner| is_in(&inner))
    }

    /// The file that a response names. `root`: the site's root. Blocks on the disk.
    pub fn find(&self, root: Option<&Root>, target: &SendTarget) -> SentFile {
        match target {
            SendTarget::Uri(path) => self.at_uri(root, path),
            SendTarget::File(path) => self.at_file(root, path),
            // LiteSpeed documents a URI; programs also send the absolute path of a file.
            SendTarget::UriOrFile(path) => match self.at_file(root, path) {
                SentFile::Outside => self.at_uri(root, path),
                found => found,
            },
        }
    }

    fn at_uri(&self, root: Option<&Root>, decoded_path: &[u8]) -> SentFile {
        let Some(path) = RelPath::parse(decoded_path) else {
            return SentFile::Forbidden;
        };
        let entry = self.folders.iter().find(|(folder, _)| path.is_in(folder));
        match entry {
            Some((prefix, Place::Folder(folder))) => {
                let rest = RelPath::parse(&[b"/", &*path.after(prefix.len())].concat());
                rest.map_or(SentFile::Forbidden, |rest| folder.sent(&rest))
            }
            Some((_, Place::Unusable)) => SentFile::Missing,
            Some((_, Place::BelowRoot)) | None => {
                root.map_or(SentFile::Outside, |root| root.sent(&path))
            }
        }
    }

    fn at_file(&self, root: Option<&Root>, absolute: &[u8]) -> SentFile {
        let folders = self.folders.iter().filter_map(|(_, place)| match place {
            Place::Folder(folder) => Some(folder),
            Place::BelowRoot | Place::Unusable => None,
        });
        let sent = folders.chain(root).find_map(|folder| {
            let path = folder.below(absolute)?;
            Some(folder.sent(&path))
        });
        sent.unwrap_or(SentFile::Outside)
    }
}
