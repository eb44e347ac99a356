//! Files of one crate do not import each other in cycles.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use super::modules::{Modules, Reference};
use super::{crate_roots, workspace};

/// Permitted number of files in cycles, by crate; 0 for crates not listed. A number may only be lowered.
const PERMITTED_FILES: &[(&str, usize)] = &[];

#[test]
fn files_of_one_crate_do_not_import_each_other_in_cycles() {
    let mut violations = Vec::new();
    for root in crate_roots() {
        let modules = Modules::read(&root, &|file| fs::read_to_string(file).ok());
        let references = modules.references();
        let cycles = find_cycles(&references);
        let files: usize = cycles.iter().map(BTreeSet::len).sum();
        let name = crate_name(&root);
        let permitted = PERMITTED_FILES
            .iter()
            .find(|(permitted, _)| *permitted == name && root.ends_with("lib.rs"))
            .map_or(0, |(_, permitted)| *permitted);
        if files < permitted {
            violations.push(format!(
                "{name}: only {files} files are in cycles, lower {permitted} in this test"
            ));
        }
        if files > permitted {
            violations.push(format!(
                "{name}: {files} files are in cycles, {permitted} are permitted"
            ));
            violations.extend(cycles.iter().map(|cycle| describe(cycle, &references)));
        }
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

fn crate_name(root: &Path) -> String {
    let folder = root.ancestors().nth(2).unwrap();
    folder.file_name().unwrap().to_string_lossy().into_owned()
}

fn describe(cycle: &BTreeSet<PathBuf>, references: &[Reference]) -> String {
    let shown = |file: &Path| {
        let below = file
            .strip_prefix(workspace().join("crates"))
            .unwrap_or(file);
        below.display().to_string()
    };
    let mut text = format!("cycle over {} files:", cycle.len());
    for reference in references
        .iter()
        .filter(|reference| cycle.contains(&reference.from) && cycle.contains(&reference.to))
    {
        let _ = write!(
            text,
            "\n  {} imports {} ({})",
            shown(&reference.from),
            shown(&reference.to),
            reference.path
        );
    }
    text
}

/// Sets of files that all reach each other by references.
fn find_cycles(references: &[Reference]) -> Vec<BTreeSet<PathBuf>> {
    let mut next: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
    for reference in references {
        next.entry(&reference.from)
            .or_default()
            .insert(&reference.to);
    }
    let reached: BTreeMap<&Path, BTreeSet<&Path>> = next
        .keys()
        .map(|file| (*file, reachable(file, &next)))
        .collect();
    let mut found = BTreeSet::new();
    for (file, others) in reached
        .iter()
        .filter(|(file, others)| others.contains(*file))
    {
        let cycle: BTreeSet<PathBuf> = others
            .iter()
            .filter(|other| reached.get(*other).is_some_and(|back| back.contains(file)))
            .map(|other| other.to_path_buf())
            .collect();
        found.insert(cycle);
    }
    found.into_iter().collect()
}

fn reachable<'a>(from: &Path, next: &BTreeMap<&'a Path, BTreeSet<&'a Path>>) -> BTreeSet<&'a Path> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&Path> = next.get(from).into_iter().flatten().copied().collect();
    while let Some(file) = open.pop() {
        if let Some((file, others)) = next.get_key_value(file)
            && found.insert(*file)
        {
            open.extend(others);
        }
    }
    found
}

/// The cycles among `files`, given as names below `src` and texts.
fn cycles_among(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let texts: BTreeMap<PathBuf, &str> = files
        .iter()
        .map(|(name, text)| (Path::new("src").join(name), *text))
        .collect();
    let read = |file: &Path| texts.get(file).map(|text| (*text).to_owned());
    let references = Modules::read(Path::new("src/lib.rs"), &read).references();
    find_cycles(&references)
        .iter()
        .map(|cycle| {
            let below = |file: &PathBuf| file.strip_prefix("src").unwrap().display().to_string();
            cycle.iter().map(below).collect()
        })
        .collect()
}

#[test]
fn a_cycle_through_every_kind_of_path_is_found() {
    let found = cycles_among(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::{self, B}; fn f() {}"),
        ("b.rs", "pub struct B; fn f() { super::c::g(); }"),
        (
            "c.rs",
            "pub fn g() { let x: u8 = matches!(y, crate::a::Z); }",
        ),
        ("d.rs", "use crate::a::Z;"),
    ]);
    assert_eq!(found, [["a.rs", "b.rs", "c.rs"]]);
}

#[test]
fn a_parent_with_code_and_its_child_are_a_cycle() {
    let parent = "mod child; pub struct P; fn f() { child::g() }";
    let child = "use super::P; pub fn g() {}";
    let found = cycles_among(&[
        ("lib.rs", "mod p;"),
        ("p.rs", parent),
        ("p/child.rs", child),
    ]);
    assert_eq!(found, [["p/child.rs", "p.rs"]]);
}

#[test]
fn re_exports_resolve_to_the_defining_file() {
    let found = cycles_among(&[
        (
            "lib.rs",
            "mod a; mod b; pub use a::{A, other}; pub use b::*;",
        ),
        ("a.rs", "pub struct A; pub fn other() { crate::B }"),
        ("b.rs", "pub struct B; fn f(a: crate::A) {}"),
    ]);
    assert_eq!(found, [["a.rs", "b.rs"]]);
}

#[test]
fn declarations_re_exports_and_tests_do_not_count_as_cycles() {
    let found = cycles_among(&[
        (
            "lib.rs",
            "//! Text.\nmod a; mod b; #[cfg(test)] mod tests; pub use a::A;",
        ),
        (
            "a.rs",
            "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }",
        ),
        (
            "b.rs",
            "use crate::A; use super::a; pub struct B; fn f() { a::A }",
        ),
        ("tests.rs", "use crate::b::B;"),
    ]);
    assert_eq!(found, Vec::<Vec<String>>::new());
}
