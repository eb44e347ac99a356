//! What the comparisons of nginx and of Apache with a draft share: the requests, and the statements that lose their labels because of
//! a difference.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use crate::directive::ParsedDirective;
use crate::draft::Section;
use crate::evidence::{self, DecidingRules, DraftDecision, SampleRequest};
use crate::expectation::Answer;
use crate::report::Report;
use crate::source::StatementOrigin;
use crate::units;

/// A field that the other server adds.
#[derive(Default)]
pub(crate) struct WantedField<'d> {
    /// The whole value. `None`: it depends on the request, or the report says that Galley has one of its own.
    pub value: Option<String>,
    pub by: Vec<&'d ParsedDirective>,
}

/// The fields that statements add, by name in lower case.
pub(crate) type WantedFields<'d> = BTreeMap<String, WantedField<'d>>;

/// A server whose answers are compared with those of the draft.
pub(crate) struct ServerComparison<'c, 'd> {
    /// Every statement of the server, at any depth.
    pub all: Vec<&'d ParsedDirective>,
    /// `None`: the draft has no site for the host.
    pub rules: Option<DecidingRules<'c>>,
    /// Beginnings of the names of statements that decide about access and redirects.
    pub deciding: &'static [&'static str],
    /// The field that a statement is about, in lower case.
    pub field_of: fn(&ParsedDirective) -> Option<String>,
}

/// An answer of the draft, and the positions of the statements from which it follows.
#[derive(Clone, Copy)]
pub(crate) struct DraftAnswer<'a> {
    pub answer: &'a Answer,
    pub origins: &'a [&'a StatementOrigin],
}

/// An answer of the other server, and the statements from which it follows.
#[derive(Clone, Copy)]
pub(crate) struct OtherAnswer<'a, 'd> {
    pub answer: &'a Answer,
    pub by: &'a [&'d ParsedDirective],
}

impl<'d> ServerComparison<'_, 'd> {
    /// Whether the site of the draft has files.
    pub fn has_root(&self) -> bool {
        let rules = self.rules.as_ref();
        rules.is_some_and(|rules| rules.site().has("root"))
    }

    /// Reports the statements of either answer.
    pub fn differ(
        &self,
        sample: &SampleRequest<'_>,
        theirs: OtherAnswer<'_, 'd>,
        ours: DraftAnswer<'_>,
        report: &mut Report,
    ) {
        let DraftAnswer { answer, origins } = ours;
        if *answer == Answer::Closed && is_behind_script(sample) {
            return;
        }
        let remedy = evidence::difference(sample.target, theirs.answer, answer);
        let is_open = *theirs.answer == Answer::Closed;
        let is_all = *theirs.answer != Answer::Open || origins.is_empty();
        let rewrites = |one: &ParsedDirective| matches!(one.name(), "if" | "rewrite");
        for one in theirs.by.iter().filter(|one| is_all || rewrites(one)) {
            let is_section = one.name() == "location" || one.name().starts_with('<');
            report.differs(one.id, &remedy, is_open && !is_section);
        }
        self.at(origins, self.deciding, &remedy, report);
    }

    /// Reports the statements with one of these names at one of these positions.
    pub fn at(
        &self,
        origins: &[&StatementOrigin],
        names: &[&str],
        remedy: &str,
        report: &mut Report,
    ) {
        let begins = |one: &ParsedDirective| names.iter().any(|name| one.name().starts_with(name));
        let all = self.all.iter().filter(|one| begins(one));
        for one in all.filter(|one| origins.contains(&&one.origin)) {
            report.differs(one.id, remedy, false);
        }
    }

    /// Compares the fields of a response. `wanted`: those of each response that the other server may send.
    pub fn fields(
        &self,
        sample: &SampleRequest<'_>,
        wanted: &[WantedFields<'d>],
        ours: &DraftDecision<'_>,
        report: &mut Report,
    ) {
        let Some(site) = self.rules.as_ref().map(DecidingRules::site) else {
            return;
        };
        let rule = ours.rule;
        let of_rule = rule.map_or(&[][..], |rule| rule.origins("set_headers"));
        let ours = added(site, rule, sample.is_tls);
        for (name, field) in wanted.iter().flatten() {
            if field.value.is_none() || field.value.as_ref() == ours.get(name) {
                continue;
            }
            let remedy = format!(
                "`{}` has another `{name}` with this draft: set `set_headers` in a rule for its paths",
                sample.target
            );
            let of_draft = |one: &&&ParsedDirective| {
                of_rule.contains(&one.origin) && (self.field_of)(one).as_ref() == Some(name)
            };
            for one in field.by.iter().chain(self.all.iter().filter(of_draft)) {
                report.differs(one.id, &remedy, false);
            }
        }
        for name in ours.keys() {
            if wanted.iter().all(|wanted| wanted.contains_key(name)) {
                continue;
            }
            let remedy = format!(
                "`{}` has `{name}` with this draft, and not with the other server, where it is added at another level: set it in rules for the other paths",
                sample.target
            );
            let of_name = |one: &&&ParsedDirective| (self.field_of)(one).as_ref() == Some(name);
            for one in self.all.iter().filter(of_name) {
                report.differs(one.id, &remedy, false);
            }
        }
    }
}

