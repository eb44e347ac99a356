//! Handshakes and certificates in the metrics.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use galley_certs::CertificateChain;
use galley_policy::route::HostPattern;

use super::site_counters::SiteCounters;
use super::text::Text;
use super::{AdminState, families};
use galley_request::{Services, Site};
use galley_telemetry::counters::CounterReader;
use galley_tls::CertificateSet;

/// When the first certificate of a site expires, in seconds since 1970.
pub(super) fn certificate_ends(services: &Services, site: &Site) -> Option<u64> {
    let kinds = kinds(services, site)?;
    let ends = kinds.iter().map(|one| one.not_after).min()?;
    Some(ends.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

/// The certificates of a site that come from files.
pub(super) fn certificates_from_files(
    services: &Services,
    site: &Site,
) -> Vec<Arc<CertificateChain>> {
    let acme = services.acme.as_ref();
    if acme.is_some_and(|acme| acme.of_site(site.number).next().is_some()) {
        return Vec::new();
    }
    let kinds = kinds(services, site);
    kinds.map_or_else(Vec::new, |kinds| kinds.iter().map(Arc::clone).collect())
}

/// The certificates for the first host of a site.
fn kinds(services: &Services, site: &Site) -> Option<Arc<CertificateSet>> {
    if !site.speaks_tls() {
        return None;
    }
    let name = match site.config.hosts.first()? {
        HostPattern::Exact(name) => Some(name.clone()),
        HostPattern::Wildcard(suffix) => Some(format!("any{suffix}")),
        HostPattern::Any => None,
    };
    Some(services.certificates.find(name.as_deref())?.kinds())
}

/// Writes the handshakes of all listeners.
pub(super) fn handshakes(state: &AdminState, text: &mut Text) {
    let [full, resumed, failed] = CounterReader::handshakes(&state.counters);
    let kinds = [("full", full), ("resumed", resumed)];
    text.values(families::TLS_HANDSHAKES, "kind", kinds);
    text.value(families::TLS_HANDSHAKE_FAILURES, failed);
}

/// Writes when the certificates of sites with TLS expire.
pub(super) fn certificates(rows: &[SiteCounters], text: &mut Text) {
    let ends = rows
        .iter()
        .filter_map(|row| Some((row.site.as_str(), row.certificate_ends?)));
    text.values(families::CERTIFICATE_EXPIRES, "site", ends);
}
