//! Converts `if`. Only conditions whose whole effect Galley has are carried; all others are reported, and one that refuses requests
//! is left to the owner of the site.

use regex::Regex;

use crate::closed;
use crate::directive::Directive;
use crate::draft::{ImportedSite, RuleDraft, RulePriority};
use crate::host_redirect::{BEHIND_PROXY, HostRedirect, MEANT};
use crate::known;
use crate::nginx::context::Context;
use crate::nginx::inner::{FALLBACK, WHOLE, denial_status};

/// The comparison of an `if`: a variable, an operator and a pattern.
pub(super) struct IfComparison {
    pub variable: String,
    pub operator: String,
    pub pattern: String,
}

/// Converts an `if` of a server.
pub(super) fn convert(directive: &Directive, site: &mut ImportedSite, context: &mut Context<'_>) {
    let comparison = comparison(directive);
    if let Some(status) = denial_status(directive.inner()) {
        return deny(directive, &comparison, status, site);
    }
    let sets = skips_cache(directive, context);
    match (comparison.variable.as_str(), directive.inner()) {
        ("$scheme" | "$https" | "$server_port", [action]) if is_plain(&comparison, context) => {
            tls(directive, action, site);
        }
        ("$http_x_forwarded_proto", _) => directive.not_carried(BEHIND_PROXY),
        ("$host" | "$http_host", [action]) => {
            canonical(directive, &comparison, action, site, context);
        }
        ("$http_cookie", _) if sets => cookies(directive, &comparison, site),
        ("$request_uri" | "$uri" | "$document_uri", _) if sets => {
            paths(directive, &comparison, site);
        }
        ("$request_method", _) if sets && is_post(&comparison) => {
            directive.not_needed(ONLY_READS);
        }
        ("!-e" | "!-f", _) if comparison.operator == "$request_filename" => {
            files(directive, site);
        }
        ("$http_user_agent", _) if is_for_phones(&comparison.pattern) => {
            // Pages may differ for phones, and must not mix.
            site.section.set("device_variants", true, &directive.origin);
            directive.not_carried(PHONES);
        }
        _ => directive.not_carried(DECIDE),
    }
}

fn is_for_phones(pattern: &str) -> bool {
    let mut words = ["iPhone", "Mobile", "Android", "BlackBerry"].iter();
    words.any(|word| pattern.contains(word))
}

const PHONES: &str = "`device_variants` is set, so that phones and computers do not get each other's pages; remove it if they get the same";

const ONLY_READS: &str = "Galley serves only GET and HEAD from the cache";

/// Reports an `if` in a location: the requests that it matches are also those of the location.
pub(super) fn in_location(directive: &Directive, context: &mut Context<'_>) {
    match denial_status(directive.inner()) {
        Some(_) => directive.undecided(DENIES),
        None if is_known_cookie(directive, context) => {
            directive.not_needed("the preset knows these cookies");
        }
        None => directive.not_carried(DECIDE),
    }
}

/// Whether a condition lets cookies bypass the cache that the preset knows, so that Galley does the same for all paths.
fn is_known_cookie(directive: &Directive, context: &Context<'_>) -> bool {
    let comparison = comparison(directive);
    skips_cache(directive, context)
        && comparison.variable == "$http_cookie"
        && comparison.operator.starts_with('~')
        && known::cookies(&comparison.pattern).is_some_and(|unknown| unknown.is_empty())
}

pub(super) fn comparison(directive: &Directive) -> IfComparison {
    let mut words: Vec<String> = directive.arguments().to_vec();
    if let Some(first) = words.first_mut() {
        *first = first.trim_start_matches('(').to_owned();
    }
    if let Some(last) = words.last_mut()
        && let Some(rest) = last.strip_suffix(')')
    {
        *last = rest.to_owned();
    }
    words.retain(|word| !word.is_empty());
    let mut words = words.into_iter();
    IfComparison {
        variable: words.next().unwrap_or_default(),
        operator: words.next().unwrap_or_default(),
        pattern: words.collect::<Vec<_>>().join(" "),
    }
}

