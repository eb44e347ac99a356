//! `GET /status`: the state of the server, as JSON.
//!
//! A site's token only gets its site and that site's counters. Memory, the load of upstreams and the counters of all sites require
//! the server's token.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State as Extract;
use axum::http::StatusCode;
use galley_cache::memory::MemoryUsage;
use galley_cache::private::PrivateStore;
use galley_certs::CertificateNames;
use galley_policy::private::PageDifference;
use serde_json::{Map, Value, json};

use super::AdminState;
use super::audit;
use super::auth::AdminClient;
use super::cluster;
use super::disk;
use super::history::{last_hour, reading, recent};
use super::objects;
use super::purge_forward;
use super::target::{AdminView, JsonResult, target};
use super::{tls, verdict};
use galley_codec::compress::Compressor;
use galley_fetch::Handle;
use galley_fetch::precision::ComparedPages;
use galley_php::PoolNumbers;
use galley_purging::SiteDiskCache;
use galley_request::{Site, SmallFiles, Upstream};
use galley_telemetry::counters::CounterReader;
use galley_telemetry::history::Minute;
use galley_telemetry::totals::{Histogram, Totals};
use galley_upstream::body::body_spools::BodySpools;
use galley_upstream::{BalancedServer, UpstreamStats};

/// Handles `GET /status`.
pub(super) async fn status(
    Extract(state): Extract<Arc<AdminState>>,
    client: AdminClient,
) -> JsonResult {
    let target = target(&state, &client, None)?;
    let sites: Vec<Value> = target
        .sites
        .iter()
        .map(|site| of_site(&state, site, target.view))
        .collect();
    let mut body = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_s": state.services.clock.uptime_s(),
        "health": verdict::value(&state, &target.sites, target.view),
        "sites": sites,
    });
    let answers = match target.view {
        AdminView::Server => {
            of_server(&state, &mut body);
            CounterReader::all(&state.counters)
        }
        AdminView::Sites => {
            let row = target.sites.first().map(|site| site.row);
            CounterReader::site(&state.counters, row)
        }
    };
    body["responses"] = Value::Object(words(&answers));
    body["times"] = times(&answers);
    Ok((StatusCode::OK, Json(body)))
}

/// Adds the parts that require the server's token.
fn of_server(state: &AdminState, body: &mut Value) {
    let services = &state.services;
    body["memory"] = memory(services.memory.usage());
    body["small_files"] = json!(services.small_files.as_deref().map(small_files));
    body["compression"] = compression(&services.compressor);
    body["disk"] = json!(disk::value(state));
    if let Some(cluster) = cluster::value(state) {
        body["cluster"] = cluster;
    }
    body["last_hour"] = last_hour(state).value(&reading(services));
    body["spools"] = spools(&services.spools);
    let urls = state.listeners.iter().map(|listener| &listener.url);
    body["listeners"] = json!(urls.collect::<Vec<_>>());
    let (in_flight, waiting) = load(&state.fetch_threads);
    let in_progress: usize = state.fetch_threads.iter().map(Handle::in_progress).sum();
    body["upstream"] =
        json!({ "in_flight": in_flight, "waiting": waiting, "fetches_in_progress": in_progress });
    body["last_reload"] = state.process_state.last_reload.value();
    body["sandbox"] = json!(services.sandbox.word());
    body["privileged"] = json!(services.privileged.word());
    body["upgraded_connections"] = json!(services.tunnels.open());
    body["connections"] = json!(CounterReader::connections(&state.counters));
}

fn memory(usage: MemoryUsage) -> Value {
    json!({
        "entries": usage.entries, "bytes": usage.bytes, "limit": usage.limit, "evictions": usage.evictions,
        "swept": usage.swept,
    })
}

fn small_files(files: &SmallFiles) -> Value {
    let files = files.counted();
    json!({
        "entries": files.usage.entries, "bytes": files.usage.bytes, "evictions": files.usage.evictions,
        "checks": files.looks, "reads": files.reads,
    })
}

