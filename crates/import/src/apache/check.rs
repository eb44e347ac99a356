//! Compares the answers of Apache with those of the draft, and takes the label from each directive because of which they differ.
//!
//! The answers of Apache come from the parts of a host, in the order in which Apache asks them: rewrite rules and redirects of the host,
//! access control, then those of the folder. It never guesses: an answer that depends on something unknown here is not compared.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::headers::{expires, field_of, wanted};
use super::parts::{ApacheHost, Part, PartPaths};
use super::passing::{proxied, redirected, upstream};
use super::rewrite::{RewritePlace, RewriteRequest, RewriteResult, evaluate};
use super::{access, rewrite};
use crate::closed;
use crate::comparison::{
    self, DraftAnswer, OtherAnswer, ServerComparison, USUAL_TARGETS, WantedFields, clients, flat,
};
use crate::directive::ParsedDirective;
use crate::draft::{Draft, ImportedSite, Value};
use crate::evidence::{self, DecidingRules, DraftDecision, SampleRequest};
use crate::expectation::Answer;
use crate::known;
use crate::report::Report;
use crate::served::StatementPaths;
use crate::source::Source;

/// The files of a configuration, and its directives with those of every `.htaccess`.
pub(super) struct ComparedFiles<'a> {
    pub source: &'a dyn Source,
    pub directives: Vec<&'a ParsedDirective>,
}

/// The requests that a host answers.
pub(super) struct HostRole {
    /// Whether the requests are those with TLS.
    pub schemes: Vec<bool>,
    /// Empty: those of no other host.
    pub names: Vec<String>,
}

/// An answer, and the directives from which it follows.
struct ApacheAnswer<'h, 'd> {
    answer: Answer,
    by: Vec<&'d ParsedDirective>,
    /// `None`: Apache sends files, and runs scripts.
    pass: Option<&'d ParsedDirective>,
    /// The parts that apply.
    parts: Vec<&'h Part<'d>>,
    /// Whether a request for no file gets the page of `/index.php`.
    falls_back: bool,
}

impl<'d> ApacheHost<'d> {
    fn rewrite<'r>(
        &'r self,
        sample: &'r SampleRequest<'r>,
        place: RewritePlace,
    ) -> RewriteRequest<'r> {
        RewriteRequest {
            sample,
            place,
            patterns: &self.patterns,
        }
    }

    /// The answer to a `GET` without optional fields. `None`: it is not known.
    fn answer(&self, sample: &SampleRequest<'_>) -> Option<ApacheAnswer<'_, 'd>> {
        let mut answer = ApacheAnswer {
            answer: Answer::Open,
            by: Vec::new(),
            pass: None,
            parts: Vec::new(),
            falls_back: false,
        };
        match evaluate(self.own(), &self.rewrite(sample, RewritePlace::Host)) {
            RewriteResult::Nothing => {}
            RewriteResult::Answered(found, by) => {
                (answer.answer, answer.by) = (found, by);
                return Some(answer);
            }
            RewriteResult::Front | RewriteResult::Unknown => return None,
        }
        if let Some((found, by)) = redirected(self.own(), sample, &self.patterns).ok()? {
            (answer.answer, answer.by) = (found, vec![by]);
            return Some(answer);
        }
        answer.pass = proxied(self.own(), sample.path());
        answer.parts = self
            .matching(sample.path(), answer.pass.is_none())
            .collect();
        let (found, by) = decide(&answer.parts, sample.client)?;
        answer.by = by;
        if found == Answer::Closed || answer.pass.is_some() {
            answer.answer = found;
            return Some(answer);
        }
        let rewritten = |sample: &SampleRequest<'_>| {
            evaluate(
                self.rewriting(),
                &self.rewrite(sample, RewritePlace::Folder),
            )
        };
        match rewritten(sample) {
            RewriteResult::Nothing | RewriteResult::Front => {}
            RewriteResult::Answered(found, by) => {
                (answer.answer, answer.by) = (found, by);
                return Some(answer);
            }
            RewriteResult::Unknown => return None,
        }
        let missing = SampleRequest {
            is_missing: true,
            ..*sample
        };
        answer.falls_back =
            sample.inner.is_none() && matches!(rewritten(&missing), RewriteResult::Front);
        for part in answer.parts.iter().filter(|part| part.is_of_root()) {
            if let Some((found, by)) = redirected(&part.block, sample, &self.patterns).ok()? {
                (answer.answer, answer.by) = (found, vec![by]);
                break;
            }
        }
        Some(answer)
    }
}

