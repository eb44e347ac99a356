//! Golden folders: every `broken/*.toml` gives exactly the complaints of its `.txt`, every `good/*.toml` the values.
//!
//! Files are copied beside a fixture of roots and tokens, because permissions do not survive version control. With
//! `UPDATE_GOLDEN=1` the expectations are written anew; read the difference before it is committed.

#![expect(
    clippy::unwrap_used,
    reason = "a fixture that cannot be made ends the test"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use galley_config::load;

#[test]
fn broken_files_give_their_complaints() {
    let seen = walk("broken", "no complaint", |file| match load(file) {
        Ok(config) => format!("no complaint: {config:#?}\n"),
        Err(complaints) => {
            for one in complaints.iter() {
                assert!(!one.help.is_empty() && !one.message.is_empty(), "{one:?}");
            }
            complaints.to_string()
        }
    });
    assert!(seen >= 30, "only {seen} broken files");
}

#[test]
fn good_files_give_their_values() {
    let seen = walk("good", "refused", |file| match load(file) {
        // Left to the machine, it and what follows from it would be different on each.
        Ok(_) if !fs::read_to_string(file).unwrap().contains("memory = ") => {
            panic!("{} says nothing of memory", file.display())
        }
        Ok(config) => format!("{config:#?}\n"),
        Err(complaints) => format!("refused:\n{complaints}"),
    });
    assert!(seen >= 4, "only {seen} good files");
}

/// Compares what `show` makes of each file with its expectation; none may start with `never`. Returns how many files there were.
fn walk(folder: &str, never: &str, show: impl Fn(&Path) -> String) -> usize {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().canonicalize().unwrap();
    furnish(&dir);
    copy(&here(folder), &dir);
    let mut differences = Vec::new();
    let all = files(&here(folder));
    for file in &all {
        let shown = show(&dir.join(file.file_name().unwrap()));
        let shown = shown.replace(dir.to_str().unwrap(), "$DIR");
        assert!(!shown.starts_with(never), "{}: {shown}", file.display());
        let golden = file.with_extension("txt");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&golden, shown).unwrap();
            continue;
        }
        let want = fs::read_to_string(&golden).unwrap_or_default();
        if shown != want {
            differences.push(format!(
                "{}\n--- wanted\n{want}--- got\n{shown}",
                file.display()
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    all.len()
}

/// What the files refer to: a root, tokens of all kinds.
fn furnish(dir: &Path) {
    fs::create_dir(dir.join("www")).unwrap();
    fs::write(dir.join("www/index.php"), "<?php\n").unwrap();
    fs::create_dir(dir.join("logs")).unwrap();
    let people = "jane:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n";
    fs::write(dir.join("people.htpasswd"), people).unwrap();
    for (name, token, mode) in [
        ("token", "0123456789abcdef\n", 0o600),
        ("token-short", "0123456789abcde\n", 0o600),
        ("token-open", "0123456789abcdef0123456789abcdef\n", 0o644),
        ("token-long", &"x".repeat(5000), 0o600),
    ] {
        fs::write(dir.join(name), token).unwrap();
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&path, &target);
        } else if path.extension().is_some_and(|ext| ext == "toml") {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "toml"))
        .collect();
    all.sort();
    all
}

fn here(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(folder)
}
