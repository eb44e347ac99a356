//! Puts the WordPress plugin into the program: every file below `wordpress-plugin/galley` but its tests.
//!
//! A macro that embeds a folder does not notice a file that was added since the last build, and would take the tests along.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let from = |name: &str| env::var_os(name).map(PathBuf::from).unwrap_or_default();
    let plugin = from("CARGO_MANIFEST_DIR").join("../../wordpress-plugin/galley");
    println!("cargo::rerun-if-changed={}", plugin.display());
    let plugin = plugin.canonicalize()?;
    let mut names = Vec::new();
    walk(&plugin, "", &mut names)?;
    names.sort();
    let mut code = String::from("&[\n");
    for name in names {
        let path = plugin.join(&name).to_string_lossy().into_owned();
        let _ = writeln!(code, "({name:?}, include_bytes!({path:?})),");
    }
    code.push_str("]\n");
    fs::write(from("OUT_DIR").join("plugin.rs"), code)
}

fn walk(folder: &Path, prefix: &str, names: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let is_left_out = name.starts_with('.') || name == "tests" || name.starts_with("phpunit");
        if is_left_out {
            continue;
        }
        let whole = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), &format!("{whole}/"), names)?;
        } else {
            names.push(whole);
        }
    }
    Ok(())
}
