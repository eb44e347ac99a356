//! `Debug` text is for people: it is never compared, hashed or stored, because it changes when a Rust type is renamed or gets a
//! field. Product code may format it in log events of the levels debug and trace, in assertions, panics and the texts of errors, and a
//! constant anywhere. Log events that owners see have words instead.

use std::fs;
use std::path::PathBuf;

use crate::{all_sources, is_test, workspace};

/// Files below `crates` that may do more, and why.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("operator/build.rs", "literals in Rust source"),
    ("telemetry/src/errors.rs", "the values in log lines"),
];

const FOR_PEOPLE: &[&str] = &[
    "trace",
    "debug",
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "panic",
    "unreachable",
];

#[test]
fn debug_text_is_neither_compared_nor_hashed_nor_stored() {
    let crates = workspace().join("crates");
    let exceptions: Vec<PathBuf> = EXCEPTIONS
        .iter()
        .map(|(file, _)| crates.join(file))
        .collect();
    let mut found = Vec::new();
    let mut needed = Vec::new();
    for path in all_sources() {
        if is_test(&path) || !path.starts_with(&crates) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let mut lines = violations(product(&text)).peekable();
        if exceptions.contains(&path) {
            needed.extend(lines.peek().map(|_| path.clone()));
        } else {
            found.extend(lines.map(|line| format!("{}:{line}", path.display())));
        }
    }
    let is_needed = |path: &&PathBuf| needed.contains(path);
    let unneeded: Vec<&PathBuf> = exceptions.iter().filter(|path| !is_needed(path)).collect();
    assert!(
        unneeded.is_empty(),
        "no exception is needed for {unneeded:?}"
    );
    assert!(
        found.is_empty(),
        "declare the fields that count, for example in a `Shape`, or give people words, instead of `{{:?}}` and `?field`:\n{}",
        found.join("\n")
    );
}

/// The text before the unit tests.
fn product(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod ").next().unwrap_or(text)
}

/// The numbers of the lines that format `Debug` text for something else than a message.
fn violations(text: &str) -> impl Iterator<Item = usize> {
    formatted(text).chain(logged(text))
}

/// Those of fields of log events that owners see: `?field`.
fn logged(text: &str) -> impl Iterator<Item = usize> {
    let macros = ["tracing::info!(", "tracing::warn!(", "tracing::error!("];
    let calls = macros.into_iter().flat_map(|call| text.match_indices(call));
    calls.filter_map(move |(at, call)| {
        let fields = &text[at + call.len()..];
        // Up to the message, or to the end of a call without any.
        let fields = &fields[..fields.find(['"', ';']).unwrap_or(fields.len())];
        let is_shown = |part: &str| {
            part.trim()
                .rsplit("= ")
                .next()
                .is_some_and(|value| value.starts_with('?'))
        };
        let line = || text[..at].matches('\n').count() + 1;
        fields.split(',').any(is_shown).then(line)
    })
}

fn formatted(text: &str) -> impl Iterator<Item = usize> {
    let places = text.match_indices(":?}").chain(text.match_indices(":#?}"));
    places.filter_map(move |(at, _)| {
        let before = &text[..at];
        let line = before.rsplit('\n').next().unwrap_or_default();
        let is_comment = line.trim_start().starts_with("//");
        let (_, value) = before.rsplit_once('{').unwrap_or_default();
        let is_constant =
            !value.is_empty() && value.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        let is_permitted = is_comment || is_constant || is_for_people(before);
        (!is_permitted).then(|| before.matches('\n').count() + 1)
    })
}

/// Whether the last macro in the text, or attribute of an error type, is for people.
fn is_for_people(before: &str) -> bool {
    let call = before.rfind("!(");
    let attribute = before.rfind("#[error(");
    if attribute > call {
        return true;
    }
    let mut words =
        before[..call.unwrap_or(0)].rsplit(|c: char| !c.is_ascii_lowercase() && c != '_');
    words.next().is_some_and(|name| FOR_PEOPLE.contains(&name))
}

#[test]
fn violations_are_found_by_the_macro() {
    let text = concat!(
        "fn f() {\n    let a = format!(\"{x:?}\");\n    // format!(\"{x:?}\")\n    tracing::debug!(?x, \"{x:?}\");\n",
        "    tracing::warn!(a, strength = ?x, \"?\");\n    tracing::info!(%a, \"{x:?}\");\n    tracing::info!(%a, \"?\");\n",
        "    assert!(a == b, \"{x:#?}\");\n    format!(\"within {TIMEOUT:?}\");\n    write!(text, \"{:?}\", x)?;\n}\n",
        "#[error(\"{0:?}\")]\nstruct E;\n#[cfg(test)]\nmod tests {\n    format!(\"{x:?}\")\n}\n",
    );
    let lines: Vec<usize> = violations(product(text)).collect();
    assert_eq!(lines, [2, 6, 10, 5]);
}