/// Whether the block only sets variables, and those make requests bypass a cache.
fn skips_cache(directive: &Directive, context: &Context<'_>) -> bool {
    let sets = |one: &Directive| {
        one.name() == "set"
            && context.cache_variables.contains(one.argument(0))
            && !matches!(one.argument(1), "" | "0")
    };
    !directive.inner().is_empty() && directive.inner().iter().all(sets)
}

/// Whether the comparison is about connections without TLS.
fn is_plain(comparison: &IfComparison, context: &Context<'_>) -> bool {
    let IfComparison {
        variable,
        operator,
        pattern,
    } = comparison;
    match (variable.as_str(), operator.as_str(), pattern.as_str()) {
        ("$scheme", "=", "http")
        | ("$scheme", "!=", "https")
        | ("$https", "=", "")
        | ("$https", "!=", "on") => true,
        ("$server_port", "=", "80") => context.server.plain_ports == ["80"],
        _ => false,
    }
}

fn is_post(comparison: &IfComparison) -> bool {
    match comparison.operator.as_str() {
        "=" => comparison.pattern == "POST",
        "!~" => comparison.pattern.trim_matches(['^', '(', ')', '$']) == "GET|HEAD",
        _ => false,
    }
}

/// Converts the redirect of requests without TLS to the same address with TLS.
fn tls(directive: &Directive, action: &Directive, site: &mut ImportedSite) {
    let is_meant = |to: HostRedirect| to.is_plain() && to.scheme == "https" && to.is_own_host();
    if host_redirect(action).is_some_and(is_meant) {
        site.section.set("https_redirect", true, &directive.origin);
        return directive.carried("https_redirect");
    }
    directive.not_carried(MEANT);
}

/// The redirect of `return 301 https://example.com$request_uri` or `rewrite ^ https://example.com$request_uri permanent`.
pub(super) fn host_redirect(action: &Directive) -> Option<HostRedirect> {
    let (status, url) = match (action.name(), action.arguments()) {
        ("return", [status, url]) => (status.as_str(), url.clone()),
        ("return", [url]) => ("302", url.clone()),
        ("rewrite", [pattern, url, flag]) => {
            let status = if flag == "permanent" { "301" } else { "302" };
            (status, rewritten(pattern, url)?)
        }
        _ => return None,
    };
    let url = match url.strip_suffix("$request_uri") {
        Some(bare) => format!("{bare}/$1"),
        None => url,
    };
    HostRedirect::of(action, status, &url)
}

/// The target of a `rewrite` of every path. `None`: it adds the query to that of the target, or is another one.
fn rewritten(pattern: &str, url: &str) -> Option<String> {
    if GROUPED.contains(&pattern) && url.contains("$1") {
        let end = if pattern.contains("^/") { "/$1" } else { "$1" };
        let bare = url.strip_suffix(end)?;
        return Some(format!("{bare}$request_uri"));
    }
    // `rewrite` appends the query unless the target ends with `?`.
    let is_whole = WHOLE.contains(&pattern) && !url.ends_with("$request_uri");
    is_whole.then(|| url.trim_end_matches('?').to_owned())
}

fn cookies(directive: &Directive, comparison: &IfComparison, site: &mut ImportedSite) {
    if !comparison.operator.starts_with('~') {
        return directive.not_carried(DECIDE);
    }
    match known::cookies(&comparison.pattern) {
        None => directive.not_carried("name the cookies in `bypass_cookies`"),
        Some(unknown) if unknown.is_empty() => {
            directive.not_needed("the preset knows these cookies");
        }
        Some(unknown) => {
            site.section
                .add("bypass_cookies", unknown, &directive.origin);
            directive.carried("bypass_cookies");
        }
    }
}

