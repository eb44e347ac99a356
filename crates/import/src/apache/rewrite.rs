//! What `RewriteCond` and `RewriteRule` do with a request.

use super::rewrite_flags::RewriteFlags;
use crate::directive::Directive;
use crate::evidence::SampleRequest;
use crate::expectation::Answer;
use crate::known::Patterns;

/// A `RewriteRule`, and the `RewriteCond`s before it.
pub(super) struct RewriteStep<'d> {
    pub conditions: Vec<&'d Directive>,
    pub rule: &'d Directive,
}

/// The rules of a block, and whether they are on.
pub(super) fn steps<'d>(block: &[&'d Directive]) -> (Vec<RewriteStep<'d>>, bool) {
    let (mut steps, mut conditions, mut is_on) = (Vec::new(), Vec::new(), false);
    for one in block {
        match one.name() {
            "rewriteengine" => is_on = one.argument(0).eq_ignore_ascii_case("on"),
            "rewritecond" => conditions.push(*one),
            "rewriterule" => steps.push(RewriteStep {
                conditions: std::mem::take(&mut conditions),
                rule: one,
            }),
            _ => {}
        }
    }
    (steps, is_on)
}

/// The result depends on something that the import does not know.
pub(super) struct Unknown;

/// Whether a block turns its rules on or off.
pub(super) fn has_engine(block: &[&Directive]) -> bool {
    block.iter().any(|one| one.name() == "rewriteengine")
}

/// Whether relative targets are below another folder than the root.
pub(super) fn has_base(block: &[&Directive]) -> bool {
    let is_base = |one: &&Directive| one.name() == "rewritebase" && one.argument(0) != "/";
    block.iter().any(is_base)
}

/// Where rules are: in a host, or in a folder, whose paths have no leading slash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RewritePlace {
    Host,
    Folder,
}

/// The result of rules.
pub(super) enum RewriteResult<'d> {
    Nothing,
    Answered(Answer, Vec<&'d Directive>),
    /// The request is one for `/index.php`.
    Front,
    Unknown,
}

/// A request to which rules are applied.
#[derive(Clone, Copy)]
pub(super) struct RewriteRequest<'r> {
    pub sample: &'r SampleRequest<'r>,
    pub place: RewritePlace,
    pub patterns: &'r Patterns,
}

/// What the rules of a block do with a `GET` without cookies and other optional fields.
pub(super) fn evaluate<'d>(
    block: &[&'d Directive],
    request: &RewriteRequest<'_>,
) -> RewriteResult<'d> {
    let RewriteRequest { sample, place, .. } = *request;
    let (steps, is_on) = steps(block);
    if !is_on || steps.is_empty() {
        return RewriteResult::Nothing;
    }
    if has_base(block) {
        return RewriteResult::Unknown;
    }
    for step in steps {
        let flags = RewriteFlags::of(step.rule);
        let groups = match matched(&step, &flags, request) {
            Ok(Some(groups)) => groups,
            Ok(None) => continue,
            // As if it did not apply: the report says that it is not carried, and the other directives are compared.
            Err(Unknown) if step.rule.entry.is_lost() => continue,
            Err(Unknown) => return RewriteResult::Unknown,
        };
        let by = || step.conditions.iter().copied().chain([step.rule]).collect();
        let target = step.rule.argument(1);
        if flags.skips() {
            return RewriteResult::Unknown;
        }
        if flags.refuses() {
            return RewriteResult::Answered(Answer::Closed, by());
        }
        if target == "-" {
            if flags.ends() {
                return RewriteResult::Nothing;
            }
            continue;
        }
        let status = flags.redirect().or(target.contains("://").then_some("302"));
        let Some(status) = status else {
            let is_front = matches!(target, "/index.php" | "index.php") && flags.only_end();
            return if is_front && (target.starts_with('/') || place == RewritePlace::Folder) {
                RewriteResult::Front
            } else {
                RewriteResult::Unknown
            };
        };
        let location = location(target, &groups, &flags, sample, place);
        return match (location, status.parse()) {
            (Some(location), Ok(status)) if flags.are_known() => {
                RewriteResult::Answered(Answer::Redirected(status, location), by())
            }
            _ => RewriteResult::Unknown,
        };
    }
    RewriteResult::Nothing
}

/// The groups of a rule that applies.
fn matched(
    step: &RewriteStep<'_>,
    flags: &RewriteFlags,
    request: &RewriteRequest<'_>,
) -> Result<Option<Vec<String>>, Unknown> {
    let RewriteRequest {
        sample,
        place,
        patterns,
    } = *request;
    let path = match place {
        RewritePlace::Host => sample.path(),
        RewritePlace::Folder => sample.path().trim_start_matches('/'),
    };
    let pattern = step.rule.argument(0);
    let (pattern, is_negated) = match pattern.strip_prefix('!') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let ignores_case = flags.has("nc") || flags.has("nocase");
    let regex = patterns.of(pattern, ignores_case);
    let holds = conditions(&step.conditions, sample, patterns);
    if holds == Some(false) {
        return Ok(None);
    }
    let regex = regex.ok_or(Unknown)?;
    let captures = regex.captures(path);
    if captures.is_some() == is_negated {
        return Ok(None);
    }
    holds.ok_or(Unknown)?;
    let groups = captures.map_or_else(Vec::new, |captures| {
        let groups = captures
            .iter()
            .map(|one| one.map_or("", |one| one.as_str()));
        groups.map(str::to_owned).collect()
    });
    Ok(Some(groups))
}

