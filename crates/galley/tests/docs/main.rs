//! Compares the manual with the code: loads configuration blocks, compares command lines with `--help`, words and options
//! with their tables, and follows links.
//!
//! Conventions of the pages: Galley must accept a `toml` block and reject a `toml,broken` block. Before that, the test replaces
//! folders below `/var/www`, token files and pages below `/etc/galley`, certificates below `/etc`, and log folders below `/var/log` by
//! real paths in a temporary folder, and adds a small site to a block without `[[site]]`.

#![expect(clippy::unwrap_used, reason = "tests")]

mod phrases;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use galley::php::{MachineMemory, MemoryDivision};
use galley_config::{Fallback, OptionRow, OptionSection, from_text, options};
use galley_policy::outcome::{MissWhy, NotStored, PassWhy, RefusedWhy, StaleWhy};

struct Page {
    /// Relative to the repository.
    name: String,
    text: String,
}

struct Block {
    /// Page and line, for messages.
    place: String,
    /// The info string of the fence.
    info: String,
    text: String,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Adds the pages in `folder`, which ends with a slash or is empty, and in its subfolders if `is_recursive`.
fn find_markdown(folder: &str, is_recursive: bool, names: &mut Vec<String>) {
    for entry in fs::read_dir(repository().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if is_recursive && entry.file_type().unwrap().is_dir() {
            find_markdown(&format!("{folder}{name}/"), is_recursive, names);
        } else if Path::new(&name).extension().is_some_and(|e| e == "md") {
            names.push(format!("{folder}{name}"));
        }
    }
}

/// All pages: those in the root folder, and the manual.
fn pages() -> Vec<Page> {
    let mut names: Vec<String> = Vec::new();
    for folder in ["", "docs/"] {
        find_markdown(folder, folder == "docs/", &mut names);
    }
    names.sort();
    assert!(names.len() > 10, "only {} pages found", names.len());
    names
        .into_iter()
        .map(|name| Page {
            text: fs::read_to_string(repository().join(&name)).unwrap(),
            name,
        })
        .collect()
}

fn page(name: &str) -> String {
    fs::read_to_string(repository().join(name)).unwrap()
}

/// The fenced blocks of a page.
fn blocks(page: &Page) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in page.text.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(info), None) => {
                open = Some(Block {
                    place: format!("{}:{}", page.name, number + 1),
                    info: info.trim().to_owned(),
                    text: String::new(),
                });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{}: a block is not closed", page.name);
    found
}

fn all_blocks() -> Vec<Block> {
    pages().iter().flat_map(blocks).collect()
}

/// The text from a heading to the next heading of its level or above.
fn section<'t>(text: &'t str, heading: &str) -> &'t str {
    let start = text
        .find(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("no heading `{heading}`"));
    let body = &text[start + heading.len() + 2..];
    let level = heading.bytes().take_while(|b| *b == b'#').count();
    let ends = (1..=level).filter_map(|l| body.find(&format!("\n{} ", "#".repeat(l))));
    &body[..ends.min().unwrap_or(body.len())]
}

/// The first cells of a section's tables that are one word in backticks.
fn first_cells(section: &str) -> BTreeSet<String> {
    section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
        .map(|(word, _)| word.to_owned())
        .collect()
}

/// Everything in single backticks, outside blocks.
fn code_words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut is_fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            words.extend(line.split('`').skip(1).step_by(2));
        }
    }
    words
}

/// The text with the paths of examples replaced by existing paths.
fn with_real_paths(text: &str, dir: &Path) -> String {
    let parts: Vec<String> = text
        .split('"')
        .enumerate()
        .map(|(index, part)| match index % 2 {
            1 => real_path(part, dir),
            _ => part.to_owned(),
        })
        .collect();
    parts.join("\"")
}

fn real_path(value: &str, dir: &Path) -> String {
    let path = if let Some(rest) = value.strip_prefix("/var/www/") {
        let path = dir.join("www").join(rest);
        fs::create_dir_all(&path).unwrap();
        path
    } else if let Some(rest) = value.strip_prefix("/var/log/") {
        let path = dir.join("log").join(rest);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    } else if let Some(rest) = value.strip_prefix("/etc/galley/")
        && rest.ends_with("-hook")
    {
        let path = dir.join(rest);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    } else if let Some(rest) = value.strip_prefix("/etc/galley/")
        && Path::new(rest)
            .extension()
            .is_some_and(|e| e == "token" || e == "key" || e == "html" || e == "htpasswd")
    {
        let path = dir.join(rest);
        let content = if rest.ends_with(".htpasswd") {
            "jane:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n"
        } else {
            "0123456789abcdef0123456789abcdef\n"
        };
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    } else if let Some(rest) = value.strip_prefix("/etc/")
        && Path::new(rest).extension().is_some_and(|e| e == "pem")
    {
        let path = dir.join(rest);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let (certificate, key) = &*CERTIFICATE;
        let is_key = rest.contains("key");
        fs::write(&path, if is_key { key } else { certificate }).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    } else {
        return value.to_owned();
    };
    path.into_os_string().into_string().unwrap()
}