fn compression(compressor: &Compressor) -> Value {
    let compressed = compressor.counted();
    json!({
        "pages_compressed": compressed.pages, "bytes_in": compressed.bytes, "bytes_out": compressed.made,
        "postponed": compressed.put_off,
    })
}

/// The number of exchanges in progress at the upstreams, and of requests that wait for a slot there.
pub(super) fn load(fetch_threads: &[Handle]) -> (usize, usize) {
    let all_stats = fetch_threads.iter().flat_map(Handle::upstream_stats);
    let loads = all_stats.map(|stats| stats.load());
    loads.fold((0, 0), |(taken, waiting), load| {
        (taken + load.in_flight, waiting + load.waiting)
    })
}

fn server(server: &BalancedServer) -> Value {
    let (state, share) = (&server.state, &server.share);
    let since = state.unchanged_for(tokio::time::Instant::now());
    let failure = state.connect_failure();
    json!({
        "address": state.address, "state": state.eligibility().word(), "since_s": since.as_secs(),
        "in_flight": state.in_flight(), "max": share.max, "weight": share.weight, "backup": share.is_backup,
        "requests": state.requests(), "failures": state.failures(), "pauses": state.pauses(),
        "connect_error": failure.as_ref().map(|failure| failure.cause.as_str()),
        "connect_remedy": failure.as_ref().map(|failure| failure.remedy),
    })
}

/// An upstream of a site: its slots, its queue, its servers.
pub(super) fn upstream(stats: &UpstreamStats) -> Value {
    let load = stats.load();
    let servers = stats.servers().iter().map(server);
    let classes = stats.classes().map(|of| {
        let counts = json!({ "admitted": of.admitted, "rejected": of.rejected });
        (of.class.word().to_owned(), counts)
    });
    json!({
        "in_flight": load.in_flight,
        "slots": load.limit,
        "slots_max": load.most,
        "waiting": load.waiting,
        "promoted": stats.promoted(),
        "idle_connections": load.idle,
        "servers": servers.collect::<Vec<_>>(),
        "classes": Value::Object(classes.collect()),
    })
}

fn of_site(state: &AdminState, site: &Site, view: AdminView) -> Value {
    let totals = CounterReader::site(&state.counters, Some(site.row));
    let last_minutes = recent(state, site, LATELY_MINUTES);
    let last_minutes = last_minutes.iter().fold(Minute::default(), Minute::plus);
    json!({
        "name": site.core.name,
        "hosts": site.config.hosts.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "upstream": match site.upstream {
            Upstream::Files => "files",
            Upstream::Php(_) => "php",
            Upstream::Http(_) => "http",
        },
        "php": site.php.as_deref().map(php),
        "upstreams": site.upstream_stats().iter().map(|stats| upstream(stats)).collect::<Vec<_>>(),
        "memory_bytes": state.services.memory.site_bytes(site.mark),
        "disk_bytes": site.core.disk.as_ref().map(SiteDiskCache::bytes),
        "purges": site.core.purges.published(),
        "purge_forward": purge_forward::value(state, site),
        "requests": totals.requests(),
        "responses": words(&totals),
        "times": times(&totals),
        "reasons": {
            "pass": reasons(totals.passes()), "miss": reasons(totals.misses()), "not_stored": reasons(totals.not_stored()),
        },
        "hit_ratio": Minute::all(&totals).hit_ratio(),
        "certificates": certificates(state, site),
        "certificate_files": certificate_files(state, site, view),
        "slow_requests": slow_requests(state, site),
        "cron": cron(state, site),
        "audit": audit::value(state, site, MAX_FINDINGS),
        "object_cache": state.object_caches.get(&*site.core.name).map(|figures| objects::value(state, figures, &site.core.name)),
        "purges_compared": purges_compared(site),
        "fragments_switched_off": site.core.fragments.switched_off(),
        "fragments_failed": site.core.fragments.failed(),
        "members": site.core.private.as_deref().map(|private| members(state, private)),
        "crawl_shield": crawl_shield(state, site),
        "crawl_shield_link": crawl_shield_link(state, site),
        "last_10_minutes": { "requests": last_minutes.requests, "hit_ratio": last_minutes.hit_ratio() },
    })
}

