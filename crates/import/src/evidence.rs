//! Evaluates a draft with the code that decides about requests in the server: which rule applies, whether it denies, where it redirects.
//!
//! An import states what the other server answers to sample requests ([`crate::expectation::Expectation`]). [`check`] evaluates the draft for them, and
//! reports a statement as not carried if an answer differs. Nothing is started, and no request is sent.

use crate::words::WordList;
use std::net::{IpAddr, Ipv4Addr};

use galley_policy::access::{
    self, AccessClient, AccessRules, AccessSetting, Bucket, By, DenialReason, RateLimit, XmlRpc,
};
use galley_policy::pattern::PathPattern;
use galley_policy::redirect::{self, Redirect, RedirectTarget};
use galley_policy::request_info::{RequestInfo, RequestLineInfo, Scheme};
use galley_policy::site::{Policy, Rule};

use crate::draft::{Draft, ImportedSite, RuleDraft, Section, Value};
use crate::expectation::Answer;
use crate::served::StatementPaths;
use crate::source::StatementOrigin;

/// A request for which the answers of both servers are compared, without optional fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleRequest<'r> {
    /// Path and query, as a client sends them.
    pub target: &'r str,
    pub host: &'r str,
    pub method: &'r str,
    pub is_tls: bool,
    pub client: IpAddr,
    /// The path that the other server replaces that of the request by.
    pub inner: Option<&'r str>,
    /// Whether no file has this path.
    pub is_missing: bool,
}

impl<'r> SampleRequest<'r> {
    /// A request of a client that no list names.
    pub fn of_stranger(target: &'r str) -> Self {
        Self {
            target,
            host: HOST,
            method: "GET",
            is_tls: true,
            client: IpAddr::V4(STRANGER),
            inner: None,
            is_missing: false,
        }
    }

    /// The request for the front controller that follows from this one.
    pub fn front(&self) -> Self {
        Self {
            inner: Some("/index.php"),
            is_missing: false,
            ..*self
        }
    }

    pub fn path(&self) -> &'r str {
        let target_path = || self.target.split('?').next().unwrap_or_default();
        self.inner.unwrap_or_else(target_path)
    }

    pub fn query(&self) -> &'r str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }
}

/// What the draft does with a request.
pub(crate) struct DraftDecision<'d> {
    pub answer: Answer,
    /// The rule that applies.
    pub rule: Option<&'d Section>,
    /// The positions of the statements from which the answer follows.
    pub origins: Vec<&'d StatementOrigin>,
    /// The positions of the statements of limits that apply.
    pub limits: Vec<&'d StatementOrigin>,
}

/// The rules of a site in the form in which the server compares them with requests.
pub(crate) struct DecidingRules<'d> {
    policy: Policy,
    site: &'d Section,
    rules: Vec<&'d Section>,
}

impl<'d> DecidingRules<'d> {
    /// `rules`: in the order of the file. Rules that the server would reject never apply.
    pub fn of(site: &'d Section, rules: impl Iterator<Item = &'d RuleDraft>) -> Self {
        let mut policy = Policy::wordpress();
        policy.access.common = access_rules(site);
        policy.access.xmlrpc = match site.text("xmlrpc") {
            Some("off") => XmlRpc::Off,
            _ => policy.access.xmlrpc,
        };
        policy.home.host = site.text("canonical_host").map(str::to_owned);
        policy.home.https = site.has("https_redirect").then_some(443);
        let pairs = rules.filter_map(|rule| Some((compiled(&rule.section)?, &rule.section)));
        let (compiled, rules) = pairs.unzip();
        policy.rules = compiled;
        Self {
            policy: policy.guarded(),
            site,
            rules,
        }
    }

