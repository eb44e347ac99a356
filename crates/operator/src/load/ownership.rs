//! Decides which targets may be tested: loopback, hosts of the configuration, and hosts on which the user can place a file.

use std::fmt::Write as _;
use std::path::Path;

use galley_config::Config;
use galley_policy::route::HostPattern;
use sha2::{Digest, Sha256};

use super::fetcher::SiteFetcher;
use super::site::TestedSite;

/// The reason why a target may be tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetPermission {
    Loopback,
    Configured,
    /// A file on the host proves the ownership.
    Proved,
}

/// Decides whether the site may be tested. `config`: the configuration, if it can be read.
pub(super) fn permission(
    site: &TestedSite,
    config: Option<&Config>,
    claimed: Option<&str>,
    fetcher: &SiteFetcher<'_>,
) -> Result<TargetPermission, String> {
    if site.addr.ip().is_loopback() {
        return Ok(TargetPermission::Loopback);
    }
    let mut hosts = config
        .into_iter()
        .flat_map(|config| config.sites.iter().flat_map(|site| &site.hosts));
    // With `--connect-to`, the address may belong to another owner.
    if !site.is_elsewhere && hosts.any(|pattern| names(pattern, &site.host)) {
        return Ok(TargetPermission::Configured);
    }
    let is_claimed = claimed.is_some_and(|host| host.eq_ignore_ascii_case(&site.host));
    if !is_claimed {
        return Err(format!(
            "`{0}` is neither on this machine nor a host of the configuration: test only what is yours, and say so with --i-own {0}",
            site.host
        ));
    }
    let token = token(&site.host)?;
    let missing = |what: &str| {
        format!(
            "{what}: to prove that `{}` is yours, let {}{PROOF} contain this line:\n{token}",
            site.host,
            site.url()
        )
    };
    let page = fetcher.get(PROOF).map_err(|why| missing(&why))?;
    if page.status != 200 {
        return Err(missing(&format!(
            "the host answers with status {}",
            page.status
        )));
    }
    if page.body.trim_ascii() != token.as_bytes() {
        return Err(missing("the file has other content"));
    }
    Ok(TargetPermission::Proved)
}

/// Whether a host pattern of the configuration names this host; `*` does not.
fn names(pattern: &HostPattern, host: &str) -> bool {
    match pattern {
        HostPattern::Exact(name) => name == host,
        HostPattern::Wildcard(end) => host.len() > end.len() && host.ends_with(end.as_str()),
        HostPattern::Any => false,
    }
}

/// The content of the file: constant for this host on this machine, and unknown to others.
fn token(host: &str) -> Result<String, String> {
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).ok();
    let machine = MACHINE
        .iter()
        .find_map(|path| read(path).filter(|text| !text.trim().is_empty()));
    let machine = machine.ok_or("this machine has no /etc/machine-id")?;
    let hash = Sha256::digest(format!("galley-load\0{}\0{host}", machine.trim()));
    let mut token = String::new();
    for byte in hash.iter().take(TOKEN_BYTES) {
        let _ = write!(token, "{byte:02x}");
    }
    Ok(token)
}

/// The path of the file.
const PROOF: &str = "/.well-known/galley-load.txt";
/// Sources for the machine's secret. The second one changes with each boot.
const MACHINE: [&str; 2] = ["/etc/machine-id", "/proc/sys/kernel/random/boot_id"];
const TOKEN_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_configuration_count() {
        let exact = HostPattern::Exact("example.com".to_owned());
        let wildcard = HostPattern::Wildcard(".example.com".to_owned());
        for (pattern, host, wanted) in [
            (&exact, "example.com", true),
            (&exact, "www.example.com", false),
            (&wildcard, "www.example.com", true),
            (&wildcard, ".example.com", false),
            (&wildcard, "badexample.com", false),
            (&HostPattern::Any, "example.com", false),
        ] {
            assert_eq!(names(pattern, host), wanted, "{pattern:?} {host}");
        }
    }

    #[test]
    fn a_token_depends_on_the_host() {
        let (one, other) = (token("a.test").unwrap(), token("b.test").unwrap());
        assert_eq!(one, token("a.test").unwrap());
        assert_ne!(one, other);
        assert_eq!(one.len(), 2 * TOKEN_BYTES);
    }
}
