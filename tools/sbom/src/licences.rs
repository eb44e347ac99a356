//! The texts of the licences of third parties.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::LinkedCrate;

/// How files with a licence are called.
const NAMES: [&str; 6] = [
    "LICENSE",
    "LICENCE",
    "COPYING",
    "COPYRIGHT",
    "NOTICE",
    "UNLICENSE",
];

/// Sources of C libraries are at most this deep in a crate.
const DEPTH: usize = 6;

/// The expression in SPDX's present form: crates once separated alternatives by a slash.
pub fn licence_expression(declared: &str) -> String {
    declared
        .split('/')
        .map(str::trim)
        .collect::<Vec<_>>()
        .join(" OR ")
}

/// One text: each licence once, below the crates that it covers. Crates without a licence file are named with their authors.
///
/// # Errors
///
/// A message, if a crate's sources cannot be read.
pub fn third_party_licences(crates: &[LinkedCrate]) -> Result<String, String> {
    let mut covered: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut page = String::from(
        "Licences of third parties\n=========================\n\n\
         The binary `galley` contains the crates below and the standard library of Rust\n\
         (MIT or Apache-2.0, the Rust Project contributors). Their texts follow.\n\n",
    );
    for linked in crates.iter().filter(|linked| !linked.is_ours()) {
        let licence = linked.licence.as_deref().unwrap_or("see its text");
        let _ = writeln!(page, "{} {}: {licence}", linked.name, linked.version);
        let mut files = Vec::new();
        find(&linked.folder, DEPTH, &mut files)
            .map_err(|error| format!("{}: {error}", linked.folder.display()))?;
        if files.is_empty() {
            let _ = writeln!(
                page,
                "    no licence file; by {}; {}",
                linked.authors.join(", "),
                linked.repository.as_deref().unwrap_or("no repository"),
            );
        }
        for file in files {
            let bytes = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let text = String::from_utf8_lossy(&bytes)
                .replace("\r\n", "\n")
                .trim_matches('\n')
                .to_owned();
            let within = file.strip_prefix(&linked.folder).unwrap_or(&file);
            let place = format!("{} {}: {}", linked.name, linked.version, within.display());
            covered.entry(text).or_default().push(place);
        }
    }
    let mut texts: Vec<(Vec<String>, String)> = covered
        .into_iter()
        .map(|(text, places)| (places, text))
        .collect();
    texts.sort();
    for (places, text) in texts {
        let _ = write!(
            page,
            "\n{}\n{}\n\n{text}\n",
            "-".repeat(80),
            places.join("\n")
        );
    }
    Ok(page)
}

/// Adds the files with a licence below a folder, sorted.
fn find(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    entries.sort();
    for path in entries {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_uppercase();
        if path.is_dir() {
            if depth > 0 && !matches!(name.as_str(), "TESTS" | "TARGET" | "BENCHES" | "EXAMPLES") {
                find(&path, depth - 1, files)?;
            }
        } else if NAMES.iter().any(|known| name.starts_with(known)) && is_prose(&path) {
            files.push(path);
        }
    }
    Ok(())
}

/// No source code that is only called like a licence, such as `copyright.rs`.
fn is_prose(path: &Path) -> bool {
    path.extension().is_none_or(|ending| {
        let ending = ending.to_string_lossy().to_lowercase();
        !matches!(
            ending.as_str(),
            "rs" | "c" | "h" | "py" | "go" | "sh" | "json" | "toml" | "pl" | "asm"
        )
    })
}
