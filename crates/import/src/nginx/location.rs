//! Converts `location`: Galley handles it without configuration, or it is about the whole site (`/`, PHP), or becomes a rule.

use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section};
use crate::known::{self, NO_LOOK_AROUND};
use crate::nginx::common::{self, DirectiveScope};
use crate::nginx::condition;
use crate::nginx::context::Context;
use crate::nginx::passing::{cache_time, pass, redirect};
use crate::tree::ParsedDirective;

/// The paths of a location.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LocationPaths {
    Exact(String),
    /// `^~`: before all patterns.
    FirstPrefix(String),
    Prefix(String),
    Pattern {
        text: String,
        ignores_case: bool,
    },
    Named,
}

impl LocationPaths {
    fn of(directive: &ParsedDirective) -> Self {
        let (modifier, path) = match directive.arguments() {
            [path] => match path.strip_prefix('=') {
                Some(path) => ("=", path),
                None => ("", path.as_str()),
            },
            [modifier, path, ..] => (modifier.as_str(), path.as_str()),
            [] => ("", ""),
        };
        let path = path.to_owned();
        match modifier {
            "=" => Self::Exact(path),
            "^~" => Self::FirstPrefix(path),
            "~" | "~*" => Self::Pattern {
                text: path,
                ignores_case: modifier == "~*",
            },
            _ if path.starts_with('@') => Self::Named,
            _ => Self::Prefix(path),
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Exact(text)
            | Self::FirstPrefix(text)
            | Self::Prefix(text)
            | Self::Pattern { text, .. } => text,
            Self::Named => "",
        }
    }

    fn is_pattern(&self) -> bool {
        matches!(self, Self::Pattern { .. })
    }

    /// A rule without options. `None` if Galley does not support the pattern.
    fn rule(&self, directive: &ParsedDirective) -> Option<RuleDraft> {
        let (option, value) = match self {
            Self::Exact(path) => ("path", path.clone()),
            Self::FirstPrefix(path) | Self::Prefix(path) => ("path", format!("{path}*")),
            Self::Pattern { text, ignores_case } => {
                ("pattern", known::pattern(text, *ignores_case)?)
            }
            Self::Named => return None,
        };
        if !self.is_pattern() && !self.text().starts_with('/') {
            return None;
        }
        let (priority, length) = match self {
            Self::FirstPrefix(path) => (RulePriority::FirstPrefix, path.len()),
            Self::Prefix(path) => (RulePriority::Prefix, path.len()),
            Self::Pattern { .. } => (RulePriority::Pattern, 0),
            Self::Exact(_) | Self::Named => (RulePriority::Exact, 0),
        };
        let mut section = Section::default();
        section.set(option, value, &directive.origin);
        Some(RuleDraft {
            section,
            priority,
            length,
        })
    }
}

/// Converts a location of a site.
pub(super) fn convert(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let paths = LocationPaths::of(directive);
    if let Some(why) = reason_not_needed(&paths, directive) {
        return directive.not_needed(why, context.report);
    }
    if is_whole_site(&paths) {
        context.carried(directive, "the site");
        return whole_site(directive, site, context);
    }
    if is_php(&paths, directive) {
        return php(&paths, directive, site, context);
    }
    if is_administration(&paths) {
        return administration(&paths, directive, site, context);
    }
    if paths.text().contains("xmlrpc.php") && common::refuses_all(directive.inner()) {
        site.section.set("xmlrpc", "off", &directive.origin);
        return directive.carried("xmlrpc", context.report);
    }
    rule(&paths, directive, site, context);
}

/// Why Galley needs no rule for a location; `None` if it needs one.
fn reason_not_needed(paths: &LocationPaths, directive: &ParsedDirective) -> Option<&'static str> {
    let (text, block) = (paths.text(), directive.inner());
    let refuses = common::refuses_all(block);
    let names = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    if matches!(paths, LocationPaths::Named) {
        return Some(NAMED);
    }
    if text.contains("well-known") {
        return Some(WELL_KNOWN);
    }
    if refuses && known::is_private_name(text) {
        return Some("Galley never sends such files");
    }
    if refuses && paths.is_pattern() && known::is_script_of_folder(text) {
        return Some(known::NO_SCRIPTS);
    }
    if names(&["favicon", "robots"]) && block.iter().all(|one| QUIET.contains(&one.name())) {
        return Some("Galley sends the file, or WordPress's own");
    }
    let purges = |inner: &ParsedDirective| inner.name().ends_with("_cache_purge");
    if text.starts_with("/purge") || block.iter().any(purges) {
        return Some(PURGES);
    }
    let is_status = |inner: &ParsedDirective| STATUS_STATEMENTS.contains(&inner.name());
    if block.iter().any(is_status) || STATUS_PATHS.contains(&text) {
        return Some("`galley status` and `GET /metrics` of the admin interface replace it");
    }
    block.is_empty().then_some("the block is empty")
}

