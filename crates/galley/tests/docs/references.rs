//! References of the manual to code: words of `Cache-Status`, metrics, links, tests and source files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use galley_policy::outcome::{MissWhy, NotStored, PassWhy, RefusedWhy, StaleWhy};

use crate::pages::{
    code_words, files_with, first_cells, headings, page, pages, repository, section,
};

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

fn read_sources(folder: &Path, out: &mut String) {
    let mut paths = Vec::new();
    files_with(folder, &["rs"], &mut paths);
    out.extend(paths.iter().map(|path| fs::read_to_string(path).unwrap()));
}