/// A certificate with its key, for every `.pem` file in the examples.
static CERTIFICATE: LazyLock<(String, String)> = LazyLock::new(|| {
    let certificate = rcgen::generate_simple_self_signed(vec!["example.com".to_owned()]).unwrap();
    (
        certificate.cert.pem(),
        certificate.signing_key.serialize_pem(),
    )
});

#[test]
fn every_configuration_block_is_accepted_or_rejected_as_marked() {
    const SITE: &str = "\n[[site]]\nhosts = [\"example.com\"]\nroot = \"/var/www/example.com\"\n";
    let (mut accepted, mut rejected) = (0, 0);
    let mut violations = String::new();
    for block in all_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let mut text = block.text.clone();
        if !text.contains("[[site]]") {
            text.push_str(SITE);
        }
        let text = with_real_paths(&text, dir.path());
        let name = dir.path().join("galley.toml");
        let loaded = from_text(name.to_str().unwrap(), &text);
        match (block.info.as_str(), loaded) {
            ("toml", Ok(_)) => accepted += 1,
            ("toml,broken", Err(_)) => rejected += 1,
            ("toml", Err(why)) => {
                writeln!(violations, "{}: rejected:\n{why}", block.place).unwrap();
            }
            ("toml,broken", Ok(_)) => writeln!(violations, "{}: accepted", block.place).unwrap(),
            (info, _) if info.starts_with("toml") => {
                writeln!(violations, "{}: unknown mark `{info}`", block.place).unwrap();
            }
            _ => {}
        }
    }
    assert!(violations.is_empty(), "{violations}");
    assert!(
        accepted > 10 && rejected > 1,
        "{accepted} accepted, {rejected} rejected"
    );
}

#[test]
fn the_memory_table_in_the_manual_matches_the_calculation() {
    const MIB: u64 = 1 << 20;
    let text = page("docs/how-to/php.md");
    for (memory, cores) in [(256, 1), (512, 1), (1024, 1), (2048, 2), (8192, 4)] {
        let division = MemoryDivision::of(MachineMemory {
            memory: memory * MIB,
            cores,
            cache: memory * MIB / 4,
            pools: 1,
        });
        let slots = |mib: u64| division.slots(mib * MIB, mib * MIB);
        let row = format!(
            "| {memory} MiB, {cores} | {} | {} | {} | {} | {} | {} | {} / {} / {} | {} |",
            division.system / MIB,
            division.database / MIB,
            division.machine.cache / MIB,
            (division.galley - division.machine.cache) / MIB,
            division.opcache / MIB,
            division.share / MIB,
            slots(20),
            slots(40),
            slots(80),
            division.memory_limit() / MIB
        );
        assert!(text.contains(&row), "docs/how-to/php.md has no row\n{row}");
    }
}

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

#[test]
fn every_command_and_option_is_in_the_reference() {
    let text = page("docs/reference/commands.md");
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
        let rows = section(&text, &heading).lines().filter_map(|line| {
            let cell = line.strip_prefix("| ")?.split(" |").next()?;
            let long = cell.split('`').find(|word| word.starts_with("--"))?;
            Some(long.split(' ').next().unwrap().to_owned())
        });
        let listed: BTreeSet<String> = rows.collect();
        assert_eq!(listed, options_of(&help(&words)), "{heading}");
    }
    let headings = headings(&text).filter(|heading| heading.starts_with("galley "));
    assert_eq!(
        headings.count(),
        expected.len(),
        "a command that does not exist"
    );
}

