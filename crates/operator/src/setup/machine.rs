//! The files of a machine below a root folder, read with limits on size and number.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// A machine whose `/` is a folder; tests create one.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
}

impl Machine {
    /// The machine below `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The path for this process of a path of the machine.
    pub fn path(&self, path: &Path) -> PathBuf {
        let inner = path.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            Component::ParentDir => Some("..".as_ref()),
            _ => None,
        });
        inner.fold(self.root.clone(), |all, name| all.join(name))
    }

    /// The text of a regular file of at most `MAX_BYTES`; invalid UTF-8 is replaced.
    pub(super) fn text(&self, path: &Path) -> Option<String> {
        self.read(path).filter(|file| file.is_whole).map(|f| f.text)
    }

    /// The first bytes of a regular file, or of a file of `/proc`, as text.
    pub(super) fn head(&self, path: &Path) -> Option<String> {
        self.read(path).map(|file| file.text)
    }

    fn read(&self, path: &Path) -> Option<ReadFile> {
        let path = self.path(path);
        // Opening a pipe would wait for its other end.
        if !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        let mut limited = File::open(&path).ok()?.take(MAX_BYTES + 1);
        limited.read_to_end(&mut bytes).ok()?;
        let is_whole = bytes.len() as u64 <= MAX_BYTES;
        bytes.truncate(usize::try_from(MAX_BYTES).unwrap_or(usize::MAX));
        Some(ReadFile {
            text: String::from_utf8_lossy(&bytes).into_owned(),
            is_whole,
        })
    }

    pub(super) fn is_file(&self, path: &Path) -> bool {
        self.path(path).is_file()
    }

    /// The paths that are absolute and name a file, sorted, each once.
    pub(super) fn files_among(&self, paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = paths
            .filter(|path| path.is_absolute() && self.is_file(path))
            .collect();
        files.sort();
        files.dedup();
        files
    }

    pub(super) fn is_folder(&self, path: &Path) -> bool {
        self.path(path).is_dir()
    }

    pub(super) fn exists(&self, path: &Path) -> bool {
        self.path(path).exists()
    }

    /// The names in a folder, sorted; at most `MAX_NAMES`.
    pub(super) fn names(&self, folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.take(MAX_NAMES).collect();
        names.sort();
        names
    }

    /// The existing paths that match a pattern with `*` and `?`, sorted. A path without these characters is returned unchanged.
    pub(super) fn matching(&self, pattern: &Path) -> Vec<PathBuf> {
        let mut paths = vec![PathBuf::from("/")];
        for part in pattern.components() {
            let Component::Normal(part) = part else {
                continue;
            };
            let part = part.to_string_lossy();
            let next = paths.iter().flat_map(|folder| {
                if !part.contains(['*', '?']) {
                    return vec![folder.join(part.as_ref())];
                }
                let names = self.names(folder).into_iter();
                let is_match = |name: &String| {
                    name.starts_with('.') == part.starts_with('.') && matches(&part, name)
                };
                names
                    .filter(is_match)
                    .map(|name| folder.join(name))
                    .collect()
            });
            paths = next.take(MAX_NAMES).collect();
        }
        paths.retain(|path| self.exists(path));
        paths
    }
}

impl galley_import::Source for Machine {
    fn text(&self, path: &Path) -> Option<String> {
        Self::text(self, path)
    }

    fn matching(&self, pattern: &Path) -> Vec<PathBuf> {
        Self::matching(self, pattern)
    }
}

struct ReadFile {
    text: String,
    is_whole: bool,
}

/// Whether a name matches a pattern of `*` (any characters) and `?` (one character). Linear for one star, at most quadratic.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                retry = Some((p + 1, n));
                p += 1;
            }
            Some(one) if *one == '?' || Some(one) == name.get(n) => {
                p += 1;
                n += 1;
            }
            _ => match retry {
                Some((after, at)) => {
                    retry = Some((after, at + 1));
                    (p, n) = (after, at + 1);
                }
                None => return false,
            },
        }
    }
    pattern
        .get(p..)
        .unwrap_or_default()
        .iter()
        .all(|c| *c == '*')
}

/// The maximum size of a file in bytes: configurations have some kilobytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// The maximum number of names in a folder, and of matches of a pattern.
const MAX_NAMES: usize = 20_000;

#[cfg(test)]
pub(super) mod sample {
    //! A machine that consists of files.

    use std::path::Path;

    use super::Machine;

    pub(crate) struct SampleMachine {
        dir: tempfile::TempDir,
    }

    impl SampleMachine {
        /// Creates files below the root, with their texts.
        pub(crate) fn new(files: &[(&str, &str)]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let sample = Self { dir };
            for (name, text) in files {
                sample.write(name, text);
            }
            sample
        }

        pub(crate) fn write(&self, name: &str, text: &str) {
            let path = self.dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        /// Creates a symbolic link, whose target need not exist.
        pub(crate) fn link(&self, name: &str, target: &str) {
            let path = self.dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(target, path).unwrap();
        }

        pub(crate) fn machine(&self) -> Machine {
            Machine::at(self.dir.path())
        }

        pub(crate) fn root(&self) -> &Path {
            self.dir.path()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sample::SampleMachine;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_match_names() {
        for (pattern, name, wanted) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf~", false),
            ("*", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("?", "é", true),
            ("php?.?", "php8.2", true),
        ] {
            assert_eq!(matches(pattern, name), wanted, "{pattern} {name}");
        }
    }

    #[test]
    fn files_are_read_below_the_root_only() {
        let sample = SampleMachine::new(&[
            ("etc/a.conf", "a"),
            ("etc/b.conf", "b"),
            ("etc/.c.conf", "c"),
        ]);
        let machine = sample.machine();
        assert_eq!(machine.text(Path::new("/etc/a.conf")).as_deref(), Some("a"));
        assert_eq!(machine.text(Path::new("/etc")), None);
        let all = machine.matching(Path::new("/etc/*.conf"));
        assert_eq!(all, [Path::new("/etc/a.conf"), Path::new("/etc/b.conf")]);
        assert_eq!(
            machine.matching(Path::new("/none/*.conf")),
            Vec::<PathBuf>::new()
        );
        sample.write("etc/large", &"x".repeat(2 << 20));
        assert_eq!(machine.text(Path::new("/etc/large")), None);
    }

    proptest! {
        #[test]
        fn matching_never_panics(pattern in "[a*?é]{0,12}", name in "[abé]{0,12}") {
            let _ = matches(&pattern, &name);
        }

        #[test]
        fn a_pattern_without_stars_matches_itself_only(name in "[a-z.]{1,8}", other in "[a-z.]{1,8}") {
            prop_assert_eq!(matches(&name, &other), name == other);
        }
    }
}
