//! `GET /metrics`: counters in the text format of Prometheus (version 0.0.4).
//!
//! Written by hand: the counters are sums of plain arrays that cores own, read when asked for, and a metrics library would
//! want to own them, with atomic additions on every core's way. Names and labels do not change once released. Reasons
//! that never happened are left out; outcomes and histograms are always there.
//! A site's token gets its site's families only. What no site was found for stands under the site `-`.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use axum::extract::State as Extract;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use galley_cache::private::{PrivateCounts, PrivateStore};

use super::AdminState;
use super::auth::Asker;
use super::php;
use super::site_counters::{ProcessCounters, SiteCounters};
use super::target::{SiteSelection, View, target};
use super::text::{MetricKind, Text};
use super::{bodies, certificates, cluster, disk, http2, load, purge_forward, status, tls};
use crate::fetch::cron::CronState;
use crate::request::Site;
use crate::sys;
use crate::telemetry::access::AccessLog;
use crate::telemetry::counters::CounterReader;
use crate::telemetry::totals::{Histogram, Totals};

/// Handles `GET /metrics`.
pub(super) async fn metrics(Extract(state): Extract<Arc<AdminState>>, asker: Asker) -> Response {
    let target = match target(&state, &asker, None) {
        Ok(target) => target,
        Err(reply) => return reply.into_response(),
    };
    let descriptors = match target.view {
        View::Server => tokio::task::spawn_blocking(sys::descriptors).await.ok(),
        View::Sites => None,
    };
    let mut text = Text::default();
    if target.view == View::Server {
        server(&state, &mut text);
    }
    if let Some((open, limit)) = descriptors {
        text.family(
            "galley_descriptors",
            MetricKind::Gauge,
            "open file descriptors",
        );
        text.sample("galley_descriptors", &[], open);
        text.family(
            "galley_descriptors_limit",
            MetricKind::Gauge,
            "limit of open file descriptors",
        );
        text.sample("galley_descriptors_limit", &[], limit);
    }
    sites(&rows(&state, &target), &mut text);
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text.into_string()).into_response()
}

fn rows(state: &AdminState, target: &SiteSelection) -> Vec<SiteCounters> {
    let name = |site: &Arc<Site>| {
        let same = state.sites.iter().filter(|s| s.core.name == site.core.name);
        // Two sites may have one host on two listeners, and a series may stand here once only.
        match same.count() {
            0 | 1 => site.core.name.clone(),
            _ => format!("{}#{}", site.core.name, site.number),
        }
    };
    let mut rows: Vec<SiteCounters> = target
        .sites
        .iter()
        .map(|site| SiteCounters {
            site: name(site),
            totals: CounterReader::site(&state.counters, Some(site.row)),
            own: Some(ProcessCounters {
                purges: site.core.purges.given(),
                healed: site.refreshed_pages.refreshed(),
                fills: site.core.counters.fills(),
                switched_off: site.core.fragments.switched_off().len(),
                failed: site.core.fragments.failed().len(),
                private: site.core.private.as_deref().map(PrivateStore::counts),
                upstreams: site.upstream_stats(),
                cron: site.cron.as_ref().map(|_| site.core.cron.state()),
            }),
            certificates: certificates::of(state, site),
            php: site.php.clone(),
            certificate_ends: tls::certificate_ends(&state.services, site),
        })
        .collect();
    if target.view == View::Server {
        rows.push(SiteCounters {
            site: "-".to_owned(),
            totals: CounterReader::site(&state.counters, None),
            own: None,
            certificates: Vec::new(),
            php: None,
            certificate_ends: None,
        });
    }
    rows
}

fn server(state: &AdminState, text: &mut Text) {
    let usage = state.services.memory.usage();
    let (in_flight, waiting) = status::load(&state.fetch_threads);
    text.family(
        "galley_info",
        MetricKind::Gauge,
        "1, with the version as a label",
    );
    text.sample(
        "galley_info",
        &[("version", env!("CARGO_PKG_VERSION"))],
        1_u8,
    );
    let connections = CounterReader::connections(&state.counters);
    let gauges = [
        (
            "uptime_seconds",
            state.services.clock.uptime_s(),
            "seconds since the start",
        ),
        ("connections", connections, "client connections open"),
        (
            "store_entries",
            usage.entries,
            "stored pages and hit-for-pass entries",
        ),
        ("store_bytes", usage.bytes, "bytes of stored pages"),
        (
            "store_reserved_bytes",
            usage.reserved,
            "bytes of stored pages, pages arriving and bodies being sent",
        ),
        (
            "store_limit_bytes",
            usage.limit,
            "memory limit of all of these, in bytes",
        ),
        (
            "upstream_in_flight",
            in_flight as u64,
            "exchanges in progress with upstreams",
        ),
        (
            "upstream_waiting",
            waiting as u64,
            "requests waiting for a slot at an upstream",
        ),
    ];
    for (name, value, help) in gauges {
        let name = format!("galley_{name}");
        text.family(&name, MetricKind::Gauge, help);
        text.sample(&name, &[], value);
    }
    totals(state, text);
    tls::handshakes(state, text);
    bodies::metrics(state, text);
    disk::metrics(state, text);
    cluster::metrics(state, text);
    purge_forward::metrics(state, text);
    http2::metrics(state, text);
}