/// Whether all conditions hold; those with `OR` are alternatives with the next one.
fn conditions(all: &[&Directive], sample: &SampleRequest<'_>, patterns: &Patterns) -> Option<bool> {
    let mut result = Some(true);
    let mut any: Option<bool> = Some(false);
    for one in all {
        any = match (any, condition(one, sample, patterns)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        };
        let flags = one.argument(2).to_ascii_lowercase();
        let mut flags = flags.trim_matches(['[', ']']).split(',').map(str::trim);
        if flags.any(|flag| matches!(flag, "or" | "ornext")) {
            continue;
        }
        match any {
            Some(false) => return Some(false),
            None => result = None,
            Some(true) => {}
        }
        any = Some(false);
    }
    result
}

fn condition(one: &Directive, sample: &SampleRequest<'_>, patterns: &Patterns) -> Option<bool> {
    let (test, pattern) = (one.argument(0), one.argument(1));
    if let Some(kind) = pattern.trim_start_matches('!').strip_prefix('-') {
        if test != "%{REQUEST_FILENAME}" {
            return None;
        }
        let is_folder = sample.path().ends_with('/');
        let is_there = match kind {
            "f" => !is_folder && !sample.is_missing,
            "d" => is_folder && !sample.is_missing,
            "l" => false,
            _ => return None,
        };
        return Some(is_there != pattern.starts_with('!'));
    }
    let value = expanded(test, &[], sample)?;
    let ignores_case = one.argument(2).to_ascii_lowercase().contains("nc");
    let (pattern, is_negated) = match pattern.strip_prefix('!') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let is_equal = match pattern.strip_prefix('=') {
        Some(text) if ignores_case => text.eq_ignore_ascii_case(&value),
        Some(text) => text == value,
        None if pattern.starts_with(['<', '>']) => return None,
        None => patterns.of(pattern, ignores_case)?.is_match(&value),
    };
    Some(is_equal != is_negated)
}

/// A text with the values of its groups and variables. `None`: one is unknown.
pub(super) fn expanded(
    text: &str,
    groups: &[String],
    sample: &SampleRequest<'_>,
) -> Option<String> {
    let mut whole = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['$', '%', '\\']) {
        let (before, after) = rest.split_at(at);
        whole.push_str(before);
        let sign = after.chars().next()?;
        let after = after.get(1..)?;
        if sign == '%' {
            let (name, after) = after.strip_prefix('{')?.split_once('}')?;
            whole.push_str(&variable(name, sample)?);
            rest = after;
        } else if sign == '$' {
            let digit = after.chars().next()?.to_digit(10)? as usize;
            whole.push_str(groups.get(digit).map_or("", String::as_str));
            rest = after.get(1..)?;
        } else {
            return None;
        }
    }
    Some(whole + rest)
}

fn variable(name: &str, sample: &SampleRequest<'_>) -> Option<String> {
    let name = name.to_ascii_uppercase();
    let by_scheme =
        |tls: &'static str, plain: &'static str| if sample.is_tls { tls } else { plain };
    let value = match name.as_str() {
        "HTTPS" => by_scheme("on", "off"),
        "REQUEST_SCHEME" => by_scheme("https", "http"),
        "SERVER_PORT" => by_scheme("443", "80"),
        "HTTP_HOST" | "SERVER_NAME" => sample.host,
        "REQUEST_URI" => sample.path(),
        "QUERY_STRING" => sample.query(),
        "REQUEST_METHOD" => "GET",
        "REMOTE_ADDR" => return Some(sample.client.to_string()),
        "THE_REQUEST" => return Some(format!("GET {} HTTP/1.1", sample.target)),
        name if name.starts_with("HTTP_") || name.starts_with("HTTP:") => "",
        _ => return None,
    };
    Some(value.to_owned())
}

/// The value of `Location` of a redirect.
fn location(
    target: &str,
    groups: &[String],
    flags: &RewriteFlags,
    sample: &SampleRequest<'_>,
    place: RewritePlace,
) -> Option<String> {
    let mut target = expanded(target, groups, sample)?;
    if !target.starts_with('/') && !target.contains("://") {
        if place == RewritePlace::Host {
            return None;
        }
        target.insert(0, '/');
    }
    let query = sample.query();
    let keeps = !query.is_empty() && !flags.has("qsd");
    match target.split_once('?') {
        Some((bare, "")) => Some(bare.to_owned()),
        Some(_) if keeps && flags.has("qsa") => Some(format!("{target}&{query}")),
        None if keeps => Some(format!("{target}?{query}")),
        Some(_) | None => Some(target),
    }
}
