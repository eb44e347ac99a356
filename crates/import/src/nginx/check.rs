//! Compares the answers of nginx with those of the draft, and takes the label from each statement because of which they differ.
//!
//! The samples come from the locations, the conditions and the rules, combined so that those that overlap meet. The answers of nginx
//! come from its statements ([`NginxServer`]), those of the draft from the code that decides in the server ([`DecidingRules`]).

use std::collections::BTreeSet;

use crate::closed;
use crate::comparison::{
    self as shared, DraftAnswer, OtherAnswer, ServerComparison, USUAL_TARGETS, WantedFields,
    clients, flat, is_behind_script,
};
use crate::directive::ParsedDirective;
use crate::draft::{Draft, ImportedSite, Section, Value};
use crate::evidence::{self, DecidingRules, DraftDecision, SampleRequest};
use crate::expectation::Answer;
use crate::nginx::answer::{NginxAnswer, NginxServer};
use crate::nginx::condition::comparison;
use crate::nginx::context::Context;
use crate::nginx::fields::{name_of, wanted};
use crate::nginx::location_paths::LocationPaths;
use crate::nginx::server::{ServerRole, role};
use crate::served::StatementPaths;
use crate::source::StatementOrigin;

/// Compares a server with the draft.
pub(super) fn check(server: &NginxServer<'_>, draft: &Draft, context: &mut Context<'_>) {
    let ServerRole { schemes, host } = role(server.own());
    let site = draft.site_of(&host);
    let nothing = ImportedSite::default();
    let rules = site.map(|site| DecidingRules::of(&site.section, site.rules.iter()));
    let all = flat(server.inherited().iter().chain(server.own()).copied());
    let of_access = |one: &&&ParsedDirective| matches!(one.name(), "allow" | "deny");
    let clients = clients(all.iter().filter(of_access).map(|one| one.argument(0)));
    let mut check = ServerCheck {
        server,
        shared: ServerComparison {
            all,
            rules,
            deciding: DECIDING,
            field_of: name_of,
        },
        ttl: site.map(|site| &site.ttl),
        context,
    };
    let depends_on_files = check
        .shared
        .all
        .iter()
        .any(|one| one.name() == "if" && comparison(one).operator == "$request_filename");
    let files: &[bool] = if depends_on_files {
        &[false, true]
    } else {
        &[false]
    };
    for target in targets(server, site.unwrap_or(&nothing)) {
        let of_client = |client| {
            schemes.iter().flat_map(move |is_tls| {
                files
                    .iter()
                    .map(move |is_missing| (client, *is_tls, *is_missing))
            })
        };
        for (client, is_tls, is_missing) in clients.iter().flat_map(of_client) {
            check.compare(&SampleRequest {
                target: &target,
                host: &host,
                is_tls,
                client: *client,
                inner: None,
                is_missing,
            });
        }
    }
}

struct ServerCheck<'c, 'd, 'l> {
    server: &'c NginxServer<'d>,
    shared: ServerComparison<'c, 'd>,
    /// The lifetimes of the site.
    ttl: Option<&'c Section>,
    context: &'c mut Context<'l>,
}

impl<'d> ServerCheck<'_, 'd, '_> {
    fn compare(&mut self, sample: &SampleRequest<'_>) {
        let Some(theirs) = self.server.answer(sample) else {
            return;
        };
        let Some(ours) = self.shared.rules.as_ref().map(|rules| rules.decide(sample)) else {
            // Galley answers 421 to hosts of no site.
            return self.differ(sample, &theirs, &[], &Answer::Closed);
        };
        if theirs.answer != ours.answer {
            let is_closed = theirs.answer == Answer::Closed
                && self.shared.has_root()
                && closed::is_never_sent(sample.path());
            // Galley refuses a request before it redirects the whole host, and answers challenges for certificates without TLS.
            let is_of_host = theirs.chain.is_empty()
                && matches!(&theirs.answer, Answer::Redirected(_, location) if location.ends_with(sample.target));
            let is_before = ours.answer == Answer::Closed
                || sample.path().starts_with("/.well-known/acme-challenge/");
            let is_built_in = is_closed || is_of_host && is_before;
            if !is_built_in {
                self.differ(sample, &theirs, &ours.origins, &ours.answer);
            }
            return;
        }
        let pages = self.pages_of(sample, &theirs);
        if let Some(page) = pages.iter().find(|page| page.answer != Answer::Open) {
            return self.differ(sample, page, &[], &Answer::Open);
        }
        if theirs.answer != Answer::Closed {
            let all = std::iter::once(&theirs).chain(&pages);
            let all: Vec<WantedFields<'_>> = all.map(|one| wanted(&one.fields)).collect();
            self.shared.fields(sample, &all, &ours, self.context.report);
        }
        if theirs.answer == Answer::Open {
            self.limits(sample, &theirs, &ours);
            let passed = pages.iter().filter(|page| page.pass.is_some());
            for page in std::iter::once(&theirs).chain(passed) {
                self.handlers(sample, page, &ours);
                self.lifetimes(sample, page, &ours);
            }
            self.pages(sample, &theirs);
        }
    }