#[test]
fn every_cache_status_word_is_in_the_manual() {
    fn words<T: Copy>(all: &[T], word: impl Fn(T) -> &'static str) -> BTreeSet<String> {
        all.iter().map(|reason| word(*reason).to_owned()).collect()
    }
    const FIRST: [&str; 9] = [
        "hit",
        "stale",
        "miss",
        "pass",
        "file",
        "redirect",
        "purge",
        "dashboard",
        "refused",
    ];
    let text = page("docs/reference/cache-status.md");
    for (heading, expected) in [
        ("## Outcomes", FIRST.map(str::to_owned).into()),
        ("## Passes", words(PassWhy::ALL, PassWhy::word)),
        ("## Misses", words(MissWhy::ALL, MissWhy::word)),
        (
            "## Responses that are not stored",
            words(NotStored::ALL, NotStored::word),
        ),
        ("## Stale responses", words(StaleWhy::ALL, StaleWhy::word)),
        (
            "## Error responses",
            words(RefusedWhy::ALL, RefusedWhy::word),
        ),
    ] {
        let listed = first_cells(section(&text, heading));
        assert_eq!(listed, expected, "{heading}");
    }
}

/// Names of metrics in a text, without the `_bucket` suffix of histograms.
fn metric_names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !is_part(c))
        .filter(|word| word.starts_with("galley_"))
        .map(|word| word.strip_suffix("_bucket").unwrap_or(word).to_owned())
        .collect()
}

