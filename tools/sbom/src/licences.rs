//! The licence texts of third parties.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::LinkedCrate;

/// Names of licence files start with one of these.
const NAMES: [&str; 6] = [
    "LICENSE",
    "LICENCE",
    "COPYING",
    "COPYRIGHT",
    "NOTICE",
    "UNLICENSE",
];

/// Maximum depth of folders to search: bundled C libraries are not deeper in a crate.
const MAX_DEPTH: usize = 6;

/// Converts a declared licence to an SPDX expression: old crates separate alternatives by a slash.
pub fn licence_expression(declared: &str) -> String {
    declared
        .split('/')
        .map(str::trim)
        .collect::<Vec<_>>()
        .join(" OR ")
}

/// The contents of `third-party-licences.txt`: each licence text once, below the crates that it covers. For crates without a
/// licence file, it lists the authors.
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
        find_licence_files(&linked.folder, MAX_DEPTH, &mut files)
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
            let path = file.strip_prefix(&linked.folder).unwrap_or(&file);
            let source = format!("{} {}: {}", linked.name, linked.version, path.display());
            covered.entry(text).or_default().push(source);
        }
    }
    let mut texts: Vec<(Vec<String>, String)> = covered
        .into_iter()
        .map(|(text, sources)| (sources, text))
        .collect();
    texts.sort();
    for (sources, text) in texts {
        let _ = write!(
            page,
            "\n{}\n{}\n\n{text}\n",
            "-".repeat(80),
            sources.join("\n")
        );
    }
    Ok(page)
}

/// Adds the licence files below a folder, sorted.
fn find_licence_files(
    folder: &Path,
    depth: usize,
    files: &mut Vec<PathBuf>,
) -> std::io::Result<()> {
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
                find_licence_files(&path, depth - 1, files)?;
            }
        } else if NAMES.iter().any(|known| name.starts_with(known)) && is_prose(&path) {
            files.push(path);
        }
    }
    Ok(())
}

/// False for source code with such a name, for example `copyright.rs`.
fn is_prose(path: &Path) -> bool {
    path.extension().is_none_or(|ending| {
        let ending = ending.to_string_lossy().to_lowercase();
        !matches!(
            ending.as_str(),
            "rs" | "c" | "h" | "py" | "go" | "sh" | "json" | "toml" | "pl" | "asm"
        )
    })
}