    /// Reports a location that sends files only, and has paths of pages.
    fn pages(&mut self, sample: &SampleRequest<'_>, theirs: &NginxAnswer<'d>) {
        let has_root = self.shared.has_root();
        let is_page = evidence::OTHER_TARGETS.contains(&sample.target) && sample.path() != "/";
        let Some(location) = theirs.chain.last().filter(|_| has_root && is_page) else {
            return;
        };
        if theirs.pass.is_none() && !theirs.falls_back {
            let remedy = format!(
                "nginx sends only files here, and Galley asks WordPress for `{}`: no rule changes that",
                sample.target
            );
            self.context.report.differs(location.id, &remedy, false);
        }
    }

    /// The scripts that nginx sends a request to if no file has its path: the front controller, and the page of a folder.
    fn pages_of(
        &self,
        sample: &SampleRequest<'_>,
        theirs: &NginxAnswer<'d>,
    ) -> Vec<NginxAnswer<'d>> {
        let path = sample.path();
        let root = self
            .shared
            .rules
            .as_ref()
            .and_then(|rules| rules.site().text("root"))
            .unwrap_or_default();
        let names = if path.ends_with('/') { INDEXES } else { &[] };
        let pages = names.iter().map(|name| format!("{path}{name}"));
        let exists = |page: &String| {
            KNOWN_PAGES.contains(&page.as_str()) || self.context.exists(&format!("{root}{page}"))
        };
        let pages: Vec<String> = pages.filter(exists).collect();
        let mut inner: Vec<&str> = Vec::new();
        if theirs.answer == Answer::Open && theirs.pass.is_none() {
            inner.extend((theirs.falls_back || path == "/").then_some("/index.php"));
            inner.extend(pages.iter().map(String::as_str));
        }
        let all = inner.into_iter().map(|path| SampleRequest {
            inner: Some(path),
            is_missing: false,
            ..*sample
        });
        all.filter_map(|sample| self.server.answer(&sample))
            .collect()
    }

    fn differ(
        &mut self,
        sample: &SampleRequest<'_>,
        theirs: &NginxAnswer<'d>,
        origins: &[&StatementOrigin],
        answer: &Answer,
    ) {
        let theirs = OtherAnswer {
            answer: &theirs.answer,
            by: &theirs.by,
        };
        let report = &mut *self.context.report;
        let ours = DraftAnswer { answer, origins };
        self.shared.differ(sample, theirs, ours, report);
    }

    fn limits(
        &mut self,
        sample: &SampleRequest<'_>,
        theirs: &NginxAnswer<'d>,
        ours: &DraftDecision<'_>,
    ) {
        match (theirs.limit, ours.limits.as_slice()) {
            (Some(one), []) => {
                let remedy = format!(
                    "`{}` is not limited with this draft: set `limit` in its rule",
                    sample.target
                );
                self.context.report.differs(one.id, &remedy, true);
            }
            (None, all @ [_, ..]) if !is_behind_script(sample) => {
                let remedy = format!(
                    "`{}` is limited with this draft, too: a limit covers other spellings of an address",
                    sample.target
                );
                self.shared
                    .at(all, &["limit_req"], &remedy, self.context.report);
            }
            _ => {}
        }
    }

    /// Compares the lifetimes of pages.
    fn lifetimes(
        &mut self,
        sample: &SampleRequest<'_>,
        theirs: &NginxAnswer<'d>,
        ours: &DraftDecision<'_>,
    ) {
        let Some(ttl) = self.ttl.filter(|_| theirs.pass.is_some()) else {
            return;
        };
        for status in ["200", "404"] {
            let Some((time, by)) = self.server.lifetime(&theirs.chain, status) else {
                continue;
            };
            let of_rule = ours.rule.filter(|_| status == "200");
            let of_rule = of_rule.and_then(|rule| rule.text("ttl"));
            let of_site = ttl.text(&format!("\"{status}\"")).or(ttl.text("default"));
            if of_rule.or(of_site) != Some(time.as_str()) {
                let remedy = format!(
                    "`{}` with status {status} is stored for another time with this draft: set `ttl` in a rule for its paths",
                    sample.target
                );
                self.context.report.differs(by.id, &remedy, false);
            }
        }
    }

    /// Compares the upstreams.
    fn handlers(
        &mut self,
        sample: &SampleRequest<'_>,
        theirs: &NginxAnswer<'d>,
        ours: &DraftDecision<'_>,
    ) {
        let Some(rules) = &self.shared.rules else {
            return;
        };
        let site = rules.site();
        let own = ["php", "upstream"].iter().find_map(|name| {
            let rule = ours.rule.filter(|rule| rule.has(name))?;
            Some((rule, *name))
        });
        let (section, option) =
            own.unwrap_or((site, if site.has("php") { "php" } else { "upstream" }));
        let is_same = match theirs.pass {
            Some(pass) => {
                self.is_server(pass, section, option) && !self.may_be_file(theirs, pass, site)
            }
            // Scripts without PHP would be sent as text, which Galley never does.
            None => {
                !site.has("upstream")
                    && site.has("root")
                    && (sample.path().contains(".php") || own.is_none())
            }
        };
        if is_same {
            return;
        }
        let remedy = format!(
            "`{}` has another upstream with this draft: set `upstream` or `php` in a rule for it",
            sample.target
        );
        for one in theirs.pass.iter().chain(theirs.chain.last()) {
            self.context.report.differs(one.id, &remedy, false);
        }
        if own.is_some() {
            let origins: Vec<_> = section.origins(option).iter().collect();
            self.shared
                .at(&origins, PASSING, &remedy, self.context.report);
        }
    }

    /// Whether Galley may send a file of the site's root in place of the response of an HTTP server.
    fn may_be_file(
        &self,
        theirs: &NginxAnswer<'d>,
        pass: &ParsedDirective,
        site: &Section,
    ) -> bool {
        let Some(root) = site.text("root").filter(|_| pass.name() == "proxy_pass") else {
            return false;
        };
        theirs.chain.last().is_none_or(|location| {
            let paths = LocationPaths::of(location);
            let below = paths.text().trim_end_matches('/');
            paths.is_pattern() || below.is_empty() || self.context.exists(&format!("{root}{below}"))
        })
    }

    /// Whether an option names the target of a statement.
    fn is_server(&self, pass: &ParsedDirective, section: &Section, option: &str) -> bool {
        let target = pass.argument(0);
        let wanted = match pass.name() {
            "fastcgi_pass" => self
                .context
                .fastcgi_servers(target)
                .map(|value| ("php", value)),
            _ => Some(("upstream", Value::List(self.context.http_servers(target)))),
        };
        wanted.is_some_and(|(name, value)| name == option && section.get(name) == Some(&value))
    }
}

