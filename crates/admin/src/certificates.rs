//! The metrics about automatic certificates. `tls` reports their expiry, together with that of certificates from files.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::site_counters::SiteCounters;
use super::text::{MetricRow, Text};
use super::{AdminState, families};
use galley_request::Site;
use galley_tls::acme::StatusFields as Certificate;

/// The automatic certificates of a site.
pub(super) fn of(state: &AdminState, site: &Arc<Site>) -> Vec<Certificate> {
    let acme = state.services.acme.as_ref();
    acme.map_or_else(Vec::new, |acme| acme.of_site(site.number).collect())
}

/// Writes the metrics; nothing without automatic certificates. The label of a certificate is the first of its names.
pub(super) fn metrics(rows: &[SiteCounters], text: &mut Text) {
    let rows = rows.iter().flat_map(|row| {
        row.certificates.iter().map(|one| {
            let first = one.names.first().map_or("", String::as_str);
            MetricRow {
                labels: [("site", row.site.as_str()), ("certificate", first)],
                of: one,
            }
        })
    });
    let rows: Vec<MetricRow<'_, &Certificate, 2>> = rows.collect();
    if rows.is_empty() {
        return;
    }
    text.rows(
        &rows,
        &[
            (families::ACME_NEXT_ORDER, |one| unix(one.next)),
            (families::ACME_ISSUED, |one| one.issued),
            (families::ACME_FAILURES, |one| one.failures),
        ],
    );
}

fn unix(at: Option<SystemTime>) -> u64 {
    let since = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_secs())
}
