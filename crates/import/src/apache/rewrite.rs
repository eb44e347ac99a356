//! Converts `RewriteCond` and `RewriteRule`: WordPress's block, redirects to TLS and to one host, redirects and denials by path. A rule
//! is carried only if its conditions are nothing but what the option of Galley tests.

use super::context::{HostContext, RedirectsAll, RewriteCondition};
use crate::closed;
use crate::directive::ParsedDirective;
use crate::draft::{ImportedSite, RuleDraft, RulePriority};
use crate::known;
use crate::report::StatementOutcome;

pub(super) fn condition(directive: &ParsedDirective, context: &mut HostContext<'_>) {
    let variable = directive
        .argument(0)
        .trim_start_matches("%{")
        .trim_end_matches('}');
    context.conditions.push(RewriteCondition {
        id: directive.id,
        variable: variable.to_ascii_uppercase(),
        pattern: directive.argument(1).to_owned(),
        flags: directive.argument(2).to_ascii_uppercase(),
    });
}

/// Converts a rule and the conditions before it.
pub(super) fn rule(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) {
    let conditions = std::mem::take(&mut context.conditions);
    let flags = RewriteFlags::of(directive);
    let whole_host = whole_host(directive, &conditions, &flags);
    let outcome = match (context.is_unsure, whole_host) {
        (true, _) => None,
        (false, Some(redirect)) if !context.is_htaccess => {
            context.redirects_all = Some(redirect);
            Some(StatementOutcome::Carried(OF_HOST.to_owned()))
        }
        (false, _) => outcome(directive, &conditions, &flags, site, context),
    };
    // Whether later rules run depends on this one.
    context.is_unsure |= flags.skips() && !flags.refuses();
    let ids = conditions.iter().map(|one| one.id).chain([directive.id]);
    for id in ids {
        match &outcome {
            Some(outcome) => context.report.record(id, outcome.clone()),
            None if flags.refuses() => context.report.undecided(id, REWRITES),
            None => context.report.not_carried(id, REWRITES),
        }
    }
}

/// The redirect of all requests of a virtual host to another scheme or host.
fn whole_host(
    directive: &ParsedDirective,
    conditions: &[RewriteCondition],
    flags: &RewriteFlags,
) -> Option<RedirectsAll> {
    let target = directive.argument(1).strip_suffix("%{REQUEST_URI}")?;
    let is_whole = conditions.is_empty() && WHOLE_SITE.contains(&directive.argument(0));
    let host = target.split_once("://")?.1;
    let is_host =
        host == "%{HTTP_HOST}" || host == "%{SERVER_NAME}" || !host.contains(['%', '$', '/']);
    (is_whole && is_host && flags.are_known()).then(|| RedirectsAll {
        id: directive.id,
        target: format!("{target}/"),
        status: flags.redirect().unwrap_or("302").to_owned(),
    })
}

const OF_HOST: &str = "https_redirect, canonical_host or a rule with redirect";

/// The result of a rule. `None`: Galley has nothing with the same effect.
fn outcome(
    directive: &ParsedDirective,
    conditions: &[RewriteCondition],
    flags: &RewriteFlags,
    site: &mut ImportedSite,
    context: &HostContext<'_>,
) -> Option<StatementOutcome> {
    if is_of_wordpress(directive, conditions, flags) {
        return Some(StatementOutcome::NotNeeded("Galley sends a file that exists, forwards everything else to index.php, and passes Authorization on".to_owned()));
    }
    let is_whole = WHOLE_SITE.contains(&directive.argument(0));
    match conditions {
        [one] if is_whole && one.variable.contains("X-FORWARDED-PROTO") => Some(
            StatementOutcome::NotCarried(super::passing::BEHIND_PROXY.to_owned()),
        ),
        [one]
            if is_whole
                && !flags.refuses()
                && matches!(one.variable.as_str(), "HTTPS" | "HTTP_HOST" | "SERVER_PORT") =>
        {
            whole_site(directive, one, flags, site, context)
        }
        [] => path_rule(directive, directive.argument(0), flags, site, context),
        [one]
            if is_whole
                && one.variable == "REQUEST_URI"
                && !one.pattern.starts_with(['!', '-', '=', '<', '>']) =>
        {
            let groups = directive.argument(1).contains('$');
            let pattern = if one.flags.contains("NC") {
                format!("(?i){}", one.pattern)
            } else {
                one.pattern.clone()
            };
            (!groups).then(|| path_rule(directive, &pattern, flags, site, context))?
        }
        _ => None,
    }
}