/// Whether the site asks for a proof of visit, and whether anybody can prove one.
fn crawl_shield(state: &AdminState, site: &Site) -> &'static str {
    match &site.visits {
        None => "off",
        Some(visits) if visits.is_visited(state.services.clock.tick()) => "on",
        Some(_) => "no-visits",
    }
}

/// Whether visitors prove their visit by the style sheet that the plugin links to; null if the shield is off.
fn crawl_shield_link(state: &AdminState, site: &Site) -> Option<&'static str> {
    let visits = site.visits.as_ref()?;
    Some(match visits.needs_link() {
        false => "not-needed",
        true if visits.is_link_loaded(state.services.clock.tick()) => "loaded",
        true => "not-loaded",
    })
}

/// The kinds of tags whose purges removed most pages without need.
fn purges_compared(site: &Site) -> Vec<Value> {
    let kinds = site.core.counters.precision.needless(MAX_FINDINGS);
    let value = |(kind, pages): (String, ComparedPages)| json!({ "tags": kind, "pages": pages.compared, "unchanged": pages.unchanged });
    kinds.into_iter().map(value).collect()
}

/// The maximum number of listed pages that audits found, and of kinds of tags.
const MAX_FINDINGS: usize = 10;

/// The maximum number of listed pages that members get from PHP because theirs differ.
const MAX_DIFFERENCES: usize = 50;

/// The members of a site, if they get stored pages.
fn members(state: &AdminState, private: &PrivateStore) -> Value {
    let counts = private.counts();
    let differences = private.differences(state.services.clock.tick());
    let shown = differences.iter().take(MAX_DIFFERENCES).map(|known| {
        let (place, part) = match &known.difference {
            PageDifference::Fragments(name) | PageDifference::Repeated(name) => {
                (None, Some(name.as_str()))
            }
            PageDifference::Content(at) => (Some(*at), None),
            PageDifference::Status(_) | PageDifference::Cookie => (None, None),
        };
        json!({
            "class": &*known.class, "url": String::from_utf8_lossy(&known.path_query),
            "byte": place, "part": part,
        })
    });
    json!({
        "visitors": counts.visitors, "assembled": counts.assembled, "compared": counts.compared,
        "differed": counts.differed, "differences": shown.collect::<Vec<_>>(),
        "differences_total": differences.len(),
    })
}

/// The spools for request and response bodies.
fn spools(spools: &BodySpools) -> Value {
    let spooled = spools.counted();
    json!({
        "memory_bytes": spooled.memory, "memory_limit": spooled.memory_limit, "disk_bytes": spooled.disk,
        "disk_limit": spooled.disk_limit, "folder": spools.folder(), "requests": spooled.requests,
        "responses": spooled.responses, "refused": spooled.refused, "blocked": spooled.held_up,
    })
}

/// The PHP that Galley runs for a site.
fn php(numbers: &PoolNumbers) -> Value {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let limits = numbers.limits();
    json!({
        "slots": numbers.slots().load(Ordering::Relaxed), "workers": numbers.workers.load(Ordering::Relaxed),
        "worker_bytes": read(&numbers.worker_bytes), "largest_bytes": read(&numbers.largest_bytes),
        "bytes": read(&numbers.bytes), "share_bytes": read(&numbers.share_bytes),
        "replaced": read(&numbers.replaced), "overdue": read(&numbers.overdue), "restarts": read(&numbers.restarts),
        "sandbox": numbers.sandbox.word(), "limits": limits.word(), "limits_problem": limits.problem(),
    })
}

/// The automatic certificates of a site; null without any.
fn certificates(state: &AdminState, site: &Site) -> Value {
    let Some(acme) = &state.services.acme else {
        return Value::Null;
    };
    let unix = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let now = state.services.clock.wall();
    let left = |at: SystemTime| at.duration_since(now).unwrap_or_default().as_secs();
    let certificates = acme.of_site(site.number).map(|one| {
        json!({
            "names": one.names,
            "not_after": one.not_after.map(unix),
            "valid_for_s": one.not_after.map(left),
            "ordering": one.is_ordering,
            "next_order_in_s": one.next.map(left),
            "error": one.trouble,
            "issued": one.issued,
            "failures": one.failures,
            "failures_in_a_row": one.failures_in_a_row,
        })
    });
    let certificates: Vec<Value> = certificates.collect();
    json!((!certificates.is_empty()).then_some(certificates))
}

