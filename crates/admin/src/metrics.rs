//! `GET /metrics`: counters in the text format of Prometheus (version 0.0.4).
//!
//! The format is written by hand: the counters are sums of plain arrays that front threads own, and are read on request. A metrics
//! library would own them, with atomic additions on every thread. Names and labels do not change once released. Reasons with
//! count zero are omitted; outcomes and histograms are always present.
//!
//! A site's token gets only the metrics of its site. Requests that belong to no site are counted under the site `-`.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use axum::extract::State as Extract;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use galley_cache::memory::MemoryUsage;
use galley_cache::private::PrivateStore;
use galley_policy::audit::AuditResult;

use super::AdminState;
use super::auth::AdminClient;
use super::php;
use super::site_counters::{ProcessCounters, SiteCounters};
use super::target::{AdminView, SiteSelection, target};
use super::text::{MetricFamily, MetricRow, Text};
use super::{
    bodies, certificates, cluster, disk, families, http2, load, purge_forward, status, tls,
};
use galley_purging::SiteDiskCache;
use galley_request::Site;
use galley_request::audit::can_be_audited;
use galley_telemetry::access::AccessLog;
use galley_telemetry::counters::CounterReader;
use galley_telemetry::totals::{Histogram, Totals};

/// Handles `GET /metrics`.
pub(super) async fn metrics(
    Extract(state): Extract<Arc<AdminState>>,
    client: AdminClient,
) -> Response {
    let target = match target(&state, &client, None) {
        Ok(target) => target,
        Err(reply) => return reply.into_response(),
    };
    let descriptors = match target.view {
        AdminView::Server => tokio::task::spawn_blocking(galley_sys::descriptors)
            .await
            .ok(),
        AdminView::Sites => None,
    };
    let mut text = Text::default();
    if target.view == AdminView::Server {
        server(&state, &mut text);
    }
    if let Some((open, limit)) = descriptors {
        text.value(families::DESCRIPTORS, open);
        text.value(families::DESCRIPTORS_LIMIT, limit);
    }
    sites(&rows(&state, &target), &mut text);
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text.into_string()).into_response()
}

