//! The families of `GET /metrics` about certificates that Galley gets by itself. When they end is told with those from files, in `tls`.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::AdminState;
use super::site_counters::SiteCounters;
use super::text::{MetricKind, Text};
use crate::acme::StatusFields as Certificate;
use crate::request::Site;

/// How the certificates of a site stand.
pub(super) fn of(state: &AdminState, site: &Arc<Site>) -> Vec<Certificate> {
    let acme = state.services.acme.as_ref();
    acme.map_or_else(Vec::new, |acme| acme.of_site(site.number).collect())
}

/// Adds them; nothing where no site has such a certificate. A certificate is named by its first host.
pub(super) fn metrics(rows: &[SiteCounters], text: &mut Text) {
    type Of = fn(&Certificate) -> u64;
    let families: [(&str, MetricKind, Of, &str); 3] = [
        (
            "galley_acme_next_order_timestamp_seconds",
            MetricKind::Gauge,
            |one| unix(one.next),
            "when the certificate is ordered next, in seconds since 1970",
        ),
        (
            "galley_acme_issued_total",
            MetricKind::Counter,
            |one| one.issued,
            "certificates that were issued",
        ),
        (
            "galley_acme_failures_total",
            MetricKind::Counter,
            |one| one.failures,
            "orders of certificates that failed",
        ),
    ];
    if rows.iter().all(|row| row.certificates.is_empty()) {
        return;
    }
    for (name, kind, of, help) in families {
        text.family(name, kind, help);
        for row in rows {
            for one in &row.certificates {
                let first = one.names.first().map_or("", String::as_str);
                let labels = [("site", row.site.as_str()), ("certificate", first)];
                text.sample(name, &labels, of(one));
            }
        }
    }
}

fn unix(at: Option<SystemTime>) -> u64 {
    let since = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_secs())
}
