//! Enforces the architecture: crates depend only on permitted crates, files and functions stay short, style rules are followed.
//!
//! The tests parse the source text, so they need no other tool and cover every target.

#![expect(clippy::unwrap_used, reason = "tests: an unreadable file is a failure")]

mod cycles;
mod debug_text;
mod declarations;
mod modules;
mod sizes;
mod source;
mod types_and_parameters;

use std::fs;
use std::path::{Path, PathBuf};

/// The crates of this project that each crate may depend on, as in ARCHITECTURE.md. Cargo refuses cycles.
const CRATES: &[(&str, &[&str])] = &[
    ("crates/policy", &[]),
    ("crates/http", &[]),
    ("crates/fastcgi", &[]),
    ("crates/certs", &[]),
    ("crates/privileged", &[]),
    ("crates/dashboard", &[]),
    ("crates/cache", &["policy", "sys"]),
    ("crates/cluster", &["policy", "sys"]),
    ("crates/files", &["policy", "sys"]),
    ("crates/load", &["http"]),
    ("crates/config", &["certs", "policy"]),
    ("crates/import", &["config", "files", "policy"]),
    ("crates/sys", &["policy"]),
    ("crates/object-cache", &["sys"]),
    ("crates/telemetry", &["config", "policy", "sys"]),
    ("crates/tls", &["certs", "cluster", "config", "sys"]),
    ("crates/codec", &["cache", "policy", "sys"]),
    ("crates/access", &["certs", "cluster", "policy", "sys"]),
    (
        "crates/php",
        &["config", "fastcgi", "policy", "privileged", "sys"],
    ),
    (
        "crates/upstream",
        &[
            "cache",
            "codec",
            "config",
            "fastcgi",
            "http",
            "policy",
            "sys",
            "telemetry",
            "tls",
        ],
    ),
    (
        "crates/purging",
        &[
            "cache",
            "certs",
            "cluster",
            "codec",
            "config",
            "policy",
            "sys",
            "telemetry",
            "tls",
        ],
    ),
    (
        "crates/fetch",
        &[
            "access", "cache", "cluster", "codec", "policy", "purging", "sys", "upstream",
        ],
    ),
    (
        "crates/request",
        &[
            "access",
            "cache",
            "certs",
            "cluster",
            "codec",
            "config",
            "dashboard",
            "fetch",
            "files",
            "http",
            "php",
            "policy",
            "purging",
            "sys",
            "telemetry",
            "tls",
            "upstream",
        ],
    ),
    (
        "crates/server",
        &[
            "access",
            "cache",
            "files",
            "http",
            "policy",
            "request",
            "sys",
            "telemetry",
            "tls",
            "upstream",
        ],
    ),
    (
        "crates/operator",
        &[
            "certs", "config", "files", "import", "load", "policy", "sys", "tls",
        ],
    ),
    (
        "crates/admin",
        &[
            "access",
            "cache",
            "certs",
            "cluster",
            "codec",
            "config",
            "dashboard",
            "fastcgi",
            "fetch",
            "files",
            "http",
            "object-cache",
            "php",
            "policy",
            "purging",
            "request",
            "sys",
            "telemetry",
            "tls",
            "upstream",
        ],
    ),
    ("tools/testkit", &["policy"]),
    ("tools/xtask", &["load", "testkit"]),
];

const MAX_FUNCTION_LINES: usize = 80;
const MAX_FILE_LINES: usize = 500;
const MAX_TEST_FILE_LINES: usize = 800;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// The root files of the libraries and programs below `crates`.
fn crate_roots() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(workspace().join("crates")).unwrap() {
        let source = entry.unwrap().path().join("src");
        found.extend(["lib.rs", "main.rs"].map(|name| source.join(name)));
    }
    found.retain(|root| root.exists());
    found.sort();
    assert!(found.len() > 8, "only {} roots found", found.len());
    found
}

fn all_sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    rust_files(&workspace().join("crates"), &mut found);
    rust_files(&workspace().join("tools"), &mut found);
    found.retain(|path| !path.components().any(|c| c.as_os_str() == "target"));
    found.sort();
    assert!(found.len() > 50, "only {} source files found", found.len());
    found
}

fn is_test(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text.contains("/tests/") || text.ends_with("/tests.rs") || text.contains("/testkit/")
}