fn paths(directive: &Directive, comparison: &IfComparison, site: &mut ImportedSite) {
    if !comparison.operator.starts_with('~') {
        return directive.not_carried(DECIDE);
    }
    // Galley's patterns do not see the query.
    let (of_query, of_path): (Vec<String>, Vec<String>) = known::paths(&comparison.pattern)
        .into_iter()
        .partition(|one| known::is_of_query(one) && comparison.variable == "$request_uri");
    if !of_path.is_empty() {
        let ignores_case = comparison.operator.contains('*');
        uncached(directive, &of_path, ignores_case, site);
    }
    if !of_query.is_empty() {
        directive.not_carried(NO_QUERY);
    } else if of_path.is_empty() {
        directive.not_needed(NOT_STORED);
    }
}

const NO_QUERY: &str =
    "Galley's patterns have no query: pages with one are stored under their whole address";

const NOT_STORED: &str = "the preset does not store these paths of WordPress";

/// Adds a rule without the cache.
fn uncached(directive: &Directive, paths: &[String], ignores_case: bool, site: &mut ImportedSite) {
    let Some(pattern) = known::pattern(&paths.join("|"), ignores_case) else {
        return directive.not_carried(DECIDE);
    };
    let mut rule = closed::rule_for("pattern", pattern, directive, RulePriority::Condition);
    rule.section.set("cache", false, &directive.origin);
    site.add_rule(rule);
    directive.carried("a rule with cache = false");
}

/// Converts `if ($host = www.example.com) { return 301 https://example.com$request_uri; }` and its opposite.
fn canonical(
    directive: &Directive,
    comparison: &IfComparison,
    action: &Directive,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let is_tls_only = context.server.plain_ports.is_empty();
    let is_meant = |to: &HostRedirect| {
        let keeps_scheme = to.is_own_scheme() || to.scheme == "https" && is_tls_only;
        to.is_plain() && keeps_scheme && !to.is_own_host()
    };
    let target = host_redirect(action).filter(is_meant);
    let Some(target) = target else {
        return directive.not_carried(ONE_HOST);
    };
    let is_meant = compares_host(comparison, &target.host, site.hosts());
    if !is_meant {
        return directive.not_carried(ONE_HOST);
    }
    site.section
        .set("canonical_host", target.host.clone(), &directive.origin);
    site.section.add("hosts", [target.host], None);
    directive.carried("canonical_host");
}

/// Whether a comparison is that of all hosts but one.
fn compares_host(comparison: &IfComparison, host: &str, hosts: &[String]) -> bool {
    let others: Vec<&String> = hosts.iter().filter(|one| **one != host).collect();
    match comparison.operator.as_str() {
        "!=" => comparison.pattern == host,
        "=" => others == [&comparison.pattern],
        _ => false,
    }
}

/// Converts the conditions of WordPress about files: its front controller, and the folders of a network.
fn files(directive: &Directive, site: &mut ImportedSite) {
    let rewrites = directive.inner();
    let is_front = |one: &Directive| {
        one.name() == "rewrite"
            && WHOLE.contains(&one.argument(0))
            && one.argument(1) == "/index.php"
    };
    let is_network = |one: &Directive| {
        one.name() == "rewrite" && OF_NETWORKS.contains(&(one.argument(0), one.argument(1)))
    };
    let is_rewrite = |one: &Directive| is_front(one) || is_network(one) || one.name() == "break";
    if rewrites.is_empty() || !rewrites.iter().all(is_rewrite) || !site.section.has("root") {
        return directive.not_carried(DECIDE);
    }
    if rewrites.iter().any(is_network) {
        site.section.set("multisite", true, &directive.origin);
        return directive.carried("multisite");
    }
    directive.not_needed(FALLBACK);
}

