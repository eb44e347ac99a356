//! Configuration blocks, options and the memory table of the manual.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::LazyLock;

use galley_config::{from_text, options};
use galley_php::{MachineMemory, MemoryDivision};

use crate::pages::{all_blocks, code_words, page, pages, section};

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
        && Path::new(rest).extension().is_some_and(|e| {
            ["token", "key", "html", "htpasswd", "json"]
                .iter()
                .any(|one| e == *one)
        })
    {
        let path = dir.join(rest);
        let content = if rest.ends_with(".htpasswd") {
            "jane:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n"
        } else if Path::new(rest).extension().is_some_and(|e| e == "json") {
            "{\"prefixes\": [{\"ipv4Prefix\": \"192.0.2.0/24\"}]}\n"
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
        let valid = block.configuration();
        let is_valid = valid.is_some();
        let mut text = valid.unwrap_or_else(|| block.text.clone());
        if !text.contains("[[site]]") {
            text.push_str(SITE);
        }
        let text = with_real_paths(&text, dir.path());
        let name = dir.path().join("galley.toml");
        let loaded = from_text(name.to_str().unwrap(), &text);
        match (block.info.as_str(), loaded) {
            (_, Ok(_)) if is_valid => accepted += 1,
            ("toml,broken", Err(_)) => rejected += 1,
            (_, Err(why)) if is_valid => {
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
