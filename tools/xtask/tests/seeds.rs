//! `xtask seeds --short`: all checks of two articles with the authors' final stacks and with Galley. The final stacks must fail some
//! checks, which shows that the checks work; Galley must pass all of them. `make seeds` runs all articles.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// The galley program of the same build.
fn galley() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("galley");
    assert!(program.is_file(), "build it first: cargo build -p galley");
    program
}

/// The requirements of an article, and whether a stack meets them.
fn verdicts(article: &Value, role: &str) -> Vec<(String, bool)> {
    let problems = article["problems"].as_array().unwrap().iter();
    let of_role = |problem: &Value| {
        let mut verdicts = problem["verdicts"].as_array().unwrap().iter();
        let verdict = verdicts.find(|it| it["role"] == role).unwrap();
        let passed = verdict["verdict"]["passed"].as_bool().unwrap();
        (problem["requirement"].as_str().unwrap().to_owned(), passed)
    };
    problems.map(of_role).collect()
}

#[test]
fn galley_passes_all_checks_and_the_final_stacks_fail_some() {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["seeds", "--short", "--json", "--only", "1,2", "--galley"])
        .arg(galley())
        .arg("--plugin")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wordpress-plugin/galley"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let articles = results["articles"].as_array().unwrap();
    let mut checks = 0;
    for article in articles {
        for (requirement, passed) in verdicts(article, "galley") {
            assert!(passed, "{requirement}\n{stderr}");
            checks += 1;
        }
    }
    assert_eq!((articles.len(), checks), (2, 10), "{stderr}");
    // With this configuration, current nginx sends stored pages to phones and to logged-in users.
    let failed = verdicts(&articles[0], "final");
    let failed: Vec<&str> = failed
        .iter()
        .filter(|(_, passed)| !passed)
        .map(|(requirement, _)| requirement.split(' ').next().unwrap())
        .collect();
    assert_eq!(failed, ["Phones", "Logged-in"], "{stderr}");
}

#[test]
fn an_unknown_article_is_a_usage_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["seeds", "--only", "9"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        stderr.contains("unknown article `9`: give 1 to 5"),
        "{stderr}"
    );
}