/// Whether a rule is one of those that WordPress writes.
fn is_of_wordpress(
    directive: &ParsedDirective,
    conditions: &[RewriteCondition],
    flags: &RewriteFlags,
) -> bool {
    let (pattern, target) = (directive.argument(0), directive.argument(1));
    let tests = |wanted: &str| {
        conditions.iter().any(|one| {
            one.variable == "REQUEST_FILENAME" && one.pattern == wanted && one.flags.is_empty()
        })
    };
    let only_files = conditions.iter().all(|one| {
        one.variable == "REQUEST_FILENAME" && matches!(one.pattern.as_str(), "!-f" | "!-d" | "!-l")
    });
    let is_last = flags
        .0
        .split(',')
        .all(|flag| matches!(flag.trim(), "" | "l" | "qsa"));
    match target {
        "-" => {
            let is_authorization = flags
                .0
                .split(',')
                .map(str::trim)
                .all(|flag| matches!(flag, "l" | "e=http_authorization:%{http:authorization}"));
            conditions.is_empty()
                && (pattern == "^index\\.php$" && is_last
                    || WHOLE_SITE.contains(&pattern)
                        && is_authorization
                        && !flags.0.is_empty()
                        && flags.0 != "l")
        }
        "/index.php" | "index.php" => {
            (WHOLE_SITE.contains(&pattern) || pattern == ".")
                && only_files
                && tests("!-f")
                && tests("!-d")
                && is_last
        }
        _ => false,
    }
}

/// Converts a redirect of every path: to TLS, or to one host.
fn whole_site(
    directive: &ParsedDirective,
    condition: &RewriteCondition,
    flags: &RewriteFlags,
    site: &mut ImportedSite,
    context: &HostContext<'_>,
) -> Option<StatementOutcome> {
    let (pattern, target) = (directive.argument(0), directive.argument(1));
    let is_permanent =
        flags.0.contains("r=301") || flags.0.contains("r=permanent") || flags.0.contains("r=308");
    let (scheme, rest) = target.split_once("://")?;
    let with_group = if pattern.starts_with("^/") || context.is_htaccess {
        "/$1"
    } else {
        "$1"
    };
    let host = rest.strip_suffix("%{REQUEST_URI}").or_else(|| {
        rest.strip_suffix(with_group)
            .filter(|_| pattern.contains('('))
    })?;
    if !is_permanent {
        return None;
    }
    let is_plain = matches!(
        (condition.variable.as_str(), condition.pattern.as_str()),
        ("HTTPS", "off" | "!on" | "!=on" | "=off" | "^off$" | "!^on$")
            | ("SERVER_PORT", "80" | "^80$" | "!^443$" | "!443")
    );
    if is_plain && scheme == "https" && matches!(host, "%{HTTP_HOST}" | "%{SERVER_NAME}") {
        site.section.set("https_redirect", true, &directive.origin);
        return Some(StatementOutcome::Carried("https_redirect".to_owned()));
    }
    let keeps_scheme = scheme == "%{REQUEST_SCHEME}" || scheme == "https" && context.has_tls;
    let named = condition
        .pattern
        .trim_start_matches(['!', '^'])
        .trim_end_matches('$')
        .replace("\\.", ".");
    let is_plain_name = named
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
    let others: Vec<&String> = site.hosts().iter().filter(|one| **one != host).collect();
    let is_meant = if condition.pattern.starts_with("!^") {
        named == host
    } else {
        condition.pattern.starts_with('^') && others == [&named]
    };
    if condition.variable != "HTTP_HOST"
        || host.contains('%')
        || !is_plain_name
        || !condition.pattern.ends_with('$')
        || !is_meant
        || !keeps_scheme
    {
        return None;
    }
    site.section.set("canonical_host", host, &directive.origin);
    site.section.add("hosts", [host.to_owned()], None);
    Some(StatementOutcome::Carried("canonical_host".to_owned()))
}

/// Patterns that match every path.
const WHOLE_SITE: &[&str] = &[
    "^", "^(.*)$", "(.*)", "^(.*)", ".*", "^.*$", "^.*", "^/?(.*)", "^/?(.*)$", "^/(.*)$",
];