/// The fields that the draft adds to the responses of a rule, by name in lower case.
fn added(site: &Section, rule: Option<&Section>, is_tls: bool) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for section in std::iter::once(site).chain(rule) {
        for name in section.list("remove_headers") {
            all.remove(&name.to_ascii_lowercase());
        }
        for line in section.list("set_headers") {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let name = name.trim().to_ascii_lowercase();
            let value = sorted(&name, value.trim());
            all.insert(name, value);
        }
    }
    if let Some(age) = site
        .text("hsts")
        .filter(|_| is_tls)
        .and_then(units::seconds)
    {
        let has = |option, words: &'static str| if site.has(option) { words } else { "" };
        let more = [
            has("hsts_subdomains", "; includeSubDomains"),
            has("hsts_preload", "; preload"),
        ]
        .concat();
        all.insert(
            "strict-transport-security".to_owned(),
            format!("max-age={age}{more}"),
        );
    }
    all
}

/// The directives of `Cache-Control`, in order and each once. Other values are unchanged.
pub(crate) fn sorted(name: &str, value: &str) -> String {
    if name != "cache-control" {
        return value.to_owned();
    }
    let mut parts: Vec<&str> = value.split(',').map(str::trim).collect();
    parts.sort_unstable();
    parts.dedup();
    parts.join(", ")
}

/// Statements and those in their blocks.
pub(crate) fn flat<'d>(
    block: impl IntoIterator<Item = &'d ParsedDirective>,
) -> Vec<&'d ParsedDirective> {
    let mut all = Vec::new();
    for one in block {
        all.push(one);
        all.extend(flat(one.inner()));
    }
    all
}

/// The requests for these paths, for each name below each folder, and for what every WordPress has.
pub(crate) fn targets(names: &[String], folders: &[String]) -> BTreeSet<String> {
    let below = folders.iter().filter(|folder| folder.ends_with('/'));
    let below = below.flat_map(|folder| {
        let bare = folder.trim_end_matches('/');
        names.iter().map(move |name| format!("{bare}{name}"))
    });
    let own = names.iter().chain(folders);
    let queries = own.clone().take(MAX_TARGETS / 10);
    let others = evidence::OTHER_TARGETS.iter().map(|one| (*one).to_owned());
    let all = others
        .chain(own.clone().cloned())
        .chain(queries.map(|path| format!("{path}?a=b")))
        .chain(below);
    all.filter(|target| is_plain(target))
        .take(MAX_TARGETS)
        .collect()
}

/// Whether both servers take a target as it is.
/// Whether a path continues after the name of a script. The rule of a script also restricts such paths, because Galley runs it for them.
pub(crate) fn is_behind_script(sample: &SampleRequest<'_>) -> bool {
    let path = sample.target.split('?').next().unwrap_or_default();
    path.contains(".php/")
}

fn is_plain(target: &str) -> bool {
    let path = target.split('?').next().unwrap_or_default();
    let mut segments = path.split('/').skip(1);
    let is_name =
        |one: &str| !matches!(one, "." | "..") && (!one.is_empty() || path.ends_with('/'));
    path.starts_with('/')
        && !target.contains(['%', '#'])
        && !path.contains("//")
        && segments.all(is_name)
}

const MAX_TARGETS: usize = 2_000;

/// A client that no list names, and one of each network that these words name.
pub(crate) fn clients<'w>(words: impl Iterator<Item = &'w str>) -> Vec<IpAddr> {
    let mut all = vec![IpAddr::V4(Ipv4Addr::new(203, 0, 113, 77))];
    for word in words {
        let address = word.split('/').next().unwrap_or_default().parse();
        if let Ok(address) = address
            && all.len() < MAX_CLIENTS
            && !all.contains(&address)
        {
            all.push(address);
        }
    }
    all
}

const MAX_CLIENTS: usize = 6;

/// What each comparison requests: a script, a file, a page, a folder, and the administration.
pub(crate) const USUAL_TARGETS: [&str; 5] = [
    "/a.php",
    "/a.css",
    "/a",
    "/galley-try-folder/",
    "/wp-admin/",
];
