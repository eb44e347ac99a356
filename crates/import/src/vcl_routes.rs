//! Backends that `vcl_recv` chooses by the beginning of the path: each becomes a rule with `upstream`. They are carried together or not at
//! all, because any other statement about backends or paths may change what a condition means.

use crate::closed;
use crate::directive::Directive;
use crate::draft::{ImportedSite, RuleDraft, RulePriority};
use crate::requests::flat;
use crate::vcl_parts::{backend, compared, condition_of, returns};

/// `if (req.url ~ "^/api/") { set req.backend_hint = api; }`
pub(crate) struct Route<'d> {
    by: &'d Directive,
    backend: &'d Directive,
    prefixes: Vec<String>,
    is_passed: bool,
}

/// The routes of a file. Empty if other statements take part in the choice of a backend.
pub(crate) fn routes(all: &[Directive]) -> Vec<Route<'_>> {
    let receiving = all.iter().filter(|one| one.argument(0) == "vcl_recv");
    let steps: Vec<&Directive> = receiving.flat_map(Directive::inner).collect();
    let mut routes = Vec::new();
    for (at, one) in steps.iter().enumerate() {
        let is_sole = steps
            .get(at + 1)
            .is_none_or(|next| !next.name().starts_with("els"));
        routes.extend(of(one, all).filter(|_| is_sole));
        // Later statements are not about all requests for their paths.
        let is_route = routes
            .last()
            .is_some_and(|route: &Route<'_>| route.is_of(one));
        if !returns(one).is_empty() && !is_route {
            break;
        }
    }
    let statements = flat(all);
    let sets = |names: &[&str]| {
        let is_meant = |one: &&&Directive| one.name() == "set" && names.contains(&one.argument(0));
        statements.iter().filter(is_meant).count()
    };
    let is_whole = sets(&["req.backend_hint", "req.backend", "bereq.backend"]) == routes.len();
    let is_moved = sets(&["req.url", "bereq.url"]) > 0;
    let prefixes: Vec<&String> = routes.iter().flat_map(|route| &route.prefixes).collect();
    let meets = |at: usize, one: &str| {
        let others = prefixes
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at);
        let mut others = others.map(|(_, other)| other.as_str());
        others.any(|other| other.starts_with(one))
    };
    let is_apart = !prefixes.iter().enumerate().any(|(at, one)| meets(at, one));
    if is_whole && !is_moved && is_apart {
        routes
    } else {
        Vec::new()
    }
}

fn of<'d>(one: &'d Directive, all: &'d [Directive]) -> Option<Route<'d>> {
    let (chooses, is_passed) = match one.inner() {
        [chooses] => (chooses, false),
        [chooses, then] if then.words.concat() == "return(pass)" => (chooses, true),
        _ => return None,
    };
    let [set, _, equals, name] = chooses.words.as_slice() else {
        return None;
    };
    let is_choice = set == "set" && chooses.argument(0) == "req.backend_hint" && equals == "=";
    let mut backends = all.iter().filter(|one| one.name() == "backend");
    let backend = backends.find(|one| one.argument(0) == name)?;
    let condition = condition_of(one);
    let prefix = |one: &str| closed::plain_prefix(compared(one, "req.url")?);
    let prefixes: Option<Vec<String>> = condition.split(" || ").map(prefix).collect();
    (one.name() == "if" && is_choice).then_some(Route {
        by: one,
        backend,
        prefixes: prefixes?,
        is_passed,
    })
}

impl Route<'_> {
    pub fn is_of(&self, one: &Directive) -> bool {
        std::ptr::eq(self.by, one) || std::ptr::eq(self.backend, one)
    }

    /// Adds the rules. Those that restrict clients come first, and must not be for some of the same paths.
    pub fn convert(&self, site: &mut ImportedSite) {
        let allowed: Vec<String> = site
            .rules
            .iter()
            .filter(|rule| rule.section.has("allow"))
            .filter_map(|rule| rule.section.text("path"))
            .map(|path| path.trim_end_matches('*').to_owned())
            .collect();
        for prefix in &self.prefixes {
            let meets = |one: &String| one.starts_with(prefix) || prefix.starts_with(one.as_str());
            if allowed.iter().any(meets) {
                self.by.not_carried(ALLOWED);
                self.backend.not_carried(ALLOWED);
                continue;
            }
            let rule =
                closed::rule_for("path", format!("{prefix}*"), self.by, RulePriority::Prefix);
            let mut rule = RuleDraft {
                length: prefix.len(),
                ..rule
            };
            if self.is_passed {
                rule.section.set("cache", false, &self.by.origin);
            }
            backend(self.backend, &mut rule.section);
            if rule.section.has("upstream") {
                self.by.carried("a rule with upstream");
            } else {
                self.by
                    .not_carried("set `upstream` in a rule for its paths");
            }
            site.add_rule(rule);
        }
    }
}

const ALLOWED: &str = "a rule with `allow` is about some of its paths: write `upstream` into that rule, and a rule for the others";
