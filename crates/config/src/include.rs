//! Reads the main file and its includes.
//!
//! Each file may be read only once; a repetition is an error, and the error for a cycle names its files. A pattern may
//! match nothing, a plain path must exist. Files are read in the order in which they are named, and matches of a pattern by
//! name.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use galley_certs::file::{self, FileError};
use toml::de::DeTable;

use crate::diagnostic::{Diagnostics, SourceSpan, shown};
use crate::reader::ValueReader;
use crate::tree::{Document, SectionTable};
use crate::walk;

/// The contents of `path` and its includes.
pub(crate) fn read_file(path: &Path) -> Document {
    let mut diagnostics = Diagnostics::default();
    match text_of(path) {
        Ok(text) => start(diagnostics, path, &text),
        Err(unread) => {
            let source = diagnostics.add_source(path, "");
            let whole = SourceSpan { source, span: None };
            let message = format!(
                "the configuration file is {}, {unread}",
                shown(&path.display().to_string())
            );
            let help = "name a file that exists and that this user may read";
            diagnostics.add(&whole, "", message, help);
            incomplete(Document::new(diagnostics, whole))
        }
    }
}

/// The contents of `text` and its includes.
pub(crate) fn read_text(name: &str, text: &str) -> Document {
    start(Diagnostics::default(), Path::new(name), text)
}

fn start(mut diagnostics: Diagnostics, name: &Path, text: &str) -> Document {
    let source = diagnostics.add_source(name, text);
    let document = Document::new(diagnostics, SourceSpan { source, span: None });
    let path = std::path::absolute(name).unwrap_or_else(|_| name.to_owned());
    let mut loader = Loader {
        document,
        seen: Vec::new(),
        chain: Vec::new(),
    };
    loader.file(source, path);
    loader.document
}

struct Loader {
    document: Document,
    /// Every file that was read, canonical.
    seen: Vec<PathBuf>,
    /// The includes from the first file to the current one, canonical.
    chain: Vec<PathBuf>,
}

impl Loader {
    /// Reads one source; `path` is absolute.
    fn file(&mut self, source: usize, path: PathBuf) {
        let canonical = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        let base = path
            .parent()
            .map_or_else(|| PathBuf::from("/"), Path::to_owned);
        self.document.files.push(path);
        self.seen.push(canonical.clone());
        self.chain.push(canonical);
        let top = self.parse(source, &base);
        for (position, pattern) in top.value::<Vec<(SourceSpan, String)>>("include") {
            for found in self.expand(&position, &base.join(pattern)) {
                self.include(&position, found);
            }
        }
        self.chain.pop();
    }

    /// Reads the text of a source. If a line cannot be parsed, further diagnostics about it are dropped; if the header of a
    /// section cannot be parsed, so are all diagnostics below it, because its options were read into the wrong section.
    fn parse(&mut self, source: usize, base: &Path) -> SectionTable {
        let text = self.document.diagnostics.text(source);
        let (tree, errors) = DeTable::parse_recoverable(&text);
        let bad = self.syntax_errors(source, &text, errors);
        let bad_header = bad.iter().find(|line| {
            text.lines()
                .nth(**line - 1)
                .is_some_and(|line| line.trim_start().starts_with('['))
        });
        let mut diagnostics = std::mem::take(&mut self.document.diagnostics);
        let before = diagnostics.len();
        let mut reader = ValueReader {
            base,
            source,
            diagnostics: &mut diagnostics,
        };
        let top = walk::walk(tree.get_ref(), &mut self.document, &mut reader);
        diagnostics.drop_consequential(before, source, |line| {
            bad.contains(&line) || bad_header.is_some_and(|bad| line > *bad)
        });
        self.document.diagnostics = diagnostics;
        top
    }

    /// Reports once each line that is not valid TOML, and returns those lines. After a list that is not closed, every
    /// further line of the file lacks a comma; only the first is reported.
    fn syntax_errors(
        &mut self,
        source: usize,
        text: &str,
        errors: Vec<toml::de::Error>,
    ) -> Vec<usize> {
        let mut lines = Vec::new();
        let mut open_list = false;
        for error in errors {
            let position = SourceSpan {
                source,
                span: Some(error.span().unwrap_or(text.len()..text.len())),
            };
            let (line, _) = self.document.diagnostics.position(&position);
            let misses_comma = error.message().contains("missing comma");
            let follows = open_list && misses_comma;
            if !follows && !lines.contains(&line) {
                let (message, help) = syntax(error.message());
                self.document.diagnostics.add(&position, "", message, help);
            }
            open_list |= misses_comma;
            lines.push(line);
        }
        self.document.is_incomplete |= !lines.is_empty();
        lines
    }

    fn include(&mut self, position: &SourceSpan, path: PathBuf) {
        let shown_path = shown(&path.display().to_string());
        let read = text_of(&path).and_then(|text| Ok((fs::canonicalize(&path)?, text)));
        let (message, help) = match read {
            Ok((canonical, text)) => {
                let Some(obstacle) = self.obstacle(&canonical, &shown_path) else {
                    let source = self.document.diagnostics.add_source(&path, &text);
                    return self.file(source, path);
                };
                obstacle
            }
            Err(unread) => (
                format!("`include` names {shown_path}, {unread}"),
                "correct the path, or write a pattern, which may match nothing",
            ),
        };
        self.document.is_incomplete = true;
        self.document
            .diagnostics
            .add(position, "include", message, help);
    }

