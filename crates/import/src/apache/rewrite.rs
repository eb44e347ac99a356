//! `RewriteCond` and `RewriteRule`: WordPress's own block, redirects to TLS and to one host, redirects and refusals by path.

use super::context::{HostContext, RewriteCondition};
use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section, Value};
use crate::known;
use crate::ledger::StatementId;
use crate::tree::ParsedDirective;

pub(super) fn condition(directive: &ParsedDirective, context: &mut HostContext<'_>) {
    let variable = directive
        .argument(0)
        .trim_start_matches("%{")
        .trim_end_matches('}');
    context.conditions.push(RewriteCondition {
        id: directive.id,
        variable: variable.to_ascii_uppercase(),
    });
}

/// Converts a rule with the conditions before it.
pub(super) fn rule(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    context: &mut HostContext<'_>,
) {
    let conditions = std::mem::take(&mut context.conditions);
    let (pattern, target) = (directive.argument(0), directive.argument(1));
    let flags = directive
        .argument(2)
        .trim_matches(['[', ']'])
        .to_ascii_lowercase();
    let has = |flag: &str| {
        flags
            .split(',')
            .any(|one| one.trim() == flag || one.trim().starts_with(&format!("{flag}=")))
    };
    let tests = |name: &str| conditions.iter().any(|one| one.variable.contains(name));
    let all = |fate: &mut dyn FnMut(StatementId)| {
        conditions
            .iter()
            .map(|one| one.id)
            .chain([directive.id])
            .for_each(fate);
    };
    let redirects = has("r") || target.contains("://");
    if target.contains("index.php")
        || (target == "-" && !has("f") && !has("g"))
        || flags.contains("e=http_authorization")
    {
        let why = "Galley sends a file that exists, forwards everything else to index.php, and passes Authorization on";
        all(&mut |id| context.ledger.not_needed(id, why));
        return;
    }
    let is_whole = [
        "^", "^(.*)$", "(.*)", "^(.*)", ".*", "^/?(.*)", "^/?(.*)$", "^/(.*)$",
    ]
    .contains(&pattern);
    if redirects
        && is_whole
        && (tests("HTTPS") || tests("SERVER_PORT") || tests("X-FORWARDED-PROTO"))
    {
        site.section
            .set("https_redirect", Value::Flag(true), Some(&directive.origin));
        all(&mut |id| context.ledger.carried(id, "https_redirect"));
        return;
    }
    if redirects && is_whole && tests("HTTP_HOST") {
        let option = canonical_host(directive, site);
        all(&mut |id| match option {
            Some(option) => context.ledger.carried(id, option),
            None => context.ledger.not_carried(id, "set `canonical_host`"),
        });
        return;
    }
    if redirects && is_whole && conditions.is_empty() && target.contains("://") {
        context.redirects_all = Some(target.to_owned());
        all(&mut |id| {
            context
                .ledger
                .carried(id, "https_redirect or canonical_host");
        });
        return;
    }
    let by_path = conditions
        .iter()
        .all(|one| matches!(one.variable.as_str(), "REQUEST_FILENAME" | "REQUEST_URI"));
    let own = path_rule(directive, &flags, redirects, has("f") || has("g"));
    match own {
        Some(rule) if by_path => {
            site.add_rule(rule);
            all(&mut |id| context.ledger.carried(id, "a rule"));
        }
        _ => {
            let remedy =
                "write a rule with `path` or `pattern`; Galley rewrites no paths for itself";
            all(&mut |id| context.ledger.not_carried(id, remedy));
        }
    }
}

/// A redirect to the host of its target, or to the site's first without `www.`. `None`: there is none.
fn canonical_host(directive: &ParsedDirective, site: &mut ImportedSite) -> Option<&'static str> {
    let without_www = |host: &&String| !host.starts_with("www.") && *host != "*";
    let host = host_of(directive.argument(1))
        .or_else(|| site.hosts().iter().find(without_www).cloned())?;
    let value = Value::Text(host.clone());
    site.section
        .set("canonical_host", value, Some(&directive.origin));
    site.section.add("hosts", [host], None);
    Some("canonical_host")
}

/// A redirect or refusal of paths. `None`: it is neither, or its pattern is none of Galley's.
fn path_rule(
    directive: &ParsedDirective,
    flags: &str,
    redirects: bool,
    refuses: bool,
) -> Option<RuleDraft> {
    let origin = Some(&directive.origin);
    // In a `.htaccess` paths have no slash at the beginning.
    let text = match directive.argument(0).strip_prefix('^') {
        Some(rest) if !rest.starts_with('/') => format!("^/{rest}"),
        _ => directive.argument(0).to_owned(),
    };
    let ignores_case = flags
        .split(',')
        .any(|flag| matches!(flag.trim(), "nc" | "nocase"));
    let mut section = Section::default();
    section.set(
        "pattern",
        Value::Text(known::pattern(&text, ignores_case)?),
        origin,
    );
    if refuses {
        section.add("deny", ["0.0.0.0/0".to_owned(), "::/0".to_owned()], origin);
    } else if redirects && !directive.argument(1).contains("%{") {
        let target = directive.argument(1);
        let is_relative = !target.starts_with('/') && !target.contains("://");
        let target = if is_relative {
            format!("/{target}")
        } else {
            target.to_owned()
        };
        section.set(
            "redirect",
            Value::Text(target.trim_end_matches('?').to_owned()),
            origin,
        );
        if !flags.contains("r=301") && !flags.contains("r=permanent") {
            section.set("redirect_status", Value::Verbatim("302".to_owned()), origin);
        }
    } else {
        return None;
    }
    Some(RuleDraft {
        section,
        priority: RulePriority::Pattern,
        length: 0,
    })
}

fn host_of(target: &str) -> Option<String> {
    let rest = target.split_once("://")?.1;
    let host = rest.split(['/', '%', '$']).next()?;
    (!host.is_empty()).then(|| host.to_owned())
}
