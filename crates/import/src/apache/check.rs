//! What Apache answers to a request, by the parts of a host, in the order in which Apache asks them: rewrite rules and redirects of the
//! host, access control, then those of the folder. It never guesses: an answer that depends on something unknown here is not compared.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::access::is_access;
use super::headers::{expires, field_of, wanted};
use super::parts::{ApacheHost, Part, PartKind, PartPaths};
use super::passing::{error_of, proxied, redirected, upstream};
use super::rewrite::{RewritePlace, RewriteRequest, RewriteResult, evaluate};
use super::rewrite_flags::RewriteFlags;
use super::{access, rewrite};
use crate::comparison::{self, AnsweringServer, ComparedRequests, ServerAnswer};
use crate::directive::Directive;
use crate::draft::{Draft, ImportedSite, Value};
use crate::evidence::{self, SampleRequest};
use crate::expectation::Answer;
use crate::known;
use crate::requests::{USUAL_TARGETS, clients, flat, longer, targets};
use crate::served::StatementPaths;
use crate::source::Source;

/// The files of a configuration, and its directives with those of every `.htaccess`.
pub(super) struct ComparedFiles<'a> {
    pub source: &'a dyn Source,
    pub directives: Vec<&'a Directive>,
}

/// The requests that a host answers.
pub(super) struct HostRole {
    /// Whether the requests are those with TLS.
    pub schemes: Vec<bool>,
    /// Empty: those of no other host.
    pub names: Vec<String>,
}

impl<'d> ApacheHost<'d> {
    /// What rules do with a request.
    fn rewritten(
        &self,
        block: &[&'d Directive],
        sample: &SampleRequest<'_>,
        place: RewritePlace,
    ) -> RewriteResult<'d> {
        let patterns = &self.patterns;
        evaluate(
            block,
            &RewriteRequest {
                sample,
                place,
                patterns,
            },
        )
    }

    /// Reports the redirects of a folder for a path that only a section for names of files closes: no such section is about a path whose
    /// folder does not exist.
    fn report_names(&self, sample: &SampleRequest<'_>, parts: &[&Part<'d>]) {
        let others = parts.iter().copied();
        let others: Vec<_> = others.filter(|part| part.kind != PartKind::Files).collect();
        let is_open =
            decide(&others, sample.client).is_some_and(|(found, _)| found == Answer::Open);
        if others.len() == parts.len() || !is_open {
            return;
        }
        let of_rules = match self.rewritten(self.rewriting(), sample, RewritePlace::Folder) {
            // Galley refuses a request before it redirects the whole host.
            RewriteResult::Answered(Answer::Redirected(_, to), by)
                if !to.ends_with(sample.target) =>
            {
                by
            }
            _ => Vec::new(),
        };
        let of_root = parts.iter().filter(|part| part.is_of_root());
        let of_root = of_root.filter_map(|part| {
            let redirection = redirected(&part.block, sample, &self.patterns)
                .ok()
                .flatten();
            redirection.map(|(_, by)| by)
        });
        for one in of_rules.into_iter().chain(of_root) {
            one.entry.differs(OF_NAMES, false);
        }
    }
}

const OF_NAMES: &str = "a section for names of files closes some of these paths, in Apache only if their folder exists: compare both";

