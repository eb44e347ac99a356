//! `[acme]`: the method of obtaining certificates, and the names for which it is possible.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use galley_policy::route::HostPattern;

use crate::check;
use crate::config::{AcmeChallenge, AcmeConfig, DnsProof};
use crate::diagnostic::{Diagnostics, SourceSpan, shown};
use crate::machine::Environment;
use crate::tree::SectionTable;

pub(crate) fn acme(
    section: &SectionTable,
    environment: &Environment,
    diagnostics: &mut Diagnostics,
) -> AcmeConfig {
    check::token_file(section, "account_key_file", diagnostics);
    root(section, diagnostics);
    directory(section, diagnostics);
    email(section, diagnostics);
    let challenges = challenges(section, diagnostics);
    AcmeConfig {
        email: section.get("email"),
        directory: section.value("directory"),
        ca: section.get("ca"),
        storage: section
            .get("storage")
            .unwrap_or_else(|| environment.state.join("acme")),
        dns: dns(section, &challenges, diagnostics),
        challenges,
        profile: section.get("profile"),
        binding: binding(section, diagnostics),
        retry: section.value("retry"),
    }
}

/// External account binding: the account's name at the authority, and the file with its key.
fn binding(section: &SectionTable, diagnostics: &mut Diagnostics) -> Option<(String, PathBuf)> {
    for (one, other) in [
        ("account_id", "account_key_file"),
        ("account_key_file", "account_id"),
    ] {
        if section.has(one) && !section.has(other) {
            let why = format!("is given without `acme.{other}`");
            let help = "give both, as the authority issued them, or neither";
            section.report(one, why, help, diagnostics);
        }
    }
    section
        .get("account_id")
        .zip(section.get("account_key_file"))
}

fn challenges(section: &SectionTable, diagnostics: &mut Diagnostics) -> Vec<AcmeChallenge> {
    let values = "`\"http-01\"`, `\"tls-alpn-01\"` or `\"dns-01\"`";
    check::not_empty(section, "challenge", values, diagnostics);
    let words: Vec<String> = section.value("challenge");
    // These are the values in the option's row.
    let challenges = words.iter().map(|word| match word.as_str() {
        "tls-alpn-01" => AcmeChallenge::TlsAlpn01,
        "dns-01" => AcmeChallenge::Dns01,
        _ => AcmeChallenge::Http01,
    });
    challenges.collect()
}

fn dns(
    section: &SectionTable,
    challenges: &[AcmeChallenge],
    diagnostics: &mut Diagnostics,
) -> Option<DnsProof> {
    let hook: Option<PathBuf> = section.get("dns_hook");
    let is_wanted = challenges.contains(&AcmeChallenge::Dns01);
    if is_wanted && hook.is_none() {
        let why = "contains `dns-01`, but `acme.dns_hook` is not given";
        let help =
            "name a program in `dns_hook` that changes records of your DNS, or remove `dns-01`";
        section.report("challenge", why, help, diagnostics);
    }
    if !is_wanted && hook.is_some() {
        let why = "is given, but `acme.challenge` does not contain `dns-01`";
        let help = "add `challenge = [\"dns-01\"]`, or remove `dns_hook`";
        section.report("dns_hook", why, help, diagnostics);
    }
    let hook = hook.filter(|_| is_wanted)?;
    check_hook(section, &hook, diagnostics);
    let wait = section.value("dns_wait");
    Some(DnsProof { hook, wait })
}

fn check_hook(section: &SectionTable, program: &Path, diagnostics: &mut Diagnostics) {
    if !is_executable(program) {
        let program = program.display();
        let why = format!("is `{program}`, which does not exist or is not executable");
        let help = "name a file that Galley's user may execute (`chmod 755`)";
        section.report("dns_hook", why, help, diagnostics);
    }
}

