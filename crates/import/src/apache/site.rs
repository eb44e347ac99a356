//! Converts the parts of a virtual host or a `.htaccess`.

use super::access::{self, gates, is_access};
use super::headers::{expires, expires_by_type, has_other_types, header};
use super::parts::{ApacheHost, Part, PartKind, PartPaths, record_outcome};
use super::passing;
use super::rewrite::{self, RewritePlace};
use super::rewrite_rules::{self, RewriteScope};
use crate::closed;
use crate::directive::Directive;
use crate::draft::{ImportedSite, RulePriority};
use crate::gate::{self, PartGate};
use crate::host_redirect::HostRedirect;
use crate::units;
use crate::write::certificate_pair;

/// Converts a host. Returns the redirect of all its requests.
pub(super) fn convert(host: &ApacheHost<'_>, site: &mut ImportedSite) -> Option<HostRedirect> {
    let has_expiry = expires(&host.parts);
    let mut redirects_all = None;
    certificate(host.own(), site);
    let of_site = || {
        host.parts
            .iter()
            .filter(|part| matches!(part.paths, PartPaths::All))
    };
    for part in of_site() {
        for one in part.block.iter().filter(|one| !is_access(one)) {
            match one.name() {
                "expiresbytype" if has_expiry && has_other_types(host, one) => {
                    one.not_carried(OTHER_TYPES);
                }
                "expiresbytype" if has_expiry => expires_by_type(one, site),
                "expiresbytype" => one.not_needed("no ExpiresActive turns it on"),
                "header" => header(one, &mut site.section, part.kind),
                "proxypass" => passing::proxy(one, host.preserves_host, site),
                "proxypassmatch" => passing::proxy_by_pattern(one, site),
                _ => directive(one, site),
            }
        }
    }
    let has_tls = host.own().iter().any(|one| turns_tls_on(one));
    for part in of_site() {
        let (place, is_in_force) = match part.kind {
            PartKind::Host => (RewritePlace::Host, true),
            // Those of another folder replace them.
            _ => (
                RewritePlace::Folder,
                host.rewriting().as_ptr() == part.block.as_ptr()
                    || !rewrite::has_engine(&part.block),
            ),
        };
        if is_in_force {
            let whole = rewrite_rules::convert(&part.block, RewriteScope { place, has_tls }, site);
            redirects_all = redirects_all.or(whole);
        }
        for one in part
            .block
            .iter()
            .filter(|one| one.name().starts_with("redirect"))
        {
            let whole = passing::redirect(one, part.kind, site);
            redirects_all = redirects_all.or(whole);
        }
    }
    site_access(host, site);
    // Of the rules for a path the first one applies, and Apache merges the last part last.
    for (order, part) in host.parts.iter().enumerate().rev() {
        if let Some(section) = part
            .section
            .filter(|_| !matches!(part.paths, PartPaths::All))
        {
            contents(part, section, order + 1, site);
        }
    }
    redirects_all
}

pub(super) fn turns_tls_on(directive: &Directive) -> bool {
    directive.name() == "sslengine" && directive.argument(0).eq_ignore_ascii_case("on")
}

