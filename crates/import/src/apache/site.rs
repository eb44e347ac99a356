//! Directives of a virtual host or a `.htaccess`.

use super::container::{access, container};
use super::headers::{Reach, expires_by_type, header};
use super::passing::{handler, proxy, redirect};
use super::rewrite::{self, RewriteCondition};
use super::settle;
use crate::draft::{SiteDraft, Value};
use crate::ledger::Ledger;
use crate::tree::Directive;
use crate::units;
use crate::write::quoted;

/// What the directives before mean for those that follow.
pub(super) struct HostContext<'l> {
    pub ledger: &'l mut Ledger,
    pub has_tls: bool,
    /// `RewriteCond`s before the next `RewriteRule`.
    pub conditions: Vec<RewriteCondition>,
    /// Where all requests are redirected to.
    pub redirects_all: Option<String>,
    cert: Option<String>,
    key: Option<String>,
}

impl<'l> HostContext<'l> {
    pub fn new(ledger: &'l mut Ledger) -> Self {
        Self {
            ledger,
            has_tls: false,
            conditions: Vec::new(),
            redirects_all: None,
            cert: None,
            key: None,
        }
    }
}

/// Converts one directive.
pub(super) fn convert(directive: &Directive, site: &mut SiteDraft, context: &mut HostContext<'_>) {
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
        "limitrequestbody" => match units::size(argument) {
            Some(size) if size != "0B" => {
                site.section.set("request_body", Value::Text(size), origin);
                context.ledger.carried(directive.id, "request_body");
            }
            _ => context
                .ledger
                .not_needed(directive.id, "Galley limits requests to `request_body`"),
        },
        "php_value" | "php_admin_value"
            if matches!(argument, "post_max_size" | "upload_max_filesize") =>
        {
            match units::size(directive.argument(1)) {
                Some(size) => {
                    site.section.set("request_body", Value::Text(size), origin);
                    context.ledger.carried(
                        directive.id,
                        "request_body; set the value in `.user.ini`, too",
                    );
                }
                None => settle(directive, context.ledger),
            }
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
            container(directive, site, context);
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

fn names(directive: &Directive, site: &mut SiteDraft, context: &mut HostContext<'_>) {
    let hosts = directive.arguments().iter().map(|name| {
        let name = name.rsplit("://").next().unwrap_or(name);
        name.split(':').next().unwrap_or(name).to_ascii_lowercase()
    });
    site.section.add("hosts", hosts, Some(&directive.origin));
    context.ledger.carried(directive.id, "hosts");
}

fn certificate(directive: &Directive, site: &mut SiteDraft, context: &mut HostContext<'_>) {
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

fn log(directive: &Directive, site: &mut SiteDraft, context: &mut HostContext<'_>) {
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

fn error_document(directive: &Directive, site: &mut SiteDraft, context: &mut HostContext<'_>) {
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
