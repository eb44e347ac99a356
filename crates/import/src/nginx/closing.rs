//! Servers that answer every request with an error: they refuse hosts that no other server has, or hosts that another server serves at
//! other listeners.

use crate::directive::Directive;
use crate::host_redirect::{HostRedirect, OF_HOST};
use crate::known;
use crate::nginx::condition::{comparison, host_redirect};
use crate::nginx::context::Context;
use crate::places::{PlacedServer, places};
use crate::requests::flat;
use crate::units;

/// The servers that serve some requests.
pub(super) fn serving(all: &[Directive]) -> impl Iterator<Item = &Directive> {
    let servers = flat(all)
        .into_iter()
        .filter(|one| one.name() == "server" && one.block.is_some());
    servers.filter(|one| !closes(one.inner().iter()) && !rejects(one.inner().iter()))
}

/// Whether a server ends the handshakes of all its connections.
fn rejects<'d>(block: impl Iterator<Item = &'d Directive> + Clone) -> bool {
    let is_without_tls = |one: &Directive| one.name() == "listen" && !is_tls(one);
    block
        .clone()
        .any(|one| one.words == ["ssl_reject_handshake", "on"])
        && !block.into_iter().any(is_without_tls)
}

/// Such a server, unless its answer to every request is the same.
pub(super) fn placed(server: &Directive) -> Option<PlacedServer<'_>> {
    let listens = server.inner().iter().filter(|one| one.name() == "listen");
    let mut listeners: Vec<String> = listens
        .filter_map(|one| units::listener(one.argument(0), 80))
        .collect();
    if listeners.is_empty() {
        listeners.push("0.0.0.0:80".to_owned());
    }
    let redirects = |one: &Directive| one.arguments() == ["/"] && one.has("return");
    let redirects = server.has("return") || server.inner().iter().any(redirects);
    (!redirects).then(|| PlacedServer {
        head: server,
        hosts: hosts(server.inner()),
        places: places(listeners.iter()),
    })
}

/// Whether `return` with an error is the answer of a server, at least to requests that no condition is about.
fn closes<'d>(block: impl IntoIterator<Item = &'d Directive>) -> bool {
    let is_error = |one: &Directive| known::is_error_status(one.argument(0));
    let is_meant = |one: &Directive| one.name() == "return" && is_error(one);
    block.into_iter().any(is_meant)
}

/// The hosts of a server; `*` for those that no other server has.
pub(super) fn hosts<'d>(block: impl IntoIterator<Item = &'d Directive>) -> Vec<String> {
    let names = block.into_iter().filter(|one| one.name() == "server_name");
    let mut names: Vec<String> = names
        .flat_map(Directive::arguments)
        .flat_map(|name| hosts_of(name))
        .collect();
    // Beside other names these are words that no request has.
    names.retain(|host| host != "*");
    if names.is_empty() {
        names.push("*".to_owned());
    }
    names
}

/// The hosts of a name; `*` for one that no request has.
pub(super) fn hosts_of(name: &str) -> Vec<String> {
    let name = name.to_ascii_lowercase();
    match (name.as_str(), name.strip_prefix('.')) {
        ("_" | "" | "localhost", _) => vec!["*".to_owned()],
        (_, Some(rest)) => vec![rest.to_owned(), format!("*.{rest}")],
        (_, None) => vec![name],
    }
}

/// Whether another server has a host of this one by the same name, so that both belong to one site.
pub(super) fn is_served(block: &[Directive], context: &Context<'_>) -> bool {
    let mut names = hosts(block).into_iter();
    names.any(|host| context.served_hosts.contains(&host))
}

/// Whether another server serves a host of this one, by whatever name.
fn is_served_by_any(block: &[&Directive], context: &Context<'_>) -> bool {
    let serves = |host: &String| {
        let parents = host.match_indices('.');
        let mut parents = parents.filter_map(|(at, _)| Some(format!("*{}", host.get(at..)?)));
        let has = |one: &str| context.served_hosts.contains(one);
        has(host) || has("*") || parents.any(|parent| has(&parent))
    };
    hosts(block.iter().copied()).iter().any(serves)
}

/// Whether a server only closes connections to hosts that no other one serves: `return` at this level takes precedence over all
/// locations.
pub(super) fn refuses_hosts(block: &[&Directive], context: &Context<'_>) -> bool {
    let is_end = |one: &Directive| one.name() == "return" && one.argument(0) == "444";
    let is_without_tls = |one: &Directive| one.name() == "listen" && !is_tls(one);
    let mut directives = block.iter().copied();
    let rejects = directives
        .clone()
        .any(|one| one.words == ["ssl_reject_handshake", "on"])
        && !directives.clone().any(is_without_tls);
    (rejects || directives.clone().any(is_end))
        && !directives.any(|one| matches!(one.name(), "if" | "rewrite"))
        && !is_served_by_any(block, context)
}

/// The redirect to TLS of a server with `if ($host = NAME) { return 301 https://$host$request_uri; }` for each of its names.
pub(super) fn redirect_of_each_name(block: &[Directive]) -> Option<HostRedirect> {
    let is_meant = |to: &HostRedirect| to.is_plain() && to.scheme == "https" && to.is_own_host();
    let rewritten = |one: &Directive| {
        let condition = comparison(one);
        let [action] = one.inner() else {
            return None;
        };
        let is_host = condition.variable == "$host" && condition.operator == "=";
        let redirect = host_redirect(action).filter(|to| is_host && is_meant(to))?;
        Some((condition.pattern.to_ascii_lowercase(), redirect))
    };
    let rewrites = |one: &&Directive| matches!(one.name(), "if" | "rewrite");
    let rewrites_by_name: Option<Vec<_>> = block.iter().filter(rewrites).map(rewritten).collect();
    let rewrites_by_name = rewrites_by_name.filter(|_| closes(block))?;
    let is_named = |host: &String| rewrites_by_name.iter().any(|(name, _)| name == host);
    if !hosts(block).iter().all(is_named) {
        return None;
    }
    for one in block.iter().filter(rewrites) {
        one.carried(OF_HOST);
    }
    rewrites_by_name
        .into_iter()
        .next()
        .map(|(_, redirect)| redirect)
}

pub(super) fn is_tls(listen: &Directive) -> bool {
    let mut words = listen.arguments().iter();
    words.any(|word| matches!(word.as_str(), "ssl" | "quic")) || port(listen) == "443"
}

/// The port of a `listen`.
pub(super) fn port(directive: &Directive) -> String {
    let listener = units::listener(directive.argument(0), 80).unwrap_or_default();
    let port = listener.rsplit_once(':').map(|(_, port)| port);
    port.unwrap_or_default().to_owned()
}

pub(super) const NO_SUCH_HOST: &str =
    "Galley answers 421 to hosts that no site has; a site with `hosts = [\"*\"]` has them all";

/// Why a refusal of hosts that another server serves is left to the owner of the site.
pub(super) const SERVED_ELSEWHERE: &str = "another server has such hosts, which Galley serves at this listener, too: name the listeners of the site in `listen` and \
     `listen_tls`, or write rules with `deny`";
