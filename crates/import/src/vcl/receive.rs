//! Converts `vcl_recv`: purges, requests that bypass the cache, and denials, each by a single condition.

use super::words::{computes, network};
use crate::closed::{self, undecided};
use crate::directive::ParsedDirective;
use crate::draft::{ImportedSite, RulePriority};
use crate::known;
use crate::report::Report;

/// Converts a statement of `vcl_recv`. `all`: the statements of the file.
pub(super) fn receive(
    directive: &ParsedDirective,
    all: &[ParsedDirective],
    site: &mut ImportedSite,
    report: &mut Report,
) {
    let text = text_of(directive);
    if directive.name() != "if" {
        return statement(directive, &text, report);
    }
    let condition = text.strip_prefix("if ").unwrap_or_default();
    let condition = condition
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'))
        .unwrap_or_default();
    let returns = match directive.inner() {
        [one] => one.words.join(""),
        _ => String::new(),
    };
    match condition {
        "req.method == PURGE" | "req.request == PURGE" => {
            return purge(directive, all, site, report);
        }
        "req.http.Authorization" if returns == "return(pass)" => {
            return directive.not_needed(
                "Galley never stores responses to requests with Authorization",
                report,
            );
        }
        "req.method != GET && req.method != HEAD" if returns == "return(pass)" => {
            return directive.not_needed("Galley serves only GET and HEAD from the cache", report);
        }
        _ => {}
    }
    if let (Some(pattern), "return(pass)") =
        (compared(condition, "req.http.cookie"), returns.as_str())
        && let Some(unknown) = known::cookies(pattern)
    {
        if unknown.is_empty() {
            return directive.not_needed("the preset knows these cookies", report);
        }
        site.section
            .add("bypass_cookies", unknown, &directive.origin);
        return directive.carried("bypass_cookies", report);
    }
    if let (Some(pattern), "return(pass)") = (compared(condition, "req.url"), returns.as_str()) {
        return pass(directive, pattern, site, report);
    }
    match refusal(directive.inner()) {
        Some(_) if condition.contains(" && ") => allow(directive, condition, all, site, report),
        Some(status) => deny(directive, condition, &status, site, report),
        None => computes(directive, report),
    }
}

/// The words of a statement, in which a quoted one may be before a parenthesis.
fn text_of(directive: &ParsedDirective) -> String {
    directive.words.join(" ").replace(" )", ")")
}

/// The pattern of a condition that is nothing but `NAME ~ "PATTERN"`.
fn compared<'c>(condition: &'c str, name: &str) -> Option<&'c str> {
    let (left, pattern) = condition.split_once(" ~ ")?;
    let is_single =
        !pattern.contains(" ~ ") && !pattern.contains(" && ") && !pattern.contains(" || ");
    (left.eq_ignore_ascii_case(name) && is_single).then_some(pattern)
}

/// Converts paths that bypass the cache. In VCL a path is compared with its query, which Galley's patterns do not see.
fn pass(directive: &ParsedDirective, pattern: &str, site: &mut ImportedSite, report: &mut Report) {
    let (of_query, of_path): (Vec<String>, Vec<String>) = known::paths(pattern)
        .into_iter()
        .partition(|one| known::is_of_query(one));
    let prefixes: Option<Vec<String>> = of_path
        .iter()
        .map(|one| closed::plain_prefix(one))
        .collect();
    if let Some(prefixes) = prefixes.filter(|all| !all.is_empty()) {
        for prefix in prefixes {
            let path = format!("{prefix}*");
            let mut rule = closed::rule_for("path", path, directive, RulePriority::Condition);
            rule.section.set("cache", false, &directive.origin);
            site.add_rule(rule);
        }
        directive.carried("a rule with cache = false", report);
    } else if of_path.is_empty() {
        directive.not_needed("the preset does not store these paths of WordPress", report);
    } else {
        computes(directive, report);
    }
    if !of_query.is_empty() {
        directive.not_carried(
            "Galley's patterns have no query: pages with one are stored under their whole address",
            report,
        );
    }
}

/// Converts `if (req.method == "PURGE") { if (!client.ip ~ purge) { return (synth(405)); } return (purge); }`.
fn purge(
    directive: &ParsedDirective,
    all: &[ParsedDirective],
    site: &mut ImportedSite,
    report: &mut Report,
) {
    let list = purgers(directive, all);
    let is_known = |list: &&ParsedDirective| list.inner().iter().all(|one| network(one).is_some());
    let Some(list) = list.filter(is_known) else {
        return directive.not_carried("name the networks that may purge in `purge_allow`", report);
    };
    let networks = list.inner().iter().filter_map(network);
    site.section.add("purge_allow", networks, &list.origin);
    list.carried("purge_allow", report);
    directive.not_needed(
        "Galley accepts PURGE and BAN of the addresses in `purge_allow`",
        report,
    );
}

