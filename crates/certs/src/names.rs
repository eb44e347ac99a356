//! The hosts for which a certificate is valid: its subject alternative names.
//!
//! RFC 9525 section 6: the common name is ignored, and `*` matches exactly one label, only as the first one.

use std::net::IpAddr;

use x509_parser::extensions::GeneralName;
use x509_parser::prelude::X509Certificate;

/// The names of one certificate, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateNames(Vec<String>);

impl CertificateNames {
    /// Creates names in the notation of certificates: `example.com`, `*.example.com`, `192.0.2.1`.
    pub fn new<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        Self(names.map(canonical).collect())
    }

    pub(crate) fn of(certificate: &X509Certificate<'_>) -> Self {
        let Ok(Some(extension)) = certificate.subject_alternative_name() else {
            return Self::default();
        };
        let names = extension.value.general_names.iter();
        Self(
            names
                .filter_map(|name| match name {
                    GeneralName::DNSName(name) => Some(canonical(name)),
                    GeneralName::IPAddress(bytes) => address(bytes),
                    _ => None,
                })
                .collect(),
        )
    }

    /// Whether the names include a canonical host: without a port, and with `[...]` around an IPv6 address.
    pub fn covers(&self, host: &str) -> bool {
        let below = host.find('.').filter(|&dot| dot > 0);
        let below = below.and_then(|dot| host.get(dot..));
        self.0.iter().any(|name| match name.strip_prefix('*') {
            Some(rest) => below == Some(rest),
            None => name == host,
        })
    }

    /// As [`Self::covers`], for a host in the configuration. `*.example.com` requires the same name in the certificate.
    pub fn covers_pattern(&self, pattern: &str) -> bool {
        if pattern.starts_with("*.") {
            self.0.iter().any(|name| name == pattern)
        } else {
            self.covers(pattern)
        }
    }

    /// The names.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether there is no name, so that no client will accept the certificate.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn canonical(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// The address in the notation of a host.
fn address(bytes: &[u8]) -> Option<String> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(four).to_string());
    }
    let sixteen = <[u8; 16]>::try_from(bytes).ok()?;
    Some(format!("[{}]", IpAddr::from(sixteen)))
}