/// Converts a condition that refuses requests.
fn deny(directive: &Directive, comparison: &IfComparison, status: &str, site: &mut ImportedSite) {
    let is_path = matches!(
        comparison.variable.as_str(),
        "$uri" | "$document_uri" | "$request_uri"
    );
    let pattern = match comparison.operator.as_str() {
        "~" | "~*" if is_path => known::pattern(&comparison.pattern, comparison.operator == "~*"),
        _ => None,
    };
    let may_be_query =
        comparison.variable == "$request_uri" && !known::is_within_path(&comparison.pattern);
    let Some(pattern) = pattern.filter(|_| !comparison.pattern.contains(['=', '&'])) else {
        if deny_methods(directive, comparison, status, site).is_none() {
            directive.undecided(DENIES);
        }
        return;
    };
    // nginx evaluates it before it chooses a location.
    let rule = RuleDraft {
        length: usize::MAX,
        ..closed::rule_for("pattern", pattern, directive, RulePriority::Exact)
    };
    let outcome = closed::close(directive, rule, status, site);
    directive.record(&outcome);
    if may_be_query {
        directive.undecided("a rule closes the paths; the condition also refuses queries, which no rule of Galley sees",
        );
    }
}

/// Converts the refusal of methods. `None`: it is about something else, or about one of `GET` and `HEAD` only.
fn deny_methods(
    directive: &Directive,
    comparison: &IfComparison,
    status: &str,
    site: &mut ImportedSite,
) -> Option<()> {
    let (negates, operator) = match comparison.operator.strip_prefix('!') {
        Some(operator) => (true, operator),
        None => (false, comparison.operator.as_str()),
    };
    let pattern = match operator {
        "=" => format!("^{}$", regex::escape(&comparison.pattern)),
        "~" | "~*" => known::pattern(&comparison.pattern, operator == "~*")?,
        _ => return None,
    };
    let pattern = Regex::new(&pattern).ok()?;
    let refuses = |method: &str| pattern.is_match(method) != negates;
    if comparison.variable != "$request_method" || refuses("GET") != refuses("HEAD") {
        return None;
    }
    let methods = METHODS.iter().chain(&["GET"]);
    let refused = methods.filter(|method| refuses(method)).copied();
    let refused: Vec<String> = refused.map(str::to_owned).collect();
    if refused.is_empty() {
        let is_of_purges = refuses("PURGE") || refuses("BAN");
        directive.not_carried(if is_of_purges { PURGES } else { NO_METHODS });
        return Some(());
    }
    let every_path = "/*".to_owned();
    let mut rule = RuleDraft {
        length: usize::MAX,
        ..closed::rule_for("path", every_path, directive, RulePriority::Exact)
    };
    rule.section.add("methods", refused, &directive.origin);
    directive.record(&closed::close(directive, rule, status, site));
    Some(())
}

/// The methods, apart from `GET` and `HEAD`, that Galley passes on.
pub(super) const METHODS: &[&str] = &["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "QUERY"];

const PURGES: &str =
    "set `purge_allow`: clients in these networks may send PURGE and BAN, and all others get 405";

const NO_METHODS: &str = "refused, with 501, or 405 for TRACE and CONNECT: Galley passes on GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS and QUERY";

/// Patterns whose group is the whole path.
const GROUPED: &[&str] = &["^(.*)$", "^(.*)", "^/(.*)$", "^/(.*)", "(.*)"];

/// WordPress's rewrites for networks in folders.
const OF_NETWORKS: &[(&str, &str)] = &[
    ("/wp-admin$", "$scheme://$host$uri/"),
    ("/wp-admin$", "$scheme://$host$request_uri/"),
    ("^(/[^/]+)?(/wp-.*)", "$2"),
    ("^(/[^/]+)?(/.*\\.php)", "$2"),
    ("^/[_0-9a-zA-Z-]+(/wp-.*)", "$1"),
    ("^/[_0-9a-zA-Z-]+(/wp-.*)", "$1"),
    ("^/[_0-9a-zA-Z-]+(/.*\\.php)$", "$1"),
    ("^/[_0-9a-zA-Z-]+(/.*\\.php)", "$1"),
];

const ONE_HOST: &str = "set `canonical_host`, if all other `hosts` are to be redirected to it";

const DENIES: &str = "it refuses requests by something other than their path, which no rule of Galley does: decide in PHP, or in a firewall";

const DECIDE: &str = "write a rule for the paths, or decide in PHP";
