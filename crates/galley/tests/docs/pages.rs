//! Reads the pages of the manual and their parts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

pub struct Page {
    /// Relative to the repository.
    pub name: String,
    pub text: String,
}

pub struct Block {
    /// Page and line, for messages.
    pub place: String,
    /// The info string of the fence.
    pub info: String,
    pub text: String,
}

/// The site of examples that show only a part of it; the head of the options page says so.
const SITE: &str = "[[site]]\nhosts = [\"example.com\", \"www.example.com\"]\nroot = \"/var/www/example.com\"\nphp = \"unix:/run/php/php-fpm.sock\"\n";

impl Block {
    /// The file that a valid example of the configuration is or belongs to; none for other blocks.
    pub fn configuration(&self) -> Option<String> {
        match self.info.as_str() {
            "toml" => Some(self.text.clone()),
            "toml,site" => Some(format!("{SITE}{}", self.text)),
            _ => None,
        }
    }
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Adds the pages in `folder`, which ends with a slash or is empty, and in its subfolders if `is_recursive`.
fn find_markdown(folder: &str, is_recursive: bool, names: &mut Vec<String>) {
    for entry in fs::read_dir(repository().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if is_recursive && entry.file_type().unwrap().is_dir() {
            find_markdown(&format!("{folder}{name}/"), is_recursive, names);
        } else if Path::new(&name).extension().is_some_and(|e| e == "md") {
            names.push(format!("{folder}{name}"));
        }
    }
}

/// All pages: those in the root folder, and the manual.
pub fn pages() -> Vec<Page> {
    let mut names: Vec<String> = Vec::new();
    for folder in ["", "docs/"] {
        find_markdown(folder, folder == "docs/", &mut names);
    }
    names.sort();
    assert!(names.len() > 10, "only {} pages found", names.len());
    names
        .into_iter()
        .map(|name| Page {
            text: fs::read_to_string(repository().join(&name)).unwrap(),
            name,
        })
        .collect()
}

pub fn page(name: &str) -> String {
    fs::read_to_string(repository().join(name)).unwrap()
}

/// The fenced blocks of a page.
fn blocks(page: &Page) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in page.text.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(info), None) => {
                open = Some(Block {
                    place: format!("{}:{}", page.name, number + 1),
                    info: info.trim().to_owned(),
                    text: String::new(),
                });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{}: a block is not closed", page.name);
    found
}

pub fn all_blocks() -> Vec<Block> {
    pages().iter().flat_map(blocks).collect()
}

/// The text from a heading to the next heading of its level or above.
pub fn section<'t>(text: &'t str, heading: &str) -> &'t str {
    let start = text
        .find(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("no heading `{heading}`"));
    let body = &text[start + heading.len() + 2..];
    let level = heading.bytes().take_while(|b| *b == b'#').count();
    let ends = (1..=level).filter_map(|l| body.find(&format!("\n{} ", "#".repeat(l))));
    &body[..ends.min().unwrap_or(body.len())]
}

/// The first cells of a section's tables that are one word in backticks.
pub fn first_cells(section: &str) -> BTreeSet<String> {
    section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
        .map(|(word, _)| word.to_owned())
        .collect()
}

/// Everything in single backticks, outside blocks.
pub fn code_words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut is_fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            words.extend(line.split('`').skip(1).step_by(2));
        }
    }
    words
}

pub fn headings(text: &str) -> impl Iterator<Item = &str> {
    let mut is_fenced = false;
    text.lines().filter_map(move |line| {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        }
        let heading = line.trim_start_matches('#');
        (!is_fenced && heading.len() < line.len()).then(|| heading.trim())
    })
}

/// Adds the files below `folder` with one of these extensions.
pub fn files_with(folder: &Path, extensions: &[&str], out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let extension = path.extension().and_then(|e| e.to_str());
        if path.is_dir() {
            files_with(&path, extensions, out);
        } else if extension.is_some_and(|e| extensions.contains(&e)) {
            out.push(path);
        }
    }
}
