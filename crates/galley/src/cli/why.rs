//! `galley why`: the explanation of a request, for people.
//!
//! The result and its reason are first, followed by a section for each step of the decision. All data comes from the running
//! server; this file only formats it.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::options::WhyOptions;
use galley_operator::ask::response;
use galley_operator::outcome::fail;
use galley_operator::show::{line, text};
use galley_operator::{ask, figures, show};

/// Queries the server and prints the explanation.
pub(super) fn why(options: &WhyOptions) -> ExitCode {
    let mut headers = Vec::with_capacity(options.headers.len());
    for header in &options.headers {
        let Some((name, value)) = header.split_once(':') else {
            // The header is not printed: it may be the value of a cookie whose name was omitted by mistake.
            return fail("a header has no `:`: write -H 'Name: value'");
        };
        headers.push((name.trim(), value.trim()));
    }
    let question = json!({
        "url": options.url, "method": options.method, "headers": headers, "client": options.from,
        "site": options.site,
    });
    let explained = ask::admin(&options.admin).and_then(|admin| admin.post("/why", &question));
    response(explained, |value| {
        if options.json {
            show::data(value);
        } else {
            print(value);
        }
    })
}

fn print(value: &Value) {
    let now = &value["now"];
    let word = match now["why"].as_str() {
        Some(why) => format!("{}: {why}", text(&now["what"])),
        None => text(&now["what"]).to_owned(),
    };
    line(&plain(text(&value["url"])));
    row("now", &format!("{} ({word})", text(&now["sentence"])));
    if let Some(advice) = value["advice"].as_object() {
        row("why", text(&advice["why"]));
        row(
            "do",
            advice["do"]
                .as_str()
                .unwrap_or("nothing: this is as intended"),
        );
    }
    request(value);
    entry(value);
    file(value);
    upstream(&now["upstream"]);
}

fn request(value: &Value) {
    let (request, site) = (&value["request"], &value["site"]);
    if request.is_null() {
        return;
    }
    section("request");
    row("method", text(&request["method"]));
    row("site", &self::site(site));
    row("path", text(&request["path"]));
    row("query", text(&request["query"]));
    if let Some(dropped) = request["dropped_query"].as_str() {
        row("dropped", &format!("{dropped} (makes no difference)"));
    }
    for cookie in items(&value["cookies"]) {
        let [name, class, by] = ["name", "class", "by"].map(|key| text(&cookie[key]));
        row("cookie", &format!("{name}: {class}, by {by}"));
    }
    row("rule", &rule(&value["rule"]));
    row("access", &access(&value["access"]));
    row("cacheable", &cacheable(&value["gate"]));
    row("key", &key(&value["key"]));
    facets(&value["facets"]);
}

/// What was learned about the parameters of the path.
fn facets(facets: &Value) {
    if facets.is_null() {
        return;
    }
    let parameters = items(&facets["parameters"]).map(|one| {
        let (name, values) = (text(&one["name"]), &one["values"]);
        let (same, different) = (&one["same"], &one["different"]);
        format!("`{name}` ({values} values; same page {same} times, another {different} times)")
    });
    row(
        "facets",
        &format!(
            "about {} combinations of {}",
            facets["combinations"],
            parameters.collect::<Vec<_>>().join(", ")
        ),
    );
    if let Some(proposal) = facets["proposal"].as_object() {
        let (line, compared) = (text(&proposal["line"]), &proposal["compared"]);
        row(
            "proposal",
            &format!("`{line}`: none of {compared} pages that were compared changed with it"),
        );
    }
}

fn cacheable(gate: &Value) -> String {
    let state = match gate["why"].as_str() {
        None => "yes".to_owned(),
        Some(why) => format!("no ({why})"),
    };
    format!("{state}: {}", text(&gate["sentence"]))
}

fn site(site: &Value) -> String {
    let listener = site["listener"].as_str();
    let listener = listener.map_or_else(String::new, |listener| format!(" at {listener}"));
    format!(
        "{}, by the host `{}`{listener}, preset {}",
        text(&site["name"]),
        text(&site["host_pattern"]),
        text(&site["preset"])
    )
}