impl<'d> AnsweringServer<'d> for ApacheHost<'d> {
    const DECIDING: &'static [&'static str] = &[""];
    const HAS_FIELDS_EVERYWHERE: bool = false;

    fn answer(&self, sample: &SampleRequest<'_>) -> Option<ServerAnswer<'d>> {
        let mut answer = ServerAnswer::new();
        answer.is_of_host = true;
        match self.rewritten(self.own(), sample, RewritePlace::Host) {
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
        let parts: Vec<_> = self
            .matching(sample.path(), answer.pass.is_none())
            .collect();
        answer.fields = wanted(&parts, sample.path(), expires(&self.parts), &self.patterns);
        let (found, by) = decide(&parts, sample.client)?;
        answer.by = by;
        if found == Answer::Closed && answer.pass.is_none() {
            self.report_names(sample, &parts);
        }
        if found == Answer::Closed || answer.pass.is_some() {
            answer.answer = found;
            return Some(answer);
        }
        match self.rewritten(self.rewriting(), sample, RewritePlace::Folder) {
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
        let rewritten = self.rewritten(self.rewriting(), &missing, RewritePlace::Folder);
        answer.falls_back = sample.inner.is_none() && matches!(rewritten, RewriteResult::Front);
        for part in parts.iter().filter(|part| part.is_of_root()) {
            if let Some((found, by)) = redirected(&part.block, sample, &self.patterns).ok()? {
                (answer.answer, answer.by) = (found, vec![by]);
                break;
            }
        }
        Some(answer)
    }

    fn refusal_status(by: &Directive) -> Option<String> {
        match by.name() {
            "rewriterule" => RewriteFlags::of(by).error().map(str::to_owned),
            name if name.starts_with("redirect") => error_of(by),
            name => {
                let asks = matches!(by.argument(0), "valid-user" | "user" | "group");
                let is_list = is_access(by) && !name.starts_with("auth") && !asks;
                is_list.then(|| "403".to_owned())
            }
        }
    }

    fn field_of(one: &Directive) -> Option<String> {
        field_of(one)
    }

    fn upstream_of(&self, pass: &Directive) -> Option<(&'static str, Value)> {
        Some(("upstream", Value::List(vec![upstream(pass)?])))
    }

    fn path_of<'a>(&self, answer: &'a ServerAnswer<'_>) -> Option<&'a str> {
        answer.pass.map(|pass| pass.argument(0))
    }
}

/// Whether all gates of these parts let a client in: the last of each kind decides. `None`: it is not known.
fn decide<'d>(parts: &[&Part<'d>], client: IpAddr) -> Option<(Answer, Vec<&'d Directive>)> {
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
) {
    let directives = host
        .parts
        .iter()
        .flat_map(|part| flat(part.block.iter().copied()));
    let words = directives
        .filter(|one| access::is_access(one))
        .flat_map(Directive::arguments);
    let clients = clients(words.map(String::as_str));
    let fallback = ["example.com".to_owned()];
    let names = if role.names.is_empty() {
        &fallback[..]
    } else {
        &role.names
    };
    for name in names.iter().take(MAX_NAMES) {
        let name = name.replace('*', "www");
        let compared = ComparedRequests {
            name: &name,
            schemes: &role.schemes,
            clients: clients.clone(),
            methods: &[],
            is_missing: &[false],
            targets: samples(host, draft.site_of(&name)),
            all: all.directives.clone(),
        };
        comparison::check(host, &compared, draft, all.source);
    }
}

const MAX_NAMES: usize = 3;

/// Requests that show the effect of the directives and rules.
fn samples(host: &ApacheHost<'_>, site: Option<&ImportedSite>) -> BTreeSet<String> {
    let mut names = USUAL_TARGETS.map(str::to_owned).to_vec();
    let mut folders = Vec::new();
    let below =
        |path: &str| StatementPaths::Prefix(format!("{}/", path.trim_end_matches('/'))).samples();
    for part in &host.parts {
        match &part.paths {
            PartPaths::All => {}
            PartPaths::Below(path) => folders.extend(below(path)),
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
        for one in &part.block {
            let words = one
                .arguments()
                .iter()
                .filter(|word| word.starts_with(['/', '^']));
            match one.name() {
                "redirectmatch" => names
                    .extend(words.flat_map(|path| longer(&StatementPaths::pattern(path, false)))),
                name if name.starts_with("redirect") => {
                    folders.extend(words.flat_map(|path| below(path)));
                }
                "proxypass" => folders.extend(below(one.argument(0))),
                "expiresbytype" => {
                    let pattern = known::paths_of_type(one.argument(0)).into_iter();
                    names.extend(
                        pattern.flat_map(|text| StatementPaths::pattern(text, false).samples()),
                    );
                }
                _ => {}
            }
        }
        for step in rewrite::steps(&part.block).0 {
            names.extend(longer(&StatementPaths::pattern(
                step.rule.argument(0),
                false,
            )));
        }
    }
    let rules = site.map_or(&[][..], |site| &site.rules[..]).iter();
    names.extend(rules.flat_map(|rule| evidence::samples(&rule.section)));
    targets(&names, &folders)
}
