//! Converts `if`. Only conditions whose whole effect Galley has are carried; all others are reported, and one that refuses requests
//! is left to the owner of the site.

use crate::closed::{self, record_all, undecided};
use crate::directive::ParsedDirective;
use crate::draft::{ImportedSite, RuleDraft, RulePriority};
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
pub(super) fn convert(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let comparison = comparison(directive);
    if let Some(status) = denial_status(directive.inner()) {
        return deny(directive, &comparison, status, site, context);
    }
    let sets = skips_cache(directive, context);
    match (comparison.variable.as_str(), directive.inner()) {
        ("$scheme" | "$https" | "$server_port", [action]) if is_plain(&comparison, context) => {
            tls(directive, action, site, context);
        }
        ("$http_x_forwarded_proto", _) => directive.not_carried(BEHIND_PROXY, context.report),
        ("$host" | "$http_host", [action]) => {
            canonical(directive, &comparison, action, site, context);
        }
        ("$http_cookie", _) if sets => cookies(directive, &comparison, site, context),
        ("$request_uri" | "$uri" | "$document_uri", _) if sets => {
            paths(directive, &comparison, site, context);
        }
        ("$request_method", _) if sets && is_post(&comparison) => {
            directive.not_needed(ONLY_READS, context.report);
        }
        ("!-e" | "!-f", _) => files(directive, site, context),
        ("$http_user_agent", _) if is_for_phones(&comparison.pattern) => {
            // Pages may differ for phones, and must not mix.
            site.section.set("device_variants", true, &directive.origin);
            directive.not_carried(PHONES, context.report);
        }
        _ => directive.not_carried(DECIDE, context.report),
    }
}

fn is_for_phones(pattern: &str) -> bool {
    let mut words = ["iPhone", "Mobile", "Android", "BlackBerry"].iter();
    words.any(|word| pattern.contains(word))
}

const PHONES: &str = "`device_variants` is set, so that phones and computers do not get each other's pages; remove it if they get the same";

const ONLY_READS: &str = "Galley serves only GET and HEAD from the cache";

/// Reports an `if` in a location: the requests that it matches are also those of the location.
pub(super) fn in_location(directive: &ParsedDirective, context: &mut Context<'_>) {
    match denial_status(directive.inner()) {
        Some(_) => undecided(directive, DENIES, context.report),
        None if is_known_cookie(directive, context) => {
            directive.not_needed("the preset knows these cookies", context.report);
        }
        None => directive.not_carried(DECIDE, context.report),
    }
}

/// Whether a condition lets cookies bypass the cache that the preset knows, so that Galley does the same for all paths.
fn is_known_cookie(directive: &ParsedDirective, context: &Context<'_>) -> bool {
    let comparison = comparison(directive);
    skips_cache(directive, context)
        && comparison.variable == "$http_cookie"
        && comparison.operator.starts_with('~')
        && known::cookies(&comparison.pattern).is_some_and(|unknown| unknown.is_empty())
}