/// Converts the access control of the whole site: the last part with directives of a kind decides.
fn site_access(host: &ApacheHost<'_>, site: &mut ImportedSite) {
    let mut last: [Option<PartGate<'_>>; 2] = [None, None];
    for part in host
        .parts
        .iter()
        .filter(|part| matches!(part.paths, PartPaths::All))
    {
        for (last, gate) in last.iter_mut().zip(gates(&part.block)) {
            let Some(gate) = gate else {
                continue;
            };
            for one in last.replace(gate).iter().flat_map(|before| &before.by) {
                one.not_needed("a section after it decides about access");
            }
        }
    }
    for gate in last.iter().flatten() {
        gate::apply(gate, &mut site.section);
    }
    for part in host
        .parts
        .iter()
        .filter(|part| matches!(part.paths, PartPaths::All))
    {
        access::without_effect(&part.block);
    }
}

/// Converts a part with paths of its own to a rule.
fn contents(part: &Part<'_>, section: &Directive, order: usize, site: &mut ImportedSite) {
    if let [one] = part.block.as_slice()
        && part.kind == PartKind::Files
        && one.name() == "sethandler"
        && section
            .arguments()
            .last()
            .is_some_and(|name| OF_PHP.contains(&name.as_str()))
    {
        section.entry.carried("php");
        return passing::handler(one, one.argument(0), site);
    }
    let mut rule = part.paths.rule(section, part.kind, order);
    let others = part.block.iter().filter(|one| !is_access(one));
    if part.block.iter().any(|one| is_access(one)) {
        // Access control comes before all fields.
        (rule.priority, rule.length) = (RulePriority::Exact, 0);
    }
    if access::denies_all(&part.block) {
        let outcome = closed::close(section, rule, "403", site);
        section.entry.record(outcome.clone());
        for one in part.block.iter().filter(|one| is_access(one)) {
            one.record(&outcome);
        }
        return others.for_each(|one| record_outcome(one));
    }
    access::convert(&part.block, &mut rule.section);
    for one in others {
        match one.name() {
            "header" => header(one, &mut rule.section, part.kind),
            _ => record_outcome(one),
        }
    }
    section.becomes(rule, site);
}

const OTHER_TYPES: &str = "which files have this media type depends on other directives, or on the version of Apache: write a rule with `pattern` and `set_headers`";

/// Patterns of all scripts.
const OF_PHP: &[&str] = &["\\.php$", "\\.(php)$", ".+\\.php$", "*.php"];

/// Converts a directive of the whole site that is about neither access, fields nor redirects.
fn directive(directive: &Directive, site: &mut ImportedSite) {
    let argument = directive.argument(0);
    match directive.name() {
        "servername" | "serveralias" => names(directive, site),
        "documentroot" if argument.contains(['$', '%']) => {
            directive.not_carried("set `root` to the folder");
        }
        "documentroot" => {
            let root = argument.trim_end_matches('/').to_owned();
            directive.sets("root", root, &mut site.section);
        }
        "sslengine" => directive.entry.carried("server.listen_tls"),
        "errorlog" => directive.logs_to("error", &logs(argument), &mut site.log),
        "customlog" | "transferlog" => {
            directive.logs_to("access", &logs(argument), &mut site.log);
        }
        "limitrequestbody" | "php_value" | "php_admin_value" => {
            request_body(directive, site);
        }
        "rewritecond" | "rewriterule" => {}
        name if name.starts_with("redirect") || name.starts_with("sslcertificate") => {}
        _ => record_outcome(directive),
    }
}

/// Converts `LimitRequestBody`, and PHP's limits with the same meaning.
fn request_body(directive: &Directive, site: &mut ImportedSite) {
    let (text, is_of_php) = match (directive.name(), directive.argument(0)) {
        ("limitrequestbody", text) => (text, false),
        (_, "post_max_size" | "upload_max_filesize") => (directive.argument(1), true),
        _ => return record_outcome(directive),
    };
    let Some(size) = units::size(text).filter(|size| size != "0B") else {
        let remedy = "set `request_body` to a limit: Galley always has one";
        return directive.not_carried(remedy);
    };
    site.section.set("request_body", size, &directive.origin);
    if is_of_php {
        let remedy = "put the value into a `.user.ini`, php.ini or the pool of PHP-FPM; `request_body` permits it";
        directive.not_carried(remedy);
    } else {
        directive.entry.carried("request_body");
    }
}

/// The hosts of a `ServerName` or `ServerAlias`.
pub(super) fn host_names(directive: &Directive) -> impl Iterator<Item = String> {
    directive.arguments().iter().map(|name| {
        let name = name.rsplit("://").next().unwrap_or(name);
        name.split(':').next().unwrap_or(name).to_ascii_lowercase()
    })
}

fn names(directive: &Directive, site: &mut ImportedSite) {
    directive.adds("hosts", host_names(directive), &mut site.section);
}

fn certificate(own: &[&Directive], site: &mut ImportedSite) {
    let last = |name: &str| own.iter().rev().find(|one| one.name() == name);
    let (cert, key) = (last("sslcertificatefile"), last("sslcertificatekeyfile"));
    if let (Some(cert), Some(key)) = (cert, key) {
        let pair = certificate_pair(cert.argument(0), key.argument(0));
        site.section.set("tls", pair, &key.origin);
        cert.entry.carried("tls");
        key.entry.carried("tls");
    } else if let Some(one) = cert.or(key) {
        one.not_carried("set `tls` to the certificate and its key");
    }
}

fn logs(path: &str) -> String {
    path.replace("${APACHE_LOG_DIR}", "/var/log/apache2")
}
