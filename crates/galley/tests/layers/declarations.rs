//! `mod.rs` and `lib.rs` contain only declarations and re-exports, and a folder of modules has a `mod.rs`.

use std::fs;
use std::path::{Path, PathBuf};

use super::{all_sources, workspace};

/// Files with code next to a folder with the same name and product modules. The list may only shrink.
const FILES_NEXT_TO_FOLDER: &[&str] = &[
    "crates/cache/src/disk/format.rs",
    "crates/config/src/table.rs",
    "crates/files/src/deny.rs",
    "crates/admin/src/why.rs",
    "crates/import/src/apache.rs",
    "crates/import/src/caddy.rs",
    "crates/import/src/nginx.rs",
    "crates/policy/src/cache_control.rs",
    "crates/policy/src/compress.rs",
    "crates/policy/src/key.rs",
    "crates/policy/src/proxied.rs",
    "crates/policy/src/spellings.rs",
    "crates/policy/src/vary.rs",
    "crates/policy/src/wordpress.rs",
];

/// `mod.rs` files of tools that contain code. The list may only shrink.
const MOD_FILES_WITH_CODE: &[&str] = &[
    "tools/testkit/src/cluster/mod.rs",
    "tools/testkit/src/exactness/events/mod.rs",
    "tools/testkit/src/exactness/fragments/mod.rs",
    "tools/testkit/src/exactness/mod.rs",
    "tools/testkit/src/faults/mod.rs",
    "tools/testkit/src/growth/mod.rs",
    "tools/xtask/src/bench/mod.rs",
    "tools/xtask/src/cluster/mod.rs",
    "tools/xtask/src/conformance/mod.rs",
    "tools/xtask/src/demo/mod.rs",
    "tools/xtask/src/exactness/mod.rs",
    "tools/xtask/src/faults/mod.rs",
    "tools/xtask/src/fragments/mod.rs",
    "tools/xtask/src/growth/mod.rs",
];

#[test]
fn mod_and_lib_files_contain_only_declarations() {
    let found = product_files()
        .into_iter()
        .filter(|path| path.ends_with("mod.rs") || path.ends_with("lib.rs"))
        .filter(|path| has_code(&fs::read_to_string(path).unwrap()));
    compare_with_list(found, MOD_FILES_WITH_CODE, "contains code");
}

#[test]
fn a_folder_of_modules_has_a_mod_file() {
    let files = product_files();
    let found = files.iter().filter(|path| {
        let folder = path.with_extension("");
        let is_test = |file: &Path| file.components().any(|c| c.as_os_str() == "tests");
        let mut inside = files
            .iter()
            .filter_map(|file| file.strip_prefix(&folder).ok());
        !path.ends_with("tests.rs")
            && inside.any(|file| !file.ends_with("tests.rs") && !is_test(file))
    });
    compare_with_list(
        found.cloned(),
        FILES_NEXT_TO_FOLDER,
        "is next to a folder of modules with the same name",
    );
}

fn product_files() -> Vec<PathBuf> {
    let mut files = all_sources();
    files.retain(|path| path.components().any(|c| c.as_os_str() == "src"));
    files
}

fn compare_with_list(found: impl Iterator<Item = PathBuf>, listed: &[&str], what: &str) {
    let root = workspace();
    let found: Vec<String> = found
        .map(|path| path.strip_prefix(&root).unwrap().display().to_string())
        .collect();
    let unlisted = found.iter().filter(|path| !listed.contains(&path.as_str()));
    let mut violations: Vec<String> = unlisted.map(|path| format!("{path} {what}")).collect();
    let outdated = listed
        .iter()
        .filter(|path| !found.iter().any(|one| one == *path));
    violations.extend(outdated.map(|path| format!("{path}: remove it from the list in this test")));
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

/// Whether an item other than a module, an import or a re-export starts at the beginning of a line.
fn has_code(text: &str) -> bool {
    text.lines().any(|line| {
        let line = match line.strip_prefix("pub(") {
            Some(scoped) => scoped.split_once(") ").map_or("", |(_, item)| item),
            None => line.strip_prefix("pub ").unwrap_or(line),
        };
        let word = line.split([' ', '<', '!']).next().unwrap_or_default();
        ITEMS.contains(&word)
    })
}

const ITEMS: &[&str] = &[
    "async",
    "const",
    "enum",
    "fn",
    "impl",
    "macro_rules",
    "static",
    "struct",
    "trait",
    "type",
    "union",
    "unsafe",
];

#[test]
fn code_among_declarations_is_found() {
    let declarations = "//! Text.\n\nmod a;\n#[cfg(test)]\nmod tests;\n\npub use a::{A,\n    b};\n";
    assert!(!has_code(declarations));
    for item in [
        "pub(super) fn a() {}",
        "impl A {}",
        "const A: u8 = 1;",
        "pub struct A;",
    ] {
        assert!(has_code(&format!("{declarations}{item}\n")), "{item}");
    }
}
