//! Compares the answers of nginx or Apache with those of a draft, and takes the label from each statement because of which they
//! differ. The answers of the other server come from its statements ([`AnsweringServer`]), those of the draft from the code that
//! decides in the server ([`DecidingRules`]).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;

use crate::added_fields::added;
use crate::closed;
use crate::directive::Directive;
use crate::draft::{Draft, Section, Value};
use crate::evidence::{self, DecidingRules, DraftDecision, SampleRequest};
use crate::expectation::Answer;
use crate::source::{Source, StatementOrigin};

/// A field that the other server adds.
#[derive(Default)]
pub(crate) struct WantedField<'d> {
    /// The whole value. `None`: it depends on the request, or the report says that Galley has one of its own.
    pub value: Option<String>,
    pub by: Vec<&'d Directive>,
}

/// The fields that statements add, by name in lower case.
pub(crate) type WantedFields<'d> = BTreeMap<String, WantedField<'d>>;

/// An answer of the other server, and the statements from which it follows.
pub(crate) struct ServerAnswer<'d> {
    pub answer: Answer,
    /// The statements that decided.
    pub by: Vec<&'d Directive>,
    /// The location of nginx.
    pub place: Option<&'d Directive>,
    /// The statement that passes the request on. `None`: the server sends files.
    pub pass: Option<&'d Directive>,
    /// Whether a request for no file gets the page of `/index.php`.
    pub falls_back: bool,
    /// Whether the answer is that of all requests of the host.
    pub is_of_host: bool,
    pub fields: WantedFields<'d>,
    pub limit: Option<&'d Directive>,
    /// How long responses of a status are stored that state no lifetime.
    pub lifetimes: Vec<(&'static str, String, &'d Directive)>,
}

impl ServerAnswer<'_> {
    pub fn new() -> Self {
        Self {
            answer: Answer::Open,
            by: Vec::new(),
            place: None,
            pass: None,
            falls_back: false,
            is_of_host: false,
            fields: WantedFields::new(),
            limit: None,
            lifetimes: Vec::new(),
        }
    }
}

/// A server whose answers are compared with those of the draft.
pub(crate) trait AnsweringServer<'d> {
    /// Beginnings of the names of statements that decide about access and redirects.
    const DECIDING: &'static [&'static str];
    /// Whether a field is also in redirects, and a folder has the fields of its location.
    const HAS_FIELDS_EVERYWHERE: bool;

    /// The answer to a `GET` without optional fields. `None`: it is not known.
    fn answer(&self, sample: &SampleRequest<'_>) -> Option<ServerAnswer<'d>>;

    /// The status with which a statement refuses requests.
    fn refusal_status(by: &Directive) -> Option<String>;

    /// The field that a statement is about, in lower case.
    fn field_of(one: &Directive) -> Option<String>;

    /// The option, and its value, for a statement that passes requests on.
    fn upstream_of(&self, pass: &Directive) -> Option<(&'static str, Value)>;

    /// The path below which an answer is passed on. `None`: a pattern decides.
    fn path_of<'a>(&self, answer: &'a ServerAnswer<'_>) -> Option<&'a str>;
}

/// A host, and the requests that are compared.
pub(crate) struct ComparedRequests<'c, 'd> {
    pub name: &'c str,
    /// Whether the requests use TLS.
    pub schemes: &'c [bool],
    pub clients: Vec<IpAddr>,
    /// Those other than `GET` that statements name.
    pub methods: &'c [&'c str],
    /// Whether files are missing.
    pub is_missing: &'c [bool],
    pub targets: BTreeSet<String>,
    /// Every statement of the server, at any depth.
    pub all: Vec<&'d Directive>,
}

/// Compares a host with the draft.
pub(crate) fn check<'d, S: AnsweringServer<'d>>(
    server: &S,
    host: &ComparedRequests<'_, 'd>,
    draft: &Draft,
    source: &dyn Source,
) {
    let site = draft.site_of(host.name);
    let check = HostCheck {
        server,
        host,
        source,
        rules: site.map(|site| DecidingRules::of(&site.section, site.rules.iter())),
        ttl: site.map(|site| &site.ttl),
    };
    for target in &host.targets {
        for client in &host.clients {
            for (is_tls, is_missing) in host
                .schemes
                .iter()
                .flat_map(|is_tls| host.is_missing.iter().map(move |one| (*is_tls, *one)))
            {
                let sample = SampleRequest {
                    host: host.name,
                    is_tls,
                    client: *client,
                    is_missing,
                    ..SampleRequest::of_stranger(target)
                };
                check.compare(&sample);
                for method in host.methods {
                    check.compare_refusal(&SampleRequest { method, ..sample });
                }
            }
        }
    }
}

