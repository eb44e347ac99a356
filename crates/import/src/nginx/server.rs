//! `server`: a site, or a redirect to one.

use crate::draft::{ImportedSite, Section, Value};
use crate::nginx::common::{self, DirectiveScope};
use crate::nginx::context::Context;
use crate::nginx::{condition, location, passing};
use crate::tree::ParsedDirective;
use crate::units;

/// A converted server.
#[derive(Debug, Default)]
pub(super) struct Server {
    pub site: ImportedSite,
    pub listen: Vec<String>,
    pub listen_tls: Vec<String>,
    /// Where a server without pages of its own sends all requests.
    pub redirect: Option<ServerRedirect>,
    pub options: Section,
    /// Whether it only refuses hosts that no other server has.
    pub is_refusal: bool,
}

/// `return 301 https://example.com$request_uri` of a whole server.
#[derive(Clone, Debug)]
pub(super) struct ServerRedirect {
    /// With variables of nginx where it is that of the request.
    pub host: String,
    pub is_https: bool,
    pub origin: crate::source::StatementOrigin,
}

/// Converts a server; `inherited`: the statements of `http` that apply to each.
pub(super) fn convert(
    block: &[ParsedDirective],
    inherited: &[&ParsedDirective],
    context: &mut Context<'_>,
) -> Server {
    let mut server = Server::default();
    for directive in inherited {
        statement(directive, &mut server, context);
    }
    for directive in block {
        statement(directive, &mut server, context);
    }
    common::access(block, "allow", &mut server.site.section, context.ledger);
    if server.listen.is_empty() && server.listen_tls.is_empty() {
        server.listen.push("0.0.0.0:80".to_owned());
    }
    server
}

fn statement(directive: &ParsedDirective, server: &mut Server, context: &mut Context<'_>) {
    let origin = Some(&directive.origin);
    let argument = directive.argument(0);
    let site = &mut server.site;
    match directive.name() {
        "listen" => listen(directive, server, context),
        "server_name" => names(directive, site, context),
        "root" => {
            site.section
                .set("root", Value::Text(argument.to_owned()), origin);
            context.ledger.carried(directive.id, "root");
        }
        "ssl_certificate" | "ssl_certificate_key" => certificate(directive, site, context),
        "access_log" | "error_log" => log(directive, site, context),
        "error_page" => error_page(directive, site, context),
        "location" if is_redirect(directive) => {
            context
                .ledger
                .carried(directive.id, "https_redirect or canonical_host");
            for inner in directive.inner() {
                statement(inner, server, context);
            }
        }
        "location" => location::convert(directive, site, context),
        "if" => condition::convert(directive, site, context),
        "return" | "rewrite" => redirect(directive, server, context),
        "keepalive_timeout" | "client_header_timeout" | "client_body_timeout" | "send_timeout" => {
            client_timeout(directive, &mut server.options, context);
        }
        "set_real_ip_from" => {
            server
                .options
                .add("trusted_proxies", [argument.to_owned()], origin);
            context
                .ledger
                .carried(directive.id, "server.trusted_proxies");
        }
        "real_ip_header" => real_ip_header(directive, server, context),
        "real_ip_recursive" => {
            context.ledger.not_needed(
                directive.id,
                "Galley takes the first address from the right that is not trusted",
            );
        }
        _ if passing::pass(directive, &mut site.section, context) => {}
        _ if passing::cache_time(directive, &mut site.ttl, context) => {}
        _ => common::convert(directive, DirectiveScope::Site, &mut site.section, context),
    }
}

/// `location / { return 301 https://... }`, which redirects the whole server.
fn is_redirect(directive: &ParsedDirective) -> bool {
    let sends = |inner: &ParsedDirective| {
        matches!(inner.name(), "return" | "rewrite") && condition::host_of_target(inner).is_some()
    };
    directive.arguments() == ["/"] && directive.inner().iter().any(sends)
}

