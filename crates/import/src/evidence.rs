//! Evaluates a draft with the code that decides about requests in the server: which rule applies, whether it denies, where it redirects.
//!
//! An import states what the other server answers to sample requests ([`crate::expectation::Expectation`]). [`check`] evaluates the draft for them, and
//! reports a statement as not carried if an answer differs. Nothing is started, and no request is sent.

use std::net::{IpAddr, Ipv4Addr};

use galley_policy::access::{self, AccessClient, AccessRules, AccessSetting};
use galley_policy::pattern::PathPattern;
use galley_policy::redirect::{self, Redirect, RedirectTarget};
use galley_policy::request_info::{RequestInfo, RequestLineInfo, Scheme};
use galley_policy::site::{Policy, Rule};

use crate::draft::{Draft, ImportedSite, RuleDraft, Section, Value};
use crate::expectation::Answer;
use crate::report::Report;
use crate::served::StatementPaths;

/// The rules of a site in the form in which the server compares them with requests.
pub(crate) struct DecidingRules(Policy);

impl DecidingRules {
    /// `rules`: in the order of the file. Rules that the server would reject never apply.
    pub fn of<'r>(site: &Section, rules: impl Iterator<Item = &'r RuleDraft>) -> Self {
        let mut policy = Policy::wordpress();
        policy.access.common = access_rules(site);
        policy.rules = rules.filter_map(|rule| compiled(&rule.section)).collect();
        Self(policy.guarded())
    }

    /// A `GET`. `None`: the server would refuse it.
    fn parsed(&self, target: &str) -> Option<RequestInfo> {
        let mut info = RequestInfo::default();
        let line = RequestLineInfo {
            method: "GET",
            target: target.as_bytes(),
            scheme: Scheme::Https,
            host: HOST,
            has_body: false,
            upgrade: false,
            country: None,
        };
        let no_fields = std::iter::empty::<(&str, &[u8])>();
        info.parse(&line, no_fields, &self.0).ok()?;
        Some(info)
    }

    /// The answer to a `GET` of a client that no list names.
    pub fn answer(&self, target: &str) -> Answer {
        let Some(info) = self.parsed(target) else {
            return Answer::Closed;
        };
        let client = AccessClient {
            address: IpAddr::V4(STRANGER),
            country: None,
        };
        if access::judge(&self.0, &info, client).is_err() {
            return Answer::Closed;
        }
        match redirect::of(&info, &self.0, false) {
            Some(found) if found.location == AWAY.as_bytes() => Answer::Closed,
            Some(found) => {
                let location = String::from_utf8_lossy(&found.location).into_owned();
                Answer::Redirected(found.status, location)
            }
            None => Answer::Open,
        }
    }
}

/// A rule in the form of the server. `None` if its pattern is invalid.
pub(crate) fn compiled(section: &Section) -> Option<Rule> {
    let pattern = section
        .text("pattern")
        .map(PathPattern::compile)
        .transpose()
        .ok()?;
    let path = section.text("path").unwrap_or_default().to_owned();
    let groups = pattern
        .as_ref()
        .map_or_else(|| usize::from(path.ends_with('*')), PathPattern::groups);
    Some(Rule {
        path,
        pattern,
        redirect: redirect_of(section, groups),
        access: access_rules(section),
        ..Rule::default()
    })
}

fn redirect_of(section: &Section, groups: usize) -> Option<Redirect> {
    let status = match section.get("redirect_status") {
        Some(Value::Verbatim(status)) => status.parse().ok(),
        _ => None,
    };
    let target = section.text("redirect")?;
    Some(Redirect {
        target: RedirectTarget::parse(target, groups).ok()?,
        status,
        keeps_query: section.get("redirect_query") != Some(&Value::Flag(false)),
    })
}

fn access_rules(section: &Section) -> AccessRules {
    let password = section.text("basic_auth").map(Into::into);
    AccessRules {
        allow: networks(section, "allow"),
        deny: networks(section, "deny"),
        password: password.map_or(AccessSetting::Nothing, AccessSetting::Is),
        ..AccessRules::default()
    }
}

fn networks<N: std::str::FromStr>(section: &Section, option: &str) -> AccessSetting<Vec<N>> {
    let whole = |text: &String| match (text.contains('/'), text.contains(':')) {
        (true, _) => text.clone(),
        (false, true) => format!("{text}/128"),
        (false, false) => format!("{text}/32"),
    };
    let all = section.list(option).iter();
    let all: Vec<N> = all.filter_map(|text| whole(text).parse().ok()).collect();
    if section.has(option) {
        AccessSetting::Is(all)
    } else {
        AccessSetting::Nothing
    }
}

