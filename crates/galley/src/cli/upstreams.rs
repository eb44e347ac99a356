//! The upstreams in `galley status`: those with problems.

use serde_json::Value;

use galley_operator::show::{duration, text};

/// The lines about upstreams of the sites that are paused or have fewer slots than the maximum.
pub(super) fn lines(status: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for site in items(&status["sites"]) {
        let name = text(&site["name"]);
        for upstream in items(&site["upstreams"]) {
            let servers = items(&upstream["servers"]);
            lines.extend(servers.iter().filter_map(|server| unused(name, server)));
            let (slots, most) = (&upstream["slots"], &upstream["slots_most"]);
            if slots.as_u64() < most.as_u64() {
                let waiting = &upstream["waiting"];
                lines.push(format!(
                    "{name}: currently {slots} of {most} slots, because more do not increase throughput, or it has just recovered; {waiting} waiting"
                ));
            }
        }
    }
    lines
}

/// Whether no server of some upstream can be connected to.
pub(super) fn is_cut_off(status: &Value) -> bool {
    let sites = items(&status["sites"]);
    let mut upstreams = sites.iter().flat_map(|site| items(&site["upstreams"]));
    upstreams.any(|upstream| {
        let servers = items(&upstream["servers"]);
        !servers.is_empty()
            && servers
                .iter()
                .all(|server| server["connect_error"].is_string())
    })
}

/// The line for a server that gets no requests or takes no connections; `None` for other servers.
fn unused(site: &str, server: &Value) -> Option<String> {
    let address = text(&server["address"]);
    let since = duration(server["since_s"].as_u64().unwrap_or(0));
    let error = server["connect_error"].as_str().map(|error| {
        let remedy = text(&server["connect_remedy"]);
        format!("cannot connect to {address}: {error}; {remedy}")
    });
    let state = match text(&server["state"]) {
        "paused" => format!("{address} has not answered for {since} and is tried now and then"),
        "down" => {
            format!("{address} has failed its health checks for {since} and gets no requests")
        }
        _ => return error.map(|error| format!("{site}: {error}")),
    };
    let error = error.map_or_else(String::new, |error| format!(": {error}"));
    Some(format!("{site}: {state}{error}"))
}

fn items(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}