struct HostCheck<'c, 'd, S> {
    server: &'c S,
    host: &'c ComparedRequests<'c, 'd>,
    source: &'c dyn Source,
    /// `None`: the draft has no site for the host.
    rules: Option<DecidingRules<'c>>,
    /// The lifetimes of the site.
    ttl: Option<&'c Section>,
}

impl<'d, S: AnsweringServer<'d>> HostCheck<'_, 'd, S> {
    fn compare(&self, sample: &SampleRequest<'_>) {
        let Some(theirs) = self.server.answer(sample) else {
            return;
        };
        let Some(rules) = &self.rules else {
            // Galley answers 421 to hosts of no site.
            if theirs.answer != Answer::Closed {
                self.differ(sample, &theirs, &Answer::Closed, &[]);
            }
            return;
        };
        let (site, ours) = (rules.site(), rules.decide(sample));
        if theirs.answer != ours.answer {
            let is_closed = (&theirs.answer, &ours.answer) == (&Answer::Closed, &Answer::Open)
                && site.has("root")
                && closed::is_never_sent(sample.path());
            // Galley refuses a request before it redirects the whole host, and answers challenges for certificates without TLS.
            let is_of_host = theirs.is_of_host
                && matches!(&theirs.answer, Answer::Redirected(_, location) if location.ends_with(sample.target));
            let is_before = ours.answer == Answer::Closed
                || sample.path().starts_with("/.well-known/acme-challenge/");
            if !(is_closed || is_of_host && is_before) {
                self.differ(sample, &theirs, &ours.answer, &ours.origins);
            }
            return;
        }
        if theirs.answer == Answer::Closed {
            Self::statuses(sample, &theirs, &ours, site);
        }
        let pages = self.pages_of(sample, &theirs, site);
        if let Some(page) = pages.iter().find(|page| page.answer != Answer::Open) {
            return self.differ(sample, page, &Answer::Open, &[]);
        }
        let has_fields = match theirs.answer {
            Answer::Open => true,
            Answer::Redirected(..) => S::HAS_FIELDS_EVERYWHERE,
            // No sample has the password.
            Answer::Closed => {
                site.has("basic_auth") || ours.rule.is_some_and(|rule| rule.has("basic_auth"))
            }
        };
        if has_fields {
            let name = sample.path().rsplit('/').next().unwrap_or_default();
            let is_file = name.contains('.') || theirs.pass.is_some();
            let compared = (is_file || S::HAS_FIELDS_EVERYWHERE).then_some(&theirs);
            let pages = pages
                .iter()
                .filter(|_| !is_file || S::HAS_FIELDS_EVERYWHERE);
            let fields: Vec<_> = compared
                .into_iter()
                .chain(pages)
                .map(|one| &one.fields)
                .collect();
            self.fields(sample, &fields, &ours, site);
        }
        if theirs.answer == Answer::Open {
            let passed = pages.iter().filter(|page| page.pass.is_some());
            for page in std::iter::once(&theirs).chain(passed) {
                self.upstream(sample, page, &ours, site);
                self.lifetimes(sample, page, &ours);
            }
            self.limits(sample, &theirs, &ours);
            Self::files(sample, &theirs, site);
        }
    }

    /// Compares whether a request of another method than `GET` is refused.
    fn compare_refusal(&self, sample: &SampleRequest<'_>) {
        let (Some(theirs), Some(rules)) = (self.server.answer(sample), &self.rules) else {
            return;
        };
        let ours = rules.decide(sample);
        let is_closed = ours.answer == Answer::Closed;
        let is_never_sent = rules.site().has("root") && closed::is_never_sent(sample.path());
        if is_closed != (theirs.answer == Answer::Closed) && !is_never_sent {
            self.differ(sample, &theirs, &ours.answer, &ours.origins);
        }
    }

    /// Compares the statuses of refusals.
    fn statuses(
        sample: &SampleRequest<'_>,
        theirs: &ServerAnswer<'d>,
        ours: &DraftDecision<'_>,
        site: &Section,
    ) {
        let sections = || ours.rule.into_iter().chain([site]);
        let of_password = |origin: &&StatementOrigin| {
            sections().any(|one| one.origins("basic_auth").contains(origin))
        };
        let asks = ours.origins.iter().all(of_password);
        let denies = ours
            .rule
            .is_some_and(|rule| rule.has("deny") || rule.has("allow"));
        let status = theirs.by.iter().find_map(|one| S::refusal_status(one));
        let Some(status) = status.filter(|_| denies || asks) else {
            return;
        };
        let own_status = match ours.rule.and_then(|rule| rule.get("deny_status")) {
            _ if asks => "401",
            Some(Value::Verbatim(status)) => status,
            _ => "403",
        };
        if status == own_status || ours.origins.is_empty() {
            return;
        }
        let target = sample.target;
        let remedy = format!("`{target}` is refused with {own_status} in place of {status}");
        let refuses = |one: &&&Directive| S::refusal_status(one).is_some();
        for one in theirs.by.iter().filter(refuses) {
            one.entry.differs(&remedy, false);
        }
    }

