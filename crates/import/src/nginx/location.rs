//! Converts `location`: to a rule, or to options of the site if it is about the whole site (`/`, PHP).
//!
//! A location that refuses its requests stays closed, whatever else happens to it. Statements in an `if`, or in a location inside
//! another one, apply to fewer requests than a rule would, so they are not carried.

use crate::closed;
use crate::directive::Directive;
use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section, Setting};
use crate::known::NO_LOOK_AROUND;
use crate::nginx::common::{self, DirectiveScope};
use crate::nginx::condition;
use crate::nginx::context::Context;
use crate::nginx::inner::{
    FALLBACK, FALLS_BACK, OF_OTHER_SCRIPTS, OF_PHP, ONE_PATH, WHOLE, denial_status, nested,
    try_files,
};
use crate::nginx::location_paths::LocationPaths;
use crate::nginx::passing::{cache_time, pass, returned, sends_host};
use crate::report::StatementOutcome;
use crate::requests::flat;
use crate::words::WordList;

/// Converts a location of a site.
pub(super) fn convert(directive: &Directive, site: &mut ImportedSite, context: &mut Context<'_>) {
    let paths = LocationPaths::of(directive);
    if paths == LocationPaths::Named {
        return named(directive, site);
    }
    let draft = paths.rule(directive);
    if let Some(status) = denial_status(directive.inner()) {
        return deny(directive, draft, status, site);
    }
    if directive.has("internal") {
        return internal(directive, &paths, draft, site);
    }
    let Some(mut rule) = draft else {
        return unsupported(directive);
    };
    if is_whole_site(&paths) {
        directive.entry.carried("the site");
        contents(
            directive,
            &paths,
            LocationContents::Whole,
            &mut rule.section,
            site,
            context,
        );
    } else if is_php(&paths, directive) {
        if OF_OTHER_SCRIPTS.contains(paths.text()) {
            directive.entry.not_carried(PHP_ONLY);
        } else {
            directive.entry.carried("php");
        }
        // Scripts come before all prefixes, whose rules must not apply to them.
        site.add_rule(rule.clone());
        contents(
            directive,
            &paths,
            LocationContents::Scripts,
            &mut rule.section,
            site,
            context,
        );
    } else {
        contents(
            directive,
            &paths,
            LocationContents::Rule,
            &mut rule.section,
            site,
            context,
        );
        let passes = ["php", "upstream"]
            .iter()
            .any(|option| rule.section.has(option));
        if let Some(path) = paths
            .text()
            .strip_suffix('/')
            .filter(|_| passes && !paths.is_pattern())
        {
            let mut settings = rule.section.settings.iter();
            let fields = settings.find(|setting| setting.name == "set_headers");
            add_slash(path, directive, fields.cloned(), site);
        }
        remove_same_upstream(&mut rule.section, site);
        directive.becomes(rule, site);
    }
}

/// What the statements of a location apply to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LocationContents {
    /// `location /`: all requests that no other location has.
    Whole,
    Scripts,
    /// A rule.
    Rule,
}

