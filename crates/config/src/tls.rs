//! Certificates in the configuration: `tls` of a site, and whether each is usable; TLS for upstreams.
//!
//! An unusable certificate is an error. A usable one that needs attention (it expires soon, or lacks a host) is a
//! warning, because it must not prevent a server with many sites from starting.

use std::path::Path;
use std::time::SystemTime;

use galley_certs::{CertificateChain, CertificateError, CertificateFiles, DateValidity};
use galley_policy::route::HostPattern;

use crate::config::SiteConfig;
use crate::diagnostic::{Diagnostics, SourceSpan};
use crate::listen::Listen;
use crate::tree::{Document, SectionTable};
use crate::upstream::UpstreamTls;

/// Whether the site has certificates.
pub(crate) fn is_used(options: &SectionTable) -> bool {
    options.has_value("tls")
}

/// Whether the site's certificate is obtained automatically: `tls` is set but names no files.
pub(crate) fn is_auto(options: &SectionTable) -> bool {
    is_used(options)
        && options
            .get("tls")
            .is_some_and(|all: Vec<(SourceSpan, CertificateFiles)>| all.is_empty())
}

/// The certificates of a site, after checking each; those in `known` may be unreadable now.
pub(crate) fn certificates(
    options: &SectionTable,
    hosts: &[HostPattern],
    now: SystemTime,
    known: &[CertificateFiles],
    diagnostics: &mut Diagnostics,
) -> Vec<CertificateFiles> {
    let configured: Vec<(SourceSpan, CertificateFiles)> = options.get("tls").unwrap_or_default();
    let mut good = Vec::new();
    for (position, files) in &configured {
        match galley_certs::read(files) {
            Ok(certificate) => {
                dates(position, files, &certificate, now, diagnostics);
                good.push(certificate);
            }
            // Only root can read it, and it was read before Galley gave up root.
            Err(wrong) if wrong.error.is_denied() && known.contains(files) => {}
            Err(wrong) => {
                let message = format!("`site.tls` names {wrong}");
                let help = help(&wrong.error, &wrong.path, files);
                diagnostics.add(position, "site.tls", message, help);
            }
        }
    }
    if good.len() == configured.len() && !good.is_empty() {
        names(options.position("tls"), hosts, &good, diagnostics);
    }
    configured.into_iter().map(|(_, files)| files).collect()
}

fn help(trouble: &CertificateError, path: &Path, files: &CertificateFiles) -> String {
    let path = path.display();
    match trouble {
        CertificateError::Unread(_) if trouble.is_denied() => format!(
            "the user of Galley may not read {path}, or a folder above it: change the group and the mode, for example `chgrp galley {path}` and `chmod 640 {path}`"
        ),
        CertificateError::Unread(_) => {
            "name an existing file; `tls = \"auto\"` obtains a certificate".to_owned()
        }
        CertificateError::Exposed(_) => format!(
            "restrict it to its owner and its group: `chmod 640 {path}`; if other people can log in to this machine, get a certificate with a new key"
        ),
        CertificateError::Mismatch => format!(
            "name the key of `{}`; that file must begin with the site's own certificate",
            files.cert.display()
        ),
        CertificateError::Missing(_) => {
            "name the certificate (`fullchain.pem`) as `cert` and its key (`privkey.pem`) as `key`"
                .to_owned()
        }
        CertificateError::NotUsable(_) | CertificateError::BadKey(_) => {
            "get a certificate of X.509 version 3 with a key of RSA (2048 bits or more), P-256, P-384 or Ed25519"
                .to_owned()
        }
    }
}

fn dates(
    position: &SourceSpan,
    files: &CertificateFiles,
    certificate: &CertificateChain,
    now: SystemTime,
    diagnostics: &mut Diagnostics,
) {
    let days = |from: SystemTime, to: SystemTime| {
        let length = to.duration_since(from).unwrap_or_default();
        length.as_secs() / 86_400
    };
    let (what, help) = match certificate.date_validity(now) {
        DateValidity::Good => return,
        DateValidity::Ending => (
            format!("expires in {} days", days(now, certificate.not_after)),
            "renew it, and check the automatic renewal: with certbot `certbot renew --dry-run`",
        ),
        DateValidity::Over => (
            format!("expired {} days ago", days(certificate.not_after, now)),
            "renew it, because browsers show a warning: with certbot `certbot renew`",
        ),
        DateValidity::Early => (
            format!(
                "becomes valid in {} days",
                days(now, certificate.not_before) + 1
            ),
            "check the clock (`timedatectl`) and the certificate's dates",
        ),
    };
    let message = format!("`site.tls` names `{}`, which {what}", files.cert.display());
    diagnostics.warn(position, "site.tls", message, help);
}