    /// Reports the statements of either answer. `origins`: those from which the answer of the draft follows.
    fn differ(
        &self,
        sample: &SampleRequest<'_>,
        theirs: &ServerAnswer<'d>,
        ours: &Answer,
        origins: &[&StatementOrigin],
    ) {
        if *ours == Answer::Closed && is_behind_script(sample) {
            return;
        }
        let remedy = evidence::difference(sample.target, &theirs.answer, ours);
        let is_open = theirs.answer == Answer::Closed;
        let is_all = theirs.answer != Answer::Open || origins.is_empty();
        let rewrites = |one: &Directive| matches!(one.name(), "if" | "rewrite");
        for one in theirs.by.iter().filter(|one| is_all || rewrites(one)) {
            let is_section = one.name() == "location" || one.name().starts_with('<');
            one.entry.differs(&remedy, is_open && !is_section);
        }
        self.at(origins, S::DECIDING, &remedy);
    }

    /// Reports the statements with one of these names at one of these positions.
    fn at(&self, origins: &[&StatementOrigin], names: &[&str], remedy: &str) {
        let begins = |one: &Directive| names.iter().any(|name| one.name().starts_with(name));
        let statements = self.host.all.iter().filter(|one| begins(one));
        for one in statements.filter(|one| origins.contains(&&one.origin)) {
            one.entry.differs(remedy, false);
        }
    }

