//! Metrics about upstreams: slots, queues, classes, servers.
//!
//! There is one series for each upstream of a site. If a site has several, they are labeled with the address of the first server.

use super::families;
use super::text::{MetricRow, Text};
use galley_upstream::ServerEligibility::{Paused, Up};
use galley_upstream::{BalancedServer, ClassCounts, ServerEligibility, UpstreamStats};

type UpstreamRows<'g> = [(&'g str, &'g UpstreamStats)];

/// Writes the metrics of all upstreams.
pub(super) fn metrics(rows: &UpstreamRows<'_>, text: &mut Text) {
    slots(rows, text);
    classes(rows, text);
    servers(rows, text);
}

fn slots(rows: &UpstreamRows<'_>, text: &mut Text) {
    let rows = rows.iter().map(|(site, stats)| MetricRow {
        labels: [("site", *site), ("upstream", first(stats))],
        of: *stats,
    });
    text.rows(
        &rows.collect::<Vec<_>>(),
        &[
            (families::UPSTREAM_SLOTS, |of| of.load().limit as u64),
            (families::UPSTREAM_SLOTS_LIMIT, |of| of.load().most as u64),
            (families::UPSTREAM_IDLE, |of| of.load().idle as u64),
            (families::UPSTREAM_PROMOTED, |of| of.promoted()),
        ],
    );
}

fn classes(rows: &UpstreamRows<'_>, text: &mut Text) {
    let rows = rows.iter().flat_map(|(site, stats)| {
        stats.classes().map(|counts| MetricRow {
            labels: [
                ("site", *site),
                ("upstream", first(stats)),
                ("class", counts.class.word()),
            ],
            of: counts,
        })
    });
    let rows: Vec<MetricRow<'_, ClassCounts, 3>> = rows.collect();
    text.rows(
        &rows,
        &[
            (families::UPSTREAM_ADMITTED, |of| of.admitted),
            (families::UPSTREAM_REJECTED, |of| of.rejected),
        ],
    );
}

fn servers(rows: &UpstreamRows<'_>, text: &mut Text) {
    let rows = rows.iter().flat_map(|(site, stats)| {
        stats.servers().iter().map(|server| MetricRow {
            labels: [
                ("site", *site),
                ("upstream", first(stats)),
                ("server", server.state.address.as_str()),
            ],
            of: server,
        })
    });
    text.rows(
        &rows.collect::<Vec<_>>(),
        &[
            (families::UPSTREAM_UP, |one| is(one, Up)),
            (families::UPSTREAM_PAUSED, |one| is(one, Paused)),
            (families::UPSTREAM_PAUSES, |one| one.state.pauses()),
            (families::SERVER_IN_FLIGHT, |one| {
                one.state.in_flight() as u64
            }),
            (families::SERVER_REQUESTS, |one| one.state.requests()),
            (families::SERVER_FAILURES, |one| one.state.failures()),
        ],
    );
}

fn is(server: &BalancedServer, eligibility: ServerEligibility) -> u64 {
    u64::from(server.state.eligibility() == eligibility)
}

fn first(stats: &UpstreamStats) -> &str {
    stats
        .servers()
        .first()
        .map_or("", |server| &server.state.address)
}
