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

/// How many cases each section has, and in how many nginx does otherwise.
fn table() -> String {
    let (http1_file, http2_file) = (http1::read_file(), http2::read_file());
    let version = recorded_nginx_version(&http1_file);
    assert_eq!(version, recorded_nginx_version(&http2_file));
    let (http1_cases, http2_cases) = (parse_cases(&http1_file), parse_cases(&http2_file));
    let mut out = format!(
        "| {} cases of HTTP/1, {} of HTTP/2 | cases | {version} does otherwise | of these, it forwards the hidden request |\n|---|--:|--:|--:|\n",
        http1_cases.len(),
        http2_cases.len(),
    );
    let cases: Vec<Case> = http1_cases.into_iter().chain(http2_cases).collect();
    for section in cases.chunk_by(|one, next| one.section == next.section) {
        let different: Vec<&Case> = section.iter().filter(|case| differs(case)).collect();
        let hidden = different
            .iter()
            .filter(|case| forwards_hidden(case))
            .count();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {hidden} |",
            section[0].section,
            section.len(),
            different.len()
        );
    }
    out
}

/// Whether nginx has sent the request for `/smuggled` to the upstream.
fn forwards_hidden(case: &Case) -> bool {
    let nginx = case.nginx.as_deref().unwrap_or_default();
    nginx.contains("GET /smuggled \"\"")
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
