//! The manual pages and shell completions in `packaging/` match the command line.
//!
//! With `UPDATE_GOLDEN=1` the test writes the files.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;

/// The page with the options of the configuration, which is not generated from the command line.
const CONFIGURATION_PAGE: &str = "man/galley.toml.5";

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// The command line without hidden commands, which completions would offer.
fn command() -> Command {
    let all = galley::cli::command();
    let visible: Vec<Command> = all
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .cloned()
        .collect();
    Command::new("galley")
        .version(env!("CARGO_PKG_VERSION"))
        .about(all.get_about().unwrap().clone())
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .subcommands(visible)
}

fn manual_page(command: &Command) -> Vec<u8> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone())
        .title(name)
        .source(concat!("Galley ", env!("CARGO_PKG_VERSION")))
        .manual("Galley")
        .render(&mut page)
        .unwrap();
    if name == "galley" {
        page.extend_from_slice(COMMON_SECTIONS.as_bytes());
    }
    page.extend_from_slice(SEE_ALSO.as_bytes());
    page
}

/// Sections that apply to every command.
const COMMON_SECTIONS: &str = r#".SH "EXIT STATUS"
.TP
0
success
.TP
1
the command failed, or found a problem on this machine
.TP
2
wrong arguments, or an error in the configuration file
.SH SIGNALS
.TP
SIGTERM, SIGINT, SIGQUIT
The server finishes the requests in progress and stops.
.TP
SIGUSR1
The server reopens its log files.
.SH FILES
.TP
/etc/galley/galley.toml
the configuration
"#;

const SEE_ALSO: &str = r#".SH "SEE ALSO"
.BR galley (1),
.BR galley.toml (5),
<https://github.com/galley-server/galley>
"#;

fn add_manual_pages(command: &Command, pages: &mut BTreeMap<String, Vec<u8>>) {
    let name = command.get_display_name().unwrap_or(command.get_name());
    pages.insert(format!("man/{name}.1"), manual_page(command));
    for command in command.get_subcommands() {
        add_manual_pages(command, pages);
    }
}

/// Every generated file below `packaging/`, by its path there.
fn generated_files() -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for (shell, name) in [
        (Shell::Bash, "galley.bash"),
        (Shell::Zsh, "_galley"),
        (Shell::Fish, "galley.fish"),
    ] {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command(), "galley", &mut text);
        files.insert(format!("completions/{name}"), text);
    }
    let mut root = command();
    root.build();
    add_manual_pages(&root, &mut files);
    files
}

/// Adds the command and its subcommands, each with its full name, such as `galley-plugin-install`.
fn add_commands<'c>(
    command: &'c Command,
    words: &[&'c str],
    found: &mut Vec<(String, &'c Command)>,
) {
    let words: Vec<&str> = words.iter().copied().chain([command.get_name()]).collect();
    found.push((words.join("-"), command));
    for inner in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        add_commands(inner, &words, found);
    }
}

#[test]
fn pages_and_completions_match_the_command_line() {
    let files = generated_files();
    for (name, text) in &files {
        let path = packaging().join(name);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
        }
        let found = fs::read(&path).unwrap_or_default();
        assert!(
            found == *text,
            "packaging/{name} does not match the command line; run with UPDATE_GOLDEN=1"
        );
    }
    for folder in ["man", "completions"] {
        for file in fs::read_dir(packaging().join(folder)).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            let name = format!("{folder}/{name}");
            let is_known = name == CONFIGURATION_PAGE || files.contains_key(&name);
            assert!(is_known, "packaging/{name} does not belong to a command");
        }
    }
}

#[test]
fn every_command_and_option_is_in_a_manual_page_and_in_each_completion() {
    let all = galley::cli::command();
    let mut found = Vec::new();
    add_commands(&all, &[], &mut found);
    assert!(found.len() >= 9, "only {} commands found", found.len());
    let completions: Vec<(&str, String)> = ["galley.bash", "_galley", "galley.fish"]
        .into_iter()
        .map(|name| {
            let path = packaging().join("completions").join(name);
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    for (name, command) in found {
        let page = packaging().join(format!("man/{name}.1"));
        let page = fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        for inner in command.get_subcommands().filter(|c| !c.is_hide_set()) {
            let entry = format!("{name}-{}(1)", inner.get_name()).replace('-', "\\-");
            assert!(page.contains(&entry), "{name}.1 does not list {entry}");
        }
        for option in command.get_arguments().filter(|o| !o.is_hide_set()) {
            let Some(long) = option.get_long() else {
                continue;
            };
            let escaped = format!("\\-\\-{}", long.replace('-', "\\-"));
            assert!(page.contains(&escaped), "{name}.1 does not have --{long}");
            for (file, text) in &completions {
                let is_offered =
                    text.contains(&format!("--{long}")) || text.contains(&format!("-l {long}"));
                assert!(is_offered, "{file} does not offer --{long}");
            }
        }
    }
    for (file, text) in &completions {
        assert!(
            !text.contains("privileged"),
            "{file} offers a hidden command"
        );
    }
}