fn rule(rule: &Value) -> String {
    if rule.is_null() {
        return "none applies".to_owned();
    }
    let mut notes = vec![format!(
        "number {}, `{}`",
        rule["number"],
        text(&rule["path"])
    )];
    let countries: Vec<&str> = items(&rule["countries"]).map(text).collect();
    if !countries.is_empty() {
        notes.push(format!("for clients from {}", countries.join(", ")));
    }
    if let Some(cache) = rule["cache"].as_bool() {
        notes.push(format!("cache = {cache}"));
    }
    if let Some(ttl) = rule["ttl_s"].as_u64() {
        notes.push(format!("ttl = {}", figures::duration(ttl)));
    }
    let ignored: Vec<&str> = items(&rule["ignore"]).map(text).collect();
    if !ignored.is_empty() {
        notes.push(format!("ignore {}", ignored.join(", ")));
    }
    if rule["upstream"] == true {
        notes.push("an upstream of its own".to_owned());
    }
    notes.join("; ")
}

fn access(access: &Value) -> String {
    let barred = &access["barred"];
    if let Some(option) = barred["option"].as_str() {
        return format!("barred: `{option}` of {}", text(&barred["by"]));
    }
    let mut notes = vec![format!("open to {}", text(&access["client"]))];
    for limit in items(&access["limits"]) {
        notes.push(format!(
            "`{}` of {}: {}, {} at once",
            text(&limit["option"]),
            text(&limit["by"]),
            text(&limit["rate"]),
            limit["burst"]
        ));
    }
    if let Some(by) = access["password"].as_str() {
        notes.push(format!("with a password, by {by}"));
    }
    if let Some(check) = access["body"].as_str() {
        notes.push(format!("its body is checked for {check}"));
    }
    notes.join("; ")
}

fn key(key: &Value) -> String {
    let query = key["query"].as_str();
    let query = query.map_or_else(String::new, |query| format!("?{query}"));
    let vary: Vec<&str> = items(&key["vary_cookies"]).map(text).collect();
    let vary = match vary.as_slice() {
        [] => String::new(),
        names => format!(", cookies {}", names.join(", ")),
    };
    format!(
        "{}://{}{}{query}, {} for {} devices{vary}, site {}",
        text(&key["scheme"]),
        text(&key["authority"]),
        text(&key["path"]),
        text(&key["accept"]),
        text(&key["device"]),
        key["site"]
    )
}

fn entry(value: &Value) {
    let entry = &value["entry"];
    if value["request"].is_null() {
        return;
    }
    section("cache");
    if entry.is_null() {
        row("stored", "nothing is stored under this key");
    } else {
        stored(entry);
        parts(entry);
    }
    let reason = &value["not_stored"];
    for cookie in items(&reason["cookies"]) {
        row("sets", &format!("the cookie {}", text(cookie)));
    }
    fields("says", &reason["fields"]);
    let lately = &value["last_not_stored"];
    if let Some(why) = lately["why"].as_str() {
        let ago = &lately["ago_s"];
        row("lately", &format!("not stored {ago} s ago: {why}"));
    }
    purges(&value["purges"]);
}

fn purges(purges: &Value) {
    let last = match purges["touching"].as_object() {
        None => "none of them matches this page".to_owned(),
        Some(order) => format!(
            "the latest that matches this page: number {}, {}, by {}",
            order["number"],
            text(&order["strength"]),
            text(&order["kind"])
        ),
    };
    row(
        "purges",
        &format!("{} since the start; {last}", purges["published"]),
    );
}

fn stored(entry: &Value) {
    let validity = validity(text(&entry["validity"]));
    let kind = match text(&entry["kind"]) {
        "page" => "a page",
        _ => "a hit-for-pass object",
    };
    row(
        "stored",
        &format!(
            "{kind}, status {}, {} bytes, {validity}",
            entry["status"], entry["bytes"]
        ),
    );
    row("age", &lifetimes(entry));
    let (hits, bytes) = (&entry["hits"], &entry["memory_bytes"]);
    row("hits", &format!("{hits}; takes {bytes} bytes of memory"));
    if let Some(seconds) = entry["audited_ago_s"].as_u64() {
        row("audited", &format!("{} ago", figures::duration(seconds)));
    }
}

