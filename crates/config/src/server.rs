//! `[server]`: listeners, client limits, and the checks of other sections against them.

use std::path::PathBuf;

use galley_policy::proxied::{ForwardingField, Proxies};

use crate::check::{self, shown_path};
use crate::config::{
    Cache, Config, ProcessConfig, ServerConfig, SiteConfig, SpoolConfig, TlsVersion,
};
use crate::crawlers;
use crate::diagnostic::{Diagnostics, SourceSpan};
use crate::listen::{Listen, Proxy};
use crate::quantity::write_size;
use crate::tree::{Document, SectionTable};

pub(crate) fn server(
    section: &SectionTable,
    largest_body: u64,
    cache: &Cache,
    diagnostics: &mut Diagnostics,
) -> ServerConfig {
    check::listeners(section, diagnostics);
    spool_folder(section, diagnostics);
    spool_size(section, largest_body, diagnostics);
    let spool_size = section.get("spool_size");
    let spool_memory = section.get("spool_memory");
    ServerConfig {
        listen: section.value("listen"),
        listen_tls: section.get("listen_tls").unwrap_or_default(),
        listen_quic: quic(section),
        early_data: section.value("early_data"),
        tls_min_version: match section.value::<String>("tls_min_version").as_str() {
            "1.3" => TlsVersion::V13,
            _ => TlsVersion::V12,
        },
        process: ProcessConfig {
            workers: section.value("workers"),
            socket_mode: socket_mode(&section.value::<String>("socket_mode")),
            user: section.get("user"),
            group: section.get("group"),
        },
        request_body: section.value("request_body"),
        spool: SpoolConfig {
            folder: section.get("spool"),
            size: spool_size.unwrap_or_else(|| largest_body.saturating_mul(2).max(DEFAULT_SPOOL)),
            response: section.value("spool_response"),
            memory: spool_memory.unwrap_or_else(|| (cache.memory / 8).max(MIN_SPOOL_MEMORY)),
        },
        head_size: section.value("head_size"),
        head_timeout: section.value("head_timeout"),
        idle_timeout: section.value("idle_timeout"),
        body_timeout: section.value("body_timeout"),
        write_timeout: section.value("write_timeout"),
        drain_timeout: section.value("drain_timeout"),
        max_connections: section.value("max_connections"),
        fast_path: section.value("fast_path"),
        h2c: section.value("h2c"),
        connections_per_address: section.value("connections_per_address"),
        limit_exempt: section.value("limit_exempt"),
        geoip: section.get("geoip"),
        crawlers: crawlers::lists(section, diagnostics),
        min_rate: section.value("min_rate"),
        proxies: proxies(section),
        proxy_protocol: section.value("proxy_protocol"),
        sandbox: section.value::<String>("sandbox") != "off",
        watch: section.value("watch"),
        max_upgrades: section.value("max_upgrades"),
        upgrade_timeout: section.value("upgrade_timeout"),
    }
}

/// The maximum request body of all sites and rules, in bytes.
pub(crate) fn largest_body(document: &Document) -> u64 {
    let of_sites = document.sites.iter().flat_map(|site| {
        let options = std::iter::once(&site.options).chain(&site.rules);
        options.filter_map(|section| section.get::<u64>("request_body"))
    });
    of_sites
        .chain([document.server.value("request_body")])
        .max()
        .unwrap_or_default()
}

/// Checks that `spool` is a folder.
fn spool_folder(section: &SectionTable, diagnostics: &mut Diagnostics) {
    let Some(folder) = section.get::<PathBuf>("spool") else {
        return;
    };
    let why = match folder.metadata() {
        Ok(found) if found.is_dir() => return,
        Ok(_) => "which is not a folder",
        Err(_) => "which does not exist",
    };
    let why = format!("is {}, {why}", shown_path(&folder));
    let help = "create it, on a disk and not in memory, or leave the option out";
    section.report("spool", why, help, diagnostics);
}

/// Checks that the budget of the folder is enough for one request.
fn spool_size(section: &SectionTable, largest: u64, diagnostics: &mut Diagnostics) {
    if let Some(bytes) = section.get::<u64>("spool_size")
        && bytes < largest
        && largest > IN_MEMORY
    {
        let why = format!(
            "is `{}`, too small for a request body of `{}`",
            write_size(bytes),
            write_size(largest)
        );
        let help = "raise it, or lower `request_body`";
        section.report("spool_size", why, help, diagnostics);
    }
}

