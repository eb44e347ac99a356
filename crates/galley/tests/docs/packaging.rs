//! Compares the workflows, the container files and the manual with each other: commands exist, and images have one name.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::pages::{files_with, page, pages, repository, section};

/// The words of a text that may be commands or paths.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || "\"'`()[],;".contains(c))
}

/// The targets that a Makefile declares, with and without a static pattern.
fn targets(makefile: &str) -> BTreeSet<&str> {
    let rules = makefile.lines().filter(|line| !line.starts_with('\t'));
    rules
        .filter_map(|line| line.split_once(':'))
        .flat_map(|(names, _)| names.split_whitespace())
        .collect()
}

fn workflows() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    files_with(
        &repository().join(".github/workflows"),
        &["yml"],
        &mut files,
    );
    assert!(files.len() >= 2, "{files:?}");
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).unwrap();
        (file, text)
    };
    files.into_iter().map(read).collect()
}

#[test]
fn workflows_call_targets_and_programs_that_exist() {
    let makefile = fs::read_to_string(repository().join("Makefile")).unwrap();
    let targets = targets(&makefile);
    let mut wrong = Vec::new();
    let mut called = 0;
    for (file, text) in workflows() {
        let commands = text
            .lines()
            .filter_map(|line| line.split_once("run:").map(|(_, command)| command.trim()));
        for command in commands {
            let mut words = words(command);
            match words.next().unwrap_or_default() {
                "make" => {
                    called += 1;
                    wrong.extend(
                        words
                            .filter(|word| !word.contains('=') && !targets.contains(word))
                            .map(|word| format!("{}: no target `{word}`", file.display())),
                    );
                }
                program if program.starts_with("packaging/") || program.starts_with("scripts/") => {
                    called += 1;
                    let found = fs::metadata(repository().join(program));
                    if !found.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0) {
                        wrong.push(format!("{}: no program `{program}`", file.display()));
                    }
                }
                _ => {}
            }
        }
    }
    assert!(called >= 10, "only {called} commands found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Files that name images: the manual, the container files, and the configuration of clusters.
fn image_texts() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for folder in ["compose", "oci", "kubernetes"] {
        all_files(&repository().join("packaging").join(folder), &mut files);
    }
    let mut texts: Vec<(String, String)> = files
        .into_iter()
        .map(|file| {
            (
                file.display().to_string(),
                fs::read_to_string(file).unwrap(),
            )
        })
        .collect();
    texts.extend(pages().into_iter().map(|page| (page.name, page.text)));
    texts
}

fn all_files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all_files(&path, out);
        } else {
            out.push(path);
        }
    }
}

#[test]
fn the_images_have_one_name_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    let names = [format!("galley:{version}"), format!("galley:{version}-php")];
    let mut found = BTreeSet::new();
    let mut wrong = Vec::new();
    for (file, text) in image_texts() {
        for (at, _) in text.match_indices("galley:") {
            let rest = &text[at..];
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !":.-".contains(c));
            let name = rest[..end.unwrap_or(rest.len())].trim_end_matches(['.', ':']);
            let tag = name.strip_prefix("galley:").unwrap_or_default();
            if !tag.starts_with(|c: char| c.is_ascii_digit()) {
                continue;
            }
            if names.iter().any(|it| it == name) {
                found.insert(name.to_owned());
            } else {
                wrong.push(format!("{file}: `{name}`"));
            }
        }
    }
    assert!(wrong.is_empty(), "the names are {names:?}: {wrong:#?}");
    assert_eq!(found.len(), 2, "{found:?}");
}

/// Relative paths in the Compose files lead to files. `secrets/` is what their reader creates.
#[test]
fn compose_files_name_files_that_exist() {
    let mut checked = 0;
    for file in ["compose.yaml", "one-server/compose.yaml"] {
        let path = repository().join("packaging/compose").join(file);
        let text = fs::read_to_string(&path).unwrap();
        for word in words(&text).filter(|word| word.starts_with("./")) {
            let name = word.split(':').next().unwrap();
            if !name.starts_with("./secrets/") {
                checked += 1;
                assert!(
                    path.with_file_name(name).is_file(),
                    "{}: no file `{name}`",
                    path.display()
                );
            }
        }
    }
    assert!(checked >= 2, "only {checked} files");
}

/// A container is unhealthy if visitors get errors, not for each problem: its health check has an option that the program knows.
#[test]
fn the_health_check_of_the_container_fails_only_if_visitors_get_errors() {
    let path = repository().join("packaging/compose/one-server/compose.yaml");
    let text = fs::read_to_string(path).unwrap();
    let checks = text.lines().filter_map(|line| {
        let command = line.trim().strip_prefix("test: [CMD, galley, ")?;
        Some(command.trim_end_matches(']').split(", ").collect())
    });
    let checks: Vec<Vec<&str>> = checks.collect();
    let [check] = checks.as_slice() else {
        panic!("one service is Galley: {checks:?}");
    };
    assert!(check.contains(&"--serving"), "{check:?}");
    let accepted = Command::new(env!("CARGO_BIN_EXE_galley"))
        .args(check)
        .arg("--help")
        .output()
        .unwrap();
    assert!(accepted.status.success(), "{check:?}");
}

/// The blocks of the quick start that the test of the packages runs: heading, kind, and how many of that kind the section needs.
fn blocks_that_the_packages_test_uses() -> Vec<(String, String, usize)> {
    let mut scripts = Vec::new();
    files_with(&repository().join("packaging/test"), &["sh"], &mut scripts);
    let text: String = scripts
        .iter()
        .map(|script| fs::read_to_string(script).unwrap())
        .collect();
    let mut used = Vec::new();
    for line in text.lines() {
        for (call, given) in [("manual '", Some("console")), ("block '", None)] {
            let Some((_, rest)) = line.split_once(call) else {
                continue;
            };
            let (heading, rest) = rest.split_once('\'').unwrap();
            let mut words = rest.split_whitespace();
            let kind = given.or_else(|| words.next()).unwrap();
            let count = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
            used.push((heading.to_owned(), kind.to_owned(), count));
        }
    }
    used
}

#[test]
fn the_quick_start_has_the_blocks_that_the_test_of_the_packages_runs() {
    let text = page("docs/tutorials/install.md");
    let used = blocks_that_the_packages_test_uses();
    assert!(used.len() > 10, "{used:?}");
    for (heading, kind, count) in used {
        let fence = format!("```{kind}");
        let section = section(&text, &format!("## {heading}"));
        let found = section.lines().filter(|line| *line == fence).count();
        assert!(
            found >= count,
            "`{heading}` has {found} of {count} blocks `{kind}`"
        );
    }
}
