//! The certificates of a configuration and their renewal; TLS settings for upstreams.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use galley_certs::CertificateFiles;
use galley_config::{Config, HttpUpstream, SiteConfig, TlsVersion, UpstreamConfig, UpstreamTls};
use tokio::task::JoinHandle;

use super::ServerStartError;
use galley_sys::clock::Clock;
use galley_tls::{
    Acceptor, CertificateSet, CertificateSource, CertificateWatch, Certificates, H2, MinTlsVersion,
    Slot, UpstreamTlsClient, Watched, acceptor,
};

/// The certificates of a configuration.
pub(super) struct Tls {
    pub(super) certificates: Arc<Certificates>,
    /// The certificates that were read, for a later configuration that names the same files but cannot read them any more.
    pub(super) known: KnownCertificates,
    /// Sites whose certificates could not be read again, and stay as they are.
    pub(super) out_of_reach: Vec<String>,
    /// The acceptor for handshakes; `None` if no listener needs it.
    pub(super) acceptor: Option<Acceptor>,
    pub(super) watch: CertificateWatch,
}

/// Certificates by their files.
pub(super) type KnownCertificates = Vec<(Vec<CertificateFiles>, Arc<Slot>)>;

/// The state that continues from the previous configuration.
#[derive(Clone, Default)]
pub(super) struct PreviousTls {
    pub(super) known: KnownCertificates,
    pub(super) acceptor: Option<Acceptor>,
}

impl PreviousTls {
    /// The certificates that the previous process has handed over for the sites of `config`.
    pub(super) fn inherited(config: &Config, certificates: &[CertificateSource]) -> Self {
        let slot = |site: &SiteConfig| {
            let find = |files: &CertificateFiles| {
                let source = certificates.iter().find(|source| source.files == *files);
                source.cloned()
            };
            let sources: Option<Vec<_>> = site.certificates.iter().map(find).collect();
            let kinds = CertificateSet::from_sources(sources?).ok().flatten()?;
            Some((site.certificates.clone(), Slot::new(kinds)))
        };
        Self {
            known: config.sites.iter().filter_map(slot).collect(),
            acceptor: None,
        }
    }
}

/// Reads all certificates.
pub(super) fn open(config: &Config, before: &PreviousTls) -> Result<Tls, ServerStartError> {
    let certificates = Arc::new(Certificates::default());
    let (mut watched, mut known, mut out_of_reach) = (Vec::new(), Vec::new(), Vec::new());
    let mut slots = Vec::new();
    for site in &config.sites {
        let read = Watched::read(&site.name, &site.certificates).or_else(|trouble| {
            // Often only root can read the keys, and the process has given up root in the meantime.
            let files = &site.certificates;
            let is_out_of_reach =
                |file: &Path| galley_certs::file::open(file).is_err_and(|error| error.is_denied());
            let denied = files
                .iter()
                .any(|files| is_out_of_reach(&files.cert) || is_out_of_reach(&files.key));
            let same = before
                .known
                .iter()
                .find(|(known, _)| denied && known == files);
            let same = same.ok_or(trouble)?;
            out_of_reach.push(site.name.clone());
            Ok(Some(Watched::known(&site.name, files, &same.1)))
        });
        let read = read.map_err(|trouble| ServerStartError::Certificate {
            site: site.name.clone(),
            trouble,
        })?;
        if let Some(one) = read {
            let hosts: Vec<String> = site.hosts.iter().map(ToString::to_string).collect();
            slots.push((hosts, Arc::clone(&one.slot)));
            known.push((site.certificates.clone(), Arc::clone(&one.slot)));
            watched.push(one);
        }
    }
    let slots = slots.iter();
    certificates.add(slots.map(|(hosts, slot)| (hosts.as_slice(), Arc::clone(slot))));
    Ok(Tls {
        acceptor: acceptor_of(config, &certificates, before.acceptor.as_ref())?,
        certificates,
        known,
        out_of_reach,
        watch: CertificateWatch::new(watched),
    })
}

