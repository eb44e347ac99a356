//! Converts `location`: to a rule, or to options of the site if it is about the whole site (`/`, PHP).
//!
//! A location that refuses its requests stays closed, whatever else happens to it. Statements in an `if`, or in a location inside
//! another one, apply to fewer requests than a rule would, so they are not carried.

use crate::closed::{self, record_all, undecided};
use crate::directive::ParsedDirective;
use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section, Setting};
use crate::known::NO_LOOK_AROUND;
use crate::nginx::common::{self, DirectiveScope};
use crate::nginx::condition;
use crate::nginx::context::Context;
use crate::nginx::inner::{
    FALLBACK, OF_OTHER_SCRIPTS, OF_PHP, ONE_PATH, WHOLE, denial_status, limit_except, nested,
    try_files,
};
use crate::nginx::location_paths::LocationPaths;
use crate::nginx::passing::{cache_time, pass, returned};
use crate::nginx::whole_site::{php, whole_site};
use crate::report::StatementOutcome;

/// Converts a location of a site.
pub(super) fn convert(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let paths = LocationPaths::of(directive);
    if paths == LocationPaths::Named {
        return named(directive, site, context);
    }
    let draft = paths.rule(directive);
    if let Some(status) = denial_status(directive.inner()) {
        return deny(directive, draft, status, site, context);
    }
    if directive.has("internal") {
        return internal(directive, &paths, draft, site, context);
    }
    if is_whole_site(&paths) {
        return whole_site(directive, site, context);
    }
    if let Some(draft) = draft.clone().filter(|_| is_php(&paths, directive)) {
        return php(&paths, draft, directive, site, context);
    }
    rule(&paths, draft, directive, site, context);
}

/// Converts a location that refuses its requests.
fn deny(
    directive: &ParsedDirective,
    draft: Option<RuleDraft>,
    status: &str,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let Some(draft) = draft else {
        let is_hidden = LocationPaths::of(directive).is_pattern()
            && closed::is_hidden_only(LocationPaths::of(directive).text());
        if is_hidden && site.section.has("root") {
            let outcome = closed::with_status(status, "Galley never sends hidden files", false);
            return record_all(directive, &outcome, context.report);
        }
        return undecided(directive, NO_LOOK_AROUND, context.report);
    };
    let outcome = closed::close(directive, draft, status, site);
    record_all(directive, &outcome, context.report);
}

/// Converts a location that only responses of PHP may name.
fn internal(
    directive: &ParsedDirective,
    paths: &LocationPaths,
    draft: Option<RuleDraft>,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let others = directive
        .inner()
        .iter()
        .find(|one| !matches!(one.name(), "internal" | "alias" | "root"));
    let root = directive.inner().iter().find(|one| one.name() == "root");
    let alias = directive
        .inner()
        .iter()
        .find(|one| one.name() == "alias")
        .map(|one| one.argument(0));
    let is_folder = !paths.is_pattern() && paths.text().len() > 1 && paths.text().ends_with('/');
    let is_plain =
        |folder: &str| folder.starts_with('/') && folder.ends_with('/') && !folder.contains('$');
    if is_folder
        && others.is_none()
        && root.is_none()
        && alias.map_or_else(|| site.section.has("root"), is_plain)
        && !matches!(paths, LocationPaths::Exact(_))
    {
        let path = paths.text().to_owned();
        let item = match alias {
            Some(folder) => format!(
                "{{ path = {}, folder = {} }}",
                crate::write::quoted(&path),
                crate::write::quoted(folder.trim_end_matches('/'))
            ),
            None => path,
        };
        site.section.add("internal", [item], &directive.origin);
        return directive.carried("internal", context.report);
    }
    let Some(draft) = draft else {
        return undecided(directive, NO_LOOK_AROUND, context.report);
    };
    closed::close(directive, draft, "404", site);
    let outcome = StatementOutcome::NotCarried(INTERNAL.to_owned());
    record_all(directive, &outcome, context.report);
}

/// A named location is reached from `try_files` and `error_page` only.
fn named(directive: &ParsedDirective, site: &mut ImportedSite, context: &mut Context<'_>) {
    let is_front = |one: &ParsedDirective| {
        one.name() == "rewrite"
            && WHOLE.contains(&one.argument(0))
            && one.argument(1) == "/index.php"
    };
    let block = directive.inner();
    if !block.is_empty() && block.iter().all(is_front) && site.section.has("root") {
        return directive.not_needed(FALLBACK, context.report);
    }
    directive.not_carried(NAMED, context.report);
}

