//! Redirects of all requests of a host: to another scheme or host of a site, or by a rule.

use crate::directive::Directive;
use crate::draft::{Draft, ImportedSite, RuleDraft, RulePriority, Section};
use crate::places::{OTHER_LISTENERS, places};
use crate::report::ReportEntry;
use crate::source::StatementOrigin;

/// A redirect of all requests of a host.
#[derive(Clone, Debug)]
pub(crate) struct HostRedirect {
    pub entry: ReportEntry,
    pub origin: StatementOrigin,
    /// With a variable: that of the request.
    pub scheme: String,
    /// With a variable: that of the request.
    pub host: String,
    /// The text after the host; `$1` is the path of the request after its slash.
    rest: String,
    pub status: String,
}

impl HostRedirect {
    /// That of a statement to a URL, in which `$1` is the path of the request after its slash.
    pub fn of(one: &Directive, status: &str, url: &str) -> Option<Self> {
        let (scheme, after) = url.split_once("://")?;
        let start = usize::from(after.starts_with(['$', '%']));
        let end = after.get(start..)?.find(['/', '$', '%']);
        let (host, rest) = after.split_at_checked(end.map_or(after.len(), |at| at + start))?;
        Some(Self {
            entry: one.entry.clone(),
            origin: one.origin.clone(),
            scheme: scheme.to_owned(),
            host: host.to_owned(),
            rest: rest.to_owned(),
            status: status.to_owned(),
        })
    }

    pub fn is_own_host(&self) -> bool {
        self.host.contains(['$', '%'])
    }

    pub fn is_own_scheme(&self) -> bool {
        self.scheme.contains(['$', '%'])
    }

    /// Whether it is permanent, and keeps the path.
    pub fn is_plain(&self) -> bool {
        matches!(self.status.as_str(), "301" | "308") && self.rest == "/$1"
    }
}

impl Draft {
    /// Redirects the host of `site`. `schemes`: whether its requests use TLS.
    pub fn redirect_host(&mut self, site: ImportedSite, redirect: &HostRedirect, schemes: &[bool]) {
        let (entry, origin) = (&redirect.entry, &redirect.origin);
        let hosts = site.hosts().to_vec();
        let others = hosts.iter().filter(|host| **host != redirect.host);
        let others: Vec<String> = others.cloned().collect();
        // The target is the host of the request, or the only host.
        let is_same_host = redirect.is_own_host() || others.is_empty();
        let targets = if is_same_host {
            hosts.as_slice()
        } else {
            std::slice::from_ref(&redirect.host)
        };
        if hosts == ["*"] && redirect.is_own_host() {
            self.dropped.extend(origins_of(&site));
            return self.redirect_all(&site, redirect, schemes);
        }
        let is_target = |known: &&mut ImportedSite| {
            let mut hosts = known.hosts().iter();
            hosts.any(|host| targets.contains(host) || host == "*")
        };
        let Some(known) = self.sites.iter_mut().find(is_target) else {
            return self.add_redirecting(site, redirect);
        };
        self.dropped.extend(origins_of(&site));
        let is_https = redirect.scheme == "https" && schemes.len() == 1;
        let listeners = |site: &ImportedSite| {
            let names = ["listen", "listen_tls"].iter();
            places(names.flat_map(|name| site.listeners.list(name)))
        };
        // With `https_redirect` nothing else is served without TLS.
        let only_redirects = is_https && schemes == [false] && redirect.is_plain();
        let is_safe = only_redirects && is_same_host && !known.listeners.has("listen");
        if !is_safe && !listeners(&site).is_subset(&listeners(known)) {
            return entry.not_carried(OTHER_LISTENERS);
        }
        known.listeners.take(site.listeners);
        if !redirect.is_plain() || !(redirect.is_own_scheme() || is_https) {
            return entry.not_carried(MEANT);
        }
        if is_https && schemes == [false] {
            known.section.set("https_redirect", true, origin);
        }
        if !is_same_host && others.iter().any(|other| known.hosts().contains(other)) {
            return entry.not_carried(format!(
                "set `canonical_host` if all visitors shall get to `{}`: the host with TLS answers other names, too",
                redirect.host
            ));
        }
        if !is_same_host {
            let host = redirect.host.clone();
            known.section.set("canonical_host", host, origin);
            known.section.add("hosts", others, None);
        }
    }

    /// Redirects the hosts that have no server without TLS to TLS.
    fn redirect_all(&mut self, site: &ImportedSite, redirect: &HostRedirect, schemes: &[bool]) {
        let is_secure = |known: &&mut ImportedSite| {
            known.listeners.has("listen_tls") && !known.listeners.has("listen")
        };
        let mut sites = self.sites.iter_mut().filter(is_secure).peekable();
        if sites.peek().is_none() {
            return redirect.entry.not_carried(NO_HOST);
        }
        if !redirect.is_plain() || redirect.scheme != "https" || schemes != [false] {
            return redirect.entry.not_carried(MEANT);
        }
        for known in sites {
            known.listeners.take(site.listeners.clone());
            known.section.set("https_redirect", true, &redirect.origin);
        }
    }

    /// Adds a site that redirects everything to another server.
    fn add_redirecting(&mut self, mut site: ImportedSite, redirect: &HostRedirect) {
        let is_unknown = redirect.rest.replace("$1", "").contains(['$', '%']);
        if redirect.is_own_host() || redirect.is_own_scheme() || is_unknown {
            self.dropped.extend(origins_of(&site));
            return redirect.entry.not_carried(BEHIND_PROXY);
        }
        let (origin, keeps_query) = (&redirect.origin, redirect.rest.contains("$1"));
        let target = format!("{}://{}{}", redirect.scheme, redirect.host, redirect.rest);
        let mut rule = RuleDraft::new(Section::default(), RulePriority::Prefix);
        rule.section.set("path", "/*", origin);
        rule.section
            .redirects(target, &redirect.status, keeps_query, origin);
        site.add_rule(rule);
        site.never_asks_upstream(origin);
        self.sites.push(site);
    }
}

/// What to write for a redirect that is not carried.
pub(crate) const MEANT: &str = "set `https_redirect` or `canonical_host`, if a permanent redirect with the whole path is meant";

/// The positions of the statements of a site's rules.
fn origins_of(site: &ImportedSite) -> Vec<StatementOrigin> {
    let settings = site.rules.iter().flat_map(|rule| &rule.section.settings);
    settings.flat_map(|one| one.origins.clone()).collect()
}

const NO_HOST: &str =
    "no site has listeners with TLS alone, and Galley answers 421 to hosts that no site has";

/// The options for a redirect of all requests.
pub(crate) const OF_HOST: &str = "https_redirect, canonical_host or a rule with redirect";

/// Why a redirect by the scheme that a proxy names is not carried.
pub(crate) const BEHIND_PROXY: &str = "name the proxies in `server.trusted_proxies`, then set `https_redirect = true`: without them Galley would \
     redirect every visitor in a loop";
