//! Links below a root that lead out of it, as deployments and packages leave them. For `galley check`, `setup` and `import`.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use crate::types;

/// The folders outside a root to which links below it lead, each with one of its links. Ignores links to files that are not sent,
/// such as PHP sources. `permitted`: folders to which links may lead. Blocks on the disk.
///
/// Searches the first levels only: uploads and plugins have many folders below, and deployments link none of those.
pub fn links_out_of(root: &Path, permitted: &[PathBuf]) -> BTreeMap<PathBuf, PathBuf> {
    let resolved = |path: &Path| fs::canonicalize(path).ok();
    let Some(real_root) = resolved(root) else {
        return BTreeMap::new();
    };
    let mut inside: Vec<PathBuf> = permitted.iter().filter_map(|path| resolved(path)).collect();
    inside.push(real_root);
    let mut links = BTreeMap::new();
    let mut waiting = VecDeque::from([(root.to_owned(), 0)]);
    let mut left = MAX_ENTRIES;
    while let Some((folder, depth)) = waiting.pop_front() {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries {
            if left == 0 || links.len() == MAX_FOLDERS {
                return links;
            }
            left -= 1;
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() && !is_hidden && depth < MAX_DEPTH {
                waiting.push_back((entry.path(), depth + 1));
            }
            let target = (kind.is_symlink() && !is_hidden).then(|| resolved(&entry.path()));
            let Some(folder) = target.flatten().and_then(|target| served_folder(&target)) else {
                continue;
            };
            if !inside.iter().any(|permitted| folder.starts_with(permitted)) {
                links.entry(folder).or_insert_with(|| entry.path());
            }
        }
    }
    links
}

/// The folder to permit for a link to `target`; `None` if the target is not sent to visitors.
fn served_folder(target: &Path) -> Option<PathBuf> {
    if target.is_dir() {
        return Some(target.to_owned());
    }
    let media_type = types::content_type(target.file_name()?.as_encoded_bytes());
    let is_asset = ["text/css", "text/javascript", "image/", "font/"]
        .iter()
        .any(|kind| media_type.starts_with(kind));
    is_asset.then(|| target.parent().map(Path::to_owned))?
}

/// Enough for `wp-includes/js/crop` and `web/app/uploads`.
const MAX_DEPTH: usize = 3;

/// The maximum number of directory entries to read.
const MAX_ENTRIES: usize = 20_000;

/// The maximum number of folders to name.
const MAX_FOLDERS: usize = 16;