fn is_whole_site(paths: &LocationPaths) -> bool {
    match paths {
        LocationPaths::Prefix(path) | LocationPaths::FirstPrefix(path) => path == "/",
        LocationPaths::Pattern { .. } | LocationPaths::Exact(_) | LocationPaths::Named => false,
    }
}

/// Whether a location is `location ~ \.php$` in one of its usual forms, and passes requests on.
fn is_php(paths: &LocationPaths, directive: &ParsedDirective) -> bool {
    let LocationPaths::Pattern { text, .. } = paths else {
        return false;
    };
    let passes = ["fastcgi_pass", "proxy_pass"];
    (OF_PHP.contains(&text.as_str()) || OF_OTHER_SCRIPTS.contains(&text.as_str()))
        && passes.iter().any(|name| directive.has(name))
}

/// Converts any other location to a rule.
fn rule(
    paths: &LocationPaths,
    draft: Option<RuleDraft>,
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let Some(mut rule) = draft else {
        return unsupported(directive, context);
    };
    let prefix = (!paths.is_pattern()).then(|| paths.text());
    let section = &mut rule.section;
    for inner in directive.inner() {
        match inner.name() {
            "location" => nested(inner, context),
            "if" => condition::in_location(inner, context),
            "limit_except" => limit_except(inner, context),
            "return" => returned(inner, section, context),
            "rewrite" => inner.not_carried(ONE_PATH, context.report),
            "access_log" | "error_log" => {
                context.not_needed(inner, "Galley logs each request once, for the site");
            }
            "try_files" => try_files(inner, prefix.unwrap_or_default(), site, context),
            "set" if skips_cache(inner, context) => {
                inner.sets("cache", false, section, context.report);
            }
            "fastcgi_pass" if !paths.text().contains("php") => {
                context.not_carried(inner, "Galley sends what is no script to index.php: write a rule with `php` for the paths of its scripts");
            }
            _ if turns_cache_off(inner) => {
                inner.sets("cache", false, section, context.report);
            }
            _ if pass(inner, prefix, section, context) => {}
            _ if rule_time(inner, section, context) => {}
            _ => common::convert(inner, DirectiveScope::Rule, section, context),
        }
    }
    common::access(directive.inner(), section, context.report);
    if let Some(path) = prefix.and_then(|path| path.strip_suffix('/'))
        && ["php", "upstream"].iter().any(|option| section.has(option))
    {
        let fields = section
            .settings
            .iter()
            .find(|setting| setting.name == "set_headers");
        add_slash(path, directive, fields.cloned(), site);
    }
    remove_same_upstream(section, site);
    directive.becomes(rule, site, context.report);
}

/// nginx redirects from the path of a passing location without its final slash.
fn add_slash(
    path: &str,
    directive: &ParsedDirective,
    fields: Option<Setting>,
    site: &mut ImportedSite,
) {
    let origin = &directive.origin;
    let mut rule = closed::rule_for(
        "path",
        path.to_owned(),
        directive,
        RulePriority::FirstPrefix,
    );
    rule.section
        .redirects(format!("{path}/"), "301", true, origin);
    rule.section.settings.extend(fields);
    rule.length = usize::MAX;
    site.add_rule(rule);
}

/// A location whose pattern no rule of Galley can have.
fn unsupported(directive: &ParsedDirective, context: &mut Context<'_>) {
    directive.not_carried(NO_LOOK_AROUND, context.report);
    let closes = |one: &&ParsedDirective| {
        matches!(
            one.name(),
            "allow" | "deny" | "auth_basic" | "auth_request" | "limit_req" | "satisfy"
        )
    };
    for one in directive.inner().iter().filter(closes) {
        undecided(one, NO_LOOK_AROUND, context.report);
    }
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
        _ => false,
    }
}

fn skips_cache(directive: &ParsedDirective, context: &Context<'_>) -> bool {
    context.cache_variables.contains(directive.argument(0))
        && !matches!(directive.argument(1), "" | "0")
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
    match of_200.filter(|_| !section.has("ttl")) {
        Some(time) => section.set("ttl", time, &directive.origin),
        None => context.not_carried(directive, "a rule has one `ttl`, for successful responses"),
    }
    true
}

const NAMED: &str = "a name inside nginx: Galley forwards what is no file to index.php or to the upstream, and errors have `[site.error_pages]`";

const INTERNAL: &str = "closed to visitors by a rule, with another status: set `internal` to the folder, so that PHP may name its files in `X-Accel-Redirect`";