/// Converts the statements of a location: to options of its rule, or to those of the site if they apply to all of its requests.
fn contents(
    directive: &Directive,
    paths: &LocationPaths,
    place: LocationContents,
    section: &mut Section,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let prefix = (!paths.is_pattern()).then(|| paths.text());
    let (is_rule, is_scripts) = (
        place == LocationContents::Rule,
        place == LocationContents::Scripts,
    );
    let is_sole = place == LocationContents::Whole && context.server.is_sole;
    let is_inside = |one: &Directive| {
        one.name() == "rewrite" && !matches!(one.argument(2), "permanent" | "redirect")
    };
    let rewrites = directive.inner().iter().any(is_inside);
    let of_server = context.server.sends_host;
    context.server.sends_host = sends_host(directive.inner()).unwrap_or(of_server);
    for inner in directive.inner() {
        match inner.name() {
            name if rewrites && name.ends_with("_pass") => inner.not_carried(REWRITTEN),
            "location" => nested(inner),
            "if" if is_sole => condition::convert(inner, site, context),
            "if" => condition::in_location(inner, context),
            "limit_except" => inner.undecided("name the methods in a rule (`methods`) with `deny`"),
            "return" if is_rule => returned(inner, section),
            "return" | "rewrite" => inner.not_carried(ONE_PATH),
            "access_log" | "error_log" => {
                inner.not_needed("Galley logs each request once, for the site");
            }
            "try_files" if is_scripts => script_files(inner),
            "try_files" => try_files(inner, prefix.unwrap_or_default(), site, context),
            "root" if is_scripts => root_of_scripts(inner, site),
            "set" if is_rule && skips_cache(inner, context) => inner.sets("cache", false, section),
            "fastcgi_pass" if is_rule && !paths.text().contains("php") => {
                inner.entry.not_carried("Galley sends what is no script to index.php: write a rule with `php` for the paths of its scripts");
            }
            _ if is_rule && turns_cache_off(inner) => inner.sets("cache", false, section),
            _ if is_rule => {
                if !pass(inner, prefix, section, context) && !rule_time(inner, section) {
                    common::convert(inner, DirectiveScope::Rule, section, context);
                }
            }
            _ if pass(inner, prefix, &mut site.section, context) => {}
            _ if cache_time(inner, &mut site.ttl) => {}
            _ => of_whole_site(inner, is_sole, site, context),
        }
    }
    context.server.sends_host = of_server;
    if is_rule {
        return common::access(directive.inner(), section);
    }
    let count = site.section.settings.len();
    common::access(directive.inner(), &mut site.section);
    if !is_sole && count != site.section.settings.len() {
        let of_access = |one: &&Directive| matches!(one.name(), "allow" | "deny");
        for one in directive.inner().iter().filter(of_access) {
            one.entry.not_carried(CLOSES_MORE);
        }
    }
}

/// Converts a location that refuses its requests.
fn deny(directive: &Directive, draft: Option<RuleDraft>, status: &str, site: &mut ImportedSite) {
    let Some(draft) = draft else {
        let is_hidden = LocationPaths::of(directive).is_pattern()
            && closed::is_hidden_only(LocationPaths::of(directive).text());
        if is_hidden && site.section.has("root") {
            let outcome = closed::with_status(status, "Galley never sends hidden files", false);
            return directive.record(&outcome);
        }
        return directive.undecided(NO_LOOK_AROUND);
    };
    let outcome = closed::close(directive, draft, status, site);
    directive.record(&outcome);
}

/// Converts a location that only responses of PHP may name.
fn internal(
    directive: &Directive,
    paths: &LocationPaths,
    draft: Option<RuleDraft>,
    site: &mut ImportedSite,
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
        return directive.carried("internal");
    }
    let Some(draft) = draft else {
        return directive.undecided(NO_LOOK_AROUND);
    };
    closed::close(directive, draft, "404", site);
    let outcome = StatementOutcome::NotCarried(INTERNAL.to_owned());
    directive.record(&outcome);
}

/// A named location is reached from `try_files` and `error_page` only.
fn named(directive: &Directive, site: &mut ImportedSite) {
    let is_front = |one: &Directive| {
        one.name() == "rewrite"
            && WHOLE.contains(&one.argument(0))
            && one.argument(1) == "/index.php"
    };
    let block = directive.inner();
    if !block.is_empty() && block.iter().all(is_front) && site.section.has("root") {
        return directive.not_needed(FALLBACK);
    }
    for one in flat(block).into_iter().filter(|one| common::closes(one)) {
        one.undecided(NAMED);
    }
    directive.not_carried(NAMED);
}

fn is_whole_site(paths: &LocationPaths) -> bool {
    match paths {
        LocationPaths::Prefix(path) | LocationPaths::FirstPrefix(path) => path == "/",
        LocationPaths::Pattern { .. } | LocationPaths::Exact(_) | LocationPaths::Named => false,
    }
}

/// Whether a location is `location ~ \.php$` in one of its usual forms, and passes requests on.
fn is_php(paths: &LocationPaths, directive: &Directive) -> bool {
    let LocationPaths::Pattern { text, .. } = paths else {
        return false;
    };
    let passes = ["fastcgi_pass", "proxy_pass"];
    (OF_PHP.contains(text.as_str()) || OF_OTHER_SCRIPTS.contains(text.as_str()))
        && passes.iter().any(|name| directive.has(name))
}