/// What the server has counted since its start, for all sites together.
fn totals(state: &AdminState, text: &mut Text) {
    let name = "galley_connections_closed_total";
    text.family(
        name,
        MetricKind::Counter,
        "connections closed by Galley, by reason",
    );
    for (why, count) in CounterReader::closed(&state.counters) {
        text.sample(name, &[("why", why)], count);
    }
    let dropped: u64 = state.logs.iter().map(AccessLog::dropped).sum();
    let counters = [
        (
            "store_evictions_total",
            state.services.memory.usage().evictions,
            "entries evicted to make room",
        ),
        (
            "log_lines_dropped_total",
            dropped,
            "access log lines dropped",
        ),
    ];
    for (name, value, help) in counters {
        let name = format!("galley_{name}");
        text.family(&name, MetricKind::Counter, help);
        text.sample(&name, &[], value);
    }
}

fn sites(rows: &[SiteCounters], text: &mut Text) {
    let name = "galley_requests_total";
    text.family(name, MetricKind::Counter, "requests by outcome");
    for row in rows {
        for (outcome, requests, _) in row.totals.outcomes() {
            let labels = [("site", row.site.as_str()), ("outcome", outcome)];
            text.sample(name, &labels, requests);
        }
    }
    let name = "galley_body_bytes_total";
    text.family(
        name,
        MetricKind::Counter,
        "bytes of bodies sent, by outcome",
    );
    for row in rows {
        for (outcome, _, bytes) in row.totals.outcomes() {
            let labels = [("site", row.site.as_str()), ("outcome", outcome)];
            text.sample(name, &labels, bytes);
        }
    }
    reasons(rows, text);
    let name = "galley_misses_collapsed_total";
    text.family(
        name,
        MetricKind::Counter,
        "misses that shared the fetch of another request",
    );
    for row in rows {
        text.sample(name, &[("site", &row.site)], row.totals.collapsed());
    }
    owned(rows, text);
    includes(rows, text);
    members(rows, text);
    tls::certificates(rows, text);
    php::metrics(rows, text);
    certificates::metrics(rows, text);
    upstreams(rows, text);
    cron(rows, text);
    times(
        rows,
        text,
        "galley_request_duration_seconds",
        "from the head of the request to the end of the response",
        Totals::total_time,
    );
    times(
        rows,
        text,
        "galley_upstream_duration_seconds",
        "from the request to the upstream to the head of its response",
        Totals::upstream_time,
    );
}

