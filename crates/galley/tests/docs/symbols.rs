//! Functions and types that the pages for developers name.

use std::fs;
use std::path::Path;

use crate::pages::{code_words, files_with, page, pages, repository, section};

/// The names in a row of the tour are in the files that the row names, or, if they have a path, in another file of the crates.
#[test]
fn functions_of_the_newcomers_tour_exist() {
    let text = page("CONTRIBUTING.md");
    let sources = Sources::read();
    let is_file = |word: &str| Path::new(word).extension().is_some_and(|e| e == "rs");
    let mut missing = Vec::new();
    let rows = section(&text, "## A newcomer's tour").lines();
    let rows: Vec<&str> = rows.filter(|line| line.starts_with("| W")).collect();
    assert!(rows.len() >= 10, "only {} questions found", rows.len());
    for row in rows {
        let words = code_words(row);
        let files = words.iter().filter(|word| is_file(word));
        let paths = files.map(|word| repository().join("crates").join(word));
        let named = Sources(
            paths
                .map(|path| fs::read_to_string(path).unwrap())
                .collect(),
        );
        for word in words {
            let Some(name) = last_name(word).filter(|_| !is_file(word)) else {
                continue;
            };
            let is_elsewhere = word.contains("::") && sources.defines(name);
            if !named.has(name) && !is_elsewhere {
                missing.push(word);
            }
        }
    }
    assert!(missing.is_empty(), "not found: {missing:?}");
}

#[test]
fn paths_of_code_in_pages_exist() {
    let sources = Sources::read();
    let mut missing = Vec::new();
    for page in pages() {
        if page.name.starts_with("docs/") && !page.name.starts_with("docs/internals/") {
            continue;
        }
        let words = code_words(&page.text).into_iter();
        for word in words.filter(|word| word.contains("::")) {
            if last_name(word).is_some_and(|name| !sources.has(name)) {
                missing.push(format!("{}: {word}", page.name));
            }
        }
    }
    assert!(missing.is_empty(), "not found: {missing:?}");
}

/// The last name of a path such as `Waiters::join`; `None`: not the name of something in the code.
fn last_name(word: &str) -> Option<&str> {
    let is_path = |b: u8| b.is_ascii_alphanumeric() || b"_:".contains(&b);
    let name = word.rsplit("::").next()?;
    (word.bytes().all(is_path) && !name.is_empty()).then_some(name)
}

/// Texts of source files.
struct Sources(Vec<String>);

impl Sources {
    /// Those of the product.
    fn read() -> Self {
        let mut files = Vec::new();
        files_with(&repository().join("crates"), &["rs"], &mut files);
        let product = files
            .iter()
            .filter(|path| path.iter().any(|part| part == "src"));
        Self(
            product
                .map(|path| fs::read_to_string(path).unwrap())
                .collect(),
        )
    }

    /// Whether a name is in a text as a whole word.
    fn has(&self, name: &str) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        self.0.iter().any(|text| {
            text.match_indices(name).any(|(at, _)| {
                !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part)
            })
        })
    }

    /// Whether a function, a type or a variant of this name is defined.
    fn defines(&self, name: &str) -> bool {
        let is_type = name.starts_with(|c: char| c.is_ascii_uppercase());
        if is_type {
            self.has(name)
        } else {
            self.has(&format!("fn {name}"))
        }
    }
}
