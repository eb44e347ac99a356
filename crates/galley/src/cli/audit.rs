//! `galley audit`: has the running server audit all stored pages, and reports what it found.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::options::AuditOptions;
use galley_operator::ask::{self, AdminAddress, AdminError};
use galley_operator::outcome::{EXIT_USAGE, talk};
use galley_operator::show::{self, line, text};

/// Runs `galley audit`: exit code 0 without, 1 with pages that were out of date, 2 after an error.
pub(super) fn audit(options: &AuditOptions) -> ExitCode {
    let audited = ask::admin(&options.admin).and_then(|admin| audited(&admin, options));
    let sites = match audited {
        Ok(sites) => sites,
        Err(trouble) => {
            trouble.report();
            return ExitCode::from(EXIT_USAGE);
        }
    };
    if options.json {
        show::data(&json!({ "ok": true, "sites": sites }));
    } else {
        print(&sites);
    }
    let mut code = ExitCode::SUCCESS;
    if sites.iter().any(|site| count(site, "changed") > 0) {
        code = ExitCode::FAILURE;
    }
    for site in &sites {
        if site["pass"]["state"] != "ended" {
            talk(&format!(
                "the audit of {} ended early, because the server read its configuration again or ended: run it again",
                text(&site["name"])
            ));
            code = ExitCode::from(EXIT_USAGE);
        }
    }
    code
}

/// Starts the audits, and returns the reports of their sites when all have ended.
fn audited(admin: &AdminAddress, options: &AuditOptions) -> Result<Vec<Value>, AdminError> {
    let begun = admin.post("/audit", &json!({ "site": options.site }))?;
    let begun: Vec<Value> = begun["sites"].as_array().cloned().unwrap_or_default();
    let mut told = Instant::now();
    loop {
        let report = admin.get("/audit")?;
        let reported = report["sites"].as_array().into_iter().flatten();
        let sites: Vec<&Value> = reported
            .filter(|site| begun.iter().any(|one| one["name"] == site["name"]))
            .collect();
        let is_over = |site: &&Value| is_over(site, &begun);
        if sites.iter().all(is_over) {
            return Ok(sites.into_iter().map(of_pass).collect());
        }
        if told.elapsed() >= BETWEEN_LINES {
            told = Instant::now();
            let running = sites.iter().filter(|site| !is_over(site));
            running.for_each(|site| talk(&progress(site)));
        }
        std::thread::sleep(BETWEEN_QUESTIONS);
    }
}

/// Whether the pass of a site has ended, or a later one has begun.
fn is_over(site: &Value, begun: &[Value]) -> bool {
    let pass = &site["pass"];
    let begun_pass = begun.iter().find(|one| one["name"] == site["name"]);
    let is_later = begun_pass.is_some_and(|one| pass["number"].as_u64() > one["pass"].as_u64());
    is_later || matches!(pass["state"].as_str(), Some("ended" | "aborted") | None)
}

/// The report of a site with the findings of its last pass only.
fn of_pass(site: &Value) -> Value {
    let pass = &site["pass"];
    let findings = site["findings"].as_array().into_iter().flatten();
    let findings: Vec<&Value> = findings
        .filter(|one| one["pass"] == pass["number"])
        .collect();
    json!({ "name": site["name"], "pass": pass, "findings": findings })
}

fn progress(site: &Value) -> String {
    let pass = &site["pass"];
    let state = if pass["gives_way"] == true {
        "; waits, because PHP is busy or does not respond"
    } else {
        ""
    };
    format!(
        "audit: {}: {} of {} pages, {} out of date{state}",
        text(&site["name"]),
        pass["done"],
        pass["pages"],
        count(site, "changed")
    )
}

fn print(sites: &[Value]) {
    let widest = sites.iter().map(|site| text(&site["name"]).chars().count());
    let width = widest.max().unwrap_or(0).max("SITE".len());
    line(&format!(
        "{:<width$}  {:>8} {:>8} {:>8} {:>12} {:>12}",
        "SITE", "PAGES", "SAME", "VARY", "OUT OF DATE", "NO VERDICT"
    ));
    for site in sites {
        let counts = ["same", "varies", "changed"].map(|word| count(site, word));
        let done = site["pass"]["done"].as_u64().unwrap_or(0);
        let [same, varies, changed] = counts;
        line(&format!(
            "{:<width$}  {:>8} {same:>8} {varies:>8} {changed:>12} {:>12}",
            text(&site["name"]),
            site["pass"]["pages"].to_string(),
            done.saturating_sub(counts.iter().sum())
        ));
    }
    print_findings(sites, "changed", "out of date, and purged");
    print_findings(sites, "varies", "vary");
}

/// Prints the pages with a result.
fn print_findings(sites: &[Value], result: &str, title: &str) {
    let findings = sites.iter().filter_map(|site| site["findings"].as_array());
    let of_result: Vec<&Value> = findings
        .flatten()
        .filter(|one| one["result"] == result)
        .collect();
    if of_result.is_empty() {
        return;
    }
    line("");
    line(&format!("{title}:"));
    for one in &of_result {
        line(&format!("  {}", plain(text(&one["url"]))));
        let [before, after] = ["before", "after"].map(|name| plain(text(&one[name])));
        line(&format!("    byte {}: `{before}`", one["byte"]));
        line(&format!("    now: `{after}`"));
    }
    let words = sites.iter().map(|site| count(site, result));
    let more = words.sum::<u64>().saturating_sub(of_result.len() as u64);
    if more > 0 {
        line(&format!("  and {more} more"));
    }
}

/// A text of the site without characters that control a terminal.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

fn count(site: &Value, word: &str) -> u64 {
    site["pass"]["results"][word].as_u64().unwrap_or(0)
}

const BETWEEN_QUESTIONS: Duration = Duration::from_millis(300);

const BETWEEN_LINES: Duration = Duration::from_secs(2);
