//! Converts `vcl_recv`: requests that bypass the cache, denials, and parts that Galley normalizes without configuration.

use super::idioms::{COMPUTES, contains, is_about_phones, patterns, switch_on};
use super::synthetic;
use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section};
use crate::known;
use crate::report::Report;
use crate::tree::ParsedDirective;

/// Converts a statement of `vcl_recv`. `all`: the statements of the file.
pub(super) fn receive(
    directive: &ParsedDirective,
    all: &[ParsedDirective],
    site: &mut ImportedSite,
    report: &mut Report,
) {
    let text = directive.words.join(" ");
    let lower = text.to_ascii_lowercase();
    let inner = directive.inner();
    let returns = |what: &str| contains(inner, &|one| one.words.join("").contains(what));
    if !matches!(directive.name(), "if" | "else" | "elseif" | "elsif") {
        return statement(directive, &lower, report);
    }
    let is_method = |method: &str| {
        let mut names = ["req.method", "req.request"].into_iter();
        names.any(|name| lower.contains(&format!("{name} == {method}")))
    };
    if is_method("purge") || is_method("ban") || returns("return(purge)") {
        let why = "Galley accepts PURGE and BAN of the addresses in `purge_allow`";
        directive.not_needed(why, report);
    } else if synthetic::convert(directive, all, site, report) {
        // It was carried, or reported as lost.
    } else if returns("return(pass)") && lower.contains("req.url") {
        paths(directive, &text, site, report);
    } else if returns("return(pass)") && lower.contains("req.http.cookie ~") {
        cookies(directive, &text, site, report);
    } else if lower.contains("user-agent") && is_about_phones(directive) {
        switch_on("device_variants", directive, site, report);
    } else if lower.contains("https") || lower.contains("x-forwarded-proto") {
        switch_on("https_redirect", directive, site, report);
    } else if let Some((_, why)) = CONDITIONS.iter().find(|(word, _)| lower.contains(word)) {
        directive.not_needed(why, report);
    } else {
        directive.not_carried(COMPUTES, report);
    }
}

/// Parts of conditions, and why Galley does not need them.
const CONDITIONS: &[(&str, &str)] = &[
    (
        "authorization",
        "Galley never stores responses to requests with Authorization",
    ),
    (
        "req.method",
        "Galley serves only GET and HEAD from the cache, and refuses methods that it does not know",
    ),
    (
        "req.request",
        "Galley serves only GET and HEAD from the cache, and refuses methods that it does not know",
    ),
    (
        "x-requested-with",
        "Galley knows requests by scripts (admin-ajax.php and the REST API)",
    ),
    ("upgrade", "Galley forwards WebSockets"),
    (
        "req.url",
        "Galley removes tracking parameters and the cookies of files itself (`ignore_query` adds parameters)",
    ),
    (
        "accept-encoding",
        "Galley normalizes the request itself: codings, addresses, cookies, stale pages",
    ),
    (
        "x-forwarded-for",
        "Galley normalizes the request itself: codings, addresses, cookies, stale pages",
    ),
    (
        "cookie",
        "Galley normalizes the request itself: codings, addresses, cookies, stale pages",
    ),
    (
        "grace",
        "Galley normalizes the request itself: codings, addresses, cookies, stale pages",
    ),
    (
        "req.restarts",
        "Galley normalizes the request itself: codings, addresses, cookies, stale pages",
    ),
    (
        "cache-control",
        "the preset ignores Cache-Control of visitors, who could load PHP with it",
    ),
];

/// Parts of statements about values that Galley normalizes.
const NORMALIZED: &[&str] = &[
    "req.http.cookie",
    "req.url",
    "req.http.host",
    "x-forwarded-for",
    "accept-encoding",
    "return",
    "req.backend",
    "req.grace",
    "purge",
    "surrogate-capability",
    "std.log",
    "req.http.proxy",
    "unset req.http",
];

/// Converts a statement without a condition.
fn statement(directive: &ParsedDirective, lower: &str, report: &mut Report) {
    if NORMALIZED.iter().any(|word| lower.contains(word)) {
        let why = "Galley normalizes address, host and cookies itself";
        report.not_needed(directive.id, why);
    } else {
        directive.not_carried(COMPUTES, report);
    }
}

fn cookies(directive: &ParsedDirective, text: &str, site: &mut ImportedSite, report: &mut Report) {
    let unknown: Vec<String> = patterns(text)
        .iter()
        .flat_map(|pattern| known::cookies(pattern).unknown)
        .collect();
    if unknown.is_empty() {
        return directive.not_needed("the preset knows these cookies", report);
    }
    site.section
        .add("bypass_cookies", unknown, &directive.origin);
    directive.carried("bypass_cookies", report);
}

fn paths(directive: &ParsedDirective, text: &str, site: &mut ImportedSite, report: &mut Report) {
    let unknown: Vec<String> = patterns(text)
        .iter()
        .flat_map(|pattern| known::paths(pattern).unknown)
        .filter(|pattern| !pattern.contains("\\?"))
        .collect();
    if unknown.is_empty() {
        directive.not_needed(
            "the preset knows these paths and parameters of WordPress",
            report,
        );
        return;
    }
    let Some(pattern) = known::pattern(&unknown.join("|"), false) else {
        return directive.not_carried(COMPUTES, report);
    };
    let mut section = Section::default();
    section.set("pattern", pattern, &directive.origin);
    section.set("cache", false, &directive.origin);
    site.add_rule(RuleDraft::new(section, RulePriority::Pattern));
    directive.carried("a rule with cache = false", report);
}