/// The pages of folders that both servers look for.
const INDEXES: &[&str] = &["index.php", "index.html"];

/// Pages of folders that every WordPress has, and one of a folder that stands for all others.
const KNOWN_PAGES: &[&str] = &["/wp-admin/index.php", "/galley-try-folder/index.html"];

/// Statements that decide about access and redirects.
const DECIDING: &[&str] = &[
    "location", "allow", "deny", "auth_", "if", "return", "rewrite", "internal",
];

const PASSING: &[&str] = &["location", "proxy_pass", "fastcgi_pass"];

/// Requests that show the effect of the statements and rules.
fn targets(server: &NginxServer<'_>, site: &ImportedSite) -> BTreeSet<String> {
    let mut names = USUAL_TARGETS.map(str::to_owned).to_vec();
    let mut folders = Vec::new();
    for one in flat(server.inherited().iter().chain(server.own()).copied()) {
        let paths = match one.name() {
            "location" => LocationPaths::of(one).samples(),
            "rewrite" => StatementPaths::of_rule_pattern(one.argument(0)),
            "if" => StatementPaths::of_rule_pattern(&comparison(one).pattern),
            _ => continue,
        };
        let samples = paths.samples();
        match paths {
            StatementPaths::Pattern(_) => {
                // Longer paths match, too, unless the end is anchored; other locations may match only the shorter ones.
                names.extend(samples.iter().map(|sample| format!("{sample}a")));
                folders.extend(
                    samples
                        .iter()
                        .filter(|sample| sample.ends_with('/'))
                        .cloned(),
                );
                names.extend(samples);
            }
            _ => folders.extend(samples),
        }
    }
    for rule in &site.rules {
        names.extend(evidence::samples(&rule.section));
    }
    shared::targets(&names, &folders)
}