    /// Compares the fields of a response. `wanted`: those of each response that the other server may send.
    fn fields(
        &self,
        sample: &SampleRequest<'_>,
        wanted: &[&WantedFields<'d>],
        ours: &DraftDecision<'_>,
        site: &Section,
    ) {
        let of_rule = ours
            .rule
            .map_or(&[][..], |rule| rule.origins("set_headers"));
        let ours = added(site, ours.rule, sample.is_tls);
        let is_of = |one: &Directive, name: &String| S::field_of(one).as_ref() == Some(name);
        for (name, field) in wanted.iter().copied().flatten() {
            if field.value.is_none() || field.value.as_ref() == ours.get(name) {
                continue;
            }
            let remedy = format!(
                "`{}` has another `{name}` with this draft: set `set_headers` in a rule for its paths",
                sample.target
            );
            let of_draft = |one: &&&Directive| of_rule.contains(&one.origin) && is_of(one, name);
            for one in field.by.iter().chain(self.host.all.iter().filter(of_draft)) {
                one.entry.differs(&remedy, false);
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
            for one in self.host.all.iter().filter(|one| is_of(one, name)) {
                one.entry.differs(&remedy, false);
            }
        }
    }

    /// The scripts that the other server sends a request to if no file has its path: the front controller, and the page of a folder.
    fn pages_of(
        &self,
        sample: &SampleRequest<'_>,
        theirs: &ServerAnswer<'d>,
        site: &Section,
    ) -> Vec<ServerAnswer<'d>> {
        if theirs.answer != Answer::Open || theirs.pass.is_some() {
            return Vec::new();
        }
        let path = sample.path();
        let root = site.text("root").unwrap_or_default();
        let exists = |page: &String| {
            KNOWN_PAGES.contains(&page.as_str()) || self.exists(&format!("{root}{page}"))
        };
        let names = INDEXES.iter().filter(|_| path.ends_with('/'));
        let pages = names.map(|name| format!("{path}{name}")).filter(exists);
        let front = (theirs.falls_back || path == "/").then(|| "/index.php".to_owned());
        let inner = front.into_iter().chain(pages);
        inner
            .filter_map(|page| {
                self.server.answer(&SampleRequest {
                    inner: Some(&page),
                    is_missing: false,
                    ..*sample
                })
            })
            .collect()
    }

    /// Whether a path exists, as far as this machine shows.
    fn exists(&self, path: &str) -> bool {
        !self.source.matching(Path::new(path)).is_empty()
    }

    fn limits(
        &self,
        sample: &SampleRequest<'_>,
        theirs: &ServerAnswer<'d>,
        ours: &DraftDecision<'_>,
    ) {
        let target = sample.target;
        match (theirs.limit, ours.limits.as_slice()) {
            (Some(one), []) => {
                let remedy =
                    format!("`{target}` is not limited with this draft: set `limit` in its rule");
                one.entry.differs(&remedy, true);
            }
            (None, all @ [_, ..]) if !is_behind_script(sample) => {
                let remedy = format!(
                    "`{target}` is limited with this draft, too: a limit covers other spellings of an address"
                );
                self.at(all, &["limit_req"], &remedy);
            }
            _ => {}
        }
    }

    /// Compares the lifetimes of pages.
    fn lifetimes(
        &self,
        sample: &SampleRequest<'_>,
        theirs: &ServerAnswer<'d>,
        ours: &DraftDecision<'_>,
    ) {
        let Some(ttl) = self.ttl.filter(|_| theirs.pass.is_some()) else {
            return;
        };
        for (status, time, by) in &theirs.lifetimes {
            let of_rule = ours.rule.filter(|_| *status == "200");
            let of_rule = of_rule.and_then(|rule| rule.text("ttl"));
            let of_site = ttl.text(&format!("\"{status}\"")).or(ttl.text("default"));
            if of_rule.or(of_site) != Some(time.as_str()) {
                let remedy = format!(
                    "`{}` with status {status} is stored for another time with this draft: set `ttl` in a rule for its paths",
                    sample.target
                );
                by.entry.differs(&remedy, false);
            }
        }
    }

    /// Compares the upstreams.
    fn upstream(
        &self,
        sample: &SampleRequest<'_>,
        theirs: &ServerAnswer<'d>,
        ours: &DraftDecision<'_>,
        site: &Section,
    ) {
        let of_rule = ["php", "upstream"].into_iter().find_map(|name| {
            let rule = ours.rule.filter(|rule| rule.has(name))?;
            Some((rule, name))
        });
        let of_site = if site.has("php") { "php" } else { "upstream" };
        let (section, option) = of_rule.unwrap_or((site, of_site));
        let is_same = match theirs.pass {
            Some(pass) => {
                let upstream = self.server.upstream_of(pass);
                let is_server = upstream.is_some_and(|(name, value)| {
                    name == option && section.get(name) == Some(&value)
                });
                is_server && !(option == "upstream" && self.may_be_file(theirs, site))
            }
            // Scripts without PHP would be sent as text, which Galley never does.
            None => {
                (site.has("php") || !site.has("upstream"))
                    && site.has("root")
                    && (sample.path().contains(".php") || of_rule.is_none())
            }
        };
        if is_same {
            return;
        }
        let remedy = format!(
            "`{}` has another upstream with this draft: set `upstream` or `php` in a rule for it",
            sample.target
        );
        for one in theirs.pass.iter().chain(&theirs.place) {
            one.entry.differs(&remedy, false);
        }
        if of_rule.is_some() {
            let origins: Vec<_> = section.origins(option).iter().collect();
            self.at(&origins, PASSING, &remedy);
        }
    }

    /// Whether Galley may send a file of the site's root in place of the response of an HTTP server.
    fn may_be_file(&self, theirs: &ServerAnswer<'d>, site: &Section) -> bool {
        site.text("root").is_some_and(|root| {
            self.server.path_of(theirs).is_none_or(|path| {
                let below = path.trim_end_matches('/');
                below.is_empty() || self.exists(&format!("{root}{below}"))
            })
        })
    }

    /// Reports a location that sends files only, and has paths of pages.
    fn files(sample: &SampleRequest<'_>, theirs: &ServerAnswer<'d>, site: &Section) {
        let is_page = evidence::OTHER_TARGETS.contains(sample.target) && sample.path() != "/";
        if let Some(place) = theirs.place.filter(|_| site.has("root") && is_page)
            && theirs.pass.is_none()
            && !theirs.falls_back
        {
            let remedy = format!(
                "only files are sent here, and Galley asks WordPress for `{}`: no rule changes that",
                sample.target
            );
            place.entry.differs(&remedy, false);
        }
    }
}

/// The pages of folders that servers look for.
const INDEXES: &[&str] = &["index.php", "index.html"];

/// Pages of folders that every WordPress has, and one of a folder that stands for all others.
const KNOWN_PAGES: &[&str] = &["/wp-admin/index.php", "/galley-try-folder/index.html"];

const PASSING: &[&str] = &["location", "proxy_pass", "fastcgi_pass", "proxypass"];

/// Whether a path continues after the name of a script. The rule of a script also restricts such paths, because Galley runs it for them.
fn is_behind_script(sample: &SampleRequest<'_>) -> bool {
    let path = sample.target.split('?').next().unwrap_or_default();
    path.contains(".php/")
}
