//! The reference page, the manual page and the sample match the table of options, and the sample is a valid configuration.
//!
//! With `UPDATE_GOLDEN=1` the test writes the files.

use std::fs;
use std::path::Path;

mod generated;

use galley_config::{Fallback, OptionSection, from_text, options};
use generated::{manual_page, reference, sample, schema};

#[test]
fn generated_pages_match_the_table() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (name, text) in [
        ("docs/reference/options.md", reference()),
        ("docs/reference/galley.toml.sample", sample()),
        ("packaging/man/galley.toml.5", manual_page()),
        ("packaging/galley.schema.json", schema()),
    ] {
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(repository.join(name), &text).unwrap();
        }
        let found = fs::read_to_string(repository.join(name)).unwrap_or_default();
        assert!(
            found == text,
            "{name} does not match the table; run with UPDATE_GOLDEN=1"
        );
        // Only the manual can follow links to its pages.
        let is_manual = name.starts_with("docs/") && name.contains("options");
        assert_eq!(text.contains("](../"), is_manual, "{name}");
    }
}

/// The unchanged sample with an existing root is accepted.
#[test]
fn the_sample_is_accepted() {
    let root = tempfile::tempdir().unwrap();
    let text = sample().replace("/var/www/example.com", root.path().to_str().unwrap());
    let config = from_text("galley.toml", &text).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(config.sites.len(), 1);
    assert_eq!(config.sites[0].name, "example.com");
}

/// With all lines of the sample uncommented, only contradictory options and missing files are errors; no name is unknown and no value
/// is out of bounds.
#[test]
fn every_example_in_the_sample_is_valid() {
    let text: String = sample()
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.starts_with('[') || rest.contains(" = ") => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let errors = from_text("/nowhere/galley.toml", &text).unwrap_err();
    let allowed = [
        "does not exist",
        "cannot be read",
        "are both given",
        "applies only",
        "never stored",
        "no `upstream` begins",
        "does not contain `dns-01`",
        "a cache in front would mix",
        "do not share it",
    ];
    for error in errors.iter() {
        assert!(
            allowed.iter().any(|text| error.message.contains(text)),
            "{}",
            error.message
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
fn rows_are_complete_and_unique() {
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
