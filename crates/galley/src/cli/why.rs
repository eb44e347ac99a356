//! `galley why`: the explanation of a request, for people.
//!
//! First what would happen and why; then how it comes to that, a section for each step. Everything comes from the running
//! server; this file only lays it out.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::ask::response;
use super::options::WhyOptions;
use super::outcome::{complain, fail};
use super::show::{line, text};
use super::{ask, show};

/// Asks and prints.
pub(super) fn why(options: &WhyOptions) -> ExitCode {
    let mut headers = Vec::with_capacity(options.headers.len());
    for header in &options.headers {
        let Some((name, value)) = header.split_once(':') else {
            // Not repeated: it may be the value of a cookie whose name was forgotten.
            return fail("a header has no `:`: write -H 'Name: value'");
        };
        headers.push((name.trim(), value.trim()));
    }
    let admin = match ask::admin(&options.admin) {
        Ok(admin) => admin,
        Err(ask::AdminError::Config(complaints)) => return complain(&complaints),
        Err(trouble) => return fail(&trouble.to_string()),
    };
    let question = json!({
        "url": options.url, "method": options.method, "headers": headers, "client": options.from,
        "site": options.site,
    });
    response(admin.post("/why", &question), |value| {
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
    row(
        "site",
        &format!(
            "{}, by the host `{}`{}, preset {}",
            text(&site["name"]),
            text(&site["host_pattern"]),
            match site["listener"].as_str() {
                Some(listener) => format!(" at {listener}"),
                None => String::new(),
            },
            text(&site["preset"])
        ),
    );
    row("path", text(&request["path"]));
    row("query", text(&request["query"]));
    if let Some(dropped) = request["dropped_query"].as_str() {
        row("dropped", &format!("{dropped} (makes no difference)"));
    }
    for cookie in items(&value["cookies"]) {
        row(
            "cookie",
            &format!(
                "{}: {}, by {}",
                text(&cookie["name"]),
                text(&cookie["class"]),
                text(&cookie["by"])
            ),
        );
    }
    row("rule", &rule(&value["rule"]));
    row("access", &access(&value["access"]));
    let gate = &value["gate"];
    let state = match gate["why"].as_str() {
        None => "yes".to_owned(),
        Some(why) => format!("no ({why})"),
    };
    row(
        "cacheable",
        &format!("{state}: {}", text(&gate["sentence"])),
    );
    row("key", &key(&value["key"]));
}

fn rule(rule: &Value) -> String {
    if rule.is_null() {
        return "none applies".to_owned();
    }
    let mut says = vec![format!(
        "number {}, `{}`",
        rule["number"],
        text(&rule["path"])
    )];
    if let Some(cache) = rule["cache"].as_bool() {
        says.push(format!("cache = {cache}"));
    }
    if let Some(ttl) = rule["ttl_s"].as_u64() {
        says.push(format!("ttl = {ttl} s"));
    }
    let ignored: Vec<&str> = items(&rule["ignore"]).map(text).collect();
    if !ignored.is_empty() {
        says.push(format!("ignore {}", ignored.join(", ")));
    }
    if rule["upstream"] == true {
        says.push("an upstream of its own".to_owned());
    }
    says.join("; ")
}

fn access(access: &Value) -> String {
    let barred = &access["barred"];
    if let Some(option) = barred["option"].as_str() {
        return format!("barred: `{option}` of {}", text(&barred["by"]));
    }
    let mut says = vec![format!("open to {}", text(&access["client"]))];
    for limit in items(&access["limits"]) {
        says.push(format!(
            "`{}` of {}: {}, {} at once",
            text(&limit["option"]),
            text(&limit["by"]),
            text(&limit["rate"]),
            limit["burst"]
        ));
    }
    if let Some(by) = access["password"].as_str() {
        says.push(format!("with a password, by {by}"));
    }
    if let Some(check) = access["body"].as_str() {
        says.push(format!("its body is checked for {check}"));
    }
    says.join("; ")
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
    }
    let reason = &value["not_stored"];
    for cookie in items(&reason["cookies"]) {
        row("sets", &format!("the cookie {}", text(cookie)));
    }
    for field in items(&reason["fields"]) {
        row("says", &format!("{}: {}", text(&field[0]), text(&field[1])));
    }
    let lately = &value["not_stored_lately"];
    if let Some(why) = lately["why"].as_str() {
        row(
            "lately",
            &format!("not stored {} s ago: {why}", lately["ago_s"]),
        );
    }
    let purges = &value["purges"];
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
    let standing = match text(&entry["standing"]) {
        "valid" => "not purged",
        "soft-purged" => "soft-purged: stale",
        "purged" => "purged: no longer served",
        other => other,
    };
    let kind = match text(&entry["kind"]) {
        "page" => "a page",
        _ => "a hit-for-pass object",
    };
    row(
        "stored",
        &format!(
            "{kind}, status {}, {} bytes, {standing}",
            entry["status"], entry["bytes"]
        ),
    );
    row(
        "age",
        &format!(
            "{} s of {} s, {} s left; then stale for {} s during a refresh, {} s on errors",
            entry["age_s"],
            entry["lifetime_s"],
            entry["left_s"],
            entry["stale_while_revalidate_s"],
            entry["stale_if_error_s"]
        ),
    );
    row(
        "hits",
        &format!(
            "{}; takes {} bytes of memory",
            entry["hits"], entry["memory_bytes"]
        ),
    );
    let tags: Vec<&str> = items(&entry["tags"]).map(text).collect();
    row(
        "tags",
        if tags.is_empty() {
            "none".to_owned()
        } else {
            tags.join(" ")
        }
        .as_str(),
    );
    for part in items(&entry["fragments"]) {
        let has = |property: &str| part[property] == true;
        let state = if has("switched_off") {
            "changes without a purge, so every purge purges the page"
        } else if has("failed") {
            "could not be rendered without its page, so a purge of it purges the page"
        } else if has("shared") {
            "shared: a purge of it is patched"
        } else {
            "belongs to the page"
        };
        row("part", &format!("{}: {state}", text(&part["label"])));
    }
    for include in items(&entry["includes"]) {
        row(
            "include",
            &format!("{}: {} bytes", text(&include["src"]), include["bytes"]),
        );
    }
    for field in items(&entry["fields"]) {
        row(
            "field",
            &format!("{}: {}", text(&field[0]), text(&field[1])),
        );
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
    let load = &upstream["load"];
    let servers: Vec<String> = items(&load["servers"])
        .map(|server| {
            format!(
                "{} {}",
                text(&server["address"]),
                state(text(&server["state"]))
            )
        })
        .collect();
    row("servers", &servers.join(", "));
    row(
        "queue",
        &format!(
            "as {}; {} in progress in {} slots (at most {}), {} waiting",
            text(&upstream["class"]),
            load["in_flight"],
            load["slots"],
            load["slots_most"],
            load["waiting"]
        ),
    );
    row("line", text(&upstream["line"]));
    for field in items(&upstream["fields"]) {
        row(
            "field",
            &format!("{}: {}", text(&field[0]), text(&field[1])),
        );
    }
    if let Some(script) = upstream["script"].as_str() {
        row("script", script);
    }
}

/// What a server's state means for this request.
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

/// What may come from the network must not steer the terminal.
fn plain(value: &str) -> String {
    value
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}