fn listen(directive: &ParsedDirective, server: &mut Server, context: &mut Context<'_>) {
    let words = directive.arguments();
    let has = |word: &str| words.iter().any(|one| one == word);
    if has("quic") {
        context
            .ledger
            .not_carried(directive.id, "Galley does not offer HTTP/3 yet");
        return;
    }
    let Some(listener) = units::listener(directive.argument(0), 80) else {
        context.ledger.not_carried(
            directive.id,
            "set `server.listen`: Galley takes addresses and unix sockets",
        );
        return;
    };
    if has("proxy_protocol") {
        let origin = Some(&directive.origin);
        server
            .options
            .add("proxy_protocol", [listener.clone()], origin);
    }
    let is_tls = has("ssl") || listener.ends_with(":443");
    let (list, option) = if is_tls {
        (&mut server.listen_tls, "server.listen_tls")
    } else {
        (&mut server.listen, "server.listen")
    };
    if !list.contains(&listener) {
        list.push(listener);
    }
    context.ledger.carried(directive.id, option);
}

fn names(directive: &ParsedDirective, site: &mut ImportedSite, context: &mut Context<'_>) {
    let mut lost = Vec::new();
    for name in directive.arguments() {
        let hosts = match name.as_str() {
            "_" | "" | "localhost" if directive.arguments().len() == 1 => vec!["*".to_owned()],
            "_" | "" => continue,
            name if name.starts_with('~') || name.contains('$') => {
                lost.push(name);
                continue;
            }
            name => match name.strip_prefix('.') {
                Some(rest) => vec![rest.to_owned(), format!("*.{rest}")],
                None if name.ends_with(".*") => {
                    lost.push(name);
                    continue;
                }
                None => vec![name.to_owned()],
            },
        };
        let hosts = hosts.into_iter().map(|host| host.to_ascii_lowercase());
        site.section.add("hosts", hosts, Some(&directive.origin));
    }
    if lost.is_empty() {
        context.ledger.carried(directive.id, "hosts");
    } else {
        let remedy = format!(
            "Galley takes names and `*.example.com`: name the hosts of `{}`",
            lost.join("`, `")
        );
        context.ledger.not_carried(directive.id, remedy);
    }
}

fn certificate(directive: &ParsedDirective, site: &mut ImportedSite, context: &mut Context<'_>) {
    let path = directive.argument(0);
    if path.contains('$') || path.starts_with("data:") || path.starts_with("engine:") {
        context
            .ledger
            .not_carried(directive.id, "set `tls` to the files, or to \"auto\"");
        return;
    }
    let part = if directive.name() == "ssl_certificate" {
        "cert"
    } else {
        "key"
    };
    // Both belong into one option; they are joined when the other is known.
    site.section
        .set(part, Value::Text(path.to_owned()), Some(&directive.origin));
    context.ledger.carried(directive.id, "tls");
    let text = |name: &str| match site.section.get(name) {
        Some(Value::Text(text)) => Some(text.clone()),
        _ => None,
    };
    if let (Some(cert), Some(key)) = (text("cert"), text("key")) {
        let value = format!(
            "{{ cert = {}, key = {} }}",
            crate::write::quoted(&cert),
            crate::write::quoted(&key)
        );
        site.section
            .set("tls", Value::Verbatim(value), Some(&directive.origin));
        site.section.remove("cert");
        site.section.remove("key");
    }
}

fn log(directive: &ParsedDirective, site: &mut ImportedSite, context: &mut Context<'_>) {
    let name = if directive.name() == "access_log" {
        "access"
    } else {
        "error"
    };
    let path = directive.argument(0);
    let origin = Some(&directive.origin);
    match path {
        "off" if name == "access" => site.log.set(name, Value::Text("off".to_owned()), origin),
        "stderr" | "/dev/stderr" => {}
        "/dev/stdout" => site.log.set(name, Value::Text("stdout".to_owned()), origin),
        path if path.starts_with('/') && !path.contains('$') && path != "/dev/null" => {
            site.log.set(name, Value::Text(path.to_owned()), origin);
        }
        "/dev/null" => {}
        _ => {
            context
                .ledger
                .not_carried(directive.id, "set `access` or `error` in `[site.log]`");
            return;
        }
    }
    context
        .ledger
        .carried(directive.id, format!("site.log.{name}"));
}

