//! Varnish: converts the default backend of a VCL file, the networks that may purge, cookies that bypass the cache, and refusals.
//!
//! VCL is a program. Everything else in it is reported as not carried, in the order of the file: a list to go through.

use std::path::Path;

use crate::closed;
use crate::directive::Directive;
use crate::draft::{Draft, ImportedSite, RulePriority};
use crate::known;
use crate::names::VARNISH;
use crate::report::Report;
use crate::source::Source;
use crate::tree::{self, Grammar};
use crate::units;

/// Converts a VCL file to one site for every host.
pub(crate) fn convert(source: &dyn Source, main: &Path, report: &mut Report) -> Draft {
    let all = tree::read(source, main, Grammar::Vcl, report);
    let mut site = ImportedSite::default();
    site.section.add("hosts", ["*".to_owned()], None);
    let mut backends = all.iter().filter(|one| one.name() == "backend");
    // Varnish uses the backend of this name, otherwise the first one.
    let default = backends.clone().find(|one| one.argument(0) == "default");
    let default = default.or_else(|| backends.next());
    for one in &all {
        match one.name() {
            "vcl" | "import" => one.entry.not_needed("Galley needs no program"),
            "backend" if default.is_some_and(|other| other.origin == one.origin) => {
                backend(one, &mut site);
            }
            "backend" => one.not_carried("write a rule with `upstream` for its paths"),
            "sub" if one.argument(0) == "vcl_recv" => {
                one.entry
                    .not_needed("the statements are converted one by one");
                let mut before = Vec::new();
                for inner in one.inner() {
                    receive(inner, &all, &mut site);
                    if is_after(inner, &before) {
                        inner.not_carried(AFTER_RETURN);
                    }
                    before.extend(returns(inner));
                }
            }
            "acl" => {}
            _ => computes(one),
        }
    }
    for list in all
        .iter()
        .filter(|one| one.name() == "acl" && !one.entry.has_outcome())
    {
        list.not_carried("name the networks in `purge_allow`, `allow` or `admin_allow`");
    }
    let sites = vec![site];
    Draft {
        sites,
        ..Draft::default()
    }
}

/// Converts a backend: `.host = "127.0.0.1"; .port = "8080";`
fn backend(one: &Directive, site: &mut ImportedSite) {
    let value = |name: &str| {
        let found = one.inner().iter().find(|inner| inner.name() == name);
        found.map(|inner| inner.argument(1))
    };
    let Some(host) = value(".host").filter(|host| !host.starts_with('/')) else {
        return one.not_carried("set `upstream` to the address of the server");
    };
    let server = format!("http://{host}:{}", value(".port").unwrap_or("80"));
    one.adds("upstream", [server], &mut site.section);
    for inner in one.inner() {
        let option = TIMES.iter().find(|(name, _)| *name == inner.name());
        match (inner.name(), option, units::duration(inner.argument(1))) {
            (".host" | ".port", ..) => inner.entry.carried("upstream"),
            (_, Some((_, option)), Some(time)) => inner.sets(option, time, &mut site.section),
            _ => inner.not_carried("set `health_check` and the other options of the upstream"),
        }
    }
}

const TIMES: &[(&str, &str)] = &[
    (".connect_timeout", "connect_timeout"),
    (".first_byte_timeout", "first_byte_timeout"),
    (".between_bytes_timeout", "read_timeout"),
];

/// Converts a statement of `vcl_recv`. `all`: the statements of the file.
fn receive(one: &Directive, all: &[Directive], site: &mut ImportedSite) {
    let text = text_of(one);
    let returns = match one.inner() {
        [one] => one.words.concat(),
        _ => String::new(),
    };
    let is_passed = returns == "return(pass)";
    let condition = text
        .strip_prefix("if (")
        .and_then(|text| text.strip_suffix(')'));
    let condition = condition.unwrap_or(&text);
    let cookies = compared(condition, "req.http.cookie").filter(|_| is_passed);
    if text == "return(hash)" {
        return one.not_needed("Galley looks into its cache");
    }
    if refusal(std::slice::from_ref(one)).is_some() {
        return one.undecided(DENIES);
    }
    VARNISH.record_as(&format!("{text} {returns}"), one);
    if one.entry.has_outcome() {
        return one.not_needed("it follows from the condition around it");
    }
    if matches!(condition, "req.method == PURGE" | "req.request == PURGE") {
        purge(one, all, site);
    } else if let Some(unknown) = cookies.and_then(known::cookies) {
        if unknown.is_empty() {
            return one.not_needed("the preset knows these cookies");
        }
        site.section.add("bypass_cookies", unknown, &one.origin);
        one.carried("bypass_cookies");
    } else if let Some(status) = refusal(one.inner()) {
        let is_closed = match condition.split_once(" && ") {
            Some((paths, client)) => allow(one, paths, client, &status, all, site),
            None => deny(one, condition, &status, site),
        };
        if is_closed.is_none() {
            one.undecided(DENIES);
        }
    } else {
        computes(one);
    }
}

/// The pattern of a condition that is nothing but `NAME ~ "PATTERN"`.
fn compared<'c>(condition: &'c str, name: &str) -> Option<&'c str> {
    let (left, pattern) = condition.split_once(" ~ ")?;
    let more = [" ~ ", " && ", " || "];
    let is_single = !more.iter().any(|part| pattern.contains(part));
    (left.eq_ignore_ascii_case(name) && is_single).then_some(pattern)
}