/// A statement of `/` or of PHP's location. `is_sole`: whether it applies to all requests of the site.
fn of_whole_site(
    inner: &Directive,
    is_sole: bool,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let mut section = Section::default();
    common::convert(inner, DirectiveScope::Site, &mut section, context);
    let is_access = inner.name().starts_with("auth_") || inner.name() == "limit_req";
    let opens = section.text("basic_auth") == Some("off");
    let sets_access = !opens && (section.has("basic_auth") || section.has("limit"));
    let is_of_upstream = PER_UPSTREAM.iter().any(|end| inner.name().ends_with(end));
    if section.is_empty() || is_sole || is_of_upstream && context.server.passes == 1 {
        site.section.take(section);
    } else if is_access && sets_access {
        // Closed for all rather than open for some.
        site.section.take(section);
        inner.entry.not_carried(CLOSES_MORE);
    } else {
        inner.entry.not_carried(ONE_PATH);
    }
}

fn script_files(directive: &Directive) {
    let is_end = |text: &str| matches!(text, "=404" | "/index.php");
    match directive.arguments() {
        [uri, last] if SCRIPT.contains(uri.as_str()) && is_end(last) => {
            let why = "Galley runs only scripts that exist; WordPress answers the other requests, with 404";
            directive.entry.not_needed(why);
        }
        _ => directive.entry.not_carried(FALLS_BACK),
    }
}

fn root_of_scripts(directive: &Directive, site: &mut ImportedSite) {
    let argument = directive.argument(0);
    match site.section.text("root") {
        Some(root) if root == argument => {
            directive.entry.not_needed("it is the root of the site");
        }
        Some(_) => directive.entry.not_carried(ONE_ROOT),
        None => directive.sets("root", argument, &mut site.section),
    }
}

/// nginx redirects from the path of a passing location without its final slash.
fn add_slash(path: &str, directive: &Directive, fields: Option<Setting>, site: &mut ImportedSite) {
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
fn unsupported(directive: &Directive) {
    directive.not_carried(NO_LOOK_AROUND);
    let inner = flat(directive.inner()).into_iter();
    for one in inner.filter(|one| common::closes(one) || one.name() == "allow") {
        one.undecided(NO_LOOK_AROUND);
    }
}

/// Removes the upstream from a rule if it is the same as the site's.
fn remove_same_upstream(section: &mut Section, site: &ImportedSite) {
    for option in ["php", "upstream"] {
        if section.has(option) && section.get(option) == site.section.get(option) {
            section.remove(option);
        }
    }
}

fn turns_cache_off(directive: &Directive) -> bool {
    let argument = directive.argument(0);
    match directive.name() {
        "proxy_cache" | "fastcgi_cache" => argument == "off",
        "proxy_no_cache" | "fastcgi_no_cache" | "proxy_cache_bypass" | "fastcgi_cache_bypass" => {
            argument == "1"
        }
        _ => false,
    }
}

fn skips_cache(directive: &Directive, context: &Context<'_>) -> bool {
    context.cache_variables.contains(directive.argument(0))
        && !matches!(directive.argument(1), "" | "0")
}

fn rule_time(directive: &Directive, section: &mut Section) -> bool {
    let mut ttl = Section::default();
    if !cache_time(directive, &mut ttl) {
        return false;
    }
    let of_200 = ttl.get("\"200\"").or_else(|| ttl.get("default")).cloned();
    match of_200.filter(|_| !section.has("ttl")) {
        Some(time) => section.set("ttl", time, &directive.origin),
        None => directive
            .entry
            .not_carried("a rule has one `ttl`, for successful responses"),
    }
    true
}

const NAMED: &str = "a name inside nginx: Galley forwards what is no file to index.php or to the upstream, and errors have `[site.error_pages]`";

const INTERNAL: &str = "closed to visitors by a rule, with another status: set `internal` to the folder, so that PHP may name its files in `X-Accel-Redirect`";

const SCRIPT: WordList = WordList("$uri $fastcgi_script_name $document_root$fastcgi_script_name");

const REWRITTEN: &str = "a `rewrite` in the location changes the path: have the server behind it take the whole path, and write a rule with `upstream`";

/// Ends of statements about an upstream: they apply to all requests that it gets.
const PER_UPSTREAM: &[&str] = &["_read_timeout", "_connect_timeout", "_hide_header"];

const CLOSES_MORE: &str = "set for all requests of the site, so that nothing is open that was closed: write rules for the paths that were open";

const ONE_ROOT: &str = "Galley has one `root` for files and scripts of a site";

const PHP_ONLY: &str = "Galley runs scripts that end in .php, and no others";