/// Whether a rule that closes paths leaves open what the other server serves by other paths: `deny` of a pattern that may match any
/// page also covers addresses that name the page in the query.
pub(crate) fn is_exact(rule: &RuleDraft) -> bool {
    let rules = DecidingRules::of(&Section::default(), std::iter::once(rule));
    let Some(compiled) = compiled(&rule.section) else {
        return false;
    };
    let mut others = OTHER_TARGETS.iter().filter(|target| {
        let path = target.split('?').next().unwrap_or_default();
        !compiled.matches("GET", path.as_bytes())
    });
    others.all(|target| rules.answer(target) == Answer::Open)
}

/// Removes rules without options, unless a later one would apply in their place.
pub(crate) fn prune(draft: &mut Draft) {
    for site in &mut draft.sites {
        let mut kept: Vec<RuleDraft> = Vec::new();
        for rule in std::mem::take(&mut site.rules).into_iter().rev() {
            let is_empty = rule.section.settings.len() <= 1;
            if !is_empty || kept.iter().any(|later| shadows(&rule, later)) {
                kept.push(rule);
            }
        }
        kept.reverse();
        site.rules = kept;
    }
}

/// Whether a rule applies to requests to which `later` would apply without it.
fn shadows(rule: &RuleDraft, later: &RuleDraft) -> bool {
    let own = compiled(&rule.section);
    let (Some(own), Some(other)) = (own, compiled(&later.section)) else {
        return false;
    };
    let samples = [samples(&rule.section), samples(&later.section)].concat();
    let mut paths = samples.iter().map(std::string::String::as_bytes);
    paths.any(|path| own.matches("GET", path) && other.matches("GET", path))
}

/// Requests for the paths of a rule.
pub(crate) fn targets(section: &Section) -> Vec<String> {
    let Some(rule) = compiled(section) else {
        return Vec::new();
    };
    let mut samples = samples(section);
    samples.retain(|path| rule.matches("GET", path.as_bytes()) && !path.contains(['?', '%', '#']));
    samples
}

/// Paths that match a rule, or nearly match.
pub(crate) fn samples(section: &Section) -> Vec<String> {
    match (section.text("path"), section.text("pattern")) {
        (Some(path), _) => StatementPaths::of_rule_path(path).samples(),
        (None, Some(pattern)) => StatementPaths::of_rule_pattern(pattern).samples(),
        (None, None) => Vec::new(),
    }
}

/// Compares the answers of a draft with those of the other server. A statement with another answer is not carried.
pub(crate) fn check(draft: &Draft, report: &mut Report) {
    for site in &draft.sites {
        check_site(site, report);
    }
}

fn check_site(site: &ImportedSite, report: &mut Report) {
    let rules = DecidingRules::of(&site.section, site.rules.iter());
    for one in &site.expected {
        let answer = rules.answer(&one.target);
        if answer == one.answer {
            continue;
        }
        let is_access = one.answer == Answer::Closed;
        let words = |answer: &Answer| match answer {
            Answer::Closed => "is refused".to_owned(),
            Answer::Redirected(status, location) => format!("is a {status} to `{location}`"),
            Answer::Open => "is served".to_owned(),
        };
        let remedy = format!(
            "`{}` {} by the other server, and {} with this draft: change its rules, or their order",
            one.target,
            words(&one.answer),
            words(&answer)
        );
        report.differs(one.id, remedy, is_access);
    }
}

/// The target of rules that refuse requests by a redirect.
pub(crate) const AWAY: &str = "/";

const HOST: &str = "example.com";

/// An address of documentation (RFC 5737), which no access list names on purpose.
const STRANGER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 77);

/// Requests of every WordPress: previews and short links, searches, archives, the REST API.
const OTHER_TARGETS: &[&str] = &[
    "/",
    "/?p=12",
    "/?page_id=12&preview=true",
    "/?s=word",
    "/?m=2030",
    "/?cat=1",
    "/?author=1",
    "/?feed=rss2",
    "/?rest_route=/wp/v2/posts",
    "/wp-json/wp/v2/posts",
    "/hello-world/",
    "/2030/01/",
];
