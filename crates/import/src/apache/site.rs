//! Converts the directives of a virtual host or a `.htaccess`.

use super::container::{access, container};
use super::context::{HostContext, record_outcome};
use super::headers::{HeaderScope, expires_by_type, header};
use super::passing::{handler, proxy, redirect};
use super::rewrite;
use crate::draft::ImportedSite;
use crate::known;
use crate::tree::ParsedDirective;
use crate::units;
use crate::write::certificate_pair;

/// Converts one directive.
pub(super) fn convert(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) {
    let argument = directive.argument(0);
    match directive.name() {
        "servername" | "serveralias" => names(directive, site, context),
        "documentroot" => {
            directive.sets(
                "root",
                argument.trim_end_matches('/').to_owned(),
                &mut site.section,
                context.report,
            );
        }
        "sslengine" => {
            context.has_tls = argument.eq_ignore_ascii_case("on");
            context.carried(directive, "server.listen_tls");
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
        "header" => header(
            directive,
            &mut site.section,
            HeaderScope::Site,
            context.report,
        ),
        "expiresbytype" => expires_by_type(directive, site, context.report),
        "expiresdefault" => context.not_needed(directive, known::ASKS_AGAIN),
        "errordocument" => error_document(directive, site, context),
        "require" | "allow" | "deny" | "authtype" | "authuserfile" => {
            access(
                std::slice::from_ref(directive),
                &mut site.section,
                context.report,
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
            context.not_needed(directive, why);
            for inner in directive.inner() {
                convert(inner, site, context);
            }
        }
        "sethandler" if argument.starts_with("proxy:") => handler(directive, site, context),
        _ => record_outcome(directive, context.report),
    }
}

/// Converts `LimitRequestBody`, and PHP's limits with the same meaning.
fn request_body(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) {
    let (text, carried) = match (directive.name(), directive.argument(0)) {
        ("limitrequestbody", text) => (text, "request_body"),
        (_, "post_max_size" | "upload_max_filesize") => (
            directive.argument(1),
            "request_body; set the value in `.user.ini`, too",
        ),
        _ => return record_outcome(directive, context.report),
    };
    match units::size(text) {
        Some(size) if size != "0B" => {
            site.section.set("request_body", size, &directive.origin);
            context.carried(directive, carried);
        }
        _ => {
            let why = "Galley limits requests to `request_body`";
            context.not_needed(directive, why);
        }
    }
}

fn names(directive: &ParsedDirective, site: &mut ImportedSite, context: &mut HostContext<'_>) {
    let hosts = directive.arguments().iter().map(|name| {
        let name = name.rsplit("://").next().unwrap_or(name);
        name.split(':').next().unwrap_or(name).to_ascii_lowercase()
    });
    directive.adds("hosts", hosts, &mut site.section, context.report);
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
    context.carried(directive, "tls");
    if let (Some(cert), Some(key)) = (&context.cert, &context.key) {
        let pair = certificate_pair(cert, key);
        site.section.set("tls", pair, &directive.origin);
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
        site.log.set(name, path, &directive.origin);
        context.carried(directive, format!("site.log.{name}"));
    } else if path == "/dev/null" {
        context.not_needed(
            directive,
            "Galley writes no such log unless `[site.log]` names it",
        );
    } else {
        context.not_carried(directive, format!("set `{name}` in `[site.log]`"));
    }
}

fn error_document(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) {
    let (status, target) = (directive.argument(0), directive.argument(1));
    let root = site.section.text("root").unwrap_or_default();
    let is_page = target.starts_with('/') && !target.contains("index.php") && !root.is_empty();
    if is_page && status != "404" && known::is_error_status(status) {
        let path = format!("{root}{target}");
        site.error_pages
            .set(&format!("\"{status}\""), path, &directive.origin);
        context.carried(directive, "site.error_pages");
    } else {
        context.not_needed(directive, "WordPress makes its own error pages");
    }
}