fn reasons(rows: &[SiteCounters], text: &mut Text) {
    type Of = fn(&Totals) -> Vec<(&'static str, u64)>;
    let families: [(&str, Of, &str); 5] = [
        (
            "galley_misses_total",
            |t| t.misses().collect(),
            "misses by reason",
        ),
        (
            "galley_not_stored_total",
            |t| t.not_stored().collect(),
            "misses that were not stored, by reason",
        ),
        (
            "galley_stale_total",
            |t| t.stale().collect(),
            "stale responses by reason",
        ),
        (
            "galley_passes_total",
            |t| t.passes().collect(),
            "requests that bypassed the cache, by reason",
        ),
        (
            "galley_refused_total",
            |t| t.refused().collect(),
            "refused requests by reason",
        ),
    ];
    for (name, of, help) in families {
        text.family(name, MetricKind::Counter, help);
        for row in rows {
            for (reason, count) in of(&row.totals).into_iter().filter(|(_, count)| *count > 0) {
                text.sample(name, &[("site", &row.site), ("reason", reason)], count);
            }
        }
    }
}

fn upstreams(rows: &[SiteCounters], text: &mut Text) {
    let rows = rows.iter().filter_map(|row| Some((row, row.own.as_ref()?)));
    let gauges = rows.flat_map(|(row, own)| {
        let gauges = own.upstreams.iter();
        gauges.map(|gauge| (row.site.as_str(), gauge.as_ref()))
    });
    load::metrics(gauges, text);
}

fn owned(rows: &[SiteCounters], text: &mut Text) {
    type Of = fn(&ProcessCounters) -> u64;
    let families: [(&str, Of, &str); 7] = [
        ("galley_purges_total", |own| own.purges, "purges published"),
        (
            "galley_pages_refreshed_total",
            |own| own.healed,
            "pages refreshed because they named a generated file that is gone",
        ),
        (
            "galley_fills_total",
            |own| own.fills.begun,
            "pages fetched from the upstream to be stored, refreshes included",
        ),
        (
            "galley_fills_stored_total",
            |own| own.fills.stored,
            "of these, stored",
        ),
        (
            "galley_fills_failed_total",
            |own| own.fills.failed,
            "of these, failed by the upstream",
        ),
        (
            "galley_pages_patched_total",
            |own| own.fills.patched,
            "stored pages whose purged fragments were replaced",
        ),
        (
            "galley_pages_not_patched_total",
            |own| own.fills.patch_failed,
            "stored pages that were generated again, because a purged fragment could not be replaced",
        ),
    ];
    for (name, of, help) in families {
        text.family(name, MetricKind::Counter, help);
        for (row, own) in rows.iter().filter_map(|row| Some((row, row.own.as_ref()?))) {
            text.sample(name, &[("site", &row.site)], of(own));
        }
    }
    let gauges: [(&str, Of, &str); 3] = [
        (
            "galley_fragments_switched_off",
            |own| own.switched_off as u64,
            "parts of pages that change without a purge, so that every purge purges their pages",
        ),
        (
            "galley_fragments_failed",
            |own| own.failed as u64,
            "parts of pages that could not be rendered without their page, so that a purge of them purges their pages",
        ),
        (
            "galley_pages_awaiting_patch",
            |own| own.fills.awaiting_patch,
            "stored pages whose purged fragments are being replaced in the background",
        ),
    ];
    for (name, of, help) in gauges {
        text.family(name, MetricKind::Gauge, help);
        for (row, own) in rows.iter().filter_map(|row| Some((row, row.own.as_ref()?))) {
            text.sample(name, &[("site", &row.site)], of(own));
        }
    }
}

/// Of the sites whose pages have ESI includes.
fn includes(rows: &[SiteCounters], text: &mut Text) {
    let name = "galley_esi_includes_total";
    text.family(
        name,
        MetricKind::Counter,
        "ESI includes of pages: stored, fetched from the upstream, or missing because they failed",
    );
    for (row, own) in rows.iter().filter_map(|row| Some((row, row.own.as_ref()?))) {
        let fills = &own.fills;
        for (result, count) in [
            ("stored", fills.includes_stored),
            ("fetched", fills.includes_fetched),
            ("failed", fills.includes_failed),
        ] {
            text.sample(name, &[("site", &row.site), ("result", result)], count);
        }
    }
}

/// Of the sites whose members get stored pages.
fn members(rows: &[SiteCounters], text: &mut Text) {
    type Of = fn(&PrivateCounts) -> u64;
    let families: [(&str, MetricKind, Of, &str); 4] = [
        (
            "galley_pages_assembled_total",
            MetricKind::Counter,
            |counts| counts.assembled,
            "stored pages that were sent with a member's own fragments in them",
        ),
        (
            "galley_pages_compared_total",
            MetricKind::Counter,
            |counts| counts.compared,
            "pages that were generated for a member and compared with the stored one",
        ),
        (
            "galley_pages_differed_total",
            MetricKind::Counter,
            |counts| counts.differed,
            "of these, those that differed outside of private fragments",
        ),
        (
            "galley_members",
            MetricKind::Gauge,
            |counts| counts.visitors,
            "members and visitors with a cart of whom private fragments are in memory",
        ),
    ];
    for (name, kind, of, help) in families {
        text.family(name, kind, help);
        let own = rows
            .iter()
            .filter_map(|row| Some((row, row.own.as_ref()?.private?)));
        for (row, counts) in own {
            text.sample(name, &[("site", &row.site)], of(&counts));
        }
    }
}

/// Of the sites whose scheduled tasks Galley runs.
fn cron(rows: &[SiteCounters], text: &mut Text) {
    type Of = fn(&CronState) -> u64;
    let last_began = |runs: &CronState| {
        let began = runs.last.map(|last| last.began);
        began.map_or(0, |began| {
            began
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs()
        })
    };
    let families: [(&str, MetricKind, Of, &str); 3] = [
        (
            "galley_cron_runs_total",
            MetricKind::Counter,
            |runs| runs.runs,
            "successful runs of scheduled tasks",
        ),
        (
            "galley_cron_failures_total",
            MetricKind::Counter,
            |runs| runs.failures,
            "failed runs of scheduled tasks",
        ),
        (
            "galley_cron_last_run_timestamp_seconds",
            MetricKind::Gauge,
            last_began,
            "start of the latest run of scheduled tasks, in seconds since 1970; 0: none",
        ),
    ];
    for (name, kind, of, help) in families {
        text.family(name, kind, help);
        for row in rows {
            if let Some(runs) = row.own.as_ref().and_then(|own| own.cron.as_ref()) {
                text.sample(name, &[("site", &row.site)], of(runs));
            }
        }
    }
}

fn times(
    rows: &[SiteCounters],
    text: &mut Text,
    name: &str,
    help: &str,
    of: for<'t> fn(&'t Totals) -> Histogram<'t>,
) {
    text.family(name, MetricKind::Histogram, help);
    let (bucket, sum, count) = (
        format!("{name}_bucket"),
        format!("{name}_sum"),
        format!("{name}_count"),
    );
    for row in rows {
        let histogram = of(&row.totals);
        let site = ("site", row.site.as_str());
        for (bound, below) in histogram.cumulative() {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |us| seconds(us).to_string());
            text.sample(&bucket, &[site, ("le", &bound)], below);
        }
        text.sample(&sum, &[site], seconds(histogram.sum_us()));
        text.sample(&count, &[site], histogram.count());
    }
}

fn seconds(us: u64) -> f64 {
    std::time::Duration::from_micros(us).as_secs_f64()
}

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