const NAMED: &str =
    "a name inside nginx: Galley forwards what is no file to index.php or to the upstream";

const WELL_KNOWN: &str =
    "Galley sends files below /.well-known, and answers the challenges of `tls = \"auto\"` itself";

const PURGES: &str =
    "Galley accepts the purges of plugins: PURGE requests, and `purge_get = true` for GET /purge/";

/// Statements that do not change responses.
const QUIET: &[&str] = &[
    "access_log",
    "log_not_found",
    "allow",
    "try_files",
    "expires",
    "add_header",
    "return",
    "default_type",
];

const STATUS_STATEMENTS: &[&str] = &["stub_status", "vhost_traffic_status_display", "api"];

const STATUS_PATHS: &[&str] = &["/nginx_status", "/fpm-status", "/status", "/ping"];

fn is_whole_site(paths: &LocationPaths) -> bool {
    match paths {
        LocationPaths::Prefix(path) | LocationPaths::FirstPrefix(path) => path == "/",
        LocationPaths::Pattern { text, .. } => {
            ["/", "^/", ".", ".*", "^(.*)$", "^/(.*)$"].contains(&text.as_str())
        }
        LocationPaths::Exact(_) | LocationPaths::Named => false,
    }
}

/// Whether a location is like `location ~ \.php$`, which is about the whole site. One for a single script becomes a rule.
fn is_php(paths: &LocationPaths, directive: &ParsedDirective) -> bool {
    let LocationPaths::Pattern { text, .. } = paths else {
        return false;
    };
    let plain = text.replace('\\', "");
    let has = |parts: &[&str]| parts.iter().any(|part| plain.contains(part));
    let passes = ["fastcgi_pass", "proxy_pass", "include"];
    has(&[".php", ".(php", "php("])
        && !has(&["wp-login", "xmlrpc", "wp-admin"])
        && passes.iter().any(|name| directive.has(name))
}

const PHP_ONLY: &str = "php, for scripts that end in .php: Galley runs no others";

fn is_administration(paths: &LocationPaths) -> bool {
    let plain = paths.text().replace('\\', "");
    ["wp-admin", "wp-login"]
        .iter()
        .any(|part| plain.contains(part))
}

/// Converts the statements of `/` to options of the site.
fn whole_site(directive: &ParsedDirective, site: &mut ImportedSite, context: &mut Context<'_>) {
    for inner in directive.inner() {
        match inner.name() {
            "if" => condition::convert(inner, site, context),
            "location" => convert(inner, site, context),
            "limit_except" => limit_except(inner, context),
            _ if pass(inner, &mut site.section, context) => {}
            _ if cache_time(inner, &mut site.ttl, context) => {}
            "rewrite" | "return" => redirect(inner, None, site, context),
            _ => common::convert(inner, DirectiveScope::Site, &mut site.section, context),
        }
    }
    common::access(
        directive.inner(),
        "allow",
        &mut site.section,
        context.report,
    );
}

fn php(
    paths: &LocationPaths,
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let is_php_only = !paths.text().contains("phtml");
    let option = if is_php_only { "php" } else { PHP_ONLY };
    context.carried(directive, option);
    for inner in directive.inner() {
        match inner.name() {
            "if" => condition::convert(inner, site, context),
            "location" => convert(inner, site, context),
            "return" => context.not_needed(inner, "Galley runs only scripts that exist"),
            "root" => root_of_scripts(inner, site, context),
            _ if pass(inner, &mut site.section, context) => {}
            _ if cache_time(inner, &mut site.ttl, context) => {}
            _ => common::convert(inner, DirectiveScope::Site, &mut site.section, context),
        }
    }
    common::access(
        directive.inner(),
        "allow",
        &mut site.section,
        context.report,
    );
}

fn root_of_scripts(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let argument = directive.argument(0);
    match site.section.text("root") {
        Some(root) if root == argument => {
            context.not_needed(directive, "it is the root of the site");
        }
        Some(_) => context.not_carried(
            directive,
            "Galley has one `root` for files and scripts of a site",
        ),
        None => directive.sets("root", argument, &mut site.section, context.report),
    }
}