    pub fn site(&self) -> &'d Section {
        self.site
    }

    /// `None`: the server would refuse it.
    fn parsed(&self, sample: &SampleRequest<'_>) -> Option<RequestInfo> {
        let mut info = RequestInfo::default();
        let line = RequestLineInfo {
            method: sample.method,
            target: sample.target.as_bytes(),
            scheme: if sample.is_tls {
                Scheme::Https
            } else {
                Scheme::Http
            },
            host: sample.host,
            has_body: false,
            upgrade: false,
            country: None,
        };
        let no_fields = std::iter::empty::<(&str, &[u8])>();
        info.parse(&line, no_fields, &self.policy).ok()?;
        Some(info)
    }

    pub fn decide(&self, sample: &SampleRequest<'_>) -> DraftDecision<'d> {
        let mut decision = DraftDecision {
            answer: Answer::Closed,
            rule: None,
            origins: Vec::new(),
            limits: Vec::new(),
        };
        let Some(info) = self.parsed(sample) else {
            return decision;
        };
        decision.rule = info.rule().and_then(|index| self.rules.get(index)).copied();
        let internal = self.site.list("internal").iter();
        let mut folders = internal.map(|item| item.split('"').nth(1).unwrap_or(item));
        if folders.any(|folder| sample.path().starts_with(folder)) {
            decision.origins = self.site.origins("internal").iter().collect();
            return decision;
        }
        let client = AccessClient::from(sample.client);
        let conditions = match access::judge(&self.policy, &info, client) {
            Ok(conditions) => conditions,
            Err(reason) => {
                decision.origins = self.denial(reason);
                return decision;
            }
        };
        for (bucket, _) in &conditions.limits {
            if let Bucket::Of(by) = bucket {
                decision.limits.extend(self.origins(*by, "limit"));
            }
        }
        if !conditions.passwords.is_empty() {
            let by = conditions.passwords.iter();
            decision.origins = by.flat_map(|by| self.origins(*by, "basic_auth")).collect();
            return decision;
        }
        let Some(found) = redirect::of(&info, &self.policy, true) else {
            decision.answer = Answer::Open;
            return decision;
        };
        let of_rule = decision.rule.map(|rule| rule.origins("redirect"));
        let of_site = ["https_redirect", "canonical_host"];
        decision.origins = of_rule.filter(|all| !all.is_empty()).map_or_else(
            || {
                of_site
                    .iter()
                    .flat_map(|name| self.site.origins(name))
                    .collect()
            },
            |all| all.iter().collect(),
        );
        let location = String::from_utf8_lossy(&found.location).into_owned();
        decision.answer = Answer::Redirected(found.status, location);
        decision
    }

    /// The positions of the statements because of which a request is denied.
    fn denial(&self, reason: DenialReason) -> Vec<&'d StatementOrigin> {
        match reason {
            DenialReason::Denied(by) => self.origins(by, "deny"),
            DenialReason::NotAllowed(by) => self.origins(by, "allow"),
            DenialReason::XmlRpc => self.site.origins("xmlrpc").iter().collect(),
            DenialReason::NotAdmin => self.site.origins("admin_allow").iter().collect(),
            DenialReason::Authors
            | DenialReason::Crawler
            | DenialReason::CountryDenied(_)
            | DenialReason::CountryNotAllowed(_) => Vec::new(),
        }
    }

    fn origins(&self, by: By, option: &str) -> Vec<&'d StatementOrigin> {
        let section = match by {
            By::Site => Some(&self.site),
            By::Rule(index) => self.rules.get(index),
        };
        section.map_or_else(Vec::new, |section| section.origins(option).iter().collect())
    }
}

/// Whether a network in the words of other servers contains a client.
pub(crate) fn is_in_network(network: &str, client: IpAddr) -> bool {
    let mut section = Section::default();
    section.add("deny", [network.to_owned()], None);
    let AccessSetting::Is(networks) = access_rules(&section).deny else {
        return false;
    };
    network == "all" || networks.iter().any(|one| one.contains(&client))
}

/// A rule in the form of the server. `None` if its pattern is invalid.
pub(crate) fn compiled(section: &Section) -> Option<Rule> {
    let pattern = section
        .text("pattern")
        .map(PathPattern::compile)
        .transpose()
        .ok()?;
    let path = section.text("path").unwrap_or_default().to_owned();
    let groups = groups(&path, pattern.as_ref());
    Some(Rule {
        path,
        pattern,
        methods: section.list("methods").to_vec(),
        redirect: redirect_of(section, groups),
        access: access_rules(section),
        exact_access: section.get("spellings") == Some(&Value::Flag(false)),
        ..Rule::default()
    })
}