/// The trusted proxies of `[server]`.
fn proxies(section: &SectionTable) -> Proxies {
    let trusted: Vec<Proxy> = section.value("trusted_proxies");
    let networks = trusted.iter().filter_map(|proxy| match proxy {
        Proxy::Network(network) => Some(*network),
        Proxy::Unix => None,
    });
    Proxies {
        networks: networks.collect(),
        unix: trusted.contains(&Proxy::Unix),
        field: match section.value::<String>("client_field").as_str() {
            "forwarded" => ForwardingField::Forwarded,
            "x-real-ip" => ForwardingField::XRealIp,
            "cf-connecting-ip" => ForwardingField::CfConnectingIp,
            _ => ForwardingField::XForwardedFor,
        },
    }
}

/// The mode for one of the words in the option's row, which are octal.
fn socket_mode(word: &str) -> u32 {
    match word {
        "0600" => 0o600,
        "0666" => 0o666,
        _ => 0o660,
    }
}

/// Options about proxies require a trusted proxy, and a listener that sites use.
pub(crate) fn check(document: &Document, config: &Config, diagnostics: &mut Diagnostics) {
    let section = &document.server;
    let proxies = &config.server.proxies;
    let trusts_no_proxy = proxies.networks.is_empty() && !proxies.unix;
    if trusts_no_proxy {
        let why = "is given, but `trusted_proxies` names no proxy";
        let help = "add `trusted_proxies = [\"10.0.0.5\"]` with the addresses of the proxies, or remove it";
        section.report_each(&["client_field", "proxy_protocol"], why, help, diagnostics);
    }
    let listed: Vec<(SourceSpan, Listen)> = section.get("proxy_protocol").unwrap_or_default();
    for (position, listen) in listed {
        let sites = config.sites.iter();
        let mut listeners = sites.flat_map(|site| site.listen.iter().chain(&site.listen_tls));
        if !listeners.any(|one| *one == listen) {
            let message =
                format!("`server.proxy_protocol` names `{listen}`, where no site listens");
            let help = "write it as in `listen`";
            diagnostics.add(&position, section.path("proxy_protocol"), message, help);
        }
    }
    check_quic(document, config, diagnostics);
    privileges(document, diagnostics);
    php_user(document, &config.sites, diagnostics);
}

/// The UDP addresses of HTTP/3, if they are named.
fn quic(section: &SectionTable) -> Option<Vec<Listen>> {
    let mut all: Vec<Listen> = section.get("listen_quic")?;
    all.retain(|one| !matches!(one, Listen::Unix(_)));
    Some(all)
}

/// Checks that HTTP/3 has addresses, which no proxy uses, and a site.
fn check_quic(document: &Document, config: &Config, diagnostics: &mut Diagnostics) {
    let section = &document.server;
    let all: Vec<(SourceSpan, Listen)> = section.get("listen_quic").unwrap_or_default();
    for (position, listen) in &all {
        let (why, help) = match listen {
            Listen::Unix(_) => (
                "which is not an address",
                "HTTP/3 needs an address and a port, such as `0.0.0.0:443`",
            ),
            Listen::Tcp(_) | Listen::Passed(_) if config.server.proxy_protocol.contains(listen) => {
                (
                    "which expects the PROXY protocol",
                    "that protocol does not exist for UDP: remove the address",
                )
            }
            Listen::Tcp(_) | Listen::Passed(_) => continue,
        };
        let message = format!("`server.listen_quic` names `{listen}`, {why}");
        diagnostics.add(position, section.path("listen_quic"), message, help);
    }
    let has_site = document.sites.iter().any(|site| site.options.has("tls"));
    if !all.is_empty() && !has_site && !document.is_incomplete {
        let why = "is given, but no site has a certificate";
        let help = "add `tls = { cert = \"...\", key = \"...\" }` to a site, or remove the line";
        section.report("listen_quic", why, help, diagnostics);
    }
}

/// Checks the user that Galley switches to, which must not be root.
fn privileges(document: &Document, diagnostics: &mut Diagnostics) {
    let section = &document.server;
    let Some(user) = section.get::<String>("user") else {
        let why = "is given without `user`";
        section.report_each(&["group"], why, "add `user`, or remove it", diagnostics);
        return;
    };
    if user == "root" {
        let why = "is `root`, but the option exists to give up the rights of root";
        let help = "name a user without files of its own, such as `galley` or `www-data`, or leave the option out";
        section.report("user", why, help, diagnostics);
    }
}

/// Reports an error if PHP would run as root.
fn php_user(document: &Document, sites: &[SiteConfig], diagnostics: &mut Diagnostics) {
    for (tables, site) in document.sites.iter().zip(sites) {
        if site.managed.user.as_deref() == Some("root") {
            let why = "is `root`, but PHP never runs as root";
            let help = "name the user who owns the site's files";
            tables.options.report("php_user", why, help, diagnostics);
        }
    }
}

const DEFAULT_SPOOL: u64 = 1 << 30;
const MIN_SPOOL_MEMORY: u64 = 4 << 20;
/// Smaller request bodies are kept in memory and need no file, in bytes.
const IN_MEMORY: u64 = 64 << 10;
