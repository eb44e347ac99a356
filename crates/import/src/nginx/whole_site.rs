//! Converts `location /` and the location of all scripts: their statements become options of the site if they apply to all requests.

use crate::directive::ParsedDirective;
use crate::draft::{ImportedSite, RuleDraft, Section};
use crate::nginx::common::{self, DirectiveScope};
use crate::nginx::condition;
use crate::nginx::context::Context;
use crate::nginx::inner::{
    FALLS_BACK, OF_OTHER_SCRIPTS, ONE_PATH, limit_except, nested, try_files,
};
use crate::nginx::location_paths::LocationPaths;
use crate::nginx::passing::{cache_time, pass};

/// Converts the statements of `/` to options of the site, if they apply to all of its requests.
pub(super) fn whole_site(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    context.carried(directive, "the site");
    let is_sole = context.server.is_sole;
    for inner in directive.inner() {
        match inner.name() {
            "if" if is_sole => condition::convert(inner, site, context),
            "if" => condition::in_location(inner, context),
            "location" => nested(inner, context),
            "limit_except" => limit_except(inner, context),
            "return" | "rewrite" => inner.not_carried(ONE_PATH, context.report),
            "try_files" => try_files(inner, "/", site, context),
            _ if pass(inner, Some("/"), &mut site.section, context) => {}
            _ if cache_time(inner, &mut site.ttl, context) => {}
            _ => of_whole_site(inner, is_sole, site, context),
        }
    }
    access(directive, is_sole, site, context);
}

/// Converts the networks of a location to those of the site.
fn access(
    directive: &ParsedDirective,
    is_sole: bool,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let count = site.section.settings.len();
    common::access(directive.inner(), &mut site.section, context.report);
    if !is_sole && count != site.section.settings.len() {
        closes_more(directive, context);
    }
}

/// A statement of `/` or of PHP's location. `is_sole`: whether it applies to all requests of the site.
fn of_whole_site(
    inner: &ParsedDirective,
    is_sole: bool,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let mut own = Section::default();
    common::convert(inner, DirectiveScope::Site, &mut own, context);
    let is_access = inner.name().starts_with("auth_") || inner.name() == "limit_req";
    let sets_access = ["basic_auth", "limit"].iter().any(|option| own.has(option));
    if own.is_empty() || is_sole || PER_UPSTREAM.iter().any(|end| inner.name().ends_with(end)) {
        site.section.take(own);
    } else if is_access && sets_access {
        // Closed for all rather than open for some.
        site.section.take(own);
        context.not_carried(inner, CLOSES_MORE);
    } else {
        context.not_carried(inner, ONE_PATH);
    }
}

fn closes_more(directive: &ParsedDirective, context: &mut Context<'_>) {
    let of_access = |one: &&ParsedDirective| matches!(one.name(), "allow" | "deny");
    for one in directive.inner().iter().filter(of_access) {
        context.not_carried(one, CLOSES_MORE);
    }
}

pub(super) fn php(
    paths: &LocationPaths,
    scripts: RuleDraft,
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    if OF_OTHER_SCRIPTS.contains(&paths.text()) {
        context.not_carried(directive, PHP_ONLY);
    } else {
        context.carried(directive, "php");
    }
    // Scripts come before all prefixes, whose rules must not apply to them.
    site.add_rule(scripts);
    for inner in directive.inner() {
        match inner.name() {
            "if" => condition::in_location(inner, context),
            "location" => nested(inner, context),
            "return" | "rewrite" => inner.not_carried(ONE_PATH, context.report),
            "root" => root_of_scripts(inner, site, context),
            "try_files" => script_files(inner, context),
            _ if pass(inner, None, &mut site.section, context) => {}
            _ if cache_time(inner, &mut site.ttl, context) => {}
            _ => of_whole_site(inner, false, site, context),
        }
    }
    access(directive, false, site, context);
}

fn script_files(directive: &ParsedDirective, context: &mut Context<'_>) {
    let is_end = |text: &str| matches!(text, "=404" | "/index.php");
    match directive.arguments() {
        [uri, last] if SCRIPT.contains(&uri.as_str()) && is_end(last) => {
            let why = "Galley runs only scripts that exist; WordPress answers the other requests, with 404";
            context.not_needed(directive, why);
        }
        _ => context.not_carried(directive, FALLS_BACK),
    }
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
        Some(_) => context.not_carried(directive, ONE_ROOT),
        None => directive.sets("root", argument, &mut site.section, context.report),
    }
}

const SCRIPT: &[&str] = &[
    "$uri",
    "$fastcgi_script_name",
    "$document_root$fastcgi_script_name",
];

/// Ends of statements about an upstream: they apply to all requests that it gets.
const PER_UPSTREAM: &[&str] = &["_read_timeout", "_connect_timeout", "_hide_header"];

const CLOSES_MORE: &str = "set for all requests of the site, so that nothing is open that was closed: write rules for the paths that were open";

const ONE_ROOT: &str = "Galley has one `root` for files and scripts of a site";

const PHP_ONLY: &str = "Galley runs scripts that end in .php, and no others";
