//! The JSON schema of the configuration file, checked with the program that editors use (taplo, from npm).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use galley_config::{OptionRow, OptionSection, ValueKind, options};

use crate::pages::{Block, all_blocks};

/// The files among `texts` that the schema refuses, by their index, and what the program printed.
fn refused(texts: &[String]) -> (Vec<usize>, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = fs::canonicalize(root).unwrap();
    let program = root.join("target/axe/node_modules/.bin/taplo");
    let dir = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = (0..texts.len())
        .map(|index| dir.path().join(format!("case-{index}.toml")))
        .collect();
    for (file, text) in files.iter().zip(texts) {
        fs::write(file, text).unwrap();
    }
    let schema = root.join("packaging/galley.schema.json");
    let output = Command::new("node")
        .arg(&program)
        .args(["lint", "--colors", "never", "--no-auto-config", "--schema"])
        .arg(format!("file://{}", schema.display()))
        .args(&files)
        .output()
        .unwrap_or_else(|error| panic!("run `make {}`: {error}", program.display()));
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(text.contains("found files"), "{text}");
    let is_refused = |file: &PathBuf| text.contains(&format!("path=\"{}\"", file.display()));
    let refused = files
        .iter()
        .enumerate()
        .filter(|(_, file)| is_refused(file));
    (refused.map(|(index, _)| index).collect(), text)
}

#[test]
fn the_schema_accepts_every_configuration_in_the_manual() {
    let blocks = all_blocks();
    let mut texts: Vec<String> = blocks.iter().filter_map(Block::configuration).collect();
    let sample =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/galley.toml.sample");
    texts.push(fs::read_to_string(sample).unwrap());
    assert!(texts.len() > 70, "only {}", texts.len());
    let (refused, output) = refused(&texts);
    assert!(refused.is_empty(), "{output}");
}

/// The text before an option of a section, such that only the option can be wrong.
fn opening(section: OptionSection) -> &'static str {
    match section {
        OptionSection::Top => "",
        OptionSection::Server => "[server]\n",
        OptionSection::Admin => "[admin]\n",
        OptionSection::Cache => "[cache]\n",
        OptionSection::Log => "[log]\n",
        OptionSection::Acme => "[acme]\n",
        OptionSection::Cluster => "[cluster]\n",
        OptionSection::Site => "[[site]]\nhosts = [\"a.test\"]\n",
        OptionSection::SiteTtl => "[[site]]\nhosts = [\"a.test\"]\n[site.ttl]\n",
        OptionSection::SiteRule => "[[site]]\nhosts = [\"a.test\"]\n[[site.rule]]\npath = \"/a\"\n",
        OptionSection::SiteErrorPages => "[[site]]\nhosts = [\"a.test\"]\n[site.error_pages]\n",
        OptionSection::SiteLog => "[[site]]\nhosts = [\"a.test\"]\n[site.log]\n",
    }
}

/// Values that an option does not take: no option is a floating-point number, and those that no other one of its kind is.
fn wrong_values(row: &OptionRow) -> Vec<String> {
    let mut values = vec!["1.5".to_owned()];
    match row.kind {
        ValueKind::Flag => values.push("\"yes\"".to_owned()),
        ValueKind::Count { most, .. } if most < u64::from(u32::MAX) => {
            values.push((most + 1).to_string());
        }
        ValueKind::Word(_) => values.push("\"no-such-word\"".to_owned()),
        ValueKind::Time { .. } => values.extend(["30".to_owned(), "\"30 weeks\"".to_owned()]),
        ValueKind::List(_) => values.push("\"no list\"".to_owned()),
        ValueKind::CrawlerRules => values.push("{ GPTBot = \"off\" }".to_owned()),
        ValueKind::Limit => values.push("{ rate = \"fast\" }".to_owned()),
        _ => {}
    }
    values
}

#[test]
fn the_schema_refuses_wrong_values_of_every_option_and_unknown_options() {
    let mut texts = Vec::new();
    for row in options() {
        let is_required = opening(row.section).contains(&format!("{} = ", row.name));
        if is_required {
            continue;
        }
        let name = if row.name.starts_with('<') {
            "\"404\""
        } else {
            row.name
        };
        for value in wrong_values(row) {
            texts.push(format!("{}{name} = {value}\n", opening(row.section)));
        }
    }
    for section in OptionSection::ALL {
        texts.push(format!("{}no_such_option = true\n", opening(section)));
    }
    assert!(texts.len() > 200, "only {}", texts.len());
    let (refused, output) = refused(&texts);
    let accepted: Vec<&String> = (0..texts.len())
        .filter(|index| !refused.contains(index))
        .map(|index| &texts[index])
        .collect();
    assert!(accepted.is_empty(), "{accepted:?}\n{output}");
}
