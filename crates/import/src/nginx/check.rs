//! Compares the answers of nginx with those of the draft, and takes the label from each statement because of which they differ.
//!
//! The samples come from the locations, the conditions and the rules, combined so that those that overlap meet. The answers of nginx
//! come from its statements ([`NginxServer`]), those of the draft from the code that decides in the server ([`DecidingRules`]).

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use crate::closed;
use crate::directive::ParsedDirective;
use crate::draft::{Draft, ImportedSite, Section, Value};
use crate::evidence::{self, DecidingRules, DraftDecision, SampleRequest};
use crate::expectation::Answer;
use crate::nginx::answer::{NginxAnswer, NginxServer};
use crate::nginx::condition::comparison;
use crate::nginx::context::Context;
use crate::nginx::fields::{added, name_of, wanted};
use crate::nginx::location_paths::LocationPaths;
use crate::nginx::server::{ServerRole, host_of, role};
use crate::served::StatementPaths;
use crate::source::StatementOrigin;

/// Compares a server with the draft.
pub(super) fn check(server: &NginxServer<'_>, draft: &Draft, context: &mut Context<'_>) {
    let ServerRole { schemes, host } = role(server.own());
    let site = host_of(&draft.sites, &host);
    let nothing = ImportedSite::default();
    let rules = site.map(|site| DecidingRules::of(&site.section, site.rules.iter()));
    let clients = clients(server.own());
    let mut check = ServerCheck {
        server,
        all: flat(server),
        rules,
        context,
    };
    let depends_on_files = check
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
    /// Every statement of the server, at any depth.
    all: Vec<&'d ParsedDirective>,
    rules: Option<DecidingRules<'c>>,
    context: &'c mut Context<'l>,
}

impl<'d> ServerCheck<'_, 'd, '_> {
    fn compare(&mut self, sample: &SampleRequest<'_>) {
        let Some(theirs) = self.server.answer(sample) else {
            return;
        };
        let Some(ours) = self.rules.as_ref().map(|rules| rules.decide(sample)) else {
            // Galley answers 421 to hosts of no site.
            return self.differ(sample, &theirs, &[], &Answer::Closed);
        };
        if theirs.answer != ours.answer {
            let has_root = self
                .rules
                .as_ref()
                .is_some_and(|rules| rules.site().has("root"));
            let is_closed =
                theirs.answer == Answer::Closed && has_root && closed::is_never_sent(sample.path());
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
            self.fields(sample, &theirs, &pages, &ours);
        }
        if theirs.answer == Answer::Open {
            self.limits(sample, &theirs, &ours);
            self.handlers(sample, &theirs, &ours);
            for page in pages.iter().filter(|page| page.pass.is_some()) {
                self.handlers(sample, page, &ours);
            }
            self.pages(sample, &theirs);
        }
    }

    /// Reports a location that sends files only, and has paths of pages.
    fn pages(&mut self, sample: &SampleRequest<'_>, theirs: &NginxAnswer<'d>) {
        let has_root = self
            .rules
            .as_ref()
            .is_some_and(|rules| rules.site().has("root"));
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

    /// Reports the statements of either answer.
    fn differ(
        &mut self,
        sample: &SampleRequest<'_>,
        theirs: &NginxAnswer<'d>,
        ours: &[&StatementOrigin],
        answer: &Answer,
    ) {
        let remedy = evidence::difference(sample.target, &theirs.answer, answer);
        let is_open = theirs.answer == Answer::Closed;
        let rewrites = |one: &&&ParsedDirective| matches!(one.name(), "if" | "rewrite");
        let is_all = theirs.answer != Answer::Open || ours.is_empty();
        {
            for one in theirs.by.iter().filter(|one| is_all || rewrites(one)) {
                self.context
                    .report
                    .differs(one.id, &remedy, is_open && one.name() != "location");
            }
        }
        self.at(ours, DECIDING, &remedy);
    }

    /// Reports the statements with one of these names at one of these positions.
    fn at(&mut self, origins: &[&StatementOrigin], names: &[&str], remedy: &str) {
        for one in &self.all {
            if origins.contains(&&one.origin)
                && names.iter().any(|name| one.name().starts_with(name))
            {
                self.context.report.differs(one.id, remedy, false);
            }
        }
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
            (None, all @ [_, ..]) => {
                let remedy = format!(
                    "`{}` is limited with this draft, too: a limit covers other spellings of an address",
                    sample.target
                );
                self.at(all, &["limit_req"], &remedy);
            }
            _ => {}
        }
    }