#[test]
fn alerts_and_the_dashboard_use_metrics_and_reasons_that_exist() {
    let documented = metric_names(&page("docs/reference/metrics.md"));
    let rules = page("packaging/prometheus/galley.rules.yml");
    let dashboard = page("packaging/grafana/galley.json");
    for (file, text) in [("rules", &rules), ("dashboard", &dashboard)] {
        let used = metric_names(text);
        assert!(used.len() > 10, "{file}: {used:?}");
        let unknown: Vec<_> = used.difference(&documented).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
    let refusal_reasons: BTreeSet<&str> = RefusedWhy::ALL.iter().map(|why| why.word()).collect();
    let reasons = rules.split("galley_refused_total{reason=~\"").skip(1);
    for reason in reasons.flat_map(|rest| rest.split('"').next().unwrap().split('|')) {
        assert!(refusal_reasons.contains(reason), "{reason}");
    }
    serde_json::from_str::<serde_json::Value>(&dashboard).unwrap();
    // If Prometheus is installed, `promtool` checks the rules.
    let path = repository().join("packaging/prometheus/galley.rules.yml");
    if let Ok(checked) = Command::new("promtool")
        .args(["check", "rules"])
        .arg(path)
        .output()
    {
        assert!(checked.status.success(), "{checked:?}");
    }
}

#[test]
fn every_option_is_in_the_reference_and_the_manual() {
    let reference = page("docs/reference/options.md");
    let manual: String = pages()
        .into_iter()
        .filter(|page| page.name != "docs/reference/options.md")
        .map(|page| page.text)
        .collect();
    let words = code_words(&manual);
    let mut violations = Vec::new();
    for row in options().filter(|row| !row.name.starts_with('<')) {
        let name = row.name;
        if !reference.contains(&format!("`{name}`")) {
            violations.push(format!(
                "`{}` is not in docs/reference/options.md",
                row.path()
            ));
        }
        let assignment = format!("{name} = ");
        let is_mentioned = words
            .iter()
            .any(|word| *word == name || *word == row.path() || word.starts_with(&assignment))
            || manual.lines().any(|line| line.starts_with(&assignment));
        if !is_mentioned {
            violations.push(format!("`{}` is not in the manual", row.path()));
        }
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn no_option_is_listed_as_not_implemented() {
    let readme = page("README.md");
    let listed = code_words(section(&readme, "## What is not there yet"));
    for word in listed {
        assert!(
            options().all(|row| row.path() != word),
            "`{word}` is implemented"
        );
    }
}

/// Checks tables with the columns option and default.
#[test]
fn defaults_in_the_manual_match_the_options() {
    let mut rows = 0;
    for page in pages()
        .iter()
        .filter(|page| page.name != "docs/reference/options.md")
    {
        for table in page.text.split("| option | default |").skip(1) {
            for line in table.lines().skip(1).take_while(|l| l.starts_with('|')) {
                let cells: Vec<&str> = line.split('|').map(str::trim).collect();
                let (name, default) = (cells[1].trim_matches('`'), cells[2].replace(' ', ""));
                // Most options of a rule default to the value of the site.
                let is_outside_rules = |row: &&OptionRow| row.section != OptionSection::SiteRule;
                let Some(row) = options()
                    .filter(is_outside_rules)
                    .find(|row| row.name == name)
                else {
                    continue;
                };
                rows += 1;
                match row.fallback {
                    // Zero means that Galley calculates the number.
                    Fallback::Value("0") => {}
                    Fallback::Value(value) => {
                        assert_eq!(default, value.trim_matches('"'), "{}: {name}", page.name);
                    }
                    other => panic!("{}: `{name}` has {other:?}", page.name),
                }
            }
        }
    }
    assert!(rows > 4, "only {rows} rows found");
}

#[test]
fn links_have_existing_targets() {
    let pages = pages();
    let anchors = |name: &str| -> Option<BTreeSet<String>> {
        let page = pages.iter().find(|page| page.name == name)?;
        Some(headings(&page.text).map(anchor).collect())
    };
    let mut violations = Vec::new();
    for page in &pages {
        let folder = Path::new(&page.name).parent().unwrap();
        for link in page
            .text
            .split("](")
            .skip(1)
            .filter_map(|l| l.split(')').next())
        {
            if link.starts_with("http") {
                continue;
            }
            let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() {
                page.name.clone()
            } else {
                normalize(&folder.join(path))
            };
            let exists = repository().join(&target).exists();
            let has_anchor =
                fragment.is_empty() || anchors(&target).is_some_and(|all| all.contains(fragment));
            if !exists || !has_anchor {
                violations.push(format!(
                    "{}: the target of `{link}` does not exist",
                    page.name
                ));
            }
        }
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

fn headings(text: &str) -> impl Iterator<Item = &str> {
    let mut is_fenced = false;
    text.lines().filter_map(move |line| {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        }
        let heading = line.trim_start_matches('#');
        (!is_fenced && heading.len() < line.len()).then(|| heading.trim())
    })
}

/// The anchor of a heading, as common Markdown viewers generate it.
fn anchor(heading: &str) -> String {
    let lower = heading.to_lowercase();
    let permitted = lower
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    permitted.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// A relative path without `..`.
fn normalize(path: &Path) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                parts.pop();
            }
            other => parts.push(other.as_os_str().to_string_lossy().into_owned()),
        }
    }
    parts.join("/")
}

/// Names with at least two underscores are tests or other functions.
#[test]
fn tests_named_in_the_architecture_exist() {
    let mut sources = String::new();
    read_sources(&repository().join("crates"), &mut sources);
    read_sources(&repository().join("tools"), &mut sources);
    let text = page("ARCHITECTURE.md");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let pinned = flat
        .split("Pinned by `")
        .skip(1)
        .filter_map(|rest| rest.split('`').next());
    let is_name = |word: &&str| {
        word.bytes().filter(|b| *b == b'_').count() > 1
            && word
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    let names: BTreeSet<&str> = code_words(&text)
        .into_iter()
        .filter(is_name)
        .chain(pinned)
        .collect();
    assert!(names.len() > 30, "only {} names found", names.len());
    let missing: Vec<&str> = names
        .into_iter()
        .filter(|name| !sources.contains(&format!("fn {name}(")))
        .collect();
    assert!(missing.is_empty(), "no such test: {missing:?}");
}

#[test]
fn source_files_named_in_pages_exist() {
    let mut sources = Vec::new();
    for folder in ["crates", "tools", "wordpress-plugin", "bench", "fuzz/src"] {
        files_with(&repository().join(folder), &["rs"], &mut sources);
    }
    let mut missing = Vec::new();
    for page in pages() {
        if page.name.starts_with("docs/how-to/") || page.name.starts_with("docs/reference/") {
            // These pages name files of the reader's site.
            continue;
        }
        let is_source = |word: &&str| {
            word.contains('/') && Path::new(word).extension().is_some_and(|e| e == "rs")
        };
        for word in code_words(&page.text).into_iter().filter(is_source) {
            let word = word.trim_start_matches('/');
            if !sources.iter().any(|path| path.ends_with(word)) {
                missing.push(format!("{}: {word}", page.name));
            }
        }
    }
    assert!(missing.is_empty(), "no such file: {missing:?}");
}

/// Adds the files below `folder` with one of these extensions.
fn files_with(folder: &Path, extensions: &[&str], out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let extension = path.extension().and_then(|e| e.to_str());
        if path.is_dir() {
            files_with(&path, extensions, out);
        } else if extension.is_some_and(|e| extensions.contains(&e)) {
            out.push(path);
        }
    }
}

fn read_sources(folder: &Path, out: &mut String) {
    let mut paths = Vec::new();
    files_with(folder, &["rs"], &mut paths);
    out.extend(paths.iter().map(|path| fs::read_to_string(path).unwrap()));
}