#[test]
fn crates_depend_only_on_permitted_crates() {
    let mut violations = Vec::new();
    for entry in fs::read_dir(workspace().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_listed = CRATES
            .iter()
            .any(|(path, _)| *path == format!("crates/{name}"));
        if !is_listed && name != "galley" {
            violations.push(format!("`{name}` is not in the list of this test"));
        }
    }
    for (name, allowed) in CRATES {
        let manifest = fs::read_to_string(workspace().join(name).join("Cargo.toml")).unwrap();
        let dependencies = manifest.split("[dev-dependencies]").next().unwrap();
        let used = dependencies.lines().filter_map(|line| {
            let (used, _) = line.strip_prefix("galley-")?.split_once(['.', ' ', '='])?;
            Some(used)
        });
        let used: Vec<&str> = used.collect();
        let mut expected = allowed.to_vec();
        expected.sort_unstable();
        if used != expected {
            violations.push(format!(
                "`{name}` uses {used:?}, permitted are {expected:?}"
            ));
        }
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn files_and_functions_are_within_their_limits() {
    let mut violations = Vec::new();
    for path in all_sources() {
        let text = fs::read_to_string(&path).unwrap();
        let limit = if is_test(&path) {
            MAX_TEST_FILE_LINES
        } else {
            MAX_FILE_LINES
        };
        let lines: Vec<&str> = if is_test(&path) {
            text.lines().collect()
        } else {
            text.split("#[cfg(test)]\nmod tests {")
                .next()
                .unwrap()
                .lines()
                .collect()
        };
        if lines.len() > limit {
            violations.push(format!(
                "{}: {} lines, split at {limit}",
                path.display(),
                lines.len()
            ));
        }
        violations.extend(long_functions(&path, &lines));
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn the_style_page_names_the_limits_of_these_tests() {
    let style = fs::read_to_string(workspace().join("STYLE.md")).unwrap();
    for limit in [
        format!("over {MAX_FUNCTION_LINES} does not merge"),
        format!("at {MAX_FILE_LINES} split. A test file may have {MAX_TEST_FILE_LINES}."),
    ] {
        assert!(style.contains(&limit), "STYLE.md does not say `{limit}`");
    }
}

struct FunctionLength {
    line: usize,
    lines: usize,
}

fn long_functions(path: &Path, lines: &[&str]) -> Vec<String> {
    functions(&lines.join("\n"))
        .into_iter()
        .filter(|f| f.lines > MAX_FUNCTION_LINES)
        .map(|f| {
            format!(
                "{}:{}: function of {} lines, split at {MAX_FUNCTION_LINES}",
                path.display(),
                f.line,
                f.lines
            )
        })
        .collect()
}

/// The functions with a body, found by the indentation of rustfmt.
fn functions(text: &str) -> Vec<FunctionLength> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let trimmed = line.trim_start();
        let Some((before, _)) = trimmed.split_once("fn ") else {
            continue;
        };
        let is_function = before
            .split_whitespace()
            .all(|word| word.starts_with("pub") || ["const", "async", "super)"].contains(&word));
        if !is_function || trimmed.ends_with(';') {
            continue;
        }
        let close = format!("{}}}", &line[..line.len() - trimmed.len()]);
        if let Some(end) = lines[start..].iter().position(|l| *l == close) {
            found.push(FunctionLength {
                line: start + 1,
                lines: end + 1,
            });
        }
    }
    found
}

#[test]
fn every_source_file_starts_with_a_module_comment() {
    for path in all_sources() {
        let text = fs::read_to_string(&path).unwrap();
        let first = text
            .lines()
            .find(|line| !line.starts_with("#![") && !line.is_empty())
            .unwrap_or_default();
        assert!(
            first.starts_with("//!"),
            "{} does not start with a module comment",
            path.display()
        );
    }
}

#[test]
fn no_todo_markers_and_no_unsafe_code_outside_sys() {
    for path in all_sources()
        .into_iter()
        .filter(|path| !path.ends_with("galley/tests/layers/main.rs"))
    {
        let text = fs::read_to_string(&path).unwrap();
        for word in ["TODO", "FIXME", "todo!(", "unimplemented!(", "dbg!("] {
            assert!(!text.contains(word), "{} contains `{word}`", path.display());
        }
        let has_unsafe = text.lines().any(|line| {
            let code = line.split("//").next().unwrap_or_default();
            code.contains("unsafe {") || code.contains("unsafe fn") || code.contains("unsafe impl")
        });
        // STYLE.md: system calls that no library offers.
        let sys = [
            "process",
            "deferred_accept",
            "scheduling",
            "pages",
            "own_pages",
        ];
        let is_sys = sys
            .iter()
            .any(|name| path.ends_with(format!("crates/sys/src/{name}.rs")));
        assert!(
            !has_unsafe || is_sys,
            "{} contains unsafe code",
            path.display()
        );
    }
}

#[test]
fn ignored_tests_and_allowed_lints_carry_a_reason() {
    for path in all_sources()
        .into_iter()
        .filter(|path| !path.ends_with("galley/tests/layers/main.rs"))
    {
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            !text.contains(concat!("#[ignore", "]")),
            "{}: ignored test without a reason",
            path.display()
        );
        assert!(
            !text.contains("#[allow("),
            "{}: use #[expect(lint, reason = ..)]",
            path.display()
        );
    }
}

#[test]
fn workflows_run_make_check_and_make_test() {
    let folder = workspace().join(".github/workflows");
    let mut steps = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        steps.extend(text.lines().map(|line| line.trim().to_owned()));
    }
    for step in ["- run: make check", "- run: make test"] {
        assert!(steps.iter().any(|s| s == step), "no workflow has `{step}`");
    }
}

#[test]
fn every_phpcs_exception_states_its_reason() {
    let mut files = Vec::new();
    php_files(&workspace().join("wordpress-plugin"), &mut files);
    assert!(files.len() > 30, "only {} PHP files found", files.len());
    let mut violations = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for (number, line) in text.lines().enumerate() {
            let Some((_, exception)) = line.split_once("phpcs:") else {
                continue;
            };
            let (rule, reason) = exception.split_once(" -- ").unwrap_or((exception, ""));
            if !rule.starts_with("ignore ") || reason.trim().len() < 5 {
                let place = format!("{}:{}", file.display(), number + 1);
                violations.push(format!("{place}: use `phpcs:ignore RULE -- reason`"));
            }
        }
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

fn php_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            php_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "php") {
            found.push(path);
        }
    }
}
