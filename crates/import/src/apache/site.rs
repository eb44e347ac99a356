//! Directives of a virtual host or a `.htaccess`.

use super::container::{access, container};
use super::context::{HostContext, settle};
use super::headers::{Reach, expires_by_type, header};
use super::passing::{handler, proxy, redirect};
use super::rewrite;
use crate::draft::{ImportedSite, Value};
use crate::tree::ParsedDirective;
use crate::units;
use crate::write::quoted;

/// Converts one directive.
pub(super) fn convert(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) {
    let origin = Some(&directive.origin);
    let argument = directive.argument(0);
    match directive.name() {
        "servername" | "serveralias" => names(directive, site, context),
        "documentroot" => {
            site.section.set(
                "root",
                Value::Text(argument.trim_end_matches('/').to_owned()),
                origin,
            );
            context.ledger.carried(directive.id, "root");
        }
        "sslengine" => {
            context.has_tls = argument.eq_ignore_ascii_case("on");
            context.ledger.carried(directive.id, "server.listen_tls");
        }
        "sslcertificatefile" | "sslcertificatekeyfile" => certificate(directive, site, context),
        "errorlog" | "customlog" | "transferlog" => log(directive, site, context),
        "limitrequestbody" | "php_value" | "php_admin_value" => {
            request_body(directive, site, context);
        }
        "proxypass" | "proxypassmatch" => proxy(directive, site, context),
        "redirect" | "redirectmatch" | "redirectpermanent" | "redirecttemp" => {
            redirect(directive, site, context);
        }
        "rewritecond" => rewrite::condition(directive, context),
        "rewriterule" => rewrite::rule(directive, site, context),
        "header" => header(directive, &mut site.section, Reach::Site, context.ledger),
        "expiresbytype" => expires_by_type(directive, site, context.ledger),
        "expiresdefault" => {
            context.ledger.not_needed(
                directive.id,
                "Galley lets browsers ask again, and answers 304 from the cache",
            );
        }
        "errordocument" => error_document(directive, site, context),
        "require" | "allow" | "deny" | "authtype" | "authuserfile" => {
            access(
                std::slice::from_ref(directive),
                &mut site.section,
                context.ledger,
            );
        }
        "<files" | "<filesmatch" | "<directory" | "<directorymatch" | "<location"
        | "<locationmatch" => {
            for inner in container(directive, site, context) {
                convert(inner, site, context);
            }
        }
        "<ifmodule" | "<ifdefine" | "<ifversion" | "<if" | "<else" | "<requireall"
        | "<requireany" => {
            let why = "the directives in the section are converted one by one";
            context.ledger.not_needed(directive.id, why);
            for inner in directive.inner() {
                convert(inner, site, context);
            }
        }
        "sethandler" if argument.starts_with("proxy:") => handler(directive, site, context),
        _ => settle(directive, context.ledger),
    }
}

/// `LimitRequestBody`, and the limits of PHP that mean the same.
fn request_body(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) {
    let is_limit_of_php = matches!(
        directive.argument(0),
        "post_max_size" | "upload_max_filesize"
    );
    let (text, carried) = match directive.name() {
        "limitrequestbody" => (directive.argument(0), "request_body"),
        _ if is_limit_of_php => (
            directive.argument(1),
            "request_body; set the value in `.user.ini`, too",
        ),
        _ => return settle(directive, context.ledger),
    };
    match units::size(text) {
        Some(size) if size != "0B" => {
            let value = Value::Text(size);
            site.section
                .set("request_body", value, Some(&directive.origin));
            context.ledger.carried(directive.id, carried);
        }
        _ => {
            let why = "Galley limits requests to `request_body`";
            context.ledger.not_needed(directive.id, why);
        }
    }
}

fn names(directive: &ParsedDirective, site: &mut ImportedSite, context: &mut HostContext<'_>) {
    let hosts = directive.arguments().iter().map(|name| {
        let name = name.rsplit("://").next().unwrap_or(name);
        name.split(':').next().unwrap_or(name).to_ascii_lowercase()
    });
    site.section.add("hosts", hosts, Some(&directive.origin));
    context.ledger.carried(directive.id, "hosts");
}

fn certificate(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) {
    let path = directive.argument(0).to_owned();
    if directive.name() == "sslcertificatefile" {
        context.cert = Some(path);
    } else {
        context.key = Some(path);
    }
    context.ledger.carried(directive.id, "tls");
    if let (Some(cert), Some(key)) = (&context.cert, &context.key) {
        let value = format!("{{ cert = {}, key = {} }}", quoted(cert), quoted(key));
        site.section
            .set("tls", Value::Verbatim(value), Some(&directive.origin));
    }
}

fn log(directive: &ParsedDirective, site: &mut ImportedSite, context: &mut HostContext<'_>) {
    let name = if directive.name() == "errorlog" {
        "error"
    } else {
        "access"
    };
    let path = directive
        .argument(0)
        .replace("${APACHE_LOG_DIR}", "/var/log/apache2");
    if path.starts_with('/') && path != "/dev/null" {
        site.log
            .set(name, Value::Text(path), Some(&directive.origin));
        context
            .ledger
            .carried(directive.id, format!("site.log.{name}"));
    } else if path == "/dev/null" {
        context.ledger.not_needed(
            directive.id,
            "Galley writes no such log unless `[site.log]` names it",
        );
    } else {
        context
            .ledger
            .not_carried(directive.id, format!("set `{name}` in `[site.log]`"));
    }
}

fn error_document(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) {
    let (status, target) = (directive.argument(0), directive.argument(1));
    let root = match site.section.get("root") {
        Some(Value::Text(root)) => root.clone(),
        _ => String::new(),
    };
    let is_page = target.starts_with('/')
        && !target.contains("index.php")
        && status != "404"
        && !root.is_empty();
    if is_page
        && status
            .parse::<u16>()
            .is_ok_and(|status| (400..600).contains(&status))
    {
        let path = format!("{root}{target}");
        site.error_pages.set(
            &format!("\"{status}\""),
            Value::Text(path),
            Some(&directive.origin),
        );
        context.ledger.carried(directive.id, "site.error_pages");
    } else {
        context
            .ledger
            .not_needed(directive.id, "WordPress makes its own error pages");
    }
}
