//! The requests for each statement of the old configuration: for its paths, including files, with addresses and passwords.

use std::net::IpAddr;

use galley_import::{ServedConfiguration, ServedStatement, StatementPaths, StatementSubject};
use ipnet::IpNet;

use super::endpoints::VisitedHost;
use super::files::RootFiles;
use super::visit::{HERE, TryVisit};
use super::workplace::{TestWorkspace, basic};

/// The conditions that the test can simulate.
pub(super) struct VisitMeans<'w> {
    pub(super) workplace: &'w TestWorkspace,
    /// The password files that are replaced for both servers.
    pub(super) passwords: &'w [std::path::PathBuf],
    /// Whether both servers read a visitor's address from `X-Forwarded-For`.
    pub(super) takes_addresses: bool,
}

/// The requests for the statements about a host, of the old configuration and of the draft.
pub(super) fn of_host(
    host: &VisitedHost,
    files: &RootFiles,
    configurations: [&ServedConfiguration; 2],
    means: &VisitMeans<'_>,
) -> Vec<TryVisit> {
    let mut visits = Vec::new();
    let addresses = addresses(configurations, means);
    let statements = configurations.iter().flat_map(|one| &one.statements);
    for statement in statements {
        let is_own = statement.hosts.is_empty()
            || statement.hosts.iter().any(|name| host.names.contains(name));
        if is_own && visits.len() < MAX_PER_HOST {
            visits.extend(of_statement(statement, host, files, &addresses, means));
        }
    }
    // The administration often has separate rules.
    let targets: &[&str] = if host.has_content {
        &["/wp-admin/", "/wp-login.php"]
    } else {
        &[]
    };
    for target in targets {
        let visit = TryVisit::get(&host.name, host.is_tls(), target);
        visits.extend(addresses.iter().map(|address| visit.from(*address)));
    }
    visits
}

fn of_statement(
    statement: &ServedStatement,
    host: &VisitedHost,
    files: &RootFiles,
    addresses: &[IpAddr],
    means: &VisitMeans<'_>,
) -> Vec<TryVisit> {
    let mut targets: Vec<String> = match statement.paths {
        StatementPaths::All => vec!["/".to_owned()],
        _ => statement.paths.samples(),
    };
    let among = files
        .all
        .iter()
        .filter(|path| statement.paths.matches(path));
    targets.extend(among.take(MAX_FILES).cloned());
    let mut visits = Vec::new();
    for target in targets {
        let visit = TryVisit::get(&host.name, host.is_tls(), &target);
        match &statement.subject {
            StatementSubject::Access(_) => {
                visits.extend(addresses.iter().map(|address| visit.from(*address)));
            }
            StatementSubject::Password(path) => {
                visits.push(visit.with("authorization", &basic("galley-try:wrong")));
                if let Some(index) = means.passwords.iter().position(|known| known == path) {
                    visits.push(visit.with("authorization", &means.workplace.authorization(index)));
                }
            }
            StatementSubject::Redirect => visits.push(TryVisit {
                target: format!("{target}?a=b"),
                ..visit.clone()
            }),
            StatementSubject::Field(_) => visits.push(visit.with("accept-encoding", "gzip")),
            StatementSubject::Section | StatementSubject::Content => visits.push(TryVisit {
                target: format!("{target}?galley-try=1"),
                ..visit.clone()
            }),
            StatementSubject::Lifetime | StatementSubject::ErrorPage => {}
        }
        visits.push(visit);
    }
    visits
}

/// Two addresses of this machine, one address of each network in a statement, and an unrelated one.
fn addresses(configurations: [&ServedConfiguration; 2], means: &VisitMeans<'_>) -> Vec<IpAddr> {
    let mut addresses = vec![HERE, IpAddr::from([127, 0, 0, 2])];
    let mut add = |address: IpAddr| {
        let is_possible = means.takes_addresses || (address.is_loopback() && address.is_ipv4());
        if is_possible && !addresses.contains(&address) && addresses.len() < MAX_ADDRESSES {
            addresses.push(address);
        }
    };
    for statement in configurations.iter().flat_map(|one| &one.statements) {
        if let StatementSubject::Access(words) = &statement.subject {
            words
                .iter()
                .filter_map(|word| one_of(word))
                .for_each(&mut add);
        }
    }
    add(STRANGER);
    addresses
}

/// An address in a network.
fn one_of(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let network: IpNet = text.parse().ok()?;
    network
        .hosts()
        .nth(1)
        .or_else(|| network.hosts().next())
        .or(Some(network.addr()))
}

/// An address for documentation (RFC 5737), which is in no network of a statement.
const STRANGER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 77));
const MAX_ADDRESSES: usize = 24;
const MAX_FILES: usize = 3;
const MAX_PER_HOST: usize = 3_000;
