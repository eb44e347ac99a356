//! The requests from a log, from a sitemap, and from links.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use galley_load::{PageMethod, Sitemap, access_log, sitemap};

use super::endpoints::{TryEndpoints, VisitedHost};
use super::error::TryError;
use super::exchange::send;
use super::visit::TryVisit;

/// Requests, and descriptions of omitted ones.
#[derive(Debug, Default)]
pub(super) struct FoundPages {
    pub(super) visits: Vec<TryVisit>,
    pub(super) skipped: Vec<String>,
}

/// The distinct requests of a log in the combined format. The format contains no hosts; all requests are for `host`.
pub(super) fn logged(path: &Path, host: &VisitedHost) -> Result<FoundPages, TryError> {
    let text = read(path)?;
    let mut pages = FoundPages::default();
    let log = access_log(&text);
    for page in log.pages {
        let visit = TryVisit::get(&host.name, host.is_tls(), &page.target);
        let visit = match page.method {
            PageMethod::Get => visit,
            PageMethod::Head => visit.head(),
        };
        if !pages.visits.contains(&visit) && pages.visits.len() < MAX_PAGES {
            pages.visits.push(visit);
        }
    }
    for (method, count) in other_methods(&text) {
        pages.skipped.push(format!(
            "{count} {method} requests of the log, which change something"
        ));
    }
    if pages.visits.is_empty() {
        let why = format!("`{}` has no GET or HEAD request", path.display());
        return Err(TryError::Pages(why));
    }
    Ok(pages)
}

fn other_methods(text: &str) -> BTreeMap<&str, usize> {
    let mut methods = BTreeMap::new();
    for line in text.lines() {
        let method = line
            .split('"')
            .nth(1)
            .and_then(|request| request.split(' ').next());
        let is_method =
            |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase());
        if let Some(method) = method
            .filter(is_method)
            .filter(|method| !matches!(*method, "GET" | "HEAD"))
        {
            *methods.entry(method).or_default() += 1;
        }
    }
    methods
}

/// The pages of a sitemap and its nested sitemaps, from a file or a URL on the old server.
pub(super) async fn mapped(
    place: &str,
    hosts: &[VisitedHost],
    endpoints: &TryEndpoints,
) -> Result<FoundPages, TryError> {
    let mut pages = FoundPages::default();
    let (mut foreign, mut files) = (0_usize, 0);
    let mut waiting = vec![place.to_owned()];
    while let Some(file) = waiting.pop() {
        files += 1;
        let text = if file.contains("://") {
            match of_url(&file, hosts) {
                Some(visit) => {
                    let response = send(&visit, endpoints.of(&visit).old).await;
                    String::from_utf8_lossy(&response.body).into_owned()
                }
                None => {
                    return Err(TryError::Pages(format!(
                        "`{file}` is not of a host of the old server"
                    )));
                }
            }
        } else {
            read(Path::new(&file))?
        };
        match sitemap(&text) {
            None => return Err(TryError::Pages(format!("`{file}` is no sitemap"))),
            Some(Sitemap::Index(urls)) => {
                waiting.extend(
                    urls.into_iter()
                        .filter(|url| url.contains("://"))
                        .take(MAX_SITEMAPS),
                );
                waiting.truncate(MAX_SITEMAPS.saturating_sub(files));
            }
            Some(Sitemap::Pages(urls)) => {
                for url in urls {
                    match of_url(&url, hosts) {
                        Some(visit) if pages.visits.len() < MAX_PAGES => pages.visits.push(visit),
                        Some(_) => {}
                        None => foreign += 1,
                    }
                }
            }
        }
    }
    if foreign > 0 {
        pages.skipped.push(format!(
            "{foreign} URLs of the sitemap, which are of other hosts"
        ));
    }
    Ok(pages)
}

/// The request for a URL of one of the hosts.
pub(super) fn of_url(url: &str, hosts: &[VisitedHost]) -> Option<TryVisit> {
    let (scheme, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, target) = rest.split_at(end);
    let name = host.split(':').next()?.to_ascii_lowercase();
    let is_served = hosts.iter().any(|one| one.names.contains(&name));
    let target = target.split('#').next().unwrap_or_default();
    let target = if target.starts_with('/') {
        target.to_owned()
    } else {
        format!("/{target}")
    };
    let visit = TryVisit::get(&name, scheme == "https", &target);
    (is_served && visit.is_fit()).then_some(visit)
}

fn read(path: &Path) -> Result<String, TryError> {
    let wrong = |error: std::io::Error| {
        TryError::Pages(format!("cannot read `{}`: {error}", path.display()))
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(wrong)?;
    file.take(MAX_BYTES)
        .read_to_end(&mut bytes)
        .map_err(wrong)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The maximum number of distinct requests from a log or a sitemap.
const MAX_PAGES: usize = 2_000;
const MAX_SITEMAPS: usize = 100;
const MAX_BYTES: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> VisitedHost {
        VisitedHost {
            name: "a.test".to_owned(),
            names: vec!["a.test".to_owned()],
            root: None,
            has_plain: true,
            has_tls: false,
            has_content: true,
        }
    }

    #[test]
    fn only_get_and_head_requests_of_a_log_are_sent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let line = |request: &str| {
            format!(
                "192.0.2.1 - - [10/Oct/2026:13:55:00 +0200] \"{request} HTTP/1.1\" 200 5 \"-\" \"x\"\n"
            )
        };
        let text = line("GET /a")
            + &line("GET /a")
            + &line("HEAD /b")
            + &line("POST /wp-login.php")
            + &line("PURGE /");
        std::fs::write(&path, text).unwrap();
        let found = logged(&path, &host()).unwrap();
        let targets: Vec<_> = found
            .visits
            .iter()
            .map(|visit| (visit.method.name(), visit.target.as_str()))
            .collect();
        assert_eq!(targets, [("GET", "/a"), ("HEAD", "/b")]);
        assert_eq!(found.skipped.len(), 2);
        assert!(logged(Path::new("/nonexistent"), &host()).is_err());
    }

    #[test]
    fn urls_of_other_hosts_are_rejected() {
        let hosts = [host()];
        assert_eq!(
            of_url("http://a.test:80?x=1#y", &hosts).unwrap().target,
            "/?x=1"
        );
        assert!(of_url("https://A.test/b", &hosts).unwrap().is_tls);
        assert!(of_url("http://b.test/", &hosts).is_none() && of_url("/a", &hosts).is_none());
    }
}
