//! Converts `server` to a site, or to a redirect to one.

use crate::directive::Directive;
use crate::draft::{ImportedSite, Section};
use crate::gate::is_network;
use crate::host_redirect::{HostRedirect, OF_HOST};
use crate::known;
use crate::nginx::closing::{is_tls, port};
use crate::nginx::common::{self, DirectiveScope};
use crate::nginx::condition::host_redirect;
use crate::nginx::context::{Context, ServerFacts};
use crate::nginx::{closing, condition, inner, location, passing};
use crate::requests::flat;
use crate::units;
use crate::words::WordList;
use crate::write::certificate_pair;

/// A converted server.
#[derive(Debug, Default)]
pub(super) struct Server {
    pub site: ImportedSite,
    /// The target of a server that redirects all requests.
    pub redirect: Option<HostRedirect>,
    pub options: Section,
    /// Whether the server only denies hosts that no other server has.
    pub is_refusal: bool,
    /// Whether a condition for each name redirects, so that nothing else of the server applies to these hosts.
    is_of_each_name: bool,
}

/// Converts a server. `inherited`: the statements of `http` that apply to each server.
pub(super) fn convert(
    block: &[Directive],
    inherited: &[&Directive],
    context: &mut Context<'_>,
) -> Server {
    let directives: Vec<&Directive> = block.iter().collect();
    let redirect = closing::redirect_of_each_name(block);
    let mut server = Server {
        is_refusal: closing::refuses_hosts(&directives, context),
        is_of_each_name: redirect.is_some(),
        redirect,
        ..Server::default()
    };
    let is_of_all_hosts = server.is_refusal || closing::hosts(block) == ["*"];
    context.server = facts(block, inherited);
    context.server.is_served = closing::is_served(block, context);
    // The meaning of a location depends on the root, wherever that is named.
    let with_inherited = || inherited.iter().copied().chain(block);
    let is_location = |one: &&Directive| matches!(one.name(), "location" | "if");
    let first = with_inherited().filter(|one| !is_location(one));
    for directive in first.chain(with_inherited().filter(is_location)) {
        match directive.name() {
            "listen" => listen(directive, is_of_all_hosts, &mut server),
            _ if server.is_refusal => directive.not_needed(closing::NO_SUCH_HOST),
            _ => statement(directive, &mut server, context),
        }
    }
    common::access(block, &mut server.site.section);
    server.listens_by_default();
    server
}

impl Server {
    /// The listeners, and the options for all sites.
    pub fn global(&self) -> Section {
        let mut listeners = Section::default();
        for name in ["listen", "listen_tls"] {
            let list = self.site.listeners.list(name);
            if !list.is_empty() {
                listeners.add(name, list.to_vec(), None);
            }
        }
        listeners
            .settings
            .extend(self.options.settings.iter().cloned());
        listeners
    }

    /// A server without `listen` has port 80.
    fn listens_by_default(&mut self) {
        let listeners = &mut self.site.listeners;
        if listeners.is_empty() {
            listeners.add("listen", ["0.0.0.0:80".to_owned()], None);
        }
    }
}

/// The properties of a server with these statements.
fn facts(block: &[Directive], inherited: &[&Directive]) -> ServerFacts {
    let listens = || block.iter().filter(|one| one.name() == "listen");
    let mut plain_ports: Vec<String> = listens().filter(|one| !is_tls(one)).map(port).collect();
    plain_ports.dedup();
    if listens().next().is_none() {
        plain_ports.push("80".to_owned());
    }
    let others = |one: &&Directive| {
        one.name() == "location"
            && one.arguments() != ["/"]
            && inner::denial_status(one.inner()).is_none()
    };
    ServerFacts {
        plain_ports,
        is_sole: !block.iter().any(|one| others(&one)),
        is_files_only: !passes(block),
        passes: flat(block)
            .iter()
            .filter(|one| one.name().ends_with("_pass"))
            .count(),
        client_field: inherited
            .iter()
            .copied()
            .chain(block)
            .rfind(|one| one.name() == "real_ip_header")
            .map_or_else(
                || "x-real-ip".to_owned(),
                |one| one.argument(0).to_ascii_lowercase(),
            ),
        is_proxy: is_proxy(block),
        is_served: false,
        sends_host: passing::sends_host(block)
            .or_else(|| passing::sends_host(inherited.iter().copied()))
            .unwrap_or(false),
        has_index: inherited
            .iter()
            .copied()
            .chain(block)
            .rfind(|one| one.name() == "index")
            .is_some_and(|one| one.argument(0) == "index.php"),
    }
}

/// How requests reach a server.
pub(super) struct ServerRole {
    /// Whether they use TLS, for each kind of listener.
    pub schemes: Vec<bool>,
    pub host: String,
}