/// Whether all gates of these parts let a client in: the last of each kind decides. `None`: it is not known.
fn decide<'d>(parts: &[&Part<'d>], client: IpAddr) -> Option<(Answer, Vec<&'d ParsedDirective>)> {
    let mut last = [None, None];
    for part in parts {
        for (last, gate) in last.iter_mut().zip(access::gates(&part.block)) {
            *last = gate.map(|gate| (gate, part.section)).or(last.take());
        }
    }
    let mut decided = (Answer::Open, Vec::new());
    for (gate, section) in last.into_iter().flatten() {
        if gate.gate.answer(client)? == Answer::Closed {
            decided.0 = Answer::Closed;
        }
        decided.1.extend(gate.by.into_iter().chain(section));
    }
    Some(decided)
}

/// Compares a host with the draft.
pub(super) fn check<'d>(
    host: &ApacheHost<'d>,
    role: &HostRole,
    all: &ComparedFiles<'d>,
    draft: &Draft,
    report: &mut Report,
) {
    let own = host
        .parts
        .iter()
        .flat_map(|part| flat(part.block.iter().copied()));
    let words = own.filter(|one| access::is_access(one));
    let words = words
        .flat_map(ParsedDirective::arguments)
        .map(String::as_str);
    let clients = clients(words);
    let fallback = ["example.com".to_owned()];
    let names = if role.names.is_empty() {
        &fallback[..]
    } else {
        &role.names
    };
    for name in names.iter().take(MAX_NAMES) {
        let name = name.replace('*', "www");
        let site = draft.site_of(&name);
        let check = HostCheck {
            host,
            expires: expires(&host.parts),
            shared: ServerComparison {
                all: all.directives.clone(),
                rules: site.map(|site| DecidingRules::of(&site.section, site.rules.iter())),
                deciding: &[""],
                field_of,
            },
            source: all.source,
        };
        for target in targets(host, site) {
            for client in &clients {
                for is_tls in &role.schemes {
                    let sample = SampleRequest {
                        host: &name,
                        is_tls: *is_tls,
                        client: *client,
                        ..SampleRequest::of_stranger(&target)
                    };
                    check.compare(&sample, report);
                }
            }
        }
    }
}

const MAX_NAMES: usize = 3;

struct HostCheck<'c, 'd> {
    host: &'c ApacheHost<'d>,
    expires: bool,
    shared: ServerComparison<'c, 'd>,
    source: &'c dyn Source,
}

