//! The reference page, the manual page and the sample are those of the table, and the sample works.
//!
//! With `UPDATE_GOLDEN=1` the files are written anew.

use std::fs;
use std::path::Path;

use galley_config::{Fallback, OptionSection, from_text, manual_page, options, reference, sample};

#[test]
fn pages_are_those_of_the_table() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (name, text) in [
        ("docs/reference/options.md", reference()),
        ("docs/reference/galley.toml.sample", sample()),
        ("packaging/man/galley.toml.5", manual_page()),
    ] {
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(repository.join(name), &text).unwrap();
        }
        let found = fs::read_to_string(repository.join(name)).unwrap_or_default();
        assert!(
            found == text,
            "{name} is not what the table says; run with UPDATE_GOLDEN=1"
        );
    }
}

/// The sample as it stands, with a root that exists, is accepted.
#[test]
fn the_sample_is_accepted() {
    let root = tempfile::tempdir().unwrap();
    let text = sample().replace("/var/www/example.com", root.path().to_str().unwrap());
    let config =
        from_text("galley.toml", &text).unwrap_or_else(|complaints| panic!("{complaints}"));
    assert_eq!(config.sites.len(), 1);
    assert_eq!(config.sites[0].name, "example.com");
}

/// With every line of the sample in force, only what contradicts and what this machine lacks is complained about: no
/// unknown name, no value out of bounds.
#[test]
fn every_example_of_the_sample_can_be_read() {
    let text: String = sample()
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.starts_with('[') || rest.contains(" = ") => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let complaints = from_text("/nowhere/galley.toml", &text).unwrap_err();
    let allowed = [
        "does not exist",
        "cannot be read",
        "are both given",
        "applies only",
        "never stored",
        "no `upstream` begins",
        "does not contain `dns-01`",
        "a cache in front would mix",
    ];
    for one in complaints.iter() {
        assert!(
            allowed.iter().any(|text| one.message.contains(text)),
            "{}",
            one.message
        );
    }
    for row in options() {
        let name = if row.name.starts_with('<') {
            "\"404\""
        } else {
            row.name
        };
        assert!(
            text.contains(&format!("{name} = {}", row.example)),
            "{}",
            row.path()
        );
    }
}

#[test]
fn rows_are_whole() {
    for (index, row) in options().enumerate() {
        let path = row.path();
        assert!(row.text.ends_with('.') && !row.example.is_empty(), "{path}");
        assert!(
            !options().take(index).any(|other| other.path() == path),
            "{path} has two rows"
        );
        if row.fallback == Fallback::Required {
            assert!(
                matches!(row.section, OptionSection::Site | OptionSection::SiteRule),
                "{path}"
            );
        }
    }
}
