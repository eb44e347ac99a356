//! Prints the output of commands: data to stdout, messages to stderr.

use std::io::Write;
use std::path::Path;

use galley_config::{Config, Diagnostics, UpstreamConfig, Warning};
use serde_json::{Value, json};

use crate::figures::{duration, percent, size};
use crate::object_cache;
use crate::option_change;

/// Prints one JSON value to stdout.
pub fn data(value: &Value) {
    line(&value.to_string());
}

/// Prints lines to stderr.
pub fn talk_lines(text: &str) {
    // A closed stderr is not an error.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints the result of `check` for a valid file.
///
/// `warnings`: the sites with the modules that their PHP lacks.
pub fn checked(
    path: &Path,
    config: &Config,
    warnings: &[(String, String)],
    notes: &[Warning],
    diff: Option<&Value>,
    as_json: bool,
) {
    if as_json {
        let mut checked = in_order(config, warnings, notes);
        if let Some(diff) = diff {
            checked["diff"] = json!({ "changes": diff["changes"], "restart": diff["restart"] });
        }
        return data(&checked);
    }
    talk_of("warning", &config.warnings);
    for (site, warning) in warnings {
        talk_lines(&format!("galley: warning: site `{site}`: {warning}"));
    }
    self::notes(notes);
    talk_lines(&format!("galley: `{}` is in order", path.display()));
    diff.map_or_else(|| sites(config), differences);
}

/// The result for a valid file, for scripts.
fn in_order(config: &Config, warnings: &[(String, String)], notes: &[Warning]) -> Value {
    let sites = config.sites.iter();
    let sites: Vec<Value> = sites
        .map(|site| json!({ "name": site.name, "upstream": upstream(&site.upstream) }))
        .collect();
    let of_sites = warnings
        .iter()
        .map(|(site, message)| json!({ "site": site, "message": message }));
    let of_file = config.warnings.iter().map(warning);
    let warnings: Vec<Value> = of_sites.chain(of_file).collect();
    let notes: Vec<Value> = notes.iter().map(warning).collect();
    json!({
        "ok": true, "files": config.files.len(), "sites": sites, "warnings": warnings, "notes": notes,
    })
}

/// Prints a line for each site: its name, its upstream, its listeners.
fn sites(config: &Config) {
    for site in &config.sites {
        let plain = site.listen.iter().map(ToString::to_string);
        let secure = site.listen_tls.iter();
        let secure = secure.map(|address| format!("{address} (TLS)"));
        let listen: Vec<String> = plain.chain(secure).collect();
        line(&format!(
            "{}\t{}\t{}",
            site.name,
            upstream(&site.upstream),
            listen.join(",")
        ));
    }
}

/// Prints the changes of a reload.
fn differences(diff: &Value) {
    let lines = |list: &str| {
        let lines = diff[list].as_array().into_iter().flatten();
        lines.map(text).collect::<Vec<_>>()
    };
    let (changes, restart) = (lines("changes"), lines("restart"));
    for change in &changes {
        line(change);
    }
    for option in &restart {
        line(&format!("{option}: needs a restart"));
    }
    for option in diff["options"].as_array().into_iter().flatten() {
        line(&format!("  {}", option_change::line(option)));
    }
    if changes.is_empty() && restart.is_empty() {
        line("no difference");
    }
}

/// Prints notes, such as skipped checks.
pub fn notes(notes: &[Warning]) {
    talk_of("note", notes);
}

fn talk_of(kind: &str, all: &[Warning]) {
    for one in all {
        talk_lines(&format!("galley: {kind}: {}: {}", one.spot, one.message));
        talk_lines(&format!("  {}", one.help));
    }
}

fn warning(one: &Warning) -> Value {
    json!({ "spot": one.spot, "option": one.option, "message": one.message, "help": one.help })
}

/// The diagnostics for scripts.
pub fn diagnostics(diagnostics: &Diagnostics) -> Value {
    let diagnostics_json: Vec<Value> = diagnostics
        .iter()
        .map(|c| {
            json!({
                "file": c.file, "line": c.line, "column": c.column, "option": c.option,
                "message": c.message, "help": c.help,
            })
        })
        .collect();
    json!({ "ok": false, "errors": diagnostics_json })
}

/// Prints the status as a table. `upstreams`: the lines about them.
pub fn status(value: &Value, upstreams: &[String]) {
    let uptime = duration(value["uptime_s"].as_u64().unwrap_or(0));
    line(&format!("galley {}, up {uptime}", text(&value["version"])));
    // A site's token gives no access to the status of the server.
    if let Some(memory) = value.get("memory") {
        server(value, memory);
    }
    let sites: Vec<&Value> = value["sites"].as_array().into_iter().flatten().collect();
    for site in &sites {
        let lines = php(site).into_iter().chain(certificates(site));
        let lines = lines.chain(fragments(site)).chain(forwarded(site));
        let lines = lines.chain(audits(site)).chain(object_cache::lines(site));
        let lines = lines.chain(needless_purges(site));
        lines.for_each(|text| line(&text));
    }
    let responses = value["responses"].as_object().into_iter().flatten();
    let responses: Vec<String> = responses
        .map(|(word, count)| format!("{word} {count}"))
        .collect();
    line(&format!("responses {}", responses.join(", ")));
    for remark in upstreams {
        line(&format!("{:<9} {remark}", "upstream"));
    }
    line("");
    table(&sites);
}

/// Prints the parts that only the server's token can read.
fn server(value: &Value, memory: &Value) {
    line(&format!(
        "memory    {} of {} in {} entries, {} evicted",
        size(&memory["bytes"]),
        size(&memory["limit"]),
        memory["entries"],
        memory["evictions"]
    ));
    let kept = disk(&value["disk"]).into_iter();
    kept.chain(cluster(&value["cluster"]))
        .for_each(|text| line(&text));
    line(&format!(
        "upstream {} in progress, {} waiting",
        value["upstream"]["in_flight"], value["upstream"]["waiting"]
    ));
    if let Some(text) = bodies(&value["spools"]) {
        line(&text);
    }
    line(&format!("clients   {} connections", value["connections"]));
    if value["privileged"] == json!("running") {
        line("root      kept by another process, which is running");
    }
}

/// Prints a row for each site.
fn table(sites: &[&Value]) {
    let widest = sites.iter().map(|site| text(&site["name"]).chars().count());
    let width = widest.max().unwrap_or(0).max("SITE".len());
    line(&format!(
        "{:<width$}  {:<8} {:>8} {:>12} {:>8} {:>12} {:>8}  {}",
        "SITE", "UPSTREAM", "PURGES", "REQUESTS", "HITS", "LAST 10 MIN", "HITS", "CRON"
    ));
    for site in sites {
        let lately = &site["last_10_minutes"];
        line(&format!(
            "{:<width$}  {:<8} {:>8} {:>12} {:>8} {:>12} {:>8}  {}",
            text(&site["name"]),
            text(&site["upstream"]),
            site["purges"].to_string(),
            site["requests"].to_string(),
            percent(&site["hit_ratio"]),
            lately["requests"].to_string(),
            percent(&lately["hit_ratio"]),
            cron(&site["cron"])
        ));
    }
}

/// The line about bodies in transit; `None` if the server does not report them.
fn bodies(spools: &Value) -> Option<String> {
    spools.as_object()?;
    Some(format!(
        "bodies    {} of {} in files, {} of {} in memory; {} requests rejected, {} responses occupied PHP",
        size(&spools["disk_bytes"]),
        size(&spools["disk_limit"]),
        size(&spools["memory_bytes"]),
        size(&spools["memory_limit"]),
        spools["refused"],
        spools["blocked"]
    ))
}

/// The line for a site whose PHP Galley runs.
fn php(site: &Value) -> Option<String> {
    let php = site.get("php").filter(|php| php.is_object())?;
    Some(format!(
        "php       {}: {} workers for {} requests at a time, {} each, {} of {} in all; {} replaced, {} overdue, {} restarts",
        text(&site["name"]),
        php["workers"],
        php["slots"],
        size(&php["worker_bytes"]),
        size(&php["bytes"]),
        size(&php["share_bytes"]),
        php["replaced"],
        php["overdue"],
        php["restarts"]
    ))
}

/// The lines for a site whose certificates Galley obtains.
fn certificates(site: &Value) -> Vec<String> {
    let certificates = site["certificates"].as_array().into_iter().flatten();
    certificates.map(certificate).collect()
}

fn certificate(one: &Value) -> String {
    let names = match one["names"].as_array().map(Vec::as_slice) {
        None | Some([]) => "-".to_owned(),
        Some([first]) => text(first).to_owned(),
        Some([first, rest @ ..]) => format!("{} and {} more", text(first), rest.len()),
    };
    let valid = match one["valid_for_s"].as_u64() {
        None => "none yet".to_owned(),
        Some(0) => "expired".to_owned(),
        Some(seconds) => format!("valid for {}", duration(seconds)),
    };
    let next = match one["next_order_in_s"].as_u64() {
        _ if one["ordering"] == true => "being ordered now".to_owned(),
        None => "to be ordered".to_owned(),
        Some(seconds) => format!("next order in {}", duration(seconds)),
    };
    let trouble = match one["error"].as_str() {
        None => String::new(),
        Some(words) => format!("; {} failed: {words}", one["failures_in_a_row"]),
    };
    format!("{:<9} {names}: {valid}, {next}{trouble}", "cert")
}

/// The lines for a site with page fragments that cannot be replaced.
fn fragments(site: &Value) -> Vec<String> {
    let kinds = [
        (
            "fragments_switched_off",
            "changes without a purge, so every purge of a part generates its pages again",
        ),
        (
            "fragments_failed",
            "could not be rendered without its page, so a purge of it generates its pages again",
        ),
    ];
    let line = |(name, means): (&str, &str)| {
        let labels: Vec<&str> = site[name].as_array()?.iter().map(text).collect();
        let (site, labels) = (text(&site["name"]), labels.join(", "));
        (!labels.is_empty()).then(|| format!("{:<9} {site}: {labels} {means}", "fragments"))
    };
    kinds.into_iter().filter_map(line).collect()
}

/// The line for a site of whose stored pages some were audited this week.
fn audits(site: &Value) -> Option<String> {
    let count = |word: &str| site["audit"]["week"][word].as_u64().unwrap_or(0);
    let [same, varies, changed] = ["same", "varies", "changed"].map(count);
    let (name, checked) = (text(&site["name"]), same + varies + changed);
    let line = format!(
        "audit     {name}: checked {checked} pages this week, {changed} were out of date, {varies} vary"
    );
    (checked > 0).then_some(line)
}

/// The lines for kinds of tags whose purges are mostly needless.
fn needless_purges(site: &Value) -> Vec<String> {
    let kinds = site["purges_compared"].as_array().into_iter().flatten();
    let line = |kind: &Value| {
        let count = |name: &str| kind[name].as_u64().unwrap_or(0);
        let (pages, unchanged) = (count("pages"), count("unchanged"));
        (unchanged >= NEEDLESS_PAGES && unchanged * 2 > pages).then(|| {
            format!(
                "purges    {}: {unchanged} of {pages} pages that `{}` purged had not changed",
                text(&site["name"]),
                text(&kind["tags"])
            )
        })
    };
    kinds.filter_map(line).collect()
}

/// The number of pages from which needless purges are shown.
const NEEDLESS_PAGES: u64 = 50;

/// The state of a site's scheduled tasks.
fn cron(cron: &Value) -> String {
    if cron.is_null() {
        return "off".to_owned();
    }
    let last = &cron["last"];
    let last = match (last["ok"].as_bool(), last["took_ms"].as_u64()) {
        (Some(true), Some(took)) => format!("ok in {took} ms"),
        (Some(false), _) => format!("failed: {}", text(&last["error"])),
        (Some(true) | None, _) => "not yet".to_owned(),
    };
    match cron["next_in_s"].as_u64() {
        _ if cron["running"] == true => format!("running; the last: {last}"),
        Some(next) => format!("{last}, next in {}", duration(next)),
        None => last,
    }
}

/// The lines for caches that have not accepted all purges of a site.
fn forwarded(site: &Value) -> Vec<String> {
    let targets = site["purge_forward"].as_array().into_iter().flatten();
    let waiting = targets.filter(|one| one["pending"] != 0 || !one["error"].is_null());
    let lines = waiting.map(|one| {
        let error = match (one["error"].as_str(), one["retry_in_s"].as_u64()) {
            (None, _) => String::new(),
            (Some(error), None) => format!(", {error}"),
            (Some(error), Some(pause)) => format!(", {error}, next attempt in {pause}s"),
        };
        format!(
            "forward   {}: {} purges wait for {}{error}",
            text(&site["name"]),
            one["pending"],
            text(&one["target"])
        )
    });
    lines.collect()
}

/// The line about the cluster; `None` without one.
fn cluster(cluster: &Value) -> Option<String> {
    let is_connected = cluster["connected"].as_bool()?;
    let members = cluster["members"].as_array().cloned().unwrap_or_default();
    let present = members.iter().filter(|member| member["present"] == true);
    let state = if is_connected {
        String::new()
    } else {
        format!(", not connected: {}", text(&cluster["error"]))
    };
    let pages = if cluster["stored_pages_used"] == true {
        ""
    } else {
        ", stored pages are not used"
    };
    let unsent = match cluster["purges_unsent"].as_u64() {
        None | Some(0) => String::new(),
        Some(count) => format!(", {count} purges wait"),
    };
    let shared = match (
        cluster["pages"]["hits"].as_u64(),
        &cluster["pages"]["paused"],
    ) {
        (None, _) => String::new(),
        (Some(_), Value::Bool(true)) => {
            ", no page is shared: the engine fails or is slow".to_owned()
        }
        (Some(hits), _) => format!(", {hits} pages of other nodes used"),
    };
    Some(format!(
        "cluster   {} of {} other nodes present{state}{pages}{unsent}{shared}",
        present.count(),
        members.len()
    ))
}

/// The line about the disk cache; `None` without one.
fn disk(disk: &Value) -> Option<String> {
    let state = disk["state"].as_str()?;
    let state = match (state, disk["reason"].as_str()) {
        ("storing", _) => String::new(),
        (state, None) => format!(", {state}"),
        (state, Some(reason)) => format!(", {state}: {reason}"),
    };
    let purges = match disk["purges_lost_reason"].as_str() {
        None => String::new(),
        Some(reason) => format!(", cannot write purges: {reason}"),
    };
    Some(format!(
        "disk      {} of {} in {} pages, {} evicted{state}{purges}",
        size(&disk["bytes"]),
        size(&disk["limit"]),
        disk["entries"],
        disk["evictions"]
    ))
}

/// Prints text to stdout unchanged.
pub fn verbatim(text: &str) {
    let _ = write!(std::io::stdout().lock(), "{text}");
}

/// Prints one line to stdout.
pub fn line(text: &str) {
    // `galley status | head -1` closes the pipe, which is not an error.
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

fn upstream(upstream: &UpstreamConfig) -> &'static str {
    match upstream {
        UpstreamConfig::Php(_) => "php",
        UpstreamConfig::Managed => "php managed",
        UpstreamConfig::Program(_) => "program managed",
        UpstreamConfig::Http(_) => "http",
        UpstreamConfig::Files => "files",
    }
}

/// A text, or `-`.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn audited_pages_of_the_week_are_counted() {
        let site =
            json!({ "name": "a", "audit": { "week": { "same": 95, "varies": 3, "changed": 2 } } });
        let wanted = "audit     a: checked 100 pages this week, 2 were out of date, 3 vary";
        assert_eq!(audits(&site).as_deref(), Some(wanted));
        assert_eq!(audits(&json!({ "name": "old" })), None);
    }

    #[test]
    fn fragments_that_cannot_be_replaced_are_listed() {
        let site = json!({
            "name": "a.test",
            "fragments_switched_off": ["widget/quote-2", "core/rss"],
            "fragments_failed": ["widget/map-3"],
        });
        let lines = fragments(&site);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains("a.test: widget/quote-2, core/rss changes without a purge"));
        assert!(lines[1].contains("widget/map-3 could not be rendered without its page"));
        let fine =
            json!({ "name": "a.test", "fragments_switched_off": [], "fragments_failed": [] });
        assert!(fragments(&fine).is_empty() && fragments(&json!({ "name": "old" })).is_empty());
    }
}
