//! Handshakes and certificates in numbers.

use std::time::UNIX_EPOCH;

use galley_policy::route::HostPattern;

use super::AdminState;
use super::site_counters::SiteCounters;
use super::text::{MetricKind, Text};
use crate::request::{Services, Site};
use crate::telemetry::counters::CounterReader;

/// When the first of a site's certificates ends, in seconds since 1970.
pub(super) fn certificate_ends(services: &Services, site: &Site) -> Option<u64> {
    if !site.speaks_tls {
        return None;
    }
    let name = match site.hosts.first()? {
        HostPattern::Exact(name) => Some(name.clone()),
        HostPattern::Wildcard(suffix) => Some(format!("any{suffix}")),
        HostPattern::Any => None,
    };
    let kinds = services.certificates.find(name.as_deref())?.kinds();
    let ends = kinds.iter().map(|one| one.not_after).min()?;
    Some(ends.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

/// Of all listeners.
pub(super) fn handshakes(state: &AdminState, text: &mut Text) {
    let [full, resumed, failed] = CounterReader::handshakes(&state.counters);
    let name = "galley_tls_handshakes_total";
    text.family(
        name,
        MetricKind::Counter,
        "successful TLS handshakes, by session resumption",
    );
    text.sample(name, &[("kind", "full")], full);
    text.sample(name, &[("kind", "resumed")], resumed);
    let name = "galley_tls_handshake_failures_total";
    text.family(name, MetricKind::Counter, "TLS handshakes that failed");
    text.sample(name, &[], failed);
}

/// Of the sites that are reached over TLS.
pub(super) fn certificates(rows: &[SiteCounters], text: &mut Text) {
    let name = "galley_certificate_expires_timestamp_seconds";
    text.family(
        name,
        MetricKind::Gauge,
        "expiry of the site's certificate, in seconds since 1970",
    );
    for row in rows {
        if let Some(ends) = row.certificate_ends {
            text.sample(name, &[("site", &row.site)], ends);
        }
    }
}
