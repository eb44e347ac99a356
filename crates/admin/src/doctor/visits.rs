//! Checks that the crawl shield of each site can tell visitors from crawlers.

use serde_json::Value;

use super::{DoctorFinding, Severity};

/// Checks the sites in the status of the running server. `None`: no site has the shield.
pub fn visit_findings(status: &Result<Value, String>) -> Option<DoctorFinding> {
    const CHECK: &str = "visits";
    let status = match status {
        Ok(status) => status,
        Err(why) => return Some(DoctorFinding::unknown(CHECK, why)),
    };
    let sites = status["sites"].as_array().map_or(&[][..], Vec::as_slice);
    let with = |state: &str| {
        let sites = sites
            .iter()
            .filter(move |site| site["crawl_shield"] == state);
        sites.collect::<Vec<_>>()
    };
    let (active, waiting) = (with("on"), with("no-visits"));
    let visited = |site: &&&Value| site["requests"].as_u64() >= Some(MANY);
    let names: Vec<&str> = waiting
        .iter()
        .filter(visited)
        .filter_map(|site| site["name"].as_str())
        .collect();
    if names.is_empty() {
        let seen = format!("the crawl shield of {} sites knows visitors", active.len());
        return (!active.is_empty()).then(|| DoctorFinding::fine(CHECK, seen));
    }
    Some(DoctorFinding::bad(
        Severity::Notice,
        CHECK,
        format!(
            "no visitor of {} has loaded a style sheet, script or image of the site within a day",
            names.join(", ")
        ),
        "its files come from another host, or through a proxy that Galley does not trust: so Galley cannot tell people from a crawl",
        "if a proxy is in front of Galley, name it in `trusted_proxies`; if a CDN sends the files, `crawl_shield` has no effect",
    ))
}

/// So many requests without a single file are no accident.
const MANY: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sites_without_visits_are_named() {
        let site = |state: &str, requests: u64| json!({ "name": "a.test", "crawl_shield": state, "requests": requests });
        for (sites, wanted) in [
            (vec![], None),
            (vec![site("off", 9_000)], None),
            (vec![site("no-visits", 9)], None),
            (vec![site("on", 9_000)], Some(Severity::Fine)),
            (
                vec![site("on", 9_000), site("no-visits", 9)],
                Some(Severity::Fine),
            ),
            (
                vec![site("on", 9_000), site("no-visits", 9_000)],
                Some(Severity::Notice),
            ),
        ] {
            let found = visit_findings(&Ok(json!({ "sites": sites })));
            assert_eq!(found.map(|found| found.level), wanted, "{sites:?}");
        }
        let down = visit_findings(&Err("down".to_owned()));
        assert_eq!(down.map(|found| found.level), Some(Severity::Unknown));
    }
}