/// A host of a server, and its schemes.
pub(super) fn role(block: &[&Directive]) -> ServerRole {
    let listens = || block.iter().filter(|one| one.name() == "listen");
    let mut schemes: Vec<bool> = listens().map(|one| is_tls(one)).collect();
    schemes.sort_unstable();
    schemes.dedup();
    if schemes.is_empty() {
        schemes.push(false);
    }
    let names = block.iter().filter(|one| one.name() == "server_name");
    let mut names = names
        .flat_map(|one| one.arguments())
        .filter(|name| name.contains('.') && !is_pattern(&name.as_str()));
    let name = names
        .next()
        .map_or("example.com", |name| name.trim_start_matches('.'));
    let host = name.replace('*', "www").to_ascii_lowercase();
    ServerRole { schemes, host }
}

/// Whether each location passes its requests to HTTP servers, refuses or redirects them, and there is one for all paths.
fn is_proxy(block: &[Directive]) -> bool {
    let mut locations = block.iter().filter(|one| one.name() == "location");
    let has_all = locations
        .clone()
        .any(|one| one.arguments() == ["/"] && one.has("proxy_pass"));
    let sends_none = |one: &Directive| {
        one.has("proxy_pass") || one.has("return") || inner::denial_status(one.inner()).is_some()
    };
    has_all && locations.all(|one| sends_none(one) && !one.has("location"))
}

/// Whether a block passes requests on.
fn passes(block: &[Directive]) -> bool {
    block
        .iter()
        .any(|one| one.name().ends_with("_pass") || passes(one.inner()))
}

fn statement(directive: &Directive, server: &mut Server, context: &mut Context<'_>) {
    let argument = directive.argument(0);
    let site = &mut server.site;
    match directive.name() {
        "root" if argument.contains('$') || !argument.starts_with('/') => {
            directive.not_carried("set `root` to the folder: the path depends on the request, or on where nginx was built");
        }
        "root" if context.server.is_proxy => {
            directive.not_needed("no location sends files");
        }
        "server_name" => names(directive, site),
        "root" => {
            directive.sets("root", argument, &mut site.section);
        }
        "ssl_certificate" | "ssl_certificate_key" => certificate(directive, site),
        "access_log" => directive.logs_to("access", argument, &mut site.log),
        "error_log" => directive.logs_to("error", argument, &mut site.log),
        "location" if is_redirect(directive) => {
            directive.entry.carried("https_redirect or canonical_host");
            for inner in directive.inner() {
                statement(inner, server, context);
            }
        }
        "location" => location::convert(directive, site, context),
        "if" | "return" if server.is_of_each_name => directive.not_needed(closing::NO_SUCH_HOST),
        "if" => condition::convert(directive, site, context),
        "return" | "rewrite" => redirect(directive, server, context),
        "try_files" | "internal" | "break" | "set" => of_server(directive, context),
        "expires" if argument != "off" => {
            let remedy =
                "a lifetime for all pages and files: write rules with `pattern` and `set_headers`";
            directive.not_carried(remedy);
        }
        "keepalive_timeout" => directive.sets_times(&["server.idle_timeout"], &mut server.options),
        "client_header_timeout" => {
            directive.sets_times(&["server.head_timeout"], &mut server.options);
        }
        "client_body_timeout" => {
            directive.sets_times(&["server.body_timeout"], &mut server.options);
        }
        "send_timeout" => directive.sets_times(&["server.write_timeout"], &mut server.options),
        "set_real_ip_from" => trusted(directive, server, context),
        "real_ip_header" if is_client_field(argument) => {
            directive.carried("server.client_field");
        }
        "real_ip_header" => directive.not_carried("set `server.client_field`"),
        "real_ip_recursive" if argument == "on" => {
            directive
                .not_needed("Galley takes the first address from the right that is not trusted");
        }
        "real_ip_recursive" => directive.not_carried(
            "Galley takes the first address from the right that is not trusted: compare `server.trusted_proxies`",
        ),
        _ if passing::pass(directive, None, &mut site.section, context) => {}
        _ if passing::cache_time(directive, &mut site.ttl) => {}
        _ => common::convert(directive, DirectiveScope::Site, &mut site.section, context),
    }
}

/// Whether the directive is `location / { return 301 https://... }`, which redirects the whole server.
fn is_redirect(directive: &Directive) -> bool {
    let sends = |inner: &Directive| host_redirect(inner).is_some();
    directive.arguments() == ["/"] && matches!(directive.inner(), [one] if sends(one))
}

const OTHER_HOSTS: &str = "the listener is carried, but Galley answers 421 to other hosts than those of its sites: add `*` to `hosts` if this one shall have them";

