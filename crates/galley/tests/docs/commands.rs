//! Command lines of the manual and the reference of commands.

use std::collections::BTreeSet;
use std::process::Command;

use crate::pages::{all_blocks, headings, page, section};

/// The output of `galley [command] --help`.
fn help(command: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_galley"))
        .args(command)
        .arg("--help")
        .output()
        .unwrap();
    assert!(output.status.success(), "galley {command:?} --help");
    String::from_utf8(output.stdout).unwrap()
}

/// The arguments of `galley` in a command line; `None` if it does not call `galley`.
fn galley_arguments(line: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.windows(2).position(|pair| {
        (pair[0] == "galley" || pair[0].ends_with("/galley"))
            && pair[1].bytes().all(|b| b.is_ascii_lowercase())
    })?;
    let arguments = words[at + 1..].iter().copied();
    Some(
        arguments
            .take_while(|word| !["|", "&&", ";", ">", "2>&1"].contains(word))
            .collect(),
    )
}

#[test]
fn every_command_line_in_the_manual_is_valid() {
    let commands = help(&[]);
    let mut violations = Vec::new();
    let mut calls = 0;
    for block in all_blocks().iter().filter(|b| b.info == "console") {
        let text = block.text.replace("\\\n", " ");
        for line in text.lines().filter_map(|line| line.strip_prefix("$ ")) {
            let Some(words) = galley_arguments(line) else {
                continue;
            };
            calls += 1;
            let (command, rest) = words.split_first().unwrap();
            if !commands
                .lines()
                .any(|l| l.trim_start().starts_with(&format!("{command} ")))
            {
                violations.push(format!("{}: no command `{command}`", block.place));
                continue;
            }
            // A command may have subcommands: `plugin install`.
            let mut known = help(&[command]);
            if let Some(inner) = rest.first().filter(|word| !word.starts_with('-')) {
                let is_command = |l: &str| l.trim_start().starts_with(&format!("{inner} "));
                let subcommands = known.split("Commands:").nth(1).unwrap_or_default();
                if subcommands.lines().any(is_command) {
                    known = help(&[command, inner]);
                }
            }
            for option in rest.iter().filter(|word| word.starts_with('-')) {
                let option = option.split('=').next().unwrap();
                let mut listed = known
                    .split_whitespace()
                    .map(|w| w.trim_matches([',', '[', ']', '<', '>', '|']));
                if !listed.any(|word| word == option) {
                    violations.push(format!("{}: `{command}` has no `{option}`", block.place));
                }
            }
        }
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
    assert!(calls > 10, "only {calls} calls found");
}

/// The commands that a help text lists, without `help`.
fn commands_of(help: &str) -> Vec<String> {
    let listed = help.split("Commands:\n").nth(1).unwrap_or_default();
    let lines = listed.lines().take_while(|line| !line.is_empty());
    lines
        .filter_map(|line| line.strip_prefix("  ")?.split_once(' '))
        .map(|(name, _)| name.to_owned())
        .filter(|name| !name.is_empty() && name != "help")
        .collect()
}

/// The long options that a help text lists, without `--help` and `--version`.
fn options_of(help: &str) -> BTreeSet<String> {
    let listed = help.split("Options:\n").nth(1).unwrap_or_default();
    let named = listed.lines().filter_map(|line| {
        let line = line.trim_start();
        // `-n, --requests <NUMBER>`
        let is_short = line.starts_with('-') && line.get(2..4) == Some(", ");
        let long = line.get(4..).filter(|_| is_short).unwrap_or(line);
        long.starts_with("--")
            .then(|| long.split_whitespace().next().unwrap())
    });
    let options = named.filter(|option| !["--help", "--version"].contains(option));
    options.map(str::to_owned).collect()
}

/// The options in the first cells of tables. A row may name several.
fn options_in_rows(text: &str) -> BTreeSet<String> {
    let cells = text
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let options = cells.flat_map(|cell| cell.split('`').filter(|word| word.starts_with("--")));
    let names = options.map(|option| option.split(' ').next().unwrap().to_owned());
    names.collect()
}

#[test]
fn every_command_and_option_is_in_the_reference() {
    let text = page("docs/reference/commands.md");
    let head = text.split("\n## ").next().unwrap();
    let common = options_in_rows(head);
    assert_eq!(common.len(), 4, "{common:?}");
    let mut expected: Vec<Vec<String>> = Vec::new();
    for command in commands_of(&help(&[])) {
        let inner = commands_of(&help(&[&command]));
        if inner.is_empty() {
            expected.push(vec![command]);
        } else {
            expected.extend(inner.into_iter().map(|name| vec![command.clone(), name]));
        }
    }
    assert!(expected.len() > 7, "only {expected:?}");
    for command in &expected {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let heading = format!("## galley {}", words.join(" "));
        let listed = options_in_rows(section(&text, &heading));
        let mut known = options_of(&help(&words));
        assert!(listed.is_subset(&known), "{heading}: {listed:?}");
        known.retain(|option| !common.contains(option));
        assert!(known.is_subset(&listed), "{heading}: {known:?}");
    }
    let headings = headings(&text).filter(|heading| heading.starts_with("galley "));
    assert_eq!(
        headings.count(),
        expected.len(),
        "a command that does not exist"
    );
}
