//! Automatic certificates of the configuration: their names, and the services that obtain them.

use std::path::PathBuf;
use std::sync::Arc;

use galley_cluster::ClusterPublisher;
use galley_config::{Config, SiteConfig};
use galley_policy::route::HostPattern;

use super::ServerStartError;
use galley_sys::clock::Clock;
use galley_tls::Certificates;
use galley_tls::acme::{self, Acme, AcmeReady, MAX_NAMES, WantedCertificate};

/// Loads the stored certificates and installs them for handshakes; `None` if no site uses automatic certificates.
pub(super) fn open(
    config: &Config,
    handshakes: &Arc<Certificates>,
    clock: Clock,
    before: Option<&Acme>,
    cluster: Option<&ClusterPublisher>,
) -> Result<Option<AcmeReady>, ServerStartError> {
    let Some(settings) = config.acme.clone() else {
        return Ok(None);
    };
    let spec = acme::AcmeSpec {
        settings,
        wanted: wanted(&config.sites),
        clock,
        handshakes: Arc::clone(handshakes),
        before,
        secrets: cluster.and_then(ClusterPublisher::secrets).cloned(),
    };
    acme::open(spec).map(Some).map_err(ServerStartError::Acme)
}

/// The sites with automatic certificates and the files of these certificates.
pub fn files(config: &Config) -> Vec<(String, PathBuf)> {
    let Some(settings) = &config.acme else {
        return Vec::new();
    };
    let file = |wanted: WantedCertificate| {
        let first = wanted.names.first()?;
        let file = acme::file_of(settings, first);
        Some((wanted.site, file))
    };
    wanted(&config.sites).into_iter().filter_map(file).collect()
}

/// The certificates to obtain: one for each site, several if the site has more hosts than fit into one. The file of a certificate
/// has its first name, so the names are in an order of their own. Sites with the same first name (on different addresses) share
/// a certificate, so that neither overwrites the other's file.
fn wanted(sites: &[SiteConfig]) -> Vec<WantedCertificate> {
    let mut certificates: Vec<WantedCertificate> = Vec::new();
    for (number, site) in (0..).zip(sites).filter(|(_, site)| site.has_auto_tls) {
        let names: Vec<String> = galley_config::in_order(&site.hosts)
            .filter_map(name)
            .collect();
        for names in names.chunks(MAX_NAMES) {
            let taken = certificates
                .iter_mut()
                .find(|one| one.names.first() == names.first());
            match taken {
                Some(taken) => {
                    let new = names.iter().filter(|name| !taken.names.contains(name));
                    let new: Vec<String> = new.cloned().collect();
                    taken.names.extend(new);
                    taken.names.truncate(MAX_NAMES);
                }
                None => certificates.push(WantedCertificate {
                    site: site.name.clone(),
                    number,
                    names: names.to_vec(),
                }),
            }
        }
    }
    certificates
}

/// The name of a host in a certificate.
fn name(host: &HostPattern) -> Option<String> {
    match host {
        HostPattern::Exact(name) => Some(name.clone()),
        HostPattern::Wildcard(rest) => Some(format!("*{rest}")),
        HostPattern::Any => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn wanted_of(sites: &[(&str, &[String])]) -> Vec<WantedCertificate> {
        let mut text = "[server]\nlisten_tls = [\"127.0.0.1:0\"]\n".to_owned();
        for (index, (tls, hosts)) in sites.iter().enumerate() {
            // A separate address for each site, so that sites may have the same hosts.
            let address = format!("127.0.0.{}:8080", index + 1);
            let secure = format!("127.0.0.{}:8443", index + 1);
            let _ = writeln!(
                text,
                "[[site]]\nhosts = {hosts:?}\nroot = \"/\"\nlisten = [{address:?}]\n{tls}"
            );
            if !tls.is_empty() {
                let _ = writeln!(text, "listen_tls = [{secure:?}]");
            }
        }
        wanted(&galley_config::from_text("test.toml", &text).unwrap().sites)
    }

    #[test]
    fn sites_with_the_same_first_host_share_a_certificate() {
        let hosts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (one, other): (Vec<String>, Vec<String>) =
            (hosts(&["a.test", "b.test"]), hosts(&["a.test", "c.test"]));
        let plain: Vec<String> = hosts(&["plain.test"]);
        let auto = "tls = \"auto\"";
        let all = wanted_of(&[("", &plain), (auto, &one), (auto, &other)]);
        assert_eq!(
            all,
            [WantedCertificate {
                site: "a.test".to_owned(),
                number: 1,
                names: hosts(&["a.test", "b.test", "c.test"]),
            }]
        );
    }

    #[test]
    fn a_site_with_many_hosts_gets_several_certificates() {
        let hosts: Vec<String> = (0..250).map(|n| format!("h{n}.test")).collect();
        let all = wanted_of(&[("tls = \"auto\"", &hosts)]);
        let counts: Vec<usize> = all.iter().map(|one| one.names.len()).collect();
        assert_eq!(counts, [100, 100, 50]);
        let names: Vec<String> = all.into_iter().flat_map(|one| one.names).collect();
        assert_eq!(names, hosts);
    }
}
