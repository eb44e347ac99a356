//! `xtask seeds` in its short form: two articles with the stacks that their authors ended with, and Galley, through all checks. What
//! the old stacks fail shows that the checks see it; Galley must pass them all. `make seeds` runs the long form.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// The server of the same build.
fn galley() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("galley");
    assert!(beside.is_file(), "build it first: cargo build -p galley");
    beside
}

/// Whether a stack passes each check of an article, by the words of the check.
fn verdicts(article: &Value, role: &str) -> Vec<(String, bool)> {
    let troubles = article["troubles"].as_array().unwrap().iter();
    let of_role = |trouble: &Value| {
        let mut all = trouble["verdicts"].as_array().unwrap().iter();
        let one = all.find(|one| one["role"] == role).unwrap();
        let passed = one["verdict"]["passed"].as_bool().unwrap();
        (trouble["words"].as_str().unwrap().to_owned(), passed)
    };
    troubles.map(of_role).collect()
}

#[test]
fn galley_has_none_of_the_troubles_and_old_stacks_have_theirs() {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["seeds", "--short", "--json", "--only", "1,2", "--galley"])
        .arg(galley())
        .arg("--plugin")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wordpress-plugin/galley"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let articles = found["articles"].as_array().unwrap();
    let mut checks = 0;
    for article in articles {
        for (words, passed) in verdicts(article, "galley") {
            assert!(passed, "{words}\n{said}");
            checks += 1;
        }
    }
    assert_eq!((articles.len(), checks), (2, 10), "{said}");
    // nginx of today serves stored pages to phones and to logged-in users, by this configuration.
    let failed = verdicts(&articles[0], "final");
    let failed: Vec<&str> = failed
        .iter()
        .filter(|(_, passed)| !passed)
        .map(|(words, _)| words.split(' ').next().unwrap())
        .collect();
    assert_eq!(failed, ["Phones", "Logged-in"], "{said}");
}

#[test]
fn an_unknown_article_is_wrong_usage() {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["seeds", "--only", "9"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no article `9`: say 1 to 5"), "{said}");
}
