//! Golden files: every `broken/*.toml` results in exactly the errors in its `.txt`, every `good/*.toml` in the values in its `.txt`.
//!
//! The files are copied to a folder with site roots and tokens, because version control does not keep permissions. With
//! `UPDATE_GOLDEN=1` the test writes the `.txt` files; review the difference before committing it.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use galley_config::load;

#[test]
fn broken_files_result_in_their_errors() {
    let count = compare_files("broken", "no error", |file| match load(file) {
        Ok(config) => format!("no error: {config:#?}\n"),
        Err(errors) => {
            for error in errors.iter() {
                assert!(
                    !error.help.is_empty() && !error.message.is_empty(),
                    "{error:?}"
                );
            }
            errors.to_string()
        }
    });
    assert!(count >= 30, "only {count} broken files");
}

#[test]
fn good_files_result_in_their_values() {
    let count = compare_files("good", "rejected", |file| match load(file) {
        // The default memory and values derived from it differ between machines.
        Ok(_) if !fs::read_to_string(file).unwrap().contains("memory = ") => {
            panic!("{} does not set `memory`", file.display())
        }
        Ok(config) => format!("{config:#?}\n"),
        Err(errors) => format!("rejected:\n{errors}"),
    });
    assert!(count >= 4, "only {count} good files");
}

/// Compares the output of `show` for each file with its `.txt`. No output may start with `forbidden`. Returns the number of files.
fn compare_files(folder: &str, forbidden: &str, show: impl Fn(&Path) -> String) -> usize {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().canonicalize().unwrap();
    write_fixtures(&dir);
    copy_toml(&test_folder(folder), &dir);
    let mut differences = Vec::new();
    let all = files(&test_folder(folder));
    for file in &all {
        let shown = show(&dir.join(file.file_name().unwrap()));
        let shown = shown.replace(dir.to_str().unwrap(), "$DIR");
        assert!(!shown.starts_with(forbidden), "{}: {shown}", file.display());
        let golden = file.with_extension("txt");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&golden, shown).unwrap();
            continue;
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        if shown != expected {
            differences.push(format!(
                "{}\n--- expected\n{expected}--- actual\n{shown}",
                file.display()
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    all.len()
}

/// Writes files that the configurations refer to: a site root and valid and invalid tokens.
fn write_fixtures(dir: &Path) {
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

fn copy_toml(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            fs::create_dir(&target).unwrap();
            copy_toml(&path, &target);
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

fn test_folder(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(folder)
}