fn error_page(directive: &ParsedDirective, site: &mut ImportedSite, context: &mut Context<'_>) {
    let arguments = directive.arguments();
    let Some((target, statuses)) = arguments.split_last() else {
        context
            .ledger
            .not_carried(directive.id, "set `[site.error_pages]`");
        return;
    };
    if target.contains("index.php")
        || target.starts_with('@')
        || statuses.iter().any(|status| status.starts_with('='))
    {
        context
            .ledger
            .not_needed(directive.id, "WordPress makes its own error pages");
        return;
    }
    if statuses.iter().all(|status| status == "404") {
        context
            .ledger
            .not_needed(directive.id, "WordPress makes its own page for 404");
        return;
    }
    let root = if let Some(Value::Text(root)) = site.section.get("root") {
        root.trim_end_matches('/').to_owned()
    } else {
        context.ledger.not_carried(
            directive.id,
            "set `[site.error_pages]` to the path of the file",
        );
        return;
    };
    let (origin, path) = (Some(&directive.origin), format!("{root}{target}"));
    for status in statuses {
        if status
            .parse::<u16>()
            .is_ok_and(|status| (400..600).contains(&status))
        {
            site.error_pages
                .set(&format!("\"{status}\""), Value::Text(path.clone()), origin);
        }
    }
    context.ledger.carried(directive.id, "site.error_pages");
}

fn redirect(directive: &ParsedDirective, server: &mut Server, context: &mut Context<'_>) {
    let is_whole = directive.name() == "return"
        || ["^", "^(.*)$", "^(.*)", "^/(.*)$", "^/?(.*)", ".*", "^.*"]
            .contains(&directive.argument(0));
    match condition::host_of_target(directive).filter(|_| is_whole) {
        Some(host) => {
            server.redirect = Some(ServerRedirect {
                host,
                is_https: directive
                    .arguments()
                    .iter()
                    .any(|word| word.starts_with("https://")),
                origin: directive.origin.clone(),
            });
            context
                .ledger
                .carried(directive.id, "https_redirect or canonical_host");
        }
        None if directive.name() == "return" && directive.argument(0) == "444" => {
            let why = "Galley answers 421 to hosts that no site has";
            context.ledger.not_needed(directive.id, why);
            server.is_refusal = true;
        }
        None => passing::redirect(directive, None, &mut server.site, context),
    }
}

fn client_timeout(directive: &ParsedDirective, options: &mut Section, context: &mut Context<'_>) {
    let option = match directive.name() {
        "keepalive_timeout" => "idle_timeout",
        "client_header_timeout" => "head_timeout",
        "client_body_timeout" => "body_timeout",
        _ => "write_timeout",
    };
    match units::duration(directive.argument(0)) {
        Some(time) if time != "0s" => {
            options.set(option, Value::Text(time), Some(&directive.origin));
            context
                .ledger
                .carried(directive.id, format!("server.{option}"));
        }
        _ => context
            .ledger
            .not_carried(directive.id, format!("set `server.{option}`")),
    }
}

fn real_ip_header(directive: &ParsedDirective, server: &mut Server, context: &mut Context<'_>) {
    let field = directive.argument(0).to_ascii_lowercase();
    match field.as_str() {
        "x-forwarded-for" | "x-real-ip" | "forwarded" => {
            server
                .options
                .set("client_field", Value::Text(field), Some(&directive.origin));
            context.ledger.carried(directive.id, "server.client_field");
        }
        "cf-connecting-ip" => {
            let why = "Cloudflare sends X-Forwarded-For, too, which Galley reads by default";
            context.ledger.not_needed(directive.id, why);
        }
        "proxy_protocol" => context
            .ledger
            .not_needed(directive.id, "`server.proxy_protocol` does this"),
        _ => context
            .ledger
            .not_carried(directive.id, "set `server.client_field`"),
    }
}
