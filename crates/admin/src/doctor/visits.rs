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
    let is = |site: &&Value, key: &str, word: &str| site[key] == word;
    let (mut active, mut blind, mut unlinked) = (0, Vec::new(), Vec::new());
    for site in sites {
        let name = site["name"].as_str().unwrap_or_default();
        let is_busy = site["requests"].as_u64() >= Some(MANY);
        active += usize::from(is(&site, "crawl_shield", "on"));
        if is(&site, "crawl_shield_link", "not-loaded") {
            unlinked.push(name);
        } else if is_busy && is(&site, "crawl_shield", "no-visits") {
            blind.push(name);
        }
    }
    if let [_, ..] = unlinked.as_slice() {
        return Some(DoctorFinding::bad(
            Severity::Notice,
            CHECK,
            format!(
                "few visitors of {} load files of the site from Galley, and none loads `/galley-visit/style.css`",
                unlinked.join(", ")
            ),
            "files come from a CDN, another cache or the browser's, and no page links to that style sheet: so Galley cannot tell people from a crawl",
            "activate the plugin, and purge all pages once; if another cache is in front of Galley, name it in `trusted_proxies`",
        ));
    }
    if blind.is_empty() {
        let seen = format!("the crawl shield of {active} sites knows visitors");
        return (active > 0).then(|| DoctorFinding::fine(CHECK, seen));
    }
    Some(DoctorFinding::bad(
        Severity::Notice,
        CHECK,
        format!(
            "no visitor of {} has loaded a style sheet, script or image of the site within a day",
            blind.join(", ")
        ),
        "its files come from another host, or through a proxy that Galley does not trust: so Galley cannot tell people from a crawl",
        "if a proxy is in front of Galley, name it in `trusted_proxies`; if a CDN sends the files, activate the plugin: it links to a style sheet that proves visits",
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
        let linked = |state: &str, link: &str| json!({ "name": "a.test", "crawl_shield": state, "crawl_shield_link": link, "requests": 9 });
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
            (vec![linked("on", "loaded")], Some(Severity::Fine)),
            (vec![linked("on", "not-loaded")], Some(Severity::Notice)),
            (
                vec![linked("no-visits", "not-loaded")],
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