/// The acceptor for handshakes, if any listener uses TLS. Session tickets from the previous configuration remain valid.
fn acceptor_of(
    config: &Config,
    certificates: &Arc<Certificates>,
    before: Option<&Acceptor>,
) -> Result<Option<Acceptor>, ServerStartError> {
    if config.sites.iter().all(|site| site.listen_tls.is_empty()) {
        return Ok(None);
    }
    let least = match config.server.tls_min_version {
        TlsVersion::V12 => MinTlsVersion::Tls12,
        TlsVersion::V13 => MinTlsVersion::Tls13,
    };
    let acceptor = acceptor(certificates, least, PROTOCOLS, before);
    let mut acceptor = acceptor.map_err(ServerStartError::Tls)?;
    if config.server.early_data {
        acceptor
            .permit_early_data()
            .map_err(ServerStartError::Tls)?;
    }
    Ok(Some(acceptor))
}

impl Tls {
    /// Drops certificates that can be read again. Must be called after root was given up. Blocks on the disk.
    pub(super) fn forget_readable(&self) {
        self.known
            .iter()
            .for_each(|(_, slot)| slot.forget_readable());
    }

    /// Logs which files could be read at the start only, because the user has changed.
    pub(super) fn warn_of_unreadable(&self) {
        self.watch.warn_of_unreadable();
    }
}

/// Checks the files at intervals until the result is dropped.
pub(super) fn check_regularly(
    watch: CertificateWatch,
    clock: Clock,
) -> Option<CertificateCheckTask> {
    if watch.is_empty() {
        return None;
    }
    watch.log_expiring(clock.wall());
    Some(CertificateCheckTask(tokio::spawn(check(watch, clock))))
}

async fn check(mut watch: CertificateWatch, clock: Clock) {
    let mut checks: u32 = 0;
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        checks = checks.wrapping_add(1);
        // On a helper thread, because the files may be on a slow disk.
        let checked = tokio::task::spawn_blocking(move || {
            watch.look();
            if checks.is_multiple_of(CHECKS_PER_DAY) {
                watch.log_expiring(clock.wall());
            }
            watch
        });
        match checked.await {
            Ok(back) => watch = back,
            Err(_) => return tracing::error!("the thread that checks certificates has stopped"),
        }
    }
}

/// The task that checks the files. Aborted when this is dropped.
pub(super) struct CertificateCheckTask(JoinHandle<()>);

impl Drop for CertificateCheckTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The TLS clients for the `https` upstreams of all sites, one for each name and its settings, so that the system's trusted
/// certificates are read once.
#[derive(Default)]
pub(super) struct UpstreamTlsClients(HashMap<(String, UpstreamTls), Arc<UpstreamTlsClient>>);

impl UpstreamTlsClients {
    pub(super) fn of(sites: &[SiteConfig]) -> Result<Self, ServerStartError> {
        let mut all_settings = Self::default();
        for site in sites {
            let upstreams = site.further.iter().chain([&site.upstream]);
            for upstream in upstreams {
                let UpstreamConfig::Http(servers) = upstream else {
                    continue;
                };
                for server in servers.iter().filter(|server| server.tls) {
                    all_settings.add(site, server)?;
                }
            }
        }
        Ok(all_settings)
    }

    fn add(&mut self, site: &SiteConfig, server: &HttpUpstream) -> Result<(), ServerStartError> {
        if let Entry::Vacant(place) = self.0.entry(key(site, server)) {
            let (name, tls) = place.key();
            let client = UpstreamTlsClient::new(name, tls.ca.as_deref(), tls.verify);
            let client = client.map_err(|cause| ServerStartError::UpstreamTls {
                site: site.name.clone(),
                cause,
            })?;
            place.insert(Arc::new(client));
        }
        Ok(())
    }

    /// The TLS client for a server of a site; `None` for plain HTTP.
    pub(super) fn find(
        &self,
        site: &SiteConfig,
        server: &HttpUpstream,
    ) -> Option<Arc<UpstreamTlsClient>> {
        let client = server.tls.then(|| self.0.get(&key(site, server)))?;
        client.cloned()
    }
}

fn key(site: &SiteConfig, server: &HttpUpstream) -> (String, UpstreamTls) {
    let name = site.upstream_tls.name.as_ref().unwrap_or(&server.host);
    (name.clone(), site.upstream_tls.clone())
}

/// The protocols offered in a handshake; the first one that the client supports is used.
const PROTOCOLS: &[&[u8]] = &[H2, b"http/1.1"];

/// The interval between two checks of the files: two system calls for each certificate.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The number of checks after which expiry warnings are repeated: about 24 hours.
const CHECKS_PER_DAY: u32 = 43_200;
