//! The table of cases in the manual is made from the files of cases.

use std::fmt::Write as _;

use crate::case::{cases, recorded_version};
use crate::{corpus, http2};

const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/internals/hostile-input.md"
);
const BEGIN: &str = "<!-- cases: made from crates/galley/tests/hostile/*.txt -->\n";
const END: &str = "<!-- end of cases -->\n";

#[test]
fn the_manual_has_the_table_of_the_cases() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    keep_golden(
        PAGE,
        &page,
        &format!("{before}{BEGIN}{}{END}{after}", table()),
    );
}

/// What is there, if it is as wanted; written anew with `UPDATE_GOLDEN`.
pub fn keep_golden(path: &str, found: &str, wanted: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, wanted).unwrap();
        return;
    }
    let lines = std::iter::zip(found.lines(), wanted.lines());
    let other: Vec<_> = lines.filter(|(one, other)| one != other).take(10).collect();
    assert!(
        found == wanted,
        "{path} is not up to date (found, wanted): {other:#?}\nUPDATE_GOLDEN=1 writes it anew"
    );
}

fn table() -> String {
    let mut out = String::new();
    let mut section = String::new();
    let (one, two) = (corpus::file(), http2::file());
    let (http_1, http_2) = (cases(&one), cases(&two));
    let _ = writeln!(
        out,
        "{} cases of HTTP/1 and {} of HTTP/2; nginx is {}.",
        http_1.len(),
        http_2.len(),
        recorded_version(&one)
    );
    assert_eq!(recorded_version(&one), recorded_version(&two));
    for case in http_1.into_iter().chain(http_2) {
        if case.section != section {
            section.clone_from(&case.section);
            let _ = write!(
                out,
                "\n### {section}\n\n| case | source | right, and what Galley does | nginx |\n|---|---|---|---|\n"
            );
        }
        let statuses: Vec<String> = case
            .right
            .statuses
            .iter()
            .map(|alike| alike.join("/"))
            .collect();
        let mut right = statuses.join(" ");
        if !right.is_empty() {
            right.push(' ');
        }
        right.push_str(case.right.fate.word());
        if !case.right.seen.is_empty() {
            let _ = write!(right, ", {}", code(&case.right.seen));
        }
        let nginx = case.nginx.as_deref().unwrap_or_default();
        let nginx = match nginx.split_once(", ") {
            Some((answers, seen)) => format!("{answers}, {}", code(seen)),
            None => nginx.to_owned(),
        };
        let _ = writeln!(out, "| {} | {} | {right} | {nginx} |", case.name, case.rfc);
    }
    out
}

/// A table's cell: no column ends in it, and long bodies are cut.
fn code(seen: &str) -> String {
    let cut: String = seen.chars().take(60).collect();
    let dots = if cut.len() < seen.len() { "..." } else { "" };
    format!("`{}{dots}`", cut.replace('|', "\\|"))
}
