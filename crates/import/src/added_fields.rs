//! The fields that a draft adds to responses.

use std::collections::BTreeMap;

use crate::draft::Section;
use crate::units;

/// The fields that the draft adds to the responses of a rule, by name in lower case.
pub(crate) fn added(
    site: &Section,
    rule: Option<&Section>,
    is_tls: bool,
) -> BTreeMap<String, String> {
    let mut added = BTreeMap::new();
    for section in std::iter::once(site).chain(rule) {
        for name in section.list("remove_headers") {
            added.remove(&name.to_ascii_lowercase());
        }
        for line in section.list("set_headers") {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let name = name.trim().to_ascii_lowercase();
            let value = sorted(&name, value.trim());
            added.insert(name, value);
        }
    }
    if let Some(age) = site
        .text("hsts")
        .filter(|_| is_tls)
        .and_then(units::seconds)
    {
        let has = |option, words: &'static str| if site.has(option) { words } else { "" };
        let more = [
            has("hsts_subdomains", "; includeSubDomains"),
            has("hsts_preload", "; preload"),
        ]
        .concat();
        added.insert(
            "strict-transport-security".to_owned(),
            format!("max-age={age}{more}"),
        );
    }
    added
}

/// The directives of `Cache-Control`, in order and each once. Other values are unchanged.
pub(crate) fn sorted(name: &str, value: &str) -> String {
    if name != "cache-control" {
        return value.to_owned();
    }
    let mut parts: Vec<&str> = value.split(',').map(str::trim).collect();
    parts.sort_unstable();
    parts.dedup();
    parts.join(", ")
}