/// The access list of a condition for purges.
fn purgers<'a>(
    directive: &ParsedDirective,
    all: &'a [ParsedDirective],
) -> Option<&'a ParsedDirective> {
    let [check, last] = directive.inner() else {
        return None;
    };
    if last.words.join("") != "return(purge)" || refusal(check.inner()).is_none() {
        return None;
    }
    let text = text_of(check).replace("client.ip !~", "!client.ip ~");
    let name = text.strip_prefix("if (!client.ip ~ ")?.strip_suffix(')')?;
    list_of(all, name)
}

/// The access list with a name.
fn list_of<'a>(all: &'a [ParsedDirective], name: &str) -> Option<&'a ParsedDirective> {
    let mut lists = all.iter().filter(|one| one.name() == "acl");
    lists.find(|list| list.argument(0) == name)
}

/// The status of `return (synth(403, "..."))`, or of `error 403 "..."` in older files, if it refuses a request.
fn refusal(block: &[ParsedDirective]) -> Option<String> {
    let status = block.iter().find_map(|one| {
        let words = one.words.join("");
        let rest = words
            .strip_prefix("return(synth(")
            .or_else(|| words.strip_prefix("error"))?;
        Some(
            rest.chars()
                .take_while(char::is_ascii_digit)
                .collect::<String>(),
        )
    });
    status.filter(|status| known::is_error_status(status))
}

/// Converts `req.url ~ "^/office" && client.ip !~ office`.
fn allow(
    directive: &ParsedDirective,
    condition: &str,
    all: &[ParsedDirective],
    site: &mut ImportedSite,
    report: &mut Report,
) {
    let found = condition.split_once(" && ").and_then(|(paths, client)| {
        let name = client.strip_prefix("client.ip !~ ")?;
        let list = list_of(all, name)?;
        let networks: Option<Vec<String>> = list.inner().iter().map(network).collect();
        let prefix = closed::plain_prefix(compared(paths, "req.url")?)?;
        Some((list, networks?, prefix))
    });
    let Some((list, networks, prefix)) = found else {
        return undecided(directive, DENIES, report);
    };
    let mut rule = closed::rule_for("path", format!("{prefix}*"), directive, RulePriority::Exact);
    rule.section.add("allow", networks, &directive.origin);
    site.add_rule(rule);
    list.carried("a rule with allow", report);
    directive.carried("a rule with allow", report);
}

/// Closes paths that a condition compares, one after the other.
fn deny(
    directive: &ParsedDirective,
    condition: &str,
    status: &str,
    site: &mut ImportedSite,
    report: &mut Report,
) {
    // The URL has the query, which Galley's patterns do not see.
    let pattern = |one: &str| {
        let pattern = compared(one, "req.url").filter(|pattern| !known::is_of_query(pattern))?;
        known::pattern(pattern, false)
    };
    let patterns: Option<Vec<String>> = condition.split(" || ").map(pattern).collect();
    let Some(patterns) = patterns else {
        return undecided(directive, DENIES, report);
    };
    for pattern in patterns {
        let is_prefix = closed::plain_prefix(&pattern).is_some();
        let rule = closed::rule_for("pattern", pattern, directive, RulePriority::Exact);
        let outcome = closed::close(directive, rule, status, site);
        closed::record_all(directive, &outcome, report);
        if !is_prefix {
            undecided(directive, OF_QUERY, report);
        }
    }
}

/// Converts a statement without a condition.
fn statement(directive: &ParsedDirective, text: &str, report: &mut Report) {
    match text {
        "return (hash)" | "return(hash)" => {
            report.not_needed(directive.id, "Galley looks into its cache");
        }
        "unset req.http.proxy" => {
            report.not_needed(directive.id, "Galley forwards no `Proxy` field");
        }
        _ => computes(directive, report),
    }
}

/// What a statement returns for some requests, apart from purges and refusals: later statements are not about these requests.
pub(super) fn returns(directive: &ParsedDirective) -> Vec<String> {
    let is_refusal = directive.name() == "if" && refusal(directive.inner()).is_some();
    if is_refusal || text_of(directive).contains(" == PURGE") {
        return Vec::new();
    }
    let text = directive.words.concat();
    let is_answer = text.starts_with("return(synth");
    let own = (text.starts_with("return") && !is_answer).then_some(text);
    let own = own.into_iter();
    own.chain(directive.inner().iter().flat_map(returns))
        .collect()
}

/// Whether statements before this one return for requests that it is about, and do something else with them.
pub(super) fn is_after(directive: &ParsedDirective, before: &[String]) -> bool {
    let own = returns(directive);
    let is_refusal = refusal(directive.inner()).is_some();
    directive.name() == "if"
        && before
            .iter()
            .any(|one| is_refusal || !own.is_empty() && !own.contains(one))
}

const OF_QUERY: &str = "closed for paths that match; Varnish also compares the query, which no rule of Galley does: close such addresses in PHP";

const DENIES: &str =
    "it refuses requests: close the paths with `allow` or `deny` in a rule, or set `admin_allow`";