fn rows(state: &AdminState, target: &SiteSelection) -> Vec<SiteCounters> {
    let sites = target.sites.iter();
    let mut rows: Vec<SiteCounters> = sites.map(|site| row(state, site)).collect();
    if target.view == AdminView::Server {
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

fn row(state: &AdminState, site: &Arc<Site>) -> SiteCounters {
    SiteCounters {
        site: site.core.name.clone(),
        totals: CounterReader::site(&state.counters, Some(site.row)),
        own: Some(own_counters(state, site)),
        certificates: certificates::of(state, site),
        php: site.php.clone(),
        certificate_ends: tls::certificate_ends(&state.services, site),
    }
}

fn own_counters(state: &AdminState, site: &Site) -> ProcessCounters {
    ProcessCounters {
        memory_bytes: state.services.memory.site_bytes(site.mark),
        disk_bytes: site.core.disk.as_ref().map(SiteDiskCache::bytes),
        purges: site.core.purges.published(),
        healed: site.refreshed_pages.refreshed(),
        audited: can_be_audited(site)
            .then(|| site.core.audits.report(state.services.clock.tick()).totals),
        fills: site.core.counters.fills(),
        switched_off: site.core.fragments.switched_off().len(),
        failed: site.core.fragments.failed().len(),
        private: site.core.private.as_deref().map(PrivateStore::counts),
        objects: state
            .object_caches
            .get(&site.core.name)
            .map(|figures| figures.read()),
        upstreams: site.upstream_stats(),
        cron: site.cron.as_ref().map(|_| site.core.cron.state()),
    }
}

fn server(state: &AdminState, text: &mut Text) {
    let (in_flight, waiting) = status::load(&state.fetch_threads);
    text.family(families::INFO);
    text.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1_u8);
    text.value(families::UPTIME, state.services.clock.uptime_s());
    let connections = CounterReader::connections(&state.counters);
    text.value(families::CONNECTIONS, connections);
    let closed = CounterReader::closed(&state.counters);
    text.values(families::CONNECTIONS_CLOSED, "why", closed);
    let dropped = state.logs.iter().map(AccessLog::dropped);
    text.value(families::LOG_LINES_DROPPED, dropped.sum());
    if let Some(tracer) = &state.services.tracer {
        text.value(families::SPANS_EXPORTED, tracer.stats().exported());
        text.value(families::SPANS_DROPPED, tracer.stats().dropped());
    }
    text.value(families::UPSTREAM_IN_FLIGHT, in_flight as u64);
    text.value(families::UPSTREAM_WAITING, waiting as u64);
    memory(state.services.memory.usage(), text);
    tls::handshakes(state, text);
    bodies::metrics(state, text);
    disk::metrics(state, text);
    cluster::metrics(state, text);
    purge_forward::metrics(state, text);
    http2::metrics(state, text);
}

fn memory(usage: MemoryUsage, text: &mut Text) {
    text.value(families::STORE_ENTRIES, usage.entries);
    text.value(families::STORE_BYTES, usage.bytes);
    text.value(families::STORE_RESERVED, usage.reserved);
    text.value(families::STORE_LIMIT, usage.limit);
    text.value(families::STORE_EVICTIONS, usage.evictions);
}

fn sites(rows: &[SiteCounters], text: &mut Text) {
    outcomes(rows, text);
    reasons(rows, text);
    owned(rows, text);
    on_disk(rows, text);
    includes(rows, text);
    audits(rows, text);
    members(rows, text);
    objects(rows, text);
    tls::certificates(rows, text);
    php::metrics(rows, text);
    certificates::metrics(rows, text);
    upstreams(rows, text);
    cron(rows, text);
    times(rows, text, families::REQUEST_DURATION, Totals::total_time);
    times(
        rows,
        text,
        families::UPSTREAM_DURATION,
        Totals::upstream_time,
    );
}

fn outcomes(rows: &[SiteCounters], text: &mut Text) {
    let outcomes = rows.iter().flat_map(|row| {
        row.totals
            .outcomes()
            .map(|(outcome, requests, bytes)| MetricRow {
                labels: [("site", row.site.as_str()), ("outcome", outcome)],
                of: (requests, bytes),
            })
    });
    text.rows(
        &outcomes.collect::<Vec<_>>(),
        &[
            (families::REQUESTS, |(requests, _)| *requests),
            (families::BODY_BYTES, |(_, bytes)| *bytes),
        ],
    );
    let collapsed = rows.iter();
    let collapsed = collapsed.map(|row| (row.site.as_str(), row.totals.collapsed()));
    text.values(families::MISSES_COLLAPSED, "site", collapsed);
}

fn reasons(rows: &[SiteCounters], text: &mut Text) {
    type Of = fn(&Totals) -> Vec<(&'static str, u64)>;
    let families: [(MetricFamily, Of); 5] = [
        (families::MISSES, |t| t.misses().collect()),
        (families::NOT_STORED, |t| t.not_stored().collect()),
        (families::STALE, |t| t.stale().collect()),
        (families::PASSES, |t| t.passes().collect()),
        (families::REFUSED, |t| t.refused().collect()),
    ];
    for (family, of) in families {
        text.family(family);
        for row in rows {
            for (reason, count) in of(&row.totals).into_iter().filter(|(_, count)| *count > 0) {
                text.sample(&[("site", &row.site), ("reason", reason)], count);
            }
        }
    }
}

fn upstreams(rows: &[SiteCounters], text: &mut Text) {
    let rows = of_process(rows).flat_map(|(site, own)| {
        let gauges = own.upstreams.iter();
        gauges.map(move |gauge| (site, gauge.as_ref()))
    });
    load::metrics(&rows.collect::<Vec<_>>(), text);
}

/// The sites with counters of this process.
fn of_process(rows: &[SiteCounters]) -> impl Iterator<Item = (&str, &ProcessCounters)> {
    let rows = rows.iter();
    rows.filter_map(|row| Some((row.site.as_str(), row.own.as_ref()?)))
}

/// Writes rows with the site as their label.
fn by_site<'r, T>(
    rows: &'r [SiteCounters],
    of: impl Fn(&'r ProcessCounters) -> Option<T>,
) -> Vec<MetricRow<'r, T, 1>> {
    let rows = of_process(rows).filter_map(|(site, own)| {
        Some(MetricRow {
            labels: [("site", site)],
            of: of(own)?,
        })
    });
    rows.collect()
}

fn owned(rows: &[SiteCounters], text: &mut Text) {
    text.rows(
        &by_site(rows, Some),
        &[
            (families::SITE_MEMORY, |own| own.memory_bytes),
            (families::PURGES, |own| own.purges),
            (families::PAGES_REFRESHED, |own| own.healed),
            (families::FILLS, |own| own.fills.begun),
            (families::FILLS_STORED, |own| own.fills.stored),
            (families::FILLS_FAILED, |own| own.fills.failed),
            (families::PAGES_PATCHED, |own| own.fills.patched),
            (families::PAGES_NOT_PATCHED, |own| own.fills.patch_failed),
            (families::FRAGMENTS_SWITCHED_OFF, |own| {
                own.switched_off as u64
            }),
            (families::FRAGMENTS_FAILED, |own| own.failed as u64),
            (families::PAGES_AWAITING_PATCH, |own| {
                own.fills.awaiting_patch
            }),
        ],
    );
}

/// Writes the metrics of sites whose pages are on disk.
fn on_disk(rows: &[SiteCounters], text: &mut Text) {
    let rows = by_site(rows, |own| own.disk_bytes);
    text.rows(&rows, &[(families::SITE_DISK, |bytes| *bytes)]);
}

/// Writes the metrics of sites whose pages have ESI includes.
fn includes(rows: &[SiteCounters], text: &mut Text) {
    text.family(families::ESI_INCLUDES);
    for (site, own) in of_process(rows) {
        let fills = &own.fills;
        for (result, count) in [
            ("stored", fills.includes_stored),
            ("fetched", fills.includes_fetched),
            ("failed", fills.includes_failed),
        ] {
            text.sample(&[("site", site), ("result", result)], count);
        }
    }
    text.family(families::ESI_TAGS_LEFT);
    for (site, own) in of_process(rows) {
        text.sample(&[("site", site)], own.fills.unresolved_esi_tags);
    }
}

/// Writes the metrics of sites whose stored pages are audited.
fn audits(rows: &[SiteCounters], text: &mut Text) {
    text.family(families::AUDITED_PAGES);
    for (site, own) in of_process(rows) {
        let counts = own.audited.iter().flatten();
        for (result, count) in AuditResult::WORDS.iter().zip(counts) {
            text.sample(&[("site", site), ("result", result)], count);
        }
    }
}

/// Writes the metrics of sites whose members get stored pages.
fn members(rows: &[SiteCounters], text: &mut Text) {
    text.rows(
        &by_site(rows, |own| own.private),
        &[
            (families::PAGES_ASSEMBLED, |counts| counts.assembled),
            (families::PAGES_COMPARED, |counts| counts.compared),
            (families::PAGES_DIFFERED, |counts| counts.differed),
            (families::MEMBERS, |counts| counts.visitors),
        ],
    );
}

/// Writes the metrics of sites with an object cache.
fn objects(rows: &[SiteCounters], text: &mut Text) {
    text.rows(
        &by_site(rows, |own| own.objects),
        &[
            (families::OBJECT_REQUESTS, |of| of.requests),
            (families::OBJECT_ROUND_TRIPS, |of| of.round_trips),
            (families::OBJECT_SENT_AHEAD, |of| of.sent_ahead),
            (families::OBJECT_HITS, |of| of.hits),
            (families::OBJECT_MISSES, |of| of.misses),
            (families::OBJECT_QUERIES, |of| of.queries),
            (families::OBJECT_SAVED_QUERIES, |of| of.saved_queries),
            (families::OBJECT_CONFLICTS, |of| of.conflicts),
            (families::OBJECT_FLUSHES, |of| {
                of.flushes + of.adopted + of.abandoned
            }),
            (families::OBJECT_EVICTIONS, |of| of.evictions),
            (families::OBJECT_BYTES, |of| of.bytes),
        ],
    );
}

/// Writes the metrics of sites whose scheduled tasks Galley runs.
fn cron(rows: &[SiteCounters], text: &mut Text) {
    text.rows(
        &by_site(rows, |own| own.cron.as_ref()),
        &[
            (families::CRON_RUNS, |runs| runs.runs),
            (families::CRON_FAILURES, |runs| runs.failures),
            (families::CRON_LAST_RUN, |runs| {
                let began = runs.last.map(|last| last.began);
                let since = began.and_then(|began| began.duration_since(UNIX_EPOCH).ok());
                since.map_or(0, |since| since.as_secs())
            }),
        ],
    );
}

fn times(
    rows: &[SiteCounters],
    text: &mut Text,
    family: MetricFamily,
    of: fn(&Totals) -> Histogram,
) {
    text.family(family);
    for row in rows {
        let histogram = of(&row.totals);
        let site = ("site", row.site.as_str());
        for (bound, below) in histogram.cumulative() {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |us| seconds(us).to_string());
            text.part("_bucket", &[site, ("le", &bound)], below);
        }
        text.part("_sum", &[site], seconds(histogram.sum_us()));
        text.part("_count", &[site], histogram.count());
    }
}

fn seconds(us: u64) -> f64 {
    std::time::Duration::from_micros(us).as_secs_f64()
}

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
