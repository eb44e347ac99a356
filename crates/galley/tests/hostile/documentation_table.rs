//! The table of cases in `docs/internals/hostile-input.md` is generated from the case files.

use std::fmt::Write as _;

use crate::case::{Case, ConnectionState, parse_cases, parse_result, recorded_nginx_version};
use crate::{http1, http2};

const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/internals/hostile-input.md"
);
const BEGIN: &str = "<!-- cases: made from crates/galley/tests/hostile/*.txt -->\n";
const END: &str = "<!-- end of cases -->\n";

#[test]
fn the_page_has_the_table_of_cases() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    check_golden(
        PAGE,
        &page,
        &format!("{before}{BEGIN}{}{END}{after}", table()),
    );
}

/// Checks that a file has the expected text; with `UPDATE_GOLDEN`, writes it.
pub fn check_golden(path: &str, found: &str, expected: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, expected).unwrap();
        return;
    }
    let lines = std::iter::zip(found.lines(), expected.lines());
    let different: Vec<_> = lines
        .filter(|(found, expected)| found != expected)
        .take(10)
        .collect();
    assert!(
        found == expected,
        "{path} is not up to date (found, expected): {different:#?}\nset UPDATE_GOLDEN=1 to update it"
    );
}

/// The cases by section that nginx answers otherwise; those with equal results are one row.
fn table() -> String {
    let mut out = String::new();
    let (http1_file, http2_file) = (http1::read_file(), http2::read_file());
    let (http1_cases, http2_cases) = (parse_cases(&http1_file), parse_cases(&http2_file));
    assert_eq!(
        recorded_nginx_version(&http1_file),
        recorded_nginx_version(&http2_file)
    );
    let cases: Vec<&Case> = http1_cases.iter().chain(&http2_cases).collect();
    let different: Vec<&Case> = cases.iter().copied().filter(|c| differs(c)).collect();
    let _ = writeln!(
        out,
        "{} cases of HTTP/1 and {} of HTTP/2; {} has the required result in {}. The others:",
        http1_cases.len(),
        http2_cases.len(),
        recorded_nginx_version(&http1_file),
        cases.len() - different.len(),
    );
    for section in different.chunk_by(|one, next| one.section == next.section) {
        let _ = write!(
            out,
            "\n### {}\n\n| required, and what Galley does | nginx | cases |\n|---|---|---|\n",
            section[0].section
        );
        let mut rows: Vec<((String, String), Vec<&str>)> = Vec::new();
        for case in section {
            let key = (expected(case), nginx(case));
            match rows.iter_mut().find(|(results, _)| *results == key) {
                Some((_, names)) => names.push(&case.name),
                None => rows.push((key, vec![&case.name])),
            }
        }
        for ((expected, nginx), names) in rows {
            let _ = writeln!(out, "| {expected} | {nginx} | {} |", names.join("; "));
        }
    }
    out
}

/// Whether nginx's recorded result is not permitted.
fn differs(case: &Case) -> bool {
    let nginx = parse_result(case.nginx.as_deref().unwrap());
    let permitted = &case.expected;
    let is_permitted = permitted.statuses.len() == nginx.statuses.len()
        && std::iter::zip(&permitted.statuses, &nginx.statuses)
            .all(|(permitted, status)| permitted.contains(&status[0]));
    let is_connection =
        permitted.connection == ConnectionState::Any || permitted.connection == nginx.connection;
    !(is_permitted && is_connection && permitted.received == nginx.received)
}

fn expected(case: &Case) -> String {
    let permitted = case.expected.statuses.iter();
    let mut words: Vec<String> = permitted.map(|statuses| statuses.join("/")).collect();
    words.push(case.expected.connection.word().to_owned());
    let mut expected = words.join(" ");
    if !case.expected.received.is_empty() {
        let _ = write!(expected, ", {}", code(&case.expected.received));
    }
    expected
}

fn nginx(case: &Case) -> String {
    let nginx = case.nginx.as_deref().unwrap_or_default();
    match nginx.split_once(", ") {
        Some((responses, received)) => format!("{responses}, {}", code(received)),
        None => nginx.to_owned(),
    }
}

/// The text as code in a table cell: column separators are escaped, and long text is shortened.
fn code(text: &str) -> String {
    let cut: String = text.chars().take(60).collect();
    let dots = if cut.len() < text.len() { "..." } else { "" };
    format!("`{}{dots}`", cut.replace('|', "\\|"))
}