fn lifetimes(entry: &Value) -> String {
    let time = |name: &str| figures::duration(entry[name].as_u64().unwrap_or(0));
    let left = match entry["left_s"].as_i64() {
        Some(over) if over < 0 => format!("over for {}", figures::duration(over.unsigned_abs())),
        _ => format!("{} left", time("left_s")),
    };
    format!(
        "{} of {}, {left}; then stale for {} during a refresh, {} on errors",
        time("age_s"),
        time("lifetime_s"),
        time("stale_while_revalidate_s"),
        time("stale_if_error_s")
    )
}

fn validity(word: &str) -> &str {
    match word {
        "valid" => "not purged",
        "soft-purged" => "soft-purged: stale",
        "purged" => "purged: no longer served",
        other => other,
    }
}

/// Prints the tags, fragments, includes and fields of an entry.
fn parts(entry: &Value) {
    let tags: Vec<&str> = items(&entry["tags"]).map(text).collect();
    let tags = Some(tags.join(" ")).filter(|tags| !tags.is_empty());
    row("tags", tags.as_deref().unwrap_or("none"));
    for part in items(&entry["fragments"]) {
        row("part", &format!("{}: {}", text(&part["label"]), fate(part)));
    }
    for include in items(&entry["includes"]) {
        row(
            "include",
            &format!("{}: {} bytes", text(&include["src"]), include["bytes"]),
        );
    }
    fields("field", &entry["fields"]);
}

/// The effect of purging a part of the page.
fn fate(part: &Value) -> &'static str {
    let has = |property: &str| part[property] == true;
    if has("switched_off") {
        "changes without a purge, so every purge purges the page"
    } else if has("failed") {
        "could not be rendered without its page, so a purge of it purges the page"
    } else if has("shared") {
        "shared: a purge of it is patched"
    } else {
        "belongs to the page"
    }
}

fn fields(name: &str, fields: &Value) {
    for field in items(fields) {
        row(name, &format!("{}: {}", text(&field[0]), text(&field[1])));
    }
}

fn file(value: &Value) {
    let file = &value["file"];
    let means = match text(&file["kind"]) {
        "file" => format!(
            "a file, {}, {} bytes{}",
            text(&file["content_type"]),
            file["bytes"],
            match file["looked_at_ago_ms"].as_u64() {
                Some(ms) => format!(", in memory, checked {ms} ms ago"),
                None => String::new(),
            }
        ),
        "script" => format!("the script {}", text(&file["path"])),
        "redirect" => format!("a folder; its address is {}", text(&file["path"])),
        "denied" => "a name that is never sent, or that a .htaccess denies".to_owned(),
        "missing" => "nothing".to_owned(),
        "failed" => format!("not readable: {}", text(&file["error"])),
        "no-root" => "nothing: the site has no root".to_owned(),
        _ => return,
    };
    section("folder");
    row("path means", &means);
}

fn upstream(upstream: &Value) {
    if upstream.is_null() {
        return;
    }
    section("upstream");
    let form = match text(&upstream["form"]) {
        "trimmed" => {
            "trimmed to what the cache key contains, so that the response is the same for all visitors"
        }
        _ => "complete, as the client sent it",
    };
    row(
        "request",
        &format!("to {}, {form}", text(&upstream["kind"])),
    );
    load(&upstream["load"], text(&upstream["class"]));
    row("line", text(&upstream["line"]));
    fields("field", &upstream["fields"]);
    if let Some(script) = upstream["script"].as_str() {
        row("script", script);
    }
}

fn load(load: &Value, class: &str) {
    let servers = items(&load["servers"]).map(|server| {
        let [address, word] = ["address", "state"].map(|key| text(&server[key]));
        format!("{address} {}", state(word))
    });
    row("servers", &servers.collect::<Vec<_>>().join(", "));
    row(
        "queue",
        &format!(
            "as {class}; {} in progress in {} slots (at most {}), {} waiting",
            load["in_flight"], load["slots"], load["slots_max"], load["waiting"]
        ),
    );
}

/// The effect of a server's state on this request.
fn state(word: &str) -> &str {
    match word {
        "paused" => {
            "(paused because it does not respond: clients get the stale page or 503; Galley tries it with single requests)"
        }
        "down" => "(down: it fails its health checks and gets no requests)",
        _ => "(responds)",
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn section(name: &str) {
    line("");
    line(name);
}

fn row(name: &str, value: &str) {
    line(&format!("  {name:<10}  {}", plain(value)));
}

/// Replaces control characters: text from the network must not control the terminal.
fn plain(value: &str) -> String {
    value
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}