/// The certificates of a site from files; empty if they are automatic, or there are none. Sites may share a certificate: a site's
/// token shows its own names only.
fn certificate_files(state: &AdminState, site: &Site, view: AdminView) -> Vec<Value> {
    let now = state.services.clock.wall();
    let certificates = tls::certificates_from_files(&state.services, site);
    let is_shown = |name: &&str| view == AdminView::Server || is_name_of(state, site, name);
    let shown = certificates.iter().map(|one| {
        let unix = one.not_after.duration_since(UNIX_EPOCH).unwrap_or_default();
        let left = one.not_after.duration_since(now).unwrap_or_default();
        json!({
            "names": one.names.iter().filter(is_shown).collect::<Vec<_>>(),
            "not_after": unix.as_secs(), "valid_for_s": left.as_secs(),
        })
    });
    shown.collect()
}

/// Whether a name in a certificate is one of a site, or covers one of its hosts.
fn is_name_of(state: &AdminState, site: &Site, name: &str) -> bool {
    let names = CertificateNames::new(std::iter::once(name));
    let mut hosts = site.config.hosts.iter();
    hosts.any(|host| names.covers_pattern(&host.to_string()))
        || state
            .hosts
            .find(name)
            .is_some_and(|found| found.number == site.number)
}

/// The requests that recently waited long for the upstream.
fn slow_requests(state: &AdminState, site: &Site) -> Vec<Value> {
    let now = state.services.clock.tick();
    let requests = site.slow_requests.list(now).into_iter().map(|one| {
        json!({
            "method": one.method, "target": String::from_utf8_lossy(&one.target),
            "ms": u64::try_from(one.took.as_millis()).unwrap_or(u64::MAX),
            "count": one.count, "last_ago_s": now.since(one.last).as_secs(),
        })
    });
    requests.collect()
}

/// The runs of a site's scheduler; null if Galley does not run it.
fn cron(state: &AdminState, site: &Site) -> Value {
    let Some(cron) = &site.cron else {
        return Value::Null;
    };
    let now = state.services.clock.tick();
    let runs = site.core.cron.state();
    let last = runs.last.map(|last| {
        json!({
            "began": last.began.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            "took_ms": u64::try_from(last.took.as_millis()).unwrap_or(u64::MAX),
            "ok": last.result.is_ok(),
            "error": last.result.err().map(|trouble| trouble.to_string()),
        })
    });
    json!({
        "every_s": cron.every.as_secs(),
        "running": runs.is_running,
        "runs": runs.runs,
        "failures": runs.failures,
        "last": last,
        "next_in_s": runs.next.map(|next| next.since(now).as_secs()),
    })
}

/// The reasons with a count above zero.
fn reasons(all: impl Iterator<Item = (&'static str, u64)>) -> Map<String, Value> {
    let counted = all.filter(|(_, count)| *count > 0);
    counted
        .map(|(word, count)| (word.to_owned(), json!(count)))
        .collect()
}

/// The histograms of times since the start: the number of responses in each bucket, the last one above all bounds.
fn times(totals: &Totals) -> Value {
    let [all, cache, upstream] = [
        totals.total_time(),
        totals.cache_time(),
        totals.upstream_time(),
    ];
    json!({
        "bounds_us": Histogram::BOUNDS_US, "all": all.counts(), "cache": cache.counts(), "upstream": upstream.counts(),
    })
}

fn words(totals: &Totals) -> Map<String, Value> {
    let words = totals.words().into_iter();
    words
        .map(|(word, count)| (word.to_owned(), json!(count)))
        .collect()
}

/// The time that the recent hit ratio covers, in minutes.
const LATELY_MINUTES: u64 = 10;
