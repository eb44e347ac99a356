//! Converts the directives of a virtual host or a `.htaccess`.

use super::access::is_access;
use super::container::container;
use super::context::{HostContext, record_outcome};
use super::headers::{HeaderScope, expires_by_type, header};
use super::passing::{handler, proxy, redirect};
use super::rewrite;
use crate::closed;
use crate::directive::ParsedDirective;
use crate::draft::ImportedSite;
use crate::known;
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
        "documentroot" if argument.contains(['$', '%']) => {
            context.not_carried(directive, "set `root` to the folder");
        }
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
        "errordocument" => error_document(directive, site, context),
        _ if is_access(directive) => match context.access.last_mut() {
            Some(group) => group.push(directive.clone()),
            None => context.access.push(vec![directive.clone()]),
        },
        name if name.starts_with('<') => section(directive, site, context),
        "sslverifyclient" if !argument.eq_ignore_ascii_case("none") => {
            closed::undecided(
                directive,
                "Galley does not ask clients for certificates",
                context.report,
            );
        }
        "sethandler" if argument.starts_with("proxy:") => handler(directive, site, context),
        _ => record_outcome(directive, context.report),
    }
}

/// Converts a section and the directives in it.
fn section(directive: &ParsedDirective, site: &mut ImportedSite, context: &mut HostContext<'_>) {
    let is_there = module_is_there(directive);
    let inner = match (directive.name(), is_there) {
        (
            "<files" | "<filesmatch" | "<directory" | "<directorymatch" | "<location"
            | "<locationmatch",
            _,
        ) => {
            let inner = container(directive, site, context);
            if inner.iter().any(is_access) {
                context.access.push(Vec::new());
            }
            inner
        }
        ("<ifmodule" | "<ifversion", Some(true)) => {
            let why = "the module is there: its directives are converted one by one";
            context.not_needed(directive, why);
            directive.inner()
        }
        ("<ifmodule" | "<ifversion", Some(false)) => {
            let why = "it is for a server without this module, or an older one";
            return directive.not_needed(why, context.report);
        }
        _ => return context.unknown_section(directive),
    };
    for inner in inner {
        convert(inner, site, context);
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
        (_, "post_max_size" | "upload_max_filesize") => (directive.argument(1), ""),
        _ => return record_outcome(directive, context.report),
    };
    match units::size(text) {
        Some(size) if size != "0B" => {
            site.section.set("request_body", size, &directive.origin);
            if carried.is_empty() {
                context.not_carried(directive, "put the value into a `.user.ini`, php.ini or the pool of PHP-FPM; `request_body` permits it");
            } else {
                context.carried(directive, carried);
            }
        }
        _ => context.not_carried(
            directive,
            "set `request_body` to a limit: Galley always has one",
        ),
    }
}

/// Whether a section for modules or versions applies to a current Apache. `None`: it is not known.
pub(super) fn module_is_there(directive: &ParsedDirective) -> Option<bool> {
    let condition = directive.arguments().join(" ");
    if directive.name() == "<ifversion" {
        return match condition.split_once(' ')? {
            (">=" | ">", version) if version.starts_with("2.") => Some(true),
            ("<" | "<=", version) if version.starts_with("2.") => Some(false),
            _ => None,
        };
    }
    match condition.strip_prefix('!') {
        Some(module) => STANDARD_MODULES
            .contains(&module_name(module))
            .then_some(false),
        None => Some(true),
    }
}

/// `authz_core` of `mod_authz_core.c` or `authz_core_module`.
fn module_name(text: &str) -> &str {
    let text = text.strip_prefix("mod_").unwrap_or(text);
    text.trim_end_matches(".c").trim_end_matches("_module")
}

/// Modules that every Apache 2.4 for WordPress has.
const STANDARD_MODULES: &[&str] = &[
    "authz_core",
    "authz_host",
    "dir",
    "mime",
    "rewrite",
    "log_config",
];

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
        context.not_carried(
            directive,
            "set `[site.error_pages]` to a file, or have WordPress make the page",
        );
    }
}