    /// Why a file cannot be included, and the remedy.
    fn obstacle(&self, canonical: &PathBuf, shown: &str) -> Option<(String, &'static str)> {
        if self.chain.contains(canonical) {
            let path = self.path_to(canonical);
            let message = format!("`include` forms a cycle: {path} {shown}");
            return Some((message, "remove one of the includes"));
        }
        let (why, help) = if self.seen.contains(canonical) {
            ("which was already read".to_owned(), "name each file once")
        } else if self.seen.len() >= MAX_FILES {
            let why = format!("but Galley reads at most {MAX_FILES} files");
            (why, "put several sites into one file")
        } else if self.chain.len() >= MAX_LEVELS {
            let why = format!("which is nested more than {MAX_LEVELS} levels deep");
            (why, "include it from the first file")
        } else {
            return None;
        };
        Some((format!("`include` names {shown}, {why}"), help))
    }

    /// `a.toml -> b.toml ->`, starting at the file that is included again.
    fn path_to(&self, canonical: &Path) -> String {
        let from = self
            .chain
            .iter()
            .position(|one| one == canonical)
            .unwrap_or(0);
        self.chain
            .iter()
            .skip(from)
            .map(|one| format!("{} ->", shown(&one.display().to_string())))
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The files that a pattern matches. Reports folders that cannot be read.
    fn expand(&mut self, position: &SourceSpan, pattern: &Path) -> Vec<PathBuf> {
        let expansion = Expansion::of(pattern);
        for (folder, error) in &expansion.unreadable {
            let message = format!(
                "`include` looks into {}, which cannot be read: {error}",
                shown(&folder.display().to_string())
            );
            let help = "give this user read access to the folder";
            self.document
                .diagnostics
                .add(position, "include", message, help);
        }
        if expansion.is_pattern {
            self.document.patterns.push(pattern.to_owned());
        }
        expansion.files
    }
}

/// The files that a pattern of `include` matches now, by name. Folders that cannot be read are treated as empty.
///
/// `pattern`: an absolute path with `*` and `?`, such as those in [`crate::Config::patterns`].
pub fn included(pattern: &Path) -> Vec<PathBuf> {
    Expansion::of(pattern).files
}

/// The files of a value of `include`.
struct Expansion {
    /// The files by name; a plain path itself, whether it exists or not.
    files: Vec<PathBuf>,
    /// Folders that could not be read.
    unreadable: Vec<(PathBuf, io::Error)>,
    is_pattern: bool,
}

impl Expansion {
    fn of(pattern: &Path) -> Self {
        let mut paths = vec![PathBuf::new()];
        let mut unreadable = Vec::new();
        let mut is_pattern = false;
        for part in pattern.components() {
            let text = part.as_os_str().to_string_lossy();
            if !matches!(part, Component::Normal(_)) || !text.contains(['*', '?']) {
                for path in &mut paths {
                    path.push(part);
                }
                continue;
            }
            is_pattern = true;
            let mut next = Vec::new();
            for folder in paths {
                match matches_in(&folder, &text) {
                    Ok(names) => next.extend(names),
                    Err(error) => unreadable.push((folder, error)),
                }
            }
            paths = next;
        }
        if is_pattern {
            paths.retain(|path| path.is_file());
        }
        Self {
            files: paths,
            unreadable,
            is_pattern,
        }
    }
}

/// The entries of a folder whose names match, by name. A folder that does not exist has none. Hidden files match only a
/// pattern that starts with a dot.
fn matches_in(folder: &Path, pattern: &str) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if ABSENT.contains(&error.kind()) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for (count, entry) in entries.enumerate() {
        if count >= MAX_ENTRIES {
            let why = format!("it has more than {MAX_ENTRIES} entries");
            return Err(io::Error::other(why));
        }
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        let is_meant = pattern.starts_with('.') || !text.starts_with('.');
        if is_meant && matches(pattern.as_bytes(), text.as_bytes()) {
            names.push(folder.join(&name));
        }
    }
    names.sort();
    Ok(names)
}

/// Matches a pattern with `*` (any number of bytes) and `?` (one). Retries only the last `*`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&byte) if byte == b'?' || Some(&byte) == name.get(n) => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    p = at + 1;
                    n = taken + 1;
                    star = Some((at, n));
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|byte| *byte == b'*')
}

fn text_of(path: &Path) -> Result<String, FileError> {
    file::read_text(path, MAX_BYTES)
}

/// The message and remedy for a parser error.
fn syntax(message: &str) -> (String, &'static str) {
    let message = message.lines().collect::<Vec<_>>().join(", ");
    let help = if message.contains("duplicate key") {
        "keep one of the two"
    } else if message.contains("missing comma") || message.contains("unclosed array") {
        "close the list above this line with `]`, or put a comma between its values"
    } else if message.contains("unclosed table") {
        "close the section's name: `[server]`, `[[site]]`"
    } else if message.contains("unclosed") || message.contains("string") {
        "strings need double quotes: `name = \"text\"`"
    } else {
        "write one `name = value` per line, strings in double quotes, lists in brackets"
    };
    (format!("this is not TOML: {message}"), help)
}

fn incomplete(mut document: Document) -> Document {
    document.is_incomplete = true;
    document
}

/// The errors for a folder that does not exist.
const ABSENT: [io::ErrorKind; 2] = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];

/// Far more than a person writes; prevents reading a whole disk image that was named by mistake.
const MAX_BYTES: u64 = 4 << 20;
const MAX_FILES: usize = 10_000;
/// The maximum number of entries in a folder of a pattern: ten times the maximum number of files.
const MAX_ENTRIES: usize = 100_000;
const MAX_LEVELS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names() {
        for (pattern, name, want) in [
            ("*.toml", "a.toml", true),
            ("*.toml", "a.toml~", false),
            ("*.toml", ".toml", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b", "xaxxb", true),
            ("*a*b", "xaxx", false),
            ("**", "", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                want,
                "{pattern} {name}"
            );
        }
    }
}