/// Flags such as `[R=301,L]`, in lower case.
struct RewriteFlags(String);

impl RewriteFlags {
    fn of(directive: &ParsedDirective) -> Self {
        let flags = directive.argument(2).trim_matches(['[', ']']);
        Self(flags.to_ascii_lowercase())
    }

    fn has(&self, flag: &str) -> bool {
        let mut all = self.0.split(',').map(str::trim);
        all.any(|one| one.split('=').next() == Some(flag))
    }

    fn refuses(&self) -> bool {
        ["f", "forbidden", "g", "gone"]
            .iter()
            .any(|flag| self.has(flag))
    }

    /// Whether the rules after it may be left out.
    fn skips(&self) -> bool {
        let mut all = ["s", "skip", "c", "chain", "n", "next", "end"].iter();
        all.any(|flag| self.has(flag))
    }

    /// The status of a redirect.
    fn redirect(&self) -> Option<&str> {
        let mut all = self.0.split(',').map(str::trim);
        let status = all.find_map(|one| match one.split_once('=') {
            Some(("r" | "redirect", status)) => Some(status),
            None if matches!(one, "r" | "redirect") => Some("302"),
            _ => None,
        })?;
        match status {
            "permanent" => Some("301"),
            "temp" => Some("302"),
            "seeother" => Some("303"),
            "301" | "302" | "303" | "307" | "308" => Some(status),
            _ => None,
        }
    }

    /// Whether all flags are about denials and redirects.
    fn are_known(&self) -> bool {
        let mut all = self
            .0
            .split(',')
            .map(|one| one.trim().split('=').next().unwrap_or_default());
        all.all(|flag| {
            matches!(
                flag,
                "" | "l"
                    | "last"
                    | "r"
                    | "redirect"
                    | "f"
                    | "forbidden"
                    | "g"
                    | "gone"
                    | "nc"
                    | "nocase"
                    | "qsa"
                    | "qsd"
                    | "ne"
                    | "noescape"
            )
        })
    }
}

/// Converts a redirect or denial of paths. `None` for other rules, and if Galley does not support the pattern.
fn path_rule(
    directive: &ParsedDirective,
    pattern: &str,
    flags: &RewriteFlags,
    site: &mut ImportedSite,
    context: &HostContext<'_>,
) -> Option<StatementOutcome> {
    let target = directive.argument(1);
    if pattern.starts_with('!') || !flags.are_known() {
        return None;
    }
    // In a `.htaccess` paths have no leading slash.
    let text = match pattern.strip_prefix('^') {
        Some(rest) if context.is_htaccess && !rest.starts_with('/') => format!("^/{rest}"),
        _ => pattern.to_owned(),
    };
    let text = known::pattern(&text, flags.has("nc") || flags.has("nocase"))?;
    let rule = RuleDraft {
        length: usize::MAX,
        ..closed::rule_for("pattern", text, directive, RulePriority::Pattern)
    };
    if flags.refuses() {
        let status = if flags.has("g") || flags.has("gone") {
            "410"
        } else {
            "403"
        };
        return Some(closed::close(directive, rule, status, site));
    }
    let status = match (flags.redirect(), target.contains("://")) {
        (Some(status), _) => status,
        (None, true) => "302",
        (None, false) => return None,
    };
    let (bare, query) = target
        .split_once('?')
        .map_or((target, None), |(bare, query)| (bare, Some(query)));
    if target.contains('%') || target == "-" {
        return None;
    }
    let is_relative = !bare.starts_with('/') && !bare.contains("://");
    let slash = if is_relative { "/" } else { "" };
    let query_text = query
        .filter(|query| !query.is_empty())
        .map_or(String::new(), |query| format!("?{query}"));
    let keeps_query = (query.is_none() || flags.has("qsa")) && !flags.has("qsd");
    let target = format!("{slash}{bare}{query_text}");
    let mut rule = rule;
    rule.section
        .redirects(target, status, keeps_query, &directive.origin);
    site.add_rule(rule);
    Some(StatementOutcome::Carried("a rule".to_owned()))
}

const REWRITES: &str = "write a rule with `path` or `pattern`; Galley rewrites no paths for itself, and its rules have no conditions but paths, methods and countries";