impl<'d> HostCheck<'_, 'd> {
    fn compare(&self, sample: &SampleRequest<'_>, report: &mut Report) {
        let Some(theirs) = self.host.answer(sample) else {
            return;
        };
        let Some(ours) = self.shared.rules.as_ref().map(|rules| rules.decide(sample)) else {
            if theirs.answer != Answer::Closed {
                self.differ(sample, &theirs, None, report);
            }
            return;
        };
        if theirs.answer != ours.answer {
            let is_closed = theirs.answer == Answer::Closed
                && self.shared.has_root()
                && closed::is_never_sent(sample.path());
            // Galley refuses a request before it redirects the whole host, and answers challenges for certificates without TLS.
            let is_of_host = matches!(&theirs.answer, Answer::Redirected(_, location) if location.ends_with(sample.target));
            let is_before = ours.answer == Answer::Closed
                || sample.path().starts_with("/.well-known/acme-challenge/");
            if !(is_closed || is_of_host && is_before) {
                self.differ(sample, &theirs, Some(&ours), report);
            }
            return;
        }
        let pages = self.pages_of(sample, &theirs);
        if theirs.answer == Answer::Open {
            self.upstream(sample, &theirs, &ours, report);
            if let Some((_, page)) = pages.iter().find(|(_, page)| page.answer != Answer::Open) {
                return self.differ(sample, page, None, report);
            }
        } else if !self.asks_for_password(&ours) {
            return;
        }
        let name = sample.path().rsplit('/').next().unwrap_or_default();
        let is_file = name.contains('.') || theirs.pass.is_some();
        let own = is_file.then_some((sample.path(), &theirs)).into_iter();
        let pages = pages.iter().filter(|_| !is_file);
        let all = own.chain(pages.map(|(path, page)| (*path, page)));
        let wanted: Vec<WantedFields<'_>> = all
            .map(|(path, one)| wanted(&one.parts, path, self.expires, &self.host.patterns))
            .collect();
        self.shared.fields(sample, &wanted, &ours, report);
    }

    /// Whether clients get in that have a password, which no sample has.
    fn asks_for_password(&self, ours: &DraftDecision<'_>) -> bool {
        let site = self.shared.rules.as_ref().map(DecidingRules::site);
        let mut sections = site.into_iter().chain(ours.rule);
        sections.any(|section| section.has("basic_auth"))
    }

    /// The files and scripts that a request gets in place of its path: the front controller, and the page of a folder.
    fn pages_of(
        &self,
        sample: &SampleRequest<'_>,
        theirs: &ApacheAnswer<'_, 'd>,
    ) -> Vec<(&'static str, ApacheAnswer<'_, 'd>)> {
        let path = sample.path();
        let is_front = theirs.falls_back || path == "/";
        let front = (is_front && theirs.pass.is_none()).then_some("/index.php");
        let known = KNOWN_PAGES.iter().find(|page| {
            page.rsplit_once('/')
                .is_some_and(|(folder, _)| path == format!("{folder}/"))
        });
        let known = known.filter(|_| theirs.pass.is_none()).copied();
        let all = known.or(front).into_iter();
        let answer = |inner| {
            let sample = SampleRequest {
                inner: Some(inner),
                ..*sample
            };
            Some((inner, self.host.answer(&sample)?))
        };
        all.filter_map(answer).collect()
    }

    fn differ(
        &self,
        sample: &SampleRequest<'_>,
        theirs: &ApacheAnswer<'_, 'd>,
        ours: Option<&DraftDecision<'_>>,
        report: &mut Report,
    ) {
        let is_host = self.shared.rules.is_some();
        // Galley answers 421 to hosts of no site.
        let other = if is_host {
            &Answer::Open
        } else {
            &Answer::Closed
        };
        let (answer, origins) =
            ours.map_or((other, &[][..]), |ours| (&ours.answer, &ours.origins[..]));
        let theirs = OtherAnswer {
            answer: &theirs.answer,
            by: &theirs.by,
        };
        let ours = DraftAnswer { answer, origins };
        self.shared.differ(sample, theirs, ours, report);
    }

    /// Compares the upstreams.
    fn upstream(
        &self,
        sample: &SampleRequest<'_>,
        theirs: &ApacheAnswer<'_, 'd>,
        ours: &DraftDecision<'_>,
        report: &mut Report,
    ) {
        let Some(site) = self.shared.rules.as_ref().map(DecidingRules::site) else {
            return;
        };
        let own = ours.rule.filter(|rule| rule.has("upstream"));
        let of_site = Some(site).filter(|site| !site.has("php"));
        let section = own.or(of_site).filter(|section| section.has("upstream"));
        let value = section.and_then(|section| section.get("upstream"));
        let wanted = theirs
            .pass
            .and_then(upstream)
            .map(|server| Value::List(vec![server]));
        // Galley may send a file of the root in place of the response.
        let file = || {
            site.text("root")
                .map(|root| format!("{root}{}", theirs.pass.map_or("", |pass| pass.argument(0))))
        };
        let may_be_file = theirs.pass.is_some()
            && file().is_some_and(|file| {
                !self
                    .source
                    .matching(file.trim_end_matches('/').as_ref())
                    .is_empty()
            });
        if value == wanted.as_ref() && !may_be_file {
            return;
        }
        let remedy = format!(
            "`{}` has another upstream with this draft: set `upstream` in a rule for it",
            sample.target
        );
        if let Some(pass) = theirs.pass {
            report.differs(pass.id, &remedy, false);
        }
        let origins = own.map_or(&[][..], |own| own.origins("upstream"));
        let origins: Vec<_> = origins.iter().collect();
        self.shared.at(&origins, &["proxypass"], &remedy, report);
    }
}

