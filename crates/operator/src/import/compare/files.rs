//! Lists the files below the root of a host, and selects some to request.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Files below a root. Paths begin with `/`.
#[derive(Clone, Debug, Default)]
pub(super) struct RootFiles {
    /// All files that were found.
    pub(super) all: Vec<String>,
    /// The largest file of each combination of extension and top-level folder.
    pub(super) kinds: Vec<String>,
    /// The folders of the first two levels, without a final `/`.
    pub(super) folders: Vec<String>,
}

/// Lists the files below a root, up to limits. Omits scripts, because a request would run them.
pub(super) fn below(root: &Path) -> RootFiles {
    let mut found = RootFiles::default();
    let mut waiting = vec![String::new()];
    let mut folders = 0;
    while let Some(folder) = waiting.pop() {
        folders += 1;
        if folders > MAX_FOLDERS || found.all.len() >= MAX_FILES {
            break;
        }
        let entries = fs::read_dir(root.join(folder.trim_start_matches('/')));
        let names: BTreeSet<String> = entries
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| {
                name.bytes()
                    .all(|byte| byte.is_ascii_graphic() && !b"%?#\"<>\\^`{|}".contains(&byte))
            })
            .collect();
        for name in names {
            let path = format!("{folder}/{name}");
            let on_disk = root.join(path.trim_start_matches('/'));
            if on_disk.is_dir() {
                if path.matches('/').count() <= 2 && found.folders.len() < MAX_SHOWN_FOLDERS {
                    found.folders.push(path.clone());
                }
                if path.matches('/').count() < MAX_LEVELS && !on_disk.is_symlink() {
                    waiting.push(path);
                }
            } else if on_disk.is_file() && !is_script(&name) {
                found.all.push(path);
            }
        }
    }
    found
        .all
        .sort_by_key(|path| (path.matches('/').count(), path.clone()));
    let mut largest: BTreeMap<String, LargestFile> = BTreeMap::new();
    for path in &found.all {
        let bytes =
            fs::metadata(root.join(path.trim_start_matches('/'))).map_or(0, |file| file.len());
        let known = largest.entry(kind(path)).or_default();
        if known.path.is_empty() || (known.bytes < bytes && bytes <= MAX_BYTES) {
            *known = LargestFile {
                path: path.clone(),
                bytes,
            };
        }
    }
    found.kinds = largest
        .into_values()
        .map(|file| file.path)
        .take(MAX_KINDS)
        .collect();
    found
}

#[derive(Default)]
struct LargestFile {
    path: String,
    bytes: u64,
}

fn is_script(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    [".php", ".phtml", ".phar", ".cgi", ".pl", ".py", ".sh"]
        .iter()
        .any(|end| lower.contains(end))
}

/// The top-level folder and the extension.
fn kind(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    let ending = name
        .rsplit_once('.')
        .map_or("", |(_, ending)| ending)
        .to_ascii_lowercase();
    let folder = path
        .split('/')
        .nth(1)
        .filter(|_| path.matches('/').count() > 1);
    format!("{}/{ending}", folder.unwrap_or_default())
}

const MAX_FOLDERS: usize = 4_000;
const MAX_FILES: usize = 40_000;
const MAX_LEVELS: usize = 10;
const MAX_KINDS: usize = 80;
/// The maximum size of a requested file in bytes. Larger files need more time and add nothing.
const MAX_BYTES: u64 = 1 << 20;
const MAX_SHOWN_FOLDERS: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_of_each_kind_and_no_script() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "a.css",
            "b.css",
            "x/c.css",
            "x/y/d.PNG",
            "x/run.php",
            ".env",
            "no space",
        ] {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, if name == "b.css" { "b" } else { "" }).unwrap();
        }
        let found = below(dir.path());
        assert_eq!(
            found.all,
            ["/.env", "/a.css", "/b.css", "/x/c.css", "/x/y/d.PNG"]
        );
        assert_eq!(found.kinds, ["/b.css", "/.env", "/x/c.css", "/x/y/d.PNG"]);
        assert_eq!(found.folders, ["/x", "/x/y"]);
        assert!(below(Path::new("/nonexistent")).all.is_empty());
    }
}
