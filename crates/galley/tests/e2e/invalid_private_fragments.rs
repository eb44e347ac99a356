//! Private fragments with an invalid description: no visitor gets private content of another one, and pages stay complete.

use crate::forged_private_fragments::{AFTER, Page, SharedConnection, is_assembled, origin, site};

/// Invalid descriptions of the private part of a page, each with its path.
fn invalid_fields(page: &Page) -> Vec<(&'static str, Vec<String>)> {
    let mut all = invalid_values(page);
    all.extend(invalid_positions(page));
    all
}

/// One part with invalid values, or after the end of the page.
fn invalid_values(page: &Page) -> Vec<(&'static str, Vec<String>)> {
    let (start, length) = (page.before.len(), page.private.len());
    let one = |field: String| vec![field];
    let huge = "n".repeat(9000);
    vec![
        ("/none", Vec::new()),
        (
            "/unknown-scope",
            one(format!("bar {start} {length} - private-all mb")),
        ),
        (
            "/no-scope",
            one(format!("bar {start} {length} - private- mb")),
        ),
        (
            "/upper-case",
            one(format!("bar {start} {length} - PRIVATE-PAGE mb")),
        ),
        (
            "/path",
            one(format!(
                "../../etc/passwd {start} {length} - private-page mb"
            )),
        ),
        (
            "/unicode",
            one(format!(
                "b\u{e4}r\u{202e} {start} {length} - private-page mb"
            )),
        ),
        (
            "/huge",
            one(format!("{huge} {start} {length} - private-page mb")),
        ),
        (
            "/behind-the-end",
            one(format!("bar {start} 99999999 - private-page mb")),
        ),
        (
            "/overflow",
            one(format!(
                "bar {start} 18446744073709551615 - private-page mb"
            )),
        ),
        ("/unclosed", one(format!("bar {start}"))),
        (
            "/everything",
            one(format!("bar {start} {length} - private-page *")),
        ),
    ]
}

/// Parts at positions that contradict each other or the page.
fn invalid_positions(page: &Page) -> Vec<(&'static str, Vec<String>)> {
    let (start, length) = (page.before.len(), page.private.len());
    let one = |field: String| vec![field];
    let many = |count: usize| {
        let part = |number| format!("part{number} {start} 0 - private-page mb");
        (0..count).map(part).collect()
    };
    vec![
        (
            "/nested",
            vec![
                format!("bar {start} {length} - private-page mb"),
                format!("inner {start} 0 - private-page mb"),
            ],
        ),
        (
            "/backwards",
            vec![
                format!("bar {start} {length} - private-page mb"),
                "inner 2 2 - private-page mb".to_owned(),
            ],
        ),
        (
            "/twice",
            vec![
                page.fragment_field("bar"),
                format!("bar {} 0 - private-page mb", start + length),
            ],
        ),
        ("/other-name", one(page.fragment_field("toolbar"))),
        (
            "/other-bytes",
            one(format!("bar {} {length} - private-page mb", start - 3)),
        ),
        ("/too-many", many(65)),
        ("/many", many(64)),
        (
            "/everything-private",
            one(format!("bar 0 {} - private-page mb", page.text().len())),
        ),
    ]
}

/// The page for members, the shared page, or both have an invalid description.
#[test]
fn invalid_fragment_descriptions_disclose_no_private_content() {
    for invalid_page in ["member", "shared", "both"] {
        let origin = origin(move |request, page| {
            let kind = request.field("galley-request").unwrap_or_default();
            let mut all = invalid_fields(page).into_iter();
            let found = all.find(|(path, _)| *path == request.path());
            found
                .map(|(_, fields)| fields)
                .filter(|_| invalid_page == "both" || invalid_page == kind)
        });
        let site = site(&origin);
        let mut client = SharedConnection::new(&site);
        let anonymous = Page {
            before: String::from("<html>"),
            private: String::new(),
        };
        let paths: Vec<&str> = invalid_fields(&anonymous)
            .iter()
            .map(|(path, _)| *path)
            .collect();
        for path in paths.iter().chain(&["/fine"]) {
            let mut assembled = 0;
            for _ in 0..3 {
                client.assert_public(path, path);
                for token in ["one", "two"] {
                    let response = client.assert_own(token, path, path);
                    let text = response.text();
                    let is_whole = text.starts_with("<html><body><p>of ") && text.ends_with(AFTER);
                    assert!(
                        is_whole,
                        "{invalid_page} {path}: {}\n{text}",
                        response.excerpt()
                    );
                    assembled += usize::from(is_assembled(&response));
                }
            }
            if *path == "/fine" {
                assert!(assembled > 0, "no page is assembled");
            }
        }
    }
}