/// Pages of folders: one that every WordPress has, and one of a folder that stands for all others.
const KNOWN_PAGES: &[&str] = &["/wp-admin/index.php", "/galley-try-folder/index.html"];

/// Requests that show the effect of the directives and rules.
fn targets(host: &ApacheHost<'_>, site: Option<&ImportedSite>) -> BTreeSet<String> {
    let mut names = USUAL_TARGETS.map(str::to_owned).to_vec();
    let mut folders = Vec::new();
    for part in &host.parts {
        match &part.paths {
            PartPaths::All => {}
            PartPaths::Below(path) => {
                folders.extend(StatementPaths::Prefix(format!("{path}/")).samples());
            }
            PartPaths::Prefix(path) => {
                folders.extend(StatementPaths::Prefix(path.clone()).samples());
            }
            PartPaths::Name(_, pattern) => {
                names.extend(longer(&StatementPaths::of_rule_pattern(pattern)));
            }
            PartPaths::Pattern(regex) => {
                names.extend(longer(&StatementPaths::Pattern(regex.clone())));
            }
        }
        for one in part
            .block
            .iter()
            .filter(|one| one.name().starts_with("redirect"))
        {
            let paths = one
                .arguments()
                .iter()
                .filter(|word| word.starts_with(['/', '^']));
            for path in paths {
                match one.name() {
                    "redirectmatch" => names.extend(longer(&StatementPaths::pattern(path, false))),
                    _ => folders.extend(
                        StatementPaths::Prefix(format!("{}/", path.trim_end_matches('/')))
                            .samples(),
                    ),
                }
            }
        }
        let types = part
            .block
            .iter()
            .filter(|one| one.name() == "expiresbytype");
        for pattern in types.filter_map(|one| known::paths_of_type(one.argument(0))) {
            names.extend(StatementPaths::pattern(pattern, false).samples());
        }
        for step in rewrite::steps(&part.block).0 {
            names.extend(longer(&StatementPaths::pattern(
                step.rule.argument(0),
                false,
            )));
        }
        let proxied = part.block.iter().filter(|one| one.name() == "proxypass");
        folders.extend(proxied.flat_map(|one| {
            let bare = one.argument(0).trim_end_matches('/');
            StatementPaths::Prefix(format!("{bare}/")).samples()
        }));
    }
    let rules = site.map_or(&[][..], |site| &site.rules[..]).iter();
    names.extend(rules.flat_map(|rule| evidence::samples(&rule.section)));
    comparison::targets(&names, &folders)
}

/// Samples, and longer paths, which match, too, unless the end is anchored.
fn longer(paths: &StatementPaths) -> Vec<String> {
    let all = paths.samples();
    all.iter()
        .map(|one| format!("{one}a"))
        .chain(all.iter().cloned())
        .collect()
}