pub(super) fn comparison(directive: &ParsedDirective) -> IfComparison {
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
fn skips_cache(directive: &ParsedDirective, context: &Context<'_>) -> bool {
    let sets = |one: &ParsedDirective| {
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
fn tls(
    directive: &ParsedDirective,
    action: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let target = ActionTarget::of(action);
    if target.is_some_and(|target| {
        target.is_permanent && target.is_https && target.keeps_path && target.host.starts_with('$')
    }) {
        site.section.set("https_redirect", true, &directive.origin);
        return directive.carried("https_redirect", context.report);
    }
    directive.not_carried("set `https_redirect` or `canonical_host`, if a permanent redirect with the whole path is meant", context.report);
}

/// The target of a redirect to another scheme or host.
#[derive(Clone, Debug)]
pub(super) struct ActionTarget {
    /// The host; with variables if it is that of the request.
    pub host: String,
    pub path: String,
    pub is_https: bool,
    pub is_own_scheme: bool,
    pub is_permanent: bool,
    /// Whether path and query are kept.
    pub keeps_path: bool,
    pub status: String,
}

impl ActionTarget {
    /// That of `return 301 https://example.com$request_uri` or `rewrite ^ https://example.com$request_uri permanent`.
    pub fn of(action: &ParsedDirective) -> Option<Self> {
        match (action.name(), action.arguments()) {
            ("return", [status, url]) => Self::at(status, url),
            ("return", [url]) => Self::at("302", url),
            ("rewrite", [pattern, url, flag]) => {
                let status = if flag == "permanent" { "301" } else { "302" };
                Self::at(status, &rewritten(pattern, url)?)
            }
            _ => None,
        }
    }

    /// Whether only the host changes. `is_tls_only`: all requests use TLS.
    fn is_one_host(&self, is_tls_only: bool) -> bool {
        let keeps_scheme = self.is_own_scheme || self.is_https && is_tls_only;
        self.is_permanent && self.keeps_path && keeps_scheme && !self.host.contains('$')
    }

    fn at(status: &str, url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let start = usize::from(rest.starts_with('$'));
        let end = rest
            .get(start..)?
            .find(['/', '$'])
            .map_or(rest.len(), |at| at + start);
        let (host, path) = rest.split_at_checked(end)?;
        Some(Self {
            host: host.to_owned(),
            path: path.to_owned(),
            is_https: scheme == "https",
            is_own_scheme: scheme == "$scheme",
            is_permanent: matches!(status, "301" | "308"),
            keeps_path: path == "$request_uri",
            status: status.to_owned(),
        })
    }
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

fn cookies(
    directive: &ParsedDirective,
    comparison: &IfComparison,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    if !comparison.operator.starts_with('~') {
        return directive.not_carried(DECIDE, context.report);
    }
    match known::cookies(&comparison.pattern) {
        None => directive.not_carried("name the cookies in `bypass_cookies`", context.report),
        Some(unknown) if unknown.is_empty() => {
            directive.not_needed("the preset knows these cookies", context.report);
        }
        Some(unknown) => {
            site.section
                .add("bypass_cookies", unknown, &directive.origin);
            directive.carried("bypass_cookies", context.report);
        }
    }
}

fn paths(
    directive: &ParsedDirective,
    comparison: &IfComparison,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    if !comparison.operator.starts_with('~') {
        return directive.not_carried(DECIDE, context.report);
    }
    // Galley's patterns do not see the query.
    let (of_query, of_path): (Vec<String>, Vec<String>) = known::paths(&comparison.pattern)
        .into_iter()
        .partition(|one| known::is_of_query(one) && comparison.variable == "$request_uri");
    if !of_path.is_empty() {
        let ignores_case = comparison.operator.contains('*');
        uncached(directive, &of_path, ignores_case, site, context);
    }
    if !of_query.is_empty() {
        directive.not_carried(NO_QUERY, context.report);
    } else if of_path.is_empty() {
        directive.not_needed(NOT_STORED, context.report);
    }
}

const NO_QUERY: &str =
    "Galley's patterns have no query: pages with one are stored under their whole address";

const NOT_STORED: &str = "the preset does not store these paths of WordPress";

/// Adds a rule without the cache.
fn uncached(
    directive: &ParsedDirective,
    paths: &[String],
    ignores_case: bool,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let Some(pattern) = known::pattern(&paths.join("|"), ignores_case) else {
        return directive.not_carried(DECIDE, context.report);
    };
    let mut rule = closed::rule_for("pattern", pattern, directive, RulePriority::Condition);
    rule.section.set("cache", false, &directive.origin);
    site.add_rule(rule);
    directive.carried("a rule with cache = false", context.report);
}

/// Converts `if ($host = www.example.com) { return 301 https://example.com$request_uri; }` and its opposite.
fn canonical(
    directive: &ParsedDirective,
    comparison: &IfComparison,
    action: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let is_tls_only = context.server.plain_ports.is_empty();
    let target = ActionTarget::of(action).filter(|target| target.is_one_host(is_tls_only));
    let Some(target) = target else {
        return directive.not_carried(ONE_HOST, context.report);
    };
    let is_meant = compares_host(comparison, &target.host, site.hosts());
    if !is_meant {
        return directive.not_carried(ONE_HOST, context.report);
    }
    site.section
        .set("canonical_host", target.host.clone(), &directive.origin);
    site.section.add("hosts", [target.host], None);
    directive.carried("canonical_host", context.report);
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
fn files(directive: &ParsedDirective, site: &mut ImportedSite, context: &mut Context<'_>) {
    let rewrites = directive.inner();
    let is_front = |one: &ParsedDirective| {
        one.name() == "rewrite"
            && WHOLE.contains(&one.argument(0))
            && one.argument(1) == "/index.php"
    };
    let is_network = |one: &ParsedDirective| {
        one.name() == "rewrite" && OF_NETWORKS.contains(&(one.argument(0), one.argument(1)))
    };
    let is_rewrite =
        |one: &ParsedDirective| is_front(one) || is_network(one) || one.name() == "break";
    if rewrites.is_empty() || !rewrites.iter().all(is_rewrite) || !site.section.has("root") {
        return directive.not_carried(DECIDE, context.report);
    }
    if rewrites.iter().any(is_network) {
        site.section.set("multisite", true, &directive.origin);
        return directive.carried("multisite", context.report);
    }
    directive.not_needed(FALLBACK, context.report);
}

/// Converts a condition that refuses requests.
fn deny(
    directive: &ParsedDirective,
    comparison: &IfComparison,
    status: &str,
    site: &mut ImportedSite,
    context: &mut Context<'_>,
) {
    let is_path = matches!(
        comparison.variable.as_str(),
        "$uri" | "$document_uri" | "$request_uri"
    );
    let pattern = match comparison.operator.as_str() {
        "~" | "~*" if is_path => known::pattern(&comparison.pattern, comparison.operator == "~*"),
        _ => None,
    };
    let may_be_query =
        comparison.variable == "$request_uri" && !comparison.pattern.starts_with("^/");
    let Some(pattern) = pattern.filter(|_| !comparison.pattern.contains(['=', '&'])) else {
        let remedy = if comparison.variable == "$request_method" {
            METHODS
        } else {
            DENIES
        };
        return undecided(directive, remedy, context.report);
    };
    // nginx evaluates it before it chooses a location.
    let rule = RuleDraft {
        length: usize::MAX,
        ..closed::rule_for("pattern", pattern, directive, RulePriority::Exact)
    };
    let outcome = closed::close(directive, rule, status, site);
    record_all(directive, &outcome, context.report);
    if may_be_query {
        undecided(
            directive,
            "a rule closes the paths; the condition also refuses queries, which no rule of Galley sees",
            context.report,
        );
    }
}

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

/// Why a redirect by the scheme that a proxy names is not carried.
pub(super) const BEHIND_PROXY: &str = "name the proxies in `server.trusted_proxies`, then set `https_redirect = true`: without them Galley would \
     redirect every visitor in a loop";

const ONE_HOST: &str = "set `canonical_host`, if all other `hosts` are to be redirected to it";

const METHODS: &str = "Galley refuses methods that it does not know, and runs WordPress for PUT, PATCH, DELETE and OPTIONS. A rule with `methods` and \
     `deny` would also refuse the block editor, which names such methods in `X-HTTP-Method-Override`";

const DENIES: &str = "it refuses requests by something other than their path, which no rule of Galley does: decide in PHP, or in a firewall";

const DECIDE: &str = "write a rule for the paths, or decide in PHP";