/// Converts `/wp-admin` and `/wp-login.php`: access control and rate limits.
fn administration(
    paths: &LocationPaths,
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let block = directive.inner();
    let restricts = directive.has("allow");
    if restricts {
        common::access(block, "admin_allow", &mut site.section, context.report);
    }
    let mut limited = Section::default();
    let mut of_paths = paths.rule(directive);
    let mut rest = false;
    for inner in block {
        match inner.name() {
            "allow" | "deny" if restricts => {}
            "limit_req" => common::convert(inner, DirectiveScope::Rule, &mut limited, context),
            name if name.starts_with("auth_basic") => rest = true,
            "location" => convert(inner, site, context),
            _ if pass(inner, &mut Section::default(), context) => {
                let why = "the administration goes to the same server as the site, past the cache";
                context.not_needed(inner, why);
            }
            _ => match &mut of_paths {
                Some(own) => {
                    common::convert(inner, DirectiveScope::Rule, &mut own.section, context);
                }
                None => context.not_carried(inner, NO_LOOK_AROUND),
            },
        }
    }
    if let Some(limit) = limited.get("limit") {
        site.section
            .set("login_limit", limit.clone(), &directive.origin);
    }
    if rest || (common::refuses_all(block) && !restricts) {
        return rule(paths, directive, site, context);
    }
    if let Some(own) = of_paths {
        site.add_rule(own);
    }
    let option = if restricts {
        "admin_allow"
    } else {
        "the preset: the administration passes the cache"
    };
    context.carried(directive, option);
}

/// Converts any other location to a rule.
fn rule(
    paths: &LocationPaths,
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let Some(mut rule) = paths.rule(directive) else {
        return directive.not_carried(NO_LOOK_AROUND, context.report);
    };
    let section = &mut rule.section;
    for inner in directive.inner() {
        match inner.name() {
            "location" => convert(inner, site, context),
            "if" => condition::convert(inner, site, context),
            "limit_except" => limit_except(inner, context),
            "return" | "rewrite" => redirect(inner, Some(section), site, context),
            "access_log" | "error_log" => {
                context.not_needed(inner, "Galley logs each request once, for the site");
            }
            _ if turns_cache_off(inner) => {
                inner.sets("cache", false, section, context.report);
            }
            _ if pass(inner, section, context) => {}
            _ if rule_time(inner, section, context) => {}
            _ => common::convert(inner, DirectiveScope::Rule, section, context),
        }
    }
    common::access(directive.inner(), "allow", section, context.report);
    remove_same_upstream(section, site);
    directive.becomes(rule, site, context.report);
}

/// Removes the upstream from a rule if it is the same as the site's.
fn remove_same_upstream(section: &mut Section, site: &ImportedSite) {
    for option in ["php", "upstream"] {
        if section.has(option) && section.get(option) == site.section.get(option) {
            section.remove(option);
        }
    }
    // With `ttl` alone, the upstream's lifetime takes precedence; nginx's times, too, apply only if the upstream sets none.
    if section.has("ignore") && !section.has("ttl") {
        section.remove("ignore");
    }
}

fn turns_cache_off(directive: &ParsedDirective) -> bool {
    let argument = directive.argument(0);
    match directive.name() {
        "proxy_cache" | "fastcgi_cache" => argument == "off",
        "proxy_no_cache" | "fastcgi_no_cache" | "proxy_cache_bypass" | "fastcgi_cache_bypass" => {
            argument == "1"
        }
        "set" => argument.contains("skip_cache") && directive.argument(1) == "1",
        _ => false,
    }
}

fn rule_time(
    directive: &ParsedDirective,
    section: &mut Section,
    context: &mut Context<'_>,
) -> bool {
    let mut ttl = Section::default();
    if !cache_time(directive, &mut ttl, context) {
        return false;
    }
    let of_200 = ttl.get("\"200\"").or_else(|| ttl.get("default")).cloned();
    if let (Some(time), false) = (of_200, section.has("ttl")) {
        section.set("ttl", time, &directive.origin);
    }
    true
}

fn limit_except(directive: &ParsedDirective, context: &mut Context<'_>) {
    let remedy = "name the methods in a rule (`methods`) with `deny`";
    directive.not_carried(remedy, context.report);
}
