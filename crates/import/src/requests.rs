//! The requests of a comparison.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use crate::directive::Directive;
use crate::evidence;
use crate::served::StatementPaths;

/// Samples, and longer paths, which match, too, unless the end is anchored; other sections may match only the shorter ones.
pub(crate) fn longer(paths: &StatementPaths) -> Vec<String> {
    let samples = paths.samples();
    let longer = samples.iter().map(|one| format!("{one}a"));
    longer.chain(samples.iter().cloned()).collect()
}

/// Statements and those in their blocks.
pub(crate) fn flat<'d>(block: impl IntoIterator<Item = &'d Directive>) -> Vec<&'d Directive> {
    let mut directives = Vec::new();
    for one in block {
        directives.push(one);
        directives.extend(flat(one.inner()));
    }
    directives
}

/// The requests for these paths, for each name below each folder, and for what every WordPress has.
pub(crate) fn targets(names: &[String], folders: &[String]) -> BTreeSet<String> {
    let below = folders.iter().filter(|folder| folder.ends_with('/'));
    let below = below.flat_map(|folder| {
        let bare = folder.trim_end_matches('/');
        names.iter().map(move |name| format!("{bare}{name}"))
    });
    let paths = names.iter().chain(folders);
    let queries = paths.clone().take(MAX_TARGETS / 10);
    let others = evidence::OTHER_TARGETS.iter().map(|one| (*one).to_owned());
    let targets = others
        .chain(paths.clone().cloned())
        .chain(queries.map(|path| format!("{path}?a=b")))
        .chain(below);
    targets
        .filter(|target| is_plain(target))
        .take(MAX_TARGETS)
        .collect()
}

/// Whether both servers take a target as it is.
fn is_plain(target: &str) -> bool {
    let path = target.split('?').next().unwrap_or_default();
    let mut segments = path.split('/').skip(1);
    let is_name =
        |one: &str| !matches!(one, "." | "..") && (!one.is_empty() || path.ends_with('/'));
    path.starts_with('/')
        && !target.contains(['%', '#'])
        && !path.contains("//")
        && segments.all(is_name)
}

const MAX_TARGETS: usize = 2_000;

/// A client that no list names, and one of each network that these words name.
pub(crate) fn clients<'w>(words: impl Iterator<Item = &'w str>) -> Vec<IpAddr> {
    let mut clients = vec![IpAddr::V4(Ipv4Addr::new(203, 0, 113, 77))];
    for word in words {
        let address = word.split('/').next().unwrap_or_default().parse();
        if let Ok(address) = address
            && clients.len() < MAX_CLIENTS
            && !clients.contains(&address)
        {
            clients.push(address);
        }
    }
    clients
}

const MAX_CLIENTS: usize = 6;

/// What each comparison requests: a script, a file, a page, a folder, and the administration.
pub(crate) const USUAL_TARGETS: [&str; 5] = [
    "/a.php",
    "/a.css",
    "/a",
    "/galley-try-folder/",
    "/wp-admin/",
];
