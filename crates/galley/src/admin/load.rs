//! Metrics of the upstreams: slots, queues, classes, servers.
//!
//! One series for each upstream of a site; a site with several tells them apart by the address of the first server.

use super::text::{MetricKind, Text};
use crate::upstream::{BalancedServer, ClassCounts, Load, ServerStanding, UpstreamStats};

/// Writes the families of all upstreams; `rows` are sites with theirs.
pub(super) fn metrics<'g>(
    rows: impl Iterator<Item = (&'g str, &'g UpstreamStats)>,
    text: &mut Text,
) {
    let rows: Vec<(&str, &UpstreamStats)> = rows.collect();
    slots(&rows, text);
    classes(&rows, text);
    promoted(&rows, text);
    servers(&rows, text);
}

fn slots(rows: &[(&str, &UpstreamStats)], text: &mut Text) {
    type Of = fn(&Load) -> usize;
    let families: [(&str, Of, &str); 3] = [
        (
            "galley_upstream_slots",
            |load| load.limit,
            "concurrent requests to an upstream, as far as more make it faster",
        ),
        (
            "galley_upstream_slots_limit",
            |load| load.most,
            "maximum of concurrent requests to an upstream",
        ),
        (
            "galley_upstream_idle_connections",
            |load| load.idle,
            "idle connections to an upstream",
        ),
    ];
    for (name, of, help) in families {
        text.family(name, MetricKind::Gauge, help);
        for (site, stats) in rows {
            let labels = [("site", *site), ("upstream", first(stats))];
            text.sample(name, &labels, of(&stats.load()) as u64);
        }
    }
}

fn classes(rows: &[(&str, &UpstreamStats)], text: &mut Text) {
    type Of = fn(&ClassCounts) -> u64;
    let families: [(&str, Of, &str); 2] = [
        (
            "galley_upstream_admitted_total",
            |of| of.admitted,
            "requests that got a slot at an upstream, by class",
        ),
        (
            "galley_upstream_rejected_total",
            |of| of.rejected,
            "requests that timed out in the queue or found it full, by class",
        ),
    ];
    for (name, of, help) in families {
        text.family(name, MetricKind::Counter, help);
        for (site, stats) in rows {
            for class in stats.classes() {
                let labels = [
                    ("site", *site),
                    ("upstream", first(stats)),
                    ("class", class.class.word()),
                ];
                text.sample(name, &labels, of(&class));
            }
        }
    }
}

fn promoted(rows: &[(&str, &UpstreamStats)], text: &mut Text) {
    let name = "galley_upstream_promoted_total";
    let help =
        "requests that moved to a class with more slots, because a visitor requested the same page";
    text.family(name, MetricKind::Counter, help);
    for (site, stats) in rows {
        let labels = [("site", *site), ("upstream", first(stats))];
        text.sample(name, &labels, stats.promoted());
    }
}

fn servers(rows: &[(&str, &UpstreamStats)], text: &mut Text) {
    type Of = fn(&BalancedServer) -> u64;
    let families: [(&str, MetricKind, Of, &str); 6] = [
        (
            "galley_upstream_up",
            MetricKind::Gauge,
            |server| u64::from(server.state.standing() == ServerStanding::Up),
            "1 while a server passes its health checks and responds",
        ),
        (
            "galley_upstream_paused",
            MetricKind::Gauge,
            |server| u64::from(server.state.standing() == ServerStanding::Paused),
            "1 while Galley sends a server no requests because it does not respond",
        ),
        (
            "galley_upstream_pauses_total",
            MetricKind::Counter,
            |server| server.state.pauses(),
            "times that Galley stopped sending requests to a server",
        ),
        (
            "galley_upstream_server_in_flight",
            MetricKind::Gauge,
            |server| server.state.in_flight() as u64,
            "requests in progress at a server, of all sites",
        ),
        (
            "galley_upstream_server_requests_total",
            MetricKind::Counter,
            |server| server.state.requests(),
            "requests that Galley sent to a server",
        ),
        (
            "galley_upstream_server_failures_total",
            MetricKind::Counter,
            |server| server.state.failures(),
            "connections that failed, responses that did not come, and 502, 503 or 504 that sent a request to another server",
        ),
    ];
    for (name, kind, of, help) in families {
        text.family(name, kind, help);
        for (site, stats) in rows {
            for server in stats.servers() {
                let labels = [
                    ("site", *site),
                    ("upstream", first(stats)),
                    ("server", server.state.address.as_str()),
                ];
                text.sample(name, &labels, of(server));
            }
        }
    }
}

fn first(stats: &UpstreamStats) -> &str {
    stats
        .servers()
        .first()
        .map_or("", |server| &server.state.address)
}