/// Warns of hosts that none of the certificates contains: browsers will show an error.
fn names(
    position: &SourceSpan,
    hosts: &[HostPattern],
    all: &[CertificateChain],
    diagnostics: &mut Diagnostics,
) {
    let hosts = hosts.iter().map(ToString::to_string);
    let foreign = hosts.filter(|host| {
        // No certificate can contain every host.
        host != "*" && !all.iter().any(|one| one.names.covers_pattern(host))
    });
    let foreign: Vec<String> = foreign.map(|host| format!("`{host}`")).collect();
    if foreign.is_empty() {
        return;
    }
    let names: Vec<&str> = all.iter().flat_map(|one| one.names.iter()).collect();
    let named = match names.as_slice() {
        [] => "no name".to_owned(),
        all => format!("`{}`", all.join("`, `")),
    };
    let message = format!(
        "the certificate in `site.tls` is valid for {named}, but not for {}",
        foreign.join(", ")
    );
    let help = "get a certificate that includes these names, or move them to a site with its own certificate";
    diagnostics.warn(position, "site.tls", message, help);
}

/// Checks that sites with certificates have TLS listeners, and that TLS listeners have certificates.
pub(crate) fn listeners(document: &Document, sites: &[SiteConfig], diagnostics: &mut Diagnostics) {
    for (tables, site) in document.sites.iter().zip(sites) {
        let options = &tables.options;
        if options.has_value("tls") && site.listen_tls.is_empty() && !options.has("listen_tls") {
            let why = "is given, but the site has no TLS listener";
            let help = "add `listen_tls = [\"0.0.0.0:443\"]` to `[server]`";
            options.report("tls", why, help, diagnostics);
        }
        if options.has("listen_tls") && !options.has("tls") {
            let why = "is given, but the site has no certificate";
            let help = "add `tls = { cert = \"...\", key = \"...\" }`";
            options.report("listen_tls", why, help, diagnostics);
        }
    }
    let server = &document.server;
    let has_any = document.sites.iter().any(|site| site.options.has("tls"));
    if server.has("listen_tls") && !has_any && !document.is_incomplete {
        let why = "is given, but no site has a certificate";
        let help = "add `tls = { cert = \"...\", key = \"...\" }` to a site, or remove the line";
        server.report("listen_tls", why, help, diagnostics);
    }
    let sections = document.sites.iter().map(|site| &site.options);
    for section in sections.chain([server]) {
        mixed_listeners(section, sites, diagnostics);
    }
}

/// Reports an address with both TLS and plain connections.
fn mixed_listeners(section: &SectionTable, sites: &[SiteConfig], diagnostics: &mut Diagnostics) {
    let secure: Vec<(SourceSpan, Listen)> = section.get("listen_tls").unwrap_or_default();
    for (position, address) in secure {
        if let Listen::Unix(_) = address {
            let message = format!(
                "`{}` is `{address}`, but a TLS listener must be an address",
                section.path("listen_tls")
            );
            let help = "a unix socket needs no TLS: add it to `listen`";
            diagnostics.add(&position, section.path("listen_tls"), message, help);
            continue;
        }
        let mut plain = sites.iter().flat_map(|site| &site.listen);
        if let Some(taken) = plain.find(|plain| !address.is_any_port() && plain.overlaps(&address))
        {
            let message = format!(
                "`{}` is `{address}`, but sites listen without TLS at `{taken}`",
                section.path("listen_tls")
            );
            let help = "give one of the two another port; 80 and 443 are usual";
            diagnostics.add(&position, section.path("listen_tls"), message, help);
        }
    }
}

/// TLS for the upstreams of a site.
pub(crate) fn upstream(
    options: &SectionTable,
    uses_tls: bool,
    diagnostics: &mut Diagnostics,
) -> UpstreamTls {
    const OPTION: &str = "upstream_tls";
    let configured: Option<UpstreamTls> = options.get(OPTION);
    if configured.is_some() && !uses_tls {
        let why = "is given, but no `upstream` begins with `https://`";
        let help = "write `upstream = [\"https://host:port\"]`, or remove it";
        options.report(OPTION, why, help, diagnostics);
    }
    let tls = configured.unwrap_or_default();
    if let Some(ca) = &tls.ca
        && let Err(trouble) = galley_certs::read_roots(ca)
    {
        let why = format!("names `{}`, {trouble}", ca.display());
        let help = "name a file with the authority's certificate in PEM form";
        options.report(OPTION, why, help, diagnostics);
    }
    if !tls.verify {
        warn_of_unverified(options.position(OPTION), tls.ca.as_deref(), diagnostics);
    }
    tls
}

/// Warns of an upstream whose certificate is not verified.
fn warn_of_unverified(position: &SourceSpan, ca: Option<&Path>, diagnostics: &mut Diagnostics) {
    let message =
        "`verify` is `false`: Galley does not notice a server that impersonates the upstream";
    let help =
        "name the upstream's certificate authority instead: `ca = \"/etc/galley/upstream-ca.pem\"`";
    diagnostics.warn(position, "site.upstream_tls", message, help);
    if let Some(ca) = ca {
        let message = format!("`ca` is `{}`, but `verify` is `false`", ca.display());
        diagnostics.add(
            position,
            "site.upstream_tls",
            message,
            "remove one of the two",
        );
    }
}
