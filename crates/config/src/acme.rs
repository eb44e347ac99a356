//! `[acme]`: how certificates are got, and for which names that is possible.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use galley_policy::route::HostPattern;

use crate::check;
use crate::complaint::{Complaints, SourceSpan, shown};
use crate::config::{AcmeChallenge, AcmeConfig, DnsHook};
use crate::machine::Surroundings;
use crate::tree::SectionTable;

pub(crate) fn acme(
    given: &SectionTable,
    here: &Surroundings,
    complaints: &mut Complaints,
) -> AcmeConfig {
    check::token_file(given, "account_key_file", complaints);
    root(given, complaints);
    directory(given, complaints);
    email(given, complaints);
    let challenges = challenges(given, complaints);
    AcmeConfig {
        email: given.given("email"),
        directory: given.value("directory"),
        ca: given.given("ca"),
        storage: given
            .given("storage")
            .unwrap_or_else(|| here.state.join("acme")),
        dns: dns(given, &challenges, complaints),
        challenges,
        profile: given.given("profile"),
        binding: binding(given, complaints),
        retry: given.value("retry"),
    }
}

/// The account at an authority that wants one of its customers: its name, and the file with its key.
fn binding(given: &SectionTable, complaints: &mut Complaints) -> Option<(String, PathBuf)> {
    for (one, other) in [
        ("account_id", "account_key_file"),
        ("account_key_file", "account_id"),
    ] {
        if given.has(one) && !given.has(other) {
            let why = format!("is given without `acme.{other}`");
            let help = "give both, as the authority issued them, or neither";
            given.complain(one, why, help, complaints);
        }
    }
    given
        .given("account_id")
        .zip(given.given("account_key_file"))
}

fn challenges(given: &SectionTable, complaints: &mut Complaints) -> Vec<AcmeChallenge> {
    let known = "`\"http-01\"`, `\"tls-alpn-01\"` or `\"dns-01\"`";
    check::not_empty(given, "challenge", known, complaints);
    let words: Vec<String> = given.value("challenge");
    // The values of the table's row.
    let challenges = words.iter().map(|word| match word.as_str() {
        "tls-alpn-01" => AcmeChallenge::TlsAlpn01,
        "dns-01" => AcmeChallenge::Dns01,
        _ => AcmeChallenge::Http01,
    });
    challenges.collect()
}

fn dns(
    given: &SectionTable,
    challenges: &[AcmeChallenge],
    complaints: &mut Complaints,
) -> Option<DnsHook> {
    let program: Option<PathBuf> = given.given("dns_hook");
    check_hook(given, program.as_deref(), challenges, complaints);
    let wait = given.value("dns_wait");
    program.map(|program| DnsHook { program, wait })
}

/// The challenge and the program need each other.
fn check_hook(
    given: &SectionTable,
    program: Option<&Path>,
    challenges: &[AcmeChallenge],
    complaints: &mut Complaints,
) {
    let is_wanted = challenges.contains(&AcmeChallenge::Dns01);
    match program {
        None if is_wanted => {
            let why = "contains `dns-01`, but `acme.dns_hook` is missing";
            let help = "name a program in `dns_hook` that sets and removes records of your DNS, or remove `dns-01`";
            given.complain("challenge", why, help, complaints);
        }
        Some(_) if !is_wanted => {
            let why = "is given, but `acme.challenge` does not contain `dns-01`";
            let help = "add `challenge = [\"dns-01\"]`, or remove `dns_hook`";
            given.complain("dns_hook", why, help, complaints);
        }
        Some(program) if !is_executable(program) => {
            let program = program.display();
            let why = format!("is `{program}`, which does not exist or is not executable");
            let help = "name a file that Galley's user may execute (`chmod 755`)";
            given.complain("dns_hook", why, help, complaints);
        }
        _ => {}
    }
}

fn is_executable(file: &Path) -> bool {
    let found = file.metadata();
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn directory(given: &SectionTable, complaints: &mut Complaints) {
    let directory: String = given.value("directory");
    let rest = directory.strip_prefix("https://").unwrap_or_default();
    let is_plain = directory.bytes().all(|byte| byte.is_ascii_graphic());
    let has_host = rest.split('/').next().is_some_and(|host| !host.is_empty());
    if !is_plain || !has_host {
        let why = format!("is {}, which is not an `https` URL", shown(&directory));
        let help = "write the URL of the authority's directory, such as `https://acme-v02.api.letsencrypt.org/directory`";
        given.complain("directory", why, help, complaints);
    }
}

fn root(given: &SectionTable, complaints: &mut Complaints) {
    let file: Option<PathBuf> = given.given("ca");
    if let Some(file) = file
        && let Err(trouble) = galley_certs::read_roots(&file)
    {
        let why = format!("is `{}`, {trouble}", file.display());
        let help = "name a PEM file with the root certificate of the directory's server";
        given.complain("ca", why, help, complaints);
    }
}

fn email(given: &SectionTable, complaints: &mut Complaints) {
    let Some(email) = given.given::<String>("email") else {
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
        given.complain("email", why, help, complaints);
    }
}

/// Complains about the hosts of a site with `tls = "auto"` for which no authority issues a certificate by these challenges.
pub(crate) fn hosts(
    given: &SectionTable,
    challenges: &[AcmeChallenge],
    complaints: &mut Complaints,
) {
    let has_dns = challenges.contains(&AcmeChallenge::Dns01);
    let hosts: Vec<(SourceSpan, HostPattern)> = given.given("hosts").unwrap_or_default();
    for (place, host) in &hosts {
        if let Some((why, help)) = hindrance(host, has_dns) {
            let text = check::host_text(host);
            let message = format!("`site.tls` is `auto`, but `{text}` {why}");
            complaints.add(place, "site.tls", message, help);
        }
    }
}

/// Why there is no certificate to be had for a host, and what to do.
fn hindrance(host: &HostPattern, has_dns: bool) -> Option<(&'static str, &'static str)> {
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
        HostPattern::Exact(name) => not_public(name).map(|why| (why, LOCAL)),
    }
}

/// Why the public name system cannot have a host.
fn not_public(name: &str) -> Option<&'static str> {
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
    fn hosts_that_nobody_issues_for() {
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
            assert_eq!(hindrance(&host, false).is_none(), is_fine, "{host:?}");
        }
    }

    #[test]
    fn wildcards_need_the_dns() {
        let wildcard = HostPattern::Wildcard(".example.com".to_owned());
        assert!(hindrance(&wildcard, false).is_some());
        assert!(hindrance(&wildcard, true).is_none());
        assert!(hindrance(&HostPattern::Any, true).is_some());
    }
}