    /// Compares the upstreams.
    fn handlers(
        &mut self,
        sample: &SampleRequest<'_>,
        theirs: &NginxAnswer<'d>,
        ours: &DraftDecision<'_>,
    ) {
        let Some(rules) = &self.rules else {
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
            self.at(&origins, PASSING, &remedy);
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

    /// Compares the fields of a response.
    fn fields(
        &mut self,
        sample: &SampleRequest<'_>,
        theirs: &NginxAnswer<'d>,
        pages: &[NginxAnswer<'d>],
        ours: &DraftDecision<'_>,
    ) {
        let all = std::iter::once(theirs).chain(pages);
        let answers: Vec<_> = all.map(|one| wanted(&one.fields)).collect();
        let Some(site) = self.rules.as_ref().map(DecidingRules::site) else {
            return;
        };
        let of_rule = ours
            .rule
            .map_or(&[][..], |rule| rule.origins("set_headers"));
        let ours = added(site, ours.rule, sample.is_tls);
        for wanted in &answers {
            for (name, field) in wanted {
                let is_same = field.value.is_none() || field.value.as_ref() == ours.get(name);
                if !is_same {
                    let remedy = format!(
                        "`{}` has another `{name}` with this draft: set `set_headers` in a rule for its paths",
                        sample.target
                    );
                    let of_draft = |one: &&&ParsedDirective| {
                        of_rule.contains(&one.origin) && name_of(one).as_ref() == Some(name)
                    };
                    for one in field.by.iter().chain(self.all.iter().filter(of_draft)) {
                        self.context.report.differs(one.id, &remedy, false);
                    }
                }
            }
            for name in ours.keys().filter(|name| !wanted.contains_key(*name)) {
                let remedy = format!(
                    "`{}` has `{name}` with this draft, and not with nginx, whose levels with an `add_header` of their own inherit none: \
                     set it in rules for the other paths",
                    sample.target
                );
                let of_name = |one: &&&ParsedDirective| name_of(one).as_ref() == Some(name);
                for one in self.all.iter().filter(of_name) {
                    self.context.report.differs(one.id, &remedy, false);
                }
            }
        }
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

/// All statements of a server, and those that it inherits.
fn flat<'d>(server: &NginxServer<'d>) -> Vec<&'d ParsedDirective> {
    fn add<'d>(one: &'d ParsedDirective, all: &mut Vec<&'d ParsedDirective>) {
        all.push(one);
        one.inner().iter().for_each(|inner| add(inner, all));
    }
    let mut all = Vec::new();
    server
        .inherited()
        .iter()
        .chain(server.own())
        .for_each(|one| add(one, &mut all));
    all
}

/// Requests that show the effect of the statements and rules.
fn targets(server: &NginxServer<'_>, site: &ImportedSite) -> BTreeSet<String> {
    let (mut folders, mut names) = (
        Vec::new(),
        [
            "/a.php",
            "/a.css",
            "/a",
            "/galley-try-folder/",
            "/wp-admin/",
        ]
        .map(str::to_owned)
        .to_vec(),
    );
    for one in flat(server) {
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
    let below = folders
        .iter()
        .filter(|folder| folder.ends_with('/'))
        .flat_map(|folder| {
            names
                .iter()
                .map(move |name| format!("{}{name}", folder.trim_end_matches('/')))
        });
    let queries = names
        .iter()
        .chain(&folders)
        .take(MAX_TARGETS / 10)
        .map(|path| format!("{path}?a=b"));
    let others = evidence::OTHER_TARGETS
        .iter()
        .map(|target| (*target).to_owned());
    let all = others
        .chain(names.iter().cloned())
        .chain(folders.iter().cloned())
        .chain(queries)
        .chain(below);
    all.filter(|target| is_plain(target))
        .take(MAX_TARGETS)
        .collect()
}

/// Whether both servers take a target as it is.
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

/// A client that no list names, and one of each network.
fn clients(block: &[&ParsedDirective]) -> Vec<IpAddr> {
    fn add(one: &ParsedDirective, all: &mut Vec<IpAddr>) {
        if matches!(one.name(), "allow" | "deny") && all.len() < MAX_CLIENTS {
            let address = one.argument(0).split('/').next().unwrap_or_default();
            all.extend(
                address
                    .parse::<IpAddr>()
                    .ok()
                    .filter(|one| !all.contains(one)),
            );
        }
        one.inner().iter().for_each(|inner| add(inner, all));
    }
    let mut all = vec![IpAddr::V4(Ipv4Addr::new(203, 0, 113, 77))];
    for one in block {
        add(one, &mut all);
    }
    all
}

const MAX_CLIENTS: usize = 6;