fn is_executable(file: &Path) -> bool {
    let metadata = file.metadata();
    metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn directory(section: &SectionTable, diagnostics: &mut Diagnostics) {
    let directory: String = section.value("directory");
    let rest = directory.strip_prefix("https://").unwrap_or_default();
    let is_plain = directory.bytes().all(|byte| byte.is_ascii_graphic());
    let has_host = rest.split('/').next().is_some_and(|host| !host.is_empty());
    if !is_plain || !has_host {
        let why = format!("is {}, which is not an `https` URL", shown(&directory));
        let help = "write the URL of the authority's directory, such as `https://acme-v02.api.letsencrypt.org/directory`";
        section.report("directory", why, help, diagnostics);
    }
}

fn root(section: &SectionTable, diagnostics: &mut Diagnostics) {
    let file: Option<PathBuf> = section.get("ca");
    if let Some(file) = file
        && let Err(trouble) = galley_certs::read_roots(&file)
    {
        let why = format!("is `{}`, {trouble}", file.display());
        let help = "name a PEM file with the root certificate of the directory's server";
        section.report("ca", why, help, diagnostics);
    }
}

fn email(section: &SectionTable, diagnostics: &mut Diagnostics) {
    let Some(email) = section.get::<String>("email") else {
        return;
    };
    let is_plain = email
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b',' && byte != b'?');
    let halves = email.split_once('@');
    let is_address = halves.is_some_and(|(name, host)| !name.is_empty() && !host.is_empty());
    if !is_plain || !is_address {
        let why = format!("is {}, which is not an email address", shown(&email));
        let help = "write one email address, such as `admin@example.com`, or leave the option out";
        section.report("email", why, help, diagnostics);
    }
}

/// Reports hosts of a site with `tls = "auto"` for which no authority issues a certificate by these challenges.
pub(crate) fn hosts(
    section: &SectionTable,
    challenges: &[AcmeChallenge],
    diagnostics: &mut Diagnostics,
) {
    let has_dns = challenges.contains(&AcmeChallenge::Dns01);
    let hosts: Vec<(SourceSpan, HostPattern)> = section.get("hosts").unwrap_or_default();
    for (position, host) in &hosts {
        if let Some((why, help)) = obstacle(host, has_dns) {
            let text = host.to_string();
            let message = format!("`site.tls` is `auto`, but `{text}` {why}");
            diagnostics.add(position, "site.tls", message, help);
        }
    }
}

/// Why a certificate cannot be obtained for a host, and the remedy.
fn obstacle(host: &HostPattern, has_dns: bool) -> Option<(&'static str, &'static str)> {
    const LOCAL: &str = "give the site a certificate of your own in `tls`, or leave `tls` out";
    match host {
        HostPattern::Any => Some((
            "means every host, and a certificate needs names",
            "name the site's hosts in `hosts`",
        )),
        HostPattern::Wildcard(_) if has_dns => None,
        HostPattern::Wildcard(_) => Some((
            "needs the DNS-01 challenge",
            "add `challenge = [\"dns-01\"]` and `dns_hook` to `[acme]`, name the hosts one by one in `hosts`, or give the site a certificate of your own in `tls`",
        )),
        HostPattern::Exact(name) => reason_not_public(name).map(|why| (why, LOCAL)),
    }
}

/// Why a host cannot be in the public DNS.
fn reason_not_public(name: &str) -> Option<&'static str> {
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    if bare.parse::<IpAddr>().is_ok() {
        Some("is an address, not a name")
    } else if name == "localhost" || name.ends_with(".localhost") {
        Some("is a local name, for which no authority issues certificates")
    } else if !name.contains('.') {
        Some("is a name without a dot, for which no authority issues certificates")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_and_wildcard_hosts_get_no_certificate() {
        let exact = |name: &str| HostPattern::Exact(name.to_owned());
        for (host, is_fine) in [
            (exact("example.com"), true),
            (exact("a.b.example.test"), true),
            (exact("localhost"), false),
            (exact("a.localhost"), false),
            (exact("intranet"), false),
            (exact("192.0.2.1"), false),
            (exact("[2001:db8::1]"), false),
            (HostPattern::Wildcard(".example.com".to_owned()), false),
            (HostPattern::Any, false),
        ] {
            assert_eq!(obstacle(&host, false).is_none(), is_fine, "{host:?}");
        }
    }

    #[test]
    fn wildcards_need_dns_01() {
        let wildcard = HostPattern::Wildcard(".example.com".to_owned());
        assert!(obstacle(&wildcard, false).is_some());
        assert!(obstacle(&wildcard, true).is_none());
        assert!(obstacle(&HostPattern::Any, true).is_some());
    }
}
