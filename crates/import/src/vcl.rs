//! Varnish: converts the default backend of a VCL file and those of paths, the networks that may purge, cookies that bypass the cache, and
//! refusals.
//!
//! VCL is a program. Everything else in it is reported as not carried, in the order of the file: a list to go through.

use std::path::Path;

use crate::closed;
use crate::directive::Directive;
use crate::draft::{Draft, ImportedSite, RulePriority};
use crate::known;
use crate::names::VARNISH;
use crate::report::Report;
use crate::requests::flat;
use crate::source::Source;
use crate::tree::{self, Grammar};
use crate::vcl_parts::{backend, compared, condition_of, refusal, returns, text_of};
use crate::vcl_routes;

/// Converts a VCL file to one site for every host.
pub(crate) fn convert(source: &dyn Source, main: &Path, report: &mut Report) -> Draft {
    let statements = tree::read(source, main, Grammar::Vcl, report);
    let mut site = ImportedSite::default();
    site.section.add("hosts", ["*".to_owned()], None);
    let mut backends = statements.iter().filter(|one| one.name() == "backend");
    // Varnish uses the backend of this name, otherwise the first one.
    let default = backends.clone().find(|one| one.argument(0) == "default");
    let default = default.or_else(|| backends.next());
    let routes = vcl_routes::routes(&statements);
    let is_routed = |one: &Directive| routes.iter().any(|route| route.is_of(one));
    // Varnish joins subroutines of one name.
    let (mut before, mut changed) = (Vec::new(), Vec::new());
    for one in &statements {
        match one.name() {
            "vcl" | "import" => one.entry.not_needed("Galley needs no program"),
            "backend" if default.is_some_and(|other| other.origin == one.origin) => {
                backend(one, &mut site.section);
            }
            "backend" if is_routed(one) => {}
            "backend" => one.not_carried("write a rule with `upstream` for its paths"),
            "sub" if one.argument(0) == "vcl_recv" => {
                one.entry
                    .not_needed("the statements are converted one by one");
                for inner in one.inner() {
                    if !is_routed(inner) {
                        receive(inner, &statements, &mut site);
                    }
                    if is_after(inner, &before) {
                        inner.not_carried(AFTER_RETURN);
                    }
                    let words = text_of(inner).to_ascii_lowercase();
                    if inner.name() == "if" && changed.iter().any(|name| words.contains(name)) {
                        after_change(inner);
                    }
                    changed.extend(changes(inner));
                    before.extend(returns(inner));
                }
            }
            "acl" => {}
            _ => computes(one),
        }
    }
    for route in &routes {
        route.convert(&mut site);
    }
    for list in statements
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

/// Converts a statement of `vcl_recv`. `all`: the statements of the file.
fn receive(one: &Directive, all: &[Directive], site: &mut ImportedSite) {
    let text = text_of(one);
    let returns = match one.inner() {
        [one] => one.words.concat(),
        _ => String::new(),
    };
    let is_passed = returns == "return(pass)";
    let condition = condition_of(one);
    let condition = condition.as_str();
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
    closed::set_status(&mut rule.section, status, one);
    site.add_rule(rule);
    list.carried("a rule with allow");
    one.record(&closed::with_status(status, "a rule with allow", true));
    Some(())
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

/// Whether statements before this one return for requests that it is about, and do something else with them.
fn is_after(one: &Directive, before: &[String]) -> bool {
    let actions = returns(one);
    let is_refusal = refusal(one.inner()).is_some();
    let differs = |other: &String| is_refusal || !actions.is_empty() && !actions.contains(other);
    one.name() == "if" && before.iter().any(differs)
}

/// What a statement of `vcl_recv` changes, so that later conditions are not about what visitors send.
fn changes(one: &Directive) -> Vec<String> {
    let sets = |one: &&Directive| {
        let sorts = one.words.concat() == "setreq.url=std.querysort(req.url)";
        matches!(one.name(), "set" | "unset" | "remove") && !sorts
    };
    let statements = flat([one]).into_iter().filter(sets);
    statements
        .map(|one| one.argument(0).to_ascii_lowercase())
        .collect()
}

/// Reports a condition on something that a statement before it has changed.
fn after_change(one: &Directive) {
    if refusal(one.inner()).is_some() {
        one.undecided(CHANGED);
    } else {
        one.not_carried(CHANGED);
    }
}

const CHANGED: &str =
    "a statement before it changes what it compares: write rules for what visitors send";

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