/// Closes the paths that a condition compares, one after the other. `None`: it compares something else.
fn deny(one: &Directive, condition: &str, status: &str, site: &mut ImportedSite) -> Option<()> {
    // The URL has the query, which Galley's patterns do not see.
    let pattern = |one: &str| {
        let pattern = compared(one, "req.url").filter(|pattern| !known::is_of_query(pattern))?;
        known::pattern(pattern, false)
    };
    let patterns: Option<Vec<String>> = condition.split(" || ").map(pattern).collect();
    for pattern in patterns? {
        let is_prefix = closed::plain_prefix(&pattern).is_some();
        let rule = closed::rule_for("pattern", pattern, one, RulePriority::Exact);
        one.record(&closed::close(one, rule, status, site));
        if !is_prefix {
            one.undecided(OF_QUERY);
        }
    }
    Some(())
}

/// Converts `req.url ~ "^/office" && client.ip !~ office`. `None`: it compares something else.
fn allow(
    one: &Directive,
    paths: &str,
    client: &str,
    status: &str,
    all: &[Directive],
    site: &mut ImportedSite,
) -> Option<()> {
    let list = list_of(all, client.strip_prefix("client.ip !~ ")?)?;
    let networks: Option<Vec<String>> = list.inner().iter().map(network).collect();
    let prefix = closed::plain_prefix(compared(paths, "req.url")?)?;
    let mut rule = closed::rule_for("path", format!("{prefix}*"), one, RulePriority::Exact);
    rule.section.add("allow", networks?, &one.origin);
    site.add_rule(rule);
    list.carried("a rule with allow");
    one.record(&closed::with_status(status, "a rule with allow", true));
    Some(())
}

/// The words of a statement, in which a quoted one may be before a parenthesis.
fn text_of(one: &Directive) -> String {
    one.words
        .join(" ")
        .replace(" )", ")")
        .replace("return (", "return(")
}

/// Converts `if (req.method == "PURGE") { if (!client.ip ~ purge) { return (synth(405)); } return (purge); }`.
fn purge(one: &Directive, all: &[Directive], site: &mut ImportedSite) {
    let list = purgers(one, all);
    let networks = list.map(|list| list.inner().iter().map(network).collect::<Option<Vec<_>>>());
    let (Some(list), Some(Some(networks))) = (list, networks) else {
        return one.not_carried("name the networks that may purge in `purge_allow`");
    };
    list.carried("purge_allow");
    list.adds("purge_allow", networks, &mut site.section);
    one.not_needed("Galley accepts PURGE and BAN of the addresses in `purge_allow`");
}

/// The access list of a condition for purges.
fn purgers<'a>(one: &Directive, all: &'a [Directive]) -> Option<&'a Directive> {
    let [check, last] = one.inner() else {
        return None;
    };
    if last.words.concat() != "return(purge)" || refusal(check.inner()).is_none() {
        return None;
    }
    let text = text_of(check).replace("client.ip !~", "!client.ip ~");
    let name = text.strip_prefix("if (!client.ip ~ ")?.strip_suffix(')')?;
    list_of(all, name)
}

/// The access list with a name.
fn list_of<'a>(all: &'a [Directive], name: &str) -> Option<&'a Directive> {
    let mut lists = all.iter().filter(|one| one.name() == "acl");
    lists.find(|list| list.argument(0) == name)
}

/// An entry of an access list. `None` for a name or an exclusion.
fn network(entry: &Directive) -> Option<String> {
    let words = entry.words.concat();
    if words == "localhost" {
        return Some("127.0.0.0/8".to_owned());
    }
    let address = words.split('/').next()?;
    address.parse::<std::net::IpAddr>().ok().map(|_| words)
}

/// The status of `return (synth(403, "..."))`, or of `error 403 "..."` in older files, if it refuses a request.
fn refusal(block: &[Directive]) -> Option<String> {
    let status = block.iter().find_map(|one| {
        let words = one.words.concat();
        let old = || words.strip_prefix("error");
        let rest = words.strip_prefix("return(synth(").or_else(old)?;
        rest.get(..3).map(str::to_owned)
    });
    status.filter(|status| known::is_error_status(status))
}

/// What a statement returns for some requests, apart from purges and refusals: later statements are not about these requests.
fn returns(one: &Directive) -> Vec<String> {
    if one.name() == "if" && refusal(one.inner()).is_some() || text_of(one).contains(" == PURGE") {
        return Vec::new();
    }
    let text = one.words.concat();
    let is_meant = text.starts_with("return") && !text.starts_with("return(synth");
    let own = is_meant.then_some(text).into_iter();
    own.chain(one.inner().iter().flat_map(returns)).collect()
}

/// Whether statements before this one return for requests that it is about, and do something else with them.
fn is_after(one: &Directive, before: &[String]) -> bool {
    let own = returns(one);
    let is_refusal = refusal(one.inner()).is_some();
    let differs = |other: &String| is_refusal || !own.is_empty() && !own.contains(other);
    one.name() == "if" && before.iter().any(differs)
}

/// Reports a statement that VCL computes something with, and those in it: what visitors notice, and what to write.
fn computes(one: &Directive) {
    if refusal(std::slice::from_ref(one)).is_some() {
        return one.undecided(DENIES);
    }
    VARNISH.record_as(&text_of(one), one);
    if one.block.is_some() {
        one.entry.not_carried(CONDITION);
    } else if !one.entry.has_outcome() {
        one.entry.not_carried(COMPUTED);
    }
    one.inner().iter().for_each(computes);
}

const AFTER_RETURN: &str =
    "a statement before it returns for some requests: compare which ones get here";

const DENIES: &str =
    "it refuses requests: close the paths with `allow` or `deny` in a rule, or set `admin_allow`";

const OF_QUERY: &str = "closed for paths that match; Varnish also compares the query, which no rule of Galley does: close such addresses in PHP";

const COMPUTED: &str =
    "it has no effect: look for an option in docs/reference/options.md, or decide in PHP";

const CONDITION: &str = "the statements in it have no effect: look at each of them, and write rules for the paths, or decide in PHP";