fn groups(path: &str, pattern: Option<&PathPattern>) -> usize {
    pattern.map_or_else(|| usize::from(path.ends_with('*')), PathPattern::groups)
}

/// Whether a rule may redirect to a target, whose groups it must have.
pub(crate) fn takes_target(section: &Section, target: &str) -> bool {
    let rule = compiled(section);
    rule.is_some_and(|rule| {
        RedirectTarget::parse(target, groups(&rule.path, rule.pattern.as_ref())).is_ok()
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
    let password = match section.text("basic_auth") {
        None => AccessSetting::Nothing,
        Some("off") => AccessSetting::Off,
        Some(file) => AccessSetting::Is(file.into()),
    };
    // Only whether there is a limit matters here.
    let limit = RateLimit::new(1, 1, 1).filter(|_| section.has("limit"));
    AccessRules {
        allow: networks(section, "allow"),
        deny: networks(section, "deny"),
        limit: limit.map_or(AccessSetting::Nothing, AccessSetting::Is),
        password,
        ..AccessRules::default()
    }
}

fn networks<N: std::str::FromStr>(section: &Section, option: &str) -> AccessSetting<Vec<N>> {
    let whole = |text: &String| match (text.contains('/'), text.contains(':')) {
        (true, _) => text.clone(),
        (false, true) => format!("{text}/128"),
        (false, false) => format!("{text}/32"),
    };
    let texts = section.list(option).iter();
    let values: Vec<N> = texts.filter_map(|text| whole(text).parse().ok()).collect();
    if section.has(option) {
        AccessSetting::Is(values)
    } else {
        AccessSetting::Nothing
    }
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
    let earlier = compiled(&rule.section);
    let (Some(earlier), Some(other)) = (earlier, compiled(&later.section)) else {
        return false;
    };
    let (first, second) = (samples(&rule.section), samples(&later.section));
    let below = |folder: &String, path: &String| format!("{}{path}", folder.trim_end_matches('/'));
    let mixed = first.iter().flat_map(|one| {
        second
            .iter()
            .flat_map(move |two| [below(one, two), below(two, one)])
    });
    let mut paths = mixed
        .chain(first.iter().cloned())
        .chain(second.iter().cloned());
    paths.any(|path| {
        earlier.matches("GET", path.as_bytes()) && other.matches("GET", path.as_bytes())
    })
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
pub(crate) fn check(draft: &Draft) {
    for site in &draft.sites {
        check_site(site);
    }
}

fn check_site(site: &ImportedSite) {
    let rules = DecidingRules::of(&site.section, site.rules.iter());
    let plain = site.hosts().iter().find(|host| !host.contains('*'));
    let host = site
        .section
        .text("canonical_host")
        .or(plain.map(String::as_str));
    for one in &site.expected {
        let sample = SampleRequest {
            host: host.unwrap_or(HOST),
            ..SampleRequest::of_stranger(&one.target)
        };
        let answer = rules.decide(&sample).answer;
        if answer == one.answer {
            continue;
        }
        let remedy = difference(&one.target, &one.answer, &answer);
        one.entry.differs(&remedy, one.answer == Answer::Closed);
    }
}

/// The remedy for statements because of which both servers answer differently.
pub(crate) fn difference(target: &str, theirs: &Answer, ours: &Answer) -> String {
    let words = |answer: &Answer| match answer {
        Answer::Closed => "is refused".to_owned(),
        Answer::Redirected(status, location) => format!("is a {status} to `{location}`"),
        Answer::Open => "is served".to_owned(),
    };
    format!(
        "`{target}` {} by the other server, and {} with this draft: change its rules, or their order",
        words(theirs),
        words(ours)
    )
}

const HOST: &str = "example.com";

/// An address of documentation (RFC 5737), which no access list names on purpose.
const STRANGER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 77);

/// Requests of every WordPress: previews and short links, searches, archives, the REST API.
pub(crate) const OTHER_TARGETS: WordList = WordList(
    "/ /?p=12 /?page_id=12&preview=true /?s=word /?m=2030 /?cat=1 /?author=1 /?feed=rss2 /?rest_route=/wp/v2/posts
    /wp-json/wp/v2/posts /hello-world/ /feed/ /author/somebody/ /category/a/ /page/2/ /2030/01/",
);