fn listen(directive: &Directive, is_of_all_hosts: bool, server: &mut Server) {
    let words = directive.arguments();
    let has = |word: &str| words.iter().any(|one| one == word);
    if has("quic") {
        return directive
            .not_needed("the listener with TLS speaks HTTP/3, too (`server.listen_quic`)");
    }
    let Some(listener) = units::listener(directive.argument(0), 80) else {
        let remedy = "set `server.listen`: Galley takes addresses and unix sockets";
        return directive.not_carried(remedy);
    };
    if has("proxy_protocol") {
        let options = &mut server.options;
        options.add("proxy_protocol", [listener.clone()], &directive.origin);
    }
    let is_tls = has("ssl") || listener.ends_with(":443");
    let (name, option) = if is_tls {
        ("listen_tls", "server.listen_tls")
    } else {
        ("listen", "server.listen")
    };
    let listeners = &mut server.site.listeners;
    listeners.add(name, [listener], &directive.origin);
    directive.carried(option);
    if (has("default_server") || has("default")) && !is_of_all_hosts {
        directive.not_carried(OTHER_HOSTS);
    }
}

fn names(directive: &Directive, site: &mut ImportedSite) {
    let names = directive.arguments().iter().map(String::as_str);
    let (lost, names): (Vec<&str>, Vec<&str>) = names.partition(is_pattern);
    for name in names {
        let name = name.to_ascii_lowercase();
        let hosts = match name.as_str() {
            "_" | "" | "localhost" if directive.arguments().len() > 1 => continue,
            _ => closing::hosts_of(&name),
        };
        site.section.add("hosts", hosts, &directive.origin);
    }
    if lost.is_empty() {
        return directive.carried("hosts");
    }
    let lost = lost.join("`, `");
    let remedy = format!("Galley takes names and `*.example.com`: name the hosts of `{lost}`");
    directive.not_carried(&remedy);
}

/// Whether a name depends on the request, or matches more than a domain.
fn is_pattern(name: &&str) -> bool {
    let ends_open = name.ends_with(".*") && !name.starts_with('.');
    ends_open || name.starts_with('~') || name.contains('$')
}

fn certificate(directive: &Directive, site: &mut ImportedSite) {
    let path = directive.argument(0);
    if path.contains('$') || path.starts_with("data:") || path.starts_with("engine:") {
        return directive.not_carried("set `tls` to the files, or to \"auto\"");
    }
    let part = if directive.name() == "ssl_certificate" {
        "cert"
    } else {
        "key"
    };
    // Both belong to one option; they are joined when the other one is known.
    site.section.set(part, path, &directive.origin);
    directive.carried("tls");
    let section = &mut site.section;
    if let (Some(cert), Some(key)) = (section.text("cert"), section.text("key")) {
        let pair = certificate_pair(cert, key);
        section.set("tls", pair, &directive.origin);
        section.remove("cert");
        section.remove("key");
    }
}

fn redirect(directive: &Directive, server: &mut Server, context: &Context<'_>) {
    match (host_redirect(directive), directive.name()) {
        (Some(target), _) if server.redirect.is_none() => {
            directive.carried(OF_HOST);
            server.redirect = Some(target);
        }
        (_, "rewrite") => passing::rewritten(directive, &mut server.site),
        (_, _) if known::is_error_status(directive.argument(0)) && context.server.is_served => {
            directive.undecided(closing::SERVED_ELSEWHERE);
        }
        (_, _) if known::is_error_status(directive.argument(0)) => {
            server.site.section.deny_all(&directive.origin);
            server.site.never_asks_upstream(&directive.origin);
            directive.not_carried("closed for all clients, with 403");
        }
        _ => directive.not_carried("write a rule with `redirect`, or send the response from PHP"),
    }
}

/// A statement whose meaning depends on the requests that reach it.
fn of_server(directive: &Directive, context: &mut Context<'_>) {
    let is_reset = directive.name() == "set" && matches!(directive.argument(1), "" | "0");
    if is_reset && context.cache_variables.contains(directive.argument(0)) {
        return directive.not_needed("pages are stored unless a condition says otherwise");
    }
    directive
        .not_carried("a rule of nginx for all requests of the server: write rules for the paths");
}

/// Whether a `real_ip_header` is one that Galley takes addresses from.
fn is_client_field(name: &str) -> bool {
    let fields = WordList("x-forwarded-for x-real-ip forwarded cf-connecting-ip proxy_protocol");
    fields.contains(&name.to_ascii_lowercase())
}

/// Converts `set_real_ip_from`. Without the field that nginx reads, visitors could name their addresses themselves.
fn trusted(directive: &Directive, server: &mut Server, context: &Context<'_>) {
    let (argument, field) = (directive.argument(0), &context.server.client_field);
    let proxy = if argument == "unix:" {
        "unix"
    } else {
        argument
    };
    if !is_client_field(field) || !(is_network(proxy) || proxy == "unix") {
        return directive.not_carried("set `server.trusted_proxies` to networks, and `client_field` to the header in which they send the address");
    }
    let options = &mut server.options;
    if field != "proxy_protocol" {
        options.set("client_field", field.clone(), &directive.origin);
    }
    options.add("trusted_proxies", [proxy.to_owned()], &directive.origin);
    directive.carried("server.trusted_proxies");
}
